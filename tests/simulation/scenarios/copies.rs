//! Copies of Secrets that all sources of a namespace share, that a label selects, or that a list names.

use super::super::mapping::{MORE, More};
use super::*;

fn copies(more: More, sources: Sources, steps: &[(u64, Action)]) -> Plan {
    Plan { has_related: true, more: Some(more), ..world(sources, steps) }
}

#[test]
fn copies_are_shared_selected_and_listed() {
    every_seed_holds("SYNC_ENGINE_SEEDS_COPIES", 0..48, plan::of_copies);
}

#[test]
fn a_shared_copy_stays_for_the_source_that_still_names_it() {
    for last in [Action::Delete(X_CA), Action::Secret(X_CA, Side::Source, Secrecy::Rename)] {
        let steps = [
            (0, Action::Create(X)),
            (1_000, Action::Create(X_CA)),
            (5_000, Action::Delete(X)),
            (5_000, Action::Secret(X_CA, Side::Source, Secrecy::Put)),
            (5_000, last),
        ];
        holds(&copies(More::Shared, Kcp, &steps), 4);
    }
}

/// Its objects may need the copy until its server says that it is missing.
#[test]
fn a_source_that_vanished_beside_a_shared_copy_is_not_looked_for_again_and_again() {
    let steps = [
        (0, Action::BackUp(Side::Source)),
        (0, Action::Create(X_CA)),
        (15_000, Action::Restore(Side::Source, Ahead::Expired)),
    ];
    holds(&copies(More::Shared, Kcp, &steps), 4);
}

/// The engine sees both at once, and has begun with the one that leaves.
#[test]
fn a_shared_copy_stays_for_a_source_that_comes_while_another_one_leaves() {
    let steps = [
        (0, Action::Create(X)),
        (10_000, Action::Unclaim("a")),
        (5_000, Action::Pause(0)),
        (5_000, Action::Create(X_CA)),
        (300, Action::Delete(X)),
        (10_000, Action::Resume(0)),
    ];
    holds(&copies(More::Shared, Kcp, &steps), 24);
}

/// The one that is let go first may not know yet that it is, when the other asks who uses the copy.
#[test]
fn a_shared_copy_goes_with_sources_that_leave_at_once() {
    let both = [(0, Action::Create(X)), (1_000, Action::Create(X_CA))];
    let away = [
        (20_000, Action::Away(Side::Target)),
        (2_000, Action::Delete(X)),
        (5, Action::Delete(X_CA)),
        (10_000, Action::Back(Side::Target)),
    ];
    for leave in [&[(20_000, Action::DeleteWorkspace("a"))][..], &away] {
        holds(&Plan { has_operators: true, ..copies(More::Shared, Kcp, &[&both[..], leave].concat()) }, 16);
    }
}

/// Who let go of it first may not have been told so when the other one asks who uses the copy.
#[test]
fn a_shared_copy_goes_with_sources_whose_releases_go_unanswered() {
    let lossy = Action::Weather(Weather { lost_after: 60, ..Weather::default() });
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Create(X_CA)),
        (20_000, lossy),
        (0, Action::Delete(X)),
        (5, Action::Delete(X_CA)),
        (20_000, Action::Weather(Weather::default())),
    ];
    holds(&Plan { has_operators: true, ..copies(More::Shared, Kcp, &steps) }, 8);
    holds(&copies(More::Shared, Plain, &steps), 8);
}

/// Their consumer takes the finalizers off while the engine is at work, or before it has begun.
#[test]
fn a_shared_copy_goes_with_sources_that_nothing_holds() {
    let slow = Weather { late: 34, busy: 22, forbidden: 14, doubled: 37, merged: 32, ..Weather::default() };
    for pause in [0, 4_000] {
        let steps = [
            (0, Action::Create(X)),
            (0, Action::Create(X_CA)),
            (20_000, Action::Strip(X_CA)),
            (0, Action::Weather(slow)),
            (0, Action::Delete(X_CA)),
            (0, Action::Delete(X)),
            (pause, Action::Strip(X)),
            (10_000, Action::Weather(Weather::default())),
        ];
        holds(&Plan { has_operators: true, ..copies(More::Shared, Kcp, &steps) }, 12);
        holds(&copies(More::Shared, Plain, &steps), 12);
    }
}

