//! Related objects: where they are, what expressions read of them, and what their copies hold.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use super::observed::{self, Observed, Original, Pick, TargetObject};
use super::readable::is_read;
use super::{Cause, Reason, each, render};
use crate::mapping::expression::{ObjectState, Root, Scope, Several};
use crate::mapping::names::is_dns_subdomain;
use crate::mapping::placement::Place;
use crate::mapping::template::{Template, Text, Unrendered};
use crate::mapping::{
    Direction, Mapping, ObjectRule, OriginalOwner, RelatedMissing, RelatedPlace, RelatedRule, SERVICE_ACCOUNT_TOKEN,
    Side,
};
use crate::object::marks::Reference;
use crate::object::{decoded, metadata};

/// What one rule gives: of one object, nothing where its `when` is false.
pub type Resolved = Result<Vec<Related>, Reason>;

#[derive(Debug, Clone)]
pub struct Related {
    /// Which of several it is.
    pub key: Option<String>,
    /// What it is made from.
    pub item: Option<Arc<Value>>,
    pub from: At,
    pub to: At,
    pub original: State,
}

#[derive(Debug, Clone)]
pub enum State {
    Present(Arc<Value>),
    Missing,
    /// It has to be read first.
    Unread(Original),
    /// Whether it exists cannot be told.
    Unseen(Reason),
}

/// Namespace and name in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    pub namespace: String,
    pub name: String,
}

impl Related {
    pub fn present(&self) -> Option<&Arc<Value>> {
        match &self.original {
            State::Present(object) => Some(object),
            _ => None,
        }
    }

    /// Whether it is known where it goes. Of a selection that was not read, nothing is.
    pub fn is_placed(&self) -> bool {
        self.key.is_none() || !self.to.name.is_empty()
    }
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
    mapping.related.iter().for_each(|rule| scope.set_related(&rule.id, ObjectState::Missing(RelatedMissing::Wait)));
    let (mut resolved, mut readables) = (Vec::new(), Readables::new());
    // None of them waits for itself: each round settles one more at least.
    for _ in 0..mapping.related.len() + render::judged(mapping).count() {
        render::set_vars(mapping, scope);
        render::judge_objects(mapping, observed, place, scope);
        let found = mapping.related.iter().enumerate().map(|(position, rule)| {
            let is_wanted = rule.when.as_ref().map_or(Ok(true), |when| when.holds(scope));
            let resolved = match is_wanted {
                Ok(true) => unread_yet(mapping, position, observed, place, scope)
                    .map_or_else(|| find(rule, observed, source, place, scope), Err),
                Ok(false) => return (Ok(Vec::new()), ObjectState::Missing(RelatedMissing::Skip)),
                Err(why) => Err(why.into()),
            };
            let state = state(rule, &resolved, &mut readables);
            (resolved, state)
        });
        let (found, states): (_, Vec<_>) = found.unzip();
        resolved = found;
        mapping.related.iter().zip(states).for_each(|(rule, state)| scope.set_related(&rule.id, state));
    }
    doubt_consequences(mapping, &mut resolved);
    resolved
}

/// While an original is not seen, the objects that need it are not made, and what is read back once they exist says nothing
/// that is certain.
fn doubt_consequences(mapping: &Mapping, resolved: &mut [Resolved]) {
    let is_unseen = |(rule, resolved): (&RelatedRule, &Resolved)| {
        rule.direction == Direction::ToTarget && unseen(resolved) == Some(Cause::Unknown)
    };
    if !mapping.related.iter().zip(&*resolved).any(is_unseen) {
        return;
    }
    for (rule, resolved) in mapping.related.iter().zip(resolved) {
        if let (Direction::ToSource, Err(reason)) = (rule.direction, resolved)
            && reason.cause == Cause::Waiting
        {
            reason.cause = Cause::Unknown;
        }
    }
}

/// What has to be read before anything is decided.
pub fn unread(resolved: &[Resolved]) -> Vec<Original> {
    let unread = |one: &Related| match &one.original {
        State::Unread(original) => Some(original.clone()),
        _ => None,
    };
    let mut all: Vec<Original> = resolved.iter().flatten().flatten().filter_map(unread).collect();
    all.sort();
    all.dedup();
    all
}

