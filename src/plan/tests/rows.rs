//! One test for each row of the decision table.

use serde_json::{Value, json};

use super::world::{World, foreign};
use super::{DATABASES, changed, mapping, source};
use crate::mapping::{Kind, OnExit};
use crate::object::{generation, has_finalizer, marks};
use crate::plan::render::leftovers;
use crate::plan::{Cause, Evidence, Phase, Reasons, Rest, status};

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
fn a_new_object_costs_three_writes_and_a_look_beside_its_namespace() {
    let mut world = World::new(source());
    let namespaced = changed(
        "    - id: account\n      shared: Namespace\n      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: database}}\n",
        "",
    );
    assert_eq!(world.settle(&namespaced), Rest::InSync);
    let namespace = &world.reference("Database").namespace;
    let expected = [
        "add finalizer".to_owned(),
        format!("look at Database {namespace}/db"),
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
        "  placement: {namespace: \"{{ source.spec.where }}-{{ short_hash(workspace.cluster, source.metadata.namespace) }}\"}\n  objects:\n",
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
    assert_eq!(marks::annotation(source, "target.sync-engine.dev/main.databases"), Some("target-1"));
}

#[test]
fn ours_earlier_is_deleted_and_made_anew() {
    let mut world = synced();
    let former = world.object("Database")["metadata"]["uid"].clone();
    world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_ne!(world.object("Database")["metadata"]["uid"], former);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-2"));
}

#[test]
fn absent_is_created_after_a_look() {
    let mut world = synced();
    world.objects.clear();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    let looked = world.log.iter().position(|line| line.starts_with("look at Database")).unwrap();
    let created = world.log.iter().position(|line| line.starts_with("create Database")).unwrap();
    assert!(looked < created);
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
fn ours_without_its_label_is_found_by_the_look_and_marked_again() {
    let mut world = synced();
    world.edit("Database", |object| drop(object["metadata"].as_object_mut().unwrap().remove("labels")));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(marks::label(world.object("Database"), marks::OWNER).is_some());
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
fn an_id_that_was_dropped_is_left_standing() {
    let mut world = synced();
    let (before_db, _) = DATABASES.split_once("    - id: db").unwrap();
    let dropped = mapping(before_db);
    assert_eq!(leftovers(&dropped, &world.observe(&dropped)).into_iter().collect::<Vec<_>>(), ["db"]);
    assert_eq!(world.settle(&dropped), Rest::InSync);
    world.object("Database");
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
    for (policy, objects, finalizer, marked) in
        [("Retain", 2, true, true), ("Delete", 0, false, false), ("Orphan", 2, false, false)]
    {
        let mut world = synced();
        world.edit_source(|source| source["metadata"]["labels"] = json!({}));
        let left = changed("    selector:", &format!("    onExit: {policy}\n    selector:"));
        assert_eq!(world.settle(&left), Rest::InSync, "{policy}");
        assert_eq!(world.objects.len(), objects, "{policy}");
        assert_eq!(has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()), finalizer, "{policy}");
        assert!(
            world.objects.values().all(|object| marks::annotation(object, marks::SELF).is_some() == marked),
            "{policy}"
        );
    }
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
    let swept = world.log.iter().position(|line| line.starts_with("look for all")).unwrap();
    let released = world.log.iter().position(|line| line == "release finalizer").unwrap();
    assert!(swept < released, "a fresh read comes before the release");
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
fn gone_with_evidence_deletes() {
    let mut world = synced();
    world.source = None;
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Database"));
}

#[test]
fn gone_without_evidence_is_an_orphan() {
    let mut world = synced();
    world.source = None;
    world.evidence = Evidence::None("its workspace is not bound".into());
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Orphaned));
    world.object("Database");
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

#[test]
fn only_what_was_written_can_be_dropped() {
    let mapping = mapping(DATABASES);
    let patch = json!([{"op": "add", "path": "/status", "value": {"phase": "Pending"}}]);
    let patch = serde_json::from_value(patch).unwrap();
    let written = status::written(&mapping, &patch);
    let dropped = |answer: Value| status::dropped(&written, &answer);
    assert!(dropped(json!({"status": {"phase": "Pending"}})).is_empty(), "no version was written");
    assert_eq!(dropped(json!({"status": {}})), ["/phase"]);
}
