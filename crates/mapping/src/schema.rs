//! Structural OpenAPI schemas: which fields an API has, and which it requires.
//!
//! What a schema leaves open is [`Field::Open`], and never a false alarm.

mod load;
pub mod short;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::names::unescape_pointer;
use super::yaml::closest;
use super::{Kind, Resource, Side};

pub use load::schema_names;
pub use view::{Field, Form, View};

/// Schemas of what mappings write, by kind, and of what they read, by resource.
///
/// An API often has two schemas of one kind: the APIResourceSchema that consumers see, and the
/// CustomResourceDefinition of the target. The first is never taken for the second.
#[derive(Debug, Clone, Default)]
pub struct Schemas {
    kinds: BTreeMap<Kind, Arc<Schema>>,
    pub(crate) resources: BTreeMap<Resource, Arc<Schema>>,
    /// Resources that an ApiSchema describes.
    shorts: BTreeSet<Resource>,
    /// By their names.
    exports: BTreeMap<String, Export>,
}

/// What the document of an APIExport says.
#[derive(Debug, Clone)]
struct Export {
    /// `<plural>.<group>`
    published: BTreeSet<String>,
    document: Arc<Value>,
}

/// What an API is described by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    ApiResourceSchema,
    /// The same in short, where it is not written out.
    Short,
    CustomResourceDefinition,
    OpenApi,
}

/// The schema of one version of a kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Schema {
    pub kind: Kind,
    /// Whether objects live in namespaces; `None`: the document does not say.
    pub namespaced: Option<bool>,
    /// Whether status is written through `/status`; `None`: the document does not say.
    pub status_subresource: Option<bool>,
    root: Value,
    /// Where `$ref`s point: an OpenAPI document's `components.schemas`.
    definitions: Arc<Value>,
}

/// The core group in names of APIResourceSchemas.
const CORE: &str = "core";

/// Levels of a schema that are looked through.
pub(crate) const DEPTH: usize = 24;

/// A chain of references longer than this goes in circles.
const MAX_REFERENCES: usize = 16;

impl Schemas {
    /// The schema of a kind, on whichever side its objects are.
    pub fn kind(&self, kind: &Kind) -> Option<&Arc<Schema>> {
        self.kinds.get(&kind.on(Side::Target))
    }

    pub fn resource(&self, resource: &Resource) -> Option<&Arc<Schema>> {
        self.resources.get(resource)
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.resources.is_empty()
    }

    /// The known kind that another probably means: of another version, or of a similar name.
    pub(crate) fn closest_kind(&self, kind: &Kind) -> Option<String> {
        let known: Vec<_> = self.kinds.keys().filter(|known| !known.is_built_in()).collect();
        let same = known.iter().find(|known| known.kind == kind.kind);
        let named = || {
            let names: Vec<&str> = known.iter().map(|known| known.kind.as_str()).collect();
            let name = closest(&kind.kind, &names)?;
            known.iter().find(|known| known.kind == name)
        };
        same.or_else(named).map(ToString::to_string)
    }

    /// The known resource that another probably means: of another version, or of a similar name in its group.
    pub(crate) fn closest_resource(&self, resource: &Resource) -> Option<String> {
        let known: Vec<_> = self.resources.keys().filter(|known| known.group == resource.group).collect();
        let names: Vec<&str> = known.iter().map(|known| known.plural.as_str()).collect();
        let name =
            if names.contains(&&*resource.plural) { &resource.plural } else { closest(&resource.plural, &names)? };
        known.iter().find(|known| known.plural == name).map(|known| format!("`{known}`"))
    }

    /// The resource that a kind is served as, where a document says it.
    pub fn resource_of(&self, kind: &Kind) -> Option<&Resource> {
        let kind = kind.on(Side::Target);
        let served = || self.resources.iter().filter(|(_, schema)| schema.kind == kind);
        // The target's own word counts more than the consumers' schema of the same kind.
        let own = self.kinds.get(&kind).and_then(|own| served().find(|(_, schema)| Arc::ptr_eq(schema, own)));
        own.or_else(|| served().next()).map(|(resource, _)| resource)
    }

