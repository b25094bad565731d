//! A running mapping on one of its targets: what it watches there, what its state store says, and how far each source is.

mod feeds;
pub mod learned;
mod losses;
mod memory;
mod others;
pub mod promotion;
pub mod shared_use;
mod state_store;
pub mod wakes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use arc_swap::ArcSwap;
use hashbrown::HashSet;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Shared;
use super::consumer_schema::dropped::DroppedFields;
use super::controller::{Controller, Feed};
use super::inventory::Inventory;
use super::serving::names_other_sources;
use super::target::Target;
use crate::mapping::template::Text;
use crate::mapping::{Kind, Mapping, Mode};
use crate::multicluster::queue::Priority;
use crate::multicluster::registry::{Cluster, ClustersOf};
use crate::object::marks::Writer;
use crate::object::{ClusterName, Key};
use crate::plan::trace::Decided;
use crate::plan::{Answers, Cause, Phase, Reason};
use learned::Learned;
use losses::Losses;
use others::TargetSeats;
use promotion::Promotion;
use shared_use::SharedUse;

pub use feeds::of_mapping;
pub use others::TargetSeat;

/// Why a target is not written to before its state store is confirmed.
pub const NOT_READ: &str = "the state store on its target is not read yet";

/// One generation of a mapping, pinned by a reconcile from start to end.
#[derive(Debug, Clone)]
pub struct Generation {
    pub mapping: Arc<Mapping>,
    pub phase: Phase,
    pub target: Arc<Target>,
    /// What the engine may do for it now: the mode of the document in the file, where that waits.
    pub mode: Mode,
    /// Whether the document is that of a file, or of the one that is gone. Any other one has to be home's.
    pub is_of_file: bool,
}

impl Generation {
    pub fn new(mapping: Arc<Mapping>, phase: Phase, target: Arc<Target>) -> Self {
        Self { mode: mapping.mode, mapping, phase, target, is_of_file: false }
    }

    /// Whether it writes the state store.
    pub fn records(&self) -> bool {
        self.phase == Phase::Active && self.mode == Mode::Enforce
    }
}

/// A running mapping on one of its targets.
#[derive(Debug)]
pub struct Pipeline {
    pub writer: Writer,
    pub shared: Arc<Shared>,
    /// What it has in common with the mapping's other targets.
    pub controller: Arc<Controller>,
    generation: ArcSwap<Generation>,
    /// One feed per kind on the target.
    feeds: Mutex<BTreeMap<Kind, Arc<Feed>>>,
    pub shared_use: Mutex<SharedUse>,
    pub learned: Mutex<Learned>,
    state: Mutex<State>,
    /// Rings when the inventory has to be looked at again.
    inventory_due: Notify,
}

/// How far the sources are in step with the document, and the document with the target.
#[derive(Debug, Default)]
struct State {
    /// Sources that were not planned, with everything in sight, since they were listed or since the document changed.
    unplanned: BTreeSet<Key>,
    /// Sources whose last plan did not end in sync, and why.
    unsettled: BTreeMap<Key, Unsettled>,
    /// What led to that.
    history: BTreeMap<Key, History>,
    /// Those of the unsettled that wait for nothing but the time at which a request is tried again.
    retried: BTreeSet<Key>,
    /// What the document takes away that those before it would have kept.
    losses: Losses,
    /// What the state store on the target says.
    store: Inventory,
    /// The same in words, where another replica keeps it.
    store_in_words: &'static str,
    /// When the document that runs was last recorded, there or at home.
    recorded_at: Option<Timestamp>,
    /// Where the sources of clusters were that have left for good, as the state store names it.
    places_left: BTreeSet<String>,
    /// The namespace rules of former documents.
    former_placements: Vec<Arc<Text>>,
    /// What only former documents wrote into the status.
    former_status: Arc<BTreeSet<String>>,
    /// Why the state store is not confirmed.
    unconfirmed: Option<String>,
    /// Whether the engine knows what it says, in this term.
    is_told: bool,
    /// Whether the mapping was removed and has taken everything away here.
    has_taken_leave: bool,
    /// In which term of the [`Lease`](crate::multicluster::permit::Lease) it was looked at.
    term: u64,
    /// Sources that carry the engine's finalizer and this target's identity from before there was a state store: somebody forged
    /// them, or the state store is lost. Each blocks itself alone.
    unproven: BTreeSet<Key>,
    /// Whether a state store that exists was confirmed for the sources of the document. Before that, it serves none: nothing is
    /// written.
    has_served: bool,
    /// Documents whose place this one takes: the state store may still hold one of them.
    superseded: Vec<Arc<Mapping>>,
    /// A document that waits to be released.
    candidate: Option<Arc<Mapping>>,
    /// How far its release is.
    promotion: Promotion,
    /// Releases that the state store may name of which this process knows how far they are: it began them, or found them there before
    /// home told. Any other is of a process that works beside this one.
    known_releases: BTreeSet<String>,
    /// Former targets, as long as the state store names them.
    targets_left: BTreeSet<String>,
    /// Whether it knows of the mapping's other targets.
    is_introduced: bool,
    /// Whether the target could not be reached when that was last looked at.
    was_lost: bool,
    /// Who is worked on here, of a mapping with several targets.
    seats: TargetSeats,
}

