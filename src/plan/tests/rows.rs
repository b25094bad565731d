//! One test for each row of the decision table.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{Unserved, World, foreign};
use super::{DATABASES, changed, mapping, source};
use crate::mapping::{Kind, OnExit};
use crate::object::marks::{self, Known, Owner, Reference};
use crate::object::{generation, has_finalizer};
use crate::plan::departure::give_up;
use crate::plan::{Cause, Phase, Plan, Prune, Reasons, Rest, TargetObject, plan};

pub fn synced() -> World {
    let mut world = World::new(source());
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    world.take_log();
    world
}

fn cause(plan: &Rest) -> Option<Cause> {
    match plan {
        Rest::Waiting(reasons) | Rest::Blocked(reasons) => reasons.cause(),
        Rest::InSync => None,
    }
}

fn reasons(plan: &Rest) -> &Reasons {
    match plan {
        Rest::Waiting(reasons) | Rest::Blocked(reasons) => reasons,
        other => panic!("{other:?} gives no reason"),
    }
}

fn condition(world: &World) -> Value {
    let conditions = world.source.as_ref().expect("the source is there").pointer("/status/conditions").cloned();
    conditions.expect("conditions")[0].clone()
}

#[test]
fn a_new_object_costs_three_writes_and_no_read_beside_its_namespace() {
    let mut world = World::new(source());
    let namespaced = changed(
        "    - id: account\n      shared: Namespace\n      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: database}}\n",
        "",
    );
    assert_eq!(world.settle(&namespaced), Rest::InSync);
    let namespace = &world.reference("Database").namespace;
    let expected = [
        "add finalizer".to_owned(),
        format!("create Namespace {namespace}"),
        format!("create Database {namespace}/db"),
        "update status".to_owned(),
    ];
    assert_eq!(world.log, expected);
}

#[test]
fn unknown_target_waits() {
    let mut world = World::new(source());
    world.target_unknown = Some("target `t`: connection refused".into());
    let plan = world.settle(&mapping(DATABASES));
    assert_eq!(cause(&plan), Some(Cause::Unknown));
    assert!(world.log.is_empty(), "nothing is written, not even a status");
}

#[test]
fn unknown_kind_waits_and_says_for_what() {
    let mut world = World::new(source());
    let kind = Kind::new("example.dev", "v1", "Database");
    world.unseen_kinds.insert(kind, "Database is not served".into());
    let plan = world.settle(&mapping(DATABASES));
    assert_eq!(reasons(&plan).to_string(), "Unknown: object `db`: Database is not served");
    assert!(world.objects.keys().all(|reference| reference.kind.kind == "ServiceAccount"), "its neighbour is made");
}

#[test]
fn being_deleted_waits_and_says_so_when_stuck() {
    let mut world = synced();
    world.edit("Database", |object| object["metadata"]["finalizers"] = json!(["operator.example.dev/hold"]));
    let reference = world.reference("Database");
    world.edit("Database", |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z"));
    let plan = world.settle(&mapping(DATABASES));
    assert_eq!(cause(&plan), Some(Cause::Waiting));
    assert!(reasons(&plan).to_string().contains("operator.example.dev/hold"));
    world.edit("Database", |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Stuck));
    assert!(world.objects.contains_key(&reference), "it is not deleted twice");
}

#[test]
fn render_failed_writes_nothing_and_says_why() {
    let mut world = World::new(source());
    let plan = world.settle(&changed("spec: ${{ source.spec }}", "spec: {size: \"${{ source.spec.missing }}\"}"));
    assert_eq!(cause(&plan), Some(Cause::RenderFailed));
    assert_eq!(condition(&world)["reason"], "RenderFailed");
}

#[test]
fn placement_that_cannot_be_rendered_takes_no_finalizer() {
    let mut world = World::new(source());
    let failing = changed(
        "  objects:\n",
        "  placement: {name: \"{{ source.spec.where }}-{{ source.metadata.name }}\"}\n  objects:\n",
    );
    assert_eq!(cause(&world.settle(&failing)), Some(Cause::RenderFailed));
    assert!(!has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()));
    assert_eq!(world.take_log(), ["update status"]);
}

