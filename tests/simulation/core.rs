//! What all parts of a world share: servers, weather, clock, checker and trace, behind one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sync_engine::sandbox::{Flavor, Outcome, Request, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::action::{Plan, Roster};
use super::checker::Checker;
use super::dice::Dice;
use super::network::Link;
use super::replicas::Leaders;
use super::server::{Server, Side};

/// The moment at which every world begins.
pub const BEGINNING: i64 = 1_785_585_600;

/// A handle to a world's core; cheap to clone.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    core: Mutex<Core>,
    /// Tasks of the world itself, which are not the engine's.
    tasks: AtomicUsize,
}

pub struct Core {
    /// In the order of [`Side::ALL`].
    servers: [Server; 3],
    pub checker: Checker,
    pub leaders: Leaders,
    pub plan: Plan,
    /// How many watches an engine may run that starts now.
    pub max_watches: Option<usize>,
    pub trace: Vec<String>,
    /// Whether the trace is printed as it comes.
    pub aloud: bool,
    /// Decides what the network does to a request.
    pub dice: Dice,
    /// Gives engines their seeds.
    pub entropy: Dice,
    pub weather: Weather,
    start: Instant,
    /// By how many seconds the wall clocks have jumped.
    pub jumped: i64,
    /// By how many seconds more those of single processes.
    pub skewed: BTreeMap<u32, i64>,
    /// Processes that may not touch Leases.
    pub barred: BTreeSet<u32>,
    /// Processes that stand still.
    pub paused: BTreeSet<u32>,
    /// Notified when one of them goes on.
    pub resumed: Arc<Notify>,
    requests: u64,
    /// The kind of writes that admission at the target refuses.
    pub denied: Option<&'static str>,
    /// Whether admission there changes what it admits.
    pub mutates: bool,
    /// How the fleet lists the plain cluster.
    pub roster: Roster,
    /// Watches that are open, by process.
    pub watches: BTreeMap<(u32, String), usize>,
    /// Connections that are open, by process.
    pub connections: BTreeMap<u32, usize>,
    /// Requests that wait for the next write of the same object, to arrive just before it.
    pub held: Vec<Held>,
}

/// Which request it is, and when it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub number: u64,
    pub at: Duration,
}

/// A request on its way whose client has given up.
pub struct Held {
    pub sent: Sent,
    pub link: Link,
    pub request: Request,
}

/// What the network and the servers do, in per cent of the requests of a kind, or of the events of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weather {
    pub lost_before: u64,
    pub lost_after: u64,
    /// Delivered long after the client gave up.
    pub late: u64,
    pub slow: u64,
    /// 409, although the request is right: somebody else wrote a moment before.
    pub conflict: u64,
    /// 429 with Retry-After.
    pub busy: u64,
    /// 500, 503 or 504; half of them after the effect.
    pub broken: u64,
    /// 403, as from a server that has not read its roles yet.
    pub forbidden: u64,
    /// Events that a watch is sent twice.
    pub doubled: u64,
    /// Events that wait for the next one of the watch, and are one with it if it is of the same object.
    pub merged: u64,
    /// Events with which the connection of a watch ends, in the middle of a line or before it.
    pub dropped: u64,
    /// Writes alone.
    pub only_writes: bool,
}

