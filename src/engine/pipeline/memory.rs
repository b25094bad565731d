//! What a pipeline remembers between two reconciles: how each source ended, who is placed where, and what was found out
//! once and needs not be found out again.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::guard::Guard;
use super::{Inventory, Pipeline, State, Unsettled};
use crate::mapping::template::Text;
use crate::mapping::{Mapping, placement};
use crate::multicluster::queue::Priority;
use crate::multicluster::watch::WatchState;
use crate::object::Key;
use crate::object::marks::Reference;
use crate::plan::Prune;

/// For how long objects of a source that was deleted or released are deleted as well: a create may come late.
const LATE_CREATE: Duration = Duration::from_secs(600);

/// For how long a delete without an answer may still take effect.
const LATE_REQUEST: Duration = Duration::from_secs(120);

impl Pipeline {
    pub fn wake_unsettled(&self) {
        let state = self.state();
        let keys: Vec<Key> = state.unsettled.keys().chain(&state.looking).cloned().collect();
        drop(state);
        keys.into_iter().for_each(|key| self.queue.add(key, Priority::Initial));
    }

    /// A reconcile begins. Until [`looked`](Self::looked) it is woken by everything that wakes the unsettled: it may have
    /// seen the world as it was just before.
    pub fn looks(&self, key: &Key) {
        self.state().looking.insert(key.clone());
    }

    pub fn looked(&self, key: &Key) {
        self.state().looking.remove(key);
    }

    /// Notes how a reconcile ended. `true`: the reason is news.
    pub fn settled(&self, key: &Key, why: Option<Unsettled>) -> bool {
        let mut state = self.state();
        state.unprimed.remove(key);
        match why {
            None => state.unsettled.remove(key).is_some(),
            Some(why) => state.unsettled.insert(key.clone(), why.clone()).is_none_or(|former| former != why),
        }
    }

    pub fn unsettled(&self) -> BTreeMap<Key, Unsettled> {
        self.state().unsettled.clone()
    }

    /// Notes where a source is placed, or that it is no longer.
    pub fn place(&self, key: &Key, namespace: Option<&str>) {
        let hash = self.hash(key);
        let mut state = self.state();
        if state.place_of.get(&hash).map(|of| &**of) == namespace {
            return;
        }
        if let Some(former) = state.place_of.remove(&hash)
            && let Some(keys) = state.placed.get_mut(&former)
        {
            keys.remove(key);
            if keys.is_empty() {
                state.placed.remove(&former);
            }
        }
        if let Some(namespace) = namespace {
            // One text for all sources of a namespace.
            let known = state.placed.get_key_value(namespace).map(|(known, _)| known.clone());
            let namespace = known.unwrap_or_else(|| Arc::from(namespace));
            state.placed.entry(namespace.clone()).or_default().insert(key.clone());
            state.place_of.insert(hash, namespace);
        }
    }

    /// Whether another source needs the shared objects of a namespace. `None`: not known before every source of the
    /// first lists was seen.
    pub fn in_use(&self, namespace: &str, by_others_than: &Key) -> Option<bool> {
        let state = self.state();
        if state.placed.get(namespace).is_some_and(|keys| keys.iter().any(|key| key != by_others_than)) {
            return Some(true);
        }
        let complete = state.unprimed.iter().all(|key| key == by_others_than)
            && state.sources.values().all(|feed| feed.watch.state() == WatchState::Synced);
        complete.then_some(false)
    }

    /// Remembers that a version was answered by a conflict. `true`: it was so before, and has to be read anew.
    pub fn conflicted(&self, key: &Key, version: &str) -> bool {
        self.state().conflicts.insert(key.clone(), version.to_owned()).is_some_and(|former| former == version)
    }

    /// Whether the cache still shows the version that a write was refused for.
    pub fn is_stale(&self, key: &Key, version: &str) -> bool {
        let mut state = self.state();
        let stale = state.conflicts.get(key).is_some_and(|conflicted| conflicted == version);
        if !stale {
            state.conflicts.remove(key);
        }
        stale
    }

    pub fn refreshed(&self, key: &Key) {
        self.state().conflicts.remove(key);
    }

    pub fn unkept_status(&self) -> Arc<BTreeSet<String>> {
        self.state().unkept_status.clone()
    }

