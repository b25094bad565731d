//! The chosen status fields flow back, each on its own.

use serde_json::json;

use super::troubles;
use crate::case::{Case, Stage, case};

pub fn cases() -> Vec<Case> {
    vec![
        case!(fields_flow_back_with_their_types).on_both(),
        case!(a_missing_field_follows_on_missing),
        case!(a_field_of_a_new_schema_is_written_without_a_restart).in_memory(),
    ]
}

async fn fields_flow_back_with_their_types(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.alpha.create("it", json!({"size": 1})).await;
    world.alpha.status("it", json!({"phase": "Pending"})).await;
    let reported = json!({"phase": "Running", "version": "7.0", "ready": 3, "load": 0.25, "healthy": true});
    let copy = world.target.operate(&world.alpha, "it", reported.clone()).await;
    world.alpha.status("it", reported).await;
    world.alpha.synced("it", "True", "Synced").await;

    let later = json!({"phase": "Failed", "ready": 0, "healthy": false});
    world.target.report(&copy, later.clone()).await;
    world.alpha.status("it", later).await;
}

const ON_MISSING: &str = r#"<widget mapping>
  status:
    fields:
      phase: {path: $.status.phase, default: Pending}
      version: {path: $.status.version, onMissing: Remove}
      message: {path: $.status.message, onMissing: Keep}
      ready: {path: $.status.ready, onMissing: Error}
"#;

async fn a_missing_field_follows_on_missing(stage: &Stage) {
    let (world, mut engine) = stage.running_with(ON_MISSING).await;
    world.alpha.create("it", json!({})).await;
    let all = json!({"phase": "Running", "version": "7.0", "message": "fine", "ready": 1});
    let copy = world.target.operate(&world.alpha, "it", all.clone()).await;
    world.alpha.status("it", all).await;

    let nothing = json!({"phase": null, "version": null, "message": null, "ready": null});
    world.target.report(&copy, nothing).await;
    let status = world.alpha.status("it", json!({"phase": "Pending", "message": "fine", "ready": 1})).await;
    assert!(status["version"].is_null(), "{status}");
    world.alpha.synced("it", "False", "StatusFailed").await;
    engine.says(&["status.ready", "onMissing"]).await;
    troubles::shown(stage, &engine, "StatusFailed").await;
}

const NEW_FIELD: &str = r#"<widget mapping>
  status:
    fields:
      phase: {value: Running}
      tier: {value: gold}
"#;

/// The consumers' API gets a new status field, and then the mapping writes it.
async fn a_field_of_a_new_schema_is_written_without_a_restart(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.alpha.create_synced("it", json!({})).await;
    let api = world.api.with_status_field("tier");
    world.update_source(&api).await;
    world.mappings.write("widgets.yaml", NEW_FIELD);
    world.alpha.status("it", json!({"phase": "Running", "tier": "gold"})).await;
}
