//! One running mapping: its watches, its queue, its workers.
//!
//! A pipeline outlives the generations of its mapping: a reload swaps the generation, keeps the watches that did not
//! change, and puts every source into the queue again.

mod feeds;
pub mod learned;
mod losses;
mod memory;
mod others;
pub mod promotion;
mod shared_use;
pub mod wakes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, error, info_span};

use super::consumer_schema::dropped::DroppedFields;
use super::inventory::Inventory;
use super::serving::{compiled, names_other_sources};
use super::target::Target;
use super::{Shared, worker};
use crate::mapping::template::Text;
use crate::mapping::{Mapping, Mode};
use crate::multicluster::backoff::Backoff;
use crate::multicluster::permit::Epoch;
use crate::multicluster::queue::Priority;
use crate::multicluster::raw::Object;
use crate::multicluster::registry::{Cluster, ClustersOf, Reason as Disengaged};
use crate::multicluster::watch::WatchState;
use crate::multicluster::work_queue::WorkQueue;
use crate::object::marks::Writer;
use crate::object::{ClusterName, Key, has_finalizer};
use crate::plan::trace::Decided;
use crate::plan::{self, Answers, Cause as Reason, Phase};
use feeds::Feeds;
use learned::Learned;
use losses::Losses;
use others::Others;
use promotion::Promotion;
use shared_use::SharedUse;
use wakes::Interests;

pub use feeds::{KindFeed, RelatedFeed, SourceFeed};

/// Why a target is not written to before its state store is confirmed.
const NOT_READ: &str = "the state store on its target is not read yet";

/// One generation of a mapping, pinned by a reconcile from start to end.
#[derive(Debug)]
pub struct Generation {
    pub mapping: Arc<Mapping>,
    pub phase: Phase,
    pub target: Arc<Target>,
    /// What the engine may do for it now: the mode of the document in the file, where that waits.
    pub mode: Mode,
}

impl Generation {
    pub fn new(mapping: Arc<Mapping>, phase: Phase, target: Arc<Target>) -> Self {
        Self { mode: mapping.mode, mapping, phase, target }
    }
}

/// A running mapping.
#[derive(Debug)]
pub struct Pipeline {
    pub writer: Writer,
    pub shared: Arc<Shared>,
    pub queue: WorkQueue<Key>,
    pub interests: Interests,
    generation: ArcSwap<Generation>,
    feeds: Mutex<Feeds>,
    shared_use: Mutex<SharedUse>,
    learned: Mutex<Learned>,
    state: Mutex<State>,
    /// The pipelines of the mapping's other targets.
    others: Mutex<Others>,
    /// Its numbers stand for keys that tenants choose: SipHash, unlike the maps' own.
    hasher: RandomState,
    /// Rings when the inventory has to be looked at again.
    inventory_due: Notify,
    /// Rings when the schemas of the source have to be looked at again.
    schema_due: Epoch,
}

/// How far the sources are in step with the document, and the document with the target.
#[derive(Debug, Default)]
struct State {
    /// Sources that were not planned, with everything in sight, since they were listed or since the document changed.
    unplanned: BTreeSet<Key>,
    /// Sources whose last plan did not end in sync, and why.
    unsettled: BTreeMap<Key, Unsettled>,
    /// Sources that a consumer changed, until everything that follows is written.
    changed: BTreeMap<Key, Changed>,
    /// What led to that.
    history: BTreeMap<Key, History>,
    /// Those of the unsettled that wait for nothing but the time at which a request is tried again.
    retried: BTreeSet<Key>,
    /// What the document takes away that those before it would have kept.
    losses: Losses,
    /// What the state store on the target says.
    store: Inventory,
    /// Where the sources of clusters were that have left for good, as the state store names it.
    places_left: BTreeSet<String>,
    /// The same in words, where another replica keeps it.
    recorded: &'static str,
    /// The namespace rules of former documents.
    former_placements: Vec<Arc<Text>>,
    /// What only former documents wrote into the status.
    former_status: Arc<BTreeSet<String>>,
    /// Why the state store is not confirmed.
    unconfirmed: Option<String>,
    /// In which term of the [`Lease`](crate::multicluster::permit::Lease) it was looked at.
    term: u64,
    /// Sources that carry the engine's finalizer and this target's identity from before there was a state store: somebody forged
    /// them, or the state store is lost. Each blocks itself alone.
    unproven: BTreeSet<Key>,
    /// Whether the state store was confirmed for the sources of the document. Before that, it serves none: nothing is written.
    has_served: bool,
    /// Documents whose place this one takes: the state store may still hold one of them.
    superseded: Vec<Arc<Mapping>>,
    /// A document that waits to be released.
    candidate: Option<Arc<Mapping>>,
    /// How far its release is.
    promotion: Promotion,
}

