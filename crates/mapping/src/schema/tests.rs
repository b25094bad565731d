use serde_json::json;

use super::*;

const SCHEMA: &str = "
apiVersion: apis.kcp.io/v1alpha1
kind: APIResourceSchema
metadata: {name: v1.widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
    - name: v1
      subresources: {status: {}}
      schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              any: {}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}}}
              labels: {type: object, additionalProperties: {type: string}}
              pod: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
              port: {x-kubernetes-int-or-string: true}
              users: {type: array, items: {type: object, properties: {name: {type: string}}}}
          status:
            type: object
            required: [phase, connection, replicas, note]
            properties:
              phase: {type: string}
              replicas: {type: integer, default: 0}
              note: {type: string, nullable: true}
              connection:
                type: object
                required: [uri]
                properties: {uri: {type: string}, user: {type: string}}
              members:
                type: array
                items: {type: object, required: [host], properties: {host: {type: string}}}
---
kind: ConfigMap
";

fn widget() -> Schema {
    let mut schemas = Schemas::default();
    assert_eq!(schemas.add_file(SCHEMA.as_bytes()), []);
    let resource = Resource { group: "example.com".into(), version: "v1".into(), plural: "widgets".into() };
    let schema = schemas.resource(&resource).expect("added");
    // What consumers see is never taken for what the target has.
    assert!(schemas.kind(&schema.kind).is_none());
    (**schema).clone()
}

#[test]
fn paths() {
    let schema = widget();
    assert_eq!((schema.namespaced, schema.status_subresource), (Some(true), Some(true)));
    let present = |path: &str| schema.has_path(&path.split('.').collect::<Vec<_>>());
    for (pointer, presence) in
        [("/connection/uri", Some(true)), ("/connection/url", Some(false)), ("/connection/~1uri", Some(false))]
    {
        // Found out, and remembered.
        assert_eq!(schema.has_status(pointer), presence, "{pointer}");
    }
    for path in [
        "metadata",
        "metadata.labels.x",
        "spec.size",
        "spec.free.known",
        "spec.labels.a",
        "spec.users.*.name",
        "spec.users.0.name",
        "status.connection.uri",
    ] {
        assert_eq!(present(path), Some(true), "{path}");
    }
    for path in [
        "metadata.label",
        "spec.sice",
        "spec.size.x",
        "spec.labels.a.b",
        "spec.users.name",
        "spec.port.x",
        "status.conditions",
        "spec.pod.x",
        "other",
    ] {
        assert_eq!(present(path), Some(false), "{path}");
    }
    for path in ["spec.any.x", "spec.free.unknown.deep", "spec.pod.metadata.name"] {
        assert_eq!(present(path), None, "{path}");
    }
}

#[test]
fn required_leaves() {
    let missing = |status: Value| widget().required_missing(&status).join(" ");
    assert_eq!(missing(json!({})), "phase connection.uri note");
    assert_eq!(missing(json!({"phase": null, "note": null, "connection": {"user": "x"}})), "phase connection.uri");
    assert_eq!(
        missing(json!({"phase": "x", "note": "", "connection": {"uri": "x"}, "members": [{"host": "a"}, {}]})),
        "members[1].host"
    );
    assert_eq!(missing(json!({"phase": "x", "note": "", "connection": {"uri": "x"}})), "");
}

#[test]
fn custom_resource_definitions() {
    let crd = json!({"kind": "CustomResourceDefinition", "spec": {
        "group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Cluster",
        "versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}},
            {"name": "v2"},
        ],
    }});
    let mut schemas = Schemas::default();
    assert_eq!(schemas.add_file(crd.to_string().as_bytes()), []);
    let kind = |version: &str| Kind::new("example.com", version, "Widget");
    let schema = schemas.kind(&kind("v1")).expect("added");
    assert_eq!((schema.namespaced, schema.status_subresource), (Some(false), Some(false)));
    assert_eq!(schema.has_path(&["status"]), Some(false));
    assert!(schemas.kind(&kind("v2")).is_none());
}

/// An operator's API that is offered under its own name, as api-syncagent does.
#[test]
fn consumers_and_target_may_have_different_schemas_of_one_kind() {
    let crd = |more: &str| {
        json!({"kind": "CustomResourceDefinition", "spec": {
            "group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced",
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {more: {}}}}}],
        }})
        .to_string()
    };
    let (one, other) = (crd("one"), crd("other"));
    let short = "
apiVersion: sync-engine.dev/v1alpha1
kind: ApiSchema
metadata: {name: widgets}
spec:
  resource: widgets.v1.example.com
  kind: Widget
  spec: {size: integer}
";
    for order in [[&*one, &*other, short], [&*one, short, &*other], [short, &*one, &*other]] {
        let mut schemas = Schemas::default();
        let findings: Vec<_> = order.iter().flat_map(|file| schemas.add_file(file.as_bytes())).collect();
        assert_eq!(findings, []);
        let kind = Kind::new("example.com", "v1", "Widget");
        let sized = |schema: Option<&Arc<Schema>>| schema.expect("added").has_path(&["spec", "size"]);
        assert_eq!(sized(schemas.resource(&kind.resource("widgets"))), Some(true));
        assert_eq!(sized(schemas.kind(&kind)), Some(false));
    }
}

#[test]
fn openapi_documents() {
    let document = json!({"openapi": "3.0.0", "components": {"schemas": {
        "io.k8s.Spec": {"type": "object", "properties": {"size": {"type": "integer"}, "again": {"$ref": "#/components/schemas/io.k8s.Spec"}}},
        "io.k8s.Last": {"type": "object", "required": ["of"], "properties": {"of": {"$ref": "#/components/schemas/io.k8s.Spec"}}},
        "io.k8s.Loop": {"$ref": "#/components/schemas/io.k8s.Loop"},
        "io.k8s.Thing": {
            "type": "object",
            "properties": {
                "spec": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.Spec"}]},
                "loop": {"$ref": "#/components/schemas/io.k8s.Loop"},
                "status": {"required": ["last"], "properties": {"last": {"$ref": "#/components/schemas/io.k8s.Last"}}},
            },
            "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Thing"}],
        },
    }}});
    let mut schemas = Schemas::default();
    schemas.add_file(document.to_string().as_bytes());
    let schema = schemas.kind(&Kind::new("apps", "v1", "Thing")).expect("added");
    assert_eq!(schema.has_path(&["spec", "again", "again", "size"]), Some(true));
    assert_eq!(schema.has_path(&["spec", "sice"]), Some(false));
    assert_eq!(schema.has_path(&["loop", "x"]), None);

    let of_status = schema.of_status();
    assert_eq!(of_status.has_path(&["spec"]), Some(false));
    for schema in [schema, &of_status] {
        assert_eq!(schema.has_status("/last/of/again/size"), Some(true));
        assert_eq!(schema.has_status("/last/on"), Some(false));
        assert_eq!(schema.required_missing(&json!({})), ["last.of"]);
    }
    let kept = of_status.definitions.as_object().expect("a map");
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["io.k8s.Last", "io.k8s.Spec"]);
}
