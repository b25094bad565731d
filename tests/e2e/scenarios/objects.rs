//! Objects that depend on each other, and several objects of one rule.

use serde_json::json;
use sync_engine::sandbox::{Fault, Verb};

use crate::case::{Case, Stage, case};
use crate::eventually::becomes;
use crate::memory::LATE;
use crate::rest::Patch;
use crate::target;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_object_waits_for_what_it_depends_on),
        case!(several_objects_follow_their_list),
        case!(a_slow_object_delays_no_other_of_its_source).in_memory_alone(),
    ]
}

const TAGGED: &str = r#"<mapping>
  objects:
    - id: tag
      dependsOn: [widget]
      forEach: ${{ source.spec.tags | default([]) }}
      as: tag
      key: ${{ tag }}
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ placement.name }}-{{ tag | dns_label }}"}
        data: {tag: "${{ tag }}", phase: "${{ objects.widget.status.phase | default('') }}"}
    - id: widget
      ready: ${{ objects.widget.status.phase | default("") == "Running" }}
      template: {apiVersion: <group>/v1, kind: Widget, spec: {size: "${{ source.spec.size }}"}}
  status:
    from: widget
    fields:
      ready: {value: "${{ objects.tag | length }}"}
  reconcile: {backoff: {min: 1s, max: 5s}}
"#;

/// Waits until the ConfigMaps downstream are of these tags.
async fn tags(world: &World<'_>, expected: &[&str]) {
    becomes(&format!("the tags {expected:?}"), expected, async || {
        let maps = world.target.labelled("/api/v1/configmaps").await;
        let mut tags: Vec<_> = maps.iter().filter_map(|map| map["data"]["tag"].as_str()).map(str::to_owned).collect();
        tags.sort_unstable();
        tags
    })
    .await;
}

async fn an_object_waits_for_what_it_depends_on(stage: &Stage) {
    let (world, mut engine) = stage.running_with(TAGGED).await;
    let widget = world.made("it", json!({"size": 1, "tags": ["a", "b"]})).await;
    engine.says(&["waits for object `widget`", "its `ready` is false"]).await;
    tags(&world, &[]).await;
    world.target.report(&widget, json!({"phase": "Running"})).await;
    tags(&world, &["a", "b"]).await;
    world.alpha.status("it", json!({"ready": 2})).await;

    // What they depend on outlives them.
    let map = world.target.labelled("/api/v1/configmaps").await.remove(0);
    let path = format!("/api/v1/namespaces/{}/configmaps/{}", target::namespace(&map), target::name(&map));
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.target.rest.patch(Patch::Merge, &path, &held).await;
    world.alpha.delete("it").await;
    let left = async || world.target.labelled("/api/v1/configmaps").await.len();
    becomes("one ConfigMap is left, and held", 1, left).await;
    assert!(world.target.find(&world.alpha, "it").await.is_some(), "the widget stays as long as they do");
    world.target.rest.patch(Patch::Merge, &path, &json!({"metadata": {"finalizers": null}})).await;
    world.target.gone(&world.alpha, "it").await;
}

async fn several_objects_follow_their_list(stage: &Stage) {
    let (world, mut engine) = stage.running_with(TAGGED).await;
    world.alpha.create("it", json!({"size": 1, "tags": ["a", "b"]})).await;
    world.target.operate(&world.alpha, "it", json!({"phase": "Running"})).await;
    tags(&world, &["a", "b"]).await;

    world.alpha.patch("it", json!({"spec": {"tags": ["c", "b"]}})).await;
    tags(&world, &["b", "c"]).await;

    // Two of one key cannot be told apart, and take nothing away.
    world.alpha.patch("it", json!({"spec": {"tags": ["d", "d"]}})).await;
    engine.says(&["items 1 and 2 have the same key"]).await;
    tags(&world, &["b", "c"]).await;
    world.alpha.patch("it", json!({"spec": {"tags": []}})).await;
    tags(&world, &[]).await;
}

async fn a_slow_object_delays_no_other_of_its_source(stage: &Stage) {
    let independent = TAGGED
        .replace("      dependsOn: [widget]\n", "")
        .replace("{{ objects.widget.status.phase", "{{ source.spec.note");
    let (world, _engine) = stage.running_with(&independent).await;
    world.memory().fault(Verb::Apply, "configmaps", "it-a", Fault::Delay(LATE)).await;
    world.alpha.create("it", json!({"size": 1, "tags": ["a", "b", "c"]})).await;
    // One after the other, they would come after it.
    tags(&world, &["b", "c"]).await;
    tags(&world, &["a", "b", "c"]).await;
}
