//! One source, asked for on the console: it is looked at as a reconcile does, and nothing is written.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, timeout};

use super::apply::Executor;
use super::bodies::observe_whole;
use super::interests::Interests;
use super::observe::with_cached_targets;
use super::originals;
use super::pipeline::{Pipeline, Unsettled};
use super::worker::unproven;
use crate::multicluster::identity::IdentityState;
use crate::multicluster::permit::Permit;
use crate::object::{ClusterName, Key};
use crate::plan::saved::{Context, Saved};
use crate::plan::trace::{Past, Said, Trace};
use crate::plan::{Action, Answers, Cause, MAX_ROUNDS, Observed, Plan, Source, plan};
use crate::server::api::{self, Asked, ObjectName, SourceName, TracedSource};

/// A cluster that does not answer keeps nobody waiting: the last decisions tell that it does not.
const PATIENCE: Duration = Duration::from_secs(5);

impl api::Sources for Pipeline {
    fn mapping(&self) -> &str {
        self.writer.mapping()
    }

    fn target(&self) -> String {
        self.generation().target.name.clone()
    }

    fn not_synced(&self) -> Vec<api::Source> {
        let source = |(key, how): (Key, Unsettled)| api::Source {
            of: source_name(self, &key),
            workspace: self.path_of(&key),
            reason: how.cause.unwrap_or(Cause::RequestFailed).as_str().to_owned(),
            message: how.why,
            seconds: how.since.elapsed().as_secs(),
        };
        self.unsettled().into_iter().map(source).collect()
    }

    fn owners(&self, object: &ObjectName) -> Vec<SourceName> {
        let owners = self.sources_of_object(&object.kind, &object.namespace, &object.name);
        owners.iter().map(|key| source_name(self, key)).collect()
    }

    fn trace(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Option<TracedSource>> {
        Box::pin(async move {
            let key = key(&self, &asked)?;
            let (past, answers) = past(&self, &key);
            let late = Err("a cluster does not answer within five seconds".to_owned());
            let looked = timeout(PATIENCE, look(&self, &key, answers)).await.unwrap_or(late);
            let line = line(&asked, &self.generation().mapping.text);
            let context = Context { version: env!("CARGO_PKG_VERSION").into(), file: asked.file, line, past };
            Some(match looked {
                Ok(observed) => traced(&self, &observed, context, asked.is_whole),
                Err(why) => unseen(&self, &key, context.past, why),
            })
        })
    }
}

fn source_name(pipeline: &Pipeline, key: &Key) -> SourceName {
    SourceName {
        mapping: pipeline.writer.mapping().to_owned(),
        cluster: key.cluster.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        target: pipeline.generation().target.name.clone(),
    }
}

/// The key of a source that this pipeline knows. A workspace has its cluster's name, its path, and its identity.
fn key(pipeline: &Pipeline, asked: &Asked) -> Option<Key> {
    let generation = pipeline.generation();
    let engaged = pipeline.shared.manager.clusters(&generation.mapping.source.clusters);
    let found = engaged.iter().find(|one| {
        let names = [Some(one.spec.name.as_str()), Some(one.identity()), one.spec.path.as_deref()];
        names.contains(&Some(asked.workspace.as_str()))
    });
    let named = || ClusterName::try_from(asked.workspace.as_str()).ok();
    let cluster = found.map(|one| one.spec.name.clone()).or_else(named)?;
    let key = Key::new(cluster, asked.namespace.as_str(), asked.name.as_str());
    let is_there = || pipeline.controller.source(&key).is_some();
    (pipeline.is_unsettled(&key) || is_there()).then_some(key)
}

/// The line of its file on which a document begins.
fn line(asked: &Asked, document: &str) -> usize {
    let content = asked.files.readable.get(&asked.file);
    let content = content.and_then(|content| std::str::from_utf8(content).ok()).unwrap_or_default();
    let before = content.find(document).map_or("", |at| &content[..at]);
    before.matches('\n').count() + 1
}

/// What is remembered of a source, and what servers answered when it was reconciled last.
fn past(pipeline: &Pipeline, key: &Key) -> (Past, Answers) {
    let now = pipeline.shared.settings.clock.now();
    let follows = pipeline.follows_candidate_since(key);
    let follows_candidate_since = follows.and_then(|since| before(now, since.elapsed()));
    let Some((mut past, answers, since)) = pipeline.remembered(key) else {
        return (Past { follows_candidate_since, ..Past::default() }, Answers::default());
    };
    past.follows_candidate_since = follows_candidate_since;
    past.since = before(now, since.elapsed());
    let due =
        pipeline.controller.queue.due(key).map(|due| Instant::from_std(due).saturating_duration_since(Instant::now()));
    past.again = due.and_then(|due| after(now, due));
    (past, answers)
}

fn before(now: Timestamp, ago: Duration) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::try_from(ago).ok()?).ok()
}

