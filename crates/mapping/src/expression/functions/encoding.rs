//! Encodings and digests.

use data_encoding::{BASE64, HEXLOWER};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::super::budget::Budget;
use super::super::registry::Arguments;
use super::super::value::{Operand, Stop};
use super::Answer;

/// What hashing or encoding a byte costs, in bytes that are copied.
const PER_BYTE: usize = 2;

/// SHA-256 of the UTF-8 bytes, in lower-case hexadecimal digits.
pub fn sha256<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let text = arguments.text(0)?;
    budget.charge(PER_BYTE * text.len())?;
    Ok(Operand::owned(HEXLOWER.encode(&Sha256::digest(text.as_bytes()))))
}

pub fn b64encode<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let text = arguments.text(0)?;
    budget.charge(PER_BYTE * text.len())?;
    Ok(Operand::owned(BASE64.encode(text.as_bytes())))
}

/// Text from base64 with padding; bytes that are no UTF-8 are refused.
pub fn b64decode<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let text = arguments.text(0)?;
    budget.charge(PER_BYTE * text.len())?;
    let bytes =
        BASE64.decode(text.trim_ascii().as_bytes()).map_err(|_| arguments.fail("needs base64 with its padding"))?;
    let text = String::from_utf8(bytes).map_err(|_| arguments.fail("finds bytes that are no UTF-8 text"))?;
    Ok(Operand::owned(text))
}

/// Compact JSON, keys in their order.
pub fn tojson<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let value = arguments.value(0)?;
    // An escape takes up to six bytes (`\u0000`).
    budget.charge_value(&value)?;
    budget.charge_value(&value)?;
    let text = value.to_string();
    budget.charge(text.len())?;
    Ok(Operand::owned(text))
}

pub fn fromjson<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let text = arguments.text(0)?;
    // `[` and `,` are a node each.
    budget
        .charge(64 * text.bytes().filter(|byte| matches!(byte, b'[' | b'{' | b',' | b':')).count() + 2 * text.len())?;
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        arguments.fail(format!("finds no JSON at line {}, column {}", error.line(), error.column()))
    })?;
    Ok(Operand::owned(value))
}

/// YAML in block style, keys in their order, strings quoted wherever a reader could take them for something else.
pub fn toyaml<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let value = arguments.value(0)?;
    budget.charge_value(&value)?;
    budget.charge_value(&value)?;
    charge_lines(&value, 0, budget)?;
    Ok(Operand::owned(crate::yaml::write(&value)))
}

/// Deep values indent much: what is written is paid for line by line.
fn charge_lines(value: &Value, depth: usize, budget: &mut Budget) -> Result<(), Stop> {
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
