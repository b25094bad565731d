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
fn apply_creates_changes_gives_up_and_rests() {
    let mut world = world();
    let url = format!("{THINGS}/a");
    world.ok(apply("me", false, thing("a", json!({"size": 1, "free": {"x": 1, "y": {"z": 2}}}))));
    let created = world.get(&url);
    assert_eq!(created["metadata"]["managedFields"][0]["operation"], "Apply");
    let same = world.ok(apply("me", false, thing("a", json!({"size": 1, "free": {"x": 1, "y": {"z": 2}}}))));
    assert_eq!(same, created);
    let less = world.ok(apply("me", false, thing("a", json!({"free": {"x": 1}}))));
    assert_eq!(less["spec"], json!({"free": {"x": 1}, "name": "none"}));
    assert_eq!(world.seen(), ["added things/a", "modified things/a"]);
}

#[test]
fn a_hand_edit_is_put_right_by_force_only() {
    let mut world = world();
    world.ok(apply("me", false, thing("a", json!({"size": 1}))));
    let edit = patch(&format!("{THINGS}/a?fieldManager=edit"), MERGE, json!({"spec": {"size": 2, "name": "x"}}));
    world.ok(edit);
    let (code, reason, message) = world.refused(apply("me", false, thing("a", json!({"size": 1}))));
    assert_eq!((code, &*reason), (409, "Conflict"));
    let expected = "Apply failed with 1 conflict: conflict with \"edit\" using example.com/v1: .spec.size";
    assert_eq!(message, expected);
    let forced = world.ok(apply("me", true, thing("a", json!({"size": 1}))));
    assert_eq!(forced["spec"], json!({"size": 1, "name": "x"}));
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
fn labels_of_a_stranger_stay_when_ours_are_given_up() {
    let mut world = world();
    let mut theirs = thing("a", json!({"size": 1}));
    theirs["metadata"]["labels"] = json!({"theirs": "1"});
    world.ok(Request::post(&format!("{THINGS}?fieldManager=other"), &theirs));
    let mut ours = thing("a", json!({}));
    ours["metadata"]["labels"] = json!({"ours": "1"});
    let both = world.ok(apply("me", false, ours));
    assert_eq!(both["metadata"]["labels"], json!({"theirs": "1", "ours": "1"}));
    let bare = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let left = world.ok(apply("me", false, bare));
    assert_eq!((&left["metadata"]["labels"], &left["spec"]["size"]), (&json!({"theirs": "1"}), &json!(1)));
    let managers = left["metadata"]["managedFields"].as_array().expect("managers");
    assert_eq!(managers.len(), 1);
}

#[test]
fn a_uid_in_an_apply_must_be_that_of_the_object() {
    let mut world = world();
    let mut named = thing("a", json!({}));
    named["metadata"]["uid"] = json!("other");
    assert_eq!(world.refused(apply("me", false, named.clone())).0, 409);
    world.ok(apply("me", false, thing("a", json!({}))));
    assert_eq!(world.refused(apply("me", false, named)).0, 422);
}

#[test]
fn status_is_applied_through_its_subresource() {
    let mut world = world();
    let mut both = thing("a", json!({"size": 1}));
    both["status"] = json!({"phase": "Running"});
    let created = world.ok(apply("me", false, both.clone()));
    assert_eq!(created.get("status"), None);
    let url = format!("{THINGS}/a/status?fieldManager=me");
    both["spec"]["size"] = json!(2);
    let after = world.ok(Request::apply(&url, &both));
    assert_eq!((&after["status"], &after["spec"]["size"]), (&json!({"phase": "Running"}), &json!(1)));
}

#[test]
fn an_unknown_field_is_not_declared() {
    let mut world = world();
    let (code, _, message) = world.refused(apply("me", false, thing("a", json!({"sise": 1}))));
    assert_eq!(code, 500);
    assert!(message.ends_with(".spec.sise: field not declared in schema"), "{message}");
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
