//! What flows back: the consumer's `.status` as it should be now, as one patch.
//!
//! Every leaf stands for itself: one that cannot be computed keeps what is there and says why. An object that is not
//! there gives a field's `default`, else its `onMissing`; one that cannot be seen, or is somebody else's, changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::jsonptr::Pointer;
use serde_json::{Map, Value, json};

use super::action::Action;
use super::observed::{ObjectState, Observed, Phase, Sight, TargetObject};
use super::redact::Redaction;
use super::render::{self, Rendering};
use super::source::guarded;
use super::{Cause, Reason, Reasons, live, mirror, targets};
use crate::mapping::expression::{Outcome, Root, Scope, kind};
use crate::mapping::schema::{Presence, Schema};
use crate::mapping::template::{Template, Unrendered};
use crate::mapping::{ConditionRule, Mapping, OnMissing, StatusField, StatusValue, Take};
use crate::object::compare::{pointer, same};
use crate::object::marks::Writer;
use crate::object::{generation, marks};

/// What becomes of one leaf.
#[derive(Debug, Clone, PartialEq)]
enum Leaf {
    Set(Value),
    Remove,
    Keep,
}

/// The patch of `/status` that is due; `None` when all stands already. Without a rendering the fields keep what they
/// have, and only the engine's condition speaks. Leaves that fail are added to the reasons. `here`: of several targets, why the
/// source is not in sync on this one.
pub fn patch(
    mapping: &Mapping,
    observed: &Observed,
    source: &Arc<Value>,
    rendering: Option<&Rendering>,
    here: Option<Cause>,
    reasons: &mut Reasons,
) -> Option<Action> {
    let wanted = wanted(mapping, observed, source, rendering, here, reasons);
    if let Some(why) = &observed.answers.status_failed {
        reasons.push(Cause::StatusFailed, why.clone());
        return None;
    }
    if is_withheld(observed, wanted.as_ref(), reasons) {
        return None;
    }
    write(mapping, source, wanted)
}

fn write(mapping: &Mapping, source: &Value, wanted: Option<Value>) -> Option<Action> {
    let old = source.get("status");
    if wanted.as_ref() == old {
        return None;
    }
    let leaf = |pointer: &str| Some((pointer.to_owned(), wanted.as_ref()?.pointer(pointer)?.clone()));
    let fields = mapping.status.fields.iter().filter_map(|field| leaf(&field.pointer));
    let values = fields.chain(leaf("/conditions")).collect();
    let patch = guarded(source, Pointer::from_static("/status"), old, wanted);
    Some(Action::PatchStatus { patch, values })
}

