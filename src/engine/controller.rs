//! What runs for a mapping: its sources and their queue, and a [pipeline](Pipeline) for each of its targets.
//!
//! One reconcile of a source sees all targets. A controller outlives the generations of its mapping: a reload swaps the
//! generation, keeps the watches that did not change, and puts every source into the queue again.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::field::Empty;
use tracing::{Instrument, error, info_span};

use super::interests::{Collection, Interest, Interests, Topic, selection};
use super::keeper::ToldHome;
use super::pipeline::wakes::target_reference;
use super::pipeline::{Pipeline, recorded_as};
use super::turns::SLOW;
use super::{Shared, worker};
use crate::mapping::{Kind, Mapping, Side};
use crate::multicluster::Object;
use crate::multicluster::backoff::Backoff;
use crate::multicluster::permit::Epoch;
use crate::multicluster::queue::Priority;
use crate::multicluster::registry::{Cluster, ClustersOf, Reason as Disengaged};
use crate::multicluster::store::{Change, ChangeCause};
use crate::multicluster::watch::WatchState;
use crate::multicluster::work_queue::{InFlight, WorkQueue};
use crate::object::marks::{self, Origin, Owner, Writer};
use crate::object::{ClusterName, Key, has_finalizer};
use crate::plan;
use sources::Sources;

pub use sources::Feed;

/// How long news of one of several targets waits for that of the others, so that a source is looked at once for all.
const NEWS_TOGETHER: Duration = Duration::from_millis(20);

/// How many times as many sources as are worked on at once may wait for slow targets besides.
const MOST_LENT: usize = 3;

#[derive(Debug)]
pub struct Controller {
    pub writer: Writer,
    pub shared: Arc<Shared>,
    pub queue: WorkQueue,
    pub interests: Interests,
    mapping: ArcSwap<Mapping>,
    /// One for each target, by its slot's name of that.
    pipelines: Mutex<BTreeMap<String, Weak<Pipeline>>>,
    /// The clusters of a provider that may be targets now.
    selected: ArcSwap<BTreeSet<String>>,
    /// The targets that the mapping runs on, where it may have several.
    targets: ArcSwap<BTreeSet<String>>,
    /// Whether the state stores are to be looked at with the next tick: the targets are others.
    are_stores_due: AtomicBool,
    sources: Mutex<Sources>,
    /// Its numbers stand for keys that tenants choose: SipHash, unlike the maps' own.
    hasher: RandomState,
    /// Rings when the schemas of the source have to be looked at again.
    schema_due: Epoch,
    /// Sources that wait for a slow target of several, and leave their places to others, each have one more of this.
    lent: Arc<()>,
    /// Rings when one more does.
    has_room: Notify,
    /// What home says of the mapping's targets.
    pub told_home: tokio::sync::Mutex<ToldHome>,
    /// The last document that home or a state store had while it ran, also that of a target that is gone.
    pub last_recorded: Mutex<Option<Arc<str>>>,
}

/// A cluster that is no longer engaged.
#[derive(Debug)]
pub struct Gone {
    pub cluster: Arc<Cluster>,
    pub reason: Disengaged,
    /// Whether what is watched for it is watched for another engaged one too.
    pub still_used: bool,
}

/// Since when a consumer's change is not carried out.
#[derive(Debug)]
struct Changed {
    since: Instant,
    /// Whether anything was written for it.
    has_written: bool,
}

/// Reconciles a source when it is its turn. One of several targets that is slow keeps no source of the others waiting.
async fn in_turn(controller: Arc<Controller>, taken: InFlight) {
    let work = async {
        // On the heap from the start: it is large, and would be copied at each step of its way.
        let mut work = Box::pin(worker::reconcile(controller.clone(), taken));
        if controller.pipelines.lock().len() < 2 {
            return work.await;
        }
        if timeout(SLOW, &mut work).await.is_err() {
            let _lent = controller.lend_place();
            work.await;
        }
    };
    controller.shared.turns.take(work).await;
}

