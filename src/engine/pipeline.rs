//! One running mapping: its watches, its queue, its workers.
//!
//! A pipeline outlives the generations of its mapping: a reload swaps the generation, keeps the watches that did not
//! change, and puts every source into the queue again.

mod guard;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use hashbrown::{HashMap, HashSet};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{Instrument, error, info_span, warn};

use super::inventory::{Inventory, SourceId};
use super::target::Target;
use super::{Shared, worker};
use crate::mapping::template::Text;
use crate::mapping::{Kind, Mapping, Resource};
use crate::multicluster::backoff::{Backoff, Jitter};
use crate::multicluster::queue::Priority;
use crate::multicluster::registry::{Cluster, WatchScope};
use crate::multicluster::store::{Cause, Change};
use crate::multicluster::watch::{Selectors, Watch, WatchState};
use crate::multicluster::work_queue::WorkQueue;
use crate::multicluster::{Object, Subscription};
use crate::object::marks::{self, Origin, Owner, Reference, Writer};
use crate::object::{ClusterName, Key};
use crate::plan::{Cause as Reason, Phase};
use guard::Guard;

/// Why a target is not written to before its inventory is confirmed.
const NOT_READ: &str = "the inventory on its target is not read yet";

/// How often a schema that is not published is asked for: about ten minutes.
const SCHEMA_TRIES: u32 = 24;

/// How soon a schema that could not be read is asked for again.
const SCHEMA_RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30) };

/// One generation of a mapping, pinned by a reconcile from start to end.
#[derive(Debug)]
pub struct Generation {
    pub mapping: Arc<Mapping>,
    pub phase: Phase,
    pub target: Arc<Target>,
    /// Set where this is a former document of the mapping: the source that it served.
    pub former: Option<SourceId>,
}

impl Generation {
    pub fn new(mapping: Arc<Mapping>, phase: Phase, target: Arc<Target>) -> Self {
        Self { mapping, phase, target, former: None }
    }

    /// A former document of a mapping: deletions and finalizers of its source alone.
    pub fn former(mapping: Arc<Mapping>, source: SourceId, target: Arc<Target>) -> Self {
        Self { mapping, phase: Phase::DeletionsOnly, target, former: Some(source) }
    }
}

/// A running mapping.
#[derive(Debug)]
pub struct Pipeline {
    pub writer: Writer,
    pub shared: Arc<Shared>,
    pub queue: WorkQueue<Key>,
    generation: ArcSwap<Generation>,
    state: Mutex<State>,
    /// Its numbers stand for keys that tenants choose: SipHash, unlike the maps' own.
    hasher: RandomState,
    /// Rings when the inventory has to be looked at again.
    inventory_due: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// One feed per address at which sources are watched.
    sources: BTreeMap<String, Arc<SourceFeed>>,
    /// One feed per kind on the target.
    kinds: BTreeMap<Kind, Arc<KindFeed>>,
    /// Which source an owner label speaks of, by the label's hash. A collision costs one needless reconcile.
    origins: HashMap<u64, Key>,
    /// Which sources are placed into a namespace, where the mapping has shared objects.
    placed: HashMap<Arc<str>, BTreeSet<Key>>,
    /// The namespace that a source is placed into, by the hash of its key. A collision keeps shared objects for too long.
    place_of: HashMap<u64, Arc<str>>,
    /// Sources of the first lists that have not been reconciled yet; `placed` is not complete before.
    unprimed: HashSet<Key>,
    /// Sources whose last plan did not end in sync, and why.
    unsettled: BTreeMap<Key, Unsettled>,
    /// Sources being reconciled now: what changes while they look has to wake them as well.
    looking: HashSet<Key>,
    /// Versions that were answered by a conflict: read anew if the cache does not move on.
    conflicts: HashMap<Key, String>,
    /// Status leaves that the consumer's server drops.
    unkept_status: Arc<BTreeSet<String>>,
    /// Status leaves that a consumer's server refused, with the value and the reason, by source.
    refused_status: HashMap<Key, RefusedStatus>,
    /// Sources that were seen being deleted, or were released, and under which uid.
    deleted: HashMap<Key, (String, Instant)>,
    /// Since when a source is missing whose objects exist.
    missing: HashMap<Key, Instant>,
    /// Deletions without an answer: a late one may still take effect.
    unanswered: BTreeMap<Reference, Instant>,
    /// Whether deletions that the document asks for are held back.
    guard: Guard,
    /// What the state store on the target says.
    store: Inventory,
    /// The namespace rules of former documents.
    former_placements: Vec<Arc<Text>>,
    /// Former sources that carry the engine's finalizer no more.
    done: BTreeSet<SourceId>,
    /// Why the state store is not confirmed.
    unconfirmed: Option<String>,
}