/// The patch that takes back what the mapping wrote, when a source leaves it: its fields and its conditions go, and
/// `Synced` says that the source is not selected, or goes with its mapping. `None`: there is nothing to take back, or the
/// consumer's schema requires it.
pub fn taken_back(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Option<Action> {
    let mut new = source.get("status")?.clone();
    for field in mapping.status.fields.iter().filter(|field| field.on_missing != OnMissing::Keep) {
        let _ = put(&mut new, &field.target, Leaf::Remove);
    }
    if let Some(all) = new.get_mut("conditions").and_then(Value::as_array_mut) {
        all.retain(|entry| !mapping.status.condition_types().any(|kind| entry["type"] == kind));
    }
    if !mapping.status.engine_conditions.is_empty() {
        let kind = engine_condition(observed.subject.writer.engine());
        if matches!(observed.phase, Phase::Leaving(_)) {
            // Nobody would keep it up to date.
            remove_condition(&mut new, &kind);
        } else {
            let generation = generation_of(mapping, observed, source);
            let message = "the object is not selected (any more)".to_owned();
            let condition = Condition { status: "False", reason: NOT_SELECTED.into(), message };
            set_condition(observed, generation, &mut new, &kind, condition);
        }
    }
    let required = observed.consumer.schema.as_ref().is_some_and(|schema| !schema.required_missing(&new).is_empty());
    let refused = observed.answers.status_failed.is_some() || !observed.answers.refused_status.is_empty();
    if required || refused { None } else { write(mapping, source, Some(new)) }
}

/// The patch that takes the engine's own condition alone off a source. `None`: it has none.
pub fn without_condition(writer: &Writer, source: &Arc<Value>) -> Option<Action> {
    let old = source.get("status")?;
    let mut new = old.clone();
    remove_condition(&mut new, &engine_condition(writer.engine()));
    let patch = guarded(source, Pointer::from_static("/status"), Some(old), Some(new.clone()));
    (new != *old).then_some(Action::PatchStatus { patch, values: BTreeMap::new() })
}

/// Whether the engine said of a source that it is not selected. Then it carries nothing else of the engine's.
pub fn says_not_selected(writer: &Writer, source: &Value) -> bool {
    let said = source.get("status").and_then(|status| entry(status, &engine_condition(writer.engine())));
    said.is_some_and(|entry| entry["reason"] == NOT_SELECTED)
}

/// The status as it should be now; `None` where there is nothing to say.
pub fn wanted(
    mapping: &Mapping,
    observed: &Observed,
    source: &Arc<Value>,
    rendering: Option<&Rendering>,
    here: Option<Cause>,
    reasons: &mut Reasons,
) -> Option<Value> {
    let mut new = source.get("status").cloned().unwrap_or(Value::Null);
    let generation = generation_of(mapping, observed, source);
    let redaction = Redaction::new(mapping, observed, source, rendering);
    let nothing = Redaction::default();
    let told = if mapping.status.redact { &redaction } else { &nothing };
    if let Some(rendering) = rendering {
        former(observed, &mut new);
        let mut scope = lenient(mapping, &rendering.scope);
        if mapping.has_several_targets() {
            scope.set(Root::Targets, Arc::new(targets::view(mapping, observed, source, rendering, here)));
        }
        let view = View { mapping, observed, rendering, scope, redaction: told };
        fields(&view, &redaction, &mut new, reasons);
        conditions(&view, generation, &mut new, reasons);
        mirror::conditions(&view, generation, &mut new);
    }
    // What waits for the end of a release keeps nobody out of sync.
    let is_told = |reason: &&Reason| !(observed.limits.is_promoted && reason.cause == Cause::Held);
    let reasons = &Reasons(reasons.0.iter().filter(is_told).cloned().collect());
    engine_conditions(mapping, observed, generation, told, &mut new, reasons);
    observed_generation(mapping, observed, source, rendering, &mut new, reasons);
    if new.is_null() { None } else { Some(new) }
}

/// What only former documents wrote goes, unless the consumer's schema requires it.
fn former(observed: &Observed, status: &mut Value) {
    let missing =
        |status: &Value| observed.consumer.schema.as_ref().map_or(0, |schema| schema.required_missing(status).len());
    for former in observed.consumer.former_status.iter() {
        let mut without = status.clone();
        if former.starts_with('/') {
            crate::object::compare::remove_pointer(&mut without, former);
        } else if let Some(all) = without.get_mut("conditions").and_then(Value::as_array_mut) {
            all.retain(|entry| entry["type"] != **former);
        }
        if missing(&without) <= missing(status) {
            *status = without;
        }
    }
}

/// In status expressions an object that is not there yet is undefined, not a reason to wait; so it is to the variables
/// that they read.
pub fn lenient(mapping: &Mapping, scope: &Scope) -> Scope {
    let mut scope = scope.clone();
    scope.lenient_objects(true);
    let reads_objects = |template: &Template| {
        let read = template.references();
        !read.objects.is_empty() || !read.related.is_empty()
    };
    if mapping.vars.iter().any(|(_, template)| reads_objects(template)) {
        render::set_vars(mapping, &mut scope);
    }
    scope
}

/// A status that lacks leaves which the schema requires would be refused as a whole.
pub fn is_withheld(observed: &Observed, status: Option<&Value>, reasons: &mut Reasons) -> bool {
    let Some((schema, status)) = observed.consumer.schema.as_ref().zip(status) else { return false };
    let missing = schema.required_missing(status);
    if !missing.is_empty() {
        let fields = missing.join("`, `");
        reasons.push(Cause::Waiting, format!("status is withheld until its required fields have a value: `{fields}`"));
    }
    !missing.is_empty()
}

/// What the status rules read of one source.
pub struct View<'s> {
    pub mapping: &'s Mapping,
    pub observed: &'s Observed,
    pub rendering: &'s Rendering,
    scope: Scope,
    pub redaction: &'s Redaction,
}

