//! The chosen status fields flow back, each on its own.

use serde_json::json;

use super::troubles;
use crate::case::{Case, Stage, case};

pub fn cases() -> Vec<Case> {
    vec![
        case!(fields_flow_back_with_their_types).on_both(),
        case!(a_missing_field_follows_on_missing),
        case!(several_values_are_taken_as_the_mapping_says),
        case!(a_leaf_that_fails_holds_no_other_back).on_both(),
        case!(conditions_say_what_the_mapping_says),
        case!(observed_generation_is_translated),
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

const SEVERAL: &str = r#"<widget mapping>
  status:
    fields:
      endpoints: {path: "$.status.members[*].host", take: all}
      ready: {path: "$.status.members[*].host", take: count}
      version: {path: "$.status.members[*].host", take: first}
      message: {path: $.status.message, transform: "${{ value | replace(placement.namespace, source.metadata.namespace) }}"}
      phase: {value: "{{ objects.widget.status.phase | default('none') }} of {{ source.metadata.name }}"}
"#;

async fn several_values_are_taken_as_the_mapping_says(stage: &Stage) {
    let (world, _engine) = stage.running_with(SEVERAL).await;
    let copy = world.made("it", json!({})).await;
    let inside = crate::target::namespace(&copy);
    let members = json!({
        "phase": "Running", "message": format!("it runs in {inside}"), "members": [{"host": "a"}, {"host": "b"}],
    });
    world.target.report(&copy, members).await;
    let expected = json!({
        "endpoints": ["a", "b"], "ready": 2, "version": "a", "phase": "Running of it",
        "message": format!("it runs in {}", world.alpha.namespace),
    });
    world.alpha.status("it", expected).await;
}

const ONE_BAD_LEAF: &str = r#"<widget mapping>
  status:
    fields:
      version: {path: "$.status.members[*].host", take: one}
      phase: $.status.phase
"#;

async fn a_leaf_that_fails_holds_no_other_back(stage: &Stage) {
    let (world, mut engine) = stage.running_with(ONE_BAD_LEAF).await;
    world.alpha.create("it", json!({})).await;
    let several = json!({"phase": "Running", "members": [{"host": "a"}, {"host": "b"}]});
    world.target.operate(&world.alpha, "it", several).await;
    world.alpha.status("it", json!({"phase": "Running"})).await;
    world.alpha.synced("it", "False", "StatusFailed").await;
    engine.says(&["status.version", "matches 2 values"]).await;
}

const CONDITIONS: &str = r#"<widget mapping>
  status:
    fields: {phase: $.status.phase}
    conditions:
      - type: Ready
        status: ${{ objects.widget.status.phase | default("") == "Running" }}
        reason: ${{ objects.widget.status.phase | default("Provisioning") }}
        message: "{{ objects.widget.status.message | default('') }}"
"#;

async fn conditions_say_what_the_mapping_says(stage: &Stage) {
    let (world, _engine) = stage.running_with(CONDITIONS).await;
    world.alpha.create("it", json!({})).await;
    let ready = async |status: &str, reason: &str, message: &str| {
        let expected = json!({"status": status, "reason": reason, "message": message});
        world.alpha.condition("it", "Ready", expected).await
    };
    let first = ready("False", "Provisioning", "").await;
    let copy = world.target.operate(&world.alpha, "it", json!({"phase": "Starting", "message": "soon"})).await;
    let second = ready("False", "Starting", "soon").await;
    assert_eq!(first["lastTransitionTime"], second["lastTransitionTime"], "the status did not change");
    world.target.report(&copy, json!({"phase": "Running", "message": null})).await;
    ready("True", "Running", "").await;
}

async fn observed_generation_is_translated(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.made("it", json!({"size": 1})).await;
    for size in [2, 3, 4] {
        world.target.follows(&world.alpha, "it", json!({"size": size})).await;
    }
    let copy = world.target.copy(&world.alpha, "it").await;
    world.target.report(&copy, json!({"phase": "Running", "observedGeneration": copy["metadata"]["generation"]})).await;
    let generation = world.alpha.object("it").await["metadata"]["generation"].clone();
    world.alpha.status("it", json!({"phase": "Running", "observedGeneration": generation})).await;
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