    /// The kinds whose controllers say how far an object is: by conditions, or by the generation that they have seen.
    pub fn reporting(&self) -> BTreeSet<Kind> {
        let says = |schema: &Schema| {
            let Field::Known(status) = schema.view().field("status") else { return false };
            ["conditions", "observedGeneration"].iter().any(|field| matches!(status.field(field), Field::Known(_)))
        };
        self.kinds.iter().filter(|(_, schema)| says(schema)).map(|(kind, _)| kind.clone()).collect()
    }

    /// Whether an APIExport publishes a resource, in whichever version, where its document says so.
    pub fn publishes(&self, export: &str, group: &str, plural: &str) -> bool {
        let group = if group.is_empty() { CORE } else { group };
        self.exports.get(export).is_some_and(|export| export.published.contains(&format!("{plural}.{group}")))
    }

    /// The document of an APIExport, where there is one.
    pub fn export(&self, name: &str) -> Option<&Value> {
        self.exports.get(name).map(|export| &*export.document)
    }

    /// What consumers see of a resource. A target may have another schema for the same one.
    fn of_consumers(&self, resource: &Resource) -> Option<&Arc<Schema>> {
        let is_targets = |known: &Arc<Schema>| self.kinds.get(&known.kind).is_some_and(|own| Arc::ptr_eq(own, known));
        self.resources.get(resource).filter(|known| !is_targets(known))
    }

    fn insert(&mut self, schema: Schema, plural: Option<&str>, origin: Origin) {
        let schema = Arc::new(schema);
        if let Some(plural) = plural {
            let resource = schema.kind.resource(plural);
            if origin == Origin::ApiResourceSchema || self.of_consumers(&resource).is_none() {
                self.resources.insert(resource, schema.clone());
            }
        }
        if !matches!(origin, Origin::ApiResourceSchema | Origin::Short) {
            self.kinds.insert(schema.kind.clone(), schema);
        }
    }
}

