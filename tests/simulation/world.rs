//! A world: servers and engines in virtual time, from its beginning until it has come to rest.

mod acts;
mod contents;
mod people;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use sync_engine::sandbox::Request;
use tokio::time::sleep;

use super::action::{Action, Edit, Forever, Plan, Roster, TENANTS, Versions};
use super::checker::Violation;
use super::core::{Core, Shared, Weather};
use super::mapping::{
    CONNECTION, GUEST, MADE, MAPPINGS, MORE, Mapping, More, PASSWORD, QUOTA, Spread, WIDGET, file, first, guest,
};
use super::process::{OTHER, Process, THIRD};
use super::server::{Side, binding, definitions, export, widgets, workspace};

pub use contents::{SourceKey, side_of, text};

/// Within this time after the last fault everything is in order.
const RECOVERY: Duration = Duration::from_secs(600);
/// How often somebody looks whether everything is.
const LOOK: Duration = Duration::from_secs(20);
/// How long nothing must happen then.
const QUIET: Duration = Duration::from_secs(120);
const BOOKMARKS: Duration = Duration::from_secs(10);

/// Of processor time, whatever else the machine does. A world takes some seconds of it at most.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often that is looked at, in real time.
const WATCH: Duration = Duration::from_secs(5);

/// What a run came to.
#[derive(Default)]
pub struct Run {
    pub trace: Vec<String>,
    pub violations: Vec<Violation>,
    /// Faults that happened.
    pub faults: u64,
    /// The writes of the process that sent most of them.
    pub writes: u64,
    /// What the first tenant sees in the end.
    pub view: BTreeMap<String, Value>,
    /// The numbers of the plan's steps that changed nothing.
    pub idle: BTreeSet<usize>,
}

/// Runs a plan in a world of its own.
pub fn run(plan: &Plan) -> Run {
    run_world(plan, How::default())
}

/// The same, with its trace printed as it comes.
pub fn run_aloud(plan: &Plan) -> Run {
    run_world(plan, How { is_aloud: true, ..How::default() })
}

/// The same, judged also by the rules that engines are known to break: each has an open defect.
pub fn run_strictly(plan: &Plan) -> Run {
    run_world(plan, How { is_strict: true, ..How::default() })
}

#[derive(Clone, Copy, Default)]
struct How {
    is_aloud: bool,
    is_strict: bool,
}

/// On a thread of its own: an engine that never rests would hold up virtual time for ever.
fn run_world(plan: &Plan, how: How) -> Run {
    let (send, receive) = std::sync::mpsc::channel();
    let lived = plan.clone();
    let (tell_thread, told_thread) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = tell_thread.send(std::fs::read_link("/proc/thread-self").ok());
        send.send(run_here(&lived, how))
    });
    let started = Instant::now();
    let thread_id = told_thread.recv().ok().flatten();
    loop {
        match receive.recv_timeout(WATCH) {
            Ok(run) => return run,
            Err(RecvTimeoutError::Timeout) => {
                let busy = thread_id.as_deref().and_then(processor_time).unwrap_or_else(|| started.elapsed());
                assert!(
                    busy < PATIENCE,
                    "seed {}: virtual time stands still: something is busy and waits for nothing",
                    plan.seed
                );
            }
            Err(RecvTimeoutError::Disconnected) => {
                let cause = thread.join().expect_err("it sent nothing");
                std::panic::resume_unwind(cause)
            }
        }
    }
}

/// What a thread has used, by its place below `/proc`. `None`: this system does not tell.
fn processor_time(thread: &Path) -> Option<Duration> {
    let told = std::fs::read_to_string(Path::new("/proc").join(thread).join("schedstat")).ok()?;
    Some(Duration::from_nanos(told.split_whitespace().next()?.parse().ok()?))
}

/// Runs something on this thread, in time that goes on by itself where all wait.
pub fn in_virtual_time<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(world)
}

