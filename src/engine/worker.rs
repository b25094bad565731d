//! One reconcile: observe, plan, apply, until the plans for all targets rest.

mod parts;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Span, debug, info, warn};

use self::parts::{Latest, Part, Progress};
use super::apply::{ApplyError, Executor, MOST_SAID, Sum};
use super::bodies::observe_whole;
use super::controller::Controller;
use super::events::Event;
use super::interests::{Facts, Topic, open_in_words};
use super::observe::{SourceTree, see_newcomers, with_targets};
use super::originals;
use super::pipeline::shared_use::{Use, Uses};
use super::pipeline::{Generation, Pipeline, Unsettled};
use super::rehearse::follow_each;
use crate::mapping::{Mode, ProviderKind};
use crate::multicluster::identity::IdentityState;
use crate::multicluster::queue::{Cost, Priority, Requeue};
use crate::multicluster::raw::Unreadable;
use crate::multicluster::watch::WatchState;
use crate::multicluster::work_queue::InFlight;
use crate::object::marks::Reference;
use crate::object::{Key, metadata, shortened};
use crate::plan::observed::all_in;
use crate::plan::{
    Action, Answers, Cause, Completion, Evidence, MAX_ROUNDS, Missing, Observed, Outcome, Phase, Plan, Prune, Reason,
    Reasons, Sight, Source, SourcePatch, completion, has_orphans, owns_finalizer, plan_noting, render, status,
};
use crate::release::{Followed, lost_by_all};
use crate::server::metrics::ReconcileResult;

/// How a reconcile ended.
#[derive(Debug, Default)]
enum Ended {
    InSync,
    Waiting(Reasons),
    Blocked(Reasons),
    /// A request about the target failed in a way that time may mend: try again, not before this long.
    Retry(Reasons, Duration),
    /// `mode: Observe`: what would have been done, and whether objects of the source are orphaned.
    Observed(Vec<Action>, bool),
    Failed(ApplyError),
    /// Its objects are written, and its first status waits behind what others have to do.
    Deferred,
    /// As many sources as may be are worked on at this target of several: it waits for its turn.
    Left,
    /// Its cluster is not engaged (any more), or another replica leads.
    #[default]
    Dropped,
}

/// What a reconcile did on one target.
#[derive(Default)]
struct Run {
    ended: Ended,
    sum: Sum,
    /// How many losses are held; `None`: it was not planned with everything in sight.
    held: Option<usize>,
    /// What servers answered; `None`: nothing was planned.
    answers: Option<Answers>,
    /// Whether the target is not in sight yet: what is said of all targets waits for it.
    is_awaited: bool,
    is_missing: bool,
}

/// What runs on one target of a mapping, and the document that a source follows there.
type Assigned = (Arc<Pipeline>, Arc<Generation>);

/// Reconciles one source on all targets of its mapping, and hands it back to the queue.
pub async fn reconcile(controller: Arc<Controller>, taken: InFlight) {
    let started = Instant::now();
    let key = taken.key().clone();
    let pinned = |one: Arc<Pipeline>| {
        let generation = one.generation_of(&key);
        (one, generation)
    };
    let targets: Vec<Assigned> = controller.pipelines().into_iter().map(pinned).collect();
    let mut facts = controller.interests.reader(&key);
    let runs = run(&controller, &targets, &key, &mut facts, taken.is_by_timer()).await;
    let cost = runs.iter().fold(Cost::default(), |cost, run| cost.and(&run.sum.cost));
    let (metrics, mapping) = (&controller.shared.instruments.metrics, controller.writer.mapping());
    let result = runs.iter().map(|run| result(&run.ended, run.sum.cost.requests > 0)).max();
    metrics.reconciled(mapping, result.unwrap_or(ReconcileResult::InSync), started.elapsed());
    let is_done = |run: &Run| matches!(run.ended, Ended::InSync | Ended::Dropped);
    if let Some(took) = controller.synced_after(&key, cost.requests > 0, runs.iter().all(is_done)) {
        metrics.synced(mapping, took);
    }
    let is_deferred = runs.iter().any(|run| matches!(run.ended, Ended::Deferred));
    let again = match runs.iter().any(|run| run.sum.overtaken) {
        true => Some(Priority::Live),
        false => is_deferred.then_some(Priority::Initial),
    };
    let mut waits: Vec<Cause> = Vec::new();
    let (mut timer, mut planned, mut undecided) = (Requeue::Done, Vec::new(), Vec::new());
    for ((pipeline, generation), run) in targets.iter().zip(runs) {
        let is_done = is_done(&run);
        let Run { ended, sum, held, answers, is_awaited, .. } = run;
        let causes = causes(&ended);
        // An event came in between, or its status waits: nothing was decided.
        let is_decided = !is_done && (!causes.is_empty() || matches!(ended, Ended::Failed(_)));
        timer = timer.sooner(finish(pipeline, generation, &key, ended));
        if is_decided {
            undecided.push((pipeline, sum.done, answers, causes.is_empty()));
        }
        // Nothing is left of one that is dropped. What one has that is missing may still be lost.
        planned.extend(held.map(|held| (pipeline, generation, held, is_done)));
        waits.extend(causes.into_iter().chain(is_awaited.then_some(Cause::Unknown)));
    }
    for (pipeline, done, answers, waits_for_nothing) in undecided {
        let waits_for = if waits_for_nothing { Vec::new() } else { open_in_words(&facts) };
        pipeline.remember(&key, done, answers, waits_for);
    }
    // What is out of sight, and is no fact that was read, no event tells of.
    if waits.contains(&Cause::Unknown) && facts.open().next().is_none() {
        timer = timer.sooner(Requeue::Retry);
    }
    facts.finish(!waits.is_empty());
    for (pipeline, generation, held, is_at_its_end) in planned {
        pipeline.planned(&key, generation, held, is_at_its_end);
    }
    taken.finish(timer, cost);
    if let Some(priority) = again {
        controller.queue.add(key, priority);
    }
}

