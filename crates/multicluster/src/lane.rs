//! What all requests to one address share: write slots, the server's wish to get no writes for a while, and a breaker.

mod window;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use self::window::{WRITES_AT_ONCE, Window};
use super::permit::Epoch;
use super::pool::Origin;
use super::request_error::RequestError;

/// How long an address that cannot be reached is left alone: doubled from the first to the second.
const BREAK: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(4)];

/// Shared by all endpoints of one address.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) origin: Arc<Origin>,
    /// Fair: first come, first served.
    writes: Semaphore,
    slots: Mutex<Slots>,
    /// Until when the server wants no write to a logical cluster. Reads go on, and so do writes to the other clusters: one
    /// tenant's cluster never holds up another's.
    paused: Mutex<BTreeMap<String, Instant>>,
    breaker: Mutex<Option<Break>>,
    pub(super) counters: Arc<Counters>,
    /// When the next write is due that a limit of writes a second applies to.
    due: Mutex<Option<Instant>>,
    /// Advances whenever a watch at this address sees a version go back: the server was restored to an earlier state.
    pub(super) restored: Epoch,
}

/// How many permits for writes there are, and how many there should be.
#[derive(Debug)]
struct Slots {
    permits: usize,
    window: Window,
}

/// The right to have one write to a logical cluster in flight.
pub(super) struct WriteSlot<'a> {
    lane: &'a Lane,
    cluster: &'a str,
    permit: Option<SemaphorePermit<'a>>,
}

/// An address that could not be reached.
#[derive(Debug, Clone)]
struct Break {
    /// Until then nobody asks; the first one after it does, for all.
    until: Instant,
    pause: Duration,
    reason: String,
}

impl Lane {
    /// Requests are counted with those of the lane's connection.
    pub(super) fn new(origin: Arc<Origin>, counters: Arc<Counters>) -> Self {
        Self {
            origin,
            writes: Semaphore::new(WRITES_AT_ONCE),
            slots: Mutex::new(Slots { permits: WRITES_AT_ONCE, window: Window::default() }),
            paused: Mutex::default(),
            breaker: Mutex::default(),
            counters,
            due: Mutex::default(),
            restored: Epoch::default(),
        }
    }

    /// Waits until a write is due, where there may be so many a second. 0: no limit.
    pub(super) async fn wait_until_due(&self, writes_per_second: u32) {
        if writes_per_second == 0 {
            return;
        }
        let at = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let at = due.unwrap_or_else(Instant::now).max(Instant::now());
            *due = Some(at + Duration::from_secs(1) / writes_per_second);
            at
        };
        sleep_until(at).await;
    }

    /// A slot to write to a logical cluster in, once it is one's turn and the server does not want to be left alone there.
    pub(super) async fn write_slot<'a>(&'a self, cluster: &'a str) -> WriteSlot<'a> {
        loop {
            while let Some(until) = self.paused_until(cluster) {
                sleep_until(until).await;
            }
            // An error would say that the semaphore is closed, which nobody does.
            let slot = WriteSlot { lane: self, cluster, permit: self.writes.acquire().await.ok() };
            // Nobody waits in a slot: the server may have asked for a pause while this was in the queue.
            if self.paused_until(cluster).is_none() {
                return slot;
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused_until(&self, cluster: &str) -> Option<Instant> {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        paused.retain(|_, until| now < *until);
        paused.get(cluster).copied()
    }

    /// Why there is no point in asking right now: the address could not be reached a moment ago. Without it, each
    /// request to a dead host would hold a slot until its connect time-out.
    pub(super) fn broken(&self) -> Option<String> {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
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
        match error {
            Some(RequestError::Unreachable { reason, .. }) => self.note_unreachable(reason),
            Some(RequestError::AnswerLost { .. } | RequestError::Credential { .. } | RequestError::Name(_)) => {}
            _ => *self.breaker.lock().unwrap_or_else(PoisonError::into_inner) = None,
        }
    }

    fn note_unreachable(&self, reason: &str) {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = BREAK[0];
        let broken =
            breaker.get_or_insert_with(|| Break { until: Instant::now() + pause, pause, reason: String::new() });
        broken.reason = reason.to_owned();
    }
}

impl WriteSlot<'_> {
    /// The write that was sent in it came to this: the address gets fewer slots, or more.
    pub(super) fn learn(&self, sent: Instant, error: Option<&RequestError>) {
        if let Some(wait) = error.and_then(RequestError::retry_after) {
            let mut paused = self.lane.paused.lock().unwrap_or_else(PoisonError::into_inner);
            let until = paused.entry(self.cluster.to_owned()).or_insert_with(Instant::now);
            *until = (*until).max(Instant::now() + wait);
        }
        let mut slots = self.lane.slots();
        match error {
            None => slots.window.succeeded(sent.elapsed(), self.lane.writes.available_permits() == 0),
            Some(error) if error.is_overload() => slots.window.overloaded(sent, Instant::now()),
            Some(_) => {}
        }
        let wanted = slots.window.slots();
        let (more, fewer) = (wanted.saturating_sub(slots.permits), slots.permits.saturating_sub(wanted));
        self.lane.writes.add_permits(more);
        // Those in use go when they are handed back.
        slots.permits = slots.permits + more - self.lane.writes.forget_permits(fewer);
    }
}

impl Drop for WriteSlot<'_> {
    fn drop(&mut self) {
        let mut slots = self.lane.slots();
        if slots.permits > slots.window.slots() {
            slots.permits -= 1;
            self.permit.take().into_iter().for_each(SemaphorePermit::forget);
        }
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
        self.counted().requests.iter().map(|(&(verb, code), &count)| (verb, code, count)).collect()
    }

    /// By verb.
    pub fn latencies(&self) -> BTreeMap<&'static str, Latency> {
        self.counted().latencies.clone()
    }

    fn add(&self, verb: &'static str, code: u16, took: Duration) {
        let mut counted = self.counted();
        *counted.requests.entry((verb, code)).or_default() += 1;
        counted.latencies.entry(verb).or_default().add(took);
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
