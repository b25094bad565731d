//! Whose object is it? Nothing that the engine did not make is touched.

use serde_json::{Value, json};

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::target::namespace;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![case!(a_foreign_object_is_not_touched)]
}

async fn unchanged(world: &World<'_>, object: &Value) {
    world
        .target
        .keeps(object, "somebody else's object stays as it is", |now| {
            now["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"]
        })
        .await;
}

async fn a_foreign_object_is_not_touched(stage: &Stage) {
    let (world, engine) = stage.running().await;
    let collection = world.api.collection(&namespace(&world.made("scout", json!({})).await));
    let foreign = world.target.rest.create(&collection, &world.api.object("taken", json!({"note": "mine"}))).await;
    let foreign = world.target.report(&foreign, json!({"phase": "Secret"})).await;

    world.alpha.create("taken", json!({"size": 1})).await;
    world.alpha.synced("taken", "False", "Conflict").await;
    troubles::shown(stage, &engine, "Conflict").await;
    unchanged(&world, &foreign).await;
    let status = world.alpha.object("taken").await["status"].clone();
    assert_ne!(status["phase"], "Secret", "a foreign object's status is nobody's: {status}");

    world.target.delete(&foreign).await;
    world.target.has_spec(&world.alpha, "taken", json!({"size": 1})).await;
    world.alpha.synced("taken", "True", "Synced").await;

    // The consumer can leave a conflict too: what is foreign stays when the source goes.
    let other = world.target.rest.create(&collection, &world.api.object("other", json!({}))).await;
    world.alpha.create("other", json!({"size": 1})).await;
    world.alpha.synced("other", "False", "Conflict").await;
    world.alpha.remove("other").await;
    unchanged(&world, &other).await;
}
