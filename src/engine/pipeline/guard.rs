//! `pruneGuard`: deletions that follow from a changed document are counted before the first of them is sent.

use std::collections::BTreeMap;

use crate::mapping::PruneGuard;
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

impl Guard {
    /// The guard of the next document. `in_force`: it was in force before, so that nothing follows from a change of it.
    pub fn next(&self, in_force: bool) -> Self {
        let state = if in_force { State::Open } else { State::Counting };
        let counts_absent = !in_force && (self.counts_absent || self.state == State::Held);
        Self { pass: self.pass + 1, state, held: BTreeMap::new(), followed: true, counts_absent }
    }

    /// Another process may lead from now on, or this one again.
    pub fn leave(&mut self) {
        (self.followed, self.counts_absent) = (false, false);
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

    /// Every source was planned. Within the limits, the deletions are released.
    pub fn conclude(&mut self, limits: &PruneGuard, objects: usize) -> bool {
        if self.state == State::Open {
            return false;
        }
        let total = self.total();
        let within = total <= limits.max_objects as usize && total * 100 <= objects * usize::from(limits.max_percent);
        if total > 0 && !within {
            self.state = State::Held;
            return false;
        }
        self.open();
        true
    }

    /// Releases what is held, for the replica that counts says that the document is in force. `false`: it was released.
    pub fn release(&mut self) -> bool {
        let is_held = self.state != State::Open;
        if is_held {
            self.open();
        }
        is_held
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
        self.counts_absent |= !is_recorded;
        if self.state == State::Open {
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

    fn total(&self) -> usize {
        self.held.values().sum()
    }

    fn open(&mut self) {
        self.state = State::Open;
        self.held.clear();
        self.counts_absent = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PruneGuard = PruneGuard { max_objects: 10, max_percent: 20 };

    fn key(name: &str) -> Key {
        Key::new(ClusterName::try_from("abc").expect("a valid name"), "default", name)
    }

    #[test]
    fn a_document_in_force_holds_nothing() {
        assert_eq!(Guard::default().next(true).prune(), Prune::Allowed);
        assert!(!Guard::default().next(true).conclude(&LIMITS, 0));
    }

    #[test]
    fn within_both_limits_deletions_are_released_when_every_source_was_planned() {
        let mut guard = Guard::default().next(false);
        guard.note(&key("a"), 2, 1);
        assert_eq!(guard.prune(), Prune::Held, "while sources are counted");
        assert!(guard.conclude(&LIMITS, 10));
        assert_eq!(guard.prune(), Prune::Allowed);
    }

    #[test]
    fn beyond_either_limit_they_wait_for_approval() {
        for (held, objects) in [(11, 1000), (3, 10)] {
            let mut guard = Guard::default().next(false);
            guard.note(&key("a"), held, 1);
            assert!(!guard.conclude(&LIMITS, objects));
            assert_eq!((guard.prune(), guard.held()), (Prune::Held, Some(held)));
            assert_eq!(guard.approve(), Some(held));
            assert_eq!(guard.prune(), Prune::Allowed);
        }
    }

    #[test]
    fn what_the_replica_that_counts_releases_is_released() {
        let mut guard = Guard::default().next(false);
        guard.note(&key("a"), 11, 1);
        assert!(guard.release() && !guard.release());
        assert_eq!((guard.prune(), guard.size()), (Prune::Allowed, 0));
    }

    #[test]
    fn what_was_planned_with_the_document_before_does_not_count() {
        let before = Guard::default().next(true);
        let mut guard = before.next(false);
        assert!(!guard.note(&key("a"), 0, before.pass()), "its plan ended after the change");
        assert!(guard.note(&key("a"), 11, guard.pass()));
        assert!(!guard.conclude(&LIMITS, 1000));
    }

    #[test]
    fn what_is_held_stays_held_while_its_cluster_is_out_of_sight() {
        let (name, identity) = (key("a").cluster.clone(), ClusterName::try_from("uid").expect("a valid name"));
        let mut guard = Guard::default().next(false);
        guard.note(&key("a"), 11, 1);
        guard.lose_sight(&name, &identity, vec![(key("b"), 2), (key("c"), 0)], true);
        assert!(!guard.conclude(&LIMITS, 1000));
        assert_eq!((guard.held(), guard.size()), (Some(13), 2));
        for name in ["a", "b"] {
            guard.note(&key(name).in_cluster(identity.clone()), 0, 1);
        }
        assert!(guard.conclude(&LIMITS, 1000), "both were planned again");
    }

    #[test]
    fn sources_out_of_sight_count_where_a_document_was_held_before() {
        let mut restarted = Guard::default();
        restarted.follow(false);
        assert!(restarted.next(false).counts_absent() && !restarted.next(true).counts_absent());
        let mut edited = Guard::default();
        edited.follow(true);
        edited = edited.next(false);
        edited.follow(false);
        assert!(!edited.counts_absent(), "nothing was held");
        edited.note(&key("a"), 11, 1);
        edited.conclude(&LIMITS, 1000);
        assert!(edited.next(false).counts_absent(), "the former document was");
    }

    #[test]
    fn deletions_that_are_no_longer_asked_for_release_the_guard() {
        let mut guard = Guard::default().next(false);
        guard.note(&key("a"), 11, 1);
        assert!(!guard.conclude(&LIMITS, 1000));
        guard.note(&key("a"), 0, 1);
        assert!(guard.conclude(&LIMITS, 1000));
    }
}
