//! Providers: clusters that come, change and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use sync_engine::health::{Health, Level, Standing};
use sync_engine::mapping::document::KubeconfigProviderSpec;
use sync_engine::mapping::{ApiExportRef, ClusterProvider, ProviderKind, SourceClusters};
use sync_engine::multicluster::connection::{Connection, Machine, Process};
use sync_engine::multicluster::environment::{CustomProviders, Environment};
use sync_engine::multicluster::identity::{IdentityState, cluster_identity};
use sync_engine::multicluster::manager::{ClusterEvent, ClusterEvents, Manager};
use sync_engine::multicluster::registry::ProviderName;
use sync_engine::multicluster::watch::{Selectors, WatchState, Watches};
use sync_engine::sandbox::{ApiRef, Failure, Fault, Options, Sandbox, Verb};

use crate::custom_provider::Inventory;
use crate::multicluster::scene::{Folder, PATIENCE, connection, resource, until_state};
use crate::multicluster::watches::schema;

const NOBODY: [SourceClusters; 0] = [];
const THINGS: &str = "things.v1.example.com";

struct Scene {
    sandbox: Sandbox,
    manager: Manager,
    events: ClusterEvents,
    health: Health,
    url: String,
}

fn export(name: &str, path: Option<&str>) -> SourceClusters {
    let path = path.map(str::to_owned);
    SourceClusters::ApiExport(ApiExportRef { connection: "kcp".into(), path, name: name.into(), endpoint_slice: None })
}

pub fn manager(connections: &[(&str, Arc<Connection>)]) -> (Manager, Health) {
    manager_on(connections, Machine::default())
}

/// The same with what a command line opens of its machine.
pub fn manager_on(connections: &[(&str, Arc<Connection>)], machine: Machine) -> (Manager, Health) {
    let connections: BTreeMap<_, _> = connections.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let custom = CustomProviders::default().with("inventory", Inventory::new);
    let process = Process { machine: Arc::new(machine), ..Process::default() };
    let environment = Environment { connections: connections.into(), process, custom, ..Environment::default() };
    let health = environment.health.clone();
    (Manager::new(environment), health)
}

impl Scene {
    /// A kcp that publishes `things` from workspace `root:provider`.
    async fn new(options: Options) -> Self {
        let sandbox = options.start().await.expect("a sandbox");
        sandbox.create_workspace("root", "provider").expect("a workspace");
        let root = connection(&sandbox.kubeconfig(Some("root")));
        Self::of("kcp", root, sandbox)
    }

    /// A sandbox, and a connection to it.
    fn of(name: &str, connection: Arc<Connection>, sandbox: Sandbox) -> Self {
        let (manager, health) = manager(&[(name, connection)]);
        let (events, url) = (manager.subscribe(), sandbox.url());
        Self { sandbox, manager, events, health, url }
    }

    async fn published(options: Options) -> Self {
        let scene = Self::new(options).await;
        scene.sandbox.publish("root:provider", "things", &[schema()], &[]).expect("an export");
        scene
    }

    fn bind(&self, name: &str) -> String {
        let workspace = self.sandbox.create_workspace("root", name).expect("a workspace");
        self.sandbox.bind(&workspace, "root:provider", "things", &[]).expect("a binding");
        workspace
    }

    async fn next(&mut self) -> String {
        next(&mut self.events).await
    }

    /// The next event that is not about identity.
    async fn next_of_clusters(&mut self) -> String {
        loop {
            let event = self.next().await;
            if !event.starts_with("identity") {
                return event;
            }
        }
    }

    async fn complaint(&self) -> String {
        complaint(&self.health, "").await.replace(&self.url, "URL")
    }
}