#[test]
fn the_finalizer_comes_before_the_first_object_and_pins_the_target() {
    let world = synced();
    let source = world.source.as_ref().unwrap();
    assert!(has_finalizer(source, "sync-engine.dev/main.databases"));
    assert_eq!(marks::annotation(source, "target.sync-engine.dev/main.databases"), Some("target=target-1"));
}

fn recreated(policy: &str) -> (World, Rest, String) {
    let mut world = synced();
    let former = world.object("Database")["metadata"]["uid"].as_str().unwrap().to_owned();
    world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
    let rest =
        world.settle(&changed("  objects:\n", &format!("  lifecycle: {{onSourceRecreated: {policy}}}\n  objects:\n")));
    (world, rest, former)
}

#[test]
fn ours_of_earlier_is_adopted() {
    let (mut world, rest, former) = recreated("Adopt");
    assert_eq!(rest, Rest::InSync);
    assert_eq!(world.object("Database")["metadata"]["uid"], former);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-2"));
    assert_eq!(condition(&world)["reason"], "Adopted");
    world.take_log();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync, "and stays reported");
    assert!(world.log.is_empty(), "{:?}", world.log);
}

#[test]
fn ours_of_earlier_is_blocked() {
    let (world, rest, former) = recreated("Block");
    assert_eq!(cause(&rest), Some(Cause::Recreated));
    assert_eq!(world.object("Database")["metadata"]["uid"], former);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-1"));
}

#[test]
fn by_default_a_recreated_source_takes_over_its_objects_but_not_in_a_home_workspace() {
    let cases = [
        (Some("root:acme"), None),
        (Some("root:users:ab:cd:jane"), Some(Cause::Recreated)),
        (Some("root:users-guide"), None),
        (None, Some(Cause::Recreated)),
    ];
    for (path, expected) in cases {
        let mut world = synced();
        world.workspace_path = path.map(str::to_owned);
        world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
        let rest = world.settle(&mapping(DATABASES));
        assert_eq!(if rest == Rest::InSync { None } else { cause(&rest) }, expected, "{path:?}");
    }
}

#[test]
fn ours_of_earlier_is_replaced() {
    let (world, rest, former) = recreated("Replace");
    assert_eq!(rest, Rest::InSync);
    assert_ne!(world.object("Database")["metadata"]["uid"], former);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-2"));
}

#[test]
fn the_consumer_deletes_what_belonged_to_an_earlier_source() {
    let (mut world, _, _) = recreated("Block");
    world.delete_source();
    let block = changed("  objects:\n", "  lifecycle: {onSourceRecreated: Block}\n  objects:\n");
    world.settle(&block);
    assert!(world.source.is_none(), "the finalizer is released");
    world.object("Database");
}

#[test]
fn absent_is_created() {
    let mut world = synced();
    world.objects.clear();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    world.object("Database");
}

#[test]
fn a_refused_object_waits_and_is_requested_once_a_reconcile() {
    for (action, change) in [("create", "cleared"), ("update", "edited")] {
        let mut world = synced();
        match change {
            "cleared" => world.objects.clear(),
            _ => world.edit_source(|source| source["spec"] = json!({"members": 4})),
        }
        world.refuses = vec![format!("{action} Database")];
        let rest = world.settle(&mapping(DATABASES));
        assert_eq!(cause(&rest), Some(Cause::Refused), "{action}");
        let sent = world.log.iter().filter(|line| line.starts_with(&world.refuses[0])).count();
        assert_eq!(sent, 1, "{:?}", world.log);
        assert_eq!(condition(&world)["reason"], "Refused");
    }
}

