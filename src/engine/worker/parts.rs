//! One source on all targets of its mapping, for as long as a reconcile lasts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use parking_lot::Mutex;

use super::{Ended, causes, converge, fails_anyway, unproven};
use crate::engine::apply::Executor;
use crate::engine::bodies::observe_whole;
use crate::engine::interests::{Collection, Facts, Topic};
use crate::engine::observe::with_targets;
use crate::engine::originals;
use crate::engine::pipeline::TargetSeat;
use crate::engine::pipeline::shared_use::Uses;
use crate::mapping::Mapping;
use crate::object::marks::Reference;
use crate::object::{has_finalizer, metadata};
use crate::plan::targets::{Evaluated, OtherTarget, Pins, Reach, known_pins, reports_for_all};
use crate::plan::{Action, Cause, MAX_ROUNDS, Observed, Reason, Reasons, Sight, Source, plan};

/// Looks at a source on each target, then plans and acts until it is settled on all of them.
pub async fn reconcile<'a, 'f>(executors: Vec<Executor<'a>>, facts: &Facts<'f>) -> Vec<Part<'a, 'f>> {
    let latest = Latest::default();
    // What is large is read from its server: a slow one keeps no other waiting.
    let looks = executors.into_iter().map(|executor| Part::observe(executor, facts.sibling()));
    let mut parts = join_all(looks).await;
    settle(&mut parts, &latest).await;
    parts
}

/// Plans and acts on all targets, until none has anything left to do; then one of several tells of all.
async fn settle(parts: &mut [Part<'_, '_>], latest: &Latest) {
    let may_tell = |part: &Part<'_, '_>| !part.executor.generation.mapping.has_several_targets();
    let is_told_by_each = parts.iter().all(may_tell);
    if let [part] = parts {
        introduce(std::slice::from_mut(part));
        return part.converge(latest, true).await;
    }
    parts.iter_mut().for_each(Part::take_seat);
    // Each pass follows a write of the source: a pin that comes or goes.
    for _ in 0..parts.len() + 2 {
        introduce(parts);
        let due = parts.iter_mut().filter_map(|part| part.is_due(latest).then_some(part));
        let due: Vec<_> = due.map(|part| part.converge(latest, is_told_by_each)).collect();
        if due.is_empty() {
            break;
        }
        join_all(due).await;
    }
    // One whose plan was overtaken, or did not come to rest, has not said what it lacks: the source is reconciled again.
    let is_undone = |part: &Part<'_, '_>| match &part.ended {
        Some(Ended::Failed(_)) => part.observed.is_some(),
        Some(Ended::Waiting(why) | Ended::Blocked(why)) => why.is_in_sync(),
        _ => false,
    };
    if is_told_by_each || parts.iter().any(is_undone) {
        return;
    }
    join_all(parts.iter_mut().map(Part::look_ahead)).await;
    introduce(parts);
    let able: BTreeSet<String> = parts.iter().filter_map(Part::able_to_report).collect();
    if let Some(part) = parts.iter_mut().find_map(|part| part.reports_for_all(latest, &able).then_some(part)) {
        part.converge(latest, true).await;
    }
}

/// Tells the parts of each other. What the targets of a source are is evaluated once for all of them.
fn introduce(parts: &mut [Part<'_, '_>]) {
    let is_one_of_several = |part: &Part<'_, '_>| part.executor.generation.mapping.target_rule.is_some();
    if !parts.iter().any(is_one_of_several) {
        return;
    }
    let targets = Arc::new(parts.iter_mut().map(Part::as_target).collect());
    let mut first: Option<(&Arc<Mapping>, Evaluated)> = None;
    for Part { executor, observed, .. } in parts {
        let Some(observed) = observed else { continue };
        with_targets(executor.pipeline, observed, &targets);
        match &first {
            Some((mapping, evaluated)) if Arc::ptr_eq(mapping, &executor.generation.mapping) => {
                observed.study.evaluated_targets = evaluated.clone();
            }
            Some(_) => {}
            None => first = Some((&executor.generation.mapping, observed.study.evaluated_targets.clone())),
        }
    }
}

/// The source as this reconcile has written it last. One part writes it at a time.
#[derive(Debug, Default)]
pub struct Latest {
    pub turn: tokio::sync::Mutex<()>,
    source: Mutex<Option<Sight<Source>>>,
    /// Whether it was taken in by this reconcile.
    is_new: AtomicBool,
}

