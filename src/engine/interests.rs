//! Who must be woken when something changes. Pure: it reads nothing by itself and wakes nobody.
//!
//! A reconcile reads through [`Facts`], which registers an interest *before* it reads. Whoever changes something
//! [touches](Interests::touch) the interest *after* the change, and adds the requests that it gets back to the queue,
//! which runs a request in flight once more. So a request that has read the old value always runs again:
//!
//! ```text
//! reconcile   register ──► read ──────────────► finish
//! change                          change ──► touch ──► queue: run it once more
//! ```
//!
//! When a run finishes, what it did not read again is dropped, and so is every [`Topic`] that it does not wait for: a fact
//! that is in order holds nothing up. The index stores nothing that structure already gives: the source object itself, and
//! which source an owner label names, wake their request without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use crate::mapping::{Kind, Resource};
use crate::multicluster::queue::Priority;
use crate::multicluster::registry::ClustersOf;
use crate::object::{ClusterName, Key};

/// More readers than this are woken behind live changes: a Secret that ten thousand sources read.
pub const FAN_OUT: usize = 64;

/// How long a watch stays open after its last reader has gone.
pub const LINGER: Duration = Duration::from_secs(60);

/// Something that a reconcile reads and that can change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interest {
    /// One object by name, whether or not it exists.
    Object(Collection, Key),
    /// The objects of a collection that a label selects, by the label's value.
    Selection(Collection, Box<str>),
    /// A fact that is no object. It stays registered for as long as the request waits for it.
    Topic(Topic),
}

/// A fact that can change. Each names the cluster that it is a fact of, so that a change wakes nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Whether a collection is served, listed completely and watched.
    Synced(Collection),
    /// The schema of the source's API, as an address publishes it.
    Schema(Box<str>),
    /// Which sources are placed into a namespace of a target.
    Placement(ClusterName, Box<str>),
    /// Which cluster a target is, and whether that is confirmed.
    Identity(ClusterName),
    /// Whether a workspace is bound, or a cluster is there.
    Binding(ClusterName),
    /// Whether the state store of a target is confirmed.
    Store(ClusterName),
    /// Whether every source of the first lists was seen.
    PassComplete,
}

/// A collection that one watch follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collection {
    /// The sources of an address.
    Sources(Arc<str>),
    /// The engine's objects of one kind: on a target, which its cluster's name tells, or beside the sources of an address.
    Kind(Arc<str>, Kind),
    /// The engine's objects of all kinds on the target.
    Target,
    Related(Arc<Related>),
}

/// A collection that related objects are read from.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Related {
    /// Address at which it is watched.
    pub at: String,
    /// Whose objects it has. A provider of sources and a target may be one connection, and call its cluster differently.
    pub clusters: ClustersOf,
    pub resource: Resource,
    /// Empty: objects are read by their names.
    pub labels: String,
}

/// How interests name a namespace of a cluster.
pub fn selection(cluster: &ClusterName, namespace: &str) -> String {
    format!("{cluster}/{namespace}")
}

impl Interest {
    fn collection(&self) -> Option<&Collection> {
        match self {
            Self::Object(collection, _) | Self::Selection(collection, _) => Some(collection),
            Self::Topic(_) => None,
        }
    }
}

/// The index of one queue.
///
/// An edge costs 24 bytes where many requests read the same, and some 150 where one alone reads it.
#[derive(Debug, Default)]
pub struct Interests {
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    /// In order, so that they are woken in order.
    readers: HashMap<Arc<Interest>, Vec<Key>>,
    requests: HashMap<Key, Run>,
    collections: BTreeMap<Collection, Use>,
    last_run: u64,
}

/// The latest run of a request, and what is registered for it: what this run and the one before it read.
#[derive(Debug)]
struct Run {
    number: u64,
    reads: Vec<Arc<Interest>>,
}

/// Who needs a watch.
#[derive(Debug, Default)]
struct Use {
    interests: usize,
    /// Since when nobody does.
    idle_since: Option<Instant>,
}

