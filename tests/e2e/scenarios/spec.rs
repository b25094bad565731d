//! What consumers write arrives downstream, all of it and nothing else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::target::uid;

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_change_and_a_removal_arrive),
        case!(what_people_do_to_an_object_is_put_right_and_their_own_fields_stay),
        case!(values_arrive_as_the_server_stored_them),
        case!(what_the_mapping_leaves_to_others_is_left).on_kube(),
        case!(a_mapping_builds_lists_optional_maps_and_quantities),
    ]
}

async fn a_change_and_a_removal_arrive(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.alpha.create("it", json!({"size": 1, "version": "6", "labels": {"a": "1", "b": "2"}})).await;
    let first = json!({"size": 1, "version": "6", "labels": {"a": "1", "b": "2"}});
    world.target.has_spec(&world.alpha, "it", first).await;

    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    let changed = json!({"size": 2, "version": "6", "labels": {"a": "1", "b": "2"}});
    world.target.has_spec(&world.alpha, "it", changed).await;

    world.alpha.patch("it", json!({"spec": {"version": null, "labels": {"a": null}}})).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 2, "labels": {"b": "2"}})).await;
}

async fn what_people_do_to_an_object_is_put_right_and_their_own_fields_stay(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1, "version": "6"})).await;

    world.target.edit(&copy, json!({"spec": {"size": 99}})).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 1, "version": "6"})).await;
    world.target.edit(&copy, json!({"spec": {"version": null}})).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 1, "version": "6"})).await;

    let mark = "sync-engine.dev/owner";
    let owner = copy["metadata"]["labels"][mark].clone();
    world.target.edit(&copy, json!({"metadata": {"labels": {mark: null}}})).await;
    world.target.has(&world.alpha, "it", json!({"metadata": {"labels": {mark: owner}}})).await;

    let edit = json!({"metadata": {"labels": {"team": "blue"}}, "spec": {"note": "by hand"}});
    world.target.edit(&copy, edit).await;

    // The engine writes the object once more, and still leaves what is not its own.
    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    let both = json!({"metadata": {"labels": {"team": "blue"}}, "spec": {"size": 2, "note": "by hand"}});
    world.target.has(&world.alpha, "it", both.clone()).await;
    world.target.keeps(&copy, "the edit stays", |copy| crate::tenant::contains(copy, &both)).await;

    world.target.delete(&copy).await;
    eventually("another object stands in its place", async || {
        let now = world.target.find(&world.alpha, "it").await.ok_or("there is none")?;
        let made_again = uid(&now) != uid(&copy) && now["spec"] == json!({"size": 2, "version": "6"});
        made_again.then_some(()).ok_or_else(|| now.to_string())
    })
    .await;
    world.alpha.object("it").await;
}

/// Every shape that a careless engine would bend: integers beyond 2^53, whole floats, nulls, empty maps and lists,
/// int-or-string, and text that looks like an expression or like YAML's special words.
fn awkward() -> Value {
    json!({
        "size": 0,
        "big": 9_007_199_254_740_993_i64,
        "ratio": 1.0,
        "port": 8080,
        "version": "7.0",
        "note": "${{ source.spec }} {{ 1 + 1 }} {% raw %} $${{ x }} {# y #}",
        "nothing": null,
        "tags": [],
        "labels": {},
        "free": {
            "nothing": null,
            "map": {},
            "list": [],
            "deep": [null, {"nothing": null}, [], {}],
            "big": i64::MAX,
            "small": i64::MIN,
            "whole": 1.0,
            "fraction": 0.1,
            "words": ["yes", "no", "on", "null", "~", "1", "1.0", "0x10", "1e3", ""],
            "$each": "looks like structure",
            "lines": "one\n two\n\n",
        },
    })
}

async fn values_arrive_as_the_server_stored_them(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.alpha.create("it", awkward()).await;
    let mut named = awkward();
    named["port"] = json!("http");
    world.beta.create("it", named).await;
    for tenant in [&world.alpha, &world.beta] {
        let stored = tenant.object("it").await["spec"].clone();
        assert_eq!(stored["big"], 9_007_199_254_740_993_i64, "the source's server keeps the integer");
        world.target.has_spec(tenant, "it", stored).await;
    }
    // What the server keeps in another form is not written again and again.
    world.settled().await;
    world.no_write(Duration::from_secs(3)).await;
}

const LENIENT: &str = r#"<mapping>
  objects:
    - id: widget
      apply: {ignore: [/spec/size]}
      drift: Report
      template: {apiVersion: <group>/v1, kind: Widget, spec: "${{ source.spec }}"}
"#;

async fn what_the_mapping_leaves_to_others_is_left(stage: &Stage) {
    let (world, mut engine) = stage.running_with(LENIENT).await;
    let copy = world.made("it", json!({"size": 1, "version": "6", "note": "a"})).await;
    world.target.edit(&copy, json!({"spec": {"size": 7, "version": "by hand"}})).await;
    engine.says(&["/spec/version"]).await;
    let is_left = |now: &Value| now["spec"]["size"] == 7 && now["spec"]["version"] == "by hand";
    world.target.keeps(&copy, "what differs is reported, not put right", is_left).await;
}

/// The structure of templates, a variable that reads an object, what is set at creation alone, and another name.
async fn a_mapping_builds_lists_optional_maps_and_quantities(stage: &Stage) {
    const STRUCTURE: &str = include_str!("../fixtures/structure.yaml");
    let (world, mut engine) = stage.running_with(&STRUCTURE.replace("<suffix>", "")).await;
    world.alpha.create("it", json!({"size": 2048})).await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 2048, "note": "2Gi"})).await;
    world.alpha.status("it", json!({"phase": "Ordered"})).await;

    let change = json!({"size": 1024, "tags": ["a", "none", "b"], "version": "7"});
    world.alpha.patch("it", json!({"spec": change})).await;
    let expected = json!({"size": 2048, "note": "1Gi", "tags": ["a", "b"], "labels": {"version": "7"}});
    let copy = world.target.has_spec(&world.alpha, "it", expected).await;
    world.target.operate(&world.alpha, "it", json!({"phase": "Running"})).await;
    world.alpha.status("it", json!({"phase": "Running"})).await;

    // It is the only object, so the edit is held until a person approves it.
    engine.says_of(|| world.mappings.write("widgets.yaml", &STRUCTURE.replace("<suffix>", "-db")), &["is held"]).await;
    engine.approve(&world.name).await;
    world.target.rest.disappears(&world.target.path(&copy)).await;
    let copies = eventually("one of the new name is made", async || {
        let copies = world.target.copies().await;
        if copies.len() == 1 { Ok(copies) } else { Err(format!("{copies:?}")) }
    });
    let renamed = json!({"size": 1024, "note": "1Gi", "tags": ["a", "b"], "labels": {"version": "7"}});
    assert_eq!(copies.await[0]["spec"], renamed);
}
