//! A case's own world on the shared servers: an API in a group of its own, two tenants, a target, a mappings directory
//! and an engine to start on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::api::Api;
use crate::audit::{AuditLog, Request};
use crate::case::Stage;
use crate::credentials;
use crate::engine::{Engine, Launch};
use crate::eventually::{eventually, throughout};
use crate::fleet::On;
use crate::kcp::Workspace;
use crate::kube::ApiServer;
use crate::mappings::Mappings;
use crate::memory::Memory;
use crate::rest::Rest;
use crate::target::Target;
use crate::tenant::Tenant;

/// The mapping that most cases start from: the whole spec down, a few status fields up.
pub const WIDGETS: &str = include_str!("fixtures/widgets.yaml");

/// How most other mappings begin, in the texts of the cases `<mapping>`; with the object of `WIDGETS`, `<widget mapping>`.
const HEAD: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: <name>}
spec:
  source: <source>";
const WIDGET: &str = "
  objects:
    - id: widget
      template: {apiVersion: <group>/v1, kind: Widget, spec: '${{ source.spec }}'}";

/// The plain source cluster, as a document.
const PROVIDER: &str = include_str!("fixtures/provider.yaml");

pub struct World<'s> {
    pub stage: &'s Stage,
    pub api: Api,
    /// The mapping's name, which no other case uses.
    pub name: String,
    pub alpha: Tenant,
    pub beta: Tenant,
    pub target: Target,
    pub mappings: Mappings,
    /// The workspace that publishes the API, on kcp.
    pub provider: Option<Workspace>,
    /// The consumers' workspaces, on kcp.
    pub workspaces: Vec<Workspace>,
    /// The servers, where they are the case's own.
    memory: Option<Memory>,
    pub source_kubeconfig: PathBuf,
    pub target_kubeconfig: PathBuf,
    audits: [AuditLog; 2],
}

impl Stage {
    /// Widgets published, bound by two tenants, served by the target, and `WIDGETS` in the mappings directory.
    pub async fn widgets(&self) -> World<'_> {
        let world = self.unmapped(true).await;
        world.mappings.write("widgets.yaml", WIDGETS);
        world
    }

    /// The same with a target that nobody else uses, and that can be killed.
    pub async fn widgets_on_own_target(&self) -> (ApiServer, World<'_>) {
        let server = self.fleet.own_cluster(&self.id).await;
        let world = self.world_on(&server, true).await;
        world.mappings.write("widgets.yaml", WIDGETS);
        (server, world)
    }

    /// `WIDGETS` with an engine that is ready.
    pub async fn running(&self) -> (World<'_>, Engine) {
        self.running_with(WIDGETS).await
    }

    /// The same with another mapping.
    pub async fn running_with(&self, mapping: &str) -> (World<'_>, Engine) {
        let world = self.widgets().await;
        world.mappings.write("widgets.yaml", mapping);
        let engine = world.engine().await;
        (world, engine)
    }

    /// The same without a mapping; `installed`: whether the target serves the API.
    pub async fn unmapped(&self, installed: bool) -> World<'_> {
        if self.on == On::Sandbox {
            return self.world_in_memory(installed).await;
        }
        let target = &self.fleet.kubernetes().await.target;
        self.world_on(target, installed).await
    }

    async fn world_in_memory(&self, installed: bool) -> World<'_> {
        let (memory, api) = (Memory::start(&self.user).await, self.api());
        let (kubeconfig, audit) = (memory.source_kubeconfig(), memory.source_audit.clone());
        let make = self.source_of_workspaces(&api, &kubeconfig, audit, async |name| memory.workspace(name).await);
        let source = make.await;
        let (admin, audit) = (memory.target().await, memory.target_audit.clone());
        let world = self.world_of(api, source, admin, &memory.target_kubeconfig, audit, installed).await;
        World { memory: Some(memory), ..world }
    }

    async fn world_on(&self, target: &ApiServer, installed: bool) -> World<'_> {
        let api = self.api();
        let source = match self.on {
            On::Kube => self.kube_source(&api).await,
            On::Kcp | On::Sandbox => self.kcp_source(&api).await,
        };
        let (admin, kubeconfig) = (target.admin().await, target.kubeconfig(&self.user));
        self.world_of(api, source, admin, &kubeconfig, target.audit(), installed).await
    }

    /// The API of the case, in a group of its own.
    fn api(&self) -> Api {
        Api::widgets(format!("{}.example.com", self.id))
    }

    /// A world of this source, and of a target as its administrator sees it, by this kubeconfig of the engine's.
    async fn world_of(
        &self,
        api: Api,
        source: Source,
        admin: Rest,
        kubeconfig: &str,
        audit: AuditLog,
        installed: bool,
    ) -> World<'_> {
        let name = self.mapping();
        if installed {
            api.install(&admin).await;
        }
        let mappings = Mappings::new(self.folder.join("mappings"), words(&api, &name, &source.reference));
        if self.on == On::Kube {
            mappings.write("provider.yaml", PROVIDER);
        }
        let [alpha, beta] = source.tenants;
        World {
            stage: self,
            target: Target { rest: admin, api: api.clone(), mapping: format!("main.{name}") },
            target_kubeconfig: self.keep("target.kubeconfig", kubeconfig),
            source_kubeconfig: source.kubeconfig,
            audits: [source.audit, audit],
            memory: None,
            provider: source.provider,
            workspaces: source.workspaces,
            api,
            name,
            alpha,
            beta,
            mappings,
        }
    }

    /// Writes a file into the case's folder.
    pub fn keep(&self, file: &str, text: &str) -> PathBuf {
        let path = self.folder.join(file);
        fs::write(&path, text).expect("a file of the case");
        path
    }

    /// Name of the case's mapping.
    fn mapping(&self) -> String {
        format!("widgets-{}", self.id)
    }

    async fn kcp_source(&self, api: &Api) -> Source {
        let kcp = self.kcp().await;
        let kubeconfig = kcp.workspace_kubeconfig("root", &self.user);
        self.source_of_workspaces(api, &kubeconfig, kcp.audit(), async |name| kcp.workspace(name).await).await
    }

    /// Makes a workspace that publishes the API, and two that bind it.
    async fn source_of_workspaces(
        &self,
        api: &Api,
        kubeconfig: &str,
        audit: AuditLog,
        make: impl AsyncFn(&str) -> Workspace,
    ) -> Source {
        let names = ["provider", "alpha", "beta"].map(|name| format!("{}-{name}", self.id));
        let (provider, alpha, beta) = tokio::join!(make(&names[0]), make(&names[1]), make(&names[2]));
        provider.publish(api, &self.user).await;
        tokio::join!(alpha.bind(&provider.path, api), beta.bind(&provider.path, api));
        Source {
            reference: format!("apiExport: {{name: {}, path: \"{}\"}}", api.plural, provider.path),
            tenants: [&alpha, &beta].map(|workspace| Tenant::in_workspace(workspace, api)),
            kubeconfig: self.keep("source.kubeconfig", kubeconfig),
            audit,
            provider: Some(provider),
            workspaces: vec![alpha, beta],
        }
    }

    async fn kube_source(&self, api: &Api) -> Source {
        let server = &self.fleet.kubernetes().await.source;
        let admin = server.admin().await;
        api.install(&admin).await;
        let cluster = Tenant::in_cluster(admin, api);
        let (alpha, beta) = (format!("{}-alpha", self.id), format!("{}-beta", self.id));
        Source {
            reference: format!("provider: {}-source", self.mapping()),
            tenants: [cluster.with_namespace(&alpha).await, cluster.with_namespace(&beta).await],
            kubeconfig: self.keep("source.kubeconfig", &server.kubeconfig(&self.user)),
            audit: server.audit(),
            provider: None,
            workspaces: Vec::new(),
        }
    }
}

