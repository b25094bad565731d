//! Whose an object is: stripped, copied, released and foreign ones.

use std::sync::Arc;

use serde_json::json;

use super::world::{World, check, foreign, planted};
use super::{DATABASES, LISTS, changed, database, db, drift, edited, fresh, mapping, of, said, synced};
use crate::mapping::{Kind, Mapping, Side};
use crate::object::marks::{self, Owner, OwnershipRecord, Reference};
use crate::plan::departure::give_up;
use crate::plan::{Evidence, Plan, TargetObject, plan};

/// What the process knew of the object while it was owned.
fn known(world: &World) -> (Reference, OwnershipRecord) {
    let reference = world.reference("Database");
    let known = OwnershipRecord::of(&World::writer(), world.object("Database"), &reference).expect("it is owned");
    (reference, known)
}

/// Takes every label and annotation off.
fn strip(world: &mut World) {
    world.edit("Database", |object| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| field != "labels" && field != "annotations");
    });
}

/// As this process sees it happen.
fn strip_seen(world: &mut World) {
    let known = known(world);
    world.seen.objects.stripped.extend([known]);
    strip(world);
}

/// A person or another process releases it: that is final, also for a process that knew it as owned.
fn release(world: &mut World) {
    let (reference, known) = known(world);
    let object = TargetObject::new(reference.clone(), Arc::new(world.object("Database").clone()));
    world.execute(&mapping(DATABASES), &give_up(&object, Evidence::Person));
    world.seen.objects.stripped.insert(reference, known);
    world.log.clear();
}

