//! Sets of fields, as `metadata.managedFields` records them (`FieldsV1`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::Schema;
use super::shape::field_key;

/// A tree of fields. A node that is a *member* is in the set itself; its children may be, independently. Children are
/// named as `FieldsV1` names them: `f:spec`, `k:{"name":"x"}`, `v:"x"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(super) member: bool,
    pub(super) children: BTreeMap<Box<str>, FieldSet>,
}

/// Fields of `metadata` that the server owns and nobody manages.
const UNMANAGED_METADATA: [&str; 10] = [
    "f:name",
    "f:namespace",
    "f:uid",
    "f:resourceVersion",
    "f:generation",
    "f:creationTimestamp",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
    "f:selfLink",
    "f:managedFields",
];

impl FieldSet {
    /// What somebody owns who says all of an object: scalars, what is one value, and the entries of maps and lists.
    pub fn of_object(object: &Value, schema: &Schema) -> FieldSet {
        let mut set = FieldSet::of(object, schema);
        set.member = false;
        set.without_identity()
    }

    /// The same with what is never managed.
    pub(super) fn all_of_object(object: &Value, schema: &Schema) -> FieldSet {
        FieldSet { member: false, ..FieldSet::of(object, schema) }
    }

    fn of(value: &Value, schema: &Schema) -> FieldSet {
        if !schema.is_granular(value) {
            return FieldSet::leaf();
        }
        let mut set = FieldSet::default();
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    let mut below = FieldSet::of(value, schema.field(name));
                    let is_empty = value.as_object().is_some_and(Map::is_empty);
                    below.member |= is_empty || !schema.declares(name);
                    if !below.is_empty() {
                        set.children.insert(field_key(name), below);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    let below = FieldSet { member: true, ..FieldSet::of(item, schema.element()) };
                    set.children.insert(schema.item_key(item), below);
                }
            }
            _ => (),
        }
        set
    }

    pub(super) fn leaf() -> FieldSet {
        FieldSet { member: true, ..FieldSet::default() }
    }

    /// Without what is never managed: the identity of an object, and what only the server sets.
    pub(super) fn without_identity(mut self) -> FieldSet {
        self.children.retain(|name, _| !matches!(&**name, "f:apiVersion" | "f:kind"));
        if let Some(metadata) = self.children.get_mut("f:metadata") {
            metadata.member = false;
            metadata.children.retain(|name, _| !UNMANAGED_METADATA.contains(&&**name));
        }
        self.without_empty_children()
    }

    pub fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(FieldSet::is_empty)
    }

    pub fn union(mut self, other: &FieldSet) -> FieldSet {
        self.member |= other.member;
        for (key, theirs) in &other.children {
            let ours = self.children.remove(key).unwrap_or_default();
            self.children.insert(key.clone(), ours.union(theirs));
        }
        self
    }

    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, true)
    }

    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, false)
    }

    fn combine(&self, other: &FieldSet, keep_what_other_lacks: bool) -> FieldSet {
        let nothing = FieldSet::default();
        let children = self.children.iter().map(|(key, ours)| {
            let theirs = other.children.get(key).unwrap_or(&nothing);
            (key.clone(), ours.combine(theirs, keep_what_other_lacks))
        });
        let member = self.member && (other.member != keep_what_other_lacks);
        FieldSet { member, children: children.collect() }.without_empty_children()
    }

    /// The set, and every declared field that something in the set is below of: who has `spec.size` has `spec`.
    pub(super) fn with_declared_parents(&self, schema: &Schema) -> FieldSet {
        let children = self.children.iter().map(|(key, below)| {
            let name = key.strip_prefix("f:");
            let mut below = below.with_declared_parents(name.map_or(schema.element(), |name| schema.field(name)));
            below.member |= name.is_some_and(|name| schema.declares(name));
            (key.clone(), below)
        });
        FieldSet { member: self.member, children: children.collect() }
    }

    /// The paths of all members, as server-side apply prints them: `.spec.users[name="x"].role`.
    pub fn printed_paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        if self.member {
            paths.push(prefix.to_owned());
        }
        for (key, child) in &self.children {
            child.collect_paths(&format!("{prefix}{}", printed(key)), paths);
        }
    }

    /// Takes the members of this set out of a value; a map or list that they were all of is left empty.
    pub(super) fn taken_out_of(&self, value: &Value, schema: &Schema) -> Value {
        match value {
            Value::Object(map) => {
                let rest = map.iter().filter_map(|(name, value)| {
                    Some((name.clone(), self.rest_of(&field_key(name), value, schema.field(name))?))
                });
                Value::Object(rest.collect())
            }
            Value::Array(items) if schema.is_granular(value) => {
                let rest = items.iter().filter_map(|item| self.rest_of(&schema.item_key(item), item, schema.element()));
                Value::Array(rest.collect())
            }
            other => other.clone(),
        }
    }

    fn rest_of(&self, key: &str, value: &Value, schema: &Schema) -> Option<Value> {
        match self.children.get(key) {
            None => Some(value.clone()),
            Some(below) if below.member => None,
            Some(below) => Some(below.taken_out_of(value, schema)),
        }
    }

    /// `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        map.extend(self.children.iter().map(|(key, child)| (key.to_string(), child.to_json())));
        Value::Object(map)
    }

    /// Reads `fieldsV1`.
    pub fn from_json(fields: &Value) -> FieldSet {
        FieldSet { member: false, ..FieldSet::node_from_json(fields) }
    }

    fn node_from_json(fields: &Value) -> FieldSet {
        let Some(map) = fields.as_object() else { return FieldSet::leaf() };
        let member = map.is_empty() || map.contains_key(".");
        let children = map.iter().filter(|(key, _)| *key != ".");
        let children = children.map(|(key, value)| (key.as_str().into(), FieldSet::node_from_json(value)));
        FieldSet { member, children: children.collect() }
    }

    fn without_empty_children(mut self) -> FieldSet {
        self.children.retain(|_, child| !child.is_empty());
        self
    }
}

/// A step of a path as messages print it.
pub(super) fn printed(key: &str) -> String {
    let (kind, name) = key.split_at_checked(2).unwrap_or((key, ""));
    match kind {
        "k:" => {
            let keys: Map<String, Value> = serde_json::from_str(name).unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        "v:" => format!("[={name}]"),
        _ => format!(".{name}"),
    }
}
