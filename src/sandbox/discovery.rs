//! What clients ask to learn what is served: versions, groups, resources and their schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::reply::Answer;
use super::request::{Endpoint, Place};
use super::resource::{Resource, Version, api_version};
use super::state::State;
use super::status::Failure;

impl State {
    /// Answers everything that is neither health nor a resource.
    pub(super) fn discover(&self, place: &Place, endpoint: &Endpoint) -> Result<Answer, Failure> {
        if *endpoint == Endpoint::Version {
            return Ok(Answer::value(200, &version()));
        }
        let served = match place {
            Place::Virtual { provider, export, cluster: Some(_) } => self.virtual_resources(provider, export)?,
            Place::Virtual { .. } => {
                return Err(Failure::status(403, "Forbidden", "Path not resolved to a valid virtual workspace"));
            }
            place => self.all_served(&self.cluster_at(place)?),
        };
        let body = match endpoint {
            Endpoint::CoreVersions => json!({
                "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
            }),
            Endpoint::Groups => {
                let groups = group_versions(&served).into_iter().filter(|(name, _)| !name.is_empty());
                let groups: Vec<Value> = groups.map(|(name, versions)| group(&name, &versions)).collect();
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            }
            Endpoint::Group(name) => {
                let versions = group_versions(&served).remove(name).filter(|_| !name.is_empty());
                let mut body = group(name, &versions.ok_or(Failure::PageNotFound)?);
                body["kind"] = "APIGroup".into();
                body["apiVersion"] = "v1".into();
                body
            }
            Endpoint::GroupVersion { group, version } => resource_list(&served, group, version)?,
            Endpoint::OpenApiIndex => open_api_index(&served),
            Endpoint::OpenApi { group, version } => open_api(&served, group, version)?,
            _ => return Err(Failure::PageNotFound),
        };
        Ok(Answer::value(200, &body))
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.0+sandbox", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "sandbox",
    })
}

/// Versions of each group, the preferred one first.
fn group_versions(served: &[Arc<Resource>]) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for resource in served {
        let versions = groups.entry(resource.group.to_string()).or_default();
        for version in &resource.versions {
            if !versions.contains(&version.name.to_string()) {
                versions.push(version.name.to_string());
            }
        }
    }
    groups
}

fn group(name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions[0]})
}

/// Resources of one group and version.
fn of_version<'a>(
    served: &'a [Arc<Resource>],
    group: &str,
    version: &str,
) -> Result<Vec<(&'a Resource, &'a Version)>, Failure> {
    let in_group = served.iter().filter(|resource| &*resource.group == group);
    let found: Vec<_> = in_group.filter_map(|resource| Some((&**resource, resource.version(version)?))).collect();
    if found.is_empty() { Err(Failure::PageNotFound) } else { Ok(found) }
}

fn resource_list(served: &[Arc<Resource>], group: &str, version: &str) -> Result<Value, Failure> {
    let mut resources = Vec::new();
    for (resource, version) in of_version(served, group, version)? {
        resources.push(api_resource(resource));
        if version.status {
            resources.push(json!({
                "name": format!("{}/status", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "kind": *resource.kind, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version), "resources": resources,
    }))
}

fn api_resource(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": *resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": *resource.kind,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    entry
}

fn open_api_index(served: &[Arc<Resource>]) -> Value {
    let mut paths = Map::new();
    for (group, versions) in group_versions(served) {
        for version in versions {
            let path = version_path(&group, &version);
            paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=0")}));
        }
    }
    json!({"paths": paths})
}

fn open_api(served: &[Arc<Resource>], group: &str, version: &str) -> Result<Value, Failure> {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for (resource, version) in of_version(served, group, version)? {
        schemas.insert(schema_name(resource, &version.name), schema(resource, version));
        for collection in collection_paths(resource, &version.name) {
            paths.insert(collection, json!({"get": list_operation(resource, version)}));
        }
        paths.insert(object_path(resource, &version.name), json!({"patch": patch_operation(resource, version)}));
    }
    Ok(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

/// The schema with the identity that every object has.
fn schema(resource: &Resource, version: &Version) -> Value {
    let mut schema = version.document.clone();
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    if schema["properties"].is_object() {
        schema["properties"]["apiVersion"] = json!({"type": "string"});
        schema["properties"]["kind"] = json!({"type": "string"});
        schema["properties"]["metadata"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    schema["x-kubernetes-group-version-kind"] = json!([kind_of(resource, version)]);
    schema
}

/// Says which parameters a write takes: kubectl looks whether the server validates fields.
fn patch_operation(resource: &Resource, version: &Version) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    json!({
        "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"), parameter("force")],
        "responses": {},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind_of(resource, version),
    })
}

/// Says which kind a collection holds: the only tie between a plural and its schema.
fn list_operation(resource: &Resource, version: &Version) -> Value {
    json!({
        "responses": {},
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": kind_of(resource, version),
    })
}

fn kind_of(resource: &Resource, version: &Version) -> Value {
    json!({"group": *resource.group, "version": *version.name, "kind": *resource.kind})
}

fn version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Of all namespaces, and of one.
fn collection_paths(resource: &Resource, version: &str) -> Vec<String> {
    let base = version_path(&resource.group, version);
    let everywhere = format!("/{base}/{}", resource.plural);
    let in_namespace = resource.namespaced.then(|| format!("/{base}/namespaces/{{namespace}}/{}", resource.plural));
    std::iter::once(everywhere).chain(in_namespace).collect()
}

fn object_path(resource: &Resource, version: &str) -> String {
    let collection = collection_paths(resource, version).pop().unwrap_or_default();
    format!("{collection}/{{name}}")
}

/// `com.example.v1.Thing`, `io.k8s.api.core.v1.Secret`.
fn schema_name(resource: &Resource, version: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').filter(|part| !part.is_empty()).collect();
    let group = if group.is_empty() { "io.k8s.api.core".to_owned() } else { group.join(".") };
    format!("{group}.{version}.{}", resource.kind)
}
