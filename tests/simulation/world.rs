//! A world: servers, engines and what happens to them, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sync_engine::sandbox::{Flavor, Request};
use tokio::time::sleep;

use super::action::{Action, Edit, Plan, SourceRef, TENANTS};
use super::checker::Violation;
use super::core::{Core, Shared, Weather};
use super::mapping::{CA, EXTRA, MAIN, Mapping};
use super::process::Process;
use super::server::{Ahead, GROUP, RESOURCES, Side, binding, definitions, export, workspace};

/// Within this time after the last fault everything is in order.
const RECOVERY: Duration = Duration::from_secs(600);
/// How often somebody looks whether everything is.
const LOOK: Duration = Duration::from_secs(20);
/// How long nothing must happen then.
const QUIET: Duration = Duration::from_secs(120);
const BOOKMARKS: Duration = Duration::from_secs(10);

/// What a run came to.
pub struct Run {
    pub trace: Vec<String>,
    pub violations: Vec<Violation>,
}

/// Runs a plan in a world of its own.
pub fn run(plan: &Plan) -> Run {
    run_world(plan, false)
}

/// The same, with its trace printed as it comes.
pub fn run_aloud(plan: &Plan) -> Run {
    run_world(plan, true)
}

fn run_world(plan: &Plan, aloud: bool) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let mut world = World::new(plan);
        world.shared.lock().aloud = aloud;
        world.live(plan).await;
        let mut core = world.shared.lock();
        Run { trace: std::mem::take(&mut core.trace), violations: std::mem::take(&mut core.checker.violations) }
    })
}

pub struct World {
    pub shared: Shared,
    pub is_kcp: bool,
    pub mapping: Mapping,
    processes: BTreeMap<u32, Process>,
    /// Counts what consumers write, so that no two tokens are alike.
    written: u32,
}

impl World {
    fn new(plan: &Plan) -> Self {
        let flavor = if plan.is_kcp { Flavor::Kcp } else { Flavor::Kubernetes };
        let mapping = Mapping { name: "m", resource: RESOURCES[0].0, rules: vec![MAIN, CA], edition: 1 };
        let world = Self {
            shared: Shared::new(flavor, plan.seed),
            is_kcp: plan.is_kcp,
            mapping,
            processes: BTreeMap::new(),
            written: 0,
        };
        world.furnish();
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
        self.start(0);
        for step in &plan.steps {
            sleep(Duration::from_millis(step.after_ms)).await;
            self.act(step.action).await;
            if self.is_over() {
                return;
            }
        }
        self.recover().await;
        if !self.is_over() {
            super::model::check(self);
            self.stay_quiet().await;
        }
        self.end().await;
    }

    fn is_over(&self) -> bool {
        !self.shared.lock().checker.violations.is_empty()
    }

    /// Ends all faults, and gives the engine its time.
    async fn recover(&mut self) {
        self.note("all faults end");
        for action in [Action::Weather(Weather::default()), Action::Back(Side::Source), Action::Back(Side::Target)] {
            self.act(action).await;
        }
        // What is still under way arrives.
        sleep(Duration::from_secs(60)).await;
        if !self.processes.contains_key(&0) && !self.processes.contains_key(&1) {
            self.act(Action::Start(0)).await;
        }
        // Twice in a row: what is in order for a moment may be on its way elsewhere.
        let mut in_order = 0;
        for _ in 0..RECOVERY.as_secs() / LOOK.as_secs() {
            sleep(LOOK).await;
            in_order = if super::model::differences(self).is_empty() { in_order + 1 } else { 0 };
            if self.is_over() || in_order == 2 {
                return;
            }
        }
    }

    async fn stay_quiet(&mut self) {
        let before = self.shared.lock().checker.writes;
        sleep(QUIET).await;
        let core = &mut *self.shared.lock();
        let writes = core.checker.writes - before;
        if writes > 0 {
            core.checker.violated("I5", format!("{writes} writes in a quiet world"));
        }
    }

