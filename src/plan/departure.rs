//! Rows "deleting", "live, out" and "gone": what is taken away, and on what evidence.
//!
//! Deletion never renders a template: it takes everything that carries the source's owner and a true self mark, in
//! the kinds of the mapping and of its inventory. The finalizer is released only after an uncached read found nothing.

use std::sync::Arc;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, RemoveOperation, TestOperation};
use serde_json::{Map, Value, json};

use super::live::kind_unseen;
use super::observed::{Evidence, Observed, Standing, Target};
use super::render::base_scope;
use super::{Action, Cause, Plan, Reason, Reasons, Rest, render, source, target_changed};
use crate::mapping::expression::Root;
use crate::mapping::placement::Place;
use crate::mapping::{Kind, Mapping, Propagation, SourceDelete};
use crate::object::marks::{self, Reference};
use crate::object::metadata;

/// Takes a source's objects away by the policy, then releases its finalizer.
pub fn depart(mapping: &Mapping, observed: &Observed, source: Option<&Arc<Value>>, policy: SourceDelete) -> Plan {
    let identity = match &observed.target {
        Target::Unknown(why) => return Reasons::one(Cause::Unknown, why.clone()).rest(),
        Target::Known { identity, .. } => identity,
    };
    if let Some(reason) = source.and_then(|source| target_changed(observed, source, identity)) {
        return Reasons(vec![reason]).rest();
    }
    let place = place(mapping, observed, source);
    let mut reasons = Reasons(kinds(observed).filter_map(|kind| kind_unseen(observed, kind)).collect());
    let mut actions = Vec::new();
    for standing in last_first(mapping, &observed.owned) {
        take_away(mapping, observed, standing, policy, &mut actions, &mut reasons);
    }
    if actions.is_empty() && reasons.0.is_empty() {
        shared(mapping, observed, place.as_ref(), policy, &mut actions, &mut reasons);
    }
    match (actions.is_empty(), reasons.0.is_empty(), source) {
        (false, ..) => Plan::Act(actions),
        (true, false, _) | (true, true, None) => reasons.rest(),
        (true, true, Some(source)) => release(mapping, observed, source, place.as_ref()),
    }
}

/// Rows "gone": a source that is not there although its objects are.
pub fn gone(mapping: &Mapping, observed: &Observed) -> Plan {
    if observed.owned.is_empty() {
        return Plan::Rest(Rest::InSync);
    }
    match &observed.learned.evidence {
        None => Plan::Act(vec![Action::LookForSource]),
        Some(Evidence::Gone) => depart(mapping, observed, None, mapping.lifecycle.on_source_delete),
        Some(Evidence::None(why)) => {
            let objects: Vec<_> = observed.owned.iter().map(|standing| standing.reference.to_string()).collect();
            Reasons::one(Cause::Orphaned, format!("{} kept: {why}", objects.join(", "))).rest()
        }
    }
}

fn kinds(observed: &Observed) -> impl Iterator<Item = &Kind> {
    let kinds = match &observed.target {
        Target::Known { kinds, .. } => Some(kinds.keys()),
        Target::Unknown(_) => None,
    };
    kinds.into_iter().flatten()
}

/// What can go now, later ones of the mapping first: an object goes after those that depend on it are gone.
fn last_first<'o>(mapping: &Mapping, owned: &'o [Standing]) -> Vec<&'o Standing> {
    let position = |standing: &&Standing| mapping.objects.iter().position(|rule| rule.id == standing.rule_id());
    let rules: Vec<_> = owned.iter().filter_map(|standing| mapping.rule(standing.rule_id())).collect();
    let is_needed = |standing: &&Standing| rules.iter().any(|rule| mapping.depends(rule, standing.rule_id()));
    let mut all: Vec<_> = owned.iter().filter(|standing| !is_needed(standing)).collect();
    all.sort_by_key(|standing| std::cmp::Reverse(position(standing)));
    all
}

fn take_away(
    mapping: &Mapping,
    observed: &Observed,
    standing: &Standing,
    policy: SourceDelete,
    actions: &mut Vec<Action>,
    reasons: &mut Reasons,
) {
    let rule = mapping.rule(standing.rule_id());
    let orphan = policy == SourceDelete::Orphan || rule.is_some_and(|rule| rule.orphan_on_delete);
    if orphan {
        return actions.push(unmark(standing));
    }
    if let Some(reason) = being_deleted(mapping, observed, standing) {
        return reasons.0.push(reason);
    }
    match observed.learned.refused.get(&standing.reference) {
        Some(why) => reasons.push(Cause::Refused, format!("{}: {why}", standing.reference)),
        None => actions.push(delete(standing, rule.map(|rule| rule.propagation).unwrap_or_default())),
    }
}

