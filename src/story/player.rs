//! Plays a [`ToyOperator`] on a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until};

use super::scene::resources;
use super::schedule::{Schedule, Work};
use super::toy_operator::{Step, ToyOperator};
use crate::mapping::Resource;
use crate::object::metadata;
use crate::sandbox::{Answer, ApiRef, Events, Key, Request, Sandbox};

/// Field manager of all that toy operators write.
pub(super) const AUTHOR: &str = "toy-operator";

/// What an operator could not do, in a sentence.
pub type Trouble = String;

/// An operator at work on one cluster.
pub struct Player {
    operator: Arc<ToyOperator>,
    cluster: Arc<Sandbox>,
    /// The operator's, as [`ApiRef`] has it.
    resource: String,
    /// Whether the status has an endpoint of its own.
    has_status: bool,
    events: Events,
    schedule: Schedule,
    began: Instant,
    /// Names of the Secrets made for each object.
    made: BTreeMap<Key, BTreeSet<String>>,
    tell: Box<dyn Fn(Trouble) + Send>,
}

impl Player {
    /// Looks at the objects that are there, and follows those that come. `tell` is told what it cannot do.
    ///
    /// # Errors
    /// The answer of a cluster that does not serve the operator's resource.
    pub fn new(
        operator: Arc<ToyOperator>,
        cluster: Arc<Sandbox>,
        tell: impl Fn(Trouble) + Send + 'static,
    ) -> Result<Self, Answer> {
        let resource = operator.resource.to_string();
        let api = ApiRef { cluster: "", resource: &resource };
        let events = cluster.events(&Request::get(&format!("{}?watch=true", api.url("", ""))))?;
        let release = operator.finalizer.as_ref().and_then(|finalizer| finalizer.after);
        let release = release.map_or(Duration::ZERO, |period| period.0);
        let schedule = Schedule::new(operator.steps.iter().map(|step| step.after).collect(), release);
        let (has_status, made) = (has_status(&cluster, &operator.resource), BTreeMap::new());
        let (began, tell) = (Instant::now(), Box::new(tell));
        Ok(Self { operator, cluster, resource, has_status, events, schedule, began, made, tell })
    }

    /// Works until the cluster is gone. Can be dropped at any time.
    pub async fn run(mut self) {
        loop {
            let next = self.schedule.next().map(|time| self.began + time);
            tokio::select! {
                event = self.events.next() => match event {
                    Some((kind, object)) => self.see(&kind, &object),
                    None => return,
                },
                Some(()) = OptionFuture::from(next.map(sleep_until)) => self.work(),
            }
        }
    }

