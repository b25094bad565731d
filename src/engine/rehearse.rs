//! Plans every source in sight with a document that waits to be released, on what the caches show. Writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::apply::Executor;
use super::bodies::observe_whole;
use super::controller::Feed;
use super::interests::Interests;
use super::observe::{kind_trouble, with_cached_targets};
use super::originals;
use super::pipeline::{Generation, Pipeline};
use crate::mapping::{Kind, Mapping, OnExit};
use crate::multicluster::identity::IdentityState;
use crate::multicluster::permit::Permit;
use crate::multicluster::watch::WatchState;
use crate::object::Key;
use crate::plan::{
    Action, MAX_ROUNDS, Observed, Outcome, Phase, Prune, Sight, Source, owns_finalizer, plan, rehearsal,
};
use crate::release::{Effect, Followed, Now, Rehearsal};

/// How long a rehearsal waits for the watches that only the candidate needs. It is tried again at the next tick.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
/// How often a rehearsal steps aside between two sources at most, and for how long: so thousands are rehearsed all the same.
const STANDS_BACK: usize = 2;
const TURN: Duration = Duration::from_millis(1);
/// From one look at sources, most of which are out of sight, to the next.
const PAUSE: Duration = Duration::from_millis(500);

/// A document that waits, on one target of its mapping.
#[derive(Debug)]
pub struct OnTarget {
    pub pipeline: Arc<Pipeline>,
    pub candidate: Generation,
    /// The clusters of a provider that it may choose as targets.
    pub selected: Arc<BTreeSet<String>>,
}

/// What a candidate does to every source in sight.
///
/// # Errors
/// Why that cannot be told yet.
pub async fn rehearse(on: Vec<OnTarget>) -> Result<Rehearsal, String> {
    let started = Instant::now();
    loop {
        let all = look(&on).await?;
        // What is just being confirmed or read is in sight a moment later.
        if all.hidden().is_empty() || started.elapsed() >= PATIENCE {
            return Ok(all);
        }
        sleep(PAUSE).await;
    }
}

async fn look(on: &[OnTarget]) -> Result<Rehearsal, String> {
    let mut all = Rehearsal::default();
    for one in on {
        all.unseen.extend(ready(one).await?);
        for feed in one.pipeline.controller.source_feeds() {
            // What a watch showed that has failed since is planned with: it is what the document in force goes by.
            if matches!(feed.watch.state(), WatchState::Failed { synced_before: false, .. }) {
                all.unseen.insert(feed.scope.endpoint.place());
                continue;
            }
            all.seen.insert(feed.scope.endpoint.place());
            for key in feed.keys() {
                if let Some(effect) = effect(one, &feed, &key).await {
                    add(&mut all, one, key, effect);
                }
                stand_back(&one.pipeline).await;
            }
        }
        for key in one.pipeline.controller.named_by(one.pipeline.object_feeds()) {
            let Some(feed) = feed_that_lacks(one, &key) else {
                yield_now().await;
                continue;
            };
            let says = |effect: &Effect| !effect.lost.is_empty() || effect.is_out_of_sight;
            if let Some(effect) = effect(one, &feed, &key).await.filter(says) {
                add(&mut all, one, key, effect);
            }
            stand_back(&one.pipeline).await;
        }
        let objects = one.pipeline.objects();
        if one.candidate.phase == Phase::Leaving(OnExit::Delete) {
            // What sources share goes with the last of them, whatever a plan of each tells.
            all.takes_all(&one.candidate.target.name, objects);
        }
        all.objects += objects;
    }
    all.objects += on.first().map_or(0, |one| one.pipeline.copies());
    Ok(all)
}

fn add(all: &mut Rehearsal, one: &OnTarget, key: Key, effect: Effect) {
    let path = one.pipeline.path_of(&key);
    all.paths.extend(path.map(|path| (key.cluster.clone(), path)));
    all.add(&one.candidate.target.name, key, effect);
}

/// Thousands of sources follow each other: whatever else is to be done has its turn in between, and who is served just now is
/// served first.
async fn stand_back(pipeline: &Pipeline) {
    for _ in 0..STANDS_BACK {
        if !pipeline.controller.serves_somebody() {
            break;
        }
        sleep(TURN).await;
    }
    yield_now().await;
}

/// Waits until what is needed is in sight, and every source was planned with the document in force, or it is known why not. Gives
/// the clusters that do not come into sight.
async fn ready(on: &OnTarget) -> Result<Option<String>, String> {
    let started = Instant::now();
    loop {
        let is_patient = started.elapsed() < PATIENCE;
        match waits_for(on) {
            None => return Ok(None),
            Some(Wait::Person(why)) => return Err(why),
            Some(Wait::Time(_) | Wait::Sight(_)) if is_patient => sleep(LOOK).await,
            Some(Wait::Time(why)) => return Err(why),
            Some(Wait::Sight(clusters)) => return Ok(clusters),
        }
    }
}

