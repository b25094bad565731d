//! Mappings, sources and servers that are not what they were.

use super::*;

/// Whatever the answers come to: it is taken over once, and nothing that people add to it is lost.
#[test]
fn an_object_that_nobody_owns_is_taken_over_where_the_mapping_says_so() {
    let troubles = Weather { lost_after: 30, lost_before: 20, conflict: 20, ..Weather::default() };
    for sources in [Kcp, Plain] {
        let steps = [
            (0, Action::Meddle(X, Meddling::Squat)),
            (1_000, Action::Create(X)),
            (30_000, Action::Weather(troubles)),
            (0, Action::Edit(Edit::Adopt)),
            (10, Action::Meddle(X, Meddling::Edit)),
            (60_000, Action::Weather(Weather::default())),
            (0, Action::Change(X)),
            (20_000, Action::Delete(X)),
        ];
        (6..=steps.len()).for_each(|until| holds(&world(sources, &steps[..until]), 4));
        // The same where nobody edits it.
        holds(&world(sources, &[&steps[..4], &steps[5..6]].concat()), 4);
    }
}

#[test]
fn an_edit_of_the_source_resource_across_a_restart_deletes_nothing() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Stop(0)),
        (10, Action::Edit(Edit::Resource("gadgets"))),
        (10, Action::Start(0)),
    ];
    holds(&world(Kcp, &steps), 4);
}

/// The source that held up the document in the file is not there any more, and nothing was made of it.
#[test]
fn a_document_of_another_resource_waits_for_no_source_that_a_restored_server_never_had() {
    let steps = [
        (3_000, Action::BackUp(Side::Source)),
        (1_000, Action::Deny("apply")),
        (5_000, Action::Create(X)),
        (20_000, Action::Edit(Edit::Resource("gadgets"))),
        (20_000, Action::Restore(Side::Source, Ahead::Silent)),
    ];
    holds(&world(Kcp, &steps), 4);
}

#[test]
fn a_restore_while_the_engine_is_down_deletes_nothing() {
    let steps = [
        (1_000, Action::BackUp(Side::Source)),
        (1_000, Action::Create(X)),
        (5_000, Action::Stop(0)),
        (10, Action::Restore(Side::Source, Ahead::Expired)),
        (10, Action::Start(0)),
    ];
    holds(&world(Kcp, &steps), 1);
}

/// For the moment of the edit, the mapping serves nobody: the document in force takes in nothing more, and does again.
#[test]
fn a_cluster_that_is_rebuilt_while_another_resource_takes_the_place_of_one_without_sources_is_served_as_before() {
    let steps = [
        (4_500, Action::Edit(Edit::Resource("gadgets"))),
        (500, Action::Rebuild(Side::Source, Ahead::Expired)),
        (20_000, Action::Create(X)),
    ];
    holds(&world(Plain, &steps), 4);
}

#[test]
fn a_source_created_after_a_restore_is_seen() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::BackUp(Side::Source)),
        (0, Action::Change(X)),
        (5_000, Action::Change(X)),
        (5_000, Action::Restore(Side::Source, Ahead::Silent)),
        (5_000, Action::Create(X_CA)),
    ];
    holds(&world(Kcp, &steps), 2);
}

/// The watches on the cluster that is back are new. Shortly before it is put back once more, a bookmark tells them of a version that
/// it reaches again by a deletion.
#[test]
fn a_deletion_right_after_a_second_restore_is_seen() {
    let steps = [
        (0, Action::Create(X)),
        (8_000, Action::BackUp(Side::Source)),
        (10, Action::Rebuild(Side::Source, Ahead::Silent)),
        (40_000, Action::Restore(Side::Source, Ahead::Silent)),
        (1_000, Action::Create(SourceRef { resource: "gadgets", ..X })),
        (2_500, Action::Restore(Side::Source, Ahead::Silent)),
        (300, Action::Delete(X)),
    ];
    holds(&world(Plain, &steps), 4);
}

#[test]
fn a_late_create_strips_nothing() {
    let late = Weather { late: 30, only_writes: true, ..Weather::default() };
    let steps = [(100, Action::Weather(late)), (0, Action::Create(X)), (5_000, Action::Weather(Weather::default()))];
    holds(&world(Kcp, &steps), 24);
}

#[test]
fn two_processes_of_one_engine_strip_nothing() {
    let steps = [(0, Action::Start(1)), (5_000, Action::Create(X))];
    holds(&world(Kcp, &steps), 8);
}

#[test]
fn a_source_whose_object_has_too_long_a_name_says_so_and_can_be_deleted() {
    let long = SourceRef { name: RARE_NAMES[1], ..X };
    let steps = [(0, Action::Create(long)), (5_000, Action::Delete(long))];
    (1..=steps.len()).for_each(|until| holds(&world(Plain, &steps[..until]), 1));
}

#[test]
fn a_status_field_that_is_no_longer_written_is_removed() {
    let steps = [(0, Action::Create(X)), (5_000, Action::Edit(Edit::NoStatus("size")))];
    holds(&world(Plain, &steps), 1);
}

