//! A candidate that a part of the sources follows before it is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::MutexGuard;
use serde_json::Value;
use tokio::time::Instant;

use super::{Generation, NOT_READ, Pipeline, State};
use crate::engine::interests::Topic;
use crate::mapping::{Mapping, Source, Wave};
use crate::multicluster::queue::Priority;
use crate::multicluster::watch::WatchState;
use crate::object::Key;
use crate::object::marks::Origin;
use crate::plan::{Cause, Completion, Phase};
use crate::release::waves::{Condition, belongs};

/// What is known of the release of a candidate on one target.
#[derive(Debug, Default)]
pub struct Promotion {
    /// What the state store has to name before anything is written with the candidate.
    recorded: Option<Candidate>,
    followed: Option<Arc<Followed>>,
    /// Whether the engine has said how far a release is that the state store tells of.
    is_told: bool,
    /// Whether home is to be asked of one that the state store names, or names no more.
    is_doubted: bool,
    /// Sources that follow it, and are not planned with it yet, or whose objects are not complete. `Behind`: nothing says that
    /// they will not be.
    incomplete: BTreeMap<Key, Condition>,
    /// Those of which the last plan by the document in force would fail as well.
    fail_anyway: BTreeSet<Key>,
    /// The generation that each source had when it began to follow it: what a consumer changes since says nothing of it.
    since: BTreeMap<Key, i64>,
}

impl Promotion {
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Whether this is what the state store has to name.
    pub fn records(&self, release: &str) -> bool {
        self.recorded.as_ref().is_some_and(|one| one.release == release)
    }

    /// The state store names a release that this process does not know: nothing is planned before home is read anew.
    pub fn doubt(&mut self) {
        (self.is_told, self.is_doubted) = (false, true);
    }

    /// Nothing of these sources is left.
    pub fn forget(&mut self, is_gone: impl Fn(&Key) -> bool) {
        self.incomplete.retain(|key, _| !is_gone(key));
        self.fail_anyway.retain(|key| !is_gone(key));
        self.since.retain(|key, _| !is_gone(key));
    }
}

/// A document, and the hash of what it takes the place of.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub document: Arc<Mapping>,
    pub release: String,
}

#[derive(Debug)]
struct Followed {
    generation: Arc<Generation>,
    waves: Vec<Wave>,
    started: Instant,
}

impl Followed {
    fn source(&self) -> &Source {
        &self.generation.mapping.source
    }
}

impl Pipeline {
    /// The document that a source follows: the one in force, or a candidate.
    pub fn generation_of(&self, key: &Key) -> Arc<Generation> {
        let (in_force, followed) = (self.generation(), self.state.lock().promotion.followed.clone());
        // A mapping that is removed, suspended or closing takes its candidate no further.
        let followed = followed.filter(|followed| {
            in_force.phase == Phase::Active && self.is_among(followed.source(), &followed.waves, key)
        });
        followed.map_or(in_force, |followed| followed.generation.clone())
    }

    /// Whether this is the candidate that a part of the sources follows.
    pub fn is_candidate(&self, generation: &Generation) -> bool {
        let state = self.state.lock();
        state.promotion.followed.as_ref().is_some_and(|followed| std::ptr::eq(&*followed.generation, generation))
    }

    /// Since when a source follows a candidate. `None`: it follows the document in force.
    pub fn follows_candidate_since(&self, key: &Key) -> Option<Instant> {
        let followed = self.state.lock().promotion.followed.clone()?;
        self.is_among(followed.source(), &followed.waves, key).then_some(followed.started)
    }

    /// Whether a source belongs to these waves.
    fn is_among(&self, source: &Source, waves: &[Wave], key: &Key) -> bool {
        let Some(cluster) = self.shared.manager.cluster(&source.clusters, &key.cluster) else { return false };
        let owner = self.writer.owner(&Origin::new(&source.resource, cluster.identity(), key));
        let labels = || self.controller.source(key)?.outline().ok()?["metadata"].get("labels").cloned();
        belongs(waves, &owner, labels)
    }

    fn sources_among(&self, source: &Source, waves: &[Wave]) -> Vec<Key> {
        let all = self.controller.source_feeds().into_iter().flat_map(|feed| feed.keys());
        all.filter(|key| self.is_among(source, waves, key)).collect()
    }

    /// `metadata.generation` of a source: how often its consumer has changed it. `None`: it is out of sight, or has none.
    pub(super) fn generation_number(&self, key: &Key) -> Option<i64> {
        self.controller.source(key)?.outline().ok()?["metadata"].get("generation").and_then(Value::as_i64)
    }

