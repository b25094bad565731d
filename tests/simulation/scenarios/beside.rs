//! Objects beside their sources, where consumers can write them.

use super::*;

fn beside(sources: Sources, steps: &[(u64, Action)]) -> Plan {
    Plan { is_beside: true, ..world(sources, steps) }
}

#[test]
fn objects_are_beside_their_sources() {
    every_seed_holds("SYNC_ENGINE_SEEDS_BESIDE", 0..48, plan::of_beside);
}

#[test]
fn an_object_beside_its_source_follows_it_and_goes_with_it() {
    for sources in [Kcp, Plain] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Change(X)),
            (5_000, Action::Edit(Edit::Edition)),
            (5_000, Action::Edit(Edit::Toggle("widget"))),
            (5_000, Action::Delete(X)),
        ];
        holds(&beside(sources, &steps), 2);
    }
}

#[test]
fn a_consumer_that_strips_or_relabels_an_object_does_not_get_hold_of_it() {
    for meddling in [Meddling::Strip, Meddling::Disguise, Meddling::Fields] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Meddle(X, meddling)),
            (5_000, Action::Change(X)),
            (5_000, Action::Delete(X)),
        ];
        holds(&beside(Kcp, &steps), 2);
        holds(&beside(Plain, &steps[..3]), 2);
    }
}

/// It stands in the way of an edit that gives it another kind: who saw it before knows it still, and another process does not.
#[test]
fn an_object_that_a_consumer_strips_or_relabels_goes_with_no_edit_of_its_kind() {
    for meddling in [Meddling::Strip, Meddling::Disguise] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Edit(Edit::Kind("Secret"))),
            (5_000, Action::Meddle(X, meddling)),
            (5_000, Action::Stop(0)),
            (5_000, Action::Start(0)),
        ];
        holds(&beside(Kcp, &steps[..3]), 2);
        holds(&beside(Kcp, &steps), 2);
    }
}

#[test]
fn a_claim_that_is_taken_back_deletes_nothing_and_holds_up_no_deletion() {
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Create(X_CA)),
        (5_000, Action::Unclaim("a")),
        (5_000, Action::Change(X)),
        (5_000, Action::Delete(X_CA)),
        (60_000, Action::Claim("a")),
    ];
    holds(&beside(Kcp, &steps[..5]), 2);
    holds(&beside(Kcp, &steps), 2);
}

/// It goes neither with its rule, which is gone, nor with its source.
#[test]
fn what_a_restored_server_has_again_of_a_kind_that_no_record_names_stays() {
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Edit(Edit::Toggle("extra"))),
        (20_000, Action::BackUp(Side::Source)),
        (1_000, Action::Edit(Edit::Toggle("extra"))),
        (250_000, Action::Restore(Side::Source, Ahead::Expired)),
        (10_000, Action::Delete(X)),
    ];
    (5..=steps.len()).for_each(|until| holds(&beside(Kcp, &steps[..until]), 4));
}

/// Nothing is watched at the target, and each of them asks once a minute whether it still answers.
#[test]
fn a_quiet_target_is_asked_whether_it_answers() {
    let steps = [
        (21_897, Action::Start(1)),
        (2_312, Action::Start(2)),
        (201_325, Action::Create(SourceRef { resource: "gadgets", ..X })),
    ];
    let run = &held(&beside(Kcp, &steps), 4)[0];
    assert!(run.trace.iter().any(|line| line.contains("engine 1 get /version")), "it is asked");
}

/// The former object may be of a kind that is not listed yet.
#[test]
fn a_process_that_starts_makes_no_object_beside_that_exists_under_another_kind() {
    holds(&another_kind_while_no_process_runs(Kcp), 2);
    holds(&another_kind_while_no_process_runs(Plain), 2);
}

/// Only the state store names the former kind.
fn another_kind_while_no_process_runs(sources: Sources) -> Plan {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::Toggle("ca"))),
        (5_000, Action::Crash(0)),
        (0, Action::Edit(Edit::Kind("Secret"))),
        (0, Action::Start(0)),
        (20_000, Action::Change(X)),
    ];
    beside(sources, &steps)
}

#[test]
fn a_state_store_that_was_restored_is_written_again() {
    // Nothing tells the engine of it before it looks, every two minutes.
    for then in [(1_000, Action::Change(X)), (90_000, Action::Meddle(X, Meddling::Delete))] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::BackUp(Side::Target)),
            (1_000, Action::Edit(Edit::Edition)),
            (5_000, Action::Restore(Side::Target, Ahead::Silent)),
            then,
        ];
        holds(&beside(Kcp, &steps), 2);
    }
}

/// It is in the middle of a release again that is over. A process that starts would make it once more.
#[test]
fn a_release_that_home_has_again_is_over_for_the_process_that_runs() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::Toggle("ca"))),
        (500, Action::BackUp(Side::Target)),
        (5_000, Action::Restore(Side::Target, Ahead::Silent)),
    ];
    for sources in [Kcp, Plain] {
        for run in held(&beside(sources, &steps), 2) {
            let mut since = run.trace.iter().skip_while(|line| !line.contains("** Restore("));
            assert!(since.any(|line| line.contains(" delete configmaps  sync-engine/main.m.release at target: 200")));
        }
    }
}

#[test]
fn objects_beside_their_sources_go_with_a_workspace_that_is_unbound() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Unbind("a")),
        (60_000, Action::Bind("a")),
        (5_000, Action::Create(X)),
        (5_000, Action::DeleteWorkspace("a")),
    ];
    holds(&beside(Kcp, &steps), 2);
}

#[test]
fn a_source_that_is_created_anew_says_for_how_long_the_deletion_of_what_the_one_before_had_is_stuck() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::OnSourceVanished("Delete"))),
        (5_000, Action::Meddle(X, Meddling::Hold)),
        (5_000, Action::Delete(X)),
        (70_000, Action::Recreate(X)),
    ];
    holds(&beside(Kcp, &steps), 2);
}