/// How the last plan of a source ended, where it did not end in sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// The worst of its reasons; `None`: a request about the source failed.
    pub cause: Option<Reason>,
    pub orphans: bool,
    pub why: String,
}

/// Refused leaves by JSON pointer, and the mapping that they were written by.
type RefusedStatus = (Arc<Mapping>, BTreeMap<String, (serde_json::Value, String)>);

/// Source objects of one address.
#[derive(Debug)]
pub struct SourceFeed {
    pub scope: WatchScope,
    pub watch: Arc<Watch>,
    pub subscription: Subscription,
}

/// Our objects of one kind on the target.
#[derive(Debug)]
pub struct KindFeed {
    pub served: super::target::ServedKind,
    pub scope: WatchScope,
    pub watch: Arc<Watch>,
    pub subscription: Subscription,
}

impl Pipeline {
    pub fn new(writer: Writer, shared: Arc<Shared>, generation: Generation) -> Arc<Self> {
        let reconcile = &generation.mapping.reconcile;
        let queue = WorkQueue::new(
            Backoff { min: reconcile.backoff_min, max: reconcile.backoff_max },
            generation.target.endpoint().connection().entropy(),
        );
        let state = State { unconfirmed: Some(NOT_READ.into()), ..State::default() };
        let generation = ArcSwap::from_pointee(generation);
        Arc::new(Self {
            writer,
            shared,
            queue,
            generation,
            state: Mutex::new(state),
            hasher: RandomState::new(),
            inventory_due: Notify::new(),
        })
    }