    fn see(&mut self, kind: &str, object: &Value) {
        let key = Key::new("", metadata(object, "namespace"), metadata(object, "name"));
        if kind == "DELETED" {
            self.schedule.gone(&key);
            return self.clear(&key);
        }
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return self.schedule.leaves(&key, self.now());
        }
        self.hold(&key, object);
        self.schedule.saw(&key, ordered(object), self.now());
    }

    fn work(&mut self) {
        let now = self.now();
        while let Some((key, work)) = self.schedule.take(now) {
            match work {
                Work::Step(step) => self.carry_out(&key, step),
                Work::Release => self.finalize(&key, |finalizers, own| finalizers.retain(|one| *one != *own)),
            }
        }
    }

    fn api(&self) -> ApiRef<'_> {
        ApiRef { cluster: "", resource: &self.resource }
    }

    fn carry_out(&mut self, key: &Key, step: usize) {
        let Some(object) = self.cluster.get(self.api(), &key.namespace, &key.name).map(Arc::new) else { return };
        let Some(step) = self.operator.steps.get(step) else { return };
        let outcome = self.write_status(key, step, &object).and_then(|()| self.write_secrets(step, &object));
        match outcome {
            Ok(names) => self.made.entry(key.clone()).or_default().extend(names),
            Err(why) => self.complain(key, &why),
        }
    }

    /// Gives an object the operator's finalizer.
    fn hold(&self, key: &Key, object: &Value) {
        let Some(finalizer) = &self.operator.finalizer else { return };
        let held = object["metadata"]["finalizers"].as_array();
        if !held.is_some_and(|held| held.iter().any(|one| *one == *finalizer.name)) {
            self.finalize(key, |finalizers, own| finalizers.push(own.into()));
        }
    }

    /// Changes the finalizers of an object as they are now; those of others stay.
    fn finalize(&self, key: &Key, change: impl Fn(&mut Vec<Value>, &str)) {
        let Some(finalizer) = &self.operator.finalizer else { return };
        let url = format!("{}?fieldManager={AUTHOR}", self.api().url(&key.namespace, &key.name));
        while let Some(object) = self.cluster.get(self.api(), &key.namespace, &key.name) {
            let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            change(&mut finalizers, &finalizer.name);
            let version = &object["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
            match self.write(&Request::patch(&url, MERGE, &patch)) {
                // Somebody else wrote in between.
                Err((409, _)) => {}
                Err((_, why)) => return self.complain(key, &why),
                Ok(()) => return,
            }
        }
    }

    fn complain(&self, key: &Key, why: &str) {
        (self.tell)(format!("{}/{}: {why}", key.namespace, key.name));
    }

    fn write_status(&self, key: &Key, step: &Step, object: &Arc<Value>) -> Result<(), Trouble> {
        let Some(status) = step.status(object) else { return Ok(()) };
        let status = status.map_err(|why| why.to_string())?;
        if status.as_object().is_some_and(Map::is_empty) {
            return Ok(());
        }
        let endpoint = if self.has_status { "/status" } else { "" };
        // A field that the definition lacks would be dropped without a word.
        let options = format!("fieldManager={AUTHOR}&fieldValidation=Strict");
        let url = format!("{}{endpoint}?{options}", self.api().url(&key.namespace, &key.name));
        self.write(&Request::patch(&url, MERGE, &json!({"status": status}))).map_err(|(_, why)| why)
    }

    /// Gives the names of what it wrote.
    fn write_secrets(&self, step: &Step, object: &Arc<Value>) -> Result<Vec<String>, Trouble> {
        let secrets = step.secrets(object).map_err(|why| why.to_string())?;
        secrets.iter().map(|secret| self.write_secret(secret)).collect()
    }

    fn write_secret(&self, secret: &Value) -> Result<String, Trouble> {
        let (namespace, name) = (metadata(secret, "namespace"), metadata(secret, "name"));
        let exists = self.cluster.get(SECRETS, namespace, name).is_some();
        let url = |name: &str| format!("{}?fieldManager={AUTHOR}", SECRETS.url(namespace, name));
        self.write(&match exists {
            true => Request::patch(&url(name), MERGE, secret),
            false => Request::post(&url(""), secret),
        })
        .map_err(|(_, why)| why)?;
        Ok(name.to_owned())
    }

    /// Where it is refused, the code and a sentence.
    fn write(&self, request: &Request) -> Result<(), (u16, Trouble)> {
        let answer = self.cluster.request(request);
        if answer.code < 300 {
            return Ok(());
        }
        let message = answer.to_json()["message"].as_str().unwrap_or_default().to_owned();
        Err((answer.code, format!("{} {}: {message}", answer.code, request.method)))
    }

    /// Takes away what was made for an object that is gone.
    fn clear(&mut self, key: &Key) {
        for name in self.made.remove(key).unwrap_or_default() {
            let url = format!("{}?fieldManager={AUTHOR}", SECRETS.url(&key.namespace, &name));
            // It may have gone with its namespace.
            let _ = self.cluster.request(&Request::delete(&url));
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// What is ordered by an object: all but its metadata and status. A generation would not do: without an endpoint of its own,
/// a status changes it.
fn ordered(object: &Value) -> Value {
    let mut ordered = object.clone();
    if let Some(fields) = ordered.as_object_mut() {
        fields.retain(|name, _| !["metadata", "status"].contains(&name.as_str()));
    }
    ordered
}

/// Whether a resource is served with a status endpoint.
fn has_status(cluster: &Sandbox, Resource { group, version, plural }: &Resource) -> bool {
    let status = format!("{plural}/status");
    resources(cluster, group, version).iter().any(|resource| resource["name"] == status)
}

const SECRETS: ApiRef<'_> = ApiRef { cluster: "", resource: "secrets.v1" };
const MERGE: &str = "application/merge-patch+json";