fn fields(view: &View<'_>, redaction: &Redaction, status: &mut Value, reasons: &mut Reasons) {
    let View { mapping, observed, rendering, scope, .. } = view;
    // Mostly all fields are read from one object.
    let mut read: Option<(&str, Option<Option<&TargetObject>>)> = None;
    let mut seen = |id| match read {
        Some((of, seen)) if of == id => seen,
        _ => read.insert((id, object_at(mapping, observed, rendering, id).ok())).1,
    };
    for field in &mapping.status.fields {
        let leaf = match leaf(&mut seen, scope, field) {
            Ok(Leaf::Set(value)) => match bounded(if field.redact { redaction.value(value) } else { value }) {
                Ok(value) => Leaf::Set(value),
                Err(why) => {
                    reasons.push(Cause::StatusFailed, format!("status.{}: {why}", field.target.join(".")));
                    Leaf::Keep
                }
            },
            Ok(leaf) => leaf,
            Err(why) => {
                unsaid(reasons, &format!("status.{}", field.target.join(".")), why);
                Leaf::Keep
            }
        };
        if leaf == Leaf::Keep || !is_kept(observed, field) {
            continue;
        }
        if let Some(why) = refused(observed, field, &leaf) {
            reasons.push(Cause::StatusFailed, format!("status.{}: {why}", field.target.join(".")));
            continue;
        }
        if let Err(why) = put(status, &field.target, leaf) {
            reasons.push(Cause::StatusFailed, format!("status.{}: {why}", field.target.join(".")));
        }
    }
}

/// Characters of one text that goes to a consumer: what Kubernetes allows the message of a condition.
const MAX_TEXT: usize = 32_768;
/// Bytes of one field of the status.
const MAX_FIELD: usize = 128 * 1024;

/// A value as it goes to the consumer: an operator may write more into its status than a consumer's object can hold.
fn bounded(value: Value) -> Result<Value, String> {
    let value = cut(value);
    let is_nested = value.is_array() || value.is_object();
    let bytes = if is_nested { value.to_string().len() } else { 0 };
    if bytes > MAX_FIELD {
        return Err(format!("it has {bytes} bytes, more than the {MAX_FIELD} that are copied: take less of it"));
    }
    Ok(value)
}

fn cut(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut_text(text)),
        Value::Array(items) => items.into_iter().map(cut).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, cut(value))).collect(),
        other => other,
    }
}

fn cut_text(mut text: String) -> String {
    // Most are shorter in bytes already.
    if text.len() > MAX_TEXT
        && let Some((end, _)) = text.char_indices().nth(MAX_TEXT - 1).filter(|_| text.chars().count() > MAX_TEXT)
    {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Why the consumer's server refused this very value of a leaf before.
fn refused<'o>(observed: &'o Observed, field: &StatusField, leaf: &Leaf) -> Option<&'o str> {
    let (value, why) = observed.answers.refused_status.get(&field.pointer)?;
    (*leaf == Leaf::Set(value.clone())).then_some(why)
}

/// Whether the consumer's server would keep a leaf: its schema knows it, and it was not dropped before.
fn is_kept(observed: &Observed, field: &StatusField) -> bool {
    !observed.consumer.unkept_status.contains(&field.pointer) && knows(observed, &field.pointer)
}

/// Whether the consumer's schema knows a field of the status, or leaves it open.
fn knows(observed: &Observed, pointer: &str) -> bool {
    observed.consumer.schema.as_ref().is_none_or(|schema| schema.has_status(pointer) != Presence::Known(false))
}