/// What the first condition complains of, once there is one that does, and says this.
pub async fn complaint(health: &Health, text: &str) -> String {
    let mut changes = health.changes();
    let complains = |one: &Standing| one.condition.level != Level::Ready && one.condition.message.contains(text);
    let wait = async {
        loop {
            if let Some(ill) = health.standings().into_iter().find(complains) {
                return format!("{}: {}", ill.component, ill.condition.message);
            }
            changes.advanced().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("a complaint")
}

pub async fn next(events: &mut ClusterEvents) -> String {
    match tokio::time::timeout(PATIENCE, events.next()).await.expect("an event in time") {
        None => "end".into(),
        Some(ClusterEvent::Engaged(cluster)) => {
            format!("+{} {}", cluster.spec.name, cluster.spec.path.as_deref().unwrap_or("-"))
        }
        Some(ClusterEvent::Described(cluster)) => format!("~{}", cluster.spec.name),
        Some(ClusterEvent::Disengaged(cluster, reason)) => format!("-{} {reason}", cluster.spec.name),
        Some(ClusterEvent::Synced(_)) => "synced".into(),
        Some(ClusterEvent::Identity(_, identity)) => format!("identity {identity}"),
    }
}

#[tokio::test]
async fn an_export_without_consumers_is_synced_and_consumers_come_and_go() {
    let mut scene = Scene::published(Options::kcp()).await;
    let things = export("things", Some("root:provider"));
    scene.manager.run([things.clone()]);
    assert_eq!(scene.next_of_clusters().await, "synced");
    let one = scene.bind("one");
    assert_eq!(scene.next_of_clusters().await, format!("+{one} root:one"));
    let cluster = scene.manager.clusters(&things).pop().expect("a cluster");
    assert_eq!(cluster.spec.endpoint.url(), cluster.spec.scope.endpoint.url().replace('*', &one));
    let two = scene.bind("two");
    assert_eq!(scene.next_of_clusters().await, format!("+{two} root:two"));
    scene.sandbox.unbind(&one, "things").expect("unbound");
    assert_eq!(scene.next_of_clusters().await, format!("-{one} Removed"));
    let exports = ApiRef { cluster: "root:provider", resource: "apiexports.v1alpha2.apis.kcp.io" };
    let hash = scene.sandbox.get(exports, "", "things").expect("the export")["status"]["identityHash"].clone();
    assert_eq!(scene.manager.identity(&things).map(Into::into), Some(hash));

    let mut late = scene.manager.subscribe();
    assert!(next(&mut late).await.starts_with("identity"));
    assert_eq!(next(&mut late).await, format!("+{two} root:two"));
    scene.manager.run(NOBODY);
    assert_eq!(scene.next_of_clusters().await, format!("-{two} ProviderStopped"));
    assert!(scene.health.standings().is_empty());
}

#[tokio::test]
async fn exports_of_one_workspace_share_what_is_watched_there() {
    let mut scene = Scene::published(Options::kcp()).await;
    scene.sandbox.publish("root:provider", "others", &[], &[]).expect("another export");
    scene.manager.run([export("things", Some("root:provider")), export("others", Some("root:provider"))]);
    assert_eq!([scene.next_of_clusters().await, scene.next_of_clusters().await], ["synced", "synced"]);
    let lists = ["apiexports", "apiexportendpointslices"].map(|plural| scene.sandbox.counters().of(Verb::List, plural));
    assert_eq!(lists, [1, 1]);
    let one = scene.bind("one");
    assert_eq!(scene.next_of_clusters().await, format!("+{one} root:one"));
    assert!(scene.manager.clusters(&export("others", Some("root:provider"))).is_empty());
}

#[tokio::test]
async fn a_binding_that_is_being_deleted_keeps_its_workspace_engaged() {
    let mut scene = Scene::published(Options::kcp()).await;
    let one = scene.bind("one");
    let api = ApiRef { cluster: &one, resource: THINGS };
    let thing = json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default", "finalizers": ["sync-engine.dev/main.m"]},
    });
    scene.sandbox.create(api, &thing).expect("a thing");
    let things = export("things", Some("root:provider"));
    scene.manager.run([things.clone()]);
    assert_eq!(scene.next_of_clusters().await, format!("+{one} root:one"));
    assert_eq!(scene.next_of_clusters().await, "synced");
    scene.sandbox.unbind(&one, "things").expect("unbinding");
    // An engine that starts only now has to serve it as well.
    let (second, _) = manager(&[("kcp", connection(&scene.sandbox.kubeconfig(Some("root"))))]);
    let mut events = second.subscribe();
    second.run([things]);
    let mut first = next(&mut events).await;
    if first.starts_with("identity") {
        first = next(&mut events).await;
    }
    assert_eq!(first, format!("+{one} root:one"));
    scene.sandbox.merge(api, "default", "a", &json!({"metadata": {"finalizers": null}})).expect("released");
    let gone = scene.next_of_clusters().await;
    assert!([format!("-{one} Removed"), format!("-{one} EndpointLost")].contains(&gone), "{gone}");
}

