//! Rows of several objects from one rule: who they are by key, and what becomes of those whose key is gone.

use serde_json::{Value, json};

use super::world::{World, check_by, steps};
use super::{LISTS, database, edited, fresh, mapping, said};
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

/// How it ends, and the users that stand.
fn tell(world: &mut World, mapping: &Mapping) -> String {
    format!("{}; {}", said(&world.settle(mapping)), users(world).join(", "))
}

#[test]
fn each_item_is_an_object_that_carries_its_key() {
    let world = synced();
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"]);
    assert_eq!(world.object("Database")["spec"]["owner"], "db-ann");
    assert_eq!(world.status()["users"], 2);
}

/// Only a list that was rendered whole is evidence.
#[test]
#[rustfmt::skip]
fn an_object_is_who_its_key_says() {
    let (plain, key) = (mapping(LISTS), "      key: ${{ user.name }}\n");
    let reads = |field: &str| changed("spec: {name: \"${{ user.name }}\"}", &format!("spec: {{name: \"${{{{ user.{field} }}}}\"}}"));
    let of_db = edited(LISTS, &[
        ("${{ source.spec.users |", "${{ objects.db.status.users |"),
        ("owner: ${{ objects.user[\"ann\"].metadata.name }}", "owner: none"),
    ]);
    let left_out = edited(LISTS, &[
        (key, "      key: ${{ user.name }}\n      when: ${{ user.name != \"ann\" }}\n"),
        ("objects.user[\"ann\"].metadata.name", "objects.user[\"ann\"].metadata.name | default(\"nobody\")"),
    ]);
    check_by(synced, &[
        ("a key is gone, another one is new", |world| give(world, json!([{"name": "eve"}, {"name": "ann"}])), &plain,
            "in sync; db-ann user[ann], db-eve user[eve]"),
        ("all keys are gone", |world| give(world, json!([])), &plain,
            "waiting: Waiting: object `db`: object `user[ann]` (read at `spec.owner`); "),
        ("no list", |world| give(world, json!("text")), &plain,
            "blocked: RenderFailed: object `user`: forEach: it gives no list; db-ann user[ann], db-bob user[bob]"),
        ("an item without key", |world| give(world, json!([{"name": "ann"}, {"nam": "bob"}])), &plain,
            "blocked: RenderFailed: object `user`: forEach: the key of item 2: `user.name` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; db-ann user[ann], db-bob user[bob]"),
        ("one key twice", |world| give(world, json!([{"name": "ann"}, {"name": "ann"}])), &plain,
            "blocked: RenderFailed: object `user`: forEach: items 1 and 2 have the same key `ann`; db-ann user[ann], db-bob user[bob]"),
        ("one name twice", |world| give(world, json!([{"name": "ann", "login": "a"}, {"name": "eve", "login": "a"}])), &plain,
            "blocked: RenderFailed: object `user`: forEach: items 1 and 2 have the same name `db-a`; db-ann user[ann], db-bob user[bob]"),
        ("an empty key", |world| give(world, json!([{"name": ""}])), &plain,
            "blocked: RenderFailed: object `user`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks; db-ann user[ann], db-bob user[bob]"),
        ("a long key", |world| give(world, json!([{"name": "k".repeat(300)}])), &plain,
            "blocked: RenderFailed: object `user`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks; db-ann user[ann], db-bob user[bob]"),
        ("a long list", |world| give(world, (0..1001).map(|n| json!({"name": format!("u{n}")})).collect()), &plain,
            "blocked: RenderFailed: object `user`: forEach: its list has 1001 items, and 1000 are the most; db-ann user[ann], db-bob user[bob]"),
        ("no item can be rendered", |_| {}, &reads("missing"),
            "blocked: RenderFailed: object `user[ann]`: spec.name: `user.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; RenderFailed: object `user[bob]`: spec.name: `user.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; db-ann user[ann], db-bob user[bob]"),
        ("the list cannot be seen", |world| {
            world.objects.retain(|reference, _| reference.kind.kind == "User");
            world.unsee(&database());
        }, &of_db,
            "waiting: Waiting: object `user`: object `db`; Unknown: object `db`: Database is not served; db-ann user[ann], db-bob user[bob]"),
        ("bob is gone, eve has an odd name, joe cannot be rendered", |world| give(world, json!([{"name": "ann"}, {"name": "eve", "login": "E V E"}, {"name": "joe"}])), &reads("login"),
            "blocked: RenderFailed: object `user[ann]`: spec.name: `user.login` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; RenderFailed: object `user[joe]`: spec.name: `user.login` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; db-E V E user[eve], db-ann user[ann]"),
        ("another name for a key is another identity", |world| give(world, json!([{"name": "ann"}, {"name": "bob", "login": "robert"}])), &plain,
            "blocked: IdentityChanged: object `user[bob]`: `user[bob]` exists as User default-r7udrysckmmlkpz2/db-bob and would become User default-r7udrysckmmlkpz2/db-robert: set onIdentityChange to Orphan to leave the former object behind, to Recreate to delete it, or go back to its kind and name; db-ann user[ann], db-bob user[bob]"),
        ("one is not wanted", |_| {}, &changed(key, &format!("{key}      when: ${{{{ user.name != \"bob\" }}}}\n")),
            "in sync; db-ann user[ann]"),
    ], tell);
    let mut world = synced();
    assert_eq!(tell(&mut world, &left_out), "in sync; db-bob user[bob]", "nothing waits for what its `when` leaves out");
    assert_eq!((&world.object("Database")["spec"]["owner"], &world.status()["users"]), (&json!("nobody"), &json!(1)));
    let mut world = synced();
    let uid = |world: &World| world.objects.iter().find(|(at, _)| at.name == "db-bob").map(|(_, object)| object["metadata"]["uid"].clone());
    let before = uid(&world);
    give(&mut world, json!([{"name": "ann"}, {"name": "robert", "login": "bob"}]));
    assert_eq!(tell(&mut world, &plain), "in sync; db-ann user[ann], db-bob user[robert]", "another key takes its object along");
    assert_eq!(uid(&world), before);
}

