//! The part of an OpenAPI v3 document that describes given kinds.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::mapping::{Kind, Resource};

/// The kinds, what they refer to, and the collections they are served at. `None`: it knows none of them.
pub fn excerpt(document: &Value, kinds: &[(Kind, Resource)]) -> Option<Value> {
    let all = document["components"]["schemas"].as_object()?;
    let mut wanted: Vec<&str> = all
        .iter()
        .filter(|(_, schema)| kinds.iter().any(|(kind, _)| describes(schema, kind)))
        .map(|(name, _)| name.as_str())
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let mut schemas = Map::new();
    while let Some(name) = wanted.pop() {
        let Some(schema) = all.get(name).filter(|_| !schemas.contains_key(name)) else { continue };
        let mut references = BTreeSet::new();
        collect(schema, &mut references);
        wanted.extend(references);
        schemas.insert(name.to_owned(), schema.clone());
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

fn collect<'v>(schema: &'v Value, found: &mut BTreeSet<&'v str>) {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
            found.extend(reference);
            fields.values().for_each(|below| collect(below, found));
        }
        Value::Array(items) => items.iter().for_each(|below| collect(below, found)),
        _ => {}
    }
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