#[tokio::test]
async fn every_shard_is_followed_and_a_lost_one_is_no_deletion() {
    let mut scene = Scene::published(Options::kcp().shards(2)).await;
    scene.manager.run([export("things", Some("root:provider"))]);
    let mut clusters: Vec<String> = (0..6).map(|n| scene.bind(&format!("w{n}"))).collect();
    let mut engaged = Vec::new();
    while engaged.len() < clusters.len() {
        let event = scene.next_of_clusters().await;
        if let Some(cluster) = event.strip_prefix('+') {
            engaged.push(cluster.split(' ').next().unwrap_or_default().to_owned());
        }
    }
    clusters.sort();
    engaged.sort();
    assert_eq!(engaged, clusters);
    let of = scene.manager.clusters(&export("things", Some("root:provider")));
    let addresses: BTreeSet<_> = of.iter().map(|it| it.spec.scope.endpoint.url().to_owned()).collect();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
}

#[tokio::test]
async fn what_is_missing_is_said_and_recovered_from() {
    let mut scene = Scene::new(Options::kcp()).await;
    scene.manager.run([export("things", Some("root:provider"))]);
    insta::assert_snapshot!(scene.complaint().await, @"APIExport things of root:provider: there is no APIExport `things` in workspace root:provider: create it, or correct `source.apiExport`");
    scene.sandbox.publish("root:provider", "things", &[schema()], &[]).expect("an export");
    assert_eq!(scene.next_of_clusters().await, "synced");
    let one = scene.bind("one");
    assert_eq!(scene.next_of_clusters().await, format!("+{one} root:one"));
    assert!(scene.health.is_ready(), "{:?}", scene.health.standings());
}

#[tokio::test]
async fn a_refusal_names_the_right_that_is_missing() {
    let scene = Scene::published(Options::kcp()).await;
    let denied = Failure::status(403, "Forbidden", "access denied");
    scene
        .sandbox
        .faults()
        .inject(move |call| (call.resource == "apiexportendpointslices").then(|| Fault::Refuse(denied.clone())));
    scene.manager.run([export("things", Some("root:provider"))]);
    insta::assert_snapshot!(scene.complaint().await, @"APIExport things of root:provider: access denied (403 Forbidden); let the engine's user get, list and watch apiexports and apiexportendpointslices in workspace root:provider");
    scene.manager.run(NOBODY);
    scene.sandbox.faults().clear();
    let denied = Failure::status(403, "Forbidden", "access denied");
    scene.sandbox.faults().inject(move |call| (call.through_virtual_workspace).then(|| Fault::Refuse(denied.clone())));
    scene.bind("one");
    scene.manager.run([export("things", Some("root:provider"))]);
    insta::assert_snapshot!(scene.complaint().await, @"APIExport things of root:provider: access denied (403 Forbidden); let the engine's user have all verbs on apiexports/content of `things` in workspace root:provider");
}

