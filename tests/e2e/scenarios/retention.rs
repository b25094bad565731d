//! What looks like a deletion and is none: no object downstream goes without evidence, and what is waited for is said.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::{becomes, eventually, throughout};
use crate::target::uid;
use crate::world::WIDGETS;

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_api_of_the_target_comes_late_is_not_served_for_a_while_and_goes),
        case!(a_dropped_object_id_is_held_until_a_person_approves),
        case!(what_a_source_loses_after_a_release_waits_for_a_person_beyond_the_limits),
    ]
}

pub fn with_another_target() -> Vec<Case> {
    vec![case!(another_target_gets_new_sources_alone_and_the_others_stay_where_they_are)]
}

/// By a kubeconfig that is edited while the engine runs.
async fn another_target_gets_new_sources_alone_and_the_others_stay_where_they_are(stage: &Stage) {
    let world = stage.widgets().await;
    let right = fs::read_to_string(&world.target_kubeconfig).expect("the kubeconfig");
    let mut engine = world.launch_at(&right).ready().await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;

    let other = stage.fleet.own_cluster(&format!("{}-other", stage.id)).await;
    let other_admin = other.admin().await;
    world.api.install(&other_admin).await;
    world.launch_at(&other.kubeconfig(&stage.user));
    world.alpha.synced("it", "False", "TargetChanged").await;
    engine.says(&["it", "TargetChanged"]).await;
    troubles::shown(stage, &engine, "TargetChanged").await;
    // Who has nothing elsewhere is served where the kubeconfig leads to.
    world.beta.create("new", json!({"size": 1})).await;
    let made = async || other_admin.list(&world.api.everywhere()).await.len();
    becomes("the new address is in use", 1, made).await;
    assert_eq!(world.target.find(&world.beta, "new").await, None, "the former cluster gets nothing any more");

    // Not even a deletion goes on: nobody can say whether the object is gone where it was.
    world.alpha.delete("it").await;
    world.alpha.stays_held("it", &mut engine, "the source is held").await;
    world.target.stays(&copy).await;

    world.launch_at(&right);
    world.alpha.gone("it").await;
    assert_eq!(world.target.find(&world.alpha, "it").await, None);
    world.beta.synced("new", "False", "TargetChanged").await;
}

async fn an_api_of_the_target_comes_late_is_not_served_for_a_while_and_goes(stage: &Stage) {
    let world = stage.unmapped(false).await;
    world.mappings.write("widgets.yaml", WIDGETS);
    let mut engine = world.launch().start();
    world.alpha.create("it", json!({"size": 1})).await;
    engine.says(&[&world.api.group, "Widget"]).await;
    troubles::shown(stage, &engine, "Waiting").await;
    world.api.install(&world.target.rest).await;
    let copy = world.target.has_spec(&world.alpha, "it", json!({"size": 1})).await;
    engine.becomes_ready().await;
    for name in ["leaving", "now", "later"] {
        world.alpha.create_synced(name, json!({"size": 1})).await;
    }
    let leaving = world.target.copy(&world.alpha, "leaving").await;

    // Nothing is concluded from an API that is not served.
    let before = engine.lines_logged();
    world.api.serve(&world.target.rest, false).await;
    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    world.alpha.delete("leaving").await;
    engine.says_after(before, &[&world.api.group]).await;
    world.alpha.stays_held("leaving", &mut engine, "its deletion waits").await;
    world.api.serve(&world.target.rest, true).await;
    let now = world.target.has_spec(&world.alpha, "it", json!({"size": 2})).await;
    assert_eq!(uid(&now), uid(&copy), "the object is the same one");
    world.alpha.gone("leaving").await;
    assert_eq!(world.target.rest.get(&world.target.path(&leaving)).await, None);

    // Where the definition of its kind is gone, a deletion ends.
    world.settled().await;
    world.api.uninstall(&world.target.rest).await;
    world.alpha.remove("now").await;
    world.alpha.stays_held("it", &mut engine, "a live source waits, and is held").await;
    // Also for an engine that has never seen the kind.
    engine.kill();
    let _engine = world.launch().start();
    world.alpha.remove("later").await;
    world.api.install(&world.target.rest).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 2})).await;
}

