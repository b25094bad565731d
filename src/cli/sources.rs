//! Consumer objects from files, and the mapping that takes each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::Value;

use super::arguments::DEFAULT_ENGINE;
use super::{Misconfigured, inputs};
use crate::catalog::Catalog;
use crate::mapping::diagnostic::Diagnostic;
use crate::mapping::names::is_label_value;
use crate::mapping::schema::{Field, Schema, Schemas, View};
use crate::mapping::{GENERATED, Kind, Mapping, SourceClusters};
use crate::object::{ClusterName, is_dns_label, is_dns_subdomain, metadata, with_namespace};
use crate::plan::preview::{SETTLED, Scene};
use crate::sandbox::schema::Schema as Structural;
use crate::sandbox::{Cause, normalise_numbers};
use crate::yaml;

/// The objects of a file: YAML documents, JSON, or a `List` of either.
///
/// # Errors
/// When it cannot be read, or holds something else.
pub(super) fn objects(path: &Path) -> Result<Vec<Value>, Misconfigured> {
    let (content, file) = (inputs::file(path)?, path.display().to_string());
    let mut objects = Vec::new();
    for document in yaml::parse_within(&content, yaml::Limits::SCHEMAS) {
        let root = document.root.map(|root| root.to_json());
        let Some(root) = root.filter(|_| document.findings.is_empty()) else {
            let shown = |finding| format!("\n\n{}", Diagnostic::new(finding, &file, &content).render(false));
            let why: String = document.findings.into_iter().map(shown).collect();
            return Err(Misconfigured(format!("`{file}` holds no Kubernetes object{why}")));
        };
        match root.get("items").and_then(Value::as_array) {
            Some(items) if text(&root, "kind").ends_with("List") => objects.extend(items.iter().cloned()),
            _ => objects.push(root),
        }
    }
    match objects.iter().find(|object| !is_object(object)) {
        None => Ok(objects),
        Some(_) => Err(Misconfigured(format!(
            "`{file}` holds no Kubernetes object: `apiVersion`, `kind` and `metadata.name` are needed"
        ))),
    }
}

/// The objects of several files, in their order.
///
/// # Errors
/// As [`objects`].
pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<Value>, Misconfigured> {
    Ok(paths.iter().map(|path| objects(path)).collect::<Result<Vec<_>, _>>()?.concat())
}

/// Whether a value has what every object of Kubernetes has.
pub(super) fn is_object(object: &Value) -> bool {
    !text(object, "apiVersion").is_empty() && !text(object, "kind").is_empty() && object["metadata"].is_object()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// `MongoDBCommunity default/my-database`
pub(super) fn title(object: &Value) -> String {
    let name = with_namespace(metadata(object, "namespace"), metadata(object, "name"));
    format!("{} {name}", text(object, "kind"))
}

/// Mappings whose source an object can be: all of its group and version whose kind fits the resource's name.
pub(super) fn takers<'c>(catalog: &'c Catalog, schemas: &Schemas, object: &Value) -> Vec<&'c Arc<Mapping>> {
    let mappings = catalog.mappings().map(|(_, entry)| &entry.mapping);
    mappings.filter(|mapping| takes(mapping, schemas, object)).collect()
}

/// Whether an object can be a source of a mapping.
pub(super) fn takes(mapping: &Mapping, schemas: &Schemas, object: &Value) -> bool {
    let resource = &mapping.source.resource;
    let kind = text(object, "kind");
    let fits = match schemas.resource(resource) {
        Some(schema) => schema.kind.kind == kind,
        None => resource.may_serve(kind),
    };
    resource.api_version() == text(object, "apiVersion") && fits
}

