//! Tenants do not meet: neither their objects downstream nor what comes back.

use std::time::Duration;

use serde_json::json;

use crate::case::{Case, Stage, case};
use crate::eventually::throughout;
use crate::target::{name, namespace};

pub fn cases() -> Vec<Case> {
    vec![
        case!(two_tenants_with_one_name_keep_apart).on_both(),
        case!(two_connections_to_one_cluster_both_work_and_are_reported),
    ]
}

async fn two_tenants_with_one_name_keep_apart(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.alpha.create("my-database", json!({"size": 1})).await;
    world.beta.create("my-database", json!({"size": 2})).await;

    let ours = world.target.has_spec(&world.alpha, "my-database", json!({"size": 1})).await;
    let theirs = world.target.has_spec(&world.beta, "my-database", json!({"size": 2})).await;
    assert_eq!((name(&ours), name(&theirs)), ("my-database".to_owned(), "my-database".to_owned()));
    assert_ne!(namespace(&ours), namespace(&theirs));

    world.target.report(&ours, json!({"phase": "Running", "version": "of alpha"})).await;
    world.alpha.status("my-database", json!({"phase": "Running", "version": "of alpha"})).await;
    world.beta.status("my-database", json!({"phase": "Pending"})).await;
    throughout(Duration::from_secs(2), "alpha's status stays alpha's", async || {
        let status = world.beta.object("my-database").await["status"].clone();
        status["version"].is_null().then_some(()).ok_or_else(|| status.to_string())
    })
    .await;

    world.target.report(&theirs, json!({"phase": "Failed", "version": "of beta"})).await;
    world.beta.status("my-database", json!({"phase": "Failed", "version": "of beta"})).await;
    world.alpha.status("my-database", json!({"phase": "Running", "version": "of alpha"})).await;

    world.alpha.remove("my-database").await;
    assert_eq!(world.target.find(&world.alpha, "my-database").await, None);
    world.target.stays(&theirs).await;
}

/// A second mapping on the same resource: another kind of object, and no word upstream.
const SETTINGS: &str = r#"
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: <name>-settings}
spec:
  source: <source>
  target: {cluster: second}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: "{{ source.spec.size }}"}}
  status: {observedGeneration: Off, engineConditions: []}
"#;

async fn two_connections_to_one_cluster_both_work_and_are_reported(stage: &Stage) {
    let world = stage.widgets().await;
    world.mappings.write("settings.yaml", SETTINGS);
    let second = format!("second={}", world.target_kubeconfig.display());
    let mut engine = world.launch().and_flag("--connection", second).ready().await;
    engine.says(&["`second` and `target`", "lead to one cluster"]).await;

    let copy = world.made("it", json!({"size": 1})).await;
    let path = format!("/api/v1/namespaces/{}/configmaps/it", namespace(&copy));
    world.target.rest.has(&path, "/data/size", json!("1")).await;
    world.target.rest.delete(&path).await;
    world.target.rest.appears(&path).await;
}
