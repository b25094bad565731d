//! Reading a body as an object of its kind: what has the wrong type is refused, what nobody knows is dropped, and what
//! says nothing is as if it were not there.

use serde_json::{Map, Value};
use sync_engine_mapping::object::encode_string_data;

use super::quantity;
use super::resource::Resource;
use super::schema::Schema;

/// Fields of `metadata`, and the Go type that messages name where it is not a text.
const METADATA: [(&str, &str); 15] = [
    ("annotations", "map[string]string"),
    ("creationTimestamp", "string"),
    ("deletionGracePeriodSeconds", "int64"),
    ("deletionTimestamp", "string"),
    ("finalizers", "[]string"),
    ("generateName", "string"),
    ("generation", "int64"),
    ("labels", "map[string]string"),
    ("managedFields", "[]v1.ManagedFieldsEntry"),
    ("name", "string"),
    ("namespace", "string"),
    ("ownerReferences", "[]v1.OwnerReference"),
    ("resourceVersion", "string"),
    ("selfLink", "string"),
    ("uid", "string"),
];

/// Top-level fields of built-in kinds that are there also when they are empty.
const KEPT_EMPTY: [&str; 5] = ["metadata", "spec", "status", "rules", "roleRef"];

/// Reads `metadata` of any kind. Gives the paths of unknown fields, or why it cannot be read.
pub(super) fn metadata(object: &mut Value, resource: &Resource) -> Result<Vec<String>, String> {
    let Some(metadata) = object.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
    let place = if resource.custom { "ObjectMeta" } else { "ObjectMeta.metadata" };
    let Value::Object(map) = metadata else {
        return Err(mismatch(metadata, &resource.kind, "metadata", "v1.ObjectMeta"));
    };
    let mut unknown = Vec::new();
    for (name, value) in map.iter() {
        match METADATA.iter().find(|(known, _)| known == name) {
            None => unknown.push(format!("metadata.{name}")),
            Some((_, wanted)) => check_type(value, place, name, wanted)?,
        }
    }
    map.retain(|name, value| {
        METADATA.iter().any(|(known, _)| known == name) && (name == "managedFields" || !is_empty(value))
    });
    Ok(unknown)
}

fn check_type(value: &Value, place: &str, field: &str, wanted: &str) -> Result<(), String> {
    let is_text = |item: &&Value| item.is_string() || item.is_null();
    let not_text = |item: Option<&Value>| item.map_or(Ok(()), |item| Err(mismatch(item, place, field, "string")));
    match (wanted, value) {
        (_, Value::Null) => Ok(()),
        ("map[string]string", Value::Object(map)) => not_text(map.values().find(|item| !is_text(item))),
        ("[]string", Value::Array(items)) => not_text(items.iter().find(|item| !is_text(item))),
        ("string", Value::String(_)) | ("int64", Value::Number(_)) => Ok(()),
        (list, Value::Array(_)) if list.starts_with("[]v1") => Ok(()),
        (wanted, value) => Err(mismatch(value, place, field, wanted)),
    }
}

/// Reads an object of a built-in kind: refuses types that are wrong, and drops what is empty.
pub(super) fn builtin(object: &mut Value, resource: &Resource, schema: &Schema) -> Result<(), String> {
    if resource.is("", "resourcequotas") {
        for pointer in ["/spec/hard", "/status/hard", "/status/used"] {
            let quantities = object.pointer_mut(pointer).and_then(Value::as_object_mut);
            quantities.into_iter().flat_map(|map| map.values_mut()).try_for_each(in_one_form)?;
        }
    }
    if let Some((path, value, wanted)) = schema.first_mismatch(object, "") {
        return Err(mismatch(&value, &resource.kind, &path, wanted));
    }
    if let Some(map) = object.as_object_mut() {
        map.retain(|name, value| !value.is_null() && (KEPT_EMPTY.contains(&name.as_str()) || !is_empty(value)));
    }
    if resource.is("", "secrets") {
        let data = object["data"].as_object().into_iter().flat_map(Map::values).filter_map(Value::as_str);
        if let Some(position) = data.filter_map(broken_base64).next() {
            return Err(format!("illegal base64 data at input byte {position}"));
        }
        encode_string_data(object);
    }
    Ok(())
}

/// A quantity is a text or a number, and is stored in one form.
fn in_one_form(quantity: &mut Value) -> Result<(), String> {
    let text = match &*quantity {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Ok(()),
    };
    *quantity = quantity::canonical(&text).ok_or(quantity::EXPECTED)?.into();
    Ok(())
}

/// Where a text is no base 64: at the first character that cannot be one of it.
fn broken_base64(text: &str) -> Option<usize> {
    let broken = data_encoding::BASE64.decode(text.as_bytes()).err()?;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    Some(text.bytes().position(|byte| !is_digit(byte)).unwrap_or(broken.position))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// The type of a value, as Go's JSON decoder calls it.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null | Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn mismatch(value: &Value, place: &str, field: &str, wanted: &str) -> String {
    let got = json_type(value);
    format!("json: cannot unmarshal {got} into Go struct field {place}.{field} of type {wanted}")
}
