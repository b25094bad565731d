//! Objects of one source on one of two targets, or on both.

use super::super::action::Forever;
use super::*;

fn several(spread: Spread, sources: Sources, steps: &[(u64, Action)]) -> Plan {
    Plan { spread, ..world(sources, steps) }
}

#[test]
fn objects_are_on_several_targets() {
    every_seed_holds("SYNC_ENGINE_SEEDS_SEVERAL", 0..48, plan::of_several);
}

#[test]
fn replicas_serve_several_targets() {
    every_seed_holds("SYNC_ENGINE_SEEDS_SEVERAL_REPLICAS", 0..24, |plan| plan::of_replicas(plan::of_several(plan)));
}

#[test]
fn a_target_that_leaves_the_list_loses_its_objects_and_the_last_one_releases_the_source() {
    for sources in [Kcp, Plain] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Change(X)),
            (5_000, Action::Change(X)),
            (5_000, Action::Edit(Edit::Spread(Spread::Both))),
            (5_000, Action::Delete(X)),
        ];
        (1..=steps.len()).for_each(|until| holds(&several(Spread::Extra, sources, &steps[..until]), 2));
    }
}

/// What its consumer said last, the engine has not heard: the watch on it has failed.
#[test]
fn a_source_is_read_anew_before_it_loses_what_it_asked_for_while_it_was_out_of_sight() {
    let steps = [
        (0, Action::Create(X)),
        (8_000, Action::Change(X)),
        (3_000, Action::Away(Side::Source)),
        (34_000, Action::Change(X)),
        (140_000, Action::Edit(Edit::OnTargetChange("Recreate"))),
    ];
    holds(&several(Spread::Choice, Kcp, &steps), 16);
}

#[test]
fn a_target_that_the_document_no_longer_names_loses_its_objects() {
    for pause in [5_000, 60_000] {
        let steps = [
            (0, Action::Create(X)),
            (pause, Action::Edit(Edit::Spread(Spread::First))),
            (60_000, Action::Change(X)),
            (5_000, Action::Delete(X)),
        ];
        (2..=steps.len()).for_each(|until| holds(&several(Spread::Both, Kcp, &steps[..until]), 2));
    }
}

#[test]
fn a_target_that_was_down_serves_what_was_made_meanwhile_although_it_holds_no_state_store_of_a_new_mapping() {
    let steps = [
        (0, Action::Create(X)),
        (60_000, Action::Away(Side::Target)),
        (1_000, Action::Edit(Edit::Rename("n"))),
        (5_000, Action::Change(X)),
        (60_000, Action::Create(X_CA)),
    ];
    holds(&several(Spread::Both, Kcp, &steps), 2);
}

#[test]
fn a_start_changes_no_status_that_tells_of_a_conflict_on_one_of_two_targets() {
    let steps = [(0, Action::Meddle(X, Meddling::Squat)), (5_000, Action::Create(X))];
    holds(&several(Spread::Both, Kcp, &steps), 4);
}

#[test]
fn a_source_whose_finalizer_is_stripped_is_taken_up_again_by_the_target_that_it_is_on() {
    for spread in [Spread::Choice, Spread::Both] {
        let steps = [(0, Action::Create(X)), (60_000, Action::Strip(X)), (60_000, Action::Delete(X))];
        (2..=steps.len()).for_each(|until| holds(&several(spread, Kcp, &steps[..until]), 2));
    }
}

#[test]
fn a_source_that_is_stripped_and_edited_at_once_leaves_its_target_all_the_same() {
    let steps =
        [(0, Action::Create(X)), (60_000, Action::Strip(X)), (0, Action::Change(X)), (60_000, Action::Delete(X))];
    (3..=steps.len()).for_each(|until| holds(&several(Spread::Choice, Kcp, &steps[..until]), 4));
    let moves = [(0, Action::Edit(Edit::OnTargetChange("Recreate")))];
    let steps = [&moves[..], &steps[..]].concat();
    (4..=steps.len()).for_each(|until| holds(&several(Spread::Choice, Kcp, &steps[..until]), 4));
}