impl Interests {
    /// Begins a run of a request, which nobody else runs at the same time.
    pub fn reader(&self, request: &Key) -> Facts<'_> {
        let run = self.index.lock().begin(request);
        Facts { interests: self, request: request.clone(), run, reads: HashSet::new(), open: Vec::new() }
    }

    /// Something has changed: who has to run again. A request in flight is among them.
    pub fn touch(&self, interest: &Interest, priority: Priority) -> Vec<(Key, Priority)> {
        let index = self.index.lock();
        let Some(readers) = index.readers.get(interest) else { return Vec::new() };
        let priority = if readers.len() > FAN_OUT { Priority::Initial } else { priority };
        readers.iter().map(|reader| (reader.clone(), priority)).collect()
    }

    /// The request is gone, and so is what it read. A run in flight registers nothing more.
    pub fn forget(&self, request: &Key) {
        let mut index = self.index.lock();
        let run = index.requests.remove(request);
        run.into_iter().flat_map(|run| run.reads).for_each(|interest| index.remove(request, &interest));
    }

    /// Forgets every other request.
    pub fn retain(&self, stays: impl Fn(&Key) -> bool) {
        let gone: Vec<Key> = self.index.lock().requests.keys().filter(|request| !stays(request)).cloned().collect();
        gone.iter().for_each(|request| self.forget(request));
    }

    /// The collections that have to be watched now. One that nobody reads any more is among them for another
    /// [`LINGER`]: call it now and then.
    pub fn watches(&self, now: Instant) -> BTreeSet<Collection> {
        let mut index = self.index.lock();
        index.collections.retain(|_, used| used.is_needed(now));
        index.collections.keys().cloned().collect()
    }

    /// Whether somebody reads it.
    pub fn is_read(&self, interest: &Interest) -> bool {
        self.index.lock().readers.contains_key(interest)
    }

    /// What a request read last.
    pub fn reads_of(&self, request: &Key) -> Vec<Arc<Interest>> {
        self.index.lock().requests.get(request).map(|run| run.reads.clone()).unwrap_or_default()
    }

    /// Requests and interests that are registered.
    pub fn size(&self) -> (usize, usize) {
        let index = self.index.lock();
        (index.requests.len(), index.readers.len())
    }
}

impl Use {
    fn is_needed(&mut self, now: Instant) -> bool {
        if self.interests > 0 {
            self.idle_since = None;
            return true;
        }
        now.saturating_duration_since(*self.idle_since.get_or_insert(now)) < LINGER
    }
}

/// What one run of a request reads beside its own objects, and which of that it waits for. Dropped without
/// [`finish`](Self::finish), everything stays registered.
#[derive(Debug)]
pub struct Facts<'i> {
    interests: &'i Interests,
    request: Key,
    run: u64,
    reads: HashSet<Arc<Interest>>,
    /// Facts among them that were not in order: a request that waits, waits for them.
    open: Vec<Arc<Interest>>,
}

impl Facts<'_> {
    /// Reads one object.
    pub fn object<V>(&mut self, collection: &Collection, key: &Key, read: impl FnOnce() -> V) -> V {
        self.register(Interest::Object(collection.clone(), key.clone()));
        read()
    }

    /// Reads the objects that a label selects.
    pub fn selection<V>(&mut self, collection: &Collection, value: &str, read: impl FnOnce() -> V) -> V {
        self.register(Interest::Selection(collection.clone(), value.into()));
        read()
    }

    /// Reads something that changes with these topics. `is_open`: the request may have to wait for it.
    pub fn read<V>(
        &mut self,
        topics: impl IntoIterator<Item = Topic>,
        read: impl FnOnce() -> V,
        is_open: impl FnOnce(&V) -> bool,
    ) -> V {
        let topics: Vec<_> = topics.into_iter().map(|topic| self.register(Interest::Topic(topic))).collect();
        let value = read();
        if is_open(&value) {
            self.open.extend(topics);
        }
        value
    }

    /// What is open.
    pub fn open(&self) -> impl Iterator<Item = &Interest> {
        self.open.iter().map(|interest| &**interest)
    }

    /// Everything is read once more, but for this.
    pub fn again(&mut self, but_for: impl Fn(&Interest) -> bool) {
        self.open.retain(|interest| but_for(interest));
    }

    /// Another reader of the same run, for what reads at the same time.
    #[must_use]
    pub fn sibling(&self) -> Self {
        let (reads, open) = (HashSet::new(), Vec::new());
        Self { interests: self.interests, request: self.request.clone(), run: self.run, reads, open }
    }

    /// What a sibling has read was read in this run.
    pub fn join(&mut self, sibling: Self) {
        self.reads.extend(sibling.reads);
        self.open.extend(sibling.open);
    }

    /// Ends the run: drops what it did not read again. `waits`: the request waits for what is open.
    pub fn finish(self, waits: bool) {
        let open: HashSet<&Arc<Interest>> = self.open.iter().filter(|_| waits).collect();
        let kept = |read: &Arc<Interest>| {
            self.reads.contains(read) && (!matches!(**read, Interest::Topic(_)) || open.contains(read))
        };
        self.interests.index.lock().finish(&self.request, self.run, kept);
    }

    fn register(&mut self, interest: Interest) -> Arc<Interest> {
        let interest = self.interests.index.lock().register(&self.request, self.run, interest);
        self.reads.insert(interest.clone());
        interest
    }
}

