//! A `ClusterProvider` of several clusters: sources on each of them, objects on one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use data_encoding::BASE64;
use serde_json::{Value, json};
use sync_engine::sandbox::{anything, definition};

use crate::case::{Case, Stage, case};
use crate::credentials::{NOBODY, token};
use crate::engine::Launch;
use crate::eventually::eventually;
use crate::rest::Patch;
use crate::target::namespace;
use crate::tenant::Tenant;
use crate::world::{WIDGETS, World};

use super::troubles;

pub fn cases() -> Vec<Case> {
    vec![
        case!(sources_of_every_cluster_are_synced_and_a_cluster_out_of_sight_keeps_its_objects).on_kube(),
        case!(a_cluster_without_the_api_keeps_no_source_of_another_from_going).on_kube(),
        case!(profiles_of_a_hub_list_clusters_and_programs_of_the_engine_give_the_credential).on_kube(),
        case!(the_clusters_that_kind_lists_are_followed).on_kube(),
        case!(a_rotated_credential_keeps_the_caches_and_a_broken_one_is_reported).on_kube(),
    ]
}

const PROVIDER: &str = r#"apiVersion: sync-engine.dev/v1alpha1
kind: ClusterProvider
metadata: {name: <name>-source}
spec:
  <clusters>
"#;

/// In place of kind, for a machine without containers.
const KIND: &str = r#"#!/bin/sh
case "$*" in
  "get clusters") cd "<directory>" && ls *.yaml 2>/dev/null | sed 's/\.yaml$//' ;;
  "get kubeconfig --name "*) cat "<directory>/$4.yaml" ;;
  *) echo "unknown command: kind $*" >&2; exit 1 ;;
esac
"#;

/// The kubeconfigs of a fleet, and the world whose mapping it is the source of.
struct Fleet<'w> {
    world: World<'w>,
    folder: PathBuf,
}

impl<'w> Fleet<'w> {
    /// A fleet of the shared source cluster, called `a`.
    async fn of(stage: &'w Stage) -> Self {
        let world = stage.widgets().await;
        let folder = stage.folder.join("fleet");
        fs::create_dir_all(&folder).expect("the fleet's folder");
        let files = PROVIDER.replace("<clusters>", "kubeconfigFiles: {directory: fleet, glob: \"*.yaml\"}");
        world.mappings.write("provider.yaml", &files);
        let fleet = Self { world, folder };
        fleet.list("a", &stage.fleet.kubernetes().await.source.kubeconfig(&stage.user));
        fleet
    }

    /// The launch whose engine is given the folder by the name of `files`.
    fn launch(&self) -> Launch {
        self.world.launch().flag("--directory", format!("fleet={}", self.folder.display()))
    }

    fn list(&self, name: &str, kubeconfig: &str) {
        // As whoever distributes credentials does it: nobody reads half a file.
        let (file, new) = (self.file(name), self.folder.join(format!(".{name}.new")));
        fs::write(&new, kubeconfig).expect("a kubeconfig");
        fs::rename(new, file).expect("a kubeconfig");
    }

    fn unlist(&self, name: &str) {
        fs::remove_file(self.file(name)).expect("a kubeconfig");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.yaml"))
    }

    /// The sizes of all objects of the mapping, in order.
    async fn sizes(&self) -> Vec<Option<i64>> {
        let copies = self.world.target.copies().await;
        let mut sizes: Vec<_> = copies.iter().map(|copy| copy["spec"]["size"].as_i64()).collect();
        sizes.sort_unstable();
        sizes
    }
}