#[test]
fn refused_removals_are_requested_once_and_reported() {
    let refused = |mapping: &crate::mapping::Mapping, request: &str, change: fn(&mut World)| {
        let mut world = synced();
        change(&mut world);
        world.refuses = vec![request.to_owned()];
        let rest = world.settle(mapping);
        assert_eq!(cause(&rest), Some(Cause::Refused), "{request}");
        let sent = world.log.iter().filter(|line| line.starts_with(request)).count();
        assert_eq!(sent, 1, "{request}: {:?}", world.log);
        assert_eq!(condition(&world)["reason"], "Refused", "{request}");
    };
    let without = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.members > 3 }}\n");
    refused(&without, "delete Database", |_| {});
    let renamed = DATABASES
        .replace("        kind: Database\n", "        kind: Cluster\n")
        .replace("    - id: db\n", "    - id: db\n      onIdentityChange: Orphan\n");
    refused(&mapping(&renamed), "give up Database", |_| {});
    refused(&mapping(DATABASES), "delete Database", World::delete_source);
    let orphaned = changed("  objects:\n", "  lifecycle: {onSourceDelete: Orphan}\n  objects:\n");
    refused(&orphaned, "give up Database", World::delete_source);
}

#[test]
fn ours_that_differs_is_applied_and_others_fields_stay() {
    let mut world = synced();
    world.edit("Database", |object| {
        object["spec"]["members"] = json!(5);
        object["spec"]["others"] = json!("kept");
    });
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.object("Database")["spec"]["members"], 3);
    assert_eq!(world.object("Database")["spec"]["others"], "kept");
    assert_eq!(world.log.len(), 1, "one write");
}

#[test]
fn a_spec_change_is_one_write_and_a_removed_field_goes() {
    let mut world = synced();
    world.edit_source(|source| source["spec"] = json!({"members": 4}));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.object("Database")["spec"], json!({"members": 4}));
    assert_eq!(world.log.len(), 1, "{:?}", world.log);
}

#[test]
fn a_status_change_is_one_write() {
    let mut world = synced();
    world.edit("Database", |object| object["status"] = json!({"phase": "Running", "version": "8.0"}));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.source.as_ref().unwrap()["status"]["phase"], "Running");
    assert_eq!(world.take_log(), ["update status"]);
    world.edit("Database", |object| drop(object.as_object_mut().unwrap().remove("status")));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    let status = &world.source.as_ref().unwrap()["status"];
    assert_eq!((&status["phase"], status.get("version")), (&json!("Pending"), None), "default, and removed");
}

#[test]
fn conditions_are_mirrored() {
    let mirroring = changed(
        "  status:\n",
        "  status:\n    conditions: [{mirror: {from: db, types: [Ready, Healthy], as: Backend}}]\n",
    );
    let mut world = World::new(source());
    world.settle(&mirroring);
    let shown = |world: &World| {
        let conditions = world.source.as_ref().unwrap().pointer("/status/conditions").cloned();
        let all = conditions.unwrap();
        let all = all.as_array().unwrap().iter().map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {} {}", text("type"), text("status"), text("reason"), text("message"))
        });
        all.collect::<Vec<_>>().join("\n")
    };
    let mut said = vec![shown(&world)];
    let namespace = world.reference("Database").namespace.clone();
    world.edit("Database", |object| {
        object["status"] = json!({"conditions": [
            {"type": "Ready", "status": "False", "reason": "no pods!", "message": format!("none in {namespace}")},
            {"type": "Other", "status": "True"},
        ]});
    });
    world.take_log();
    assert_eq!(world.settle(&mirroring), Rest::InSync);
    assert_eq!(world.take_log(), ["update status"]);
    said.push(shown(&world));
    let reference = world.reference("Database");
    world.objects.insert(reference, foreign());
    world.settle(&mirroring);
    said.push(shown(&world));
    insta::assert_snapshot!(said.join("\n---\n"), @"
    BackendReady Unknown NotReported 
    BackendHealthy Unknown NotReported 
    Synced True Synced 
    ---
    BackendReady False nopods none in default
    BackendHealthy Unknown NotReported 
    Synced True Synced 
    ---
    BackendReady False nopods none in default
    BackendHealthy Unknown NotReported 
    Synced False Conflict an object that does not belong to this one stands in its place; it is left untouched
    ");
}

#[test]
fn ours_the_same_is_nothing() {
    let mut world = synced();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty());
}

#[test]
fn ours_without_its_label_is_found_by_the_create_and_labelled_again() {
    let mut world = synced();
    world.edit("Database", |object| drop(object["metadata"].as_object_mut().unwrap().remove("labels")));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(marks::label(world.object("Database"), marks::OWNER).is_some());
    assert_eq!(marks::annotation(world.object("Database"), marks::UNKEPT), None, "the server keeps labels");
}

