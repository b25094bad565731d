//! Rows of the decision table of a source that leaves, or has left.

use serde_json::json;

use super::world::{Row, Unserved, World, check, check_by, foreign};
use super::{
    CHAIN, DATABASES, LISTS, causes, changed, database, db, deleted_at, edited, exit, fresh, hold, leave_filter,
    mapping, of_another_kind, recreate, spec, synced,
};
use crate::mapping::{Mapping, OnExit};
use crate::object::has_finalizer;
use crate::plan::{Cause, Consumer, Phase, Prune, has_orphans};

/// Its finalizers are those of others.
fn lose_finalizer(world: &mut World) {
    world.edit_source(|source| source["metadata"]["finalizers"] = json!(["another.dev/hold"]));
}

fn unserve(world: &mut World, why: Unserved) {
    world.unsee(&database());
    world.unseen.values_mut().for_each(|reason| reason.cause = Cause::Waiting);
    world.unserved_for = why;
}

fn vanish(world: &mut World, seen_being_deleted: Option<&str>) {
    world.source = None;
    world.missing.deleted = seen_being_deleted.map(str::to_owned);
}

#[test]
#[rustfmt::skip]
fn an_object_that_is_being_deleted() {
    let plain = mapping(DATABASES);
    check(synced, &[
        ("waits", |world| deleted_at(world, "2027-01-15T07:59:00Z"), &plain,
            "Deleting; held, False Deleting; update status; ServiceAccount Database!"),
        ("is stuck after a while, and is not deleted twice", |world| deleted_at(world, "2026-01-01T00:00:00Z"), &plain,
            "Stuck; held, False Stuck; update status; ServiceAccount Database!"),
        ("is not stuck in its grace period", |world| deleted_at(world, "2027-01-15T09:00:00Z"), &plain,
            "Deleting; held, False Deleting; update status; ServiceAccount Database!"),
    ]);
    // The consumer is told what holds it, also once it takes unusually long.
    for (deleted, since) in [(false, "2027-01-15"), (true, "2027-01-15"), (false, "2026-01-01"), (true, "2026-01-01")] {
        let mut world = synced();
        if deleted { world.delete_source(); }
        deleted_at(&mut world, &format!("{since}T07:59:00Z"));
        world.settle(&plain);
        assert!(world.message().contains("operator.example.dev/hold"), "{}", world.message());
    }
}

