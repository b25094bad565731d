//! Rows "live, in": a source that wants its objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::observed::{Look, Observed, Standing, Target};
use super::render::{self, Desired, Instance, Rendering, Wanted};
use super::{
    Action, Cause, Intent, Plan, Reason, Reasons, departure, each, owns_finalizer, readiness, source, status,
    target_changed,
};
use crate::mapping::template::Unrendered;
use crate::mapping::{Drift, IdentityChange, Kind, Mapping, ObjectRule, Propagation};
use crate::object::compare::differences;
use crate::object::marks::{self, Reference};
use crate::object::metadata;

/// What one object comes to: something to do, something to wait for, or nothing.
#[derive(Debug, Default)]
struct Step {
    actions: Vec<Action>,
    reasons: Reasons,
}

/// Plans for a source that passes the filter.
pub fn live(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Plan {
    let identity = match &observed.target {
        Target::Unknown(why) => return Reasons::one(Cause::Unknown, why.clone()).rest(),
        Target::Known { identity, .. } => identity,
    };
    if let Some(reason) = target_changed(observed, source, identity) {
        return say(mapping, observed, source, None, Reasons(vec![reason]));
    }
    match render::render(mapping, observed, source) {
        Err(unrendered) => say(mapping, observed, source, None, Reasons(vec![unrendered.into()])),
        Ok(rendering) if owns_finalizer(observed, source) => converge(mapping, observed, source, &rendering),
        Ok(rendering) => enter(mapping, observed, source, identity, &rendering),
    }
}

/// A filter that cannot be evaluated keeps the last decision, which was "in": nothing is written, the reason is said.
pub fn undecided(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, reason: Reason) -> Plan {
    say(mapping, observed, source, None, Reasons(vec![reason]))
}

/// Row "no finalizer": taken before the first object, if there is one to make.
fn enter(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, identity: &str, rendering: &Rendering) -> Plan {
    let held_up = |rule: &ObjectRule| {
        kind_unseen(observed, &rule.kind).or_else(|| readiness::unmet(mapping, observed, rule, rendering))
    };
    let free: Vec<_> = rendering.desired(mapping).filter(|(rule, ..)| held_up(rule).is_none()).collect();
    // What is settled is wanted, and was free once.
    let settled = |(rule, wanted): (&ObjectRule, _)| matches!(wanted, &Ok(Wanted::Settled)) && held_up(rule).is_none();
    if !free.is_empty()
        && let Err(unrendered) = namespace_to_create(observed, mapping, rendering)
    {
        return say(mapping, observed, source, Some(rendering), Reasons(vec![unrendered.into()]));
    }
    if !free.is_empty() || mapping.objects.iter().zip(rendering.objects.iter()).any(settled) {
        // What stands at the places can be looked at in the same breath: a look writes nothing.
        let looks = free.iter().filter_map(|(rule, _, desired)| first_look(observed, rule, desired));
        return Plan::Act(std::iter::once(source::add_finalizer(observed, source, identity)).chain(looks).collect());
    }
    let failed = rendering.unrendered(mapping).map(|(id, unrendered)| named(&id, unrendered.clone().into()));
    let waiting = rendering.desired(mapping).filter_map(|(rule, ..)| Some(named(&rule.id, held_up(rule)?)));
    let mut reasons = Reasons(failed.chain(waiting).collect());
    reasons.0.dedup();
    say(mapping, observed, source, Some(rendering), reasons)
}

/// The look that precedes the creation of an object of which the caches know nothing.
fn first_look(observed: &Observed, rule: &ObjectRule, desired: &Desired) -> Option<Action> {
    let seen = observed.ours_at(&desired.reference, rule.shared).is_some();
    (!seen).then(|| Action::Look { reference: desired.reference.clone() })
}

fn converge(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, rendering: &Rendering) -> Plan {
    let mut all = Step::default();
    for (rule, wanted) in mapping.objects.iter().zip(rendering.objects.iter()) {
        all.extend(object(mapping, observed, rule, wanted, rendering));
    }
    if !all.actions.is_empty() {
        return match looks_first(observed, mapping, rendering, all.actions) {
            Ok(actions) => Plan::Act(actions),
            Err(unrendered) => say(mapping, observed, source, Some(rendering), Reasons(vec![unrendered.into()])),
        };
    }
    say(mapping, observed, source, Some(rendering), all.reasons)
}

pub fn named(id: &str, reason: Reason) -> Reason {
    Reason { cause: reason.cause, detail: format!("object `{id}`: {}", reason.detail) }
}

/// While anything is to be looked at, only looks are made; a namespace is made before the first object in it.
fn looks_first(
    observed: &Observed,
    mapping: &Mapping,
    rendering: &Rendering,
    actions: Vec<Action>,
) -> Result<Vec<Action>, Unrendered> {
    if actions.iter().any(|action| matches!(action, Action::Look { .. })) {
        return Ok(actions.into_iter().filter(|action| matches!(action, Action::Look { .. })).collect());
    }
    let creates = actions.iter().any(|action| matches!(action, Action::Apply { intent: Intent::Create, .. }));
    let namespace = creates.then(|| namespace_to_create(observed, mapping, rendering)).transpose()?.flatten();
    Ok(namespace.into_iter().chain(actions).collect())
}

/// The creation of the placement's namespace, where it is missing and the engine makes it.
fn namespace_to_create(
    observed: &Observed,
    mapping: &Mapping,
    rendering: &Rendering,
) -> Result<Option<Action>, Unrendered> {
    let name = &rendering.place.namespace;
    if !mapping.placement.create_namespace || observed.namespaces.contains(name) {
        return Ok(None);
    }
    let labels = namespace_labels(mapping, rendering)?;
    Ok(Some(Action::CreateNamespace { name: name.clone(), labels }))
}

/// Namespaces that the engine creates carry `managed-by` and the mapping's own labels.
pub fn namespace_labels(mapping: &Mapping, rendering: &Rendering) -> Result<Value, Unrendered> {
    let own = mapping.placement.labels(&rendering.scope)?;
    let mut labels = json!({marks::MANAGED_BY: marks::MANAGER});
    own.into_iter().for_each(|(key, value)| labels[key] = json!(value));
    Ok(labels)
}

/// The rows of one rule's objects.
fn object(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    wanted: &Result<Wanted, Unrendered>,
    rendering: &Rendering,
) -> Step {
    if let Some(reason) = kind_unseen(observed, &rule.kind) {
        return Step::rest(reason).of(&rule.id);
    }
    let mut step = match wanted {
        Err(unrendered) => Step::rest(unrendered.clone().into()).of(&rule.id),
        Ok(Wanted::Absent | Wanted::Settled) => Step::default(),
        Ok(Wanted::Present(desired)) => present(mapping, observed, rule, &rule.id, desired, rendering).of(&rule.id),
        Ok(Wanted::Each(instances)) => several(mapping, observed, rule, instances, rendering),
    };
    for standing in each::leaving(mapping, observed, rule, wanted, rendering) {
        step.extend(unwanted(mapping, observed, rule, standing, rendering).of(standing.object_id()));
    }
    step
}

/// Each of several objects on its own.
fn several(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    instances: &[Instance],
    rendering: &Rendering,
) -> Step {
    let mut all = Step::default();
    for one in instances {
        let id = render::instance_id(rule, &one.key);
        let step = match &one.desired {
            Err(unrendered) => Step::rest(unrendered.clone().into()),
            Ok(None) => Step::default(),
            Ok(Some(desired)) => present(mapping, observed, rule, &id, desired, rendering),
        };
        all.extend(step.of(&id));
    }
    all
}

/// Why a kind cannot be seen on the target: row "Unknown".
pub fn kind_unseen(observed: &Observed, kind: &Kind) -> Option<Reason> {
    let Target::Known { kinds, .. } = &observed.target else { return None };
    let why = match kinds.get(kind) {
        Some(Ok(())) => return None,
        Some(Err(why)) => why.clone(),
        None => format!("{kind} is not watched yet"),
    };
    Some(Reason { cause: Cause::Unknown, detail: why })
}

/// Rows "`when` false" and "its key gone".
fn unwanted(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    standing: &Standing,
    rendering: &Rendering,
) -> Step {
    match depending(mapping, observed, rule, rendering) {
        Some(other) => Step::rest(Reason {
            cause: Cause::Waiting,
            detail: format!("{} goes after {other}, which depends on it", standing.reference),
        }),
        None => remove(mapping, observed, rule, standing),
    }
}

/// Another object that is on its way out as well, and depends on this one.
fn depending<'o>(
    mapping: &Mapping,
    observed: &'o Observed,
    rule: &ObjectRule,
    rendering: &Rendering,
) -> Option<&'o Reference> {
    let rules = mapping.objects.iter().zip(rendering.objects.iter());
    let mut leaving = rules
        .filter(|(other, _)| mapping.depends(other, &rule.id))
        .flat_map(|(other, wanted)| each::leaving(mapping, observed, other, wanted, rendering));
    leaving.next().map(|standing| &standing.reference)
}