/// What brought a source here, where it is a timer. It is that of one target, and brings the source to all of them: what no event ends
/// is named first, and before all that a request is tried again.
fn waited_for(waits: impl Iterator<Item = &'static str>) -> &'static str {
    let failed = Cause::RequestFailed.as_str();
    let rank = |why: &str| Cause::ALL.iter().position(|cause| cause.as_str() == why);
    waits.min_by_key(|why| (*why != failed, rank(why))).unwrap_or(failed)
}

/// What the source waits for. Nothing, where it is in order, or where a request about the source itself failed.
fn causes(ended: &Ended) -> Vec<Cause> {
    match ended {
        Ended::Waiting(reasons) | Ended::Blocked(reasons) | Ended::Retry(reasons, _) => {
            reasons.0.iter().map(|reason| reason.cause).collect()
        }
        // What would be done changes with what it was planned from.
        Ended::Observed(..) => vec![Cause::Observed],
        _ => Vec::new(),
    }
}

/// What became of a source on each of these targets.
async fn run<'t>(
    controller: &Arc<Controller>,
    targets: &'t [Assigned],
    key: &'t Key,
    facts: &mut Facts<'_>,
    is_by_timer: bool,
) -> Vec<Run> {
    let mapping = controller.mapping();
    let engaged = || {
        let cluster = controller.shared.manager.cluster(&mapping.source.clusters, &key.cluster)?;
        let feed = controller.feed_of(&cluster)?;
        Some((cluster, feed))
    };
    let Some((cluster, feed)) =
        facts.read([Topic::Binding(key.cluster.clone()), Topic::PassComplete], engaged, Option::is_none)
    else {
        return targets.iter().map(|(pipeline, generation)| unengaged(pipeline, generation, key)).collect();
    };
    if let Some(path) = &cluster.spec.path {
        Span::current().record("workspace", &**path);
    }
    let is_confirmed = || matches!(cluster.known(), IdentityState::Identity(_));
    // Who does not wait for it is not woken by a doubt that is answered.
    if !is_confirmed() && !facts.read([Topic::Identity(key.cluster.clone())], is_confirmed, |known| !known) {
        let detail = format!("source: whether {} is still the same cluster is being confirmed", cluster.spec.name);
        let ended = || Ended::Waiting(Reasons::one(Cause::Unknown, detail.clone()));
        return targets.iter().map(|_| Run { ended: ended(), ..Run::default() }).collect();
    }
    let Some(lease) = controller.shared.lease.permit() else {
        // Once this replica leads, every source is planned.
        let is_listed = feed.watch.store().get(key).is_some();
        targets.iter().for_each(|(pipeline, _)| pipeline.stands_by(key, is_listed || pipeline.has_objects(key)));
        return targets.iter().map(|_| Run::default()).collect();
    };
    // Before anything is looked at: whatever changes from now on ends the right to write.
    let waited_for = is_by_timer.then(|| waited_for(targets.iter().filter_map(|(one, _)| one.waits_for(key))));
    let source_tree = SourceTree::default();
    let executor = |(pipeline, generation): &'t Assigned| Executor {
        waited_for,
        source_tree: source_tree.clone(),
        ..Executor::permitted(pipeline, generation, &cluster, &feed, key, lease.clone())
    };
    let executors: Vec<Executor<'_>> = targets.iter().map(executor).collect();
    let parts = parts::reconcile(executors, facts).await;
    let runs = parts.into_iter().map(|part| {
        let (run, read) = ended(part);
        facts.join(read);
        run
    });
    let runs: Vec<Run> = runs.collect();
    let is_gone = |run: &Run| matches!(run.ended, Ended::InSync) && run.is_missing;
    if runs.iter().all(is_gone) {
        controller.forget(key);
    }
    runs
}

