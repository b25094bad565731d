//! What a story is about: the APIs that are published, what runs them, and what is ordered. Pure: documents in, a script
//! out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::toy_operator::ToyOperator;
use crate::mapping::{ApiExportRef, Kind, Mapping, Resource, SourceClusters};
use crate::sandbox::setup::{anything, definition, parts};

const DEFINITION: &str = "CustomResourceDefinition";

/// A document, and the folder it was found in.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub folder: PathBuf,
    pub document: Value,
}

/// What is played.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub exports: Vec<Published>,
    /// CustomResourceDefinitions of the downstream cluster.
    pub definitions: Vec<Value>,
    /// Kinds that mappings render and no document defines; the cluster may serve them anyway.
    pub undefined: Vec<Kind>,
    pub operators: Vec<Arc<ToyOperator>>,
    /// What each consumer creates first: Secrets that an order refers to, and the like.
    pub companions: Vec<Value>,
    /// What each consumer orders.
    pub orders: Vec<Order>,
    /// Why something is not played, a sentence each.
    pub left_out: Vec<String>,
}

/// An API that the provider publishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Path of its workspace.
    pub path: String,
    /// Of the APIExport.
    pub name: String,
    /// As the story calls it.
    pub title: String,
    pub schemas: Vec<Value>,
    /// Group and plural of each permission claim.
    pub claims: Vec<(String, String)>,
}

/// An object that consumers create.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// `plural.version.group`
    pub resource: String,
    pub object: Value,
    /// Whether something is reported back.
    pub has_status: bool,
}

impl Script {
    /// A story of a visitor's mappings, from the documents beside them. `None` if these have no schema of what the mappings
    /// serve.
    ///
    /// # Errors
    /// Two different objects with one name, and an operator of a resource that no document defines.
    pub fn of(
        mappings: &[Arc<Mapping>],
        found: &[Found],
        operators: Vec<Arc<ToyOperator>>,
    ) -> Result<Option<Self>, String> {
        let mut script = Self::default();
        mappings.iter().try_for_each(|mapping| script.add(mapping, found))?;
        if script.exports.is_empty() {
            return Ok(None);
        }
        let served: Vec<Value> =
            script.undefined.iter().map(open_definition).chain(script.definitions.clone()).collect();
        for operator in operators {
            if served.iter().any(|definition| defines_resource(definition, &operator.resource)) {
                script.operators.push(operator);
            } else if !found.iter().any(|found| defines_resource(&found.document, &operator.resource)) {
                let ToyOperator { name, resource, .. } = &*operator;
                return Err(format!(
                    "ToyOperator `{name}`: no CustomResourceDefinition beside the mappings defines `{resource}`"
                ));
            }
        }
        Ok(Some(script))
    }