    pub fn generation(&self) -> Arc<Generation> {
        self.generation.load_full()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a generation is what runs already.
    pub fn runs(&self, generation: &Generation) -> bool {
        let current = self.generation();
        Arc::ptr_eq(&current.mapping, &generation.mapping)
            && current.phase == generation.phase
            && Arc::ptr_eq(&current.target, &generation.target)
    }

    /// Swaps the generation. Watches that are no longer needed are dropped, the others stay open.
    pub fn swap(self: &Arc<Self>, generation: Generation) {
        let former = self.generation.swap(Arc::new(generation));
        let current = self.generation();
        let mut state = self.state();
        if former.mapping.source.resource != current.mapping.source.resource
            || former.mapping.source.clusters != current.mapping.source.clusters
        {
            state.sources.clear();
            state.origins.clear();
            state.placed.clear();
            state.place_of.clear();
        }
        if !Arc::ptr_eq(&former.target, &current.target) {
            state.kinds.clear();
            state.unconfirmed = Some(NOT_READ.into());
        }
        if former.mapping.text != current.mapping.text {
            state.unkept_status = Arc::default();
            state.unconfirmed = Some(NOT_READ.into());
        }
        drop(state);
        self.check_inventory();
    }

    /// Has the inventory looked at again: its mapping, its source or its target is another.
    pub fn check_inventory(&self) {
        self.inventory_due.notify_one();
    }

    /// Cancel-safe: a permit that is not taken stays stored.
    pub async fn inventory_due(&self) {
        self.inventory_due.notified().await;
    }

    /// The target is another cluster: nothing that was found out there holds here.
    pub fn target_replaced(&self) {
        let mut state = self.state();
        state.kinds.clear();
        state.unconfirmed = Some(NOT_READ.into());
    }

    /// Whether every collection of sources is in sight and none of them carries the engine's finalizer.
    pub fn holds_no_source(&self) -> bool {
        self.source_feeds().iter().all(|feed| feed.watch.state() == WatchState::Synced) && self.sources_held() == 0
    }

    /// How many sources in sight carry the engine's finalizer.
    pub fn sources_held(&self) -> usize {
        let finalizer = format!("\"{}\"", self.writer.finalizer());
        let held = |feed: &SourceFeed| {
            let store = feed.watch.store();
            let carries = |key: &Key| store.get(key).is_some_and(|object| object.json().contains(&finalizer));
            store.keys().iter().filter(|key| carries(key)).count()
        };
        self.source_feeds().iter().map(|feed| held(feed)).sum()
    }

    /// For logs and health: the mapping's name, with its source where that is a former one.
    pub fn name(&self) -> String {
        let mapping = self.writer.mapping();
        match &self.generation().former {
            Some(source) => format!("{mapping} (former source {})", source.resource),
            None => mapping.to_owned(),
        }
    }

    /// A former source of the mapping carries the engine's finalizer no more.
    pub fn former_is_done(&self, source: SourceId) {
        self.state().done.insert(source);
        self.check_inventory();
    }

    pub fn is_done(&self, source: &SourceId) -> bool {
        self.state().done.contains(source)
    }

    /// Follows the sources of a cluster, and queues those that are there.
    pub fn engage(self: &Arc<Self>, cluster: &Cluster, tasks: &mut JoinSet<()>) {
        let scope = &cluster.spec.scope;
        let feed = self.source_feed(scope, tasks);
        for (key, _) in feed.watch.store().of_cluster(&cluster.spec.name) {
            self.enqueue_source(&key, Priority::Initial);
        }
        let orphaned: Vec<Key> = self.unsettled().into_keys().filter(|key| key.cluster == cluster.spec.name).collect();
        orphaned.into_iter().for_each(|key| self.queue.add(key, Priority::Initial));
    }

    /// Forgets what is queued for a cluster, and the feed that served no other.
    pub fn disengage(&self, cluster: &Cluster, still_used: bool) {
        self.queue.remove_cluster(&cluster.spec.name);
        let mut state = self.state();
        state.unprimed.retain(|key| key.cluster != cluster.spec.name);
        let left: Vec<Key> = state.unsettled.keys().filter(|key| key.cluster == cluster.spec.name).cloned().collect();
        let dropped = if still_used { None } else { state.sources.remove(cluster.spec.scope.endpoint.url()) };
        drop(state);
        drop(dropped);
        // What they have on the target is counted as orphaned.
        left.into_iter().for_each(|key| self.queue.add(key, Priority::Initial));
    }

    fn source_feed(self: &Arc<Self>, scope: &WatchScope, tasks: &mut JoinSet<()>) -> Arc<SourceFeed> {
        let url = scope.endpoint.url().to_owned();
        if let Some(feed) = self.state().sources.get(&url) {
            return feed.clone();
        }
        let resource = &self.generation().mapping.source.resource;
        let watch = self.shared.watches.acquire(scope, resource, &Selectors::default());
        let pipeline = Arc::downgrade(self);
        let subscription = watch.store().subscribe(move |change| {
            if let Some(pipeline) = pipeline.upgrade() {
                pipeline.source_changed(change);
            }
        });
        self.follow_states(&watch, tasks);
        tasks.spawn(self.clone().read_schema(watch.clone(), scope.clone(), resource.clone()));
        let feed = Arc::new(SourceFeed { scope: scope.clone(), watch, subscription });
        self.state().sources.insert(url, feed.clone());
        feed
    }

    /// Reads the consumer's schema once its resource is served; what waited for it goes on.
    async fn read_schema(self: Arc<Self>, watch: Arc<Watch>, scope: WatchScope, resource: Resource) {
        let mut states = watch.states();
        if states.wait_for(|state| *state == WatchState::Synced).await.is_err() {
            return;
        }
        let mut jitter = Jitter::new(scope.endpoint.connection().entropy());
        let (mut tries, mut failures) = (0, 0);
        while tries < SCHEMA_TRIES {
            let loaded = self.shared.schemas.check(&scope.endpoint, &resource).await.map(|known| known.is_published());
            match loaded {
                Ok(true) if tries == 0 => return self.wake_unsettled(),
                // What was decided without it may be another now.
                Ok(true) => return self.enqueue_all(),
                // A server publishes the schema of a new API a moment after it serves it.
                Ok(false) => {
                    tries += 1;
                    self.wake_unsettled();
                }
                Err(error) => {
                    failures += 1;
                    warn!(%resource, %error, "the schema of the source cannot be read yet");
                }
            }
            tokio::time::sleep(SCHEMA_RETRY.delay(tries + failures, &mut jitter)).await;
        }
    }

    /// Opens the watches on the target's kinds as far as they are resolved.
    pub fn follow_kinds(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let generation = self.generation();
        for kind in self.kinds() {
            generation.target.want(&kind);
            let (Ok(served), Some(scope)) = (generation.target.kind(&kind), generation.target.scope()) else {
                continue;
            };
            if self.state().kinds.get(&kind).is_some_and(|feed| feed.scope == scope) {
                continue;
            }
            let selectors =
                Selectors { label: format!("{}={}", marks::MAPPING, self.writer.label()), ..Selectors::default() };
            let watch = self.shared.watches.acquire(&scope, &served.resource, &selectors);
            let pipeline = Arc::downgrade(self);
            let of = kind.clone();
            let subscription = watch.store().subscribe(move |change| {
                if let Some(pipeline) = pipeline.upgrade() {
                    pipeline.target_changed(&of, change);
                }
            });
            self.follow_states(&watch, tasks);
            let feed = Arc::new(KindFeed { served, scope, watch, subscription });
            let former = self.state().kinds.insert(kind.clone(), feed.clone());
            drop(former);
            self.queue_standing(&kind, &feed);
        }
    }

    /// What stood in a store before the subscription is queued by hand: a watch that another generation left open.
    fn queue_standing(&self, kind: &Kind, feed: &KindFeed) {
        for key in feed.watch.store().keys() {
            if let Some(object) = feed.watch.store().get(&key) {
                self.enqueue_origin(kind, &key, &object, Priority::Initial);
            }
        }
    }

    /// Wakes what waits whenever a watch comes or goes.
    fn follow_states(self: &Arc<Self>, watch: &Arc<Watch>, tasks: &mut JoinSet<()>) {
        let mut states = watch.states();
        let pipeline = Arc::downgrade(self);
        tasks.spawn(async move {
            while states.changed().await.is_ok() {
                let Some(pipeline) = pipeline.upgrade() else { return };
                pipeline.wake_unsettled();
            }
        });
    }

    /// The kinds of the mapping, and those which only its inventory still names.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        let mut kinds: BTreeSet<Kind> =
            self.generation().mapping.objects.iter().map(|rule| rule.kind.clone()).collect();
        let same = |a: &Kind, b: &Kind| a.group == b.group && a.kind == b.kind;
        let former: Vec<Kind> =
            self.state().store.kinds.iter().filter(|old| !kinds.iter().any(|new| same(old, new))).cloned().collect();
        kinds.extend(former);
        kinds
    }

