//! The annotation by which kubectl's client-side apply remembers what was applied last. An API server keeps it true
//! where kubectl goes on with server-side apply, so that one can go back
//! (`lastappliedupdater.go` of `k8s.io/apimachinery/pkg/util/managedfields`).

use serde_json::{Value, json};

use super::object;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The one manager that it is kept for.
const KUBECTL: &str = "kubectl";
/// Bytes that all annotations together may have.
const LIMIT: usize = 256 * 1024;

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
    if text.len() <= LIMIT {
        object::set_entry(object, "annotations", ANNOTATION, Some(&text));
    }
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
    fn kubectl_finds_what_it_applied_last() {
        let config = "{\"data\":{\"k\":\"v\"},\"metadata\":{\"name\":\"a\"}}\n";
        assert_eq!(after("kubectl", json!({ANNOTATION: "old"})), json!({ANNOTATION: config}));
        assert_eq!(after("somebody", json!({ANNOTATION: "old"})), json!({ANNOTATION: "old"}));
        assert_eq!(after("kubectl", json!({})), json!({}));
    }
}
