//! What a pipeline remembers between two reconciles: how each source ended, who is placed where, and what was found out
//! once and needs not be found out again.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::{Inventory, Pipeline, SeenKinds, Target};
use crate::multicluster::queue::Priority;
use crate::multicluster::watch::WatchState;
use crate::object::Key;

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
    pub fn settled(&self, key: &Key, why: Option<String>) -> bool {
        let mut state = self.state();
        state.unprimed.remove(key);
        match why {
            None => state.unsettled.remove(key).is_some(),
            Some(why) => state.unsettled.insert(key.clone(), why.clone()).is_none_or(|former| former != why),
        }
    }

    pub fn unsettled(&self) -> BTreeMap<Key, String> {
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

    /// Whether it is known of all these leaves that the consumer's server keeps them.
    pub fn keeps_status(&self, leaves: &[&str]) -> bool {
        let state = self.state();
        leaves.iter().all(|leaf| state.kept_status.contains(*leaf))
    }

    /// Notes which of the leaves that were written the server dropped. `true`: news.
    pub fn wrote_status(&self, written: &[&str], dropped: &[&str]) -> bool {
        let mut state = self.state();
        let kept = written.iter().filter(|leaf| !dropped.contains(leaf)).map(|leaf| (*leaf).to_owned());
        state.kept_status.extend(kept);
        if dropped.iter().all(|leaf| state.unkept_status.contains(*leaf)) {
            return false;
        }
        Arc::make_mut(&mut state.unkept_status).extend(dropped.iter().map(|leaf| (*leaf).to_owned()));
        true
    }

    /// Whether a source was found in sync with this very content before.
    pub fn is_settled(&self, key: &Key, content: u64) -> bool {
        self.state().settled.get(&self.hash(key)) == Some(&content)
    }

    /// Remembers the content with which a source was found in sync.
    pub fn settle(&self, key: &Key, content: u64) {
        let key = self.hash(key);
        self.state().settled.insert(key, content);
    }

    /// The source is gone.
    pub fn unsettle(&self, key: &Key) {
        let key = self.hash(key);
        self.state().settled.remove(&key);
    }

    /// Whether a namespace's shared objects were found in sync with this very content before.
    pub fn is_shared_settled(&self, namespace: &str, content: u64) -> bool {
        self.state().settled_shared.get(namespace) == Some(&content)
    }

    pub fn settle_shared(&self, namespace: &str, content: u64) {
        let mut state = self.state();
        if state.settled_shared.get(namespace) != Some(&content) {
            state.settled_shared.insert(namespace.to_owned(), content);
        }
    }

    pub fn hash(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// The kinds in use, where it is known that all of them are in sight; else the epoch to
    /// [remember](Self::saw_kinds) them with.
    pub fn seen_kinds(&self, target: &Target) -> Result<SeenKinds, u64> {
        let state = self.state();
        let in_sight = |kind| state.kinds.get(kind).is_some_and(|feed| target.serves(kind) && feed.watch.is_synced());
        let seen = state.seen_kinds.as_ref().filter(|seen| seen.keys().all(in_sight));
        seen.cloned().ok_or(state.kinds_epoch)
    }

    pub fn saw_kinds(&self, seen: &SeenKinds, epoch: u64) {
        let mut state = self.state();
        if state.kinds_epoch == epoch {
            state.seen_kinds = Some(seen.clone());
        }
    }

    /// Why the inventory is not confirmed, if so.
    pub fn unconfirmed(&self) -> Option<String> {
        self.state().unconfirmed.clone()
    }

    /// Notes what became of the inventory.
    pub fn confirm(&self, result: Result<Inventory, String>) {
        let mut state = self.state();
        match result {
            Ok(inventory) => {
                state.inventory_kinds = inventory.kinds;
                state.forget_seen_kinds();
                state.unconfirmed = None;
            }
            Err(why) => state.unconfirmed = Some(why),
        }
        drop(state);
        self.wake_unsettled();
    }
}
