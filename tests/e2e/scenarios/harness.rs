//! The servers and the harness themselves, without an engine: what every other case takes for granted.

use serde_json::json;

use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::target::{namespace, uid};
use crate::tenant::contains;

pub fn cases() -> Vec<Case> {
    vec![
        case!(tenants_are_kept_apart).on_both(),
        case!(the_audit_log_tells_whose_a_request_was).on_both(),
        case!(namespaces_are_finalized).on_kube(),
        case!(an_api_can_be_hidden_shown_and_removed).on_kube(),
        case!(a_killed_server_comes_back_with_its_data).on_kube(),
    ]
}

async fn tenants_are_kept_apart(stage: &Stage) {
    let world = stage.widgets().await;
    let made = world.alpha.create("twin", json!({"size": 1})).await;
    assert_eq!(world.beta.get("twin").await, None);
    let other = world.beta.create("twin", json!({"size": 2})).await;
    assert_ne!(uid(&made), uid(&other));
    world.alpha.patch("twin", json!({"spec": {"size": 3}})).await;
    assert!(contains(&world.beta.object("twin").await, &json!({"spec": {"size": 2}})));
    world.alpha.remove("twin").await;
    world.beta.object("twin").await;
}

async fn the_audit_log_tells_whose_a_request_was(stage: &Stage) {
    let world = stage.widgets().await;
    world.alpha.create("mine", json!({})).await;
    assert!(world.requests().is_empty(), "the administrator's requests are not the engine's: {:?}", world.requests());

    let engine = world.as_engine().await;
    engine.look("/api/v1/namespaces/default").await.expect("an answer");
    eventually("the audit log has the engine's request", async || {
        let requests = world.target_requests();
        let met = requests.len() == 1 && requests[0].is_read() && requests[0].is_complete() && requests[0].code == 200;
        met.then_some(()).ok_or_else(|| format!("{requests:?}"))
    })
    .await;
}

async fn namespaces_are_finalized(stage: &Stage) {
    let world = stage.widgets().await;
    let name = format!("{}-short-lived", stage.id);
    world.target.make_namespace(&name).await;
    let object = world.target.api.object("inside", json!({}));
    let made = world.target.rest.create(&world.target.api.collection(&name), &object).await;
    assert_eq!(namespace(&made), name);
    world.target.rest.delete(&format!("/api/v1/namespaces/{name}")).await;
    eventually("the namespace is gone", async || {
        let left = world.target.rest.get(&format!("/api/v1/namespaces/{name}")).await;
        left.map_or(Ok(()), |left| Err(left["status"].to_string()))
    })
    .await;
}

async fn a_killed_server_comes_back_with_its_data(stage: &Stage) {
    let server = stage.fleet.own_cluster(&stage.id).await;
    let world = stage.world_on(&server, true).await;
    world.target.make_namespace("kept").await;
    server.kill();
    let answer = world.target.rest.look("/api/v1/namespaces/kept").await;
    assert!(answer.is_err(), "a killed server answers: {answer:?}");
    server.resume().await;
    assert!(world.target.rest.get("/api/v1/namespaces/kept").await.is_some());
}

async fn an_api_can_be_hidden_shown_and_removed(stage: &Stage) {
    let world = stage.widgets().await;
    let cluster = &world.target.rest;
    let collection = world.api.collection("default");
    let made = cluster.create(&collection, &world.api.object("it", json!({"size": 1}))).await;
    world.api.serve(cluster, false).await;
    assert_eq!(cluster.get(&world.target.path(&made)).await, None);
    world.api.serve(cluster, true).await;
    assert_eq!(uid(&world.target.again(&made).await), uid(&made), "hiding an API keeps its objects");
    world.api.uninstall(cluster).await;
    world.api.install(cluster).await;
    assert!(cluster.list(&collection).await.is_empty(), "removing an API removes its objects");
}
