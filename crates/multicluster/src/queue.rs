//! What is to be reconciled next: fair between clusters, one in flight per request. Pure: time comes in as a value.

mod pace;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use self::pace::Pace;
use super::backoff::{Backoff, Jitter};
use super::seats::{Admission, Seats};
use sync_engine_mapping::object::{ClusterName, Key};

/// Live changes go before what the first list brought, until that has waited [`INITIAL_WAIT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Live,
    Initial,
}

/// How long what the first list brought stands back behind live changes of its own cluster.
pub const INITIAL_WAIT: Duration = Duration::from_secs(10);

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// In order; the backoff is reset.
    Done,
    /// In order; look again then. The backoff is reset.
    After(Duration),
    /// Failed: exponential backoff with jitter.
    Retry,
    /// Failed, and the server said when to come back: the longer of that and the backoff.
    RetryAfter(Duration),
}

impl Requeue {
    /// When to look again for either. A failure counts more than a look at a set time: its backoff has to grow.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::RetryAfter(one), Self::RetryAfter(other)) => Self::RetryAfter(one.max(other)),
            (one @ Self::RetryAfter(_), _) | (_, one @ Self::RetryAfter(_)) => one,
            (Self::Retry, _) | (_, Self::Retry) => Self::Retry,
            (Self::After(one), Self::After(other)) => Self::After(one.min(other)),
            (one @ Self::After(_), Self::Done) | (Self::Done, one) => one,
        }
    }
}

/// What a reconcile took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests sent: a turn each, which its cluster pays.
    pub requests: u32,
    /// How long it was observed and planned. Meanwhile nobody else is served.
    pub worked: Duration,
    /// What was written, by where: hashes of both.
    pub writes: BTreeMap<u64, u64>,
}

impl Cost {
    /// What both took.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.requests = self.requests.saturating_add(other.requests);
        self.worked = self.worked.saturating_add(other.worked);
        self.writes.extend(&other.writes);
        self
    }

    /// The turns that its cluster pays beyond the one that it had.
    fn debt(&self) -> u32 {
        let worked = u32::try_from(self.worked.as_millis() / TURN.as_millis()).unwrap_or(u32::MAX);
        self.requests.saturating_add(worked).saturating_sub(1)
    }
}

/// Work that costs as much as a request.
const TURN: Duration = Duration::from_millis(5);

impl From<u32> for Cost {
    fn from(requests: u32) -> Self {
        Self { requests, ..Self::default() }
    }
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Reconcile this; answer with [`Queue::finish`].
    Ready(Key),
    /// Nothing before this instant, or before something is added.
    Wait(Option<Instant>),
}

/// How full a queue is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    pub ready: usize,
    /// Waiting for a backoff or a later look.
    pub delayed: usize,
    pub in_flight: usize,
    /// How long the oldest ready request has waited.
    pub oldest_age: Duration,
}

/// One sub-queue per source cluster, served in turns.
///
/// A request is in exactly one state: ready, delayed, in flight, or unknown. A turn gives a cluster
/// one unit; a reconcile that cost more is paid off by sitting out turns.
#[derive(Debug)]
pub struct Queue {
    backoff: Backoff,
    jitter: Jitter,
    entries: BTreeMap<Key, Entry>,
    lanes: BTreeMap<ClusterName, ClusterQueue>,
    /// Clusters with something ready, by their turns.
    turns: BTreeMap<u64, ClusterName>,
    /// Those that are slow and were passed over. There may be thousands: they keep their turns, and nobody looks at them before slow
    /// clusters have room.
    slow_turns: BTreeMap<u64, ClusterName>,
    delayed: BTreeSet<(Instant, Key)>,
    pace: Pace,
    /// What is in flight: slow clusters leave half of it to others.
    seats: Seats<ClusterName>,
    ready: usize,
    in_flight: usize,
    last_ticket: u64,
    last_turn: u64,
}

#[derive(Debug)]
struct Entry {
    failures: u32,
    /// Nothing but time asked for it.
    by_timer: bool,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Ready { priority: Priority, ticket: u64 },
    Delayed { until: Instant },
    InFlight { again: Option<Again>, seat: u64, since: Instant },
}

/// What was asked for a request while it was in flight.
#[derive(Debug, Clone, Copy)]
enum Again {
    Now(Priority),
    At(Instant),
}

/// The requests of one cluster.
#[derive(Debug, Default)]
struct ClusterQueue {
    /// By priority and ticket, with the instant since when they wait.
    ready: BTreeMap<(Priority, u64), (Key, Instant)>,
    /// Turns to sit out.
    debt: u32,
    /// Its next turn, where it has one.
    turn: Option<u64>,
    in_flight: usize,
}

