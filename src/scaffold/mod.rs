//! From a CustomResourceDefinition to a folder that offers it to workspaces: what `sync-engine init` writes.
//!
//! [`Definition`] is what the operator's API is, [`offer`](mod@offer) what of it consumers may decide, [`report`](mod@report) what they get to
//! see, and [`kit`] the files.

mod definition;
mod files;
mod given;
pub mod offer;
mod operators;
mod pattern;
mod readme;
pub mod report;
pub mod sample;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use definition::{Definition, Unsuitable};
pub use files::GOLDEN;

use crate::mapping::check::reserved::{self, Field, What};
use crate::mapping::compile::MAX_MAPPING_NAME;
use crate::object::is_dns_label;
use offer::{Kept, Offer, looks, offer};
use operators::{Label, Operator, Secret, connection, connection_field, operator};
use report::{Report, report};

/// What the author says beside the definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Of the mapping and the APIExport; the kind's singular without it.
    pub name: Option<String>,
    /// Path of the provider's workspace; `root:<name>` without it.
    pub workspace: Option<String>,
}

/// A folder to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Kit {
    /// Of the mapping and the APIExport.
    pub name: String,
    /// Path and content, in the order to be read.
    pub files: Vec<(String, String)>,
    /// What stays with the provider.
    pub kept: Vec<Kept>,
    /// Whether the operator needs more than the files have, or nobody knows where it says that all is well: the README has it.
    pub lacks: bool,
}

/// Everything that the files speak of.
struct Plan {
    name: String,
    workspace: String,
    definition: Definition,
    /// What is known of the operator.
    operator: Option<&'static Operator>,
    /// What is said of the fields of the operator's API.
    fields: Vec<Field>,
    /// Fields at the top of an object, beside `status`: what is offered of each.
    parts: Vec<Part>,
    /// Those that are not offered at all.
    withheld: Vec<Kept>,
    report: Report,
}

/// A field at the top of an object.
struct Part {
    name: String,
    required: bool,
    original: Value,
    offer: Offer,
}

/// Makes the files that offer a definition.
///
/// # Errors
/// Where it cannot be offered, or its kind cannot name a mapping.
pub fn kit(definition: Definition, wishes: &Wishes) -> Result<Kit, Unsuitable> {
    let plan = Plan::new(definition, wishes)?;
    let needs = plan.operator.is_some_and(|operator| !operator.needs.is_empty());
    let is_sure = plan.report.sign.as_ref().is_some_and(|sign| !sign.is_guess);
    Ok(Kit { files: files::all(&plan), kept: plan.kept(), lacks: needs || !is_sure, name: plan.name })
}

impl Plan {
    fn new(definition: Definition, wishes: &Wishes) -> Result<Self, Unsuitable> {
        let name = wishes.name.clone().unwrap_or_else(|| definition.singular.clone());
        if !is_dns_label(&name) || name.len() > MAX_MAPPING_NAME {
            return Err(Unsuitable::BadName(name));
        }
        let group = &definition.resource.group;
        let operator = operator(group, &definition.kind);
        let withheld = operator.into_iter().flat_map(Operator::withheld);
        let known = reserved::fields(group, &definition.kind).copied().chain(withheld);
        let fields: Vec<_> = known.chain(connection_field(&definition.schema)).collect();
        let (parts, withheld) = parts(&definition, &fields);
        if parts.is_empty() {
            let (kind, version) = (definition.kind, definition.resource.version);
            return Err(Unsuitable::NoSchema { kind, version });
        }
        let workspace = wishes.workspace.clone().unwrap_or_else(|| format!("root:{name}"));
        let report = report(&definition, operator);
        Ok(Self { name, workspace, report, definition, operator, fields, parts, withheld })
    }

    fn kept(&self) -> Vec<Kept> {
        let parts = self.parts.iter().flat_map(|part| part.offer.kept.iter().cloned());
        self.withheld.iter().cloned().chain(parts).collect()
    }

