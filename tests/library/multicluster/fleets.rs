//! Providers of several clusters.

use std::path::PathBuf;
use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::{Value, json};
use sync_engine::health::Health;
use sync_engine::mapping::document::{
    CustomProviderSpec, HubSpec, KindSpec, KubeconfigFilesSpec, KubeconfigProviderSpec, KubeconfigSecretsSpec,
    NamespacesProviderSpec, NoneSpec,
};
use sync_engine::mapping::{ClusterProvider, Part, ProviderKind, Selector, SourceClusters};
use sync_engine::multicluster::connection::{Connection, Machine};
use sync_engine::multicluster::identity::IdentityState;
use sync_engine::multicluster::manager::{ClusterEvents, Manager};
use sync_engine::multicluster::registry::Cluster;
use sync_engine::multicluster::watch::{Selectors, WatchState, Watches};
use sync_engine::multicluster::{ApiPath, RequestError};
use sync_engine::sandbox::{ApiRef, Options, Sandbox, anything, definition};
use tokio::net::TcpListener;

use crate::multicluster::providers::{complaint, manager, manager_on, next, uid_of};
use crate::multicluster::scene::{Folder, connection, kubeconfig, resource, until_state};

/// A fleet of the kubeconfigs in a folder.
struct Fleet {
    manager: Manager,
    events: ClusterEvents,
    health: Health,
    folder: Folder,
}

/// A hub in which objects say where clusters are.
const SECRETS: ApiRef<'static> = ApiRef { cluster: "", resource: "secrets.v1" };
const CLUSTERS: ApiRef<'static> = ApiRef { cluster: "", resource: "clusters.v1beta1.cluster.x-k8s.io" };
const PROFILES: ApiRef<'static> = ApiRef { cluster: "", resource: "clusterprofiles.v1alpha1.multicluster.x-k8s.io" };

fn fleet() -> SourceClusters {
    SourceClusters::Provider("fleet".into())
}

/// The kubeconfigs in a folder of the command line.
fn folder_fleet(glob: Option<&str>) -> ProviderKind {
    ProviderKind::KubeconfigFiles(KubeconfigFilesSpec { directory: "fleet".into(), glob: glob.map(str::to_owned) })
}

/// The cluster of one kubeconfig.
fn plain_cluster() -> ProviderKind {
    ProviderKind::Kubeconfig(KubeconfigProviderSpec { connection: "plain".into() })
}

/// Everything that a hub lists.
fn all_of_hub() -> HubSpec {
    HubSpec { connection: "hub".into(), namespace: None, selector: Selector::default() }
}

fn namespaces_of_team_x() -> ProviderKind {
    let selector = "team=x".parse().expect("a selector");
    ProviderKind::Namespaces(NamespacesProviderSpec { connection: "hub".into(), selector })
}

impl Fleet {
    async fn start(files: &[(&str, String)]) -> Self {
        let folder = Folder::new();
        files.iter().for_each(|(name, text)| drop(folder.write(name, text)));
        let kind = folder_fleet(Some("*.yaml"));
        Self::run(folder, &[], kind).await
    }

    /// A fleet that objects of a hub list.
    async fn of_hub(hub: &Sandbox, kind: ProviderKind) -> Self {
        let connection = connection(&hub.kubeconfig(None));
        Self::run(Folder::new(), &[("hub", connection)], kind).await
    }

    async fn run(folder: Folder, connections: &[(&str, Arc<Connection>)], kind: ProviderKind) -> Self {
        // The command line gives the folder, and a file in it, to documents.
        let path = folder.0.path().to_owned();
        let machine = Machine {
            access_providers: Some(path.join("access.json")),
            directories: [("fleet".to_owned(), path)].into(),
            allow_kind: false,
        };
        let (manager, health) = manager_on(connections, machine);
        let events = manager.subscribe();
        manager.configure(vec![ClusterProvider { name: "fleet".into(), kind }]);
        manager.run([fleet()]);
        let mut fleet = Self { manager, events, health, folder };
        assert_eq!(fleet.next().await, "identity fleet/fleet");
        fleet
    }

    async fn next(&mut self) -> String {
        next(&mut self.events).await
    }

    async fn next_events(&mut self, number: usize) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..number {
            events.push(self.next().await);
        }
        events
    }

    async fn complaint(&self) -> String {
        complaint(&self.health, "").await.replace(&self.folder.0.path().display().to_string(), "DIR")
    }

    fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.manager.clusters(&fleet())
    }
}

