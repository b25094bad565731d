//! Copies of Secrets, their originals, and the permission claim for them.

use super::super::mapping::{CONNECTION, OPEN, PASSWORD};
use super::*;

/// The same with related objects.
fn related(sources: Sources, steps: &[(u64, Action)]) -> Plan {
    Plan { has_related: true, has_operators: true, ..world(sources, steps) }
}

/// Whenever it meets what the engine does about something else.
const MOMENTS: [u64; 6] = [0, 5, 10, 20, 40, 400];

#[test]
fn a_copy_that_is_created_late_goes_with_its_source() {
    let late = Weather { late: 30, only_writes: true, ..Weather::default() };
    for sources in [Kcp, Plain] {
        let steps = [
            (0, Action::Weather(late)),
            (0, Action::Create(X)),
            (1_000, Action::Secret(X, Side::Target, Secrecy::Put)),
            (1_000, Action::Delete(X)),
            (70_000, Action::Weather(Weather::default())),
        ];
        holds(&related(sources, &steps), 24);
    }
}

#[test]
fn a_copy_follows_an_original_that_was_deleted_and_created_while_no_engine_ran() {
    for change in [Secrecy::Put, Secrecy::Retype] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Stop(0)),
            (10, Action::Secret(X, Side::Source, Secrecy::Delete)),
            (10, Action::Secret(X, Side::Source, Secrecy::Put)),
            (10, Action::Secret(X, Side::Source, change)),
            (10, Action::Secret(X, Side::Target, Secrecy::Retype)),
            (10, Action::Start(0)),
        ];
        holds(&related(Kcp, &steps), 4);
    }
}

#[test]
fn a_claim_that_is_taken_back_holds_no_deletion_up() {
    for pause in MOMENTS {
        for returns in [5, 500, 60_000] {
            let steps = [
                (0, Action::Create(X)),
                (5_000, Action::Weather(Weather { slow: 40, ..Weather::default() })),
                (0, Action::Delete(X)),
                (pause, Action::Unclaim("a")),
                (returns, Action::Claim("a")),
                (5_000, Action::Weather(Weather::default())),
            ];
            holds(&related(Kcp, &steps), 2);
        }
    }
}

#[test]
fn a_claim_that_is_taken_back_for_ever_deletes_nothing() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Unclaim("a")),
        (5_000, Action::Secret(X, Side::Source, Secrecy::Retype)),
        (5_000, Action::Secret(X, Side::Source, Secrecy::Delete)),
        (5_000, Action::Create(X_CA)),
    ];
    holds(&related(Kcp, &steps), 4);
}

/// kcp applies no claim of a binding that is being deleted: the copy beside the source stays out of reach.
#[test]
fn a_claim_that_is_accepted_while_the_binding_is_being_deleted_comes_too_late() {
    let steps = [
        (0, Action::Create(X)),
        (10_000, Action::Unclaim("a")),
        (5_000, Action::Meddle(X, Meddling::Hold)),
        (5_000, Action::Unbind("a")),
        (10_000, Action::Claim("a")),
        (90_000, Action::Release),
    ];
    holds(&related(Kcp, &steps), 4);
}

#[test]
fn a_copy_that_is_taken_over_and_has_another_type_is_created_anew() {
    for pause in MOMENTS {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Secret(X, Side::Source, Secrecy::Retype)),
            (pause / 10, Action::Recreate(X)),
            (5_000, Action::Stop(0)),
            (10, Action::Recreate(X)),
            (10, Action::Secret(X, Side::Source, Secrecy::Retype)),
            (10, Action::Start(0)),
        ];
        holds(&related(Kcp, &steps), 2);
    }
}

#[test]
fn a_foreign_secret_in_the_place_of_a_copy_is_left_alone() {
    let worlds = MOMENTS.map(|pause| {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Secret(X, Side::Target, Secrecy::DeleteCopy)),
            (pause / 10, Action::Secret(X, Side::Target, Secrecy::Squat)),
            (5_000, Action::Secret(X, Side::Source, Secrecy::DeleteCopy)),
            (pause / 10, Action::Secret(X, Side::Source, Secrecy::Squat)),
            (5_000, Action::Secret(X, Side::Source, Secrecy::Retype)),
            (5_000, Action::Secret(X, Side::Target, Secrecy::Delete)),
            (5_000, Action::Delete(X)),
        ];
        related(Plain, &steps)
    });
    hold(&worlds, 2);
}

#[test]
fn a_copy_whose_rule_is_removed_goes_unless_a_limit_holds_it() {
    for most in [0, OPEN] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Edit(Edit::MaxLost(most))),
            (5_000, Action::Edit(Edit::Related(PASSWORD.id))),
            (5_000, Action::Edit(Edit::Related(CONNECTION.id))),
        ];
        holds(&related(Kcp, &steps), 2);
    }
}

