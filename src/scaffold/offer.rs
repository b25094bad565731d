//! What consumers may decide of an operator's API, and what stays with the provider.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::sample;
use crate::mapping::check::{holds_pods, is_free_text, is_namespace};

/// The part of a schema that is offered to consumers.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub schema: Value,
    /// What was taken out of it, in the order of the schema.
    pub kept: Vec<Kept>,
}

/// A field that stays with the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Keys from the part's own root on; items of a list by `*`.
    pub path: Vec<String>,
    pub why: Why,
    /// Whether the operator requires it of every object: the mapping must write it.
    pub required: bool,
}

/// Why a field is not the consumer's to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Pods, or parts of them.
    Pods,
    /// What runs in the operator's pods.
    Program,
    /// What an operator puts into a command line.
    Command,
    /// Where and as whom pods run.
    Placement,
    /// Other tenants' namespaces.
    Reach,
    /// For a reason of its own.
    Reserved(&'static str),
    /// It requires something else that was taken out.
    Incomplete,
}

/// Names of what runs in pods.
const PROGRAM: [&str; 9] =
    ["args", "additionalArgs", "baseImage", "command", "image", "imageName", "imagePullSecrets", "lifecycle", "tag"];

/// Names of what says where pods run, and as whom.
const PLACEMENT: [&str; 18] = [
    "affinity",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostPath",
    "nodeName",
    "nodeSelector",
    "podSecurityContext",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "tolerations",
    "volumes",
];

/// Rules over other fields, which do not hold any more where fields are missing.
const RULES: [&str; 6] = ["allOf", "anyOf", "not", "oneOf", "x-kubernetes-validations", "example"];

/// Takes out of a schema what consumers should not decide. `commands`: paths in it that end in a command line; `reserved`:
/// those that stay with the provider, each with its reason.
pub fn offer(schema: &Value, commands: &[&str], reserved: &[(&str, &'static str)]) -> Offer {
    let mut schema = schema.clone();
    let mut reduction = Reduction { commands, reserved, path: Vec::new(), kept: Vec::new() };
    reduction.reduce(&mut schema, true);
    Offer { schema, kept: reduction.kept }
}

/// A walk through a schema that takes fields out of it.
struct Reduction<'c> {
    commands: &'c [&'c str],
    reserved: &'c [(&'c str, &'static str)],
    /// Where the walk is.
    path: Vec<String>,
    kept: Vec<Kept>,
}

/// What became of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Whole,
    Less,
    /// It lacks what it requires: nobody can fill it.
    Broken,
}

impl Reduction<'_> {
    /// `everywhere`: every object has it, so that the mapping can write what is missing in it.
    fn reduce(&mut self, schema: &mut Value, everywhere: bool) -> Outcome {
        let mut outcome = self.reduce_fields(schema, everywhere);
        for (key, shown) in [("items", "*"), ("additionalProperties", "*")] {
            let Some(below) = schema.get_mut(key).filter(|below| below.is_object()) else { continue };
            self.path.push(shown.to_owned());
            // A list of what nobody can fill can only stay empty.
            outcome = outcome.max(self.reduce(below, false));
            self.path.pop();
        }
        if outcome != Outcome::Whole
            && let Some(schema) = schema.as_object_mut()
        {
            RULES.iter().for_each(|rule| drop(schema.remove(*rule)));
        }
        outcome
    }

    fn reduce_fields(&mut self, schema: &mut Value, everywhere: bool) -> Outcome {
        let required: BTreeSet<String> = sample::required(schema).into_iter().map(str::to_owned).collect();
        let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return Outcome::Whole };
        let mut gone = Vec::new();
        let mut less = false;
        for (name, field) in fields.iter_mut() {
            if is_free_text(name) {
                continue;
            }
            self.path.push(name.clone());
            let before = self.kept.len();
            let everywhere = everywhere && required.contains(name);
            let command = || self.ends_in_a_command(field).then_some(Why::Command);
            let why = why(name, field).or_else(|| self.is_reserved()).or_else(command).or_else(|| {
                match self.reduce(field, everywhere) {
                    Outcome::Broken => Some(Why::Incomplete),
                    outcome => {
                        less |= outcome == Outcome::Less;
                        None
                    }
                }
            });
            if let Some(why) = why {
                self.kept.truncate(before);
                self.kept.push(Kept { path: self.path.clone(), why, required: everywhere });
                gone.push(name.clone());
            }
            self.path.pop();
        }
        let broken = gone.iter().any(|name| required.contains(name));
        forget(schema, &gone);
        match (broken && !everywhere, less || !gone.is_empty()) {
            (true, _) => Outcome::Broken,
            (_, true) => Outcome::Less,
            _ => Outcome::Whole,
        }
    }

    fn is_reserved(&self) -> Option<Why> {
        let at = self.path.join(".");
        self.reserved.iter().find(|(path, _)| *path == at).map(|(_, why)| Why::Reserved(why))
    }

    /// Whether free text at the path of the walk, or below where the schema leaves that open, ends in a command line.
    fn ends_in_a_command(&self, field: &Value) -> bool {
        let at = self.path.join(".");
        let is_bounded = field.get("enum").is_some() || field.get("pattern").is_some();
        self.commands.iter().any(|command| match command.strip_prefix(&*at) {
            Some("") => !is_bounded,
            Some(rest) => rest.strip_prefix('.').is_some_and(|below| leaves_open(field, below)),
            None => false,
        })
    }
}

