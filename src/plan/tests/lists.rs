//! Rows of several objects from one rule: who they are by key, and what becomes of those whose key is gone.

use serde_json::{Value, json};

use super::world::World;
use super::{LISTS, causes, edited, fresh, mapping, said};
use crate::mapping::{Kind, Mapping};
use crate::object::marks;

fn changed(from: &str, to: &str) -> Mapping {
    edited(LISTS, &[(from, to)])
}

fn synced() -> World {
    fresh().in_sync(&mapping(LISTS))
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

/// With ann and bob alone, as it was before.
fn is_as_before(world: &World) {
    assert_eq!(users(world), ["db-ann user[ann]", "db-bob user[bob]"]);
}

#[test]
fn each_item_is_an_object_that_carries_its_key() {
    let world = synced();
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"]);
    assert_eq!(world.object("Database")["spec"]["owner"], "db-ann");
    assert_eq!(world.status()["users"], 2);
}

#[test]
fn what_its_key_is_gone_of_is_deleted() {
    let mut world = synced();
    give(&mut world, json!([{"name": "eve"}, {"name": "ann"}]));
    world.sync(&mapping(LISTS));
    assert_eq!(users(&world), ["db-ann user[ann]", "db-eve user[eve]"]);
    give(&mut world, json!([]));
    insta::assert_snapshot!(said(&world.settle(&mapping(LISTS))), @"waiting: Waiting: object `db`: object `user[ann]` (read at `spec.owner`)");
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
        said_of.push(said(&world.settle(&mapping(LISTS))));
        is_as_before(&world);
    }
    let mut world = synced();
    let failing = changed("spec: {name: \"${{ user.name }}\"}", "spec: {name: \"${{ user.missing }}\"}");
    said_of.push(said(&world.settle(&failing)));
    let waiting = edited(
        LISTS,
        &[
            ("${{ source.spec.users |", "${{ objects.db.status.users |"),
            ("owner: ${{ objects.user[\"ann\"].metadata.name }}", "owner: none"),
        ],
    );
    world.objects.retain(|reference, _| reference.kind.kind == "User");
    world.unsee(&waiting.objects[1].kind);
    said_of.push(said(&world.settle(&waiting)));
    is_as_before(&world);
    insta::assert_snapshot!(said_of.join("\n"), @"
    blocked: RenderFailed: object `user`: forEach: it gives no list
    blocked: RenderFailed: object `user`: forEach: the key of item 2: `user.name` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    blocked: RenderFailed: object `user`: forEach: items 1 and 2 have the same key `ann`
    blocked: RenderFailed: object `user`: forEach: items 1 and 2 have the same name `db-a`
    blocked: RenderFailed: object `user`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks
    blocked: RenderFailed: object `user`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks
    blocked: RenderFailed: object `user`: forEach: its list has 1001 items, and 1000 are the most
    blocked: RenderFailed: object `user[ann]`: spec.name: `user.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; RenderFailed: object `user[bob]`: spec.name: `user.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    waiting: Waiting: object `user`: object `db`; Unknown: object `db`: Database is not served
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
    world.sync(&mapping(LISTS));
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[robert]"]);
    assert_eq!(uid(&world), before);
}

#[test]
fn another_name_for_a_key_is_another_identity() {
    let mut world = synced();
    give(&mut world, json!([{"name": "ann"}, {"name": "bob", "login": "robert"}]));
    let rest = world.settle(&mapping(LISTS));
    assert_eq!(causes(&rest), "IdentityChanged");
    is_as_before(&world);
}

#[test]
fn when_is_asked_of_each_item() {
    let key = "      key: ${{ user.name }}\n";
    let world = synced().in_sync(&changed(key, &format!("{key}      when: ${{{{ user.name != \"bob\" }}}}\n")));
    assert_eq!(users(&world), ["db-ann user[ann]"]);
}

#[test]
fn what_reads_one_waits_for_it() {
    let mut world = fresh();
    give(&mut world, json!([{"name": "bob"}]));
    insta::assert_snapshot!(said(&world.settle(&mapping(LISTS))), @"waiting: Waiting: object `db`: object `user[ann]` (read at `spec.owner`)");
    assert_eq!(users(&world), ["db-bob user[bob]"]);
}

#[test]
fn what_depends_on_several_waits_for_all_of_them() {
    let key = "      key: ${{ user.name }}\n";
    let ready = "      ready: ${{ objects.user[user.name].status.done | default(false) }}\n";
    let ready = changed(key, &format!("{key}{ready}"));
    let mut world = fresh();
    let mut all = vec![said(&world.settle(&ready))];
    for count in [1, 2] {
        for object in world.objects.values_mut().filter(|object| object["kind"] == "User").take(count) {
            object["status"] = json!({"done": true});
        }
        all.push(said(&world.settle(&ready)));
    }
    insta::assert_snapshot!(all.join("\n"), @"
    waiting: Waiting: object `db`: waits for object `user[ann]`, which is not ready: its `ready` is false
    waiting: Waiting: object `db`: waits for object `user[bob]`, which is not ready: its `ready` is false
    in sync
    ");
}

/// From one object to several, or back, is another id: the former ones are pruned.
#[test]
fn one_in_place_of_several_prunes_them() {
    let each = "      forEach: ${{ source.spec.users | default([{\"name\":\"ann\"}, {\"name\":\"bob\"}]) }}\n      as: user\n      key: ${{ user.name }}\n";
    let one = edited(
        LISTS,
        &[
            (each, ""),
            ("-{{ user.login | default(user.name) }}", "-user"),
            ("${{ user.name }}", "all"),
            ("objects.user[\"ann\"]", "objects.user"),
        ],
    );
    let mut world = synced();
    world.settle(&one);
    assert_eq!(users(&world), ["db-user user"]);
    world.settle(&mapping(LISTS));
    is_as_before(&world);
    world.delete_source();
    world.sync(&one);
    assert!(users(&world).is_empty(), "a deletion takes all");
}

#[test]
fn all_of_several_are_read_as_a_map_unless_they_cannot_be_seen() {
    let owners = "owners: ${{ objects.user | list }}";
    let whole = changed("owner: ${{ objects.user[\"ann\"].metadata.name }}", owners);
    let mut world = fresh().in_sync(&whole);
    assert_eq!(world.object("Database")["spec"]["owners"], json!(["ann", "bob"]));
    world.unsee(&Kind::new("example.dev", "v1", "User"));
    world.edit_source(|source| source["spec"]["members"] = json!(4));
    world.settle(&whole);
    assert_eq!(world.object("Database")["spec"]["owners"], json!(["ann", "bob"]), "no owner is taken out");
    assert_eq!(world.object("Database")["spec"]["members"], 3, "it is rendered once they can be seen");
}
