//! What flows back: the consumer's `.status` as it should be now, as one patch.
//!
//! Every leaf stands for itself: one that cannot be computed keeps what is there and says why. An object that is not
//! there gives a field's `default`, else its `onMissing`; one that cannot be seen, or is somebody else's, changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use json_patch::jsonptr::Pointer;
use serde_json::{Map, Value, json};

use super::action::Action;
use super::observed::{ObjectState, Observed, Phase, Sight, TargetObject};
use super::readiness::Case;
use super::redact::{Redaction, with_texts};
use super::render::{self, Rendering};
use super::source::guarded;
use super::{Cause, Reason, Reasons, live, related, targets};
use crate::mapping::expression::{Evaluated, Root, Scope, kind};
use crate::mapping::schema::Schema;
use crate::mapping::template::{Template, Unrendered};
use crate::mapping::{ConditionRule, Mapping, OnMissing, StatusField, StatusValue, Take, is_within};
use crate::object::compare::{pointer, remove_pointer, same};
use crate::object::marks::Writer;
use crate::object::{generation, marks, shortened};

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
    // What stays as it is was not refused.
    let is_news = |(_, now): &(String, Value)| old.and_then(|old| old.get("conditions")) != Some(now);
    let values = fields.chain(leaf(CONDITIONS).filter(is_news)).collect();
    let patch = guarded(source, Pointer::from_static("/status"), old, wanted);
    Some(Action::PatchStatus { patch, values })
}

/// Which of the conditions that were sent the consumer's server has refused, each as a leaf of its own: those that it names by their
/// place, or else all that it did not have before.
pub fn refused_conditions(source: Option<&Value>, sent: &Value, leaves: &[String]) -> Vec<(String, Value)> {
    let former = source.and_then(|source| source.pointer("/status/conditions")).and_then(Value::as_array);
    // A consumer may have written as many as an object holds: none of them is compared with all.
    let former: BTreeSet<String> = former.into_iter().flatten().map(Value::to_string).collect();
    let is_news = |(_, one): &(usize, &Value)| !former.contains(&one.to_string());
    let news: Vec<(usize, &Value)> = sent.as_array().into_iter().flatten().enumerate().filter(is_news).collect();
    let is_named = |place: usize| {
        let at = format!("{CONDITIONS}/{place}");
        leaves.iter().any(|leaf| is_within(leaf, &at))
    };
    let are_named = news.iter().any(|(place, _)| is_named(*place));
    let refused = news.into_iter().filter(|(place, _)| !are_named || is_named(*place));
    refused.map(|(_, one)| condition_leaf(one)).collect()
}

/// A condition as a leaf of the status. It has another time whenever it is made.
fn condition_leaf(entry: &Value) -> (String, Value) {
    let (pointer, mut value) = (format!("{CONDITIONS}/{}", entry["type"].as_str().unwrap_or_default()), entry.clone());
    value.as_object_mut().into_iter().for_each(|entry| drop(entry.remove("lastTransitionTime")));
    (pointer, value)
}