impl Queue {
    /// `seed` makes the jitter of this queue.
    pub fn new(backoff: Backoff, seed: u64) -> Self {
        Self {
            backoff,
            jitter: Jitter::new(seed),
            entries: BTreeMap::new(),
            lanes: BTreeMap::new(),
            turns: BTreeMap::new(),
            slow_turns: BTreeMap::new(),
            delayed: BTreeSet::new(),
            pace: Pace::default(),
            seats: Seats::default(),
            ready: 0,
            in_flight: 0,
            last_ticket: 0,
            last_turn: 0,
        }
    }

    /// To be reconciled now, or as soon as its [`Pace`] permits. Coalesces with what is queued; what is in flight runs
    /// once more after it.
    pub fn add(&mut self, key: Key, priority: Priority, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return self.make_due(key, priority, 0, now);
        };
        let failures = entry.failures;
        match &mut entry.state {
            State::Ready { priority: queued, .. } if *queued <= priority => entry.by_timer = false,
            &mut State::Ready { priority: queued, ticket } => {
                let since = self.take_ready(&key, queued, ticket).unwrap_or(now);
                self.make_ready(key, priority, failures, since, false);
            }
            State::Delayed { until } => {
                self.delayed.remove(&(*until, key.clone()));
                self.make_due(key, priority, failures, now);
            }
            State::InFlight { again, .. } => {
                let sooner = match again {
                    Some(Again::Now(queued)) => priority.min(*queued),
                    _ => priority,
                };
                *again = Some(Again::Now(sooner));
            }
        }
    }

    /// To be reconciled in `delay` at the latest, so that what is added meanwhile is part of the same look. What is due earlier
    /// stays as it is.
    pub fn add_after(&mut self, key: Key, delay: Duration, now: Instant) {
        let until = now + delay;
        let Some(entry) = self.entries.get_mut(&key) else {
            return self.make_delayed(key, until, 0, false);
        };
        let failures = entry.failures;
        match &mut entry.state {
            State::Ready { .. } => entry.by_timer = false,
            State::Delayed { until: earlier } if *earlier <= until => entry.by_timer = false,
            State::Delayed { until: later } => {
                self.delayed.remove(&(*later, key.clone()));
                self.make_delayed(key, until, failures, false);
            }
            State::InFlight { again, .. } => match again {
                Some(Again::Now(_)) => {}
                Some(Again::At(earlier)) if *earlier <= until => {}
                _ => *again = Some(Again::At(until)),
            },
        }
    }

    /// Forgets what is queued for a cluster, and says what that was. What is in flight runs once more: it noted how it ended
    /// after its cluster went.
    pub fn remove_cluster(&mut self, cluster: &ClusterName) -> Vec<Key> {
        let from_there = self.entries.range(Key::least_of(cluster)..).map(|(key, _)| key);
        let keys: Vec<Key> = from_there.take_while(|key| key.cluster == *cluster).cloned().collect();
        keys.iter().for_each(|key| self.remove(key));
        self.drop_idle_lane(cluster);
        keys
    }

    fn remove(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match &mut entry.state {
            State::InFlight { again, .. } => {
                *again = Some(Again::Now(Priority::Initial));
                return;
            }
            &mut State::Delayed { until } => drop(self.delayed.remove(&(until, key.clone()))),
            &mut State::Ready { priority, ticket } => drop(self.take_ready(key, priority, ticket)),
        }
        self.entries.remove(key);
    }

    /// The next request, in turns between clusters, where so many may be in flight.
    pub fn next(&mut self, at_once: usize, now: Instant) -> Next {
        self.wake_delayed(now);
        let has_turns = !self.turns.is_empty() || !self.slow_turns.is_empty();
        if has_turns && let Some(key) = self.take_turns(&self.seats.admission(at_once, now), now) {
            return Next::Ready(key);
        }
        let due = self.delayed.first().map(|(until, _)| *until);
        let room = self.seats.look_again(now).filter(|_| self.ready > 0);
        Next::Wait(due.into_iter().chain(self.pace.forget_quiet(now)).chain(room).min())
    }

    /// Who is not admitted keeps its turn.
    fn take_turns(&mut self, admission: &Admission<ClusterName>, now: Instant) -> Option<Key> {
        if admission.is_full() {
            return None;
        }
        let with_slow = admission.may_admit_slow();
        let mut passed_over = Vec::new();
        let mut next = None;
        while next.is_none()
            && let Some((turn, cluster)) = self.pop_turn(with_slow)
        {
            match admission.admits(&cluster) {
                true => next = self.serve(cluster, with_slow, now),
                false => passed_over.push((turn, cluster)),
            }
        }
        for (turn, cluster) in passed_over {
            let turns = if admission.is_slow(&cluster) { &mut self.slow_turns } else { &mut self.turns };
            turns.insert(turn, cluster);
        }
        next
    }

    /// The next turn. `with_slow`: also of those that were passed over as slow.
    fn pop_turn(&mut self, with_slow: bool) -> Option<(u64, ClusterName)> {
        let first = |turns: &BTreeMap<u64, ClusterName>| turns.first_key_value().map(|(turn, _)| *turn);
        let is_slow = match (first(&self.turns), first(&self.slow_turns).filter(|_| with_slow)) {
            (Some(turn), Some(slow)) => slow < turn,
            (_, slow) => slow.is_some(),
        };
        if is_slow { self.slow_turns.pop_first() } else { self.turns.pop_first() }
    }

    /// A cluster has something ready: its turn is behind those of all others.
    fn take_turn(&mut self, cluster: ClusterName) {
        self.last_turn += 1;
        if let Some(lane) = self.lanes.get_mut(&cluster) {
            lane.turn = Some(self.last_turn);
            self.turns.insert(self.last_turn, cluster);
        }
    }

    /// Whether nothing but time asked for a request that [`next`](Self::next) handed out.
    pub fn is_by_timer(&self, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.by_timer)
    }

    /// When a request that waits is due. `None`: it does not wait, or is in flight.
    pub fn due(&self, key: &Key, now: Instant) -> Option<Instant> {
        match self.entries.get(key)?.state {
            State::Ready { .. } => Some(now),
            State::Delayed { until } => Some(until),
            State::InFlight { .. } => None,
        }
    }

    /// Whether a request is ready or in flight.
    pub fn serves(&self, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|entry| !matches!(entry.state, State::Delayed { .. }))
    }

    /// Whether more requests wait than are served at once.
    pub fn is_busy(&self) -> bool {
        self.ready > self.in_flight
    }

    /// Answers a request that [`next`](Self::next) handed out, and says what it took.
    pub fn finish(&mut self, key: Key, outcome: Requeue, cost: impl Into<Cost>, now: Instant) {
        let cost = cost.into();
        let Some(Entry { failures, state: State::InFlight { again, seat, since }, .. }) = self.entries.remove(&key)
        else {
            return;
        };
        self.in_flight -= 1;
        self.seats.leave(seat);
        self.seats.worked(&key.cluster, now.saturating_duration_since(since), now);
        if let Some(lane) = self.lanes.get_mut(&key.cluster) {
            lane.in_flight -= 1;
            lane.debt = lane.debt.saturating_add(cost.debt()).min(MOST_DEBT);
            // It may be slow no longer.
            let turn = lane.turn.and_then(|turn| self.slow_turns.remove_entry(&turn));
            self.turns.extend(turn);
        }
        self.pace.sent(&key, &cost, now);
        let cluster = key.cluster.clone();
        self.settle(key, outcome, failures, again, now);
        self.drop_idle_lane(&cluster);
    }

    pub fn depth(&self, now: Instant) -> Depth {
        let oldest = self.lanes.values().filter_map(ClusterQueue::oldest).min();
        Depth {
            ready: self.ready,
            delayed: self.delayed.len(),
            in_flight: self.in_flight,
            oldest_age: oldest.map(|since| now.saturating_duration_since(since)).unwrap_or_default(),
        }
    }

    /// Where a request goes after its reconcile.
    fn settle(&mut self, key: Key, outcome: Requeue, failures: u32, again: Option<Again>, now: Instant) {
        let failed = failures.saturating_add(1);
        let (delay, failures) = match outcome {
            Requeue::Done => (None, 0),
            Requeue::After(delay) => (Some(delay), 0),
            Requeue::Retry => (Some(self.backoff.delay(failures, &mut self.jitter)), failed),
            Requeue::RetryAfter(asked) => (Some(self.backoff.delay(failures, &mut self.jitter).max(asked)), failed),
        };
        match (again, delay) {
            (None, None) => {}
            // New information is worth a look at once; after a failure not before the shortest backoff, so
            // that a request that wakes itself does not spin.
            (Some(Again::Now(priority)), _) if failures == 0 => self.make_due(key, priority, failures, now),
            (Some(Again::Now(_)), delay) => {
                let soon = self.backoff.min.min(delay.unwrap_or_default());
                self.make_delayed(key, now + soon, failures, false);
            }
            (Some(Again::At(at)), delay) => {
                self.make_delayed(key, delay.map_or(at, |delay| at.min(now + delay)), failures, false);
            }
            (None, Some(delay)) => self.make_delayed(key, now + delay, failures, true),
        }
    }

    /// Ready, unless the pace of the request says that it has to wait.
    fn make_due(&mut self, key: Key, priority: Priority, failures: u32, now: Instant) {
        match self.pace.next(&key).filter(|until| *until > now) {
            Some(until) => self.make_delayed(key, until, failures, false),
            None => self.make_ready(key, priority, failures, now, false),
        }
    }

    fn make_ready(&mut self, key: Key, priority: Priority, failures: u32, since: Instant, by_timer: bool) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let lane = self.lanes.entry(key.cluster.clone()).or_default();
        lane.ready.insert((priority, ticket), (key.clone(), since));
        if lane.turn.is_none() {
            self.take_turn(key.cluster.clone());
        }
        self.ready += 1;
        self.entries.insert(key, Entry { failures, by_timer, state: State::Ready { priority, ticket } });
    }

    fn make_delayed(&mut self, key: Key, until: Instant, failures: u32, by_timer: bool) {
        self.delayed.insert((until, key.clone()));
        self.entries.insert(key, Entry { failures, by_timer, state: State::Delayed { until } });
    }

    fn take_ready(&mut self, key: &Key, priority: Priority, ticket: u64) -> Option<Instant> {
        let (_, since) = self.lanes.get_mut(&key.cluster)?.ready.remove(&(priority, ticket))?;
        self.ready -= 1;
        Some(since)
    }

    fn wake_delayed(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(until, _)| *until <= now) {
            let Some((until, key)) = self.delayed.pop_first() else { return };
            let (failures, by_timer) =
                self.entries.get(&key).map_or((0, true), |entry| (entry.failures, entry.by_timer));
            self.make_ready(key, Priority::Live, failures, until, by_timer);
        }
    }

    /// A cluster's turn: pays off one unit of debt, or hands out its next request.
    fn serve(&mut self, cluster: ClusterName, with_slow: bool, now: Instant) -> Option<Key> {
        let lane = self.lanes.get_mut(&cluster)?;
        lane.turn = None;
        if lane.ready.is_empty() {
            self.drop_idle_lane(&cluster);
            return None;
        }
        // Debt is paid by standing back behind others; alone, there is nobody to stand back for.
        let has_others = !self.turns.is_empty() || with_slow && !self.slow_turns.is_empty();
        if lane.debt > 0 && has_others {
            lane.debt -= 1;
            self.take_turn(cluster);
            return None;
        }
        let key = lane.pop(now)?;
        lane.in_flight += 1;
        if !lane.ready.is_empty() {
            self.take_turn(cluster.clone());
        }
        self.ready -= 1;
        self.in_flight += 1;
        let seat = self.seats.take(cluster, now);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.state = State::InFlight { again: None, seat, since: now };
        }
        Some(key)
    }

    fn drop_idle_lane(&mut self, cluster: &ClusterName) {
        let is_idle = |lane: &ClusterQueue| lane.ready.is_empty() && lane.in_flight == 0 && lane.turn.is_none();
        if self.lanes.get(cluster).is_some_and(is_idle) {
            self.lanes.remove(cluster);
        }
    }
}

/// No cluster sits out more turns than this, whatever its reconciles cost.
const MOST_DEBT: u32 = 16;

impl ClusterQueue {
    /// Live before initial, until the initial one has waited long enough.
    fn pop(&mut self, now: Instant) -> Option<Key> {
        let aged = self.first_from(Priority::Initial).filter(|(_, since)| *since + INITIAL_WAIT <= now);
        let (next, _) = aged.or(self.first_from(Priority::Live))?;
        self.ready.remove(&next).map(|(key, _)| key)
    }

    fn oldest(&self) -> Option<Instant> {
        let first = [Priority::Live, Priority::Initial].into_iter().filter_map(|priority| self.first_from(priority));
        first.map(|(_, since)| since).min()
    }

    /// The first request of a priority, or of a lower one where it has none, and since when it waits.
    fn first_from(&self, priority: Priority) -> Option<((Priority, u64), Instant)> {
        self.ready.range((priority, 0)..).next().map(|(at, (_, since))| (*at, *since))
    }
}

#[cfg(test)]
pub mod tests;
