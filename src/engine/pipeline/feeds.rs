//! What a pipeline watches: sources by address, the engine's objects by kind, and which source each object belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::Pipeline;
use super::wakes::{Collection, Interest, Related, Topic, target_reference};
use crate::engine::consumer_schema::{Known, Schedule};
use crate::engine::target::ServedKind;
use crate::mapping::{Kind, Mapping, Resource, Side};
use crate::multicluster::identity::Known as Identified;
use crate::multicluster::interests::LINGER;
use crate::multicluster::permit::Epoch;
use crate::multicluster::queue::Priority;
use crate::multicluster::registry::{Cluster, ClusterSpec, ClustersOf, WatchScope};
use crate::multicluster::watch::{Selectors, Watch, WatchState};
use crate::multicluster::{Object, Subscription};
use crate::object::marks::{self, Origin};
use crate::object::{ClusterName, Key};

#[derive(Debug, Default)]
pub struct Feeds {
    /// One feed per address at which sources are watched.
    sources: BTreeMap<String, Arc<SourceFeed>>,
    /// One feed per kind on the target.
    kinds: BTreeMap<Kind, Arc<KindFeed>>,
    /// One feed per address at which sources are watched, and kind of the copies beside them.
    copies: BTreeMap<(String, Kind), Arc<KindFeed>>,
    /// One feed per collection that related objects are read from.
    related: BTreeMap<Arc<Related>, Arc<RelatedFeed>>,
    /// Which source an owner label names, by the label's hash. A collision costs one needless reconcile.
    origins: HashMap<u64, Key>,
}

/// Source objects of one address. Dropping it ends what follows them.
#[derive(Debug)]
pub struct SourceFeed {
    pub scope: WatchScope,
    /// The cluster whose sources it is for, where the watch shows those of others too.
    only: Option<ClusterName>,
    pub watch: Arc<Watch>,
    pub subscription: Subscription,
    _tasks: JoinSet<()>,
}

impl SourceFeed {
    /// Its sources that are in sight.
    pub fn keys(&self) -> Vec<Key> {
        let store = self.watch.store();
        match &self.only {
            Some(cluster) => store.of_cluster(cluster).into_iter().map(|(key, _)| key).collect(),
            None => store.keys(),
        }
    }
}

/// The engine's objects of one kind on the target. Dropping it ends what follows them.
#[derive(Debug)]
pub struct KindFeed {
    pub served: ServedKind,
    pub scope: WatchScope,
    pub watch: Arc<Watch>,
    pub subscription: Subscription,
    _tasks: JoinSet<()>,
}

/// Related objects of one collection. Dropping it ends what follows them.
#[derive(Debug)]
pub struct RelatedFeed {
    pub watch: Arc<Watch>,
    pub subscription: Subscription,
    _tasks: JoinSet<()>,
}

impl Feeds {
    /// The mapping reads another source. Returns the sources that were known.
    pub fn forget_sources(&mut self) -> Vec<Key> {
        self.sources.clear();
        self.copies.clear();
        self.origins.drain().map(|(_, key)| key).collect()
    }

    /// The target is another one.
    pub fn forget_kinds(&mut self) {
        self.kinds.clear();
    }

    /// An owner label names this source.
    pub fn owns(&mut self, owner: u64, source: &Key) {
        self.origins.insert(owner, source.clone());
    }

    pub fn disown(&mut self, owner: u64) {
        self.origins.remove(&owner);
    }

    /// Watches, and sources that are known by their owner label.
    pub fn size(&self) -> (usize, usize) {
        let watches = self.sources.len() + self.kinds.len() + self.copies.len() + self.related.len();
        (watches, self.origins.len())
    }

    pub fn origin(&self, owner: u64) -> Option<Key> {
        self.origins.get(&owner).cloned()
    }
}

impl Pipeline {
    /// Follows the sources of a cluster, and queues those that are there.
    pub fn engage(self: &Arc<Self>, cluster: &Cluster) {
        self.note_here(cluster);
        let is_new = self.feed_of(cluster).is_none();
        let feed = self.source_feed(&cluster.spec);
        feed.watch.engage(&cluster.spec);
        for (key, _) in feed.watch.store().of_cluster(&cluster.spec.name) {
            self.enqueue_source(&key, Priority::Initial);
        }
        self.queue_copies(cluster);
        self.engaged(cluster);
        if is_new && feed.watch.state() == WatchState::Synced {
            // A watch that another mapping has: it tells nothing more of itself.
            self.sources_told();
        }
    }

