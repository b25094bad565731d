//! Edits that a person has to approve, and edits in waves.

use super::super::action::Forever;
use super::super::mapping::{MORE, More, OPEN, PASSWORD};
use super::*;

/// A person approves what the record names, and the edit before was another one.
#[test]
fn an_approval_is_of_the_edit_that_was_shown() {
    for pause in [100, 1_000, 10_000] {
        let steps = [
            (0, Action::Create(X)),
            (0, Action::Edit(Edit::Toggle("widget"))),
            (5_000, Action::Edit(Edit::MaxLost(0))),
            (30_000, Action::Edit(Edit::Toggle("ca"))),
            (30_000, Action::Edit(Edit::Toggle("ca"))),
            (0, Action::Edit(Edit::Toggle("widget"))),
            (pause, Action::Approve),
        ];
        holds_in_both(&steps, 4);
    }
}

/// A rehearsal on no source at all says nothing.
#[test]
fn an_edit_is_held_while_neither_sources_nor_their_target_are_in_sight() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::MaxLost(0))),
        (10_000, Action::Pause(0)),
        (20_000, Action::Address(Side::Source)),
        (120_000, Action::Edit(Edit::Toggle("ca"))),
    ];
    holds(&world(Kcp, &steps), 4);
}

/// Whatever the reason of a deletion is: where the document before would have kept the object, the edit loses it.
#[test]
fn what_an_edit_takes_from_a_target_is_held_as_what_it_takes_from_the_rules() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::MaxLost(0))),
        (30_000, Action::Edit(Edit::Spread(Spread::First))),
        (60_000, Action::Change(X)),
    ];
    holds(&Plan { spread: Spread::Both, ..world(Kcp, &steps) }, 8);
}

/// The same of sources that vanished, which no list of sources shows.
#[test]
fn what_an_edit_takes_of_sources_that_vanished_is_held() {
    let steps = [
        (0, Action::BackUp(Side::Source)),
        (1_000, Action::Create(X)),
        (5_000, Action::Edit(Edit::MaxLost(0))),
        (5_000, Action::Restore(Side::Source, Ahead::Expired)),
        (90_000, Action::Edit(Edit::OnSourceVanished("Delete"))),
    ];
    for run in held(&world(Plain, &steps), 4) {
        assert!(!run.trace.iter().any(|line| line.contains("engine 0 delete configmaps")), "{:#?}", run.trace);
    }
}

/// It waits for something, so that it has not come to the end of the edit before. Whether that edit or an earlier one says that what
/// vanished goes, it goes after its time.
#[test]
fn what_a_source_has_that_vanishes_in_the_middle_of_a_release_is_kept_for_as_long_as_ever() {
    let steps = |first, then| {
        [
            (0, Action::NoWidgets),
            (0, Action::Edit(Edit::Toggle("widget"))),
            (0, Action::Edit(first)),
            (7, Action::BackUp(Side::Source)),
            (38_000, Action::Create(X)),
            (14_000, Action::Edit(then)),
            (48_000, Action::Restore(Side::Source, Ahead::Silent)),
        ]
    };
    let vanished = Edit::OnSourceVanished("Delete");
    for (first, then) in [(Edit::Edition, vanished), (vanished, Edit::Edition)] {
        holds(&Plan { forever: Some(Forever::NoWidgets), ..world(Plain, &steps(first, then)) }, 4);
    }
}

/// A gate waits for the target that most of a wave is on. In each tenant the second source that is created is on the second one.
#[test]
fn a_target_that_goes_away_in_the_middle_of_a_wave_lets_no_gate_pass() {
    let of = |tenant| (SourceRef { tenant, ..X_CA }, SourceRef { tenant, ..X });
    let ((a, on_second_a), (b, on_second_b)) = (of("a"), of("b"));
    for pause in [2_000, 5_000] {
        let steps = [
            (0, Action::Create(a)),
            (0, Action::Create(on_second_a)),
            (0, Action::Create(b)),
            (0, Action::Create(on_second_b)),
            (5_000, Action::Delete(a)),
            (0, Action::Delete(b)),
            (30_000, Action::Edit(Edit::Edition)),
            (pause, Action::Away(Side::Second)),
            (120_000, Action::Back(Side::Second)),
        ];
        holds(&Plan { spread: Spread::Choice, in_waves: true, ..world(Kcp, &steps) }, 8);
    }
}

