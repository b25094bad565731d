//! Several replicas of one engine, each of which serves its share of the clusters.

use std::time::Duration;

use sync_engine::engine::election::How;

use super::super::process::{LEASE_DURATION, THIRD};
use super::*;

fn shards(steps: &[(u64, Action)]) -> Plan {
    Plan { elects: Some(How::Sharded), ..world(Kcp, steps) }
}

#[test]
fn one_replica_writes_for_a_cluster_at_a_time_and_the_world_is_as_with_one() {
    every_seed_holds("SYNC_ENGINE_SEEDS_SHARDS", 0..16, plan::of_shards);
}

/// Three replicas, and a source that one of them has synced.
fn begin() -> Vec<(u64, Action)> {
    vec![(0, Action::Create(X)), (1_000, Action::Start(1)), (1_000, Action::Start(THIRD)), (30_000, Action::Change(X))]
}

/// The engine of a line of a trace.
fn engine(line: &str) -> u32 {
    let (_, rest) = line.split_once("engine ").expect("a line of an engine");
    rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn second(line: &str) -> f64 {
    line.trim_start().split(' ').next().and_then(|second| second.parse().ok()).expect("a time")
}

/// What engines write for the cluster of the source.
fn writes(trace: &[String]) -> impl Iterator<Item = &String> {
    trace.iter().filter(|line| line.contains("engine ") && line.contains(" apply configmaps  default-"))
}

/// Who serves the cluster of the source.
fn owner() -> u32 {
    let run = run(&shards(&begin()));
    assert!(run.violations.is_empty(), "{:#?}", run.violations);
    engine(writes(&run.trace).last().expect("a write"))
}

/// How long after the end of who serves the cluster another replica writes for it.
fn gap(end: fn(u32) -> Action) -> Duration {
    let owner = owner();
    let steps: Vec<_> = begin().into_iter().chain([(10_000, end(owner)), (1, Action::Create(X_CA))]).collect();
    let run = run(&shards(&steps));
    assert!(run.violations.is_empty(), "{:#?}", run.violations);
    let ended = run.trace.iter().find(|line| line.contains(&format!("** {}", end(owner)))).expect("the end");
    let first = writes(&run.trace).find(|line| engine(line) != owner && second(line) > second(ended));
    Duration::from_secs_f64(second(first.expect("another replica writes")) - second(ended))
}

#[test]
fn another_replica_serves_a_cluster_within_the_lease_duration_and_a_second() {
    let gap = gap(Action::Crash);
    assert!(gap <= LEASE_DURATION + Duration::from_secs(1), "{gap:?}");
}

#[test]
fn a_replica_that_stops_hands_its_share_over_within_two_seconds() {
    let gap = gap(Action::Stop);
    assert!(gap <= Duration::from_secs(2), "{gap:?}");
}

/// What happens to each of two replicas at once holds, while its sources change.
#[track_caller]
fn holds_for_each(first: fn(u32) -> Action, then: fn(u32) -> Action) {
    for process in [0, 1] {
        let mut steps = begin();
        steps.push((5_000, first(process)));
        // Longer than a Lease lasts.
        steps.extend((0..30).map(|_| (700, Action::Change(X))));
        steps.push((0, then(process)));
        steps.extend((0..20).map(|_| (700, Action::Change(X))));
        holds(&shards(&steps), 2);
    }
}

#[test]
fn a_replica_that_cannot_renew_its_lease_stops_before_another_writes() {
    holds_for_each(Action::Bar, Action::Unbar);
}

#[test]
fn a_replica_that_stood_still_past_its_lease_writes_nothing_more() {
    holds_for_each(Action::Pause, Action::Resume);
}

#[test]
fn a_deleted_lease_gives_no_cluster_two_owners() {
    holds_for_each(Action::DropLease, Action::DropLease);
}

#[test]
fn a_replica_that_starts_again_gives_no_cluster_two_owners() {
    holds_for_each(Action::Crash, Action::Start);
    holds_for_each(Action::Stop, Action::Start);
}

#[test]
fn restored_leases_give_no_cluster_two_owners() {
    let steps = [
        (5_000, Action::BackUp(Side::Target)),
        (5_000, Action::Stop(0)),
        (10_000, Action::Start(0)),
        (5_000, Action::Bar(1)),
        (10_000, Action::Restore(Side::Target, Ahead::Silent)),
        (500, Action::Create(X_CA)),
        (20_000, Action::Unbar(1)),
        (1_000, Action::Edit(Edit::Toggle("extra"))),
    ];
    let steps: Vec<_> = begin().into_iter().chain(steps).collect();
    holds(&shards(&steps), 4);
}

#[test]
fn the_replicas_carry_out_a_changed_document_together() {
    let steps = [
        (5_000, Action::Edit(Edit::PruneGuard(0))),
        (30_000, Action::Edit(Edit::Toggle("extra"))),
        (30_000, Action::Edit(Edit::Toggle("extra"))),
        (60_000, Action::Approve),
        (60_000, Action::Edit(Edit::Resource("gadgets"))),
        (60_000, Action::Edit(Edit::Resource("things"))),
    ];
    let other = SourceRef { tenant: "b", ..X };
    let steps: Vec<_> = begin().into_iter().chain([(0, Action::Create(other))]).chain(steps).collect();
    holds(&shards(&steps), 4);
}

#[test]
fn the_replicas_hold_what_a_removed_mapping_takes_along() {
    let steps = [
        (5_000, Action::Edit(Edit::OnMappingRemoved("Delete"))),
        (0, Action::Edit(Edit::PruneGuard(0))),
        (70_000, Action::Edit(Edit::Remove)),
        (30_000, Action::Crash(0)),
        (60_000, Action::Crash(1)),
    ];
    let other = SourceRef { tenant: "b", ..X };
    let steps: Vec<_> = begin().into_iter().chain([(0, Action::Create(other))]).chain(steps).collect();
    holds(&shards(&steps), 4);
}
