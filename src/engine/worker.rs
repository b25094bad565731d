//! One reconcile: observe, plan, apply, until the plan rests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::apply::{ApplyError, Executor};
use super::observe::{Observation, SharedContent, namespace, observe};
use super::pipeline::{Generation, Pipeline};
use crate::mapping::Mode;
use crate::multicluster::queue::Outcome as Finish;
use crate::multicluster::work_queue::Lease;
use crate::object::marks::Reference;
use crate::object::{Key, has_finalizer, metadata};
use crate::plan::{
    Action, Cause, MAX_ROUNDS, Observed, Outcome, Plan, Reasons, Rest, Source, SourcePatch, plan, status,
};
use crate::server::metrics::ReconcileResult;

/// How long a plan that was computed from an outdated version waits for its cache, before the object is read anew.
const STALE_WAIT: Duration = Duration::from_secs(5);

/// How a reconcile ended.
#[derive(Debug)]
enum Ended {
    InSync,
    Waiting(Reasons),
    Blocked(Reasons),
    /// `mode: Observe`: what would have been done.
    Observed(Vec<Action>),
    Failed(ApplyError),
    /// Its cluster is not engaged (any more).
    Dropped,
}

/// Reconciles one source and hands its lease back.
pub async fn reconcile(pipeline: Arc<Pipeline>, lease: Lease<Key>) {
    let started = Instant::now();
    let generation = pipeline.generation();
    let key = lease.key().clone();
    pipeline.looks(&key);
    let (ended, cost, overtaken) = run(&pipeline, &generation, &key).await;
    pipeline.shared.instruments.metrics.reconciled(
        pipeline.writer.mapping(),
        result(&ended, cost > 0),
        started.elapsed(),
    );
    let finish = finish(&pipeline, &generation, &key, ended);
    pipeline.looked(&key);
    lease.finish(finish, cost);
    if overtaken {
        pipeline.queue.add(key, crate::multicluster::queue::Priority::Live);
    }
}

async fn run(pipeline: &Pipeline, generation: &Generation, key: &Key) -> (Ended, u32, bool) {
    let engaged = pipeline.shared.manager.cluster(&generation.mapping.source.clusters, &key.cluster);
    let Some((cluster, feed)) = engaged.and_then(|cluster| pipeline.feed_of(&cluster).map(|feed| (cluster, feed)))
    else {
        return (Ended::Dropped, 0, false);
    };
    let Some(lease) = pipeline.shared.lease.permit() else { return (Ended::Dropped, 0, false) };
    // Before anything is looked at: whatever changes from now on ends the right to write.
    let at_target = generation.target.endpoint().permitted(lease.clone());
    let at_target = at_target.paced(generation.mapping.reconcile.target_writes_per_second);
    let at_source = cluster.spec.endpoint.clone().permitted(lease);
    let Observation { mut observed, source, shared, seen } = observe(pipeline, generation, &cluster, &feed, key);
    let mut executor = Executor {
        pipeline,
        generation,
        cluster: &cluster,
        at_source,
        at_target,
        feed: &feed,
        key,
        source,
        cost: 0,
        overtaken: false,
        seen,
    };
    if let Err(error) = refresh_if_stale(pipeline, &mut executor, &mut observed).await {
        return (Ended::Failed(error), executor.cost, executor.overtaken);
    }
    let ended = converge(&mut executor, observed, shared).await;
    (ended, executor.cost, executor.overtaken)
}

/// Shared objects of a namespace are decided on by one source at a time: those that touch them, and those that leave
/// and may be the last to need them.
fn needs_namespace(generation: &Generation, actions: &[Action]) -> bool {
    let rules = &generation.mapping.objects;
    let is_shared =
        |reference: &Reference| rules.iter().any(|rule| rule.is_shared_at(&reference.kind, &reference.name));
    let leaves = |action: &Action| {
        matches!(action, Action::Sweep { .. } | Action::PatchSource { purpose: SourcePatch::ReleaseFinalizer, .. })
    };
    let touches = |action: &Action| action.reference().is_some_and(is_shared) || leaves(action);
    generation.mapping.has_shared() && actions.iter().any(touches)
}

