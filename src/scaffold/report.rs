//! What flows back: the status fields of an operator's API that consumers get to see.

use serde_json::{Map, Value, json};

use super::definition::Definition;
use super::operators::{Operator, Ready};
use super::sample;
use crate::mapping::check::is_namespace;
use crate::mapping::names::pointer;
use crate::mapping::schema::short;
use crate::object::compare::make_pointer;

/// Most fields that are carried back without being asked for.
const MOST: usize = 12;

/// Values of a status field that say that all is well, in lower case.
const WELL: [&str; 7] = ["ready", "running", "healthy", "active", "available", "succeeded", "bound"];

/// The status fields to carry back.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Keys below `.status`, each with its schema.
    pub fields: Vec<(Vec<String>, Value)>,
    /// Where the operator says that all is well.
    pub sign: Option<Sign>,
}

/// A sign in an operator's status that all is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    pub signal: Signal,
    /// Whether nobody says that it is one: most operators have it so.
    pub is_guess: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// A condition of this type is `True`.
    Condition {
        name: String,
        /// The type of a condition that is `True` while all is not well, and says why.
        otherwise: Option<String>,
        texts: ConditionTexts,
    },
    /// A field has this value. Keys with dots.
    Field { name: String, value: String, message: Option<String> },
}

/// Fields of a condition beside `type` and `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionTexts {
    pub reason: bool,
    pub message: bool,
}

/// Chooses the fields: what `kubectl get` shows first, then what stands at the top.
pub fn report(definition: &Definition, operator: Option<&Operator>) -> Report {
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
    let said = known(status, operator).or_else(|| shown(definition)).or_else(|| listed(status));
    let usual = || Some(Sign { signal: condition_sign(status, "Ready".to_owned(), None)?, is_guess: true });
    Report { fields, sign: said.map(|signal| Sign { signal, is_guess: false }).or_else(usual) }
}

/// As it is known of the operator, if this version of its API has what it takes.
fn known(status: &Value, operator: Option<&Operator>) -> Option<Signal> {
    let operator = operator?;
    match operator.ready.as_ref()? {
        Ready::Condition { condition, otherwise } => condition_sign(status, condition.clone(), otherwise.clone()),
        Ready::Field { field, message } => {
            let has = |path: &str| leaf(status, &keys(path)).is_some();
            let all = Value::Object(operator.status.clone());
            let value = keys(field).iter().try_fold(&all, |value, key| value.get(key))?.as_str()?.to_owned();
            has(field).then(|| Signal::Field {
                name: field.clone(),
                value,
                message: message.clone().filter(|path| has(path)),
            })
        }
    }
}

/// The condition that a column of `kubectl get` shows.
fn shown(definition: &Definition) -> Option<Signal> {
    let columns = definition.columns.iter().filter_map(|column| column["jsonPath"].as_str());
    let types: Vec<_> = columns.filter_map(shown_condition).collect();
    let is_well = |name: &&str| {
        !name.starts_with("Not") && ["Ready", "Available", "Healthy"].iter().any(|end| name.ends_with(end))
    };
    let name = types.iter().find(|name| **name == "Ready").or_else(|| types.iter().find(|name| is_well(name)))?;
    condition_sign(&definition.schema["properties"]["status"], (*name).to_owned(), None)
}

/// The type of the condition that a column shows.
pub fn shown_condition(path: &str) -> Option<&str> {
    let choice = path.trim_start_matches('$').strip_prefix(".status.conditions[?(@.type")?;
    let quoted = choice.trim_start_matches([' ', '=']);
    let quote = quoted.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    quoted[1..].split_once(quote).map(|(name, _)| name)
}

/// A field at the top of the status whose schema lists its values, one of which says that all is well.
fn listed(status: &Value) -> Option<Signal> {
    let all = status["properties"].as_object()?;
    let tells =
        |name: &str| ["phase", "state", "status", "health"].iter().any(|end| name.to_lowercase().ends_with(end));
    all.iter().filter(|(name, _)| tells(name)).find_map(|(name, schema)| {
        let values = schema["enum"].as_array()?.iter().filter_map(Value::as_str);
        let value = values.into_iter().find(|value| WELL.contains(&&*value.to_ascii_lowercase()))?;
        let message = all.get("message").filter(|schema| schema["type"] == "string").map(|_| "message".to_owned());
        Some(Signal::Field { name: name.clone(), value: value.to_owned(), message })
    })
}

/// A condition, if the operator's status has any.
fn condition_sign(status: &Value, name: String, otherwise: Option<String>) -> Option<Signal> {
    let item = &status["properties"]["conditions"]["items"];
    let has = |name: &str| item["properties"].get(name).is_some();
    let texts = ConditionTexts { reason: has("reason"), message: has("message") };
    (has("type") && has("status")).then_some(Signal::Condition { name, otherwise, texts })
}