fn leaf<'m, 'o>(
    seen: &mut impl FnMut(&'m str) -> Option<Option<&'o TargetObject>>,
    scope: &Scope,
    field: &'m StatusField,
) -> Result<Leaf, Unrendered> {
    let found = match &field.from {
        StatusValue::Value(template) => evaluated(template, scope)?,
        StatusValue::Path { object, path, take } => match seen(object) {
            None => return Ok(Leaf::Keep),
            Some(None) => None,
            Some(Some(standing)) => taken(path.select(&standing.object), *take)?,
        },
    };
    let found = match (found, &field.transform) {
        (Some(value), Some(transform)) => transformed(transform, scope, value)?,
        (found, _) => found,
    };
    match (found, &field.default, field.on_missing) {
        (Some(value), ..) => Ok(Leaf::Set(value)),
        (None, Some(default), _) => Ok(Leaf::Set(default.clone())),
        (None, None, OnMissing::Keep) => Ok(Leaf::Keep),
        (None, None, OnMissing::Remove) => Ok(Leaf::Remove),
        (None, None, OnMissing::Error) => Err(Unrendered::Failed("there is no value for it (onMissing: Error)".into())),
    }
}

/// The object that the status rules read; `None`: it does not exist.
///
/// # Errors
/// Where it is somebody else's or out of told: that says nothing.
pub fn object_at<'o>(
    mapping: &Mapping,
    observed: &'o Observed,
    rendering: &Rendering,
    id: &str,
) -> Sight<Option<&'o TargetObject>> {
    let Some(rule) = mapping.objects.iter().find(|rule| rule.id == id) else {
        return Err(Reason::unseen(format!("the mapping has no object `{id}`")));
    };
    if let Some(standing) = render::standing(mapping, observed, rule, &rendering.place) {
        return Ok(Some(standing));
    }
    observed.sees(&rule.kind)?;
    let desired = rendering.desired(mapping).find(|(wanted, ..)| wanted.id == rule.id);
    match desired.map(|(_, _, desired)| (observed.state(&desired.reference, rule.shared), desired)) {
        Some((Ok(ObjectState::Foreign), desired)) => Err(live::conflict(observed, rule, desired)),
        _ => Ok(None),
    }
}

fn taken(matches: Vec<&Value>, take: Take) -> Result<Option<Value>, Unrendered> {
    match take {
        Take::Count => Ok(Some(json!(matches.len()))),
        Take::All if matches.is_empty() => Ok(None),
        Take::All => Ok(Some(matches.into_iter().cloned().collect())),
        Take::First => Ok(matches.first().map(|value| (*value).clone())),
        Take::One if matches.len() > 1 => {
            let count = matches.len();
            Err(Unrendered::Failed(format!("the path matches {count} values: say `take: first`, `all` or `count`")))
        }
        Take::One => Ok(matches.first().map(|value| (*value).clone())),
    }
}

fn transformed(transform: &Template, scope: &Scope, value: Value) -> Result<Option<Value>, Unrendered> {
    let mut scope = scope.clone();
    scope.set(Root::Value, Arc::new(value));
    evaluated(transform, &scope)
}

fn evaluated(template: &Template, scope: &Scope) -> Result<Option<Value>, Unrendered> {
    match template.evaluate(scope) {
        Outcome::Omit | Outcome::Absent(_) => Ok(None),
        outcome => outcome.value().map(Some),
    }
}

/// Says of a part of the status why it has no value.
fn unsaid(reasons: &mut Reasons, what: &str, why: Unrendered) {
    match why {
        Unrendered::Waiting(_) => reasons.push(Cause::Waiting, format!("{what}: {why}")),
        Unrendered::Failed(_) => reasons.push(Cause::StatusFailed, format!("{what}: {why}")),
    }
}

