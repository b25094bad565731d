//! Schemas of the kinds that a server brings itself: their fields and types, and how their lists merge.

use serde_json::{Map, Value, json};

/// The schema of a built-in kind; of kcp's kinds only that they have a spec and a status.
pub(super) fn document(kind: &str) -> Value {
    let (string, flag, number) = (json!({"type": "string"}), json!({"type": "boolean"}), json!({"type": "integer"}));
    let (texts, strings) = (json!({"type": "object", "additionalProperties": string}), list(&string));
    match kind {
        "Namespace" => object(&[
            ("spec", object(&[("finalizers", strings)])),
            ("status", object(&[("phase", string), ("conditions", by("type"))])),
        ]),
        "ConfigMap" => object(&[("data", texts.clone()), ("binaryData", texts), ("immutable", flag)]),
        "Secret" => object(&[("data", texts.clone()), ("stringData", texts), ("type", string), ("immutable", flag)]),
        "ServiceAccount" => object(&[
            ("secrets", by_whole("name")),
            ("imagePullSecrets", list(&anything())),
            ("automountServiceAccountToken", flag),
        ]),
        "Role" => object(&[("rules", rules(&strings))]),
        "ClusterRole" => object(&[
            ("rules", rules(&strings)),
            ("aggregationRule", object(&[("clusterRoleSelectors", list(&anything()))])),
        ]),
        "RoleBinding" | "ClusterRoleBinding" => {
            let fields = ["apiGroup", "kind", "name", "namespace"].map(|field| (field, string.clone()));
            object(&[("subjects", list(&object(&fields))), ("roleRef", whole(object(&fields[..3])))])
        }
        "Lease" => {
            let texts = ["holderIdentity", "acquireTime", "renewTime", "strategy", "preferredHolder"];
            let numbers = ["leaseDurationSeconds", "leaseTransitions"];
            let texts = texts.map(|field| (field, string.clone()));
            let numbers = numbers.map(|field| (field, number.clone()));
            object(&[("spec", object(&[&texts[..], &numbers[..]].concat()))])
        }
        "Event" => event(&string, &number),
        "CustomResourceDefinition" => definition(&string, &strings),
        _ => object(&[("spec", anything()), ("status", anything())]),
    }
}

fn rules(strings: &Value) -> Value {
    let fields = ["apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs"];
    list(&object(&fields.map(|field| (field, strings.clone()))))
}

/// Both of the core group and of `events.k8s.io`, whose fields have other names.
fn event(string: &Value, number: &Value) -> Value {
    let texts = [
        "action",
        "eventTime",
        "firstTimestamp",
        "lastTimestamp",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "message",
        "note",
        "reason",
        "reportingComponent",
        "reportingController",
        "reportingInstance",
        "type",
    ];
    let source = object(&[("component", string.clone()), ("host", string.clone())]);
    let series = object(&[("count", number.clone()), ("lastObservedTime", string.clone())]);
    let mut fields: Vec<(&str, Value)> =
        texts.iter().map(|field| (*field, json!({"type": "string", "nullable": true}))).collect();
    fields.extend(["count", "deprecatedCount"].map(|field| (field, number.clone())));
    fields.extend(["involvedObject", "regarding", "related"].map(|field| (field, whole(anything()))));
    fields.extend([("source", source.clone()), ("deprecatedSource", source), ("series", series)]);
    object(&fields)
}

fn definition(string: &Value, strings: &Value) -> Value {
    let names = object(&[
        ("plural", string.clone()),
        ("singular", string.clone()),
        ("kind", string.clone()),
        ("listKind", string.clone()),
        ("shortNames", strings.clone()),
        ("categories", strings.clone()),
    ]);
    let spec = object(&[
        ("group", string.clone()),
        ("scope", string.clone()),
        ("names", names.clone()),
        ("versions", list(&anything())),
        ("preserveUnknownFields", json!({"type": "boolean"})),
        ("conversion", object(&[("strategy", string.clone()), ("webhook", anything())])),
    ]);
    let status = object(&[
        ("acceptedNames", names),
        ("conditions", by("type")),
        ("storedVersions", strings.clone()),
        ("observedGeneration", json!({"type": "integer"})),
    ]);
    object(&[("spec", spec), ("status", status)])
}

fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| (name.to_string(), schema.clone())).collect();
    json!({"type": "object", "properties": properties})
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// A list whose items are told apart by one field.
fn by(key: &str) -> Value {
    let items = json!({
        "type": "object", "properties": {key: {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true,
    });
    json!({
        "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
    })
}

/// The same, where each item is one value.
fn by_whole(key: &str) -> Value {
    let mut list = by(key);
    list["items"]["x-kubernetes-map-type"] = "atomic".into();
    list
}

/// A structure that is one value.
fn whole(mut schema: Value) -> Value {
    schema["x-kubernetes-map-type"] = "atomic".into();
    schema
}
