//! Schemas of the kinds that a server brings itself, as Kubernetes documents them, and how their lists merge.

use k8s_openapi::api::{coordination, core, rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// Fields of kinds, by JSON pointer, that merge otherwise than field by field. k8s-openapi leaves this out.
const MERGED: [(&str, &str, Merge); 7] = [
    ("Namespace", "/status/conditions", Merge::Items("type")),
    ("ServiceAccount", "/secrets", Merge::WholeItems("name")),
    ("RoleBinding", "/roleRef", Merge::Whole),
    ("ClusterRoleBinding", "/roleRef", Merge::Whole),
    ("Event", "/involvedObject", Merge::Whole),
    ("Event", "/related", Merge::Whole),
    ("CustomResourceDefinition", "/status/conditions", Merge::Items("type")),
];

enum Merge {
    /// A structure is one value.
    Whole,
    /// The items of a list are told apart by one field.
    Items(&'static str),
    /// The same, where each item is one value.
    WholeItems(&'static str),
}

/// Adds the schema of a built-in kind to what a generator knows. Gives the schema, or a reference to it, and its name.
pub(super) fn generate(generator: &mut SchemaGenerator, group: &str, kind: &str) -> Option<(Value, String)> {
    fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> (Value, String) {
        (generator.subschema_for::<T>().to_value(), T::schema_name().into_owned())
    }
    Some(match (group, kind) {
        ("", "Namespace") => of::<core::v1::Namespace>(generator),
        ("", "ConfigMap") => of::<core::v1::ConfigMap>(generator),
        ("", "Secret") => of::<core::v1::Secret>(generator),
        ("", "ServiceAccount") => of::<core::v1::ServiceAccount>(generator),
        ("", "ResourceQuota") => of::<core::v1::ResourceQuota>(generator),
        ("", "Event") => of::<core::v1::Event>(generator),
        ("rbac.authorization.k8s.io", "Role") => of::<rbac::v1::Role>(generator),
        ("rbac.authorization.k8s.io", "RoleBinding") => of::<rbac::v1::RoleBinding>(generator),
        ("rbac.authorization.k8s.io", "ClusterRole") => of::<rbac::v1::ClusterRole>(generator),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => of::<rbac::v1::ClusterRoleBinding>(generator),
        ("coordination.k8s.io", "Lease") => of::<coordination::v1::Lease>(generator),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            of::<apiextensions::v1::CustomResourceDefinition>(generator)
        }
        _ => return None,
    })
}

/// The structural schema of a built-in kind; of kcp's kinds only that they have a spec and a status.
pub(super) fn document(group: &str, kind: &str) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let Some((mut schema, _)) = generate(&mut settings.into_generator(), group, kind) else {
        return json!({"type": "object", "properties": {"spec": anything, "status": anything}});
    };
    simplify(&mut schema);
    for field in ["apiVersion", "kind", "metadata"] {
        schema["properties"].as_object_mut().map(|fields| fields.remove(field));
    }
    for (_, pointer, merge) in MERGED.iter().filter(|(of, ..)| *of == kind) {
        let Some(field) = schema.pointer_mut(&pointer.replace('/', "/properties/")) else { continue };
        match merge {
            Merge::Whole => field["x-kubernetes-map-type"] = "atomic".into(),
            Merge::Items(key) | Merge::WholeItems(key) => {
                field["x-kubernetes-list-type"] = "map".into();
                field["x-kubernetes-list-map-keys"] = json!([key]);
                if let Merge::WholeItems(_) = merge {
                    field["items"]["x-kubernetes-map-type"] = "atomic".into();
                }
            }
        }
    }
    schema
}

/// Built-in kinds have rules of their own for what is required. A place without a type, or that leads back to one above it,
/// takes anything.
fn simplify(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("required");
    if !fields.contains_key("type") {
        *schema = json!({"x-kubernetes-preserve-unknown-fields": true});
        return;
    }
    let below =
        fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(|all| all.values_mut());
    below.for_each(simplify);
    ["items", "additionalProperties"].iter().filter_map(|field| fields.get_mut(*field).map(simplify)).count();
}
