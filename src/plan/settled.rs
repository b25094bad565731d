//! Sources that need not be rendered again: nothing has changed since they were found in sync but what objects report.

use std::hash::{Hash, Hasher};

use serde_json::{Map, Value};

use super::observed::{Observed, Source, Standing};
use crate::mapping::Mapping;

/// Everything that the rendering of a source's own objects is made of, and what it is compared with: the source and its
/// objects, without `status` and `metadata.resourceVersion`. Its hash is the same for as long as a source that was
/// found in sync with a mapping still is. Consumers choose much of what is hashed: take a hasher with a secret key.
#[derive(Debug, Clone, Copy)]
pub struct Content<'o>(&'o Observed);

impl<'o> Content<'o> {
    /// `None`: nothing stands that says where the source is placed.
    pub fn of(mapping: &Mapping, observed: &'o Observed) -> Option<Self> {
        let is_placed = observed.owned.iter().any(|standing| mapping.rule(standing.rule_id()).is_some());
        (is_placed && matches!(observed.source, Source::Present(_))).then_some(Self(observed))
    }
}

impl Hash for Content<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self(observed) = self;
        (&observed.key, &observed.workspace_path).hash(state);
        if let Source::Present(source) = &observed.source {
            hash_object(source, state);
        }
        let mut owned: Vec<&Standing> = observed.owned.iter().collect();
        owned.sort_by_key(|standing| &standing.reference);
        for standing in owned {
            standing.reference.hash(state);
            hash_object(&standing.object, state);
        }
    }
}

fn hash_object<H: Hasher>(object: &Value, state: &mut H) {
    for (field, value) in object.as_object().into_iter().flatten().filter(|(field, _)| *field != "status") {
        field.hash(state);
        match value {
            Value::Object(metadata) if field == "metadata" => hash_metadata(metadata, state),
            value => value.hash(state),
        }
    }
    // Where one object ends and another begins.
    u8::MAX.hash(state);
}

fn hash_metadata<H: Hasher>(metadata: &Map<String, Value>, state: &mut H) {
    for entry in metadata.iter().filter(|(field, _)| *field != "resourceVersion") {
        entry.hash(state);
    }
}