    /// The schema that consumers see.
    fn consumer_schema(&self) -> Value {
        let mut schema = self.definition.schema.clone();
        let mut properties: Map<String, Value> =
            self.parts.iter().map(|part| (part.name.clone(), part.offer.schema.clone())).collect();
        properties.insert("status".to_owned(), self.report.schema());
        if let Some(most) = self.longest_name() {
            let name = json!({"type": "string", "maxLength": most});
            properties.insert("metadata".to_owned(), json!({"type": "object", "properties": {"name": name}}));
        }
        let required: Vec<&str> = self.parts.iter().filter(|part| part.required).map(|part| &*part.name).collect();
        if let Some(fields) = schema.as_object_mut() {
            fields.insert("properties".to_owned(), properties.into());
            fields.remove("required");
            fields.remove("x-kubernetes-validations");
            if !required.is_empty() {
                fields.insert("required".to_owned(), required.into());
            }
        }
        schema
    }

    /// The same with the Secrets that it names.
    fn examples(&self) -> Vec<Value> {
        let example = self.example();
        let secrets = self.secrets_of(&example);
        std::iter::once(example).chain(secrets).collect()
    }

    /// An object as a consumer would write it.
    fn example(&self) -> Value {
        let mut example = json!({
            "apiVersion": self.definition.resource.api_version(),
            "kind": self.definition.kind,
            "metadata": {"name": self.example_name(), "namespace": "default"},
        });
        for label in self.labels().filter(|label| label.required) {
            example["metadata"]["labels"][&label.key] = (&*label.sample).into();
        }
        for part in self.parts.iter().filter(|part| part.required) {
            let schema = &part.offer.schema;
            let known = self.operator.and_then(|operator| operator.example.get(&part.name));
            example[&part.name] = match known.and_then(|known| sample::fitting(schema, known)) {
                Some(known) => {
                    let mut value = sample::sample(schema, &part.name);
                    json_patch::merge(&mut value, &known);
                    value
                }
                None => sample::telling(schema, &part.name),
            };
        }
        example
    }

    fn labels(&self) -> impl Iterator<Item = &'static Label> {
        self.operator.into_iter().flat_map(|operator| &operator.labels)
    }

    fn secrets(&self) -> impl Iterator<Item = &'static Secret> {
        self.operator.into_iter().flat_map(|operator| &operator.secrets).chain(connection(&self.fields))
    }

    fn example_name(&self) -> String {
        let name = format!("my-{}", self.name);
        if self.longest_name().is_some_and(|most| name.len() as u64 > most) { "example".to_owned() } else { name }
    }

    /// How long a name may be, which is the consumer's own on the target: as the definition says, or the operator.
    fn longest_name(&self) -> Option<u64> {
        let defined = self.definition.schema.pointer("/properties/metadata/properties/name/maxLength");
        let known = self.operator.and_then(|operator| operator.longest_name);
        defined.and_then(Value::as_u64).into_iter().chain(known).min()
    }
}

/// The fields of an object that somebody orders by: `spec`, and whatever stands beside it; and those that stay with the
/// provider.
fn parts(definition: &Definition, fields: &[Field]) -> (Vec<Part>, Vec<Kept>) {
    let schema = &definition.schema;
    let required = sample::required(schema);
    let all = schema["properties"].as_object().into_iter().flatten();
    let ordered = all.filter(|(name, _)| !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    let (mut parts, mut withheld) = (Vec::new(), Vec::new());
    for (name, original) in ordered {
        let by_path = fields.iter().find(|field| field.path == name).map(|field| field.what);
        let why = match by_path {
            Some(What::Kept(why)) => Some(why),
            // Names mean the same at the top of an object as within its spec.
            _ => reserved::meaning(fields, name, &looks(original)),
        };
        if let Some(why) = why.filter(|_| name != "spec") {
            withheld.push(Kept { path: vec![name.clone()], why, required: false });
            continue;
        }
        parts.push(Part {
            name: name.clone(),
            // An order is its spec: one without would say nothing.
            required: name == "spec" || required.contains(name.as_str()),
            original: original.clone(),
            offer: offer(name, original, fields),
        });
    }
    (parts, withheld)
}
