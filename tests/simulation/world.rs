//! A world: servers, engines and what happens to them, in virtual time.

use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::{Value, json};
use sync_engine::sandbox::{Flavor, Request};
use tokio::time::sleep;

use super::action::{Action, Edit, Forever, Meddling, Plan, SourceRef, TENANTS};
use super::checker::{AFTERMATH, RECORDS, Violation};
use super::core::{Core, Shared, Weather};
use super::mapping::{KINDS, Mapping, OPTIONAL, api_version, first, placement, url};
use super::matrix::is_fault;
use super::process::{OTHER, Process};
use super::server::{
    Ahead, GROUP, RESOURCES, Side, api_url, binding, definitions, export, has_edition, items, new_schema, no_widgets,
    serve_widgets, widgets, workspace,
};

/// Within this time after the last fault everything is in order.
const RECOVERY: Duration = Duration::from_secs(600);
/// How often somebody looks whether everything is.
const LOOK: Duration = Duration::from_secs(20);
/// How long nothing must happen then.
const QUIET: Duration = Duration::from_secs(120);
const BOOKMARKS: Duration = Duration::from_secs(10);
const MERGE: &str = "application/merge-patch+json";

/// Of real time. A world takes less than a second of it, on a busy machine some.
const PATIENCE: Duration = Duration::from_secs(240);

/// What a run came to.
pub struct Run {
    pub trace: Vec<String>,
    pub violations: Vec<Violation>,
    /// Faults that happened.
    pub faults: u64,
    /// The writes of the process that sent most of them.
    pub writes: u64,
    /// What the first tenant sees in the end.
    pub view: BTreeMap<String, Value>,
}

/// Runs a plan in a world of its own.
pub fn run(plan: &Plan) -> Run {
    run_world(plan, false)
}

/// The same, with its trace printed as it comes.
pub fn run_aloud(plan: &Plan) -> Run {
    run_world(plan, true)
}

/// On a thread of its own: an engine that never rests would hold up virtual time for ever.
fn run_world(plan: &Plan, aloud: bool) -> Run {
    let (send, receive) = std::sync::mpsc::channel();
    let lived = plan.clone();
    #[cfg(feature = "mutants")]
    let mutant = sync_engine::mutants::current();
    let thread = std::thread::spawn(move || {
        #[cfg(feature = "mutants")]
        sync_engine::mutants::set(mutant);
        send.send(run_here(&lived, aloud))
    });
    match receive.recv_timeout(PATIENCE) {
        Ok(run) => run,
        Err(RecvTimeoutError::Timeout) => {
            panic!("seed {}: virtual time stands still: something is busy and waits for nothing", plan.seed)
        }
        Err(RecvTimeoutError::Disconnected) => {
            let cause = thread.join().expect_err("it sent nothing");
            std::panic::resume_unwind(cause)
        }
    }
}

fn run_here(plan: &Plan, aloud: bool) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let mut world = World::new(plan);
        world.shared.lock().aloud = aloud;
        world.shared.lock().forever = plan.forever;
        world.live(plan).await;
        let view = std::mem::take(&mut world.view);
        let mut core = world.shared.lock();
        Run {
            trace: std::mem::take(&mut core.trace),
            violations: std::mem::take(&mut core.checker.violations),
            faults: core.checker.faults,
            writes: world.writes,
            view,
        }
    })
}