impl Controller {
    /// `seed`: of the jitter in the backoff of its queue.
    pub fn new(writer: Writer, shared: Arc<Shared>, mapping: Arc<Mapping>, seed: u64) -> Arc<Self> {
        let reconcile = &mapping.reconcile;
        let queue = WorkQueue::new(Backoff { min: reconcile.backoff_min, max: reconcile.backoff_max }, seed);
        Arc::new(Self {
            writer,
            shared,
            queue,
            interests: Interests::default(),
            mapping: ArcSwap::new(mapping),
            pipelines: Mutex::default(),
            selected: ArcSwap::default(),
            targets: ArcSwap::default(),
            are_stores_due: AtomicBool::default(),
            sources: Mutex::default(),
            hasher: RandomState::new(),
            schema_due: Epoch::default(),
            lent: Arc::default(),
            has_room: Notify::new(),
            told_home: tokio::sync::Mutex::default(),
            last_recorded: Mutex::default(),
        })
    }

    /// A source waits for a slow target: another one is worked on in its place, as long as this is held.
    fn lend_place(&self) -> Arc<()> {
        let lent = self.lent.clone();
        self.has_room.notify_one();
        lent
    }

    /// The document that runs.
    pub fn mapping(&self) -> Arc<Mapping> {
        self.mapping.load_full()
    }

    /// One for each target, in the order of their names.
    pub fn pipelines(&self) -> Vec<Arc<Pipeline>> {
        self.pipelines.lock().values().filter_map(Weak::upgrade).collect()
    }

    pub fn add(&self, target: &str, pipeline: &Arc<Pipeline>) {
        self.pipelines.lock().insert(target.to_owned(), Arc::downgrade(pipeline));
    }

    pub fn remove(&self, target: &str) {
        self.pipelines.lock().remove(target);
    }

    pub fn selected(&self) -> Arc<BTreeSet<String>> {
        self.selected.load_full()
    }

    /// These may be from now on. `true`: others were before.
    pub fn select(&self, selected: BTreeSet<String>) -> bool {
        *self.selected.swap(Arc::new(selected.clone())) != selected
    }

    pub fn targets(&self) -> Arc<BTreeSet<String>> {
        self.targets.load_full()
    }

    /// The mapping runs on these targets from now on. `true`: they were others before, or a pipeline is new. One that it does not
    /// run on for now is not left: it may hold objects.
    pub fn targets_are(&self, names: BTreeSet<String>) -> bool {
        let names = Arc::new(names);
        let mut is_news = *self.targets.swap(names.clone()) != *names;
        for one in self.pipelines() {
            // One that has begun anew did not see what the others have.
            if one.has_targets(&names) {
                // It may have told home of the targets before it was one of them.
                one.check_inventory();
                is_news = true;
            }
        }
        is_news
    }

    /// Has all state stores looked at with the next tick: they are to name other targets. The clusters of a fleet come into sight one
    /// by one, and each state store would be written for each of them. Home names a target before that is written to.
    pub fn check_stores_soon(&self) {
        self.are_stores_due.store(true, Ordering::Relaxed);
    }

    /// Another document runs. Sources that it does not read are forgotten.
    pub fn swap(&self, mapping: &Arc<Mapping>) {
        let former = self.mapping.swap(mapping.clone());
        if former.source.resource != mapping.source.resource || former.source.clusters != mapping.source.clusters {
            let known = std::mem::take(&mut *self.sources.lock());
            self.interests.retain(|_| false);
            // What is known of them goes once they are found missing, also where one is in flight.
            known.origins.into_values().for_each(|key| self.queue.add(key, Priority::Initial));
        }
        // What a document newly writes may be what its consumers' API newly has.
        self.schema_due.advance();
    }

    pub fn is_engaged(&self, cluster: &ClusterName) -> bool {
        self.shared.manager.cluster(&self.mapping().source.clusters, cluster).is_some()
    }