async fn sources_of_every_cluster_are_synced_and_a_cluster_out_of_sight_keeps_its_objects(stage: &Stage) {
    let fleet = Fleet::of(stage).await;
    let first = &fleet.world.alpha;
    // One cluster more, with the API and a namespace of the same name as the first's.
    let server = stage.fleet.own_cluster(&format!("{}-b", stage.id)).await;
    let admin = server.admin().await;
    fleet.world.api.install(&admin).await;
    let second = Tenant::in_cluster(admin, &fleet.world.api).with_namespace(&first.namespace).await;
    // One that forbids everything is listed before the engine starts, and delays no other.
    fleet.list("closed", &server.kubeconfig(NOBODY));
    let mut engine = fleet.launch().start();
    first.create("same", json!({"size": 1})).await;
    second.create("same", json!({"size": 2})).await;
    first.synced("same", "True", "Synced").await;
    engine.becomes_degraded("ClusterProvider", "forbidden").await;
    fleet.unlist("closed");
    engine.becomes_ready().await;
    // A cluster that is listed later is seen at once.
    fleet.list("b", &server.kubeconfig(&stage.user));
    second.synced("same", "True", "Synced").await;
    assert_eq!(fleet.sizes().await, [Some(1), Some(2)], "each source has an object of its own");

    // One cluster is down: the other goes on. What its sources had stays.
    server.kill();
    first.create_synced("other", json!({"size": 3})).await;
    engine.becomes_degraded("watch of widgets", "cannot reach").await;
    server.resume().await;
    fleet.unlist("b");
    engine.says(&["b.it", "cluster disengaged"]).await;
    second.patch("same", json!({"spec": {"size": 4}})).await;
    first.remove("same").await;
    assert_eq!(fleet.sizes().await, [Some(2), Some(3)], "out of sight is not deleted, and is not followed");

    fleet.list("b", &server.kubeconfig(&stage.user));
    eventually("the change made meanwhile is carried out", async || {
        let sizes = fleet.sizes().await;
        sizes.contains(&Some(4)).then_some(()).ok_or_else(|| format!("{sizes:?}"))
    })
    .await;
    second.remove("same").await;
    assert_eq!(fleet.world.target.copies().await.len(), 1);
}

const WITH_SERVICE_ACCOUNT: &str = r#"<mapping>
  objects:
    - id: account
      shared: Namespace
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: widget-runner}}
    - id: widget
      template: {apiVersion: <group>/v1, kind: Widget, spec: "${{ source.spec }}"}
"#;

/// Whether another source uses the account is known once all sources are.
async fn a_cluster_without_the_api_keeps_no_source_of_another_from_going(stage: &Stage) {
    let fleet = Fleet::of(stage).await;
    fleet.world.mappings.write("widgets.yaml", WITH_SERVICE_ACCOUNT);
    let server = stage.fleet.own_cluster(&format!("{}-b", stage.id)).await;
    fleet.list("b", &server.kubeconfig(&stage.user));
    let mut engine = fleet.launch().start();
    engine.says(&["b.it", "cluster engaged"]).await;
    let first = &fleet.world.alpha;
    first.create("last", json!({})).await;
    let place = namespace(&fleet.world.target.copy(first, "last").await);
    first.remove("last").await;
    let account = format!("/api/v1/namespaces/{place}/serviceaccounts/widget-runner");
    assert_eq!(fleet.world.target.rest.get(&account).await, None);
}