#[test]
fn the_object_of_a_removed_id_says_where_the_others_were_placed() {
    let steps = [(0, Action::Create(X)), (5_000, Action::Create(X_CA)), (5_000, Action::Edit(Edit::Toggle("ca")))];
    holds(&world(Kcp, &steps), 2);
}

#[test]
fn a_stripped_object_is_restored() {
    let steps = [(0, Action::Create(X)), (5_000, Action::Meddle(X, Meddling::Strip)), (5_000, Action::Change(X))];
    holds_in_both(&steps, 4);
}

#[test]
fn a_stripped_object_goes_with_its_source() {
    let steps = [(0, Action::Create(X)), (5_000, Action::Meddle(X, Meddling::Strip)), (1, Action::Delete(X))];
    holds(&world(Kcp, &steps), 4);
}

#[test]
fn a_source_that_leaves_while_its_kind_is_not_served_leaves_no_object_behind() {
    let steps = [
        (0, Action::Edit(Edit::Toggle("widget"))),
        (0, Action::Create(X)),
        (20_000, Action::Unserve),
        (100, Action::Delete(X)),
        (9_500, Action::Serve),
    ];
    holds(&world(Plain, &steps), 4);
}

#[test]
fn what_a_changed_document_deletes_is_held_also_by_a_process_that_has_not_seen_everything_yet() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::MaxLost(0))),
        (5_000, Action::Crash(0)),
        (10, Action::Edit(Edit::Toggle("ca"))),
        (10, Action::Create(X_CA)),
        (10, Action::Start(0)),
    ];
    holds(&world(Kcp, &steps), 8);
}

#[test]
fn what_was_under_way_when_the_document_changed_releases_nothing_that_is_held() {
    for pause in (0..40).step_by(5) {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Edit(Edit::MaxLost(0))),
            (5_000, Action::Weather(Weather { slow: 50, ..Weather::default() })),
            (0, Action::Change(X)),
            (pause, Action::Edit(Edit::Toggle("ca"))),
            (5_000, Action::Weather(Weather::default())),
        ];
        holds(&world(Kcp, &steps), 4);
    }
}

#[test]
fn what_a_removed_mapping_takes_along_is_held() {
    let steps = [
        (0, Action::Create(X)),
        (0, Action::Edit(Edit::OnMappingRemoved("Delete"))),
        (0, Action::Edit(Edit::MaxLost(0))),
        (70_000, Action::Edit(Edit::Remove)),
    ];
    holds_in_both(&steps, 4);
}

#[test]
fn a_source_cluster_that_is_rebuilt_twice_leaves_no_count_of_deletions_behind() {
    let steps = [
        (0, Action::Create(X_CA)),
        (28_981, Action::Rebuild(Side::Source, Ahead::Expired)),
        (143_119, Action::Rebuild(Side::Source, Ahead::Old)),
    ];
    holds(&world(Plain, &steps), 8);
}

#[test]
fn a_cluster_that_is_rebuilt_before_its_sources_are_listed_is_noticed() {
    let steps = [
        (7, Action::Away(Side::Source)),
        (8_000, Action::Rebuild(Side::Source, Ahead::Expired)),
        (1_000, Action::Back(Side::Source)),
    ];
    holds(&world(Plain, &steps), 12);
}

/// The state store of the target cannot be read after the source cluster is another: what it says is the former one.
#[test]
fn nothing_is_written_for_a_rebuilt_cluster_before_the_state_store_names_it() {
    let away = [
        (0, Action::Create(X)),
        (5_000, Action::Away(Side::Target)),
        (1_000, Action::Rebuild(Side::Source, Ahead::Old)),
        (0, Action::Create(X_CA)),
        (5_000, Action::Delete(X_CA)),
        (20_000, Action::Edit(Edit::Resource("gadgets"))),
    ];
    holds(&world(Plain, &away), 8);
}

/// The document in force serves nothing any more, and is about to make place for the one in the file.
#[test]
fn the_document_in_force_goes_on_in_a_cluster_that_is_rebuilt_while_another_waits_for_its_end() {
    for pause in [1_300, 1_700, 2_300] {
        let steps = [
            (0, Action::Create(X)),
            (20_000, Action::Edit(Edit::Resource("gadgets"))),
            (5_000, Action::Delete(X)),
            (pause, Action::Rebuild(Side::Source, Ahead::Expired)),
            (5_000, Action::Create(X)),
        ];
        holds(&world(Plain, &steps), 4);
    }
}

/// kcp drops the address of a shard with the last binding there: nobody waits for it to come back.
#[test]
fn a_document_of_another_resource_waits_for_no_shard_that_nobody_uses_any_more() {
    let steps = [
        (0, Action::Create(X)),
        (10_000, Action::Edit(Edit::Resource("gadgets"))),
        (20_000, Action::Unbind("b")),
        (1_000, Action::Delete(X)),
    ];
    holds(&world(Kcp, &steps), 8);
    let out_of_sight = [
        (8_000, Action::Away(Side::Source)),
        (200, Action::Unbind("a")),
        (60_000, Action::Edit(Edit::Resource("gadgets"))),
    ];
    holds(&world(Kcp, &out_of_sight), 16);
}