    pub fn kind_feed(&self, kind: &Kind) -> Option<Arc<KindFeed>> {
        self.state().kinds.get(kind).cloned()
    }

    /// Gathers something over all kinds on the target.
    pub fn each_kind<T>(&self, gather: impl Fn(&Kind, &KindFeed) -> Vec<T>) -> Vec<T> {
        self.state().kinds.iter().flat_map(|(kind, feed)| gather(kind, feed)).collect()
    }

    pub fn kind_feeds(&self) -> Vec<(Kind, Arc<KindFeed>)> {
        self.state().kinds.iter().map(|(kind, feed)| (kind.clone(), feed.clone())).collect()
    }

    /// The feed that serves a cluster's sources.
    pub fn feed_of(&self, cluster: &Cluster) -> Option<Arc<SourceFeed>> {
        self.state().sources.get(cluster.spec.scope.endpoint.url()).cloned()
    }

    pub fn source_feeds(&self) -> Vec<Arc<SourceFeed>> {
        self.state().sources.values().cloned().collect()
    }

    fn source_changed(&self, change: &Change<'_>) {
        if let (Some(last), None) = (change.before, change.after)
            && last.deleting()
        {
            self.saw_deletion(change.key, last.uid());
        }
        let priority = if change.cause == Cause::InitialList { Priority::Initial } else { Priority::Live };
        if self.is_engaged(&change.key.cluster) {
            self.enqueue_source(change.key, priority);
        }
    }

    fn enqueue_source(&self, key: &Key, priority: Priority) {
        let owner = self.owner(key);
        let mut state = self.state();
        if let Some(owner) = owner {
            state.origins.insert(self.label_hash(&owner.0), key.clone());
        }
        if priority == Priority::Initial {
            state.unprimed.insert(key.clone());
        }
        drop(state);
        self.queue.add(key.clone(), priority);
    }

    fn target_changed(&self, kind: &Kind, change: &Change<'_>) {
        let priority = if change.cause == Cause::InitialList { Priority::Initial } else { Priority::Live };
        let Some(object) = change.after.or(change.before) else { return };
        self.enqueue_origin(kind, change.key, object, priority);
    }