/// Shared objects go with the last source of their namespace.
fn shared(
    mapping: &Mapping,
    observed: &Observed,
    place: Option<&Place>,
    policy: SourceDelete,
    actions: &mut Vec<Action>,
    reasons: &mut Reasons,
) {
    for standing in last_first(mapping, observed.shared.all()) {
        let namespace = &standing.reference.namespace;
        if place.is_some_and(|place| &place.namespace != namespace) {
            continue;
        }
        match observed.shared_in_use.get(namespace) {
            Some(true) => {}
            Some(false) => take_away(mapping, observed, standing, policy, actions, reasons),
            None => reasons.push(
                Cause::Waiting,
                format!("{}: whether other sources need it is not known yet", standing.reference),
            ),
        }
    }
}

/// Nothing is in sight any more: look once past the caches, then let the source go.
fn release(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, place: Option<&Place>) -> Plan {
    let owners = owners(mapping, observed, place);
    if owners.iter().all(|owner| observed.learned.swept.contains(owner)) {
        return Plan::Act(vec![source::release_finalizer(observed, source)]);
    }
    Plan::Act(vec![Action::Sweep {
        owners,
        kinds: kinds(observed).cloned().collect(),
        namespace: place.map(|place| place.namespace.clone()),
        places: place.map(|place| expected(mapping, observed, source, place)).unwrap_or_default(),
    }])
}

/// The source's own, and that of the shared objects which leave with it.
fn owners(mapping: &Mapping, observed: &Observed, place: Option<&Place>) -> Vec<String> {
    let namespace = place.map(|place| &place.namespace).filter(|_| mapping.has_shared());
    let last = namespace.filter(|namespace| observed.shared_in_use.get(*namespace) == Some(&false));
    let shared = last.map(|namespace| observed.writer.shared_owner(namespace).0);
    std::iter::once(observed.owner.0.clone()).chain(shared).collect()
}

/// The place as far as it can be told: a rule that cannot be evaluated any more must not hold a deletion up.
fn place(mapping: &Mapping, observed: &Observed, source: Option<&Arc<Value>>) -> Option<Place> {
    let source = source?;
    super::render::place(mapping, observed, source).ok()
}

/// Where objects of the source would stand whose label somebody stripped.
fn expected(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, place: &Place) -> Vec<Reference> {
    let mut scope = base_scope(mapping, observed, source);
    scope.set(Root::Placement, Arc::new(json!({"namespace": place.namespace, "name": place.name})));
    let own = mapping.objects.iter().filter(|rule| !rule.shared);
    own.flat_map(|rule| render::places(rule, place, &scope)).map(|(_, reference)| reference).collect()
}

/// Row "being deleted": wait for it, and after `stuckAfter` say so.
pub fn being_deleted(mapping: &Mapping, observed: &Observed, standing: &Standing) -> Option<Reason> {
    if !standing.is_deleting() {
        return None;
    }
    let since = metadata(&standing.object, "deletionTimestamp");
    let finalizers = standing.object.pointer("/metadata/finalizers").map(Value::to_string).unwrap_or_default();
    let stuck = since
        .parse::<k8s_openapi::jiff::Timestamp>()
        .is_ok_and(|since| observed.now.duration_since(since).unsigned_abs() >= mapping.lifecycle.stuck_after);
    Some(Reason {
        cause: if stuck { Cause::Stuck } else { Cause::Waiting },
        detail: format!("{} is being deleted since {since}, finalizers {finalizers}", standing.reference),
    })
}

/// Deletes exactly the incarnation that was seen.
pub fn delete(standing: &Standing, propagation: Propagation) -> Action {
    Action::Delete { reference: standing.reference.clone(), uid: standing.uid().to_owned(), propagation }
}

/// Takes our marks off an object that stays.
pub fn unmark(standing: &Standing) -> Action {
    let guard = |field: &str| {
        let value = metadata(&standing.object, field).into();
        PatchOperation::Test(TestOperation { path: PointerBuf::from_tokens(["metadata", field]), value })
    };
    let mut patch = vec![guard("uid"), guard("resourceVersion")];
    patch.extend(removals(&standing.object, "labels"));
    patch.extend(removals(&standing.object, "annotations"));
    Action::Unmark { reference: standing.reference.clone(), patch: Patch(patch) }
}

fn removals(object: &Value, field: &str) -> Vec<PatchOperation> {
    let entries = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
    let ours = |entry: &(&String, &Value)| {
        let (key, value) = entry;
        key.starts_with("sync-engine.dev/") || (*key == marks::MANAGED_BY && *value == marks::MANAGER)
    };
    let remove =
        |key: &str| PatchOperation::Remove(RemoveOperation { path: PointerBuf::from_tokens(["metadata", field, key]) });
    entries.unwrap_or(&Map::new()).iter().filter(ours).map(|(key, _)| remove(key)).collect()
}
