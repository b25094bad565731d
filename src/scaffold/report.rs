//! What flows back: the status fields of an operator's API that consumers get to see.

use serde_json::{Map, Value, json};

use super::definition::Definition;
use super::{operators, sample};
use crate::mapping::check::is_namespace;

/// Most fields that are carried back without being asked for.
const MOST: usize = 12;

/// The status fields to carry back.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Keys below `.status`, each with its schema.
    pub fields: Vec<(Vec<String>, Value)>,
    /// Which texts a condition has, where the operator reports conditions.
    pub conditions: Option<ConditionTexts>,
}

/// Fields of a condition beside `type` and `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionTexts {
    pub reason: bool,
    pub message: bool,
}

/// Chooses the fields: what `kubectl get` shows first, then what stands at the top.
pub fn report(definition: &Definition) -> Report {
    let status = &definition.schema["properties"]["status"];
    let columns = definition.columns.iter().filter_map(|column| status_path(column["jsonPath"].as_str()?));
    let tops = status["properties"].as_object().into_iter().flatten().map(|(name, _)| vec![name.clone()]);
    let mut fields: Vec<(Vec<String>, Value)> = Vec::new();
    for path in columns.chain(tops) {
        let Some(leaf) = leaf(status, &path) else { continue };
        let clashes = |(known, _): &(Vec<String>, Value)| known.starts_with(&path) || path.starts_with(known);
        if fields.len() < MOST && !is_ours(&path) && !fields.iter().any(clashes) {
            fields.push((path, leaf));
        }
    }
    Report { fields, conditions: conditions(status) }
}

/// `.status.a.b` as keys; nothing for paths that choose among items.
fn status_path(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('$').unwrap_or(path).strip_prefix(".status.")?;
    let plain = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
    keys.iter().all(|key| plain(key)).then_some(keys)
}

/// What the engine says itself, and what is none of the consumer's business.
fn is_ours(path: &[String]) -> bool {
    let last = path.last().map(String::as_str).unwrap_or_default();
    matches!(last, "observedGeneration" | "conditions" | "image") || last.ends_with("Hash") || is_namespace(last)
}

/// The schema of a scalar, without a default: what is absent downstream is absent here.
fn leaf(schema: &Value, path: &[String]) -> Option<Value> {
    let leaf = path.iter().try_fold(schema, |schema, key| schema["properties"].get(key))?;
    let scalar = matches!(leaf["type"].as_str(), Some("string" | "integer" | "number" | "boolean"));
    let mut leaf = leaf.clone();
    let fields = leaf.as_object_mut()?;
    fields.retain(|key, _| !["default", "x-kubernetes-validations"].contains(&key.as_str()));
    scalar.then_some(leaf)
}

fn conditions(status: &Value) -> Option<ConditionTexts> {
    let item = &status["properties"]["conditions"]["items"];
    let has = |name: &str| item["properties"].get(name).is_some();
    (has("type") && has("status")).then(|| ConditionTexts { reason: has("reason"), message: has("message") })
}

impl Report {
    /// The consumer's `.status`: these fields, conditions and the generation they speak of, and nothing required.
    pub fn schema(&self) -> Value {
        let mut properties = Map::new();
        for (path, leaf) in &self.fields {
            place(&mut properties, path, leaf.clone(), |inner| json!({"type": "object", "properties": inner}));
        }
        properties.insert("observedGeneration".to_owned(), json!({"type": "integer", "format": "int64"}));
        properties.insert("conditions".to_owned(), condition_list());
        json!({"type": "object", "properties": properties})
    }

    /// A status that says that all is well, as the operator would write it.
    pub fn sample(&self, definition: &Definition) -> Value {
        let schema = &definition.schema["properties"]["status"];
        let mut status = match sample::sample(schema, "status") {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        for (path, leaf) in &self.fields {
            let name = path.last().map(String::as_str).unwrap_or_default();
            place(&mut status, path, sample::sample(leaf, name), Value::Object);
        }
        // As the operator says it, and by nothing else: what waits for another word would wait here, too.
        if let Some(ready) = operators::ready(&definition.group, &definition.kind) {
            status.remove("conditions");
            status.insert(ready.field.to_owned(), ready.value.into());
        } else if self.conditions.is_some() {
            status.insert("conditions".to_owned(), json!([ready(&schema["properties"]["conditions"]["items"])]));
        }
        Value::Object(status)
    }
}

/// Puts a value at a path of a schema's properties or of a status; `wrap` makes a level of one.
fn place(
    fields: &mut Map<String, Value>,
    path: &[String],
    value: Value,
    wrap: impl Fn(Map<String, Value>) -> Value + Copy,
) {
    match path {
        [] => {}
        [name] => drop(fields.insert(name.clone(), value)),
        [name, rest @ ..] => {
            let level = fields.entry(name.clone()).or_insert_with(|| wrap(Map::new()));
            let is_schema = wrap(Map::new()).get("properties").is_some();
            let inner = if is_schema { &mut level["properties"] } else { level };
            if let Value::Object(inner) = inner {
                place(inner, rest, value, wrap);
            }
        }
    }
}

/// A condition `Ready` with the fields that the operator's conditions have.
fn ready(item: &Value) -> Value {
    let usual = [
        ("type", "Ready"),
        ("status", "True"),
        ("reason", "Ready"),
        ("message", "everything is up"),
        ("lastTransitionTime", "2026-01-01T00:00:00Z"),
    ];
    let mut condition = match sample::sample(item, "condition") {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    for (name, value) in usual {
        if item["properties"].get(name).is_some() {
            condition.insert(name.to_owned(), value.into());
        }
    }
    Value::Object(condition)
}

/// Conditions as Kubernetes has them (`metav1.Condition`).
fn condition_list() -> Value {
    json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type", "status"], "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        }},
    })
}
