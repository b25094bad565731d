//! The engine: one event loop that keeps what runs equal to what should run.
//!
//! The catalog of mappings and the clusters engaged are its inputs; controllers, each with a pipeline for each target, are what
//! follows from them. A reload, a new workspace, a target that came back: each is an event, after which what runs is compared
//! with what should run, and the difference is started, stopped or swapped.

mod apply;
pub mod approval;
mod bodies;
pub mod clock;
mod clusters;
pub mod consumer_schema;
mod controller;
pub mod election;
pub mod events;
mod interests;
pub mod inventory;
mod keeper;
mod ledger;
mod observe;
mod originals;
mod overview;
mod pipeline;
mod rehearse;
mod releases;
mod report;
mod retained;
mod serving;
mod slots;
pub mod target;
mod trace;
mod turns;
mod waves;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::catalog::{Catalog, Entry, Files, Standing};
use crate::health::Condition;
use crate::mapping::diagnostic::Severity;
use crate::mapping::schema::Schemas;
use crate::mapping::{Kind, Mapping, MappingRemoved, Mode, OnExit};
use crate::multicluster::Endpoint;
use crate::multicluster::connection::{Connection, Process, flag};
use crate::multicluster::environment::{CustomProviders, Environment};
use crate::multicluster::manager::{ClusterEvent, ClusterEvents, Manager};
use crate::multicluster::permit::Lease;
use crate::multicluster::registry::ProviderName;
use crate::multicluster::watch::Watches;
use crate::object::marks::Writer;
use crate::plan::Phase;
use crate::release::waves::Progress;
use crate::release::{Held, Rehearsal};
use crate::reload::{Outcome, Reload};
use crate::server::Instruments;

pub use pipeline::shared_use::{SharedUse, Use, Uses};
pub use serving::compiled;

use approval::{AllHeld, Attendant, Decision, Releases};
use clock::Clock;
use consumer_schema::ConsumerSchemas;
use controller::Controller;
use election::{Election, Terms};
use events::Recorder;
use inventory::{Inventories, Inventory};
use pipeline::{Generation, Pipeline};
use report::sources_component;
use retained::Retained;
use serving::{InForce, is_removal};
use slots::{Slot, doubles};
use target::{NamespaceLocks, Target};
use turns::Turns;

/// How often gauges and the status page are brought up to date.
const TICK: Duration = Duration::from_secs(2);

/// Clusters that come or go at once, of which one event of the engine is made.
const CLUSTERS_TOGETHER: usize = 128;

/// How long the answer to a reload waits for rehearsals.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a task that broke down rests.
const REST: Duration = Duration::from_secs(1);

/// How long a drain waits for reconciles under way.
const DRAIN: Duration = Duration::from_secs(25);

/// The connection whose inventories are read even while no mapping names it.
pub const DEFAULT_TARGET: &str = "target";

/// What the engine is told from outside.
#[derive(Debug, Default)]
pub struct Settings {
    pub engine: String,
    pub inventory_namespace: String,
    /// The connection of the cluster that holds the Lease, and the state stores of mappings whose objects are beside their
    /// sources.
    pub home: String,
    pub connections: BTreeMap<String, Arc<Connection>>,
    /// What connections share that providers open.
    pub process: Process,
    /// Schemas of `--schemas`.
    pub schemas: Schemas,
    pub clock: Clock,
    /// How replicas agree on which of them writes; `None`: there is one.
    pub election: Option<Terms>,
    /// Providers of a program that embeds the engine.
    pub custom_providers: CustomProviders,
    /// Whether Kubernetes Events are written.
    pub events: bool,
}

impl Settings {
    /// The home cluster, where the command line gives it.
    fn home_connection(&self) -> Option<&Arc<Connection>> {
        self.connections.get(&self.home)
    }
}

/// What all controllers share.
#[derive(Debug)]
pub struct Shared {
    pub settings: Settings,
    pub manager: Manager,
    pub watches: Arc<Watches>,
    pub instruments: Instruments,
    pub schemas: ConsumerSchemas,
    /// Kinds whose controllers report on each object.
    pub reporting: Arc<BTreeSet<Kind>>,
    pub lease: Lease,
    pub turns: Turns,
    /// Rings when a source asks for losses that nobody counted, or a state store names another release.
    pub counted: Notify,
    pub recorder: Recorder,
}

