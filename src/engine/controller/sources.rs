//! What a controller watches: sources by address, the copies beside them and what they refer to; and which source each object
//! belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::pending;
use hashbrown::HashMap;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::{Changed, Controller, Gone};
use crate::engine::consumer_schema::{PublishedSchema, Schedule};
use crate::engine::for_good;
use crate::engine::interests::{Collection, Interest, LINGER, Related, Topic};
use crate::engine::pipeline::{Pipeline, of_mapping};
use crate::engine::target::is_resource_removed;
use crate::health::{Condition, Health};
use crate::mapping::{Kind, Resource, Side};
use crate::multicluster::identity::IdentityState;
use crate::multicluster::permit::{Epoch, Follower};
use crate::multicluster::queue::Priority;
use crate::multicluster::registry::{Cluster, ClusterSpec, ClustersOf, WatchScope};
use crate::multicluster::store::{Change, ChangeCause};
use crate::multicluster::watch::{Selectors, Watch, WatchState};
use crate::multicluster::{Endpoint, Object, Subscription};
use crate::object::{ClusterName, Key};

/// How often a definition is looked for without which a resource that is not served has no objects.
const LOOK_FOR_DEFINITION: Duration = Duration::from_secs(30);

/// The sources of a mapping, and what is beside them.
#[derive(Debug, Default)]
pub struct Sources {
    /// One feed per address at which sources are watched.
    feeds: BTreeMap<String, Arc<Feed>>,
    /// The number of the manager's changes at which each cluster had its feed.
    followed_at: Option<u64>,
    /// One feed per address at which sources are watched, and kind of the copies beside them.
    copies: BTreeMap<(String, Kind), Arc<Feed>>,
    /// One feed per collection that related objects are read from.
    related: BTreeMap<Arc<Related>, Arc<Feed>>,
    /// Which source an owner label names, by the label's hash. A collision costs one needless reconcile.
    pub(super) origins: HashMap<u64, Key>,
    /// Sources that a consumer changed, until everything that follows is written.
    pub(super) changed: BTreeMap<Key, Changed>,
}

