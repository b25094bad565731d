//! Encodings.

use data_encoding::BASE64;
use serde_json::Value;

use super::super::Unrendered;
use super::super::budget::Budget;
use super::super::given::Given;
use super::{Answer, gives};

/// Text from base64 with padding; bytes that are no UTF-8 are refused.
pub fn b64decode<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let decoded = BASE64.decode(given.text(0)?.trim_ascii().as_bytes());
    let bytes = decoded.map_err(|_| given.fail("needs base64 with its padding"))?;
    gives(String::from_utf8(bytes).map_err(|_| given.fail("finds bytes that are no UTF-8 text"))?)
}

/// Compact JSON, keys in their order.
pub fn tojson<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let value = given.value(0)?;
    // An escape takes up to six bytes (`\u0000`).
    given.budget.charge_value(&value)?;
    given.budget.charge_value(&value)?;
    let text = value.to_string();
    given.budget.charge(text.len())?;
    gives(text)
}

pub fn fromjson<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let text = given.text(0)?;
    // `[` and `,` are a node each.
    given.budget.charge(64 * text.bytes().filter(|byte| matches!(byte, b'[' | b'{' | b',' | b':')).count())?;
    let parsed: Result<Value, _> = serde_json::from_str(&text);
    gives(
        parsed.map_err(|error| {
            given.fail(format!("finds no JSON at line {}, column {}", error.line(), error.column()))
        })?,
    )
}

/// YAML in block style, keys in their order, strings quoted wherever a reader could take them for something else.
pub fn toyaml<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let value = given.value(0)?;
    given.budget.charge_value(&value)?;
    given.budget.charge_value(&value)?;
    charge_lines(&value, 0, given.budget)?;
    gives(crate::yaml::write(&value))
}

/// Deep values indent much: what is written is paid for line by line.
fn charge_lines(value: &Value, depth: usize, budget: &mut Budget) -> Result<(), Unrendered> {
    let indent = 2 * depth;
    match value {
        Value::Object(fields) => fields.values().try_for_each(|value| {
            budget.charge(indent)?;
            charge_lines(value, depth + 1, budget)
        }),
        Value::Array(items) => items.iter().try_for_each(|item| {
            budget.charge(indent)?;
            charge_lines(item, depth + 1, budget)
        }),
        Value::String(text) => budget.charge(indent.max(2) * text.lines().count()),
        _ => Ok(()),
    }
}
