//! Names, hashes and conditions as Kubernetes has them.

use std::borrow::Cow;

use serde_json::Value;

use super::super::budget::Budget;
use super::super::registry::Arguments;
use super::super::scope::step;
use super::super::tree::Segment;
use super::super::value::{Gap, Operand, Stop, kind, own};
use super::Answer;
use crate::hash::tuple_hash;

/// A short hash of a tuple: 16 characters of `a-z2-7`, for ever the same. Integers and booleans count as their text.
pub fn short_hash<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let parts = arguments.rest();
    if parts.is_empty() {
        return Err(arguments.fail("needs something to hash"));
    }
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        let text = hashable(part.require()?).map_err(|kind| arguments.fail(format!("cannot hash {kind}")))?;
        budget.charge(4 * text.len() + 64)?;
        texts.push(text);
    }
    Ok(Operand::owned(tuple_hash(texts.iter().map(|text| &**text), 10)))
}

fn hashable(value: Cow<'_, Value>) -> Result<Cow<'_, str>, &'static str> {
    match value {
        Cow::Borrowed(Value::String(text)) => Ok(Cow::Borrowed(text)),
        Cow::Owned(Value::String(text)) => Ok(Cow::Owned(text)),
        value => match &*value {
            Value::Bool(value) => Ok(Cow::Owned(value.to_string())),
            Value::Number(number) if !number.is_f64() => Ok(Cow::Owned(number.to_string())),
            Value::Number(_) => Err("a number that is no integer"),
            other => Err(kind(other)),
        },
    }
}

/// A DNS-1123 label of at most `length` (63) characters.
///
/// A text that is one already, and short enough, stays as it is. Else: ASCII letters become lower case, each run of
/// other characters becomes one `-`, what is beyond `length` is cut off, and `-` is taken off both ends; nothing left
/// gives `x`. Different texts can give the same label: where that matters, put a `short_hash` of the original beside it.
pub fn dns_label<'a>(arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    name(arguments, budget, 63, |text, length| {
        let label = squeeze(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit());
        non_empty(cut(&label, length))
    })
}

/// A DNS-1123 subdomain of at most `length` (253) characters: each part between dots made a label as `dns_label` does,
/// empty ones left out.
pub fn dns_subdomain<'a>(arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    name(arguments, budget, 253, |text, length| {
        let labels: Vec<_> = text
            .split('.')
            .map(|label| squeeze(label, |c| c.is_ascii_lowercase() || c.is_ascii_digit()))
            .filter(|label| !label.is_empty())
            .collect();
        non_empty(cut(&labels.join("."), length))
    })
}

/// A label's value of at most `length` (63) characters: letters keep their case, `.` and `_` stay within, and nothing
/// left gives the empty value.
pub fn label_value<'a>(arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    name(arguments, budget, 63, |text, length| {
        let value = squeeze_keeping_case(text, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
        let value: String = value.chars().take(length).collect();
        value.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
    })
}

fn name<'a>(
    mut arguments: Arguments<'a>,
    budget: &mut Budget,
    longest: usize,
    make: impl FnOnce(&str, usize) -> String,
) -> Answer<'a> {
    let length = match arguments.optional_integer(1)? {
        None => longest,
        Some(length) => usize::try_from(length)
            .ok()
            .filter(|length| (1..=longest).contains(length))
            .ok_or_else(|| arguments.fail(format!("takes a length of 1 to {longest}")))?,
    };
    let text = arguments.text(0)?;
    budget.charge(4 * text.len())?;
    Ok(Operand::owned(make(&text, length)))
}

fn squeeze(text: &str, keep: impl Fn(char) -> bool) -> String {
    squeeze_keeping_case(&text.to_ascii_lowercase(), keep).trim_matches('-').to_owned()
}

/// Makes each run of characters that are not kept one `-`; a `-` of the text itself stays, also beside another.
fn squeeze_keeping_case(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut squeezed = String::with_capacity(text.len());
    let mut in_run = false;
    for c in text.chars() {
        if keep(c) || c == '-' {
            squeezed.push(c);
            in_run = false;
        } else if !in_run {
            squeezed.push('-');
            in_run = true;
        }
    }
    squeezed
}

/// Cuts ASCII text; what the cut leaves at the end must be a letter or digit.
fn cut(text: &str, length: usize) -> &str {
    text[..text.len().min(length)].trim_end_matches(['-', '.'])
}

fn non_empty(text: &str) -> String {
    if text.is_empty() { "x".to_owned() } else { text.to_owned() }
}

/// The condition of a type in `status.conditions` of an object; absent where there is none, which a controller may still
/// report.
pub fn condition<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let wanted = arguments.text(1)?;
    let absent = || Operand::Absent(Gap::awaited(format!("condition(…, {wanted:?})")));
    let Some(object) = arguments.present(0)? else { return Ok(absent()) };
    match object {
        Cow::Borrowed(object) => Ok(find(object, &wanted, budget)?.map_or_else(absent, Operand::borrowed)),
        Cow::Owned(object) => match find(&object, &wanted, budget)? {
            Some(found) => own(Cow::Borrowed(found), budget).map(Operand::owned),
            None => Ok(absent()),
        },
    }
}

fn find<'v>(object: &'v Value, wanted: &str, budget: &mut Budget) -> Result<Option<&'v Value>, Stop> {
    let at = |value: &'v Value, key: &str| step(value, &Segment::Key(key.to_owned()));
    let Some(Value::Array(conditions)) = at(object, "status").and_then(|status| at(status, "conditions")) else {
        return Ok(None);
    };
    budget.charge(64 * conditions.len())?;
    Ok(conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(wanted)))
}

/// Whether the controller of an object has seen its latest generation: `status.observedGeneration` has caught up with
/// `metadata.generation`. Absent where there is no object, or its controller does not report a generation: then nobody can
/// know.
pub fn observed_generation_current<'a>(mut arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
    let unknown = Operand::Absent("observed_generation_current(…)".into());
    let Some(object) = arguments.present(0)? else { return Ok(unknown) };
    let number = |pointer| object.pointer(pointer).and_then(Value::as_i64);
    match (number("/status/observedGeneration"), number("/metadata/generation")) {
        (Some(seen), Some(latest)) => Ok(Operand::owned(seen >= latest)),
        _ => Ok(unknown),
    }
}
