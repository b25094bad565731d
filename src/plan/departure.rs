//! Rows "live, out", "deleting" and "gone": what is deleted, and who asked for it.
//!
//! Deletion never renders a template to decide what goes: it takes everything that carries the source's owner and a true
//! self mark, in the kinds of the mapping and of its state store. The finalizer is released only after an uncached read
//! found nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, RemoveOperation};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decision::{Evidence, Fit, Found, Stage, VANISHED, Verdict, Wish, decide};
use super::live::{About, Step, report_only, say};
use super::observed::{Missing, ObjectState, Observed, Phase, Prune, Source, TargetObject};
use super::{
    Action, Cause, Plan, Reason, Reasons, on_source_recreated, owns_finalizer, render, source, status, target_changed,
    targets,
};
use crate::mapping::{Kind, Mapping, ObjectRule, OnExit, Propagation, RELATED, Side, SourceDelete, SourceVanished};
use crate::object::marks::{self, Reference};
use crate::object::{has_finalizer, metadata};

/// Rows "live, out" and "deleting".
pub fn depart(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, stage: Stage) -> Plan {
    leave(mapping, observed, source, stage, false)
}

/// The source stays, and its objects leave this target.
pub fn move_away(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Plan {
    let because = match mapping.has_several_targets() {
        true => Evidence::Unwanted,
        false => Evidence::Policy("onTargetChange: Recreate"),
    };
    leave(mapping, observed, source, Stage::Out(OnExit::Delete, because), true)
}

fn leave(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, stage: Stage, moves: bool) -> Plan {
    let finalizer = owns_finalizer(observed, source) || targets::is_held_by_none(observed, source);
    let is_foreign = |object: &TargetObject| object.reference.kind.side == Side::Source;
    if observed.among.is_some() && !finalizer && observed.objects.own().all(is_foreign) {
        // It is about other targets, or about the cluster that this one was before.
        let is_served = matches!(stage, Stage::Out(_, Evidence::Unwanted));
        let is_told = |_: &Reason| is_served || has_finalizer(source, observed.subject.writer.finalizer());
        let was_another = || target_changed(observed, source).filter(is_told);
        return match targets::pinned_to_none(observed, source).or_else(was_another) {
            Some(reason) => report_only(mapping, observed, source, reason),
            None => Plan::in_sync(),
        };
    }
    if finalizer && let Some(reason) = target_changed(observed, source) {
        return report_only(mapping, observed, source, reason);
    }
    if let Err(reason) = &observed.target.kinds {
        return Plan::Rest(Reasons(vec![reason.clone()]));
    }
    let stage = if finalizer { stage } else { late(observed, stage) };
    let leaving = Leaving { mapping, observed, stage, finalizer, moves };
    let Step { actions, reasons } = leaving.objects();
    match (actions.is_empty(), leaving.is_held_up(&reasons)) {
        (false, _) => Plan::Act(actions),
        (true, true) => leaving.report(source, reasons),
        (true, false) if finalizer => leaving.release(source, reasons),
        (true, false) => Plan::Rest(reasons),
    }
}

/// What comes late of a live source that was let go goes as the rest of it did.
fn late(observed: &Observed, stage: Stage) -> Stage {
    match (observed.target.was_let_go, stage) {
        (true, Stage::Out(OnExit::Delete, because)) => Stage::Departed(SourceDelete::Delete, because),
        (true, Stage::Out(OnExit::Orphan, because)) => Stage::Departed(SourceDelete::Orphan, because),
        _ => stage,
    }
}

/// Rows "gone": a source that is missing although its objects exist.
pub fn gone(mapping: &Mapping, observed: &Observed, missing: &Missing) -> Plan {
    let is_all_gone = !observed.objects.has_own() && !missing.shares;
    if observed.among.is_some() && is_all_gone {
        return Plan::in_sync();
    }
    if let Err(reason) = &observed.target.kinds {
        return Plan::Rest(Reasons(vec![reason.clone()]));
    }
    let answers = &observed.answers;
    let was_deleted = |object: &TargetObject| missing.deleted.as_deref() == Some(object.source_uid());
    let departed = !observed.objects.has_own() || observed.objects.own().any(was_deleted);
    let vanishes = mapping.lifecycle.on_source_vanished == SourceVanished::Delete;
    let stage = match answers.source_exists {
        _ if is_all_gone => return Plan::in_sync(),
        _ if departed => Stage::Departed(mapping.lifecycle.on_source_delete, Evidence::SourceDeleted),
        Some(true) => {
            let why = "the source exists, though its watch does not show it";
            return Plan::Rest(Reasons::one(Cause::Waiting, why));
        }
        None if answers.read_failed.is_none() => return Plan::Act(vec![Action::LookForSource]),
        // What is held is told at once: a process that has just started tells of it as the one before did.
        Some(false) if vanishes && (missing.long || observed.objects.own().any(|one| is_held(observed, one))) => {
            Stage::Departed(SourceDelete::Delete, Evidence::Policy(VANISHED))
        }
        _ => Stage::Gone,
    };
    let step = Leaving { mapping, observed, stage, finalizer: false, moves: false }.objects();
    if step.actions.is_empty() { Plan::Rest(step.reasons) } else { Plan::Act(step.actions) }
}

struct Leaving<'a> {
    mapping: &'a Mapping,
    observed: &'a Observed,
    stage: Stage,
    finalizer: bool,
    /// Whether its objects go to other targets, so that its status stays.
    moves: bool,
}