/// Takes every label and annotation off, as this process sees it happen or not.
fn stripped(mut world: World, seen: bool) -> World {
    let reference = world.reference("Database");
    let known = Known::of(&World::writer(), world.object("Database"), &reference).expect("it is owned");
    world.edit("Database", |object| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| field != "labels" && field != "annotations");
    });
    world.stripped.extend(seen.then_some((reference, known)));
    world
}

#[test]
fn a_stripped_object_is_restored_by_the_process_that_saw_it_as_owned() {
    let mut world = stripped(synced(), true);
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-1"));
    assert_eq!(marks::annotation(world.object("Database"), marks::UNKEPT), None);
    let mut unknown = stripped(synced(), false);
    assert_eq!(cause(&unknown.settle(&mapping(DATABASES))), Some(Cause::Conflict));
}

#[test]
fn another_object_in_the_place_of_a_stripped_one_is_foreign() {
    for change in ["another uid", "another owner", "another namespace"] {
        let mut world = stripped(synced(), true);
        match change {
            "another uid" => world.edit("Database", |object| object["metadata"]["uid"] = json!("u2")),
            "another owner" => world.stripped.values_mut().for_each(|known| known.owner = Owner("other".into())),
            _ => {
                let (mut reference, known) = world.stripped.pop_first().unwrap();
                reference.namespace = "elsewhere".into();
                world.stripped.insert(reference, known);
            }
        }
        assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Conflict), "{change}");
        assert!(marks::annotation(world.object("Database"), marks::SELF).is_none(), "{change}");
    }
}

#[test]
fn a_stripped_object_goes_with_its_source() {
    let mut world = stripped(synced(), true);
    world.delete_source();
    world.settle(&mapping(DATABASES));
    assert!(world.objects.is_empty() && world.source.is_none(), "{:?}", world.log);
}

/// A person or another process released it: that is final, also for a process that knew it as owned.
#[test]
fn a_released_object_is_neither_taken_back_nor_deleted() {
    let released = || {
        let mut world = synced();
        let reference = world.reference("Database");
        let known = Known::of(&World::writer(), world.object("Database"), &reference).expect("it is owned");
        let object = TargetObject::new(reference.clone(), Arc::new(world.object("Database").clone()));
        world.execute(&give_up(&object));
        world.stripped.insert(reference, known);
        world
    };
    let mut live = released();
    assert_eq!(cause(&live.settle(&mapping(DATABASES))), Some(Cause::Conflict));
    let mut deleted = released();
    deleted.delete_source();
    deleted.settle(&mapping(DATABASES));
    assert!(deleted.source.is_none() && deleted.objects.len() == 1, "{:?}", deleted.log);
}

#[test]
fn ownership_labels_and_annotations_are_restored_whatever_drift_says() {
    let report = changed("    - id: db\n", "    - id: db\n      drift: Report\n");
    let mut world = synced();
    world.edit("Database", |object| object["metadata"]["labels"][marks::MANAGED_BY] = json!("people"));
    assert_eq!(world.settle(&report), Rest::InSync);
    assert_eq!(marks::label(world.object("Database"), marks::MANAGED_BY), Some(marks::MANAGER));
}

#[test]
fn ownership_counts_only_where_the_source_is_placed() {
    let mut world = World::new(source());
    let elsewhere =
        Reference { kind: Kind::new("example.dev", "v1", "Database"), namespace: "attacker".into(), name: "db".into() };
    let owner = World::writer().owner(&World::origin());
    let planted = json!({"metadata": {
        "uid": "planted", "resourceVersion": "1", "creationTimestamp": "2020-01-01T00:00:00Z",
        "labels": {marks::OWNER: owner.0, marks::MAPPING: World::writer().label()},
        "annotations": {marks::OBJECT: "db", marks::SELF: owner.self_mark("db", &elsewhere), marks::SOURCE_UID: "source-1"},
    }});
    world.objects.insert(elsewhere.clone(), planted.clone());
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.objects[&elsewhere], planted, "it has no effect and is not touched");
    assert_eq!(world.objects.keys().filter(|one| one.namespace == "attacker").count(), 1);
    world.delete_source();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.objects, [(elsewhere, planted)].into());
}

