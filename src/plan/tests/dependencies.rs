//! Rows of objects that depend on each other: made one after the other, and taken away the other way round.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::World;
use super::{CHAIN, edited, fresh, mapping, said};
use crate::mapping::{Kind, Mapping};
use crate::plan::Missing;

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

/// The server reports on the condition Ready of the database.
fn is_ready(world: &mut World, status: &str) {
    let reason = if status == "True" { json!("Up") } else { Value::Null };
    let condition = json!({"type": "Ready", "status": status, "reason": reason});
    world.edit("Database", |object| object["status"] = json!({"conditions": [condition]}));
}

#[test]
fn each_is_made_once_the_one_before_it_is_ready() {
    let mut world = fresh();
    world.sync(&mapping(CHAIN));
    assert_eq!(
        writes(&mut world),
        ["create Namespace", "create ServiceAccount", "create ConfigMap", "create Database", "create View"]
    );
}

/// An operator's object is there at once, and what the operator makes of it is not.
#[test]
fn what_a_controller_has_not_reported_on_is_waited_for() {
    let mut world = fresh();
    world.seen.reporting = Arc::new([Kind::new("example.dev", "v1", "Database")].into());
    insta::assert_snapshot!(said(&world.settle(&mapping(CHAIN))), @"waiting: Waiting: object `view`: waits for object `db`, which is not ready: its controller has not reported yet");
    assert!(!writes(&mut world).contains(&"create View".to_owned()));
    is_ready(&mut world, "False");
    assert!(said(&world.settle(&mapping(CHAIN))).contains("its condition Ready is False"));
    is_ready(&mut world, "True");
    world.sync(&mapping(CHAIN));
    assert_eq!(writes(&mut world), ["create View"]);
}

#[test]
fn what_is_not_ready_is_waited_for_by_name() {
    let ready = |expression: &str| in_chain("    - id: db\n", &format!("    - id: db\n      {expression}\n"));
    let mut world = fresh();
    let by_phase = ready("ready: ${{ objects.db.status.phase | default(\"\") == \"Running\" }}");
    let mut all = vec![said(&world.settle(&by_phase))];
    assert!(!writes(&mut world).contains(&"create View".to_owned()));
    is_ready(&mut world, "False");
    all.push(said(&world.settle(&mapping(CHAIN))));
    let failed = ready("failed: ${{ objects.db.status.conditions[0].status == \"False\" }}");
    all.push(said(&world.settle(&failed)));
    let unclear = ready("ready: ${{ objects.db.status.phase }}");
    all.push(said(&world.settle(&unclear)));
    world.edit("Database", |object| object["status"] = json!({"phase": "Running"}));
    world.sync(&by_phase);
    assert_eq!(writes(&mut world), ["create View"]);
    world.edit("Database", |object| object["status"] = json!({"phase": "Failed"}));
    all.push(said(&world.settle(&by_phase)));
    insta::assert_snapshot!(all.join("\n"), @"
    waiting: Waiting: object `view`: waits for object `db`, which is not ready: its `ready` is false
    waiting: Waiting: object `view`: waits for object `db`, which is not ready: its condition Ready is False
    waiting: Waiting: object `view`: waits for object `db`, which has failed: its `failed` is true
    blocked: RenderFailed: object `view`: `ready` of object `db`: objects.db.status.phase is not there: give it a `default(false)`
    in sync
    ");
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
fn what_is_wanted_absent_holds_nothing_up() {
    let mut world = fresh();
    let without = in_chain("    - id: config\n", "    - id: config\n      when: ${{ false }}\n");
    world.sync(&without);
    assert_eq!(writes(&mut world), ["create Namespace", "create Database", "create ServiceAccount", "create View"]);
}

#[test]
fn what_cannot_be_rendered_holds_up_what_depends_on_it_and_no_other() {
    let mut world = fresh();
    let failing = in_chain("data: {a: b}", "data: {a: \"{{ source.spec.missing }}\"}");
    insta::assert_snapshot!(said(&world.settle(&failing)), @"blocked: Waiting: object `view`: object `db` (read at `spec.of`); Waiting: object `db`: waits for object `config`, which does not exist yet; RenderFailed: object `config`: data.a: `source.spec.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`");
    assert_eq!(writes(&mut world), ["create Namespace", "create ServiceAccount"]);
}

#[test]
fn they_are_deleted_the_other_way_round() {
    let mut world = chained();
    world.edit("View", |object| object["metadata"]["finalizers"] = json!(["hold"]));
    world.delete_source();
    insta::assert_snapshot!(said(&world.settle(&mapping(CHAIN))), @r#"blocked: Stuck: View default-r7udrysckmmlkpz2/db is being deleted since 2026-01-01T00:00:00Z, finalizers ["hold"]; Waiting: Database default-r7udrysckmmlkpz2/db is deleted after what depends on it; Waiting: ConfigMap default-r7udrysckmmlkpz2/db is deleted after what depends on it"#);
    assert_eq!(writes(&mut world), ["delete View"], "what it depends on stays as long as it does");
    let view = world.reference("View");
    world.objects.remove(&view);
    world.sync(&mapping(CHAIN));
    assert_eq!(writes(&mut world), ["delete Database", "delete ConfigMap", "delete ServiceAccount"]);
}

/// A create that came late makes objects of a source that is gone, or of one that no finalizer of the engine holds any more.
#[test]
fn what_is_left_of_a_source_without_finalizer_is_deleted_the_other_way_round() {
    let made = || {
        let mut world = chained();
        world.edit("View", |object| object["metadata"]["finalizers"] = json!(["hold"]));
        world
    };
    let mut gone = made();
    (gone.missing, gone.source) = (Missing { deleted: Some("source-1".into()), long: false }, None);
    let mut stripped = made();
    stripped.edit_source(|source| source["metadata"]["finalizers"] = json!(["of-another"]));
    stripped.delete_source();
    for mut world in [gone, stripped] {
        world.settle(&mapping(CHAIN));
        assert_eq!(writes(&mut world), ["delete View"], "what it depends on stays as long as it does");
    }
}

#[test]
fn what_is_not_wanted_any_more_goes_after_what_depends_on_it() {
    let mut world = chained();
    world.edit("View", |object| object["metadata"]["finalizers"] = json!(["hold"]));
    let none = edited(
        CHAIN,
        &[
            ("    - id: db\n", "    - id: db\n      when: false\n"),
            ("    - id: view\n", "    - id: view\n      when: false\n"),
        ],
    );
    insta::assert_snapshot!(said(&world.settle(&none)), @r#"blocked: Stuck: object `view`: View default-r7udrysckmmlkpz2/db is being deleted since 2026-01-01T00:00:00Z, finalizers ["hold"]; Waiting: object `db`: Database default-r7udrysckmmlkpz2/db is deleted after View default-r7udrysckmmlkpz2/db, which depends on it"#);
    let view = world.reference("View");
    world.objects.remove(&view);
    world.sync(&none);
    assert_eq!(writes(&mut world), ["delete View", "delete Database"]);
}

#[test]
fn what_stands_is_updated_whatever_it_depends_on() {
    let mut world = chained();
    world.edit("ConfigMap", |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z"));
    world.edit("Database", |object| object["spec"]["members"] = json!(5));
    world.settle(&mapping(CHAIN));
    assert_eq!(world.object("Database")["spec"]["members"], 3);
}