impl Leaving<'_> {
    /// Everything that belongs to the source; then what it shares, if nothing of its own is left.
    fn objects(&self) -> Step {
        let mut all = Step::default();
        for kind in kinds(self.observed).filter(|kind| !self.may_be_removed(kind)) {
            all.reasons.0.extend(self.observed.sees(kind).err());
        }
        let of_each_rule = one_of_each_rule(self.mapping, self.observed);
        for object in self.observed.objects.own().rev().filter(|one| self.may_exist(one)) {
            all.extend(self.object(object, &of_each_rule));
        }
        if all.actions.is_empty() && !self.is_held_up(&all.reasons) && self.takes_shared() {
            all.extend(self.shared(&of_each_rule));
        }
        all
    }

    /// Whether the sweep before the release finds out what is left of a kind: nothing, where its CustomResourceDefinition is
    /// missing. Nor does a workspace that took its permission claim back wait for copies which the engine can no longer reach.
    fn may_be_removed(&self, kind: &Kind) -> bool {
        self.finalizer && self.observed.is_unserved(kind) || self.observed.unclaimed(kind).is_some()
    }

    /// What the sweep found exists, whatever was thought of its kind before.
    fn may_exist(&self, object: &TargetObject) -> bool {
        !self.may_be_removed(&object.reference.kind) || self.observed.answers.found.contains(&object.reference)
    }

    fn object(&self, object: &TargetObject, of_each_rule: &[&TargetObject]) -> Step {
        let state = match self.observed.state_of(object) {
            Ok(state) => state,
            Err(reason) => return Step::rest(reason),
        };
        let rule = self.mapping.rule(object.rule_id());
        let propagation = rule.map(|rule| rule.propagation).unwrap_or_default();
        let is_needed = || is_needed(self.mapping, object, of_each_rule.iter().copied());
        let found = match state {
            _ if object.is_deleting() => Found::BeingDeleted,
            ObjectState::Ours(_) => Found::Ours(Fit::Uncompared { needed: is_needed() }),
            _ if self.vanished() => Found::Ours(Fit::Uncompared { needed: is_needed() }),
            _ => Found::OursOfEarlier(on_source_recreated(self.mapping, self.observed, object)),
        };
        let orphan = stays(self.mapping, object);
        let is_copy_beside = object.reference.kind.side == Side::Source && object.object_id().starts_with(RELATED);
        let row = decide(self.stage_of(object), self.finalizer || object.is_shared, found, Wish::Wanted);
        let told = |because| if object.is_shared { Evidence::LastUser } else { because };
        let step = match row.verdict {
            // What its consumer deletes is lost by every document.
            Verdict::Delete(because) | Verdict::GiveUp(because)
                if because != Evidence::SourceDeleted && is_held(self.observed, object) =>
            {
                self.held(object)
            }
            Verdict::Delete(because) if orphan => unless_failed(self.observed, give_up(object, told(because))),
            Verdict::Delete(because) => unless_failed(self.observed, delete(object, propagation, told(because))),
            // The rest is up to its consumer, who may put finalizers on it and holds up nobody with them.
            Verdict::Wait if is_copy_beside && object.is_deleting() => Step::default(),
            // What goes after it is held with it, and counts.
            Verdict::Wait if self.is_held_with_another(object, found) => self.held(object),
            Verdict::GiveUp(because) => unless_failed(self.observed, give_up(object, told(because))),
            Verdict::Retain => Step::rest(Reason {
                cause: Cause::Retained,
                detail: format!(
                    "{}: the source no longer passes the mapping's filter (onExit: Retain)",
                    object.reference
                ),
            }),
            Verdict::Orphaned => Step::rest(self.orphaned(object)),
            Verdict::Wait => being_deleted(self.mapping, self.observed, object, propagation).unwrap_or_else(|| {
                Step::rest(Reason::waiting(format!("{} is deleted after what depends on it", object.reference)))
            }),
            _ => Step::default(),
        };
        step.noted(self.observed, object.object_id(), Some(row), About::of(object))
    }

    /// A loss that is held. Until then, an object whose source is missing is orphaned.
    fn held(&self, object: &TargetObject) -> Step {
        let orphaned = self.vanished().then(|| self.orphaned(object));
        Step { reasons: Reasons([held(object)].into_iter().chain(orphaned).collect()), ..Step::default() }
    }

    /// Whether an object is to be deleted after another one whose deletion is held.
    fn is_held_with_another(&self, object: &TargetObject, found: Found) -> bool {
        let is_needed = found == Found::Ours(Fit::Uncompared { needed: true });
        let is_lost = match self.stage {
            Stage::Out(policy, _) => policy == OnExit::Delete,
            Stage::Departed(policy, because) => policy == SourceDelete::Delete && because != Evidence::SourceDeleted,
            Stage::In | Stage::Deleting(_) | Stage::Gone => false,
        };
        is_needed && is_lost && is_held(self.observed, object)
    }

    /// Whether `onSourceVanished: Delete` acts: then the uid says nothing.
    fn vanished(&self) -> bool {
        self.observed.answers.source_exists == Some(false) && matches!(self.stage, Stage::Departed(..))
    }

    /// What nobody holds is orphaned until its source has been missing for long.
    fn stage_of(&self, object: &TargetObject) -> Stage {
        let is_long = || matches!(&self.observed.source, Ok(Source::Missing(missing)) if missing.long);
        let vanished = self.stage == Stage::Departed(SourceDelete::Delete, Evidence::Policy(VANISHED));
        if vanished && !is_long() && !is_held(self.observed, object) { Stage::Gone } else { self.stage }
    }

    fn orphaned(&self, object: &TargetObject) -> Reason {
        let why = match (self.observed.present(), self.stage) {
            (Some(_), Stage::Out(..)) if self.observed.among.is_some() => "its source does not name this target",
            (Some(_), Stage::Out(..)) => "its source no longer passes the mapping's filter",
            (Some(_), _) => "it was made for an earlier source of the same name",
            _ if self.observed.answers.read_failed.is_some() => "whether its source is missing cannot be told",
            _ => "its source is missing, and nobody saw it being deleted",
        };
        Reason { cause: Cause::Orphaned, detail: format!("{} is kept: {why}", object.reference) }
    }

    /// Shared objects are deleted with the last source of their namespace that the engine serves.
    fn takes_shared(&self) -> bool {
        let keeps = matches!(self.stage, Stage::Out(OnExit::Retain, _) | Stage::Gone);
        // Workspaces in use are out of sight, and may need it.
        let is_told = self.observed.subject.hold.is_none();
        is_told && self.shares() && !keeps && (self.finalizer || matches!(self.stage, Stage::Departed(..)))
    }

    /// Whether anything of the mapping is shared there: also by a rule that it has no more. Only its present document tells.
    fn shares(&self) -> bool {
        self.mapping.has_shared()
            || (self.observed.phase == Phase::Active && self.observed.objects.shared().next().is_some())
    }

    fn shared(&self, of_each_rule: &[&TargetObject]) -> Step {
        let mut all = Step::default();
        for object in self.observed.objects.shared().rev().filter(|one| self.may_exist(one)) {
            match self.observed.others_use(object) {
                Ok(true) => {}
                Ok(false) => all.extend(self.object(object, of_each_rule)),
                Err(reason) => all.extend(Step::rest(reason)),
            }
        }
        all
    }

    /// An orphaned object holds nothing up.
    fn is_held_up(&self, reasons: &Reasons) -> bool {
        reasons.0.iter().any(|reason| reason.cause != Cause::Orphaned)
    }

    /// What holds a departure up is reported to the consumer, unless that is the engine itself.
    fn report(&self, source: &Arc<Value>, reasons: Reasons) -> Plan {
        if matches!(self.stage, Stage::Departed(..)) {
            // What comes late is no news to the consumer.
            return Plan::Rest(reasons);
        }
        if self.moves && !self.mapping.has_several_targets() {
            // The target that it moves to says nothing before it has the source.
            return say(self.mapping, self.observed, source, None, reasons);
        }
        let only_waits = reasons.0.iter().all(|reason| reason.cause.is_wait() && reason.cause != Cause::Deleting);
        if only_waits && !matches!(self.stage, Stage::Out(OnExit::Retain, _)) {
            return Plan::Rest(reasons);
        }
        let rendering = render::render(self.mapping, self.observed, source).ok();
        say(self.mapping, self.observed, source, rendering.as_ref(), reasons)
    }

    /// Nothing is in sight any more: read once past the caches, take the status back, then release the source.
    fn release(&self, source: &Arc<Value>, reasons: Reasons) -> Plan {
        let owners = self.owners();
        let answers = &self.observed.answers;
        if let Some(why) = &answers.read_failed {
            let mut reasons = reasons;
            reasons.push(Cause::RequestFailed, format!("before the finalizer is released: {why}"));
            return Plan::Rest(reasons);
        }
        let is_looked_at = owners.iter().all(|owner| answers.swept.contains(owner));
        if !is_looked_at {
            return Plan::Act(vec![Action::Sweep {
                owners,
                kinds: kinds(self.observed).filter(|kind| self.observed.unclaimed(kind).is_none()).cloned().collect(),
                namespaces: self.observed.target.places.iter().cloned().collect(),
                objects: self.expected(source),
            }]);
        }
        if matches!(self.stage, Stage::Out(..))
            && !self.moves
            && self.observed.subject.hold.is_none()
            && let Some(action) = status::taken_back(self.mapping, self.observed, source)
        {
            return Plan::Act(vec![action]);
        }
        let because = match self.stage {
            Stage::Out(_, because) | Stage::Departed(_, because) => because,
            Stage::In | Stage::Deleting(_) | Stage::Gone => Evidence::SourceDeleted,
        };
        let released = source::release(self.observed, source, because);
        released.map_or_else(|| Plan::Rest(reasons), |action| Plan::Act(vec![action]))
    }

    /// The source's own, and that of the shared objects which leave with it.
    fn owners(&self) -> Vec<String> {
        let is_last = |namespace: &&String| self.observed.objects.in_use.get(*namespace) == Some(&false);
        let shared = self.observed.target.places.iter().filter(|_| self.takes_shared()).filter(is_last);
        let shared = shared.map(|namespace| self.observed.subject.writer.shared_owner(namespace).0);
        std::iter::once(self.observed.subject.owner.0.clone()).chain(shared).collect()
    }

    /// Where objects of the source are whose label somebody stripped, as far as it can be told.
    fn expected(&self, source: &Arc<Value>) -> Vec<Reference> {
        let mut all = render::expected(self.mapping, self.observed, source);
        let stripped = self.observed.objects.stripped.keys().filter(|one| !all.contains(one));
        let stripped: Vec<Reference> = stripped.cloned().collect();
        all.extend(stripped);
        // A mapping that only deletes may see a kind in another version than its own.
        for one in &mut all {
            if let Some(seen) = kinds(self.observed).find(|kind| kind.is_same_in_any_version(&one.kind)) {
                one.kind = seen.clone();
            }
        }
        // Where a claim is taken back, all objects look like stripped ones.
        all.retain(|one| self.observed.unclaimed(&one.kind).is_none());
        all
    }
}

