//! Related objects: where they stand, what expressions read of them, and what is carried.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::observed::Observed;
use super::{Cause, Reason, each, render};
use crate::mapping::expression::{Missing, ObjectState, Scope, Several};
use crate::mapping::placement::Place;
use crate::mapping::template::{Text, Unrendered};
use crate::mapping::{Direction, Mapping, RelatedData, RelatedMissing, RelatedPlace, RelatedRule};
use crate::object::metadata;

/// What one rule comes to.
pub type Resolved = Result<Vec<Related>, Unrendered>;

/// One related object.
#[derive(Debug, Clone)]
pub struct Related {
    /// Which of several it is.
    pub key: Option<String>,
    pub from: At,
    pub to: At,
    /// As it stands where it comes from.
    pub found: Option<Arc<Value>>,
}

/// A place in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    pub namespace: String,
    pub name: String,
}

/// Finds the related objects of a source, and makes them readable as `related.<id>`. The variables, which may read them
/// and be read by them, are set on the way.
pub fn resolve(
    mapping: &Mapping,
    observed: &Observed,
    source: &Value,
    place: &Place,
    scope: &mut Scope,
) -> Vec<Resolved> {
    mapping.related.iter().for_each(|rule| scope.set_related(&rule.id, ObjectState::Missing));
    let mut resolved = Vec::new();
    // None of them waits for itself: each round settles one more at least.
    for _ in &mapping.related {
        render::set_vars(mapping, scope);
        resolved = mapping.related.iter().map(|rule| find(rule, observed, source, place, scope)).collect();
        for (rule, resolved) in mapping.related.iter().zip(&resolved) {
            scope.set_related(&rule.id, state(rule, resolved));
        }
    }
    resolved
}

fn find(rule: &RelatedRule, observed: &Observed, source: &Value, place: &Place, scope: &Scope) -> Resolved {
    let places = Places { rule, observed, source, place };
    let mut scope = scope.clone();
    match (&rule.for_each, &rule.from.selector) {
        (Some(list), _) => {
            let items = each::keyed(list, &mut scope)?;
            let one = |(key, item)| {
                scope.set_local(&list.item, item);
                places.named(Some(key), &scope)
            };
            items.into_iter().map(one).collect()
        }
        (None, Some(selector)) => {
            let namespace = places.namespace(&rule.from, Side::From, &scope)?;
            let selected =
                places.given(&namespace).filter(|object| selector.matches(object.pointer("/metadata/labels")));
            selected.map(|object| places.selected(object, &namespace, &scope)).collect()
        }
        (None, None) => Ok(vec![places.named(None, &scope)?]),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    From,
    To,
}

struct Places<'a> {
    rule: &'a RelatedRule,
    observed: &'a Observed,
    source: &'a Value,
    place: &'a Place,
}

impl<'a> Places<'a> {
    fn named(&self, key: Option<String>, scope: &Scope) -> Result<Related, Unrendered> {
        let text = |text: &Option<Text>| text.as_ref().map(|text| text.render(scope)).transpose();
        let name = text(&self.rule.from.name)?.unwrap_or_default();
        let from = At { namespace: self.namespace(&self.rule.from, Side::From, scope)?, name };
        let name = text(&self.rule.to.name)?.unwrap_or_else(|| from.name.clone());
        let to = At { namespace: self.namespace(&self.rule.to, Side::To, scope)?, name };
        let found = self.given(&from.namespace).find(|object| metadata(object, "name") == from.name).cloned();
        Ok(Related { key, from, to, found })
    }

    fn selected(&self, object: &Arc<Value>, namespace: &str, scope: &Scope) -> Result<Related, Unrendered> {
        let name = metadata(object, "name").to_owned();
        let from = At { namespace: namespace.to_owned(), name: name.clone() };
        let to = At { namespace: self.namespace(&self.rule.to, Side::To, scope)?, name: name.clone() };
        Ok(Related { key: Some(name), from, to, found: Some(object.clone()) })
    }

    /// The consumer's side is the source's namespace, the target's is the placement's.
    fn namespace(&self, place: &RelatedPlace, side: Side, scope: &Scope) -> Result<String, Unrendered> {
        let consumers = (side == Side::From) == (self.rule.direction == Direction::ToTarget);
        match &place.namespace {
            Some(text) => text.render(scope),
            None if consumers => Ok(metadata(self.source, "namespace").to_owned()),
            None => Ok(self.place.namespace.clone()),
        }
    }

