//! Patches of the source object: as few as possible, each bound to the version it was computed from.

use std::collections::BTreeMap;

use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use serde_json::{Value, json};

use super::decision::Evidence;
use super::{Action, Observed, Pin, SourcePatch, targets};
use crate::object::compare::has_short_pointers;
use crate::object::marks::{self, Writer};
use crate::object::{has_finalizer, metadata};

/// Adds the finalizer, and pins the target, and with it `others` that the source goes to, in one patch.
pub fn add_finalizer(observed: &Observed, source: &Value, others: Vec<(String, String)>) -> Action {
    let finalizer = observed.subject.writer.finalizer();
    let mut patch = vec![guard(source)];
    if let Some(Pin { connection, identity }) = &observed.target.pin {
        let (key, mut pins) = (observed.subject.writer.target_annotation(), pins(&observed.subject.writer, source));
        pins.insert(connection.clone(), identity.clone());
        // One that has another cluster under its name is reported by its own plan.
        for (name, identity) in others {
            pins.entry(name).or_insert(identity);
        }
        let pins = joined(&pins);
        patch.push(match source.pointer("/metadata/annotations") {
            Some(Value::Object(_)) => add(["metadata", "annotations", key], pins.into()),
            _ => add(["metadata", "annotations"], json!({key: pins})),
        });
    }
    if !has_finalizer(source, finalizer) {
        patch.push(match source.pointer("/metadata/finalizers") {
            Some(Value::Array(_)) => add(["metadata", "finalizers", "-"], finalizer.into()),
            _ => add(["metadata", "finalizers"], json!([finalizer])),
        });
    }
    Action::PatchSource { purpose: SourcePatch::AddFinalizer, patch: Patch(patch) }
}

/// The targets that a source was synced to: identity by connection.
pub fn pins(writer: &Writer, source: &Value) -> BTreeMap<String, String> {
    let pins = marks::annotation(source, writer.target_annotation()).unwrap_or_default();
    let pair =
        |pair: &str| pair.split_once('=').map(|(connection, identity)| (connection.to_owned(), identity.to_owned()));
    pins.split(',').filter_map(pair).collect()
}

fn joined(pins: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = pins.iter().map(|(connection, identity)| format!("{connection}={identity}")).collect();
    pairs.join(",")
}

/// Nothing is left on this target: takes it off the annotation, or, where it is the last, releases the finalizer.
fn release_target(observed: &Observed, source: &Value, because: Evidence) -> Action {
    let mut pins = pins(&observed.subject.writer, source);
    for own in targets::own_pins(observed, &pins) {
        pins.remove(&own);
    }
    if pins.is_empty() {
        return release_finalizer(&observed.subject.writer, source, because);
    }
    let patch = metadata_patch(source, |metadata| {
        metadata["annotations"][observed.subject.writer.target_annotation()] = joined(&pins).into();
    });
    Action::PatchSource { purpose: SourcePatch::Unpin(because), patch }
}

pub fn release_finalizer(writer: &Writer, source: &Value, because: Evidence) -> Action {
    let patch = metadata_patch(source, |metadata| {
        if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| finalizer != writer.finalizer());
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(writer.target_annotation());
        }
    });
    Action::PatchSource { purpose: SourcePatch::ReleaseFinalizer(because), patch }
}

/// What releases a source: its finalizer, or, in its LogicalCluster's status, what kcp holds a workspace up by: this entry and no
/// other, of the version that was seen. `None`: it is released already.
pub fn release(observed: &Observed, source: &Value, because: Evidence) -> Option<Action> {
    let Some(hold) = &observed.subject.hold else { return Some(release_target(observed, source, because)) };
    let at = PointerBuf::from_tokens(["status", hold.stage.list(), &hold.index_in(source)?.to_string()]);
    let is_it = PatchOperation::Test(TestOperation { path: at.clone(), value: hold.name.as_str().into() });
    let patch = vec![guard(source), is_it, PatchOperation::Remove(RemoveOperation { path: at })];
    Some(Action::PatchSource { purpose: SourcePatch::ReleaseHold(hold.stage), patch: Patch(patch) })
}

fn metadata_patch(source: &Value, change: impl FnOnce(&mut Value)) -> Patch {
    let mut new = source["metadata"].clone();
    change(&mut new);
    guarded(source, Pointer::from_static("/metadata"), source.get("metadata"), Some(new))
}

/// JSON Patch from one tree to another at a place of the source, bound to the source's resourceVersion: a newer version,
/// an object created anew under the same name, and somebody else's change to the same list are all answered by a clean
/// 409.
pub fn guarded(source: &Value, at: &Pointer, old: Option<&Value>, new: Option<Value>) -> Patch {
    let changes = match (old, new) {
        // A patch has a pointer for each change, with all names above it.
        (Some(old), Some(new)) if !has_short_pointers(old) || !has_short_pointers(&new) => {
            vec![PatchOperation::Replace(ReplaceOperation { path: at.to_buf(), value: new })]
        }
        (Some(old), Some(new)) => json_patch::diff(old, &new).0.into_iter().map(|change| placed(at, change)).collect(),
        (None, Some(new)) => vec![PatchOperation::Add(AddOperation { path: at.to_buf(), value: new })],
        (Some(_), None) => vec![PatchOperation::Remove(RemoveOperation { path: at.to_buf() })],
        (None, None) => Vec::new(),
    };
    Patch([guard(source)].into_iter().chain(changes).collect())
}

/// A change of a part of the source, as one of the whole.
fn placed(at: &Pointer, mut change: PatchOperation) -> PatchOperation {
    match &mut change {
        PatchOperation::Add(AddOperation { path, .. })
        | PatchOperation::Replace(ReplaceOperation { path, .. })
        | PatchOperation::Remove(RemoveOperation { path }) => *path = at.concat(path),
        PatchOperation::Move(_) | PatchOperation::Copy(_) | PatchOperation::Test(_) => {
            unreachable!("two trees differ by what is added, removed and replaced")
        }
    }
    change
}

pub fn add<const N: usize>(at: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(at), value })
}

/// Binds a patch to the version it was computed from.
pub fn guard(source: &Value) -> PatchOperation {
    let path = Pointer::from_static("/metadata/resourceVersion").to_buf();
    PatchOperation::Replace(ReplaceOperation { path, value: metadata(source, "resourceVersion").into() })
}
