//! Mappings are edited while the engine runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::rest::Patch;
use crate::target::uid;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_edit_changes_existing_objects_without_new_lists),
        case!(an_edit_that_would_break_sources_is_held_until_it_is_mended_or_a_person_decides),
    ]
}

/// `WIDGETS` with a label on the object downstream.
fn labelled(value: &str) -> String {
    let with_label = format!("        kind: Widget\n        metadata: {{labels: {{edit: \"{value}\"}}}}\n");
    WIDGETS.replace("        kind: Widget\n", &with_label)
}

/// Waits until the object of a source has that label.
async fn has_label(world: &World<'_>, name: &str, value: &str) -> Value {
    world.target.has(&world.alpha, name, json!({"metadata": {"labels": {"edit": value}}})).await
}

async fn an_edit_changes_existing_objects_without_new_lists(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;
    world.settled().await;
    let lists = || world.requests().into_iter().filter(|request| request.is_list()).collect::<Vec<_>>();
    let before = lists().len();

    engine.says_of(|| world.mappings.write("widgets.yaml", &labelled("first")), &[&world.name]).await;
    let now = has_label(&world, "it", "first").await;
    assert_eq!(uid(&now), uid(&copy), "the object is changed, not replaced");

    world.mappings.write("widgets.yaml", WIDGETS);
    let is_without = |now: &Value| now["metadata"]["labels"]["edit"].is_null();
    world.target.becomes(&copy, "the label is given up", is_without).await;
    let new: Vec<_> = lists().into_iter().skip(before).collect();
    assert!(new.is_empty(), "an edit lists again what it does not change: {new:?}");
}

/// `WIDGETS` with an expression that fails for sources of this size.
fn failing_for(size: u32) -> String {
    labelled(&format!("${{{{ (6 // (source.spec.size - {size})) | string }}}}"))
}

const HELD: [&str; 3] = ["is held", "1 source that is in sync would not be", "RenderFailed"];

async fn an_edit_that_would_break_sources_is_held_until_it_is_mended_or_a_person_decides(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create_synced("one", json!({"size": 1})).await;
    world.alpha.create_synced("two", json!({"size": 2})).await;
    world.settled().await;
    engine.says_of(|| world.mappings.write("widgets.yaml", &failing_for(1)), &HELD).await;
    let answer = engine.reload().await;
    assert!(!answer.is_success() && HELD.iter().all(|held| format!("{answer:?}").contains(held)), "{answer:?}");
    engine.held(&world.name).await;
    // Nobody decides on a record that somebody has broken: it is written anew.
    let record = format!("/api/v1/namespaces/notes-{}/configmaps/main.{}.held", stage.id, world.name);
    world.target.rest.patch(Patch::Merge, &record, &json!({"data": {"held": "broken"}})).await;
    engine.held(&world.name).await;
    world.no_write(Duration::from_secs(2)).await;
    // One mapping's edit takes no replica out of service.
    engine.becomes_degraded("document of mapping", "is held").await;

    // The document before goes on; and once the edit breaks nothing any more, it is released.
    world.target.follows(&world.alpha, "two", json!({"size": 7})).await;
    world.alpha.patch("one", json!({"spec": {"size": 4}})).await;
    engine.says(&["0 newly failing, 2 updated", "rehearsed on 2 of 2 sources"]).await;
    for (name, value) in [("one", "2"), ("two", "1")] {
        has_label(&world, name, value).await;
    }
    engine.becomes_ready().await;

    // What a person rejects stays out, also of another process, and where nothing holds it any more.
    world.settled().await;
    engine.says_of(|| world.mappings.write("widgets.yaml", &failing_for(4)), &HELD).await;
    engine.reject(&world.name).await;
    engine.says(&["is held", "a person rejected it"]).await;
    world.target.follows(&world.alpha, "one", json!({"size": 6})).await;
    assert!(engine.terminate().await.success());
    let mut engine = world.launch().start();
    engine.says(&["is held", "a person rejected it"]).await;
    engine.approve(&world.name).await;
    has_label(&world, "one", "3").await;
}
