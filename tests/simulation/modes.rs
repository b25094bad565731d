//! Worlds that are judged by another world, or with a part that stays broken.

use std::ops::Range;

use serde_json::json;

use super::action::{Action, Edit, Forever, NAMES, Plan, Secrecy, SourceRef, Step, TENANTS};
use super::checker::Violation;
use super::dice::Dice;
use super::matrix::is_fault;
use super::process::OTHER;
use super::scenarios::every_seed_holds;
use super::seeds;
use super::twins::twin;
use super::world::{Run, run};
use super::{plan, server::RESOURCES, server::Side};

/// Every so many worlds are compared with the one without faults, which takes as long again.
const COMPARED: u64 = 4;

/// Over its whole run, a process sends at most twice the writes of a world without faults, and three for each fault.
pub fn writes_too_much(plan: &Plan, run: &Run) -> Option<Violation> {
    // Two processes whose views differ overwrite each other's status without pause, which is known (seed 900).
    let has_two = plan.has(|action| action == Action::Start(1));
    if has_two || !plan.seed.is_multiple_of(COMPARED) || !run.violations.is_empty() {
        return None;
    }
    let calm = super::world::run(&calm(plan));
    if let Some(violation) = calm.violations.first() {
        return Some(Violation { text: format!("without faults: {}", violation.text), ..violation.clone() });
    }
    let most = 2 * calm.writes + 3 * run.faults;
    let text = format!("{} writes with {} faults, and {} without faults", run.writes, run.faults, calm.writes);
    (run.writes > most).then_some(Violation { invariant: "I5", text })
}

/// The plan without its faults.
pub fn calm(plan: &Plan) -> Plan {
    plan.keeping(|action| !is_fault(action))
}

/// The plan with workspaces, where no source server is rebuilt.
fn in_kcp(plan: Plan) -> Plan {
    Plan { is_kcp: true, ..plan }.keeping(|action| !matches!(action, Action::Rebuild(..)))
}

/// A plan of which some part stays broken: nothing else may wait for that part.
fn for_ever(mut plan: Plan) -> Plan {
    let mut dice = Dice::new(!plan.seed);
    let forever = match dice.below(3) {
        0 => Forever::Refusal(dice.pick(&NAMES)),
        1 => Forever::Workspace(TENANTS[1]),
        _ => Forever::NoWidgets,
    };
    if forever == Forever::NoWidgets {
        let first = [Action::NoWidgets, Action::Edit(Edit::Toggle("widget"))];
        plan.steps.splice(0..0, first.map(|action| Step { after_ms: 0, action }));
    }
    let plan = if matches!(forever, Forever::Workspace(_)) { in_kcp(plan) } else { plan };
    Plan { forever: Some(forever), ..plan }
}

/// A second target goes away and stays away: everything else is in order on the first one.
fn without_second(plan: Plan) -> Plan {
    let mut dice = Dice::new(!plan.seed);
    let mut plan = plan::of_several(plan);
    let at = dice.below(plan.steps.len() as u64 + 1) as usize;
    plan.steps.insert(at, Step { after_ms: dice.below(5_000), action: Action::Away(Side::Second) });
    Plan { forever: Some(Forever::Second), ..plan }
}

#[test]
fn a_target_that_never_comes_back_holds_up_nothing_else() {
    every_seed_holds("SYNC_ENGINE_SEEDS_WITHOUT", 0..15, without_second);
}

#[test]
fn faults_for_ever_hold_up_nothing_else() {
    every_seed_holds("SYNC_ENGINE_SEEDS_FOREVER", 0..16, for_ever);
}

/// Edits reach half of the sources first: of restarts, faults and further edits in the middle.
#[test]
fn edits_reach_the_sources_in_waves() {
    every_seed_holds("SYNC_ENGINE_SEEDS_WAVES", 0..40, |plan| Plan { in_waves: true, ..plan });
}

/// A world in which the outcome does not depend on who is first: an edit of the mapping, a restore or a crash meets
/// tenants at a moment, and by some milliseconds more or less it finds another state.
fn for_twins(plan: Plan) -> Plan {
    let is_timeless = |action: Action| {
        let is_moment = matches!(action, Action::BackUp(_) | Action::Restore(..) | Action::Crash(_) | Action::Edit(_));
        // Engines of two ids make the same objects: the first of them keeps each.
        // Who puts something where the engine has its own finds the place free, or not; so do operators that look for what
        // is new.
        let is_squatter =
            matches!(action, Action::Secret(_, _, Secrecy::Squat) | Action::Secret(_, Side::Target, Secrecy::Retype));
        !is_moment && !is_squatter && action != Action::Away(Side::Source) && action != Action::Start(OTHER)
    };
    Plan { has_operators: false, ..in_kcp(plan).keeping(is_timeless) }
}

#[test]
fn what_one_tenant_does_changes_nothing_for_another() {
    nothing_interferes(0..12, for_twins);
}

#[test]
fn what_one_tenant_does_changes_nothing_beside_the_sources_of_another() {
    nothing_interferes(0..10, |plan| for_twins(plan::of_beside(plan)));
}

/// Servers and network draw the moments of all tenants from one stream, so after another action of one of them all later moments
/// are others: where the outcome rests on who is first, another seed shows a difference that is none. Those of the gate have
/// none.
#[track_caller]
fn nothing_interferes(range: Range<u64>, turn: fn(Plan) -> Plan) {
    let range = seeds::seeds("SYNC_ENGINE_SEEDS_TWINS", range);
    let found = seeds::each(range, |seed| {
        let plan = turn(plan::plan(seed));
        interference(&plan, &twin(&plan))
    });
    let found: Vec<_> = found.into_iter().filter(|(_, difference)| !difference.is_empty()).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_action_that_a_tenant_sees_is_a_difference() {
    let plan = Plan { steps: Vec::new(), ..for_twins(plan::plan(0)) };
    let source = SourceRef { tenant: TENANTS[0], resource: RESOURCES[0].0, name: NAMES[0] };
    let other = Plan { steps: vec![Step { after_ms: 0, action: Action::Create(source) }], ..plan.clone() };
    assert!(!interference(&plan, &other).is_empty());
}

/// What the first tenant sees otherwise in the other world, by its JSON pointers.
fn interference(plan: &Plan, other: &Plan) -> Vec<String> {
    let Run { view: seen, violations, .. } = run(other);
    if !violations.is_empty() {
        // Such a world ends at once, and nobody looks at it.
        return violations.iter().map(ToString::to_string).collect();
    }
    let patch = json_patch::diff(&json!(run(plan).view), &json!(seen));
    patch.iter().map(ToString::to_string).collect()
}