async fn a_rotated_credential_keeps_the_caches_and_a_broken_one_is_reported(stage: &Stage) {
    let fleet = Fleet::of(stage).await;
    let mut engine = fleet.launch().ready().await;
    let first = &fleet.world.alpha;
    first.create_synced("a", json!({"size": 1})).await;
    let source = &stage.fleet.kubernetes().await.source;
    let lists = |user: &str| {
        let resource = format!("/apis/{}/v1/", fleet.world.api.group);
        let asked = source.audit().requests(user).into_iter();
        asked.filter(|request| request.is_list() && request.uri.starts_with(&resource)).count()
    };
    let before = lists(&stage.user);

    fs::write(fleet.file("a"), "clusters: [").expect("a kubeconfig");
    engine.becomes_degraded("ClusterProvider", "is no kubeconfig").await;
    fleet.world.target.follows(first, "a", json!({"size": 2})).await;
    assert_eq!(lists(&stage.user), before, "what was read before stays in use");

    // Another user with the same rights: the engines' users are all administrators of plain clusters.
    let other = crate::credentials::engine(stage.fleet.next_engine());
    fleet.list("a", &source.kubeconfig(&other));
    engine.becomes_ready().await;
    fleet.world.target.follows(first, "a", json!({"size": 3})).await;
    first.create_synced("b", json!({"size": 1})).await;
    let writes = source.audit().requests(&other).into_iter().filter(|request| request.is_write()).count();
    assert!(writes > 0, "the new credential is in use");
    assert_eq!((lists(&stage.user), lists(&other)), (before, 0), "nothing was listed again");

    fleet.list("a", &source.kubeconfig(NOBODY));
    engine.becomes_degraded("ClusterProvider", "forbidden").await;
}

/// A kubeconfig that names no file.
fn contained(kubeconfig: &str) -> String {
    let (before, rest) = kubeconfig.split_once("certificate-authority: \"").expect("a kubeconfig of the tests");
    let (path, after) = rest.split_once('"').expect("a kubeconfig of the tests");
    let authority = BASE64.encode(&fs::read(path).expect("the certificate"));
    format!("{before}certificate-authority-data: \"{authority}\"{after}")
}

/// By which a hub lists a cluster.
pub(super) fn secret(name: &str, tier: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"fleet": "edge", "tier": tier}},
        "data": {"kubeconfig": BASE64.encode(contained(kubeconfig).as_bytes())},
    })
}

/// The definition of the cluster inventory's profiles, as far as the engine reads them.
fn profiles() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": anything(), "status": anything()}});
    let mut profiles = definition("clusterprofiles.v1alpha1.multicluster.x-k8s.io", "ClusterProfile", &schema);
    // Its group is one of Kubernetes' own.
    profiles["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, of a test"});
    profiles
}

/// A plugin that gives the token that stands in a file of the cluster's name, which the profile says.
const PLUGIN: &str = r#"#!/bin/sh
name=$(printf '%s' "$KUBERNETES_EXEC_INFO" | sed 's/.*"clusterName":"\([a-z]*\)".*/\1/')
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}' "$(cat "$0.$name")"
"#;

