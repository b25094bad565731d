//! The part of an OpenAPI v3 document that describes given kinds.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::mapping::schema::referenced;
use crate::mapping::{Kind, Resource};

/// The kinds, what they refer to, and the collections they are served at. `None`: it knows none of them.
pub fn excerpt(document: &Value, kinds: &[(Kind, Resource)]) -> Option<Value> {
    let all = &document["components"]["schemas"];
    let mut schemas = BTreeMap::new();
    for (name, schema) in all.as_object()? {
        if kinds.iter().any(|(kind, _)| describes(schema, kind)) {
            schemas.insert(name.as_str(), schema);
            referenced(all, schema, &mut schemas);
        }
    }
    if schemas.is_empty() {
        return None;
    }
    let collections = document["paths"].as_object().into_iter().flatten().filter(|(path, operations)| {
        let plural = path.rsplit('/').next().unwrap_or_default();
        operations["get"]["x-kubernetes-action"] == "list"
            && kinds.iter().any(|(_, resource)| resource.plural == plural)
    });
    let paths: Map<String, Value> =
        collections.map(|(path, operations)| (path.clone(), collection(operations))).collect();
    Some(
        json!({"openapi": document["openapi"], "info": document["info"], "paths": paths, "components": {"schemas": schemas}}),
    )
}

fn describes(schema: &Value, kind: &Kind) -> bool {
    let kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
    kinds
        .into_iter()
        .any(|one| one["group"] == kind.group && one["version"] == kind.version && one["kind"] == kind.kind)
}

/// What tells the kind of a collection.
fn collection(operations: &Value) -> Value {
    let get = &operations["get"];
    json!({"get": {
        "x-kubernetes-action": get["x-kubernetes-action"],
        "x-kubernetes-group-version-kind": get["x-kubernetes-group-version-kind"],
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_comes_with_what_it_refers_to_and_nothing_else() {
        let gvk = |kind: &str| json!([{"group": "", "version": "v1", "kind": kind}]);
        let document = json!({
            "openapi": "3.0.0", "info": {"title": "x"},
            "paths": {
                "/api/v1/secrets": {"get": {"x-kubernetes-action": "list", "tags": [1],
                    "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Secret"}}},
                "/api/v1/pods": {"get": {"x-kubernetes-action": "list"}},
            },
            "components": {"schemas": {
                "Secret": {"x-kubernetes-group-version-kind": gvk("Secret"), "properties": {"metadata": {"$ref": "#/components/schemas/Meta"}}},
                "Meta": {"properties": {"owner": {"allOf": [{"$ref": "#/components/schemas/Owner"}]}}},
                "Owner": {"type": "object"},
                "Pod": {"x-kubernetes-group-version-kind": gvk("Pod")},
            }},
        });
        let kind = Kind::new("", "v1", "Secret");
        let resource = Resource { group: String::new(), version: "v1".into(), plural: "secrets".into() };
        let found = excerpt(&document, &[(kind.clone(), resource.clone())]).expect("it is there");
        let names: Vec<_> = found["components"]["schemas"].as_object().expect("schemas").keys().collect();
        assert_eq!(names, ["Meta", "Owner", "Secret"]);
        assert_eq!(found["paths"].as_object().expect("paths").len(), 1);
        let mut schemas = crate::mapping::schema::Schemas::default();
        schemas.add_openapi(&found);
        assert_eq!(schemas.resource_of(&kind), Some(&resource));
        let other = Kind::new("", "v1", "Node");
        assert_eq!(excerpt(&document, &[(other, resource)]), None);
    }
}