    /// Queues the sources of the copies in a cluster: some may be missing. The watch may have shown the copies before the
    /// cluster was engaged.
    fn queue_copies(&self, cluster: &Cluster) {
        for (kind, feed) in self.copy_feeds(&cluster.spec.scope) {
            for (at, object) in feed.watch.store().of_cluster(&cluster.spec.name) {
                self.enqueue_copy(&kind, &at, &object, Priority::Initial);
            }
        }
    }

    /// Orphans wait for their cluster, by its name or by the identity in their ownership annotations. It may also be one of
    /// another source of the mapping.
    pub fn engaged(&self, cluster: &Cluster) {
        self.touch(Topic::Binding(cluster.spec.name.clone()));
        self.touch(Topic::Binding(cluster.named_by_identity()));
    }

    /// Forgets the feed that served no other cluster, and returns the sources of the cluster that were known.
    pub(super) fn unfollow(&self, cluster: &Cluster, still_used: bool) -> Vec<Key> {
        let mut feeds = self.feeds();
        let known = feeds.origins.extract_if(|_, key| key.cluster == cluster.spec.name);
        // In order, so that they are queued in order.
        let known: BTreeSet<Key> = known.map(|(_, key)| key).collect();
        let place = cluster.spec.scope.endpoint.place();
        let dropped = if still_used { None } else { feeds.sources.remove(&place) };
        let copies: Vec<_> = feeds.copies.extract_if(.., |(at, _), _| !still_used && *at == place).collect();
        // The end of a subscription must not meet the lock.
        drop(feeds);
        drop((dropped, copies));
        known.into_iter().collect()
    }