/// Since when a consumer's change is not carried out.
#[derive(Debug)]
struct Changed {
    since: Instant,
    /// Whether anything was written for it.
    has_written: bool,
}

/// How the last plan of a source ended, where it did not end in sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// The worst of its reasons; `None`: a request about the source failed.
    pub cause: Option<Reason>,
    pub orphans: bool,
    pub why: String,
    /// Of one of several targets: what the others tell of it.
    pub of_target: Option<(Reason, String)>,
    /// Since when it has not been in sync.
    pub since: Instant,
}

impl Unsettled {
    /// Whether the plan may have ended before the source's status was looked at.
    pub fn cannot_report(&self) -> bool {
        matches!(self.cause, None | Some(Reason::Unknown | Reason::RequestFailed))
    }
}

/// The last decisions on a source that is not in sync.
#[derive(Debug, Default)]
struct History {
    decisions: VecDeque<Decided>,
    waits_for: Vec<String>,
    /// What servers answered last, and no cache shows.
    answers: Answers,
}

impl Pipeline {
    pub fn new(writer: Writer, shared: Arc<Shared>, generation: Generation) -> Arc<Self> {
        let reconcile = &generation.mapping.reconcile;
        let queue = WorkQueue::new(
            Backoff { min: reconcile.backoff_min, max: reconcile.backoff_max },
            generation.target.endpoint().connection().entropy(),
        );
        let state = State { unconfirmed: Some(NOT_READ.into()), term: shared.lease.number(), ..State::default() };
        let generation = ArcSwap::from_pointee(generation);
        Arc::new(Self {
            writer,
            shared,
            queue,
            interests: Interests::default(),
            generation,
            feeds: Mutex::default(),
            shared_use: Mutex::default(),
            learned: Mutex::default(),
            state: Mutex::new(state),
            others: Mutex::default(),
            hasher: RandomState::new(),
            inventory_due: Notify::new(),
            schema_due: Epoch::default(),
        })
    }