#[test]
fn when_false_deletes() {
    let mut world = synced();
    let without = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.members > 3 }}\n");
    assert_eq!(world.settle(&without), Rest::InSync);
    assert!(world.objects.keys().all(|reference| reference.kind.kind == "ServiceAccount"));
}

#[test]
fn when_that_cannot_be_evaluated_keeps() {
    let mut world = synced();
    let unclear = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.missing }}\n");
    assert_eq!(cause(&world.settle(&unclear)), Some(Cause::RenderFailed));
    world.object("Database");
}

#[test]
fn an_id_that_was_dropped_is_pruned_after_a_complete_rendering() {
    let (before_db, _) = DATABASES.split_once("    - id: db").unwrap();
    let dropped = mapping(before_db);
    let mut world = synced();
    assert_eq!(world.settle(&dropped), Rest::InSync);
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Database"));
    let mut world = synced();
    let failing = mapping(&format!(
        "{before_db}    - id: other\n      template: {{apiVersion: v1, kind: ConfigMap, data: {{a: \"{{{{ source.spec.missing }}}}\"}}}}\n"
    ));
    assert_eq!(cause(&world.settle(&failing)), Some(Cause::RenderFailed));
    world.object("Database");
}

#[test]
fn prune_guard_holds_what_a_document_deletes_and_nothing_else() {
    let without = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.members > 3 }}\n");
    let mut world = synced();
    world.prune = Prune::Held;
    assert_eq!(cause(&world.settle(&without)), Some(Cause::Held));
    world.object("Database");
    assert_eq!(condition(&world)["reason"], "Held");
    world.delete_source();
    assert_eq!(world.settle(&without), Rest::InSync, "the consumer asks for its own deletion");
    assert!(world.objects.is_empty());
}

#[test]
fn an_object_that_a_late_delete_may_still_hit_is_touched() {
    let world = synced();
    let mut observed = world.observe(&mapping(DATABASES));
    let reference = world.reference("Database");
    observed.answers.unanswered.insert(reference.clone());
    match plan(&mapping(DATABASES), &observed) {
        Plan::Act(actions) => assert_eq!(actions[0].to_string(), format!("update {reference}")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_status_leaf_that_the_schema_refuses_is_left_out_and_reported() {
    let mut world = synced();
    world.edit("Database", |object| object["status"] = json!({"phase": "Odd", "version": "8.0"}));
    world.refused_status = vec![json!("Odd")];
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::StatusFailed));
    let status = &world.source.as_ref().unwrap()["status"];
    assert_eq!((&status["phase"], &status["version"]), (&json!("Pending"), &json!("8.0")));
    assert_eq!(condition(&world)["reason"], "StatusFailed");
}

#[test]
fn a_foreign_object_is_a_conflict_and_left_alone() {
    let mut world = synced();
    let reference = world.reference("Database");
    world.objects.insert(reference.clone(), foreign());
    let plan = world.settle(&mapping(DATABASES));
    assert_eq!(cause(&plan), Some(Cause::Conflict));
    assert_eq!(world.objects[&reference], foreign());
    assert_eq!(condition(&world)["reason"], "Conflict");
    world.objects.remove(&reference);
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync, "once it is gone, ours is made");
    assert_eq!(condition(&world)["status"], "True");
}

#[test]
fn a_copy_with_our_marks_is_foreign() {
    let mut world = synced();
    let (reference, mut copy) = (world.reference("Database"), world.object("Database").clone());
    copy["metadata"]["annotations"][marks::NAME] = json!("another");
    copy["metadata"]["annotations"][marks::SELF] = json!("forged");
    copy["status"] = json!({"phase": "Stolen"});
    world.objects.insert(reference.clone(), copy.clone());
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Conflict));
    assert_eq!(world.objects[&reference], copy);
    assert_ne!(world.source.as_ref().unwrap()["status"]["phase"], "Stolen");
}

#[test]
fn out_without_finalizer_is_nothing() {
    let mut world = World::new(source());
    world.edit_source(|source| source["metadata"]["labels"] = json!({}));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty());
}

