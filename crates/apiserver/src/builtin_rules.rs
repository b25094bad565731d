//! What holds for objects of single built-in kinds.

use serde_json::{Value, json};

use super::names;
use super::object;
use super::resource::Resource;
use super::status::{Cause, Failure};

/// What is wrong with an object of a built-in kind.
pub(super) fn check(object: &Value, resource: &Resource) -> Vec<Cause> {
    let keys = match (&*resource.group, &*resource.plural) {
        ("", "configmaps") => [&object["data"], &object["binaryData"]],
        ("", "secrets") => [&object["data"], &Value::Null],
        _ => return Vec::new(),
    };
    let keys = keys.into_iter().filter_map(Value::as_object).flat_map(|map| map.keys());
    let wrong = keys.filter_map(|key| Some((key, names::of_config_key(key)?)));
    wrong
        .map(|(key, why)| {
            Cause::new("FieldValueInvalid", format!("data[{key}]"), format!("Invalid value: {key:?}: {why}"))
        })
        .collect()
}

/// Refuses to change what can never change once it is set.
pub(super) fn check_immutable(object: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let differs = |field: &str| object.get(field) != old.get(field);
    let sealed = "Forbidden: field is immutable when `immutable` is set";
    let cause = match (&*resource.group, &*resource.plural) {
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") if differs("roleRef") => {
            let role = &object["roleRef"];
            let role = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
            Cause::new("FieldValueInvalid", "roleRef", format!("Invalid value: {role}: cannot change roleRef"))
        }
        ("", "secrets") if differs("type") => immutable("type", &object["type"]),
        ("apis.kcp.io", "apiresourceschemas") if differs("spec") => immutable("spec", &object["spec"]),
        ("", "configmaps" | "secrets") if old["immutable"] == true => {
            match ["immutable", "data", "binaryData"].into_iter().find(|field| differs(field)) {
                Some(field) => Cause::new("FieldValueForbidden", field, sealed),
                None => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    Err(Failure::invalid(resource, object::text(old, "name"), &[cause]))
}

fn immutable(field: &str, value: &Value) -> Cause {
    Cause::new("FieldValueInvalid", field, format!("Invalid value: {value}: field is immutable"))
}