/// The sources of a file, and what mappings read beside them: Secrets, for example.
pub(super) fn apart(catalog: &Catalog, schemas: &Schemas, objects: Vec<Value>) -> (Vec<Value>, Vec<Arc<Value>>) {
    let is_read = |object: &Value| {
        let mut mappings = catalog.mappings().map(|(_, entry)| &entry.mapping);
        takers(catalog, schemas, object).is_empty() && mappings.any(|mapping| reads(mapping, object))
    };
    let (beside, sources): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_read);
    (sources, beside.into_iter().map(Arc::new).collect())
}

/// Whether an object can be one of a mapping's related objects.
pub(super) fn reads(mapping: &Mapping, object: &Value) -> bool {
    mapping.related.iter().any(|rule| rule.resource.may_have(object))
}

/// A source as its API server would store it: in a namespace, with the defaults of its schema.
///
/// # Errors
/// What the API server would refuse it for.
fn admitted(mut object: Value, mapping: &Mapping, schemas: &Schemas) -> Result<Value, Misconfigured> {
    normalise_numbers(&mut object);
    let Some(schema) = schemas.resource(&mapping.source.resource) else { return Ok(object) };
    if schema.namespaced == Some(true) && metadata(&object, "namespace").is_empty() {
        object["metadata"]["namespace"] = "default".into();
    }
    let structural = Structural::compile(schema.document());
    structural.fill_defaults(&mut object);
    accepted(&object, &structural, |_| true)?;
    Ok(object)
}

/// Objects as they are in a cluster. They may leave out required fields; what they contain must be valid.
///
/// # Errors
/// What the API server would refuse one for.
pub(super) fn check_observed(objects: &[Value], schemas: &Schemas) -> Result<(), Misconfigured> {
    objects.iter().try_for_each(|object| {
        let Some(schema) = schemas.kind(&kind_of(object)) else { return Ok(()) };
        accepted(object, &Structural::compile(schema.document()), |cause| cause.reason != "FieldValueRequired")
    })
}

/// The same of objects that somebody wrote by hand, with [`check_fields`].
///
/// # Errors
/// What the API server would refuse one for.
pub(super) fn check_written(objects: &[Value], schemas: &Schemas) -> Result<(), Misconfigured> {
    objects.iter().try_for_each(|object| check_fields(object, schemas.kind(&kind_of(object))))?;
    check_observed(objects, schemas)
}

/// That its schema has every field of an object. `kubectl apply` has the server refuse others, which it would drop: nothing
/// would tell that a name is misspelt.
///
/// # Errors
/// The fields that the schema does not have.
pub(super) fn check_fields(object: &Value, schema: Option<&Arc<Schema>>) -> Result<(), Misconfigured> {
    let mut unknown = Vec::new();
    if let Some(schema) = schema {
        unknown_fields(object, schema.view(), "", &mut unknown);
    }
    refused(object, &unknown)
}

fn unknown_fields(value: &Value, view: View, path: &str, unknown: &mut Vec<String>) {
    let dot = if path.is_empty() { "" } else { "." };
    for (name, below) in value.as_object().into_iter().flatten() {
        let path = format!("{path}{dot}{name}");
        match view.field(name) {
            Field::Known(view) => unknown_fields(below, view, &path, unknown),
            Field::Open => {}
            Field::Unknown => {
                let names: Vec<_> = view.fields().map(|(name, _)| name).collect();
                let meant = yaml::meant(name, &names).map(|meant| format!("; {meant}")).unwrap_or_default();
                unknown.push(format!("{path}: unknown field{meant}"));
            }
        }
    }
    let Some(item) = view.item() else { return };
    for (index, below) in value.as_array().into_iter().flatten().enumerate() {
        unknown_fields(below, item, &format!("{path}[{index}]"), unknown);
    }
}

/// That the bytes of a Secret or ConfigMap are base64, as an API server wants them.
///
/// # Errors
/// The keys whose values are none.
pub(super) fn check_bytes(object: &Value) -> Result<(), Misconfigured> {
    refused(object, &without_base64(object))
}