fn run_here(plan: &Plan, how: How) -> Run {
    let log = Log::default();
    // Who watches one world reads the log between the lines of the trace.
    let _logged = (!how.is_aloud).then(|| {
        let filter = tracing_subscriber::EnvFilter::new("sync_engine=trace");
        let subscriber = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false);
        let writer = log.clone();
        tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish())
    });
    in_virtual_time(async {
        let mut world = World::new(plan);
        world.core(|core| {
            core.aloud = how.is_aloud;
            core.checker.is_strict = how.is_strict;
            core.checker.log = (!how.is_aloud).then(|| log.clone());
            core.checker.is_doubled = plan.spread != Spread::One;
        });
        world.live().await;
        let log = log.text();
        let run = std::mem::take(&mut world.run);
        world.core(|core| {
            core.checker.check_report("a log line", &log);
            let (trace, violations) = (std::mem::take(&mut core.trace), std::mem::take(&mut core.checker.violations));
            Run { trace, violations, faults: core.checker.faults, ..run }
        })
    })
}

/// What engines log.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Why an engine says that it does something to an object, the last time that it says so. Beside sources, each `cluster` may have
    /// one of a name; empty: the object is on a target.
    pub fn said(&self, verb: &str, cluster: &str, place: &str) -> Option<String> {
        let text = self.0.lock().expect("nobody panics with the lock");
        let text = String::from_utf8_lossy(&text);
        let abouts = ["", " in the consumer's cluster"].map(|at| format!("acting action=\"{verb} {place}{at} ("));
        let said = |line: &str| abouts.iter().find_map(|about| Some(line.split_once(about)?.1.to_owned()));
        let of_cluster = format!("cluster=\"{cluster}\"");
        let mut lines = text.lines().rev().filter(|line| cluster.is_empty() || line.contains(&of_cluster));
        Some(lines.find_map(said)?.split_once(")\"")?.0.to_owned())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics with the lock")).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with the lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub struct World {
    pub shared: Shared,
    pub plan: Plan,
    /// The document in force.
    pub mapping: Mapping,
    /// The document that the author wrote last.
    pub draft: Mapping,
    /// How often a second mapping on the resource came or went: it is there where the number is odd.
    guests: u32,
    /// Fields of the status that were handed over to it.
    handed: BTreeSet<&'static str>,
    /// Whether the provider of the plain cluster is a fleet now.
    is_fleet: bool,
    pub file: File,
    /// Whether the target was put back: what the engine knew of it may be lost.
    pub target_restored: bool,
    /// Whether the source server was: what was taken away there may be back.
    pub source_restored: bool,
    /// Whether a consumer took off a source which targets it is on.
    pub pins_lost: bool,
    /// Whether an engine ended, and with it its memory of late requests.
    pub forgot: bool,
    /// Mappings that had a document, of which the last process that started found none: where a target cannot be read, it may not know
    /// the last one.
    pub without_document: BTreeSet<&'static str>,
    /// Which versions of the kind Widget the target has.
    pub versions: Versions,
    /// Sources that carried marks of a mapping before it came.
    pub marked: BTreeSet<String>,
    /// The mappings whose records a target's backup holds.
    backed_up: BTreeMap<Side, (&'static str, u32, Option<Value>)>,
    /// What is known so far of what it comes to.
    run: Run,
    pub processes: BTreeMap<u32, Process>,
    /// Connections that operators wrote for a tenant's sources of a name, and how often.
    connections: BTreeMap<(&'static str, &'static str), u32>,
    /// Counts what consumers write, so that no two tokens are alike.
    written: BTreeMap<&'static str, u32>,
}

/// The controllers of a server, each change in its own time.
async fn run_controllers(shared: Shared, side: Side) {
    let work = shared.lock().server(side).work.clone();
    loop {
        work.notified().await;
        while shared.lock().server(side).state.waiting() > 0 {
            let pause = shared.lock().server(side).pause();
            sleep(Duration::from_millis(pause)).await;
            shared.lock().step(side);
        }
    }
}

/// What is in the mappings directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    Whole,
    Missing,
    Broken,
}