fn keys(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

/// `.status.a.b` as keys; nothing for paths that choose among items.
fn status_path(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('$').unwrap_or(path).strip_prefix(".status.")?;
    let plain = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let keys = keys(path);
    keys.iter().all(|key| plain(key)).then_some(keys)
}

/// What the engine says itself, and what is none of the consumer's business: names and selectors of objects on the target.
fn is_ours(path: &[String]) -> bool {
    let last = path.last().map(String::as_str).unwrap_or_default();
    let internal = ["Hash", "SecretName", "Selector", "Token"];
    matches!(last, "observedGeneration" | "conditions" | "image" | "selector")
        || internal.iter().any(|end| last.ends_with(end))
        || is_namespace(last)
}

/// Whether a field tells of trouble, or explains it: it has no value where all is well.
fn is_trouble(path: &[String]) -> bool {
    let last = path.last().map(|last| last.to_lowercase()).unwrap_or_default();
    ["error", "fail", "message"].iter().any(|word| last.contains(word))
}

/// The schema of a scalar, without a default: what is absent downstream is absent here.
fn leaf(schema: &Value, path: &[String]) -> Option<Value> {
    let leaf = path.iter().try_fold(schema, |schema, key| schema["properties"].get(key))?;
    let scalar = matches!(leaf["type"].as_str(), Some("string" | "integer" | "number" | "boolean"))
        || leaf["x-kubernetes-int-or-string"] == true;
    let mut leaf = leaf.clone();
    let fields = leaf.as_object_mut()?;
    fields.retain(|key, _| !["default", "x-kubernetes-validations"].contains(&key.as_str()));
    scalar.then_some(leaf)
}

impl Report {
    /// The consumer's `.status`: these fields, conditions and the generation they speak of, and nothing required.
    pub fn schema(&self) -> Value {
        let generation = json!({"type": "integer", "format": "int64"});
        let own = json!({"observedGeneration": generation, "conditions": short::conditions()});
        let mut schema = json!({"type": "object", "properties": own});
        for (path, leaf) in &self.fields {
            let mut at = &mut schema;
            for name in path {
                at["type"] = "object".into();
                at = &mut at["properties"][name];
            }
            *at = leaf.clone();
        }
        schema
    }

    /// A status that says that all is well, as the operator would write it.
    pub fn sample(&self, definition: &Definition, operator: Option<&Operator>) -> Value {
        let schema = &definition.schema["properties"]["status"];
        let mut status = sampled(schema, "status");
        // Made-up conditions would be some that the operator never reports.
        status.remove("conditions");
        let mut status = Value::Object(status);
        for (path, leaf) in self.fields.iter().filter(|(path, _)| !is_trouble(path)) {
            let name = path.last().map(String::as_str).unwrap_or_default();
            make_pointer(&mut status, &pointer(path), sample::sample(leaf, name));
        }
        for (name, value) in operator.into_iter().flat_map(|operator| &operator.status) {
            if name != "conditions" && schema["properties"].get(name).is_some() {
                json_patch::merge(&mut status[name], value);
            }
        }
        match self.sign.as_ref().map(|sign| &sign.signal) {
            Some(Signal::Condition { name, .. }) => {
                let item = &schema["properties"]["conditions"]["items"];
                let reported = operator.and_then(|operator| operator.status.get("conditions")?.as_array());
                let reported = reported.filter(|all| all.iter().any(|one| one["type"] == **name));
                let usual = [json!({"type": name, "status": "True", "reason": "Ready", "message": "everything is up"})];
                let all = reported.map_or(&usual[..], Vec::as_slice);
                status["conditions"] = all.iter().map(|given| condition(item, given)).collect();
            }
            Some(Signal::Field { name, value, .. }) => {
                make_pointer(&mut status, &pointer(&keys(name)), value.as_str().into());
            }
            None => {}
        }
        status
    }
}

/// A map of what its schema requires.
fn sampled(schema: &Value, name: &str) -> Map<String, Value> {
    match sample::sample(schema, name) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A condition with the fields that the operator's conditions have.
fn condition(item: &Value, given: &Value) -> Value {
    let mut condition = sampled(item, "condition");
    let time = json!({"lastTransitionTime": "2026-01-01T00:00:00Z"});
    for (name, value) in given.as_object().into_iter().chain(time.as_object()).flatten() {
        if item["properties"].get(name).is_some() {
            condition.insert(name.clone(), value.clone());
        }
    }
    Value::Object(condition)
}
