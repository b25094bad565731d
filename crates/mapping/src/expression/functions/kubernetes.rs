//! Names, hashes and conditions as Kubernetes has them.

use std::borrow::Cow;

use serde_json::Value;

use super::super::given::Given;
use super::super::value::{Gap, Operand, kind, part, text};
use super::{Answer, gives};
use crate::hash::tuple_hash;

/// A short hash of a tuple: 16 characters of `a-z2-7`, for ever the same. Integers and booleans count as their text.
pub fn short_hash<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let mut texts = Vec::new();
    for part in given.rest() {
        let text = text(part.require()?).or_else(|other| match &*other {
            Value::Number(number) if number.is_f64() => Err("a number that is no integer"),
            Value::Bool(_) | Value::Number(_) => Ok(Cow::Owned(other.to_string())),
            other => Err(kind(other)),
        });
        let text = text.map_err(|kind| given.fail(format!("cannot hash {kind}")))?;
        given.budget.charge(4 * text.len() + 64)?;
        texts.push(text);
    }
    if texts.is_empty() {
        return Err(given.fail("needs something to hash"));
    }
    gives(tuple_hash(texts.iter().map(|text| &**text), 10))
}

/// A DNS-1123 label of at most `length` (63) characters.
///
/// A text that is one already, and short enough, stays as it is. Else: ASCII letters become lower case, each run of
/// other characters becomes one `-`, what is beyond `length` is cut off, and `-` is taken off both ends; nothing left
/// gives `x`. Different texts can give the same label: where that matters, put a `short_hash` of the original beside it.
pub fn dns_label<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    name(given, 63, |text, length| {
        let label = squeeze(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit());
        non_empty(cut(&label, length))
    })
}

/// A DNS-1123 subdomain of at most `length` (253) characters: each part between dots made a label as `dns_label` does,
/// empty ones left out.
pub fn dns_subdomain<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    name(given, 253, |text, length| {
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
pub fn label_value<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    name(given, 63, |text, length| {
        let value = squeeze_keeping_case(text, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
        let value: String = value.chars().take(length).collect();
        value.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
    })
}

fn name<'a>(given: &mut Given<'a, '_>, longest: usize, make: impl FnOnce(&str, usize) -> String) -> Answer<'a> {
    let length = given.integer(1)?.map_or(Ok(longest), usize::try_from);
    let length = length.ok().filter(|length| (1..=longest).contains(length));
    let length = length.ok_or_else(|| given.fail(format!("takes a length of 1 to {longest}")))?;
    let text = given.text(0)?;
    given.budget.charge(2 * text.len())?;
    gives(make(&text, length))
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
pub fn condition<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let wanted = given.text(1)?;
    let found = match given.present(0)? {
        Some(object) => {
            given.budget.charge(64 * conditions(&object).map_or(0, Vec::len))?;
            part(object, |object| find(object, &wanted), given.budget)?
        }
        None => None,
    };
    Ok(found.unwrap_or_else(|| Operand::Absent(Gap::awaited(format!("condition(…, {wanted:?})")))))
}

fn conditions(object: &Value) -> Option<&Vec<Value>> {
    object.get("status")?.get("conditions")?.as_array()
}

fn find<'v>(object: &'v Value, wanted: &str) -> Option<&'v Value> {
    conditions(object)?.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(wanted))
}

/// Whether the controller of an object has seen its latest generation: `status.observedGeneration` has caught up with
/// `metadata.generation`. Absent where there is no object, or its controller does not report a generation: then nobody can
/// know.
pub fn observed_generation_current<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let unknown = Operand::Absent("observed_generation_current(…)".into());
    let Some(object) = given.present(0)? else { return Ok(unknown) };
    let number = |pointer| object.pointer(pointer).and_then(Value::as_i64);
    match (number("/status/observedGeneration"), number("/metadata/generation")) {
        (Some(seen), Some(latest)) => gives(seen >= latest),
        _ => Ok(unknown),
    }
}