#[test]
#[rustfmt::skip]
fn a_source_that_is_deleted() {
    let plain = mapping(DATABASES);
    let renamed = "    - id: database\n      delete: {policy: Orphan}\n";
    let waits_for_dependents = |world: &mut World| {
        deleted_at(world, "2026-01-01T00:00:00Z");
        world.edit("Database", |object| object["metadata"]["finalizers"] = json!(["foregroundDeletion"]));
    };
    check(|| synced().with(World::delete_source), &[
        ("takes everything away, and is released after a fresh read", |_| {}, &plain,
            "in sync; gone; delete Database, delete ServiceAccount, list all, release finalizer; "),
        ("waits for what holds an object", hold, &plain,
            "Stuck; held, False Stuck; delete Database, update status; ServiceAccount Database!"),
        ("waits for an object whose deletion hangs", |world| deleted_at(world, "2027-01-15T07:59:00Z"), &plain,
            "Deleting; held, False Deleting; update status; ServiceAccount Database!"),
        ("deletes once more what waits for dependents in vain", waits_for_dependents, &plain,
            "Stuck; held, False Stuck; delete Database, update status; ServiceAccount Database!; again delete Database"),
        ("waits for dependents where the mapping says so", waits_for_dependents, &db("delete: {propagation: Foreground}"),
            "Stuck; held, False Stuck; update status; ServiceAccount Database!"),
        ("has an object that lost its label", |world| world.edit("Database", |object| drop(object["metadata"].as_object_mut().unwrap().remove("labels"))), &plain,
            "in sync; gone; delete ServiceAccount, list all, delete Database, release finalizer; "),
        ("has a foreign object", |world| world.objects.extend([(world.reference("Database"), foreign())]), &plain,
            "in sync; gone; delete ServiceAccount, list all, release finalizer; Database?"),
        ("leaves its objects (Orphan)", |_| {}, &spec("lifecycle: {onSourceDelete: Orphan}"),
            "in sync; gone; give up Database, give up ServiceAccount, list all, release finalizer; ServiceAccount? Database?"),
        ("leaves an object whose id was renamed (Orphan)", |_| {}, &changed("    - id: db\n", renamed),
            "in sync; gone; give up Database, delete ServiceAccount, list all, release finalizer; Database?"),
        ("leaves what another one shares", |world| world.shared_in_use = Some(true), &plain,
            "in sync; gone; delete Database, list all, release finalizer; ServiceAccount"),
        ("waits until it is known who shares it", |world| world.shared_in_use = None, &plain,
            "Unknown; held, True Synced; delete Database; ServiceAccount"),
        ("waits for a kind that is not served for now", |world| unserve(world, Unserved::ForNow), &plain,
            "RequestFailed; held, True Synced; delete ServiceAccount, list all; Database"),
        ("waits for a kind that is served again", |world| unserve(world, Unserved::NoLonger), &plain,
            "Waiting; held, True Synced; delete ServiceAccount, list all; Database"),
        ("does not wait for a kind whose definition is gone", |world| unserve(world, Unserved::Removed), &plain,
            "Waiting; gone; delete ServiceAccount, list all, release finalizer; Database"),
        ("has no finalizer of the engine", lose_finalizer, &plain,
            "in sync; free, True Synced; delete Database; ServiceAccount"),
        ("is suspended", |world| world.seen.phase = Phase::DeletionsOnly, &plain,
            "in sync; gone; delete Database, delete ServiceAccount, list all, release finalizer; "),
        ("is in a cluster that is no longer selected", |world| world.seen.consumer.is_selected = Ok(false), &plain,
            "in sync; gone; delete Database, delete ServiceAccount, list all, release finalizer; "),
        ("is in a cluster of which nobody knows whether it is selected", |world| world.seen.consumer.is_selected = Consumer::selection(None), &exit("Delete"),
            "in sync; gone; delete Database, delete ServiceAccount, list all, release finalizer; "),
    ]);
    check(fresh, &[
        ("was never served", |world| { lose_finalizer(world); world.delete_source(); }, &plain,
            "in sync; free, none none; ; "),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_kind_that_is_not_served_keeps_a_live_source_waiting() {
    let plain = mapping(DATABASES);
    let unserve: fn(&mut World) = |world| unserve(world, Unserved::Removed);
    check(fresh, &[("new", unserve, &plain, "Waiting; held, False Waiting; add finalizer, create Namespace, create ServiceAccount, update status; ServiceAccount")]);
    check(synced, &[("in sync", unserve, &plain, "Waiting; held, False Waiting; update status; ServiceAccount Database")]);
}

#[test]
#[rustfmt::skip]
fn a_source_that_leaves_the_filter() {
    let plain = mapping(DATABASES);
    let leave_without_finalizer: fn(&mut World) = |world| { leave_filter(world); lose_finalizer(world); };
    let came_late: fn(&mut World) = |world| { leave_filter(world); lose_finalizer(world); world.seen.target.was_let_go = true; };
    check(synced, &[
        ("Retain", leave_filter, &exit("Retain"),
            "Retained; held, False Retained; update status; ServiceAccount Database"),
        ("Delete", leave_filter, &exit("Delete"),
            "in sync; free, False NotSelected; delete Database, delete ServiceAccount, list all, update status, release finalizer; "),
        ("Orphan", leave_filter, &exit("Orphan"),
            "in sync; free, False NotSelected; give up Database, give up ServiceAccount, list all, update status, release finalizer; ServiceAccount? Database?"),
        ("Delete, and it was created anew", |world| { leave_filter(world); recreate(world); }, &exit("Delete"),
            "in sync; free, False NotSelected; delete ServiceAccount, list all, update status, release finalizer; Database^"),
        ("Delete, and a foreign object", |world| { leave_filter(world); world.objects.insert(world.reference("Database"), foreign()); }, &exit("Delete"),
            "in sync; free, False NotSelected; delete ServiceAccount, list all, update status, release finalizer; Database?"),
        ("without finalizer", leave_without_finalizer, &plain,
            "Orphaned; free, True Synced; ; ServiceAccount Database"),
        ("what came after it was let go (Retain)", came_late, &exit("Retain"),
            "Orphaned; free, True Synced; ; ServiceAccount Database"),
        ("what came after it was let go (Delete)", came_late, &exit("Delete"),
            "in sync; free, True Synced; delete Database, delete ServiceAccount; "),
        ("what came after it was let go (Orphan)", came_late, &exit("Orphan"),
            "in sync; free, True Synced; give up Database, give up ServiceAccount; ServiceAccount? Database?"),
        ("its cluster leaves the selection (Delete)", |world| world.seen.consumer.is_selected = Ok(false), &exit("Delete"),
            "in sync; free, False NotSelected; delete Database, delete ServiceAccount, list all, update status, release finalizer; "),
        ("nobody knows whether its cluster is selected", |world| { world.seen.consumer.is_selected = Consumer::selection(None); world.edit_source(|source| source["spec"]["size"] = json!(7)); }, &exit("Delete"),
            "Waiting; held, False Waiting; update status; ServiceAccount Database"),
    ]);
    check(fresh, &[
        ("it was never served", leave_filter, &plain,
            "in sync; free, none none; ; "),
        ("it was never served, and its cluster is not selected", |world| world.seen.consumer.is_selected = Ok(false), &plain,
            "in sync; free, none none; ; "),
        ("it was never served, and nobody knows whether its cluster is selected", |world| world.seen.consumer.is_selected = Consumer::selection(None), &exit("Delete"),
            "Waiting; free, none none; ; "),
    ]);
}

#[test]
fn what_a_source_outside_the_filter_has_in_its_status_is_taken_back_unless_it_is_retained() {
    for policy in ["Retain", "Delete", "Orphan"] {
        // A field that was refused before is no reason to leave the others there.
        for refused in [Vec::new(), vec![json!("Odd")]] {
            let mut world = synced();
            world.refused_status = refused;
            world.edit("Database", |object| object["status"] = json!({"phase": "Running", "version": "Odd"}));
            world.settle(&mapping(DATABASES));
            world.seen.answers.refused_status = world.refused();
            leave_filter(&mut world);
            world.settle(&exit(policy));
            assert_eq!(world.status().get("phase").is_some(), policy == "Retain", "{policy}");
        }
    }
}

/// It goes all the same, and nothing is sent without an end.
#[test]
fn a_source_whose_status_cannot_be_taken_back_is_let_go() {
    let version = ("version: $.status.version", "version: {path: $.status.version, onMissing: Keep}");
    let kept = edited(DATABASES, &[version, ("    selector:", "    onExit: Delete\n    selector:")]);
    for refused in ["NotSelected", "8.0"] {
        let mut world = synced();
        world.edit("Database", |object| object["status"] = json!({"version": "8.0"}));
        world.sync(&kept);
        world.refused_status = vec![json!(refused)];
        leave_filter(&mut world);
        world.settle(&kept);
        assert!(!has_finalizer(world.live(), World::writer().finalizer()), "{refused}: {:?}", world.log);
    }
}

#[test]
fn what_changed_while_a_cluster_was_not_selected_is_carried_out_once_it_is() {
    let mut world = synced();
    world.seen.consumer.is_selected = Ok(false);
    world.edit_source(|source| source["spec"]["size"] = json!(7));
    let before = world.objects.clone();
    assert_eq!(causes(&world.settle(&mapping(DATABASES))), "Retained");
    assert_eq!(world.objects, before);
    world.seen.consumer.is_selected = Ok(true);
    world.settle(&mapping(DATABASES));
    assert_eq!(world.object("Database")["spec"]["size"], json!(7));
}

#[test]
#[rustfmt::skip]
fn a_source_that_is_gone() {
    let (plain, vanished) = (mapping(DATABASES), spec("lifecycle: {onSourceVanished: Delete}"));
    check(synced, &[
        ("nobody saw it being deleted", |world| vanish(world, None), &plain,
            "Orphaned; gone; get source; ServiceAccount Database"),
        ("it was seen being deleted", |world| vanish(world, Some("source-1")), &plain,
            "in sync; gone; delete Database; ServiceAccount"),
        ("it was seen being deleted, and used what is shared", |world| { vanish(world, Some("source-1")); world.missing.shares = true; }, &plain,
            "in sync; gone; delete Database, delete ServiceAccount; "),
        ("so was it, and another one uses that", |world| { vanish(world, Some("source-1")); world.missing.shares = true; world.shared_in_use = Some(true); }, &plain,
            "in sync; gone; delete Database; ServiceAccount"),
        ("so was it, and it is not known who else does", |world| { vanish(world, Some("source-1")); world.missing.shares = true; world.shared_in_use = None; }, &plain,
            "Unknown; gone; delete Database; ServiceAccount"),
        ("so was it, and nothing of its own is left", |world| { vanish(world, Some("source-1")); world.missing.shares = true; drop(world.objects.remove(&world.reference("Database"))); }, &plain,
            "in sync; gone; delete ServiceAccount; "),
        ("it was seen being deleted (Orphan)", |world| vanish(world, Some("source-1")), &spec("lifecycle: {onSourceDelete: Orphan}"),
            "in sync; gone; give up Database; ServiceAccount Database?"),
        ("another one was seen being deleted", |world| vanish(world, Some("source-0")), &plain,
            "Orphaned; gone; get source; ServiceAccount Database"),
        ("not for long", |world| vanish(world, None), &vanished,
            "Orphaned; gone; get source; ServiceAccount Database"),
        ("for long", |world| { vanish(world, None); world.missing.long = true; }, &vanished,
            "in sync; gone; get source, delete Database; ServiceAccount"),
        ("for long, and its loss is held", |world| { vanish(world, None); world.missing.long = true; world.seen.limits.prune = Prune::none(); }, &vanished,
            "Held, Orphaned; gone; get source; ServiceAccount Database"),
        ("not for long, and its loss is held", |world| { vanish(world, None); world.seen.limits.prune = Prune::none(); }, &vanished,
            "Held, Orphaned; gone; get source; ServiceAccount Database"),
        ("not for long, and the documents before would lose it as well", |world| { vanish(world, None); world.seen.limits.prune = Prune::Held([world.reference("Database")].into()); }, &vanished,
            "Orphaned; gone; get source; ServiceAccount Database"),
        ("for long, and the documents before would lose it as well", |world| { vanish(world, None); world.missing.long = true; world.seen.limits.prune = Prune::Held([world.reference("Database")].into()); }, &vanished,
            "in sync; gone; get source, delete Database; ServiceAccount"),
    ]);
}

/// What would be done is not: a source that would be released stays, and so does what is kept beside it.
#[test]
#[rustfmt::skip]
fn what_is_orphaned_counts_where_nothing_is_carried_out() {
    type Change = fn(&mut World);
    let (plain, leaves) = (mapping(DATABASES), exit("Delete"));
    let cases: [(&str, Change, &Mapping, bool); 8] = [
        ("in sync", |_| {}, &plain, false),
        ("deleted", World::delete_source, &plain, false),
        ("deleted, with an object of an earlier source", |world| { recreate(world); world.delete_source(); }, &plain, true),
        ("left", leave_filter, &leaves, false),
        ("left, with an object of an earlier source", |world| { recreate(world); leave_filter(world); }, &leaves, true),
        ("vanished", |world| vanish(world, None), &plain, true),
        ("seen being deleted", |world| vanish(world, Some("source-1")), &plain, true),
        ("seen being deleted, and nothing of its own is left", |world| { vanish(world, Some("source-1")); world.missing.shares = true; drop(world.objects.remove(&world.reference("Database"))); }, &plain, false),
    ];
    for (case, change, document, has) in cases {
        let observed = synced().with(change).observe(document);
        assert_eq!(has_orphans(document, &observed), has, "{case}");
    }
}

#[test]
#[rustfmt::skip]
fn a_mapping_that_is_suspended_or_removed() {
    let plain = mapping(DATABASES);
    check(synced, &[
        ("suspended", |world| { world.seen.phase = Phase::DeletionsOnly; world.edit_source(|source| source["spec"] = json!({"members": 7})); }, &plain,
            "in sync; held, True Synced; ; ServiceAccount Database"),
        ("removed (Delete): nobody would keep a condition up to date", |world| world.seen.phase = Phase::Leaving(OnExit::Delete), &plain,
            "in sync; free, none none; delete Database, delete ServiceAccount, list all, update status, release finalizer; "),
        ("removed (Orphan)", |world| world.seen.phase = Phase::Leaving(OnExit::Orphan), &plain,
            "in sync; free, none none; give up Database, give up ServiceAccount, list all, update status, release finalizer; ServiceAccount? Database?"),
    ]);
}

#[test]
fn what_a_removed_mapping_and_a_source_that_vanished_take_along_is_held_and_all_of_it_counts() {
    let chain = mapping(&format!("{CHAIN}  lifecycle: {{onSourceVanished: Delete}}\n"));
    let held = |world: &mut World| {
        let all = world.objects.len();
        world.seen.limits.prune = Prune::none();
        let rest = world.settle(&chain);
        let held = rest.0.iter().filter(|reason| reason.cause == Cause::Held).count();
        let what = "all but the shared one, also what goes after another";
        assert_eq!((held, world.objects.len()), (all - 1, all), "{what}: {rest:?}");
    };
    let mut world = fresh().in_sync(&chain);
    vanish(&mut world, None);
    world.missing.long = true;
    held(&mut world);
    let mut world = fresh().in_sync(&chain);
    world.seen.phase = Phase::Leaving(OnExit::Delete);
    held(&mut world);
    world.delete_source();
    world.settle(&chain);
    assert!(world.objects.is_empty(), "its consumer asks for it");
}

/// Nothing is deleted, given up or released without somebody who asked for it: one row for each way to ask.
#[test]
#[rustfmt::skip]
fn what_is_lost_says_who_asked_for_it() {
    let plain = mapping(DATABASES);
    let (before, after) = DATABASES.split_once("    - id: db\n").expect("an object");
    let (_, status) = after.split_once("  status:\n").expect("a status");
    let without = mapping(&format!("{before}  status:\n    from: account\n{}", status.replace("$.status.", "$.metadata.")));
    let rows: &[Row<'_>] = &[
        ("deleted", World::delete_source, &plain,
            "Database: SourceDeleted, ServiceAccount: LastUser, source: SourceDeleted"),
        ("given up", World::delete_source, &spec("lifecycle: {onSourceDelete: Orphan}"),
            "Database: SourceDeleted, ServiceAccount: LastUser, source: SourceDeleted"),
        ("out", leave_filter, &exit("Delete"),
            "Database: Exit, ServiceAccount: LastUser, source: Exit"),
        ("removed", |world| world.seen.phase = Phase::Leaving(OnExit::Orphan), &plain,
            "Database: MappingRemoved, ServiceAccount: LastUser, source: MappingRemoved"),
        ("replaced", recreate, &spec("lifecycle: {onSourceRecreated: Replace}"),
            "Database: Policy('onSourceRecreated: Replace')"),
        ("vanished", |world| { vanish(world, None); world.missing.long = true; }, &spec("lifecycle: {onSourceVanished: Delete}"),
            "Database: Policy('onSourceVanished: Delete')"),
        ("of another kind", |_| {}, &of_another_kind("Recreate"),
            "Database: Policy('onIdentityChange: Recreate')"),
        ("its id is gone", |_| {}, &without,
            "Database: RuleGone"),
        ("not wanted", |_| {}, &db("when: ${{ source.spec.size == 0 }}"),
            "Database: Unwanted"),
    ];
    let asked = |world: &mut World, mapping: &crate::mapping::Mapping| {
        world.settle(mapping);
        let because = world.because.iter().map(|(kind, why)| format!("{kind}: {why:?}"));
        because.collect::<Vec<_>>().join(", ")
    };
    check_by(synced, rows, asked);
    let of_list: Row<'_> = ("its key is gone", |world| world.edit_source(|source| source["spec"]["users"] = json!([{"name": "ann"}])), &mapping(LISTS), "User: KeyGone");
    check_by(|| fresh().in_sync(&mapping(LISTS)), &[of_list], asked);
}