/// Of the objects that still exist, one for all of its rule, where another one may depend on either: a source may have thousands.
fn one_of_each_rule<'o>(mapping: &Mapping, observed: &'o Observed) -> Vec<&'o TargetObject> {
    let mut seen = BTreeSet::new();
    let mut is_first = |one: &'o TargetObject| {
        let side = one.reference.kind.side;
        mapping.rule(one.rule_id()).is_some() && seen.insert((one.is_shared, side, one.rule_id()))
    };
    observed.objects.iter().filter(|one| is_first(one)).collect()
}

/// Whether another one of these objects, which still exist, depends on this one. What is beside the source needs nothing of the
/// target: its tenant writes there what they like.
pub fn is_needed<'o>(
    mapping: &Mapping,
    object: &TargetObject,
    mut all: impl Iterator<Item = &'o TargetObject>,
) -> bool {
    all.any(|one| {
        let is_alike = one.is_shared == object.is_shared && one.reference.kind.side == object.reference.kind.side;
        is_alike && mapping.rule(one.rule_id()).is_some_and(|rule| mapping.depends(rule, object.rule_id()))
    })
}

/// Whether an object is left when its source goes. One whose id the mapping no longer has may be of a renamed rule: then the
/// most careful rule of its kind decides.
pub fn stays(mapping: &Mapping, object: &TargetObject) -> bool {
    let kind = &object.reference.kind;
    let is_of_kind = |rule: &&ObjectRule| rule.kind.is_same_in_any_version(kind);
    match mapping.rule(object.rule_id()) {
        Some(rule) => rule.orphan_on_delete,
        None => mapping.objects.iter().filter(is_of_kind).any(|rule| rule.orphan_on_delete),
    }
}

