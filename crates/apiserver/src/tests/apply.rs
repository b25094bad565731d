//! Server-side apply, as the API server does it.

use serde_json::json;

use super::*;

fn apply(manager: &str, force: bool, body: Value) -> Request {
    let name = body["metadata"]["name"].as_str().expect("a name").to_owned();
    Request::apply(&format!("{THINGS}/{name}?fieldManager={manager}&force={force}"), &body)
}

fn world() -> World {
    let mut world = World::kubernetes();
    world.define_things();
    world
}

#[test]
fn a_field_that_others_removed_comes_back() {
    let mut world = world();
    world.ok(apply("me", false, thing("a", json!({"size": 1}))));
    world.ok(patch(&format!("{THINGS}/a?fieldManager=edit"), MERGE, json!({"spec": {"size": null}})));
    let back = world.ok(apply("me", false, thing("a", json!({"size": 1}))));
    assert_eq!(back["spec"]["size"], 1);
}

#[test]
fn a_client_can_hand_managers_over() {
    let mut world = world();
    let url = format!("{THINGS}/a");
    world.ok(Request::post(&format!("{THINGS}?fieldManager=old"), &thing("a", json!({"size": 1}))));
    let mut managers = world.get(&url)["metadata"]["managedFields"].clone();
    managers[0]["manager"] = json!("new");
    managers[0]["operation"] = json!("Apply");
    let handover = json!([{"op": "replace", "path": "/metadata/managedFields", "value": managers}]);
    let after = world.ok(patch(&format!("{url}?fieldManager=x"), JSON_PATCH, handover));
    assert_eq!(after["metadata"]["managedFields"][0]["manager"], "new");
    let less = world.ok(apply("new", false, thing("a", json!({"name": "none"}))));
    assert_eq!(less["spec"], json!({"name": "none"}));
}

#[test]
fn apply_with_resource_version_1_only_creates() {
    let mut world = world();
    let create = |manager: &str, force: bool, size: i64| {
        let mut object = thing("a", json!({"size": size}));
        object["metadata"]["resourceVersion"] = "1".into();
        apply(manager, force, object)
    };
    let (code, created) = world.send(create("me", true, 1));
    assert_eq!((code, &created["spec"]["size"]), (201, &json!(1)));
    assert_ne!(created["metadata"]["resourceVersion"], "1");
    for (manager, force, size) in [("me", true, 1), ("me", true, 2), ("me", false, 2), ("other", true, 2)] {
        let (code, reason, message) = world.refused(create(manager, force, size));
        assert_eq!((code, &*reason), (409, "Conflict"), "{manager} {force}");
        assert!(message.contains("the object has been modified"), "{message}");
    }
    assert_eq!(world.get(&format!("{THINGS}/a")), created);
    assert_eq!(world.seen(), ["added things/a"]);
}