/// What the kinds of source have in common.
struct Source {
    /// How a mapping's `source` names the clusters.
    reference: String,
    tenants: [Tenant; 2],
    kubeconfig: PathBuf,
    audit: AuditLog,
    provider: Option<Workspace>,
    workspaces: Vec<Workspace>,
}

fn words(api: &Api, name: &str, reference: &str) -> Vec<(&'static str, String)> {
    vec![
        ("<mapping>", HEAD.to_owned()),
        ("<widget mapping>", format!("{HEAD}{WIDGET}")),
        ("<name>", name.to_owned()),
        ("<group>", api.group.clone()),
        ("<source>", format!("{{{reference}, resource: {}}}", api.resource())),
    ]
}

impl World<'_> {
    /// The command line of this world's engine.
    pub fn launch(&self) -> Launch {
        let launch = Launch::bare(&self.stage.folder)
            .flag("--mappings", self.mappings.folder().display())
            .flag("--target-kubeconfig", self.target_kubeconfig.display())
            // Engines of one id share what they noted; the cases beside this one are none of its business.
            .environment("SYNC_ENGINE_STATE_NAMESPACE", format!("notes-{}", self.stage.id));
        self.at_source(launch, &self.source_kubeconfig)
    }

    fn at_source(&self, launch: Launch, kubeconfig: &Path) -> Launch {
        match self.stage.on {
            On::Kcp | On::Sandbox => launch.flag("--kcp-kubeconfig", kubeconfig.display()),
            On::Kube => launch.flag("--connection", format!("source={}", kubeconfig.display())),
        }
    }

    /// The export claims resources of the core group, and every workspace accepts that. A plain cluster has no claims.
    pub async fn lets_use(&self, resources: &[&str]) {
        if let Some(provider) = &self.provider {
            provider.claim(&self.api, resources).await;
        }
        for workspace in &self.workspaces {
            workspace.accept(&self.api, resources).await;
        }
    }

    /// Starts an engine and waits until it is ready.
    pub async fn engine(&self) -> Engine {
        self.launch().ready().await
    }

    /// Creates an object of alpha's; gives the one that is made for it downstream.
    pub async fn made(&self, name: &str, spec: Value) -> Value {
        self.target.made(&self.alpha, name, spec).await
    }

    /// The workspace that publishes the API, in a case on kcp.
    pub fn provider(&self) -> &Workspace {
        self.provider.as_ref().expect("a case on kcp")
    }

    /// Makes one more workspace below `root`.
    pub async fn new_workspace(&self, name: &str) -> Workspace {
        match &self.memory {
            Some(memory) => memory.workspace(name).await,
            None => self.stage.kcp().await.workspace(name).await,
        }
    }

    /// Has the source serve another API beside the case's own, where the consumers bind that.
    pub async fn serve_at_source(&self, api: &Api) {
        let Some(provider) = &self.provider else { return api.install(&self.alpha.rest).await };
        provider.republish(&[&self.api, api]).await;
        for tenant in [&self.alpha, &self.beta] {
            tenant.rest.serves(&api.everywhere()).await;
        }
    }

    /// Has the source serve another revision of the case's API.
    pub async fn update_source(&self, api: &Api) {
        match &self.provider {
            Some(provider) => provider.republish(&[api]).await,
            None => api.update(&self.alpha.rest).await,
        }
    }

    /// The workspace `root` as its administrator sees it.
    pub async fn root(&self) -> Rest {
        match &self.memory {
            Some(memory) => memory.root().await,
            None => self.stage.kcp().await.root().await,
        }
    }

    /// The launch with another target.
    pub fn launch_at(&self, kubeconfig: &str) -> Launch {
        let kubeconfig = self.stage.keep("other-target.kubeconfig", kubeconfig);
        self.launch().flag("--target-kubeconfig", kubeconfig.display())
    }

    /// The launch whose engine may do nothing at the source.
    pub async fn launch_powerless_at_the_source(&self) -> Launch {
        let text = match self.stage.on {
            On::Kcp => self.stage.kcp().await.workspace_kubeconfig("root", credentials::NOBODY),
            On::Kube => self.stage.fleet.kubernetes().await.source.kubeconfig(credentials::NOBODY),
            On::Sandbox => panic!("in-memory servers know no users"),
        };
        let kubeconfig = self.stage.keep("powerless-source.kubeconfig", &text);
        self.at_source(self.launch(), &kubeconfig)
    }

    /// A mapping's source with an export in this workspace.
    pub fn source_at(&self, provider: &Workspace, export: &str) -> String {
        format!("{{apiExport: {{name: {export}, path: \"{}\"}}, resource: {}}}", provider.path, self.api.resource())
    }

    /// The target with the credentials of the case's engines.
    pub async fn as_engine(&self) -> Rest {
        let kubeconfig = fs::read_to_string(&self.target_kubeconfig).expect("the target's kubeconfig");
        Rest::of_kubeconfig(&kubeconfig).await
    }

    /// What the engines of this case have asked of both servers so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        let mut requests: Vec<_> = self.source_requests().into_iter().chain(self.target_requests()).collect();
        requests.sort_by(|one, other| one.received.cmp(&other.received));
        requests
    }

    pub fn source_requests(&self) -> Vec<Request> {
        self.audits[0].requests(&self.stage.user)
    }

    pub fn target_requests(&self) -> Vec<Request> {
        self.audits[1].requests(&self.stage.user)
    }

    /// What a powerless engine has asked of the target.
    pub fn target_requests_of_nobody(&self) -> Vec<Request> {
        self.audits[1].requests(credentials::NOBODY)
    }

    /// What they have written so far, except their Lease, which is renewed for as long as they run.
    pub fn writes(&self) -> Vec<Request> {
        let is_of_lease = |request: &Request| request.uri.contains("/leases");
        self.requests().into_iter().filter(|request| request.is_write() && !is_of_lease(request)).collect()
    }

    /// Waits until no write has come for two seconds; gives all writes so far.
    pub async fn settled(&self) -> Vec<Request> {
        let (mut last, mut calm) = (self.writes().len(), 0);
        eventually("the engine has no more to write", async || {
            let now = self.writes().len();
            calm = if now == last { calm + 1 } else { 0 };
            last = now;
            (calm > 20).then_some(()).ok_or_else(|| format!("{now} writes so far"))
        })
        .await;
        self.writes()
    }

    /// Watches both servers for `span`: no write may come.
    pub async fn no_write(&self, span: Duration) {
        let before = self.writes().len();
        throughout(span, "the engine writes nothing", async || {
            let new: Vec<_> = self.writes().into_iter().skip(before).collect();
            new.is_empty().then_some(()).ok_or_else(|| format!("{new:?}"))
        })
        .await;
    }
}
