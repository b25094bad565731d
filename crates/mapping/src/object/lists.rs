//! Lists that a server merges item by item, as the engine's own entries of `metadata.managedFields` tell them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::names::escape_pointer;

/// Field managers of the engine begin with this.
const MANAGER: &str = "sync-engine/";
/// Bytes of the pointers of an object's lists; of what is more, none is kept. A tenant can write managedFields in the engine's name, with
/// ten thousands of lists below a name of a megabyte.
const MOST: usize = 256 << 10;

/// The fields that tell the items of a list apart, by the list's JSON pointer, in which `*` stands for any item. Without
/// fields, the list is a set of values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lists(BTreeMap<String, Vec<String>>);

/// An entry of managedFields; the fields are a tree, or its text.
#[derive(Deserialize)]
struct Entry<F> {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(rename = "fieldsV1")]
    fields: Option<F>,
}

impl<F> Entry<F> {
    /// The fields that the engine applied.
    fn own(self) -> Option<F> {
        self.fields.filter(|_| self.manager.starts_with(MANAGER) && self.operation == "Apply")
    }
}

impl Lists {
    /// The lists in which the engine owns items. An object in a cache has them in place of its managedFields.
    pub fn of(object: &Value) -> Self {
        match object.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
            Some(kept @ Value::Object(_)) => Self::deserialize(kept).unwrap_or_default(),
            Some(entries @ Value::Array(_)) => {
                let entries: Vec<Entry<Value>> = Vec::deserialize(entries).unwrap_or_default();
                Self::from_fields(entries.into_iter().filter_map(Entry::own))
            }
            _ => Self::default(),
        }
    }

    /// What of the text of managedFields is kept; `None`: the engine owns no item of a list.
    pub fn kept(managed_fields: &str) -> Option<String> {
        let entries: Vec<Entry<&RawValue>> =
            may_own_items(managed_fields).then(|| serde_json::from_str(managed_fields).ok()).flatten()?;
        let lists = Self::from_fields(own_items(entries).filter_map(|fields| serde_json::from_str(fields.get()).ok()));
        if lists.0.is_empty() { None } else { serde_json::to_string(&lists).ok() }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that tell the items of a list apart.
    pub fn at(&self, list: &str) -> Option<&[String]> {
        self.0.get(list).map(Vec::as_slice)
    }

    fn from_fields(own: impl Iterator<Item = Value>) -> Self {
        let (mut lists, mut left) = (Self::default(), MOST);
        own.for_each(|fields| lists.walk(&fields, &mut String::new(), &mut left));
        lists
    }

    /// The pointer is written once: a list may have ten thousands of items, and stand below a long name.
    fn walk(&mut self, fields: &Value, at: &mut String, left: &mut usize) {
        let length = at.len();
        for (key, below) in fields.as_object().into_iter().flatten() {
            match key.split_once(':') {
                Some(("f", name)) => {
                    at.push('/');
                    at.push_str(&escape_pointer(name));
                    self.walk(below, at, left);
                }
                Some(("k", keys)) => {
                    self.insert(at, left, || {
                        let keys: BTreeMap<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                        keys.into_keys().collect()
                    });
                    at.push_str("/*");
                    self.walk(below, at, left);
                }
                Some(("v", _)) => self.insert(at, left, Vec::new),
                _ => {}
            }
            at.truncate(length);
        }
    }

    fn insert(&mut self, at: &str, left: &mut usize, keys: impl FnOnce() -> Vec<String>) {
        if at.len() <= *left && !self.0.contains_key(at) {
            *left -= at.len();
            self.0.insert(at.to_owned(), keys());
        }
    }
}

/// Whether the text of managedFields is read at all. That of a source is not: the engine never applies one, and what it patches
/// (the finalizer, the conditions) is an `Update`.
fn may_own_items(managed_fields: &str) -> bool {
    managed_fields.contains("\"Apply\"") && managed_fields.contains(MANAGER) && may_have_items(managed_fields)
}

