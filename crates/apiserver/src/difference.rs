//! What distinguishes two versions of an object, field by field.

use serde_json::{Map, Value};

use super::fields::FieldSet;
use super::schema::Schema;
use super::shape::field_key;

/// What distinguishes two versions of an object.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Fields that are new or have another value.
    pub changed: FieldSet,
    /// Fields that are no longer there.
    pub removed: FieldSet,
}

impl Difference {
    /// Compares what managers can own.
    pub fn between(old: &Value, new: &Value, schema: &Schema) -> Difference {
        let Difference { changed, removed } = compare(Some(old), Some(new), schema);
        Difference { changed: changed.without_identity(), removed: removed.without_identity() }
    }

    fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
        match (old, new) {
            (_, None) => Difference { removed: FieldSet::leaf(), ..Difference::default() },
            (old, new) if old == new => Difference::default(),
            _ => Difference { changed: FieldSet::leaf(), ..Difference::default() },
        }
    }

    fn record(&mut self, key: Box<str>, below: Difference) {
        if !below.changed.is_empty() {
            self.changed.children.insert(key.clone(), below.changed);
        }
        if !below.removed.is_empty() {
            self.removed.children.insert(key, below.removed);
        }
    }
}

fn compare(old: Option<&Value>, new: Option<&Value>, schema: &Schema) -> Difference {
    let mut difference = match (granular(old, schema), granular(new, schema)) {
        (None, None) => return Difference::leaf(old, new),
        (old_parts, new_parts) if is_empty(old_parts) && is_empty(new_parts) => return Difference::leaf(old, new),
        (old_parts, new_parts) => compare_parts(old_parts, new_parts, schema),
    };
    // A map or list that comes, goes, or takes the place of a value, is a difference itself.
    difference.changed.member = old.is_none() || new.is_some_and(|new| !schema.is_granular(new));
    difference.removed.member = new.is_none();
    difference
}

fn granular<'a>(value: Option<&'a Value>, schema: &Schema) -> Option<&'a Value> {
    value.filter(|value| schema.is_granular(value))
}

fn compare_parts(old: Option<&Value>, new: Option<&Value>, schema: &Schema) -> Difference {
    let (old, new) = (parts(old, schema), parts(new, schema));
    let mut difference = Difference::default();
    for (key, value, below) in &new {
        let before = old.iter().find(|(old_key, _, _)| old_key == key).map(|(_, value, _)| *value);
        difference.record(key.clone(), compare(before, Some(value), below));
    }
    for (key, value, below) in old.iter().filter(|(key, _, _)| !new.iter().any(|(new_key, _, _)| new_key == key)) {
        difference.record(key.clone(), compare(Some(value), None, below));
    }
    difference
}

/// The fields of a map or the items of a list, with their names and schemas.
fn parts<'a>(value: Option<&'a Value>, schema: &'a Schema) -> Vec<(Box<str>, &'a Value, &'a Schema)> {
    match value {
        Some(Value::Object(map)) => {
            map.iter().map(|(name, value)| (field_key(name), value, schema.field(name))).collect()
        }
        Some(Value::Array(items)) => items.iter().map(|item| (schema.item_key(item), item, schema.element())).collect(),
        _ => Vec::new(),
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Object(map)) => Map::is_empty(map),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    }
}
