//! `release.maxLost`: deletions that follow from a changed document are counted before the first of them is sent.
//!
//! Each pipeline of a mapping counts its own, and the limits are for all of them: [`judge`].

use std::collections::BTreeMap;

use crate::mapping::MaxLost;
use crate::object::{ClusterName, Key};
use crate::plan::Prune;

/// What becomes of the deletions that a document asks for.
#[derive(Debug, Default)]
pub struct Guard {
    /// Counts the documents that were guarded. What was planned in an earlier pass says nothing of this one.
    pass: u64,
    state: State,
    /// How many deletions of each source are held.
    held: BTreeMap<Key, usize>,
    /// Whether this process followed the document before, as the one that leads.
    followed: bool,
    /// Whether deletions of sources that are out of sight may be held: everything that these have on the target counts.
    counts_absent: bool,
    /// The document, as [`ruling_hash`](crate::engine::inventory::ruling_hash) has it.
    ruling: String,
    /// Whether this process released its deletions, and the state store does not say so yet.
    is_unrecorded: bool,
    /// How many deletions were released for the document so far, on all targets of the mapping.
    released: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Sources are planned with the document for the first time.
    #[default]
    Counting,
    /// More would be deleted than the limits allow: a person has to approve it.
    Held,
    /// The document is in force.
    Open,
}

/// What a pipeline knows of the deletions that a document asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Its target cannot be reached. It is counted once it is back.
    OutOfSight,
    /// Not every source was planned yet.
    Counting,
    Counted {
        held: usize,
        /// All objects of the mapping on the target.
        objects: usize,
    },
}

/// What becomes of the deletions that were counted on all targets of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Wait,
    Hold,
    Release,
}

/// Judges the deletions that the pipelines of a mapping hold, each with the name of its target.
///
/// A target that is out of sight holds up no other. Its objects do not raise the limits; and what was `released` meanwhile
/// for the same document counts on, so that no more than the limits is deleted when it is back.
pub fn judge(limits: MaxLost, released: usize, counts: &[(String, Count)]) -> Judgement {
    let mut total = released;
    let mut objects: BTreeMap<&str, usize> = BTreeMap::new();
    for (target, count) in counts {
        if let Count::Counted { held, objects: here } = count {
            total += held;
            // Former documents of the mapping may have the same target.
            let known = objects.entry(target).or_default();
            *known = (*known).max(*here);
        }
    }
    if total > limits.objects {
        return Judgement::Hold;
    }
    if counts.iter().any(|(_, count)| *count == Count::Counting) {
        return Judgement::Wait;
    }
    if limits.is_exceeded_by(total, objects.values().sum()) { Judgement::Hold } else { Judgement::Release }
}

impl Guard {
    /// The guard of the next document. `in_force`: it was in force before, so that nothing follows from a change of it, and
    /// so many deletions were `released` for it.
    pub fn next(&self, ruling: &str, in_force: bool, released: usize) -> Self {
        let is_unrecorded = !in_force && self.is_unrecorded && self.ruling == ruling;
        let is_open = in_force || is_unrecorded;
        Self {
            pass: self.pass + 1,
            state: if is_open { State::Open } else { State::Counting },
            held: BTreeMap::new(),
            followed: true,
            counts_absent: !is_open && (self.counts_absent || self.state == State::Held),
            ruling: ruling.to_owned(),
            is_unrecorded,
            released: if is_unrecorded { self.released } else { released },
        }
    }

    /// The same document is counted once more: sources have followed another one meanwhile.
    pub fn again(&self) -> Self {
        Self { state: State::Counting, is_unrecorded: false, released: 0, ..self.next(&self.ruling, false, 0) }
    }

    /// Another process may lead from now on, or this one again; or the target is another cluster.
    pub fn leave(&mut self) {
        (self.followed, self.counts_absent, self.is_unrecorded) = (false, false, false);
    }

    /// How many deletions were released for the document so far, on all targets.
    pub fn released(&self) -> usize {
        self.released
    }

    /// So many were. `true`: that is news.
    pub fn set_released(&mut self, released: usize) -> bool {
        std::mem::replace(&mut self.released, released) != released
    }

    /// The state store was read. A document in it that never came into force may have been held by the process that wrote it.
    pub fn follow(&mut self, in_force: bool) {
        self.counts_absent |= !self.followed && !in_force;
    }

    /// Whether what sources out of sight have on the target counts as held.
    pub fn counts_absent(&self) -> bool {
        self.counts_absent
    }

    pub fn pass(&self) -> u64 {
        self.pass
    }

    pub fn prune(&self) -> Prune {
        if self.state == State::Open { Prune::Allowed } else { Prune::Held }
    }

    /// A source was planned in a pass: so many of its deletions are held. `false`: that pass is over.
    pub fn note(&mut self, key: &Key, held: usize, pass: u64) -> bool {
        if pass != self.pass {
            return false;
        }
        if held == 0 || self.state == State::Open {
            self.held.remove(key);
        } else {
            self.held.insert(key.clone(), held);
        }
        true
    }