    /// A fact has changed: queues who reads it now or waits for it.
    pub fn touch(&self, topic: Topic) {
        self.touch_but_for(topic, None);
    }

    /// The same of a fact about what other sources do: it wakes all but this one.
    pub fn touch_but_for(&self, topic: Topic, source: Option<&Key>) {
        let woken = self.interests.touch(&Interest::Topic(topic), Priority::Initial).into_iter();
        woken.filter(|(key, _)| Some(key) != source).for_each(|(key, priority)| self.queue.add(key, priority));
    }

    fn wake(&self, interest: &Interest, priority: Priority) {
        let woken = self.interests.touch(interest, priority);
        woken.into_iter().for_each(|(key, priority)| self.queue.add(key, priority));
    }

    /// A related object appeared, changed or vanished.
    fn related_changed(&self, of: &Collection, change: &Change<'_>) {
        let key = change.key;
        self.wake(&Interest::Object(of.clone(), key.clone()), Priority::Live);
        self.wake(&Interest::Selection(of.clone(), selection(&key.cluster, &key.namespace).into()), Priority::Live);
    }

    pub(super) fn source_changed(&self, change: &Change<'_>) {
        let pipelines = self.pipelines();
        // Somebody who may take the engine's finalizer off deletes a source at once. What a list does not show was not seen.
        if let (Some(last), None) = (change.before, change.after)
            && (change.cause == ChangeCause::Deleted || last.deleting())
        {
            pipelines.iter().for_each(|one| one.learned.lock().saw_deletion(change.key, last.uid(), Instant::now()));
        }
        if self.is_engaged(&change.key.cluster) {
            if change.before.is_none() {
                pipelines.iter().for_each(|one| one.came_into_sight(change.key));
            }
            if matches!(change.cause, ChangeCause::Event | ChangeCause::Deleted) {
                let changed = Changed { since: Instant::now(), has_written: false };
                self.sources.lock().changed.entry(change.key.clone()).or_insert(changed);
            }
            self.take_up(change);
        }
    }

    /// Queues a source that is listed or that changed.
    pub(super) fn take_up(&self, change: &Change<'_>) {
        if change.cause != ChangeCause::InitialList {
            return self.add_source(change.key, Priority::Live);
        }
        self.list_source(change.key);
        // Somebody waits for a source that was never taken in. The others of its cluster were served before.
        if change.after.is_some_and(|after| !after.json().contains(self.writer.finalizer())) {
            self.queue.add(change.key.clone(), Priority::Live);
        }
    }

    fn list_source(&self, key: &Key) {
        self.pipelines().iter().for_each(|one| one.listed(key));
        self.add_source(key, Priority::Initial);
    }

    fn add_source(&self, key: &Key, priority: Priority) {
        if let Some(owner) = self.owner(key) {
            let owner = self.label_hash(&owner.0);
            self.sources.lock().origins.insert(owner, key.clone());
        }
        self.queue.add(key.clone(), priority);
    }

    /// Queues every source that is there: after a reload, and on the long resync.
    pub fn enqueue_all(&self) {
        let all = self.pipelines();
        self.enqueue_for(&all.iter().map(|one| &**one).collect::<Vec<_>>());
    }

    /// The same for news of these targets alone: what was planned on the others holds, and what vanished sources have there was
    /// looked at.
    pub fn enqueue_for(&self, targets: &[&Pipeline]) {
        self.enqueue_sources(targets);
        for (kind, feed) in targets.iter().flat_map(|one| one.kind_feeds()) {
            self.queue_standing(&kind, &feed);
        }
        let clusters = self.shared.manager.clusters(&self.mapping().source.clusters);
        clusters.iter().for_each(|cluster| self.queue_copies(cluster));
    }