fn without_base64(object: &Value) -> Vec<String> {
    let (field, of_text) = match (text(object, "apiVersion"), text(object, "kind")) {
        ("v1", "Secret") => ("data", "stringData"),
        ("v1", "ConfigMap") => ("binaryData", "data"),
        _ => return Vec::new(),
    };
    let is_encoded = |value: &Value| match value.as_str() {
        // Random text is shown in words.
        Some(text) if BASE64.encode(text.as_bytes()) == GENERATED => true,
        Some(text) => BASE64.decode(text.replace(['\r', '\n'], "").as_bytes()).is_ok(),
        None => value.is_null(),
    };
    let wrong = object[field].as_object().into_iter().flatten().filter(|(_, value)| !is_encoded(value));
    wrong.map(|(key, _)| format!("{field}.{key}: no base64; text goes into `{of_text}`")).collect()
}

/// A rendered object, as its API server would store it.
///
/// # Errors
/// What the API server would refuse it for.
pub(super) fn check_rendered(object: &Value, schemas: &Schemas) -> Result<(), Misconfigured> {
    // Without a schema, what holds for objects of every kind.
    let schema = schemas.kind(&kind_of(object));
    let structural = Structural::compile(schema.map_or(&Value::Null, |schema| schema.document()));
    let mut object = object.clone();
    structural.fill_defaults(&mut object);
    accepted(&object, &structural, |_| true)
}

fn kind_of(object: &Value) -> Kind {
    let (group, version) = text(object, "apiVersion").rsplit_once('/').unwrap_or(("", text(object, "apiVersion")));
    Kind::new(group, version, text(object, "kind"))
}

fn accepted(object: &Value, schema: &Structural, counts: impl Fn(&Cause) -> bool) -> Result<(), Misconfigured> {
    let mut object = object.clone();
    normalise_numbers(&mut object);
    let (namespace, name) = (metadata(&object, "namespace"), metadata(&object, "name"));
    let mut why = without_base64(&object);
    // RBAC's names may have a `:`, as `system:controller` has.
    let is_rbac = text(&object, "apiVersion").starts_with("rbac.authorization.k8s.io/");
    if !name.is_empty() && !is_rbac && !is_dns_subdomain(name) {
        why.push(format!("metadata.name: `{name}` is no DNS-1123 subdomain name"));
    }
    if !namespace.is_empty() && !is_dns_label(namespace) {
        why.push(format!("metadata.namespace: `{namespace}` is no DNS-1123 label"));
    }
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter(|(_, value)| !value.is_null() && !value.as_str().is_some_and(is_label_value));
    why.extend(labels.map(|(key, value)| format!("metadata.labels.{key}: {value} is no label's value")));
    let causes = schema.validate(&object).into_iter().filter(counts);
    why.extend(causes.map(|cause| format!("{}: {}", cause.field, cause.message)));
    refused(&object, &why)
}

fn refused(object: &Value, why: &[String]) -> Result<(), Misconfigured> {
    match why {
        [] => Ok(()),
        why => Err(Misconfigured(format!("an API server would refuse {}:\n  {}", title(object), why.join("\n  ")))),
    }
}

/// A source for a preview, with nothing around it, in the workspace that is meant where none is given.
///
/// # Errors
/// What the API server would refuse the source for.
pub(super) fn scene(source: Value, mapping: &Mapping, schemas: &Schemas) -> Result<Scene, Misconfigured> {
    let cluster = match mapping.source.clusters {
        SourceClusters::ApiExport(_) => "workspace",
        SourceClusters::Provider(_) => "cluster",
    };
    Ok(Scene {
        engine: DEFAULT_ENGINE.to_owned(),
        cluster: ClusterName::try_from(cluster).map_err(|error| Misconfigured(error.to_string()))?,
        workspace_path: None,
        source: Arc::new(admitted(source, mapping, schemas)?),
        standing: Vec::new(),
        related: Vec::new(),
        schema: schemas.resource(&mapping.source.resource).cloned(),
        steps: SETTLED,
    })
}