/// Puts a leaf in its place; a value that is the same by number stays as it is written.
fn put(status: &mut Value, path: &[String], leaf: Leaf) -> Result<(), String> {
    let (last, parents) = path.split_last().ok_or("an empty path")?;
    if leaf == Leaf::Remove {
        if let Some(Value::Object(parent)) = status.pointer_mut(&pointer(parents)) {
            parent.remove(last);
        }
        return Ok(());
    }
    let Leaf::Set(value) = leaf else { return Ok(()) };
    let mut parent = map(status)?;
    for segment in parents {
        parent = map(parent.entry(segment.as_str()).or_insert(Value::Null))?;
    }
    if !parent.get(last).is_some_and(|current| same(current, &value)) {
        parent.insert(last.clone(), value);
    }
    Ok(())
}

fn map(slot: &mut Value) -> Result<&mut Map<String, Value>, String> {
    if slot.is_null() {
        *slot = json!({});
    }
    slot.as_object_mut().ok_or_else(|| "a field above it holds something that is no map".to_owned())
}

fn conditions(view: &View<'_>, generation: Option<i64>, status: &mut Value, reasons: &mut Reasons) {
    for rule in &view.mapping.status.conditions {
        match condition(rule, &view.scope) {
            Ok(mut condition) => {
                condition.message = view.redaction.text(condition.message);
                set_condition(view.observed, generation, status, &rule.kind, condition);
            }
            Err(why) => unsaid(reasons, &format!("condition {}", rule.kind), why),
        }
    }
}

/// Status, reason and message of a condition.
#[derive(Debug, PartialEq)]
pub struct Condition {
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

fn condition(rule: &ConditionRule, scope: &Scope) -> Result<Condition, Unrendered> {
    let status = match evaluated(&rule.status, scope)? {
        Some(Value::Bool(true)) => "True",
        Some(Value::Bool(false)) => "False",
        Some(Value::String(text)) if text == "True" => "True",
        Some(Value::String(text)) if text == "False" => "False",
        None => "Unknown",
        Some(Value::String(text)) if text == "Unknown" => "Unknown",
        Some(other) => {
            let is = if other.is_string() { "another text" } else { kind(&other) };
            let why = format!("status is {is}: expected true, false, True, False or Unknown");
            return Err(Unrendered::Failed(why));
        }
    };
    let reason = text(rule.reason.as_ref(), scope)?.map(|text| reason_word(&text)).filter(|word| !word.is_empty());
    Ok(Condition {
        status,
        reason: reason.unwrap_or_else(|| rule.kind.rsplit('/').next().map(reason_word).unwrap_or_default()),
        message: text(rule.message.as_ref(), scope)?.unwrap_or_default(),
    })
}

fn text(template: Option<&Template>, scope: &Scope) -> Result<Option<String>, Unrendered> {
    let value = template.map(|template| evaluated(template, scope)).transpose()?.flatten();
    Ok(value.map(|value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    }))
}

/// What the API server accepts as a reason: a word of letters, digits, `_`, `,` and `:` that starts with a letter.
pub fn reason_word(text: &str) -> String {
    let word: String = text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':')).collect();
    word.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).trim_end_matches([',', ':']).to_owned()
}

/// Sets one entry of `.status.conditions`; the time moves only with the status, and others' entries stay.
pub fn set_condition(
    observed: &Observed,
    generation: Option<i64>,
    status: &mut Value,
    kind: &str,
    condition: Condition,
) {
    if !knows(observed, "/conditions") {
        return;
    }
    let condition = Condition { message: cut_text(condition.message), ..condition };
    let Ok(status) = map(status) else { return };
    let slot = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(all) = slot.as_array_mut() else { return };
    let former = all.iter().position(|entry| entry["type"] == kind);
    if former.is_some_and(|index| says(&all[index], &condition, generation)) {
        return;
    }
    let since = former.map(|index| &all[index]).filter(|entry| entry["status"] == condition.status);
    let since = since.and_then(|entry| entry["lastTransitionTime"].as_str()).map(str::to_owned);
    let mut entry = json!({
        "type": kind,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since.unwrap_or_else(|| observed.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
    });
    if let Some(generation) = generation {
        entry["observedGeneration"] = json!(generation);
    }
    match former {
        Some(index) => all[index] = entry,
        None => all.push(entry),
    }
}

fn remove_condition(status: &mut Value, kind: &str) {
    if let Some(all) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        all.retain(|entry| entry["type"] != kind);
    }
}