impl Index {
    fn begin(&mut self, request: &Key) -> u64 {
        self.last_run += 1;
        let number = self.last_run;
        match self.requests.get_mut(request) {
            Some(run) => run.number = number,
            None => drop(self.requests.insert(request.clone(), Run { number, reads: Vec::new() })),
        }
        number
    }

    /// Registers what a run is about to read, unless its request was forgotten meanwhile.
    fn register(&mut self, request: &Key, number: u64, interest: Interest) -> Arc<Interest> {
        let known = self.readers.get_key_value(&interest).map(|(known, _)| known.clone());
        let interest = known.unwrap_or_else(|| Arc::new(interest));
        let Some(run) = self.requests.get_mut(request).filter(|run| run.number == number) else { return interest };
        if !self.readers.contains_key(&interest)
            && let Some(collection) = interest.collection()
        {
            self.collections.entry(collection.clone()).or_default().interests += 1;
        }
        let readers = self.readers.entry(interest.clone()).or_insert_with(|| Vec::with_capacity(1));
        if let Err(at) = readers.binary_search(request) {
            readers.insert(at, request.clone());
            run.reads.push(interest.clone());
        }
        interest
    }

    fn finish(&mut self, request: &Key, number: u64, kept: impl Fn(&Arc<Interest>) -> bool) {
        let Some(run) = self.requests.get_mut(request).filter(|run| run.number == number) else { return };
        let dropped: Vec<_> = run.reads.extract_if(.., |read| !kept(read)).collect();
        run.reads.shrink_to_fit();
        if run.reads.is_empty() {
            self.requests.remove(request);
        }
        dropped.iter().for_each(|interest| self.remove(request, interest));
    }

    fn remove(&mut self, request: &Key, interest: &Arc<Interest>) {
        let Some(readers) = self.readers.get_mut(interest) else { return };
        if let Ok(at) = readers.binary_search(request) {
            readers.remove(at);
        }
        if !readers.is_empty() {
            return;
        }
        self.readers.remove(interest);
        if let Some(used) = interest.collection().and_then(|collection| self.collections.get_mut(collection)) {
            used.interests -= 1;
        }
    }
}

/// What a source waits for, for people.
pub fn open_in_words(facts: &Facts<'_>) -> Vec<String> {
    let words: BTreeSet<String> = facts.open().filter_map(in_words).collect();
    words.into_iter().chain(["a change of the source, or of its objects".to_owned()]).collect()
}

fn in_words(interest: &Interest) -> Option<String> {
    let Interest::Topic(topic) = interest else { return None };
    Some(match topic {
        Topic::Synced(Collection::Sources(at)) => format!("the sources at {at} to be listed"),
        Topic::Synced(Collection::Kind(_, kind)) => format!("{} to be listed", kind.kind),
        Topic::Synced(Collection::Target) => "its objects to be listed".to_owned(),
        Topic::Synced(Collection::Related(of)) => format!("{} to be listed", of.resource),
        Topic::Schema(at) => format!("the schema of its API at {at} to be read"),
        Topic::Placement(_, place) => format!("news of who else uses {place}"),
        Topic::Identity(cluster) => format!("the cluster {cluster} to be confirmed"),
        Topic::Binding(cluster) => format!("{cluster} to be engaged"),
        Topic::Store(cluster) => format!("the state store on {cluster} to be confirmed"),
        Topic::PassComplete => "every source to be looked at once".to_owned(),
    })
}

#[cfg(test)]
mod tests;