fn kinds(observed: &Observed) -> impl Iterator<Item = &Kind> {
    observed.target.kinds.iter().flat_map(|kinds| kinds.0.keys())
}

/// Row "being deleted": wait for it, and report it after `stuckAfter` and the object's own grace period. An object that waits
/// for its dependents although the mapping no longer asks for that (`delete.propagation`) is deleted again, once a
/// reconcile.
pub fn being_deleted(
    mapping: &Mapping,
    observed: &Observed,
    object: &TargetObject,
    propagation: Propagation,
) -> Option<Step> {
    if !object.is_deleting() {
        return None;
    }
    // The garbage collector holds it until its dependents are gone.
    let waits_for_dependents = has_finalizer(&object.object, "foregroundDeletion");
    let asks_for_less = waits_for_dependents && propagation != Propagation::Foreground;
    if asks_for_less && !observed.answers.deleted.contains(&object.reference) {
        return Some(unless_failed(observed, delete(object, propagation, Evidence::Policy("delete.propagation"))));
    }
    if let Some(action) = restore(observed, object) {
        return Some(unless_failed(observed, action));
    }
    // The server counts the grace period in.
    let ends = metadata(&object.object, "deletionTimestamp");
    let finalizers = object.object.pointer("/metadata/finalizers").map(Value::to_string).unwrap_or_default();
    let overdue = ends.parse::<Timestamp>().map(|ends| observed.now.duration_since(ends));
    let stuck_after = mapping.lifecycle.stuck_after().try_into().unwrap_or(SignedDuration::MAX);
    let stuck = overdue.is_ok_and(|overdue| overdue >= stuck_after);
    let failure = observed.answers.failed.get(&object.reference);
    Some(Step::rest(failure.cloned().unwrap_or_else(|| Reason {
        cause: if stuck { Cause::Stuck } else { Cause::Deleting },
        detail: format!("{} is being deleted since {ends}, finalizers {finalizers}", object.reference),
    })))
}

