//! Rows of objects that depend on each other: made one after the other, and taken away the other way round.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{World, check_by, steps};
use super::{CHAIN, database, edited, fresh, mapping, recreate, said};
use crate::mapping::Mapping;
use crate::plan::{Missing, Reasons};

fn in_chain(from: &str, to: &str) -> Mapping {
    edited(CHAIN, &[(from, to)])
}

fn chained() -> World {
    fresh().in_sync(&mapping(CHAIN))
}

/// What was created and deleted, in order.
fn writes(world: &mut World) -> Vec<String> {
    world.writes().into_iter().filter(|line| line.starts_with("create ") || line.starts_with("delete ")).collect()
}

/// What is said, and what was created and deleted.
fn tell(world: &mut World, mapping: &Mapping) -> String {
    format!("{}; {}", said(&world.settle(mapping)), writes(world).join(", "))
}

/// The server reports on the condition Ready of the database.
fn is_ready(world: &mut World, status: &str) {
    let reason = if status == "True" { json!("Up") } else { Value::Null };
    let condition = json!({"type": "Ready", "status": status, "reason": reason});
    world.edit("Database", |object| object["status"] = json!({"conditions": [condition]}));
}

fn is_in_phase(world: &mut World, phase: &str) {
    world.edit("Database", |object| object["status"] = json!({"phase": phase}));
}

/// An operator's object is there at once, and what the operator makes of it is not.
#[test]
#[rustfmt::skip]
fn each_is_made_once_the_one_before_it_is_ready() {
    let chain = mapping(CHAIN);
    let ready = |expression: &str| in_chain("    - id: db\n", &format!("    - id: db\n      {expression}\n"));
    let by_phase = ready("ready: ${{ objects.db.status.phase | default(\"\") == \"Running\" }}");
    check_by(fresh, &[
        ("all are ready", |_| {}, &chain,
            "in sync; create Namespace, create ServiceAccount, create ConfigMap, create Database, create View"),
        ("one is not wanted", |_| {}, &in_chain("    - id: config\n", "    - id: config\n      when: ${{ false }}\n"),
            "in sync; create Namespace, create Database, create ServiceAccount, create View"),
        ("one cannot be rendered", |_| {}, &in_chain("data: {a: b}", "data: {a: \"{{ source.spec.missing }}\"}"),
            "blocked: Waiting: object `view`: object `db` (read at `spec.of`); Waiting: object `db`: waits for object `config`, which does not exist yet; RenderFailed: object `config`: data.a: `source.spec.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; create Namespace, create ServiceAccount"),
    ], tell);
    steps(fresh().with(|world| world.seen.target.reporting = Arc::new([database()].into())), &[
        ("its controller has not reported", |_| {}, &chain,
            "waiting: Waiting: object `view`: waits for object `db`, which is not ready: its controller has not reported yet; create Namespace, create ServiceAccount, create ConfigMap, create Database"),
        ("its controller reports that it is not ready", |world| is_ready(world, "False"), &chain,
            "waiting: Waiting: object `view`: waits for object `db`, which is not ready: its condition Ready is False; "),
        ("its controller reports that it is ready", |world| is_ready(world, "True"), &chain,
            "in sync; create View"),
    ], tell);
    steps(fresh(), &[
        ("`ready` is false", |_| {}, &by_phase,
            "waiting: Waiting: object `view`: waits for object `db`, which is not ready: its `ready` is false; create Namespace, create ServiceAccount, create ConfigMap, create Database"),
        ("its condition is False", |world| is_ready(world, "False"), &chain,
            "waiting: Waiting: object `view`: waits for object `db`, which is not ready: its condition Ready is False; "),
        ("`failed` is true", |_| {}, &ready("failed: ${{ objects.db.status.conditions[0].status == \"False\" }}"),
            "waiting: Waiting: object `view`: waits for object `db`, which has failed: its `failed` is true; "),
        ("`ready` cannot be told", |_| {}, &ready("ready: ${{ objects.db.status.phase }}"),
            "blocked: RenderFailed: object `view`: `ready` of object `db`: `objects.db.status.phase` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`; "),
        ("`ready` is true", |world| is_in_phase(world, "Running"), &by_phase,
            "in sync; create View"),
        ("`ready` is false again", |world| is_in_phase(world, "Failed"), &by_phase,
            "in sync; "),
    ], tell);
}