enum Wait {
    Time(String),
    /// What is out of sight may stay so: clusters of its sources that are not known, a kind that cannot be listed, or what a source
    /// waits for.
    Sight(Option<String>),
    /// Somebody has to do something.
    Person(String),
}

fn waits_for(OnTarget { pipeline, candidate, .. }: &OnTarget) -> Option<Wait> {
    if !pipeline.controller.are_clusters_followed() {
        return Some(Wait::Time("some clusters of its sources are not followed yet".to_owned()));
    }
    let is_unlisted = |feed: &Arc<Feed>| feed.watch.state() == WatchState::Starting;
    if pipeline.controller.source_feeds().iter().any(is_unlisted) {
        return Some(Wait::Time("its sources are not listed yet".to_owned()));
    }
    // A target that is lost tells nothing: its sources are rehearsed on the other targets.
    let of_target = if pipeline.is_lost() { None } else { waits_for_target(pipeline, candidate) };
    let clusters = &pipeline.generation().mapping.source.clusters;
    let are_unknown = !pipeline.shared.manager.is_synced(clusters);
    let of_clusters = || are_unknown.then(|| Wait::Sight(Some(format!("some of {clusters}"))));
    let of_sources = || (!pipeline.is_lost() && pipeline.has_unplanned()).then_some(Wait::Sight(None));
    of_target.or_else(of_clusters).or_else(of_sources)
}

fn waits_for_target(pipeline: &Arc<Pipeline>, candidate: &Generation) -> Option<Wait> {
    if let Some(why) = pipeline.unconfirmed() {
        return Some(Wait::Time(why));
    }
    if !pipeline.is_looked_at() {
        let target = &candidate.target.name;
        return Some(Wait::Time(format!("not every source was planned with the document in force on `{target}` yet")));
    }
    let (known, in_force) = (pipeline.kinds(), pipeline.generation());
    let new = candidate.mapping.objects.iter().map(|rule| &rule.kind).filter(|kind| !known.contains(kind));
    let trouble = |kind: &Kind| {
        let (why, is_coming) = kind_trouble(pipeline, candidate, kind)?;
        // A target on which no mapping runs was asked for the kind only now.
        let is_asked = candidate.target.kind(kind).is_err() && !candidate.target.lacks(kind);
        Some((why, is_coming || is_asked))
    };
    if let Some((why, is_coming)) = new.filter_map(trouble).next() {
        return Some(if is_coming { Wait::Time(why) } else { Wait::Person(why) });
    }
    // What sources have that vanished, its objects alone tell.
    let mut unlisted = None;
    for kind in &known {
        let state = pipeline.kind_feed(kind).map(|feed| feed.watch.state());
        match (kind_trouble(pipeline, &in_force, kind), state) {
            (Some((_, true)), Some(WatchState::Failed { .. })) => {
                unlisted = Some(Wait::Sight(Some(format!("{kind} on target `{}`", in_force.target.name))));
            }
            (Some((why, true)), _) => return Some(Wait::Time(why)),
            _ => {}
        }
    }
    unlisted
}

/// What becomes of one source. `None`: it is out of sight.
async fn effect(on: &OnTarget, feed: &Feed, key: &Key) -> Option<Effect> {
    let OnTarget { pipeline, candidate, selected } = on;
    let in_force = pipeline.generation();
    let cluster = pipeline.shared.manager.cluster(&in_force.mapping.source.clusters, &key.cluster)?;
    let not_told = |why: &str| Some(Effect { not_told: Some(why.to_owned()), ..Effect::default() });
    let unseen = |why: &str| not_told(why).map(|effect| Effect { is_out_of_sight: true, ..effect });
    if !matches!(cluster.known(), IdentityState::Identity(_)) {
        return unseen("its cluster is being confirmed");
    }
    if candidate.mapping.source.resource != in_force.mapping.source.resource {
        return not_told("the candidate reads another version of it");
    }
    loop {
        let was_at_rest = pipeline.is_at_rest(key);
        let executor = Executor::permitted(pipeline, candidate, &cluster, feed, key, Permit::of_nothing());
        let Some((now, source, followed)) = follow(&executor, None, Some(selected)).await else {
            return unseen("it cannot be read");
        };
        // Of a source at rest, the document in force loses nothing.
        let loses = !followed.losses().is_empty();
        let before = match loses && !(was_at_rest && pipeline.is_at_rest(key)) || followed.fails() {
            true => follow_each(&executor, &source, pipeline.compared_with(candidate, key)).await,
            false => Vec::new(),
        };
        // What the document in force took away in between, it does not lose any more, and the candidate is not to blame.
        if !loses || was_at_rest || !pipeline.is_at_rest(key) {
            return Some(Effect::of(now, &followed, &before));
        }
    }
}