    /// Every source was planned, and so many deletions were counted, which are to be released. `false`: more are held meanwhile.
    pub fn release_counted(&mut self, counted: usize) -> bool {
        let is_released = self.state != State::Open && self.total() <= counted;
        if is_released {
            self.open();
        }
        is_released
    }

    /// The deletions of the mapping are more than its limits allow.
    pub fn hold(&mut self) {
        if self.state == State::Counting && self.total() > 0 {
            self.state = State::Held;
        }
    }

    /// The state store says that the document is in force.
    pub fn recorded(&mut self) {
        self.is_unrecorded = false;
    }

    /// How many deletions wait for approval.
    pub fn held(&self) -> Option<usize> {
        (self.state == State::Held).then(|| self.total())
    }

    /// Releases what is held: how many deletions.
    pub fn approve(&mut self) -> Option<usize> {
        let number = self.held()?;
        self.open();
        Some(number)
    }

    /// How many deletions of a source are held.
    pub fn held_of(&self, key: &Key) -> usize {
        self.held.get(key).copied().unwrap_or_default()
    }

    /// A cluster goes out of sight. It may be back at once, and its sources would be deleted for then: what is held for them
    /// stays held until they are planned again, and so does all that those might lose which are still `unplanned`. Meanwhile
    /// they are called by the cluster's identity, which is `away`. Where the next document is being recorded, no source was
    /// planned with it yet.
    pub fn lose_sight(
        &mut self,
        cluster: &ClusterName,
        away: &ClusterName,
        unplanned: Vec<(Key, usize)>,
        is_recorded: bool,
    ) {
        // Once it is recorded, everything is counted anew.
        self.counts_absent |= !is_recorded;
        if self.state == State::Open || !is_recorded {
            return;
        }
        let planned: Vec<_> = self.held.extract_if(.., |key, _| key.cluster == *cluster).collect();
        let lost = unplanned.into_iter().chain(planned).filter(|(_, objects)| *objects > 0);
        self.held.extend(lost.map(|(key, objects)| (key.in_cluster(away.clone()), objects)));
    }

    /// Sources with deletions that are held.
    pub fn size(&self) -> usize {
        self.held.len()
    }

    /// How many deletions are held so far.
    pub fn total(&self) -> usize {
        self.held.values().sum()
    }