impl World {
    fn new(plan: &Plan) -> Self {
        let mut mapping = Mapping {
            is_beside: plan.is_beside,
            in_waves: plan.in_waves,
            spread: plan.spread,
            more: plan.more.unwrap_or(More::Shared),
            owner_reference: plan.seed.is_multiple_of(3),
            ..first()
        };
        mapping.related.extend([PASSWORD, CONNECTION].into_iter().filter(|_| plan.has_related));
        mapping.related.extend(plan.more.map(|_| MORE));
        mapping.rules.extend([WIDGET, QUOTA, MADE].into_iter().filter(|_| plan.has_forms));
        let mut world = Self {
            shared: Shared::new(plan),
            plan: plan.clone(),
            draft: mapping.clone(),
            mapping,
            guests: 0,
            handed: BTreeSet::new(),
            is_fleet: plan.has_fleet,
            file: File::Whole,
            target_restored: false,
            source_restored: false,
            pins_lost: false,
            forgot: false,
            without_document: BTreeSet::new(),
            versions: Versions::Both,
            marked: BTreeSet::new(),
            backed_up: BTreeMap::new(),
            processes: BTreeMap::new(),
            written: BTreeMap::new(),
            connections: BTreeMap::new(),
            run: Run::default(),
        };
        world.furnish();
        for target in [Side::Target, Side::Second] {
            world.shared.lock().act(target, &widgets());
        }
        if world.plan.has_forms {
            world.set_versions(Versions::Both);
        }
        world.shared.lock().checker.write(world.draft.clone());
        world.shared.lock().checker.edit(Duration::ZERO, Some(world.mapping.clone()));
        world
    }

    /// What the source server has before any consumer comes.
    fn furnish(&self) {
        let core = &mut *self.shared.lock();
        let requests = match self.plan.is_kcp {
            true => {
                let workspaces = TENANTS.map(|tenant| [workspace(tenant), binding(tenant, self.plan.is_beside)]);
                export(self.plan.is_beside).into_iter().chain(workspaces.into_iter().flatten()).collect()
            }
            false => definitions(self.plan.is_beside),
        };
        for request in requests {
            let (code, body) = core.act(Side::Source, &request);
            core.settle(Side::Source);
            assert!(code < 300, "{} {}: {body}", request.method, request.path);
        }
    }

    async fn live(&mut self) {
        let shared = self.shared.clone();
        self.shared.spawn(async move {
            loop {
                sleep(BOOKMARKS).await;
                let core = &mut *shared.lock();
                Side::ALL.into_iter().for_each(|side| core.server(side).send_bookmarks());
            }
        });
        for side in Side::ALL {
            self.shared.spawn(run_controllers(self.shared.clone(), side));
        }
        self.start(0);
        for (number, step) in self.plan.steps.clone().into_iter().enumerate() {
            sleep(Duration::from_millis(step.after_ms)).await;
            let before = self.circumstances();
            self.act(step.action).await;
            if !step.action.is_of_connections_or_clocks() && self.circumstances() == before {
                self.run.idle.insert(number);
            }
            if self.is_over() {
                return;
            }
        }
        self.end_faults().await;
        self.come_to_rest().await;
        self.run.writes = self.core(|core| core.checker.carried_out.values().copied().max().unwrap_or_default());
        self.run.view = super::twins::view(self, TENANTS[0]);
        let reports: Vec<_> = self.processes.values().flat_map(Process::reports).collect();
        self.core(|core| reports.iter().for_each(|(what, text)| core.checker.check_report(what, text)));
        // A process that starts beside a leader does nothing that could be compared.
        // Nor one that cannot see what is away.
        // One that starts knows no more which marks were there before their mapping.
        let is_blocked = (self.guests > 0 || self.plan.has_fleet) && !self.marked.is_empty();
        if !self.is_over() && !self.plan.elects && self.plan.forever != Some(Forever::Second) && !is_blocked {
            super::aftermath::check(self).await;
        }
        self.end().await;
    }

    fn is_over(&self) -> bool {
        !self.shared.lock().checker.violations.is_empty()
    }

    /// What steps change, as far as it can be compared: servers, files and processes.
    fn circumstances(&self) -> String {
        let processes: Vec<_> = self.processes.keys().collect();
        let files = (&self.draft, self.file, self.guests, self.is_fleet);
        let core = &mut *self.shared.lock();
        let servers = Side::ALL.map(|side| {
            let server = core.server(side);
            let backup = server.backup.as_ref().map(|backup| backup.version());
            (server.epoch, server.state.version(), server.state.waiting(), backup, server.up, server.kubeconfig)
        });
        let faults = (&core.paused, &core.barred, core.denied, core.mutates, core.roster);
        format!("{servers:?} {files:?} {processes:?} {faults:?}")
    }