/// What became of a source on one target, and what was read for it. What it has learned of the source is remembered.
fn ended<'f>(part: Part<'_, 'f>) -> (Run, Facts<'f>) {
    let Part { executor, facts, observed, unanswered, ended, fails_anyway, .. } = part;
    let (ended, sum) = (ended.unwrap_or_default(), executor.tally.so_far().clone());
    let Some(observed) = observed else { return (Run { ended, sum, ..Run::default() }, facts) };
    let Executor { pipeline, generation, key, .. } = &executor;
    let mut learned = pipeline.learned.lock();
    learned.note_unanswered(&key.cluster, &unanswered, &observed.answers.unanswered, Instant::now());
    learned.refuse_status(key, &generation.mapping, &observed.answers.refused_status);
    let is_missing = matches!(observed.source, Ok(Source::Missing(_)));
    let is_settled = matches!(ended, Ended::InSync) && (is_missing || generation.phase != Phase::DeletionsOnly);
    let stripped = observed.objects.stripped.iter();
    learned.restored(stripped.filter(|(reference, _)| is_settled || observed.is_no_longer_stripped(reference)));
    let open = causes(&ended);
    let is_at_rest = matches!(ended, Ended::InSync | Ended::Deferred) || !open.is_empty();
    let may_write = generation.mode == Mode::Enforce && generation.phase != Phase::DeletionsOnly;
    let sees_all = is_at_rest && may_write && !open.contains(&Cause::Unknown);
    learned.leave_uncompared(key, observed.uncompared(is_at_rest, sees_all));
    drop(learned);
    let ended = match (ended, sum.retry) {
        (Ended::Waiting(reasons) | Ended::Blocked(reasons), Some(after)) => Ended::Retry(reasons, after),
        (ended, _) => ended,
    };
    if matches!(ended, Ended::InSync) && is_missing {
        pipeline.forget(key);
    }
    if !std::ptr::eq(*generation, &*pipeline.generation()) {
        let completion = match ended {
            Ended::Deferred | Ended::Left | Ended::Failed(_) => Completion::Incomplete,
            _ => completion(&generation.mapping, &observed),
        };
        pipeline.note_completion(key, generation, completion, fails_anyway);
    }
    let held = held(&ended, &observed);
    let is_awaited = observed.among.is_some() && observed.target.kinds.is_err();
    let answers = Some(observed.answers);
    (Run { ended, sum, held, answers, is_awaited, is_missing }, facts)
}

/// What a tenant writes is believed against nobody else: the source waits alone.
pub fn unproven(pipeline: &Pipeline) -> String {
    format!(
        "source: it carries the finalizer `{}` from before the target had a state store, and the target has no object of this \
         mapping: somebody wrote the finalizer by hand, or the state store is lost; nothing is written or deleted for it. \
         Remove the finalizer and the annotation `{}`",
        pipeline.writer.finalizer(),
        pipeline.writer.target_annotation(),
    )
}

/// How many losses of a source are held. `None`: it was not planned with everything in sight.
fn held(ended: &Ended, observed: &Observed) -> Option<usize> {
    let causes = causes(ended);
    match ended {
        Ended::InSync | Ended::Dropped | Ended::Observed(..) => Some(0),
        Ended::Waiting(reasons) if *reasons == Reasons::default() => None,
        Ended::Deferred | Ended::Left => None,
        _ if causes.is_empty() || observed.source.is_err() => observed.is_in_sight().then_some(0),
        _ if causes.contains(&Cause::Unknown) => None,
        _ => Some(causes.iter().filter(|cause| **cause == Cause::Held).count()),
    }
}

/// A source whose workspace or cluster the engine does not see: what it has on the target is orphaned for as long.
fn unengaged(pipeline: &Pipeline, generation: &Generation, key: &Key) -> Run {
    let ended = unseen(pipeline, generation, key);
    let held = (!causes(&ended).contains(&Cause::Unknown)).then_some(0);
    Run { ended, held, ..Run::default() }
}

