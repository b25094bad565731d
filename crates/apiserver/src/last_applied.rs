//! The annotation by which kubectl's client-side apply remembers what was applied last.
//!
//! Where kubectl goes on with server-side apply, an API server lets it take over what it applied itself, and keeps the
//! annotation true so that one can go back (`lastappliedmanager.go` and `lastappliedupdater.go` of
//! `k8s.io/apimachinery/pkg/util/managedfields`).

use serde_json::{Value, json};

use super::object;
use super::status::Failure;
use super::validation::ANNOTATIONS;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The one manager that it is kept for.
const KUBECTL: &str = "kubectl";

/// Brings the annotation of an object up to the configuration that was applied, where it has one.
pub(super) fn follow(object: &mut Value, config: &Value, manager: &str) {
    if manager != KUBECTL || object["metadata"]["annotations"][ANNOTATION].is_null() {
        return;
    }
    let mut config = config.clone();
    object::set(&mut config, "managedFields", None);
    object::set_entry(&mut config, "annotations", ANNOTATION, None);
    if config["metadata"]["annotations"] == json!({}) {
        object::set(&mut config, "annotations", None);
    }
    let text = format!("{config}\n");
    if text.len() <= ANNOTATIONS {
        object::set_entry(object, "annotations", ANNOTATION, Some(&text));
    }
}

/// Whether conflicts are about nothing but what kubectl itself has applied, and nobody has changed since.
pub(super) fn allows(live: &Value, conflicts: &Failure, manager: &str) -> bool {
    let Failure::Status(status) = conflicts else { return false };
    let text = live["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default();
    let Ok(last) = serde_json::from_str::<Value>(text) else { return false };
    let causes = status.details.get("causes").and_then(Value::as_array);
    let mut fields = causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str());
    manager == KUBECTL && causes.is_some() && fields.all(|field| value(&last, field) == value(live, field))
}

/// The value of a field, `.spec.members`. An item of a list is taken for the list.
fn value<'v>(object: &'v Value, field: &str) -> Option<&'v Value> {
    let list = field.split('[').next().unwrap_or_default();
    object.pointer(&list.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(manager: &str, live: Value) -> Value {
        let mut object = json!({"metadata": {"name": "a", "annotations": live}});
        follow(&mut object, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}), manager);
        object["metadata"]["annotations"].take()
    }

    #[test]
    fn kubectl_takes_over_what_it_applied_itself() {
        let conflict = |fields: &[&str]| {
            let causes: Vec<Value> = fields.iter().map(|field| json!({"field": field})).collect();
            Failure::status(409, "Conflict", "").detail("causes", causes)
        };
        let last = json!({"spec": {"size": 1, "parts": [{"name": "wheel"}]}}).to_string();
        let mut live = json!({"metadata": {"annotations": {ANNOTATION: last}}, "spec": {"size": 1, "other": 2}});
        live["spec"]["parts"] = json!([{"name": "wheel"}]);
        let own = conflict(&[".spec.size", ".spec.parts[name=\"wheel\"].name"]);
        assert!(allows(&live, &own, "kubectl"));
        assert!(!allows(&live, &own, "somebody"));
        assert!(!allows(&live, &conflict(&[".spec.size", ".spec.other"]), "kubectl"));
        assert!(!allows(&json!({}), &own, "kubectl"));
        live["spec"]["size"] = json!(2);
        assert!(!allows(&live, &own, "kubectl"), "somebody has changed it since");
    }

    #[test]
    fn kubectl_finds_what_it_applied_last() {
        let config = "{\"data\":{\"k\":\"v\"},\"metadata\":{\"name\":\"a\"}}\n";
        assert_eq!(after("kubectl", json!({ANNOTATION: "old"})), json!({ANNOTATION: config}));
        assert_eq!(after("somebody", json!({ANNOTATION: "old"})), json!({ANNOTATION: "old"}));
        assert_eq!(after("kubectl", json!({})), json!({}));
    }
}