async fn cluster(seed: &str) -> Sandbox {
    Options::kubernetes().seed(seed).start().await.expect("a sandbox")
}

#[tokio::test]
async fn each_context_is_a_cluster_and_files_come_and_go() {
    let (one, two) = (cluster("one").await, cluster("two").await);
    let mut fleet = Fleet::start(&[("a.yaml", one.kubeconfig(None)), ("notes.txt", "no kubeconfig".into())]).await;
    assert_eq!(fleet.next_events(2).await, ["+a.sandbox -", "synced"]);
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&one));
    let second = fleet.folder.write("b.yaml", &two.kubeconfig(None));
    assert_eq!(fleet.next().await, "+b.sandbox -");
    assert_eq!(fleet.clusters()[1].identity(), uid_of(&two));
    std::fs::remove_file(second).expect("the file is removed");
    assert_eq!(fleet.next().await, "-b.sandbox Removed");
    assert!(fleet.health.is_ready(), "{:?}", fleet.health.standings());
    let conditions: Vec<String> = fleet.health.standings().into_iter().map(|one| one.component).collect();
    assert!(!conditions.iter().any(|name| name.contains("b.sandbox")), "{conditions:?}");
}

#[tokio::test]
async fn a_cluster_that_hangs_delays_no_other() {
    let hung = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", hung.local_addr().expect("an address"));
    let one = cluster("one").await;
    let files = [("a.yaml", kubeconfig(&url, json!({}))), ("b.yaml", one.kubeconfig(None))];
    let mut fleet = Fleet::start(&files).await;
    assert_eq!(fleet.next().await, "+b.sandbox -");
}

#[tokio::test]
async fn a_cluster_is_engaged_once_however_many_contexts_lead_to_it() {
    let one = cluster("one").await;
    let mut fleet = Fleet::start(&[("a.yaml", one.kubeconfig(None))]).await;
    assert_eq!(fleet.next_events(2).await, ["+a.sandbox -", "synced"]);
    fleet.folder.write("b.yaml", &one.kubeconfig(None));
    insta::assert_snapshot!(fleet.complaint().await, @"ClusterProvider fleet, cluster b.sandbox: it is the same cluster as `a.sandbox`, through which it is served; remove one of the two");
    std::fs::remove_file(fleet.folder.0.path().join("a.yaml")).expect("the file is removed");
    assert_eq!(fleet.next_events(2).await, ["-a.sandbox Removed", "+b.sandbox -"]);
}

#[tokio::test]
async fn a_broken_kubeconfig_leaves_what_works_and_another_cluster_under_the_name_is_another() {
    let (one, two) = (cluster("one").await, cluster("two").await);
    let mut fleet = Fleet::start(&[("a.yaml", one.kubeconfig(None))]).await;
    assert_eq!(fleet.next_events(2).await, ["+a.sandbox -", "synced"]);
    fleet.folder.write("a.yaml", "clusters: [");
    insta::assert_snapshot!(fleet.complaint().await, @"ClusterProvider fleet: DIR/a.yaml is no kubeconfig: line 1 column 11: unclosed bracket '['");
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&one));
    fleet.folder.write("a.yaml", &two.kubeconfig(None));
    assert_eq!(fleet.next_events(2).await, ["-a.sandbox Replaced", "+a.sandbox -"]);
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&two));
}

fn secret(name: &str, key: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", "labels": {"fleet": "edge"}},
        "data": {key: BASE64.encode(text.as_bytes())},
    })
}

/// As Cluster API writes it.
fn secret_of_cluster(name: &str, kubeconfig: &str) -> Value {
    let mut secret = secret(&format!("{name}-kubeconfig"), "value", kubeconfig);
    secret["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": name});
    secret
}

