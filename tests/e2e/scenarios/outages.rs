//! Servers that are gone for a while: the engine stays up, says so, and recovers.

use std::time::Duration;

use serde_json::json;

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::throughout;
use crate::target::uid;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_target_that_comes_up_later_is_served),
        case!(a_killed_source_comes_back).on_both().alone(),
        case!(a_kcp_that_is_put_back_to_an_earlier_state_is_followed_at_once_and_loses_no_object).on_kcp().alone(),
    ]
}

async fn a_target_that_comes_up_later_is_served(stage: &Stage) {
    let (server, world) = stage.widgets_on_own_target().await;
    server.kill();
    world.alpha.create("it", json!({"size": 1})).await;
    let mut engine = world.launch().start();
    engine.becomes_unready("target target", "cannot reach").await;
    world.alpha.synced("it", "Unknown", "TargetUnreachable").await;
    troubles::shown(stage, &engine, "Unknown").await;
    assert!(world.alpha.holds("it").await.is_empty(), "no promise is made for a target that nobody has seen");
    server.resume().await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 1})).await;
    engine.becomes_ready().await;
}

/// Each wait has a deadline that is shorter than the life of a watch that waits for a version of the future (240 s at least).
async fn a_kcp_that_is_put_back_to_an_earlier_state_is_followed_at_once_and_loses_no_object(stage: &Stage) {
    let (world, engine) = stage.running().await;
    world.made("kept", json!({"size": 1})).await;
    let kcp = stage.kcp().await;
    kcp.kill();
    kcp.backup();
    kcp.resume().await;
    for n in 0..20 {
        world.alpha.create(&format!("lost-{n}"), json!({"size": 1})).await;
    }
    for n in 0..20 {
        world.target.copy(&world.alpha, &format!("lost-{n}")).await;
    }
    world.settled().await;
    let before = world.target.uids().await;
    assert_eq!(before.len(), 21);

    kcp.kill();
    kcp.restore();
    kcp.resume().await;
    world.made("new", json!({"size": 1})).await;
    world.target.follows(&world.alpha, "kept", json!({"size": 2})).await;

    // The sources that were created after the copy never asked for a deletion.
    engine.counts_orphans(20).await;
    let after = world.target.uids().await;
    assert!(after.is_superset(&before), "objects of sources that a restore lost are kept: {before:?} {after:?}");
}

async fn a_killed_source_comes_back(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1})).await;
    stage.source_server().await.kill();
    engine.becomes_unready("watch of widgets", "cannot reach").await;
    world.target.report(&copy, json!({"phase": "Running"})).await;
    world.target.edit(&copy, json!({"spec": {"size": 9}})).await;
    throughout(Duration::from_secs(3), "the engine stays up and deletes nothing", async || {
        engine.is_running()?;
        let now = world.target.again(&copy).await;
        now["metadata"]["deletionTimestamp"].is_null().then_some(()).ok_or_else(|| now["metadata"].to_string())
    })
    .await;

    stage.source_server().await.resume().await;
    world.alpha.status("it", json!({"phase": "Running"})).await;
    let now = world.target.follows(&world.alpha, "it", json!({"size": 2})).await;
    assert_eq!(uid(&now), uid(&copy));
    world.target.made(&world.beta, "new", json!({"size": 1})).await;
    engine.becomes_ready().await;
}
