//! What schemas say of merging: which maps and lists are one value, and what tells the items of a list apart.
//!
//! Without a word of the schema maps merge field by field, and a list is one value.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::fields::printed;

/// How the values of one place in an object merge, and what of them can be owned.
#[derive(Debug)]
pub struct Shape {
    /// Fields that the schema declares by name.
    fields: BTreeMap<Box<str>, Shape>,
    /// Any other field of a map, or an item of a list.
    elements: Option<Box<Shape>>,
    is_atomic_map: bool,
    list: List,
}

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

static UNTYPED: Shape = Shape { fields: BTreeMap::new(), elements: None, is_atomic_map: false, list: List::Atomic };

/// The metadata of every object.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"properties": {
        "labels": texts, "annotations": texts,
        "finalizers": {"items": {}, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "items": {"x-kubernetes-map-type": "atomic"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
        },
    }})
});

impl Shape {
    /// The shape of what nothing is known of.
    pub fn untyped() -> &'static Shape {
        &UNTYPED
    }

    /// The shape of whole objects, from a schema; `null` for one that says nothing.
    pub fn of_object(document: &Value) -> Shape {
        let mut shape = Shape::compile(document);
        shape.fields.insert("metadata".into(), Shape::compile(&METADATA));
        shape
    }

    fn compile(document: &Value) -> Shape {
        let properties = document["properties"].as_object().into_iter().flatten();
        let below = |name: &str| document.get(name).filter(|schema| schema.is_object());
        let elements = below("items").or_else(|| below("additionalProperties"));
        Shape {
            fields: properties.map(|(name, schema)| (name.as_str().into(), Shape::compile(schema))).collect(),
            elements: elements.map(|schema| Box::new(Shape::compile(schema))),
            is_atomic_map: document["x-kubernetes-map-type"] == "atomic",
            list: List::compile(document),
        }
    }

    /// Whether the schema declares a field by name: such a one is owned with what is in it.
    pub(super) fn declares(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// The shape of a map's field.
    pub(super) fn field(&self, name: &str) -> &Shape {
        self.fields.get(name).unwrap_or_else(|| self.element())
    }

    /// The shape of a list's items.
    pub(super) fn element(&self) -> &Shape {
        self.elements.as_deref().unwrap_or(&UNTYPED)
    }

    /// Whether values merge part by part; otherwise they are one value. Null stands for an empty map or list.
    pub(super) fn is_granular(&self, value: &Value) -> bool {
        match value {
            Value::Object(_) => !self.is_atomic_map,
            Value::Array(_) => !matches!(self.list, List::Atomic),
            _ => false,
        }
    }

    /// What is wrong with the lists of an object whose items are told apart.
    pub(super) fn wrong_list(&self, object: &Value) -> Option<String> {
        self.wrong_list_at(object, "")
    }

    fn wrong_list_at(&self, value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Object(map) => {
                map.iter().find_map(|(name, value)| self.field(name).wrong_list_at(value, &format!("{path}.{name}")))
            }
            Value::Array(items) if self.is_granular(value) => {
                let below = |item: &Value| {
                    self.element().wrong_list_at(item, &format!("{path}{}", printed(&self.item_key(item))))
                };
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

    /// See [`List::item_key`].
    pub(super) fn item_key(&self, item: &Value) -> Box<str> {
        self.list.item_key(item)
    }
}

impl List {
    /// How managed fields name an item of this list: `v:"x"`, `k:{"name":"x"}`.
    pub fn item_key(&self, item: &Value) -> Box<str> {
        let List::Map(fields) = self else { return format!("v:{item}").into() };
        let keys: Map<String, Value> = fields
            .iter()
            .filter_map(|(name, default)| Some((name.clone(), item.get(name).or(default.as_ref())?.clone())))
            .collect();
        format!("k:{}", Value::Object(keys)).into()
    }

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