    /// Ends all faults, and gives the engine its time.
    async fn end_faults(&mut self) {
        self.note("all faults end");
        let ends = [
            Action::Weather(Weather::default()),
            Action::Back(Side::Source),
            Action::Back(Side::Target),
            Action::Back(Side::Second),
            Action::Allow,
            Action::Release,
            Action::Widgets,
            Action::Serve,
            Action::List(Roster::Listed),
            Action::Resume(0),
            Action::Resume(1),
            Action::Resume(OTHER),
        ];
        let mut ends = ends.to_vec();
        if self.plan.elects {
            ends.extend([Action::Resume(THIRD), Action::Unbar(0), Action::Unbar(1), Action::Unbar(THIRD)]);
        }
        // A document that is refused, or held, leaves the one before it in force.
        let is_refused = self.mapping.resource != self.draft.resource;
        let may_be_held = self.mapping.max_lost == 0;
        let needed = [(&self.draft, !is_refused), (&self.mapping, is_refused || may_be_held)];
        if needed.into_iter().any(|(document, is_needed)| is_needed && !self.serves(self.versions, document)) {
            ends.push(Action::Version(Versions::Both));
        }
        for action in ends {
            self.act(action).await;
        }
        if self.file == File::Broken {
            self.act(Action::Edit(Edit::Break)).await;
        }
        if self.plan.has_fleet && !self.is_fleet {
            // What became of sources of another resource is asked of the fleet that they were in.
            self.act(Action::Edit(Edit::Fleet)).await;
        }
        if self.processes.len() > 1 {
            // Processes that do not see the same overwrite each other's status without pause.
            for side in Side::ALL {
                self.act(Action::Cut(side)).await;
            }
            if self.plan.forever == Some(Forever::Second) && self.processes.contains_key(&0) {
                // What one of them saw on the target before that went away, the other one never sees.
                self.act(Action::Crash(1)).await;
            }
        }
        if self.other_served() {
            // It alone releases what it holds.
            self.act(Action::Start(OTHER)).await;
        }
        if self.core(|core| core.max_watches.take()).is_some() {
            let running: Vec<u32> = self.processes.keys().copied().collect();
            for process in running {
                self.act(Action::Crash(process)).await;
                self.act(Action::Start(process)).await;
            }
        }
        // What is still under way arrives.
        sleep(Duration::from_secs(60)).await;
        if [0, 1, THIRD].iter().all(|number| !self.processes.contains_key(number)) {
            self.act(Action::Start(0)).await;
        }
        if self.plan.is_kcp && self.plan.has(|action| matches!(action, Action::Crash(_) | Action::Stop(_))) {
            self.strike_addresses();
        }
    }

    /// Until the world is as the model says and nothing is written any more, or the time is over.
    async fn come_to_rest(&mut self) {
        let since = self.core(|core| core.age());
        loop {
            // Twice in a row: what is in order for a moment may be on its way elsewhere.
            let mut in_order = 0;
            while in_order < 2 && !self.is_over() && self.core(|core| core.age()) < since + RECOVERY {
                sleep(LOOK).await;
                self.follow_record();
                in_order = if super::model::differences(self).is_empty() { in_order + 1 } else { 0 };
            }
            if self.is_over() {
                return;
            }
            let late = self.core(|core| core.age()) >= since + RECOVERY;
            if late {
                super::model::differences(self).into_iter().for_each(|text| self.violated("I4", text));
            }
            // What a silent watch hides is news once it times out, and begins the backoff of what is held up anew.
            let hidden = self.core(|core| core.checker.sees_all_again().saturating_sub(core.age()));
            if !late && !hidden.is_zero() && super::quiet::is_held_up(self) {
                sleep(hidden).await;
                continue;
            }
            let before = self.core(|core| core.checker.writes);
            self.core(|core| core.checker.asked.clear());
            sleep(QUIET).await;
            let writes = self.core(|core| core.checker.writes) - before;
            if writes == 0 && in_order == 2 {
                return super::quiet::check(self);
            }
            if late {
                if writes > 0 {
                    self.violated("I5", format!("{writes} writes in a quiet world"));
                }
                return;
            }
        }
    }

    /// Ends every process but one, and says which one that is.
    pub async fn keep_one_process(&mut self) -> Option<u32> {
        let (kept, _) = self.processes.first_key_value()?;
        let kept = *kept;
        for (_, process) in self.processes.split_off(&(kept + 1)) {
            process.kill().await;
        }
        self.note_rivals();
        Some(kept)
    }

    /// Kills what runs, and sees whether anything of it is left.
    pub async fn end(&mut self) {
        let processes = std::mem::take(&mut self.processes);
        for (_, process) in processes {
            process.kill().await;
        }
        self.check_tasks();
    }