#[tokio::test]
async fn secrets_of_a_hub_list_clusters_and_may_not_reach_out_of_themselves() {
    let (hub, one, two) = (cluster("hub").await, cluster("one").await, cluster("two").await);
    hub.create(SECRETS, &secret("one", "kubeconfig", &one.kubeconfig(None))).expect("a Secret");
    let mut unlabelled = secret("other", "kubeconfig", &two.kubeconfig(None));
    unlabelled["metadata"]["labels"] = json!({});
    hub.create(SECRETS, &unlabelled).expect("a Secret");
    hub.create(SECRETS, &secret("no-kubeconfig", "password", "x")).expect("a Secret");
    let mut fleet = Fleet::of_hub(
        &hub,
        ProviderKind::KubeconfigSecrets(KubeconfigSecretsSpec {
            connection: "hub".into(),
            namespace: "default".into(),
            selector: "fleet=edge".parse::<Selector>().expect("a selector"),
            key: "kubeconfig".into(),
        }),
    )
    .await;
    assert_eq!(fleet.next_events(2).await, ["+one -", "synced"]);
    assert!(
        fleet.health.is_ready(),
        "a Secret of something else is none of the fleet's: {:?}",
        fleet.health.standings()
    );
    // Another cluster behind the name is followed as soon as the Secret says so.
    let moved = secret("one", "kubeconfig", &two.kubeconfig(None));
    hub.merge(SECRETS, "default", "one", &moved).expect("a change");
    assert_eq!(fleet.next_events(2).await, ["-one Replaced", "+one -"]);
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&two));
    // Who may write Secrets on the hub may not run programs where the engine runs.
    let user =
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "id", "interactiveMode": "Never"}});
    let program = secret("one", "kubeconfig", &kubeconfig("http://127.0.0.1:1", user));
    hub.merge(SECRETS, "default", "one", &program).expect("a change");
    insta::assert_snapshot!(fleet.complaint().await, @"configuration of connection fleet/one: connection `fleet/one`: context `here` of Secret default/one runs a program; a kubeconfig that a cluster holds must contain what it needs, so write a `token` or a client certificate into it");
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&two), "what was read before stays in use");
    hub.delete(SECRETS, "default", "one").expect("the Secret is deleted");
    assert_eq!(fleet.next().await, "-one Removed");
}

#[tokio::test]
async fn joined_providers_fail_each_for_itself() {
    let (one, two) = (cluster("one").await, cluster("two").await);
    let folder = Folder::new();
    folder.write("a.yaml", &one.kubeconfig(None));
    let directory = folder.0.path().display().to_string();
    let part = |name: &str, kind| Part { name: name.into(), kind };
    let files = folder_fleet(None);
    let parts = vec![part("files", Some(files)), part("plain", Some(plain_cluster())), part("missing", None)];
    let plain = Folder::with(&two.kubeconfig(None));
    let mut fleet = Fleet::run(folder, &[("plain", plain.connection())], ProviderKind::Multi(parts)).await;
    let mut seen = fleet.next_events(3).await;
    seen.sort_unstable();
    assert_eq!(seen, ["+files.a.sandbox -", "+plain -", "synced"]);
    insta::assert_snapshot!(fleet.complaint().await, @"ClusterProvider fleet: the ClusterProvider `missing` cannot be joined: add its document, or correct it (the log and `/readyz?verbose` tell its errors)");
    // One of them is gone: its clusters stay, and the other's go on.
    let (path, aside) = (PathBuf::from(&directory), PathBuf::from(format!("{directory}.aside")));
    std::fs::rename(&path, &aside).expect("the directory is moved");
    complaint(&fleet.health, "there is no directory").await;
    assert_eq!(fleet.clusters().len(), 2);
    std::fs::rename(&aside, &path).expect("the directory is back");
    std::fs::remove_file(path.join("a.yaml")).expect("the file is removed");
    assert_eq!(fleet.next().await, "-files.a.sandbox Removed");
    assert_eq!(fleet.clusters().len(), 1);
}

/// A pipe that nobody writes to is a file on a mount that hangs.
#[tokio::test]
async fn a_kubeconfig_on_a_mount_that_hangs_delays_no_other() {
    let (one, two) = (cluster("one").await, cluster("two").await);
    let folder = Folder::new();
    folder.write("a.yaml", &one.kubeconfig(None));
    let plain = Folder::with(&two.kubeconfig(None));
    let connection = plain.connection();
    let (path, hung) = (plain.0.path().join("kubeconfig"), plain.0.path().join("hung"));
    assert!(std::process::Command::new("mkfifo").arg(&hung).status().expect("mkfifo").success());
    std::fs::rename(&hung, &path).expect("the file hangs");
    let files = folder_fleet(None);
    let parts = vec![
        Part { name: "plain".into(), kind: Some(plain_cluster()) },
        Part { name: "files".into(), kind: Some(files) },
    ];
    let mut fleet = Fleet::run(folder, &[("plain", connection)], ProviderKind::Multi(parts)).await;
    assert_eq!(fleet.next().await, "+files.a.sandbox -");
    // The mount answers again: whoever waited gets the text, and nobody else waits.
    std::fs::rename(&path, &hung).expect("the pipe is aside");
    let text = two.kubeconfig(None);
    plain.write("kubeconfig", &text);
    std::fs::write(&hung, &text).expect("it is read");
    let mut seen = fleet.next_events(2).await;
    seen.sort_unstable();
    assert_eq!(seen, ["+plain -", "synced"]);
}

