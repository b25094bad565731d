//! The chart as its snapshots render it: on a real server, and as the process that its Deployment describes.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sync_engine::yaml;

use crate::case::{Case, Stage, case};
use crate::credentials::{ADMIN, NOBODY, token};
use crate::engine::{Launch, output};
use crate::kubectl::repository;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_server_takes_what_the_chart_renders).on_kube(),
        case!(the_process_of_the_chart_has_what_it_needs_and_hands_over).on_kube(),
    ]
}

/// The namespace of the release in the snapshots.
const RELEASE: &str = "sync-engine";

/// Kinds of other projects, whose definitions the server does not have.
const FOREIGN: &str = "monitoring.coreos.com/";

async fn a_server_takes_what_the_chart_renders(stage: &Stage) {
    let server = stage.fleet.own_cluster(&stage.id).await;
    let kubectl = stage.kubectl("admin", &server.kubeconfig(ADMIN));
    for namespace in [RELEASE, "sync-state"] {
        kubectl.run(&["create", "namespace", namespace]);
    }
    let folder = repository().join("deploy/chart/tests/rendered");
    let mut kinds = 0;
    for file in fs::read_dir(folder).expect("the snapshots").map(|entry| entry.expect("a file").path()) {
        let (foreign, known): (Vec<Value>, Vec<Value>) = documents(&file).into_iter().partition(is_foreign);
        let list =
            stage.keep("rendered.json", &json!({"apiVersion": "v1", "kind": "List", "items": known}).to_string());
        let list = list.display().to_string();
        let taken = kubectl.run(&["apply", "--server-side", "--dry-run=server", "-f", &list]);
        assert_eq!(taken.lines().count(), known.len(), "{}: {taken}", file.display());
        kinds += foreign.len();
    }
    assert_eq!(kinds, 2, "a ServiceMonitor and a PrometheusRule are left out");
}

async fn the_process_of_the_chart_has_what_it_needs_and_hands_over(stage: &Stage) {
    let (server, world) = stage.widgets_on_own_target().await;
    let kubectl = stage.kubectl("admin", &server.kubeconfig(ADMIN));
    kubectl.run(&["create", "namespace", RELEASE]);
    let all = documents(&repository().join("deploy/chart/tests/rendered/install.yaml"));
    let with_rules = all.iter().cloned().map(|document| with_rules(document, &rules(&world))).collect::<Vec<_>>();
    let list = stage.keep("chart.json", &json!({"apiVersion": "v1", "kind": "List", "items": with_rules}).to_string());
    kubectl.run(&["apply", "--server-side", "-f", &list.display().to_string()]);

    // As the kubelet starts it: the Deployment's variables, and the token of its ServiceAccount.
    let account = kubectl.run(&["create", "token", RELEASE, "--namespace", RELEASE]);
    let kubeconfig = server.kubeconfig(NOBODY).replace(&token(NOBODY), account.trim());
    let target = stage.keep("account.kubeconfig", &kubeconfig);
    let launch = process(&world, &all, &target);
    let mut first = launch.ready().await;
    let mut second = launch.start();
    world.made("it", json!({"size": 1})).await;
    second.becomes_ready().await;
    assert!(first.terminate().await.success());
    world.target.made(&world.beta, "it", json!({"size": 2})).await;
    for tenant in [&world.alpha, &world.beta] {
        tenant.remove("it").await;
    }
    let refused: Vec<String> = second.log().into_iter().filter(|line| line.contains("forbidden")).collect();
    assert!(refused.is_empty(), "the engine was refused something: {refused:#?}");
    assert!(second.terminate().await.success());

    kubectl.run(&["delete", "-f", &list.display().to_string()]);
    let left = kubectl.run(&["get", "clusterroles,clusterrolebindings", "-o", "name"]);
    assert!(!left.lines().any(|line| line.ends_with("/sync-engine-sync-engine")), "{left}");
}

fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read(file).expect("a snapshot");
    yaml::parse(&text).into_iter().filter_map(|document| Some(document.root?.to_json())).collect()
}

fn is_foreign(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|version| version.starts_with(FOREIGN))
}

/// What `sync-engine rbac -o values` prints for the mappings.
fn rules(world: &World<'_>) -> Vec<Value> {
    let text = output(&["rbac", "-o", "values", &world.mappings.folder().display().to_string()]);
    let values = yaml::parse_one(&text).and_then(|document| document.root).expect("values").to_json();
    values["rbac"]["clusterRules"].as_array().expect("rules").clone()
}

/// The document as it is rendered with these rules among the values.
fn with_rules(mut document: Value, rules: &[Value]) -> Value {
    if document["kind"] == "ClusterRole" {
        document["rules"].as_array_mut().expect("rules").extend(rules.iter().cloned());
    }
    document
}

/// The engine with the variables of the Deployment, and with files of this machine in place of its volumes.
pub fn process(world: &World<'_>, rendered: &[Value], target: &Path) -> Launch {
    let deployment = rendered.iter().find(|document| document["kind"] == "Deployment").expect("a Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"], json!(["run"]));
    let schemas = world.stage.folder.join("schemas");
    fs::create_dir_all(&schemas).expect("a folder");
    let here = |value: &str| {
        value
            .replace("in-cluster", &target.display().to_string())
            .replace("/connections/source/kubeconfig", &world.source_kubeconfig.display().to_string())
            .replace("/connections/kcp/kubeconfig", &world.source_kubeconfig.display().to_string())
            .replace("/mappings", &world.mappings.folder().display().to_string())
            .replace("/schemas", &schemas.display().to_string())
    };
    let variables = container["env"].as_array().expect("variables");
    variables.iter().fold(Launch::bare(&world.stage.folder), |launch, variable| {
        let text = |field: &str| variable[field].as_str().expect("text");
        launch.environment(text("name"), here(text("value")))
    })
}