    fn open(&mut self) {
        self.state = State::Open;
        self.held.clear();
        self.counts_absent = false;
        self.is_unrecorded = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: MaxLost = MaxLost { objects: 10, percent: 20 };

    fn key(name: &str) -> Key {
        Key::new(ClusterName::try_from("abc").expect("a valid name"), "default", name)
    }

    /// Decides on the deletions of a mapping that has one target.
    fn conclude(guard: &mut Guard, objects: usize) -> bool {
        let held = guard.total();
        match judge(LIMITS, guard.released(), &[on("east", held, objects)]) {
            Judgement::Release => guard.release_counted(held),
            _ => {
                guard.hold();
                false
            }
        }
    }

    fn on(target: &str, held: usize, objects: usize) -> (String, Count) {
        (target.to_owned(), Count::Counted { held, objects })
    }

    #[test]
    fn the_limits_are_for_all_targets_of_a_mapping() {
        let fifty = |held| (0..50).map(|target| on(&target.to_string(), held, 100)).collect::<Vec<_>>();
        assert_eq!(judge(LIMITS, 0, &fifty(1)), Judgement::Hold, "fifty of 5000");
        assert_eq!(judge(LIMITS, 0, &fifty(0)), Judgement::Release);
        assert_eq!(judge(LIMITS, 0, &[on("east", 2, 10), on("west", 3, 10)]), Judgement::Hold, "a quarter");
        assert_eq!(judge(LIMITS, 0, &[on("east", 2, 10), on("west", 2, 10)]), Judgement::Release);
        assert_eq!(
            judge(LIMITS, 0, &[on("east", 2, 5), on("east", 0, 5)]),
            Judgement::Hold,
            "two documents see the same"
        );
    }

    #[test]
    fn no_target_is_released_before_every_target_in_sight_is_counted() {
        let counting = ("west".to_owned(), Count::Counting);
        assert_eq!(judge(LIMITS, 0, &[on("east", 1, 100), counting.clone()]), Judgement::Wait);
        assert_eq!(judge(LIMITS, 0, &[on("east", 11, 100), counting]), Judgement::Hold, "it can only become more");
    }

    #[test]
    fn a_target_that_is_back_has_what_is_left_of_the_limits() {
        let away = ("west".to_owned(), Count::OutOfSight);
        assert_eq!(judge(LIMITS, 0, &[on("east", 8, 100), away.clone()]), Judgement::Release);
        assert_eq!(judge(LIMITS, 0, &[on("east", 8, 39), away]), Judgement::Hold, "what it has does not count");
        assert_eq!(judge(LIMITS, 8, &[on("east", 0, 92), on("west", 3, 100)]), Judgement::Hold);
        assert_eq!(judge(LIMITS, 8, &[on("east", 0, 92), on("west", 2, 100)]), Judgement::Release);
        let any_share = MaxLost { objects: 10, percent: 100 };
        assert_eq!(judge(any_share, 8, &[on("east", 0, 0), on("west", 2, 2)]), Judgement::Release);
    }

    #[test]
    fn what_was_approved_stays_approved_for_the_same_document_alone() {
        let approved = || {
            let mut guard = Guard::default().next("b", false, 0);
            guard.note(&key("a"), 11, 1);
            conclude(&mut guard, 1000);
            guard.approve();
            guard.set_released(11);
            guard
        };
        let again = approved().next("b", false, 0);
        assert_eq!((again.prune(), again.released()), (Prune::Allowed, 11), "the state store could not be written");
        assert_eq!(approved().next("c", false, 0).prune(), Prune::Held, "another document");
        let recorded = approved().next("b", true, 11);
        assert_eq!((recorded.prune(), recorded.released()), (Prune::Allowed, 11));
        assert_eq!(recorded.next("b", false, 0).prune(), Prune::Held, "an older state store was restored");
        let mut left = approved();
        left.leave();
        assert_eq!(left.next("b", false, 0).prune(), Prune::Held, "another replica may have led");
    }

    #[test]
    fn a_document_in_force_holds_nothing() {
        assert_eq!(Guard::default().next("b", true, 0).prune(), Prune::Allowed);
        assert!(!conclude(&mut Guard::default().next("b", true, 0), 0));
    }

    #[test]
    fn within_both_limits_deletions_are_released_when_every_source_was_planned() {
        let mut guard = Guard::default().next("b", false, 0);
        guard.note(&key("a"), 2, 1);
        assert_eq!(guard.prune(), Prune::Held, "while sources are counted");
        assert!(conclude(&mut guard, 10));
        assert_eq!(guard.prune(), Prune::Allowed);
    }

    #[test]
    fn beyond_either_limit_they_wait_for_approval() {
        for (held, objects) in [(11, 1000), (3, 10)] {
            let mut guard = Guard::default().next("b", false, 0);
            guard.note(&key("a"), held, 1);
            assert!(!conclude(&mut guard, objects));
            assert_eq!((guard.prune(), guard.held()), (Prune::Held, Some(held)));
            assert_eq!(guard.approve(), Some(held));
            assert_eq!(guard.prune(), Prune::Allowed);
        }
    }

    #[test]
    fn what_was_planned_with_the_document_before_does_not_count() {
        let before = Guard::default().next("b", true, 0);
        let mut guard = before.next("b", false, 0);
        assert!(!guard.note(&key("a"), 0, before.pass()), "its plan ended after the change");
        assert!(guard.note(&key("a"), 11, guard.pass()));
        assert!(!conclude(&mut guard, 1000));
    }

    #[test]
    fn what_is_held_stays_held_while_its_cluster_is_out_of_sight() {
        let (name, identity) = (key("a").cluster.clone(), ClusterName::try_from("uid").expect("a valid name"));
        let mut guard = Guard::default().next("b", false, 0);
        guard.note(&key("a"), 11, 1);
        guard.lose_sight(&name, &identity, vec![(key("b"), 2), (key("c"), 0)], true);
        assert!(!conclude(&mut guard, 1000));
        assert_eq!((guard.held(), guard.size()), (Some(13), 2));
        for name in ["a", "b"] {
            guard.note(&key(name).in_cluster(identity.clone()), 0, 1);
        }
        assert!(conclude(&mut guard, 1000), "both were planned again");
    }

    #[test]
    fn sources_out_of_sight_count_where_a_document_was_held_before() {
        let mut restarted = Guard::default();
        restarted.follow(false);
        assert!(restarted.next("b", false, 0).counts_absent() && !restarted.next("b", true, 0).counts_absent());
        let mut edited = Guard::default();
        edited.follow(true);
        edited = edited.next("b", false, 0);
        edited.follow(false);
        assert!(!edited.counts_absent(), "nothing was held");
        edited.note(&key("a"), 11, 1);
        conclude(&mut edited, 1000);
        assert!(edited.next("b", false, 0).counts_absent(), "the former document was");
    }

    #[test]
    fn deletions_that_are_no_longer_asked_for_release_the_guard() {
        let mut guard = Guard::default().next("b", false, 0);
        guard.note(&key("a"), 11, 1);
        assert!(!conclude(&mut guard, 1000));
        guard.note(&key("a"), 0, 1);
        assert!(conclude(&mut guard, 1000));
    }
}
