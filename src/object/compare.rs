//! Does what stands on a server hold what we want there?

use serde_json::{Map, Number, Value};

pub use crate::mapping::names::{escape_pointer, pointer, unescape_pointer};

/// JSON pointers of what `desired` says and `actual` does not hold. Fields that only `actual` has are others', and no
/// difference. Numbers are compared by value (a server stores `1.0` as `1`), and null is what is not there.
pub fn differences(desired: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(desired, Some(actual), &mut String::new(), &mut found);
    found
}

fn is_same_leaf(desired: &Value, actual: Option<&Value>) -> bool {
    match (desired, actual) {
        (Value::Number(a), Some(Value::Number(b))) => same_number(a, b),
        (Value::Null, actual) => actual.is_none_or(Value::is_null),
        (desired, actual) => actual == Some(desired),
    }
}

fn compare(desired: &Value, actual: Option<&Value>, path: &mut String, found: &mut Vec<String>) {
    match (desired, actual) {
        (Value::Object(fields), Some(Value::Object(actual))) => fields.iter().for_each(|(key, value)| {
            descend(path, key, |path| compare(value, actual.get(key), path, found));
        }),
        (Value::Array(items), Some(Value::Array(actual))) if items.len() == actual.len() => {
            items.iter().zip(actual).enumerate().for_each(|(index, (item, actual))| {
                descend(path, &index.to_string(), |path| compare(item, Some(actual), path, found));
            });
        }
        (desired, actual) if !is_same_leaf(desired, actual) => found.push(path.clone()),
        _ => {}
    }
}

fn descend(path: &mut String, segment: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&escape_pointer(segment));
    then(path);
    path.truncate(length);
}

fn same_number(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_f64() == b.as_f64(),
    }
}

/// Equality of whole values by the rule of [`differences`] for numbers.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        _ => a == b,
    }
}

/// Takes what a JSON pointer names out of a tree; nothing where it names nothing.
pub fn remove_pointer(tree: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    let last = unescape_pointer(last);
    match tree.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(&last)),
        Some(Value::Array(items)) => {
            if let Some(index) = last.parse().ok().filter(|index: &usize| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

/// Puts a value where a JSON pointer leads; nothing where no map is above that.
pub fn put_pointer(tree: &mut Value, pointer: &str, value: Value) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(map)) = tree.pointer_mut(parent) {
        map.insert(unescape_pointer(last), value);
    }
}

/// The same, with the maps above it made where they are missing.
pub fn make_pointer(tree: &mut Value, pointer: &str, value: Value) {
    let Some((parent, _)) = pointer.rsplit_once('/') else { return };
    if tree.pointer(parent).is_none() {
        make_pointer(tree, parent, Value::Object(Map::new()));
    }
    put_pointer(tree, pointer, value);
}

/// JSON pointers of everything that an object says beside its kind. A list is one value, as a merge patch has it. Pointers with
/// a line break are left out.
pub fn leaves(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    leaf(object, &mut String::new(), &mut found);
    found.retain(|pointer| !matches!(pointer.as_str(), "" | "/apiVersion" | "/kind") && !pointer.contains('\n'));
    found
}

fn leaf(value: &Value, path: &mut String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => fields.iter().for_each(|(key, value)| {
            descend(path, key, |path| leaf(value, path, found));
        }),
        _ => found.push(path.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn others_fields_are_no_difference() {
        assert!(differences(&json!({"a": 1}), &json!({"a": 1, "b": 2})).is_empty());
    }

    #[test]
    fn names_each_place_that_differs() {
        let desired = json!({"a": {"b/c": 1}, "l": [1, 2], "m": [{"x": 1}], "n": null});
        let actual = json!({"a": {"b/c": 2}, "l": [1], "m": [{"x": 2, "y": 3}]});
        assert_eq!(differences(&desired, &actual), ["/a/b~1c", "/l", "/m/0/x"]);
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(differences(&json!({"a": 1.0}), &json!({"a": 1})).is_empty());
        assert_eq!(differences(&json!(9007199254740993_i64), &json!(9007199254740992_i64)), [""]);
    }

    #[test]
    fn an_empty_map_is_not_nothing() {
        assert_eq!(differences(&json!({"a": {}}), &json!({})), ["/a"]);
    }

    #[test]
    fn leaves_are_what_a_merge_patch_sets() {
        let object = json!({"kind": "A", "spec": {"a/b": [{"c": 1}], "d": {}, "e": {"f": null}, "g\nh": 1}});
        assert_eq!(leaves(&object), ["/spec/a~1b", "/spec/d", "/spec/e/f"]);
    }

    #[test]
    fn maps_are_made_on_the_way() {
        let mut tree = json!({"a": {"b": 1}});
        make_pointer(&mut tree, "/a/c/d", Value::Null);
        make_pointer(&mut tree, "/a/b/e", json!(2));
        assert_eq!(tree, json!({"a": {"b": 1, "c": {"d": null}}}));
    }

    #[test]
    fn removes_what_a_pointer_names() {
        let mut tree = json!({"a": {"b/c": 1, "d": [1, 2]}});
        remove_pointer(&mut tree, "/a/b~1c");
        remove_pointer(&mut tree, "/a/d/0");
        remove_pointer(&mut tree, "/x/y");
        assert_eq!(tree, json!({"a": {"d": [2]}}));
    }
}
