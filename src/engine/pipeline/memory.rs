//! How far a pipeline has come: how each source ended.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Cause, Pipeline, State, Unsettled};
use crate::object::Key;
use crate::plan::Answers;
use crate::plan::trace::{Decided, Past};

/// Decisions that are remembered of a source that is not in sync.
const REMEMBERED: usize = 16;
/// Bytes of them: each may have a reason of 4096 characters, and a tenant may have ten thousand such sources.
const MOST_BYTES: usize = 16 << 10;

impl Pipeline {
    /// Notes how a reconcile ended. `true`: the reason is news; or the source is in sync, and the log has said that it is not.
    pub fn settled(&self, key: &Key, why: Option<Unsettled>) -> bool {
        let mut state = self.state.lock();
        state.retried.remove(key);
        let Some(mut why) = why else {
            state.history.remove(key);
            return state.unsettled.remove(key).is_some_and(|former| former.is_logged);
        };
        let former = state.unsettled.get(key);
        why.since = former.map_or(why.since, |former| former.since);
        why.is_logged |= former.is_some_and(|former| former.is_logged);
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
        let bytes = |one: &Decided| one.why.len() + one.actions.iter().map(String::len).sum::<usize>();
        let mut left: usize = past.decisions.iter().map(bytes).sum();
        while past.decisions.len() > REMEMBERED || past.decisions.len() > 1 && left > MOST_BYTES {
            left -= past.decisions.pop_front().as_ref().map_or(0, bytes);
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

    /// Whether a source is not in sync for a reason of its own: what is out of sight, fails for the moment, or is only observed, says
    /// nothing.
    pub fn is_troubled(&self, key: &Key) -> bool {
        let state = self.state.lock();
        let cause = state.unsettled.get(key).and_then(|how| how.cause);
        cause.is_some_and(|cause| !matches!(cause, Cause::Unknown | Cause::RequestFailed | Cause::Observed))
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

    /// What a source waits for, in a word: the worst reason of its last plan, or that a request failed. `None`: nothing.
    pub fn waits_for(&self, key: &Key) -> Option<&'static str> {
        let state = self.state.lock();
        if state.retried.contains(key) {
            return Some(Cause::RequestFailed.as_str());
        }
        state.unsettled.get(key).map(|how| how.cause.unwrap_or(Cause::RequestFailed).as_str())
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
}
