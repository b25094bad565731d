//! Objects whose source is gone although the engine did not process its deletion: they are kept and counted.

use serde_json::{Value, json};

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::engine::Engine;
use crate::target::uid;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![
        case!(the_object_of_a_source_that_vanished_is_kept_and_counted).on_both(),
        case!(objects_of_workspaces_that_left_are_kept_and_counted).on_kcp(),
    ]
}

/// An object of each tenant, in sync, and then no engine; alpha's source has lost its finalizer.
async fn stripped(world: &World<'_>) -> [Value; 2] {
    let mut engine = world.engine().await;
    for tenant in [&world.alpha, &world.beta] {
        tenant.create_synced("it", json!({"size": 1})).await;
    }
    engine.counts_orphans(0).await;
    assert!(engine.terminate().await.success());
    world.alpha.patch("it", json!({"metadata": {"finalizers": null}})).await;
    [world.target.copy(&world.alpha, "it").await, world.target.copy(&world.beta, "it").await]
}

/// Alpha's object is orphaned, and beta is served as before.
async fn alpha_is_orphaned(world: &World<'_>, [alphas, betas]: &[Value; 2], why: &str) -> Engine {
    let mut engine = world.engine().await;
    engine.counts_orphans(1).await;
    engine.says(&["Orphaned", why]).await;
    let now = world.target.follows(&world.beta, "it", json!({"size": 2})).await;
    assert_eq!(uid(&now), uid(betas));
    let now = world.target.again(alphas).await;
    assert_eq!(now["metadata"], alphas["metadata"], "an orphaned object stays as it is");
    engine
}

async fn the_object_of_a_source_that_vanished_is_kept_and_counted(stage: &Stage) {
    let world = stage.widgets().await;
    let objects = stripped(&world).await;
    world.alpha.remove("it").await;
    let engine = alpha_is_orphaned(&world, &objects, "its source is missing").await;
    troubles::shown(stage, &engine, "Orphaned").await;

    // A source of the same name takes it over.
    world.alpha.create("it", json!({"size": 3})).await;
    match &world.provider {
        Some(_) => {
            let now = world.target.has_spec(&world.alpha, "it", json!({"size": 3})).await;
            assert_eq!(uid(&now), uid(&objects[0]));
        }
        None => {
            world.alpha.synced("it", "False", "Recreated").await;
            troubles::shown(stage, &engine, "Recreated").await;
        }
    }
    engine.counts_orphans(0).await;
}

/// On kcp, a workspace that is not bound any more, and one that is gone.
async fn objects_of_workspaces_that_left_are_kept_and_counted(stage: &Stage) {
    let world = stage.widgets().await;
    let objects = stripped(&world).await;
    let (alpha, root) = (&world.workspaces[0], world.root().await);
    alpha.unbind(&world.api.plural).await;
    alpha.unbound(&world.api.plural).await;
    let mut engine = alpha_is_orphaned(&world, &objects, "its workspace is not bound").await;
    assert!(engine.terminate().await.success());
    alpha.delete(&root).await;
    alpha.gone(&root).await;
    alpha_is_orphaned(&world, &objects, "its workspace is not bound").await;
}