#[test]
fn what_a_target_got_after_the_sources_were_backed_up_is_kept() {
    let steps = [
        (0, Action::Create(X)),
        (40_000, Action::BackUp(Side::Source)),
        (60_000, Action::Change(X)),
        (15_000, Action::Restore(Side::Source, Ahead::Expired)),
        (60_000, Action::Delete(X)),
    ];
    (4..=steps.len()).for_each(|until| holds(&several(Spread::Extra, Kcp, &steps[..until]), 4));
}

#[test]
fn what_comes_late_to_a_target_that_its_source_has_left_goes_as_the_rest_did() {
    let late = Weather { late: 60, only_writes: true, ..Weather::default() };
    let steps = |leaves| {
        let steps = [
            (0, Action::Create(X)),
            (20_000, Action::Weather(late)),
            (0, Action::Change(X)),
            // What is on its way still comes late.
            (500, Action::Weather(Weather::default())),
            (1_500, leaves),
        ];
        several(Spread::Extra, Kcp, &steps)
    };
    // The rule names the target still, or does so no more.
    for leaves in [Action::Change(X), Action::Edit(Edit::Spread(Spread::First))] {
        holds(&steps(leaves), 24);
    }
}

#[test]
fn what_a_restored_target_brings_back_is_kept_until_its_source_is_deleted() {
    let steps = [
        (0, Action::Create(X)),
        (20_000, Action::BackUp(Side::Second)),
        (20_000, Action::Edit(Edit::Spread(Spread::Extra))),
        // Before that, it may have come late.
        (660_000, Action::Restore(Side::Second, Ahead::Expired)),
        (60_000, Action::Delete(X)),
    ];
    (4..=steps.len()).for_each(|until| holds(&several(Spread::Both, Kcp, &steps[..until]), 4));
}

#[test]
fn a_source_that_vanishes_leaves_what_it_has_on_both_targets() {
    let steps = [
        (0, Action::BackUp(Side::Source)),
        (20_000, Action::Create(X)),
        (20_000, Action::Restore(Side::Source, Ahead::Old)),
    ];
    holds(&several(Spread::Both, Plain, &steps), 4);
}

/// Nothing is written: a source that would be released stays, and what an earlier one left there with it.
#[test]
fn what_a_restored_target_brings_back_of_an_earlier_source_is_counted_where_nothing_is_written() {
    let steps = |side, last| {
        [
            (0, Action::Create(X)),
            (60_000, Action::BackUp(side)),
            (30_000, Action::Recreate(X)),
            (60_000, Action::Edit(Edit::Mode("Observe"))),
            (15_000, Action::Restore(side, Ahead::Old)),
            (5_000, last),
        ]
    };
    for last in [Action::Delete(X), Action::Unbind("a")] {
        holds(&several(Spread::Both, Kcp, &steps(Side::Second, last)), 4);
        holds(&world(Kcp, &steps(Side::Target, last)), 4);
    }
}

#[test]
fn a_source_moves_once_the_state_store_of_its_next_target_can_be_kept_again() {
    let conflicts = Weather { conflict: 60, only_writes: true, ..Weather::default() };
    let steps = [
        (0, Action::Edit(Edit::OnTargetChange("Recreate"))),
        (1_000, Action::Create(X)),
        (30_000, Action::Change(X)),
        (30_000, Action::Weather(conflicts)),
        (1_000, Action::Edit(Edit::Edition)),
        (100, Action::Change(X)),
        (5_000, Action::Weather(Weather::default())),
    ];
    holds(&several(Spread::Choice, Plain, &steps), 24);
}

/// The document that was recorded last on any target is its own. It waits for the target that holds it.
#[test]
fn a_removed_mapping_waits_for_the_target_that_holds_its_latest_document() {
    let removed = [
        (0, Action::Create(X)),
        (5_000, Action::Away(Side::Target)),
        (15_000, Action::Edit(Edit::OnSourceDelete("Orphan"))),
        (20_000, Action::Delete(X)),
        (10_000, Action::Edit(Edit::Rename("n"))),
        (60_000, Action::Crash(0)),
    ];
    let with_both = [(0, Action::Back(Side::Target)), (0, Action::Start(0))];
    let with_one =
        [&[(0, Action::Away(Side::Second))][..], &with_both, &[(120_000, Action::Back(Side::Second))]].concat();
    for start in [&with_both[..], &with_one] {
        for spread in [Spread::Extra, Spread::Both, Spread::Choice] {
            holds(&several(spread, Kcp, &[&removed[..], start].concat()), 8);
        }
    }
}

