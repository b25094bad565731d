//! What is different between two versions of an object, in a few words.

use serde_json::{Map, Value};

use crate::object::shortened;

/// Longest value that is shown.
const MAX_VALUE: usize = 48;
/// The same of a status, whose message says what to do.
const MAX_MESSAGE: usize = 1024;
/// Fields of metadata that every write changes, or that nobody reads.
const NOISE: [&str; 8] = [
    "resourceVersion",
    "generation",
    "managedFields",
    "uid",
    "creationTimestamp",
    "finalizers",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// What differs outside the status, `path: old → new` each.
pub fn changes(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", Some(&without_noise(old)), Some(&without_noise(new)), MAX_VALUE, &mut found);
    if new["kind"] == "Secret" {
        found.iter_mut().for_each(hide_secret);
    }
    found
}

/// Of what a Secret holds, only its keys are told.
fn hide_secret(change: &mut String) {
    let Some((path, what)) = change.split_once(": ") else { return };
    if ["data", "stringData"].iter().any(|field| path.starts_with(field)) && what != "removed" {
        *change = format!("{path}: changed");
    }
}

/// What differs in the status; conditions by their type.
pub fn status_changes(old: &Value, new: &Value) -> Vec<String> {
    let (old, new) = (by_condition(&old["status"]), by_condition(&new["status"]));
    let mut found = Vec::new();
    compare("", Some(&old), Some(&new), MAX_MESSAGE, &mut found);
    found
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, most: usize, found: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => compare_fields(path, old, new, most, found),
        (None, Some(Value::Object(new))) if !new.is_empty() => compare_fields(path, &Map::new(), new, most, found),
        (None | Some(Value::Null), Some(new)) => found.push(format!("{path}: {}", shown(new, most))),
        (Some(_), None | Some(Value::Null)) => found.push(format!("{path}: removed")),
        (Some(old), Some(new)) => found.push(format!("{path}: {} → {}", shown(old, most), shown(new, most))),
        (None, None) => {}
    }
}

fn compare_fields(
    path: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    most: usize,
    found: &mut Vec<String>,
) {
    for (key, value) in new {
        compare(&joined(path, key), old.get(key), Some(value), most, found);
    }
    for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        compare(&joined(path, key), Some(value), None, most, found);
    }
}

fn joined(path: &str, key: &str) -> String {
    match (path, key.contains('.')) {
        ("", _) => key.to_owned(),
        (path, true) => format!("{path}[{key}]"),
        (path, false) => format!("{path}.{key}"),
    }
}

fn shown(value: &Value, most: usize) -> String {
    let text = match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    shortened(&text, most)
}

fn without_noise(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(fields) = object.as_object_mut() else { return object };
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|key, _| !NOISE.contains(&key.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.retain(|key, _| !is_mark(key));
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

/// Whether an annotation is the engine's or kubectl's own.
fn is_mark(key: &str) -> bool {
    key.split('/').next().is_some_and(|prefix| prefix.ends_with("sync-engine.dev"))
        || key == "kubectl.kubernetes.io/last-applied-configuration"
}

/// A status whose conditions are fields: `Ready=True (Running)`.
fn by_condition(status: &Value) -> Value {
    let Value::Object(mut fields) = status.clone() else { return Value::Object(Map::new()) };
    fields.remove("observedGeneration");
    let Some(Value::Array(conditions)) = fields.remove("conditions") else { return Value::Object(fields) };
    for condition in &conditions {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let message = if text("status") == "False" { text("message") } else { "" };
        let because = [text("reason"), message].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        fields.insert(text("type").to_owned(), format!("{} ({})", text("status"), because.join(": ")).into());
    }
    Value::Object(fields)
}