/// What the engine applied, where that names items of lists: mostly only a controller's conditions are such.
fn own_items(entries: Vec<Entry<&RawValue>>) -> impl Iterator<Item = &RawValue> {
    entries.into_iter().filter_map(Entry::own).filter(|fields| may_have_items(fields.get()))
}

fn may_have_items(fields: &str) -> bool {
    ["\"k:", "\"v:"].iter().any(|key| fields.contains(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn managed(manager: &str) -> Value {
        json!([{"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {
            "f:a/b": {"v:\"x\"": {}, ".": {}},
            "f:ports": {"k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:env": {"k:{\"name\":\"A\"}": {}}}},
            "f:replicas": {},
        }}}])
    }

    #[test]
    fn lists_are_told_by_the_engines_own_fields() {
        let lists = Lists::of(&json!({"metadata": {"managedFields": managed("sync-engine/main/db")}}));
        assert_eq!(lists.at("/spec/ports"), Some(&["port".to_owned(), "protocol".to_owned()][..]));
        assert_eq!(lists.at("/spec/ports/*/env"), Some(&["name".to_owned()][..]));
        assert_eq!(lists.at("/spec/a~1b"), Some(&[][..]));
        assert_eq!(lists.at("/spec/replicas"), None);
        assert_eq!(lists.0.len(), 3);
    }

    #[test]
    fn what_a_cache_keeps_tells_the_same() {
        let managed_fields = managed("sync-engine/main/db");
        let kept = Lists::kept(&managed_fields.to_string()).expect("it owns items");
        let kept: Value = serde_json::from_str(&kept).unwrap();
        let of = |managed_fields: Value| Lists::of(&json!({"metadata": {"managedFields": managed_fields}}));
        assert_eq!(of(kept), of(managed_fields));
        assert_eq!(Lists::kept(&managed("operator").to_string()), None);
        assert_eq!(Lists::kept("[{\"manager\": \"sync-engine/a/b\", \"operation\": \"Apply\", \"k:"), None);
    }

    #[test]
    fn of_many_lists_below_a_long_name_a_part_is_kept() {
        let many: serde_json::Map<_, _> = (0..10_000).map(|n| (format!("f:{n}"), json!({"v:1": {}}))).collect();
        let mut managed = managed("sync-engine/main/db");
        managed[0]["fieldsV1"][format!("f:{}", "long".repeat(1 << 14))] = json!(many);
        let kept = Lists::kept(&managed.to_string()).expect("it owns items");
        assert!(kept.len() < 2 * MOST, "{}", kept.len());
        let kept: Lists = serde_json::from_str(&kept).unwrap();
        assert!(kept.0.len() < 10 && kept.at("/spec/ports").is_some(), "what has short names is");
    }

    #[test]
    fn managed_fields_are_read_only_where_the_engine_applied_items_of_a_list() {
        let patched = json!([
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:a": {}}}},
            {"manager": "sync-engine/main/db", "operation": "Update", "fieldsV1": {"f:metadata": {"f:finalizers": {
                ".": {}, "v:\"sync-engine.dev/main.db\"": {},
            }}}},
            {"manager": "sync-engine/main/db", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {
                "f:conditions": {"k:{\"type\":\"main.sync-engine.dev/Synced\"}": {".": {}}},
            }}},
        ]);
        let read = [managed("sync-engine/main/db"), managed("operator"), patched];
        assert_eq!(read.map(|managed_fields| may_own_items(&managed_fields.to_string())), [true, false, false]);
    }

    #[test]
    fn a_tree_is_made_of_those_fields_alone_that_the_engine_applied_to_items() {
        let condition = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}}}}});
        let entry =
            |manager: &str, fields: &Value| json!({"manager": manager, "operation": "Apply", "fieldsV1": fields});
        let (plain, items) = (json!({"f:spec": {"f:members": {}}}), managed("sync-engine/main/db"));
        for (own, trees) in [(&plain, 0), (&items[0]["fieldsV1"], 1)] {
            let text = json!([entry("sync-engine/main/db", own), entry("operator", &condition)]).to_string();
            assert!(may_own_items(&text));
            assert_eq!(own_items(serde_json::from_str(&text).unwrap()).count(), trees, "{own}");
        }
    }
}