fn unseen(pipeline: &Pipeline, generation: &Generation, key: &Key) -> Ended {
    let (source, manager) = (&generation.mapping.source, &pipeline.shared.manager);
    // A cluster that the controller does not follow yet may have the name of a former one. The former one's sources get another key
    // once the engine has heard that it left.
    let is_engaged_now = manager.cluster(&source.clusters, &key.cluster).is_some();
    if !is_engaged_now {
        // A reconcile that was under way when its cluster left may have noted what it uses after that was forgotten.
        pipeline.uses_nothing(key);
    }
    if !is_engaged_now && !pipeline.has_objects(key) {
        // What became of its last objects is told by events that come after it is no longer engaged.
        let (mut learned, gone) = (pipeline.learned.lock(), [(&key.cluster, key.cluster.as_str())]);
        learned.forget_clusters(&gone);
        learned.forget_objects_of(&gone);
        return Ended::Dropped;
    }
    let known = manager.cluster_of_identity(&source.clusters, key.cluster.as_str());
    if let Some(cluster) = known.filter(|cluster| cluster.spec.name != key.cluster) {
        // The key was made from ownership annotations before the cluster was engaged.
        pipeline.controller.enqueue_named(key.in_cluster(cluster.spec.name.clone()), Priority::Initial);
        return Ended::Dropped;
    }
    if is_engaged_now || !pipeline.are_clusters_known() {
        let detail = format!("source: whether {} is engaged is not known yet", key.cluster);
        return Ended::Waiting(Reasons::one(Cause::Unknown, detail));
    }
    // A workspace that kcp held up is in use, and seen again once it is deleted.
    let is_in_use =
        || manager.document(&source.clusters).is_some_and(|one| matches!(one.kind, ProviderKind::WorkspaceTypes(_)));
    if is_in_use() {
        return Ended::Dropped;
    }
    let detail = format!("{key}: its workspace is not bound (any more), or its cluster is gone: its objects are kept");
    Ended::Waiting(Reasons::one(Cause::Orphaned, detail))
}

/// Shared objects of a namespace are decided on by one source at a time: those that touch them, and those that leave
/// and may be the last to need them.
fn needs_namespace(generation: &Generation, actions: &[Action]) -> bool {
    let rules = &generation.mapping.objects;
    let is_shared =
        |reference: &Reference| rules.iter().any(|rule| rule.is_shared_at(&reference.kind, &reference.name));
    let leaves = |action: &Action| match action {
        Action::Sweep { .. } => true,
        Action::PatchSource { purpose, .. } => purpose.is_release(),
        _ => false,
    };
    let touches = |action: &Action| action.reference().is_some_and(is_shared) || leaves(action);
    generation.mapping.has_shared() && actions.iter().any(touches)
}

/// Whether a source that is gone may be the last user of what is shared.
fn is_missing_user(observed: &Observed) -> bool {
    matches!(&observed.source, Ok(Source::Missing(missing)) if missing.shares)
}

/// Reads the source past the cache.
async fn read_anew(executor: &Executor<'_>, observed: &mut Observed) -> Result<(), ApplyError> {
    let outcome = executor.read_source(Some(executor.feed.subscription.expect(executor.key))).await;
    let outcome = outcome.map_err(|source| ApplyError::Request { action: "read the source anew".into(), source })?;
    observed.source = match outcome {
        Outcome::Object(object) => Ok(Source::Present(object)),
        _ => Ok(Source::Missing(Missing::default())),
    };
    Ok(())
}

/// Whether something is lost by what a live source said before its watch failed: it may say something else by now.
fn loses_by_failed_watch(executor: &Executor<'_>, observed: &Observed, actions: &[Action]) -> bool {
    let by_source =
        |because| matches!(because, Evidence::Unwanted | Evidence::KeyGone | Evidence::Exit | Evidence::Policy(_));
    let loses = |action: &Action| action.because().is_some_and(by_source);
    observed.present().is_some() && executor.feed.watch.state() != WatchState::Synced && actions.iter().any(loses)
}