/// How the last plan of a source ended, where it did not end in sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// The worst of its reasons; `None`: a request about the source failed.
    pub cause: Option<Cause>,
    pub orphans: bool,
    pub why: String,
    /// Of one of several targets: what the others tell of it.
    pub of_target: Option<Reason>,
    /// Since when it has not been in sync.
    pub since: Instant,
    /// Whether the log has said so since.
    pub is_logged: bool,
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
    pub fn new(controller: Arc<Controller>, generation: Generation) -> Arc<Self> {
        let (writer, shared) = (controller.writer.clone(), controller.shared.clone());
        let state = State { unconfirmed: Some(NOT_READ.into()), term: shared.lease.number(), ..State::default() };
        Arc::new(Self {
            writer,
            shared,
            controller,
            generation: ArcSwap::from_pointee(generation),
            feeds: Mutex::default(),
            shared_use: Mutex::default(),
            learned: Mutex::default(),
            state: Mutex::new(state),
            inventory_due: Notify::new(),
        })
    }

    pub fn generation(&self) -> Arc<Generation> {
        self.generation.load_full()
    }

    /// Whether a generation is what runs already.
    pub fn runs(&self, generation: &Generation) -> bool {
        let current = self.generation();
        Arc::ptr_eq(&current.mapping, &generation.mapping)
            && (current.phase, current.mode) == (generation.phase, generation.mode)
            && Arc::ptr_eq(&current.target, &generation.target)
            // What was in a file stays so once that is broken.
            && (current.is_of_file || !generation.is_of_file)
    }

    /// Swaps the generation. Watches that are no longer needed are dropped, the others stay open.
    pub fn swap(self: &Arc<Self>, generation: Generation) {
        let former = self.generation();
        let another_target = !Arc::ptr_eq(&former.target, &generation.target);
        let edited = former.mapping.text != generation.mapping.text;
        // Nothing is written or deleted by a document that is not recorded. A mapping without a file writes no state store: once
        // it has one again, there may be none yet. Both under one lock: what was confirmed is of one document.
        let mut state = self.state.lock();
        let is_to_be_read = edited || former.phase != generation.phase || former.records() != generation.records();
        if another_target || is_to_be_read {
            if names_other_sources(&former.mapping, &generation.mapping) && std::mem::take(&mut state.has_served) {
                state.superseded.push(former.mapping.clone());
            }
            state.unconfirmed = Some(NOT_READ.into());
        }
        if edited {
            state.promotion = Promotion::default();
            state.recorded_at = None;
        }
        state.has_taken_leave = false;
        self.generation.store(Arc::new(generation));
        drop(state);
        let current = self.generation();
        if former.mapping.source.resource != current.mapping.source.resource
            || former.mapping.source.clusters != current.mapping.source.clusters
        {
            *self.shared_use.lock() = SharedUse::default();
            self.learned.lock().forget_stripped();
            // What is known of sources of the former resource goes once they are found missing.
            self.unsettled().into_keys().for_each(|key| self.controller.queue.add(key, Priority::Initial));
        }
        if !current.mapping.has_shared() {
            *self.shared_use.lock() = SharedUse::default();
        }
        if another_target {
            self.target_replaced();
        }
        if edited {
            self.shared_use.lock().doubt();
            self.learned.lock().dropped = DroppedFields::default();
        }
        self.check_inventory();
        self.controller.swap(&current.mapping);
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
        let mut state = self.state.lock();
        if term <= state.term {
            return;
        }
        state.term = term;
        (state.unconfirmed, state.is_told) = (Some(NOT_READ.into()), false);
        (state.promotion, state.losses) = (Promotion::default(), Losses::default());
        state.has_taken_leave = false;
        // What is under way is of a former generation.
        let mut generation = Generation::clone(&self.generation());
        if matches!(generation.phase, Phase::Leaving(_)) {
            // What a removal may take away is counted anew in each term.
            generation.phase = Phase::DeletionsOnly;
        }
        self.generation.store(Arc::new(generation));
        drop(state);
        self.shared_use.lock().doubt();
    }

    /// The target is another cluster: nothing that was found out there holds here.
    pub fn target_replaced(&self) {
        // The end of a subscription must not meet the lock.
        let former = std::mem::take(&mut *self.feeds.lock());
        let named = self.controller.named_by(former);
        self.learned.lock().forget_target();
        let mut state = self.state.lock();
        (state.unconfirmed, state.is_told) = (Some(NOT_READ.into()), false);
        drop(state);
        // No event tells any more what becomes of their objects.
        named.into_iter().for_each(|key| self.controller.enqueue_named(key, Priority::Initial));
    }

    /// The source is another: nothing is written for it before the state store names it. Without a name there, nobody would
    /// release what it carries once the mapping has another source.
    pub fn source_replaced(&self) {
        self.state.lock().unconfirmed = Some(NOT_READ.into());
        self.check_inventory();
    }

    /// This document waits to be released, or none does. What it needs is watched from now on.
    pub fn set_candidate(self: &Arc<Self>, candidate: Option<&Arc<Mapping>>) {
        let mut state = self.state.lock();
        let is_known = state.candidate.as_ref().map(Arc::as_ptr) == candidate.map(Arc::as_ptr);
        state.candidate = candidate.cloned();
        drop(state);
        if !is_known {
            self.follow_kinds();
            self.controller.follow_copies();
            self.check_inventory();
        }
    }

    pub fn has_candidate(&self) -> bool {
        self.state.lock().candidate.is_some()
    }

    /// Whether all sources and objects are in sight that the state store tells of.
    pub fn sees_everything(&self) -> bool {
        self.unconfirmed().is_none()
            && self.lost_cluster().is_none()
            && self.controller.are_sources_listed()
            && self.follows_every_kind()
    }

    /// Whether a source carries the finalizer, or has objects. `None`: not everything is in sight.
    pub fn serves_any(&self) -> Option<bool> {
        self.sees_everything().then(|| !self.controller.holds_no_source() || self.has_any_object())
    }

    /// Whether a document that takes in no source has looked at each, and nothing of it is under way.
    pub fn is_closed(&self) -> bool {
        let depth = self.controller.queue.depth();
        self.generation().phase != Phase::Active
            && self.unconfirmed().is_none()
            && self.is_planned()
            && depth.in_flight == 0
            && !self.learned.lock().finalizer.may_come()
    }

    /// For logs and health: the mapping's name, with its target where it may have several.
    pub fn name(&self) -> String {
        let (mapping, generation) = (self.writer.mapping(), self.generation());
        match generation.mapping.target_rule {
            Some(_) => format!("{mapping} on {}", generation.target.name),
            None => mapping.to_owned(),
        }
    }

    /// A cluster is here, or here again. The state store may be written without it at this moment.
    pub fn note_here(&self, cluster: &Cluster) {
        self.learned.lock().engage(&cluster.spec.name, cluster.identity());
        let had_left = self.state.lock().places_left.remove(&recorded_as(cluster));
        if had_left {
            self.check_inventory();
        }
    }

    /// Whether the state store need no longer name where the sources of clusters were.
    pub fn has_left(&self, place: &str) -> bool {
        self.state.lock().places_left.contains(place)
    }

    /// The path of a source's workspace, where it is known.
    pub fn path_of(&self, key: &Key) -> Option<String> {
        let cluster = self.shared.manager.cluster(&self.generation().mapping.source.clusters, &key.cluster)?;
        cluster.spec.path.clone()
    }

    /// A source for people: with the path of its workspace, where that is known.
    pub fn title_of(&self, key: &Key) -> String {
        self.path_of(key).map_or_else(|| key.to_string(), |path| key.at(&path))
    }

    /// A source is shown that was not, or is named by an object that it has.
    pub fn came_into_sight(&self, key: &Key) {
        self.state.lock().losses.listed(key);
    }

    /// A source is to be planned, whatever was planned of it before.
    pub fn listed(&self, key: &Key) {
        let mut state = self.state.lock();
        state.unplanned.insert(key.clone());
        state.losses.listed(key);
        drop(state);
        if self.generation().mapping.has_shared() {
            self.shared_use.lock().listed(key);
        }
    }

    /// Forgets what is known of clusters, and returns their sources that were not in sync. `left`: nothing of the engine is left where
    /// these were.
    pub fn forget_clusters(&self, gone: &[&Cluster], left: &[&Cluster]) -> Vec<Key> {
        if !left.is_empty() {
            self.state.lock().places_left.extend(left.iter().map(|cluster| recorded_as(cluster)));
            self.check_inventory();
        }
        let named: Vec<_> = gone.iter().map(|cluster| (&cluster.spec.name, cluster.identity())).collect();
        self.learned.lock().forget_clusters(&named);
        // The sources of one that is only described anew are what they were until each is planned again.
        let generation = self.generation();
        let is_away = |name: &ClusterName, identity: &str| {
            let now = self.shared.manager.cluster(&generation.mapping.source.clusters, name);
            now.is_none_or(|now| now.identity() != identity)
        };
        let away: Vec<_> = named.iter().filter(|(name, identity)| is_away(name, identity)).copied().collect();
        if !away.is_empty() {
            self.learned.lock().forget_objects_of(&away);
            let away: HashSet<&ClusterName> = away.iter().map(|(name, _)| *name).collect();
            self.forget_sources(|key| away.contains(&key.cluster));
        }
        named.iter().flat_map(|(name, _)| self.open_in(name)).collect()
    }

    /// The sources of a cluster that are not in sync.
    pub fn open_in(&self, cluster: &ClusterName) -> Vec<Key> {
        let state = self.state.lock();
        let (least, is_its) = (Key::least_of(cluster), |key: &&Key| key.cluster == *cluster);
        let unsettled = state.unsettled.range(&least..).map(|(key, _)| key).take_while(is_its);
        unsettled.chain(state.retried.range(&least..).take_while(is_its)).cloned().collect()
    }

    /// These sources are out of sight.
    fn forget_sources(&self, are_away: impl Fn(&Key) -> bool) {
        let news = self.shared_use.lock().forget_all(&are_away);
        self.tell(news, None);
        let mut state = self.state.lock();
        state.promotion.forget(&are_away);
        state.unplanned.retain(|key| !are_away(key));
        state.losses.forget_all(&are_away);
    }

    /// Whether all clusters of the mapping's sources are described.
    pub fn are_clusters_known(&self) -> bool {
        self.is_store_read() && self.shared.manager.is_synced(&self.generation().mapping.source.clusters)
    }
}

/// How the state store names where a cluster is. The workspaces of a shard are too many to be named.
pub fn recorded_as(cluster: &Cluster) -> String {
    match cluster.spec.scope.clusters {
        ClustersOf::Annotated => cluster.spec.scope.endpoint.place(),
        ClustersOf::One(_) | ClustersOf::Namespaces => cluster.identity().to_owned(),
    }
}

#[cfg(test)]
mod tests;
