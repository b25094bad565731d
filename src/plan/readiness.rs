//! What an object waits for before it is made: the objects that it depends on.

use std::sync::Arc;

use serde_json::Value;

use super::observed::{ObjectState, Observed, TargetObject};
use super::related::State;
use super::render::{self, Rendered, Rendering, Wanted};
use super::{Cause, Reason, live, related, status};
use crate::mapping::expression::{Expression, Scope};
use crate::mapping::{Mapping, ObjectRule, RelatedMissing, Side};
use crate::object::readiness::{Readiness, readiness};

/// Why an object cannot be created yet. One of several, with its key, does not wait for what another key lacks.
pub fn unmet(
    mapping: &Mapping,
    observed: &Observed,
    (rule, key): (&ObjectRule, Option<&str>),
    rendering: &Rendering,
) -> Option<Reason> {
    let related = rule.depends_on_related.iter();
    let originals = related.filter_map(|at| Some((mapping.related.get(*at)?, rendering.related.get(*at)?)));
    if let Some(reason) = originals.into_iter().find_map(|(rule, resolved)| related::missing(rule, resolved, key)) {
        return Some(Reason { detail: format!("waits for {}", reason.detail), ..reason });
    }
    rule.depends_on.iter().find_map(|position| lacking(mapping, observed, rendering, *position, key))
}

/// Why the objects of a mapping are not all there and ready.
pub fn unready_objects(mapping: &Mapping, observed: &Observed, rendering: &Rendering) -> Vec<Reason> {
    (0..mapping.objects.len()).filter_map(|position| lacking(mapping, observed, rendering, position, None)).collect()
}

/// Whether an object of a mapping says that it has failed.
pub fn has_failed_object(mapping: &Mapping, observed: &Observed, rendering: &Rendering) -> bool {
    let has_failed = |rule: &ObjectRule, id: &str, item: Option<&Arc<Value>>| {
        let standing = render::standing_as(mapping, observed, rule, id, &rendering.place);
        let state = standing.map(|standing| state(mapping, observed, rule, standing, item, &rendering.scope));
        matches!(state, Some(Ok(Readiness::Failed(_))))
    };
    let rules = mapping.objects.iter().zip(&rendering.objects).filter(|(rule, _)| rule.copy.is_none());
    rules.into_iter().any(|(rule, wanted)| match wanted {
        Ok(Wanted::Each(all)) => {
            all.iter().any(|one| has_failed(rule, &render::instance_id(rule, &one.key), Some(&one.item)))
        }
        _ => has_failed(rule, &rule.id, None),
    })
}

/// What is not ready yet of one rule's objects.
fn lacking(
    mapping: &Mapping,
    observed: &Observed,
    rendering: &Rendering,
    position: usize,
    key: Option<&str>,
) -> Option<Reason> {
    let needed = mapping.objects.get(position)?;
    if needed.copy.is_some() {
        return copy_missing(mapping, observed, needed, rendering, key);
    }
    let unready = |id: &str, item| unready(mapping, observed, needed, id, item, rendering);
    match rendering.objects.get(position) {
        // What is wanted absent delays nothing.
        Some(Ok(Wanted::One(Rendered::Absent))) => None,
        Some(Ok(Wanted::Each(all))) => {
            let wanted = all.iter().filter(|one| !matches!(one.rendered, Ok(Rendered::Absent)));
            wanted.into_iter().find_map(|one| unready(&render::instance_id(needed, &one.key), Some(&one.item)))
        }
        _ => unready(&needed.id, None),
    }
}

/// Why an object that exists is not changed yet: what it newly refers to has to be copied first.
pub fn copies_unmet(
    mapping: &Mapping,
    observed: &Observed,
    (rule, key): (&ObjectRule, Option<&str>),
    rendering: &Rendering,
) -> Option<Reason> {
    let needed = rule.depends_on.iter().filter_map(|position| mapping.objects.get(*position));
    needed.into_iter().find_map(|needed| copy_missing(mapping, observed, needed, rendering, key))
}