async fn converge(
    executor: &Executor<'_>,
    observed: &mut Observed,
    facts: &mut Facts<'_>,
    latest: &Latest,
    progress: &mut Progress,
) -> Ended {
    let (pipeline, generation) = (executor.pipeline, executor.generation);
    let mut locks = None;
    for _ in 0..MAX_ROUNDS {
        latest.catch_up(observed);
        see_newcomers(pipeline, observed);
        let mut places = None;
        let planned = executor.tally.work(|| plan_noting(&generation.mapping, observed, &mut places));
        note_places(pipeline, generation, observed, places, takes_in(&planned), &mut progress.noted);
        let (actions, then) = match planned {
            Plan::Act(actions) => (actions, None),
            Plan::Last(_, then) if latest.is_new() && may_wait(executor, &then) => return Ended::Deferred,
            Plan::Last(action, then) => (vec![*action], Some(then)),
            Plan::Rest(_) if locks.is_none() && is_missing_user(observed) => (Vec::new(), None),
            Plan::Rest(rest) => (Vec::new(), Some(rest)),
        };
        // The consumer is told of what is held once it is compared, and where nobody has given it.
        if let Some(reasons) = &then {
            if let Some(prune) = may_lose(executor, &observed.source, reasons, progress.is_compared).await {
                (observed.limits.prune, progress.is_compared) = (prune, true);
                continue;
            }
            if actions.is_empty() && reasons.is_in_sync() && is_missing_user(observed) {
                pipeline.uses_nothing(executor.key);
            }
        }
        let then = match then {
            Some(rest) if actions.is_empty() => return rest.into(),
            then => then,
        };
        if generation.mode == Mode::Observe && actions.iter().any(|action| action.verb().is_some()) {
            return Ended::Observed(actions, has_orphans(&generation.mapping, observed));
        }
        if locks.is_none() && (needs_namespace(generation, &actions) || is_missing_user(observed)) {
            locks = Some(generation.target.lock_namespaces(&observed.target.places).await);
            // What the plan was made from may have changed while it waited for its turn.
            if let Err(error) = observe_again(executor, observed, facts).await {
                return Ended::Failed(error);
            }
            latest.is_now(observed);
            progress.is_compared = false;
            continue;
        }
        if !progress.is_read_anew && loses_by_failed_watch(executor, observed, &actions) {
            if let Err(error) = read_anew(executor, observed).await {
                return Ended::Failed(error);
            }
            latest.is_now(observed);
            progress.is_read_anew = true;
            continue;
        }
        let writes_source = |one: &Action| matches!(one, Action::PatchSource { .. } | Action::PatchStatus { .. });
        let turn = match actions.iter().any(writes_source) {
            true => Some(latest.turn.lock().await),
            false => None,
        };
        if turn.is_some() && latest.catch_up(observed) {
            // Another target has written it: the plan is made anew.
            continue;
        }
        let is_to_be_taken_in = actions.iter().any(adds_finalizer);
        if is_to_be_taken_in {
            latest.takes_in();
        }
        actions.iter().for_each(|action| note_release(executor, observed, action));
        let acted = act(executor, observed, actions, facts).await;
        if let Err(error) = &acted {
            let is_refused = is_to_be_taken_in && generation.mapping.has_shared() && error.is_refusal();
            if is_refused || matches!(error, ApplyError::Stale { .. }) {
                // The next attempt begins with what it is now, also where its watch is silent.
                match read_anew(executor, observed).await {
                    // Whoever leaves what it shares would wait for as long as it cannot be taken in.
                    Ok(()) if is_refused => {
                        note_places(pipeline, generation, observed, None, Some(false), &mut progress.noted);
                    }
                    Ok(()) => {}
                    Err(why) => debug!(%why, %error, "the source cannot be read again"),
                }
            }
        }
        if turn.is_some() {
            latest.is_now(observed);
        }
        drop(turn);
        let refused_status = match acted {
            Ok(refused_status) => refused_status,
            Err(error) => return Ended::Failed(error),
        };
        match then {
            Some(then) if !refused_status => return then.into(),
            _ if executor.tally.so_far().overtaken => {
                // Who waits for its turn sees that a source was let go.
                note_places(pipeline, generation, observed, None, Some(false), &mut progress.noted);
                // What came in between is in the caches, and may change the plan.
                return Ended::Waiting(Reasons::default());
            }
            _ => {}
        }
    }
    warn!(
        rounds = MAX_ROUNDS,
        "the plan does not come to rest; it is tried again later, and `sync-engine trace` shows what it decides"
    );
    Ended::Blocked(Reasons::default())
}

/// Looks at a source once more. What servers answered in this reconcile still counts.
async fn observe_again(
    executor: &Executor<'_>,
    observed: &mut Observed,
    facts: &mut Facts<'_>,
) -> Result<(), ApplyError> {
    let mut now = observe_whole(executor, facts).await?;
    if let Some(among) = &observed.among {
        with_targets(executor.pipeline, &mut now, &among.targets);
    }
    (now.answers, now.related) = (std::mem::take(&mut observed.answers), std::mem::take(&mut observed.related));
    now.limits.tells_nothing = observed.limits.tells_nothing;
    *observed = now;
    Ok(())
}

/// Whether a plan takes its source in. `None`: what it depends on is to be read first.
fn takes_in(planned: &Plan) -> Option<bool> {
    let Plan::Act(actions) = planned else { return Some(false) };
    let is_read = |action: &Action| matches!(action, Action::Read(_));
    (!actions.iter().all(is_read)).then(|| actions.iter().any(adds_finalizer))
}