    /// The same of the sources in sight, for what no vanished source depends on: which targets there are. What was planned on targets
    /// other than these holds until then.
    pub fn enqueue_sources(&self, targets: &[&Pipeline]) {
        for feed in self.source_feeds() {
            for key in feed.keys() {
                if self.is_engaged(&key.cluster) {
                    targets.iter().for_each(|one| one.listed(&key));
                    self.add_source(&key, Priority::Initial);
                }
            }
        }
    }

    /// Queues a source that perhaps only its objects name: it may be missing.
    pub fn enqueue_named(&self, key: Key, priority: Priority) {
        self.note_named(&key);
        self.queue.add(key, priority);
    }

    fn note_named(&self, key: &Key) {
        self.pipelines().iter().for_each(|one| one.came_into_sight(key));
    }

    /// Queues the source of an object on a target: by our own index, else as its ownership annotations say, if they are true;
    /// and who reads what is shared in its namespace. Of a copy beside its source, these annotations alone tell.
    pub(super) fn enqueue_origin(&self, kind: &Kind, at: &Key, object: &Object, priority: Priority) {
        if kind.side == Side::Source {
            let named = self.source_of(kind, at, object).into_iter();
            return named.for_each(|key| self.enqueue_named(key, priority));
        }
        if let Some(owner) = object.owner() {
            self.wake(&Interest::Selection(Collection::Target, owner.into()), priority);
        }
        let named = || self.source_of(kind, at, object).inspect(|key| self.note_named(key));
        let Some(key) = self.known_source(object).or_else(named) else { return };
        match priority {
            Priority::Live if self.pipelines.lock().len() > 1 => self.queue.add_after(key, NEWS_TOGETHER),
            priority => self.queue.add(key, priority),
        }
    }

    /// The source of an object, where a list of sources has shown it.
    fn known_source(&self, object: &Object) -> Option<Key> {
        self.sources.lock().origins.get(&self.label_hash(object.owner()?)).cloned()
    }

    /// The sources that objects name: what those have that vanished, nothing else tells.
    pub fn named_by(&self, feeds: impl IntoIterator<Item = (Kind, Arc<Feed>)>) -> BTreeSet<Key> {
        let mut named = BTreeSet::new();
        for (kind, feed) in feeds {
            let source = |(at, object): (Key, Arc<Object>)| {
                self.known_source(&object).or_else(|| self.source_of(&kind, &at, &object))
            };
            named.extend(feed.objects().filter_map(source));
        }
        named
    }

    /// The source that an object names.
    pub(super) fn source_of(&self, kind: &Kind, at: &Key, object: &Object) -> Option<Key> {
        let origin = marks::origin(&self.writer, &object.outline().ok()?, &target_reference(kind, at))?;
        self.key_of(&origin, kind, at)
    }

    /// The owner of a source's objects, where its cluster is engaged.
    pub fn owner(&self, key: &Key) -> Option<Owner> {
        let source = &self.mapping().source;
        let cluster = self.shared.manager.cluster(&source.clusters, &key.cluster)?;
        Some(self.writer.owner(&Origin::new(&source.resource, cluster.identity(), key)))
    }

    /// The key of a source that an object names, if it is of this mapping's resource. The cluster needs not be engaged: in
    /// kcp, its identity is its name. An object beside its source is where the source is: whoever writes there may name any other.
    pub(super) fn key_of(&self, origin: &Origin, kind: &Kind, at: &Key) -> Option<Key> {
        let source = &self.mapping().source;
        if source.resource.group_plural() != origin.resource {
            return None;
        }
        let engaged = self.shared.manager.cluster_of_identity(&source.clusters, &origin.cluster);
        let name = match engaged {
            Some(cluster) => cluster.spec.name.clone(),
            None => ClusterName::try_from(origin.cluster.as_str()).ok()?,
        };
        let is_there = kind.side == Side::Target || name == at.cluster && *origin.namespace == *at.namespace;
        is_there.then(|| Key::new(name, origin.namespace.as_str(), origin.name.as_str()))
    }

    fn label_hash(&self, owner: &str) -> u64 {
        self.hasher.hash_one(owner)
    }

