//! A consumer's object goes when what was made for it is gone, whatever happens meanwhile.

use std::time::Duration;

use serde_json::json;

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::{eventually, throughout};
use crate::target::uid;
use crate::world::WIDGETS;

pub fn cases() -> Vec<Case> {
    vec![
        case!(downstream_goes_first).on_both(),
        case!(a_name_used_again_at_once_gets_a_new_object).on_both(),
        case!(a_source_replaced_behind_the_engine_adopts_the_object).on_both(),
        case!(a_deletion_needs_no_rendering),
        case!(an_orphaned_object_stays),
        case!(a_source_that_leaves_takes_its_object_along_where_the_mapping_says_so),
        case!(a_removed_mapping_takes_its_objects_along_where_it_says_so),
        case!(a_removed_mapping_leaves_where_the_definition_of_its_kind_is_gone),
    ]
}

async fn downstream_goes_first(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.target.edit(&copy, json!({"metadata": {"finalizers": ["e2e.example.com/hold"]}})).await;

    world.alpha.delete("it").await;
    world
        .target
        .becomes(&copy, "downstream is being deleted", |copy| copy["metadata"]["deletionTimestamp"].is_string())
        .await;
    throughout(Duration::from_secs(3), "the consumer's object stays as long as the downstream one", async || {
        world.alpha.get("it").await.map(drop).ok_or_else(|| "it is gone".to_owned())
    })
    .await;
    assert_eq!(world.alpha.holds("it").await, [format!("sync-engine.dev/main.{}", world.name)]);

    world.target.edit(&copy, json!({"metadata": {"finalizers": null}})).await;
    world.alpha.gone("it").await;
    assert_eq!(world.target.find(&world.alpha, "it").await, None);
}

async fn a_name_used_again_at_once_gets_a_new_object(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    let first = world.made("it", json!({"size": 1})).await;
    world.alpha.remove("it").await;
    let source = world.alpha.create("it", json!({"size": 2})).await;
    eventually("another object stands downstream", async || {
        let copy = world.target.find(&world.alpha, "it").await.ok_or("there is none")?;
        let source_uid = &copy["metadata"]["annotations"]["sync-engine.dev/source-uid"];
        let replaced = uid(&copy) != uid(&first) && *source_uid == uid(&source) && copy["spec"] == json!({"size": 2});
        replaced.then_some(()).ok_or_else(|| copy.to_string())
    })
    .await;
}

async fn a_source_replaced_behind_the_engine_adopts_the_object(stage: &Stage) {
    let adopting = WIDGETS.replace("  objects:", "  lifecycle: {onSourceRecreated: Adopt}\n  objects:");
    let (world, mut engine) = stage.running_with(&adopting).await;
    let first = world.made("it", json!({"size": 1})).await;
    engine.kill();

    world.alpha.patch("it", json!({"metadata": {"finalizers": null}})).await;
    world.alpha.remove("it").await;
    let source = world.alpha.create("it", json!({"size": 2})).await;

    let _engine = world.engine().await;
    eventually("the object is adopted", async || {
        let copy = world.target.find(&world.alpha, "it").await.ok_or("there is none")?;
        let source_uid = &copy["metadata"]["annotations"]["sync-engine.dev/source-uid"];
        let adopted = uid(&copy) == uid(&first) && *source_uid == uid(&source) && copy["spec"] == json!({"size": 2});
        adopted.then_some(()).ok_or_else(|| copy.to_string())
    })
    .await;
    world.alpha.synced("it", "True", "Adopted").await;
}

/// Rendering fails for an object whose spec says so.
const FRAGILE: &str = r#"<mapping>
  objects:
    - id: widget
      template:
        apiVersion: <group>/v1
        kind: Widget
        spec: {size: "${{ source.spec.size | default(none) | required('say how large it shall be') }}"}
  reconcile: {backoff: {min: 1s, max: 5s}}
"#;

async fn a_deletion_needs_no_rendering(stage: &Stage) {
    let (world, engine) = stage.running_with(FRAGILE).await;
    let copy = world.made("it", json!({"size": 1})).await;

    world.alpha.patch("it", json!({"spec": {"size": null}})).await;
    let condition = world.alpha.synced("it", "False", "RenderFailed").await;
    assert!(condition["message"].as_str().is_some_and(|text| text.contains("say how large")), "{condition}");
    troubles::shown(stage, &engine, "RenderFailed").await;
    assert_eq!(world.target.again(&copy).await["spec"], json!({"size": 1}), "a failed rendering writes nothing");

    world.alpha.remove("it").await;
    assert_eq!(world.target.find(&world.alpha, "it").await, None);
}

const ORPHANING: &str = r#"<widget mapping>
  lifecycle: {onSourceDelete: Orphan}
"#;

async fn an_orphaned_object_stays(stage: &Stage) {
    let (world, _engine) = stage.running_with(ORPHANING).await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.remove("it").await;
    let left = world.target.again(&copy).await;
    assert!(left["metadata"]["deletionTimestamp"].is_null(), "{left}");
    assert!(left["metadata"]["labels"]["sync-engine.dev/owner"].is_null(), "an orphan carries no marks: {left}");
}

async fn a_source_that_leaves_takes_its_object_along_where_the_mapping_says_so(stage: &Stage) {
    let world = stage.widgets().await;
    let source = world.mappings.fill("<source>");
    let selective =
        source.trim_end_matches('}').to_owned() + ", when: \"${{ source.spec.size > 0 }}\", onExit: Delete}";
    world.mappings.write("widgets.yaml", &WIDGETS.replace("<source>", &selective));
    let _engine = world.engine().await;
    world.made("it", json!({"size": 1})).await;
    world.alpha.patch("it", json!({"spec": {"size": 0}})).await;
    world.target.gone(&world.alpha, "it").await;
    world.alpha.let_go("it").await;
}

async fn a_removed_mapping_leaves_where_the_definition_of_its_kind_is_gone(stage: &Stage) {
    let lifecycle = "  lifecycle: {onMappingRemoved: Delete}\n  release: {maxLost: {percent: 100}}\n";
    let (world, mut engine) = stage.running_with(&(WIDGETS.to_owned() + lifecycle)).await;
    world.alpha.create_synced("it", json!({"size": 1})).await;
    world.settled().await;
    world.api.uninstall(&world.target.rest).await;
    let lines = engine.lines_logged();
    world.mappings.remove("widgets.yaml");
    world.alpha.let_go("it").await;
    engine.says_after(lines, &["the mapping was removed, and so was all it had made"]).await;
}

async fn a_removed_mapping_takes_its_objects_along_where_it_says_so(stage: &Stage) {
    let text = WIDGETS.to_owned() + "  lifecycle: {onMappingRemoved: Delete}\n";
    let (world, mut engine) = stage.running_with(&text).await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.made("other", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;
    world.mappings.remove("widgets.yaml");
    let is_held = format!("document of mapping {}", world.name);
    engine.becomes_degraded(&is_held, "its removal is held, and deletions alone go on: 2 of 2 objects").await;
    // Until a person approves it, the mapping is retained: what consumers ask for goes.
    world.alpha.delete("other").await;
    world.target.gone(&world.alpha, "other").await;
    world.target.stays(&copy).await;

    // Once the document is back, nothing is held; and its next removal has to be approved anew.
    world.mappings.write("widgets.yaml", &text);
    engine.becomes_ready().await;
    world.mappings.remove("widgets.yaml");
    engine.becomes_degraded(&is_held, "1 of 1 object would be lost").await;
    engine.approve(&world.name).await;
    world.target.gone(&world.alpha, "it").await;
    world.alpha.let_go("it").await;
}