fn find(rule: &RelatedRule, observed: &Observed, source: &Value, place: &Place, scope: &Scope) -> Resolved {
    let places = Places { rule, observed, source, place, own: OnceCell::new() };
    let mut scope = scope.clone();
    match (&rule.for_each, &rule.from.selector) {
        (Some(list), _) => {
            let items = each::keyed(list, &mut scope)?;
            let one = |(key, item): (String, Arc<Value>)| {
                scope.set_local(&list.item, item.clone());
                let unnamed = |why: Unrendered| Related {
                    key: None,
                    item: None,
                    from: At::default(),
                    to: At::default(),
                    original: State::Unseen(why.into()),
                };
                Related { key: Some(key), item: Some(item), ..places.named(&scope).unwrap_or_else(unnamed) }
            };
            Ok(items.into_iter().map(one).collect())
        }
        (None, Some(selector)) => places.selected(&selector.to_string(), &scope),
        (None, None) => Ok(vec![places.named(&scope)?]),
    }
}

/// Why nothing is read back from a target yet: an object of the source, from which it may derive, is not the source's own. What
/// depends on it derives from it, and not the other way round.
fn unread_yet(mapping: &Mapping, position: usize, observed: &Observed, place: &Place, scope: &Scope) -> Option<Reason> {
    if mapping.related.get(position)?.direction == Direction::ToTarget {
        return None;
    }
    let reads = |rule: &ObjectRule| rule.depends_on_related.contains(&position);
    let derives = |rule: &ObjectRule| {
        reads(rule) || mapping.objects.iter().any(|other| reads(other) && mapping.depends(rule, &other.id))
    };
    let is_origin =
        |rule: &&ObjectRule| rule.copy.is_none() && !rule.shared && rule.kind.side == Side::Target && !derives(rule);
    let not_own = |reference: Reference| {
        let (cause, why) = match observed.state(&reference, false) {
            Ok(observed::ObjectState::Ours(_)) => return None,
            Ok(observed::ObjectState::Absent) => (Cause::Waiting, "does not exist yet"),
            Ok(observed::ObjectState::OursOfEarlier(_)) => (Cause::Recreated, "was made for an earlier source"),
            Ok(observed::ObjectState::Foreign) => (Cause::Conflict, "does not belong to this source"),
            Err(reason) => (reason.cause, "cannot be seen"),
        };
        Some(Reason { cause, detail: format!("it is not read while {reference} {why}") })
    };
    let wanted = |rule: &ObjectRule| {
        each::of_each(rule, scope, |_, scope| {
            let is_left_out = rule.when.as_ref().is_some_and(|when| when.holds(scope) == Ok(false));
            render::reference(rule, place, scope).ok().filter(|_| !is_left_out)
        })
    };
    mapping.objects.iter().filter(is_origin).flat_map(wanted).find_map(not_own)
}

struct Places<'a> {
    rule: &'a RelatedRule,
    observed: &'a Observed,
    source: &'a Value,
    place: &'a Place,
    own: OnceCell<Own<'a>>,
}

/// What the source itself has on this target: each by group, kind, namespace and name, and by uid.
struct Own<'a> {
    places: BTreeSet<[&'a str; 4]>,
    uids: BTreeSet<&'a str>,
}

impl<'a> Own<'a> {
    fn of(observed: &'a Observed) -> Self {
        let own = || observed.objects.own().filter(|one| one.reference.kind.side == Side::Target);
        let uids = own().map(TargetObject::uid).filter(|uid| !uid.is_empty()).collect();
        Self { places: own().map(|one| Self::place(&one.object)).collect(), uids }
    }

    fn place(object: &Value) -> [&str; 4] {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        [group, text("kind"), metadata(object, "namespace"), metadata(object, "name")]
    }

    /// Whether an object is one of them, or one of them owns it. It may name thousands of owners.
    fn has(&self, found: &Value) -> bool {
        let owners = found.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let mut uids = owners.filter_map(|owner| owner.get("uid")?.as_str());
        self.places.contains(&Self::place(found)) || uids.any(|uid| self.uids.contains(uid))
    }
}