/// A version that was answered by a conflict, and is still all that the cache shows, is read anew.
async fn refresh_if_stale(
    pipeline: &Pipeline,
    executor: &mut Executor<'_>,
    observed: &mut Observed,
) -> Result<(), ApplyError> {
    let Source::Present(source) = &observed.source else { return Ok(()) };
    if !pipeline.is_stale(&observed.key, metadata(source, "resourceVersion")) {
        return Ok(());
    }
    let outcome = executor.refresh_source().await;
    let outcome = outcome.map_err(|source| ApplyError::Request { action: "read the source anew".into(), source })?;
    pipeline.refreshed(&observed.key);
    observed.settled = false;
    observed.source = match outcome {
        Outcome::Object(object) => Source::Present(object),
        _ => Source::Missing,
    };
    Ok(())
}

async fn converge(executor: &mut Executor<'_>, mut observed: Observed, mut shared: Option<SharedContent>) -> Ended {
    let (pipeline, generation) = (executor.pipeline, executor.generation);
    let mut lock = None;
    let mut held = None;
    for _ in 0..MAX_ROUNDS {
        note_placement(pipeline, generation, &observed, &mut held);
        let (actions, then) = match plan(&generation.mapping, &observed) {
            Plan::Act(actions) => (actions, None),
            Plan::Last(action, then) => (vec![*action], Some(then)),
            Plan::Rest(rest) => return rested(executor, &observed, rest, shared),
        };
        if generation.mapping.mode == Mode::Observe && actions.iter().any(Action::is_write) {
            return Ended::Observed(actions);
        }
        let touches_namespace = needs_namespace(generation, &actions);
        if touches_namespace {
            shared = None;
        }
        if lock.is_none() && touches_namespace {
            let namespace = namespace(generation, &observed).unwrap_or_default();
            lock = Some(generation.target.namespace_lock(&namespace).lock_owned().await);
            // What the plan was made from may have changed while it waited for its turn.
            let again = observe(pipeline, generation, executor.cluster, executor.feed, executor.key);
            observed = again.observed;
            executor.source = again.source;
            executor.seen.extend(again.seen);
            continue;
        }
        if let Err(error) = act(executor, &mut observed, actions, then.is_some()).await {
            return Ended::Failed(error);
        }
        if let Some(then) = then {
            return rested(executor, &observed, then, shared);
        }
        if executor.overtaken {
            // What came in between is in the caches, and may change the plan.
            return Ended::Waiting(Reasons::default());
        }
    }
    warn!(rounds = MAX_ROUNDS, "the plan does not come to rest; it is tried again later");
    Ended::Blocked(Reasons::default())
}

/// Where everything was rendered and found in sync, it needs not be again for as long as it stays as it is: the source
/// with its own objects, and the shared objects as they were seen, to which nothing was done meanwhile.
fn rested(executor: &Executor<'_>, observed: &Observed, rest: Rest, shared: Option<SharedContent>) -> Ended {
    let (pipeline, generation) = (executor.pipeline, executor.generation);
    if rest == Rest::InSync && observed.memo.has_rendering() {
        if generation.settles
            && let Some(content) = executor.seen.content(pipeline, generation, observed)
        {
            pipeline.settle(&observed.key, content);
        }
        if let Some(shared) = shared {
            shared.settle(pipeline);
        }
    }
    if matches!(observed.source, Source::Missing) {
        pipeline.unsettle(&observed.key);
    }
    rest.into()
}

impl From<Rest> for Ended {
    fn from(rest: Rest) -> Self {
        match rest {
            Rest::InSync => Self::InSync,
            Rest::Waiting(reasons) => Self::Waiting(reasons),
            Rest::Blocked(reasons) => Self::Blocked(reasons),
        }
    }
}

/// Carries out one plan; `last`: no other follows from what it brings to light. An action that fails does not keep the
/// others of its plan from being tried.
async fn act(
    executor: &mut Executor<'_>,
    observed: &mut Observed,
    actions: Vec<Action>,
    last: bool,
) -> Result<(), ApplyError> {
    let mut failed = None;
    for action in actions {
        let leaves = status_leaves(executor, &action);
        let unread = last && leaves.as_ref().is_some_and(|leaves| executor.pipeline.keeps_status(leaves));
        match executor.execute(&action, unread).await {
            Ok(outcome) => {
                log_write(executor, &action, &outcome);
                note_dropped_status(executor, leaves, &outcome);
                observed.absorb(&action, outcome);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(()), Err)
}

fn log_write(executor: &Executor<'_>, action: &Action, outcome: &Outcome) {
    match (action, outcome) {
        (_, Outcome::Refused(_)) => {}
        (Action::PatchStatus { .. }, _) => debug!("status updated"),
        _ if action.is_write() => info!(target = executor.generation.target.name, "{action}"),
        _ => {}
    }
}

/// What a status patch writes of the mapping's own fields.
fn status_leaves<'a>(executor: &Executor<'a>, action: &Action) -> Option<Vec<&'a str>> {
    match action {
        Action::PatchStatus { patch } => Some(status::written(&executor.generation.mapping, patch)),
        _ => None,
    }
}

