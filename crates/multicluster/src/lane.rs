//! What all requests to one address share: write slots, the server's wish to get no writes for a while, and a breaker.

mod slots;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use self::slots::Slots;
use super::request_error::RequestError;
use super::seats::LATE;

/// Writes in flight at one address: above 2 kcp writes no more of them a second, and above 8 it only gets slower.
const WRITES_AT_ONCE: usize = 4;
/// How long an address that cannot be reached is left alone: doubled from the first to the second.
const BREAK: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(4)];

/// Shared by all endpoints of one address.
#[derive(Debug)]
pub(super) struct AddressLimits {
    writes: Arc<Writes>,
    /// Until when the server wants no write to a logical cluster. Reads go on, and so do writes to the other clusters: one
    /// tenant's cluster never holds up another's.
    paused: Mutex<BTreeMap<String, Instant>>,
    breaker: Mutex<Option<Break>>,
    pub(super) counters: Arc<Counters>,
    /// When the next write is due that a limit of writes a second applies to, by that limit: a low one delays nobody else.
    due: Mutex<BTreeMap<u32, Instant>>,
    /// When the address gave the last answer, or when somebody began to use it.
    heard: Mutex<Instant>,
}

/// The write slots of an address.
#[derive(Debug, Default)]
struct Writes(Mutex<Slots<oneshot::Sender<Slot>>>);

/// The right to have one write in flight; dropped, it is handed back.
#[derive(Debug)]
pub(super) struct Slot {
    of: Arc<Writes>,
    number: u64,
}

/// An address that could not be reached.
#[derive(Debug, Clone)]
struct Break {
    /// Until then nobody asks; the first one after it does, for all.
    until: Instant,
    pause: Duration,
    reason: String,
}

impl AddressLimits {
    /// Requests are counted with those of the lane's connection.
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self {
            writes: Arc::default(),
            paused: Mutex::default(),
            breaker: Mutex::default(),
            counters,
            due: Mutex::default(),
            heard: Mutex::new(Instant::now()),
        }
    }

    /// Waits until a write is due, where there may be so many a second. 0: no limit.
    pub(super) async fn wait_until_due(&self, writes_per_second: u32) {
        if writes_per_second == 0 {
            return;
        }
        let at = {
            let mut due = self.due.lock();
            let next = due.entry(writes_per_second).or_insert_with(Instant::now);
            let at = (*next).max(Instant::now());
            *next = at + Duration::from_secs(1) / writes_per_second;
            at
        };
        sleep_until(at).await;
    }

    /// A slot to write to a logical cluster in, once it is one's turn and the server does not want to be left alone there.
    pub(super) async fn write_slot(&self, cluster: &str) -> Slot {
        let cluster: Arc<str> = cluster.into();
        loop {
            while let Some(until) = self.paused_until(&cluster) {
                sleep_until(until).await;
            }
            let slot = self.writes.slot(&cluster).await;
            // Nobody waits in a slot: the server may have asked for a pause while this was in the queue.
            if !self.is_paused(&cluster) {
                return slot;
            }
        }
    }

    /// The write that was sent in a slot came to this: the server may want to be left alone, and the cluster may be slow.
    pub(super) fn wrote(&self, cluster: &str, sent: Instant, error: Option<&RequestError>) {
        if let Some(wait) = error.and_then(RequestError::retry_after) {
            let mut paused = self.paused.lock();
            let until = paused.entry(cluster.to_owned()).or_insert_with(Instant::now);
            *until = (*until).max(Instant::now() + wait);
        }
        self.writes.0.lock().worked(&Arc::from(cluster), sent.elapsed(), Instant::now().into_std());
    }

    pub(super) fn is_paused(&self, cluster: &str) -> bool {
        self.paused_until(cluster).is_some()
    }

    fn paused_until(&self, cluster: &str) -> Option<Instant> {
        let mut paused = self.paused.lock();
        let now = Instant::now();
        paused.retain(|_, until| now < *until);
        paused.get(cluster).copied()
    }

    /// Why there is no point in asking right now: the address could not be reached a moment ago. Without it, each
    /// request to a dead host would hold a slot until its connect time-out.
    pub(super) fn broken(&self) -> Option<String> {
        let mut breaker = self.breaker.lock();
        let now = Instant::now();
        match breaker.as_mut() {
            Some(broken) if now < broken.until => Some(broken.reason.clone()),
            Some(broken) => {
                broken.pause = (broken.pause * 2).min(BREAK[1]);
                broken.until = now + broken.pause;
                None
            }
            None => None,
        }
    }

    /// Counts a request, and learns from its result.
    pub(super) fn learn(&self, verb: &'static str, code: u16, took: Duration, error: Option<&RequestError>) {
        if error.is_some_and(RequestError::is_not_permitted) {
            return;
        }
        self.counters.add(verb, code, took);
        if code != 0 {
            self.note_answer();
        }
        match error {
            Some(RequestError::Unreachable { reason, .. }) => {
                let [pause, _] = BREAK;
                let begun = || Break { until: Instant::now() + pause, pause, reason: String::new() };
                self.breaker.lock().get_or_insert_with(begun).reason.clone_from(reason);
            }
            Some(RequestError::AnswerLost { .. } | RequestError::Credential { .. } | RequestError::Name(_)) => {}
            _ => *self.breaker.lock() = None,
        }
    }

    /// The address gave an answer, or a line of a watch.
    pub(super) fn note_answer(&self) {
        let now = Instant::now();
        *self.heard.lock() = now;
        self.counters.0.lock().answered = Some(now);
    }

    /// For how long the address has given no answer.
    pub(super) fn silence(&self) -> Duration {
        self.heard.lock().elapsed()
    }
}

