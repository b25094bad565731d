//! The chosen status fields flow back, each on its own.

use serde_json::json;

use super::troubles;
use crate::case::{Case, Stage, case};

pub fn cases() -> Vec<Case> {
    vec![case!(a_missing_field_follows_on_missing_and_one_of_a_new_schema_is_written)]
}

const ON_MISSING: &str = r#"<widget mapping>
  status:
    fields:
      phase: {path: $.status.phase, default: Pending}
      version: {path: $.status.version, onMissing: Remove}
      message: {path: $.status.message, onMissing: Keep}
      ready: {path: $.status.ready, onMissing: Error}
"#;

async fn a_missing_field_follows_on_missing_and_one_of_a_new_schema_is_written(stage: &Stage) {
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

    // The consumers' API gets a new field, and then the mapping writes it: nobody restarts the engine.
    world.update_source(&world.api.with_status_field("tier")).await;
    let edited = ON_MISSING.replace("ready: {path: $.status.ready, onMissing: Error}", "tier: {value: gold}");
    world.mappings.write("widgets.yaml", &edited);
    world.alpha.status("it", json!({"phase": "Pending", "tier": "gold"})).await;
    world.alpha.synced("it", "True", "Synced").await;
}