/// With what losses that are held are looked at again. `None`: none is held, or whoever shares out the ledger queues the source.
async fn may_lose(
    executor: &Executor<'_>,
    source: &Sight<Source>,
    reasons: &Reasons,
    is_compared: bool,
) -> Option<Prune> {
    let Executor { pipeline, generation, key, .. } = executor;
    let held = reasons.0.iter().filter(|reason| reason.cause == Cause::Held).count();
    if held == 0 {
        return None;
    }
    if !is_compared {
        // What its consumer takes away goes at once, whichever document the source follows.
        let documents = pipeline.compared_with(generation, key);
        let before = follow_each(executor, source, documents).await;
        let lost = lost_by_all(&before, Followed::lost_objects, Reference::order_in_any_version);
        return Some(Prune::Held(lost));
    }
    pipeline.may_lose(generation, key, held).then_some(Prune::Allowed)
}

/// Whether a source that follows a candidate, and is not in sync for this cause, would fail for it by the documents before as well.
async fn fails_anyway(executor: &Executor<'_>, source: &Sight<Source>, cause: Option<Cause>) -> bool {
    let Executor { pipeline, generation, key, .. } = executor;
    let Some(cause) = cause.filter(|_| pipeline.is_candidate(generation)) else { return false };
    let before = follow_each(executor, source, pipeline.compared_with(generation, key)).await;
    let fails_too = |one: &Followed| {
        let reasons = one.rest.iter().flat_map(|rest| &rest.0);
        one.fails() && reasons.map(|reason| reason.cause).min() == Some(cause)
    };
    !before.is_empty() && before.iter().all(fails_too)
}

fn adds_finalizer(action: &Action) -> bool {
    matches!(action, Action::PatchSource { purpose: SourcePatch::AddFinalizer, .. })
}

/// Whether the first status of a source may wait: while more sources wait than are served at once, and nothing is wrong that
/// the consumer should know of. What the target reports meanwhile is then part of the same write. It waits only once.
fn may_wait(executor: &Executor<'_>, then: &Reasons) -> bool {
    let is_well = !then.is_blocked() && executor.tally.so_far().retry.is_none();
    is_well && executor.pipeline.controller.queue.is_busy()
}

impl From<Reasons> for Ended {
    fn from(reasons: Reasons) -> Self {
        match reasons.is_blocked() {
            _ if reasons.is_in_sync() => Self::InSync,
            true => Self::Blocked(reasons),
            false => Self::Waiting(reasons),
        }
    }
}

/// Carries out one plan. An action that fails does not keep the others of its plan from being tried. `true`: the status was
/// refused, and has to be computed again without what was refused.
async fn act(
    executor: &Executor<'_>,
    observed: &mut Observed,
    actions: Vec<Action>,
    facts: &mut Facts<'_>,
) -> Result<bool, ApplyError> {
    let mut failed = None;
    let mut refused_status = false;
    for together in actions.chunk_by(|one, next| one.reference().is_some() && next.reference().is_some()) {
        for (action, done) in together.iter().zip(carry_out(executor, together, facts).await) {
            match done {
                Ok(outcome) => {
                    note_dropped_status(executor, action, &outcome);
                    tell_consumer(executor, observed, action, &outcome);
                    refused_status |= matches!(outcome, Outcome::StatusRefused { .. });
                    observed.absorb(action, outcome);
                }
                Err(error) => {
                    if let (true, ApplyError::Request { source, .. }) = (adds_finalizer(action), &error) {
                        executor.pipeline.learned.lock().finalizer.failed(source);
                    }
                    failed = failed.or(Some(error));
                }
            }
        }
    }
    failed.map_or(Ok(refused_status), Err)
}

/// Objects of one source that a reconcile writes at once. Limits of the servers' own come on top.
const TOGETHER: usize = 16;

/// Writes of several objects are sent together; every other action stands alone.
async fn carry_out(
    executor: &Executor<'_>,
    together: &[Action],
    facts: &mut Facts<'_>,
) -> Vec<Result<Outcome, ApplyError>> {
    if let [action] = together
        && let Some(seen) = originals::answer(executor, facts, action).await
    {
        return vec![Ok(seen)];
    }
    let mut requests = Vec::with_capacity(together.len());
    for action in together {
        requests.push(executor.execute(action));
    }
    stream::iter(requests).buffered(TOGETHER).collect().await
}

/// The condition that was written, as an Event.
fn tell_consumer(executor: &Executor<'_>, observed: &Observed, action: &Action, outcome: &Outcome) {
    let (Action::PatchStatus { .. }, Outcome::Object(after)) = (action, outcome) else { return };
    let Some(before) = observed.present() else { return };
    let engine = executor.pipeline.writer.engine();
    let event = || Event::of_status(engine, before, after);
    executor.pipeline.shared.recorder.tell(&executor.at_source, event);
}

