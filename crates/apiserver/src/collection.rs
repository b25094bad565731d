//! All objects of one resource, over all logical clusters, and what happened to them lately.
//!
//! Objects are kept as the JSON that is sent: a write parses it again, reads and watches never do.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::Value;

use super::garbage;
use super::object;
use super::resource::Storage;
use super::timestamp::Timestamp;
use sync_engine_mapping::object::json_text;

/// Where an object is: ordered so that a cluster's objects, and a namespace's, stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Logical cluster; empty in a plain Kubernetes cluster.
    pub cluster: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// One version of an object.
#[derive(Debug)]
pub struct Stored {
    /// The resourceVersion.
    pub version: u64,
    pub uid: Box<str>,
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Uids of `metadata.ownerReferences`.
    pub owners: Box<[Box<str>]>,
    /// The whole object as JSON.
    pub body: Bytes,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One write, as watches see it.
#[derive(Debug)]
pub struct Change {
    pub storage: Storage,
    pub key: Key,
    /// Shard of the object's logical cluster.
    pub shard: usize,
    pub kind: ChangeKind,
    pub at: Timestamp,
    /// The object after it; for a deletion its last state, under the version of the deletion.
    pub object: Arc<Stored>,
    /// The object before it.
    pub previous: Option<Arc<Stored>>,
    /// Field manager of the request that it came of.
    pub author: Arc<str>,
}

/// One write, shared by the history and every watch.
pub type Event = Arc<Change>;

/// The objects of one resource and their recent history.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    objects: BTreeMap<Key, Arc<Stored>>,
    history: VecDeque<Event>,
    /// The same by logical cluster: who watches one does not go through what happened in the others.
    of_clusters: HashMap<Arc<str>, VecDeque<Event>>,
    /// The history is complete after this version.
    compacted: u64,
}

impl Key {
    pub fn new(cluster: &str, namespace: &str, name: &str) -> Key {
        Key { cluster: cluster.into(), namespace: namespace.into(), name: name.into() }
    }
}

impl Stored {
    /// Takes an object into storage under a version, which is written into it.
    pub fn new(mut object: Value, version: u64) -> Stored {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        Stored {
            version,
            uid: object::text(&object, "uid").into(),
            labels: labels.collect(),
            deleting: object::is_deleting(&object),
            owners: garbage::owners_of(&object),
            body: json_text(&object).into(),
        }
    }

    /// The object, parsed.
    pub fn object(&self) -> Value {
        serde_json::from_slice(&self.body).expect("only JSON objects are stored")
    }
}

impl Collection {
    pub fn get(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// Objects of a logical cluster, in order, of one namespace or of all; beginning after a key.
    pub fn of_cluster<'a>(
        &'a self,
        cluster: &'a str,
        namespace: Option<&'a str>,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
        let first = Key::new(cluster, namespace.unwrap_or_default(), "");
        let start = match after {
            Some(after) if *after > first => Bound::Excluded(after.clone()),
            _ => Bound::Included(first),
        };
        self.objects.range((start, Bound::Unbounded)).take_while(move |(key, _)| {
            &*key.cluster == cluster && namespace.is_none_or(|namespace| &*key.namespace == namespace)
        })
    }

    /// Puts a change into force and into the history, of which at most `limit` changes are kept.
    pub(super) fn commit(&mut self, event: Event, limit: usize) {
        match event.kind {
            ChangeKind::Deleted => drop(self.objects.remove(&event.key)),
            _ => drop(self.objects.insert(event.key.clone(), event.object.clone())),
        }
        self.of_clusters.entry(event.key.cluster.clone()).or_default().push_back(event.clone());
        self.history.push_back(event);
        if self.history.len() > limit {
            self.forget_oldest();
        }
    }

    /// Forgets the history up to a version.
    pub(super) fn compact(&mut self, version: u64) {
        while self.history.front().is_some_and(|oldest| oldest.object.version <= version) {
            self.forget_oldest();
        }
        self.compacted = self.compacted.max(version);
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.history.pop_front() else { return };
        self.compacted = oldest.object.version;
        let Entry::Occupied(mut of_cluster) = self.of_clusters.entry(oldest.key.cluster.clone()) else { return };
        // In both in the order of versions, so that the oldest of all is the oldest of its cluster.
        of_cluster.get_mut().pop_front();
        if of_cluster.get().is_empty() {
            of_cluster.remove();
        }
    }

    /// What happened after a version, in one logical cluster or in all; `None` where that is no longer known.
    pub(super) fn since(&self, version: u64, cluster: Option<&str>) -> Option<impl DoubleEndedIterator<Item = &Event>> {
        let history = match cluster {
            None => Some(&self.history),
            Some(cluster) => self.of_clusters.get(cluster),
        };
        let events = history
            .into_iter()
            .flat_map(move |history| history.range(history.partition_point(|event| event.object.version <= version)..));
        (version >= self.compacted).then_some(events)
    }
}