#[test]
fn a_former_source_out_of_sight_ends_the_watch_on_copies_whose_rule_is_gone() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::Related(PASSWORD.id))),
        (5_000, Action::Edit(Edit::Resource("gadgets"))),
        (20_000, Action::Rebuild(Side::Source, Ahead::Old)),
    ];
    holds(&related(Plain, &steps), 4);
}

/// The server has passed the version that was heard before, and no version goes back.
#[test]
fn what_is_made_after_a_restore_while_the_engine_stood_still_is_seen() {
    let secret = |secrecy| Action::Secret(X, Side::Source, secrecy);
    for [gone, lost, made] in [
        [secret(Secrecy::Delete), secret(Secrecy::Put), secret(Secrecy::Put)],
        [Action::Delete(X), Action::Create(X), Action::Create(X_CA)],
    ] {
        let steps = [
            (0, Action::Create(X)),
            (5_000, gone),
            (10_000, Action::BackUp(Side::Source)),
            (1_000, Action::Pause(0)),
            (1_000, lost),
            (5_000, Action::Restore(Side::Source, Ahead::Silent)),
            (1_000, made),
            (5_000, Action::Resume(0)),
        ];
        holds(&related(Plain, &steps), 4);
    }
}

#[test]
fn a_deletion_that_is_held_stays_held_while_its_workspace_is_engaged_anew() {
    let steps = [
        (0, Action::Create(X)),
        (2_000, Action::Silence(Side::Source)),
        (6_000, Action::Unclaim("a")),
        (4_000, Action::Edit(Edit::MaxLost(0))),
        (6_000, Action::Edit(Edit::Toggle("ca"))),
    ];
    holds(&related(Kcp, &steps), 1);
}

#[test]
fn a_copy_goes_after_what_names_it_was_written_without_it() {
    let steps = [
        (0, Action::Create(X)),
        (120_000, Action::Deny("apply")),
        (5_000, Action::Edit(Edit::Related(PASSWORD.id))),
        (30_000, Action::Allow),
    ];
    for sources in [Kcp, Plain] {
        let runs = held(&related(sources, &steps), 4);
        let is_deleted = |line: &String| line.contains("delete secrets") && line.contains("/x-password ");
        assert!(runs[0].trace.iter().any(is_deleted), "the copy goes");
    }
}

#[test]
fn a_copy_in_whose_place_people_made_a_secret_takes_it_over_where_the_mapping_says_so() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Secret(X, Side::Target, Secrecy::DeleteCopy)),
        (0, Action::Secret(X, Side::Target, Secrecy::Squat)),
        (20_000, Action::Edit(Edit::Adopt)),
        (60_000, Action::Secret(X, Side::Source, Secrecy::Put)),
        (20_000, Action::Delete(X)),
    ];
    (4..=steps.len()).for_each(|until| holds(&related(Plain, &steps[..until]), 2));
}

/// News of an original queues its source: no other event and no timer is needed.
#[test]
fn a_copy_follows_its_original_within_a_second() {
    let steps = [
        (0, Action::Create(X)),
        (60_000, Action::Secret(X, Side::Source, Secrecy::Put)),
        (60_000, Action::Secret(X, Side::Source, Secrecy::Put)),
        (60_000, Action::Secret(X, Side::Target, Secrecy::Put)),
        (60_000, Action::Secret(X, Side::Target, Secrecy::Put)),
    ];
    let trace = &held(&related(Kcp, &steps), 4)[0].trace;
    let seconds = |line: &str| line.split_whitespace().next().and_then(|time| time.parse::<f64>().ok());
    let until = |step: Action, copy: &str| {
        let at = trace.iter().rposition(|line| line.ends_with(&format!("** {step:?}"))).expect("the step");
        let line = trace[at..].iter().find(|line| line.contains("engine 0") && line.contains(copy)).expect("a write");
        seconds(line).expect("a time") - seconds(&trace[at]).expect("a time")
    };
    assert!(until(Action::Secret(X, Side::Source, Secrecy::Put), "apply secrets") < 1.0, "{trace:#?}");
    assert!(until(Action::Secret(X, Side::Target, Secrecy::Put), "patch secrets") < 1.0, "{trace:#?}");
}

/// Nothing says any more that an object whose rule is gone refers to a copy.
#[test]
fn an_object_whose_rule_is_removed_while_it_cannot_be_deleted_goes_in_any_order() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Deny("delete")),
        (5_000, Action::Delete(X)),
        (60_000, Action::Edit(Edit::Toggle("ca"))),
        (20_000, Action::Allow),
    ];
    holds(&related(Kcp, &steps), 8);
}