impl Places<'_> {
    fn named(&self, scope: &Scope) -> Result<Related, Unrendered> {
        let text = |text: &Option<Text>| text.as_ref().map(|text| text.render(scope)).transpose();
        let (from_side, to_side) = sides(self.rule);
        let name = checked("from", text(&self.rule.from.name)?.unwrap_or_default())?;
        let from = At { namespace: self.namespace(&self.rule.from, from_side, scope)?, name };
        let name = text(&self.rule.to.name)?.map(|name| checked("to", name)).transpose()?;
        let name = name.unwrap_or_else(|| from.name.clone());
        let to = At { namespace: self.namespace(&self.rule.to, to_side, scope)?, name };
        let original = original(self.rule, &from.namespace, Pick::Name(from.name.clone()));
        let original = match self.observed.originals(&original) {
            None => State::Unread(original),
            Some(Err(reason)) => State::Unseen(reason),
            Some(Ok(found)) => {
                found.into_iter().find(|found| self.is_readable(found)).map_or(State::Missing, State::Present)
            }
        };
        Ok(Related { key: None, item: None, from, to, original })
    }

    fn selected(&self, labels: &str, scope: &Scope) -> Resolved {
        let (from_side, to_side) = sides(self.rule);
        let from = self.namespace(&self.rule.from, from_side, scope)?;
        let to = self.namespace(&self.rule.to, to_side, scope)?;
        let at = |namespace: &str, name: &str| At { namespace: namespace.to_owned(), name: name.to_owned() };
        let one = |key: Option<&str>, original: State| Related {
            key: key.map(str::to_owned),
            item: None,
            from: at(&from, key.unwrap_or_default()),
            to: at(&to, key.unwrap_or_default()),
            original,
        };
        let original = original(self.rule, &from, Pick::Labels(labels.to_owned()));
        match self.observed.originals(&original) {
            None => Ok(vec![one(None, State::Unread(original))]),
            Some(seen) => {
                let all: Vec<Arc<Value>> = seen?.into_iter().filter(|found| self.is_readable(found)).collect();
                let present = |found: &Arc<Value>| one(Some(metadata(found, "name")), State::Present(found.clone()));
                flood(&original, all.len()).map_or_else(|| Ok(all.iter().map(present).collect()), Err)
            }
        }
    }

    /// Where a place alone does not tell whose an object is, it is the tenant's own if the engine owns it for this source, or
    /// if such an object owns it. Any other counts as missing, so that nobody learns what other tenants have. Only the objects of
    /// this target tell it: beside the source, its tenant writes what they like.
    fn is_readable(&self, found: &Value) -> bool {
        self.rule.owner != OriginalOwner::Unknown || self.own.get_or_init(|| Own::of(self.observed)).has(found)
    }

    /// The consumer's side is the source's namespace, the target's is the placement's.
    fn namespace(&self, place: &RelatedPlace, side: Side, scope: &Scope) -> Result<String, Unrendered> {
        match (&place.namespace, side) {
            (Some(text), _) => checked("namespace", text.render(scope)?),
            (None, Side::Source) => Ok(metadata(self.source, "namespace").to_owned()),
            (None, Side::Target) => Ok(self.place.namespace.clone()),
        }
    }
}

/// The objects that a rule selects by labels.
pub fn selection(
    rule: &RelatedRule,
    observed: &Observed,
    source: &Value,
    place: &Place,
    scope: &Scope,
) -> Option<Original> {
    let selector = rule.from.selector.as_ref()?;
    let places = Places { rule, observed, source, place, own: OnceCell::new() };
    let namespace = places.namespace(&rule.from, sides(rule).0, scope).ok()?;
    Some(original(rule, &namespace, Pick::Labels(selector.to_string())))
}

/// Why none of so many selected objects is used: a consumer's labels must not become a flood of objects.
pub fn flood(original: &Original, found: usize) -> Option<Reason> {
    let most = each::MOST;
    let detail = || format!("it selects {found} objects ({original}), and {most} are the most");
    (found > most).then(|| Reason { cause: Cause::RenderFailed, detail: detail() })
}

/// One related object by its name, also where it was selected by labels.
pub fn by_name(rule: &RelatedRule, one: &Related) -> Original {
    original(rule, &one.from.namespace, Pick::Name(one.from.name.clone()))
}

fn original(rule: &RelatedRule, namespace: &str, pick: Pick) -> Original {
    Original { side: sides(rule).0, resource: rule.resource.clone(), namespace: namespace.to_owned(), pick }
}

/// Where originals are, and where they are copied to.
fn sides(rule: &RelatedRule) -> (Side, Side) {
    match rule.direction {
        Direction::ToTarget => (Side::Source, Side::Target),
        Direction::ToSource => (Side::Target, Side::Source),
    }
}

