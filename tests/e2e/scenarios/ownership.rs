//! Whose object is it? Nothing that the engine did not make is touched.

use serde_json::{Value, json};
use sync_engine::sandbox::Failure;

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::target::namespace;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_foreign_object_is_not_touched),
        case!(the_last_source_of_a_namespace_ends_while_an_edit_is_carried_out).in_memory_alone(),
        case!(a_source_that_cannot_be_taken_in_keeps_no_other_from_leaving).in_memory_alone(),
    ]
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

pub(super) const WITH_SERVICE_ACCOUNT: &str = r#"<mapping>
  objects:
    - id: account
      shared: Namespace
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: widget-runner}}
    - id: widget
      template: {apiVersion: <group>/v1, kind: Widget, spec: "${{ source.spec }}"}
"#;

async fn the_last_source_of_a_namespace_ends_while_an_edit_is_carried_out(stage: &Stage) {
    let (world, _engine) = stage.running_with(WITH_SERVICE_ACCOUNT).await;
    world.alpha.create("last", json!({})).await;
    world.beta.create("other", json!({})).await;
    let place = namespace(&world.target.copy(&world.alpha, "last").await);
    let elsewhere = namespace(&world.target.copy(&world.beta, "other").await);
    world.settled().await;

    let carried_out = world.memory().delay_next_apply(&elsewhere);
    let edited = WITH_SERVICE_ACCOUNT.replace("kind: Widget,", "kind: Widget, metadata: {labels: {edited: 'yes'}},");
    world.mappings.write("widgets.yaml", &edited);
    carried_out.await;
    world.alpha.remove("last").await;
    let account = format!("/api/v1/namespaces/{place}/serviceaccounts/widget-runner");
    assert_eq!(world.target.rest.get(&account).await, None, "the last source takes the account along");
}

/// Whether it comes to use what is shared would be open for as long as its server refuses the finalizer.
async fn a_source_that_cannot_be_taken_in_keeps_no_other_from_leaving(stage: &Stage) {
    let (world, _engine) = stage.running_with(WITH_SERVICE_ACCOUNT).await;
    world.alpha.create("last", json!({})).await;
    let place = namespace(&world.target.copy(&world.alpha, "last").await);
    world.settled().await;

    world.memory().refuse_changes("barred", Failure::status(403, "Forbidden", "nobody may change it"));
    world.alpha.create("barred", json!({})).await;
    eventually("the engine may not take it in", async || {
        let refused = world.source_requests().into_iter().find(|one| one.code == 403 && one.uri.contains("/barred"));
        refused.map(drop).ok_or_else(|| "nothing was refused".to_owned())
    })
    .await;
    world.alpha.remove("last").await;
    let account = format!("/api/v1/namespaces/{place}/serviceaccounts/widget-runner");
    assert_eq!(world.target.rest.get(&account).await, None, "nobody else has come to use it");
}
