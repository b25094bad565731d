//! What the controllers of a real server do after a write, done at once.
//!
//! Each works on one object, looks at the present state only, and writes nothing that stands already; so the queue of
//! touched objects runs empty.

use std::sync::Arc;

use serde_json::{Value, json};

use super::builtin;
use super::collection::{Change, ChangeKind, Key};
use super::definition;
use super::object;
use super::options::Propagation;
use super::resource::{Resource, Storage};
use super::state::State;

/// An object whose controller has something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Touched {
    Namespace(Key),
    Definition(Key),
    Schema(Key),
    Export(Key),
    EndpointSlice(Key),
    Partition(Key),
    Binding(Key),
    Workspace(Key),
    /// An object that names owners.
    Dependent(Storage, Key),
    /// An object that others may name as their owner.
    Owner(Storage, Key),
}

impl State {
    /// Notes whose controller a change concerns.
    pub(super) fn touch(&mut self, resource: &Resource, change: &Change) {
        if let Some(touched) = touched(resource, &change.key) {
            self.touched.push_back(touched);
        }
        if change.kind == ChangeKind::Deleted {
            let waiting = self.draining.iter().filter(|(_, cluster)| **cluster == change.key.cluster);
            self.touched.extend(waiting.map(|(container, _)| container.clone()));
        }
    }

    /// Runs every controller until nothing is left to do.
    pub(super) fn settle(&mut self) {
        while let Some(touched) = self.touched.pop_front() {
            self.settle_one(touched);
        }
    }

    /// Runs the controller that a change concerns.
    pub(super) fn settle_one(&mut self, touched: Touched) {
        match touched {
            Touched::Namespace(key) => self.settle_namespace(&key),
            Touched::Definition(key) => self.settle_definition(&key),
            Touched::Schema(key) => self.settle_schema(&key),
            Touched::Export(key) => self.settle_export(&key),
            Touched::EndpointSlice(key) => self.settle_slice(&key),
            Touched::Partition(key) => self.settle_partition(&key),
            Touched::Binding(key) => self.settle_binding(&key),
            Touched::Workspace(key) => self.settle_workspace(&key),
            Touched::Dependent(storage, key) => self.settle_dependent(&storage, &key),
            Touched::Owner(storage, key) => self.settle_owner(&storage, &key),
        }
    }

    /// Empties a namespace that is being deleted, and lets it go when it is empty.
    fn settle_namespace(&mut self, key: &Key) {
        let Some(namespaces) = self.builtin("", "namespaces") else { return };
        let container = Touched::Namespace(key.clone());
        if !self.stored(&namespaces, key).is_some_and(|stored| stored.deleting) {
            self.draining.remove(&container);
            return;
        }
        let resources = self.all_served(&key.cluster);
        let left: usize = resources.iter().map(|resource| self.empty(resource, &key.cluster, Some(&key.name))).sum();
        if left > 0 {
            self.draining.insert(container, key.cluster.clone());
            return;
        }
        self.draining.remove(&container);
        self.change_own(&namespaces, key, |namespace| namespace["spec"]["finalizers"] = json!([]));
    }

    /// Serves what a CustomResourceDefinition defines; deletes all of it with the definition.
    fn settle_definition(&mut self, key: &Key) {
        let Some(definitions) = self.builtin("apiextensions.k8s.io", "customresourcedefinitions") else { return };
        let container = Touched::Definition(key.clone());
        let Some(stored) = self.stored(&definitions, key).cloned() else {
            self.draining.remove(&container);
            return;
        };
        let resource = Arc::new(definition::resource(&stored.object(), ""));
        if stored.deleting {
            if self.empty(&resource, &key.cluster, None) > 0 {
                self.draining.insert(container, key.cluster.clone());
                return;
            }
            self.undefine(&key.cluster, &resource);
            self.change_own(&definitions, key, |object| drop_finalizer(object, definition::CLEANUP_FINALIZER));
            return;
        }
        self.define(&key.cluster, resource);
        let now = self.now.to_string();
        self.change_own(&definitions, key, |object| definition::establish(object, &now));
    }

    /// Serves a resource in one cluster.
    pub(super) fn define(&mut self, cluster: &str, resource: Arc<Resource>) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.defined.insert((resource.group.clone(), resource.plural.clone()), resource);
        }
    }

    /// Serves a resource no longer, if it is the one that is served under its name.
    pub(super) fn undefine(&mut self, cluster: &str, resource: &Resource) {
        let key = (resource.group.clone(), resource.plural.clone());
        if let Some(cluster) = self.clusters.get_mut(cluster)
            && cluster.defined.get(&key).is_some_and(|served| served.identity == resource.identity)
        {
            cluster.defined.remove(&key);
        }
    }

    /// Deletes a resource's objects in a cluster, or in one of its namespaces, and tells how many are held.
    pub(super) fn empty(&mut self, resource: &Resource, cluster: &str, namespace: Option<&str>) -> usize {
        if namespace.is_some() && !resource.namespaced {
            return 0;
        }
        let keys = self.keys_of(resource, cluster, namespace);
        keys.iter().for_each(|key| self.remove(resource, key, Propagation::Background));
        keys.iter().filter(|key| self.stored(resource, key).is_some()).count()
    }

    pub(super) fn keys_of(&self, resource: &Resource, cluster: &str, namespace: Option<&str>) -> Vec<Key> {
        let Some(collection) = self.collection(resource) else { return Vec::new() };
        collection.of_cluster(cluster, namespace, None).map(|(key, _)| key.clone()).collect()
    }

    /// Creates an object on the server's own account.
    pub(super) fn add_own(&mut self, cluster: &str, namespace: &str, plural: &str, mut object: Value) {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let Some(resource) = self.builtin(group, plural) else { return };
        let key = Key::new(cluster, namespace, object::text(&object, "name"));
        builtin::default(&resource, &mut object);
        builtin::complete(&resource, &mut object);
        self.stamp(&resource, &key, &mut object);
        self.mark(&key, &resource, &mut object);
        self.commit(&resource, &key, ChangeKind::Added, object);
    }

    /// Changes an object on the server's own account; does nothing where nothing is new.
    pub(super) fn change_own(&mut self, resource: &Resource, key: &Key, change: impl FnOnce(&mut Value)) {
        let Some(stored) = self.stored(resource, key) else { return };
        let old = stored.object();
        let mut object = old.clone();
        change(&mut object);
        if object::is_deleting(&object) && !object::is_held(&object) {
            self.commit(resource, key, ChangeKind::Deleted, object);
        } else if object != old {
            self.commit(resource, key, ChangeKind::Modified, object);
        }
    }
}

fn touched(resource: &Resource, key: &Key) -> Option<Touched> {
    let touched: fn(Key) -> Touched = match (&*resource.group, &*resource.plural) {
        ("", "namespaces") => Touched::Namespace,
        ("apiextensions.k8s.io", "customresourcedefinitions") => Touched::Definition,
        (builtin::APIS, "apiresourceschemas") => Touched::Schema,
        (builtin::APIS, "apiexports") => Touched::Export,
        (builtin::APIS, "apiexportendpointslices") => Touched::EndpointSlice,
        (builtin::TOPOLOGY, "partitions") => Touched::Partition,
        (builtin::APIS, "apibindings") => Touched::Binding,
        (builtin::TENANCY, "workspaces") => Touched::Workspace,
        _ => return None,
    };
    Some(touched(key.clone()))
}

pub(super) fn drop_finalizer(object: &mut Value, finalizer: &str) {
    if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|present| present != finalizer);
    }
}