/// The request to create it goes unanswered, is sent again, and arrives once the source is gone that named the copy.
#[test]
fn a_shared_copy_that_comes_late_goes_as_its_last_source_did() {
    let late = Action::Weather(Weather { late: 100, only_writes: true, ..Weather::default() });
    let steps = [
        (0, Action::Create(X)),
        (10_000, late),
        (0, Action::Secret(X, Side::Source, Secrecy::Rename)),
        (0, Action::Secret(X, Side::Source, Secrecy::Put)),
        (300, Action::Weather(Weather::default())),
        (5_000, Action::Delete(X)),
    ];
    [Kcp, Plain].into_iter().for_each(|sources| holds(&copies(More::Shared, sources, &steps), 8));
}

/// It counts as a user again in each reconcile that finds its objects, and as none once the server has none of them.
#[test]
fn a_source_that_is_gone_does_not_wake_itself_beside_a_silent_watch() {
    let steps = [(0, Action::Create(X)), (10_000, Action::Silence(Side::Target)), (5_000, Action::Delete(X))];
    holds(&copies(More::Shared, Kcp, &steps), 4);
}

#[test]
fn a_shared_copy_goes_with_its_rule() {
    let steps = [(0, Action::Create(X)), (5_000, Action::Create(X_CA)), (5_000, Action::Edit(Edit::Related(MORE.id)))];
    holds(&copies(More::Shared, Kcp, &steps), 2);
    holds(&copies(More::Shared, Plain, &[&steps[..], &[(5_000, Action::Delete(X))]].concat()), 2);
}

/// Both sources lose it, which no rehearsal of one of them counts. What the limits gave them is theirs after a failure, too.
#[test]
fn a_shared_copy_goes_with_its_rule_once_its_deletion_is_no_longer_refused() {
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Create(X_CA)),
        (10_000, Action::Deny("delete")),
        (0, Action::Edit(Edit::Related(MORE.id))),
        (20_000, Action::Allow),
    ];
    [Kcp, Plain].into_iter().for_each(|sources| holds(&copies(More::Shared, sources, &steps), 4));
}

/// A cluster that is described anew leaves and comes back. Its sources go on to use what they share.
#[test]
fn a_shared_copy_stays_while_its_cluster_is_described_anew() {
    let steps = [
        (0, Action::Create(X)),
        (0, Action::Secret(X, Side::Source, Secrecy::Rename)),
        (5_000, Action::Create(X_CA)),
        (5_000, Action::Unclaim("a")),
        (5_000, Action::Claim("a")),
    ];
    holds(&copies(More::Shared, Kcp, &steps), 12);
}

#[test]
fn a_shared_copy_is_left_with_the_namespace_that_its_source_leaves() {
    let steps = [
        (0, Action::Create(X)),
        (11, Action::Meddle(X, Meddling::Squat)),
        (60_000, Action::Deny("delete")),
        (5_000, Action::Edit(Edit::Namespace("-2"))),
        (20_000, Action::Allow),
    ];
    holds(&copies(More::Shared, Kcp, &steps), 4);
}

/// An object that keeps its former name may refer to a copy whose rule is gone.
#[test]
fn a_shared_copy_stays_with_an_object_that_is_not_written() {
    let steps = [
        (0, Action::Create(X)),
        (10_000, Action::Away(Side::Target)),
        (5_000, Action::Edit(Edit::Related(MORE.id))),
        (60_000, Action::Edit(Edit::Name("-2"))),
    ];
    holds(&copies(More::Shared, Kcp, &steps), 4);
}