    fn add(&mut self, mapping: &Mapping, found: &[Found]) -> Result<(), String> {
        let SourceClusters::ApiExport(export) = &mapping.source.clusters else {
            self.leave_out(mapping, "its source is no APIExport");
            return Ok(());
        };
        let resource = &mapping.source.resource;
        let Some(schema) = found.iter().find(|found| is_schema_of(&found.document, resource)) else {
            self.leave_out(mapping, &format!("no APIResourceSchema of {resource} is there"));
            return Ok(());
        };
        self.publish(export, &schema.document, found);
        for kind in mapping.objects.iter().map(|rule| &rule.kind) {
            self.define(kind, found);
        }
        let kind = schema.document["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let kind = Kind::new(&resource.group, &resource.version, kind);
        let ordered: Vec<&Found> = found.iter().filter(|found| is_of(&found.document, &kind)).collect();
        if ordered.is_empty() {
            self.left_out.push(format!("no {} is there to be ordered", kind.kind));
        }
        for given in ordered {
            let is_namespaced = schema.document["spec"]["scope"] != "Cluster";
            let object = if is_namespaced { in_namespace(&given.document) } else { given.document.clone() };
            let has_status = reports(mapping, &schema.document);
            let order = Order { resource: resource.to_string(), object, has_status };
            match self.orders.iter().find(|known| is_same(known, &order)) {
                // Another mapping of the same resource, or the same file twice.
                Some(known) if known.object == order.object => {}
                Some(_) => {
                    let [namespace, name] = ["namespace", "name"].map(|field| text(&order.object["metadata"][field]));
                    let kind = &kind.kind;
                    return Err(format!("two different documents are {kind} {namespace}/{name}; rename one"));
                }
                None => self.orders.push(order),
            }
        }
        self.accompany(found, &kind);
        Ok(())
    }

    fn leave_out(&mut self, mapping: &Mapping, why: &str) {
        self.left_out.push(format!("mapping `{}` is not played: {why}", mapping.name));
    }

    fn publish(&mut self, export: &ApiExportRef, schema: &Value, found: &[Found]) {
        let path = export.path.clone().unwrap_or_else(|| "root:provider".to_owned());
        let title = schema["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let known = self.exports.iter_mut().find(|known| known.path == path && known.name == export.name);
        match known {
            Some(known) if known.schemas.contains(schema) => {}
            Some(known) => {
                known.title = format!("{}, {title}", known.title);
                known.schemas.push(schema.clone());
            }
            None => {
                let claims = claims(&export.name, found);
                let schemas = vec![schema.clone()];
                self.exports.push(Published { path, name: export.name.clone(), title, schemas, claims });
            }
        }
    }

    fn define(&mut self, kind: &Kind, found: &[Found]) {
        let definition = found.iter().find(|found| defines(&found.document, kind));
        match definition {
            Some(found) if self.definitions.contains(&found.document) => {}
            Some(found) => self.definitions.push(found.document.clone()),
            None if self.undefined.contains(kind) => {}
            None => self.undefined.push(kind.clone()),
        }
    }

    /// What lies beside an order, and is of a kind that every workspace has.
    fn accompany(&mut self, found: &[Found], ordered: &Kind) {
        let orders = found.iter().filter(|found| is_of(&found.document, ordered));
        let folders: BTreeSet<&Path> = orders.map(|found| found.folder.as_path()).collect();
        for beside in found.iter().filter(|found| folders.contains(found.folder.as_path())) {
            let everywhere = ["Secret", "ConfigMap"].iter().any(|kind| beside.document["kind"] == *kind);
            let companion = in_namespace(&beside.document);
            if everywhere && beside.document["apiVersion"] == "v1" && !self.companions.contains(&companion) {
                self.companions.push(companion);
            }
        }
    }
}

/// Whether a mapping writes a status; the engine's own conditions only where the schema has room for them.
fn reports(mapping: &Mapping, schema: &Value) -> bool {
    let version = mapping.source.resource.version.as_str();
    let mut versions = schema["spec"]["versions"].as_array().into_iter().flatten();
    let schema = versions.find(|known| known["name"] == version).map(|version| &version["schema"]);
    let has_conditions =
        schema.is_some_and(|schema| schema.pointer("/properties/status/properties/conditions").is_some());
    let rules = &mapping.status;
    !rules.fields.is_empty() || !rules.conditions.is_empty() || (has_conditions && !rules.engine_conditions.is_empty())
}

/// Whether two documents are of one object.
fn is_same(one: &Order, other: &Order) -> bool {
    let place = |order: &Order| ["namespace", "name"].map(|field| order.object["metadata"][field].clone());
    one.resource == other.resource && place(one) == place(other)
}

/// A document without a namespace stands in `default`, as for kubectl.
fn in_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "default".into();
    }
    object
}

/// Whether a document of a kind defines something in a version.
fn has_version(document: &Value, kind: &str, group: &str, version: &str) -> bool {
    let mut versions = document["spec"]["versions"].as_array().into_iter().flatten();
    document["kind"] == kind && document["spec"]["group"] == group && versions.any(|known| known["name"] == version)
}

fn is_schema_of(document: &Value, resource: &Resource) -> bool {
    has_version(document, "APIResourceSchema", &resource.group, &resource.version)
        && document["spec"]["names"]["plural"] == resource.plural
}

fn defines(document: &Value, kind: &Kind) -> bool {
    has_version(document, DEFINITION, &kind.group, &kind.version) && document["spec"]["names"]["kind"] == kind.kind
}

fn is_of(document: &Value, kind: &Kind) -> bool {
    document["kind"] == kind.kind && document["apiVersion"] == kind.api_version() && document["metadata"].is_object()
}

/// Whether a CustomResourceDefinition serves `plural.version.group`.
fn defines_resource(document: &Value, resource: &str) -> bool {
    let (plural, version, group) = parts(resource);
    has_version(document, DEFINITION, group, version) && document["spec"]["names"]["plural"] == plural
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What an APIExport document of this name asks for.
fn claims(name: &str, found: &[Found]) -> Vec<(String, String)> {
    let is_it = |found: &&Found| found.document["kind"] == "APIExport" && found.document["metadata"]["name"] == name;
    let claims = found.iter().find(is_it).and_then(|found| found.document["spec"]["permissionClaims"].as_array());
    let text = |value: &Value| text(value).to_owned();
    claims.into_iter().flatten().map(|claim| (text(&claim["group"]), text(&claim["resource"]))).collect()
}

/// A definition of a kind without fields of its own: whatever is written is kept.
pub fn open_definition(kind: &Kind) -> Value {
    let resource = format!("{}.{}.{}", kind.plural(), kind.version, kind.group);
    definition(&resource, &kind.kind, &anything())
}