/// The mode is the brake: it counts also where the rest of the document that has it is refused, and for a process that starts.
#[test]
fn the_mode_in_the_file_counts_for_the_document_in_force() {
    for mode in ["Observe", "Suspend"] {
        let steps = [
            (0, Action::Create(X)),
            (30_000, Action::Edit(Edit::Mode(mode))),
            (5_000, Action::Edit(Edit::Resource("gadgets"))),
            (5_000, Action::Change(X)),
            (5_000, Action::Crash(0)),
            (5_000, Action::Start(0)),
            (30_000, Action::Change(X)),
        ];
        (3..=steps.len()).for_each(|until| holds(&world(Kcp, &steps[..until]), 2));
    }
}

/// A document that takes in no source writes no state store, which names the shard of the last binding there still.
#[test]
fn a_document_of_other_sources_does_not_wait_for_a_shard_that_has_left() {
    let steps = [
        (70_000, Action::Pause(0)),
        (1_500, Action::Unbind("a")),
        (1_500, Action::Edit(Edit::Resource("gadgets"))),
        (90_000, Action::Create(SourceRef { tenant: "b", ..X })),
    ];
    holds(&world(Kcp, &steps), 4);
}

/// What happens to the sources without it is no reason to hold a removal, though none was planned since.
#[test]
fn a_removal_is_not_held_for_what_happens_without_it() {
    let removed_after = |pause| {
        let steps = [
            (0, Action::Edit(Edit::OnMappingRemoved("Delete"))),
            (0, Action::Edit(Edit::MaxLost(50))),
            (0, Action::Edit(Edit::Toggle("widget"))),
            (5_000, Action::Create(X)),
            (30_000, Action::NoWidgets),
            (pause, Action::Edit(Edit::Remove)),
        ];
        Plan { forever: Some(Forever::NoWidgets), ..world(Kcp, &steps) }
    };
    hold(&[0, 300, 1_000, 3_000].map(removed_after), 4);
}

/// What leaves is the document in force, by its policy, and not the edit that nobody has approved.
#[test]
fn a_mapping_whose_file_goes_while_an_edit_is_held_leaves_by_the_document_in_force() {
    let steps = [
        (0, Action::Edit(Edit::OnMappingRemoved("Delete"))),
        (0, Action::Edit(Edit::MaxLost(0))),
        (0, Action::Edit(Edit::Toggle("widget"))),
        (5_000, Action::Create(X)),
        (60_000, Action::Edit(Edit::Toggle("widget"))),
        (30_000, Action::Edit(Edit::Remove)),
        (30_000, Action::Approve),
    ];
    holds_in_both(&steps, 4);
}

/// It is not recorded: the state store goes on to name the sources before it.
#[test]
fn a_document_that_observes_comes_to_rest_with_other_sources() {
    let steps = [(30_000, Action::Edit(Edit::Mode("Observe"))), (30_000, Action::Edit(Edit::Resource("gadgets")))];
    holds_in_both(&steps, 2);
}

/// A process that starts knows what is held once it has planned its sources: until then, the record stays as a person has read it.
#[test]
fn a_record_of_what_is_held_outlives_the_process_that_wrote_it() {
    let b = |source| SourceRef { tenant: "b", ..source };
    let edit = |id| Action::Edit(Edit::Related(id));
    let steps = [
        (0, Action::Create(b(X_CA))),
        (1_250, Action::Create(X)),
        (1_314, Action::Create(b(X))),
        (3_864, Action::Edit(Edit::MaxLost(0))),
        (5_344, edit(MORE.id)),
        (1_091, edit(MORE.id)),
        (685, Action::Create(X_CA)),
        (16_623, edit(MORE.id)),
    ];
    for more in [More::Shared, More::Each] {
        holds(&Plan { has_related: true, more: Some(more), ..world(Kcp, &steps) }, 2);
    }
}

/// A document that was removed before anything could be recorded has no claim on the sources: the file that is put back has.
#[test]
fn a_document_that_was_never_recorded_gives_way_to_the_file_that_is_put_back() {
    let put_back = |(on_removed, pause)| {
        let steps = [
            (0, Action::Deny("create")),
            (0, Action::Create(X)),
            (0, Action::Edit(Edit::OnMappingRemoved(on_removed))),
            (pause, Action::Edit(Edit::Remove)),
            (5_500, Action::Edit(Edit::OnExit("Delete"))),
            (80_000, Action::Edit(Edit::Edition)),
            (90_000, Action::Change(X)),
        ];
        Plan { has_forms: true, ..world(Kcp, &steps) }
    };
    hold(&[("Retain", 0), ("Delete", 0), ("Retain", 5_000), ("Delete", 5_000)].map(put_back), 4);
}