/// `WIDGETS` with a second object.
fn with_settings() -> String {
    let settings = r#"  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: "{{ source.spec.size }}"}}
"#;
    WIDGETS.replace("  objects:\n", settings).replace("  status:\n", "  status:\n    from: widget\n")
}

async fn a_dropped_object_id_is_held_until_a_person_approves(stage: &Stage) {
    let (world, mut engine) = stage.running_with(&with_settings()).await;
    world.made("it", json!({"size": 1})).await;
    let settings = async || world.target.labelled("/api/v1/configmaps").await;
    becomes("the settings are made", 1, async || settings().await.len()).await;

    let held = ["is held", "1 of 2 objects would be lost", "is deleted"];
    engine.says_of(|| world.mappings.write("widgets.yaml", WIDGETS), &held).await;
    world.target.follows(&world.alpha, "it", json!({"size": 2})).await;
    let is_made_by_the_one_before = async || {
        let left = settings().await;
        let same = left.len() == 1 && left[0]["data"]["size"] == "2";
        same.then_some(()).ok_or_else(|| format!("{left:?}"))
    };
    // It may be written after the other object.
    eventually("the document before goes on", is_made_by_the_one_before).await;
    throughout(Duration::from_secs(3), "the document before goes on", is_made_by_the_one_before).await;
    world.alpha.synced("it", "True", "Synced").await;
    engine.becomes_degraded("document of mapping", "sync-engine approve").await;
    let to_do = format!("an edit or the removal of mapping {} is held: sync-engine approve", world.name);
    engine.status_tells(&[], &[&to_do]).await;
    troubles::is_held(stage, &engine, &world.name).await;

    engine.approve(&world.name).await;
    becomes("the dropped object is deleted", 0, async || settings().await.len()).await;
    world.alpha.synced("it", "True", "Synced").await;
    assert!(world.target.find(&world.alpha, "it").await.is_some(), "its neighbour stays");
}

/// An edit drops an id while one source cannot be rendered. Nothing was counted of it: what it loses once its consumer has mended
/// it is taken from the ledger, also by a process that starts later.
async fn what_a_source_loses_after_a_release_waits_for_a_person_beyond_the_limits(stage: &Stage) {
    let share = r#"  release: {maxLost: {objects: 0}}
  objects:
    - {id: share, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ source.metadata.name }}-share"}, data: {share: "{{ 100 // source.spec.size }}"}}}
"#;
    let kept = WIDGETS.replace("  objects:\n", share).replace("  status:\n", "  status:\n    from: widget\n");
    let settings = r#"    - {id: settings, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ source.metadata.name }}-settings"}}}
"#;
    let with_settings = kept.replace("  objects:\n", &format!("  objects:\n{settings}"));
    let (world, mut engine) = stage.running_with(&with_settings).await;
    world.made("it", json!({"size": 1})).await;
    let config_maps = async || world.target.labelled("/api/v1/configmaps").await.len();
    becomes("the ConfigMaps are made", 2, config_maps).await;
    world.alpha.patch("it", json!({"spec": {"size": 0}})).await;
    world.alpha.synced("it", "False", "RenderFailed").await;
    let released = ["the document in the file is in force now", "0 lost"];
    engine.says_of(|| world.mappings.write("widgets.yaml", &kept), &released).await;
    // An edit that is in force at once leaves the ledger as it is.
    let limited = kept.replace("{objects: 0}", "{objects: 0, percent: 50}");
    engine.says_of(|| world.mappings.write("widgets.yaml", &limited), &["generation 3"]).await;
    world.settled().await;
    engine.kill();
    let mut engine = world.engine().await;
    world.alpha.patch("it", json!({"spec": {"size": 4}})).await;
    engine.becomes_degraded(&format!("mapping {}: sources", world.name), "sync-engine approve").await;
    world.alpha.synced("it", "False", "Held").await;
    troubles::shown(stage, &engine, "Held").await;
    assert_eq!(engine.metric("sync_engine_sources_not_synced").await, 1.0);
    assert_eq!(config_maps().await, 2, "it is kept");
    engine.approve(&world.name).await;
    becomes("it is deleted", 1, config_maps).await;
    world.alpha.synced("it", "True", "Synced").await;
}
