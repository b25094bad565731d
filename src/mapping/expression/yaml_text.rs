//! Values as YAML text, for `toyaml`.

use serde_json::Value;

use super::budget::Budget;
use super::value::Stop;

/// Block style with two spaces a level, ending in a line break. Reads back as the same value, in YAML 1.1 and 1.2.
pub(super) fn block(value: &Value, budget: &mut Budget) -> Result<String, Stop> {
    let mut text = String::new();
    match value {
        Value::Array(items) if !items.is_empty() => sequence(items, 0, &mut text, budget)?,
        Value::Object(fields) if !fields.is_empty() => mapping(fields, 0, &mut text, budget)?,
        scalar => {
            text.push_str(&inline(scalar));
            text.push('\n');
        }
    }
    Ok(text)
}

fn mapping(
    fields: &serde_json::Map<String, Value>,
    depth: usize,
    text: &mut String,
    budget: &mut Budget,
) -> Result<(), Stop> {
    for (position, (key, value)) in fields.iter().enumerate() {
        // The first key stands where its parent left off: at a line's start, or after `- `.
        if position > 0 {
            indent(depth, text, budget)?;
        }
        text.push_str(&string(key));
        text.push(':');
        entry(value, depth, text, budget)?;
    }
    Ok(())
}

fn entry(value: &Value, depth: usize, text: &mut String, budget: &mut Budget) -> Result<(), Stop> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            indent(depth + 1, text, budget)?;
            mapping(fields, depth + 1, text, budget)
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            indent(depth, text, budget)?;
            sequence(items, depth, text, budget)
        }
        scalar => {
            text.push(' ');
            text.push_str(&inline(scalar));
            text.push('\n');
            Ok(())
        }
    }
}

fn sequence(items: &[Value], depth: usize, text: &mut String, budget: &mut Budget) -> Result<(), Stop> {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            indent(depth, text, budget)?;
        }
        text.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => mapping(fields, depth + 1, text, budget)?,
            Value::Array(items) if !items.is_empty() => sequence(items, depth + 1, text, budget)?,
            scalar => {
                text.push_str(&inline(scalar));
                text.push('\n');
            }
        }
    }
    Ok(())
}

/// Deep values indent much: what is written is paid for line by line.
fn indent(depth: usize, text: &mut String, budget: &mut Budget) -> Result<(), Stop> {
    budget.charge(2 * depth)?;
    text.extend(std::iter::repeat_n("  ", depth));
    Ok(())
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        other => other.to_string(),
    }
}

/// Plain where no reader can take it for anything else, otherwise as JSON, which is YAML.
fn string(text: &str) -> String {
    const SPECIAL: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
        && !SPECIAL.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}
