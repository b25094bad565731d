//! The objects of a source, its own and those that it shares with others: in the order in which they were found, and by where
//! they are and which rule they follow; with what is known of them beside what they say.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize, Serializer};

use super::observed::TargetObject;
use crate::mapping::form;
use crate::object::marks::{OwnershipRecord, Reference};

/// Finding an object, or taking it out, takes no walk through all: each answer of a server puts one in the place of what was known.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Kept")]
pub struct Objects {
    /// By a number that counts on.
    #[serde(serialize_with = "in_order")]
    all: BTreeMap<usize, TargetObject>,
    /// The numbers by a hash: of where an object is, and of its id in the mapping.
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

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &TargetObject> {
        self.all.values()
    }

    /// Those of the source alone.
    pub fn own(&self) -> impl DoubleEndedIterator<Item = &TargetObject> {
        self.iter().filter(|one| !one.is_shared)
    }

    /// Those that it shares with other sources.
    pub fn shared(&self) -> impl DoubleEndedIterator<Item = &TargetObject> {
        self.iter().filter(|one| one.is_shared)
    }

    pub fn has_own(&self) -> bool {
        self.own().next().is_some()
    }

    pub fn push(&mut self, object: TargetObject) {
        let number = self.all.last_key_value().map_or(0, |(last, _)| last + 1);
        self.by_place.entry(place(&object.reference)).or_default().push(number);
        self.by_id.entry(hashed(object.object_id())).or_default().push(number);
        self.all.insert(number, object);
    }

    /// Takes out what is exactly there.
    pub fn remove(&mut self, reference: &Reference) {
        let is_it = |number: &usize| self.all.get(number).is_some_and(|one| one.reference == *reference);
        let numbers = self.by_place.get(&place(reference)).into_iter().flatten();
        let Some((number, gone)) = numbers.copied().find(is_it).and_then(|number| self.all.remove_entry(&number))
        else {
            return;
        };
        for (index, hash) in [(&mut self.by_place, place(reference)), (&mut self.by_id, hashed(gone.object_id()))] {
            if let Some(numbers) = index.get_mut(&hash) {
                numbers.retain(|one| *one != number);
                if numbers.is_empty() {
                    index.remove(&hash);
                }
            }
        }
    }

    fn found(&self, index: &BTreeMap<u64, Vec<usize>>, hash: u64) -> Vec<&TargetObject> {
        index.get(&hash).into_iter().flatten().filter_map(|number| self.all.get(number)).collect()
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

fn in_order<S: Serializer>(all: &BTreeMap<usize, TargetObject>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.values())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mapping::Kind;
    use crate::object::marks;

    fn object(version: &str, name: &str) -> TargetObject {
        let kind = Kind::new("example.dev", version, "User");
        let reference = Reference { kind, namespace: "ns".into(), name: name.into() };
        let object = json!({"metadata": {"annotations": {marks::OBJECT: format!("user[{name}]")}}});
        TargetObject::new(reference, object.into())
    }

    #[test]
    fn one_that_is_taken_out_leaves_the_others_where_they_are_found() {
        let mut objects: Objects = ["a", "b", "c"].map(|name| object("v1", name)).into_iter().collect();
        objects.remove(&object("v2", "b").reference);
        objects.remove(&object("v1", "d").reference);
        assert_eq!(objects.iter().count(), 3, "another version is something else here");
        objects.remove(&object("v1", "b").reference);
        objects.push(object("v1", "d"));
        for name in ["a", "c", "d"] {
            assert_eq!(objects.at(&object("v2", name).reference).map(|one| &*one.reference.name), Some(name));
            assert_eq!(objects.with_id(&format!("user[{name}]")).len(), 1, "{name}");
        }
        assert!(objects.at(&object("v1", "b").reference).is_none() && objects.with_id("user[b]").is_empty());
        assert_eq!(objects.iter().map(|one| &*one.reference.name).collect::<Vec<_>>(), ["a", "c", "d"]);
        assert_eq!(objects.all.keys().copied().collect::<Vec<_>>(), [0, 2, 3], "none of the others is touched");
        assert_eq!((objects.by_place.len(), objects.by_id.len()), (3, 3));
    }
}