fn after(now: Timestamp, later: Duration) -> Option<Timestamp> {
    now.checked_add(SignedDuration::try_from(later).ok()?).ok()
}

/// What a reconcile would plan with. It reads what that reads, and registers nothing: nobody is to be woken for it.
///
/// # Errors
/// Why there would be no plan.
async fn look(pipeline: &Arc<Pipeline>, key: &Key, answers: Answers) -> Result<Observed, String> {
    let generation = pipeline.generation_of(key);
    let cluster = pipeline.shared.manager.cluster(&generation.mapping.source.clusters, &key.cluster);
    let engaged = cluster.and_then(|cluster| Some((pipeline.controller.feed_of(&cluster)?, cluster)));
    let (feed, cluster) = engaged.ok_or("its workspace or cluster is not engaged")?;
    if !matches!(cluster.known(), IdentityState::Identity(_)) {
        return Err(format!("whether {} is still the same cluster is being confirmed", cluster.spec.name));
    }
    if pipeline.is_unproven(key) {
        return Err(unproven(pipeline));
    }
    if !pipeline.shared.lease.is_held() {
        return Err("another replica leads: ask that one".to_owned());
    }
    let interests = Interests::default();
    let mut facts = interests.reader(key);
    let executor = Executor::permitted(pipeline, &generation, &cluster, &feed, key, Permit::of_nothing());
    let mut observed = observe_whole(&executor, &mut facts).await.map_err(|error| error.to_string())?;
    with_cached_targets(pipeline, &generation, &mut observed);
    if matches!(observed.source, Ok(Source::Missing(_))) && !pipeline.is_unsettled(key) {
        // It was let go meanwhile: to have looked for it is no reason to remember it.
        pipeline.learned.lock().forget(key);
    }
    let Answers { unanswered, uncompared, refused_status, .. } = std::mem::take(&mut observed.answers);
    observed.answers = Answers { unanswered, uncompared, refused_status, ..answers };
    for _ in 0..MAX_ROUNDS {
        let Plan::Act(actions) = plan(&generation.mapping, &observed) else { break };
        let reads = |action: &Action| matches!(action, Action::Read(_) | Action::ReadAnew(_) | Action::LookForSource);
        if !actions.iter().all(reads) {
            break;
        }
        for action in actions {
            let outcome = match originals::answer(&executor, &mut facts, &action).await {
                Some(seen) => seen,
                None => executor.execute(&action).await.map_err(|error| error.to_string())?,
            };
            observed.absorb(&action, outcome);
        }
    }
    Ok(observed)
}

/// The decision on what would be kept: no value of a Secret is in it.
fn traced(pipeline: &Pipeline, observed: &Observed, context: Context, is_whole: bool) -> TracedSource {
    // Another one each time: what stands for a value tells nothing of it to who tries values.
    let hasher = RandomState::new();
    let mask = |value: &str| format!("redacted-{:016x}", hasher.hash_one(value));
    let (key, past) = (observed.subject.key.clone(), context.past.clone());
    let saved = Saved::of(&pipeline.generation_of(&observed.subject.key).mapping, observed, context, &mask);
    let why = saved.as_ref().err().map_or("it cannot be kept".to_owned(), ToString::to_string);
    match saved.as_ref().ok().and_then(|saved| saved.trace().ok()) {
        Some(trace) => TracedSource { trace, saved: saved.ok().filter(|_| is_whole) },
        None => unseen(pipeline, &key, past, why),
    }
}

fn unseen(pipeline: &Pipeline, key: &Key, past: Past, why: String) -> TracedSource {
    let now = pipeline.shared.settings.clock.now();
    let (cluster, source) = (key.cluster.as_str(), (&*key.namespace, &*key.name));
    let target = pipeline.generation().target.name.clone();
    let reasons = vec![Said { reason: Cause::Unknown.as_str().to_owned(), message: why }];
    let trace = Trace { past, reasons, ..Trace::unseen(pipeline.writer.mapping(), cluster, source, &target, now) };
    TracedSource { trace, saved: None }
}