/// Whether a schema says nothing of the first key of a path, and keeps it all the same.
fn leaves_open(field: &Value, path: &str) -> bool {
    let key = path.split('.').next().unwrap_or_default();
    let keeps = field["x-kubernetes-preserve-unknown-fields"] == true;
    let takes_any = !matches!(field.get("additionalProperties"), None | Some(Value::Bool(false)));
    (keeps || takes_any) && field["properties"].get(key).is_none()
}

fn why(name: &str, field: &Value) -> Option<Why> {
    let structured = matches!(field["type"].as_str(), Some("object" | "array"));
    if holds_pods(name) && structured {
        return Some(Why::Pods);
    }
    if PROGRAM.contains(&name) || (name.ends_with("Image") && field["type"] == "string") {
        return Some(Why::Program);
    }
    if PLACEMENT.contains(&name) {
        return Some(Why::Placement);
    }
    let reaches = is_namespace(name) || name == "namespaces" || name.ends_with("Namespaces");
    let selects = name == "namespaceSelector" || name.ends_with("NamespaceSelector");
    (reaches || selects).then_some(Why::Reach)
}

/// Takes names out of a schema's fields, of what it requires, and of its default.
fn forget(schema: &mut Value, gone: &[String]) {
    let is_gone = |name: &str| gone.iter().any(|gone| gone == name);
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.retain(|name, _| !is_gone(name));
    }
    if let Some(default) = schema.get_mut("default").and_then(Value::as_object_mut) {
        default.retain(|name, _| !is_gone(name));
    }
    let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) else { return };
    required.retain(|name| !name.as_str().is_some_and(is_gone));
    if required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("required");
    }
}

impl Offer {
    /// What the mapping must write itself: a value for each field that is required and kept.
    ///
    /// `original` is the schema that the offer was made of.
    pub fn literals(&self, original: &Value) -> Value {
        let mut literals = Value::Object(Map::new());
        for kept in self.kept.iter().filter(|kept| kept.required) {
            put(&mut literals, original, &kept.path);
        }
        literals
    }
}

/// Puts a sample of the field at a path into `value`.
fn put(value: &mut Value, schema: &Value, path: &[String]) {
    let (Some((name, rest)), Value::Object(fields)) = (path.split_first(), value) else { return };
    let schema = &schema["properties"][name];
    if rest.is_empty() {
        fields.insert(name.clone(), sample::sample(schema, name));
    } else {
        put(fields.entry(name).or_insert_with(|| Value::Object(Map::new())), schema, rest);
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.join(".").replace(".*", "[]"))
    }
}

impl Why {
    /// In a sentence, for several fields.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Pods => "pods of the consumer's making would run on the target",
            Self::Program => "a consumer would choose the program that runs with the operator's rights",
            Self::Command => "an operator puts them into a command line, where a consumer's text could run commands",
            Self::Placement => "a consumer would say on which nodes, and with whose rights, pods run",
            Self::Reach => "an operator that follows them would reach into other tenants' namespaces",
            Self::Reserved(why) => why,
            Self::Incomplete => "they require a field that is left out",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::reserved::reserved;
    use super::*;

    fn of(schema: Value) -> (Value, Vec<String>) {
        let offer = offer(&schema, &[], &[]);
        (offer.schema, offer.kept.iter().map(|kept| format!("{kept}: {:?} {}", kept.why, kept.required)).collect())
    }