    fn source_feed(self: &Arc<Self>, spec: &ClusterSpec) -> Arc<SourceFeed> {
        let (scope, place) = (&spec.scope, spec.scope.endpoint.place());
        if let Some(feed) = self.feeds().sources.get(&place).filter(|feed| feed.scope == *scope) {
            return feed.clone();
        }
        let resource = &self.generation().mapping.source.resource;
        let seen_at = spec.holding.as_ref().map_or(scope, |holding| &holding.scope);
        let selectors = Selectors { outlines: spec.holding.is_none(), ..Selectors::default() };
        let watch = self.shared.watches.acquire(seen_at, resource, &selectors);
        let pipeline = Arc::downgrade(self);
        let subscription = watch.store().subscribe(move |change| {
            if let Some(pipeline) = pipeline.upgrade() {
                pipeline.source_changed(change);
            }
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(self.follow_states(&watch, Collection::Sources(place.as_str().into())));
        if scope.clusters != ClustersOf::Annotated {
            tasks.spawn(follow_identity(Arc::downgrade(self), scope.clone()));
        }
        if spec.holding.is_none() {
            tasks.spawn(follow_schema(Arc::downgrade(self), scope.clone(), watch.served().clone(), resource.clone()));
        }
        let only = spec.holding.as_ref().map(|_| spec.name.clone());
        let feed = Arc::new(SourceFeed { scope: scope.clone(), only, watch, subscription, _tasks: tasks });
        let former = self.feeds().sources.insert(place, feed.clone());
        // The end of a subscription must not meet the lock.
        drop(former);
        self.follow_copies();
        feed
    }

    /// Opens the watches on the copies beside the sources, and ends those on kinds that are no longer used.
    fn follow_copies(self: &Arc<Self>) {
        let kinds: Vec<Kind> = self.followed_kinds().into_iter().filter(|kind| kind.side == Side::Source).collect();
        let is_known = self.is_store_read();
        let mut feeds = self.feeds();
        let unused: Vec<_> = feeds.copies.extract_if(.., |(_, kind), _| is_known && !kinds.contains(kind)).collect();
        let scopes: Vec<WatchScope> = feeds.sources.values().map(|feed| feed.scope.clone()).collect();
        // The end of a subscription must not meet the lock.
        drop(feeds);
        drop(unused);
        for (scope, kind) in scopes.iter().flat_map(|scope| kinds.iter().map(move |kind| (scope, kind))) {
            let at = (scope.endpoint.place(), kind.clone());
            if self.feeds().copies.get(&at).is_some_and(|feed| feed.scope == *scope) {
                continue;
            }
            let served = ServedKind { resource: kind.resource(&kind.plural()), namespaced: true };
            let feed = self.follow_kind(kind, served, scope.clone());
            let former = self.feeds().copies.insert(at, feed);
            drop(former);
            self.touch(Topic::Synced(Collection::Kind(kind.clone())));
        }
    }

    /// The copies of a kind that are beside the sources of an address.
    pub fn copy_feed(&self, scope: &WatchScope, kind: &Kind) -> Option<Arc<KindFeed>> {
        let feeds = self.feeds();
        feeds.copies.get(&(scope.endpoint.place(), kind.clone())).filter(|feed| feed.scope == *scope).cloned()
    }

    /// Whether something holds of the copies of a kind at every address at which sources are watched.
    pub fn all_copies(&self, kind: &Kind, holds: impl Fn(&KindFeed) -> bool) -> bool {
        let feeds = self.feeds();
        let of_kind: Vec<_> = feeds.copies.iter().filter(|((_, of), _)| of == kind).map(|(_, feed)| feed).collect();
        of_kind.len() == feeds.sources.len() && of_kind.into_iter().all(|feed| holds(feed))
    }

    /// What the copies beside the sources of an address hold, by kind.
    pub fn copy_feeds(&self, scope: &WatchScope) -> Vec<(Kind, Arc<KindFeed>)> {
        let (feeds, place) = (self.feeds(), scope.endpoint.place());
        let here = feeds.copies.iter().filter(|((at, _), _)| *at == place);
        here.map(|((_, kind), feed)| (kind.clone(), feed.clone())).collect()
    }

    /// The feed of a collection of related objects, opened by its first reader.
    pub fn related_feed(self: &Arc<Self>, scope: &WatchScope, of: &Arc<Related>) -> Arc<RelatedFeed> {
        let feeds = self.feeds();
        if let Some(feed) = feeds.related.get(of).filter(|feed| feed.watch.endpoint() == &scope.endpoint) {
            return feed.clone();
        }
        drop(feeds);
        let (label, by_name) = (of.labels.clone(), of.labels.is_empty());
        let selectors = Selectors { label, by_name, outlines: true, ..Selectors::default() };
        let watch = self.shared.watches.acquire(scope, &of.resource, &selectors);
        let (pipeline, collection) = (Arc::downgrade(self), Collection::Related(of.clone()));
        let changed = collection.clone();
        let subscription = watch.store().subscribe(move |change| {
            if let Some(pipeline) = pipeline.upgrade() {
                pipeline.related_changed(&changed, change);
            }
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(self.follow_states(&watch, collection));
        let feed = Arc::new(RelatedFeed { watch, subscription, _tasks: tasks });
        let mut feeds = self.feeds();
        // Another reconcile may have opened it meanwhile.
        let former = match feeds.related.get(of).filter(|known| known.watch.endpoint() == &scope.endpoint).cloned() {
            Some(known) => return known,
            None => feeds.related.insert(of.clone(), feed.clone()),
        };
        // The end of a subscription must not meet the lock.
        drop(feeds);
        drop(former);
        feed
    }

    /// Ends the watches on related objects that nobody reads any more, and forgets the objects.
    pub async fn tend_related(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LINGER).await;
            let mut feeds = self.feeds();
            // Under the lock: who registers an interest meanwhile finds the feed, or opens another.
            let read = self.interests.watches(tokio::time::Instant::now().into_std());
            let is_read = |of: &Arc<Related>| read.contains(&Collection::Related(of.clone()));
            let unread: Vec<_> = feeds.related.extract_if(.., |of, _| !is_read(of)).collect();
            let others: Vec<_> = feeds.related.iter().map(|(of, feed)| (of.clone(), feed.clone())).collect();
            drop(feeds);
            drop(unread);
            for (of, feed) in others {
                let of = Collection::Related(of);
                feed.subscription.keep(|key| self.interests.is_read(&Interest::Object(of.clone(), key.clone())));
            }
        }
    }

    /// The schema of the source's API at an address; `None`: not read yet. Without it the engine cannot tell which status
    /// fields the consumer's API keeps.
    pub fn schema(&self, feed: &SourceFeed) -> Option<Known> {
        self.shared.schemas.get(&feed.scope.endpoint.place(), &self.generation().mapping.source.resource)
    }

    /// Opens the watches on the target's kinds as far as they are resolved, and ends those on kinds that are no longer used.
    pub fn follow_kinds(self: &Arc<Self>) {
        self.follow_copies();
        let (generation, mut kinds) = (self.generation(), self.followed_kinds());
        kinds.retain(|kind| kind.side == Side::Target);
        // Which kinds are in use is known once the state store is.
        let is_known = self.is_store_read();
        let unused: Vec<_> = self.feeds().kinds.extract_if(.., |kind, _| is_known && !kinds.contains(kind)).collect();
        // The end of a subscription must not meet the lock.
        drop(unused);
        for kind in kinds {
            generation.target.want(&kind);
            let (Ok(served), Some(scope)) = (generation.target.kind(&kind), generation.target.scope()) else {
                continue;
            };
            if self.feeds().kinds.get(&kind).is_some_and(|feed| feed.scope == scope) {
                continue;
            }
            let feed = self.follow_kind(&kind, served, scope);
            let former = self.feeds().kinds.insert(kind.clone(), feed.clone());
            drop(former);
            self.queue_standing(&kind, &feed);
            self.touch(Topic::Synced(Collection::Kind(kind)));
        }
    }

    /// Watches the engine's objects of one kind at an address.
    fn follow_kind(self: &Arc<Self>, kind: &Kind, served: ServedKind, scope: WatchScope) -> Arc<KindFeed> {
        let of_mapping = self.writer.label().to_owned();
        let selectors = Selectors { of_mapping, outlines: true, ..Selectors::default() };
        let watch = self.shared.watches.acquire(&scope, &served.resource, &selectors);
        let (pipeline, of) = (Arc::downgrade(self), kind.clone());
        let subscription = watch.store().subscribe(move |change| {
            if let Some(pipeline) = pipeline.upgrade() {
                match of.side {
                    Side::Target => pipeline.target_changed(&of, change),
                    Side::Source => pipeline.copy_changed(&of, change),
                }
            }
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(self.follow_states(&watch, Collection::Kind(kind.clone())));
        Arc::new(KindFeed { served, scope, watch, subscription, _tasks: tasks })
    }

    /// What a store held before the subscription is queued by hand: a watch that another generation left open.
    pub fn queue_standing(&self, kind: &Kind, feed: &KindFeed) {
        for key in feed.watch.store().keys() {
            if let Some(object) = feed.watch.store().get(&key) {
                self.enqueue_origin(kind, &key, &object, Priority::Initial);
            }
        }
    }

    /// Wakes what waits for a collection whenever its watch comes or goes.
    fn follow_states(self: &Arc<Self>, watch: &Watch, collection: Collection) -> impl Future<Output = ()> + use<> {
        let mut states = watch.changes();
        let pipeline = Arc::downgrade(self);
        async move {
            while states.next().await.is_some() {
                let Some(pipeline) = pipeline.upgrade() else { return };
                pipeline.touch(Topic::Synced(collection.clone()));
                pipeline.sources_told();
            }
        }
    }

    /// The kinds of the mapping, and those which only its state store still names.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        self.kinds_of(&self.generation().mapping)
    }

    /// The same, and those of a document that waits: it is rehearsed on what is there.
    fn followed_kinds(&self) -> BTreeSet<Kind> {
        let mut kinds = self.kinds();
        let candidate = self.state().candidate.clone();
        kinds.extend(candidate.iter().flat_map(|candidate| &candidate.objects).map(|rule| rule.kind.clone()));
        kinds
    }

    /// The kinds of a document, and those which only the state store names.
    pub fn kinds_of(&self, mapping: &Mapping) -> BTreeSet<Kind> {
        let mut kinds: BTreeSet<Kind> = mapping.objects.iter().map(|rule| rule.kind.clone()).collect();
        let former = self.stored_kinds();
        let former: Vec<Kind> =
            former.into_iter().filter(|old| !kinds.iter().any(|new| new.is_same_in_any_version(old))).collect();
        kinds.extend(former);
        kinds
    }

    /// Whether the engine's objects of every kind are listed.
    pub fn follows_every_kind(&self) -> bool {
        let is_beside = self.generation().mapping.is_beside();
        let is_synced = |feed: &KindFeed| feed.watch.state() == WatchState::Synced;
        self.kinds().iter().all(|kind| match kind.side {
            Side::Target => self.kind_feed(kind).is_some_and(|feed| is_synced(&feed)),
            Side::Source => !is_beside || self.all_copies(kind, is_synced),
        })
    }

    /// Whether the first list of every kind came, or was refused.
    pub fn has_asked_for_every_kind(&self) -> bool {
        self.feeds().kinds.values().all(|feed| feed.watch.state() != WatchState::Starting)
    }

    pub fn kind_feed(&self, kind: &Kind) -> Option<Arc<KindFeed>> {
        self.feeds().kinds.get(kind).cloned()
    }

    /// Gathers something over all kinds on the target.
    pub fn each_kind<T>(&self, gather: impl Fn(&Kind, &KindFeed) -> Vec<T>) -> Vec<T> {
        self.feeds().kinds.iter().flat_map(|(kind, feed)| gather(kind, feed)).collect()
    }

    pub fn kind_feeds(&self) -> Vec<(Kind, Arc<KindFeed>)> {
        self.feeds().kinds.iter().map(|(kind, feed)| (kind.clone(), feed.clone())).collect()
    }

    /// What holds the mapping's own objects, by kind: on the target, or beside the sources.
    pub fn object_feeds(&self) -> Vec<(Kind, Arc<KindFeed>)> {
        let is_beside = self.generation().mapping.is_beside();
        let feeds = self.feeds();
        let beside = feeds.copies.iter().filter(|_| is_beside).map(|((_, kind), feed)| (kind, feed));
        feeds.kinds.iter().chain(beside).map(|(kind, feed)| (kind.clone(), feed.clone())).collect()
    }

    /// How many objects of the mapping are in sight.
    pub fn objects(&self) -> usize {
        self.object_feeds().iter().map(|(_, feed)| feed.watch.store().len()).sum()
    }

    /// The feed that serves a cluster's sources. Of a cluster that was rebuilt, it may still be the former cluster's: then
    /// there is none, until the engine has heard of the new one.
    pub fn feed_of(&self, cluster: &Cluster) -> Option<Arc<SourceFeed>> {
        let scope = &cluster.spec.scope;
        self.feeds().sources.get(&scope.endpoint.place()).filter(|feed| feed.scope == *scope).cloned()
    }

    /// The clusters whose sources a scope has.
    fn clusters_at(&self, scope: &WatchScope) -> Vec<ClusterName> {
        if let ClustersOf::One(cluster) = &scope.clusters {
            return vec![cluster.clone()];
        }
        let clusters = self.shared.manager.clusters(&self.generation().mapping.source.clusters);
        let here = clusters.iter().filter(|cluster| cluster.spec.scope == *scope);
        here.map(|cluster| cluster.spec.name.clone()).collect()
    }

    pub fn source_feeds(&self) -> Vec<Arc<SourceFeed>> {
        self.feeds().sources.values().cloned().collect()
    }

    /// Whether a source has objects.
    pub fn has_objects(&self, key: &Key) -> bool {
        self.objects_of(key) > 0
    }

    /// How many objects a source has: a copy of one that somebody made elsewhere is none. In kcp, the identity
    /// of a cluster is its name.
    pub fn objects_of(&self, key: &Key) -> usize {
        let resource = &self.generation().mapping.source.resource;
        let owner = self.writer.owner(&Origin::new(resource, key.cluster.as_str(), key));
        let is_owned = |kind: &Kind, (at, object): &(Key, Arc<Object>)| {
            let object = object.outline();
            object.is_ok_and(|object| marks::is_ours(&object, &target_reference(kind, at), &owner))
        };
        let owned = |(kind, feed): &(Kind, Arc<KindFeed>)| {
            feed.watch.store().of_owner(&owner.0).iter().filter(|found| is_owned(kind, found)).count()
        };
        self.object_feeds().iter().map(owned).sum()
    }

    /// Queues every source that is there: after a reload, and on the long resync.
    pub fn enqueue_all(&self) {
        for feed in self.source_feeds() {
            for key in feed.keys() {
                if self.is_engaged(&key.cluster) {
                    self.enqueue_source(&key, Priority::Initial);
                }
            }
        }
        for (kind, feed) in self.kind_feeds() {
            self.queue_standing(&kind, &feed);
        }
        let clusters = self.shared.manager.clusters(&self.generation().mapping.source.clusters);
        clusters.iter().for_each(|cluster| self.queue_copies(cluster));
    }

    /// Status fields that servers dropped are written again.
    fn forget_dropped(&self) {
        let dropped = std::mem::take(&mut self.learned().dropped);
        if dropped.size() > 0 {
            self.enqueue_all();
        }
    }

    /// Another schema of the source's API is known at an address. What was decided with the former one may be another now.
    fn schema_changed(&self, scope: &WatchScope, former: Option<&str>) {
        self.touch(Topic::Schema(scope.endpoint.place().into()));
        if former.is_some() {
            info!(mapping = self.writer.mapping(), at = scope.endpoint.url(), "the schema of the source has changed");
            self.enqueue_all();
        }
    }

    /// Whether the sources of every cluster are listed, and no cluster is still to be described.
    pub fn are_sources_listed(&self) -> bool {
        let is_listed = |feed: &Arc<SourceFeed>| feed.watch.state() == WatchState::Synced;
        self.shared.manager.is_synced(&self.generation().mapping.source.clusters)
            && self.feeds().sources.values().all(is_listed)
            && self.are_clusters_followed()
    }

    /// Whether the sources of every engaged cluster are watched. A cluster is engaged a moment before that: nobody may take its
    /// sources for none.
    pub fn are_clusters_followed(&self) -> bool {
        let clusters = self.shared.manager.clusters(&self.generation().mapping.source.clusters);
        clusters.iter().all(|cluster| self.feed_of(cluster).is_some())
    }

    /// Forgets namespaces of the target that hold nothing of this mapping: it would only save the creation of one.
    pub fn forget_namespaces(&self) {
        let keys = self.kind_feeds().into_iter().flat_map(|(_, feed)| feed.watch.store().keys());
        let used: BTreeSet<Arc<str>> = keys.map(|key| key.namespace.clone()).collect();
        self.generation().target.retain_namespaces(|namespace| used.contains(namespace));
    }

    /// Something about which sources there are has changed: what waits until all of them are seen is looked at.
    pub fn sources_told(&self) {
        if self.unconfirmed().is_some() {
            // The first state store is written once the sources are listed.
            self.check_inventory();
        }
        if self.are_sources_listed() {
            self.touch(Topic::PassComplete);
        }
    }
}

/// Wakes what waits until it is confirmed which cluster an address leads to.
async fn follow_identity(pipeline: Weak<Pipeline>, scope: WatchScope) {
    let connection = scope.endpoint.connection().clone();
    let mut outcomes = connection.identity().outcomes();
    loop {
        outcomes.advanced().await;
        let Some(pipeline) = pipeline.upgrade() else { return };
        if matches!(connection.identity().known(), Identified::Identity(_)) {
            pipeline.clusters_at(&scope).into_iter().for_each(|name| pipeline.touch(Topic::Identity(name)));
        }
    }
}

/// Follows the schema of the source's API at an address, once its resource is served.
async fn follow_schema(pipeline: Weak<Pipeline>, scope: WatchScope, served: Epoch, resource: Resource) {
    let mut first = served.follow();
    if served.now() == 0 {
        first.advanced().await;
    }
    let mut schedule = Schedule::new(scope.endpoint.url());
    let mut version: Option<Arc<str>> = None;
    let mut is_fresh = false;
    let Some(mut due) = pipeline.upgrade().map(|pipeline| pipeline.schema_due.follow()) else { return };
    let mut is_rung = true;
    loop {
        // What rings during the look asks for another one.
        due.catch_up();
        // The pipeline owns this task: it must not wait for a server to let go of it.
        let Some(shared) = pipeline.upgrade().map(|pipeline| pipeline.shared.clone()) else { return };
        let checked = shared.schemas.check_since(schedule.since(is_rung), &scope.endpoint, &resource).await;
        let Some(pipeline) = pipeline.upgrade() else { return };
        match &checked {
            Ok(known) if version.as_ref() != Some(&known.version) => {
                let former = version.replace(known.version.clone());
                pipeline.schema_changed(&scope, former.as_deref());
                is_fresh = true;
            }
            // A server publishes a schema some time before all of it goes by it: what it dropped meanwhile is tried again.
            Ok(_) if std::mem::take(&mut is_fresh) => pipeline.forget_dropped(),
            Err(error) if version.is_none() => warn!(%resource, %error, "the schema of the source cannot be read yet"),
            _ => {}
        }
        let wait = schedule.wait(&checked);
        drop(pipeline);
        is_rung = tokio::time::timeout(wait, due.advanced()).await.is_ok();
    }
}