impl Shared {
    fn new(settings: Settings, instruments: Instruments, recorder: Recorder) -> Self {
        let environment = Environment {
            connections: Arc::new(settings.connections.clone()),
            health: instruments.health.clone(),
            process: settings.process.clone(),
            custom: settings.custom_providers.clone(),
            watches: Arc::default(),
        };
        Self {
            manager: Manager::new(environment),
            watches: Watches::new(instruments.health.clone()),
            instruments,
            schemas: ConsumerSchemas::new(settings.schemas.clone()),
            reporting: Arc::new(settings.schemas.reporting()),
            lease: settings.election.as_ref().map_or_else(Lease::default, |_| Lease::of_replica()),
            turns: Turns::default(),
            counted: Notify::new(),
            recorder,
            settings,
        }
    }

    /// What the engine keeps on a cluster.
    pub fn inventories(&self, endpoint: Endpoint) -> Inventories {
        let Settings { engine, inventory_namespace, .. } = &self.settings;
        Inventories { endpoint, engine: engine.clone(), namespace: inventory_namespace.clone() }
    }
}

/// An engine that is dropped in the middle leaves no provider running.
impl Drop for Shared {
    fn drop(&mut self) {
        self.manager.abort();
    }
}

/// Everything that can happen to the engine.
#[derive(Debug)]
enum Event {
    Reload(Reload),
    Clusters(Vec<ClusterEvent>),
    /// A target was identified, or serves a kind that it did not.
    Target(String),
    /// The inventories of a target, read for the first time since this term of the lease began. Of one that this version does not read,
    /// the mapping.
    Retained(u64, String, Vec<Result<Inventory, String>>),
    /// A mapping that was removed has taken everything away.
    Left(Slot),
    /// What the state store of a mapping says, read in this term.
    Recorded(u64, Slot, Box<Inventory>),
    /// What this replica may write for is another from now on: everything, or nothing.
    Leadership,
    /// A person decided on what is held of a mapping, as home says in this term.
    Decided(u64, String, Held, Decision),
    /// What home says of releases, read in this term of the lease.
    Releases(Releases),
    /// Home says from now on that the release of a mapping is so far.
    ReleaseRecorded(String, Option<Progress>),
    /// What a mapping's document in its file would do.
    Rehearsed(String, (Arc<Mapping>, Phase), Box<Result<Rehearsal, String>>),
    /// A source asks for losses that nobody counted, or a state store names another release.
    Counted,
    Tick,
}

/// A running mapping and the tasks that serve it; dropping it ends them.
#[derive(Debug)]
struct Serving {
    controller: Arc<Controller>,
    workers: JoinSet<()>,
    tasks: JoinSet<()>,
}

/// The same on one of its targets.
#[derive(Debug)]
struct Running {
    pipeline: Arc<Pipeline>,
    tasks: JoinSet<()>,
}

struct Engine {
    shared: Arc<Shared>,
    catalog: Catalog,
    files: Arc<Files>,
    /// Documents known from inventories, by mapping.
    retained: BTreeMap<String, Retained>,
    /// Targets whose inventories were read.
    read: BTreeSet<String>,
    targets: BTreeMap<String, Arc<Target>>,
    locks: Arc<NamespaceLocks>,
    /// Mappings that cannot run because nobody gave their target, or their latest document cannot be read.
    refused: BTreeSet<Slot>,
    /// By the name of the mapping.
    controllers: BTreeMap<String, Serving>,
    pipelines: BTreeMap<Slot, Running>,
    /// Targets of mappings with several, which their former documents named.
    former_targets: BTreeMap<String, BTreeSet<String>>,
    /// Documents that go on although their file holds another one, by mapping.
    in_force: BTreeMap<String, InForce>,
    /// When the latest document of each mapping was recorded that any state store held.
    latest: BTreeMap<String, Option<Timestamp>>,
    /// Mappings whose document in the file takes the place of the one in force now.
    released: BTreeSet<String>,
    /// Mappings whose removal is released.
    removed: BTreeSet<String>,
    /// What people rejected that was not compared with the document in the file yet, by mapping.
    rejected: BTreeMap<String, Held>,
    /// What documents in force may still take away, by mapping.
    ledgers: BTreeMap<String, ledger::Open>,
    /// What was released since the last answer to a reload.
    said: Vec<String>,
    /// Reloads whose documents are being rehearsed, with what is to be answered.
    unanswered: Vec<(Reload, Outcome, Instant)>,
    tasks: JoinSet<()>,
    /// What is held of each mapping.
    all_held: watch::Sender<AllHeld>,
    /// How far the releases of mappings are to be.
    releases: watch::Sender<Releases>,
    /// The same as home has recorded it.
    recorded_releases: BTreeMap<String, Progress>,
    /// In which term of the lease that was read.
    releases_read_in: Option<u64>,
    events: mpsc::Sender<Event>,
    /// Rendered diagnostics of documents with errors: they are shown at each tick.
    problems: Vec<String>,
    /// Since when it runs, until every source was planned once.
    catching_up_since: Option<Instant>,
}