/// The patch that takes back what the mapping wrote, when a source leaves it: its fields and its conditions go, and
/// `Synced` says that the source is not selected, or goes with its mapping. `None`: there is nothing to take back, or the
/// consumer's schema requires it, or its server has refused that.
pub fn taken_back(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Option<Action> {
    source.get("status")?;
    let mut draft = Draft::of(mapping, observed, source, Redaction::default());
    if !observed.is_served_by_another_engine() {
        for field in mapping.status.fields.iter().filter(|field| field.on_missing != OnMissing::Keep) {
            let _ = put(&mut draft.status, &field.target, Leaf::Remove);
        }
        mapping.status.condition_types().for_each(|kind| remove_condition(&mut draft.status, kind));
    }
    if !mapping.status.engine_conditions.is_empty() {
        let kind = engine_condition(observed.subject.writer.engine());
        if matches!(observed.phase, Phase::Leaving(_)) {
            // Nobody would keep it up to date.
            remove_condition(&mut draft.status, &kind);
        } else {
            let message = "the object is not selected (any more)".to_owned();
            draft.set_condition(&kind, Condition { status: "False", reason: NOT_SELECTED.into(), message }).ok()?;
        }
    }
    let (mut new, schema) = (draft.status, observed.consumer.schema.as_deref());
    if matches!(observed.phase, Phase::Leaving(_)) && draft.generation.is_some() {
        unless_required(schema, &mut new, |status| remove_pointer(status, "/observedGeneration"));
    }
    without_empty_list(schema, source, &mut new);
    let required = observed.consumer.schema.as_ref().is_some_and(|schema| !schema.required_missing(&new).is_empty());
    let is_withheld = required || observed.answers.status_failed.is_some();
    let refused = &observed.answers.refused_status;
    let was_refused =
        |(pointer, value): (&String, &Value)| refused.get(pointer).is_some_and(|(refused, _)| refused == value);
    let is_refused =
        |action: &Action| matches!(action, Action::PatchStatus { values, .. } if values.iter().any(was_refused));
    write(mapping, source, Some(new)).filter(|action| !is_withheld && !is_refused(action))
}

/// The patch that takes the engine's own condition alone off a source. `None`: it has none.
pub fn without_condition(writer: &Writer, schema: Option<&Schema>, source: &Arc<Value>) -> Option<Action> {
    let old = source.get("status")?;
    let mut new = old.clone();
    remove_condition(&mut new, &engine_condition(writer.engine()));
    without_empty_list(schema, source, &mut new);
    let patch = guarded(source, Pointer::from_static("/status"), Some(old), Some(new.clone()));
    (new != *old).then_some(Action::PatchStatus { patch, values: BTreeMap::new() })
}

/// Whether the engine said of a source that it is not selected. Then it carries nothing else of the engine's.
pub fn says_not_selected(writer: &Writer, source: &Value) -> bool {
    synced_condition(writer.engine(), source).is_some_and(|entry| entry["reason"] == NOT_SELECTED)
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
    let mut draft = Draft::of(mapping, observed, source, Redaction::new(mapping, observed, source, rendering));
    // Two that write the same fields would do so without an end: the engine whose objects they are about tells of them.
    let is_partly_unseen = reasons.0.iter().any(|reason| reason.cause == Cause::Unknown);
    let is_told_of = || is_partly_unseen && tells_of_another_engine(observed.subject.writer.engine(), source);
    let rendering = rendering.filter(|_| !observed.is_served_by_another_engine() && !is_told_of());
    if let Some(rendering) = rendering {
        draft.drop_former();
        let mut scope = lenient(mapping, &rendering.scope);
        if mapping.has_several_targets() {
            scope.set(Root::Targets, Arc::new(targets::view(mapping, observed, source, rendering, here)));
        }
        draft.set_fields(rendering, &scope, reasons);
        draft.set_conditions(rendering, &scope, reasons);
        draft.mirror_conditions(rendering, reasons);
    }
    // What waits for the end of a release keeps nobody out of sync.
    let is_told = |reason: &&Reason| !(observed.limits.is_promoted && reason.cause == Cause::Held);
    let told = Reasons(reasons.0.iter().filter(is_told).cloned().collect());
    if let Err(why) = draft.set_synced(&told) {
        reasons.push(Cause::StatusFailed, why);
    }
    if rendering.is_some() && told.0.is_empty() {
        draft.set_observed_generation();
    }
    if draft.status.is_null() { None } else { Some(draft.status) }
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

/// The status of a source as it is shown and compared: without times, but for those that `is_told` lets through. A file has no
/// generation, so its status observes none.
pub fn shown(source: &Value, mut status: Value, is_told: impl Fn(&Value) -> bool) -> Value {
    let has_generation = source.pointer("/metadata/generation").is_some();
    let is_shown = |field: &str, value: &Value| match field {
        "lastTransitionTime" => is_told(value),
        "observedGeneration" => has_generation,
        _ => true,
    };
    let Some(fields) = status.as_object_mut() else { return status };
    fields.retain(|field, value| is_shown(field, value));
    let conditions = fields.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
    let conditions = conditions.filter_map(Value::as_object_mut);
    conditions.for_each(|condition| condition.retain(|field, value| is_shown(field, value)));
    status
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

/// A status while it is made.
struct Draft<'s> {
    mapping: &'s Mapping,
    observed: &'s Observed,
    redaction: Redaction,
    /// The source's, which the status and its conditions name. Elsewhere every change of the spec would cost a write more.
    generation: Option<i64>,
    status: Value,
}

impl<'s> Draft<'s> {
    /// What stands.
    fn of(mapping: &'s Mapping, observed: &'s Observed, source: &Value, redaction: Redaction) -> Self {
        let known = |schema: &Arc<Schema>| schema.has_status("/observedGeneration") == Some(true);
        let follows = mapping.status.observed_generation && observed.consumer.schema.as_ref().is_some_and(known);
        let status = source.get("status").cloned().unwrap_or_default();
        Self { mapping, observed, redaction, generation: follows.then(|| generation(source)), status }
    }

    fn told(&self, text: String) -> String {
        if self.mapping.status.redact { self.redaction.text(cut_text(text, 2 * MAX_TEXT)) } else { text }
    }

    /// What only former documents wrote goes, unless the consumer's schema requires it.
    fn drop_former(&mut self) {
        for former in self.observed.consumer.former_status.iter() {
            unless_required(self.observed.consumer.schema.as_deref(), &mut self.status, |status| {
                match former.starts_with('/') {
                    true => remove_pointer(status, former),
                    false => remove_condition(status, former),
                }
            });
        }
    }

    fn set_fields(&mut self, rendering: &Rendering, scope: &Scope, reasons: &mut Reasons) {
        let case = Case { mapping: self.mapping, observed: self.observed, rendering };
        // Mostly all fields are read from one object.
        let mut read: Option<(&str, Option<Option<&TargetObject>>)> = None;
        let mut seen = |id| match read {
            Some((of, seen)) if of == id => seen,
            _ => read.insert((id, object_at(case, id).ok())).1,
        };
        for field in &case.mapping.status.fields {
            if let Err(why) = leaf(&mut seen, scope, field).and_then(|leaf| self.set_field(field, leaf)) {
                unsaid(rendering, reasons, &format!("status.{}", field.target.join(".")), why);
            }
        }
    }

    fn set_field(&mut self, field: &StatusField, leaf: Leaf) -> Result<(), Unrendered> {
        let leaf = match leaf {
            // What is too large anyway is not searched for each name. Half a name that is cut off here is cut off once more.
            Leaf::Set(value) if field.redact => Leaf::Set(bounded(self.redaction.value(bounded(value, 2)?), 1)?),
            Leaf::Set(value) => Leaf::Set(bounded(value, 1)?),
            leaf => leaf,
        };
        if leaf == Leaf::Keep || !is_kept(self.observed, field) {
            return Ok(());
        }
        match refused(self.observed, field, &leaf) {
            Some(why) => Err(Unrendered::Failed(why.to_owned())),
            None => put(&mut self.status, &field.target, leaf).map_err(Unrendered::Failed),
        }
    }

    fn set_conditions(&mut self, rendering: &Rendering, scope: &Scope, reasons: &mut Reasons) {
        for rule in &self.mapping.status.conditions {
            match condition(rule, scope) {
                Ok(condition) => {
                    let message = self.told(condition.message);
                    let set = self.set_condition(&rule.kind, Condition { message, ..condition });
                    set.unwrap_or_else(|why| reasons.push(Cause::StatusFailed, why));
                }
                Err(why) => unsaid(rendering, reasons, &format!("condition {}", rule.kind), why),
            }
        }
    }

    /// Carries over what target objects say of themselves. A condition that the object does not report is `Unknown`; of an object
    /// that cannot be seen, or is somebody else's, they stay as they are.
    fn mirror_conditions(&mut self, rendering: &Rendering, reasons: &mut Reasons) {
        for rule in &self.mapping.status.mirrors {
            let case = Case { mapping: self.mapping, observed: self.observed, rendering };
            let Ok(standing) = object_at(case, &rule.object) else { continue };
            let status = standing.and_then(|standing| standing.object.get("status"));
            for (kind, written) in &rule.types {
                let condition = match status.and_then(|status| entry(status, kind)) {
                    None => Condition { status: "Unknown", reason: "NotReported".into(), message: String::new() },
                    Some(found) => {
                        let text = |field: &str| found[field].as_str().unwrap_or_default();
                        Condition {
                            status: status_word(text("status")).unwrap_or("Unknown"),
                            reason: reason_word(text("reason"), kind),
                            message: self.told(text("message").to_owned()),
                        }
                    }
                };
                let set = self.set_condition(written, condition);
                set.unwrap_or_else(|why| reasons.push(Cause::StatusFailed, why));
            }
        }
    }

    /// Sets one entry of `.status.conditions`; the time moves only with the status, and others' entries stay. `Err`: the consumer's
    /// server has refused this very condition, which stays as it is.
    fn set_condition(&mut self, kind: &str, condition: Condition) -> Result<(), String> {
        let Self { observed, generation, .. } = *self;
        if !knows(observed, CONDITIONS) {
            return Ok(());
        }
        let condition = Condition { message: cut_text(condition.message, MAX_TEXT), ..condition };
        let former = entry(&self.status, kind);
        if former.is_some_and(|former| says(former, &condition, generation)) {
            return Ok(());
        }
        let since = former.filter(|former| former["status"] == condition.status);
        let since = since.and_then(|former| former["lastTransitionTime"].as_str()).map(str::to_owned);
        let mut new = json!({
            "type": kind,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": since.unwrap_or_else(|| observed.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        });
        if let Some(generation) = generation {
            new["observedGeneration"] = json!(generation);
        }
        let (pointer, value) = condition_leaf(&new);
        if let Some((_, why)) = observed.answers.refused_status.get(&pointer).filter(|(refused, _)| *refused == value) {
            return Err(format!("condition {kind}: {why}"));
        }
        let Ok(status) = map(&mut self.status) else { return Ok(()) };
        let slot = status.entry("conditions").or_insert_with(|| json!([]));
        let Some(all) = slot.as_array_mut() else { return Ok(()) };
        match all.iter_mut().find(|entry| entry["type"] == kind) {
            Some(former) => *former = new,
            None => all.push(new),
        }
        Ok(())
    }

    fn set_synced(&mut self, reasons: &Reasons) -> Result<(), String> {
        let kind = engine_condition(self.observed.subject.writer.engine());
        let unseen = reasons.cause() == Some(Cause::Unknown);
        // What was said before stays. A new source is told that nothing is said yet.
        let is_unsaid = self.observed.is_target_unreachable() && entry(&self.status, &kind).is_none();
        if self.mapping.status.engine_conditions.is_empty() || unseen && !is_unsaid {
            return Ok(());
        }
        if unseen && is_unsaid {
            let message = "the service's cluster cannot be reached now".to_owned();
            let condition = Condition { status: "Unknown", reason: "TargetUnreachable".into(), message };
            return self.set_condition(&kind, condition);
        }
        let mut condition = self.synced(reasons);
        let is_adopted = |object: &TargetObject| marks::annotation(&object.object, marks::ADOPTED_FROM).is_some();
        if condition.status == "True" && self.observed.owned_anywhere().any(is_adopted) {
            condition.reason = "Adopted".into();
            condition.message = "what an earlier object of this name had is kept and now belongs to this one".into();
        }
        // What cannot be seen yet may be what the former condition names: a start alone changes nothing about it.
        let is_partly_unseen = reasons.0.iter().any(|reason| reason.cause == Cause::Unknown);
        let cause_of = |former: &Value| Cause::ALL.into_iter().find(|cause| former["reason"] == cause.as_str());
        let is_as_bad = |former: &Value| cause_of(former).is_some_and(|former| Some(former) <= reasons.cause());
        let is_still_due = |former: &Value| is_of_generation(former, self.generation) && is_as_bad(former);
        if is_partly_unseen && entry(&self.status, &kind).is_some_and(is_still_due) {
            return Ok(());
        }
        self.set_condition(&kind, condition)
    }

    /// The condition `Synced`. What it says is for the consumer.
    fn synced(&self, reasons: &Reasons) -> Condition {
        let Some(cause) = reasons.cause() else {
            return Condition { status: "True", reason: "Synced".into(), message: String::new() };
        };
        let worst = reasons.0.iter().find(|reason| reason.cause == cause);
        let told = |reason: &Reason| shortened(&self.told(reason.detail.clone()), MAX_DETAIL);
        let detail = worst.filter(|_| explains(cause)).map(told);
        let message = message_of(cause);
        let message = detail.map_or(message.to_owned(), |detail| format!("{message}: {detail}"));
        Condition { status: "False", reason: cause.as_str().into(), message }
    }

    /// Translated, never copied: the generation of the source that is applied, and that the target has taken note of.
    fn set_observed_generation(&mut self) {
        let is_seen = || self.observed.owned_anywhere().all(has_observed);
        if let Some(generation) = self.generation.filter(|_| is_seen()) {
            // A status that is no map is said by the fields' own leaves.
            let _ = put(&mut self.status, &["observedGeneration".to_owned()], Leaf::Set(json!(generation)));
        }
    }
}

/// Where the conditions are in a status.
pub const CONDITIONS: &str = "/conditions";
/// Characters of the reason of a condition, as Kubernetes allows them.
const MAX_REASON: usize = 1024;
/// Characters of one text that goes to a consumer: what Kubernetes allows the message of a condition.
const MAX_TEXT: usize = 32_768;
/// Characters of a reason: a server's refusal can be as long as the object.
const MAX_DETAIL: usize = 1024;
/// Bytes of one field of the status.
const MAX_FIELD: usize = 128 * 1024;

/// A value as it goes to the consumer, or `times` as large: an operator may write more into its status than a consumer's object
/// can hold.
fn bounded(value: Value, times: usize) -> Result<Value, Unrendered> {
    let value = with_texts(value, &|text| cut_text(text, times * MAX_TEXT));
    let is_nested = value.is_array() || value.is_object();
    let bytes = if is_nested { value.to_string().len() } else { 0 };
    if bytes > times * MAX_FIELD {
        let why = format!("it has {bytes} bytes, more than the {MAX_FIELD} that are copied: take less of it");
        return Err(Unrendered::Failed(why));
    }
    Ok(value)
}

fn cut_text(mut text: String, most: usize) -> String {
    // Most are shorter in bytes already.
    if text.len() > most
        && let Some((end, _)) = text.char_indices().nth(most - 1).filter(|_| text.chars().count() > most)
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
    observed.consumer.schema.as_ref().is_none_or(|schema| schema.has_status(pointer) != Some(false))
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
/// Where it is somebody else's or out of sight: that says nothing.
fn object_at<'c>(Case { mapping, observed, rendering }: Case<'c>, id: &str) -> Sight<Option<&'c TargetObject>> {
    let Some(rule) = mapping.objects.iter().find(|rule| rule.id == id) else {
        return Err(Reason::unseen(format!("the mapping has no object `{id}`")));
    };
    if let Some(standing) = render::standing(observed, rule, &rendering.place) {
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
    match template.evaluate(scope)? {
        Evaluated::Value(value) => Ok(Some(value)),
        Evaluated::Omit | Evaluated::Absent(_) => Ok(None),
    }
}

/// Says of a part of the status why it has no value. One that reads what is out of sight stays as it is: if that is all that is
/// wrong, it is out of sight as well.
fn unsaid(rendering: &Rendering, reasons: &mut Reasons, what: &str, why: Unrendered) {
    let unseen = rendering.related.iter().filter_map(related::unseen).min();
    let cause = match (&why, unseen) {
        (Unrendered::Failed(_), _) => Cause::StatusFailed,
        (Unrendered::Waiting(_), Some(_)) if !reasons.0.is_empty() => return,
        (Unrendered::Waiting(_), unseen) => unseen.unwrap_or(Cause::Waiting),
    };
    reasons.push(cause, format!("{what}: {why}"));
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

struct Condition {
    status: &'static str,
    reason: String,
    message: String,
}

fn condition(rule: &ConditionRule, scope: &Scope) -> Result<Condition, Unrendered> {
    let status = match evaluated(&rule.status, scope)? {
        None => "Unknown",
        Some(Value::Bool(true)) => "True",
        Some(Value::Bool(false)) => "False",
        Some(other) => other.as_str().and_then(status_word).ok_or_else(|| {
            let is = if other.is_string() { "another text" } else { kind(&other) };
            Unrendered::Failed(format!("status is {is}: expected true, false, True, False or Unknown"))
        })?,
    };
    Ok(Condition {
        status,
        reason: reason_word(&text(rule.reason.as_ref(), scope)?.unwrap_or_default(), &rule.kind),
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

/// What the API server accepts as a status.
fn status_word(text: &str) -> Option<&'static str> {
    ["True", "False", "Unknown"].into_iter().find(|word| *word == text)
}

/// What the API server accepts as a reason: a word of letters, digits, `_`, `,` and `:` that starts with a letter. A text
/// without any gives the type of the condition.
fn reason_word(text: &str, kind: &str) -> String {
    let word = |text: &str| {
        let letters = text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':'));
        let word: String = letters.take(MAX_REASON).collect();
        word.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).trim_end_matches([',', ':']).to_owned()
    };
    let own = word(text);
    if own.is_empty() { word(kind.rsplit('/').next().unwrap_or_default()) } else { own }
}

/// Takes something off a status, unless the consumer's schema requires it.
fn unless_required(schema: Option<&Schema>, status: &mut Value, take: impl FnOnce(&mut Value)) {
    let missing = |status: &Value| schema.map_or(0, |schema| schema.required_missing(status).len());
    let mut without = status.clone();
    take(&mut without);
    if missing(&without) <= missing(status) {
        *status = without;
    }
}

/// A list of conditions goes with the last of them.
fn without_empty_list(schema: Option<&Schema>, source: &Value, status: &mut Value) {
    let none = json!([]);
    if status["conditions"] == none && source["status"]["conditions"] != none {
        unless_required(schema, status, |status| remove_pointer(status, CONDITIONS));
    }
}

fn remove_condition(status: &mut Value, kind: &str) {
    if let Some(all) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        all.retain(|entry| entry["type"] != kind);
    }
}

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

/// The reason of `Synced` where the mapping's filter leaves the source out.
const NOT_SELECTED: &str = "NotSelected";

/// The type of the engine's own condition.
fn engine_condition(engine: &str) -> String {
    match engine {
        "main" => "Synced".to_owned(),
        engine => format!("{engine}{OF_ENGINE}"),
    }
}

/// How the condition of an engine with an id of its own ends.
const OF_ENGINE: &str = ".sync-engine.dev/Synced";

/// The condition `Synced` of a source, as this engine writes it.
pub fn synced_condition<'o>(engine: &str, source: &'o Value) -> Option<&'o Value> {
    entry(source.get("status")?, &engine_condition(engine))
}

/// Whether a source says that it cannot have the objects of this engine, and that another one serves it. A process that starts does
/// not know better before it has seen everything.
fn tells_of_another_engine(engine: &str, source: &Value) -> bool {
    let is_conflict = synced_condition(engine, source).is_some_and(|entry| entry["reason"] == Cause::Conflict.as_str());
    let is_of_engine = |kind: &str| kind == engine_condition("main") || kind.ends_with(OF_ENGINE);
    let is_anothers = |kind: &str| is_of_engine(kind) && kind != engine_condition(engine);
    let all = source.pointer("/status/conditions").and_then(Value::as_array);
    is_conflict && all.is_some_and(|all| all.iter().filter_map(|entry| entry["type"].as_str()).any(is_anothers))
}

/// What the condition `Synced` tells the consumer.
fn message_of(cause: Cause) -> &'static str {
    match cause {
        Cause::TargetChanged => "the service moved to another cluster; its provider has to confirm the move",
        Cause::Conflict => {
            "a foreign object has the name that this one needs, and is left untouched; take another name, or ask the provider of \
             the service"
        }
        Cause::RenderFailed => "the object cannot be translated; see its spec, or ask the provider of the service",
        Cause::IdentityChanged => {
            "the service's mapping changed in a way that would replace what runs, which is kept; the provider of the service \
             decides"
        }
        Cause::Refused => "the service's cluster refused what this object asks for",
        Cause::ClaimNotAccepted => "the service may not use an object of the workspace that it needs",
        Cause::Stuck => {
            "the deletion takes unusually long; ask the provider of the service, unless the finalizer is yours"
        }
        Cause::Deleting => "what it has is being deleted",
        Cause::Recreated => "what an earlier object of this name had still exists; the provider of the service decides",
        Cause::Held => "a change of the service would delete what this object has; its provider has to approve it",
        Cause::Retained => "the object or one of its clusters is not selected (any more); what is there is kept",
        Cause::Orphaned => "what an earlier object of this name had is kept; the provider of the service decides",
        Cause::StatusFailed => "part of the status could not be computed or written",
        Cause::RequestFailed => "a request to the service's cluster failed; it is repeated",
        Cause::Waiting | Cause::Unknown => "waits for what it depends on",
        Cause::Observed => "the service only observes the object, and writes nothing",
    }
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
            | Cause::Stuck
            | Cause::Refused
            | Cause::ClaimNotAccepted
    )
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
    written.keys().map(String::as_str).filter(|leaf| *leaf != CONDITIONS).filter(is_dropped).collect()
}