#[tokio::test]
async fn a_cluster_of_cluster_api_is_used_once_it_is_provisioned_and_until_it_is_gone() {
    let (hub, one, moved) = (cluster("hub").await, cluster("one").await, cluster("moved").await);
    let definitions = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
    let older = definition("clusters.v1beta1.cluster.x-k8s.io", "Cluster", &anything());
    hub.create(definitions, &older).expect("the definition");
    let mut fleet = Fleet::of_hub(&hub, ProviderKind::ClusterApi(all_of_hub())).await;
    assert_eq!(fleet.next().await, "synced");
    let document = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "default", "finalizers": ["cluster.cluster.x-k8s.io"]},
    });
    hub.create(CLUSTERS, &document).expect("a Cluster");
    let phase = |phase: &str| {
        hub.merge_status(CLUSTERS, "default", "one", &json!({"phase": phase})).expect("a status");
    };
    phase("Provisioning");
    phase("Provisioned");
    insta::assert_snapshot!(fleet.complaint().await, @"ClusterProvider fleet: Cluster default/one: there is no Secret default/one-kubeconfig with the label cluster.x-k8s.io/cluster-name");
    hub.create(SECRETS, &secret_of_cluster("one", &one.kubeconfig(None))).expect("a Secret");
    assert_eq!(fleet.next().await, "+default.one -");
    // Another kubeconfig is used without a change of the Cluster.
    let renewed = secret_of_cluster("one", &moved.kubeconfig(None));
    hub.merge(SECRETS, "default", "one-kubeconfig", &renewed).expect("a change");
    assert_eq!(fleet.next_events(2).await, ["-default.one Replaced", "+default.one -"]);
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&moved));
    // It is being deleted, and its Secret is gone first: sources there still carry the engine's finalizers.
    hub.delete(CLUSTERS, "default", "one").expect("the Cluster is being deleted");
    phase("Deleting");
    hub.delete(SECRETS, "default", "one-kubeconfig").expect("the Secret is deleted");
    assert_eq!(fleet.clusters().len(), 1);
    hub.merge(CLUSTERS, "default", "one", &json!({"metadata": {"finalizers": null}})).expect("a change");
    assert_eq!(fleet.next().await, "-default.one Removed");
}

/// A plugin that gives the token of the cluster that it is told of.
const PLUGIN: &str = r#"
name=$(printf '%s' "$KUBERNETES_EXEC_INFO" | sed 's/.*"clusterName":"\([a-z]*\)".*/\1/')
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}' "$(cat "$FOLDER/$name.token")"
"#;

/// The status of a profile whose cluster is this one.
fn profile_of(cluster: &Sandbox, name: &str, healthy: &str, provider: &str) -> Value {
    let kubeconfig: Value = serde_json::from_str(&cluster.kubeconfig(None)).expect("a kubeconfig");
    let mut address = kubeconfig["clusters"][0]["cluster"].clone();
    address["extensions"] = json!([{"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": name}}]);
    json!({
        "conditions": [{"type": "ControlPlaneHealthy", "status": healthy}],
        "accessProviders": [{"name": provider, "cluster": address}],
    })
}

