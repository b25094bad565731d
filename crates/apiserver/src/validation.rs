//! Checks that hold for objects of every kind.

use serde_json::Value;

use super::collection::Key;
use super::names;
use super::object;
use super::resource::Resource;
use super::status::{Cause, Failure};

/// Levels of an object. Its managedFields nest a little deeper, and all of it is read again with serde_json's limit of 127.
const LEVELS: usize = 100;

/// Bytes of all annotations of an object, their keys included.
pub(super) const ANNOTATIONS: usize = 256 << 10;

/// An object can be read again once it is stored.
pub(super) fn check_depth(object: &Value) -> Result<(), Failure> {
    if fits(object, LEVELS) {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "the object is nested deeper than {LEVELS} levels, which the sandbox does not keep"
    )))
}

fn fits(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, below)),
        Value::Object(fields) => fields.values().all(|field| fits(field, below)),
        _ => true,
    }
}

/// `apiVersion` and `kind` must be those of the URL; a built-in kind may leave both out.
pub(super) fn check_identity(object: &mut Value, resource: &Resource, version: &str) -> Result<(), Failure> {
    let expected = resource.api_version(version);
    if !resource.custom && object.is_object() && object.get("apiVersion").is_none() && object.get("kind").is_none() {
        object["apiVersion"] = expected.as_str().into();
        object["kind"] = (*resource.kind).into();
    }
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    if api_version != expected && !resource.custom && !api_version.is_empty() {
        return Err(Failure::bad_request(format!(
            "{kind} in version {api_version:?} cannot be handled as a {}: no kind {kind:?} is registered for version \
             {api_version:?} in scheme \"sandbox\"",
            resource.kind
        )));
    }
    if api_version != expected {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    match kind == &*resource.kind {
        true => Ok(()),
        false if resource.custom => Err(Failure::wrong_kind(resource, kind, object::text(object, "name"))),
        false => Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {0}: converting ({version}.{kind}) to (core.{0}): unknown conversion",
            resource.kind
        ))),
    }
}

/// What is applied must say what and whom it is about.
pub(super) fn check_applied(config: &Value, resource: &Resource, version: &str, key: &Key) -> Result<(), Failure> {
    let api_version = config["apiVersion"].as_str().unwrap_or_default();
    let kind = config["kind"].as_str().unwrap_or_default();
    if api_version != resource.api_version(version) || kind != &*resource.kind {
        let separator = if api_version.contains('/') { "" } else { "/" };
        return Err(Failure::bad_request(format!("invalid object type: {separator}{api_version}, Kind={kind}")));
    }
    if !config["metadata"]["managedFields"].is_null() {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    if object::text(config, "name").is_empty() {
        let name = &key.name;
        let why = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Failure::bad_request(why));
    }
    check_address(config, key)
}

/// Name and namespace must be those of the URL, where the object says them.
pub(super) fn check_address(object: &Value, key: &Key) -> Result<(), Failure> {
    let (name, namespace) = (object::text(object, "name"), object::text(object, "namespace"));
    if !name.is_empty() && name != &*key.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if !namespace.is_empty() && namespace != &*key.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// An update that names another uid is about another object.
pub(super) fn check_uid_precondition(object: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let (wanted, found) = (object::text(object, "uid"), object::text(old, "uid"));
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let (name, namespace) = (object::text(old, "name"), object::text(old, "namespace"));
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{namespace}/{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
        resource.plural
    );
    Err(Failure::conflict(resource, name, &why))
}

/// The preconditions of a deletion.
pub(super) fn check_preconditions(preconditions: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let check = |field: &str, what: &str, consequence: &str| {
        let (wanted, found) = (preconditions[field].as_str().unwrap_or_default(), object::text(old, field));
        if wanted.is_empty() || wanted == found {
            return Ok(());
        }
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
             The object might have been {consequence}"
        );
        Err(Failure::precondition(resource, object::text(old, "name"), &why))
    };
    check("uid", "UID", "deleted and then recreated")?;
    check("resourceVersion", "ResourceVersion", "modified")
}

/// A patch cannot give an object another uid.
pub(super) fn check_uid_unchanged(object: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let uid = object::text(object, "uid");
    if uid.is_empty() || uid == object::text(old, "uid") {
        return Ok(());
    }
    let cause = Cause::new("FieldValueInvalid", "metadata.uid", format!("Invalid value: {uid:?}: field is immutable"));
    // Servers find it twice.
    Err(Failure::invalid(resource, object::text(old, "name"), &[cause.clone(), cause]))
}