impl Writes {
    /// A slot once it is one's turn. Cancel-safe: whoever no longer waits is passed over.
    async fn slot(self: &Arc<Self>, cluster: &Arc<str>) -> Slot {
        loop {
            let (given, mut slot) = oneshot::channel();
            self.0.lock().wait(cluster, given);
            // Work that turns late makes room without an event: who waits looks for it, also for work that begins meanwhile.
            loop {
                let until = self.grant().unwrap_or_else(|| Instant::now() + LATE);
                match timeout_at(until, &mut slot).await {
                    Ok(Ok(slot)) => return slot,
                    Ok(Err(_)) => break,
                    Err(_) => {}
                }
            }
        }
    }

    /// Gives slots to those who may have them, and says when to look again.
    fn grant(self: &Arc<Self>) -> Option<Instant> {
        loop {
            let now = Instant::now().into_std();
            let mut slots = self.0.lock();
            let (waiting, number) = match slots.grant(WRITES_AT_ONCE, now) {
                Ok(granted) => granted,
                Err(again) => return again.map(Instant::from_std),
            };
            if waiting.is_closed() {
                slots.leave(number);
                continue;
            }
            // A slot that nobody takes after all is handed back, which needs the lock.
            drop(slots);
            drop(waiting.send(Slot { of: self.clone(), number }));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.of.0.lock().leave(self.number);
        self.of.grant();
    }
}

/// Requests of one connection, for the metrics page.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// By verb and status code (0: no answer).
    requests: BTreeMap<(&'static str, u16), u64>,
    latencies: BTreeMap<&'static str, Latency>,
    answered: Option<Instant>,
}

/// How long the requests of one verb took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    /// How many took at most so long as the bound of [`BOUNDS`](Self::BOUNDS) says, and longer than the bound before; the last:
    /// longer than all.
    pub buckets: [u64; Self::BOUNDS.len() + 1],
    /// In seconds, all together.
    pub sum: f64,
}

impl Latency {
    /// In seconds: from a server nearby to the deadline of a request.
    pub const BOUNDS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = Self::BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(Self::BOUNDS.len());
        self.buckets[bucket] += 1;
        self.sum += seconds;
    }
}

impl Counters {
    /// `(verb, code, count)`, in order.
    pub fn snapshot(&self) -> Vec<(&'static str, u16, u64)> {
        self.0.lock().requests.iter().map(|(&(verb, code), &count)| (verb, code, count)).collect()
    }

    /// How long ago the last answer came, or the last line of a watch.
    pub fn last_answer(&self) -> Option<Duration> {
        self.0.lock().answered.map(|at| at.elapsed())
    }

    /// By verb.
    pub fn latencies(&self) -> BTreeMap<&'static str, Latency> {
        self.0.lock().latencies.clone()
    }

    fn add(&self, verb: &'static str, code: u16, took: Duration) {
        let mut counted = self.0.lock();
        *counted.requests.entry((verb, code)).or_default() += 1;
        counted.latencies.entry(verb).or_default().add(took);
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_low_limit_of_writes_delays_none_that_have_another_limit() {
        let (limits, start) = (AddressLimits::new(Arc::default()), Instant::now());
        let quick = async {
            limits.wait_until_due(100).await;
            start.elapsed()
        };
        let (_, quick) = tokio::join!(join_all((0..8).map(|_| limits.wait_until_due(1))), quick);
        assert!(quick < Duration::from_secs(1), "{quick:?}");
        assert!(start.elapsed() >= Duration::from_secs(7), "those with the same limit share it");
    }

    /// Nothing but time made room where a cluster's second write came while all writes were late, and its first one ended while others
    /// had the slots.
    #[tokio::test(start_paused = true)]
    async fn who_waited_while_all_work_was_late_looks_for_work_that_turns_late_after_that() {
        let limits = AddressLimits::new(Arc::default());
        let first = limits.write_slot("busy").await;
        let _late = join_all(["a", "b", "c"].map(|cluster| limits.write_slot(cluster))).await;
        tokio::time::sleep(LATE).await;
        let mut second = std::pin::pin!(limits.write_slot("busy"));
        assert!(futures::poll!(second.as_mut()).is_pending(), "one seat, while others wait");
        let _prompt = join_all(["d", "e", "f", "g"].map(|cluster| limits.write_slot(cluster))).await;
        drop(first);
        assert!(tokio::time::timeout(LATE * 2, second).await.is_ok());
    }
}
