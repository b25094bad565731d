//! A value that a structural schema takes: what it requires, and nothing else.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::pattern::matching;

/// Levels that are filled; deeper ones are left to their first type.
const DEPTH: usize = 24;

/// How many fields are shown of a map that requires none.
const SHOWN: usize = 3;

/// Of several values allowed, the ones that say that all is well.
const GOOD: [&str; 8] = ["Running", "Ready", "Active", "Available", "Healthy", "Succeeded", "Bound", "True"];

/// Texts for fields that carry no rule but a telling name: the text, and how such names end, in lower case.
const BY_NAME: [(&str, &[&str]); 12] = [
    ("registry.example.com/example:1.0.0", &["image", "imagename"]),
    ("1.0.0", &["version"]),
    ("1Gi", &["storage", "size", "memory"]),
    ("100m", &["cpu"]),
    ("0 0 * * *", &["schedule"]),
    ("1h", &["interval", "duration", "timeout"]),
    ("someone@example.com", &["email"]),
    ("https://example.com", &["url", "uri", "server", "endpoint"]),
    ("example.com", &["host", "hostname", "domain"]),
    ("/example", &["path"]),
    ("Running", &["phase"]),
    ("http", &["port"]),
];

/// A value with what the schema requires; `name` is the field's that holds it.
pub fn sample(schema: &Value, name: &str) -> Value {
    filled(schema, name, DEPTH)
}

/// The same, with a few optional fields where nothing is required, so that there is something to see.
pub fn telling(schema: &Value, name: &str) -> Value {
    let mut value = sample(schema, name);
    let Value::Object(fields) = &mut value else { return value };
    if fields.is_empty() {
        let optional = properties(schema).filter(|(_, schema)| is_certain(schema)).take(SHOWN);
        fields.extend(optional.map(|(name, schema)| (name.clone(), sample(schema, name))));
    }
    value
}

/// What a schema takes of a value that was made for another version of it: fields that it has, and values that it lists.
pub fn fitting(schema: &Value, value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let open = schema["additionalProperties"].as_object().map(|_| &schema["additionalProperties"]);
            let fit = |(name, value): (&String, &Value)| {
                let below = schema["properties"].get(name).or(open)?;
                Some((name.clone(), fitting(below, value)?))
            };
            if schema["x-kubernetes-preserve-unknown-fields"] == true {
                return Some(value.clone());
            }
            Some(Value::Object(fields.iter().filter_map(fit).collect()))
        }
        Value::Array(items) => Some(items.iter().filter_map(|item| fitting(&schema["items"], item)).collect()),
        _ => schema["enum"].as_array().is_none_or(|choices| choices.contains(value)).then(|| value.clone()),
    }
}

/// Whether any value of the type will do, or the schema lists those that do.
fn is_certain(schema: &Value) -> bool {
    schema.get("enum").is_some()
        || schema.get("default").is_some_and(|value| !value.is_object() && !value.is_array())
        || matches!(schema["type"].as_str(), Some("integer" | "boolean"))
}

fn filled(schema: &Value, name: &str, depth: usize) -> Value {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        return completed(default.clone(), schema, depth);
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choice(choices);
    }
    if schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string" {
        return quantity(schema, name);
    }
    match schema["type"].as_str() {
        Some("string") => text(schema, name).into(),
        Some("integer") => json!(number(schema).ceil() as i64),
        Some("number") => json!(number(schema)),
        Some("boolean") => json!(false),
        Some("array") => list(schema, name, depth),
        Some("object") => map(schema, depth),
        _ => json!({}),
    }
}

fn choice(choices: &[Value]) -> Value {
    let is = |choice: &Value, good: &str| choice.as_str().is_some_and(|choice| choice.eq_ignore_ascii_case(good));
    let good = GOOD.iter().find_map(|good| choices.iter().find(|choice| is(choice, good)));
    let some = || choices.iter().find(|choice| !choice.is_null() && *choice != "");
    good.or_else(some).cloned().unwrap_or_default()
}

/// A default that lacks fields of its own is completed like any other value.
fn completed(mut value: Value, schema: &Value, depth: usize) -> Value {
    if let (Value::Object(given), Value::Object(wanted)) = (&mut value, map(schema, depth)) {
        for (name, value) in wanted {
            given.entry(name).or_insert(value);
        }
    }
    value
}

/// An integer or a text: whichever its name asks for, and its pattern allows.
fn quantity(schema: &Value, name: &str) -> Value {
    let named = by_name(name).filter(|text| fits(schema, text));
    let Some(pattern) = schema["pattern"].as_str() else { return named.map_or(json!(1), Value::from) };
    let text = named.map(str::to_owned).or_else(|| matching(pattern, |text| fits(schema, text)));
    match text.as_deref().map(str::parse::<i64>) {
        Some(Ok(number)) => json!(number),
        Some(Err(_)) => json!(text),
        None => json!(1),
    }
}

