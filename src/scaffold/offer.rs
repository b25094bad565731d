//! What consumers may decide of an operator's API, and what stays with the provider.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::sample;
use crate::mapping::check::reserved::{self, Field, What, Why, holds_free_text};
use crate::mapping::names::pointer;
use crate::mapping::schema::Form;
use crate::object::compare::make_pointer;

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
    /// Keys from the object's root on; items of a list by `*`.
    pub path: Vec<String>,
    pub why: Why,
    /// Whether the operator requires it of every object: the mapping must write it.
    pub required: bool,
}

/// Rules over other fields, which do not hold any more where fields are missing.
const RULES: [&str; 6] = ["allOf", "anyOf", "not", "oneOf", "x-kubernetes-validations", "example"];

/// Takes out of a part of an object what consumers should not decide. `fields`: what is said of the operator's API.
pub fn offer(part: &str, schema: &Value, fields: &[Field]) -> Offer {
    let mut schema = schema.clone();
    let mut reduction = Reduction { fields, path: vec![part.to_owned()], kept: Vec::new() };
    reduction.reduce(&mut schema, true);
    Offer { schema, kept: reduction.kept }
}

/// A walk through a schema that takes fields out of it.
struct Reduction<'c> {
    fields: &'c [Field],
    /// Where the walk is.
    path: Vec<String>,
    kept: Vec<Kept>,
}

/// What became of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Whole,
    Less,
    /// It lacks what it requires, for this reason: nobody can fill it.
    Broken(Why),
}

impl Reduction<'_> {
    /// `everywhere`: every object has it, so that the mapping can write what is missing in it.
    fn reduce(&mut self, schema: &mut Value, everywhere: bool) -> Outcome {
        let mut outcome = self.reduce_fields(schema, everywhere);
        for key in ["items", "additionalProperties"] {
            let Some(below) = schema.get_mut(key).filter(|below| below.is_object()) else { continue };
            self.path.push("*".to_owned());
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
            let below = [&field["properties"], &field["items"]["properties"]];
            let has_fields = below.iter().any(|fields| fields.as_object().is_some_and(|fields| !fields.is_empty()));
            if holds_free_text(name, has_fields) {
                continue;
            }
            self.path.push(name.clone());
            let before = self.kept.len();
            let everywhere = everywhere && required.contains(name);
            let why = self.why(field).or_else(|| match self.reduce(field, everywhere) {
                Outcome::Broken(why) => Some(why),
                // What has no field left says nothing; where every object has it, the mapping fills it.
                Outcome::Less if !everywhere && is_empty(field) => self.kept.last().map(|kept| kept.why),
                outcome => {
                    less |= outcome == Outcome::Less;
                    None
                }
            });
            if let Some(why) = why {
                self.kept.truncate(before);
                self.kept.push(Kept { path: self.path.clone(), why, required: everywhere });
                gone.push((name.clone(), why));
            }
            self.path.pop();
        }
        let broken = gone.iter().find(|(name, _)| required.contains(name)).filter(|_| !everywhere).map(|(_, why)| *why);
        let is_less = less || !gone.is_empty();
        forget(schema, &gone.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
        broken.map_or(if is_less { Outcome::Less } else { Outcome::Whole }, Outcome::Broken)
    }

    /// Why the field at the path of the walk stays with the provider: what is said of its path counts more than its name.
    fn why(&self, field: &Value) -> Option<Why> {
        let keys: Vec<&str> = self.path.iter().map(String::as_str).filter(|key| *key != "*").collect();
        let at = keys.join(".");
        for known in self.fields {
            match (known.path.strip_prefix(&*at), known.what) {
                (Some(""), What::Offered(_)) => return None,
                (Some(""), What::Kept(Why::Command(_)) | What::Written(Why::Command(_), _)) if is_bounded(field) => {}
                (Some(""), What::Kept(why) | What::Written(why, _)) => return Some(why),
                (Some(rest), What::Kept(why))
                    if rest.strip_prefix('.').is_some_and(|below| leaves_open(field, below)) =>
                {
                    return Some(why);
                }
                _ => {}
            }
        }
        reserved::meaning(self.fields, &at, &looks(field))
    }
}

/// Whether a schema has no field, and takes none.
fn is_empty(schema: &Value) -> bool {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true || schema.get("additionalProperties").is_some();
    !open && schema["properties"].as_object().is_some_and(Map::is_empty)
}

/// Whether the texts that a field takes are listed.
fn is_bounded(field: &Value) -> bool {
    field.get("enum").is_some() || field.get("pattern").is_some()
}

pub(super) fn looks(field: &Value) -> reserved::Value<'_> {
    let inner = field.get("items").unwrap_or(field);
    let keys = inner["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    reserved::Value { form: Form::of_schema(field), keys }
}

