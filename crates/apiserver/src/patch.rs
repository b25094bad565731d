//! JSON Patch, merge patch, and strategic merge patch as far as built-in kinds need it.

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use super::coerce::json_type;
use super::status::Failure;

/// Carries a patch out on an object.
pub(super) type Apply = fn(&mut Value, &Value) -> Result<(), Failure>;

/// What a `Content-Type` other than that of server-side apply asks for; custom resources know no strategic merge.
pub(super) fn of_type(content_type: &str, custom: bool) -> Result<Apply, Failure> {
    match content_type {
        "application/json-patch+json" => Ok(apply_json),
        "application/merge-patch+json" => Ok(merge),
        "application/strategic-merge-patch+json" if !custom => Ok(|object, patch| {
            merge_strategically(object, patch);
            Ok(())
        }),
        _ => {
            let accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            Err(Failure::unsupported_media_type(accepted))
        }
    }
}

fn apply_json(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    let operations = patch.as_array().filter(|operations| operations.iter().all(Value::is_object));
    let operations = operations.ok_or_else(|| undecodable(patch, "[]handlers.jsonPatchOp"))?;
    for operation in operations {
        apply_operation(object, operation).ok_or_else(Failure::patch_does_not_apply)?;
    }
    Ok(())
}

/// Servers replace also what is not there yet, where it is a field of something that is.
fn apply_operation(object: &mut Value, operation: &Value) -> Option<()> {
    let mut operation = operation.clone();
    if operation["op"] == "replace" {
        let (parent, _) = operation["path"].as_str()?.rsplit_once('/')?;
        let is_field = object.pointer(parent).is_some_and(Value::is_object);
        operation["op"] = if is_field { "add" } else { "replace" }.into();
    }
    let operation: PatchOperation = serde_json::from_value(operation).ok()?;
    json_patch::patch(object, &[operation]).ok()
}

fn merge(object: &mut Value, patch: &Value) -> Result<(), Failure> {
    if !patch.is_object() {
        return Err(undecodable(patch, "map[string]interface {}"));
    }
    json_patch::merge(object, patch);
    Ok(())
}

fn undecodable(patch: &Value, wanted: &str) -> Failure {
    let got = json_type(patch);
    Failure::bad_request(format!("error decoding patch: json: cannot unmarshal {got} into Go value of type {wanted}"))
}

/// Maps merge, null removes, lists are replaced except those that kinds merge: by value, or by one field of their items.
/// Of the directives, `$deleteFromPrimitiveList`, `$patch: delete` and `$patch: replace` are known.
fn merge_strategically(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    let is_new = !object.is_object() || patch.get("$patch").is_some_and(|directive| directive == "replace");
    if is_new || patch.get("$patch").is_some_and(|directive| directive == "delete") {
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
        // The only list of this name among the kinds that are served is that of ServiceAccounts.
        ("secrets", Value::Array(items)) => merge_items(&mut object[key], items, |item| &item["name"]),
        _ => merge_strategically(&mut object[key], value),
    }
}

/// Items of the patch come first, in its order.
fn merge_items(list: &mut Value, items: &[Value], identity: impl Fn(&Value) -> &Value) {
    let mut rest = list.as_array().cloned().unwrap_or_default();
    let mut merged = Vec::new();
    for item in items {
        let place = rest.iter().position(|present| identity(present) == identity(item));
        let present = place.map(|place| rest.remove(place));
        match (present, item["$patch"] == "delete") {
            (_, true) => (),
            (Some(mut present), false) => {
                merge_strategically(&mut present, item);
                merged.push(present);
            }
            (None, false) => merged.push(item.clone()),
        }
    }
    merged.append(&mut rest);
    *list = Value::Array(merged);
}

fn remove_items(list: &mut Value, unwanted: &Value) {
    let unwanted = unwanted.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Value::Array(list) = list {
        list.retain(|item| !unwanted.contains(item));
    }
}