    /// Queues the source of a downstream object: by our own index, else as its marks say, if they are true.
    fn enqueue_origin(&self, kind: &Kind, at: &Key, object: &Object, priority: Priority) {
        let known = object.owner().and_then(|owner| self.state().origins.get(&self.label_hash(owner)).cloned());
        if let Some(key) = known {
            return self.queue.add(key, priority);
        }
        let reference =
            Reference { kind: kind.clone(), namespace: at.namespace.to_string(), name: at.name.to_string() };
        let origin = object.value().ok().and_then(|value| marks::origin(&self.writer, &value, &reference));
        if let Some(key) = origin.and_then(|origin| self.key_of(&origin)) {
            return self.queue.add(key, priority);
        }
        let placed = self.state().placed.get(&*at.namespace).cloned().unwrap_or_default();
        placed.into_iter().for_each(|key| self.queue.add(key, priority));
    }

    /// The owner of a source's objects, where its cluster is engaged.
    fn owner(&self, key: &Key) -> Option<Owner> {
        let source = &self.generation().mapping.source;
        let cluster = self.shared.manager.cluster(&source.clusters, &key.cluster)?;
        Some(self.writer.owner(&Origin::new(&source.resource, cluster.identity(), key)))
    }

    /// The key of a source that an object names, if it is of this mapping's resource. The cluster needs not be engaged: in
    /// kcp, its identity is its name.
    fn key_of(&self, origin: &Origin) -> Option<Key> {
        let source = &self.generation().mapping.source;
        if source.resource.group_plural() != origin.resource {
            return None;
        }
        let engaged = self.shared.manager.cluster_of_identity(&source.clusters, &origin.cluster);
        let name = match engaged {
            Some(cluster) => cluster.spec.name.clone(),
            None => ClusterName::try_from(origin.cluster.as_str()).ok()?,
        };
        Some(Key::new(name, origin.namespace.as_str(), origin.name.as_str()))
    }

    /// Whether a source has objects on the target, by its owner label. In kcp, the identity of a cluster is its name.
    pub fn has_objects(&self, key: &Key) -> bool {
        let resource = &self.generation().mapping.source.resource;
        let owner = self.writer.owner(&Origin::new(resource, key.cluster.as_str(), key));
        self.kind_feeds().iter().any(|(_, feed)| !feed.watch.store().of_owner(&owner.0).is_empty())
    }

    fn label_hash(&self, owner: &str) -> u64 {
        self.hasher.hash_one(owner)
    }

    pub fn is_engaged(&self, cluster: &ClusterName) -> bool {
        let manager = &self.shared.manager;
        manager.owns(cluster) && manager.cluster(&self.generation().mapping.source.clusters, cluster).is_some()
    }

    /// Queues every source that is there: after a reload, and on the long resync.
    pub fn enqueue_all(&self) {
        for feed in self.source_feeds() {
            for key in feed.watch.store().keys() {
                if self.is_engaged(&key.cluster) {
                    self.enqueue_source(&key, Priority::Initial);
                }
            }
        }
        for (kind, feed) in self.kind_feeds() {
            self.queue_standing(&kind, &feed);
        }
    }

    /// Takes requests from the queue until it is closed, then waits for those in flight.
    pub async fn run(self: Arc<Self>) {
        let mut running = JoinSet::new();
        loop {
            let full = running.len() >= self.generation().mapping.reconcile.concurrency.max(1);
            tokio::select! {
                biased;
                // Cancel-safe: a task that ended stays in the set.
                Some(ended) = running.join_next() => if let Err(error) = ended {
                    error!(mapping = self.writer.mapping(), %error, "a reconcile ended abnormally; it is tried again");
                },
                // Cancel-safe by its contract.
                lease = self.queue.next(), if !full => match lease {
                    None => break,
                    Some(lease) => {
                        let span = info_span!("reconcile", mapping = self.writer.mapping(), object = %lease.key());
                        // On the heap from the start: it is large, and would be copied at each step of its way into the task.
                        running.spawn(Box::pin(worker::reconcile(self.clone(), lease)).instrument(span));
                    }
                },
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Puts every source into the queue again after each `resync`.
    pub async fn resync(self: Arc<Self>) {
        loop {
            let period = self.generation().mapping.reconcile.resync.max(Duration::from_secs(1));
            tokio::time::sleep(period).await;
            self.enqueue_all();
        }
    }
}
