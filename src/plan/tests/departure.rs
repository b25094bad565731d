//! Rows of the decision table of a source that leaves, or has left.

use serde_json::{Value, json};

use super::rows::recreated;
use super::world::{Unserved, World, foreign};
use super::{CHAIN, DATABASES, LISTS, cause, changed, condition, mapping, reasons, source, synced};
use crate::mapping::{Kind, OnExit};
use crate::object::has_finalizer;
use crate::object::marks;
use crate::plan::decision::VANISHED;
use crate::plan::{Cause, Evidence, Phase, Prune, Rest};

#[test]
fn being_deleted_waits_and_says_so_when_stuck() {
    let mut world = synced();
    world.edit("Database", |object| object["metadata"]["finalizers"] = json!(["operator.example.dev/hold"]));
    let reference = world.reference("Database");
    world.edit("Database", |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z"));
    let plan = world.settle(&mapping(DATABASES));
    assert_eq!(cause(&plan), Some(Cause::Deleting));
    assert!(reasons(&plan).to_string().contains("operator.example.dev/hold"));
    assert_eq!((&condition(&world)["status"], &condition(&world)["reason"]), (&json!("False"), &json!("Deleting")));
    world.edit("Database", |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Stuck));
    assert!(world.objects.contains_key(&reference), "it is not deleted twice");
}

#[test]
fn a_source_whose_objects_deletion_hangs_says_so_at_once() {
    let mut world = synced();
    world.edit("Database", |object| object["metadata"]["finalizers"] = json!(["operator.example.dev/hold"]));
    world.delete_source();
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Stuck), "the test world's time is fixed");
    world.edit("Database", |object| object["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z"));
    world.settle(&mapping(DATABASES));
    let condition = condition(&world);
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Deleting")));
    assert!(condition["message"].to_string().contains("operator.example.dev/hold"), "{condition}");
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
fn a_cluster_that_leaves_the_selection_takes_nothing_along_and_its_deletions_are_honoured() {
    let mut world = synced();
    let made = world.objects.clone();
    world.is_selected = Some(false);
    world.edit_source(|source| source["spec"]["size"] = json!(7));
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Retained));
    assert_eq!(world.objects, made);
    assert!(has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()));
    // It is one of them again: what was made meanwhile is carried out.
    world.is_selected = Some(true);
    world.settle(&mapping(DATABASES));
    assert_eq!(world.object("Database")["spec"]["size"], json!(7));
    world.is_selected = Some(false);
    world.delete_source();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!((world.source.clone(), world.objects.len()), (None, 0));
}

#[test]
fn a_cluster_outside_the_selection_is_served_by_the_exit_policy_alone() {
    for (policy, objects, finalizer) in [("Retain", 2, true), ("Delete", 0, false), ("Orphan", 2, false)] {
        let mut world = synced();
        world.is_selected = Some(false);
        world.settle(&changed("    selector:", &format!("    onExit: {policy}\n    selector:")));
        let source = world.source.as_ref().unwrap();
        assert_eq!((world.objects.len(), has_finalizer(source, World::writer().finalizer())), (objects, finalizer));
    }
    let mut world = World::new(source());
    world.is_selected = Some(false);
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty(), "nothing is written for a source that was never served");
}

#[test]
fn a_selection_that_cannot_be_told_keeps_the_last_decision() {
    let delete = changed("    selector:", "    onExit: Delete\n    selector:");
    let mut world = synced();
    let made = world.objects.clone();
    world.is_selected = None;
    world.edit_source(|source| source["spec"]["size"] = json!(7));
    assert_eq!(cause(&world.settle(&delete)), Some(Cause::Waiting));
    assert_eq!(world.objects, made);
    world.delete_source();
    world.settle(&delete);
    assert_eq!((world.source.clone(), world.objects.len()), (None, 0), "a deletion goes on");
    let mut world = World::new(source());
    world.is_selected = None;
    assert_eq!(cause(&world.settle(&delete)), Some(Cause::Waiting));
    assert!(world.log.is_empty());
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
fn an_object_that_stays_is_not_deleted_where_only_its_id_was_renamed() {
    let mut world = synced();
    world.delete_source();
    let renamed = changed("    - id: db\n", "    - id: database\n      delete: {policy: Orphan}\n");
    assert_eq!(world.settle(&renamed), Rest::InSync);
    assert!(marks::label(world.object("Database"), marks::OWNER).is_none());
    assert!(world.source.is_none());
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
    for (policy, objects) in [(OnExit::Delete, 0), (OnExit::Orphan, 2)] {
        let mut world = synced();
        assert_eq!(condition(&world)["status"], "True");
        world.phase = Phase::Leaving(policy);
        assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
        assert_eq!(world.objects.len(), objects);
        let source = world.source.as_ref().unwrap();
        assert!(!has_finalizer(source, World::writer().finalizer()));
        assert_eq!(source["status"]["conditions"], json!([]), "nobody would keep a condition up to date");
    }
}

#[test]
fn what_a_removed_mapping_takes_along_is_held_and_all_of_it_counts() {
    let mut world = World::new(source());
    assert_eq!(world.settle(&mapping(CHAIN)), Rest::InSync);
    let all = world.objects.len();
    (world.phase, world.prune) = (Phase::Leaving(OnExit::Delete), Prune::Held);
    let rest = world.settle(&mapping(CHAIN));
    let held = reasons(&rest).0.iter().filter(|reason| reason.cause == Cause::Held).count();
    assert_eq!(
        (held, world.objects.len()),
        (all - 1, all),
        "all but the shared one, also what goes after another: {rest:?}"
    );
    world.delete_source();
    world.settle(&mapping(CHAIN));
    assert!(world.objects.is_empty(), "its consumer asks for it");
}

#[test]
fn a_pod_in_its_grace_period_is_not_stuck() {
    let mut world = synced();
    world.edit("Database", |object| {
        object["metadata"]["deletionTimestamp"] = json!("2027-01-15T09:00:00Z");
        object["metadata"]["finalizers"] = json!(["hold"]);
    });
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::Deleting), "an hour of grace is left");
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

