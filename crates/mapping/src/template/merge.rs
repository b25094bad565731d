//! `$merge`: maps laid over each other.

use serde_json::{Map, Value};

/// Lays a map over another: maps that stand under one key become one, of anything else the upper one stays. A null
/// is a value like any other; to leave the lower one standing, `omit` the key.
pub(super) fn overlay(lower: &mut Map<String, Value>, upper: Map<String, Value>) {
    for (key, value) in upper {
        match (lower.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => overlay(below, above),
            (Some(below), above) => *below = above,
            (None, above) => drop(lower.insert(key, above)),
        }
    }
}