/// One entry of `.status.conditions`.
fn entry<'s>(status: &'s Value, kind: &str) -> Option<&'s Value> {
    status.get("conditions")?.as_array()?.iter().find(|entry| entry["type"] == kind)
}

/// Whether an entry says so already. A consumer's schema may know fewer fields of a condition than we write.
fn says(entry: &Value, condition: &Condition, generation: Option<i64>) -> bool {
    let Condition { status, reason, message } = condition;
    entry["status"] == **status
        && entry["reason"] == *reason
        && entry["message"] == *message
        && is_of_generation(entry, generation)
}

/// Whether an entry names this generation, or none.
fn is_of_generation(entry: &Value, generation: Option<i64>) -> bool {
    entry.get("observedGeneration").is_none_or(|former| Some(former) == generation.map(Value::from).as_ref())
}

/// Conditions name a generation where the status does: elsewhere every change of the spec would cost a write more.
fn generation_of(mapping: &Mapping, observed: &Observed, source: &Value) -> Option<i64> {
    follows_generation(mapping, observed).then(|| generation(source))
}

fn follows_generation(mapping: &Mapping, observed: &Observed) -> bool {
    let known = |schema: &Arc<Schema>| schema.has_status("/observedGeneration") == Presence::Known(true);
    mapping.status.observed_generation && observed.consumer.schema.as_ref().is_some_and(known)
}

fn engine_conditions(
    mapping: &Mapping,
    observed: &Observed,
    generation: Option<i64>,
    redaction: &Redaction,
    status: &mut Value,
    reasons: &Reasons,
) {
    let kind = engine_condition(observed.subject.writer.engine());
    let unseen = reasons.cause() == Some(Cause::Unknown);
    // What was said before stays. A new source is told that nothing is said yet.
    let is_unsaid = observed.is_target_unreachable() && entry(status, &kind).is_none();
    if mapping.status.engine_conditions.is_empty() || unseen && !is_unsaid {
        return;
    }
    if unseen && is_unsaid {
        let message = "the service's cluster cannot be reached now".to_owned();
        let condition = Condition { status: "Unknown", reason: "TargetUnreachable".into(), message };
        return set_condition(observed, generation, status, &kind, condition);
    }
    let mut condition = synced(reasons, redaction);
    let is_adopted = |object: &TargetObject| marks::annotation(&object.object, marks::ADOPTED_FROM).is_some();
    if condition.status == "True" && observed.owned_anywhere().any(is_adopted) {
        condition.reason = "Adopted".into();
        condition.message = "what an earlier object of this name had is kept and now belongs to this one".into();
    }
    // What cannot be seen yet may be what the former condition names: a start alone changes nothing about it.
    let is_partly_unseen = reasons.0.iter().any(|reason| reason.cause == Cause::Unknown);
    let cause_of = |former: &Value| Cause::ALL.into_iter().find(|cause| former["reason"] == cause.as_str());
    let is_as_bad = |former: &Value| cause_of(former).is_some_and(|former| Some(former) <= reasons.cause());
    let is_still_due = |former: &Value| is_of_generation(former, generation) && is_as_bad(former);
    if is_partly_unseen && entry(status, &kind).is_some_and(is_still_due) {
        return;
    }
    set_condition(observed, generation, status, &kind, condition);
}

/// The reason of `Synced` where the mapping's filter leaves the source out.
const NOT_SELECTED: &str = "NotSelected";

/// The type of the engine's own condition.
fn engine_condition(engine: &str) -> String {
    match engine {
        "main" => "Synced".to_owned(),
        engine => format!("{engine}.sync-engine.dev/Synced"),
    }
}