pub struct World {
    pub shared: Shared,
    pub seed: u64,
    pub is_kcp: bool,
    pub mapping: Mapping,
    pub file: File,
    /// Whether the target was put back: what the engine knew of it may be lost.
    pub target_restored: bool,
    /// Whether an engine ended, and with it its memory of late requests.
    pub forgot: bool,
    /// Whether something happened beside what consumers and people at the target do.
    pub is_disturbed: bool,
    /// Whether the source server was rebuilt.
    pub is_rebuilt: bool,
    /// Whether people deleted a namespace of objects.
    pub lost_namespace: bool,
    /// Whether an engine with another id was there.
    pub other_served: bool,
    /// The mapping whose records the target's backup holds.
    backed_up: Option<&'static str>,
    /// The writes of the process that sent most of them, when the world came to rest.
    writes: u64,
    /// What the first tenant saw then.
    view: BTreeMap<String, Value>,
    pub processes: BTreeMap<u32, Process>,
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
        let flavor = if plan.is_kcp { Flavor::Kcp } else { Flavor::Kubernetes };
        let mapping = first(RESOURCES[0].0);
        // With two shards each tenant is on its own: the endpoint comes and goes with its binding.
        let shards = if plan.is_kcp && plan.seed % 2 == 1 { 2 } else { 1 };
        let world = Self {
            shared: Shared::new(flavor, plan.seed, shards),
            seed: plan.seed,
            is_kcp: plan.is_kcp,
            mapping,
            file: File::Whole,
            target_restored: false,
            forgot: false,
            is_disturbed: false,
            is_rebuilt: false,
            lost_namespace: false,
            other_served: false,
            backed_up: None,
            processes: BTreeMap::new(),
            written: BTreeMap::new(),
            writes: 0,
            view: BTreeMap::new(),
        };
        world.furnish();
        world.shared.lock().act(Side::Target, &widgets());
        world.shared.lock().checker.edit(Duration::ZERO, Some(world.mapping.clone()));
        world
    }

    /// What the source server has before any consumer comes.
    fn furnish(&self) {
        let core = &mut *self.shared.lock();
        let requests = match self.is_kcp {
            true => {
                let workspaces = TENANTS.map(|tenant| [workspace(tenant), binding(tenant)]);
                export().into_iter().chain(workspaces.into_iter().flatten()).collect()
            }
            false => definitions(),
        };
        for request in requests {
            let (code, body) = core.act(Side::Source, &request);
            core.settle(Side::Source);
            assert!(code < 300, "{} {}: {body}", request.method, request.path);
        }
    }

    async fn live(&mut self, plan: &Plan) {
        let shared = self.shared.clone();
        self.shared.spawn(async move {
            loop {
                sleep(BOOKMARKS).await;
                let core = &mut *shared.lock();
                core.server(Side::Source).send_bookmarks();
                core.server(Side::Target).send_bookmarks();
            }
        });
        for side in [Side::Source, Side::Target] {
            self.shared.spawn(run_controllers(self.shared.clone(), side));
        }
        self.start(0);
        for step in &plan.steps {
            sleep(Duration::from_millis(step.after_ms)).await;
            self.act(step.action).await;
            if self.is_over() {
                return;
            }
        }
        self.end_faults().await;
        self.come_to_rest().await;
        self.writes = self.core(|core| core.checker.carried_out.values().copied().max().unwrap_or_default());
        self.view = super::twins::view(self, TENANTS[0]);
        if !self.is_over() {
            super::aftermath::check(self).await;
        }
        self.end().await;
    }

    fn is_over(&self) -> bool {
        !self.shared.lock().checker.violations.is_empty()
    }

    /// Ends all faults, and gives the engine its time.
    async fn end_faults(&mut self) {
        self.note("all faults end");
        let ends = [
            Action::Weather(Weather::default()),
            Action::Back(Side::Source),
            Action::Back(Side::Target),
            Action::Allow,
            Action::Release,
            Action::Widgets,
            Action::Serve,
            Action::Resume(0),
            Action::Resume(1),
            Action::Resume(OTHER),
        ];
        for action in ends {
            self.act(action).await;
        }
        if self.file == File::Broken {
            self.act(Action::Edit(Edit::Break)).await;
        }
        if self.processes.len() > 1 {
            // Processes that do not see the same overwrite each other's status without pause.
            self.act(Action::Cut(Side::Source)).await;
            self.act(Action::Cut(Side::Target)).await;
        }
        if self.other_served {
            // It alone releases what it holds.
            self.act(Action::Start(OTHER)).await;
        }
        // What is still under way arrives.
        sleep(Duration::from_secs(60)).await;
        if !self.processes.contains_key(&0) && !self.processes.contains_key(&1) {
            self.act(Action::Start(0)).await;
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
                in_order = if super::model::differences(self).is_empty() { in_order + 1 } else { 0 };
            }
            if self.is_over() {
                return;
            }
            let late = self.core(|core| core.age()) >= since + RECOVERY;
            if late {
                super::model::check(self);
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
                    self.core(|core| core.checker.violated("I5", format!("{writes} writes in a quiet world")));
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
            let text = format!("{} tasks of dead engines live on", alive - ours);
            self.shared.lock().checker.violated("I7", text);
        }
    }

    pub fn note(&self, what: impl std::fmt::Display) {
        self.shared.lock().note(format_args!("** {what}"));
    }

    pub fn start(&mut self, number: u32) {
        let process = Process::start(&self.shared, number, self.is_kcp);
        process.reload(&self.shared, self.documents(number), self.file != File::Broken);
        self.processes.insert(number, process);
        self.other_served |= number == OTHER;
    }

    fn documents(&self, process: u32) -> Option<String> {
        match self.file {
            File::Whole => Some(self.mapping.document(self.is_kcp, process == OTHER)),
            File::Missing => None,
            File::Broken => Some("apiVersion: [".to_owned()),
        }
    }

    async fn act(&mut self, action: Action) {
        self.note(action);
        self.is_disturbed |= !action.is_everyday();
        self.tell_checker(action);
        if action == Action::Widgets && self.forever() == Some(Forever::NoWidgets) {
            return;
        }
        match action {
            Action::Create(source) => self.create(source),
            Action::Change(source) => self.change(source),
            Action::Delete(source) => self.delete(source),
            Action::Recreate(source) => {
                self.delete(source);
                self.strip(source);
                self.create(source);
            }
            Action::Strip(source) => self.strip(source),
            Action::Label(source) => self.label(source),
            Action::Forge(source) => self.forge(source),
            Action::Plant(source) => self.plant(source),
            Action::Bind(tenant) => self.source_server(&binding(tenant)),
            Action::Unbind(tenant) => {
                let url = format!("/clusters/root:{tenant}/apis/apis.kcp.io/v1alpha2/apibindings/things");
                self.source_server(&Request::delete(&url));
            }
            Action::CreateWorkspace(tenant) => {
                self.source_server(&workspace(tenant));
                self.core(|core| core.settle(Side::Source));
                self.source_server(&binding(tenant));
            }
            Action::DeleteWorkspace(tenant) => {
                let url = format!("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/{tenant}");
                self.source_server(&Request::delete(&url));
            }
            Action::Meddle(source, meddling) => self.meddle(source, meddling),
            Action::DeleteNamespace(source) => {
                self.lost_namespace = true;
                let namespace = self.namespace(source);
                self.target_server(&Request::delete(&format!("/api/v1/namespaces/{namespace}")));
            }
            Action::Release => self.release(),
            Action::NoWidgets => self.target_server(&no_widgets()),
            Action::Widgets => {
                self.core(|core| core.settle(Side::Target));
                self.target_server(&widgets());
            }
            Action::Unserve | Action::Serve => {
                self.target_server(&serve_widgets(action == Action::Serve));
                self.core(|core| core.settle(Side::Target));
                self.core(|core| core.server(Side::Target).end_watches("widgets"));
            }
            Action::Deny(verb) => self.core(|core| core.denied = Some(verb)),
            Action::Allow => self.core(|core| core.denied = None),
            Action::Compact(side) => self.core(|core| core.server(side).compact()),
            Action::Jump(seconds) => self.core(|core| core.jumped += seconds),
            Action::Edit(edit) => self.edit(edit),
            Action::Approve => self.approve(),
            Action::Schema => self.source_servers(new_schema(self.is_kcp, !self.has_edition())),
            Action::BackUp(side) => self.back_up(side),
            Action::Restore(side, ahead) => self.restore(side, ahead),
            Action::Rebuild(side, ahead) => self.rebuild(side, ahead),
            Action::Away(side) => self.core(|core| {
                core.server(side).up = false;
                core.server(side).cut_watches();
            }),
            Action::Back(side) => self.core(|core| core.server(side).up = true),
            Action::Cut(side) => self.core(|core| core.server(side).cut_watches()),
            Action::Silence(side) => self.core(|core| core.server(side).silence_watches()),
            Action::Weather(weather) => self.core(|core| core.set_weather(weather)),
            Action::Pause(number) => drop(self.core(|core| core.paused.insert(number))),
            Action::Resume(number) => self.core(|core| core.resume(number)),
            Action::Skew(number, seconds) => self.core(|core| *core.skewed.entry(number).or_default() += seconds),
            Action::Address(side) => self.core(|core| core.server(side).kubeconfig.address += 1),
            Action::Token(side) => self.core(|core| core.server(side).kubeconfig.token += 1),
            Action::Start(number) if !self.processes.contains_key(&number) => self.start(number),
            Action::Start(_) => {}
            Action::Crash(number) => {
                self.forgot = true;
                self.core(|core| core.resume(number));
                if let Some(process) = self.processes.remove(&number) {
                    process.kill().await;
                    self.check_tasks();
                }
            }
            Action::Stop(number) => {
                self.forgot = true;
                self.core(|core| core.resume(number));
                if let Some(process) = self.processes.remove(&number) {
                    process.stop().await;
                    self.check_tasks();
                }
            }
        }
    }

    pub fn forever(&self) -> Option<Forever> {
        self.core(|core| core.forever)
    }

    /// A fault that undoes or hides what servers hold counts once for each object.
    fn tell_checker(&self, action: Action) {
        let objects = match action {
            Action::Restore(..) | Action::Rebuild(..) | Action::NoWidgets => {
                self.sources().len() + self.target_objects().len()
            }
            _ => 0,
        };
        let is_end = matches!(action, Action::Back(_) | Action::Allow | Action::Widgets | Action::Resume(_));
        self.core(|core| {
            let age = core.age();
            core.checker.has_changed(age);
            if is_fault(action) {
                core.checker.is_troubled(age + AFTERMATH);
                core.checker.faults += objects as u64;
            }
            if is_end {
                core.checker.feels_it(age + AFTERMATH);
            }
        });
    }

    fn core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        act(&mut self.shared.lock())
    }

    /// Counts what a tenant writes.
    fn next_written(&mut self, tenant: &'static str) -> u32 {
        let written = self.written.entry(tenant).or_default();
        *written += 1;
        *written
    }

    fn create(&mut self, source: SourceRef) {
        let written = self.next_written(source.tenant);
        let kind = RESOURCES.iter().find(|(plural, _)| *plural == source.resource).map_or("", |(_, kind)| kind);
        let token = format!("token-{}-of-{}", written, source.tenant);
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind,
            "metadata": {"name": source.name, "namespace": "default", "labels": {"tier": "managed"}},
            "spec": {"size": written, "token": token, "extra": written.is_multiple_of(2)},
        });
        let cluster = self.cluster(source.tenant);
        if cluster.is_empty() {
            return;
        }
        let url = self.url(source.tenant, source.resource, "");
        let is_kcp = self.is_kcp;
        self.core(|core| {
            if is_kcp {
                core.checker.tokens.insert(token, cluster);
            }
            core.act(Side::Source, &Request::post(&url, &object))
        });
    }

    fn change(&mut self, source: SourceRef) {
        let written = self.next_written(source.tenant);
        let patch = json!({"spec": {"size": written, "extra": written.is_multiple_of(2)}});
        let url = self.url(source.tenant, source.resource, source.name);
        self.core(|core| core.act(Side::Source, &Request::patch(&url, MERGE, &patch)));
    }

    fn delete(&mut self, source: SourceRef) {
        let url = self.url(source.tenant, source.resource, source.name);
        self.core(|core| core.act(Side::Source, &Request::delete(&url)));
    }

    fn source_server(&self, request: &Request) {
        self.core(|core| core.act(Side::Source, request));
    }

    fn target_server(&self, request: &Request) {
        self.core(|core| core.act(Side::Target, request));
    }

    fn strip(&self, source: SourceRef) {
        let url = self.url(source.tenant, source.resource, source.name);
        let patch = json!({"metadata": {"finalizers": null}});
        self.source_server(&Request::patch(&url, MERGE, &patch));
    }

    fn label(&self, source: SourceRef) {
        let url = self.url(source.tenant, source.resource, source.name);
        let Some(object) = self.core(|core| core.get(Side::Source, &url)) else { return };
        let managed = object["metadata"]["labels"]["tier"] == "managed";
        let tier = if managed { Value::Null } else { "managed".into() };
        self.source_server(&Request::patch(&url, MERGE, &json!({"metadata": {"labels": {"tier": tier}}})));
    }

    fn target_object(&self, source: SourceRef) -> Option<Value> {
        let place = url("ConfigMap", &self.namespace(source), source.name);
        self.core(|core| core.get(Side::Target, &place))
    }

    fn forge(&self, source: SourceRef) {
        let Some(object) = self.target_object(source) else { return };
        let metadata = &object["metadata"];
        let patch = json!({"metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]}});
        let url = self.url(source.tenant, source.resource, source.name);
        self.source_server(&Request::patch(&url, MERGE, &patch));
    }

    fn plant(&self, source: SourceRef) {
        let Some(mut object) = self.target_object(source) else { return };
        let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
        self.target_server(&Request::post("/api/v1/namespaces", &name));
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "name"));
        self.target_server(&Request::post(&url("ConfigMap", "elsewhere", ""), &object));
    }

    fn meddle(&self, source: SourceRef, meddling: Meddling) {
        let namespace = self.namespace(source);
        let place = url("ConfigMap", &namespace, source.name);
        let present = self.core(|core| core.get(Side::Target, &place));
        let patch =
            |body: Value| self.target_server(&Request::patch(&format!("{place}?fieldManager=people"), MERGE, &body));
        match (meddling, present) {
            (Meddling::Edit, Some(_)) => patch(json!({"data": {"size": "edited", "more": "edited"}})),
            (Meddling::Delete, Some(_)) => self.target_server(&Request::delete(&place)),
            (Meddling::Strip, Some(_)) => patch(json!({"metadata": {"labels": null, "annotations": null}})),
            (Meddling::Hold, Some(_)) => patch(json!({"metadata": {"finalizers": ["example.dev/hold"]}})),
            (Meddling::Copy, Some(mut object)) => {
                let metadata = object["metadata"].as_object_mut().expect("metadata");
                metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "namespace"));
                metadata.insert("name".to_owned(), format!("{}-copy", source.name).into());
                self.target_server(&Request::post(&url("ConfigMap", &namespace, ""), &object));
            }
            (Meddling::Squat, None) => {
                let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                self.target_server(&Request::post("/api/v1/namespaces", &name));
                let object = json!({
                    "apiVersion": api_version("ConfigMap"), "kind": "ConfigMap",
                    "metadata": {"name": source.name}, "data": {"of": "people"},
                });
                self.target_server(&Request::post(&url("ConfigMap", &namespace, ""), &object));
            }
            _ => {}
        }
    }

    /// Takes people's finalizers off.
    fn release(&self) {
        for object in self.target_objects() {
            if !object["metadata"]["finalizers"].is_null() {
                let kind = object["kind"].as_str().unwrap_or_default();
                let place = url(kind, &text(&object, "namespace"), &text(&object, "name"));
                let patch = json!({"metadata": {"finalizers": null}});
                self.target_server(&Request::patch(&place, MERGE, &patch));
            }
        }
    }

    /// Every object on the target of the kinds that mappings make.
    pub fn target_objects(&self) -> Vec<Value> {
        let of_kind = |kind: &str| {
            let list = self.core(|core| core.get(Side::Target, &url(kind, "", ""))).unwrap_or_default();
            let mut objects: Vec<Value> = items(&list).into_values().collect();
            objects.iter_mut().for_each(|object| object["kind"] = kind.into());
            objects
        };
        let all = KINDS.iter().flat_map(|(kind, _)| of_kind(kind));
        all.filter(|object| text(object, "namespace") != RECORDS).collect()
    }

    fn edit(&mut self, edit: Edit) {
        self.file = match (edit, self.file) {
            (Edit::Remove, File::Whole) => File::Missing,
            (Edit::Break, File::Whole) => File::Broken,
            _ => File::Whole,
        };
        self.mapping.edit(edit, &OPTIONAL);
        let edition = match self.file {
            File::Whole => Some(Some(self.mapping.clone())),
            File::Missing => Some(None),
            // What ran before goes on.
            File::Broken => None,
        };
        if let Some(edition) = edition {
            self.core(|core| {
                let age = core.age();
                core.checker.edit(age, edition);
            });
        }
        let sound = self.file != File::Broken;
        for (number, process) in &self.processes {
            process.reload(&self.shared, self.documents(*number), sound);
        }
    }

    /// Where today's rule puts the objects of a source.
    fn namespace(&self, source: SourceRef) -> String {
        format!("{}{}", placement(&self.cluster(source.tenant), "default"), self.mapping.namespace)
    }

    fn approve(&self) {
        self.core(|core| core.checker.approved = Some(core.age()));
        self.processes.values().for_each(|process| process.approve(&self.shared));
    }

    fn source_servers(&self, requests: Vec<Request>) {
        requests.iter().for_each(|request| self.source_server(request));
    }

    /// Whether the API of the sources has the field `status.edition` now.
    pub fn has_edition(&self) -> bool {
        self.core(|core| core.get(Side::Source, api_url(self.is_kcp))).is_some_and(|api| has_edition(&api))
    }

    fn back_up(&mut self, side: Side) {
        if side == Side::Target {
            // Not before the engine has its records there: without them it waits for a person.
            let name = self.mapping.name;
            let records = format!("/api/v1/namespaces/{RECORDS}/configmaps/main.{name}");
            if self.core(|core| core.get(Side::Target, &records)).is_none() {
                return;
            }
            self.backed_up = Some(name);
        }
        self.core(|core| core.server(side).back_up());
    }

    fn restore(&mut self, side: Side, ahead: Ahead) {
        if side == Side::Target && self.backed_up != Some(self.mapping.name) {
            return;
        }
        if !self.core(|core| core.server(side).restore(ahead)) {
            return;
        }
        match side {
            Side::Source => {
                let sources = self.sources();
                self.core(|core| {
                    let age = core.age();
                    core.checker.sources_restored(age, sources.values());
                });
            }
            Side::Target => {
                self.target_restored = true;
                let objects = self.target_objects();
                self.core(|core| core.checker.target_restored(objects.iter()));
            }
        }
    }

    fn rebuild(&mut self, side: Side, ahead: Ahead) {
        self.is_rebuilt |= side == Side::Source;
        self.core(|core| {
            let now = core.now();
            core.server(side).rebuild(now, ahead);
        });
        if side == Side::Source {
            self.furnish();
        }
    }

    /// The cluster that a tenant's objects are in, as the engine names it.
    pub fn cluster(&self, tenant: &str) -> String {
        if !self.is_kcp {
            return "plain".into();
        }
        let url = format!("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/{tenant}");
        let workspace = self.core(|core| core.get(Side::Source, &url)).unwrap_or_default();
        workspace["spec"]["cluster"].as_str().unwrap_or_default().to_owned()
    }

    /// Whether a cluster is one that engines serve: its workspace is there, and bound.
    pub fn is_served(&self, cluster: &str) -> bool {
        let is_bound = |tenant: &&str| {
            let url = format!("/clusters/root:{tenant}/apis/apis.kcp.io/v1alpha2/apibindings/things");
            self.cluster(tenant) == cluster && self.core(|core| core.get(Side::Source, &url)).is_some()
        };
        !self.is_kcp || TENANTS.iter().any(is_bound)
    }

    /// The identity of a cluster of sources, as ownership annotations tell it. A plain cluster that is rebuilt is another one.
    pub fn identity(&self, cluster: &str) -> String {
        if self.is_kcp {
            return cluster.to_owned();
        }
        let system = self.core(|core| core.get(Side::Source, "/api/v1/namespaces/kube-system"));
        system.map(|namespace| text(&namespace, "uid")).unwrap_or_default()
    }

    fn url(&self, tenant: &str, resource: &str, name: &str) -> String {
        let cluster = if self.is_kcp { format!("/clusters/root:{tenant}") } else { String::new() };
        let url = format!("{cluster}/apis/{GROUP}/v1/namespaces/default/{resource}");
        if name.is_empty() { url } else { format!("{url}/{name}") }
    }

    /// Every source there is of either resource.
    pub fn sources(&self) -> BTreeMap<SourceKey, Value> {
        let tenants = if self.is_kcp { &TENANTS[..] } else { &TENANTS[..1] };
        let mut sources = BTreeMap::new();
        for tenant in tenants {
            let cluster = self.cluster(tenant);
            for (resource, _) in RESOURCES {
                let url = self.url(tenant, resource, "");
                let list = self.core(|core| core.get(Side::Source, &url)).unwrap_or_default();
                for ((namespace, name), source) in items(&list) {
                    sources.insert(SourceKey { cluster: cluster.clone(), resource, namespace, name }, source);
                }
            }
        }
        sources
    }
}

/// A source, as servers speak of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    pub cluster: String,
    pub resource: &'static str,
    pub namespace: String,
    pub name: String,
}

pub fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