/// Nothing is deleted, given up or released without somebody who asked for it: one row for each way to ask.
#[test]
fn what_is_lost_says_who_asked_for_it() {
    let with = |lifecycle: &str| changed("  objects:\n", &format!("  lifecycle: {{{lifecycle}}}\n  objects:\n"));
    let source_deleted = |world: &mut World| {
        world.delete_source();
        mapping(DATABASES)
    };
    let stays = |world: &mut World| {
        world.delete_source();
        with("onSourceDelete: Orphan")
    };
    let exit = |world: &mut World| {
        world.edit_source(|source| source["metadata"]["labels"] = json!({}));
        changed("    selector:", "    onExit: Delete\n    selector:")
    };
    let removed = |world: &mut World| {
        world.phase = Phase::Leaving(OnExit::Orphan);
        mapping(DATABASES)
    };
    let replaced = |world: &mut World| {
        world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
        with("onSourceRecreated: Replace")
    };
    let vanished = |world: &mut World| {
        world.missing.long = true;
        world.source = None;
        with("onSourceVanished: Delete")
    };
    let recreated = |_: &mut World| {
        let text = changed("        kind: Database\n", "        kind: Cluster\n").text;
        mapping(&text.replace("    - id: db\n", "    - id: db\n      onIdentityChange: Recreate\n"))
    };
    let no_longer = |_: &mut World| {
        let (before, after) = DATABASES.split_once("    - id: db\n").expect("an object");
        let (_, status) = after.split_once("  status:\n").expect("a status");
        mapping(&format!("{before}  status:\n    from: account\n{}", status.replace("$.status.", "$.metadata.")))
    };
    let not_wanted =
        |_: &mut World| changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.size == 0 }}\n");
    type Change<'c> = &'c dyn Fn(&mut World) -> crate::mapping::Mapping;
    type Row<'c> = (&'static str, Change<'c>, Vec<(&'static str, Evidence)>);
    let (user, own) = (Evidence::LastUser, Evidence::SourceDeleted);
    let rows: [Row<'_>; 9] = [
        ("deleted", &source_deleted, vec![("Database", own), ("ServiceAccount", user), ("source", own)]),
        ("given up", &stays, vec![("Database", own), ("ServiceAccount", user), ("source", own)]),
        ("out", &exit, vec![("Database", Evidence::Exit), ("ServiceAccount", user), ("source", Evidence::Exit)]),
        (
            "removed",
            &removed,
            vec![
                ("Database", Evidence::MappingRemoved),
                ("ServiceAccount", user),
                ("source", Evidence::MappingRemoved),
            ],
        ),
        ("replaced", &replaced, vec![("Database", Evidence::Policy("onSourceRecreated: Replace"))]),
        ("vanished", &vanished, vec![("Database", Evidence::Policy(VANISHED))]),
        ("recreated", &recreated, vec![("Database", Evidence::Policy("onIdentityChange: Recreate"))]),
        ("no longer", &no_longer, vec![("Database", Evidence::RuleGone)]),
        ("not wanted", &not_wanted, vec![("Database", Evidence::Unwanted)]),
    ];
    for (name, change, expected) in rows {
        let mut world = synced();
        let mapping = change(&mut world);
        world.settle(&mapping);
        let said: Vec<(&str, Evidence)> = world.because.iter().map(|(kind, why)| (kind.as_str(), *why)).collect();
        assert_eq!(said, expected, "{name}");
    }
    let mut world = World::new(source());
    world.settle(&mapping(LISTS));
    world.edit_source(|source| source["spec"]["users"] = json!([{"name": "ann"}]));
    world.settle(&mapping(LISTS));
    assert_eq!(world.because, [("User".to_owned(), Evidence::KeyGone)].into());
}
