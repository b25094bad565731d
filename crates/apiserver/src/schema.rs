//! Structural schemas: what they prune, default and refuse.
//!
//! Rules in CEL, `oneOf`/`anyOf`/`allOf`/`not` and formats are not evaluated.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::shape::List;
use super::status::Cause;

/// A structural schema, ready to be used.
#[derive(Debug, Default)]
pub struct Schema {
    /// One of [`TYPES`]; `None` for any.
    kind: Option<&'static str>,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Option<Box<Schema>>,
    /// `additionalProperties: true`, or `x-kubernetes-preserve-unknown-fields`.
    open: bool,
    pub(super) items: Option<Box<Schema>>,
    required: Vec<String>,
    nullable: bool,
    int_or_string: bool,
    embedded: bool,
    default: Option<Value>,
    allowed: Vec<Value>,
    pub(super) list: List,
    /// Whether a map is one value.
    pub(super) is_atomic_map: bool,
    /// Whether the values are whole objects, which have metadata beside what is said here.
    pub(super) has_metadata: bool,
    limits: Limits,
}

/// The types that schemas know; values are of those that [`type_name`] says.
const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];

#[derive(Debug, Default)]
struct Limits {
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    pattern: Option<Regex>,
}

impl Schema {
    /// Reads a schema document (`openAPIV3Schema` of a CRD, `schema` of an APIResourceSchema). Patterns that do not
    /// compile here are left out.
    pub fn compile(document: &Value) -> Schema {
        let flag = |name: &str| document[name].as_bool().unwrap_or_default();
        let child = |name: &str| document.get(name).filter(|v| v.is_object()).map(|v| Box::new(Schema::compile(v)));
        let properties = document["properties"].as_object().into_iter().flatten();
        Schema {
            kind: TYPES.into_iter().find(|known| document["type"] == *known),
            properties: properties.map(|(name, value)| (name.clone(), Schema::compile(value))).collect(),
            additional: child("additionalProperties"),
            open: flag("x-kubernetes-preserve-unknown-fields") || flag("additionalProperties"),
            items: child("items"),
            required: strings(&document["required"]),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            embedded: flag("x-kubernetes-embedded-resource"),
            default: document.get("default").cloned(),
            allowed: document["enum"].as_array().cloned().unwrap_or_default(),
            list: List::compile(document),
            is_atomic_map: document["x-kubernetes-map-type"] == "atomic",
            has_metadata: false,
            limits: Limits::compile(document),
        }
    }

    /// The schema of whole objects; `null` for one that says nothing.
    pub fn of_object(document: &Value) -> Schema {
        Schema { has_metadata: true, ..Schema::compile(document) }
    }