#[tokio::test]
async fn a_cluster_of_an_inventory_is_used_once_it_is_healthy_and_until_its_profile_is_gone() {
    let (hub, one, two) = (cluster("hub").await, cluster("one").await, cluster("two").await);
    let definitions = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
    let profiles = definition("clusterprofiles.v1alpha1.multicluster.x-k8s.io", "ClusterProfile", &anything());
    hub.create(definitions, &profiles).expect("the definition");
    let folder = Folder::new();
    folder.write("one.token", one.token());
    folder.write("two.token", two.token());
    let variables = json!([{"name": "FOLDER", "value": folder.0.path()}]);
    let plugin = json!({"command": "sh", "args": ["-c", PLUGIN], "env": variables, "provideClusterInfo": true});
    let access = json!({"providers": [{"name": "tokens", "execConfig": plugin}]}).to_string();
    folder.write("access.json", &access);
    let kind = ProviderKind::ClusterInventory(all_of_hub());
    let mut fleet = Fleet::run(folder, &[("hub", connection(&hub.kubeconfig(None)))], kind).await;
    assert_eq!(fleet.next().await, "synced");
    let document = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"name": "one", "namespace": "default"}, "spec": {"clusterManager": {"name": "ours"}},
    });
    hub.create(PROFILES, &document).expect("a profile");
    let status = |status: &Value| {
        hub.merge_status(PROFILES, "default", "one", status).expect("a status");
    };
    // Nobody knows whether it is healthy, so nobody complains that it cannot be used.
    status(&profile_of(&one, "one", "Unknown", "other"));
    status(&profile_of(&one, "one", "True", "other"));
    insta::assert_snapshot!(fleet.complaint().await, @"ClusterProvider fleet: ClusterProfile default/one: the file of `--access-providers` names none of its access providers (other)");
    status(&profile_of(&one, "one", "True", "tokens"));
    assert_eq!(fleet.next().await, "+default.one -");
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&one));
    // One that is ill is followed as before, to another cluster too.
    status(&profile_of(&two, "two", "False", "tokens"));
    assert_eq!(fleet.next_events(2).await, ["-default.one Replaced", "+default.one -"]);
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&two));
    // So is one whose access is no longer known here.
    fleet.folder.write("access.json", r#"{"providers": []}"#);
    complaint(&fleet.health, "names none of its access providers (tokens)").await;
    fleet.folder.write("access.json", "{");
    complaint(&fleet.health, "access providers").await;
    assert_eq!(fleet.clusters().len(), 1);
    fleet.folder.write("access.json", &access);
    hub.delete(PROFILES, "default", "one").expect("the profile is deleted");
    assert_eq!(fleet.next().await, "-default.one Removed");
}

const NAMESPACES: ApiRef<'static> = ApiRef { cluster: "", resource: "namespaces.v1" };

fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

#[tokio::test]
async fn each_namespace_of_a_cluster_is_a_cluster_and_another_once_it_is_made_again() {
    let hub = cluster("hub").await;
    for (name, team) in [("a", "x"), ("b", "x"), ("other", "y")] {
        hub.create(NAMESPACES, &namespace(name, team)).expect("a namespace");
        let document =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same", "namespace": name}});
        hub.create(ApiRef { cluster: "", resource: "configmaps.v1" }, &document).expect("a config map");
    }
    let mut fleet = Fleet::of_hub(&hub, namespaces_of_team_x()).await;
    assert_eq!(fleet.next_events(3).await, ["+a -", "+b -", "synced"]);
    let identity = |name: &str| {
        let namespace = hub.get(NAMESPACES, "", name).expect("the namespace");
        format!("{}.{}", uid_of(&hub), namespace["metadata"]["uid"].as_str().expect("a uid"))
    };
    let identities = |fleet: &Fleet| fleet.clusters().iter().map(|one| one.identity().to_owned()).collect::<Vec<_>>();
    assert_eq!(identities(&fleet), [identity("a"), identity("b")]);
    let first = fleet.clusters().remove(0);
    assert_eq!(first.known(), IdentityState::Identity(identity("a")));

    // One watch serves all of them, and objects are told apart by their namespaces.
    let watches = Watches::new(Health::default());
    let watch = watches.acquire(&first.spec.scope, &resource("configmaps.v1"), &Selectors::default());
    until_state(&watch, "synced", |state| *state == WatchState::Synced).await;
    let of_first = watch.store().of_cluster(&first.spec.name);
    let keys: Vec<_> = of_first.iter().map(|(key, _)| (&*key.namespace, &*key.name)).collect();
    assert_eq!(keys, [("a", "same")]);
    let same_of = |namespace: &str| ApiPath::object(&resource("configmaps.v1"), namespace, "same").expect("a path");
    first.spec.endpoint.get(&same_of("a")).await.expect("its own");
    let refused = first.spec.endpoint.get(&same_of("other")).await.expect_err("another namespace is another cluster");
    assert!(matches!(refused, RequestError::Outside { .. }) && !refused.retryable(), "{refused}");

    hub.delete(NAMESPACES, "", "b").expect("the namespace is deleted");
    assert_eq!(fleet.next().await, "-b Removed");
    hub.delete(NAMESPACES, "", "a").expect("the namespace is deleted");
    hub.create(NAMESPACES, &namespace("a", "x")).expect("another namespace");
    assert_eq!(fleet.next_events(2).await, ["-a Replaced", "+a -"]);
    assert_eq!(identities(&fleet), [identity("a")]);
    assert_ne!(first.identity(), identity("a"));
    hub.merge(NAMESPACES, "", "a", &json!({"metadata": {"labels": {"team": "y"}}})).expect("a change");
    assert_eq!(fleet.next().await, "-a Removed");
    assert!(fleet.health.is_ready(), "{:?}", fleet.health.standings());
}