    /// What the state store has to name from now on beside the document in force; `None`: nothing.
    pub fn record_release(&self, candidate: Option<Candidate>) {
        let mut state = self.state.lock();
        let of = |candidate: &Option<Candidate>| candidate.as_ref().map(|one| one.release.clone());
        let (before, now) = (of(&state.promotion.recorded), of(&candidate));
        let is_news = before != now;
        if is_news && let Some(now) = now {
            // The state store may go on naming the one before.
            let State { known_releases, store, .. } = &mut *state;
            known_releases.retain(|known| *known == store.release || before.as_ref() == Some(known));
            known_releases.insert(now);
        }
        state.promotion.recorded = candidate;
        drop(state);
        if is_news {
            self.check_inventory();
        }
    }

    /// The state store names no release. Where it did, another process has ended it, or the state store was put back: home tells.
    pub fn names_no_release(&self) {
        let mut state = self.state.lock();
        if state.promotion.records(&state.store.release) && state.unconfirmed.is_none() {
            (state.promotion.recorded, state.promotion.is_doubted) = (None, true);
            self.shared.counted.notify_one();
        }
    }

    /// Whether home has to tell of a release.
    pub fn takes_doubt(&self) -> bool {
        std::mem::take(&mut self.state.lock().promotion.is_doubted)
    }

    /// What the state store has to name.
    pub fn release_to_record(&self) -> Option<Candidate> {
        self.state.lock().promotion.recorded.clone()
    }

    /// Whether the state store names what a candidate makes.
    pub fn is_release_recorded(&self, release: &str) -> bool {
        // The engine is asked for nothing that it waits for itself.
        let state = self.state.lock();
        state.unconfirmed.is_none() && state.store.release == release
    }

    pub fn holds(&self, document: &Mapping) -> bool {
        let state = self.state.lock();
        state.unconfirmed.is_none() && state.store.document == document.text
    }

    /// Whether a release is over that the state store tells of. The engine has said how far those are that it knows.
    pub fn is_over(&self, release: &str) -> bool {
        let state = self.state.lock();
        state.promotion.is_told && state.known_releases.contains(release)
    }

    /// Home was read anew: it tells how far the release is that the state store names, unless that is over.
    pub fn home_read(&self) {
        let state = &mut *self.state.lock();
        if state.unconfirmed.is_some() {
            // What it names is read after this, and may have been begun since.
            state.known_releases.clear();
        } else {
            state.known_releases.insert(state.store.release.clone());
        }
    }

    /// Whether sources follow a candidate in so many waves.
    pub fn follows(&self, document: &Arc<Mapping>, waves: usize) -> bool {
        let state = self.state.lock();
        let is_it = |followed: &Arc<Followed>| {
            *followed.generation.mapping.text == *document.text && followed.waves.len() == waves
        };
        state.promotion.followed.as_ref().is_some_and(is_it)
    }

    /// Sources of these waves follow a candidate from now on.
    pub fn promote(&self, document: &Arc<Mapping>, waves: &[Wave]) {
        let in_force = self.generation();
        let mut state = self.state.lock();
        let is_same = |Followed { generation, .. }: &Followed| {
            Arc::ptr_eq(&generation.mapping, document) && Arc::ptr_eq(&generation.target, &in_force.target)
        };
        let known = state.promotion.followed.clone().filter(|known| is_same(known));
        let is_news = known.as_ref().is_none_or(|known| known.waves != waves);
        if is_news {
            let new = || Arc::new(Generation::new(document.clone(), Phase::Active, in_force.target.clone()));
            let generation = known.as_ref().map_or_else(new, |known| known.generation.clone());
            let followed = Followed { generation, waves: waves.to_vec(), started: Instant::now() };
            state.promotion.followed = Some(Arc::new(followed));
        }
        self.told(state);
        if !is_news {
            return;
        }
        let is_new = |key: &Key| known.as_ref().is_none_or(|known| !self.is_among(known.source(), &known.waves, key));
        let new: Vec<Key> = self.sources_among(&document.source, waves).into_iter().filter(is_new).collect();
        let since: Vec<(Key, i64)> =
            new.iter().filter_map(|key| Some((key.clone(), self.generation_number(key)?))).collect();
        let mut state = self.state.lock();
        state.promotion.incomplete.extend(new.iter().cloned().map(|key| (key, Condition::Unplanned)));
        state.promotion.since.extend(since);
        drop(state);
        new.into_iter().for_each(|key| self.controller.queue.add(key, Priority::Initial));
        self.check_inventory();
    }

    /// Home names no release any more. Where sources follow one, another process has ended it: which document is in force now, the
    /// state store tells.
    pub fn doubt_document(&self) {
        let mut state = self.state.lock();
        if state.promotion.followed.is_some() {
            state.unconfirmed = Some(NOT_READ.into());
            // A read that is under way may bring the document before: it is of the former generation.
            self.generation.store(Arc::new(Generation::clone(&self.generation())));
        }
    }

