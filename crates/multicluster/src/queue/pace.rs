//! How often one source may be reconciled with requests to a server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Reconciles with requests that one key may have at once, before it has to wait. Quick edits by hand, and an operator that
/// reports its progress, stay below.
const BURST: u32 = 30;

/// The time between two such reconciles once the burst is used up.
const INTERVAL: Duration = Duration::from_secs(1);

/// A token bucket for each key, kept as the instant at which it is full again.
///
/// An operator may undo each correction of the engine, and so may a second process that sees something else. Without a
/// limit, both would write as fast as the servers answer.
#[derive(Debug)]
pub struct Pace<K> {
    full: BTreeMap<K, Instant>,
    /// When to look next for buckets that are full again.
    sweep: Option<Instant>,
}

impl<K> Default for Pace<K> {
    fn default() -> Self {
        Self { full: BTreeMap::new(), sweep: None }
    }
}

impl<K: Clone + Ord> Pace<K> {
    /// A reconcile of this key sent requests.
    pub fn sent(&mut self, key: &K, now: Instant) {
        let full = self.full.entry(key.clone()).or_insert(now);
        *full = (*full).max(now) + INTERVAL;
    }

    /// When the key may be reconciled again. An instant in the past: at once.
    pub fn next(&self, key: &K) -> Option<Instant> {
        self.full.get(key)?.checked_sub(INTERVAL * BURST)
    }

    /// Forgets keys whose bucket is full again, at most once in the time of a burst. Gives the next time to look.
    pub fn forget_quiet(&mut self, now: Instant) -> Option<Instant> {
        if self.sweep.is_none_or(|sweep| sweep <= now) {
            self.full.retain(|_, full| *full > now);
            self.sweep = (!self.full.is_empty()).then(|| now + INTERVAL * BURST);
        }
        self.sweep
    }
}