/// A write that names a version must name the present one.
pub(super) fn check_version(object: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let version = object::text(object, "resourceVersion");
    if version.is_empty() || version == object::text(old, "resourceVersion") {
        return Ok(());
    }
    Err(Failure::modified(resource, object::text(old, "name")))
}

/// The answer to an unconditional update of a custom resource.
pub(super) fn version_missing(resource: &Resource, name: &str) -> Failure {
    let message = "Invalid value: 0: must be specified for an update";
    Failure::invalid_resource(resource, name, &[Cause::new("FieldValueInvalid", "metadata.resourceVersion", message)])
}

/// Finalizers cannot be added to an object that is being deleted.
pub(super) fn check_finalizers(object: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    if !object::is_deleting(old) {
        return Ok(());
    }
    let present: Vec<&str> = object::finalizers(old).collect();
    let added: Vec<&str> = object::finalizers(object).filter(|finalizer| !present.contains(finalizer)).collect();
    if added.is_empty() {
        return Ok(());
    }
    let quoted: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
    let message = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    let cause = Cause::new("FieldValueForbidden", "metadata.finalizers", message);
    // Custom resources are checked for it twice.
    let times = if resource.custom { 2 } else { 1 };
    Err(Failure::invalid(resource, object::text(old, "name"), &vec![cause; times]))
}

/// Names, labels, annotations, finalizers and owners of any object.
pub(super) fn check_metadata(object: &Value, resource: &Resource) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut refuse = |field: &str, value: &str, why: &str| {
        causes.push(Cause::new("FieldValueInvalid", field, format!("Invalid value: {value:?}: {why}")));
    };
    let (name, prefix) = (object::text(object, "name"), object::text(object, "generateName"));
    if let Some(why) = names::of_object(&format!("{prefix}x"), resource).filter(|_| !prefix.is_empty()) {
        refuse("metadata.generateName", prefix, why);
    }
    if let Some(why) = names::of_object(name, resource).filter(|_| !name.is_empty()) {
        refuse("metadata.name", name, why);
    }
    for (key, value) in entries(object, "labels") {
        if let Some(why) = names::of_qualified(key) {
            refuse("metadata.labels", key, &why);
        }
        if let Some(why) = names::of_label_value(value) {
            refuse("metadata.labels", value, why);
        }
    }
    for (key, _) in entries(object, "annotations") {
        if let Some(why) = names::of_qualified(&key.to_ascii_lowercase()) {
            refuse("metadata.annotations", key, &why);
        }
    }
    for finalizer in object::finalizers(object) {
        if let Some(why) = names::of_qualified(finalizer) {
            refuse("metadata.finalizers", finalizer, &why);
        }
    }
    for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                refuse(&format!("metadata.ownerReferences.{field}"), "", "must not be empty");
            }
        }
    }
    if name.is_empty() {
        let message = "Required value: name or generateName is required";
        causes.push(Cause::new("FieldValueRequired", "metadata.name", message));
    }
    causes
}

/// Annotations have a limit together. Servers look at those of an object that is changed several times.
pub(super) fn check_annotations(object: &Value, is_new: bool, resource: &Resource) -> Result<(), Failure> {
    let size: usize = entries(object, "annotations").map(|(key, value)| key.len() + value.len()).sum();
    if size <= ANNOTATIONS {
        return Ok(());
    }
    let message = format!("Too long: may not be more than {ANNOTATIONS} bytes");
    let cause = Cause::new("FieldValueTooLong", "metadata.annotations", message);
    let times = match (is_new, resource.custom) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 4,
    };
    Err(Failure::invalid(resource, object::text(object, "name"), &vec![cause; times]))
}

/// What is said of finalizers that may meet others of the same name.
pub(super) fn finalizer_warnings(object: &Value) -> Vec<String> {
    let vague = object::finalizers(object).filter(|finalizer| !finalizer.contains('/'));
    let vague = vague.filter(|finalizer| !["kubernetes", "orphan", "foregroundDeletion"].contains(finalizer));
    let warning = |finalizer: &str| {
        format!(
            "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
             with other finalizer writers"
        )
    };
    vague.map(warning).collect()
}

fn entries<'a>(object: &'a Value, map: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = object["metadata"][map].as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}