/// The caches show it until its watch tells.
#[test]
fn what_a_deletion_without_an_answer_may_have_taken_away_is_written_before_what_depends_on_it_is_made() {
    let (chain, mut world) = (mapping(CHAIN), chained());
    let database = world.reference("Database");
    world.objects.remove(&world.reference("View"));
    let mut observed = world.observe(&chain);
    world.objects.remove(&database);
    observed.answers.unanswered.insert(database);
    assert_eq!(world.settle_from(&chain, observed, usize::MAX, |_| None), Some(Reasons::default()));
    assert_eq!(writes(&mut world), ["create Database", "create View"]);
}

/// The same verdict that others wait for.
#[test]
fn expressions_ask_whether_an_object_is_ready_and_whether_it_is_wanted() {
    let asking = mapping(
        r#"  objects:
    - id: db
      template: {apiVersion: example.dev/v1, kind: Database, spec: {}}
      ready: ${{ objects.db.status.phase | default("") == "Running" }}
    - id: part
      forEach: [a, b]
      as: name
      key: ${{ name }}
      template: {apiVersion: example.dev/v1, kind: Part, metadata: {name: "{{ placement.name }}-{{ name }}"}}
      ready: ${{ objects.part[name].status.up | default(false) }}
    - id: cache
      when: ${{ objects.db.ready }}
      template: {apiVersion: example.dev/v1, kind: Cache, spec: {}}
    - id: view
      template:
        apiVersion: example.dev/v1
        kind: View
        spec:
          db: ${{ objects.db.ready }}
          b: ${{ objects.part["b"].ready }}
          cache: ${{ objects.cache.metadata.name | default("none") }}
"#,
    );
    let mut world = fresh();
    assert!(
        said(&world.settle(&asking)).contains("object `view`: waits for object `db`"),
        "what is read is waited for"
    );
    let report = |world: &mut World, phase: &str, up: bool| {
        world.edit("Database", |object| object["status"] = json!({"phase": phase}));
        let parts = world.objects.iter_mut().filter(|(at, _)| at.kind.kind == "Part");
        parts.for_each(|(at, part)| part["status"] = json!({"up": up || at.name == "db-a"}));
    };
    report(&mut world, "Running", true);
    world.sync(&asking);
    assert_eq!(world.object("View")["spec"], json!({"db": true, "b": true, "cache": "db"}));
    report(&mut world, "Failed", false);
    world.sync(&asking);
    assert_eq!(world.object("View")["spec"], json!({"db": false, "b": false, "cache": "none"}));
    assert!(!world.has("Cache"));
}

