//! Checks that hold for objects of every kind.

use serde_json::Value;

use super::collection::Key;
use super::object;
use super::resource::Resource;
use super::status::{Cause, Failure};

/// `apiVersion` and `kind` must be those of the URL.
pub(super) fn check_identity(object: &Value, resource: &Resource, version: &str) -> Result<(), Failure> {
    let expected = resource.api_version(version);
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    if api_version != expected {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if kind != &*resource.kind {
        return Err(Failure::bad_request(format!(
            "the kind in the data ({kind}) does not match the expected kind ({})",
            resource.kind
        )));
    }
    Ok(())
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
    check_precondition("UID", object::text(object, "uid"), object::text(old, "uid"), old, resource)
}

/// The preconditions of a deletion.
pub(super) fn check_preconditions(preconditions: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let wanted = |field: &str| preconditions[field].as_str().unwrap_or_default();
    check_precondition("UID", wanted("uid"), object::text(old, "uid"), old, resource)?;
    let version = object::text(old, "resourceVersion");
    check_precondition("ResourceVersion", wanted("resourceVersion"), version, old, resource)
}

fn check_precondition(what: &str, wanted: &str, found: &str, old: &Value, resource: &Resource) -> Result<(), Failure> {
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
    Err(Failure::conflict(resource, object::text(old, "name"), &why))
}

/// A patch cannot give an object another uid.
pub(super) fn check_uid_unchanged(object: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let uid = object::text(object, "uid");
    if uid.is_empty() || uid == object::text(old, "uid") {
        return Ok(());
    }
    let cause = Cause::new("FieldValueInvalid", "metadata.uid", format!("Invalid value: {uid:?}: field is immutable"));
    Err(Failure::invalid(resource, object::text(old, "name"), &[cause]))
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
    let message = "Invalid value: 0x0: must be specified for an update";
    Failure::invalid(resource, name, &[Cause::new("FieldValueInvalid", "metadata.resourceVersion", message)])
}

/// The answer to server-side apply without a manager.
pub(super) fn manager_missing() -> Failure {
    let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    Failure::status(422, "Invalid", message)
}

/// What can never change once it is set.
pub(super) fn check_immutable(object: &Value, old: &Value, resource: &Resource) -> Result<(), Failure> {
    let field = match (&*resource.group, &*resource.plural) {
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => "roleRef",
        ("", "secrets") => "type",
        ("apis.kcp.io", "apiresourceschemas") => "spec",
        _ => return Ok(()),
    };
    if object.get(field) == old.get(field) {
        return Ok(());
    }
    let cause = Cause::new("FieldValueInvalid", field, format!("Invalid value: {}: field is immutable", object[field]));
    Err(Failure::invalid(resource, object::text(old, "name"), &[cause]))
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
    Err(Failure::invalid(resource, object::text(old, "name"), &[cause]))
}

/// Names, labels, annotations and finalizers of any object.
pub(super) fn check_metadata(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::text(object, "name");
    if name.is_empty() {
        causes.push(Cause::new(
            "FieldValueRequired",
            "metadata.name",
            "Required value: name or generateName is required",
        ));
    } else if !is_name(name) {
        let message = format!("Invalid value: {name:?}: a lowercase RFC 1123 subdomain must be used as a name");
        causes.push(Cause::new("FieldValueInvalid", "metadata.name", message));
    }
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        if !is_qualified(key) || !value.as_str().is_some_and(is_label_value) {
            let message = format!("Invalid value: {}: not a label", format_args!("{key:?}={value}"));
            causes.push(Cause::new("FieldValueInvalid", "metadata.labels", message));
        }
    }
    for (key, value) in object["metadata"]["annotations"].as_object().into_iter().flatten() {
        if !is_qualified(&key.to_ascii_lowercase()) || !value.is_string() {
            let message = format!("Invalid value: {}: not an annotation", format_args!("{key:?}={value}"));
            causes.push(Cause::new("FieldValueInvalid", "metadata.annotations", message));
        }
    }
    for finalizer in object::finalizers(object).filter(|finalizer| !is_qualified(finalizer)) {
        let message = format!("Invalid value: {finalizer:?}: name part must consist of alphanumeric characters");
        causes.push(Cause::new("FieldValueInvalid", "metadata.finalizers", message));
    }
    causes
}

/// What a URL can carry as one segment: the strict rule for names, and the colons of RBAC.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | ':');
    name.len() <= 253 && name.chars().all(allowed) && starts_and_ends_alphanumeric(name)
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_part(value)
}

/// `name` or `prefix/name`.
fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_name(prefix) && is_label_part(name),
        None => is_label_part(key),
    }
}

fn is_label_part(part: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    part.len() <= 63 && part.chars().all(allowed) && starts_and_ends_alphanumeric(part)
}

fn starts_and_ends_alphanumeric(text: &str) -> bool {
    let ends = [text.chars().next(), text.chars().next_back()];
    ends.iter().all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
}
