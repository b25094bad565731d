//! How often one request may write.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Reconciles with requests that one request may have at once, before it has to wait. Quick edits by hand, and an
/// operator that reports its progress, stay below.
const BURST: u32 = 30;

/// The time between two reconciles with requests once the burst is used up.
const INTERVAL: Duration = Duration::from_secs(1);

/// Limits how often one request is reconciled with requests to a server (a token bucket, kept as the instant at which
/// it is full again).
///
/// An operator that changes what the engine sets, or a second process whose view differs, is answered by each
/// correction. Without a limit the two correct each other as fast as the servers answer.
#[derive(Debug)]
pub struct Pace<K> {
    full: BTreeMap<K, Instant>,
    /// When to look next for what is full again.
    sweep: Option<Instant>,
}

impl<K> Default for Pace<K> {
    fn default() -> Self {
        Self { full: BTreeMap::new(), sweep: None }
    }
}

impl<K: Clone + Ord> Pace<K> {
    /// A reconcile sent requests.
    pub fn wrote(&mut self, key: &K, now: Instant) {
        let full = self.full.entry(key.clone()).or_insert(now);
        *full = (*full).max(now) + INTERVAL;
    }

    /// Not before this instant, where it is in the future.
    pub fn next(&self, key: &K) -> Option<Instant> {
        self.full.get(key)?.checked_sub(INTERVAL * BURST)
    }

    /// Forgets requests whose bucket is full again, at most once in a burst's time. Gives the next time to look.
    pub fn forget_quiet(&mut self, now: Instant) -> Option<Instant> {
        if self.sweep.is_none_or(|sweep| sweep <= now) {
            self.full.retain(|_, full| *full > now);
            self.sweep = (!self.full.is_empty()).then(|| now + INTERVAL * BURST);
        }
        self.sweep
    }
}
