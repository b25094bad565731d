//! The engine is killed and started again: the world converges, and in sync nothing is written.

use std::time::Duration;

use serde_json::json;

use crate::case::{Case, Stage, case};
use crate::engine::Engine;
use crate::eventually::eventually;
use crate::world::World;

/// How long a quiet engine is watched.
const QUIET: Duration = Duration::from_secs(15);

pub fn cases() -> Vec<Case> {
    vec![
        case!(killed_at_any_moment_it_converges).on_both(),
        case!(a_restart_in_sync_and_an_idle_engine_write_nothing).on_both(),
        case!(the_first_signal_drains),
    ]
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Starts an engine and kills it after its next `writes` writes, or when it has nothing more to write.
async fn killed_after(world: &World<'_>, writes: usize, done: impl AsyncFn() -> bool) {
    let before = world.writes().len();
    let mut engine = world.launch().start();
    eventually(&format!("the engine has written {writes} times"), async || {
        engine.is_running().expect("the engine runs");
        let written = world.writes().len() - before;
        (written >= writes || done().await).then_some(()).ok_or_else(|| format!("{written} times"))
    })
    .await;
    engine.kill();
}

/// Whether every source of alpha has exactly its object downstream.
async fn all_synced(world: &World<'_>, size: i64) -> bool {
    let copies = world.target.copies().await;
    let met = copies.iter().filter(|copy| copy["spec"] == json!({"size": size})).count();
    copies.len() == NAMES.len() && met == NAMES.len()
}

async fn converged(world: &World<'_>, size: i64) {
    for name in NAMES {
        let copy = world.target.has_spec(&world.alpha, name, json!({"size": size})).await;
        world.target.report(&copy, json!({"phase": format!("Running {size}")})).await;
        world.alpha.status(name, json!({"phase": format!("Running {size}")})).await;
        world.alpha.synced(name, "True", "Synced").await;
    }
    assert_eq!(world.target.copies().await.len(), NAMES.len(), "no object stands twice");
}

async fn killed_at_any_moment_it_converges(stage: &Stage) {
    let world = stage.widgets().await;
    for name in NAMES {
        world.alpha.create(name, json!({"size": 1})).await;
    }
    for writes in [1, 1, 2, 3, 5] {
        killed_after(&world, writes, async || all_synced(&world, 1).await).await;
    }
    let mut engine = world.engine().await;
    converged(&world, 1).await;
    engine.kill();

    for name in NAMES {
        world.alpha.patch(name, json!({"spec": {"size": 2}})).await;
    }
    for writes in [1, 2] {
        killed_after(&world, writes, async || all_synced(&world, 2).await).await;
    }
    let mut engine = world.engine().await;
    converged(&world, 2).await;
    engine.kill();

    for name in NAMES {
        world.alpha.delete(name).await;
    }
    for writes in [1, 2, 3] {
        killed_after(&world, writes, async || world.target.copies().await.is_empty()).await;
    }
    let _engine = world.engine().await;
    for name in NAMES {
        world.alpha.gone(name).await;
    }
    assert!(world.target.copies().await.is_empty());
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
    let (world, mut engine) = stage.running().await;
    for name in NAMES {
        world.alpha.create(name, json!({"size": 1})).await;
    }
    let status = engine.terminate().await;
    assert_eq!(status.code(), Some(0), "{}", engine.log().join("\n"));
    let _engine = world.engine().await;
    converged(&world, 1).await;
}
