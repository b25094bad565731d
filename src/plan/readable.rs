//! A source object as templates read it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::mapping::names::is_kcps;
use crate::object::marks;

/// A source as templates read it: in a namespace, without its status, and without the metadata that the engine itself
/// writes there. Otherwise the engine's own writes would change what it renders. Labels and annotations of kcp stay in their
/// cluster, also where a template copies all of them.
pub fn view(source: &Value) -> Value {
    let fields = source.as_object().into_iter().flatten().filter(|(field, _)| *field != "status");
    let read = |(field, value): (&String, &Value)| match (field.as_str(), value) {
        ("metadata", Value::Object(metadata)) => (field.clone(), Value::Object(readable_metadata(metadata))),
        _ => (field.clone(), value.clone()),
    };
    fields.map(read).collect()
}

/// An empty field counts as missing; a cluster-scoped source counts as one in a namespace called `cluster`.
fn readable_metadata(metadata: &Map<String, Value>) -> Map<String, Value> {
    static NAMESPACE: LazyLock<Value> = LazyLock::new(|| json!("cluster"));
    let mut readable = Map::new();
    for (field, value) in metadata {
        let value = match (field.as_str(), value) {
            ("resourceVersion" | "managedFields", _) => continue,
            ("finalizers", Value::Array(all)) => {
                all.iter().filter(|one| !one.as_str().is_some_and(is_own)).cloned().collect()
            }
            ("labels" | "annotations", Value::Object(all)) => {
                let given = all.iter().filter(|(key, _)| is_read(key));
                Value::Object(given.map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            (_, value) => value.clone(),
        };
        if !is_empty(&value) {
            readable.insert(field.clone(), value);
        }
    }
    readable.entry("namespace").or_insert_with(|| NAMESPACE.clone());
    readable
}

/// Whether expressions read a label or an annotation.
pub fn is_read(key: &str) -> bool {
    !is_own(key) && !is_kcps(key)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Whether a finalizer or an annotation is the engine's own. One that pins a target begins with `target.`.
fn is_own(key: &str) -> bool {
    marks::is_ours_to_write(key.strip_prefix("target.").unwrap_or(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_and_kcp_write_to_a_source_is_not_read() {
        let before = json!({
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}, "finalizers": ["a.dev/x"]},
            "spec": {"b": 1},
        });
        let after = json!({
            "metadata": {
                "resourceVersion": "7",
                "labels": {"team": "a", "claimed.internal.apis.kcp.io/x": "y"},
                "annotations": {
                    "note": "b", "target.sync-engine.dev/main.m": "t",
                    "kcp.io/cluster": "abc", "internal.tenancy.kcp.io/owner": "ann",
                },
                "finalizers": ["a.dev/x", "sync-engine.dev/main.m"],
            },
            "spec": {"b": 1}, "status": {"phase": "Pending"},
        });
        let mut read = before.clone();
        read["metadata"]["namespace"] = json!("cluster");
        assert_eq!([view(&before), view(&after)], [read.clone(), read]);
        let only_ours = json!({"metadata": {"namespace": "n", "finalizers": ["sync-engine.dev/main.m"]}});
        assert_eq!(view(&only_ours), json!({"metadata": {"namespace": "n"}}), "an empty list is none");
    }
}
