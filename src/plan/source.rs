//! Patches of the source object: as few as possible, each bound to the version it was computed from.

use json_patch::PatchOperation;
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
            let path = format!("/metadata/annotations/{}", escape_pointer(pin));
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
        finalizers.retain(|finalizer| finalizer != ours);
        annotations.remove(observed.writer.target_annotation());
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
    guarded(source, "/metadata", Some(&old), Some(new))
}

fn new_annotations_are_empty(new: &Value) -> bool {
    new["annotations"].as_object().is_some_and(serde_json::Map::is_empty)
}

/// JSON Patch from one tree to another at a place of the source, bound to the source's resourceVersion: a newer version,
/// an object created anew under the same name, and somebody else's change to the same list are all answered by a clean
/// 409.
pub fn guarded(source: &Value, at: &str, old: Option<&Value>, new: Option<Value>) -> Value {
    let changes = match (old, new) {
        (Some(old), Some(new)) => json_patch::diff(old, &new).0.into_iter().map(|change| placed(at, change)).collect(),
        (None, Some(new)) => vec![operation("add", at, Some(new))],
        (Some(_), None) => vec![operation("remove", at, None)],
        (None, None) => Vec::new(),
    };
    std::iter::once(guard(source)).chain(changes).collect()
}

/// A change of a part of the source, as one of the whole.
fn placed(at: &str, change: PatchOperation) -> Value {
    let path = format!("{at}{}", change.path());
    match change {
        PatchOperation::Add(add) => operation("add", &path, Some(add.value)),
        PatchOperation::Replace(replace) => operation("replace", &path, Some(replace.value)),
        PatchOperation::Remove(_) => operation("remove", &path, None),
        PatchOperation::Move(_) | PatchOperation::Copy(_) | PatchOperation::Test(_) => {
            unreachable!("two trees differ by what is added, removed and replaced")
        }
    }
}

fn operation(op: &str, path: &str, value: Option<Value>) -> Value {
    let mut operation = json!({"op": op, "path": path});
    if let Some(value) = value {
        // The macro would copy it.
        operation["value"] = value;
    }
    operation
}

fn guard(source: &Value) -> Value {
    json!({"op": "replace", "path": "/metadata/resourceVersion", "value": metadata(source, "resourceVersion")})
}