/// What was in order when it was seen last tells nothing of a wave that goes on.
#[test]
fn a_gate_waits_for_sources_whose_server_has_gone_away() {
    let steps = [
        (0, Action::Create(X_CA)),
        (12_000, Action::Create(X)),
        (59_000, Action::Edit(Edit::Edition)),
        (1_500, Action::Away(Side::Source)),
        (98_000, Action::Change(X)),
        (20_000, Action::Back(Side::Source)),
    ];
    for sources in [Kcp, Plain] {
        holds(&Plan { in_waves: true, has_related: true, has_operators: true, ..world(sources, &steps) }, 8);
    }
}

/// Two mappings on one resource hand a field of the status over in one commit, and the edit of the first one is held: until it is in
/// force, both would write the field, for ever.
#[test]
fn a_field_of_the_status_has_one_writer_while_the_edit_that_gives_it_up_is_held() {
    let steps = [
        (0, Action::Schema),
        (0, Action::Edit(Edit::Guest)),
        (0, Action::Edit(Edit::Status("edition"))),
        (0, Action::Edit(Edit::Edition)),
        (0, Action::Create(X)),
        (30_000, Action::Edit(Edit::MaxLost(0))),
        (30_000, Action::Edit(Edit::Toggle("ca"))),
        (30_000, Action::Edit(Edit::Hand("edition"))),
    ];
    holds_in_both(&steps, 4);
}

/// The same where the mapping that takes it over is new, also for a process that starts.
#[test]
fn a_new_mapping_waits_for_the_edit_that_gives_up_a_field_which_it_takes_over() {
    let steps = [
        (0, Action::Schema),
        (0, Action::Edit(Edit::Status("edition"))),
        (0, Action::Edit(Edit::Edition)),
        (0, Action::Create(X)),
        (30_000, Action::Edit(Edit::MaxLost(0))),
        (30_000, Action::Edit(Edit::Toggle("ca"))),
        (30_000, Action::Edit(Edit::Hand("edition"))),
        (0, Action::Edit(Edit::Guest)),
    ];
    let (restart, approve) = ([(30_000, Action::Crash(0)), (0, Action::Start(0))], [(30_000, Action::Approve)]);
    for (sources, again) in [(Kcp, &restart[..]), (Plain, &restart[..0])] {
        for run in held(&world(sources, &[&steps[..], again, &approve[..]].concat()), 2) {
            let is_of_guest = |line: &String| line.contains("/x-g at ");
            let mut before = run.trace.iter().take_while(|line| !line.contains("** Approve"));
            assert!(!before.any(is_of_guest) && run.trace.iter().any(is_of_guest), "{:#?}", run.trace);
        }
    }
}

/// A person's word counts until the text changes, although nothing else holds the edit any more, and for a process that starts.
#[test]
fn an_edit_that_a_person_rejected_stays_out_when_nothing_is_lost_any_more() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::MaxLost(0))),
        (30_000, Action::Edit(Edit::Toggle("ca"))),
        (30_000, Action::Reject),
        (30_000, Action::Delete(X)),
        (60_000, Action::Crash(0)),
        (5_000, Action::Start(0)),
        (60_000, Action::Create(X_CA)),
    ];
    holds_in_both(&steps, 4);
}

/// The engine ends before it has recorded that, at one moment or another, and starts once nothing else holds the edit.
#[test]
fn an_edit_that_a_person_rejected_stays_out_where_the_engine_ends_before_it_has_recorded_that() {
    let rejected = |pause| {
        [
            (0, Action::Create(X)),
            (5_000, Action::Edit(Edit::MaxLost(0))),
            (30_000, Action::Edit(Edit::Toggle("ca"))),
            (30_000, Action::Reject),
            (pause, Action::Crash(0)),
            (0, Action::Delete(X)),
            (30_000, Action::Start(0)),
            (60_000, Action::Create(X_CA)),
        ]
    };
    let plans: Vec<_> = (0..20).map(|moment| world(Kcp, &rejected(100 + moment * 10))).collect();
    for run in hold(&plans, 1) {
        // The edit takes this object out of the mapping.
        let is_made = |line: &String| line.contains(" apply configmaps ") && line.contains("/x-ca-ca at target");
        assert!(run.trace.iter().any(is_made), "{:#?}", run.trace);
    }
}