    /// Kills what runs, and sees whether anything of it is left.
    async fn end(&mut self) {
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

    fn start(&mut self, number: u32) {
        let process = Process::start(&self.shared, number, self.is_kcp);
        process.reload(Some(self.mapping.document(self.is_kcp)));
        self.processes.insert(number, process);
    }

    async fn act(&mut self, action: Action) {
        self.note(action);
        match action {
            Action::Create(source) => self.create(source),
            Action::Change(source) => self.change(source),
            Action::Delete(source) => self.delete(source),
            Action::Edit(edit) => self.edit(edit),
            Action::BackUp(side) => self.core(|core| core.server(side).back_up()),
            Action::Restore(side, ahead) => self.restore(side, ahead),
            Action::Rebuild(side, ahead) => self.rebuild(side, ahead),
            Action::Away(side) => self.core(|core| {
                core.server(side).up = false;
                core.server(side).cut_watches();
            }),
            Action::Back(side) => self.core(|core| core.server(side).up = true),
            Action::Cut(side) => self.core(|core| core.server(side).cut_watches()),
            Action::Silence(side) => self.core(|core| core.server(side).silence_watches()),
            Action::Weather(weather) => self.core(|core| core.weather = weather),
            Action::Start(number) if !self.processes.contains_key(&number) => self.start(number),
            Action::Start(_) => {}
            Action::Crash(number) => {
                if let Some(process) = self.processes.remove(&number) {
                    process.kill().await;
                    self.check_tasks();
                }
            }
            Action::Stop(number) => {
                if let Some(process) = self.processes.remove(&number) {
                    process.stop().await;
                    self.check_tasks();
                }
            }
        }
    }

    fn core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        act(&mut self.shared.lock())
    }

    fn create(&mut self, source: SourceRef) {
        self.written += 1;
        let kind = RESOURCES.iter().find(|(plural, _)| *plural == source.resource).map_or("", |(_, kind)| kind);
        let token = format!("token-{}-of-{}", self.written, source.tenant);
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind,
            "metadata": {"name": source.name, "namespace": "default"},
            "spec": {"size": self.written, "token": token, "extra": self.written % 2 == 0},
        });
        let cluster = self.cluster(source.tenant);
        let url = self.url(source.tenant, source.resource, "");
        self.core(|core| {
            core.checker.tokens.insert(token, cluster);
            core.act(Side::Source, &Request::post(&url, &object))
        });
    }

    fn change(&mut self, source: SourceRef) {
        self.written += 1;
        let patch = json!({"spec": {"size": self.written, "extra": self.written % 2 == 0}});
        let url = self.url(source.tenant, source.resource, source.name);
        self.core(|core| core.act(Side::Source, &Request::patch(&url, "application/merge-patch+json", &patch)));
    }

    fn delete(&mut self, source: SourceRef) {
        let url = self.url(source.tenant, source.resource, source.name);
        self.core(|core| core.act(Side::Source, &Request::delete(&url)));
    }

    fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Resource(resource) => self.mapping.resource = resource,
            Edit::Edition => self.mapping.edition += 1,
            Edit::Toggle(id) => {
                let rule = if id == "ca" { CA } else { EXTRA };
                match self.mapping.rules.iter().position(|present| present.id == id) {
                    Some(index) => drop(self.mapping.rules.remove(index)),
                    None => self.mapping.rules.push(rule),
                }
            }
        }
        let mapping = self.mapping.clone();
        self.core(|core| {
            let age = core.age();
            core.checker.edit(age, Some(mapping));
        });
        let document = self.mapping.document(self.is_kcp);
        self.processes.values().for_each(|process| process.reload(Some(document.clone())));
    }

    fn restore(&mut self, side: Side, ahead: Ahead) {
        let done = self.core(|core| core.server(side).restore(ahead));
        if done && side == Side::Source {
            let alive = self.sources();
            self.core(|core| {
                let age = core.age();
                let alive = alive.values().filter(|source| source["metadata"]["deletionTimestamp"].is_null());
                core.checker.restored(age, alive.map(|source| text(source, "uid")));
            });
        }
    }

    fn rebuild(&mut self, side: Side, ahead: Ahead) {
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
                for ((namespace, name), source) in super::server::items(&list) {
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
