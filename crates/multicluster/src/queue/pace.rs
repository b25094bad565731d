//! How often one source may be corrected.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Cost;
use sync_engine_mapping::object::Key;

/// How often one content may be written to one place at once, before its source has to wait.
const BURST: u32 = 30;

/// The time between two such writes once the burst is used up.
const INTERVAL: Duration = Duration::from_secs(1);

/// A token bucket for each place that a key writes to, kept as the instant at which it is full again. Another content begins
/// with a full one.
///
/// An operator may undo each correction of the engine, and so may a second process that sees something else. Without a
/// limit, both would write as fast as the servers answer. What a consumer edits or an operator reports is another content
/// each time, and never waits.
#[derive(Debug, Default)]
pub struct Pace {
    places: BTreeMap<(Key, u64), Written>,
    /// When to look next for buckets that are full again.
    sweep: Option<Instant>,
}

#[derive(Debug)]
struct Written {
    content: u64,
    full: Instant,
}

impl Pace {
    /// A reconcile of this key has written. Requests that only read count as a write of the same content.
    pub fn sent(&mut self, key: &Key, cost: &Cost, now: Instant) {
        let reads = (cost.requests > 0 && cost.writes.is_empty()).then_some((0, 0));
        for (place, content) in cost.writes.iter().map(|(place, content)| (*place, *content)).chain(reads) {
            let begun = Written { content, full: now };
            let written = self.places.entry((key.clone(), place)).or_insert(Written { content, full: now });
            if written.content != content {
                *written = begun;
            }
            written.full = written.full.max(now) + INTERVAL;
        }
    }

    /// When the key may be reconciled again. An instant in the past: at once.
    pub fn next(&self, key: &Key) -> Option<Instant> {
        let places = self.places.range((key.clone(), 0)..=(key.clone(), u64::MAX));
        places.filter_map(|(_, written)| written.full.checked_sub(INTERVAL * BURST)).max()
    }

    /// Forgets places whose bucket is full again, at most once in the time of a burst. Gives the next time to look.
    pub fn forget_quiet(&mut self, now: Instant) -> Option<Instant> {
        if self.sweep.is_none_or(|sweep| sweep <= now) {
            self.places.retain(|_, written| written.full > now);
            self.sweep = (!self.places.is_empty()).then(|| now + INTERVAL * BURST);
        }
        self.sweep
    }
}