async fn profiles_of_a_hub_list_clusters_and_programs_of_the_engine_give_the_credential(stage: &Stage) {
    let fleet = Fleet::of(stage).await;
    let (hub, first) = (&fleet.world.target.rest, &fleet.world.alpha);
    let namespace = format!("fleet-{}", stage.id);
    fleet.world.target.make_namespace(&namespace).await;
    hub.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &profiles()).await;
    let collection = format!("/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{namespace}/clusterprofiles");
    hub.serves(&collection).await;
    let plugin = stage.folder.join("plugin");
    fs::write(&plugin, PLUGIN).expect("a program");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).expect("a program");
    for (name, user) in [("ours", stage.user.as_str()), ("nobody", NOBODY)] {
        fs::write(stage.folder.join(format!("plugin.{name}")), token(user)).expect("a token");
    }
    let plugin = json!({"command": plugin, "provideClusterInfo": true});
    let access = stage.folder.join("access.json");
    let providers = json!({"providers": [{"name": "tokens", "execConfig": plugin}]});
    fs::write(&access, providers.to_string()).expect("the access providers");
    let list = format!("clusterInventory: {{connection: target, namespace: {namespace}}}");
    fleet.world.mappings.write("provider.yaml", &PROVIDER.replace("<clusters>", &list));

    let mut engine = fleet.launch().flag("--access-providers", access.display()).ready().await;
    first.create("it", json!({"size": 1})).await;
    let profile = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"name": "a"}, "spec": {"clusterManager": {"name": "ours"}},
    });
    hub.create(&collection, &profile).await;
    let source = contained(&stage.fleet.kubernetes().await.source.kubeconfig(&stage.user));
    let text = |field: &str| {
        let (_, rest) = source.split_once(&format!("{field}: \"")).expect("a kubeconfig of the tests");
        rest.split_once('"').expect("a kubeconfig of the tests").0.to_owned()
    };
    let path = format!("{collection}/a");
    let becomes = async |healthy: &str, name: &str| {
        let configuration = json!({"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": name}});
        let cluster = json!({
            "server": text("server"), "certificate-authority-data": text("certificate-authority-data"),
            "extensions": [configuration],
        });
        let status = json!({"status": {
            "conditions": [{"type": "ControlPlaneHealthy", "status": healthy}],
            "accessProviders": [{"name": "tokens", "cluster": cluster}],
        }});
        hub.patch(Patch::Merge, &format!("{path}/status"), &status).await;
    };
    becomes("True", "ours").await;
    first.synced("it", "True", "Synced").await;

    becomes("True", "nobody").await;
    engine.becomes_degraded("ClusterProvider", "forbidden").await;
    becomes("False", "ours").await;
    first.patch("it", json!({"spec": {"size": 2}})).await;
    fleet.world.target.has_spec(first, "it", json!({"size": 2})).await;

    // A mapping selects it by a property. Where the status says nothing of properties, the edit is held.
    let located = async |properties: Value| {
        hub.patch(Patch::Merge, &format!("{path}/status"), &json!({"status": {"properties": properties}})).await;
    };
    let source = fleet.world.mappings.fill("<source>");
    let selected = source.trim_end_matches('}').to_owned() + ", clusters: {matchProperties: {location: north}}}";
    let edit = || fleet.world.mappings.write("widgets.yaml", &WIDGETS.replace("<source>", &selected));
    engine.says_of(edit, &["is held", "properties of the source's cluster are not known"]).await;
    located(json!([{"name": "location", "value": "north"}])).await;
    engine.says(&["the document in the file is in force now"]).await;
    first.synced("it", "True", "Synced").await;
    located(json!([{"name": "location", "value": "south"}])).await;
    first.synced("it", "False", "Retained").await;
    troubles::shown(stage, &engine, "Retained").await;
    first.patch("it", json!({"spec": {"size": 3}})).await;
    fleet.world.settled().await;
    fleet.world.target.has_spec(first, "it", json!({"size": 2})).await;
    located(json!([{"name": "location", "value": "north"}])).await;
    fleet.world.target.has_spec(first, "it", json!({"size": 3})).await;

    hub.delete(&path).await;
    engine.says(&["cluster disengaged", "Removed"]).await;
    assert_eq!(fleet.world.target.copies().await.len(), 1);
}

async fn the_clusters_that_kind_lists_are_followed(stage: &Stage) {
    let fleet = Fleet::of(stage).await;
    fleet.world.mappings.write("provider.yaml", &PROVIDER.replace("<clusters>", "kind: {}"));
    fleet.list("a", &contained(&stage.fleet.kubernetes().await.source.kubeconfig(&stage.user)));
    let programs = stage.folder.join("bin");
    fs::create_dir_all(&programs).expect("a folder");
    let kind = programs.join("kind");
    fs::write(&kind, KIND.replace("<directory>", &fleet.folder.display().to_string())).expect("a program");
    fs::set_permissions(&kind, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = std::env::var("PATH").unwrap_or_default();
    let launch = fleet
        .launch()
        .environment("SYNC_ENGINE_ALLOW_KIND", "true")
        .environment("PATH", format!("{}:{path}", programs.display()));
    let mut engine = launch.ready().await;
    let first = &fleet.world.alpha;
    first.create_synced("a", json!({"size": 1})).await;
    fleet.unlist("a");
    engine.says(&["cluster disengaged", "Removed"]).await;
    assert_eq!(fleet.world.target.copies().await.len(), 1);
}