fn remove(mapping: &Mapping, observed: &Observed, rule: &ObjectRule, standing: &Standing) -> Step {
    match departure::being_deleted(mapping, observed, standing) {
        Some(reason) => Step::rest(reason),
        None => Step::act(departure::delete(standing, rule.propagation)),
    }
}

fn present(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    id: &str,
    desired: &Desired,
    rendering: &Rendering,
) -> Step {
    if let Some(step) = moved(mapping, observed, rule, id, desired) {
        return step;
    }
    if let Some(why) = observed.learned.refused.get(&desired.reference) {
        return Step::rest(Reason { cause: Cause::Refused, detail: format!("{}: {why}", desired.reference) });
    }
    match observed.ours_at(&desired.reference, rule.shared) {
        Some(standing) if standing.is_deleting() => remove(mapping, observed, rule, standing),
        Some(standing) if is_earlier(observed, rule, standing) => {
            Step::act(departure::delete(standing, Propagation::Background))
        }
        Some(standing) => update(observed, rule, desired, standing),
        None => match readiness::unmet(mapping, observed, rule, rendering) {
            Some(reason) => Step::rest(reason),
            None => create(observed, desired),
        },
    }
}

/// Row "OursEarlier": made for an object of the same name that is gone.
pub fn is_earlier(observed: &Observed, rule: &ObjectRule, standing: &Standing) -> bool {
    !rule.shared && marks::annotation(&standing.object, marks::SOURCE_UID) != Some(observed.source_uid())
}

