//! What clients ask to learn what is served: versions, groups, resources and their schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::openapi;
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
            Endpoint::OpenApiIndex => openapi::index(&served),
            Endpoint::OpenApi { group, version } => openapi::document(&served, group, version)?,
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
pub(super) fn group_versions(served: &[Arc<Resource>]) -> BTreeMap<String, Vec<String>> {
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
pub(super) fn of_version<'a>(
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

/// In the order of built-in kinds, and in that of custom resources.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

fn api_resource(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": *resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": *resource.kind,
        "verbs": if resource.custom { CUSTOM_VERBS } else { VERBS },
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    entry
}
