//! A consumer: somebody with a place for objects, in a workspace or in a namespace, who sees nothing else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::engine::Engine;
use crate::eventually::{eventually, throughout};
use crate::kcp::Workspace;
use crate::rest::{Patch, Rest};

/// One consumer's place.
#[derive(Clone)]
pub struct Tenant {
    pub rest: Rest,
    pub namespace: String,
    /// The logical cluster, on kcp.
    pub cluster: Option<String>,
    api: Api,
}

impl Tenant {
    /// In the namespace `default` of a workspace.
    pub fn in_workspace(workspace: &Workspace, api: &Api) -> Self {
        Self { cluster: Some(workspace.cluster.clone()), ..Self::in_cluster(workspace.rest.clone(), api) }
    }

    /// In the namespace `default` of a plain cluster.
    pub fn in_cluster(rest: Rest, api: &Api) -> Self {
        Self { rest, namespace: "default".to_owned(), cluster: None, api: api.clone() }
    }

    /// The same place, for the objects of another API.
    pub fn of(&self, api: &Api) -> Self {
        Self { api: api.clone(), ..self.clone() }
    }

    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.api.collection(&self.namespace))
    }

    pub async fn create(&self, name: &str, spec: Value) -> Value {
        self.rest.create(&self.api.collection(&self.namespace), &self.api.object(name, spec)).await
    }

    /// Creates an object, and waits until it is in sync.
    pub async fn create_synced(&self, name: &str, spec: Value) -> Value {
        let created = self.create(name, spec).await;
        self.synced(name, "True", "Synced").await;
        created
    }

    pub async fn get(&self, name: &str) -> Option<Value> {
        self.rest.get(&self.path(name)).await
    }

    /// The object, which has to be there.
    pub async fn object(&self, name: &str) -> Value {
        self.get(name).await.unwrap_or_else(|| panic!("{name} is gone"))
    }

    /// Merges `change` into the object; a null removes.
    pub async fn patch(&self, name: &str, change: Value) -> Value {
        self.rest.patch(Patch::Merge, &self.path(name), &change).await
    }

    /// Asks for the object's deletion.
    pub async fn delete(&self, name: &str) {
        self.rest.delete(&self.path(name)).await;
    }

    /// Waits until the object is gone.
    pub async fn gone(&self, name: &str) {
        eventually(&format!("{name} is gone upstream"), async || {
            let object = self.get(name).await;
            object.map_or(Ok(()), |object| Err(format!("{} {}", object["metadata"]["finalizers"], object["status"])))
        })
        .await;
    }

    /// Deletes the object, and waits until it is gone.
    pub async fn remove(&self, name: &str) {
        self.delete(name).await;
        self.gone(name).await;
    }

    /// Waits until the object's status contains all that `expected` has.
    pub async fn status(&self, name: &str, expected: Value) -> Value {
        eventually(&format!("the status of {name} has {expected}"), async || {
            let status = self.object(name).await["status"].clone();
            contains(&status, &expected).then_some(status.clone()).ok_or_else(|| status.to_string())
        })
        .await
    }

    /// Waits until a condition of the object has all that `expected` has; gives it.
    pub async fn condition(&self, name: &str, kind: &str, expected: Value) -> Value {
        eventually(&format!("the condition {kind} of {name} has {expected}"), async || {
            let object = self.object(name).await;
            let condition = condition(&object, kind).cloned().ok_or_else(|| object["status"].to_string())?;
            contains(&condition, &expected).then_some(condition.clone()).ok_or_else(|| condition.to_string())
        })
        .await
    }

    /// Waits until the condition `Synced` has this status and reason; gives it.
    pub async fn synced(&self, name: &str, status: &str, reason: &str) -> Value {
        self.condition(name, "Synced", json!({"status": status, "reason": reason})).await
    }

    /// The finalizers that an engine has set on the object.
    pub async fn holds(&self, name: &str) -> Vec<String> {
        let object = self.object(name).await;
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let names = finalizers.iter().filter_map(Value::as_str).map(str::to_owned);
        names.filter(|finalizer| finalizer.starts_with("sync-engine.dev/")).collect()
    }

    /// Watches for three seconds that the engine runs, and that an engine holds the object.
    pub async fn stays_held(&self, name: &str, engine: &mut Engine, what: &str) {
        throughout(Duration::from_secs(3), what, async || {
            engine.is_running()?;
            let held = self.holds(name).await;
            (held.len() == 1).then_some(()).ok_or_else(|| format!("{held:?}"))
        })
        .await;
    }

    /// Makes a namespace of its own beside the tenant's; a tenant of one cluster can have several.
    pub async fn with_namespace(&self, namespace: &str) -> Self {
        let document = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.rest.create("/api/v1/namespaces", &document).await;
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }
}

/// A condition of an object.
pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Whether `whole` has everything that `part` has; maps by key, all else by equality.
pub fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        _ => whole == part,
    }
}
