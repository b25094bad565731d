//! Whose an object is: stripped, copied, released and foreign ones.

use std::sync::Arc;

use serde_json::json;

use super::world::{World, foreign};
use super::{DATABASES, cause, changed, condition, mapping, source, synced};
use crate::mapping::{Kind, Mapping};
use crate::object::marks::{self, Known, Owner, Reference};
use crate::plan::departure::give_up;
use crate::plan::{Cause, Evidence, Plan, Rest, TargetObject, plan};

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

/// Without its labels, no watch would show when it is gone.
#[test]
fn a_stripped_object_that_waits_for_a_finalizer_gets_its_labels_back() {
    let mut world = synced();
    world.edit("Database", |object| {
        object["metadata"]["finalizers"] = json!(["operator.example.dev/hold"]);
        object["metadata"]["annotations"][marks::EPOCH] = json!("3");
    });
    let mut world = stripped(world, true);
    world.delete_source();
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Stuck), "the test world's time is fixed");
    let object = world.object("Database");
    assert_eq!(marks::label(object, marks::MAPPING), Some(World::writer().label()));
    assert_eq!(marks::annotation(object, marks::SOURCE_UID), Some("source-1"));
    assert_eq!(marks::annotation(object, marks::EPOCH), None, "a policy would refuse an earlier epoch");
    let restored = world.log.iter().filter(|line| line.starts_with("restore")).count();
    assert_eq!(restored, 1, "{:?}", world.log);
}

/// A person or another process released it: that is final, also for a process that knew it as owned.
#[test]
fn a_released_object_is_neither_taken_back_nor_deleted() {
    let released = || {
        let mut world = synced();
        let reference = world.reference("Database");
        let known = Known::of(&World::writer(), world.object("Database"), &reference).expect("it is owned");
        let object = TargetObject::new(reference.clone(), Arc::new(world.object("Database").clone()));
        world.execute(&give_up(&object, Evidence::Person));
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

/// The mapping takes over what nobody owns.
fn adopting() -> Mapping {
    changed("    - id: db\n", "    - id: db\n      adopt: IfUnowned\n      apply: {atCreation: [/spec/members]}\n")
}

#[test]
fn an_object_that_nobody_owns_is_taken_over_and_keeps_what_others_wrote() {
    let mut world = synced();
    let reference = world.reference("Database");
    world.objects.insert(reference.clone(), foreign());
    let rest = world.settle(&mapping(DATABASES));
    assert!(format!("{rest:?}").contains("set `adopt: IfUnowned` to take it over"), "{rest:?}");
    world.take_log();
    assert_eq!(world.settle(&adopting()), Rest::InSync);
    assert!(world.take_log().contains(&format!("adopt {reference}")));
    let object = world.object("Database").clone();
    assert_eq!((&object["metadata"]["uid"], &object["spec"]["theirs"]), (&json!("foreign"), &json!(true)));
    assert!(marks::annotation(&object, marks::SOURCE_UID) == Some("source-1"), "{object}");
    assert_eq!(object["spec"].get("members"), None, "it was created by others");
    world.delete_source();
    world.settle(&adopting());
    assert!(world.objects.is_empty(), "it belongs to the source");
}

#[test]
fn an_object_that_somebody_owns_is_not_taken_over() {
    let controller = json!({"ownerReferences": [{"uid": "u", "controller": true}]});
    let owned = [
        controller,
        json!({"labels": {marks::MANAGED_BY: "Helm"}}),
        json!({"labels": {marks::OWNER: "0", marks::MAPPING: "other.mapping"}}),
        json!({"labels": {marks::MAPPING: "other.mapping"}}),
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ];
    for metadata in owned {
        let mut world = synced();
        let reference = world.reference("Database");
        let mut theirs = foreign();
        json_patch::merge(&mut theirs["metadata"], &metadata);
        world.objects.insert(reference.clone(), theirs.clone());
        assert_eq!(cause(&world.settle(&adopting())), Some(Cause::Conflict), "{metadata}");
        assert_eq!(world.objects[&reference], theirs);
    }
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