impl Latest {
    /// Has a plan made with the source as it is now. `true`: it is another.
    pub fn catch_up(&self, observed: &mut Observed) -> bool {
        let source = self.source.lock();
        let Some(latest) = source.as_ref().filter(|latest| !is_same(latest, &observed.source)) else { return false };
        observed.source = latest.clone();
        true
    }

    /// It is taken in.
    pub fn takes_in(&self) {
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// Whether its first status is still to come.
    pub fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    /// It was written, or read past the caches.
    pub fn is_now(&self, observed: &Observed) {
        *self.source.lock() = Some(observed.source.clone());
    }
}

fn is_same(one: &Sight<Source>, other: &Sight<Source>) -> bool {
    match (one, other) {
        (Ok(Source::Present(one)), Ok(Source::Present(other))) => {
            metadata(one, "resourceVersion") == metadata(other, "resourceVersion")
        }
        (Ok(Source::Missing(_)), Ok(Source::Missing(_))) => true,
        _ => false,
    }
}

/// A source on one of its mapping's targets, for as long as a reconcile lasts.
pub struct Part<'a, 'f> {
    pub executor: Executor<'a>,
    pub facts: Facts<'f>,
    /// `None`: it could not be looked at.
    pub observed: Option<Observed>,
    /// Deletions without an answer, as they were known before.
    pub unanswered: BTreeSet<Reference>,
    /// How it ended; `None`: it was not planned yet.
    pub ended: Option<Ended>,
    /// Whether it failed by a candidate, and would by the document in force as well.
    pub fails_anyway: bool,
    seat: Option<TargetSeat>,
    /// Where it waits for its turn: what its target lacks.
    lacking: Option<Reason>,
    /// What of the source the last plan was made with that another target may change.
    pinned: Pinned,
    progress: Progress,
}

/// What one target may change of a source that another one plans with. `None`: it is missing, or out of sight.
type Pinned = Option<(bool, Pins)>;

/// What is known from one plan to the next.
#[derive(Default)]
pub struct Progress {
    /// What was noted last of what it shares.
    pub noted: Option<Uses>,
    /// Whether what would be lost was compared with the documents before.
    pub is_compared: bool,
    /// Whether the source was read past its cache: after a conflict, or because its watch has failed.
    pub is_read_anew: bool,
}

impl<'a, 'f> Part<'a, 'f> {
    async fn observe(executor: Executor<'a>, mut facts: Facts<'f>) -> Self {
        let Executor { pipeline, key, feed, .. } = &executor;
        let mut ended = None;
        if pipeline.is_unproven(key) {
            let source = feed.watch.store().get(key).and_then(|source| source.outline().ok());
            match source.filter(|source| has_finalizer(source, pipeline.writer.finalizer())) {
                Some(_) => ended = Some(Ended::Waiting(Reasons::one(Cause::Unknown, unproven(pipeline)))),
                None => pipeline.proven(key),
            }
        }
        let mut observed = None;
        if ended.is_none() {
            match observe_whole(&executor, &mut facts).await {
                Ok(seen) => {
                    seen.objects.iter().for_each(|one| executor.secrets.note(&one.object));
                    observed = Some(seen);
                }
                Err(error) => ended = Some(Ended::Failed(error)),
            }
        }
        let unanswered = observed.as_ref().map(|observed| observed.answers.unanswered.clone()).unwrap_or_default();
        let (seat, lacking, pinned, progress) = (None, None, None, Progress::default());
        Self { executor, facts, observed, unanswered, ended, fails_anyway: false, seat, lacking, pinned, progress }
    }

    /// Waits for its turn, where too many sources are worked on at its target.
    fn take_seat(&mut self) {
        if self.observed.is_some() {
            self.seat = self.executor.pipeline.seat(self.executor.key);
            self.ended = self.seat.is_none().then_some(Ended::Left);
        }
    }

    /// As other targets know it.
    fn as_target(&mut self) -> (String, OtherTarget) {
        let (name, mut other) = self.executor.pipeline.as_target();
        if other.reach == Reach::Starting {
            other.reach = self.wait_for_reach();
        }
        let Some(observed) = &self.observed else { return (name, OtherTarget { reach: Reach::Starting, ..other }) };
        if other.reach == Reach::Seen && observed.target.kinds.is_err() {
            other.reach = Reach::Starting;
        }
        other.objects = observed.objects.clone();
        other.unsettled = match &self.ended {
            Some(Ended::Waiting(reasons) | Ended::Blocked(reasons)) => reasons.of_target(),
            Some(Ended::Left) => self.lacking.clone(),
            _ => None,
        };
        (name, other)
    }

