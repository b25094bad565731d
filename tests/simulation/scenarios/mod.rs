//! Named worlds: each is what was left of a failing seed, or of a report, once every step that does not matter was gone.

mod aftermath;
mod beside;
mod copies;
mod fleets;
mod forms;
mod identity;
mod limits;
mod related;
mod releases;
mod replicas;
mod several;

use std::collections::BTreeSet;
use std::ops::Range;

use super::action::{Action, Edit, Meddling, Plan, RARE_NAMES, Secrecy, SourceRef, Step, VERSIONS, Versions};
use super::core::Weather;
use super::mapping::Spread;
use super::server::{Ahead, Side};
use super::world::{Run, run};
use super::{plan, seeds, shrink, tell};

/// Sources of a scenario.
const X: SourceRef = SourceRef { tenant: "a", resource: "things", name: "x" };
const X_CA: SourceRef = SourceRef { name: "x-ca", ..X };

/// Where the sources are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sources {
    Kcp,
    Plain,
}

use Sources::{Kcp, Plain};

/// A scenario: what happens, each so many milliseconds after the one before.
fn world(sources: Sources, steps: &[(u64, Action)]) -> Plan {
    let steps = steps.iter().map(|&(after_ms, action)| Step { after_ms, action }).collect();
    Plan { is_kcp: sources == Kcp, steps, ..Plan::default() }
}

/// Worlds of many seeds, each turned into one of a kind. The variable names other seeds.
#[track_caller]
pub fn every_seed_holds(variable: &str, range: Range<u64>, turn: fn(Plan) -> Plan) {
    if let Some(seed) = seeds::one() {
        tell(&turn(plan::plan(seed)));
        return;
    }
    let found = seeds::each(seeds::seeds(variable, range), |seed| run(&turn(plan::plan(seed))).violations);
    let found: Vec<_> = found.into_iter().filter(|(_, violations)| !violations.is_empty()).collect();
    shrink::explain(found.iter().map(|(seed, violations)| (turn(plan::plan(*seed)), &violations[0])));
    assert!(found.is_empty(), "{found:#?}");
}

/// The scenario holds, whatever the network does.
#[track_caller]
fn holds(plan: &Plan, seeds: u64) {
    held(plan, seeds);
}

/// The same. What came of it, seed by seed, is the caller's to look at.
#[track_caller]
fn held(plan: &Plan, seeds: u64) -> Vec<Run> {
    hold(std::slice::from_ref(plan), seeds)
}

/// The scenario holds with sources in kcp, and in a plain cluster.
#[track_caller]
fn holds_in_both(steps: &[(u64, Action)], seeds: u64) {
    for sources in [Kcp, Plain] {
        holds(&world(sources, steps), seeds);
    }
}

/// Scenarios that differ in their moments hold, and each step came about at one of them.
#[track_caller]
fn hold(plans: &[Plan], seeds: u64) -> Vec<Run> {
    if let Some(seed) = seeds::one() {
        return vec![tell(&Plan { seed, ..plans[0].clone() })];
    }
    let plans = plans.iter().flat_map(|plan| (0..seeds).map(|seed| Plan { seed, ..plan.clone() }));
    let runs: Vec<(u64, Run)> = plans.map(|plan| (plan.seed, run(&plan))).collect();
    let found: Vec<_> =
        runs.iter().flat_map(|(seed, run)| run.violations.iter().map(move |found| (seed, found))).collect();
    assert!(found.is_empty(), "{found:#?}");
    let idle = runs.iter().map(|(_, run)| run.idle.clone()).reduce(|all, one| &all & &one);
    assert!(idle.iter().all(BTreeSet::is_empty), "steps that change nothing, by their numbers: {idle:?}");
    runs.into_iter().map(|(_, run)| run).collect()
}