#[tokio::test]
async fn what_is_no_kcp_and_what_is_away_is_said() {
    let sandbox = Options::kubernetes().start().await.expect("a sandbox");
    let mut scene = Scene::of("kcp", connection(&sandbox.kubeconfig(None)), sandbox);
    scene.manager.run([export("things", None)]);
    insta::assert_snapshot!(scene.complaint().await, @"APIExport things of kcp: URL serves no APIExportEndpointSlices: check that the kubeconfig leads to a kcp workspace, and `apiExport.path`");
    scene.manager.run(NOBODY);
    scene.sandbox.disconnect().await;
    scene.manager.run([export("things", None)]);
    insta::assert_snapshot!(scene.complaint().await, @"APIExport things of kcp: cannot reach URL/apis/apis.kcp.io/v1alpha1/apiexportendpointslices: connection refused: is the server running, and is the address right?");
    scene.manager.run(NOBODY);
    let other = ApiExportRef { connection: "kpc".into(), path: None, name: "things".into(), endpoint_slice: None };
    scene.manager.run([SourceClusters::ApiExport(other)]);
    insta::assert_snapshot!(scene.complaint().await, @"APIExport things of kpc: there is no connection `kpc` (there are: kcp); add `--connection kpc=PATH[#CONTEXT]`");
    scene.manager.run([SourceClusters::Provider("edge".into())]);
    insta::assert_snapshot!(scene.complaint().await, @"ClusterProvider edge: there is no good document of the ClusterProvider `edge`: add it, correct its errors (the log and `/readyz?verbose` tell them), or correct the name in the mapping");
}

#[tokio::test]
async fn a_kcp_that_is_killed_keeps_its_clusters_engaged() {
    let mut scene = Scene::published(Options::kcp()).await;
    let one = scene.bind("one");
    let things = export("things", Some("root:provider"));
    scene.manager.run([things.clone()]);
    assert_eq!(scene.next_of_clusters().await, format!("+{one} root:one"));
    assert_eq!(scene.next_of_clusters().await, "synced");
    scene.sandbox.disconnect().await;
    scene.complaint().await;
    assert_eq!(scene.manager.clusters(&things).len(), 1);
    let two = scene.bind("two");
    scene.sandbox.reconnect().await.expect("back");
    assert_eq!(scene.next_of_clusters().await, format!("+{two} root:two"));
    assert_eq!(scene.manager.clusters(&things).len(), 2);
}

#[tokio::test]
async fn a_plain_cluster_is_engaged_once_it_is_known_which_one_it_is() {
    let mut sandbox = Options::kubernetes().start().await.expect("a sandbox");
    let kubeconfig = sandbox.kubeconfig(None);
    sandbox.disconnect().await;
    let mut scene = Scene::of("target", connection(&kubeconfig), sandbox);
    let kind = ProviderKind::Kubeconfig(KubeconfigProviderSpec { connection: "target".into() });
    scene.manager.configure(vec![ClusterProvider { name: "edge".into(), kind }]);
    let edge = SourceClusters::Provider("edge".into());
    scene.manager.run([edge.clone()]);
    insta::assert_snapshot!(scene.complaint().await, @"ClusterProvider edge: cannot reach URL/api/v1/namespaces/kube-system: connection refused: is the server running, and is the address right?");
    assert!(scene.manager.clusters(&edge).is_empty());
    scene.sandbox.reconnect().await.expect("back");
    let identity = uid_of(&scene.sandbox);
    assert_eq!(scene.next().await, format!("identity {identity}"));
    assert_eq!(scene.next().await, "+edge -");
    assert_eq!(scene.manager.clusters(&edge)[0].identity(), identity);
    assert_eq!(scene.next().await, "synced");

    scene.manager.configure(vec![]);
    assert_eq!(scene.next().await, "-edge Replaced");
    scene.manager.shutdown().await;
    assert_eq!(scene.next().await, "end");
}

#[tokio::test]
async fn a_connection_that_moves_replaces_its_clusters_and_a_broken_one_is_said() {
    let (old, new) = (Options::kubernetes().seed("old").start().await, Options::kubernetes().seed("new").start().await);
    let (sandbox, new) = (old.expect("a sandbox"), new.expect("a sandbox"));
    let folder = Folder::with(&sandbox.kubeconfig(None));
    let mut scene = Scene::of("target", folder.connection(), sandbox);
    let kind = ProviderKind::Kubeconfig(KubeconfigProviderSpec { connection: "target".into() });
    scene.manager.configure(vec![ClusterProvider { name: "edge".into(), kind }]);
    let edge = SourceClusters::Provider("edge".into());
    scene.manager.run([edge.clone()]);
    for expected in ["identity", "+edge -", "synced"] {
        assert!(scene.next().await.starts_with(expected));
    }
    folder.write("kubeconfig", "clusters: [");
    assert_eq!(scene.manager.reload_connections().await.len(), 1);
    let complaint = scene.complaint().await.replace(&folder.0.path().display().to_string(), "DIR");
    insta::assert_snapshot!(complaint, @"configuration of connection target: connection `kcp`: DIR/kubeconfig is no kubeconfig: line 1 column 11: unclosed bracket '['; give one with `--kcp-kubeconfig PATH[#CONTEXT]`");
    folder.write("kubeconfig", &new.kubeconfig(None));
    scene.manager.reload_connections().await;
    assert_eq!([scene.next_of_clusters().await, scene.next_of_clusters().await], ["-edge Replaced", "+edge -"]);
    assert_eq!(scene.manager.clusters(&edge)[0].spec.endpoint.url(), new.url());
    assert!(scene.health.is_ready());
}