/// Status fields that the consumer's server drops without a word are reported once, and not written again.
fn note_dropped_status(executor: &Executor<'_>, action: &Action, outcome: &Outcome) {
    let (Action::PatchStatus { values, .. }, Outcome::Object(answer)) = (action, outcome) else { return };
    let dropped = status::dropped(values, answer);
    let version = executor.pipeline.controller.schema(executor.feed).map(|known| known.version).unwrap_or_default();
    if executor.pipeline.learned.lock().dropped.note(&executor.key.cluster, &version, &dropped) {
        warn!(
            fields = dropped.join(" "),
            "the consumer's API does not keep these status fields, and they are not written again: add them to its schema, or \
             take them out of `status`"
        );
    }
}

/// A create that comes late makes an object of a source that was released, or let go: it is deleted as the others were. The answer
/// to what releases it may be lost.
fn note_release(executor: &Executor<'_>, observed: &Observed, action: &Action) {
    let Executor { pipeline, key, .. } = executor;
    // A LogicalCluster that is released is not deleted by that: it is let go.
    let (Some(source), Action::PatchSource { purpose, .. }) = (observed.present(), action) else { return };
    let (is_deleting, now) = (!metadata(source, "deletionTimestamp").is_empty(), Instant::now());
    let all = pipeline.controller.pipelines();
    match purpose {
        // It names other targets as well.
        SourcePatch::AddFinalizer => all.iter().for_each(|one| one.learned.lock().takes_in(key)),
        SourcePatch::ReleaseFinalizer(_) if is_deleting => {
            all.iter().for_each(|one| one.learned.lock().saw_deletion(key, observed.source_uid(), now));
        }
        SourcePatch::ReleaseFinalizer(_) | SourcePatch::Unpin(_) if !is_deleting => {
            pipeline.learned.lock().lets_go(key, observed.source_uid(), now);
        }
        _ => {}
    }
}

/// Keeps the index of who shares what, before anything is written. `rendered`: what the plan knows of that; `noted` is what this
/// reconcile noted last. Of a source that the plan takes in, nobody can tell before its server has answered: another process may have
/// taken it in, and a watch that is behind does not show that; or it goes, and nobody would take along what it never came to use.
fn note_places(
    pipeline: &Pipeline,
    generation: &Generation,
    observed: &Observed,
    rendered: Option<BTreeSet<String>>,
    takes_in: Option<bool>,
    noted: &mut Option<Uses>,
) {
    let mapping = &generation.mapping;
    if !mapping.has_shared() {
        return;
    }
    let holds = |source: &&Arc<Value>| takes_in == Some(true) || owns_finalizer(observed, source);
    let around_its_objects = || observed.objects.own().flat_map(|one| all_in(&one.reference.namespace)).collect();
    let (way, places) = match &observed.source {
        // Until it is known whether it is taken in, it may use any place.
        Ok(Source::Present(source)) if takes_in.is_none() && !holds(&source) => return,
        Ok(Source::Present(source)) => {
            let places = || rendered.unwrap_or_else(|| render::places_in_use(mapping, observed, source));
            let way = match owns_finalizer(observed, source) {
                false => Use::MayNeed,
                true if metadata(source, "deletionTimestamp").is_empty() => Use::Needs,
                true => Use::Leaves,
            };
            (way, Some(source).filter(holds).map(|_| places()))
        }
        // A source that cannot be seen may be placed anywhere. What is no tree has its metadata, and tells its namespace.
        Err(_) => match unreadable(pipeline, &observed.subject.key) {
            Some(source) => {
                let places = |source| render::all_places(mapping, observed, source);
                (Use::Needs, Some(&source).filter(holds).map(places))
            }
            None => return,
        },
        // Until nothing of it is left, it is a user.
        Ok(Source::Missing(missing)) if missing.shares => {
            if pipeline.shared_use.lock().is_user(&observed.subject.key) {
                return;
            }
            (Use::Leaves, Some(around_its_objects()))
        }
        // Its watch may be behind: until its server says that it is missing, its objects say where it is.
        Ok(Source::Missing(missing)) => {
            let may_exist =
                missing.deleted.is_none() && !pipeline.learned.lock().is_surely_missing(&observed.subject.key);
            (Use::MayNeed, may_exist.then(around_its_objects))
        }
    };
    let uses = Uses { places: places.unwrap_or_default(), way };
    if noted.as_ref() != Some(&uses) {
        pipeline.saw_places(generation, &observed.subject.key, &uses);
        *noted = Some(uses);
    }
}

/// A source that is there and cannot be read: what its metadata says.
fn unreadable(pipeline: &Pipeline, key: &Key) -> Option<Arc<Value>> {
    let object = pipeline.controller.source(key)?;
    match object.value() {
        Err(Unreadable::NoTree(_)) => object.outline().ok().map(Arc::new),
        _ => None,
    }
}