/// Whether a schema says nothing of the first key of a path, and keeps it all the same.
fn leaves_open(field: &Value, path: &str) -> bool {
    let key = path.split('.').next().unwrap_or_default();
    let keeps = field["x-kubernetes-preserve-unknown-fields"] == true;
    let takes_any = !matches!(field.get("additionalProperties"), None | Some(Value::Bool(false)));
    (keeps || takes_any) && field["properties"].get(key).is_none()
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
    /// What the mapping must write itself at this part: a value for each field that is required and kept, and for each that
    /// the operator needs although its schema does not say so.
    ///
    /// `original` is the schema that the offer was made of.
    pub fn literals(&self, original: &Value, fields: &[Field]) -> Value {
        let mut literals = Value::Object(Map::new());
        for kept in &self.kept {
            let at = kept.path.join(".");
            let value = fields.iter().find_map(|field| match field.what {
                What::Written(_, value) if field.path == at => Some(Value::from(value)),
                _ => None,
            });
            if kept.required || value.is_some() {
                let path = &kept.path[1..];
                let schema = path.iter().fold(original, |schema, name| &schema["properties"][name]);
                // The tenant's own namespace is the one that an operator may follow.
                let own = match (kept.why, Form::of_schema(schema)) {
                    (Why::Reach, Form::Text) => Some(Value::from("${{ placement.namespace }}")),
                    (Why::Reach, Form::List) => Some(Value::from("${{ [placement.namespace] }}")),
                    _ => None,
                };
                let sample = || sample::sample(schema, path.last().map_or("", String::as_str));
                make_pointer(&mut literals, &pointer(path), value.or(own).unwrap_or_else(sample));
            }
        }
        literals
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.join(".").replace(".*", "[]"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: Value) -> (Value, Vec<String>) {
        let offer = offer("spec", &schema, &[]);
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
        assert_eq!(kept, ["spec.image: Program true", "spec.ref.namespace: Reach false"]);
        assert_eq!(schema["required"], json!(["size"]));
        assert_eq!(schema["default"], json!({"size": 1}));
        assert_eq!(schema.get("x-kubernetes-validations"), None);
        assert_eq!(schema["properties"]["ref"]["properties"], json!({"name": {"type": "string"}}));
        assert!(schema["properties"]["labels"]["properties"].get("image").is_some());
        assert!(schema["properties"]["container"].get("x-kubernetes-validations").is_some());
    }

    #[test]
    fn what_decides_about_more_than_the_tenant_is_taken_out_with_its_reason() {
        let fields: Vec<_> = reserved::fields("postgresql.cnpg.io", "Cluster").copied().collect();
        let schema = json!({"type": "object", "properties": {
            "instances": {"type": "integer"},
            "env": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "bootstrap": {"type": "object", "properties": {"initdb": {"type": "object", "properties": {
                "database": {"type": "string"}, "postInitSQL": {"type": "array", "items": {"type": "string"}},
            }}}},
        }});
        let offered = offer("spec", &schema, &fields);
        let kept: Vec<_> = offered.kept.iter().map(|kept| format!("{kept}: {}", kept.why.sentence())).collect();
        let environment = Why::Environment.sentence();
        assert_eq!(
            kept,
            [
                "spec.bootstrap.initdb.postInitSQL: the operator runs the SQL as superuser".to_owned(),
                format!("spec.env: {environment}")
            ]
        );
        assert!(
            offered.schema["properties"]["bootstrap"]["properties"]["initdb"]["properties"].get("database").is_some()
        );
    }

    #[test]
    fn what_ends_in_a_command_line_is_taken_out_where_its_text_is_free() {
        let fields: Vec<_> = reserved::fields("mongodbcommunity.mongodb.com", "MongoDBCommunity").copied().collect();
        let schema = json!({"type": "object", "properties": {
            "agent": {"type": "object", "properties": {
                "logFile": {"type": "string"}, "logLevel": {"type": "string", "enum": ["INFO"]},
            }},
            "additionalMongodConfig": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "other": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let offered = offer("spec", &schema, &fields);
        assert_eq!(
            offered.kept.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["spec.additionalMongodConfig", "spec.agent.logFile"]
        );
        assert!(offered.kept.iter().all(|kept| matches!(kept.why, Why::Command(_))));
        assert!(offered.schema["properties"]["agent"]["properties"].get("logLevel").is_some());
        assert!(offered.schema["properties"].get("other").is_some());
    }

    #[test]
    fn a_name_counts_only_where_the_field_looks_like_what_it_names() {
        let (_, kept) = of(json!({"type": "object", "properties": {
            "storage": {"type": "object", "properties": {"volumes": {"type": "array", "items": {"type": "object", "properties": {
                "id": {"type": "integer"}, "size": {"type": "string"},
            }}}}},
            "volumes": {"type": "array", "items": {"type": "object", "properties": {"secret": {"type": "object"}}}},
            "disks": {"type": "array", "items": {"type": "object", "properties": {"hostPath": {"type": "object"}}}},
            "traffic": {"type": "array", "items": {"type": "object", "properties": {"tag": {"type": "string"}}}},
            "lifecycle": {"type": "object", "properties": {"expireAfterDays": {"type": "integer"}}},
            "env": {"type": "string", "enum": ["test", "production"]},
            "worker": {"type": "object", "properties": {"containers": {"type": "array"}, "nodeName": {"type": "string"}}},
        }}));
        assert_eq!(
            kept,
            ["spec.disks[].hostPath: Placement false", "spec.volumes: Placement false", "spec.worker: Pods false"]
        );
    }

    /// Names as operators have them: MinIO, Percona, Vitess, CloudNativePG, and all that have a Service in their API.
    #[test]
    fn the_same_under_another_name_is_taken_out_too() {
        let open = json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let (schema, kept) = of(json!({"type": "object", "properties": {
            "containerSecurityContext": {"type": "object", "properties": {"privileged": {"type": "boolean"}}},
            "data": {"type": "object", "properties": {
                "additionalCommandArgs": {"type": "array", "items": {"type": "string"}}, "jobs": {"type": "integer"},
            }},
            "envVarsSecret": {"type": "string"},
            "extraEnv": {"type": "array", "items": {"type": "object", "properties": {"valueFrom": {"type": "object"}}}},
            "extraFlags": texts.clone(),
            "extraVolumes": open,
            "featureFlags": texts,
            "hookScript": {"type": "string"},
            "hostPort": {"type": "integer"},
            "imagePullSecret": {"type": "object"},
            "images": {"type": "object", "properties": {"mysqld": {"type": "string"}}},
            "agentContainers": {"type": "array", "items": {"type": "object", "properties": {
                "image": {"type": "string"}, "name": {"type": "string"},
            }}},
            "logsOfContainers": {"type": "array", "items": {"type": "string"}},
            "probe": {"type": "object", "properties": {
                "exec": {"type": "object", "properties": {"command": {"type": "array"}}}, "periodSeconds": {"type": "integer"},
            }},
            "service": {"type": "object", "properties": {"externalIPs": {"type": "array"}, "type": {"type": "string"}}},
            "volumeSpec": {"type": "object", "properties": {
                "hostPath": {"type": "object"}, "persistentVolumeClaim": {"type": "object"},
            }},
        }}));
        let kept: Vec<_> = kept.iter().filter_map(|kept| kept.split_once(':')).map(|(path, _)| &path[5..]).collect();
        assert_eq!(
            kept.join(" "),
            "agentContainers containerSecurityContext data.additionalCommandArgs envVarsSecret extraEnv extraFlags extraVolumes \
             hookScript hostPort imagePullSecret images probe.exec service.externalIPs volumeSpec.hostPath"
        );
        assert!(schema["properties"]["volumeSpec"]["properties"].get("persistentVolumeClaim").is_some());
        assert!(["featureFlags", "logsOfContainers"].iter().all(|name| schema["properties"].get(name).is_some()));
    }

    #[test]
    fn a_kind_that_runs_the_consumers_containers_offers_them() {
        let fields: Vec<_> = reserved::fields("serving.knative.dev", "Service").copied().collect();
        let container = json!({"type": "object", "required": ["image"], "properties": {
            "image": {"type": "string"}, "command": {"type": "array"}, "securityContext": {"type": "object"},
        }});
        let pod = json!({"type": "object", "required": ["containers"], "properties": {
            "containers": {"type": "array", "items": container.clone()}, "nodeName": {"type": "string"},
            "initContainers": {"type": "array", "items": container},
        }});
        let schema = json!({"type": "object", "properties": {
            "template": {"type": "object", "properties": {"spec": pod}},
        }});
        assert_eq!(
            offer("spec", &schema, &fields).kept.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.template.spec.containers[].securityContext",
                "spec.template.spec.initContainers",
                "spec.template.spec.nodeName"
            ]
        );
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
        assert_eq!(kept, ["spec.exporter: Program false", "spec.jobs: Program false"]);
        assert_eq!(schema["properties"], json!({"enabled": {"type": "boolean"}}));
    }

    #[test]
    fn what_the_operator_requires_is_written_by_the_mapping() {
        let original = json!({"type": "object", "required": ["kubernetes"], "properties": {
            "kubernetes": {"type": "object", "required": ["image"], "properties": {
                "image": {"type": "string"}, "replicas": {"type": "integer"},
            }},
        }});
        let offer = offer("spec", &original, &[]);
        assert_eq!(
            offer.literals(&original, &[]),
            json!({"kubernetes": {"image": "registry.example.com/example:1.0.0"}})
        );
        let left = &offer.schema["properties"]["kubernetes"]["properties"];
        assert_eq!(left, &json!({"replicas": {"type": "integer"}}));

        let reaching = json!({"type": "object", "required": ["from", "namespace"], "properties": {
            "from": {"type": "object", "required": ["namespaces"], "properties": {
                "namespaces": {"type": "array", "items": {"type": "string"}},
            }},
            "namespace": {"type": "string"},
        }});
        let own = super::offer("spec", &reaching, &[]).literals(&reaching, &[]);
        let (one, list) = ("${{ placement.namespace }}", "${{ [placement.namespace] }}");
        assert_eq!(own, json!({"from": {"namespaces": list}, "namespace": one}));
    }
}