/// An object of this id that stands under another kind or name: `onIdentityChange`.
fn moved(mapping: &Mapping, observed: &Observed, rule: &ObjectRule, id: &str, desired: &Desired) -> Option<Step> {
    if rule.shared {
        return None;
    }
    let former = observed.owned.iter().find(|standing| {
        standing.object_id() == id
            && standing.reference != desired.reference
            && !is_same_object(&standing.reference, &desired.reference)
    })?;
    Some(match rule.on_identity_change {
        IdentityChange::Block => Step::rest(Reason {
            cause: Cause::IdentityChanged,
            detail: format!(
                "`{}` stands as {} and would become {}: set onIdentityChange to Orphan to leave the former object behind, or to Recreate \
                 to delete it, or go back to its kind and name",
                id, former.reference, desired.reference
            ),
        }),
        IdentityChange::Orphan => Step::act(departure::unmark(former)),
        IdentityChange::Recreate => remove(mapping, observed, rule, former),
    })
}

/// The same kind in another version is the same object.
fn is_same_object(a: &Reference, b: &Reference) -> bool {
    a.kind.group == b.kind.group && a.kind.kind == b.kind.kind && a.namespace == b.namespace && a.name == b.name
}

/// Rows "Absent" and "Foreign".
fn create(observed: &Observed, desired: &Desired) -> Step {
    let reference = desired.reference.clone();
    match observed.learned.looks.get(&reference) {
        None => Step::act(Action::Look { reference }),
        Some(Look::Absent) => {
            Step::act(Action::Apply { reference, body: desired.body.clone(), intent: Intent::Create })
        }
        Some(Look::Found(_)) => Step::rest(Reason {
            cause: Cause::Conflict,
            detail: format!(
                "{reference} exists and was not made for this object: it is left alone; remove or rename it"
            ),
        }),
    }
}