/// Whether the loss of an object waits for the end of a release, or for its ledger. The documents before may have had its kind in
/// another version.
pub fn is_held(observed: &Observed, object: &TargetObject) -> bool {
    let is_it = |lost: &Reference| lost.is_same_object(&object.reference);
    matches!(&observed.limits.prune, Prune::Held(but) if !but.iter().any(is_it))
}

/// A loss that is held.
pub fn held(object: &TargetObject) -> Reason {
    let detail = format!(
        "{}: its loss follows from a changed or removed document and is held (release.maxLost)",
        object.reference
    );
    Reason { cause: Cause::Held, detail }
}

/// An action on an object about which no request has failed in this reconcile: the engine repeats none.
pub fn unless_failed(observed: &Observed, action: Action) -> Step {
    let failure = action.reference().and_then(|reference| observed.answers.failed.get(reference));
    match failure {
        Some(failure) => Step::rest(failure.clone()),
        None => Step::act(action),
    }
}

/// Deletes exactly the version of the incarnation that was seen: a late delete does not hit an object that is wanted again.
pub fn delete(object: &TargetObject, propagation: Propagation, because: Evidence) -> Action {
    Action::Delete {
        reference: object.reference.clone(),
        uid: object.uid().to_owned(),
        resource_version: object.resource_version().to_owned(),
        propagation,
        because,
    }
}