/// Another object, or one that was not known, in the place of a stripped one is foreign.
#[test]
#[rustfmt::skip]
fn an_object_that_was_stripped_or_released() {
    let (plain, reports) = (mapping(DATABASES), db("drift: Report"));
    check(synced, &[
        ("without its labels: the create finds it", |world| world.edit("Database", |object| drop(object["metadata"].as_object_mut().unwrap().remove("labels"))), &plain,
            "in sync; held, True Synced; create Database, update Database; ServiceAccount Database"),
        ("with another manager's label, whatever drift says", |world| world.edit("Database", |object| object["metadata"]["labels"][marks::MANAGED_BY] = json!("people")), &reports,
            "in sync; held, True Synced; update Database; ServiceAccount Database"),
        ("stripped, and seen as owned before", strip_seen, &plain,
            "in sync; held, True Synced; create Database, update Database; ServiceAccount Database"),
        ("stripped, and not seen before", strip, &plain,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("stripped, with another uid", |world| { strip_seen(world); world.edit("Database", |object| object["metadata"]["uid"] = json!("u2")); }, &plain,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("stripped, of another owner", |world| { strip_seen(world); world.seen.objects.stripped.values_mut().for_each(|known| known.owner = Owner("other".into())); }, &plain,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("stripped, in another namespace", |world| {
            strip_seen(world);
            let (reference, known) = world.seen.objects.stripped.pop_first().unwrap();
            world.seen.objects.stripped.insert(Reference { namespace: "elsewhere".into(), ..reference }, known);
        }, &plain,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("stripped, and its source is deleted", |world| { strip_seen(world); world.delete_source(); }, &plain,
            "in sync; gone; delete ServiceAccount, list all, delete Database, release finalizer; "),
        ("released", release, &plain,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("released, and its source is deleted", |world| { release(world); world.delete_source(); }, &plain,
            "in sync; gone; delete ServiceAccount, list all, release finalizer; Database?"),
    ]);
    let mut world = synced().with(strip_seen).in_sync(&plain);
    world.rests(&plain);
    assert_eq!(marks::annotation(world.object("Database"), marks::UNKEPT), None);
}

#[test]
fn an_object_that_was_released_and_adopted_is_owned_as_any_other() {
    let (plain, adopting) = (mapping(DATABASES), db("adopt: IfUnowned"));
    let mut world = synced().with(release).in_sync(&adopting);
    let (reference, known) = known(&world);
    world.seen.objects.stripped.insert(reference, known);
    world.edit("Database", |object| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("labels");
        metadata["annotations"].as_object_mut().unwrap().retain(|key, _| key == marks::RELEASED);
    });
    world.sync(&plain);
    assert_eq!(marks::annotation(world.object("Database"), marks::RELEASED), None);
    release(&mut world);
    assert!(said(&world.settle(&plain)).contains("Conflict"), "it is released anew");
}

/// Without its labels, no watch would show when it is gone.
#[test]
fn a_stripped_object_that_waits_for_a_finalizer_gets_its_labels_back() {
    let mut world = synced();
    world.edit("Database", |object| {
        object["metadata"]["finalizers"] = json!(["operator.example.dev/hold"]);
        object["metadata"]["annotations"][marks::EPOCH] = json!("3");
    });
    strip_seen(&mut world);
    world.delete_source();
    assert!(said(&world.settle(&mapping(DATABASES))).contains("Stuck"), "the test world's time is fixed");
    let object = world.object("Database");
    assert_eq!(marks::label(object, marks::MAPPING), Some(World::writer().label()));
    assert_eq!(marks::annotation(object, marks::SOURCE_UID), Some("source-1"));
    assert_eq!(marks::annotation(object, marks::EPOCH), None, "a policy would refuse an earlier epoch");
    let restored = world.log.iter().filter(|line| line.starts_with("restore")).count();
    assert_eq!(restored, 1, "{:?}", world.log);
}

#[test]
fn ownership_counts_only_where_the_source_is_placed() {
    let mut world = fresh();
    let elsewhere = Reference { kind: database(), namespace: "attacker".into(), name: "db".into() };
    let planted = planted(&elsewhere, "db");
    world.objects.insert(elsewhere.clone(), planted.clone());
    world.sync(&mapping(DATABASES));
    assert_eq!(world.objects[&elsewhere], planted, "it has no effect and is not touched");
    assert_eq!(world.objects.keys().filter(|one| one.namespace == "attacker").count(), 1);
    world.delete_source();
    world.sync(&mapping(DATABASES));
    assert_eq!(world.objects, [(elsewhere, planted)].into());
}

/// The name of a placement is sticky: a consumer who writes it would have the name of another's object.
#[test]
fn a_template_that_copies_all_annotations_copies_none_of_the_engines() {
    let copied = "metadata: {name: \"{{ placement.name }}\", annotations: \"${{ source.spec.annotations }}\"}";
    let mapping = changed("        kind: Database\n", &format!("        kind: Database\n        {copied}\n"));
    let mut world = of(json!({"annotations": {marks::PLACEMENT_NAME: "another", "note": "a"}}));
    world.sync(&mapping);
    let object = world.object("Database");
    assert_eq!([marks::PLACEMENT_NAME, "note"].map(|key| marks::annotation(object, key)), [None, Some("a")]);
}

/// A consumer writes beside the source what they like, with any id and finalizer.
#[test]
fn an_object_beside_the_source_holds_nothing_up_on_the_target() {
    let lists = mapping(LISTS);
    let mut world = fresh().in_sync(&lists);
    let kind = Kind::new("", "v1", "Secret").on(Side::Source);
    let beside = Reference { kind, namespace: "default".into(), name: "planted".into() };
    let mut planted = planted(&beside, "db");
    planted["metadata"]["finalizers"] = json!(["consumer.dev/hold"]);
    world.objects.insert(beside.clone(), planted);
    world.edit_source(|source| source["spec"] = json!({"members": 5, "users": [{"name": "ann"}]}));
    world.settle(&lists);
    assert_eq!(world.object("Database")["spec"]["members"], 5);
    assert_eq!(world.objects.keys().filter(|one| one.kind.kind == "User").count(), 1, "{:?}", world.log);
    world.delete_source();
    world.settle(&lists);
    assert_eq!(world.objects.keys().collect::<Vec<_>>(), [&beside], "{:?}", world.log);
}

#[test]
fn an_object_that_a_late_delete_may_still_hit_is_touched() {
    for (world, mapping) in [(synced(), mapping(DATABASES)), (synced().with(drift), db("drift: Ignore"))] {
        let mut observed = world.observe(&mapping);
        let reference = world.reference("Database");
        observed.answers.unanswered.insert(reference.clone());
        match plan(&mapping, &observed) {
            Plan::Act(actions) => assert_eq!(actions[0].to_string(), format!("update {reference}")),
            other => panic!("{other:?}"),
        }
    }
}

fn put(world: &mut World, metadata: &serde_json::Value) {
    let mut theirs = foreign();
    json_patch::merge(&mut theirs["metadata"], metadata);
    world.objects.insert(world.reference("Database"), theirs);
}

/// The mapping takes over what nobody owns; else it is left alone, and the object is made once it is gone.
#[test]
#[rustfmt::skip]
fn an_object_that_is_foreign() {
    let (plain, adopting) = (mapping(DATABASES), db("adopt: IfUnowned\n      apply: {atCreation: [/spec/members]}"));
    check(synced, &[
        ("nobody owns it (Never)", |world| put(world, &json!({})), &plain,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("nobody owns it (IfUnowned)", |world| put(world, &json!({})), &adopting,
            "in sync; held, True Synced; create Database, adopt Database; ServiceAccount Database"),
        ("another object controls it", |world| put(world, &json!({"ownerReferences": [{"uid": "u", "controller": true}]})), &adopting,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("another program owns it", |world| put(world, &json!({"labels": {marks::MANAGED_BY: "Helm"}})), &adopting,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("another engine owns it", |world| put(world, &json!({"labels": {marks::OWNER: "0", marks::MAPPING: "other.mapping"}})), &adopting,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("another mapping made it", |world| put(world, &json!({"labels": {marks::MAPPING: "other.mapping"}})), &adopting,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?; again create Database"),
        ("it is being deleted", |world| put(world, &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})), &adopting,
            "Conflict; held, False Conflict; create Database, update status; ServiceAccount Database?!; again create Database"),
    ]);
    let mut world = synced().with(|world| put(world, &json!({})));
    let reference = world.reference("Database");
    let rest = said(&world.settle(&plain));
    assert!(rest.contains("set `adopt: IfUnowned` to take it over"), "{rest}");
    let mut managed = synced().with(|world| put(world, &json!({"labels": {marks::MANAGED_BY: "Helm"}})));
    let rest = said(&managed.settle(&adopting));
    assert!(rest.contains("take that label off: `adopt: IfUnowned` takes it over then"), "{rest}");
    assert_eq!(world.objects[&reference], foreign());
    let mut free = world.clone().with(|world| drop(world.objects.remove(&reference)));
    free.sync(&plain);
    assert_eq!(free.condition(), "True Synced");
    world.sync(&adopting);
    let object = world.object("Database");
    assert_eq!(object["metadata"]["uid"], "foreign");
    assert_eq!(object["spec"]["theirs"], true, "what others wrote stays");
    assert_eq!(object["spec"].get("members"), None, "it was created by others");
    world.delete_source();
    world.sync(&adopting);
    assert!(world.objects.is_empty(), "it belongs to the source");
}

#[test]
fn a_copy_with_our_marks_is_foreign() {
    let mut world = synced();
    let (reference, mut copy) = (world.reference("Database"), world.object("Database").clone());
    copy["metadata"]["annotations"][marks::NAME] = json!("another");
    copy["metadata"]["annotations"][marks::SELF] = json!("forged");
    copy["status"] = json!({"phase": "Stolen"});
    world.objects.insert(reference.clone(), copy.clone());
    assert!(said(&world.settle(&mapping(DATABASES))).contains("Conflict"));
    assert_eq!(world.objects[&reference], copy);
    assert_ne!(world.status()["phase"], "Stolen");
}

/// An edit of `shared` changes whose an object is: what there was goes as what has no rule goes, or is taken over.
#[test]
#[rustfmt::skip]
fn an_object_goes_with_a_rule_that_begins_or_ceases_to_share_it() {
    fn own() -> Mapping {
        let account = ("metadata: {name: database}", "metadata: {name: \"{{ placement.name }}-account\"}");
        edited(DATABASES, &[("      shared: Namespace\n", ""), account, ("  status:\n", "  status:\n    from: db\n")])
    }
    fn of_the_same_name() -> Mapping {
        changed("metadata: {name: database}", "metadata: {name: db-account}")
    }
    let own_one = own();
    check(synced, &[
        ("ceases", |_| {}, &own_one,
            "in sync; held, True Synced; create ServiceAccount, delete ServiceAccount; ServiceAccount Database"),
        ("ceases, and another source uses it", |world| world.shared_in_use = Some(true), &own_one,
            "in sync; held, True Synced; create ServiceAccount; ServiceAccount ServiceAccount Database"),
        ("ceases, and it is not known who uses it", |world| world.shared_in_use = None, &own_one,
            "Unknown; held, True Synced; create ServiceAccount; ServiceAccount ServiceAccount Database"),
    ]);
    check(|| fresh().in_sync(&own()), &[
        ("begins", |_| {}, &mapping(DATABASES),
            "in sync; held, True Synced; create ServiceAccount, delete ServiceAccount; ServiceAccount Database"),
        ("begins, under the same name", |_| {}, &of_the_same_name(),
            "in sync; held, True Synced; update ServiceAccount; ServiceAccount Database"),
    ]);
    check(|| fresh().in_sync(&of_the_same_name()), &[
        ("ceases, under the same name", |_| {}, &own_one,
            "in sync; held, True Synced; update ServiceAccount; ServiceAccount Database"),
        ("ceases, under the same name, and another source uses it", |world| world.shared_in_use = Some(true), &own_one,
            "Conflict; held, False Conflict; update status; ServiceAccount Database"),
        ("ceases, under the same name, and it is not known who uses it", |world| world.shared_in_use = None, &own_one,
            "Unknown; held, True Synced; ; ServiceAccount Database"),
    ]);
}
