//! A consumer's object goes when what was made for it is gone, whatever happens meanwhile.

use std::time::Duration;

use serde_json::json;

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::throughout;
use crate::world::WIDGETS;

pub fn cases() -> Vec<Case> {
    vec![
        case!(downstream_goes_first).on_both(),
        case!(a_deletion_needs_no_rendering),
        case!(a_removed_mapping_takes_its_objects_along_where_it_says_so),
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
