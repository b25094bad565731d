//! The objects of a source, its own and those that it shares with others: in the order in which they were found, and by where
//! they are and which rule they follow; with what is known of them beside what they say.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::observed::TargetObject;
use crate::mapping::form;
use crate::object::marks::{OwnershipRecord, Reference};

/// A list that reads as a slice. Finding one object takes no walk through all.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Kept")]
pub struct Objects {
    all: Vec<TargetObject>,
    /// Positions by a hash: of where an object is, and of its id in the mapping.
    #[serde(skip)]
    by_place: BTreeMap<u64, Vec<usize>>,
    #[serde(skip)]
    by_id: BTreeMap<u64, Vec<usize>>,
    /// Objects that somebody stripped of their ownership annotations while this process watched: they are owned still.
    #[serde(with = "form::pairs")]
    pub stripped: BTreeMap<Reference, OwnershipRecord>,
    /// Whether another source needs what is shared at a [place](TargetObject::shared_place); a place not listed is not known.
    pub in_use: BTreeMap<String, bool>,
}

/// What is written of it.
#[derive(Deserialize)]
struct Kept {
    all: Vec<TargetObject>,
    #[serde(with = "form::pairs")]
    stripped: BTreeMap<Reference, OwnershipRecord>,
    in_use: BTreeMap<String, bool>,
}

impl Objects {
    /// The object at a place, in whichever version of its kind.
    pub fn at(&self, reference: &Reference) -> Option<&TargetObject> {
        self.found(&self.by_place, place(reference)).into_iter().find(|one| one.reference.is_same_object(reference))
    }

    /// The objects with an id: more than one only where the id got another kind or name, or a source's own became shared.
    pub fn with_id(&self, id: &str) -> Vec<&TargetObject> {
        self.found(&self.by_id, hashed(id)).into_iter().filter(|one| one.object_id() == id).collect()
    }

    /// Those of the source alone.
    pub fn own(&self) -> impl DoubleEndedIterator<Item = &TargetObject> {
        self.all.iter().filter(|one| !one.is_shared)
    }

    /// Those that it shares with other sources.
    pub fn shared(&self) -> impl DoubleEndedIterator<Item = &TargetObject> {
        self.all.iter().filter(|one| one.is_shared)
    }

    /// Whether the source has objects of its own.
    pub fn has_own(&self) -> bool {
        self.own().next().is_some()
    }

    pub fn push(&mut self, object: TargetObject) {
        self.by_place.entry(place(&object.reference)).or_default().push(self.all.len());
        self.by_id.entry(hashed(object.object_id())).or_default().push(self.all.len());
        self.all.push(object);
    }

    /// Takes out what is exactly there.
    pub fn remove(&mut self, reference: &Reference) {
        if self.at(reference).is_some() {
            let mut all = std::mem::take(&mut self.all);
            (self.by_place, self.by_id) = Default::default();
            all.retain(|one| one.reference != *reference);
            self.extend(all);
        }
    }

    fn found(&self, index: &BTreeMap<u64, Vec<usize>>, hash: u64) -> Vec<&TargetObject> {
        let positions = index.get(&hash).into_iter().flatten();
        positions.filter_map(|position| self.all.get(*position)).collect()
    }
}

impl Deref for Objects {
    type Target = [TargetObject];

    fn deref(&self) -> &[TargetObject] {
        &self.all
    }
}

impl From<Kept> for Objects {
    fn from(Kept { all, stripped, in_use }: Kept) -> Self {
        Self { stripped, in_use, ..all.into_iter().collect() }
    }
}

impl Extend<TargetObject> for Objects {
    fn extend<I: IntoIterator<Item = TargetObject>>(&mut self, objects: I) {
        objects.into_iter().for_each(|object| self.push(object));
    }
}

impl FromIterator<TargetObject> for Objects {
    fn from_iter<I: IntoIterator<Item = TargetObject>>(objects: I) -> Self {
        let mut all = Self::default();
        all.extend(objects);
        all
    }
}

fn place(reference: &Reference) -> u64 {
    let Reference { kind, namespace, name } = reference;
    hashed((kind.side, &kind.group, &kind.kind, namespace, name))
}

fn hashed(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
