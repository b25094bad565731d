//! The inventory: what a mapping has on a target, kept on that target itself.
//!
//! One ConfigMap per engine and mapping holds the kinds in use, the last good document, and the identity of the source.
//! It outlives the mapping's file: deletions go on from it, and a source that is another one is noticed.

use std::collections::BTreeSet;

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::mapping::{Kind, Resource};
use crate::multicluster::{ApiPath, Endpoint, RequestError};
use crate::object::marks::{self, Writer};

/// Label by which the inventories of one engine are found.
const ENGINE: &str = "sync-engine.dev/engine";

/// What one inventory says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    pub mapping: String,
    pub kinds: BTreeSet<Kind>,
    pub document: String,
    /// Identity of the source: uid of the APIExport, or of the cluster.
    pub source: String,
}

/// The inventories of one engine on one target.
#[derive(Debug, Clone)]
pub struct Inventories {
    pub endpoint: Endpoint,
    pub engine: String,
    pub namespace: String,
}

impl Inventories {
    /// Every mapping this engine ever wrote for there. No namespace is no inventory.
    ///
    /// # Errors
    /// The request's.
    pub async fn list(&self) -> Result<Vec<Inventory>, RequestError> {
        let selector = format!("{ENGINE}={}", self.engine);
        let path = ApiPath::collection(&config_maps(), &self.namespace)?.query("labelSelector", &selector);
        let reply = self.endpoint.get(&path).await?;
        let list: Value = parse(&reply.body, self.endpoint.url())?;
        Ok(list["items"].as_array().into_iter().flatten().filter_map(read).collect())
    }

    /// # Errors
    /// The request's; an inventory that is not there is `None`.
    pub async fn get(&self, mapping: &str) -> Result<Option<Inventory>, RequestError> {
        let name = self.name(mapping);
        match self.endpoint.get(&ApiPath::object(&config_maps(), &self.namespace, &name)?).await {
            Ok(reply) => Ok(read(&parse(&reply.body, self.endpoint.url())?)),
            Err(error) if error.is_not_found_of(&name) || error.is_not_found_of(&self.namespace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes one, and the namespace where it is missing.
    ///
    /// # Errors
    /// The request's.
    pub async fn put(&self, inventory: &Inventory) -> Result<(), RequestError> {
        let namespace = ApiPath::object(&namespaces(), "", &self.namespace)?;
        match self.endpoint.get(&namespace).await {
            Err(error) if error.is_not_found_of(&self.namespace) => self.create_namespace().await?,
            // Who may not read namespaces may still write into one that exists.
            _ => {}
        }
        self.apply(inventory).await
    }

    /// # Errors
    /// The request's; one that is gone already is fine.
    pub async fn remove(&self, mapping: &str) -> Result<(), RequestError> {
        let name = self.name(mapping);
        let path = ApiPath::object(&config_maps(), &self.namespace, &name)?;
        match self
            .endpoint
            .request(http::Method::DELETE, &path, None, crate::multicluster::endpoint::DEFAULT_DEADLINE)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found_of(&name) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn apply(&self, inventory: &Inventory) -> Result<(), RequestError> {
        let writer = Writer::new(&self.engine, &inventory.mapping);
        let name = self.name(&inventory.mapping);
        let path = ApiPath::object(&config_maps(), &self.namespace, &name)?;
        let body = self.body(&name, inventory).to_string();
        self.endpoint.apply(&path, writer.field_manager(), true, Bytes::from(body)).await.map(drop)
    }

    async fn create_namespace(&self) -> Result<(), RequestError> {
        let path = ApiPath::all(&namespaces())?;
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": self.namespace, "labels": {marks::MANAGED_BY: marks::MANAGER},
        }});
        match self.endpoint.create(&path, marks::MANAGER, Bytes::from(body.to_string())).await {
            Err(error) if !error.is_already_exists() => Err(error),
            _ => Ok(()),
        }
    }

    fn name(&self, mapping: &str) -> String {
        format!("{}.{mapping}", self.engine)
    }

    fn body(&self, name: &str, inventory: &Inventory) -> Value {
        let kinds: Vec<_> =
            inventory.kinds.iter().map(|kind| format!("{} {}", kind.api_version(), kind.kind)).collect();
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {ENGINE: self.engine, marks::MANAGED_BY: marks::MANAGER},
            },
            "data": {
                "mapping": inventory.mapping,
                "kinds": kinds.join("\n"),
                "document": inventory.document,
                "source": inventory.source,
            },
        })
    }
}

fn config_maps() -> Resource {
    Resource { group: String::new(), version: "v1".into(), plural: "configmaps".into() }
}

fn namespaces() -> Resource {
    Resource { group: String::new(), version: "v1".into(), plural: "namespaces".into() }
}

fn parse(body: &[u8], url: &str) -> Result<Value, RequestError> {
    serde_json::from_slice(body).map_err(|error| RequestError::Body { url: url.to_owned(), reason: error.to_string() })
}

fn read(config_map: &Value) -> Option<Inventory> {
    let text = |field: &str| config_map["data"][field].as_str().unwrap_or_default().to_owned();
    let mapping = text("mapping");
    (!mapping.is_empty()).then(|| Inventory {
        mapping,
        kinds: text("kinds").lines().filter_map(kind).collect(),
        document: text("document"),
        source: text("source"),
    })
}

fn kind(line: &str) -> Option<Kind> {
    let (api_version, kind) = line.split_once(' ')?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some(Kind::new(group, version, kind))
}
