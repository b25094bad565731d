//! JSON Patch, merge patch, and strategic merge patch as far as built-in kinds need it.

use json_patch::Patch;
use serde_json::{Map, Value};

use super::status::Failure;

/// Media types of patches other than server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, on built-in kinds.
    Strategic,
}

impl PatchKind {
    /// Reads a `Content-Type`; custom resources know no strategic merge.
    pub fn parse(content_type: &str, custom: bool) -> Result<PatchKind, Failure> {
        match content_type {
            "application/json-patch+json" => Ok(PatchKind::Json),
            "application/merge-patch+json" => Ok(PatchKind::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(PatchKind::Strategic),
            _ => Err(unsupported()),
        }
    }

    /// Carries the patch out on an object.
    pub fn apply(self, object: &mut Value, patch: &Value) -> Result<(), Failure> {
        match self {
            PatchKind::Json => apply_json(object, patch)?,
            PatchKind::Merge => json_patch::merge(object, patch),
            PatchKind::Strategic => merge_strategically(object, patch),
        }
        Ok(())
    }
}

fn unsupported() -> Failure {
    let accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    Failure::unsupported_media_type(accepted)
}

fn apply_json(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let patch: Patch = serde_json::from_value(patch.clone())
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    json_patch::patch(object, &patch).map_err(|_| Failure::patch_does_not_apply())
}

/// Maps merge, null removes, lists are replaced except those that every kind merges: finalizers by value,
/// ownerReferences by uid. Of the directives, `$deleteFromPrimitiveList` and `$patch: delete` are known.
fn merge_strategically(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (key, value) in patch {
        match key.strip_prefix("$deleteFromPrimitiveList/") {
            Some(list) => remove_items(&mut object[list], value),
            None if key.starts_with('$') => (),
            None => merge_member(object, key, value),
        }
    }
}

fn merge_member(object: &mut Value, key: &str, value: &Value) {
    match (key, value) {
        (_, Value::Null) => drop(object.as_object_mut().map(|map| map.remove(key))),
        ("finalizers", Value::Array(items)) => merge_items(&mut object[key], items, |item| item),
        ("ownerReferences", Value::Array(items)) => merge_items(&mut object[key], items, |item| &item["uid"]),
        _ => merge_strategically(&mut object[key], value),
    }
}

fn merge_items(list: &mut Value, items: &[Value], identity: impl Fn(&Value) -> &Value) {
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(list) = list else { return };
    for item in items {
        let place = list.iter().position(|present| identity(present) == identity(item));
        match (place, item["$patch"] == "delete") {
            (Some(place), true) => drop(list.remove(place)),
            (Some(place), false) => merge_strategically(&mut list[place], item),
            (None, true) => (),
            (None, false) => list.push(item.clone()),
        }
    }
}

fn remove_items(list: &mut Value, unwanted: &Value) {
    let unwanted = unwanted.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Value::Array(list) = list {
        list.retain(|item| !unwanted.contains(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(kind: PatchKind, patch: Value) -> Result<Value, u16> {
        let mut object = json!({"metadata": {"finalizers": ["a"]}, "spec": {"x": 1, "list": [1, 2]}});
        kind.apply(&mut object, &patch).map_err(|failure| failure.code())?;
        Ok(object)
    }

    #[test]
    fn a_json_patch_that_does_not_apply_is_a_422() {
        let failing = [
            json!([{"op": "test", "path": "/spec/x", "value": 2}]),
            json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": {}}]),
            json!([{"op": "remove", "path": "/spec/y"}]),
        ];
        for patch in failing {
            assert_eq!(patched(PatchKind::Json, patch), Err(422));
        }
        assert_eq!(patched(PatchKind::Json, json!({"op": "add"})), Err(400));
    }

    #[test]
    fn patches_change_what_they_name() {
        let added = patched(PatchKind::Json, json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "b"}]));
        assert_eq!(added.expect("applies")["metadata"]["finalizers"], json!(["a", "b"]));
        let merged = patched(PatchKind::Merge, json!({"spec": {"x": null, "list": [3]}}));
        assert_eq!(merged.expect("applies")["spec"], json!({"list": [3]}));
        let strategic = patched(PatchKind::Strategic, json!({"metadata": {"finalizers": ["b"]}, "spec": {"x": null}}));
        let strategic = strategic.expect("applies");
        assert_eq!(strategic["metadata"]["finalizers"], json!(["a", "b"]));
        assert_eq!(strategic["spec"], json!({"list": [1, 2]}));
    }
}
