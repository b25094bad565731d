//! Owners and dependents: what goes with an object, before it, or stays behind (`metadata.ownerReferences`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::collection::{Change, ChangeKind, Key};
use super::managers::{Author, Managers, Operation};
use super::object;
use super::options::Propagation;
use super::resource::{Resource, Storage};
use super::settle::{Touched, drop_finalizer};
use super::state::State;

/// Holds an object whose dependents are to go first.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Holds an object until its dependents have forgotten it.
pub(super) const ORPHAN: &str = "orphan";

/// Who names whom as an owner: dependents by logical cluster and the owner's uid.
#[derive(Clone, Debug, Default)]
pub(super) struct Ownership {
    dependents: BTreeMap<OwnerId, BTreeSet<(Storage, Key)>>,
}

/// Logical cluster and uid.
type OwnerId = (Arc<str>, Box<str>);

impl Ownership {
    /// Follows a write; gives the uids that the object names as owners now.
    pub fn follow(&mut self, change: &Change) {
        let cluster = &change.key.cluster;
        let dependent = (change.storage.clone(), change.key.clone());
        for uid in change.previous.iter().flat_map(|previous| previous.owners.iter()) {
            let key = (cluster.clone(), uid.clone());
            if let Some(dependents) = self.dependents.get_mut(&key) {
                dependents.remove(&dependent);
                if dependents.is_empty() {
                    self.dependents.remove(&key);
                }
            }
        }
        if change.kind == ChangeKind::Deleted {
            return;
        }
        for uid in change.object.owners.iter() {
            self.dependents.entry((cluster.clone(), uid.clone())).or_default().insert(dependent.clone());
        }
    }

    /// The objects of a cluster that name an owner.
    fn of(&self, cluster: &Arc<str>, uid: &str) -> Vec<(Storage, Key)> {
        let dependents = self.dependents.get(&(cluster.clone(), uid.into()));
        dependents.into_iter().flatten().cloned().collect()
    }
}

/// Where an owner is that an object names.
enum Owner {
    Present {
        resource: Arc<Resource>,
        key: Key,
    },
    Absent,
    /// Its kind is not served, so nobody can tell.
    Unknown,
}

impl State {
    /// Notes whom a write makes the garbage collector look at.
    pub(super) fn touch_owners(&mut self, change: &Change) {
        self.ownership.follow(change);
        let is_leaving = change.kind == ChangeKind::Deleted || change.object.deleting;
        if is_leaving {
            let dependents = self.ownership.of(&change.key.cluster, &change.object.uid);
            self.touched.extend(dependents.into_iter().map(|(storage, key)| Touched::Dependent(storage, key)));
            self.touched.push_back(Touched::Owner(change.storage.clone(), change.key.clone()));
        }
        if !change.object.owners.is_empty() {
            self.touched.push_back(Touched::Dependent(change.storage.clone(), change.key.clone()));
        }
        // An owner may be waiting for this one to go, or to forget it.
        if let Some(previous) = change.previous.as_ref().filter(|previous| !previous.owners.is_empty()) {
            let owners =
                references(&previous.object()).into_iter().map(|reference| self.owner(&reference, &change.key));
            let owners: Vec<Owner> = owners.collect();
            for owner in owners {
                if let Owner::Present { resource, key } = owner {
                    self.touched.push_back(Touched::Owner(resource.storage(), key));
                }
            }
        }
    }

    /// Looks at an object that names owners: it goes when none of them is left, or the last one waits for it to go.
    pub(super) fn settle_dependent(&mut self, storage: &Storage, key: &Key) {
        let Some(resource) = self.resource_of(storage, key) else { return };
        let Some(stored) = self.stored(&resource, key).cloned().filter(|stored| !stored.deleting) else { return };
        let (mut leaving, mut staying, mut is_awaited) = (BTreeSet::new(), 0, false);
        for reference in references(&stored.object()) {
            let uid = reference["uid"].as_str().unwrap_or_default().to_owned();
            match self.owner(&reference, key) {
                Owner::Absent => drop(leaving.insert(uid)),
                Owner::Present { resource, key } if self.is_held_by(&resource, &key, FOREGROUND) => {
                    leaving.insert(uid);
                    is_awaited = true;
                }
                Owner::Present { .. } | Owner::Unknown => staying += 1,
            }
        }
        if leaving.is_empty() {
        } else if staying > 0 {
            self.forget(&resource, key, |uid| leaving.contains(uid));
        } else {
            let has_dependents = !self.ownership.of(&key.cluster, &stored.uid).is_empty();
            let first = if is_awaited && has_dependents { Propagation::Foreground } else { Propagation::Background };
            self.remove(&resource, key, first);
        }
    }

