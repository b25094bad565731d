//! How far a pipeline has come: how each source ended, and what the state store says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::{Cause, Generation, Inventory, NOT_READ, Pipeline, State, Unsettled};
use crate::engine::interests::Topic;
use crate::engine::serving::other_document;
use crate::mapping::template::Text;
use crate::mapping::{Kind, Side, placement};
use crate::object::Key;
use crate::plan::Answers;
use crate::plan::trace::{Decided, Past};

/// Decisions that are remembered of a source that is not in sync.
const REMEMBERED: usize = 16;

impl Pipeline {
    /// Notes how a reconcile ended. `true`: the reason is news.
    pub fn settled(&self, key: &Key, why: Option<Unsettled>) -> bool {
        let mut state = self.state.lock();
        state.retried.remove(key);
        let Some(mut why) = why else {
            state.history.remove(key);
            return state.unsettled.remove(key).is_some();
        };
        let former = state.unsettled.get(key);
        why.since = former.map_or(why.since, |former| former.since);
        let is_news = former != Some(&why);
        state.unsettled.insert(key.clone(), why);
        is_news
    }

    /// A reconcile ended, and the source is not in sync: what was written, and what it waits for.
    pub fn remember(&self, key: &Key, actions: Vec<String>, answers: Option<Answers>, waits_for: Vec<String>) {
        let now = self.shared.settings.clock.now();
        let State { unsettled, history, .. } = &mut *self.state.lock();
        let Some(how) = unsettled.get(key) else { return };
        let past = history.entry(key.clone()).or_default();
        match past.decisions.back_mut().filter(|last| last.why == how.why && last.actions == actions) {
            Some(last) => (last.last, last.times) = (now, last.times + 1),
            None => {
                let decided = Decided { first: now, last: now, times: 1, actions, why: how.why.clone() };
                past.decisions.push_back(decided);
            }
        }
        if past.decisions.len() > REMEMBERED {
            past.decisions.pop_front();
        }
        past.waits_for = waits_for;
        past.answers = answers.map_or_else(|| std::mem::take(&mut past.answers), Answers::without_bodies);
    }

    /// What is remembered of a source that is not in sync, and since when it is not.
    pub fn remembered(&self, key: &Key) -> Option<(Past, Answers, Instant)> {
        let state = self.state.lock();
        let (how, past) = (state.unsettled.get(key)?, state.history.get(key)?);
        let decisions = past.decisions.iter().cloned().collect();
        let told = Past { waits_for: past.waits_for.clone(), decisions, ..Past::default() };
        Some((told, past.answers.clone(), how.since))
    }

    pub fn is_unsettled(&self, key: &Key) -> bool {
        self.state.lock().unsettled.contains_key(key)
    }

    /// Whether a source is not in sync for a reason of its own: what is out of sight, or fails for the moment, says nothing.
    pub fn is_troubled(&self, key: &Key) -> bool {
        let state = self.state.lock();
        let cause = state.unsettled.get(key).and_then(|how| how.cause);
        cause.is_some_and(|cause| !matches!(cause, Cause::Unknown | Cause::RequestFailed))
    }

    /// Whether it was left in sync, and nothing about it has changed since.
    pub fn is_at_rest(&self, key: &Key) -> bool {
        let is_open = self.state.lock().unsettled.contains_key(key) || self.controller.is_changed(key);
        !is_open && !self.controller.queue.serves(key)
    }

    pub fn unsettled(&self) -> BTreeMap<Key, Unsettled> {
        self.state.lock().unsettled.clone()
    }

    /// Has each of them looked at: each tick does so, and there may be a hundred thousand.
    pub fn each_unsettled(&self, mut look: impl FnMut(&Key, &Unsettled)) {
        self.state.lock().unsettled.iter().for_each(|(key, how)| look(key, how));
    }

    /// A request of the last plan failed in a way that time may mend: no event tells when.
    pub fn request_failed(&self, key: &Key) {
        self.state.lock().retried.insert(key.clone());
    }

    /// Sources with orphaned objects.
    pub fn orphans(&self) -> Vec<Key> {
        let state = self.state.lock();
        state.unsettled.iter().filter(|(_, how)| how.orphans).map(|(key, _)| key.clone()).collect()
    }

