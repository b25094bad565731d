//! The engine is stopped and started again: the world converges, and in sync nothing is written.

use std::time::Duration;

use serde_json::json;

use crate::case::{Case, Stage, case};
use crate::engine::Engine;
use crate::world::World;

/// How long a quiet engine is watched.
const QUIET: Duration = Duration::from_secs(15);

pub fn cases() -> Vec<Case> {
    vec![case!(a_restart_in_sync_and_an_idle_engine_write_nothing).on_both(), case!(the_first_signal_drains)]
}

/// Two tenants' objects, synced, with their status returned.
async fn in_sync(world: &World<'_>) -> Engine {
    let engine = world.engine().await;
    for tenant in [&world.alpha, &world.beta] {
        tenant
            .create("it", json!({"size": 1, "ratio": 1.0, "labels": {}, "free": {"nothing": null, "whole": 2.0}}))
            .await;
        world.target.operate(tenant, "it", json!({"phase": "Running", "load": 1.0})).await;
        tenant.status("it", json!({"phase": "Running"})).await;
        tenant.synced("it", "True", "Synced").await;
    }
    engine
}

async fn a_restart_in_sync_and_an_idle_engine_write_nothing(stage: &Stage) {
    let world = stage.widgets().await;
    let mut engine = in_sync(&world).await;
    world.settled().await;
    assert!(engine.terminate().await.success());
    let before = world.writes().len();

    let mut engine = world.engine().await;
    world.no_write(QUIET).await;
    let new: Vec<_> = world.writes().into_iter().skip(before).collect();
    assert!(new.is_empty(), "a restart in sync writes: {new:?}");

    // It is idle, not dead.
    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    world.target.has(&world.alpha, "it", json!({"spec": {"size": 2}})).await;
    engine.is_running().expect("the engine runs on");
}

async fn the_first_signal_drains(stage: &Stage) {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let (world, mut engine) = stage.running().await;
    for name in NAMES {
        world.alpha.create(name, json!({"size": 1})).await;
    }
    let status = engine.terminate().await;
    assert_eq!(status.code(), Some(0), "{}", engine.log().join("\n"));
    let _engine = world.engine().await;
    for name in NAMES {
        world.target.has_spec(&world.alpha, name, json!({"size": 1})).await;
        world.alpha.synced(name, "True", "Synced").await;
    }
    assert_eq!(world.target.copies().await.len(), NAMES.len(), "no object stands twice");
}