fn text(schema: &Value, name: &str) -> String {
    let of_format = schema["format"].as_str().and_then(of_format).filter(|text| fits(schema, text));
    let named = by_name(name).filter(|text| fits(schema, text) && matches(schema, text));
    if let Some(text) = of_format.or(named) {
        return text.to_owned();
    }
    let pattern = schema["pattern"].as_str();
    let matched = pattern.and_then(|pattern| matching(pattern, |text| fits(schema, text)));
    matched.unwrap_or_else(|| {
        let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX).try_into().unwrap_or(usize::MAX);
        let least = schema["minLength"].as_u64().unwrap_or(0).try_into().unwrap_or(0);
        "example".chars().cycle().take(least.max("example".len()).min(most)).collect()
    })
}

/// Formats of OpenAPI and of Kubernetes' own validation.
fn of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "date-time" => "2026-01-01T00:00:00Z",
        "date" => "2026-01-01",
        "duration" => "1h",
        "uri" | "url" => "https://example.com",
        "email" => "someone@example.com",
        "hostname" => "example.com",
        "ipv4" | "ip" => "10.0.0.1",
        "ipv6" => "fd00::1",
        "cidr" => "10.0.0.0/24",
        "mac" => "02:00:00:00:00:01",
        "uuid" | "uuid4" => "3fd9a0a1-4c5e-4a7a-9f10-3b5d6c7e8f90",
        "byte" => "ZXhhbXBsZQ==",
        _ => return None,
    })
}

fn by_name(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    BY_NAME.iter().find(|(_, ends)| ends.iter().any(|end| lower.ends_with(end))).map(|(text, _)| *text)
}

fn matches(schema: &Value, text: &str) -> bool {
    let pattern = schema["pattern"].as_str().map(Regex::new);
    pattern.is_none_or(|pattern| pattern.is_ok_and(|pattern| pattern.is_match(text)))
}

fn fits(schema: &Value, text: &str) -> bool {
    let length = text.chars().count() as u64;
    schema["minLength"].as_u64().is_none_or(|least| length >= least)
        && schema["maxLength"].as_u64().is_none_or(|most| length <= most)
}

/// 1 where it is allowed, else the number next to it.
fn number(schema: &Value) -> f64 {
    let (minimum, maximum) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    let step = schema["multipleOf"].as_f64().filter(|step| *step > 0.0).unwrap_or(1.0);
    let least = minimum.map_or(f64::MIN, |least| if schema["exclusiveMinimum"] == true { least + step } else { least });
    let most = maximum.map_or(f64::MAX, |most| if schema["exclusiveMaximum"] == true { most - step } else { most });
    let wanted = 1.0_f64.max(least).min(most);
    let multiple = (wanted / step).ceil() * step;
    if multiple <= most { multiple } else { wanted }
}

fn list(schema: &Value, name: &str, depth: usize) -> Value {
    let least = schema["minItems"].as_u64().unwrap_or(0).clamp(0, 16);
    // One shows what belongs there; a required list is seldom meant to be empty.
    let wanted = if depth == 0 { least } else { least.max(1) };
    let singular = name.strip_suffix('s').unwrap_or(name);
    let item = filled(&schema["items"], singular, depth.saturating_sub(1));
    let keys: Vec<&str> = match (&schema["x-kubernetes-list-map-keys"], &item) {
        (Value::Array(keys), _) => keys.iter().filter_map(Value::as_str).collect(),
        (_, Value::Object(fields)) if schema["x-kubernetes-list-type"] == "set" => {
            fields.keys().map(String::as_str).collect()
        }
        _ => Vec::new(),
    };
    (0..wanted).map(|index| distinct(&schema["items"], &item, &keys, index as usize)).collect()
}

/// The item of a list at an index, as far as its schema has so many: a set has none twice, and a list by keys no key.
fn distinct(schema: &Value, item: &Value, keys: &[&str], index: usize) -> Value {
    if index == 0 {
        return item.clone();
    }
    if let Some(choices) = schema["enum"].as_array() {
        let mut others = choices.iter().filter(|choice| *choice != item && !choice.is_null() && *choice != "");
        return others.nth(index - 1).unwrap_or(item).clone();
    }
    match item {
        Value::String(text) => another(schema, text, index).into(),
        Value::Number(number) => {
            let step = schema["multipleOf"].as_f64().filter(|step| *step > 0.0).unwrap_or(1.0) * index as f64;
            let (number, most) = (number.as_f64().unwrap_or_default(), schema["maximum"].as_f64().unwrap_or(f64::MAX));
            let other = if number + step > most { number - step } else { number + step };
            if schema["type"] == "number" { json!(other) } else { json!(other as i64) }
        }
        Value::Object(fields) => {
            let mut fields = fields.clone();
            for key in keys {
                let of_key = &schema["properties"][*key];
                let value = fields.get(*key).cloned().unwrap_or_else(|| filled(of_key, key, 1));
                let other = distinct(of_key, &value, &[], index);
                if other != value {
                    fields.insert((*key).to_owned(), other);
                    break;
                }
            }
            Value::Object(fields)
        }
        _ => item.clone(),
    }
}