/// Runs until `shutdown`, then lets the reconciles under way end. No server's failure ends it.
pub async fn run(
    settings: Settings,
    reloads: mpsc::Receiver<Reload>,
    instruments: Instruments,
    shutdown: CancellationToken,
) {
    let (events, received) = mpsc::channel(64);
    let mut tasks = JoinSet::new();
    let recorder = settings.events.then(|| Recorder::start(&mut tasks, &settings.engine, settings.clock.clone()));
    let shared = Arc::new(Shared::new(settings, instruments, recorder.unwrap_or_default()));
    let clusters = shared.manager.subscribe();
    let mut engine = Engine::new(shared, tasks, events);
    engine.run_providers();
    let home = engine.shared.settings.home.clone();
    for name in BTreeSet::from([DEFAULT_TARGET, &home]) {
        engine.target(name);
    }
    engine.report_leadership();
    engine.attend_approvals();
    let drained = CancellationToken::new();
    let mut candidate = JoinSet::new();
    if let Some(election) = engine.election() {
        let stop = drained.clone();
        candidate.spawn(for_good("leader election", move || election.clone().run(stop.clone())));
    }
    engine.follow(reloads, clusters, received, shutdown).await;
    engine.drain().await;
    drained.cancel();
    while candidate.join_next().await.is_some() {}
}

/// Runs a task to its end. A panic, which is a bug, begins it anew: what it does for a mapping, a target or the engine would never
/// be done again, and nobody would know.
async fn for_good<F: Future<Output = ()>>(what: &'static str, mut begin: impl FnMut() -> F) {
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        error!(what, "a task broke down, which is a bug; it begins anew");
        sleep(REST).await;
    }
}

/// The condition of a mapping that cannot run on a target.
fn component(Slot { mapping, target }: &Slot) -> String {
    if target.is_empty() { format!("mapping {mapping}") } else { format!("mapping {mapping} on {target}") }
}

/// What becomes of the objects of a mapping that is removed; `None`: they stay, and deletions go on.
pub fn departure(mapping: &Mapping) -> Option<OnExit> {
    match mapping.lifecycle.on_mapping_removed {
        MappingRemoved::Delete => Some(OnExit::Delete),
        MappingRemoved::Orphan => Some(OnExit::Orphan),
        MappingRemoved::Retain => None,
    }
}

impl Engine {
    fn new(shared: Arc<Shared>, tasks: JoinSet<()>, events: mpsc::Sender<Event>) -> Self {
        let catalog = Catalog::checking(shared.settings.schemas.clone());
        Self {
            shared,
            catalog,
            files: Arc::default(),
            retained: BTreeMap::new(),
            read: BTreeSet::new(),
            targets: BTreeMap::new(),
            locks: Arc::default(),
            refused: BTreeSet::new(),
            controllers: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            former_targets: BTreeMap::new(),
            in_force: BTreeMap::new(),
            latest: BTreeMap::new(),
            released: BTreeSet::new(),
            removed: BTreeSet::new(),
            rejected: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            said: Vec::new(),
            unanswered: Vec::new(),
            tasks,
            all_held: watch::Sender::default(),
            releases: watch::Sender::default(),
            recorded_releases: BTreeMap::new(),
            releases_read_in: None,
            events,
            problems: Vec::new(),
            catching_up_since: Some(Instant::now()),
        }
    }

