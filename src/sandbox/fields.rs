//! Sets of fields, as `metadata.managedFields` records them (`FieldsV1`).
//!
//! Maps are granular, every list is one field: the list-maps and sets of schemas are not told apart.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A tree of fields. A node that is a *member* is in the set itself; its children may be, independently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    member: bool,
    children: BTreeMap<Box<str>, FieldSet>,
}

/// What distinguishes two versions of an object.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Fields that are new or have another value.
    pub changed: FieldSet,
    /// Fields that are no longer there.
    pub removed: FieldSet,
}

/// Fields of `metadata` that the server owns and nobody manages.
const UNMANAGED_METADATA: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];

impl FieldSet {
    /// The leaves of an object: scalars, lists and empty maps.
    pub fn of_object(object: &Value) -> FieldSet {
        let mut set = FieldSet::default();
        for (key, value) in managed_members(object) {
            set.children.insert(key.into(), managed_node(key, value, leaves));
        }
        set.without_empty_children()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(FieldSet::is_empty)
    }

    /// Everything in either.
    pub fn union(mut self, other: &FieldSet) -> FieldSet {
        self.member |= other.member;
        for (key, theirs) in &other.children {
            let ours = self.children.remove(key).unwrap_or_default();
            self.children.insert(key.clone(), ours.union(theirs));
        }
        self
    }

    /// What is in `self` and not in `other`.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, true)
    }

    /// What is in both.
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

    /// The paths of all members, as server-side apply prints them: `.spec.members`.
    pub fn dotted_paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        if self.member {
            paths.push(prefix.to_owned());
        }
        for (key, child) in &self.children {
            child.collect_paths(&format!("{prefix}.{key}"), paths);
        }
    }

    /// Removes the fields of this set from `object`, and the maps that are empty because of it, except what `kept`
    /// holds.
    pub(super) fn remove_from(&self, object: &mut Value, kept: &FieldSet) {
        let Value::Object(map) = object else { return };
        for (key, child) in &self.children {
            let nothing = FieldSet::default();
            let kept_child = kept.children.get(key).unwrap_or(&nothing);
            if child.removes(map.get_mut(&**key), kept_child) {
                map.remove(&**key);
            }
        }
    }

    /// Whether the whole `value` goes; otherwise it has lost what this set names below it.
    fn removes(&self, value: Option<&mut Value>, kept: &FieldSet) -> bool {
        let Some(value) = value else { return false };
        let is_leaf = !matches!(value, Value::Object(map) if !map.is_empty());
        if is_leaf {
            return (self.member || value.is_object()) && kept.is_empty();
        }
        self.remove_from(value, kept);
        let emptied = value.as_object().is_some_and(Map::is_empty);
        emptied && kept.is_empty()
    }

    /// `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for (key, child) in &self.children {
            map.insert(format!("f:{key}"), child.to_json());
        }
        Value::Object(map)
    }

    /// Reads `fieldsV1`. What cannot be told (list items) counts as the list.
    pub fn from_json(fields: &Value) -> FieldSet {
        let mut set = FieldSet::node_from_json(fields);
        set.member = false;
        set
    }

    fn node_from_json(fields: &Value) -> FieldSet {
        let Some(map) = fields.as_object() else { return FieldSet { member: true, ..FieldSet::default() } };
        let mut set = FieldSet { member: map.is_empty() || map.contains_key("."), children: BTreeMap::new() };
        for (key, value) in map {
            match key.strip_prefix("f:") {
                Some(name) => drop(set.children.insert(name.into(), FieldSet::node_from_json(value))),
                None => set.member = true,
            }
        }
        set
    }

    fn without_empty_children(mut self) -> FieldSet {
        self.children.retain(|_, child| !child.is_empty());
        self
    }
}

impl Difference {
    /// Compares what managers can own.
    pub fn between(old: &Value, new: &Value) -> Difference {
        let mut difference = Difference::default();
        let nothing = Value::Null;
        for (key, new_value) in managed_members(new) {
            let old_value = old.get(key).unwrap_or(&nothing);
            difference.insert(key, compare_managed(key, Some(old_value).filter(|v| !v.is_null()), Some(new_value)));
        }
        for (key, old_value) in managed_members(old) {
            if new.get(key).is_none() {
                difference.insert(key, compare_managed(key, Some(old_value), None));
            }
        }
        difference.changed = std::mem::take(&mut difference.changed).without_empty_children();
        difference.removed = std::mem::take(&mut difference.removed).without_empty_children();
        difference
    }