/// Where that target never comes back, nobody tells by which document the sources of a former name go.
#[test]
fn a_mapping_that_is_renamed_while_no_process_runs_waits_for_a_target_that_stays_away() {
    let steps = [
        (0, Action::Create(X_CA)),
        (8_000, Action::Away(Side::Second)),
        (8_000, Action::Crash(0)),
        (60_000, Action::Unbind("a")),
        (5_000, Action::Edit(Edit::Rename("n"))),
    ];
    for run in held(&Plan { forever: Some(Forever::Second), ..several(Spread::Extra, Kcp, &steps) }, 4) {
        let is_loss = |line: &String| line.contains("engine 0 delete configmaps") && line.contains("/x-ca");
        assert!(!run.trace.iter().any(is_loss), "{:#?}", run.trace);
    }
}

#[test]
fn a_source_follows_the_latest_document_where_a_target_comes_back_with_an_earlier_one() {
    let steps = [
        (5_000, Action::Away(Side::Second)),
        (3_000, Action::Edit(Edit::Toggle("extra"))),
        (4_000, Action::Create(X)),
        (200, Action::Edit(Edit::Toggle("ca"))),
        (90_000, Action::Crash(0)),
        (0, Action::Back(Side::Second)),
        (0, Action::Start(0)),
    ];
    for spread in [Spread::Extra, Spread::Both, Spread::Choice] {
        holds(&Plan { spread, elects: true, ..world(Kcp, &steps) }, 8);
    }
}

/// None of its targets is home, or another one that each start reads.
#[test]
fn a_removed_mapping_is_known_after_a_restart_wherever_its_targets_are() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Change(X)),
        (10_000, Action::Edit(Edit::Remove)),
        (60_000, Action::Crash(0)),
        (0, Action::Start(0)),
        (30_000, Action::Delete(X)),
    ];
    let leaves = [&[(0, Action::Edit(Edit::OnMappingRemoved("Delete")))], &steps[..]].concat();
    for sources in [Kcp, Plain] {
        holds(&several(Spread::Second, sources, &steps), 8);
        (5..=leaves.len()).for_each(|until| holds(&several(Spread::Second, sources, &leaves[..until]), 2));
    }
}

/// The target that is away is home, by which a start knows of the other.
#[test]
fn no_target_is_served_before_home_has_recorded_the_mapping() {
    let steps = [
        (9, Action::Away(Side::Target)),
        (5_000, Action::Create(X)),
        (5_000, Action::Change(X)),
        (10_000, Action::Edit(Edit::Remove)),
        (5_000, Action::Back(Side::Target)),
        (60_000, Action::Crash(0)),
        (0, Action::Start(0)),
        (30_000, Action::Delete(X)),
    ];
    for spread in [Spread::Extra, Spread::Both, Spread::Choice] {
        holds(&several(spread, Kcp, &steps), 8);
    }
}

/// Whoever can write ConfigMaps on one target has no say on the others. The engine waits there until a person takes that out.
#[test]
fn a_document_that_somebody_writes_into_the_state_store_on_a_target_runs_nowhere() {
    let steps = [
        (0, Action::Create(X)),
        (30_000, Action::Usurp(Side::Second)),
        (5_000, Action::Crash(0)),
        (0, Action::Start(0)),
        (30_000, Action::Change(X)),
        (60_000, Action::Usurp(Side::Second)),
    ];
    for spread in [Spread::Both, Spread::Second] {
        for run in held(&several(spread, Kcp, &steps), 4) {
            assert!(!run.trace.iter().any(|line| line.contains("-foreign")), "{:#?}", run.trace);
        }
    }
}