/// A text like another one: with a number behind it, or, where that is too long or fits no pattern, with another end.
fn another(schema: &Value, text: &str, index: usize) -> String {
    let is_good = |one: &String| fits(schema, one) && matches(schema, one);
    let numbered = [format!("{text}-{}", index + 1), format!("{text}{}", index + 1)];
    let start = text.char_indices().last().map_or("", |(last, _)| &text[..last]);
    let ends = ('a'..='z').chain('0'..='9').map(|end| format!("{start}{end}"));
    let mut ended = ends.filter(|one| one != text && is_good(one));
    let found = numbered.iter().find(|one| is_good(one)).cloned().or_else(|| ended.nth(index - 1));
    found.unwrap_or_else(|| numbered[0].clone())
}

fn map(schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return json!({});
    }
    let known: Map<String, Value> = properties(schema)
        .filter(|(name, _)| required(schema).contains(name.as_str()))
        .map(|(name, schema)| (name.clone(), filled(schema, name, depth - 1)))
        .collect();
    Value::Object(known)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// What the schema requires, and what the first of its alternatives does.
pub fn required(schema: &Value) -> BTreeSet<&str> {
    let own = schema["required"].as_array().into_iter().flatten();
    let all = schema["allOf"].as_array().into_iter().flatten();
    let one = ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array()?.first());
    let others = all.chain(one).flat_map(|part| part["required"].as_array().into_iter().flatten());
    own.chain(others).filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_filled_by_its_rules() {
        let schema = json!({"type": "object", "required": ["a", "b", "c", "d", "e", "f", "g", "h"], "properties": {
            "a": {"type": "integer", "minimum": 3, "maximum": 9},
            "b": {"type": "string", "enum": ["", "Slow", "Ready"]},
            "c": {"type": "array", "minItems": 2, "items": {"type": "string", "pattern": "^[a-f]{2}"}},
            "d": {"type": "string", "format": "date-time"},
            "e": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "f": {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}, "x": {"type": "string"}}},
            "g": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 0.5, "multipleOf": 0.25},
            "h": {"type": "string", "minLength": 9, "maxLength": 10},
            "i": {"type": "string"},
        }});
        assert_eq!(
            sample(&schema, "spec"),
            json!({
                "a": 3, "b": "Ready", "c": ["aa", "aa-2"], "d": "2026-01-01T00:00:00Z", "e": 1,
                "f": {"image": "registry.example.com/example:1.0.0"}, "g": 0.5, "h": "exampleex",
            })
        );
    }

    #[test]
    fn items_of_sets_and_of_lists_by_keys_differ() {
        let list = |kind: &str, items: Value| {
            let schema = json!({"type": "array", "minItems": 2, "items": items, "x-kubernetes-list-type": kind});
            sample(&schema, "x")
        };
        assert_eq!(list("set", json!({"type": "string", "enum": ["Slow", "Ready", "Fast"]})), json!(["Ready", "Slow"]));
        assert_eq!(list("set", json!({"type": "integer", "maximum": 1})), json!([1, 0]));
        assert_eq!(list("set", json!({"type": "string", "pattern": "^[a-f]{2}$"})), json!(["aa", "ab"]));
        let port = json!({"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
        }});
        let schema = json!({"type": "array", "minItems": 2, "items": port, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"]});
        assert_eq!(sample(&schema, "ports"), json!([{"port": 1}, {"port": 2}]));
    }

    #[test]
    fn where_nothing_is_required_something_is_shown() {
        let schema = json!({"type": "object", "properties": {
            "text": {"type": "string"}, "size": {"type": "integer", "default": 3}, "on": {"type": "boolean"},
        }});
        assert_eq!(sample(&schema, "spec"), json!({}));
        assert_eq!(telling(&schema, "spec"), json!({"size": 3, "on": false}));
    }

    #[test]
    fn of_an_example_stays_what_the_schema_takes() {
        let schema = json!({"type": "object", "properties": {
            "size": {"type": "integer"}, "tier": {"type": "string", "enum": ["small"]},
            "pools": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        }});
        let example = json!({"size": 3, "tier": "large", "age": 1, "pools": [{"name": "a", "disk": "1Gi"}]});
        assert_eq!(fitting(&schema, &example), Some(json!({"size": 3, "pools": [{"name": "a"}]})));
    }

    #[test]
    fn the_first_of_several_ways_is_taken() {
        let schema = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {
            "a": {"type": "boolean"}, "b": {"type": "boolean"},
        }});
        assert_eq!(sample(&schema, "spec"), json!({"a": false}));
    }
}
