//! OpenAPI v3: what `kubectl explain` prints, and what `kubectl apply` computes its patches from.

mod schemas;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::discovery::{group_versions, of_version};
use super::resource::Resource;
use super::status::Failure;
use schemas::Schemas;
use sync_engine_mapping::hash::tuple_hash;

/// The groups and versions that have a document, and where it is.
pub(super) fn index(served: &[Arc<Resource>]) -> Value {
    let mut paths = Map::new();
    for (group, versions) in group_versions(served) {
        for version in versions {
            let path = version_path(&group, &version);
            let hash = hash(served, &group, &version);
            paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}));
        }
    }
    json!({"paths": paths})
}

/// Another one whenever the document of a group and version is another.
fn hash(served: &[Arc<Resource>], group: &str, version: &str) -> String {
    let resources = of_version(served, group, version).unwrap_or_default();
    let texts = resources.into_iter().flat_map(|(resource, version)| {
        [resource.plural.to_string(), resource.kind.to_string(), version.document.to_string()]
    });
    let texts: Vec<String> = texts.collect();
    tuple_hash(texts.iter().map(String::as_str), 20)
}

/// The document of a group and version: what its kinds look like, and what can be done to them.
pub(super) fn document(served: &[Arc<Resource>], group: &str, version: &str) -> Result<Value, Failure> {
    let (mut paths, mut schemas) = (Map::new(), Schemas::new());
    let base = version_path(group, version);
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    // Which parameters a write takes: kubectl looks whether the server validates fields.
    let parameters = ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter);
    for (resource, version) in of_version(served, group, version)? {
        let kind = json!({"group": *resource.group, "version": *version.name, "kind": *resource.kind});
        // Which kind a collection holds: the only tie between a plural and its schema.
        let list = json!({"responses": {}, "x-kubernetes-action": "list", "x-kubernetes-group-version-kind": kind});
        let mut patch = list.clone();
        patch["x-kubernetes-action"] = "patch".into();
        patch["parameters"] = json!(parameters);
        let mut collection = format!("/{base}/{}", resource.plural);
        paths.insert(collection.clone(), json!({"get": list}));
        if resource.namespaced {
            collection = format!("/{base}/namespaces/{{namespace}}/{}", resource.plural);
            paths.insert(collection.clone(), json!({"get": list}));
        }
        paths.insert(format!("{collection}/{{name}}"), json!({"patch": patch}));
        schemas.add(resource, version, kind);
    }
    Ok(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths, "components": {"schemas": schemas.into_components()},
    }))
}

/// `api/v1`, `apis/apps/v1`.
pub(super) fn version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}