/// Reports how it ended where that is news, and says when to look again.
fn finish(pipeline: &Pipeline, generation: &Generation, key: &Key, ended: Ended) -> Requeue {
    match ended {
        Ended::InSync => {
            if pipeline.settled(key, None) {
                info!("in sync again");
            }
            Requeue::Done
        }
        Ended::Dropped => {
            pipeline.settled(key, None);
            Requeue::Done
        }
        Ended::Waiting(reasons) if reasons == Reasons::default() => Requeue::Done,
        Ended::Deferred | Ended::Left => Requeue::Done,
        Ended::Waiting(reasons) => {
            report(pipeline, key, &reasons);
            Requeue::After(generation.mapping.lifecycle.stuck_after())
        }
        Ended::Blocked(reasons) => {
            report(pipeline, key, &reasons);
            Requeue::Retry
        }
        Ended::Retry(reasons, after) => {
            report(pipeline, key, &reasons);
            pipeline.request_failed(key);
            if after.is_zero() { Requeue::Retry } else { Requeue::RetryAfter(after) }
        }
        Ended::Observed(actions, orphans) => {
            let would: Vec<_> = actions.iter().map(Action::to_string).collect();
            let why = format!("would {} (mode: Observe)", would.join(", "));
            warn_once(pipeline, key, Some(Cause::Observed), orphans, &why);
            Requeue::Done
        }
        Ended::Failed(error) => failed(pipeline, key, error),
    }
}

/// What cannot be seen is reported once for all by its own condition, not by each object that waits for it; a source that cannot be
/// read has none. A thousand objects may have a reason each, and a tenant's annotation may be in one.
fn report(pipeline: &Pipeline, key: &Key, reasons: &Reasons) {
    let cause = reasons.cause();
    let orphans = reasons.0.iter().any(|reason| reason.cause == Cause::Orphaned);
    let why = shortened(&reasons.to_string(), MOST_SAID);
    let of_target = reasons.of_target();
    let of_target = of_target.map(|one| Reason { detail: shortened(&one.detail, MOST_SAID), ..one });
    let is_logged = !matches!(cause, None | Some(Cause::Unknown));
    let unsettled = Unsettled { cause, orphans, why: why.clone(), of_target, since: Instant::now(), is_logged };
    let news = pipeline.settled(key, Some(unsettled));
    match cause {
        Some(Cause::Unknown) if news && unreadable(pipeline, key).is_some() => warn!(%why, "the source cannot be read"),
        None | Some(Cause::Unknown) => debug!(%why, "not in sync"),
        Some(cause @ Cause::Waiting) if news => info!(reason = cause.as_str(), %why, "not in sync"),
        Some(cause) if news => warn!(reason = cause.as_str(), %why, "not in sync"),
        _ => {}
    }
}

/// `cause`: as [`Unsettled`] has it.
fn warn_once(pipeline: &Pipeline, key: &Key, cause: Option<Cause>, orphans: bool, why: &str) {
    let why = shortened(why, MOST_SAID);
    let (of_target, since, is_logged) = (None, Instant::now(), true);
    let unsettled = Unsettled { cause, orphans, why: why.clone(), of_target, since, is_logged };
    if pipeline.settled(key, Some(unsettled)) {
        warn!(reason = cause.unwrap_or(Cause::RequestFailed).as_str(), why, "not in sync");
    }
}

fn failed(pipeline: &Pipeline, key: &Key, error: ApplyError) -> Requeue {
    match &error {
        ApplyError::Stale { .. } | ApplyError::NotOwned { .. } => {
            debug!(%error, "not in sync");
            pipeline.request_failed(key);
            Requeue::Retry
        }
        ApplyError::Request { source, .. } => {
            warn_once(pipeline, key, None, false, &error.to_string());
            source.retry_after().map_or(Requeue::Retry, Requeue::RetryAfter)
        }
    }
}

fn result(ended: &Ended, wrote: bool) -> ReconcileResult {
    match ended {
        Ended::InSync | Ended::Dropped | Ended::Observed(..) if !wrote => ReconcileResult::InSync,
        Ended::InSync | Ended::Dropped | Ended::Observed(..) | Ended::Deferred => ReconcileResult::Written,
        Ended::Waiting(_) | Ended::Left => ReconcileResult::Waiting,
        Ended::Blocked(_) => ReconcileResult::Blocked,
        Ended::Failed(_) | Ended::Retry(..) => ReconcileResult::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::waited_for;

    #[test]
    fn a_source_waited_for_what_no_event_ends_on_any_target() {
        for (waits, told) in [
            (&["Unknown", "RequestFailed"][..], "RequestFailed"),
            (&["Conflict", "Unknown"], "Conflict"),
            (&["Deleting", "RequestFailed"], "RequestFailed"),
            (&["Unknown"], "Unknown"),
            (&[], "RequestFailed"),
        ] {
            assert_eq!(waited_for(waits.iter().copied()), told, "{waits:?}");
        }
    }
}