#[test]
fn a_condition_that_is_not_reported_yet_is_waited_for() {
    let by_condition = "    - id: db\n      ready: ${{ condition(objects.db, \"Ready\").status == \"True\" }}\n";
    let conditions = "  status:\n    conditions: [{type: Ready, status: \"${{ condition(objects.db, 'Ready').status == 'True' }}\"}]\n";
    let reads = "{of: \"{{ condition(objects.db, 'Ready').reason }}\"}";
    let mapping = edited(
        CHAIN,
        &[("    - id: db\n", by_condition), ("  status:\n", conditions), ("{of: \"{{ vars.database }}\"}", reads)],
    );
    let mut world = fresh();
    insta::assert_snapshot!(said(&world.settle(&mapping)), @r#"waiting: Waiting: object `view`: `condition(…, "Ready")`, which is not reported yet (read at `spec.of`); Waiting: condition Ready: waiting for `condition(…, "Ready")`, which is not reported yet"#);
    assert!(!writes(&mut world).contains(&"create View".to_owned()));
    is_ready(&mut world, "True");
    world.sync(&mapping);
    assert_eq!(world.object("View")["spec"]["of"], "Up");
}

#[test]
fn in_the_status_a_variable_reads_a_missing_object_as_undefined() {
    let vars = "  vars:\n    phase: ${{ objects.db.status.phase | default(\"none\") }}\n";
    let field = "    fields:\n      said: {value: \"${{ vars.phase }}\"}\n";
    let failing = ("data: {a: b}", "data: {a: \"{{ source.spec.missing }}\"}");
    let text = edited(CHAIN, &[("  vars:\n", vars), ("    fields:\n", field), failing]);
    let mut world = fresh();
    let rest = said(&world.settle(&text));
    assert!(!rest.contains("status.said"), "{rest}");
    assert_eq!(world.status()["said"], "none");
}

#[test]
#[rustfmt::skip]
fn they_are_deleted_and_replaced_the_other_way_round() {
    let (chain, replace) = (mapping(CHAIN), in_chain("  objects:\n", "  lifecycle: {onSourceRecreated: Replace}\n  objects:\n"));
    let none = edited(CHAIN, &[
        ("    - id: db\n", "    - id: db\n      when: false\n"),
        ("    - id: view\n", "    - id: view\n      when: false\n"),
    ]);
    let let_go: fn(&mut World) = |world| drop(world.objects.remove(&world.reference("View")));
    steps(held(), &[
        ("the source is deleted, and the last object is held", World::delete_source, &chain,
            "blocked: Stuck: View default-r7udrysckmmlkpz2/db is being deleted since 2026-01-01T00:00:00Z, finalizers ['hold']; Waiting: Database default-r7udrysckmmlkpz2/db is deleted after what depends on it; Waiting: ConfigMap default-r7udrysckmmlkpz2/db is deleted after what depends on it; delete View"),
        ("the last object is gone", let_go, &chain,
            "in sync; delete Database, delete ConfigMap, delete ServiceAccount"),
    ], tell);
    steps(held(), &[
        ("they are not wanted, and the last object is held", |_| {}, &none,
            "blocked: Stuck: object `view`: View default-r7udrysckmmlkpz2/db is being deleted since 2026-01-01T00:00:00Z, finalizers ['hold']; Waiting: object `db`: Database default-r7udrysckmmlkpz2/db is deleted after View default-r7udrysckmmlkpz2/db, which depends on it; delete View"),
        ("they are not wanted, and the last object is gone", let_go, &none,
            "in sync; delete Database"),
    ], tell);
    steps(held(), &[
        ("the source is another one, and the last object is held", recreate, &replace,
            "blocked: Stuck: object `view`: View default-r7udrysckmmlkpz2/db is being deleted since 2026-01-01T00:00:00Z, finalizers ['hold']; Waiting: object `db`: Database default-r7udrysckmmlkpz2/db is deleted after View default-r7udrysckmmlkpz2/db, which depends on it; Waiting: object `config`: ConfigMap default-r7udrysckmmlkpz2/db is deleted after Database default-r7udrysckmmlkpz2/db, which depends on it; delete View"),
        ("the last object is gone", let_go, &replace,
            "in sync; delete Database, delete ConfigMap, create ConfigMap, create Database, create View"),
    ], tell);
    // A create that came late makes objects of such sources. What the last object depends on stays as long as it does.
    check_by(held, &[
        ("the source is gone", |world| (world.missing, world.source) = (Missing { deleted: Some("source-1".into()), ..Missing::default() }, None), &chain,
            "delete View"),
        ("no finalizer of the engine holds the source any more", |world| {
            world.edit_source(|source| source["metadata"]["finalizers"] = json!(["of-another"]));
            world.delete_source();
        }, &chain,
            "delete View"),
    ], |world, mapping| {
        world.settle(mapping);
        writes(world).join(", ")
    });
}

/// With an object that somebody's finalizer holds, which depends on the others.
fn held() -> World {
    chained().with(|world| world.edit("View", |object| object["metadata"]["finalizers"] = json!(["hold"])))
}

#[test]
fn what_stands_is_updated_whatever_it_depends_on() {
    let mut world = chained();
    world.edit("ConfigMap", |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z"));
    world.edit("Database", |object| object["spec"]["members"] = json!(5));
    world.settle(&mapping(CHAIN));
    assert_eq!(world.object("Database")["spec"]["members"], 3);
}