/// No process sees the address go, and one that starts cannot tell whether it is gone for good: an operator says so.
#[test]
fn a_document_of_another_resource_waits_for_a_shard_that_was_left_unseen_until_the_state_store_does_not_name_it() {
    let steps = [
        (0, Action::Create(X)),
        (20_000, Action::Delete(X)),
        (20_000, Action::Crash(0)),
        (1_000, Action::Unbind("a")),
        (1_000, Action::Unbind("b")),
        (1_000, Action::Edit(Edit::Resource("gadgets"))),
    ];
    holds(&world(Kcp, &steps), 4);
}

/// The state store says which document is in force, also one that was restored.
#[test]
fn the_document_of_a_restored_state_store_is_in_force_again() {
    let gadget = SourceRef { resource: "gadgets", ..X };
    let steps = [
        (0, Action::Create(gadget)),
        (20_000, Action::BackUp(Side::Target)),
        (20_000, Action::Edit(Edit::Resource("gadgets"))),
        (20_000, Action::Create(X)),
        (10, Action::Restore(Side::Target, Ahead::Expired)),
    ];
    holds(&world(Plain, &steps), 8);
}

#[test]
fn a_source_that_leaves_the_filter_and_is_stripped_while_no_engine_runs_is_let_go() {
    let steps = [
        (0, Action::Edit(Edit::Selector)),
        (5_000, Action::Create(X)),
        (10_000, Action::Stop(0)),
        (1_000, Action::Label(X)),
        (1_000, Action::Strip(X)),
        (1_000, Action::Start(0)),
    ];
    holds(&world(Kcp, &steps), 4);
}

#[test]
fn an_engine_with_another_id_follows_the_file_although_the_first_one_stands_still() {
    let steps = [
        (5_000, Action::Pause(0)),
        (0, Action::Start(2)),
        (5_000, Action::Edit(Edit::DeletePolicy("Orphan"))),
        (5_000, Action::Create(X)),
        (70_000, Action::Delete(X)),
    ];
    holds(&world(Kcp, &steps), 4);
}

/// What the first one made is orphaned: it sees no deletion, and nothing holds the source for it any more.
#[test]
fn a_source_without_the_finalizer_of_an_engine_that_stands_still_is_released_by_the_other_one() {
    let steps = [
        (0, Action::Create(X_CA)),
        (20_000, Action::Pause(0)),
        (1_000, Action::Start(2)),
        (5_000, Action::Cut(Side::Source)),
        (1_000, Action::Strip(X_CA)),
        (5_000, Action::Delete(X_CA)),
        (5_000, Action::Compact(Side::Source)),
    ];
    let deletes = |run: &Run| run.trace.iter().any(|line| line.contains("engine 0 delete configmaps"));
    let runs = held(&world(Plain, &steps), 4);
    assert!(runs.iter().any(|run| !deletes(run)), "the first engine sees the deletion");
}

/// The new source does not pass the filter, and carries the finalizer of the other engine alone, which keeps an object of its own.
#[test]
fn the_finalizer_of_another_id_holds_nothing_that_the_first_one_made() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Start(2)),
        (5_000, Action::Change(X)),
        (10_000, Action::Stop(2)),
        (1_000, Action::Edit(Edit::When)),
        (5_000, Action::Stop(0)),
        (1_000, Action::Recreate(X)),
        (1_000, Action::Meddle(X, Meddling::Delete)),
    ];
    holds_in_both(&steps, 2);
}

/// Its cache shows an object until the watch times out, although a retry finds the namespace missing.
#[test]
fn what_a_silent_watch_still_shows_exists_for_the_engine() {
    let steps = [
        (0, Action::Create(X_CA)),
        (20_000, Action::Create(X)),
        (10_000, Action::Silence(Side::Target)),
        (2_000, Action::DeleteNamespace(X_CA)),
    ];
    holds(&world(Kcp, &steps), 8);
}

/// The document that waits goes with its file. What is retained is the document in force.
#[test]
fn a_mapping_that_is_removed_while_its_edit_waits_is_retained_as_it_was_in_force() {
    let steps = [
        (2_000, Action::Edit(Edit::NoStatus("size"))),
        (2_000, Action::Edit(Edit::Resource("gadgets"))),
        (19, Action::Rebuild(Side::Source, Ahead::Silent)),
        (1_500, Action::Edit(Edit::Rename("n"))),
    ];
    holds(&world(Plain, &steps), 4);
}

/// The earlier source was deleted while nobody saw it, and the one that took its place never owned the objects.
#[test]
fn what_an_earlier_source_left_unseen_counts_as_vanished() {
    let steps = [
        (0, Action::Edit(Edit::OnSourceVanished("Delete"))),
        (1_000, Action::Create(X)),
        (5_000, Action::Away(Side::Source)),
        (1_000, Action::Recreate(X)),
        (1_000, Action::Back(Side::Source)),
        (20_000, Action::Delete(X)),
        (90_000, Action::Create(X_CA)),
    ];
    holds(&world(Plain, &steps), 4);
}
