//! What schemas say of merging: which maps and lists are one value, and what tells the items of a list apart.
//!
//! Without a word of the schema maps merge field by field, and a list is one value.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::fields::printed;
use super::schema::Schema;

/// How a list merges, and what of its items may not occur twice.
#[derive(Debug, Default)]
pub(super) enum List {
    /// It is one value.
    #[default]
    Atomic,
    /// Its items are scalars, each at most once.
    Set,
    /// Its items are told apart by these fields, which may have defaults.
    Map(Vec<(String, Option<Value>)>),
}

static UNTYPED: LazyLock<Schema> = LazyLock::new(Schema::default);

/// The metadata of every object.
static METADATA: LazyLock<Schema> = LazyLock::new(|| {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    Schema::compile(&json!({"properties": {
        "labels": texts, "annotations": texts,
        "finalizers": {"items": {}, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "items": {"x-kubernetes-map-type": "atomic"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
        },
    }}))
});

impl Schema {
    /// The schema of what nothing is known of.
    pub(super) fn untyped() -> &'static Schema {
        &UNTYPED
    }

    /// Whether a field is declared by name: such a one is owned with what is in it.
    pub(super) fn declares(&self, field: &str) -> bool {
        self.properties.contains_key(field) || self.has_metadata && field == "metadata"
    }

    /// The schema of a map's field.
    pub(super) fn field(&self, name: &str) -> &Schema {
        if self.has_metadata && name == "metadata" {
            return &METADATA;
        }
        self.properties.get(name).unwrap_or_else(|| self.element())
    }

    /// The schema of a list's items, or of any other field of a map.
    pub(super) fn element(&self) -> &Schema {
        self.items.as_deref().or(self.additional.as_deref()).unwrap_or(&UNTYPED)
    }

    /// Whether values merge part by part; otherwise they are one value. Null stands for an empty map or list.
    pub(super) fn is_granular(&self, value: &Value) -> bool {
        match value {
            Value::Object(_) => !self.is_atomic_map,
            Value::Array(_) => !matches!(self.list, List::Atomic),
            _ => false,
        }
    }

    /// What is wrong with the lists of a value whose items are told apart; `path` is that of the value.
    pub(super) fn wrong_list(&self, value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Object(map) => {
                map.iter().find_map(|(name, value)| self.field(name).wrong_list(value, &format!("{path}.{name}")))
            }
            Value::Array(items) if self.is_granular(value) => {
                let below =
                    |item: &Value| self.element().wrong_list(item, &format!("{path}{}", printed(&self.item_key(item))));
                self.wrong_items(items, path).or_else(|| items.iter().find_map(below))
            }
            _ => None,
        }
    }

    fn wrong_items(&self, items: &[Value], path: &str) -> Option<String> {
        let keys: Vec<Box<str>> = items.iter().map(|item| self.item_key(item)).collect();
        if let (List::Map(fields), Some(index)) = (&self.list, keys.iter().position(|key| &**key == "k:{}")) {
            let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
            return Some(format!(
                "{path}: element {index}: associative list with keys has an element that omits all key fields {names:?} \
                 (and doesn't have default values for any key fields)"
            ));
        }
        let twice = keys.iter().enumerate().find(|(index, key)| keys[..*index].contains(key))?;
        Some(format!("{path}: duplicate entries for key {}", printed(twice.1)))
    }

    /// How managed fields name an item of a list: `v:"x"`, `k:{"name":"x"}`.
    pub(super) fn item_key(&self, item: &Value) -> Box<str> {
        let List::Map(fields) = &self.list else { return format!("v:{item}").into() };
        let keys: Map<String, Value> = fields
            .iter()
            .filter_map(|(name, default)| Some((name.clone(), item.get(name).or(default.as_ref())?.clone())))
            .collect();
        format!("k:{}", Value::Object(keys)).into()
    }
}

impl List {
    pub fn compile(document: &Value) -> List {
        match document["x-kubernetes-list-type"].as_str() {
            Some("set") => List::Set,
            Some("map") => {
                let names = document["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let default = |name: &str| document["items"]["properties"][name].get("default").cloned();
                List::Map(names.filter_map(Value::as_str).map(|name| (name.to_owned(), default(name))).collect())
            }
            _ => List::Atomic,
        }
    }
}

/// How managed fields name a field of a map.
pub(super) fn field_key(name: &str) -> Box<str> {
    format!("f:{name}").into()
}
