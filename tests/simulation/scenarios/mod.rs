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
use super::matrix::fault_of;
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
    let unfelt: Vec<_> = plans.iter().flat_map(unfelt).collect();
    assert!(unfelt.is_empty(), "faults that are over before anything meets them: {unfelt:?}");
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

/// Within so many milliseconds, an engine has sent what follows at once from what it hears.
const FELT: u64 = 100;

/// Faults that disturb only what happens while they last, and are over before that: whatever no step ends, ends with the last one.
fn unfelt(plan: &Plan) -> Vec<Action> {
    let begins = |action: Action| match action {
        Action::Weather(weather) => weather != Weather::default(),
        _ => matches!(action, Action::Away(_) | Action::Deny(_) | Action::Pause(_)),
    };
    let is_unfelt = |number: usize, fault: Action| {
        let is_end = |action: Action| match fault {
            Action::Weather(_) => matches!(action, Action::Weather(_)),
            _ => fault_of(fault).1 == Some(action),
        };
        let later = &plan.steps[number + 1..];
        let end = later.iter().position(|step| is_end(step.action));
        // Counted from the first thing that happens meanwhile. Where nothing does, it meets what is under way.
        let lasts = later.iter().take(end.map_or(later.len(), |end| end + 1)).skip(usize::from(end != Some(0)));
        lasts.map(|step| step.after_ms).sum::<u64>() < FELT
    };
    let actions = plan.steps.iter().map(|step| step.action).enumerate();
    let unfelt = actions.filter(|(number, action)| begins(*action) && is_unfelt(*number, *action));
    unfelt.map(|(_, action)| action).collect()
}

#[test]
fn a_scenario_is_refused_whose_faults_are_over_before_anything_meets_them() {
    let weather = Action::Weather(Weather { lost_after: 60, ..Weather::default() });
    let faults = [
        (weather, Action::Weather(Weather::default())),
        (Action::Away(Side::Target), Action::Back(Side::Target)),
        (Action::Deny("delete"), Action::Allow),
        (Action::Pause(0), Action::Resume(0)),
    ];
    let (at_once, late) = ((0, Action::Delete(X)), (20_000, Action::Delete(X)));
    for (fault, end) in faults {
        let begin = [(0, Action::Create(X)), (5_000, fault)];
        let is_refused = |steps: &[(u64, Action)]| !unfelt(&world(Plain, &[&begin[..], steps].concat())).is_empty();
        for refused in [&[at_once][..], &[], &[late], &[at_once, (5, end)], &[late, (0, end)]] {
            assert!(is_refused(refused), "{fault:?} {refused:?}");
        }
        for held in [&[(5_000, end)][..], &[at_once, (5_000, end)], &[at_once, late]] {
            assert!(!is_refused(held), "{fault:?} {held:?}");
        }
    }
}
