//! Replicas of one engine with leader election: one of them writes.

use std::time::Duration;

use super::super::process::{LEASE_DURATION, THIRD};
use super::*;

fn replicas(steps: &[(u64, Action)]) -> Plan {
    Plan { elects: true, ..world(Kcp, steps) }
}

#[test]
fn one_replica_writes_at_a_time_and_the_world_is_as_with_one() {
    every_seed_holds("SYNC_ENGINE_SEEDS_REPLICAS", 0..24, plan::of_replicas);
}

/// How long after the end of the leader the other replica writes for the first time.
fn gap(end: Action) -> Duration {
    let steps = [(0, Action::Create(X)), (1_000, Action::Start(1)), (30_000, end), (1, Action::Create(X_CA))];
    let run = held(&replicas(&steps), 1).remove(0);
    let second = |line: &String| line.trim_start().split(' ').next().and_then(|second| second.parse::<f64>().ok());
    let at = |text: &str| run.trace.iter().find(|line| line.contains(text)).and_then(second).expect(text);
    let ended = at(&format!("** {end:?}"));
    let is_write = |line: &&String| ["patch things", "apply configmaps"].iter().any(|write| line.contains(write));
    let writes = run.trace.iter().filter(|line| line.contains("engine 1 ")).filter(is_write).filter_map(second);
    let first = writes.fold(f64::MAX, f64::min);
    assert!(first > ended, "engine 1 writes before");
    Duration::from_secs_f64(first - ended)
}

#[test]
fn another_replica_takes_over_within_the_lease_duration_and_a_second() {
    let gap = gap(Action::Crash(0));
    assert!(gap <= LEASE_DURATION + Duration::from_secs(1), "{gap:?}");
}

#[test]
fn a_leader_that_stops_hands_over_within_two_seconds() {
    let gap = gap(Action::Stop(0));
    assert!(gap <= Duration::from_secs(2), "{gap:?}");
}

/// Whether an engine made objects.
fn writes(run: &Run, engine: u32) -> bool {
    run.trace.iter().any(|line| line.contains(&format!("engine {engine} apply configmaps")))
}

#[test]
fn a_leader_that_cannot_renew_its_lease_stops_before_another_writes() {
    let mut steps = vec![(0, Action::Create(X)), (1_000, Action::Start(1)), (5_000, Action::Bar(0))];
    steps.extend((0..40).map(|_| (700, Action::Change(X))));
    for (seed, run) in held(&replicas(&steps), 8).iter().enumerate() {
        assert!(writes(run, 1), "{seed}: engine 1 never led");
    }
}

#[test]
fn a_restored_lease_makes_nobody_lead_beside_the_leader() {
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Start(1)),
        (5_000, Action::BackUp(Side::Target)),
        (5_000, Action::Stop(0)),
        (10_000, Action::Start(0)),
        (20_000, Action::Restore(Side::Target, Ahead::Silent)),
        (500, Action::Create(X_CA)),
        (1_000, Action::Edit(Edit::Toggle("extra"))),
    ];
    holds(&replicas(&steps), 8);
}

#[test]
fn a_former_leader_whom_a_restored_lease_names_waits_for_the_present_one() {
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Start(1)),
        (5_000, Action::BackUp(Side::Target)),
        (1_000, Action::Bar(0)),
        // The other leads by now, and cannot look at the Lease again.
        (20_000, Action::Bar(1)),
        (0, Action::Restore(Side::Target, Ahead::Silent)),
        (0, Action::Unbar(0)),
    ];
    let changes = (0..30).map(|_| (400, Action::Change(X)));
    let steps: Vec<_> = steps.into_iter().chain(changes).chain([(0, Action::Unbar(1))]).collect();
    for (seed, run) in held(&replicas(&steps), 8).iter().enumerate() {
        assert!(writes(run, 0) && writes(run, 1), "{seed}: one of the two never led");
    }
}