impl Schema {
    /// Of a kind that no document describes: what every object has, and what there is in ConfigMaps and Secrets, which mappings
    /// write most.
    pub(crate) fn undocumented(kind: Kind) -> Self {
        let (flag, text) = (json!({"type": "boolean"}), json!({"type": "string"}));
        let texts = json!({"type": "object", "additionalProperties": text});
        let base64 = r"^\s*(([A-Za-z0-9+/]\s*){4})*(([A-Za-z0-9+/]\s*){2}==|([A-Za-z0-9+/]\s*){3}=)?\s*$";
        let base64 = json!({"type": "string", "pattern": base64});
        let bytes = json!({"type": "object", "additionalProperties": base64});
        let root = match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "ConfigMap") => {
                json!({"type": "object", "properties": {"binaryData": bytes, "data": texts, "immutable": flag}})
            }
            ("", "Secret") => json!({"type": "object", "properties": {
                "data": bytes, "immutable": flag, "stringData": texts, "type": text,
            }}),
            _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        Self { kind, namespaced: None, status_subresource: None, root, definitions: Arc::default() }
    }

    /// The OpenAPI schema of a whole object, as it was read.
    pub fn document(&self) -> &Value {
        &self.root
    }

    /// The same schema as far as it is about `.status`: the rest of a large API takes many times the memory.
    pub fn of_status(&self) -> Schema {
        let mut root = self.resolve(&self.root).clone();
        if let Some(Value::Object(properties)) = root.get_mut("properties") {
            properties.retain(|name, _| name == "status");
        }
        let mut named = BTreeMap::new();
        referenced(&self.definitions, &root, &mut named);
        Schema { root, definitions: Arc::new(json!(named)), kind: self.kind.clone(), ..*self }
    }

    /// Whether a field exists; `None`: the schema leaves it open. Items of a list are stepped into by `*` or a number.
    pub fn has_path(&self, path: &[&str]) -> Option<bool> {
        let mut view = self.view();
        for name in path {
            view = match view.field(name) {
                Field::Known(below) => below,
                Field::Open => return None,
                Field::Unknown => return Some(false),
            };
        }
        Some(true)
    }

    /// Whether a field below `.status` exists, by its JSON pointer.
    pub fn has_status(&self, pointer: &str) -> Option<bool> {
        let segments: Vec<String> = pointer.split('/').skip(1).map(unescape_pointer).collect();
        let path: Vec<&str> = std::iter::once("status").chain(segments.iter().map(String::as_str)).collect();
        self.has_path(&path)
    }

    /// Follows references, and the single `allOf` that OpenAPI puts around them.
    fn resolve<'s>(&'s self, mut schema: &'s Value) -> &'s Value {
        for _ in 0..MAX_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            schema = match (reference, schema["allOf"].as_array().map(Vec::as_slice)) {
                (Some(reference), _) => match definition(&self.definitions, reference) {
                    Some((_, definition)) => definition,
                    None => return &Value::Null,
                },
                (None, Some([only])) if schema.get("properties").is_none() => only,
                _ => return schema,
            };
        }
        &Value::Null
    }

    /// The required leaves below `.status` that this status lacks, as paths below `.status`.
    ///
    /// A status write that leaves one out is refused by the API server as a whole.
    pub fn required_missing(&self, status: &Value) -> Vec<String> {
        let mut missing = Vec::new();
        let Some(schema) = self.resolve(&self.root)["properties"].get("status") else { return missing };
        self.missing(schema, Some(status), &Path::Root, &mut missing);
        missing
    }

    fn missing(&self, schema: &Value, value: Option<&Value>, path: &Path<'_>, missing: &mut Vec<String>) {
        match value {
            Some(Value::Array(items)) => {
                let below = &self.resolve(schema)["items"];
                for (index, item) in items.iter().enumerate().filter(|(_, item)| holds_more(item)) {
                    self.missing(below, Some(item), &Path::Item(path, index), missing);
                }
            }
            Some(Value::Object(fields)) => {
                let schema = self.resolve(schema);
                self.missing_required(schema, value, path, missing);
                for (name, value) in fields.iter().filter(|(_, value)| holds_more(value)) {
                    let below = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                    self.missing(below, Some(value), &Path::Field(path, name), missing);
                }
            }
            Some(_) => {}
            None => self.missing_required(self.resolve(schema), None, path, missing),
        }
    }

    /// The required fields that an object lacks; of a whole object that is lacking, its required leaves, or itself.
    fn missing_required(&self, schema: &Value, value: Option<&Value>, path: &Path<'_>, missing: &mut Vec<String>) {
        let before = missing.len();
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let given = value.and_then(|value| value.get(name));
            if given.is_some_and(|given| !given.is_null()) {
                continue;
            }
            let property = self.resolve(&schema["properties"][name]);
            let stands = given.is_some() && property["nullable"] == true;
            if !stands && property.get("default").is_none() {
                self.missing(property, None, &Path::Field(path, name), missing);
            }
        }
        if value.is_none() && missing.len() == before {
            missing.push(path.to_string());
        }
    }
}

/// Adds the definitions that a schema refers to, and those that they refer to.
pub fn referenced<'s>(definitions: &'s Value, schema: &Value, found: &mut BTreeMap<&'s str, &'s Value>) {
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|reference| definition(definitions, reference));
    if let Some((name, definition)) = named
        && found.insert(name, definition).is_none()
    {
        referenced(definitions, definition, found);
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|below| referenced(definitions, below, found)),
        Value::Array(items) => items.iter().for_each(|below| referenced(definitions, below, found)),
        _ => {}
    }
}

/// What a `$ref` points to, with its name.
fn definition<'s>(definitions: &'s Value, reference: &str) -> Option<(&'s str, &'s Value)> {
    let name = reference.rsplit('/').next().unwrap_or_default();
    let (name, definition) = definitions.as_object()?.get_key_value(name)?;
    Some((name.as_str(), definition))
}

/// Whether something can be lacking below a value.
fn holds_more(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// A place in a status, which mostly nobody asks for: its text is made only then.
enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(path, name) => write!(f, "{path}.{name}"),
            Self::Item(path, index) => write!(f, "{path}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests;