#[test]
#[rustfmt::skip]
fn what_depends_on_several_waits_for_all_of_them() {
    let key = "      key: ${{ user.name }}\n";
    let ready = changed(key, &format!("{key}      ready: ${{{{ objects.user[user.name].status.done | default(false) }}}}\n"));
    fn report(world: &mut World, count: usize) {
        let users = world.objects.values_mut().filter(|object| object["kind"] == "User");
        users.take(count).for_each(|user| user["status"] = json!({"done": true}));
    }
    steps(fresh(), &[
        ("none is ready", |_| {}, &ready,
            "waiting: Waiting: object `db`: waits for object `user[ann]`, which is not ready: its `ready` is false; db-ann user[ann], db-bob user[bob]"),
        ("one is ready", |world| report(world, 1), &ready,
            "waiting: Waiting: object `db`: waits for object `user[bob]`, which is not ready: its `ready` is false; db-ann user[ann], db-bob user[bob]"),
        ("all are ready", |world| report(world, 2), &ready,
            "in sync; db-ann user[ann], db-bob user[bob]"),
    ], tell);
    steps(fresh(), &[
        ("the one that is read is missing", |world| give(world, json!([{"name": "bob"}])), &mapping(LISTS),
            "waiting: Waiting: object `db`: object `user[ann]` (read at `spec.owner`); db-bob user[bob]"),
    ], tell);
}

/// A consumer's list may have a thousand items: whether each of them is ready is not asked once more for each that waits.
#[test]
fn what_many_wait_for_is_looked_at_once() {
    let of_each = |id: &str, kind: &str, more: &str| {
        format!(
            "    - id: {id}\n      forEach: ${{{{ source.spec.users | default([]) }}}}\n      as: user\n      key: ${{{{ user }}}}\n      {more}\n      \
             template: {{apiVersion: example.dev/v1, kind: {kind}, metadata: {{name: \"{{{{ placement.name }}}}-{{{{ user }}}}\"}}}}\n"
        )
    };
    let user = of_each("user", "User", "ready: ${{ (range(10000) | length) == 10000 }}");
    let grant = of_each("grant", "Grant", "dependsOn: [user]");
    let mut world = fresh();
    give(&mut world, (0..100).map(|number| format!("n{number}")).collect());
    world.sync(&mapping(&format!("  objects:\n{user}{grant}")));
    assert_eq!(world.objects.keys().filter(|at| at.kind.kind == "Grant").count(), 100);
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
    assert_eq!(users(&world), ["db-ann user[ann]", "db-bob user[bob]"]);
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
