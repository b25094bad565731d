//! The state behind one lock, with the watches that its events go to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::access::Tokens;
use super::collection::Event;
use super::counters::Counters;
use super::faults::{Fault, Faults};
use super::reply::{Answer, Reply, Subscription};
use super::request::{Call, Exchange, Request};
use super::resource::Storage;
use super::state::State;
use super::timestamp::Timestamp;
use super::watch::Interest;

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
    watchers: HashMap<Storage, Vec<Watcher>>,
    /// Those who follow every write.
    followers: Vec<Follower>,
}

/// Is told every request from outside.
pub(super) type Auditor = Box<dyn Fn(&Exchange) + Send>;

/// Is told an event; answers whether it wants to hear of more.
pub(super) type Follower = Box<dyn Fn(&Event) -> bool + Send>;

struct Watcher {
    interest: Interest,
    bookmarks: bool,
    lines: UnboundedSender<Bytes>,
}

/// What is sent back for a request.
pub(super) enum Outcome {
    Answer(Answer),
    Stream(Stream),
}

/// The lines of a watch.
pub(super) struct Stream {
    pub lines: UnboundedReceiver<Bytes>,
    pub timeout: Option<Duration>,
    /// Whether it goes on in silence when there are no lines any more.
    pub stays_open: bool,
}

impl Server {
    pub fn new(state: State, tokens: Tokens, clock: Clock) -> Server {
        let core = Mutex::new(Core { state, watchers: HashMap::new(), followers: Vec::new() });
        let (counters, auditors, faults) = (Mutex::default(), Mutex::default(), Faults::default());
        Server { core, counters, auditors, faults, tokens, clock }
    }

    /// Counts a request that came from outside, and tells what is to go wrong with it.
    pub fn admit(&self, call: &Call) -> Option<Fault> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).record(call);
        self.faults.of(call)
    }

    /// Tells of every request from outside from now on.
    pub fn audit(&self, auditor: Auditor) {
        self.auditors.lock().unwrap_or_else(PoisonError::into_inner).push(auditor);
    }

    /// Tells of a request from outside that was answered.
    pub fn answered(&self, exchange: impl FnOnce() -> Exchange) {
        let auditors = self.auditors.lock().unwrap_or_else(PoisonError::into_inner);
        if !auditors.is_empty() {
            let exchange = exchange();
            auditors.iter().for_each(|tell| tell(&exchange));
        }
    }

    /// Requests from outside so far.
    pub fn counters(&self) -> Counters {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Carries out a request. A watch is registered under the same lock that its backlog was read under: no event is
    /// lost between them, or sent twice.
    pub fn handle(&self, request: &Request) -> Outcome {
        let mut core = self.lock();
        let (reply, events) = core.state.handle(request, (self.clock)());
        core.send(&events);
        match reply {
            Reply::Answer(answer) => Outcome::Answer(answer),
            Reply::Watch(subscription) => Outcome::Stream(core.subscribe(subscription)),
        }
    }

    /// Looks at the state, or changes it.
    pub fn with_state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.lock().state)
    }

    /// Tells every write from now on, of whatever resource.
    pub fn follow(&self, follower: Follower) {
        self.lock().followers.push(follower);
    }

    /// Sends a bookmark to every watch that wants one.
    pub fn send_bookmarks(&self) {
        let core = &mut *self.lock();
        let version = core.state.version();
        for watchers in core.watchers.values_mut() {
            watchers.retain(|watcher| {
                let bookmark = watcher.bookmarks.then(|| watcher.interest.bookmark(version, None));
                bookmark.is_none_or(|bookmark| watcher.lines.send(bookmark).is_ok())
            });
        }
    }

    /// A panic of one request leaves a state that others can still look at.
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    fn send(&mut self, events: &[Event]) {
        for event in events {
            self.followers.retain(|follower| follower(event));
            if let Some(watchers) = self.watchers.get_mut(&event.storage) {
                watchers.retain(|watcher| watcher.send(event));
            }
        }
    }

    fn subscribe(&mut self, subscription: Subscription) -> Stream {
        let Subscription { interest, backlog, bookmarks, timeout, refused } = subscription;
        let (sender, lines) = unbounded_channel();
        for line in backlog {
            // The receiver is at hand: nothing can fail yet.
            let _ = sender.send(line);
        }
        if !refused {
            let watchers = self.watchers.entry(interest.storage().clone()).or_default();
            watchers.push(Watcher { interest, bookmarks, lines: sender });
        }
        Stream { lines, timeout, stays_open: false }
    }
}

impl Watcher {
    /// Whether the client is still there.
    fn send(&self, event: &Event) -> bool {
        match self.interest.line_for(event) {
            Some(line) => self.lines.send(line).is_ok(),
            None => !self.lines.is_closed(),
        }
    }
}