/// The other process has served a source that the silent watch of the one that leads now does not show.
#[test]
fn a_shared_copy_stays_for_a_source_that_the_watch_does_not_show() {
    let steps = [
        (0, Action::Create(X)),
        (0, Action::Secret(X, Side::Source, Secrecy::Rename)),
        (5_000, Action::Start(1)),
        (5_000, Action::Silence(Side::Source)),
        (0, Action::Crash(0)),
        (30_000, Action::Start(0)),
        (5_000, Action::Pause(1)),
        (30_000, Action::Create(X_CA)),
        (5_000, Action::Resume(1)),
        (5_000, Action::Crash(0)),
        (30_000, Action::Change(X)),
    ];
    holds(&Plan { elects: true, ..copies(More::Shared, Kcp, &steps) }, 16);
}

/// It shows the source as it was before the other process took it in.
#[test]
fn a_shared_copy_stays_for_a_source_that_the_watch_shows_without_its_finalizer() {
    let worlds = [2, 5, 8].map(|pause| {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::Secret(X, Side::Source, Secrecy::Rename)),
            (5_000, Action::Start(1)),
            (5_000, Action::Create(X_CA)),
            (pause, Action::Silence(Side::Source)),
            (3_000, Action::Crash(0)),
            (40_000, Action::Change(X)),
        ];
        Plan { elects: true, ..copies(More::Shared, Kcp, &steps) }
    });
    hold(&worlds, 8);
}

/// A watch that fell silent hides what the consumer says for minutes.
#[test]
fn a_copy_follows_the_original_that_a_silent_watch_still_names() {
    let steps = [
        (0, Action::Create(X)),
        (30_000, Action::Silence(Side::Source)),
        (5_000, Action::Secret(X, Side::Source, Secrecy::Rename)),
        (25_000, Action::Secret(X_CA, Side::Source, Secrecy::Retype)),
    ];
    holds(&copies(More::Shared, Plain, &steps), 4);
}

#[test]
fn a_copy_goes_when_its_original_is_selected_no_more() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Secret(X, Side::Source, Secrecy::Select)),
        (5_000, Action::Secret(X, Side::Source, Secrecy::Select)),
        (5_000, Action::Secret(X, Side::Source, Secrecy::Delete)),
    ];
    holds(&copies(More::Selected, Kcp, &steps), 2);
}

#[test]
fn a_claim_that_is_taken_back_deletes_no_selected_copy() {
    let steps = [(0, Action::Create(X)), (5_000, Action::Unclaim("a")), (60_000, Action::Change(X))];
    for more in [More::Shared, More::Selected, More::Each] {
        holds(&copies(more, Kcp, &steps), 4);
    }
}

#[test]
fn a_copy_goes_with_its_item_of_the_list() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Secret(X, Side::Source, Secrecy::Rename)),
        (0, Action::Secret(X, Side::Source, Secrecy::Put)),
        (5_000, Action::Change(X)),
        (5_000, Action::Change(X)),
    ];
    holds(&copies(More::Each, Kcp, &steps), 2);
}

/// The Secrets of the target cannot be read for a while. A source that looks at what is shared a second time, under its lock, is
/// still told when they can be read again.
#[test]
fn a_source_that_waits_for_an_original_is_woken_by_it() {
    let bad = |weather: Weather| Action::Weather(weather);
    let steps = [
        (0, Action::Create(SourceRef { name: RARE_NAMES[1], ..X })),
        (14_592, bad(Weather { lost_after: 12, forbidden: 1, doubled: 12, ..Weather::default() })),
        (2_951, Action::Edit(Edit::Toggle("widget"))),
        (1_113, bad(Weather { late: 7, forbidden: 17, merged: 53, ..Weather::default() })),
        (9_741, Action::Create(X)),
        (16_991, Action::Unserve),
    ];
    holds(&Plan { has_operators: true, ..copies(More::Shared, Plain, &steps) }, 12);
}
