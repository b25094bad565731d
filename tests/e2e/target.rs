//! The downstream cluster as its administrator sees it: which objects the engine made there, and for whom.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::eventually::{eventually, throughout};
use crate::rest::{Patch, Rest};
use crate::tenant::{Tenant, contains};

/// The downstream cluster, and what one mapping of one engine made there.
#[derive(Clone)]
pub struct Target {
    pub rest: Rest,
    pub api: Api,
    /// The value of the label `sync-engine.dev/mapping`: `<engine>.<mapping>`.
    pub mapping: String,
}

impl Target {
    /// Every object of the API that carries the mapping's label.
    pub async fn copies(&self) -> Vec<Value> {
        self.labelled(&self.api.everywhere()).await
    }

    /// Every object of a collection that carries the mapping's label.
    pub async fn labelled(&self, collection: &str) -> Vec<Value> {
        self.rest.list(&format!("{collection}?labelSelector=sync-engine.dev/mapping={}", self.mapping)).await
    }

    /// Those objects by what does not change while they live.
    pub async fn uids(&self) -> BTreeSet<String> {
        self.copies().await.iter().map(uid).collect()
    }

    /// The object made for one consumer object, as its annotations say, or nothing yet.
    pub async fn find(&self, tenant: &Tenant, name: &str) -> Option<Value> {
        let says = |copy: &Value, mark: &str, value: &str| {
            copy["metadata"]["annotations"][format!("sync-engine.dev/{mark}")] == value
        };
        let is_for = |copy: &Value| {
            says(copy, "name", name)
                && says(copy, "namespace", &tenant.namespace)
                && tenant.cluster.as_ref().is_none_or(|cluster| says(copy, "cluster", cluster))
        };
        let copies: Vec<Value> = self.copies().await.into_iter().filter(is_for).collect();
        assert!(copies.len() < 2, "{name} has several objects downstream: {copies:?}");
        copies.into_iter().next()
    }

    /// Waits for the object made for one consumer object.
    pub async fn copy(&self, tenant: &Tenant, name: &str) -> Value {
        eventually(&format!("{name} has its object downstream"), async || {
            self.find(tenant, name).await.ok_or_else(|| "it has none".to_owned())
        })
        .await
    }

    /// Waits until that object's spec is what `expected` says.
    pub async fn has_spec(&self, tenant: &Tenant, name: &str, expected: Value) -> Value {
        eventually(&format!("{name} has downstream the spec {expected}"), async || {
            let copy = self.find(tenant, name).await.ok_or("it has no object")?;
            (copy["spec"] == expected).then_some(copy.clone()).ok_or_else(|| copy["spec"].to_string())
        })
        .await
    }

    /// Creates an object of a tenant's; gives the one that is made for it.
    pub async fn made(&self, tenant: &Tenant, name: &str, spec: Value) -> Value {
        tenant.create(name, spec).await;
        self.copy(tenant, name).await
    }

    /// Changes a tenant's object to this spec, and waits until that object has it too.
    pub async fn follows(&self, tenant: &Tenant, name: &str, spec: Value) -> Value {
        tenant.patch(name, json!({"spec": spec})).await;
        self.has_spec(tenant, name, spec).await
    }

    /// Waits until that object contains all that `expected` has.
    pub async fn has(&self, tenant: &Tenant, name: &str, expected: Value) -> Value {
        eventually(&format!("{name} has downstream {expected}"), async || {
            let copy = self.find(tenant, name).await.ok_or("it has no object")?;
            contains(&copy, &expected).then_some(copy.clone()).ok_or_else(|| copy.to_string())
        })
        .await
    }

    /// Waits until nothing made for the consumer object is left.
    pub async fn gone(&self, tenant: &Tenant, name: &str) {
        eventually(&format!("{name} has no object downstream"), async || {
            let copy = self.find(tenant, name).await;
            copy.map_or(Ok(()), |copy| Err(copy["metadata"].to_string()))
        })
        .await;
    }

    /// An object as it stands now, read afresh.
    pub async fn again(&self, object: &Value) -> Value {
        self.rest.get(&self.path(object)).await.expect("the object still stands")
    }

    /// Waits until an object meets what is asked of it.
    pub async fn becomes(&self, object: &Value, what: &str, meets: impl Fn(&Value) -> bool) {
        eventually(what, async || self.look(object, &meets).await).await;
    }

    /// Watches for three seconds that an object meets what is asked of it.
    pub async fn keeps(&self, object: &Value, what: &str, meets: impl Fn(&Value) -> bool) {
        throughout(Duration::from_secs(3), what, async || self.look(object, &meets).await).await;
    }

    /// Watches for three seconds that an object stays the one it is.
    pub async fn stays(&self, object: &Value) {
        let is_same = |now: &Value| uid(now) == uid(object) && now["metadata"]["deletionTimestamp"].is_null();
        self.keeps(object, "the object downstream stays", is_same).await;
    }

    async fn look(&self, object: &Value, meets: impl Fn(&Value) -> bool) -> Result<(), String> {
        let now = self.again(object).await;
        meets(&now).then_some(()).ok_or_else(|| now.to_string())
    }

    /// The path of an object of the API.
    pub fn path(&self, object: &Value) -> String {
        format!("{}/{}", self.api.collection(&namespace(object)), name(object))
    }

    /// An edit by hand, the way `kubectl edit` writes it.
    pub async fn edit(&self, object: &Value, change: Value) -> Value {
        let path = format!("{}?fieldManager=kubectl-edit", self.path(object));
        self.rest.patch(Patch::Merge, &path, &change).await
    }

    /// As the operator does it: merges `status` into the status of a downstream object; a null removes.
    pub async fn report(&self, object: &Value, status: Value) -> Value {
        let path = format!("{}/status?fieldManager=operator", self.path(object));
        self.rest.patch(Patch::Merge, &path, &json!({"status": status})).await
    }

    /// Waits for the object of `name`, and reports `status` on it.
    pub async fn operate(&self, tenant: &Tenant, name: &str, status: Value) -> Value {
        let copy = self.copy(tenant, name).await;
        self.report(&copy, status).await
    }

    pub async fn delete(&self, object: &Value) {
        self.rest.delete(&self.path(object)).await;
    }

    /// Makes a namespace, as the cluster's administrator would.
    pub async fn make_namespace(&self, name: &str) {
        let document = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.rest.create("/api/v1/namespaces", &document).await;
    }
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}

pub fn namespace(object: &Value) -> String {
    object["metadata"]["namespace"].as_str().expect("a namespace").to_owned()
}

pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}
