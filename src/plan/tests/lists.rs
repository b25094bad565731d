//! Rows of several objects from one rule: who they are by key, and what becomes of those whose key is gone.

use serde_json::{Value, json};

use super::world::World;
use super::{LISTS, mapping, source};
use crate::mapping::{Kind, Mapping};
use crate::object::marks;
use crate::plan::{Cause, Rest};

fn changed(from: &str, to: &str) -> Mapping {
    assert!(LISTS.contains(from), "the mapping has no `{from}`");
    mapping(&LISTS.replace(from, to))
}

fn synced() -> World {
    let mut world = World::new(source());
    assert_eq!(world.settle(&mapping(LISTS)), Rest::InSync);
    world.take_log();
    world
}

/// Names and ids of the users that stand.
fn users(world: &World) -> Vec<String> {
    let users = world.objects.iter().filter(|(reference, _)| reference.kind.kind == "User");
    let shown = |object: &Value| marks::annotation(object, marks::OBJECT).unwrap_or("unmarked").to_owned();
    users.map(|(reference, object)| format!("{} {}", reference.name, shown(object))).collect()
}

fn give(world: &mut World, users: Value) {
    world.edit_source(|source| source["spec"]["users"] = users);
}

fn said(rest: &Rest) -> String {
    match rest {
        Rest::InSync => "in sync".into(),
        Rest::Waiting(reasons) | Rest::Blocked(reasons) => reasons.to_string(),
    }
}

#[test]
fn each_item_is_an_object_that_carries_its_key() {
    let world = synced();
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"]);
    assert_eq!(world.object("Database")["spec"]["owner"], "db-ann");
    assert_eq!(world.source.as_ref().expect("it is there")["status"]["users"], 2);
}

#[test]
fn what_its_key_is_gone_of_is_deleted() {
    let mut world = synced();
    give(&mut world, json!([{"name": "eve"}, {"name": "ann"}]));
    assert_eq!(world.settle(&mapping(LISTS)), Rest::InSync);
    assert_eq!(users(&world), ["db-ann user[ann]", "db-eve user[eve]"]);
    give(&mut world, json!([]));
    insta::assert_snapshot!(said(&world.settle(&mapping(LISTS))), @"Waiting: object `db`: object `user[ann]` (read at `spec.owner`)");
    assert!(users(&world).is_empty());
}