#[test]
fn out_retains_deletes_or_orphans() {
    for (policy, objects, finalizer, marked, reason) in [
        ("Retain", 2, true, true, "Retained"),
        ("Delete", 0, false, false, "NotSelected"),
        ("Orphan", 2, false, false, "NotSelected"),
    ] {
        let mut world = synced();
        world.edit("Database", |object| object["status"] = json!({"phase": "Running"}));
        world.settle(&mapping(DATABASES));
        world.edit_source(|source| source["metadata"]["labels"] = json!({}));
        world.settle(&changed("    selector:", &format!("    onExit: {policy}\n    selector:")));
        assert_eq!(world.objects.len(), objects, "{policy}");
        let source = world.source.as_ref().unwrap();
        assert_eq!(has_finalizer(source, World::writer().finalizer()), finalizer, "{policy}");
        assert_eq!(source["status"].get("phase").is_some(), policy == "Retain", "{policy}: what it had is taken back");
        assert_eq!((&condition(&world)["status"], &condition(&world)["reason"]), (&json!("False"), &json!(reason)));
        let is_marked = |object: &Value| marks::annotation(object, marks::SELF).is_some();
        assert!(world.objects.values().all(|object| is_marked(object) == marked), "{policy}");
    }
}

#[test]
fn out_without_finalizer_keeps_its_objects_and_reports_them() {
    let mut world = synced();
    world.edit_source(|source| {
        source["metadata"]["labels"] = json!({});
        source["metadata"]["finalizers"] = json!([]);
    });
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Orphaned));
    world.object("Database");
}

#[test]
fn out_with_a_foreign_object_releases_the_finalizer() {
    let mut world = synced();
    let reference = world.reference("Database");
    world.objects.insert(reference.clone(), foreign());
    world.edit_source(|source| source["metadata"]["labels"] = json!({}));
    assert_eq!(world.settle(&changed("    selector:", "    onExit: Delete\n    selector:")), Rest::InSync);
    assert!(!has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()));
    assert_eq!(world.objects[&reference], foreign());
}

#[test]
fn deleting_takes_everything_away_and_then_releases() {
    let mut world = synced();
    world.delete_source();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!((world.source.clone(), world.objects.len()), (None, 0));
    let swept = world.log.iter().position(|line| line.starts_with("list all")).unwrap();
    let released = world.log.iter().position(|line| line == "release finalizer").unwrap();
    assert!(swept < released, "a fresh read comes before the release");
}

#[test]
fn deleting_ends_where_the_definition_of_a_kind_is_missing_and_waits_where_it_is_only_not_served() {
    for why in [Unserved::ForNow, Unserved::Removed, Unserved::NoLonger] {
        let mut world = synced();
        let kind = world.reference("Database").kind;
        world.unseen_kinds.insert(kind.clone(), "not served".into());
        world.unserved.insert(kind.clone());
        world.unserved_for = why;
        world.delete_source();
        let rest = world.settle(&mapping(DATABASES));
        assert_eq!(world.source.is_none(), why == Unserved::Removed, "{rest:?}");
        assert!(world.objects.keys().any(|one| one.kind == kind), "no request names the kind: {:?}", world.log);
    }
}

#[test]
fn a_kind_that_is_not_served_keeps_a_live_source_waiting() {
    for mut world in [World::new(source()), synced()] {
        lack_kind(&mut world);
        assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Waiting));
        let condition = condition(&world);
        assert_eq!((condition["status"].as_str(), condition["reason"].as_str()), (Some("False"), Some("Waiting")));
    }
}

fn lack_kind(world: &mut World) {
    let kind = Kind::new("example.dev", "v1", "Database");
    world.unseen_kinds.insert(kind.clone(), "not served".into());
    world.unserved.insert(kind);
    world.unserved_for = Unserved::Removed;
}

#[test]
fn deleting_waits_for_what_holds_the_object() {
    let mut world = synced();
    world.edit("Database", |object| object["metadata"]["finalizers"] = json!(["hold"]));
    world.delete_source();
    assert!(matches!(world.settle(&mapping(DATABASES)), Rest::Waiting(_) | Rest::Blocked(_)));
    assert!(world.source.is_some(), "the consumer's object stays as long");
}