/// A name that a consumer chose is no path, and no query.
fn checked(what: &str, name: String) -> Result<String, Unrendered> {
    if is_dns_subdomain(&name) {
        return Ok(name);
    }
    let why = if name.is_empty() { "is empty" } else { "is no name of an object" };
    Err(Unrendered::Failed(format!("`{what}`: the name {why}")))
}

/// What expressions read of originals, by what they are and where they go: thousands of them, which are found again for each
/// rule that may depend on another one.
type Readables = BTreeMap<(*const Value, At, At), Arc<Value>>;

/// What expressions read: the object, with where it comes from and where it goes.
fn state(rule: &RelatedRule, resolved: &Resolved, known: &mut Readables) -> ObjectState {
    if !rule.is_read {
        return ObjectState::Missing(RelatedMissing::Wait);
    }
    let mut readable = |one: &Related| {
        let found = one.present()?;
        let key = (Arc::as_ptr(found), one.from.clone(), one.to.clone());
        Some(known.entry(key).or_insert_with(|| Arc::new(readable(found, one))).clone())
    };
    let (is_unseen, missing) = (unseen(resolved).is_some(), rule.on_missing);
    let Ok(all) = resolved else {
        return if is_unseen { ObjectState::Unseen } else { ObjectState::Missing(RelatedMissing::Wait) };
    };
    if rule.is_several() {
        let entry = |one: &Related| Some((one.key.clone()?, readable(one)?));
        let is_whole = all.iter().all(|one| one.present().is_some());
        return ObjectState::Several(Several {
            all: all.iter().filter_map(entry).collect(),
            missing,
            is_partial: !is_whole && missing != RelatedMissing::Skip,
            is_unseen,
            ..Several::default()
        });
    }
    match all.first().and_then(readable) {
        Some(found) => ObjectState::Present(found),
        None if is_unseen => ObjectState::Unseen,
        None => ObjectState::Missing(missing),
    }
}

/// Why a related object is out of sight, or one of several is: the worst cause.
pub fn unseen(resolved: &Resolved) -> Option<Cause> {
    let of_one = |one: &Related| match &one.original {
        State::Present(_) | State::Missing => None,
        State::Unread(_) => Some(Cause::Unknown),
        State::Unseen(reason) => Some(reason.cause),
    };
    match resolved {
        Ok(all) => all.iter().filter_map(of_one).min(),
        Err(reason) => Some(reason.cause).filter(|cause| matches!(cause, Cause::Unknown | Cause::ClaimNotAccepted)),
    }
}

fn readable(found: &Value, one: &Related) -> Value {
    let mut object = found.clone();
    for field in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(Value::Object(all)) = object.pointer_mut(field) {
            all.retain(|key, _| is_read(key));
        }
    }
    for (side, at) in [("from", &one.from), ("to", &one.to)] {
        object[side] = json!({"namespace": at.namespace, "name": at.name});
    }
    object
}

/// Why a related object delays what depends on it.
pub fn missing(rule: &RelatedRule, resolved: &Resolved, key: Option<&str>) -> Option<Reason> {
    let why = |one: &Related| Some(named(rule, one.key.as_deref(), lacking(rule, one)?));
    match resolved {
        Ok(all) => with_key(all, key).map_or_else(|| all.iter().find_map(why), why),
        Err(reason) => Some(named(rule, None, reason.clone())),
    }
}

/// The one that an object with this key waits for alone. `None`: it waits for all of them.
pub fn with_key<'r>(all: &'r [Related], key: Option<&str>) -> Option<&'r Related> {
    all.iter().find(|one| key.is_some() && one.key.as_deref() == key)
}

/// Why the original of a related object is not at hand. `None`: it is, or nothing waits for it.
pub fn lacking(rule: &RelatedRule, one: &Related) -> Option<Reason> {
    let At { namespace, name } = &one.from;
    let missing = |cause| {
        let whose = match rule.direction {
            Direction::ToTarget => "in the consumer's cluster",
            Direction::ToSource if rule.owner == OriginalOwner::Unknown => "on the target, or is not this source's own",
            Direction::ToSource => "on the target",
        };
        let detail = format!("{} {namespace}/{name} does not exist {whose}", rule.resource.group_plural());
        Some(Reason { cause, detail })
    };
    match (&one.original, rule.on_missing) {
        (State::Present(_), _) => None,
        (State::Unread(original), _) => Some(original.unread()),
        (State::Unseen(reason), _) => Some(reason.clone()),
        (State::Missing, RelatedMissing::Skip) => None,
        (State::Missing, RelatedMissing::Wait) => missing(Cause::Waiting),
        (State::Missing, RelatedMissing::Fail) => missing(Cause::RenderFailed),
    }
}