/// Takes the ownership labels and annotations off an object that stays. One annotation says that nobody stripped it, so that
/// no process that knows it as owned takes it back.
pub fn give_up(object: &TargetObject, because: Evidence) -> Action {
    let Patch(mut patch) = unmarked(&object.object);
    patch.push(match object.object.pointer("/metadata/annotations") {
        Some(_) => source::add(["metadata", "annotations", marks::RELEASED], "true".into()),
        None => source::add(["metadata", "annotations"], json!({marks::RELEASED: "true"})),
    });
    Action::GiveUp { reference: object.reference.clone(), patch: Patch(patch), because }
}

/// Takes the engine's labels and annotations off an object, and nothing else.
pub fn unmarked(object: &Value) -> Patch {
    let removals = ["labels", "annotations"].into_iter().flat_map(|field| removals(object, field));
    Patch(std::iter::once(source::guard(object)).chain(removals).collect())
}

/// Puts the ownership labels and annotations back on an object that waits for somebody's finalizer, where somebody took them
/// off: watches filter by them, so nothing else would tell when it is gone. Once a reconcile; the epoch of the Lease in which
/// it was written is not of now.
fn restore(observed: &Observed, object: &TargetObject) -> Option<Action> {
    let reference = &object.reference;
    let known = observed.objects.stripped.get(reference).filter(|known| known.is(&object.object))?;
    let is_watched = marks::label(&object.object, marks::MAPPING) == Some(observed.subject.writer.label());
    if is_watched || observed.answers.restored.contains(reference) {
        return None;
    }
    let mut marked = object.object.as_object()?.clone();
    marks::stamp(&mut marked, "labels", marks::labels(&observed.subject.writer, &known.owner));
    marks::stamp(&mut marked, "annotations", known.annotations.iter().filter(|(key, _)| *key != marks::EPOCH));
    let mut patch = vec![source::guard(&object.object)];
    patch.extend(json_patch::diff(&object.object, &Value::Object(marked)).0);
    Some(Action::Restore { reference: reference.clone(), patch: Patch(patch) })
}

fn removals(object: &Value, field: &str) -> Vec<PatchOperation> {
    let entries = object["metadata"][field].as_object().into_iter().flatten();
    let is_manager = |key: &String, value: &Value| key == marks::MANAGED_BY && value == marks::MANAGER;
    let ours = entries.filter(|(key, value)| marks::is_ours_to_write(key) || is_manager(key, value));
    let path = |key: &str| PointerBuf::from_tokens(["metadata", field, key]);
    ours.map(|(key, _)| PatchOperation::Remove(RemoveOperation { path: path(key) })).collect()
}