#[tokio::test]
async fn workspaces_stay_until_the_new_address_of_their_kcp_tells_which_there_are() {
    let kcp = async |seed: &str, consumer: &str| {
        let sandbox = Options::kcp().seed(seed).start().await.expect("a sandbox");
        sandbox.create_workspace("root", "provider").expect("a workspace");
        sandbox.publish("root:provider", "things", &[schema()], &[]).expect("an export");
        let workspace = sandbox.create_workspace("root", consumer).expect("a workspace");
        sandbox.bind(&workspace, "root:provider", "things", &[]).expect("a binding");
        (sandbox, workspace)
    };
    let ((old, one), (mut new, two)) = (kcp("old", "one").await, kcp("new", "two").await);
    let kubeconfig = new.kubeconfig(Some("root"));
    new.disconnect().await;
    let folder = Folder::with(&old.kubeconfig(Some("root")));
    let mut scene = Scene::of("kcp", folder.connection(), old);
    let things = export("things", Some("root:provider"));
    scene.manager.run([things.clone()]);
    assert_eq!(scene.next_of_clusters().await, format!("+{one} root:one"));
    assert_eq!(scene.next_of_clusters().await, "synced");
    let before = scene.manager.clusters(&things);
    folder.write("kubeconfig", &kubeconfig);
    scene.manager.reload_connections().await;
    scene.complaint().await;
    assert_eq!(scene.manager.clusters(&things), before, "nobody answers there yet");
    assert_eq!((scene.manager.identity(&things), scene.manager.is_synced(&things)), (None, false));
    new.reconnect().await.expect("up");
    let told = [scene.next_of_clusters().await, scene.next_of_clusters().await, scene.next_of_clusters().await];
    assert_eq!(told.last().map(String::as_str), Some("synced"));
    let expected = [format!("+{two} root:two"), format!("-{one} Replaced"), "synced".to_owned()];
    assert_eq!(BTreeSet::from(told), BTreeSet::from(expected));
}

#[tokio::test]
async fn no_workspace_is_engaged_before_it_is_known_what_its_export_is_known_by() {
    let mut scene = Scene::published(Options::kcp()).await;
    let one = scene.bind("one");
    let busy = Failure::status(503, "ServiceUnavailable", "busy");
    scene.sandbox.faults().inject(move |call| (call.resource == "apiexports").then(|| Fault::Refuse(busy.clone())));
    scene.manager.run([export("things", Some("root:provider"))]);
    scene.complaint().await;
    scene.sandbox.faults().clear();
    assert!(scene.next().await.starts_with("identity"));
    assert_eq!([scene.next().await, scene.next().await], [format!("+{one} root:one"), "synced".to_owned()]);
}

