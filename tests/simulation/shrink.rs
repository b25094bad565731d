//! From a failing plan to the steps that matter.

use std::collections::BTreeSet;
use std::env;

use super::action::Plan;
use super::checker::Violation;
use super::open::keep;
use super::speak_up;
use super::world::{run, run_aloud};

/// The smallest plan found that violates the same, and what it comes to.
fn shrink(plan: Plan, violation: Violation) -> (Plan, Violation) {
    let mut best = (plan, violation);
    loop {
        let smaller = candidates(&best.0).find_map(|plan| fails_alike(&plan, &best.1).map(|found| (plan, found)));
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Prints which plans fail. Where `SYNC_ENGINE_SHRINK` is set, also what matters of each, unless another failed alike. `aloud`:
/// with its trace. `keep`: it becomes an open defect.
pub fn explain<'v>(failed: impl Iterator<Item = (Plan, &'v Violation)>) {
    let mut known = BTreeSet::new();
    for (plan, violation) in failed {
        println!("seed {}: {violation}", plan.seed);
        let Ok(how) = env::var("SYNC_ENGINE_SHRINK") else { continue };
        let (plan, violation) = shrink(plan, violation.clone());
        let signature = signature(&plan, &violation);
        if !known.insert(signature.clone()) {
            continue;
        }
        println!("  NEW {signature}\n  {violation} (kcp: {})", plan.is_kcp);
        plan.steps.iter().for_each(|step| println!("    {:>7} ms later {:?}", step.after_ms, step.action));
        match &*how {
            "aloud" => {
                speak_up();
                run_aloud(&plan);
            }
            "keep" => println!("  {}", keep(&plan, &violation).display()),
            _ => {}
        }
    }
}

fn fails_alike(plan: &Plan, violation: &Violation) -> Option<Violation> {
    run(plan).violations.into_iter().find(|found| found.is_like(violation))
}

/// What a shrunk plan is told apart by: what was violated, and by which kinds of actions.
pub fn signature(plan: &Plan, violation: &Violation) -> String {
    let actions: BTreeSet<String> = plan.steps.iter().map(|step| step.action.kind()).collect();
    let actions: Vec<String> = actions.into_iter().collect();
    format!("{}: {}: {}", violation.invariant, violation.words().join(" "), actions.join(", "))
}

/// The plan with one step less, the last ones first; the others stay at their moments.
fn candidates(plan: &Plan) -> impl Iterator<Item = Plan> + '_ {
    (0..plan.steps.len()).rev().map(|left_out| {
        let mut steps = plan.steps.clone();
        let after_ms = steps.remove(left_out).after_ms;
        if let Some(next) = steps.get_mut(left_out) {
            next.after_ms += after_ms;
        }
        Plan { steps, ..plan.clone() }
    })
}
