//! DELETE of one object and of many.

use serde_json::{Value, json};

use super::collection::{ChangeKind, Key};
use super::object;
use super::read;
use super::reply::Answer;
use super::request::{Request, ResourcePath};
use super::resource::Resource;
use super::state::{State, View};
use super::status::{self, Failure};
use super::validation;

impl State {
    pub(super) fn delete(&mut self, view: &View, path: &ResourcePath, request: &Request) -> Result<Answer, Failure> {
        if path.subresource.is_some() {
            return Err(Failure::method_not_allowed());
        }
        let options = options(request)?;
        let (key, stored) = self.existing(view, path)?;
        let old = stored.object();
        validation::check_preconditions(&options["preconditions"], &old, &view.resource)?;
        let is_dry = request.query.get("dryRun") == Some("All") || options["dryRun"] == json!(["All"]);
        if is_dry {
            return Ok(Answer::value(200, &read::in_version(&view.resource, &view.version, old)));
        }
        self.remove(&view.resource, &key);
        Ok(match self.stored(&view.resource, &key) {
            Some(stored) => Answer::json(200, read::body(&view.resource, &view.version, stored)),
            None => Answer::value(200, &status::deleted(&view.resource, &key.name, object::text(&old, "uid"))),
        })
    }

    pub(super) fn delete_collection(
        &mut self,
        view: &View,
        path: &ResourcePath,
        request: &Request,
    ) -> Result<Answer, Failure> {
        let selector = view.selector(&request.query)?;
        let answer = self.list(view, path, &request.query)?;
        let objects = self.objects_of(view, path.namespace.as_deref(), None);
        let matching = objects.filter(|(key, stored)| selector.matches(key, stored));
        let keys: Vec<Key> = matching.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove(&view.resource, &key);
        }
        Ok(answer)
    }

    /// Removes an object, or marks it where something holds it.
    pub(super) fn remove(&mut self, resource: &Resource, key: &Key) {
        let Some(stored) = self.stored(resource, key) else { return };
        let mut object = stored.object();
        if !object::is_held(&object) {
            self.commit(resource, key, ChangeKind::Deleted, object);
            return;
        }
        if object::is_deleting(&object) {
            return;
        }
        object::set(&mut object, "deletionTimestamp", Some(self.now.to_string().into()));
        object::set(&mut object, "deletionGracePeriodSeconds", Some(0.into()));
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = (generation + 1).into();
        }
        if resource.is("", "namespaces") {
            object["status"]["phase"] = "Terminating".into();
        }
        self.commit(resource, key, ChangeKind::Modified, object);
    }
}

/// DeleteOptions; none given is the same as empty ones.
fn options(request: &Request) -> Result<Value, Failure> {
    if request.body.is_empty() { Ok(json!({})) } else { request.json() }
}
