//! What consumers write arrives downstream, all of it and nothing else; and so does the status upstream.

use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::target::uid;

/// How long a quiet engine is watched.
const QUIET: Duration = Duration::from_secs(15);

pub fn cases() -> Vec<Case> {
    vec![
        case!(what_people_do_to_an_object_is_put_right_and_their_own_fields_stay),
        case!(values_arrive_and_come_back_as_the_servers_store_them_and_a_restart_writes_nothing).on_both(),
    ]
}

async fn what_people_do_to_an_object_is_put_right_and_their_own_fields_stay(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    let copy = world.made("it", json!({"size": 1, "version": "6"})).await;
    let manager = format!("sync-engine/main/{}", world.name);
    let managers = copy["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let applied = managers.iter().any(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
    assert!(applied, "{managers:?}");

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

async fn values_arrive_and_come_back_as_the_servers_store_them_and_a_restart_writes_nothing(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    world.alpha.create("it", awkward()).await;
    let mut named = awkward();
    named["port"] = json!("http");
    world.beta.create("it", named).await;
    let reported = json!({"phase": "Running", "version": "7.0", "ready": 3, "load": 0.25, "healthy": true});
    for tenant in [&world.alpha, &world.beta] {
        let stored = tenant.object("it").await["spec"].clone();
        assert_eq!(stored["big"], 9_007_199_254_740_993_i64, "the source's server keeps the integer");
        let copy = world.target.has_spec(tenant, "it", stored).await;
        tenant.status("it", json!({"phase": "Pending"})).await;
        world.target.report(&copy, reported.clone()).await;
        tenant.status("it", reported.clone()).await;
        tenant.synced("it", "True", "Synced").await;
    }
    let later = json!({"phase": "Failed", "ready": 0, "load": 1.0, "healthy": false});
    world.target.operate(&world.alpha, "it", later).await;
    world.alpha.status("it", json!({"phase": "Failed", "ready": 0, "healthy": false})).await;

    // What a server keeps in another form is not written again and again, and not by a process that starts either.
    let before = world.settled().await.len();
    assert!(engine.terminate().await.success());
    let mut engine = world.engine().await;
    world.no_write(QUIET).await;
    let new: Vec<_> = world.writes().into_iter().skip(before).collect();
    assert!(new.is_empty(), "a restart in sync writes: {new:?}");

    // It is idle, not dead.
    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    world.target.has(&world.alpha, "it", json!({"spec": {"size": 2}})).await;
    engine.is_running().expect("the engine runs on");
}
