//! What looks like a deletion and is none: no object downstream goes without evidence, and what is waited for is said.

use std::fs;
use std::time::Duration;

use serde_json::json;
use sync_engine::sandbox::Options;

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::{becomes, eventually, throughout};
use crate::kube::ApiServer;
use crate::rest::Rest;
use crate::target::uid;
use crate::world::WIDGETS;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_target_that_is_empty_behind_its_address_gets_nothing_of_what_the_former_has).in_memory_alone(),
        case!(an_api_that_is_not_served_for_a_while_loses_nothing),
        case!(where_the_definition_of_its_kind_is_gone_a_deletion_ends_and_a_source_is_held),
        case!(a_dropped_object_id_is_held_until_a_person_approves),
        case!(what_a_source_loses_after_a_release_waits_for_a_person_beyond_the_limits),
    ]
}

pub fn with_another_target() -> Vec<Case> {
    vec![
        case!(another_target_is_not_written_to),
        case!(a_target_kubeconfig_that_leads_elsewhere_is_followed_and_the_sources_stay_where_they_are),
    ]
}

/// A cluster beside the case's target.
async fn another_target(stage: &Stage) -> ApiServer {
    stage.fleet.own_cluster(&format!("{}-other", stage.id)).await
}

async fn another_target_is_not_written_to(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;
    assert!(engine.terminate().await.success());

    let other = another_target(stage).await;
    let kubeconfig = other.kubeconfig(&stage.user);
    let other_admin = other.admin().await;
    world.api.install(&other_admin).await;
    let mut wrong = world.launch_at(&kubeconfig).start();
    world.alpha.synced("it", "False", "TargetChanged").await;
    wrong.says(&["it", "TargetChanged"]).await;
    troubles::shown(stage, &wrong, "TargetChanged").await;
    let made = other_admin.list(&world.api.everywhere()).await;
    assert!(made.is_empty(), "a wrong target gets no objects: {made:?}");

    // Not even a deletion goes on: nobody can say whether the object is gone where it was.
    world.alpha.delete("it").await;
    throughout(Duration::from_secs(3), "the source is held", async || {
        world.alpha.get("it").await.map(drop).ok_or_else(|| "it is gone".to_owned())
    })
    .await;
    wrong.kill();
    world.target.stays(&copy).await;

    let _engine = world.engine().await;
    world.alpha.gone("it").await;
    assert_eq!(world.target.find(&world.alpha, "it").await, None);
}

async fn a_target_kubeconfig_that_leads_elsewhere_is_followed_and_the_sources_stay_where_they_are(stage: &Stage) {
    let world = stage.widgets().await;
    let right = fs::read_to_string(&world.target_kubeconfig).expect("the kubeconfig");
    let launch = world.launch_at(&right);
    let engine = launch.ready().await;
    let copy = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;

    let other = another_target(stage).await;
    let other_admin = other.admin().await;
    world.api.install(&other_admin).await;
    world.launch_at(&other.kubeconfig(&stage.user));
    world.alpha.synced("it", "False", "TargetChanged").await;
    // Who has nothing elsewhere is served where the kubeconfig leads to.
    world.beta.create("new", json!({"size": 1})).await;
    let made = async || other_admin.list(&world.api.everywhere()).await.len();
    becomes("the new address is in use", 1, made).await;
    assert_eq!(world.target.find(&world.beta, "new").await, None, "the former cluster gets nothing any more");
    world.target.stays(&copy).await;

    world.launch_at(&right);
    let now = world.target.follows(&world.alpha, "it", json!({"size": 2})).await;
    assert_eq!(uid(&now), uid(&copy));
    world.beta.synced("new", "False", "TargetChanged").await;
    drop(engine);
}

async fn a_target_that_is_empty_behind_its_address_gets_nothing_of_what_the_former_has(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;

    let rebuilt = Options::kubernetes().seed("rebuilt").start().await.expect("a sandbox");
    world.api.install(&Rest::of_kubeconfig(&rebuilt.kubeconfig(None)).await).await;
    world.memory().replace_target(&rebuilt.backup()).await;
    world.alpha.synced("it", "False", "TargetChanged").await;
    assert!(world.target.copies().await.is_empty());
}

async fn an_api_that_is_not_served_for_a_while_loses_nothing(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create("it", json!({"size": 1})).await;
    world.alpha.create("leaving", json!({"size": 1})).await;
    let copy = world.target.copy(&world.alpha, "it").await;
    let leaving = world.target.copy(&world.alpha, "leaving").await;

    let served = async |served: bool| world.api.serve(&world.target.rest, served).await;
    served(false).await;
    let before = engine.lines_logged();
    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    world.alpha.delete("leaving").await;
    engine.says_after(before, &[&world.api.group]).await;
    let what = "nothing is concluded from an API that is not served";
    world.alpha.stays_held("leaving", &mut engine, what).await;

    served(true).await;
    let now = world.target.has_spec(&world.alpha, "it", json!({"size": 2})).await;
    assert_eq!(uid(&now), uid(&copy), "the object is the same one");
    world.alpha.gone("leaving").await;
    assert_eq!(world.target.rest.get(&world.target.path(&leaving)).await, None);
}

async fn where_the_definition_of_its_kind_is_gone_a_deletion_ends_and_a_source_is_held(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    for name in ["now", "later", "kept"] {
        world.alpha.create_synced(name, json!({"size": 1})).await;
    }
    world.settled().await;
    world.api.uninstall(&world.target.rest).await;
    world.alpha.remove("now").await;
    engine.says(&[&world.api.group]).await;
    world.alpha.stays_held("kept", &mut engine, "a live source waits, and is held").await;

    // Also for an engine that has never seen the kind.
    engine.kill();
    let _engine = world.launch().start();
    world.alpha.remove("later").await;
    world.api.install(&world.target.rest).await;
    world.target.has_spec(&world.alpha, "kept", json!({"size": 1})).await;
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