    fn check_tasks(&self) {
        if !self.processes.is_empty() {
            return;
        }
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let ours = self.shared.tasks();
        if alive > ours {
            self.violated("I7", format!("{} tasks of dead engines live on", alive - ours));
        }
    }

    pub fn note(&self, what: impl std::fmt::Display) {
        self.shared.lock().note(format_args!("** {what}"));
    }

    pub fn violated(&self, invariant: &'static str, text: String) {
        self.core(|core| core.checker.violated(invariant, text));
    }

    pub fn start(&mut self, number: u32) {
        if self.processes.is_empty() {
            self.publish();
        }
        let mut process = Process::start(&self.shared, &self.plan, number);
        let (names, is_sound) = (self.names(number), self.file != File::Broken);
        let had_document = |name: &str| self.core(|core| core.checker.last_of(name).is_some());
        let is_without = |name: &&'static str| is_sound && !names.contains(name) && had_document(name);
        self.without_document = MAPPINGS.into_iter().filter(is_without).collect();
        process.reload(&self.shared, self.documents(number), names, is_sound);
        self.processes.insert(number, process);
        self.note_rivals();
    }

    /// Two processes of one engine run without an election, or no longer do.
    pub(super) fn note_rivals(&self) {
        let are_rivals = [0, 1].iter().all(|number| self.processes.contains_key(number));
        self.core(|core| core.checker.has_rivals = are_rivals && !self.plan.elects);
    }

    fn documents(&self, process: u32) -> Option<String> {
        match self.file {
            File::Whole => {
                let is_other = process == OTHER;
                let guest = (self.has_guest() && !is_other).then(|| {
                    let guest = Mapping { status: self.handed.clone(), ..guest(self.plan.is_beside) };
                    guest.document(self.plan.is_kcp, false)
                });
                let documents = [self.draft.document(self.plan.is_kcp, is_other)].into_iter().chain(guest);
                Some(file(&documents.collect::<Vec<_>>(), self.is_fleet))
            }
            File::Missing => None,
            File::Broken => Some("apiVersion: [".to_owned()),
        }
    }

    /// The mappings of these documents.
    fn names(&self, process: u32) -> BTreeSet<&'static str> {
        let guest = (self.has_guest() && process != OTHER).then_some(GUEST);
        let all = [self.draft.name].into_iter().chain(guest);
        all.filter(|_| self.file == File::Whole).collect()
    }

    /// Whether a second mapping on one resource is in the file.
    pub fn has_guest(&self) -> bool {
        !self.guests.is_multiple_of(2)
    }

    /// Whether an engine with another id was there.
    pub fn other_served(&self) -> bool {
        self.plan.has(|action| action == Action::Start(OTHER))
    }

    /// Whether something happened beside what consumers and people at the target do.
    pub fn is_disturbed(&self) -> bool {
        // An engine with too few watches is started anew in the end.
        self.plan.max_watches.is_some() || self.plan.has(|action| !action.is_everyday())
    }

    /// Whether a source may have objects on a target that it does not name.
    pub fn has_forgotten_targets(&self) -> bool {
        self.source_restored || self.target_restored || self.pins_lost
    }

    fn core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        act(&mut self.shared.lock())
    }

    /// A read that nobody notices.
    pub fn get(&self, side: Side, url: &str) -> Option<Value> {
        self.core(|core| core.get(side, url))
    }

    fn source_server(&self, request: &Request) {
        self.core(|core| core.act(Side::Source, request));
    }

    fn target_server(&self, request: &Request) {
        self.core(|core| core.act(Side::Target, request));
    }
}

/// Two sources of a name, in two clusters, lose an object of a name at the same moment.
#[test]
fn the_log_tells_why_an_object_of_this_cluster_goes() {
    let mut log = Log::default();
    for (cluster, why) in [("one", "its source is deleted"), ("other", "the mapping no longer has its id")] {
        let line = format!("reconcile{{cluster=\"{cluster}\"}}: acting action=\"delete ConfigMap ns/x ({why})\"\n");
        io::Write::write_all(&mut log, line.as_bytes()).expect("it is kept");
    }
    let said = |cluster: &str| log.said("delete", cluster, "ConfigMap ns/x");
    assert_eq!(said("one").as_deref(), Some("its source is deleted"));
    for cluster in ["other", ""] {
        assert_eq!(said(cluster).as_deref(), Some("the mapping no longer has its id"));
    }
}