/// The identity of a plain cluster.
pub fn uid_of(sandbox: &Sandbox) -> String {
    let namespaces = ApiRef { cluster: "", resource: "namespaces.v1" };
    let namespace = sandbox.get(namespaces, "", "kube-system").expect("the namespace");
    namespace["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// A target that is engaged, its provider's name, and the folder of its kubeconfig.
async fn target(sandbox: Sandbox) -> (Scene, ProviderName, Folder) {
    let folder = Folder::with(&sandbox.kubeconfig(None));
    let mut scene = Scene::of("target", folder.connection(), sandbox);
    let target = ProviderName::Connection("target".into());
    scene.manager.run([target.clone()]);
    for expected in ["identity", "+target -", "synced"] {
        assert!(scene.next().await.starts_with(expected));
    }
    (scene, target, folder)
}

#[tokio::test]
async fn a_cluster_that_moves_is_replaced_once_its_new_address_answers() {
    let mut new = Options::kubernetes().seed("same").start().await.expect("a sandbox");
    let kubeconfig = new.kubeconfig(None);
    new.disconnect().await;
    let old = Options::kubernetes().seed("same").start().await.expect("a sandbox");
    let (mut scene, target, folder) = target(old).await;
    let before = scene.manager.clusters(&target).remove(0);
    assert_eq!(before.known(), IdentityState::Identity(uid_of(&scene.sandbox)));
    folder.write("kubeconfig", &kubeconfig);
    scene.manager.reload_connections().await;
    assert_eq!(scene.manager.clusters(&target), std::slice::from_ref(&before), "nobody answers there yet");
    assert_ne!(before.known(), IdentityState::Identity(before.identity().into()), "and nobody may write meanwhile");
    let requests = scene.sandbox.counters().total();
    new.reconnect().await.expect("up");
    assert_eq!([scene.next_of_clusters().await, scene.next_of_clusters().await], ["-target Replaced", "+target -"]);
    let after = scene.manager.clusters(&target).remove(0);
    assert_eq!(after.identity(), before.identity());
    assert_ne!(after.spec.endpoint, before.spec.endpoint);
    assert_eq!(scene.sandbox.counters().total(), requests, "the former server hears nothing");
}

#[tokio::test]
async fn a_cluster_that_is_rebuilt_behind_its_address_is_another() {
    let old = Options::kubernetes().seed("old").start().await.expect("a sandbox");
    let rebuilt = Options::kubernetes().seed("new").start().await.expect("a sandbox").backup();
    let (mut scene, target, _folder) = target(old).await;
    let before = scene.manager.clusters(&target).remove(0);
    let watches = Watches::new(Health::default());
    let watch = watches.acquire(&before.spec.scope, &resource("configmaps.v1"), &Selectors::default());
    until_state(&watch, "synced", |state| *state == WatchState::Synced).await;
    scene.sandbox.disconnect().await;
    scene.sandbox.restore(&rebuilt);
    scene.sandbox.reconnect().await.expect("back");
    // The watch has to start over, which casts doubt on the cluster.
    assert_eq!([scene.next_of_clusters().await, scene.next_of_clusters().await], ["-target Replaced", "+target -"]);
    let after = scene.manager.clusters(&target).remove(0);
    assert_eq!((after.spec.endpoint.url(), after.identity()), (before.spec.endpoint.url(), &*uid_of(&scene.sandbox)));
    let other = watches.acquire(&after.spec.scope, &resource("configmaps.v1"), &Selectors::default());
    assert!(!Arc::ptr_eq(watch.store(), other.store()), "the cache of the former cluster is not taken for its own");
    assert_ne!(after.identity(), before.identity());
    assert_ne!(before.known(), IdentityState::Identity(before.identity().into()));
}

#[tokio::test]
async fn a_workspace_is_known_by_its_logical_cluster_and_not_by_a_namespace_that_anybody_may_create() {
    let sandbox = Options::kcp().start().await.expect("a sandbox");
    let name = sandbox.create_workspace("root", "target").expect("a workspace");
    let endpoint = connection(&sandbox.kubeconfig(Some(&name))).endpoint();
    let before = cluster_identity(&endpoint).await.expect("an identity");
    let logical_clusters = ApiRef { cluster: &name, resource: "logicalclusters.v1alpha1.core.kcp.io" };
    let logical_cluster = sandbox.get(logical_clusters, "", "cluster").expect("the logical cluster");
    assert_eq!(before, format!("{name}/{}", logical_cluster["metadata"]["uid"].as_str().expect("a uid")));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
    sandbox.create(ApiRef { cluster: &name, resource: "namespaces.v1" }, &namespace).expect("created");
    assert_eq!(cluster_identity(&endpoint).await.expect("an identity"), before);
}
