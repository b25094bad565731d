//! Sources of clusters that another replica serves. They are looked at, and nothing of them is written.
//!
//! What they use is noted, so that this replica knows it when their cluster comes to it. The replica that keeps the mapping's
//! state store also counts the deletions that `pruneGuard` holds of them, and sees whether they are in sync.

use super::{
    Action, Arc, Cause, Ended, Executor, Facts, Generation, Key, MAX_ROUNDS, Observed, Outcome, Pipeline, Plan,
    Reasons, Rest, Run, Source, note_places, observe_whole, originals, plan,
};
use crate::engine::pipeline::SourceFeed;
use crate::multicluster::registry::Cluster;
use crate::plan::rehearsal;

/// Looks at a source that another replica serves.
pub async fn look(
    pipeline: &Arc<Pipeline>,
    generation: &Generation,
    cluster: &Cluster,
    feed: &SourceFeed,
    key: &Key,
    facts: &mut Facts<'_>,
) -> Run {
    let counts = pipeline.counts_all();
    if !counts && !generation.mapping.has_shared() {
        return Run { held: Some(0), ..Run::unplanned(Ended::Dropped) };
    }
    let executor = Executor::looking(pipeline, generation, cluster, feed, key);
    let mut observed = match observe_whole(&executor, facts).await {
        Ok(observed) => observed,
        Err(error) => return Run { cost: executor.tally.cost(), ..Run::unplanned(Ended::Failed(error)) },
    };
    note_places(pipeline, generation, &observed, &mut None);
    if let Source::Unknown(why) = &observed.source {
        return Run::unplanned(Ended::Waiting(Reasons::one(Cause::Unknown, format!("source: {why}"))));
    }
    if !counts {
        return Run { held: Some(0), ..Run::unplanned(Ended::Dropped) };
    }
    let ended = rehearse(&executor, &mut observed, facts).await;
    let held = match &ended {
        Ended::Waiting(_) => None,
        Ended::Elsewhere { held } => Some(*held),
        Ended::Failed(_) => Some(observed.owned.len()),
        _ => Some(0),
    };
    Run { held, cost: executor.tally.cost(), ..Run::unplanned(ended) }
}

/// Follows the plan to where it rests, as if every write succeeded. None is sent.
async fn rehearse(executor: &Executor<'_>, observed: &mut Observed, facts: &mut Facts<'_>) -> Ended {
    let mut writes = false;
    for _ in 0..MAX_ROUNDS {
        let (actions, last) = match plan(&executor.generation.mapping, observed) {
            Plan::Act(actions) => (actions, None),
            Plan::Last(action, rest) => (vec![*action], Some(rest)),
            Plan::Rest(rest) => return rested(rest, writes),
        };
        for action in actions {
            let outcome = match (rehearsal::imagined(&action, observed), &action) {
                (Some(outcome), _) => {
                    writes = true;
                    outcome
                }
                (None, Action::Read(original)) => Outcome::Seen(originals::read(executor, facts, original).await),
                (None, Action::ReadAnew(original)) => {
                    Outcome::Seen(originals::read_anew(executor, facts, original).await)
                }
                // Nothing is held of a source that is about to be released.
                (None, Action::Sweep { .. }) => return Ended::Elsewhere { held: 0 },
                (None, _) => match executor.execute(&action).await {
                    Ok(outcome) => outcome,
                    Err(error) => return Ended::Failed(error),
                },
            };
            observed.absorb(&action, outcome);
        }
        if let Some(rest) = last {
            return rested(rest, writes);
        }
    }
    Ended::Elsewhere { held: observed.owned.len() }
}

/// `writes`: whether the replica that serves the source has something to do.
fn rested(rest: Rest, writes: bool) -> Ended {
    match rest {
        Rest::InSync if !writes => Ended::Dropped,
        Rest::InSync => Ended::Elsewhere { held: 0 },
        Rest::Waiting(reasons) | Rest::Blocked(reasons) => {
            if reasons.0.iter().any(|reason| reason.cause == Cause::Unknown) {
                return Ended::Waiting(reasons);
            }
            Ended::Elsewhere { held: reasons.0.iter().filter(|reason| reason.cause == Cause::Held).count() }
        }
    }
}