    /// Drops what a whole object may not contain and returns the paths of what was dropped. `apiVersion`, `kind` and
    /// `metadata` always stay.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        if let Value::Object(map) = object {
            self.prune_map(map, "", true, &mut dropped);
        }
        dropped
    }

    fn prune_value(&self, value: &mut Value, path: &str, dropped: &mut Vec<String>) {
        match value {
            Value::Object(map) => self.prune_map(map, path, self.embedded, dropped),
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    schema.prune_value(item, &format!("{path}[{index}]"), dropped);
                }
            }
            _ => (),
        }
    }

    fn prune_map(&self, map: &mut Map<String, Value>, path: &str, is_resource: bool, dropped: &mut Vec<String>) {
        map.retain(|key, value| {
            if is_resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let Some(schema) = self.properties.get(key).or(self.additional.as_deref()) else {
                if !self.open {
                    dropped.push(joined(path, key));
                }
                return self.open;
            };
            schema.prune_value(value, &joined(path, key), dropped);
            true
        });
    }

    /// Fills in defaults, also for a null where null is not allowed.
    pub fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => self.fill_map(map),
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                items.iter_mut().for_each(|item| schema.fill_defaults(item));
            }
            _ => (),
        }
    }

    fn fill_map(&self, map: &mut Map<String, Value>) {
        for (name, schema) in &self.properties {
            let is_idle = map.get(name).is_none_or(|value| value.is_null() && !schema.nullable);
            match &schema.default {
                Some(default) if is_idle => drop(map.insert(name.clone(), default.clone())),
                // A null that is not allowed, and that nothing stands for, is not there.
                None if is_idle => drop(map.remove(name)),
                _ => (),
            }
        }
        for (name, value) in map {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                schema.fill_defaults(value);
            }
        }
    }

    /// The first value below `path` of a type that it may not have: its path in the terms of Go, where indexes and the keys of
    /// maps are left out, and the type that was wanted. Null is of every type.
    pub fn first_mismatch(&self, value: &Value, path: &str) -> Option<(String, Value, &'static str)> {
        if !value.is_null() && !self.fits_type(value) {
            return Some((path.to_owned(), value.clone(), self.go_type()));
        }
        match value {
            Value::Object(map) => map.iter().find_map(|(name, value)| match self.properties.get(name) {
                Some(schema) => schema.first_mismatch(value, &joined(path, name)),
                None => self.additional.as_deref()?.first_mismatch(value, path),
            }),
            Value::Array(items) => {
                let schema = self.items.as_deref()?;
                items.iter().find_map(|item| schema.first_mismatch(item, path))
            }
            _ => None,
        }
    }

    fn go_type(&self) -> &'static str {
        match self.kind {
            Some("object") => "map[string]string",
            Some("array") => "[]string",
            Some("integer") => "int32",
            Some("number") => "float64",
            Some("boolean") => "bool",
            _ => "string",
        }
    }

    /// Everything that is wrong with the status of an object; messages count from there.
    pub fn validate_status(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let (Some(schema), Some(status)) = (self.properties.get("status"), object.get("status")) {
            schema.check(status, &Path { full: "status".into(), said: String::new() }, &mut causes);
        }
        causes
    }

    /// Everything that is wrong with a whole object.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        self.check(object, &Path::default(), &mut causes);
        causes
    }

    fn check(&self, value: &Value, path: &Path, causes: &mut Vec<Cause>) {
        if value.is_null() && self.nullable {
            return;
        }
        if !self.fits_type(value) {
            self.refuse_type(value, path, causes);
            return;
        }
        self.check_enum(value, path, causes);
        self.limits.check(value, path, causes);
        match value {
            Value::Object(map) => self.check_map(map, path, causes),
            Value::Array(items) => self.check_items(items, path, causes),
            _ => (),
        }
    }

    fn check_map(&self, map: &Map<String, Value>, path: &Path, causes: &mut Vec<Cause>) {
        for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
            causes.push(Cause::new("FieldValueRequired", path.field(name).full, "Required value"));
        }
        for (name, value) in map {
            if let Some(schema) = self.properties.get(name).or(self.additional.as_deref()) {
                schema.check(value, &path.field(name), causes);
            }
        }
    }

    fn check_items(&self, items: &[Value], path: &Path, causes: &mut Vec<Cause>) {
        let Some(schema) = &self.items else { return };
        let before = causes.len();
        for (index, item) in items.iter().enumerate() {
            schema.check(item, &path.item(index), causes);
        }
        if causes.len() > before || matches!(self.list, List::Atomic) {
            return;
        }
        let keys: Vec<Box<str>> = items.iter().map(|item| self.item_key(item)).collect();
        for (index, key) in keys.iter().enumerate().filter(|(index, key)| keys[..*index].contains(key)) {
            // Behind `k:` or `v:`.
            let message = format!("Duplicate value: {}", &key[2..]);
            causes.push(Cause::new("FieldValueDuplicate", path.item(index).full, message));
        }
    }

    fn check_enum(&self, value: &Value, path: &Path, causes: &mut Vec<Cause>) {
        if self.allowed.is_empty() || self.allowed.contains(value) {
            return;
        }
        let allowed: Vec<String> = self.allowed.iter().map(Value::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        causes.push(Cause::new("FieldValueNotSupported", &*path.full, message));
    }

    fn fits_type(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || value.is_i64() || value.is_u64();
        }
        match self.kind {
            None => true,
            Some("number") => value.is_number(),
            Some(kind) => kind == type_name(value),
        }
    }

    fn refuse_type(&self, value: &Value, path: &Path, causes: &mut Vec<Cause>) {
        let wanted = if self.int_or_string { "integer,string" } else { self.kind.unwrap_or("anything") };
        let (got, Path { full, said }) = (type_name(value), path);
        let message = format!("Invalid value: {got:?}: {said} in body must be of type {wanted}: {got:?}");
        causes.push(Cause::new("FieldValueTypeInvalid", full, message));
        if self.kind == Some("integer") && value.is_f64() {
            // Servers check numbers once more, and know no field then.
            let message =
                format!("Invalid value: \"\": Checked value must be of type integer (default format) in {said}");
            causes.push(Cause::new("FieldValueInvalid", "<nil>", message));
        }
    }
}

/// Where a value stands: the whole path, and the part of it that messages say.
#[derive(Debug, Default)]
struct Path {
    full: String,
    said: String,
}

impl Path {
    fn field(&self, name: &str) -> Path {
        Path { full: joined(&self.full, name), said: joined(&self.said, name) }
    }

    fn item(&self, index: usize) -> Path {
        Path { full: format!("{}[{index}]", self.full), said: format!("{}[{index}]", self.said) }
    }
}

impl Limits {
    fn compile(document: &Value) -> Limits {
        Limits {
            minimum: document["minimum"].as_f64(),
            maximum: document["maximum"].as_f64(),
            min_length: document["minLength"].as_u64(),
            max_length: document["maxLength"].as_u64(),
            min_items: document["minItems"].as_u64(),
            max_items: document["maxItems"].as_u64(),
            pattern: document["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok()),
        }
    }

    fn check(&self, value: &Value, path: &Path, causes: &mut Vec<Cause>) {
        let mut refuse = |reason: &'static str, message: String| causes.push(Cause::new(reason, &*path.full, message));
        let should = |why: String| format!("Invalid value: {value}: {} in body should {why}", path.said);
        let invalid = "FieldValueInvalid";
        match value {
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                if let Some(minimum) = self.minimum.filter(|minimum| number < *minimum) {
                    refuse(invalid, should(format!("be greater than or equal to {minimum}")));
                }
                if let Some(maximum) = self.maximum.filter(|maximum| number > *maximum) {
                    refuse(invalid, should(format!("be less than or equal to {maximum}")));
                }
            }
            Value::String(text) => {
                let length = text.chars().count() as u64;
                if let Some(least) = self.min_length.filter(|least| length < *least) {
                    refuse(invalid, should(format!("be at least {least} chars long")));
                }
                if let Some(most) = self.max_length.filter(|most| length > *most) {
                    refuse("FieldValueTooLong", format!("Too long: may not be more than {most} bytes"));
                    return;
                }
                if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
                    refuse(invalid, should(format!("match '{pattern}'")));
                }
            }
            Value::Array(items) => {
                let count = items.len() as u64;
                if let Some(least) = self.min_items.filter(|least| count < *least) {
                    refuse(invalid, should(format!("have at least {least} items")));
                }
                if let Some(most) = self.max_items.filter(|most| count > *most) {
                    refuse("FieldValueTooMany", format!("Too many: {count}: must have at most {most} items"));
                }
            }
            _ => (),
        }
    }
}

pub(super) fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