/// What would show a source that is missing. `None`: it is there, or out of sight.
fn feed_that_lacks(OnTarget { pipeline, .. }: &OnTarget, key: &Key) -> Option<Arc<Feed>> {
    let cluster = pipeline.shared.manager.cluster(&pipeline.generation().mapping.source.clusters, &key.cluster)?;
    let feed = pipeline.controller.feed_of(&cluster)?;
    (feed.watch.state() == WatchState::Synced && feed.watch.store().get(key).is_none()).then_some(feed)
}

/// What each of these documents would do with the source, were it in force. Nothing, where it cannot be told of one of them.
/// `source`: as the plan saw it that they are compared with. By now it may say something else.
pub async fn follow_each(
    executor: &Executor<'_>,
    source: &Sight<Source>,
    documents: Option<Vec<Arc<Mapping>>>,
) -> Vec<Followed> {
    let &Executor { pipeline, cluster, feed, key, .. } = executor;
    let target = pipeline.generation().target.clone();
    let mut all = Vec::new();
    for document in documents.unwrap_or_default() {
        let generation = Generation::new(document, Phase::Active, target.clone());
        let executor = Executor::permitted(pipeline, &generation, cluster, feed, key, Permit::of_nothing());
        let Some((.., followed)) = follow(&executor, Some(source), None).await else { return Vec::new() };
        all.push(followed);
    }
    all
}

/// Follows the plan of a document to its end, and says what it began with. `source`: in place of what the caches show.
/// `selected`: the clusters of a provider that it may choose as targets; `None`: it is followed for what it loses alone.
async fn follow(
    executor: &Executor<'_>,
    source: Option<&Sight<Source>>,
    selected: Option<&Arc<BTreeSet<String>>>,
) -> Option<(Now, Sight<Source>, Followed)> {
    let &Executor { pipeline, generation, key, .. } = executor;
    // Nobody is to be woken for what is read here.
    let interests = Interests::default();
    let mut facts = interests.reader(key);
    let mut observed = observe_whole(executor, &mut facts).await.ok()?;
    if let Some(source) = source {
        observed.source = source.clone();
    }
    with_cached_targets(pipeline, generation, &mut observed);
    (observed.limits.prune, observed.limits.is_promoted) = (Prune::Allowed, false);
    if let Ok(Source::Missing(missing)) = &mut observed.source {
        // For how long says when something is lost, and not whether.
        missing.long = true;
    }
    if let Some((among, selected)) = observed.among.as_mut().zip(selected) {
        among.selected = selected.clone();
    }
    observed.limits.tells_nothing |= selected.is_none();
    // What the document in force reads, the plan would ask for first.
    for original in originals::read_last(executor) {
        let seen = originals::read(executor, &mut facts, &original, false).await;
        observed.absorb(&Action::Read(original), Outcome::Seen(seen));
    }
    let (now, source) = (now(pipeline, &observed, key), observed.source.clone());
    let mut followed = Followed::default();
    for _ in 0..MAX_ROUNDS {
        let (actions, rest) = plan(&generation.mapping, &observed).into_steps();
        for action in actions {
            let outcome = match (rehearsal::expected(&action, &observed), &action) {
                (Some(outcome), _) => outcome,
                (None, Action::Read(original) | Action::ReadAnew(original)) => {
                    Outcome::Seen(originals::read(executor, &mut facts, original, false).await)
                }
                (None, _) => Outcome::Absent,
            };
            // What the release makes or changes is taken for ready: whether it gets there, only its operator tells.
            if let Action::Apply { reference, .. } = &action {
                observed.study.supposed.insert(reference.clone());
            }
            observed.absorb(&action, outcome);
            if action.verb().is_some() {
                followed.writes.push(action);
            }
        }
        followed.rest = rest;
        if followed.rest.is_some() {
            break;
        }
    }
    Some((now, source, followed))
}

/// How a source is under the document in force.
fn now(pipeline: &Pipeline, observed: &Observed, key: &Key) -> Now {
    let is_served = match &observed.source {
        Ok(Source::Present(source)) => owns_finalizer(observed, source),
        Ok(Source::Missing(_)) => false,
        // Nobody knows that it is not.
        Err(_) => true,
    };
    match (is_served, pipeline.is_troubled(key)) {
        (false, _) => Now::NotServed,
        (true, false) => Now::InSync,
        (true, true) => Now::Troubled,
    }
}