    /// The part of this replica in leader election.
    fn election(&self) -> Option<Election> {
        let settings = &self.shared.settings;
        let (terms, home) = (settings.election.clone()?, settings.home_connection()?.clone());
        Some(Election { terms, home, shared: self.shared.clone() })
    }

    /// Without a home, nothing can be approved.
    fn attend_approvals(&mut self) {
        let Some(home) = self.shared.settings.home_connection() else { return };
        let attendant = Attendant {
            home: home.clone(),
            shared: self.shared.clone(),
            held: self.all_held.subscribe(),
            releases: self.releases.subscribe(),
            events: self.events.clone(),
        };
        self.tasks.spawn(for_good("approvals", move || attendant.clone().run()));
    }

    async fn follow(
        &mut self,
        mut reloads: mpsc::Receiver<Reload>,
        mut clusters: ClusterEvents,
        mut received: mpsc::Receiver<Event>,
        shutdown: CancellationToken,
    ) {
        let shared = self.shared.clone();
        let mut leadership = self.shared.lease.changes();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Each arm is cancel-safe: receiving from a channel, a ring that stays, a tick, a value that counts as
            // unseen until it is taken, and a token that stays cancelled.
            let event = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                // Before what may never cease: it comes every other second at most.
                _ = ticks.tick() => Event::Tick,
                // Before all that is told in the term which begins.
                () = leadership.advanced() => Event::Leadership,
                Some(reload) = reloads.recv() => Event::Reload(reload),
                Some(event) = received.recv() => event,
                () = shared.counted.notified() => Event::Counted,
                // Last: thousands of workspaces may come or go at once.
                Some(events) = clusters.some(CLUSTERS_TOGETHER) => Event::Clusters(events),
            };
            self.handle(event);
            // Events that wait are received without a pause: leases and probes have their turn in between.
            tokio::task::yield_now().await;
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Reload(reload) => self.reload(reload),
            Event::Clusters(events) => self.clusters(events),
            Event::Target(name) => self.target_changed(&name),
            // Another process may have led since then. Who leads reads it anew, and what is approved is held and shown again.
            Event::Retained(term, ..) | Event::Recorded(term, ..) | Event::Decided(term, ..)
                if self.has_begun_anew(term) => {}
            Event::Retained(_, target, inventories) => self.learn(target, inventories),
            Event::Left(slot) => self.forget(&slot),
            Event::Recorded(_, slot, store) => self.recorded(&slot, *store),
            Event::Leadership => self.leadership(),
            Event::Decided(_, mapping, held, Decision::Approve) => self.approved(&mapping, held),
            Event::Decided(_, mapping, held, Decision::Reject) => self.reject_candidate(&mapping, held),
            Event::Releases(releases) => self.releases_known(releases),
            Event::ReleaseRecorded(mapping, progress) => self.release_recorded(&mapping, progress),
            Event::Rehearsed(mapping, document, result) => self.rehearsed(&mapping, document, *result),
            Event::Counted => self.judge_and_share(),
            Event::Tick => self.tick(),
        }
    }

    /// Something is known that documents or losses may wait for.
    fn judge_and_share(&mut self) {
        self.judge_documents();
        self.answer_reloads(false);
        self.share_ledgers();
    }

    fn report_leadership(&self) {
        self.shared.instruments.metrics.set_leader(self.shared.lease.is_held());
    }

    /// Whether this process leads in another term.
    fn has_begun_anew(&self, term: u64) -> bool {
        self.shared.lease.is_held() && self.shared.lease.number() != term
    }

    /// What the leader before it recorded is read anew; who leads no more knows nothing for sure.
    fn leadership(&mut self) {
        self.report_leadership();
        let term = self.shared.lease.number();
        for pipeline in self.running() {
            // A keeper that waits for a slow target hears of it later.
            pipeline.leadership(term);
            pipeline.check_inventory();
        }
        // Home says what is left of them. It has none of a removal, which is rehearsed once more.
        self.ledgers.clear();
        self.rejected.clear();
        if !std::mem::take(&mut self.removed).is_empty() {
            self.converge();
        }
        if self.shared.lease.is_held() {
            let replica = self.shared.settings.election.as_ref().map(|terms| terms.replica.clone());
            self.tell_provider(None, false, "LeaderElected", format!("{} leads", replica.unwrap_or_default()));
            (self.retained, self.read) = Default::default();
            let targets: Vec<Arc<Target>> = self.targets.values().cloned().collect();
            targets.iter().for_each(|target| self.read_retained(target));
        } else {
            self.judges_no_more();
            self.tell_provider(None, true, "LeaderLost", "this replica writes nothing any more".to_owned());
        }
    }

    fn tick(&mut self) {
        self.running().for_each(|pipeline| pipeline.follow_kinds());
        self.forget_kinds();
        self.controllers().for_each(|controller| {
            controller.follow_copies();
            controller.look_at_targets();
        });
        while self.tasks.try_join_next().is_some() {}
        self.judge_documents();
        self.answer_reloads(false);
        self.forget_former_targets();
        self.share_ledgers();
        self.report_blocked();
        overview::publish(self);
        self.say_caught_up();
    }

    /// Once: every source was planned with the documents, as far as its clusters can be seen.
    fn say_caught_up(&mut self) {
        let Some(since) = self.catching_up_since else { return };
        let has_pipelines = |(_, entry): (_, &Entry)| self.pipelines_of(&entry.mapping.name).next().is_some();
        let is_started = self.catalog.mappings().next().is_some() && self.catalog.mappings().all(has_pipelines);
        if !is_started || !self.running().all(|pipeline| pipeline.is_planned()) {
            return;
        }
        self.catching_up_since = None;
        let (sources, not_synced) = overview::sources(self);
        let in_sync = sources.saturating_sub(not_synced.values().sum());
        let after_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(after_ms, sources, in_sync, ?not_synced, "caught up");
    }

    fn reload(&mut self, reload: Reload) {
        self.files = reload.files.clone();
        self.answer_reloads(true);
        let outcome = self.update();
        self.unanswered.push((reload, outcome, Instant::now()));
        self.answer_reloads(false);
    }

    /// Answers reloads once what they release is rehearsed, or has taken too long, or another one has come.
    fn answer_reloads(&mut self, is_urgent: bool) {
        let is_over = |(_, _, since): &(Reload, Outcome, Instant)| is_urgent || since.elapsed() >= ANSWER;
        if self.is_rehearsing() && !self.unanswered.iter().any(is_over) {
            return;
        }
        let refusals = self.refusals();
        for (reload, outcome, _) in std::mem::take(&mut self.unanswered) {
            let said = [outcome.text].into_iter().chain(self.said.iter().chain(&refusals).cloned());
            let said: Vec<String> = said.filter(|text| !text.is_empty()).collect();
            reload.answer(Outcome { accepted: outcome.accepted && refusals.is_empty(), text: said.join("\n") });
        }
        self.said.clear();
    }

    /// Compares the documents with what runs, says what changes, and makes it so.
    fn update(&mut self) -> Outcome {
        let documents = |known: &Retained| known.documents(self.is_home_read(known));
        let retained = self.retained.iter().map(|(name, known)| (name.clone(), documents(known)));
        let (catalog, update) = self.catalog.update(&self.files, &retained.collect());
        self.catalog = catalog;
        let diagnostics = self.catalog.diagnostics();
        let texts: Vec<String> = diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
        let wrong = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
        let wrong: Vec<String> = wrong.map(|diagnostic| diagnostic.render(false)).collect();
        let errors = wrong.len();
        for change in &update.changes {
            info!(%change, "documents in files changed");
            self.tell_change(change);
        }
        if update.changes.is_empty() && update.new_diagnostics.is_empty() {
            info!("documents read again; nothing changed");
        }
        for diagnostic in &update.new_diagnostics {
            if diagnostic.is_error() {
                self.tell_provider(None, true, "DocumentRefused", diagnostic.render(false));
            }
            match diagnostic.severity {
                Severity::Error => error!(diagnostic = diagnostic.render(false), "document refused"),
                Severity::Warning => warn!(diagnostic = diagnostic.render(false), "document questionable"),
            }
        }
        self.shared.instruments.metrics.reloaded(errors);
        self.say_errors(&wrong);
        self.problems = wrong;
        self.converge();
        self.judge_documents();
        Outcome {
            accepted: errors == 0,
            text: [update.changes.iter().map(ToString::to_string).collect(), texts].concat().join("\n"),
        }
    }

    /// Whether it is known what home says of a mapping and its providers.
    fn is_home_read(&self, known: &Retained) -> bool {
        let Settings { home, .. } = &self.shared.settings;
        let is_read = || self.read.contains(home) && !known.is_unread(home);
        self.shared.settings.home_connection().is_none() || is_read()
    }

    /// Starts, swaps and stops what runs until it is what the catalog says.
    fn converge(&mut self) {
        self.forget_what_never_ran();
        self.hold_candidates();
        self.shared.manager.configure(self.providers());
        let wanted: Vec<Entry> = self.entries().map(|(_, entry)| entry.into_owned()).collect();
        wanted.iter().for_each(|entry| self.note_former_targets(&entry.mapping));
        self.run_providers();
        let slots: BTreeMap<Slot, String> = wanted.iter().flat_map(|entry| self.slots(&entry.mapping)).collect();
        let stopped: Vec<Slot> = self.pipelines.keys().filter(|slot| !slots.contains_key(slot)).cloned().collect();
        stopped.iter().for_each(|slot| self.stop(slot));
        let health = &self.shared.instruments.health;
        self.refused.retain(|slot| {
            let is_wanted = slots.contains_key(slot);
            if !is_wanted {
                health.remove(&component(slot));
            }
            is_wanted
        });
        for entry in &wanted {
            let name = &entry.mapping.name;
            let of_mapping = slots.range(Slot::of(name)..).take_while(|(slot, _)| slot.mapping == *name);
            let changed = of_mapping.filter(|(slot, of)| self.start_or_swap(entry, slot, of)).map(|(slot, _)| slot);
            let changed: Vec<&Slot> = changed.collect();
            if !changed.is_empty() {
                self.engage(name, &changed);
            }
            self.introduce(&entry.mapping);
        }
        for (name, entry) in self.catalog.mappings() {
            // What is not in a file any more is nobody's candidate.
            let waits = entry.standing == Standing::Running && self.in_force.contains_key(name);
            let candidate = waits.then_some(&entry.mapping);
            self.pipelines_of(name).for_each(|pipeline| pipeline.set_candidate(candidate));
        }
        self.follow_releases();
        self.report_doubles();
    }

    /// Runs the providers of every mapping's source and target, also of a document that waits. The state stores of the
    /// default target and of home are read even while no mapping names them, and an edit waits while home is lost.
    fn run_providers(&mut self) {
        let mappings = self.entries().map(|(_, entry)| entry.mapping.clone());
        let mappings: Vec<Arc<Mapping>> = mappings.chain(self.waiting_documents().cloned()).collect();
        let sources = mappings.iter().map(|mapping| mapping.source.clusters.clone());
        let fleets = mappings.iter().flat_map(|mapping| self.target_providers(mapping));
        let targets = mappings.iter().flat_map(|mapping| self.slots(mapping).into_values());
        let targets = targets.chain([DEFAULT_TARGET.to_owned(), self.shared.settings.home.clone()]);
        let targets = targets.filter(|name| self.shared.settings.connections.contains_key(name));
        let targets: BTreeSet<String> = targets.collect();
        let sources = sources.chain(fleets).map(ProviderName::Source);
        self.shared.manager.run(sources.chain(targets.iter().cloned().map(ProviderName::Connection)));
        // Nobody asks the others any more which cluster they are.
        self.forget_targets(|name, _| !name.contains('/') && !targets.contains(name));
    }

    fn controllers(&self) -> impl Iterator<Item = &Arc<Controller>> {
        self.controllers.values().map(|serving| &serving.controller)
    }

    /// Every pipeline.
    fn running(&self) -> impl Iterator<Item = &Arc<Pipeline>> {
        self.pipelines.values().map(|running| &running.pipeline)
    }

    /// `true`: it was started, or runs otherwise than before.
    fn start_or_swap(&mut self, entry: &Entry, slot: &Slot, target: &str) -> bool {
        let Some(target) = self.target(target) else {
            // A provider's cluster is missing as long as it is not engaged. A target that only former documents named may be
            // gone: sources that still have something there say so.
            let is_named =
                entry.mapping.target_rule.as_ref().is_none_or(|rule| rule.allowed.iter().any(|one| one == target));
            if is_named && !target.contains('/') {
                let what = if entry.mapping.is_beside() { "its state store is on" } else { "it writes to" };
                let flag = flag(target);
                let why = format!("{what} `{target}`, a connection that the command line does not give: add `{flag}`");
                self.hold_up(slot, Condition::waiting(why));
            }
            return false;
        };
        if let Some(unread) = self.unread_target(entry) {
            let message = format!(
                "its document was removed, and `{unread}`, which may hold a later one than the others, cannot be read \
                 yet: nothing is done; if that target is lost, put the document back, and remove it while the engine runs"
            );
            self.hold_up(slot, Condition::waiting(message));
            return false;
        }
        // The mode is the brake: that of the document in the file counts for the one in force too, also after a restart.
        let mode = self.catalog.mapping(&entry.mapping.name).map_or(entry.mapping.mode, |in_file| in_file.mapping.mode);
        let phase = self.limit(&entry.mapping.name, self.phase(entry, mode));
        // One that a state store knows is no new one: its own pipeline tells which document of it goes on.
        // One that was held up goes on waiting while its target is read anew.
        let is_told = self.read.contains(&target.name) || self.refused.contains(slot);
        let is_unknown = is_told && !self.retained.contains_key(&slot.mapping);
        let is_new = is_unknown && self.pipelines.get(slot).is_none_or(|running| !running.pipeline.has_served());
        if phase == Phase::Active
            && is_new
            && let Some(why) = self.writes_beside(&slot.mapping, &entry.mapping)
        {
            self.hold_up(slot, Condition::degraded(why));
            return false;
        }
        let is_latest = |latest: &Entry| Arc::ptr_eq(&latest.mapping, &entry.mapping);
        let is_of_removed = is_removal(entry) && self.catalog.mapping(&slot.mapping).is_some_and(is_latest);
        let is_of_file = entry.standing == Standing::Running || is_of_removed;
        let generation = Generation { mode, is_of_file, ..Generation::new(entry.mapping.clone(), phase, target) };
        match self.pipelines.get(slot) {
            None => self.start(slot, generation),
            Some(running) if running.pipeline.runs(&generation) => return false,
            Some(running) => running.pipeline.swap(generation),
        }
        true
    }

    /// A mapping does not run on a target.
    fn hold_up(&mut self, slot: &Slot, condition: Condition) {
        self.refused.insert(slot.clone());
        let why = condition.message.clone();
        if self.shared.instruments.health.set(&component(slot), condition) {
            error!(mapping = slot.mapping, why, "the mapping does not run");
        }
        self.stop(slot);
    }

    fn phase(&self, entry: &Entry, mode: Mode) -> Phase {
        match entry.standing {
            Standing::Retained if self.removed.contains(&entry.mapping.name) => {
                departure(&entry.mapping).map_or(Phase::DeletionsOnly, Phase::Leaving)
            }
            Standing::Retained => Phase::DeletionsOnly,
            _ => Phase::of(mode),
        }
    }

    fn start(&mut self, slot: &Slot, generation: Generation) {
        if self.refused.remove(slot) {
            self.shared.instruments.health.remove(&component(slot));
        }
        let controller = self.serve(&slot.mapping, &generation);
        controller.swap(&generation.mapping);
        let pipeline = Pipeline::new(controller.clone(), generation);
        controller.add(&slot.target, &pipeline);
        let mut tasks = JoinSet::new();
        let (kept, of, events) = (pipeline.clone(), slot.clone(), self.events.clone());
        tasks.spawn(for_good("state store", move || keeper::keep(kept.clone(), of.clone(), events.clone())));
        self.pipelines.insert(slot.clone(), Running { pipeline, tasks });
        self.open_losses(slot);
    }

    /// The controller of a mapping, started with its first target.
    fn serve(&mut self, mapping: &str, generation: &Generation) -> Arc<Controller> {
        if let Some(serving) = self.controllers.get(mapping) {
            return serving.controller.clone();
        }
        let writer = Writer::new(&self.shared.settings.engine, mapping);
        let seed = generation.target.endpoint().connection().entropy();
        let controller = Controller::new(writer, self.shared.clone(), generation.mapping.clone(), seed);
        let (mut tasks, mut workers) = (JoinSet::new(), JoinSet::new());
        let [resynced, tended, served] = [(); 3].map(|()| controller.clone());
        tasks.spawn(for_good("resync", move || resynced.clone().resync()));
        tasks.spawn(for_good("related objects", move || tended.clone().tend_related()));
        workers.spawn(for_good("reconciles", move || served.clone().run()));
        self.controllers.insert(mapping.to_owned(), Serving { controller: controller.clone(), workers, tasks });
        controller
    }

    /// Follows every engaged cluster of a mapping's sources, and the kinds on its targets. Every source is planned again where a pipeline
    /// is new or runs otherwise than before: the clusters of a fleet come one after the other.
    fn engage(&self, mapping: &str, changed: &[&Slot]) {
        let Some(Serving { controller, .. }) = self.controllers.get(mapping) else { return };
        controller.follow_copies();
        controller.pipelines().iter().for_each(|pipeline| pipeline.follow_kinds());
        if !controller.are_clusters_followed() {
            for cluster in self.shared.manager.clusters(&controller.mapping().source.clusters) {
                controller.engage(&cluster);
            }
        }
        let changed = changed.iter().filter_map(|slot| Some(&*self.pipelines.get(*slot)?.pipeline));
        controller.enqueue_for(&changed.collect::<Vec<&Pipeline>>());
    }

    /// What runs of a mapping: one for each of its targets.
    fn slots_of<'a>(&'a self, mapping: &'a str) -> impl Iterator<Item = (&'a Slot, &'a Running)> {
        self.pipelines.range(Slot::of(mapping)..).take_while(move |(slot, _)| slot.mapping == mapping)
    }

    fn pipelines_of<'a>(&'a self, mapping: &'a str) -> impl Iterator<Item = &'a Arc<Pipeline>> {
        self.slots_of(mapping).map(|(_, running)| &running.pipeline)
    }

    fn stop(&mut self, slot: &Slot) {
        let Some(running) = self.pipelines.remove(slot) else { return };
        self.controllers.get(&slot.mapping).into_iter().for_each(|serving| serving.controller.remove(&slot.target));
        let is_last = self.pipelines_of(&slot.mapping).next().is_none();
        let serving = if is_last { self.controllers.remove(&slot.mapping) } else { None };
        serving.iter().for_each(|serving| serving.controller.queue.close());
        let health = self.shared.instruments.health.clone();
        health.remove(&sources_component(&running.pipeline));
        if is_last {
            health.remove(&doubles(&slot.mapping));
        }
        let state_store = keeper::component(&running.pipeline);
        // Reconciles under way end by themselves; their task is joined with the engine's.
        self.tasks.spawn(async move {
            if let Some(Serving { mut workers, mut tasks, .. }) = serving {
                while workers.join_next().await.is_some() {}
                tasks.shutdown().await;
            }
            let Running { mut tasks, .. } = running;
            tasks.shutdown().await;
            health.remove(&state_store);
        });
    }

    /// A mapping that left nothing behind is forgotten, unless a document names it.
    fn forget(&mut self, slot: &Slot) {
        let mapping = slot.mapping.as_str();
        if self.catalog.mapping(mapping).is_none_or(|entry| entry.standing != Standing::Retained) {
            return;
        }
        let is_over = self.pipelines_of(mapping).all(|pipeline| pipeline.has_taken_leave());
        if !self.pipelines.contains_key(slot) || !is_over {
            return;
        }
        self.former_targets.remove(mapping);
        warn!(mapping, "the mapping was removed, and so was all it had made");
        self.retained.remove(mapping);
        self.removed.remove(mapping);
        self.rejected.remove(mapping);
        self.ledgers.remove(mapping);
        self.set_progress(mapping, None);
        self.latest.remove(mapping);
        self.catalog = self.catalog.forget(mapping);
        self.converge();
    }

    /// Lets reconciles under way end, and leaves no task behind.
    async fn drain(mut self) {
        let mut workers = JoinSet::new();
        for mut serving in std::mem::take(&mut self.controllers).into_values() {
            serving.controller.queue.close();
            workers.spawn(async move { while serving.workers.join_next().await.is_some() {} });
        }
        let ended = async { while workers.join_next().await.is_some() {} };
        if timeout(DRAIN, ended).await.is_err() {
            warn!(seconds = DRAIN.as_secs(), "reconciles under way did not end in time; they are given up");
        }
        self.pipelines.clear();
        self.shared.manager.shutdown().await;
        self.tasks.shutdown().await;
    }
}

#[cfg(test)]
mod tests;