    /// What a source waits for, in a word: the worst reason of its last plan, or that a request failed.
    pub fn waits_for(&self, key: &Key) -> &'static str {
        let state = self.state.lock();
        let how = state.unsettled.get(key).filter(|_| !state.retried.contains(key));
        how.and_then(|how| how.cause).unwrap_or(Cause::RequestFailed).as_str()
    }

    /// How many entries each table has, but for those that the targets have in common.
    pub fn tables(&self) -> [(&'static str, usize); 7] {
        let placements = self.shared_use.lock().size();
        let learned = self.learned.lock().size(Instant::now());
        let watches = self.feeds.lock().len();
        let state = self.state.lock();
        let others = state.retried.iter().chain(state.history.keys());
        let unsettled = state.unsettled.len() + others.filter(|key| !state.unsettled.contains_key(*key)).count();
        // Orphans are among the unsettled.
        let held = state.losses.size(|key| state.unsettled.get(key).is_some_and(|how| how.orphans));
        let (queued, unplanned) = (state.seats.waiting(), state.unplanned.len());
        let sizes = [queued, watches, placements, learned, unplanned, unsettled, held];
        let names = ["queue", "watches", "placements", "learned", "unplanned", "unsettled", "held"];
        std::array::from_fn(|at| (names[at], sizes[at]))
    }

    /// Whether sources of former documents may still carry the engine's finalizer.
    pub fn has_former(&self) -> bool {
        !self.state.lock().store.former.is_empty()
    }

    /// The plural that a kind is or was served by, in any version, where the target or the state store tells it. Once the state store
    /// is read, `None` says that it never was. Beside a source, it is taken from the kind's name.
    pub fn plural(&self, kind: &Kind) -> Option<String> {
        if kind.side == Side::Source {
            return Some(kind.plural());
        }
        let served = self.generation().target.kind(kind).ok().map(|served| served.resource.plural);
        served.or_else(|| self.state.lock().store.plural(kind))
    }

    pub fn former_placements(&self) -> Vec<Arc<Text>> {
        self.state.lock().former_placements.clone()
    }

    /// What only other documents than this one wrote into the status.
    pub fn former_status(&self, generation: &Generation) -> Arc<BTreeSet<String>> {
        let state = self.state.lock();
        match std::ptr::eq(generation, &*self.generation()) {
            true => state.former_status.clone(),
            false => Arc::new(generation.mapping.status.no_longer_written(&state.store.status)),
        }
    }

    /// Whether every source was looked at since it was listed: it was planned, or it is known why not.
    pub fn is_looked_at(&self) -> bool {
        let state = self.state.lock();
        state.unplanned.iter().all(|key| state.unsettled.contains_key(key))
    }

    /// Whether sources were not planned with the document yet, whatever they wait for.
    pub fn has_unplanned(&self) -> bool {
        !self.state.lock().unplanned.is_empty()
    }

    /// Whether every source was planned with the document, as far as its clusters are in sight.
    pub fn is_planned(&self) -> bool {
        let is_planned = self.state.lock().unplanned.is_empty() && self.controller.queue.depth().ready == 0;
        is_planned && self.controller.are_sources_listed() && self.are_clusters_known()
    }

    /// Whether every source was planned with the document and is in sync.
    pub fn is_carried_out(&self) -> bool {
        let is_carried_out = |state: &State| {
            state.unconfirmed.is_none()
                && state.unplanned.is_empty()
                && state.unsettled.is_empty()
                && state.retried.is_empty()
                && state.losses.is_closed()
        };
        is_carried_out(&self.state.lock())
            && !self.controller.serves_somebody()
            && self.follows_every_kind()
            && self.controller.are_sources_listed()
    }

    /// Why the inventory is not confirmed, if so. In another term of the lease, it is not.
    pub fn unconfirmed(&self) -> Option<String> {
        let state = self.state.lock();
        let is_outdated = state.term != self.shared.lease.number();
        let unread = || is_outdated.then(|| NOT_READ.to_owned());
        state.unconfirmed.clone().or_else(unread).or_else(|| state.untold_release())
    }

    /// What the state store says to a replica that stands by.
    pub fn saw_recorded(&self, store: Option<&Inventory>) {
        let text = &self.generation().mapping.text;
        self.state.lock().store_in_words = match store {
            None => "the state store is not there, or cannot be read",
            Some(store) if store.document != *text => "the state store has another document",
            Some(store) if store.release.is_empty() => "in force",
            Some(_) => "recorded, and its release goes on",
        };
    }

    /// The same; empty before it was read.
    pub fn recorded_in_words(&self) -> &'static str {
        self.state.lock().store_in_words
    }

    /// Whether it is known what the state store says.
    pub fn is_store_read(&self) -> bool {
        self.state.lock().unconfirmed.is_none()
    }

    /// Whether the target was found without a state store of the mapping, without which nothing is written.
    pub fn is_unrecorded(&self) -> bool {
        let state = self.state.lock();
        state.unconfirmed.is_none() && state.store.resource_version.is_empty()
    }

    /// Notes what became of the state store with this generation. Once it is confirmed, every source is planned: what was planned
    /// before knew neither the target nor what is held back.
    pub fn confirm(&self, generation: &Arc<Generation>, result: Result<Inventory, String>) {
        let mut state = self.state.lock();
        if state.term != self.shared.lease.number() || !Arc::ptr_eq(generation, &self.generation()) {
            // The term of the lease or the document is another meanwhile: it is read again.
            return;
        }
        let was_unconfirmed = state.unconfirmed.is_some();
        let was_told = state.unconfirmed.as_ref().is_some_and(|why| why != NOT_READ);
        let was_recorded = !state.store.resource_version.is_empty();
        match result {
            Ok(mut store) => {
                // A document that is not recorded leaves the one before in the state store, whose place it still takes.
                if generation.records() && other_document(&store, &generation.mapping).is_none() {
                    state.superseded.clear();
                }
                if (&state.store.release, &state.store.document) != (&store.release, &store.document) {
                    // Sources may follow another document from now on.
                    self.shared.counted.notify_one();
                }
                if state.known_releases.is_empty() || !state.promotion.is_told() {
                    state.known_releases.insert(store.release.clone());
                }
                // What nobody recorded has taken in nothing.
                state.has_served |= !store.resource_version.is_empty();
                if store.document == generation.mapping.text {
                    // It is kept once.
                    store.document = generation.mapping.text.clone();
                    *self.controller.last_recorded.lock() = Some(store.document.clone());
                    state.recorded_at = store.recorded;
                }
                state.keep(generation, store);
                state.unconfirmed = None;
            }
            Err(why) => state.unconfirmed = Some(why),
        }
        let is_confirmed = state.unconfirmed.is_none();
        let is_recorded = !state.store.resource_version.is_empty();
        drop(state);
        if is_recorded && !was_recorded {
            // Those of other targets may have waited for it.
            self.controller.pipelines().iter().for_each(|one| one.check_inventory());
        }
        if was_unconfirmed && is_confirmed {
            self.controller.enqueue_all();
        }
        // Another reason why it is still not confirmed is no news to those who wait.
        if is_confirmed || !was_told {
            self.controller.touch(Topic::Store(generation.target.cluster.clone()));
        }
    }
}

impl State {
    /// Why nothing is planned although the state store is read: which sources follow a candidate is recorded at home.
    fn untold_release(&self) -> Option<String> {
        let is_untold = !self.store.release.is_empty() && !self.promotion.is_told();
        is_untold.then(|| "how far the release of a candidate is, which home tells, is not known yet".to_owned())
    }

    fn keep(&mut self, generation: &Generation, store: Inventory) {
        // Where it is not written, it names them still.
        if generation.records() {
            self.places_left.retain(|place| store.clusters.contains(place));
            self.targets_left.retain(|name| store.targets.contains(name));
        }
        self.former_placements =
            store.placements.iter().filter_map(|text| placement::rule(text)).map(Arc::new).collect();
        self.former_status = Arc::new(generation.mapping.status.no_longer_written(&store.status));
        self.store = store;
    }
}