    pub fn generation(&self) -> Arc<Generation> {
        self.generation.load_full()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn feeds(&self) -> MutexGuard<'_, Feeds> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn shared_use(&self) -> MutexGuard<'_, SharedUse> {
        self.shared_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a generation is what runs already.
    pub fn runs(&self, generation: &Generation) -> bool {
        let current = self.generation();
        Arc::ptr_eq(&current.mapping, &generation.mapping)
            && (current.phase, current.mode) == (generation.phase, generation.mode)
            && Arc::ptr_eq(&current.target, &generation.target)
    }

    /// Swaps the generation. Watches that are no longer needed are dropped, the others stay open.
    pub fn swap(self: &Arc<Self>, generation: Generation) {
        let former = self.generation();
        let another_target = !Arc::ptr_eq(&former.target, &generation.target);
        let edited = former.mapping.text != generation.mapping.text;
        // Nothing is written or deleted by a document that is not recorded. A mapping without a file writes no state store: once
        // it has one again, there may be none yet. Both under one lock: what was confirmed is of one document.
        let mut state = self.state();
        if another_target || edited || former.phase != generation.phase {
            if names_other_sources(&former.mapping, &generation.mapping) && std::mem::take(&mut state.has_served) {
                state.superseded.push(former.mapping.clone());
            }
            state.unconfirmed = Some(NOT_READ.into());
        }
        if edited {
            state.promotion = Promotion::default();
        }
        self.generation.store(Arc::new(generation));
        drop(state);
        let current = self.generation();
        if former.mapping.source.resource != current.mapping.source.resource
            || former.mapping.source.clusters != current.mapping.source.clusters
        {
            let known = self.feeds().forget_sources();
            self.interests.retain(|_| false);
            *self.shared_use() = SharedUse::default();
            self.learned().forget_stripped();
            // What is known of sources of the former resource goes once they are found missing, also where one is in flight.
            let left: BTreeSet<Key> = known.into_iter().chain(self.unsettled().into_keys()).collect();
            left.into_iter().for_each(|key| self.queue.add(key, Priority::Initial));
        }
        if !current.mapping.has_shared() {
            *self.shared_use() = SharedUse::default();
        }
        if edited {
            self.shared_use().doubt();
        }
        if another_target {
            self.feeds().forget_kinds();
            self.learned().forget_target();
        }
        if edited {
            self.learned().dropped = DroppedFields::default();
        }
        self.check_inventory();
        // What a document newly writes may be what its consumers' API newly has.
        self.schema_due.advance();
    }

    /// Has the inventory looked at again: its mapping, its source or its target is another.
    pub fn check_inventory(&self) {
        self.inventory_due.notify_one();
    }

    /// Cancel-safe: a permit that is not taken stays stored.
    pub async fn inventory_due(&self) {
        self.inventory_due.notified().await;
    }

    /// Another replica may have written before this term: what is known is looked at again.
    pub fn leadership(&self, term: u64) {
        let mut state = self.state();
        if std::mem::replace(&mut state.term, term) == term {
            return;
        }
        state.unconfirmed = Some(NOT_READ.into());
        (state.promotion, state.losses) = (Promotion::default(), Losses::default());
        drop(state);
        self.shared_use().doubt();
    }

    /// The target is another cluster: nothing that was found out there holds here.
    pub fn target_replaced(&self) {
        self.feeds().forget_kinds();
        self.learned().forget_target();
        let mut state = self.state();
        state.unconfirmed = Some(NOT_READ.into());
    }

    /// The source is another: nothing is written for it before the state store names it. Without a name there, nobody would
    /// release what it carries once the mapping has another source.
    pub fn source_replaced(&self) {
        self.state().unconfirmed = Some(NOT_READ.into());
        self.check_inventory();
    }

    /// This document waits to be released, or none does. What it needs is watched from now on.
    pub fn set_candidate(self: &Arc<Self>, candidate: Option<&Arc<Mapping>>) {
        let mut state = self.state();
        let is_known = match (&state.candidate, candidate) {
            (Some(known), Some(candidate)) => Arc::ptr_eq(known, candidate),
            (known, candidate) => known.is_none() && candidate.is_none(),
        };
        state.candidate = candidate.cloned();
        drop(state);
        if !is_known {
            self.follow_kinds();
            self.check_inventory();
        }
    }

    pub fn has_candidate(&self) -> bool {
        self.state().candidate.is_some()
    }

    /// The document that the state store holds, or the one that takes its place and is not recorded yet.
    pub fn document_in_force(&self) -> Option<Arc<Mapping>> {
        let (generation, document) = (self.generation(), self.state().store.document.clone());
        if *generation.mapping.text == document {
            return Some(generation.mapping.clone());
        }
        let recorded = compiled(&document)?;
        if self.supersedes(&recorded) { Some(generation.mapping.clone()) } else { Some(recorded) }
    }

    /// This document takes the place of another one.
    pub fn supersede(&self, document: &Arc<Mapping>) {
        self.state().superseded.push(document.clone());
    }

    /// Whether sources may have been taken in by the document that runs.
    pub fn has_served(&self) -> bool {
        self.state().has_served
    }

    pub fn supersedes(&self, document: &Mapping) -> bool {
        let current = self.generation();
        let is_it = |one: &Arc<Mapping>| {
            // Former sources have one place, whatever was said of them.
            let are_former = names_other_sources(one, &current.mapping) && !names_other_sources(one, document);
            one.text == document.text || are_former
        };
        self.state().superseded.iter().any(is_it)
    }

    /// Whether the state store holds this document, and everything may be done that it says.
    pub fn is_confirmed_with(&self, mapping: &Arc<Mapping>) -> bool {
        let is_recorded = self.state().store.document == *mapping.text;
        self.unconfirmed().is_none() && is_recorded && Arc::ptr_eq(&self.generation().mapping, mapping)
    }

    /// Where sources may carry the finalizer: clusters by identity, and addresses of kcp shards.
    pub fn source_clusters(&self) -> BTreeSet<String> {
        let clusters = self.shared.manager.clusters(&self.generation().mapping.source.clusters);
        clusters.iter().map(|cluster| recorded_as(cluster)).collect()
    }

    /// Whether the state store names where a cluster is. Nothing is taken in there before: if that is lost, nobody would know
    /// that it had sources.
    pub fn is_named(&self, cluster: &Cluster) -> bool {
        self.state().store.clusters.contains(&recorded_as(cluster))
    }

    /// A cluster that the state store names, and that is out of sight.
    pub fn lost_cluster(&self) -> Option<String> {
        let here = self.are_clusters_known().then(|| self.source_clusters())?;
        self.state().store.clusters.difference(&here).next().cloned()
    }

    /// Whether a source carries the finalizer, or has objects. `None`: not everything is in sight.
    pub fn serves_any(&self) -> Option<bool> {
        let is_seen = self.unconfirmed().is_none()
            && self.lost_cluster().is_none()
            && self.are_sources_listed()
            && self.follows_every_kind();
        is_seen.then(|| !self.holds_no_source() || self.has_any_object())
    }

    /// Whether a document that takes in no source has looked at each, and nothing of it is under way.
    pub fn is_closed(&self) -> bool {
        let depth = self.queue.depth();
        self.generation().phase != Phase::Active
            && self.unconfirmed().is_none()
            && self.is_planned()
            && depth.in_flight == 0
            && !self.learned().is_finalizer_under_way(Instant::now())
    }

    /// Whether every collection of sources is in sight and none of them carries the engine's finalizer.
    pub fn holds_no_source(&self) -> bool {
        self.source_feeds().iter().all(|feed| feed.watch.state() == WatchState::Synced)
            && self.sources_held("").is_empty()
    }

    /// Sources in sight that carry the engine's finalizer, and are pinned to the target of this identity (empty: to any).
    pub fn sources_held(&self, identity: &str) -> BTreeSet<Key> {
        let held = |feed: &SourceFeed| -> Vec<Key> {
            let store = feed.watch.store();
            let is_held = |key: &Key| store.get(key).is_some_and(|object| self.holds_source(&object, identity));
            store.keys().into_iter().filter(is_held).collect()
        };
        self.source_feeds().iter().flat_map(|feed| held(feed)).collect()
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

    /// Whether the pins of a source in sight are such. Most are told apart by their text.
    pub fn any_source(&self, are_such: impl Fn(&BTreeMap<String, String>) -> bool) -> bool {
        let annotation = self.writer.target_annotation();
        let is_such = |object: &Object| {
            object.json().contains(annotation)
                && object.outline().map_or(true, |source| are_such(&plan::pins(&self.writer, &source)))
        };
        self.source_feeds().iter().any(|feed| {
            let store = feed.watch.store();
            store.keys().iter().any(|key| store.get(key).is_some_and(|object| is_such(&object)))
        })
    }

    /// These sources say that they were synced before there was a state store.
    pub fn set_unproven(&self, sources: BTreeSet<Key>) {
        self.state().unproven = sources;
    }

    /// Whether a source says that it was synced before there was a state store. It no longer does once it is let go.
    pub fn is_unproven(&self, key: &Key) -> bool {
        self.state().unproven.contains(key)
    }

    pub fn is_proven(&self, key: &Key) {
        self.state().unproven.remove(key);
    }

    /// For logs and health: the mapping's name, with its target where it has several.
    pub fn name(&self) -> String {
        let mapping = self.writer.mapping();
        if self.others().is_among() {
            format!("{mapping} on {}", self.generation().target.name)
        } else {
            mapping.to_owned()
        }
    }

    /// Whether nothing of the engine is left where the last cluster has gone. kcp drops the address of a shard with the last
    /// binding there.
    fn has_left_for_good(&self, cluster: &Cluster, reason: &Disengaged) -> bool {
        let is_empty = |feed: &&Arc<SourceFeed>| {
            let store = feed.watch.store();
            let is_held = |key: &Key| store.get(key).is_some_and(|object| self.holds_source(&object, ""));
            feed.watch.state() == WatchState::Synced && !store.keys().iter().any(is_held)
        };
        match (reason, &cluster.spec.scope.clusters) {
            // kcp ends a binding once the objects are gone that it gave.
            (Disengaged::Removed, ClustersOf::Annotated) => true,
            (Disengaged::Removed | Disengaged::EndpointLost, _) => self
                .source_feeds()
                .iter()
                .find(|feed| feed.scope == cluster.spec.scope)
                .is_some_and(|feed| is_empty(&feed)),
            _ => false,
        }
    }

    /// A cluster is here, or here again.
    fn note_here(&self, cluster: &Cluster) {
        self.state().places_left.remove(&recorded_as(cluster));
    }

    /// Whether the state store need no longer name where the sources of clusters were.
    pub fn has_left(&self, place: &str) -> bool {
        self.state().places_left.contains(place)
    }

    /// Forgets what is known of a cluster, and the feed that served no other.
    pub fn disengage(&self, cluster: &Cluster, still_used: bool, reason: &Disengaged) {
        let name = &cluster.spec.name;
        if !still_used && self.has_left_for_good(cluster, reason) {
            self.state().places_left.insert(recorded_as(cluster));
            self.check_inventory();
        }
        let queued = self.queue.remove_cluster(name);
        let known = self.unfollow(cluster, still_used);
        let of_identity = |key: &Key| key.in_cluster(cluster.named_by_identity());
        let mut left: Vec<Key> = known.iter().map(of_identity).collect();
        self.interests.retain(|key| key.cluster != *name);
        self.learned().forget_cluster(name, cluster.identity());
        self.forget_waiting(|key| key.cluster == *name);
        let news = self.shared_use().forget_cluster(name);
        self.tell(news);
        let least = Key::least_of(name);
        let is_its = |key: &&Key| key.cluster == *name;
        let unplanned: Vec<Key> = self.state().unplanned.range(&least..).take_while(is_its).cloned().collect();
        let mut state = self.state();
        for key in &unplanned {
            state.unplanned.remove(key);
        }
        state.losses.forget_cluster(name);
        let changed: Vec<Key> = state.changed.range(&least..).map(|(key, _)| key).take_while(is_its).cloned().collect();
        for key in &changed {
            state.changed.remove(key);
        }
        let unsettled = state.unsettled.range(&least..).map(|(key, _)| key).take_while(is_its);
        let unsettled = unsettled.chain(state.retried.range(&least..).take_while(is_its));
        left.extend(unsettled.chain(&queued).flat_map(|key| [key.clone(), of_identity(key)]));
        drop(state);
        self.sources_told();
        // What they have on the target is counted as orphaned.
        left.into_iter().for_each(|key| self.queue.add(key, Priority::Initial));
    }

    pub fn is_engaged(&self, cluster: &ClusterName) -> bool {
        self.shared.manager.cluster(&self.generation().mapping.source.clusters, cluster).is_some()
    }

    /// Whether all clusters of the mapping's sources are described.
    pub fn are_clusters_known(&self) -> bool {
        self.is_store_read() && self.shared.manager.is_synced(&self.generation().mapping.source.clusters)
    }

    /// Takes requests from the queue until it is closed, then waits for those in flight.
    pub async fn run(self: Arc<Self>) {
        let mut running = JoinSet::new();
        loop {
            let at_once = self.generation().mapping.reconcile.concurrency.max(1);
            tokio::select! {
                biased;
                // Cancel-safe: a task that ended stays in the set.
                Some(ended) = running.join_next() => if let Err(error) = ended {
                    error!(mapping = self.writer.mapping(), %error, "a reconcile ended abnormally; it is tried again");
                },
                // Cancel-safe by its contract.
                lease = self.queue.next(at_once) => match lease {
                    None => break,
                    Some(lease) => {
                        let key = lease.key();
                        // The workspace is known once its cluster is looked for.
                        let span = info_span!(
                            "reconcile",
                            mapping = self.writer.mapping(),
                            cluster = key.cluster.as_str(),
                            workspace = Empty,
                            namespace = &*key.namespace,
                            name = &*key.name,
                        );
                        // On the heap from the start: it is large, and would be copied at each step of its way into the task.
                        running.spawn(Box::pin(worker::reconcile(self.clone(), lease)).instrument(span));
                    }
                },
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Puts every source into the queue again after each `resync`, and drops what its caches hold in excess.
    pub async fn resync(self: Arc<Self>) {
        loop {
            let period = self.generation().mapping.reconcile.resync.max(Duration::from_secs(1));
            tokio::time::sleep(period).await;
            self.forget_namespaces();
            self.enqueue_all();
        }
    }
}

/// How the state store names where a cluster is. The workspaces of a shard are too many to be named.
fn recorded_as(cluster: &Cluster) -> String {
    match cluster.spec.scope.clusters {
        ClustersOf::Annotated => cluster.spec.scope.endpoint.place(),
        ClustersOf::One(_) | ClustersOf::Namespaces => cluster.identity().to_owned(),
    }
}

#[cfg(test)]
mod tests;