    /// Every source follows the document in force again.
    pub fn demote(&self) {
        let mut state = self.state.lock();
        if state.promotion.followed.take().is_none() {
            drop(state);
            return self.no_release_is_under_way();
        }
        let recorded = state.promotion.recorded.take();
        state.promotion = Promotion { recorded, ..Promotion::default() };
        self.told(state);
        self.controller.enqueue_for(&[self]);
    }

    /// It is known how far every release is: without one, what the state store says of it is over.
    pub fn no_release_is_under_way(&self) {
        let state = self.state.lock();
        let is_awaited = state.untold_release().is_some();
        self.told(state);
        if is_awaited {
            self.controller.enqueue_for(&[self]);
        }
    }

    /// The engine has said how far the release is: what waited for home waits no more.
    fn told(&self, mut state: MutexGuard<'_, State>) {
        let was_told = std::mem::replace(&mut state.promotion.is_told, true);
        drop(state);
        if !was_told {
            self.check_inventory();
            self.controller.touch(Topic::Store(self.generation().target.cluster.clone()));
        }
    }

    /// A reconcile with the candidate ended. `fails_anyway`: by the document in force, it would fail as well.
    pub fn note_completion(&self, key: &Key, generation: &Generation, completion: Completion, fails_anyway: bool) {
        let mut state = self.state.lock();
        let Promotion { followed, incomplete, fail_anyway, .. } = &mut state.promotion;
        if followed.as_ref().is_none_or(|followed| !std::ptr::eq(&*followed.generation, generation)) {
            return;
        }
        match fails_anyway {
            true => fail_anyway.insert(key.clone()),
            false => fail_anyway.remove(key),
        };
        match completion {
            Completion::Complete => incomplete.remove(key),
            Completion::Incomplete => incomplete.insert(key.clone(), Condition::Behind),
            Completion::Failed => incomplete.insert(key.clone(), Condition::Broken),
        };
    }

    /// How the sources are that follow the candidate, or would in these waves.
    pub fn conditions(&self, document: &Mapping, waves: &[Wave]) -> BTreeMap<Key, Condition> {
        let keys = self.sources_among(&document.source, waves);
        // Nothing tells how it is with sources whose server cannot be reached, nor with objects beside them.
        let feeds = self.controller.source_feeds().into_iter();
        let unseen = feeds.filter(|feed| feed.watch.state() != WatchState::Synced).flat_map(|feed| feed.keys());
        let (unseen, is_lost): (BTreeSet<Key>, bool) = (unseen.collect(), self.is_lost());
        let state = self.state.lock();
        let condition = |key: &Key| {
            let objects = state.promotion.incomplete.get(key).copied().unwrap_or(Condition::InOrder);
            let known = match state.unsettled.get(key).map(|how| how.cause) {
                _ if is_lost || unseen.contains(key) => Condition::OutOfSight,
                _ if objects == Condition::Unplanned => objects,
                None => objects,
                Some(cause) => match condition(cause) {
                    Condition::OutOfSight => Condition::OutOfSight,
                    known => known.max(objects),
                },
            };
            match known {
                Condition::Behind | Condition::Broken if state.promotion.fail_anyway.contains(key) => Condition::Anyway,
                known => known,
            }
        };
        let mut conditions: BTreeMap<Key, Condition> =
            keys.into_iter().map(|key| (key.clone(), condition(&key))).collect();
        let since = state.promotion.since.clone();
        drop(state);
        for (key, condition) in conditions.iter_mut().filter(|(_, condition)| **condition > Condition::OutOfSight) {
            // What its consumer changed since then says nothing of the candidate.
            let is_other = |since: &i64| self.generation_number(key).is_some_and(|now| now != *since);
            if since.get(key).is_some_and(is_other) {
                *condition = Condition::InOrder;
            }
        }
        conditions
    }
}

/// What the reason of a plan that does not end in sync says of a candidate. `None`: a request about the source failed.
fn condition(cause: Option<Cause>) -> Condition {
    let Some(cause) = cause else { return Condition::OutOfSight };
    match cause {
        Cause::Unknown | Cause::RequestFailed | Cause::TargetChanged | Cause::ClaimNotAccepted | Cause::Observed => {
            Condition::OutOfSight
        }
        // It waits for the end of the release, or for its consumer.
        Cause::Held | Cause::Retained | Cause::Orphaned => Condition::InOrder,
        Cause::Waiting | Cause::Deleting | Cause::Stuck => Condition::Behind,
        Cause::Conflict
        | Cause::RenderFailed
        | Cause::IdentityChanged
        | Cause::Recreated
        | Cause::Refused
        | Cause::StatusFailed => Condition::Broken,
    }
}