impl Shared {
    pub fn new(plan: &Plan) -> Self {
        let now = Timestamp(BEGINNING);
        let flavor = if plan.is_kcp { Flavor::Kcp } else { Flavor::Kubernetes };
        let seed = plan.seed ^ plan.luck.rotate_left(40);
        let core = Core {
            servers: Side::ALL.map(|side| match side {
                Side::Source => Server::new(side, flavor, now, seed, plan.shards()),
                Side::Target | Side::Second => Server::new(side, Flavor::Kubernetes, now, seed, 1),
            }),
            checker: Checker::default(),
            leaders: Leaders::default(),
            plan: plan.clone(),
            max_watches: plan.max_watches,
            trace: Vec::new(),
            aloud: false,
            dice: Dice::new(seed),
            entropy: Dice::new(!seed),
            weather: Weather::default(),
            start: Instant::now(),
            jumped: 0,
            skewed: BTreeMap::new(),
            barred: BTreeSet::new(),
            paused: BTreeSet::new(),
            resumed: Arc::default(),
            requests: 0,
            roster: Roster::Listed,
            watches: BTreeMap::new(),
            connections: BTreeMap::new(),
            held: Vec::new(),
            denied: None,
            mutates: false,
        };
        Self(Arc::new(Inner { core: Mutex::new(core), tasks: AtomicUsize::new(0) }))
    }

    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.0.core.lock()
    }

    /// Returns when a process does not stand still.
    pub async fn runs(&self, process: u32) {
        let resumed = self.lock().resumed.clone();
        loop {
            let notified = resumed.notified();
            if !self.lock().paused.contains(&process) {
                return;
            }
            notified.await;
        }
    }

    /// Runs something of the world's own beside the engines.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(self.clone());
        tokio::spawn(async move {
            let _counted = counted;
            task.await;
        });
    }

    pub fn tasks(&self) -> usize {
        self.0.tasks.load(Ordering::Relaxed)
    }
}

/// A task of the world, for as long as it lives.
struct Counted(Shared);

impl Counted {
    fn new(shared: Shared) -> Self {
        shared.0.tasks.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.tasks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Core {
    /// Since the world began.
    pub fn age(&self) -> Duration {
        self.start.elapsed()
    }

    /// The time of day there.
    pub fn now(&self) -> Timestamp {
        Timestamp(BEGINNING + self.jumped + self.age().as_secs() as i64)
    }

    pub fn server(&mut self, side: Side) -> &mut Server {
        &mut self.servers[side as usize]
    }

    /// A process goes on, or is gone.
    pub fn resume(&mut self, process: u32) {
        self.paused.remove(&process);
        // What it was told while it stood still comes together with what it sent.
        self.checker.forgets_pauses();
        self.leaders.resumed(self.age(), process);
        self.resumed.notify_waiters();
    }

    /// The time of day as a process reads it.
    pub fn clock(&self, process: u32) -> Timestamp {
        Timestamp(self.now().0 + self.skewed.get(&process).unwrap_or(&0))
    }

    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
        self.servers.iter_mut().for_each(|server| server.weather = weather);
    }

    pub fn note(&mut self, what: impl std::fmt::Display) {
        let age = self.age();
        let line = format!("{:>5}.{:03} {what}", age.as_secs(), age.subsec_millis());
        if self.aloud {
            println!("{line}");
        }
        self.trace.push(line);
    }

    /// Takes the held requests for which it holds.
    pub fn release(&mut self, is_due: impl Fn(&Held) -> bool) -> Vec<Held> {
        let (due, held) = std::mem::take(&mut self.held).into_iter().partition(is_due);
        self.held = held;
        due
    }

    pub fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// A request of somebody who is no engine. Nothing is lost of it.
    pub fn act(&mut self, side: Side, request: &Request) -> (u16, Value) {
        let now = self.now();
        let (outcome, events) = self.server(side).handle(request, now);
        self.checker.happened(self.age(), side, None, &events);
        match outcome {
            Outcome::Answer(answer) => (answer.code, answer.to_json()),
            Outcome::Stream(_) => (200, Value::Null),
        }
    }

    /// One of a server's controllers works, if there is work.
    pub fn step(&mut self, side: Side) {
        let now = self.now();
        let events = self.server(side).step(now);
        self.checker.happened(self.age(), side, None, &events);
    }

    /// All of them work until there is none left.
    pub fn settle(&mut self, side: Side) {
        while self.server(side).state.waiting() > 0 {
            self.step(side);
        }
    }

    /// A read that nobody notices.
    pub fn get(&mut self, side: Side, url: &str) -> Option<Value> {
        let (code, body) = self.act(side, &Request::get(url));
        (code == 200).then_some(body)
    }
}
