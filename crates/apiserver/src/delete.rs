//! DELETE of one object and of many.

use serde_json::Value;

use super::collection::{ChangeKind, Key};
use super::garbage;
use super::object;
use super::options::{Deletion, Propagation};
use super::read;
use super::reply::Answer;
use super::request::{Request, ResourcePath};
use super::resource::Resource;
use super::state::{State, View};
use super::status::{self, Failure};
use super::validation;

impl State {
    pub(super) fn delete(&mut self, view: &View, path: &ResourcePath, request: &Request) -> Result<Answer, Failure> {
        let deletion = Deletion::of(request)?;
        let name = path.name.as_deref().unwrap_or_default();
        if view.resource.is("", "namespaces") && IMMORTAL.contains(&name) {
            return Err(Failure::forbidden(&view.resource, name, "this namespace may not be deleted"));
        }
        let (key, stored) = self.existing(view, path)?;
        let old = stored.object();
        validation::check_preconditions(&deletion.preconditions, &old, &view.resource)?;
        let left = self.marked(&view.resource, old.clone(), deletion.propagation);
        if !deletion.dry_run {
            self.remove(&view.resource, &key, deletion.propagation);
        }
        Ok(match (left, self.stored(&view.resource, &key)) {
            (None, _) => Answer::value(200, &status::deleted(&view.resource, &key.name, object::text(&old, "uid"))),
            (Some(_), Some(stored)) if !deletion.dry_run => {
                Answer::json(200, read::body(&view.resource, &view.version, stored))
            }
            (Some(object), _) => Answer::value(200, &read::in_version(&view.resource, &view.version, object)),
        })
    }

    pub(super) fn delete_collection(
        &mut self,
        view: &View,
        path: &ResourcePath,
        request: &Request,
    ) -> Result<Answer, Failure> {
        let deletion = Deletion::of(request)?;
        let selector = view.selector(&request.query)?;
        let answer = self.list(view, path, &request.query)?;
        let objects = self.objects_of(view, path.namespace.as_deref(), None);
        let matching = objects.filter(|(key, stored)| selector.matches(key, stored));
        let keys: Vec<Key> = matching.map(|(key, _)| key.clone()).collect();
        for key in keys.iter().filter(|_| !deletion.dry_run) {
            self.remove(&view.resource, key, deletion.propagation);
        }
        Ok(answer)
    }

    /// Removes an object, or marks it where something holds it.
    pub(super) fn remove(&mut self, resource: &Resource, key: &Key, propagation: Propagation) {
        let Some(stored) = self.stored(resource, key).cloned() else { return };
        let old = stored.object();
        match self.marked(resource, old.clone(), propagation) {
            None => drop(self.commit(resource, key, ChangeKind::Deleted, old)),
            Some(marked) if marked != old => drop(self.commit(resource, key, ChangeKind::Modified, marked)),
            Some(_) => (),
        }
    }

    /// What a deletion leaves of an object at first: nothing, or the object with a deletion timestamp.
    fn marked(&self, resource: &Resource, mut object: Value, propagation: Propagation) -> Option<Value> {
        match propagation {
            Propagation::Background => (),
            Propagation::Foreground => object::add_finalizer(&mut object, garbage::FOREGROUND),
            Propagation::Orphan => object::add_finalizer(&mut object, garbage::ORPHAN),
        }
        if !object::is_held(&object) {
            return None;
        }
        if object::is_deleting(&object) {
            return Some(object);
        }
        object::set(&mut object, "deletionTimestamp", Some(self.now.to_string().into()));
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = (generation + 1).into();
        }
        match resource.is("", "namespaces") {
            true => object["status"]["phase"] = "Terminating".into(),
            false => object::set(&mut object, "deletionGracePeriodSeconds", Some(0.into())),
        }
        Some(object)
    }
}

/// Namespaces that every cluster keeps.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