#[test]
fn whoever_takes_a_restored_lease_that_nobody_held_waits_for_the_present_leader() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Stop(0)),
        (5_000, Action::BackUp(Side::Target)),
        (1_000, Action::Start(0)),
        (10_000, Action::Start(1)),
        // The first one leads, and cannot look at the Lease again.
        (20_000, Action::Bar(0)),
        (0, Action::Restore(Side::Target, Ahead::Silent)),
    ];
    let changes = (0..30).map(|_| (400, Action::Change(X)));
    let steps: Vec<_> = steps.into_iter().chain(changes).chain([(0, Action::Unbar(0))]).collect();
    for (seed, run) in held(&replicas(&steps), 8).iter().enumerate() {
        assert!(writes(run, 0) && writes(run, 1), "{seed}: one of the two never led");
    }
}

/// An alert takes the largest figure of all replicas.
#[test]
fn a_former_leader_counts_no_source_as_not_in_sync() {
    let steps = [
        (0, Action::Meddle(X, Meddling::Squat)),
        (5_000, Action::Create(X)),
        (1_000, Action::Start(1)),
        (30_000, Action::Bar(0)),
        (40_000, Action::Unbar(0)),
    ];
    holds(&replicas(&steps), 2);
}

/// What happens to each of two replicas holds, while its sources change for longer than a Lease lasts.
#[track_caller]
fn holds_for_each(first: fn(u32) -> Action, then: fn(u32) -> Action) {
    for process in [0, 1] {
        let mut steps = vec![(0, Action::Create(X)), (1_000, Action::Start(1)), (1_000, Action::Start(THIRD))];
        steps.extend([(30_000, Action::Change(X)), (5_000, first(process))]);
        steps.extend((0..30).map(|_| (700, Action::Change(X))));
        steps.push((0, then(process)));
        steps.extend((0..20).map(|_| (700, Action::Change(X))));
        holds(&replicas(&steps), 2);
    }
}

#[test]
fn a_replica_that_stood_still_past_its_lease_writes_nothing_more() {
    holds_for_each(Action::Pause, Action::Resume);
}

#[test]
fn a_deleted_lease_makes_nobody_lead_beside_the_leader() {
    let begin = [(0, Action::Create(X)), (1_000, Action::Start(1)), (1_000, Action::Start(THIRD))];
    let busy = (0..20).map(|_| (700, Action::Change(X)));
    let steps: Vec<_> = begin.into_iter().chain([(30_000, Action::DropLease(0))]).chain(busy.clone()).collect();
    // Once more, while who took it waits until the former leader has stopped.
    let again: Vec<_> = steps.iter().copied().chain([(0, Action::DropLease(0))]).chain(busy).collect();
    hold(&[replicas(&steps), replicas(&again)], 4);
}

#[test]
fn a_replica_that_starts_again_makes_nobody_lead_beside_the_leader() {
    holds_for_each(Action::Crash, Action::Start);
    holds_for_each(Action::Stop, Action::Start);
}

#[test]
fn the_next_leader_goes_on_with_a_changed_document_and_with_a_removed_mapping() {
    let other = SourceRef { tenant: "b", ..X };
    let begin = [(0, Action::Create(X)), (1_000, Action::Start(1)), (0, Action::Create(other))];
    let changed = [
        (30_000, Action::Edit(Edit::MaxLost(0))),
        (30_000, Action::Edit(Edit::Toggle("ca"))),
        (30_000, Action::Crash(0)),
        (60_000, Action::Approve),
        (60_000, Action::Edit(Edit::Resource("gadgets"))),
        (60_000, Action::Edit(Edit::Resource("things"))),
    ];
    let removed = [
        (30_000, Action::Edit(Edit::OnMappingRemoved("Delete"))),
        (0, Action::Edit(Edit::MaxLost(0))),
        (70_000, Action::Edit(Edit::Remove)),
        (30_000, Action::Crash(0)),
        (60_000, Action::Start(0)),
    ];
    for steps in [&changed[..], &removed] {
        let steps: Vec<_> = begin.iter().chain(steps).copied().collect();
        holds(&replicas(&steps), 4);
    }
}