/// Home is lost, and with it what a start knows of the document in force. The target that holds nothing does not have the file
/// speak for the other one, which still holds what the file has taken out meanwhile.
#[test]
fn a_target_without_a_state_store_has_no_say_on_the_others_where_home_is_lost() {
    let steps = [
        (0, Action::Edit(Edit::MaxLost(0))),
        (5_000, Action::Edit(Edit::Toggle("extra"))),
        (5_000, Action::Create(SourceRef { resource: "gadgets", ..X_CA })),
        (5_000, Action::Create(X)),
        (180_000, Action::Crash(0)),
        (0, Action::Edit(Edit::Toggle("extra"))),
        (0, Action::Rebuild(Side::Target, Ahead::Old)),
        (0, Action::Start(0)),
    ];
    for spread in [Spread::Extra, Spread::Both, Spread::Choice] {
        holds(&several(spread, Kcp, &steps), 4);
    }
}

/// A source is on the second target. Somebody takes the names of its targets off it, and the mapping gives the first one: it stays
/// there, also where the mapping gives the second one again.
#[test]
fn what_is_on_the_target_that_a_source_may_not_move_to_is_counted() {
    let steps = [
        // The second and the fourth thing that its consumer writes is for the second target.
        (0, Action::Create(SourceRef { resource: "gadgets", ..X_CA })),
        (5_000, Action::Create(X)),
        (5_000, Action::Change(X)),
        (5_000, Action::Meddle(X, Meddling::Squat)),
        (5_000, Action::Forge(X)),
        (30_000, Action::Change(X)),
    ];
    holds(&several(Spread::Choice, Plain, &steps), 4);
}

/// The finalizer of the successor is about the other target.
#[test]
fn what_an_earlier_source_left_where_its_successor_never_went_is_not_counted_once_that_leaves_the_filter() {
    let steps = [
        (0, Action::Create(X)),
        // What its consumer writes the third time leaves the filter.
        (4_000, Action::Change(X)),
        (4_000, Action::Away(Side::Second)),
        (10_000, Action::Recreate(X)),
        (10_000, Action::Edit(Edit::When)),
    ];
    holds(&several(Spread::Both, Kcp, &steps), 4);
}

/// Its watch is silent, so only the answers to the deletions tell that the objects are gone.
#[test]
fn a_source_does_not_wait_for_what_it_lost_on_a_target_before_that_went_away() {
    let other = SourceRef { resource: "gadgets", ..X };
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Change(X)),
        (20_000, Action::Silence(Side::Second)),
        // What its consumer writes the third time is for the first target alone.
        (5_000, Action::Change(X)),
        (20_000, Action::Away(Side::Second)),
        (60_000, Action::Create(other)),
        (5_000, Action::Delete(other)),
    ];
    for sources in [Kcp, Plain] {
        holds(&Plan { forever: Some(Forever::Second), ..several(Spread::Extra, sources, &steps) }, 4);
    }
}

/// Its consumer removes the annotation that names its targets. Nobody can tell whether the one that stays away has objects of it.
#[test]
fn a_source_that_names_no_target_any_more_is_held_while_one_is_away() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Away(Side::Second)),
        (5_000, Action::Delete(X)),
        (5_000, Action::Meddle(X, Meddling::Squat)),
        (5_000, Action::Forge(X)),
    ];
    for sources in [Kcp, Plain] {
        holds(&Plan { forever: Some(Forever::Second), ..several(Spread::Both, sources, &steps) }, 4);
    }
}

/// A person takes an address that is gone out of every state store, and leaves the document in each as it is.
#[test]
fn the_document_in_force_is_the_one_that_an_engine_recorded_last() {
    let steps = [
        (0, Action::Create(X)),
        (0, Action::Create(SourceRef { tenant: "b", ..X })),
        (8_000, Action::Away(Side::Second)),
        (30_000, Action::Unbind("a")),
        (30_000, Action::Edit(Edit::Toggle("widget"))),
        (60_000, Action::Crash(0)),
    ];
    holds(&Plan { forever: Some(Forever::Second), ..several(Spread::Choice, Kcp, &steps) }, 4);
}