/// Only a list that was rendered whole is evidence.
#[test]
fn nothing_is_deleted_while_the_list_is_not_certain() {
    let mut said_of = Vec::new();
    for users_now in [
        json!("text"),
        json!([{"name": "ann"}, {"nam": "bob"}]),
        json!([{"name": "ann"}, {"name": "ann"}]),
        json!([{"name": "ann", "login": "a"}, {"name": "eve", "login": "a"}]),
        json!([{"name": ""}]),
        json!([{"name": "x".repeat(300)}]),
        (0..1001).map(|n| json!({"name": format!("u{n}")})).collect(),
    ] {
        let mut world = synced();
        give(&mut world, users_now);
        let rest = world.settle(&mapping(LISTS));
        said_of.push(said(&rest));
        assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"], "{rest:?}");
    }
    let mut world = synced();
    let failing = changed("spec: {name: \"${{ user.name }}\"}", "spec: {name: \"${{ user.missing }}\"}");
    said_of.push(said(&world.settle(&failing)));
    let waiting = LISTS.replace("${{ source.spec.users |", "${{ objects.db.status.users |");
    let waiting = waiting.replace("owner: ${{ objects.user[\"ann\"].metadata.name }}", "owner: none");
    world.objects.retain(|reference, _| reference.kind.kind == "User");
    world.unseen_kinds.insert(mapping(LISTS).objects[1].kind.clone(), "Database is not served".into());
    said_of.push(said(&world.settle(&mapping(&waiting))));
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"]);
    insta::assert_snapshot!(said_of.join("\n"), @"
    RenderFailed: object `user`: forEach: it gives no list
    RenderFailed: object `user`: forEach: the key of item 2: `user.name` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    RenderFailed: object `user`: forEach: items 1 and 2 have the same key `ann`
    RenderFailed: object `user`: forEach: items 1 and 2 have the same name `db-a`
    RenderFailed: object `user`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks
    RenderFailed: object `user`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks
    RenderFailed: object `user`: forEach: its list has 1001 items, and 1000 are the most
    RenderFailed: object `user[ann]`: spec.name: `user.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; RenderFailed: object `user[bob]`: spec.name: `user.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    Waiting: object `user`: object `db`; Unknown: object `db`: Database is not served
    ");
}

#[test]
fn one_item_that_fails_leaves_its_neighbours_alone() {
    let mut world = synced();
    give(&mut world, json!([{"name": "ann"}, {"name": "eve", "login": "E V E"}, {"name": "joe"}]));
    let needs = changed("spec: {name: \"${{ user.name }}\"}", "spec: {name: \"${{ user.login }}\"}");
    world.settle(&needs);
    assert_eq!(users(&world), ["db-E V E user[eve]", "db-ann user[ann]"], "bob's item is gone, whatever joe lacks");
}

#[test]
fn a_key_that_is_renamed_takes_its_object_along() {
    let mut world = synced();
    let uid = |world: &World| {
        world.objects.iter().find(|(at, _)| at.name == "db-bob").map(|(_, object)| object["metadata"]["uid"].clone())
    };
    let before = uid(&world);
    give(&mut world, json!([{"name": "ann"}, {"name": "robert", "login": "bob"}]));
    assert_eq!(world.settle(&mapping(LISTS)), Rest::InSync);
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[robert]"]);
    assert_eq!(uid(&world), before);
}

#[test]
fn another_name_for_a_key_is_another_identity() {
    let mut world = synced();
    give(&mut world, json!([{"name": "ann"}, {"name": "bob", "login": "robert"}]));
    let rest = world.settle(&mapping(LISTS));
    assert!(matches!(&rest, Rest::Blocked(reasons) if reasons.cause() == Some(Cause::IdentityChanged)), "{rest:?}");
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"]);
}

#[test]
fn when_is_asked_of_each_item() {
    let mut world = synced();
    let some = changed(
        "      key: ${{ user.name }}\n",
        "      key: ${{ user.name }}\n      when: ${{ user.name != \"bob\" }}\n",
    );
    assert_eq!(world.settle(&some), Rest::InSync);
    assert_eq!(users(&world), ["db-ann user[ann]"]);
}

#[test]
fn what_reads_one_waits_for_it() {
    let mut world = World::new(source());
    give(&mut world, json!([{"name": "bob"}]));
    insta::assert_snapshot!(said(&world.settle(&mapping(LISTS))), @"Waiting: object `db`: object `user[ann]` (read at `spec.owner`)");
    assert_eq!(users(&world), ["db-bob user[bob]"]);
}

#[test]
fn what_depends_on_several_waits_for_all_of_them() {
    let mut world = World::new(source());
    let ready = changed(
        "      key: ${{ user.name }}\n",
        "      key: ${{ user.name }}\n      ready: ${{ objects.user[user.name].status.done | default(false) }}\n",
    );
    let mut all = vec![said(&world.settle(&ready))];
    for object in world.objects.values_mut().filter(|object| object["kind"] == "User").take(1) {
        object["status"] = json!({"done": true});
    }
    all.push(said(&world.settle(&ready)));
    for object in world.objects.values_mut().filter(|object| object["kind"] == "User") {
        object["status"] = json!({"done": true});
    }
    all.push(said(&world.settle(&ready)));
    insta::assert_snapshot!(all.join("\n"), @"
    Waiting: object `db`: waits for object `user[ann]`, which is not ready: its `ready` is false
    Waiting: object `db`: waits for object `user[bob]`, which is not ready: its `ready` is false
    in sync
    ");
}

/// From one object to several, or back, is another id: the former ones are pruned.
#[test]
fn one_in_place_of_several_prunes_them() {
    let one = mapping(
        &LISTS
            .replace("      forEach: ${{ source.spec.users | default([{\"name\":\"ann\"}, {\"name\":\"bob\"}]) }}\n      as: user\n      key: ${{ user.name }}\n", "")
            .replace("-{{ user.login | default(user.name) }}", "-user")
            .replace("${{ user.name }}", "all")
            .replace("objects.user[\"ann\"]", "objects.user"),
    );
    let mut world = synced();
    world.settle(&one);
    assert_eq!(users(&world), ["db-user user"]);
    world.settle(&mapping(LISTS));
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"]);
    world.delete_source();
    assert_eq!(world.settle(&one), Rest::InSync);
    assert!(users(&world).is_empty(), "a deletion takes all");
}

#[test]
fn all_of_several_are_read_as_a_map_unless_they_cannot_be_seen() {
    let whole =
        LISTS.replace("owner: ${{ objects.user[\"ann\"].metadata.name }}", "owners: ${{ objects.user | list }}");
    let whole = mapping(&whole);
    let mut world = World::new(source());
    assert_eq!(world.settle(&whole), Rest::InSync);
    assert_eq!(world.object("Database")["spec"]["owners"], json!(["ann", "bob"]));
    world.unseen_kinds.insert(Kind::new("example.dev", "v1", "User"), "its list ended".to_owned());
    world.edit_source(|source| source["spec"]["members"] = json!(4));
    world.settle(&whole);
    assert_eq!(world.object("Database")["spec"]["owners"], json!(["ann", "bob"]), "no owner is taken out");
    assert_eq!(world.object("Database")["spec"]["members"], 3, "it is rendered once they can be seen");
}