/// Objects of one collection. Dropping it ends what follows them.
#[derive(Debug)]
pub struct Feed {
    pub scope: WatchScope,
    /// The cluster whose objects it is for, where the watch shows those of others too.
    only: Option<ClusterName>,
    pub watch: Arc<Watch>,
    pub subscription: Subscription,
    /// Set while the resource is not served, and its definition is missing.
    is_removed: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Feed {
    /// Whether all that there is is known: it is listed, or gone with its definition. A cluster that has no such API keeps nobody
    /// waiting.
    pub fn is_listed(&self) -> bool {
        self.is_removed() || self.watch.state() == WatchState::Synced
    }

    /// Whether the resource is gone with all its objects.
    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Relaxed) && self.watch.state() == WatchState::NotServed
    }

    /// Its objects that are in sight.
    pub fn keys(&self) -> Vec<Key> {
        let store = self.watch.store();
        match &self.only {
            Some(cluster) => store.of_cluster(cluster).into_iter().map(|(key, _)| key).collect(),
            None => store.keys(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let store = self.watch.store();
        self.only.as_ref().map_or_else(|| store.len(), |cluster| store.of_cluster(cluster).len())
    }

    /// Whether there is one of a cluster, or of any that has the address in common with it.
    pub fn has_any_at(&self, cluster: &ClusterName) -> bool {
        let store = self.watch.store();
        match (&self.only, &self.scope.clusters) {
            (None, ClustersOf::Annotated | ClustersOf::One(_)) => !store.is_empty(),
            _ => !store.of_cluster(cluster).is_empty(),
        }
    }

    /// All objects that its watch shows.
    pub fn objects(&self) -> impl Iterator<Item = (Key, Arc<Object>)> {
        let store = self.watch.store();
        store.keys().into_iter().filter_map(move |key| store.get(&key).map(|object| (key, object)))
    }
}

impl Controller {
    /// Watches, sources that are known by their owner label, readers and interests.
    pub fn size(&self) -> [(&'static str, usize); 4] {
        let (readers, interests) = self.interests.size();
        let sources = self.sources.lock();
        let watches = sources.feeds.len() + sources.copies.len() + sources.related.len();
        [("watches", watches), ("origins", sources.origins.len()), ("readers", readers), ("interests", interests)]
    }

    /// Follows the sources of a cluster, and queues those that are there.
    pub fn engage(self: &Arc<Self>, cluster: &Cluster) {
        self.pipelines().iter().for_each(|one| one.note_here(cluster));
        let is_new = self.feed_of(cluster).is_none();
        let feed = self.source_feed(&cluster.spec);
        feed.watch.engage(&cluster.spec);
        for (key, _) in feed.watch.store().of_cluster(&cluster.spec.name) {
            self.list_source(&key);
        }
        self.queue_copies(cluster);
        self.engaged(cluster);
        if is_new && feed.watch.state() == WatchState::Synced {
            // A watch that another mapping has: it tells nothing more of itself.
            self.sources_told();
        }
    }

    /// An engaged cluster is described otherwise. Sources that are gone may wait for a claim, with nothing in sight that names them.
    pub fn describe(self: &Arc<Self>, cluster: &Cluster) {
        self.engage(cluster);
        let open = self.pipelines().into_iter().flat_map(|one| one.open_in(&cluster.spec.name));
        open.for_each(|key| self.queue.add(key, Priority::Initial));
    }

    /// Queues the sources of the copies in a cluster: some may be missing. The watch may have shown the copies before the
    /// cluster was engaged.
    pub(super) fn queue_copies(&self, cluster: &Cluster) {
        for (kind, feed) in self.copy_feeds(&cluster.spec.scope) {
            for (at, object) in feed.watch.store().of_cluster(&cluster.spec.name) {
                self.enqueue_origin(&kind, &at, &object, Priority::Initial);
            }
        }
    }

    /// What a store held before the subscription is queued by hand: a watch that another generation left open.
    pub fn queue_standing(&self, kind: &Kind, feed: &Feed) {
        feed.objects().for_each(|(key, object)| self.enqueue_origin(kind, &key, &object, Priority::Initial));
    }

    /// Orphans wait for their cluster, by its name or by the identity in their ownership annotations. It may also be one of
    /// another source of the mapping.
    pub fn engaged(&self, cluster: &Cluster) {
        self.touch(Topic::Binding(cluster.spec.name.clone()));
        self.touch(Topic::Binding(cluster.named_by_identity()));
    }

    /// Forgets the feeds of what is unused, and returns the sources that were known of clusters that are gone.
    pub(super) fn unfollow(&self, is_gone: impl Fn(&Key) -> bool, unused: &[&Gone]) -> Vec<Key> {
        let mut sources = self.sources.lock();
        sources.followed_at = None;
        let known = sources.origins.extract_if(|_, key| is_gone(key)).map(|(_, key)| key).collect();
        sources.changed.retain(|key, _| !is_gone(key));
        // At the same address, there may be a feed with another credential meanwhile, which serves others.
        let is_unused = |feed: &Feed| unused.iter().any(|one| one.cluster.spec.scope == feed.scope);
        let dropped: Vec<_> = sources.feeds.extract_if(.., |_, feed| is_unused(feed)).collect();
        let copies: Vec<_> = sources.copies.extract_if(.., |_, feed| is_unused(feed)).collect();
        // The end of a subscription must not meet the lock.
        drop(sources);
        drop((dropped, copies));
        known
    }

    fn source_feed(self: &Arc<Self>, spec: &ClusterSpec) -> Arc<Feed> {
        let (scope, place) = (&spec.scope, spec.scope.endpoint.place());
        if let Some(feed) = self.sources.lock().feeds.get(&place).filter(|feed| feed.scope == *scope) {
            return feed.clone();
        }
        let resource = &self.mapping().source.resource;
        let seen_at = spec.holding.as_ref().map_or(scope, |holding| &holding.scope);
        let selectors = Selectors { outlines: spec.holding.is_none(), ..Selectors::default() };
        let of = Collection::Sources(place.as_str().into());
        let mut feed =
            self.follow(seen_at, resource, &selectors, of, |controller, change| controller.source_changed(change));
        (feed.scope, feed.only) = (scope.clone(), spec.holding.as_ref().map(|_| spec.name.clone()));
        let (of, at) = (Arc::downgrade(self), scope.clone());
        if scope.clusters != ClustersOf::Annotated {
            let (of, at, outcomes) = (of.clone(), at.clone(), at.endpoint.connection().identity().outcomes());
            let follow = move || follow_identity(of.clone(), at.clone(), outcomes.clone());
            feed.tasks.spawn(for_good("the identity of a cluster", follow));
        }
        if spec.holding.is_none() {
            let (served, resource) = (feed.watch.served().clone(), resource.clone());
            let follow = move || follow_schema(of.clone(), at.clone(), served.clone(), resource.clone());
            feed.tasks.spawn(for_good("the schema of sources", follow));
        }
        let feed = Arc::new(feed);
        let mut sources = self.sources.lock();
        sources.followed_at = None;
        let former = sources.feeds.insert(place, feed.clone());
        drop(sources);
        // The end of a subscription must not meet the lock.
        drop(former);
        self.follow_copies();
        feed
    }

    /// Follows a collection: what changes in it, and whether it is in sight.
    pub fn follow(
        self: &Arc<Self>,
        scope: &WatchScope,
        resource: &Resource,
        selectors: &Selectors,
        of: Collection,
        changed: impl Fn(&Self, &Change<'_>) + Send + Sync + 'static,
    ) -> Feed {
        let watch = self.shared.watches.acquire(scope, resource, selectors);
        let controller = Arc::downgrade(self);
        let subscription = watch.store().subscribe(move |change| {
            if let Some(controller) = controller.upgrade() {
                changed(&controller, change);
            }
        });
        let (mut tasks, is_removed) = (JoinSet::new(), Arc::<AtomicBool>::default());
        // No virtual workspace of kcp tells whether a definition exists.
        let has_definitions = matches!(scope.clusters, ClustersOf::One(_)) && !matches!(of, Collection::Related(_));
        let defined = has_definitions.then(|| resource.clone());
        let states = States {
            controller: Arc::downgrade(self),
            watch: Arc::downgrade(&watch),
            changes: watch.changes(),
            collection: of,
            defined,
            is_removed: is_removed.clone(),
        };
        tasks.spawn(for_good("the state of a watch", move || states.clone().follow()));
        Feed { scope: scope.clone(), only: None, watch, subscription, is_removed, tasks }
    }

    /// Opens the watches on the copies beside the sources, and ends those on kinds that are no longer used.
    pub fn follow_copies(self: &Arc<Self>) {
        let pipelines = self.pipelines();
        let kinds: BTreeSet<Kind> = pipelines.iter().flat_map(|one| one.followed_kinds()).collect();
        let kinds: Vec<Kind> = kinds.into_iter().filter(|kind| kind.side == Side::Source).collect();
        let is_known = pipelines.iter().all(|one| one.is_store_read());
        let mut sources = self.sources.lock();
        let unused: Vec<_> = sources.copies.extract_if(.., |(_, kind), _| is_known && !kinds.contains(kind)).collect();
        let scopes: Vec<WatchScope> = sources.feeds.values().map(|feed| feed.scope.clone()).collect();
        // The end of a subscription must not meet the lock.
        drop(sources);
        // Their sources are looked at again: no event tells any more what becomes of these objects.
        unused.into_iter().for_each(|((_, kind), feed)| self.queue_standing(&kind, &feed));
        for (scope, kind) in scopes.iter().flat_map(|scope| kinds.iter().map(move |kind| (scope, kind))) {
            let at = (scope.endpoint.place(), kind.clone());
            if self.sources.lock().copies.get(&at).is_some_and(|feed| feed.scope == *scope) {
                continue;
            }
            let (selectors, of) = (of_mapping(&self.writer), kind.clone());
            let changed = move |controller: &Self, change: &Change<'_>| controller.copy_changed(&of, change);
            let resource = kind.resource(&kind.plural());
            let collection = Collection::Kind(at.0.as_str().into(), kind.clone());
            let feed = self.follow(scope, &resource, &selectors, collection.clone(), changed);
            let former = self.sources.lock().copies.insert(at, Arc::new(feed));
            drop(former);
            self.touch(Topic::Synced(collection));
        }
    }

    /// A copy beside its source changed. One that names a source of another cluster wakes nobody.
    fn copy_changed(&self, kind: &Kind, change: &Change<'_>) {
        let pipelines = self.pipelines();
        // It is found out once, however many targets the mapping has.
        if let Some((reference, known)) = pipelines.first().and_then(|one| one.stripped(kind, change)) {
            pipelines.iter().for_each(|one| one.learned.lock().saw_stripped(reference.clone(), known.clone()));
        }
        let priority = if change.cause == ChangeCause::InitialList { Priority::Initial } else { Priority::Live };
        for object in change.before.into_iter().chain(change.after) {
            self.enqueue_origin(kind, change.key, object, priority);
        }
    }

    /// The copies of a kind that are beside the sources of an address.
    pub fn copy_feed(&self, scope: &WatchScope, kind: &Kind) -> Option<Arc<Feed>> {
        let sources = self.sources.lock();
        sources.copies.get(&(scope.endpoint.place(), kind.clone())).filter(|feed| feed.scope == *scope).cloned()
    }

    /// Whether something holds of the copies of a kind at every address at which sources are watched.
    pub fn all_copies(&self, kind: &Kind, holds: impl Fn(&Feed) -> bool) -> bool {
        let sources = self.sources.lock();
        let of_kind: Vec<_> = sources.copies.iter().filter(|((_, of), _)| of == kind).map(|(_, feed)| feed).collect();
        of_kind.len() == sources.feeds.len() && of_kind.into_iter().all(|feed| holds(feed))
    }

    /// What the copies beside the sources of an address hold, by kind.
    pub fn copy_feeds(&self, scope: &WatchScope) -> Vec<(Kind, Arc<Feed>)> {
        let (sources, from) = (self.sources.lock(), (scope.endpoint.place(), Kind::default()));
        let here = sources.copies.range(&from..).take_while(|((at, _), _)| *at == from.0);
        here.map(|((_, kind), feed)| (kind.clone(), feed.clone())).collect()
    }

    /// What the copies beside all sources hold, by kind.
    pub fn all_copy_feeds(&self) -> Vec<(Kind, Arc<Feed>)> {
        self.sources.lock().copies.iter().map(|((_, kind), feed)| (kind.clone(), feed.clone())).collect()
    }

    /// The feed of a collection of related objects, opened by its first reader.
    pub fn related_feed(self: &Arc<Self>, scope: &WatchScope, of: &Arc<Related>) -> Arc<Feed> {
        let sources = self.sources.lock();
        if let Some(feed) = sources.related.get(of).filter(|feed| feed.watch.endpoint() == &scope.endpoint) {
            return feed.clone();
        }
        drop(sources);
        let (label, by_name) = (of.labels.clone(), of.labels.is_empty());
        let selectors = Selectors { label, by_name, outlines: true, ..Selectors::default() };
        let collection = Collection::Related(of.clone());
        let changed = collection.clone();
        let changed = move |controller: &Self, change: &Change<'_>| controller.related_changed(&changed, change);
        let feed = Arc::new(self.follow(scope, &of.resource, &selectors, collection, changed));
        let mut sources = self.sources.lock();
        // Another reconcile may have opened it meanwhile.
        let former = match sources.related.get(of).filter(|known| known.watch.endpoint() == &scope.endpoint).cloned() {
            Some(known) => return known,
            None => sources.related.insert(of.clone(), feed.clone()),
        };
        // The end of a subscription must not meet the lock.
        drop(sources);
        drop(former);
        feed
    }

    /// Ends the watches on related objects that nobody reads any more, and forgets the objects.
    pub async fn tend_related(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LINGER).await;
            let mut sources = self.sources.lock();
            // Under the lock: who registers an interest meanwhile finds the feed, or opens another.
            let read = self.interests.watches(tokio::time::Instant::now().into_std());
            let is_read = |of: &Arc<Related>| read.contains(&Collection::Related(of.clone()));
            let unread: Vec<_> = sources.related.extract_if(.., |of, _| !is_read(of)).collect();
            let others: Vec<_> = sources.related.iter().map(|(of, feed)| (of.clone(), feed.clone())).collect();
            drop(sources);
            drop(unread);
            for (of, feed) in others {
                let of = Collection::Related(of);
                feed.subscription.keep(|key| self.interests.is_read(&Interest::Object(of.clone(), key.clone())));
            }
        }
    }

    /// Who removed a definition on a target may have made another one: under another scope, for example.
    fn served_again(&self, collection: &Collection) {
        if let Collection::Kind(_, kind) = collection {
            self.pipelines().iter().for_each(|one| one.generation().target.look_again(kind));
        }
    }

    /// The schema of the source's API at an address; `None`: not read yet. Without it the engine cannot tell which status
    /// fields the consumer's API keeps.
    pub fn schema(&self, feed: &Feed) -> Option<PublishedSchema> {
        self.shared.schemas.get(&feed.scope.endpoint.place(), &self.mapping().source.resource)
    }

    /// The feed that serves a cluster's sources. Of a cluster that was rebuilt, it may still be the former cluster's: then
    /// there is none, until the engine has heard of the new one.
    pub fn feed_of(&self, cluster: &Cluster) -> Option<Arc<Feed>> {
        let scope = &cluster.spec.scope;
        self.sources.lock().feeds.get(&scope.endpoint.place()).filter(|feed| feed.scope == *scope).cloned()
    }

    /// A source in sight. Its cluster says which feed has it: a fleet has one for each of its clusters.
    pub fn source(&self, key: &Key) -> Option<Arc<Object>> {
        let cluster = self.shared.manager.cluster(&self.mapping().source.clusters, &key.cluster)?;
        self.feed_of(&cluster)?.watch.store().get(key)
    }

    /// The clusters whose sources a scope has.
    fn clusters_at(&self, scope: &WatchScope) -> Vec<ClusterName> {
        if let ClustersOf::One(cluster) = &scope.clusters {
            return vec![cluster.clone()];
        }
        let clusters = self.shared.manager.clusters(&self.mapping().source.clusters);
        let here = clusters.iter().filter(|cluster| cluster.spec.scope == *scope);
        here.map(|cluster| cluster.spec.name.clone()).collect()
    }

    pub fn source_feeds(&self) -> Vec<Arc<Feed>> {
        self.sources.lock().feeds.values().cloned().collect()
    }

    /// What the server of an address dropped or refused of a status is written again. Other clusters keep what this one drops, or have a
    /// schema of their own.
    fn forget_status(&self, scope: &WatchScope) {
        let here: BTreeSet<ClusterName> = self.clusters_at(scope).into_iter().collect();
        let pipelines = self.pipelines();
        let forget = |one: &Arc<Pipeline>| one.learned.lock().forget_status(&here);
        let concerned: BTreeSet<ClusterName> = pipelines.iter().flat_map(forget).collect();
        let feed = self.sources.lock().feeds.get(&scope.endpoint.place()).cloned();
        let of_cluster = |cluster| feed.iter().flat_map(move |feed| feed.watch.store().of_cluster(cluster));
        concerned.iter().flat_map(of_cluster).for_each(|(key, _)| self.list_source(&key));
    }

    /// Another schema of the source's API is known at an address. What was decided with the former one may be another now. Before this
    /// controller has read one itself, that may be what another mapping had read.
    fn schema_changed(&self, scope: &WatchScope, former: Option<&str>) {
        self.touch(Topic::Schema(scope.endpoint.place().into()));
        if former.is_some() {
            info!(mapping = self.writer.mapping(), at = scope.endpoint.url(), "the schema of the source has changed");
        }
        // Those of other addresses have a schema of their own.
        let feed = self.sources.lock().feeds.get(&scope.endpoint.place()).cloned();
        let keys = feed.iter().flat_map(|feed| feed.keys());
        keys.filter(|key| self.is_engaged(&key.cluster)).for_each(|key| self.list_source(&key));
    }

    /// Whether the sources of every cluster are listed, and no cluster is still to be described.
    pub fn are_sources_listed(&self) -> bool {
        self.shared.manager.is_synced(&self.mapping().source.clusters)
            && self.sources.lock().feeds.values().all(|feed| feed.is_listed())
            && self.are_clusters_followed()
    }

    /// Whether the sources of every cluster are listed or not served, and no cluster is still to be described.
    pub fn have_sources_told(&self) -> bool {
        let has_told = |feed: &Arc<Feed>| matches!(feed.watch.state(), WatchState::Synced | WatchState::NotServed);
        self.shared.manager.is_synced(&self.mapping().source.clusters)
            && self.sources.lock().feeds.values().all(has_told)
            && self.are_clusters_followed()
    }

    /// Whether the sources of every engaged cluster are watched. A cluster is engaged a moment before that: nobody may take its
    /// sources for none. Each reconcile may ask: the clusters are gone through once for each change of them.
    pub fn are_clusters_followed(&self) -> bool {
        let (mut sources, manager) = (self.sources.lock(), &self.shared.manager);
        // First: what changes meanwhile is looked at with the next question.
        let changes = manager.changes();
        if sources.followed_at != Some(changes) {
            let is_followed = |scope: &WatchScope| {
                sources.feeds.get(&scope.endpoint.place()).is_some_and(|feed| feed.scope == *scope)
            };
            let are_followed = !manager.any_scope(&self.mapping().source.clusters, |scope| !is_followed(scope));
            sources.followed_at = are_followed.then_some(changes);
        }
        sources.followed_at.is_some()
    }
}

/// What follows whether a collection is in sight.
#[derive(Clone)]
struct States {
    controller: Weak<Controller>,
    watch: Weak<Watch>,
    changes: Follower,
    collection: Collection,
    defined: Option<Resource>,
    is_removed: Arc<AtomicBool>,
}

impl States {
    /// Wakes what waits for the collection whenever its watch comes or goes, or its resource is `defined` no more.
    async fn follow(mut self) {
        let Some(endpoint) = self.watch.upgrade().map(|watch| watch.endpoint().clone()) else { return };
        let told = self.controller.upgrade().filter(|_| matches!(self.collection, Collection::Sources(_)));
        let told = told.map(|controller| Told {
            health: controller.shared.instruments.health.clone(),
            component: format!("mapping {}: sources at {}", controller.writer.mapping(), endpoint.place()),
        });
        let mut was_unserved = false;
        loop {
            let Some(state) = self.watch.upgrade().map(|watch| watch.state()) else { return };
            was_unserved |= state == WatchState::NotServed;
            if state == WatchState::Synced && std::mem::take(&mut was_unserved) {
                self.controller.upgrade().iter().for_each(|controller| controller.served_again(&self.collection));
            }
            let is_asked = state == WatchState::NotServed && !self.is_removed.load(Ordering::Relaxed);
            tokio::select! {
                biased;
                // Cancel-safe: what is not seen yet ends the next wait.
                () = self.changes.advanced() => self.is_removed.store(false, Ordering::Relaxed),
                // Cancel-safe: it is asked again.
                () = removal(&endpoint, self.defined.as_ref(), told.as_ref()), if is_asked => {
                    self.is_removed.store(true, Ordering::Relaxed);
                }
            }
            told.iter().for_each(Told::is_over);
            let Some(controller) = self.controller.upgrade() else { return };
            controller.watch_told(&self.collection);
        }
    }
}

/// Waits until a resource is gone with all its objects. What is not served in this version may exist in another one: that it holds
/// up others is `told`, unless it is served before the second look.
async fn removal(endpoint: &Endpoint, defined: Option<&Resource>, told: Option<&Told>) {
    let Some(resource) = defined else { return pending().await };
    loop {
        let why = match is_resource_removed(endpoint, resource).await {
            Ok(true) => return,
            Ok(false) => "there may be objects of it in another version".to_owned(),
            Err(error) => format!("whether its CustomResourceDefinition exists cannot be told: {error}"),
        };
        tokio::time::sleep(LOOK_FOR_DEFINITION).await;
        told.iter().for_each(|told| told.say(format!(
            "{resource} is not served there, and {why}. Until it is served or its definition is removed, sources of other \
             clusters that share an object with others, and the removal of the mapping, wait for it"
        )));
    }
}

/// The condition of sources that are out of sight, for as long as it is told.
struct Told {
    health: Health,
    component: String,
}

impl Told {
    fn say(&self, why: String) {
        if self.health.set(&self.component, Condition::degraded(why.clone())) {
            warn!(component = self.component, why, "sources are out of sight");
        }
    }

    fn is_over(&self) {
        self.health.remove(&self.component);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.is_over();
    }
}

/// Wakes what waits until it is confirmed which cluster an address leads to.
async fn follow_identity(controller: Weak<Controller>, scope: WatchScope, mut outcomes: Follower) {
    let connection = scope.endpoint.connection().clone();
    loop {
        outcomes.advanced().await;
        let Some(controller) = controller.upgrade() else { return };
        if matches!(connection.identity().known(), IdentityState::Identity(_)) {
            controller.clusters_at(&scope).into_iter().for_each(|name| controller.touch(Topic::Identity(name)));
        }
    }
}

/// Follows the schema of the source's API at an address, once its resource is served.
async fn follow_schema(controller: Weak<Controller>, scope: WatchScope, served: Epoch, resource: Resource) {
    let mut first = served.follow();
    if served.now() == 0 {
        first.advanced().await;
    }
    let mut schedule = Schedule::new(scope.endpoint.url());
    let mut version: Option<Arc<str>> = None;
    let mut is_fresh = false;
    let Some(mut due) = controller.upgrade().map(|controller| controller.schema_due.follow()) else { return };
    let mut is_rung = true;
    loop {
        // What rings during the look asks for another one.
        due.catch_up();
        // The controller owns this task: it must not wait for a server to let go of it.
        let Some(shared) = controller.upgrade().map(|controller| controller.shared.clone()) else { return };
        let checked = shared.schemas.check_since(schedule.since(is_rung), &scope.endpoint, &resource).await;
        let Some(controller) = controller.upgrade() else { return };
        match &checked {
            Ok(known) if version.as_ref() != Some(&known.version) => {
                let former = version.replace(known.version.clone());
                controller.schema_changed(&scope, former.as_deref());
                is_fresh = true;
            }
            // A server publishes a schema some time before all of it goes by it: what it did not take meanwhile is tried again.
            Ok(_) if std::mem::take(&mut is_fresh) => controller.forget_status(&scope),
            Err(error) if version.is_none() => warn!(%resource, %error, "the schema of the source cannot be read yet"),
            _ => {}
        }
        let wait = schedule.wait(&checked);
        drop(controller);
        is_rung = tokio::time::timeout(wait, due.advanced()).await.is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Shared;
    use crate::engine::events::Recorder;
    use crate::engine::pipeline::Generation;
    use crate::engine::serving::compiled;
    use crate::engine::target::Target;
    use crate::engine::target::tests::{cluster, cluster_at, connection};
    use crate::engine::tests::{document, settings};
    use crate::multicluster::raw::Parsed;
    use crate::multicluster::registry::Reason;
    use crate::object::marks::Writer;
    use crate::plan::Phase;
    use crate::server::Instruments;

    #[tokio::test]
    async fn a_source_of_a_cluster_that_is_described_anew_is_looked_at_under_its_name_too() {
        let shared = Shared::new(settings(&["target"]), Instruments::default(), Recorder::default());
        let mapping = compiled(&document("widgets", "ConfigMap", "")).expect("a mapping");
        let controller = Controller::new(Writer::new("main", "widgets"), Arc::new(shared), mapping, 7);
        let cluster = Arc::new(cluster("edge"));
        let (name, identity) = (cluster.spec.name.clone(), cluster.named_by_identity());
        let key = Key::new(name.clone(), "default", "x");
        controller.sources.lock().origins.insert(1, key.clone());
        controller.disengage(&[Gone { cluster, reason: Reason::Replaced, still_used: false }]);
        assert_eq!(controller.queue.remove_cluster(&identity), [key.in_cluster(identity.clone())]);
        assert_eq!(controller.queue.remove_cluster(&name), [key]);
    }

    /// Each cluster of a fleet publishes its schema by itself.
    #[tokio::test]
    async fn who_has_a_status_field_that_was_not_taken_is_looked_at_again_where_that_schema_is() {
        let shared = Shared::new(settings(&["target"]), Instruments::default(), Recorder::default());
        let mapping = compiled(&document("widgets", "ConfigMap", "")).expect("a mapping");
        let controller = Controller::new(Writer::new("main", "widgets"), Arc::new(shared), mapping.clone(), 7);
        let target = Arc::new(Target::new("target", connection(), Arc::default()).expect("a target"));
        let pipeline = Pipeline::new(controller.clone(), Generation::new(mapping, Phase::Active, target));
        controller.add("", &pipeline);
        let names = ["keeps", "drops", "refuses", "other"].map(|name| ClusterName::try_from(name).expect("a name"));
        let [_, drops, refuses, _] = names.each_ref().map(|name| {
            let cluster = cluster_at(name.as_str(), connection().endpoint().at(name.as_str()));
            controller.engage(&cluster);
            let source = r#"{"metadata": {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1"}}"#;
            let feed = controller.feed_of(&cluster).expect("it is followed");
            feed.watch.store().put(Parsed::read(source).expect("its text")).expect("an object");
            let (mut learned, generation) = (pipeline.learned.lock(), pipeline.generation());
            match name.as_str() {
                "keeps" => {}
                "refuses" => {
                    let leaves = [("/x".to_owned(), (serde_json::json!("y"), "not in the enum".to_owned()))];
                    learned.refuse_status(&Key::new(name.clone(), "default", "x"), &generation.mapping, &leaves.into());
                }
                _ => {
                    learned.dropped.note(name, &Arc::from("1"), &["/x"]);
                }
            }
            cluster.spec.scope.clone()
        });
        let queued = || names.each_ref().map(|name| controller.queue.remove_cluster(name).len());
        queued();
        for (at, looked_at, still_known) in [(drops, [0, 1, 0, 0], 2), (refuses, [0, 0, 1, 0], 1)] {
            controller.forget_status(&at);
            assert_eq!((queued(), pipeline.learned.lock().size(tokio::time::Instant::now())), (looked_at, still_known));
            controller.forget_status(&at);
            assert_eq!(queued(), [0; 4], "nothing is known to be dropped or refused there");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_a_cluster_does_not_serve_and_that_may_have_objects_is_told_for_as_long() {
        let told = Told { health: Health::default(), component: "mapping widgets: sources at edge".into() };
        let (health, mut changes) = (told.health.clone(), told.health.changes());
        // No definition tells that one of Kubernetes' own is gone.
        let resource = Resource::new("apps", "v1beta1", "deployments");
        let endpoint = connection().endpoint();
        tokio::select! {
            biased;
            () = removal(&endpoint, Some(&resource), Some(&told)) => panic!("nobody removed it"),
            () = changes.advanced() => {}
        }
        let said = health.standings().into_iter().map(|one| one.condition.message);
        insta::assert_snapshot!(said.collect::<String>(), @"deployments.v1beta1.apps is not served there, and there may be objects of it in another version. Until it is served or its definition is removed, sources of other clusters that share an object with others, and the removal of the mapping, wait for it");
        drop(told);
        assert!(health.standings().is_empty());
    }
}
