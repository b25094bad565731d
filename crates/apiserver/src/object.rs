//! The parts of an object that every kind has.

use serde_json::{Map, Value, json};

pub(super) use sync_engine_mapping::object::{is_deleting, metadata as text};

pub(super) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Adds a finalizer where it is missing.
pub(super) fn add_finalizer(object: &mut Value, finalizer: &str) {
    match object["metadata"]["finalizers"].as_array_mut() {
        Some(finalizers) if finalizers.iter().any(|found| found == finalizer) => (),
        Some(finalizers) => finalizers.push(finalizer.into()),
        None => set(object, "finalizers", Some(json!([finalizer]))),
    }
}

/// Whether something keeps the object from going: a finalizer, or one of a namespace's own in its `spec`.
pub(super) fn is_held(object: &Value) -> bool {
    let is_namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    let of_spec = object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    finalizers(object).next().is_some() || is_namespace && of_spec
}

/// `metadata`, made where it is missing.
pub(super) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().expect("made an object above")
}

/// Sets or removes a field of `metadata`.
pub(super) fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(metadata(object).insert(field.to_owned(), value)),
        None => drop(metadata(object).remove(field)),
    }
}

/// Sets or removes a top-level field.
pub(super) fn set_part(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(map) = object.as_object_mut() else { return };
    match value {
        Some(value) => drop(map.insert(field.to_owned(), value)),
        None => drop(map.remove(field)),
    }
}

/// Sets or removes one entry of `metadata.labels` or `metadata.annotations`.
pub(super) fn set_entry(object: &mut Value, map: &str, key: &str, value: Option<&str>) {
    let metadata = metadata(object);
    if value.is_some() && !metadata.get(map).is_some_and(Value::is_object) {
        metadata.insert(map.to_owned(), json!({}));
    }
    let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) else { return };
    match value {
        Some(value) => drop(entries.insert(key.to_owned(), value.into())),
        None => drop(entries.remove(key)),
    }
}

/// Numbers as a server written in Go stores them: integers beyond 64 bits and numbers with a fraction are floating
/// point, and a fraction of zero is dropped (`1.0` is kept as `1`).
pub fn normalise_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalise_numbers),
        Value::Object(map) => map.values_mut().for_each(normalise_numbers),
        Value::Number(number) if !number.is_i64() => {
            let float = number.as_f64().unwrap_or_default();
            let fits_integer = float.fract() == 0.0 && float.abs() < 1e18;
            *value = if fits_integer { Value::from(float as i64) } else { Value::from(float) };
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_as_go_keeps_them() {
        let mut value = json!({"a": [1.0, 1.5, 9007199254740993i64, 18446744073709551615u64]});
        normalise_numbers(&mut value);
        assert_eq!(value, json!({"a": [1, 1.5, 9007199254740993i64, 18446744073709551615.0]}));
    }
}