    /// Whether a consumer's change is not carried out yet.
    pub fn is_changed(&self, key: &Key) -> bool {
        self.sources.lock().changed.contains_key(key)
    }

    /// A reconcile ended. How long ago the change was, if something was written for it and nothing is left to write.
    pub fn synced_after(&self, key: &Key, has_written: bool, is_done: bool) -> Option<Duration> {
        let mut sources = self.sources.lock();
        let changed = sources.changed.get_mut(key)?;
        changed.has_written |= has_written;
        if !is_done {
            return None;
        }
        let Changed { since, has_written } = sources.changed.remove(key)?;
        has_written.then(|| since.elapsed())
    }

    /// The tables that grow and shrink with its sources, and how many entries each has.
    pub fn tables(&self) -> BTreeMap<&'static str, usize> {
        let pipelines = self.pipelines();
        let depth = self.queue.depth();
        let keys: Vec<Key> = self.sources.lock().changed.keys().cloned().collect();
        // The others wait for what is said of them there.
        let changed = keys.iter().filter(|key| !pipelines.iter().any(|one| one.is_unsettled(key))).count();
        let queued = depth.ready + depth.delayed + depth.in_flight;
        let own = [("queue", queued), ("changed", changed)].into_iter().chain(self.size());
        let mut tables = BTreeMap::new();
        for (table, entries) in own.chain(pipelines.iter().flat_map(|one| one.tables())) {
            *tables.entry(table).or_default() += entries;
        }
        tables
    }

    /// Nothing of a missing source is left on any target.
    pub fn forget(&self, key: &Key) {
        if let Some(owner) = self.owner(key) {
            let owner = self.label_hash(&owner.0);
            self.sources.lock().origins.remove(&owner);
        }
        self.interests.forget(key);
    }

    /// Forgets what is known of clusters, and the feeds that served no others. One walk serves all of them: a shard may take ten thousand
    /// along.
    pub fn disengage(&self, gone: &[Gone]) {
        // Each with what it is called by its identity.
        let names: HashMap<ClusterName, ClusterName> =
            gone.iter().map(|one| (one.cluster.spec.name.clone(), one.cluster.named_by_identity())).collect();
        let is_gone = |key: &Key| names.contains_key(&key.cluster);
        // One for each scope that nobody uses any more.
        let mut unused: Vec<&Gone> = Vec::new();
        for one in gone.iter().filter(|one| !one.still_used) {
            let is_known =
                |known: &&Gone| known.cluster.spec.scope == one.cluster.spec.scope && known.reason == one.reason;
            if !unused.iter().any(is_known) {
                unused.push(one);
            }
        }
        let left_for_good = unused.iter().filter(|one| self.has_left_for_good(&one.cluster, &one.reason));
        let left_for_good: Vec<&Cluster> = left_for_good.map(|one| &*one.cluster).collect();
        // In order, so that they are queued in order.
        let queued = gone.iter().flat_map(|one| self.queue.remove_cluster(&one.cluster.spec.name));
        let mut left: BTreeSet<Key> = queued.collect();
        left.extend(self.unfollow(is_gone, &unused));
        self.interests.retain(|key| !is_gone(key));
        let clusters: Vec<&Cluster> = gone.iter().map(|one| &*one.cluster).collect();
        for pipeline in self.pipelines() {
            left.extend(pipeline.forget_clusters(&clusters, &left_for_good));
        }
        self.sources_told();
        // One may have the same name again, at another address: what went meanwhile, no event tells.
        let both = |key: &Key| [key.clone(), key.in_cluster(names[&key.cluster].clone())];
        let left: BTreeSet<Key> = left.iter().flat_map(both).collect();
        // What they have on the target is counted as orphaned.
        left.into_iter().for_each(|key| self.enqueue_named(key, Priority::Initial));
    }

    /// Whether nothing of the engine is left where the last cluster has gone. kcp drops the address of a shard with the last
    /// binding there.
    fn has_left_for_good(&self, cluster: &Cluster, reason: &Disengaged) -> bool {
        let holds_none = |counts: fn(WatchState) -> bool| {
            let feeds = self.source_feeds();
            let is_empty = |feed: &Arc<Feed>| {
                counts(feed.watch.state()) && !feed.objects().any(|(_, object)| self.holds_source(&object, ""))
            };
            feeds.iter().find(|feed| feed.scope == cluster.spec.scope).is_some_and(is_empty)
        };
        match (reason, &cluster.spec.scope.clusters) {
            // kcp ends a binding once the objects are gone that it gave.
            (Disengaged::Removed, ClustersOf::Annotated) => true,
            (Disengaged::Removed, _) => holds_none(|state| state == WatchState::Synced),
            // At an address that is no longer served, a watch fails before anybody says so: what it showed last counts.
            (Disengaged::EndpointLost, _) => holds_none(|state| {
                !matches!(state, WatchState::Starting | WatchState::Failed { synced_before: false, .. })
            }),
            _ => false,
        }
    }

    /// Where the clusters of sources are: clusters by identity, and addresses of kcp shards.
    pub fn source_clusters(&self) -> BTreeSet<String> {
        let clusters = self.shared.manager.clusters(&self.mapping().source.clusters);
        clusters.iter().map(|cluster| recorded_as(cluster)).collect()
    }

    /// Those with a source, which may carry the finalizer.
    pub fn clusters_with_sources(&self) -> BTreeSet<String> {
        let clusters = self.shared.manager.clusters(&self.mapping().source.clusters);
        let has_any = |one: &&Arc<Cluster>| self.feed_of(one).is_some_and(|feed| feed.has_any_at(&one.spec.name));
        clusters.iter().filter(has_any).map(|cluster| recorded_as(cluster)).collect()
    }

    /// Whether every collection of sources is in sight and none of them carries the engine's finalizer.
    pub fn holds_no_source(&self) -> bool {
        let feeds = self.source_feeds();
        // While a document waits, each tick asks: the first one tells.
        let holds_one = |feed: &Arc<Feed>| feed.objects().any(|(_, one)| self.holds_source(&one, ""));
        feeds.iter().all(|feed| feed.is_listed()) && !feeds.iter().any(holds_one)
    }

    /// Sources in sight that carry the engine's finalizer, and are pinned to the target of this identity (empty: to any).
    pub fn sources_held(&self, identity: &str) -> BTreeSet<Key> {
        let feeds = self.source_feeds();
        let held = feeds.iter().flat_map(|feed| feed.objects()).filter(|(_, one)| self.holds_source(one, identity));
        held.map(|(key, _)| key).collect()
    }

    /// Whether a source carries the engine's finalizer, and is pinned to the target of this identity (empty: to any). Most are
    /// told apart by their text; the others are read.
    fn holds_source(&self, object: &Object, identity: &str) -> bool {
        let text = object.json();
        if !text.contains(&format!("\"{}\"", self.writer.finalizer())) || !text.contains(identity) {
            return false;
        }
        let Ok(source) = object.outline() else { return true };
        has_finalizer(&source, self.writer.finalizer())
            && (identity.is_empty() || plan::pins(&self.writer, &source).values().any(|pinned| pinned == identity))
    }

    /// Whether a source in sight is pinned to a target. Each tick asks for one that is left: most are told apart by their text.
    pub fn any_source_on(&self, target: &str) -> bool {
        let pin = format!("{target}=");
        let is_pinned = |object: &Object| {
            object.json().contains(&pin)
                && object.outline().map_or(true, |source| plan::pins(&self.writer, &source).contains_key(target))
        };
        self.source_feeds().iter().any(|feed| feed.objects().any(|(_, object)| is_pinned(&object)))
    }

    /// Whether a source is being served, or is about to be.
    pub fn serves_somebody(&self) -> bool {
        let depth = self.queue.depth();
        depth.ready + depth.in_flight > 0
    }

    /// Something about which sources there are has changed: what waits until all of them are seen is looked at.
    pub fn sources_told(&self) {
        // The first state store is written once the sources are listed. Each of many clusters tells: it is not read for each.
        if self.have_sources_told() {
            self.check_unconfirmed();
        }
        if self.are_sources_listed() {
            self.touch(Topic::PassComplete);
        }
    }

    /// A watch comes or goes: who waits for its collection is woken, and nobody else.
    pub fn watch_told(&self, of: &Collection) {
        self.touch(Topic::Synced(of.clone()));
        match of {
            Collection::Sources(_) => self.sources_told(),
            Collection::Kind(at, _) => {
                // The first state store of a target may wait for the objects there. A mapping that only deletes follows a kind in
                // the version that is served.
                let is_there = |one: &&Arc<Pipeline>| one.generation().target.cluster.as_str() == &**at;
                let here = self.pipelines();
                let may_wait =
                    |one: &&Arc<Pipeline>| one.unconfirmed().is_some() || one.generation().phase != plan::Phase::Active;
                here.iter().filter(is_there).filter(may_wait).for_each(|one| one.check_inventory());
            }
            Collection::Target | Collection::Related(_) => {}
        }
    }

    /// Has the state stores looked at that wait for something. One that is in order is not read because another one is: of `n` targets,
    /// each would be read `n` times.
    pub fn check_unconfirmed(&self) {
        self.pipelines().iter().filter(|one| one.unconfirmed().is_some()).for_each(|one| one.check_inventory());
    }

    /// Queues all sources once a target cannot be reached any more, or can again, and has state stores name other targets. Called now
    /// and then, so that a short interruption changes no status.
    pub fn look_at_targets(&self) {
        let pipelines = self.pipelines();
        pipelines.iter().for_each(|one| one.call_next());
        if self.are_stores_due.swap(false, Ordering::Relaxed) {
            pipelines.iter().for_each(|one| one.check_inventory());
        }
        let changed = pipelines.iter().filter(|one| one.has_become_lost_or_found()).map(|one| &**one);
        let changed: Vec<&Pipeline> = changed.collect();
        if !changed.is_empty() && pipelines.len() > 1 {
            self.enqueue_for(&changed);
        }
    }

    /// Takes requests from the queue until it is closed, then waits for those in flight.
    pub async fn run(self: Arc<Self>) {
        let mut running = JoinSet::new();
        loop {
            let concurrency = self.mapping().reconcile.concurrency.max(1);
            let lent = Arc::strong_count(&self.lent) - 1;
            let at_once = concurrency + lent.min(concurrency * MOST_LENT);
            tokio::select! {
                biased;
                // Cancel-safe: a permit that is not taken stays stored.
                () = self.has_room.notified() => {}
                // Cancel-safe: a task that ended stays in the set.
                Some(ended) = running.join_next() => if let Err(error) = ended {
                    error!(mapping = self.writer.mapping(), %error, "a reconcile ended abnormally; it is tried again");
                },
                // Cancel-safe by its contract.
                taken = self.queue.next(at_once) => match taken {
                    None => break,
                    Some(taken) => {
                        let key = taken.key();
                        // The workspace is known once its cluster is looked for.
                        let span = info_span!(
                            "reconcile",
                            mapping = self.writer.mapping(),
                            cluster = key.cluster.as_str(),
                            workspace = Empty,
                            namespace = &*key.namespace,
                            name = &*key.name,
                        );
                        running.spawn(in_turn(self.clone(), taken).instrument(span));
                    }
                },
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Puts every source into the queue again after each `resync`, and drops what its caches hold in excess.
    pub async fn resync(self: Arc<Self>) {
        loop {
            let period = self.mapping().reconcile.resync.max(Duration::from_secs(1));
            tokio::time::sleep(period).await;
            self.pipelines().iter().for_each(|one| one.forget_namespaces());
            self.enqueue_all();
        }
    }
}