#[tokio::test]
async fn namespaces_of_a_cluster_that_is_rebuilt_are_others() {
    let (mut hub, rebuilt) = (cluster("hub").await, cluster("rebuilt").await);
    for hub in [&hub, &rebuilt] {
        hub.create(NAMESPACES, &namespace("a", "x")).expect("a namespace");
    }
    let mut fleet = Fleet::of_hub(&hub, namespaces_of_team_x()).await;
    assert_eq!(fleet.next_events(2).await, ["+a -", "synced"]);
    let former = fleet.clusters().remove(0);
    hub.disconnect().await;
    complaint(&fleet.health, "cannot reach").await;
    assert_eq!(fleet.clusters().len(), 1, "out of sight is not gone");
    hub.restore(&rebuilt.backup());
    hub.reconnect().await.expect("back");
    assert_eq!(fleet.next_events(2).await, ["-a Replaced", "+a -"]);
    assert!(fleet.clusters()[0].identity().starts_with(&uid_of(&hub)));
    assert_ne!(former.known(), IdentityState::Identity(former.identity().into()));
}

#[tokio::test]
async fn a_provider_without_clusters_is_synced_at_once() {
    let mut fleet = Fleet::run(Folder::new(), &[], ProviderKind::None(NoneSpec {})).await;
    assert_eq!(fleet.next().await, "synced");
    assert!(fleet.clusters().is_empty() && fleet.health.is_ready());
}

/// The one of `examples/custom_provider.rs`.
#[tokio::test]
async fn a_program_lists_clusters_by_a_provider_of_its_own() {
    let (one, folder) = (cluster("one").await, Folder::new());
    let kubeconfig = folder.write("one.yaml", &one.kubeconfig(None)).display().to_string();
    let file = folder.write("inventory.txt", &format!("edge-1 {kubeconfig}\nnonsense\n"));
    let custom = |name: &str, parameters| ProviderKind::Custom(CustomProviderSpec { name: name.into(), parameters });
    let kind = custom("inventory", json!({"file": file.display().to_string()}));
    let mut fleet = Fleet::run(folder, &[], kind).await;
    assert_eq!(fleet.next_events(2).await, ["+edge-1 -", "synced"]);
    assert_eq!(fleet.clusters()[0].identity(), uid_of(&one));
    insta::assert_snapshot!(fleet.complaint().await, @"ClusterProvider fleet: the line `nonsense` is not `<name> <path of its kubeconfig>`");
    assert!(fleet.health.is_ready(), "one wrong line leaves the others in use");

    for (kind, complains) in [
        (custom("inventory", json!({"path": 1})), "`spec.custom.parameters` of the provider `inventory`: add `file`"),
        (custom("missing", Value::Null), "no custom provider `missing` (it has: inventory)"),
    ] {
        fleet.manager.configure(vec![ClusterProvider { name: "fleet".into(), kind }]);
        complaint(&fleet.health, complains).await;
    }
}

/// A document names neither a path nor a program.
#[tokio::test]
async fn what_a_provider_uses_of_the_machine_is_said_by_the_command_line() {
    let hub = cluster("hub").await;
    for (kind, complains) in [
        (folder_fleet(None), "there is no directory `fleet` (there are: none); add `--directory fleet=PATH`"),
        (ProviderKind::ClusterInventory(all_of_hub()), "add `--access-providers FILE`"),
        (ProviderKind::Kind(KindSpec {}), "ClusterProvider `fleet` runs the program `kind`: add `--allow-kind`"),
    ] {
        let (manager, health) = manager(&[("hub", connection(&hub.kubeconfig(None)))]);
        manager.configure(vec![ClusterProvider { name: "fleet".into(), kind }]);
        manager.run([fleet()]);
        complaint(&health, complains).await;
    }
}
