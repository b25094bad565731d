//! Patches of the source object: as few as possible, each bound to the version it was computed from.

use json_patch::{AddOperation, PatchOperation, ReplaceOperation};
use serde_json::{Value, json};

use super::{Action, Observed, SourcePatch};
use crate::object::compare::escape_pointer;
use crate::object::metadata;

/// Adds our finalizer, and pins the target, in one patch.
pub fn add_finalizer(observed: &Observed, source: &Value, identity: &str) -> Action {
    let finalizer = json!(observed.writer.finalizer());
    let finalizer = match source.pointer("/metadata/finalizers") {
        Some(Value::Array(_)) => json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}),
        _ => json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}),
    };
    let pin = observed.writer.target_annotation();
    let pin = match source.pointer("/metadata/annotations") {
        Some(Value::Object(_)) => {
            let path = format!("/metadata/annotations/{}", escape_pointer(&pin));
            json!({"op": "add", "path": path, "value": identity})
        }
        _ => json!({"op": "add", "path": "/metadata/annotations", "value": {pin: identity}}),
    };
    let patch = Value::Array(vec![guard(source), pin, finalizer]);
    Action::PatchSource { purpose: SourcePatch::AddFinalizer, patch }
}

/// Takes our finalizer and the pin away.
pub fn release_finalizer(observed: &Observed, source: &Value) -> Action {
    let ours = observed.writer.finalizer();
    let patch = metadata_patch(source, |finalizers, annotations| {
        finalizers.retain(|finalizer| finalizer != ours.as_str());
        annotations.remove(&observed.writer.target_annotation());
    });
    Action::PatchSource { purpose: SourcePatch::ReleaseFinalizer, patch }
}

fn metadata_patch(source: &Value, change: impl FnOnce(&mut Vec<Value>, &mut serde_json::Map<String, Value>)) -> Value {
    let finalizers = source.pointer("/metadata/finalizers").and_then(Value::as_array);
    let annotations = source.pointer("/metadata/annotations").and_then(Value::as_object);
    let (mut new_finalizers, mut new_annotations) =
        (finalizers.cloned().unwrap_or_default(), annotations.cloned().unwrap_or_default());
    change(&mut new_finalizers, &mut new_annotations);
    let mut old = json!({});
    let mut new = json!({"finalizers": new_finalizers, "annotations": new_annotations});
    if let Some(finalizers) = finalizers {
        old["finalizers"] = json!(finalizers);
    }
    match annotations {
        Some(annotations) => old["annotations"] = json!(annotations),
        None if new_annotations_are_empty(&new) => drop(new.as_object_mut().map(|new| new.remove("annotations"))),
        None => {}
    }
    guarded(source, "/metadata", Some(&old), Some(&new))
}

fn new_annotations_are_empty(new: &Value) -> bool {
    new["annotations"].as_object().is_some_and(serde_json::Map::is_empty)
}

/// JSON Patch from one tree to another at a place of the source, bound to the source's resourceVersion: a newer version,
/// an object created anew under the same name, and somebody else's change to the same list are all answered by a clean
/// 409.
pub fn guarded(source: &Value, at: &str, old: Option<&Value>, new: Option<&Value>) -> Value {
    let mut patch = vec![guard(source)];
    changes(at, old, new, &mut patch);
    Value::Array(patch)
}

/// Of a map, each field for itself: most of them are the same, which costs a comparison.
fn changes(at: &str, old: Option<&Value>, new: Option<&Value>, patch: &mut Vec<Value>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let gone = old.keys().filter(|field| !new.contains_key(*field));
            for field in new.keys().chain(gone).filter(|field| old.get(*field) != new.get(*field)) {
                changes(&format!("{at}/{}", escape_pointer(field)), old.get(field), new.get(field), patch);
            }
        }
        (Some(old @ Value::Array(_)), Some(new @ Value::Array(_))) => {
            patch.extend(json_patch::diff(old, new).0.into_iter().map(|operation| operation_at(at, operation)));
        }
        (Some(_), Some(new)) => patch.push(change("replace", at, Some(new.clone()))),
        (None, Some(new)) => patch.push(change("add", at, Some(new.clone()))),
        (Some(_), None) => patch.push(change("remove", at, None)),
        (None, None) => {}
    }
}

fn operation_at(at: &str, operation: PatchOperation) -> Value {
    let path = format!("{at}{}", operation.path());
    let (verb, value) = match operation {
        PatchOperation::Add(AddOperation { value, .. }) => ("add", Some(value)),
        PatchOperation::Replace(ReplaceOperation { value, .. }) => ("replace", Some(value)),
        PatchOperation::Remove(_) => ("remove", None),
        PatchOperation::Move(_) | PatchOperation::Copy(_) | PatchOperation::Test(_) => {
            unreachable!("a difference is told by additions, replacements and removals")
        }
    };
    change(verb, &path, value)
}

fn change(verb: &str, path: &str, value: Option<Value>) -> Value {
    let value = value.map(|value| ("value", value));
    [("op", Value::from(verb)), ("path", Value::from(path))].into_iter().chain(value).collect()
}

fn guard(source: &Value) -> Value {
    json!({"op": "replace", "path": "/metadata/resourceVersion", "value": metadata(source, "resourceVersion")})
}