/// An author raises the limit in the edit that needs it.
#[test]
fn an_edit_is_judged_by_the_limits_of_the_document_before() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::MaxLost(0))),
        (30_000, Action::Edit(Edit::Toggle("ca"))),
        (10_000, Action::Edit(Edit::MaxLost(OPEN))),
        (60_000, Action::Change(X)),
    ];
    holds_in_both(&steps, 2);
}

/// While a source is worked on that follows an edit, another edit takes the place of that: both lose what the document in force keeps.
#[test]
fn a_source_of_a_wave_loses_nothing_while_another_edit_takes_the_place_of_the_one_that_it_follows() {
    let edits = [
        (0, Action::Create(X)),
        (30_000, Action::Edit(Edit::Toggle("ca"))),
        (5_000, Action::Edit(Edit::OnIdentityChange("Recreate"))),
    ];
    let changes = [(4, Action::Change(X)); 15];
    for sources in [Kcp, Plain] {
        holds(&Plan { in_waves: true, ..world(sources, &[&edits[..], &changes].concat()) }, 16);
    }
}

/// The source is deleted while a reconcile is under way that takes it for living: by the document in force, all of it goes from now on.
/// That is no reason for the edit to take away what only the edit loses of a living source.
#[test]
fn what_an_edit_takes_of_a_source_is_compared_with_the_same_state_of_that_source() {
    let deleted_after = |(sources, pause)| {
        let steps = [
            (0, Action::Create(X)),
            (30_000, Action::Edit(Edit::Related(PASSWORD.id))),
            (5_000, Action::Change(X)),
            (pause, Action::Delete(X)),
        ];
        Plan { in_waves: true, has_related: true, ..world(sources, &steps) }
    };
    hold(&[(Kcp, 2), (Kcp, 6), (Kcp, 12), (Plain, 2), (Plain, 6), (Plain, 12)].map(deleted_after), 2);
}

/// Its author may be about to take it back.
#[test]
fn waves_stand_still_while_the_file_is_broken() {
    let steps = [
        (0, Action::Create(X)),
        (0, Action::Create(X_CA)),
        (30_000, Action::Edit(Edit::Edition)),
        (3_000, Action::Edit(Edit::Break)),
        (120_000, Action::Change(X)),
    ];
    for run in held(&Plan { in_waves: true, ..world(Kcp, &steps) }, 4) {
        let is_step =
            |line: &&String| line.contains(" apply configmaps ") && line.contains("/main.m.release at target");
        let until = |what: &'static str| run.trace.iter().take_while(move |line| !line.contains(what)).filter(is_step);
        let [before, after] = ["** Edit(Break)", "** Change("].map(|what| until(what).count());
        assert!(before > 0 && after == before, "{:#?}", run.trace);
    }
}

/// Nothing has followed from it, and nobody else knows of it.
#[test]
fn what_a_file_said_last_counts_for_nothing_where_it_went_before_that_was_recorded() {
    let unrecorded = Weather { conflict: 100, only_writes: true, ..Weather::default() };
    let released = [
        (0, Action::Create(X)),
        (70_000, Action::Weather(unrecorded)),
        (0, Action::Edit(Edit::OnSourceDelete("Orphan"))),
        (5_000, Action::Edit(Edit::Remove)),
        (1_000, Action::Weather(Weather::default())),
        (5_000, Action::Delete(X)),
    ];
    let never_read = [
        (0, Action::Create(X)),
        (70_000, Action::Away(Side::Target)),
        (0, Action::Crash(0)),
        (0, Action::Start(0)),
        (1_000, Action::Edit(Edit::Toggle("ca"))),
        (5_000, Action::Edit(Edit::Remove)),
        (5_000, Action::Delete(X)),
        (1_000, Action::Back(Side::Target)),
    ];
    holds_in_both(&released, 4);
    holds_in_both(&never_read, 4);
}

/// An object has its former id again, and is of a source that is gone.
#[test]
fn an_object_that_a_restore_gives_its_former_id_is_counted_as_orphaned() {
    let steps = [
        (0, Action::Create(X_CA)),
        (1_000, Action::Create(X)),
        (12_000, Action::Edit(Edit::Id("first"))),
        (721, Action::BackUp(Side::Target)),
        (130_000, Action::Rebuild(Side::Source, Ahead::Expired)),
        (60_000, Action::Restore(Side::Target, Ahead::Expired)),
    ];
    holds(&Plan { in_waves: true, ..world(Plain, &steps) }, 4);
}