#[test]
fn deleting_finds_what_lost_its_label() {
    let mut world = synced();
    world.edit("Database", |object| drop(object["metadata"].as_object_mut().unwrap().remove("labels")));
    world.delete_source();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.objects.is_empty());
}

#[test]
fn deleting_orphans_where_the_mapping_says_so() {
    let mut world = synced();
    world.delete_source();
    assert_eq!(
        world.settle(&changed("  objects:\n", "  lifecycle: {onSourceDelete: Orphan}\n  objects:\n")),
        Rest::InSync
    );
    assert_eq!((world.source.clone(), world.objects.len()), (None, 2));
    assert!(marks::label(world.object("Database"), marks::OWNER).is_none());
}

#[test]
fn shared_objects_stay_while_another_source_needs_them() {
    for (in_use, expected) in [(Some(true), Some(1)), (Some(false), Some(0)), (None, None)] {
        let mut world = synced();
        world.shared_in_use = in_use;
        world.delete_source();
        let plan = world.settle(&mapping(DATABASES));
        match expected {
            Some(count) => assert_eq!((plan, world.objects.len()), (Rest::InSync, count), "{in_use:?}"),
            None => assert_eq!(cause(&plan), Some(Cause::Waiting), "not known yet: wait"),
        }
    }
}

#[test]
fn deleting_without_our_finalizer_is_nothing() {
    let mut world = World::new(source());
    world.edit_source(|source| {
        source["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        source["metadata"]["finalizers"] = json!(["another.dev/hold"]);
    });
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty());
}

#[test]
fn gone_and_seen_being_deleted_deletes_what_was_made_for_that_uid() {
    for (uid, left) in [("source-1", 0), ("source-0", 1)] {
        let mut world = synced();
        world.source = None;
        world.missing.deleted = Some(uid.to_owned());
        world.settle(&mapping(DATABASES));
        let databases = world.objects.keys().filter(|reference| reference.kind.kind == "Database").count();
        assert_eq!(databases, left, "{uid}");
    }
}

#[test]
fn deleting_without_the_finalizer_deletes_what_was_made_for_that_uid() {
    let mut world = synced();
    world.edit_source(|source| {
        source["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        source["metadata"]["finalizers"] = json!(["another.dev/hold"]);
    });
    world.settle(&mapping(DATABASES));
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Database"));
}

#[test]
fn gone_is_an_orphan() {
    let mut world = synced();
    world.source = None;
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Orphaned));
    world.object("Database");
}

#[test]
fn gone_for_long_is_deleted_where_the_mapping_says_so() {
    let vanished = changed("  objects:\n", "  lifecycle: {onSourceVanished: Delete}\n  objects:\n");
    for (long, left) in [(false, 1), (true, 0)] {
        let mut world = synced();
        world.source = None;
        world.missing.long = long;
        world.settle(&vanished);
        let databases = world.objects.keys().filter(|reference| reference.kind.kind == "Database").count();
        assert_eq!(databases, left, "{long}");
    }
}

#[test]
fn another_target_writes_nothing() {
    let mut world = synced();
    world.objects.clear();
    world.identity = "target-2".into();
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::TargetChanged));
    assert!(world.objects.is_empty());
    assert_eq!(condition(&world)["reason"], "TargetChanged");
    world.delete_source();
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::TargetChanged), "nor is the source released");
    assert!(world.source.is_some());
}

#[test]
fn deletions_only_does_nothing_else() {
    let mut world = synced();
    world.phase = Phase::DeletionsOnly;
    world.edit_source(|source| source["spec"] = json!({"members": 7}));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty());
    world.delete_source();
    world.settle(&mapping(DATABASES));
    assert_eq!((world.source.clone(), world.objects.len()), (None, 0));
}

#[test]
fn a_mapping_that_leaves_acts_by_its_policy() {
    let mut world = synced();
    world.phase = Phase::Leaving(OnExit::Delete);
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.objects.is_empty());
    assert!(!has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()));
}

#[test]
fn what_does_not_stick_is_written_twice_and_then_remembered() {
    let mut world = World::new(source());
    world.drops = vec!["/spec/size".into()];
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(marks::annotation(world.object("Database"), marks::UNKEPT), Some("/spec/size"));
    world.take_log();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty());
}

