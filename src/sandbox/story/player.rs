//! Plays a [`ToyOperator`] on a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until};

use super::schedule::Schedule;
use super::toy_operator::{Step, ToyOperator};
use crate::sandbox::{Answer, ApiRef, Events, Key, Request, Sandbox};

/// Field manager of all that toy operators write.
pub(super) const AUTHOR: &str = "toy-operator";

/// What an operator could not do, in a sentence.
pub type Trouble = String;

/// An operator at work on one cluster.
pub struct Player {
    operator: Arc<ToyOperator>,
    cluster: Arc<Sandbox>,
    events: Events,
    schedule: Schedule,
    began: Instant,
    /// Names of the Secrets made for each object.
    made: BTreeMap<Key, BTreeSet<String>>,
    troubles: UnboundedSender<Trouble>,
}

impl Player {
    /// Looks at the objects that are there, and follows those that come.
    ///
    /// # Errors
    /// The answer of a cluster that does not serve the operator's resource.
    pub fn new(
        operator: Arc<ToyOperator>,
        cluster: Arc<Sandbox>,
        troubles: UnboundedSender<Trouble>,
    ) -> Result<Self, Answer> {
        let resource = ApiRef { cluster: "", resource: &operator.resource };
        let events = cluster.events(&Request::get(&format!("{}?watch=true", resource.url("", ""))))?;
        let schedule = Schedule::new(operator.steps.iter().map(|step| step.after).collect());
        let made = BTreeMap::new();
        Ok(Self { operator, cluster, events, schedule, began: Instant::now(), made, troubles })
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
                () = at(next) => self.work(),
            }
        }
    }

    fn see(&mut self, kind: &str, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let key = Key::new("", text("namespace"), text("name"));
        if kind == "DELETED" {
            self.schedule.gone(&key);
            return self.clear(&key);
        }
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        self.schedule.saw(&key, generation, self.now());
    }

    fn work(&mut self) {
        let now = self.now();
        while let Some((key, step)) = self.schedule.take(now) {
            self.carry_out(&key, step);
        }
    }

    fn carry_out(&mut self, key: &Key, step: usize) {
        let api = ApiRef { cluster: "", resource: &self.operator.resource };
        let Some(object) = self.cluster.get(api, &key.namespace, &key.name).map(Arc::new) else { return };
        let Some(step) = self.operator.steps.get(step) else { return };
        let outcome = self.write_status(key, step, &object).and_then(|()| self.write_secrets(step, &object));
        match outcome {
            Ok(names) => self.made.entry(key.clone()).or_default().extend(names),
            Err(why) => {
                // Whoever listens to troubles may have gone before us.
                let _ = self.troubles.send(format!("{}/{}: {why}", key.namespace, key.name));
            }
        }
    }

    fn write_status(&self, key: &Key, step: &Step, object: &Arc<Value>) -> Result<(), Trouble> {
        let Some(status) = step.status(object) else { return Ok(()) };
        let status = status.map_err(|why| why.to_string())?;
        let api = ApiRef { cluster: "", resource: &self.operator.resource };
        let url = format!("{}/status?fieldManager={AUTHOR}", api.url(&key.namespace, &key.name));
        self.write(&Request::patch(&url, MERGE, &json!({"status": status})))
    }

    /// Gives the names of what it wrote.
    fn write_secrets(&self, step: &Step, object: &Arc<Value>) -> Result<Vec<String>, Trouble> {
        let secrets = step.secrets(object).map_err(|why| why.to_string())?;
        secrets.iter().map(|secret| self.write_secret(secret)).collect()
    }

    fn write_secret(&self, secret: &Value) -> Result<String, Trouble> {
        let text = |field: &str| secret["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let exists = self.cluster.get(SECRETS, namespace, name).is_some();
        let url = |name: &str| format!("{}?fieldManager={AUTHOR}", SECRETS.url(namespace, name));
        self.write(&match exists {
            true => Request::patch(&url(name), MERGE, secret),
            false => Request::post(&url(""), secret),
        })?;
        Ok(name.to_owned())
    }

    fn write(&self, request: &Request) -> Result<(), Trouble> {
        let answer = self.cluster.request(request);
        if answer.code < 300 {
            return Ok(());
        }
        let message = answer.to_json()["message"].as_str().unwrap_or_default().to_owned();
        Err(format!("{} {}: {message}", answer.code, request.method))
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

const SECRETS: ApiRef<'_> = ApiRef { cluster: "", resource: "secrets.v1" };
const MERGE: &str = "application/merge-patch+json";

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
