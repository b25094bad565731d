//! The state behind one lock, with the watches that its events go to.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::access::Tokens;
use super::collection::Event;
use super::counters::Counters;
use super::faults::{Fault, Faults};
use super::reply::{Outcome, Watcher};
use super::request::{Call, Exchange, Request};
use super::resource::Storage;
use super::state::State;
use super::timestamp::Timestamp;

/// One server, whatever speaks for it.
pub(super) struct Server {
    core: Mutex<Core>,
    counters: Mutex<Counters>,
    auditors: Mutex<Vec<Auditor>>,
    pub faults: Faults,
    pub tokens: Tokens,
    clock: Clock,
}

/// Tells the moment a request is handled at.
pub(super) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

struct Core {
    state: State,
    watchers: Watchers,
    /// Those who follow every write.
    followers: Vec<Follower>,
}

/// Is told every request from outside.
pub(super) type Auditor = Box<dyn Fn(&Exchange) + Send>;

/// Is told an event; answers whether it wants to hear of more.
pub(super) type Follower = Box<dyn Fn(&Event) -> bool + Send>;

/// Who watches what, by collection and logical cluster; `None` for several of them. A write is shown to those alone who watch
/// its logical cluster, or several.
#[derive(Default)]
struct Watchers(HashMap<(Storage, Option<Arc<str>>), Vec<Watcher>>);

impl Server {
    pub fn new(state: State, tokens: Tokens, clock: Clock) -> Server {
        let core = Mutex::new(Core { state, watchers: Watchers::default(), followers: Vec::new() });
        let (counters, auditors, faults) = (Mutex::default(), Mutex::default(), Faults::default());
        Server { core, counters, auditors, faults, tokens, clock }
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Counts a request that came from outside, and tells what is to go wrong with it.
    pub fn admit(&self, call: &Call) -> Option<Fault> {
        self.counters.lock().record(call);
        self.faults.of(call)
    }

    /// Tells of every request from outside from now on.
    pub fn audit(&self, auditor: Auditor) {
        self.auditors.lock().push(auditor);
    }

    /// Tells of a request from outside that was answered.
    pub fn answered(&self, exchange: impl FnOnce() -> Exchange) {
        let auditors = self.auditors.lock();
        if !auditors.is_empty() {
            let exchange = exchange();
            auditors.iter().for_each(|tell| tell(&exchange));
        }
    }

    pub fn counters(&self) -> Counters {
        self.counters.lock().clone()
    }

    /// Carries out a request. A watch is registered under the same lock that its backlog was read under: no event is
    /// lost between them, or sent twice.
    pub fn handle(&self, request: &Request) -> Outcome {
        let mut core = self.core.lock();
        let (reply, events) = core.state.handle(request, self.now());
        core.send(&events);
        let (outcome, watcher) = reply.open();
        watcher.into_iter().for_each(|watcher| core.watchers.add(watcher));
        outcome
    }

    /// Looks at the state, or changes it.
    pub fn with_state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.core.lock().state)
    }

    /// Tells every write from now on, of whatever resource.
    pub fn follow(&self, follower: Follower) {
        self.core.lock().followers.push(follower);
    }

    /// Sends a bookmark to every watch that wants one.
    pub fn send_bookmarks(&self) {
        let core = &mut *self.core.lock();
        let version = core.state.version();
        core.watchers.retain_all(|watcher| watcher.send_bookmark(version));
    }
}

impl Core {
    fn send(&mut self, events: &[Event]) {
        for event in events {
            self.followers.retain(|follower| follower(event));
            self.watchers.send(event);
        }
    }
}

impl Watchers {
    fn add(&mut self, watcher: Watcher) {
        let of = (watcher.interest.storage.clone(), watcher.interest.cluster().map(Arc::from));
        self.0.entry(of).or_default().push(watcher);
    }

    fn send(&mut self, event: &Event) {
        for cluster in [Some(event.key.cluster.clone()), None] {
            let watchers = self.0.get_mut(&(event.storage.clone(), cluster));
            watchers.into_iter().for_each(|watchers| watchers.retain(|watcher| watcher.send(event)));
        }
    }

    /// Keeps those for whom it holds.
    fn retain_all(&mut self, mut holds: impl FnMut(&Watcher) -> bool) {
        self.0.retain(|_, watchers| {
            watchers.retain(&mut holds);
            !watchers.is_empty()
        });
    }
}