/// Status fields that the consumer's server drops without a word are said once, and not written again.
fn note_dropped_status(executor: &Executor<'_>, written: Option<Vec<&str>>, outcome: &Outcome) {
    let (Some(written), Outcome::Object(answer) | Outcome::Head(answer)) = (written, outcome) else { return };
    let dropped = status::dropped(&written, answer);
    if executor.pipeline.wrote_status(&written, &dropped) {
        warn!(
            fields = dropped.join(" "),
            "the consumer's API does not keep these status fields; they are not written again"
        );
    }
}

/// Keeps the index of who is placed where, which shared objects need. `held` is whether the source carried our finalizer
/// when this reconcile looked last: only that changes the index.
fn note_placement(pipeline: &Pipeline, generation: &Generation, observed: &Observed, held: &mut Option<bool>) {
    // What is settled is placed already.
    if !generation.mapping.has_shared() || observed.settled {
        return;
    }
    let finalizer = observed.writer.finalizer();
    let holds = matches!(&observed.source, Source::Present(source) if has_finalizer(source, finalizer));
    if held.replace(holds) != Some(holds) {
        let namespace = if holds { namespace(generation, observed) } else { None };
        pipeline.place(&observed.key, namespace.as_deref());
    }
}

/// Says how it ended where that is news, and when to look again.
fn finish(pipeline: &Pipeline, generation: &Generation, key: &Key, ended: Ended) -> Finish {
    match ended {
        Ended::InSync | Ended::Dropped => {
            if pipeline.settled(key, None) {
                info!("in sync again");
            }
            Finish::Done
        }
        Ended::Waiting(reasons) if reasons == Reasons::default() => Finish::Done,
        Ended::Waiting(reasons) => {
            say_waiting(pipeline, key, &reasons);
            Finish::After(generation.mapping.lifecycle.stuck_after)
        }
        Ended::Blocked(reasons) => {
            say(pipeline, key, &reasons.to_string());
            Finish::Retry
        }
        Ended::Observed(actions) => {
            let would: Vec<_> = actions.iter().map(Action::to_string).collect();
            say(pipeline, key, &format!("would {} (mode: Observe)", would.join(", ")));
            Finish::Done
        }
        Ended::Failed(error) => failed(pipeline, key, error),
    }
}

/// What cannot be seen is said once for all by its own condition, not by each object that waits for it.
fn say_waiting(pipeline: &Pipeline, key: &Key, reasons: &Reasons) {
    let news = pipeline.settled(key, Some(reasons.to_string()));
    match reasons.cause() {
        Some(Cause::Unknown) => debug!("{reasons}"),
        _ if news => info!("{reasons}"),
        _ => {}
    }
}

fn say(pipeline: &Pipeline, key: &Key, why: &str) {
    if pipeline.settled(key, Some(why.to_owned())) {
        warn!("{why}");
    }
}

fn failed(pipeline: &Pipeline, key: &Key, error: ApplyError) -> Finish {
    match &error {
        ApplyError::Stale { .. } => {
            debug!("{error}");
            note_stale(pipeline, key);
            Finish::After(STALE_WAIT)
        }
        ApplyError::NotOwned { .. } => {
            debug!("{error}");
            Finish::Retry
        }
        ApplyError::Request { source, .. } => {
            say(pipeline, key, &error.to_string());
            source.retry_after().map_or(Finish::Retry, Finish::RetryAfter)
        }
    }
}

/// Remembers the version that a conflict spoke of; the event that brings a newer one wakes the source by itself.
fn note_stale(pipeline: &Pipeline, key: &Key) {
    for feed in pipeline.source_feeds() {
        if let Some(object) = feed.watch.store().get(key) {
            pipeline.conflicted(key, object.resource_version());
        }
    }
}

fn result(ended: &Ended, wrote: bool) -> ReconcileResult {
    match ended {
        Ended::InSync | Ended::Dropped | Ended::Observed(_) if wrote => ReconcileResult::Written,
        Ended::InSync | Ended::Dropped | Ended::Observed(_) => ReconcileResult::InSync,
        Ended::Waiting(_) => ReconcileResult::Waiting,
        Ended::Blocked(_) => ReconcileResult::Blocked,
        Ended::Failed(_) => ReconcileResult::Error,
    }
}