    fn hash(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// Notes status leaves that the server dropped. `true`: news.
    pub fn dropped_status(&self, dropped: &[&str]) -> bool {
        let mut state = self.state();
        if dropped.iter().all(|leaf| state.unkept_status.contains(*leaf)) {
            return false;
        }
        Arc::make_mut(&mut state.unkept_status).extend(dropped.iter().map(|leaf| (*leaf).to_owned()));
        true
    }

    /// The status leaves of a source that its server refused, as this mapping wrote them.
    pub fn refused_status(&self, key: &Key, mapping: &Arc<Mapping>) -> BTreeMap<String, (Value, String)> {
        let state = self.state();
        let of = state.refused_status.get(key).filter(|(by, _)| Arc::ptr_eq(by, mapping));
        of.map(|(_, leaves)| leaves.clone()).unwrap_or_default()
    }

    pub fn refuse_status(&self, key: &Key, mapping: &Arc<Mapping>, leaves: &BTreeMap<String, (Value, String)>) {
        let mut state = self.state();
        if leaves.is_empty() {
            state.refused_status.remove(key);
        } else {
            state.refused_status.insert(key.clone(), (mapping.clone(), leaves.clone()));
        }
    }

    /// A source was seen being deleted, or was released, under this uid.
    pub fn saw_deletion(&self, key: &Key, uid: &str) {
        let mut state = self.state();
        let now = Instant::now();
        state.deleted.retain(|_, (_, at)| now.duration_since(*at) < LATE_CREATE);
        state.deleted.insert(key.clone(), (uid.to_owned(), now));
    }

    /// The uid under which a missing source was seen being deleted.
    pub fn deleted(&self, key: &Key) -> Option<String> {
        let state = self.state();
        state.deleted.get(key).filter(|(_, at)| at.elapsed() < LATE_CREATE).map(|(uid, _)| uid.clone())
    }

    /// A source is live: what was seen of an earlier one of its name counts no more.
    pub fn lives(&self, key: &Key) {
        let mut state = self.state();
        state.deleted.remove(key);
        state.missing.remove(key);
    }

    /// Whether a source has been missing for so long, since it was first asked for.
    pub fn is_missing_for(&self, key: &Key, long: Duration) -> bool {
        let now = Instant::now();
        now.duration_since(*self.state().missing.entry(key.clone()).or_insert(now)) >= long
    }

    /// Nothing of a missing source is left.
    pub fn forget(&self, key: &Key) {
        let mut state = self.state();
        state.missing.remove(key);
        state.refused_status.remove(key);
        state.conflicts.remove(key);
    }

    /// Deletions without an answer that may still take effect.
    pub fn unanswered(&self) -> BTreeSet<Reference> {
        let mut state = self.state();
        let now = Instant::now();
        state.unanswered.retain(|_, since| now.duration_since(*since) < LATE_REQUEST);
        state.unanswered.keys().cloned().collect()
    }

    /// Notes which deletions are without an answer now, of those that a reconcile knew of before and those it knows of after.
    pub fn note_unanswered(&self, before: &BTreeSet<Reference>, after: &BTreeSet<Reference>) {
        let mut state = self.state();
        let now = Instant::now();
        for reference in before.difference(after) {
            state.unanswered.remove(reference);
        }
        for reference in after.difference(before) {
            state.unanswered.insert(reference.clone(), now);
        }
    }

    /// The namespace rules of former documents.
    pub fn former_placements(&self) -> Vec<Arc<Text>> {
        self.state().former_placements.clone()
    }

    /// Whether deletions that the document asks for are held back.
    pub fn prune(&self) -> Prune {
        self.state().guard.prune()
    }

    /// Notes how many deletions of a source `pruneGuard` holds. When every source was planned with the document, the total
    /// decides: the sources whose deletions are released are planned again.
    pub fn guard(&self, key: &Key, held: usize) {
        let limits = self.generation().mapping.lifecycle.prune_guard;
        let mut state = self.state();
        state.guard.note(key, held);
        if !state.is_pass_complete() {
            return;
        }
        let objects = state.kinds.values().map(|feed| feed.watch.store().len()).sum();
        let released = state.guard.conclude(&limits, objects);
        drop(state);
        if let Some(released) = released {
            self.check_inventory();
            released.into_iter().for_each(|key| self.queue.add(key, Priority::Initial));
        }
    }

    /// How many deletions wait for a person's approval.
    pub fn held(&self) -> Option<usize> {
        self.state().guard.held()
    }

    /// A person approves the deletions that are held. `None`: none are.
    pub fn approve(&self) -> Option<usize> {
        let mut state = self.state();
        let (number, released) = state.guard.approve()?;
        drop(state);
        self.check_inventory();
        released.into_iter().for_each(|key| self.queue.add(key, Priority::Initial));
        Some(number)
    }

    /// Whether the document is in force: nothing that follows from it is held back.
    pub fn is_in_force(&self) -> bool {
        self.state().guard.prune() == Prune::Allowed
    }

    /// Why the inventory is not confirmed, if so.
    pub fn unconfirmed(&self) -> Option<String> {
        self.state().unconfirmed.clone()
    }

    /// Notes what became of the state store. Once it is confirmed, every source is planned: what was planned before knew
    /// neither the target nor what is held back.
    pub fn confirm(&self, result: Result<Inventory, String>) {
        let generation = self.generation();
        let mut state = self.state();
        let was_unconfirmed = state.unconfirmed.is_some();
        match result {
            Ok(store) => {
                if was_unconfirmed {
                    state.guard = Guard::new(store.is_in_force(&generation.mapping.text));
                }
                state.former_placements =
                    store.placements.iter().filter_map(|text| placement::rule(text)).map(Arc::new).collect();
                state.store = store;
                state.unconfirmed = None;
            }
            Err(why) => state.unconfirmed = Some(why),
        }
        let is_confirmed = state.unconfirmed.is_none();
        drop(state);
        if was_unconfirmed && is_confirmed {
            self.enqueue_all();
        }
        self.wake_unsettled();
    }
}

impl State {
    /// Whether every source of the first lists was planned since.
    fn is_pass_complete(&self) -> bool {
        let listed = self.sources.values().all(|feed| feed.watch.state() == WatchState::Synced);
        self.unprimed.is_empty() && listed
    }
}