    #[test]
    fn what_a_consumer_should_not_decide_is_taken_out_with_its_rules() {
        let (schema, kept) = of(json!({
            "type": "object", "required": ["size", "image"],
            "default": {"image": "x", "size": 1},
            "x-kubernetes-validations": [{"rule": "self.image != ''"}],
            "properties": {
                "size": {"type": "integer"},
                "image": {"type": "string"},
                "ref": {"type": "object", "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}}},
                "labels": {"type": "object", "properties": {"image": {"type": "string"}}},
                "container": {"type": "boolean", "x-kubernetes-validations": [{"rule": "true"}]},
            },
        }));
        assert_eq!(kept, ["image: Program true", "ref.namespace: Reach false"]);
        assert_eq!(schema["required"], json!(["size"]));
        assert_eq!(schema["default"], json!({"size": 1}));
        assert_eq!(schema.get("x-kubernetes-validations"), None);
        assert_eq!(schema["properties"]["ref"]["properties"], json!({"name": {"type": "string"}}));
        assert!(schema["properties"]["labels"]["properties"].get("image").is_some());
        assert!(schema["properties"]["container"].get("x-kubernetes-validations").is_some());
    }

    #[test]
    fn what_decides_about_more_than_the_tenant_is_taken_out_with_its_reason() {
        let fields: Vec<_> =
            reserved("postgresql.cnpg.io", "Cluster").map(|field| (&field.path[5..], field.why)).collect();
        let schema = json!({"type": "object", "properties": {
            "instances": {"type": "integer"},
            "env": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "bootstrap": {"type": "object", "properties": {"initdb": {"type": "object", "properties": {
                "database": {"type": "string"}, "postInitSQL": {"type": "array", "items": {"type": "string"}},
            }}}},
        }});
        let offered = offer(&schema, &[], &fields);
        let kept: Vec<_> = offered.kept.iter().map(|kept| format!("{kept}: {}", kept.why.sentence())).collect();
        let environment = "a consumer would set the environment of the operator's pods, also from other Secrets";
        assert_eq!(
            kept,
            [
                "bootstrap.initdb.postInitSQL: the operator runs the SQL as superuser".to_owned(),
                format!("env: {environment}")
            ]
        );
        assert!(
            offered.schema["properties"]["bootstrap"]["properties"]["initdb"]["properties"].get("database").is_some()
        );
    }

    #[test]
    fn what_ends_in_a_command_line_is_taken_out_where_its_text_is_free() {
        let offered = offer(
            &json!({"type": "object", "properties": {
                "agent": {"type": "object", "properties": {
                    "logFile": {"type": "string"}, "logLevel": {"type": "string", "enum": ["INFO"]},
                }},
                "options": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "other": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}),
            &["agent.logFile", "agent.logLevel", "options.storage.dbPath"],
            &[],
        );
        let kept: Vec<_> = offered.kept.iter().map(|kept| format!("{kept}: {:?}", kept.why)).collect();
        assert_eq!(kept, ["agent.logFile: Command", "options: Command"]);
        assert!(offered.schema["properties"]["agent"]["properties"].get("logLevel").is_some());
        assert!(offered.schema["properties"].get("other").is_some());
    }

    #[test]
    fn what_nobody_could_fill_goes_as_a_whole() {
        let (schema, kept) = of(json!({"type": "object", "properties": {
            "jobs": {"type": "array", "items": {"type": "object", "required": ["image"], "properties": {
                "image": {"type": "string"}, "command": {"type": "array"},
            }}},
            "exporter": {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}},
            "enabled": {"type": "boolean"},
        }}));
        assert_eq!(kept, ["exporter: Incomplete false", "jobs: Incomplete false"]);
        assert_eq!(schema["properties"], json!({"enabled": {"type": "boolean"}}));
    }

    #[test]
    fn what_the_operator_requires_is_written_by_the_mapping() {
        let original = json!({"type": "object", "required": ["kubernetes"], "properties": {
            "kubernetes": {"type": "object", "required": ["image"], "properties": {
                "image": {"type": "string"}, "replicas": {"type": "integer"},
            }},
        }});
        let offer = offer(&original, &[], &[]);
        assert_eq!(offer.literals(&original), json!({"kubernetes": {"image": "registry.example.com/example:1.0.0"}}));
        let left = &offer.schema["properties"]["kubernetes"]["properties"];
        assert_eq!(left, &json!({"replicas": {"type": "integer"}}));
    }
}