    /// Looks at an object that is being deleted: it is let go when its dependents are gone, or have forgotten it.
    pub(super) fn settle_owner(&mut self, storage: &Storage, key: &Key) {
        let Some(resource) = self.resource_of(storage, key) else { return };
        let Some(stored) = self.stored(&resource, key).cloned() else { return };
        if self.is_held_by(&resource, key, ORPHAN) {
            for (storage, dependent) in self.ownership.of(&key.cluster, &stored.uid) {
                let Some(resource) = self.resource_of(&storage, &dependent) else { continue };
                self.forget(&resource, &dependent, |uid| uid == &*stored.uid);
            }
            self.change_own(&resource, key, |object| drop_finalizer(object, ORPHAN));
        } else if self.is_held_by(&resource, key, FOREGROUND) && !self.is_blocked(&key.cluster, &stored.uid) {
            self.change_own(&resource, key, |object| drop_finalizer(object, FOREGROUND));
        }
    }

    /// Takes owners out of an object; they are nobody's fields any more.
    fn forget(&mut self, resource: &Resource, key: &Key, is_out: impl Fn(&str) -> bool) {
        let (now, Some(version)) = (self.now, resource.version(&resource.storage_version)) else { return };
        let author = Author {
            manager: "garbage-collector".to_owned(),
            operation: Operation::Update,
            api_version: resource.api_version(&version.name),
            subresource: String::new(),
        };
        self.change_own(resource, key, |object| {
            let mut managers = Managers::take_from(object);
            let old = object.clone();
            drop_owners(object, is_out);
            managers.record_update(&author, &old, object, &version.schema, now);
            managers.put_into(object);
        });
    }

    /// Whether a dependent that says so keeps its owner from going.
    fn is_blocked(&self, cluster: &Arc<str>, uid: &str) -> bool {
        let blocks = |reference: &Value| reference["uid"] == uid && reference["blockOwnerDeletion"] == true;
        self.ownership.of(cluster, uid).iter().any(|(storage, key)| {
            let resource = self.resource_of(storage, key);
            let stored = resource.and_then(|resource| self.stored(&resource, key).cloned());
            stored.is_some_and(|stored| references(&stored.object()).iter().any(blocks))
        })
    }

    fn is_held_by(&self, resource: &Resource, key: &Key, finalizer: &str) -> bool {
        let stored = self.stored(resource, key).filter(|stored| stored.deleting);
        stored.is_some_and(|stored| object::finalizers(&stored.object()).any(|found| found == finalizer))
    }

    /// The owner that an object at `key` names.
    fn owner(&self, reference: &Value, key: &Key) -> Owner {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let served = self.all_served(&key.cluster);
        let resource = served.into_iter().find(|resource| &*resource.group == group && *resource.kind == *text("kind"));
        let Some(resource) = resource else { return Owner::Unknown };
        let namespace = if resource.namespaced { &*key.namespace } else { "" };
        let key = Key::new(&key.cluster, namespace, text("name"));
        match self.stored(&resource, &key).is_some_and(|stored| *stored.uid == *text("uid")) {
            true => Owner::Present { resource, key },
            false => Owner::Absent,
        }
    }

    /// The resource under which a cluster serves what is kept in a collection.
    fn resource_of(&self, storage: &Storage, key: &Key) -> Option<Arc<Resource>> {
        self.served(&key.cluster, &storage.group, &storage.plural).filter(|resource| resource.storage() == *storage)
    }
}

/// `metadata.ownerReferences`.
fn references(object: &Value) -> Vec<Value> {
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

fn drop_owners(object: &mut Value, is_out: impl Fn(&str) -> bool) {
    let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() else { return };
    owners.retain(|owner| !owner["uid"].as_str().is_some_and(&is_out));
    if owners.is_empty() {
        object::set(object, "ownerReferences", None);
    }
}

/// The uids that an object names as owners.
pub(super) fn owners_of(object: &Value) -> Box<[Box<str>]> {
    let named = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    named.filter_map(|owner| owner["uid"].as_str()).map(Into::into).collect()
}