#[test]
fn a_namespace_label_that_is_none_is_said_and_takes_no_finalizer() {
    let labelled = changed(
        "  objects:\n",
        "  placement: {namespaceLabels: {team: \"{{ source.metadata.labels.team | default('Team A') }}\"}}\n  objects:\n",
    );
    let mut world = World::new(source());
    let rest = world.settle(&labelled);
    assert_eq!(cause(&rest), Some(Cause::RenderFailed));
    assert!(format!("{rest:?}").contains("placement.namespaceLabels.team"), "{rest:?}");
    assert!(world.objects.is_empty() && !has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()));
    world.edit_source(|source| source["metadata"]["labels"] = json!({"team": "team-a"}));
    assert_eq!(world.settle(&labelled), Rest::InSync);
}

#[test]
fn placement_is_sticky() {
    let mut world = synced();
    let former = world.reference("Database");
    world.former_placements = vec![mapping(DATABASES).placement.namespace_text];
    let moved = changed(
        "  objects:\n",
        "  placement: {namespace: \"elsewhere-{{ short_hash(workspace.cluster, source.metadata.namespace) }}\"}\n  objects:\n",
    );
    assert_eq!(world.settle(&moved), Rest::InSync);
    assert_eq!(world.reference("Database"), former);
    world.objects.clear();
    assert_eq!(world.settle(&moved), Rest::InSync);
    assert!(world.reference("Database").namespace.starts_with("elsewhere-"), "none anywhere: today's rule");
}

#[test]
fn a_pod_in_its_grace_period_is_not_stuck() {
    let mut world = synced();
    world.edit("Database", |object| {
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T09:00:00Z");
        object["metadata"]["finalizers"] = json!(["hold"]);
    });
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Waiting), "an hour of grace is left");
}

#[test]
fn a_deletion_that_waits_for_dependents_follows_the_mapping_when_it_no_longer_asks_for_that() {
    let mut world = synced();
    world.edit("Database", |object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    world.delete_source();
    world.settle(&mapping(DATABASES));
    let deletes = |world: &World| world.log.iter().filter(|line| line.starts_with("delete Database")).count();
    assert_eq!(deletes(&world), 1, "once a reconcile: {:?}", world.log);
    let mut world = synced();
    world.edit("Database", |object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    world.delete_source();
    world.settle(&changed("    - id: db\n", "    - id: db\n      delete: {propagation: Foreground}\n"));
    assert_eq!(deletes(&world), 0, "{:?}", world.log);
}

#[test]
fn another_kind_for_an_existing_object_is_blocked_orphaned_or_recreated() {
    let renamed = |policy: &str| {
        changed("        kind: Database\n", "        kind: Cluster\n")
            .text
            .replace("    - id: db\n", &format!("    - id: db\n      onIdentityChange: {policy}\n"))
    };
    let mut world = synced();
    assert_eq!(cause(&world.settle(&mapping(&renamed("Block")))), Some(Cause::IdentityChanged));
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Cluster"));
    let mut world = synced();
    assert_eq!(world.settle(&mapping(&renamed("Orphan"))), Rest::InSync);
    assert!(marks::label(world.object("Database"), marks::OWNER).is_none(), "left behind, without our marks");
    world.object("Cluster");
    let mut world = synced();
    assert_eq!(world.settle(&mapping(&renamed("Recreate"))), Rest::InSync);
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Database"), "deleted");
    world.object("Cluster");
}

#[test]
fn an_id_renamed_with_the_same_kind_and_name_is_relabelled() {
    let mut world = synced();
    let uid = world.object("Database")["metadata"]["uid"].clone();
    let renamed =
        mapping(&DATABASES.replace("id: db", "id: database").replace("  status:", "  status:\n    from: database"));
    assert_eq!(world.settle(&renamed), Rest::InSync);
    assert_eq!(world.object("Database")["metadata"]["uid"], uid);
    assert_eq!(marks::annotation(world.object("Database"), marks::OBJECT), Some("database"));
    assert_eq!(generation(world.source.as_ref().unwrap()), 1);
}