    /// Objects of the rule's resource in a namespace; one that names none stands in any.
    fn given<'s>(&'s self, namespace: &'s str) -> impl Iterator<Item = &'a Arc<Value>> + 's {
        let resource = &self.rule.resource;
        let text = |object: &'a Value, field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        self.observed.related.iter().filter(move |object| {
            text(object, "apiVersion") == resource.api_version()
                && resource.may_serve(text(object, "kind"))
                && [namespace, ""].contains(&metadata(object, "namespace"))
        })
    }
}

/// What expressions read: the object, with the places it comes from and goes to.
fn state(rule: &RelatedRule, resolved: &Resolved) -> ObjectState {
    let several = rule.for_each.is_some() || rule.from.selector.is_some();
    let readable = |one: &Related| one.found.as_ref().map(|found| Arc::new(readable(found, one)));
    let Ok(all) = resolved else { return ObjectState::Missing };
    if several {
        let entry = |one: &Related| Some((one.key.clone()?, readable(one)?));
        let missing = match rule.on_missing {
            RelatedMissing::Wait => Missing::Wait,
            RelatedMissing::Skip => Missing::Skip,
            RelatedMissing::Fail => Missing::Fail,
        };
        return ObjectState::Several(Several { all: all.iter().filter_map(entry).collect(), missing });
    }
    match (all.first().and_then(readable), rule.on_missing) {
        (Some(object), _) => ObjectState::Present(object),
        (None, RelatedMissing::Wait) => ObjectState::Missing,
        (None, RelatedMissing::Skip) => ObjectState::Skipped,
        (None, RelatedMissing::Fail) => ObjectState::Failed,
    }
}

fn readable(found: &Value, one: &Related) -> Value {
    let mut object = found.clone();
    for (side, at) in [("from", &one.from), ("to", &one.to)] {
        object[side] = json!({"namespace": at.namespace, "name": at.name});
    }
    object
}

/// Why a related object holds up what depends on it.
pub fn missing(rule: &RelatedRule, resolved: &Resolved) -> Option<Reason> {
    let all = match resolved {
        Ok(all) => all,
        Err(why) => return Some(named(rule, None, why.clone().into())),
    };
    let lacking = all.iter().find(|one| one.found.is_none())?;
    let (cause, detail) = match rule.on_missing {
        RelatedMissing::Skip => return None,
        RelatedMissing::Wait => (Cause::Waiting, "it is not there yet"),
        RelatedMissing::Fail => (Cause::RenderFailed, "it is not there"),
    };
    Some(named(rule, lacking.key.as_deref(), Reason { cause, detail: detail.to_owned() }))
}

fn named(rule: &RelatedRule, key: Option<&str>, reason: Reason) -> Reason {
    let key = key.map_or(String::new(), |key| format!("[{key}]"));
    Reason { cause: reason.cause, detail: format!("related object `{}{key}`: {}", rule.id, reason.detail) }
}

/// The object as it is carried: under its new name, with the data that was asked for, and nothing that the cluster it
/// comes from says about it.
pub fn copy(rule: &RelatedRule, one: &Related) -> Option<Value> {
    let found = one.found.as_ref()?.as_object()?;
    let mut copy = Map::new();
    for (field, value) in found {
        let value = match field.as_str() {
            "status" => continue,
            "metadata" => json!({"namespace": one.to.namespace, "name": one.to.name}),
            "data" | "stringData" | "binaryData" => carried(&rule.data, value),
            _ => value.clone(),
        };
        copy.insert(field.clone(), value);
    }
    Some(Value::Object(copy))
}

fn carried(rule: &RelatedData, data: &Value) -> Value {
    let included = |key: &String| rule.include.is_empty() || rule.include.contains(key);
    let entries = data.as_object().into_iter().flatten().filter(|(key, _)| included(key));
    let renamed = entries.map(|(key, value)| (rule.rename.get(key).unwrap_or(key).clone(), value.clone()));
    Value::Object(renamed.collect())
}