/// Rows "Ours, differs" and "Ours, same".
fn update(observed: &Observed, rule: &ObjectRule, desired: &Desired, standing: &Standing) -> Step {
    let unkept = unkept(&standing.object);
    let differing: Vec<_> =
        differences(&desired.body, &standing.object).into_iter().filter(|path| !unkept.contains(path)).collect();
    if differing.is_empty() {
        return Step::default();
    }
    let rendered_anew = differing.iter().any(|path| path == &hash_pointer());
    if observed.learned.applied.contains(&desired.reference) {
        return remember_unkept(desired, standing, differing);
    }
    match rule.drift {
        _ if rendered_anew => Step::act(apply(desired, standing, None)),
        Drift::Correct => Step::act(apply(desired, standing, Some(&unkept))),
        Drift::Report => Step::rest(Reason {
            cause: Cause::Waiting,
            detail: format!("{} was changed at {} (drift: Report)", desired.reference, differing.join(", ")),
        }),
        Drift::Ignore => Step::default(),
    }
}

/// What still differs after our apply does not stick: it is remembered on the object, reported, and not written again.
fn remember_unkept(desired: &Desired, standing: &Standing, differing: Vec<String>) -> Step {
    let mut all = unkept(&standing.object);
    all.extend(differing);
    all.sort();
    Step::act(apply(desired, standing, Some(&all)))
}

fn apply(desired: &Desired, standing: &Standing, unkept: Option<&[String]>) -> Action {
    let mut body = Value::clone(&desired.body);
    if let Some(unkept) = unkept.filter(|paths| !paths.is_empty()) {
        body["metadata"]["annotations"][marks::UNKEPT] = json!(unkept.join("\n"));
    }
    body["metadata"]["uid"] = json!(metadata(&standing.object, "uid"));
    let intent = Intent::Update { uid: standing.uid().to_owned() };
    Action::Apply { reference: desired.reference.clone(), body: Arc::new(body), intent }
}

/// JSON pointers that the server did not keep when this rendering was applied.
fn unkept(object: &Value) -> Vec<String> {
    let marked = marks::annotation(object, marks::UNKEPT).unwrap_or_default();
    marked.lines().map(str::to_owned).collect()
}

fn hash_pointer() -> String {
    format!("/metadata/annotations/{}", crate::object::compare::escape_pointer(marks::HASH))
}

/// Ends a plan: the status that follows from it, or, once that stands, the reasons themselves.
fn say(
    mapping: &Mapping,
    observed: &Observed,
    source: &Arc<Value>,
    rendering: Option<&Rendering>,
    mut reasons: Reasons,
) -> Plan {
    match status::patch(mapping, observed, source, rendering, &mut reasons) {
        Some(patch) => Plan::Last(Box::new(Action::PatchStatus { patch }), reasons.verdict()),
        None => reasons.rest(),
    }
}

impl Step {
    fn act(action: Action) -> Self {
        Self { actions: vec![action], reasons: Reasons::default() }
    }

    fn rest(reason: Reason) -> Self {
        Self { actions: Vec::new(), reasons: Reasons(vec![reason]) }
    }

    /// The same with the object named that it is about.
    fn of(mut self, id: &str) -> Self {
        self.reasons.0 = self.reasons.0.into_iter().map(|reason| named(id, reason)).collect();
        self
    }

    fn extend(&mut self, other: Self) {
        self.actions.extend(other.actions);
        self.reasons.0.extend(other.reasons.0);
    }
}