    /// Finds out what its target lacks of the source as it is now, where that waits for its turn. What the plan would read first is
    /// read: until then, it tells nothing.
    async fn look_ahead(&mut self) {
        let Self { executor, facts, observed: Some(observed), ended: Some(Ended::Left), lacking, .. } = self else {
            return;
        };
        *lacking = executor.pipeline.unsettled_here(executor.key);
        let mapping = &executor.generation.mapping;
        if lacking.is_some() || !mapping.has_several_targets() {
            return;
        }
        observed.limits.tells_nothing = true;
        for _ in 0..MAX_ROUNDS {
            let (actions, rest) = executor.tally.work(|| plan(mapping, observed)).into_steps();
            if let Some(rest) = rest.filter(|_| actions.is_empty()) {
                *lacking = rest.of_target();
                return;
            }
            if !actions.iter().all(|action| matches!(action, Action::Read(_))) {
                break;
            }
            for action in actions {
                if let Some(seen) = originals::answer(executor, facts, &action).await {
                    observed.absorb(&action, seen);
                }
            }
        }
        *lacking = Some(Reason::waiting("other sources are written there first"));
    }

    /// Its target may have gone out of sight since it was looked at. Nobody tells of all targets before it is back.
    fn wait_for_reach(&mut self) -> Reach {
        let Executor { pipeline, generation, .. } = self.executor;
        let at = &generation.target.cluster;
        let kinds = pipeline.kinds_of(generation).into_iter();
        let of_kinds = kinds.map(|kind| Topic::Synced(Collection::Kind(at.as_str().into(), kind)));
        let topics: Vec<Topic> =
            [Topic::Identity(at.clone()), Topic::Store(at.clone())].into_iter().chain(of_kinds).collect();
        self.facts.read(topics, || pipeline.as_target().1.reach, |reach| *reach == Reach::Starting)
    }

    /// Whether it was not planned with the source as it is now.
    fn is_due(&mut self, latest: &Latest) -> bool {
        let Some(observed) = &mut self.observed else { return false };
        latest.catch_up(observed);
        match &self.ended {
            None => true,
            // What came in between is in the caches: it is reconciled again.
            Some(Ended::Failed(_) | Ended::Deferred | Ended::Left | Ended::Observed(..)) => false,
            Some(_) if self.executor.tally.so_far().overtaken => false,
            Some(_) => self.pinned != pinned(observed),
        }
    }

    /// The name of its target, if a plan for that gets as far as the status.
    fn able_to_report(&self) -> Option<String> {
        let is_known = self.observed.as_ref()?.target.kinds.is_ok();
        let is_able = is_known && !matches!(self.ended, Some(Ended::Left) | None);
        is_able.then(|| self.executor.generation.target.name.clone())
    }

    fn reports_for_all(&mut self, latest: &Latest, able: &BTreeSet<String>) -> bool {
        let (mapping, name) = (&self.executor.generation.mapping, &self.executor.generation.target.name);
        let Some(observed) = self.observed.as_mut().filter(|_| able.contains(name)) else { return false };
        latest.catch_up(observed);
        let Some(source) = observed.present() else { return false };
        reports_for_all(mapping, observed, source, |name| able.contains(name))
    }

    /// Plans and acts until the plan rests. `tells`: whether it writes the status.
    async fn converge(&mut self, latest: &Latest, tells: bool) {
        let Some(observed) = &mut self.observed else { return };
        // It is left as soon as nothing is to be done here any more, however long another target takes.
        let _seat = self.seat.take();
        observed.limits.tells_nothing = !tells;
        let ended = converge(&self.executor, observed, &mut self.facts, latest, &mut self.progress).await;
        self.fails_anyway = fails_anyway(&self.executor, &observed.source, causes(&ended).into_iter().min()).await;
        self.ended = Some(ended);
        self.pinned = pinned(observed);
    }
}

fn pinned(observed: &Observed) -> Pinned {
    let source = observed.present()?;
    Some((has_finalizer(source, observed.subject.writer.finalizer()), known_pins(observed, source)))
}