/// The condition `Synced` of a source, as this engine writes it.
pub fn synced_condition<'o>(engine: &str, source: &'o Value) -> Option<&'o Value> {
    let kind = engine_condition(engine);
    source["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == *kind)
}

/// The condition `Synced`. What it says is for the consumer.
fn synced(reasons: &Reasons, redaction: &Redaction) -> Condition {
    let Some(cause) = reasons.cause() else {
        return Condition { status: "True", reason: "Synced".into(), message: String::new() };
    };
    let message = match cause {
        Cause::TargetChanged => "the service moved to another cluster; its provider has to confirm the move",
        Cause::Conflict => "a foreign object has the name that this one needs; it is left untouched",
        Cause::RenderFailed => "the object cannot be translated; see its spec, or ask the provider of the service",
        Cause::IdentityChanged => "the service's mapping changed in a way that would replace what runs; it is kept",
        Cause::Refused => "the service's cluster refused what this object asks for",
        Cause::ClaimNotAccepted => "the service may not use an object of the workspace that it needs",
        Cause::Stuck => "the deletion takes unusually long",
        Cause::Deleting => "what it has is being deleted",
        Cause::Recreated => "what an earlier object of this name had still exists; the provider of the service decides",
        Cause::Held => "a change of the service would delete what this object has; its provider has to approve it",
        Cause::Retained => "the object is not selected (any more); what it has is kept as it is",
        Cause::Orphaned => "what an earlier object of this name had is kept",
        Cause::StatusFailed => "part of the status could not be computed or written",
        Cause::RequestFailed => "a request to the service's cluster failed; it is repeated",
        Cause::Waiting | Cause::Unknown => "waits for what it depends on",
    };
    let worst = reasons.0.iter().find(|reason| reason.cause == cause);
    let detail = worst.filter(|_| explains(cause)).map(|reason| shortened(&redaction.text(reason.detail.clone())));
    let message = detail.map_or(message.to_owned(), |detail| format!("{message}: {detail}"));
    Condition { status: "False", reason: cause.as_str().into(), message }
}

/// Whether the reason itself is for the consumer: what their object lacks, waits for, conflicts with or was refused for. The
/// consumer can do nothing about the rest.
fn explains(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::RenderFailed
            | Cause::StatusFailed
            | Cause::Waiting
            | Cause::Deleting
            | Cause::Refused
            | Cause::ClaimNotAccepted
    )
}

/// A server's refusal can be as long as the object.
fn shortened(detail: &str) -> String {
    const LONGEST: usize = 1024;
    match detail.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &detail[..end]),
        None => detail.to_owned(),
    }
}

/// Translated, never copied: the generation of the source that is applied, and that the target has taken note of.
fn observed_generation(
    mapping: &Mapping,
    observed: &Observed,
    source: &Value,
    rendering: Option<&Rendering>,
    status: &mut Value,
    reasons: &Reasons,
) {
    let path = ["observedGeneration".to_owned()];
    let due = follows_generation(mapping, observed) && rendering.is_some() && reasons.0.is_empty();
    if due && observed.owned_anywhere().all(has_observed) {
        // A status that is no map is said by the fields' own leaves.
        let _ = put(status, &path, Leaf::Set(json!(generation(source))));
    }
}

/// Whether an object's controller has seen its spec; one that does not say counts as having seen it.
fn has_observed(standing: &TargetObject) -> bool {
    let seen = standing.object.get("status").and_then(|status| status.get("observedGeneration"));
    let seen = seen.and_then(Value::as_i64);
    seen.is_none_or(|seen| seen >= generation(&standing.object))
}

/// Leaves that were written and that the server's answer does not hold: dropped by its schema.
pub fn dropped<'v>(written: &'v BTreeMap<String, Value>, answer: &Value) -> Vec<&'v str> {
    let is_dropped = |leaf: &&str| answer.pointer(&format!("/status{leaf}")).is_none();
    written.keys().map(String::as_str).filter(|leaf| *leaf != "/conditions").filter(is_dropped).collect()
}