    fn insert(&mut self, key: &str, below: Difference) {
        self.changed.children.insert(key.into(), below.changed);
        self.removed.children.insert(key.into(), below.removed);
    }

    fn record(&mut self, key: &str, below: Difference) {
        if !below.changed.is_empty() {
            self.changed.children.insert(key.into(), below.changed);
        }
        if !below.removed.is_empty() {
            self.removed.children.insert(key.into(), below.removed);
        }
    }
}

/// Top-level fields but the identity of the object.
fn managed_members(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = object.as_object().into_iter().flatten();
    members.map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| !matches!(*key, "apiVersion" | "kind"))
}

fn managed_node(key: &str, value: &Value, build: impl Fn(&Value) -> FieldSet) -> FieldSet {
    if key != "metadata" {
        return build(value);
    }
    let mut set = build(value);
    set.member = false;
    set.children.retain(|name, _| !UNMANAGED_METADATA.contains(&&**name));
    set
}

fn compare_managed(key: &str, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let mut difference = compare(old, new);
    if key == "metadata" {
        for set in [&mut difference.changed, &mut difference.removed] {
            set.member = false;
            set.children.retain(|name, _| !UNMANAGED_METADATA.contains(&&**name));
        }
    }
    difference
}

/// Scalars, lists and empty maps.
fn leaves(value: &Value) -> FieldSet {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let children = map.iter().map(|(key, value)| (key.as_str().into(), leaves(value)));
            FieldSet { member: false, children: children.collect() }
        }
        _ => FieldSet { member: true, ..FieldSet::default() },
    }
}

/// Every field of a value, maps included.
fn every_field(value: &Value) -> FieldSet {
    let below = value.as_object().into_iter().flatten();
    let children = below.map(|(key, value)| (key.as_str().into(), every_field(value)));
    FieldSet { member: true, children: children.collect() }
}

fn compare(old: Option<&Value>, new: Option<&Value>) -> Difference {
    match (old, new) {
        (None, None) => Difference::default(),
        (None, Some(new)) => Difference { changed: every_field(new), removed: FieldSet::default() },
        (Some(old), None) => Difference { changed: FieldSet::default(), removed: every_field(old) },
        (Some(Value::Object(old)), Some(Value::Object(new))) => compare_maps(old, new),
        (Some(old), Some(new)) if old == new => Difference::default(),
        (Some(old), Some(new)) => {
            let mut removed = every_field(old);
            removed.member = false;
            Difference { changed: every_field(new), removed: removed.without_empty_children() }
        }
    }
}

fn compare_maps(old: &Map<String, Value>, new: &Map<String, Value>) -> Difference {
    let mut difference = Difference::default();
    for (key, value) in new {
        difference.record(key, compare(old.get(key), Some(value)));
    }
    for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        difference.record(key, compare(Some(value), None));
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leaves_of_an_object_leave_out_its_identity() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "1"}},
            "data": {"a": "1"}, "spec": {}, "list": [{"b": 1}],
        });
        let expected = json!({
            "f:metadata": {"f:labels": {"f:x": {}}}, "f:data": {"f:a": {}}, "f:spec": {}, "f:list": {},
        });
        assert_eq!(FieldSet::of_object(&object).to_json(), expected);
    }

    #[test]
    fn json_round_trip_keeps_members_with_children() {
        let fields = json!({"f:data": {".": {}, "f:a": {}}});
        assert_eq!(FieldSet::from_json(&fields).to_json(), fields);
    }

    #[test]
    fn difference_tells_changes_from_removals() {
        let old = json!({"metadata": {"uid": "1"}, "spec": {"a": 1, "b": 2, "c": {"d": 3}}});
        let new = json!({"metadata": {"uid": "2"}, "spec": {"a": 1, "b": 3, "e": {"f": 4}}});
        let difference = Difference::between(&old, &new);
        assert_eq!(difference.changed.dotted_paths(), [".spec.b", ".spec.e", ".spec.e.f"]);
        assert_eq!(difference.removed.dotted_paths(), [".spec.c", ".spec.c.d"]);
    }

    #[test]
    fn removal_takes_emptied_maps_along_unless_they_are_kept() {
        let set = FieldSet::from_json(&json!({"f:spec": {"f:a": {"f:b": {}}, "f:c": {"f:d": {}}}}));
        let kept = FieldSet::from_json(&json!({"f:spec": {"f:c": {}}}));
        let mut object = json!({"spec": {"a": {"b": 1}, "c": {"d": 1}}});
        set.remove_from(&mut object, &kept);
        assert_eq!(object, json!({"spec": {"c": {}}}));
    }
}
