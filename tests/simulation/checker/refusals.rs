//! How often an engine repeats itself: what was refused, and what somebody else undoes.

use std::time::Duration;

use sync_engine::sandbox::Request;

use super::super::action::{NAMES, RARE_NAMES};
use super::super::mapping::ITEMS;
use super::super::server::Side;
use super::Checker;

/// The least that `reconcile.backoff` waits after a refusal, with its jitter, and the most that this least grows to.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(150));

/// How often a refused request may come before its backoff is over: what wakes its source may be about another object.
const EARLY: u32 = 2;

/// A source is reconciled with requests thirty times at once and then once a second: 90 times in a minute. One reconcile may
/// write an object more than once, and a former source has a pace of its own.
const MOST_WRITES: u32 = 200;

/// A request that was refused, since something changed for the last time.
#[derive(Clone, Copy, Default)]
pub(super) struct Refused {
    last: Duration,
    times: u32,
    /// How often before its backoff was over.
    early: u32,
}

impl Checker {
    /// Whoever undoes what the engine writes is not answered without end, unless it is the engine itself.
    pub(super) fn count_pace(&mut self, at: Duration, process: u32, side: Side, request: &Request) {
        let call = request.call();
        // Each source of a namespace asks for it.
        if call.resource == "namespaces" || self.has_rivals {
            return;
        }
        let what = request.path.trim_end_matches("/status");
        let (minute, writes) = self.paces.entry(format!("{process} {} {what}", side.name())).or_default();
        let now = at.as_secs() / 60;
        *writes = if *minute == now { *writes + 1 } else { 1 };
        *minute = now;
        if *writes == MOST_WRITES {
            self.violated("I5", format!("engine {process} writes {what} {MOST_WRITES} times in a minute"));
        }
    }

    /// A refused request is not repeated before something changes, or before its backoff is over.
    pub(super) fn count_refusal(&mut self, at: Duration, process: u32, side: Side, request: &Request) {
        self.has_refused = true;
        let (call, key) = (request.call(), refused_key(process, side, request));
        let mut refused = self.refused.remove(&key).unwrap_or_default();
        if self.changed >= refused.last {
            refused = Refused::default();
        }
        let (least, most) = BACKOFF;
        let pause = (least * 2_u32.saturating_pow(refused.times.saturating_sub(1)).min(1024)).min(most);
        let is_early = refused.times > 0 && refused.last + pause > at;
        // Every source of a namespace asks for it itself, and deals with what is shared there, each with a backoff of its own.
        let sources = (NAMES.len() + RARE_NAMES.len()) as u32;
        let early = match &*call.resource {
            "namespaces" => (EARLY + sources) * refused.times,
            "secrets" if ITEMS.contains(&&*call.name) => (EARLY + sources) * refused.times,
            // Each name of a source's cluster, and each target, has a backoff of its own, and wakes the other.
            _ if self.is_doubled => (EARLY + 1) * refused.times,
            _ => EARLY,
        };
        if is_early && refused.early == early {
            let text = format!("engine {process} repeats a refused {} of {}/{}", call.verb, call.resource, call.name);
            self.violated("I5", text);
        }
        let early = refused.early + u32::from(is_early);
        let times = refused.times + u32::from(!is_early);
        self.refused.insert(key, Refused { last: at, times, early });
    }
}

/// Which request of which process it is.
pub(super) fn refused_key(process: u32, side: Side, request: &Request) -> String {
    format!(
        "{process} {} {} {} {}",
        side.name(),
        request.call().verb,
        request.path,
        String::from_utf8_lossy(&request.body)
    )
}
