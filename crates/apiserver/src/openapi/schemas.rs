//! The schemas of kinds: of built-in ones as Kubernetes documents them, of others as their definitions say.

use k8s_openapi::api::core;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::super::builtin_schemas::generate;
use super::super::resource::{Resource, Version};

/// Schemas of a document by their names, and of all that they refer to.
pub(super) struct Schemas {
    generator: SchemaGenerator,
    /// Kinds that the server itself defines: name, and what is said of them beside their type.
    builtin: Vec<(String, Value)>,
    others: Map<String, Value>,
}

/// Lists of built-in kinds that a patch merges, by a key or (without one) by value; others it replaces. k8s-openapi
/// leaves this out.
const MERGED_LISTS: [(&str, &str, Option<&str>); 4] = [
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences", Some("uid")),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", None),
    ("io.k8s.api.core.v1.ServiceAccount", "secrets", Some("name")),
    ("io.k8s.api.core.v1.ServiceAccount", "imagePullSecrets", Some("name")),
];

/// The kind whose fields `apiVersion`, `kind` and `metadata` are described as those of every kind.
type Model = core::v1::ConfigMap;

impl Schemas {
    pub fn new() -> Schemas {
        let generator = SchemaSettings::openapi3().into_generator();
        Schemas { generator, builtin: Vec::new(), others: Map::new() }
    }

    pub fn add(&mut self, resource: &Resource, version: &Version, kind: Value) {
        let kinds = json!([kind]);
        match generate(&mut self.generator, &resource.group, &resource.kind) {
            Some((_, name)) => self.builtin.push((name, kinds)),
            None => {
                let mut schema = version.document.clone();
                if !schema.is_object() {
                    schema = json!({"type": "object"});
                }
                schema["x-kubernetes-group-version-kind"] = kinds;
                self.others.insert(schema_name(resource, &version.name), schema);
            }
        }
    }

    /// `components.schemas` of the document.
    pub fn into_components(mut self) -> Map<String, Value> {
        self.generator.subschema_for::<Model>();
        let model = Model::schema_name().into_owned();
        let mut schemas = self.generator.take_definitions(true);
        let common = schemas.get(&model).map_or(Value::Null, |model| model["properties"].clone());
        if !self.builtin.iter().any(|(name, _)| *name == model) {
            schemas.remove(&model);
        }
        for (list, field, key) in MERGED_LISTS {
            let Some(list) = schemas.get_mut(list) else { continue };
            list["properties"][field]["x-kubernetes-patch-strategy"] = "merge".into();
            if let Some(key) = key {
                list["properties"][field]["x-kubernetes-patch-merge-key"] = key.into();
            }
        }
        for (name, kinds) in self.builtin {
            let schema = &mut schemas[&name];
            schema["x-kubernetes-group-version-kind"] = kinds;
            // What k8s-openapi's types always have, a request may leave out.
            if let Some(required) = schema["required"].as_array_mut() {
                required.retain(|field| field != "metadata");
            }
        }
        for (name, mut schema) in self.others {
            if let Some(Value::Object(properties)) = schema.get_mut("properties") {
                properties
                    .extend(["apiVersion", "kind", "metadata"].map(|field| (field.to_owned(), common[field].clone())));
            }
            schemas.insert(name, schema);
        }
        schemas
    }
}

/// `com.example.v1.Thing`.
fn schema_name(resource: &Resource, version: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{version}.{}", group.join("."), resource.kind)
}