fn named(rule: &RelatedRule, key: Option<&str>, reason: Reason) -> Reason {
    let key = key.map_or(String::new(), |key| format!("[{key}]"));
    reason.within(&format!("related object `{}{key}`", rule.id))
}

/// What the copy of an original holds: the data that was asked for, and nothing that its cluster says about it. `None`:
/// there is no original.
///
/// # Errors
/// What is never copied, and data that cannot be transformed.
pub fn copy(rule: &RelatedRule, one: &Related, scope: &Scope) -> Result<Option<Value>, Unrendered> {
    let Some(original) = one.present() else { return Ok(None) };
    let kind = rule.copied_kind().map(|kind| kind.kind.clone()).unwrap_or_default();
    let text = |field: &str| original.get(field).and_then(Value::as_str);
    let is_secret = kind == "Secret";
    let mut copy = Map::new();
    copy.insert("apiVersion".into(), json!("v1"));
    copy.insert("kind".into(), json!(kind));
    if is_secret {
        if text("type") == Some(SERVICE_ACCOUNT_TOKEN) {
            return Err(Unrendered::Failed("it is the token of a service account, which is never copied".into()));
        }
        copy.insert("type".into(), json!(rule.secret_type.as_deref().or(text("type")).unwrap_or("Opaque")));
    }
    let mut scope = scope.clone();
    if let (Some(list), Some(item)) = (&rule.for_each, &one.item) {
        scope.set_local(&list.item, item.clone());
    }
    for field in ["data", "binaryData"] {
        if let Some(Value::Object(data)) = original.get(field) {
            let is_encoded = is_secret || field == "binaryData";
            copy.insert(field.into(), Value::Object(copied_data(rule, data, is_encoded, &mut scope)?));
        }
    }
    for (key, template) in &rule.data.add {
        let text = text_of(template, is_secret, &scope).map_err(|why| of_key(key, why))?;
        copy.entry("data").or_insert_with(|| json!({}))[key] = text;
    }
    for (field, keys) in [("labels", &rule.labels), ("annotations", &rule.annotations)] {
        let given = |key: &String| Some((key.clone(), original.get("metadata")?.get(field)?.get(key)?.clone()));
        let given: Map<String, Value> = keys.iter().filter_map(given).collect();
        if !given.is_empty() {
            copy.entry("metadata").or_insert_with(|| json!({}))[field] = Value::Object(given);
        }
    }
    Ok(Some(Value::Object(copy)))
}

fn copied_data(
    rule: &RelatedRule,
    data: &Map<String, Value>,
    is_encoded: bool,
    scope: &mut Scope,
) -> Result<Map<String, Value>, Unrendered> {
    let mut copied = Map::new();
    for (key, value) in data {
        if !rule.data.include.is_empty() && !rule.data.include.contains(key) {
            continue;
        }
        let value = match rule.data.transform.get(key) {
            Some(template) => transformed(template, value, is_encoded, scope).map_err(|why| of_key(key, why))?,
            None => value.clone(),
        };
        copied.insert(rule.data.rename.get(key).unwrap_or(key).clone(), value);
    }
    Ok(copied)
}

/// A value as its template makes it. Why it cannot be made says nothing of what it holds.
fn transformed(template: &Template, value: &Value, is_encoded: bool, scope: &mut Scope) -> Result<Value, Unrendered> {
    let text = value.as_str().unwrap_or_default();
    let text = match is_encoded {
        true => decoded(text),
        false => Some(text.to_owned()),
    };
    let text = text.ok_or_else(|| Unrendered::Failed("it is no text, and cannot be transformed".into()))?;
    scope.set(Root::Value, Arc::new(json!(text)));
    text_of(template, is_encoded, scope)
}

/// The value of a key as its template makes it.
fn text_of(template: &Template, is_encoded: bool, scope: &Scope) -> Result<Value, Unrendered> {
    match template.render(scope)? {
        Value::String(text) if is_encoded => Ok(json!(BASE64.encode(text.as_bytes()))),
        Value::String(text) => Ok(json!(text)),
        _ => Err(Unrendered::Failed("it gives no text".into())),
    }
}

fn of_key(key: &str, why: Unrendered) -> Unrendered {
    why.within(&format!("the value of its key `{key}`"))
}