/// A copy that does not exist yet. Where there is no original either, and nothing waits for one, none is missing.
fn copy_missing(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    rendering: &Rendering,
    key: Option<&str>,
) -> Option<Reason> {
    let position = rule.copy?.related;
    let (of, resolved) = (mapping.related.get(position)?, rendering.related.get(position)?);
    let all = match resolved {
        Ok(all) => all,
        Err(reason) => return Some(live::named(&rule.id, reason.clone())),
    };
    let needed = all.iter().filter(|one| one.present().is_some() || related::concerns(one, all, key));
    needed.into_iter().find_map(|one| {
        let reference = render::copy_reference(rule, one);
        let state = observed.state(&reference, rule.shared);
        let exists = matches!(state, Ok(ObjectState::Ours(object)) if !object.is_deleting());
        let is_optional = matches!(one.original, State::Missing) && of.on_missing == RelatedMissing::Skip;
        let id = one.key.as_ref().map_or_else(|| rule.id.clone(), |key| render::instance_id(rule, key));
        let why = related::lacking(of, one).map_or("its copy does not exist yet".to_owned(), |reason| reason.detail);
        let detail = format!("waits for {}: {why}", live::what(&id));
        (!exists && !is_optional).then_some(Reason { cause: Cause::Waiting, detail })
    })
}

fn unready(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    id: &str,
    item: Option<&Arc<Value>>,
    rendering: &Rendering,
) -> Option<Reason> {
    let what = live::what(id);
    let waiting = |detail: String| Some(Reason { cause: Cause::Waiting, detail });
    let standing = render::standing_as(mapping, observed, rule, id, &rendering.place);
    let is_current = |object: &&TargetObject| matches!(observed.state_of(object), Ok(ObjectState::Ours(_)));
    let Some(standing) = standing.filter(is_current) else {
        return waiting(format!("waits for {what}, which does not exist yet"));
    };
    match state(mapping, observed, rule, standing, item, &rendering.scope) {
        Ok(Readiness::Ready) => None,
        Ok(Readiness::Pending(why)) => waiting(format!("waits for {what}, which is not ready: {why}")),
        Ok(Readiness::Failed(why)) => waiting(format!("waits for {what}, which has failed: {why}")),
        Err(reason) => Some(reason),
    }
}

/// Whether an object that exists is ready, as far as that can be told: what expressions read as `ready`.
pub fn is_ready(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    standing: &TargetObject,
    item: Option<&Arc<Value>>,
    scope: &Scope,
) -> bool {
    matches!(observed.state_of(standing), Ok(ObjectState::Ours(_)))
        && state(mapping, observed, rule, standing, item, scope) == Ok(Readiness::Ready)
}

/// Whether an object that stands is ready; one that is taken for it is, whatever is said of it.
fn state(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    standing: &TargetObject,
    item: Option<&Arc<Value>>,
    scope: &Scope,
) -> Result<Readiness, Reason> {
    let judged = judged(mapping, observed, rule, standing, item, scope);
    if observed.study.supposed.contains(&standing.reference) { Ok(Readiness::Ready) } else { judged }
}

/// What the mapping says of an object that stands, else what its kind says.
fn judged(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    standing: &TargetObject,
    item: Option<&Arc<Value>>,
    scope: &Scope,
) -> Result<Readiness, Reason> {
    let reports = observed.target.reporting.contains(&rule.kind.on(Side::Target));
    let library = readiness(&rule.kind, &standing.object, reports);
    if rule.ready.is_none() && rule.failed.is_none() {
        return Ok(library);
    }
    let mut scope = status::lenient(mapping, scope);
    if let (Some(each), Some(item)) = (&rule.for_each, item) {
        scope.set_local(&each.item, item.clone());
    }
    let holds = |expression: &Expression, field: &str| {
        render::truth(expression.evaluate(&scope)).map_err(|unrendered| {
            let Reason { cause, detail } = unrendered.into();
            Reason { cause, detail: format!("`{field}` of object `{}`: {detail}", standing.object_id()) }
        })
    };
    if let Some(failed) = &rule.failed
        && holds(failed, "failed")?
    {
        return Ok(Readiness::Failed("its `failed` is true".into()));
    }
    match &rule.ready {
        _ if standing.is_deleting() => Ok(library),
        Some(ready) if holds(ready, "ready")? => Ok(Readiness::Ready),
        Some(_) => Ok(Readiness::Pending("its `ready` is false".into())),
        None => Ok(match library {
            // What failed is for `failed` to say.
            Readiness::Failed(why) => Readiness::Pending(why),
            other => other,
        }),
    }
}
