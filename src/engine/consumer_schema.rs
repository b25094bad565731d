//! What the consumer's API knows under `.status`: as its server publishes it, else as `--schemas` has it.
//!
//! A server publishes one document for each group and version, and an index with a hash of each. The hash is the version
//! of a schema here. Looking at the index is cheap, and the document is read only when its hash is another: after an
//! APIExport has moved to another APIResourceSchema, or after a CustomResourceDefinition was updated. One look serves all
//! mappings and targets whose sources are at the address.
//!
//! A kcp shard publishes one schema for all workspaces of an export, so schemas are kept by address. What a *cluster* keeps
//! of a write can still differ from one workspace to the next: see [`dropped`].

pub mod dropped;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::mapping::Resource;
use crate::mapping::schema::{Schema, Schemas};
use crate::multicluster::backoff::{Backoff, Jitter};
use crate::multicluster::{ApiPath, Endpoint, RequestError};
use crate::object::hash::tuple_hash;

/// How often the index is looked at while nothing else says that a schema has changed.
const PERIOD: Duration = Duration::from_secs(60);

/// How soon a schema that cannot be read, or is not published yet, is asked for again.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: PERIOD };

/// Schemas of source resources, by the place they were read from ([`Endpoint::place`]).
#[derive(Debug)]
pub struct ConsumerSchemas {
    files: Schemas,
    live: Mutex<BTreeMap<(String, Resource), PublishedSchema>>,
    /// By place.
    indexes: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Index>>>>,
}

/// The index of an address, as it was read last; locked while a schema there is looked at.
#[derive(Debug, Default)]
struct Index {
    asked: Option<Instant>,
    /// Empty: there is none.
    body: Vec<u8>,
}

/// What an address was last found to publish.
#[derive(Debug, Clone)]
pub struct PublishedSchema {
    /// Differs whenever the schema does. Empty: the server does not publish one (yet), and what the files have stands in.
    pub version: Arc<str>,
    /// `None`: nobody knows it.
    pub schema: Option<Arc<Schema>>,
}

impl PublishedSchema {
    pub fn is_published(&self) -> bool {
        !self.version.is_empty()
    }
}

impl ConsumerSchemas {
    pub fn new(files: Schemas) -> Self {
        Self { files, live: Mutex::default(), indexes: Mutex::default() }
    }

    /// `None`: not read yet.
    pub fn get(&self, place: &str, resource: &Resource) -> Option<PublishedSchema> {
        self.live.lock().get(&(place.to_owned(), resource.clone())).cloned()
    }

    /// Looks at what an address publishes now, and reads a schema whose version is another.
    ///
    /// # Errors
    /// What time may mend.
    pub async fn check(&self, endpoint: &Endpoint, resource: &Resource) -> Result<PublishedSchema, RequestError> {
        self.check_since(Instant::now(), endpoint, resource).await
    }

    /// The same, where a look of somebody else since then is as good.
    pub async fn check_since(
        &self,
        since: Instant,
        endpoint: &Endpoint,
        resource: &Resource,
    ) -> Result<PublishedSchema, RequestError> {
        let index = self.indexes.lock().entry(endpoint.place()).or_default().clone();
        let mut index = index.lock().await;
        if index.asked.is_none_or(|asked| asked < since) {
            let asked = Instant::now();
            let reply = lenient(endpoint.get(&ApiPath::open_api_index()).await)?;
            let body = reply.map(|reply| reply.body.into()).unwrap_or_default();
            *index = Index { asked: Some(asked), body };
        }
        let indexed = hash_in(&index.body, resource);
        let former = self.get(&endpoint.place(), resource);
        if let Some(former) =
            former.filter(|former| former.is_published() && Some(&*former.version) == indexed.as_deref())
        {
            return Ok(former);
        }
        let reply = lenient(endpoint.get(&ApiPath::open_api(resource)?).await)?;
        let published = reply.and_then(|reply| published(&reply.body, indexed, resource));
        let from_files = || PublishedSchema { version: Arc::from(""), schema: self.files.resource(resource).cloned() };
        let known = published.unwrap_or_else(from_files);
        self.live.lock().insert((endpoint.place(), resource.clone()), known.clone());
        Ok(known)
    }

    /// Forgets what was read from addresses that nobody uses any more.
    pub fn retain(&self, is_used: impl Fn(&str) -> bool) {
        self.live.lock().retain(|(place, _), _| is_used(place));
        self.indexes.lock().retain(|place, _| is_used(place));
    }
}

/// What a server refuses for good, it does not publish.
fn lenient<T>(reply: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.retryable() => Err(error),
        Err(_) => Ok(None),
    }
}

/// The version of a resource's schema as the index has it: `paths["apis/<group>/<version>"].serverRelativeURL` is
/// `/openapi/v3/apis/<group>/<version>?hash=…`. `None`: there is no index, or it has no hash of this document.
fn hash_in(index: &[u8], resource: &Resource) -> Option<String> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let path = match &*resource.group {
        "" => format!("api/{}", resource.version),
        group => format!("apis/{group}/{}", resource.version),
    };
    let url = index.get("paths")?.get(path)?.get("serverRelativeURL")?.as_str()?;
    let (_, hash) = url.split_once("hash=")?;
    (!hash.is_empty()).then(|| hash.to_owned())
}

/// The schema of a resource's status in an OpenAPI v3 document of its group and version.
fn published(document: &[u8], indexed: Option<String>, resource: &Resource) -> Option<PublishedSchema> {
    let mut schemas = Schemas::default();
    schemas.add_openapi(&serde_json::from_slice(document).ok()?);
    let schema = Arc::new(schemas.resource(resource)?.of_status());
    let version = indexed.unwrap_or_else(|| tuple_hash([&*String::from_utf8_lossy(document)], 16));
    Some(PublishedSchema { version: version.into(), schema: Some(schema) })
}

/// When a schema is looked at next.
#[derive(Debug)]
pub struct Schedule {
    failures: u32,
    jitter: Jitter,
}

impl Schedule {
    /// Of the schema at an address.
    pub fn new(at: &str) -> Self {
        Self { failures: 0, jitter: Jitter::of(at) }
    }

    /// Since when a look of somebody else is as good as another one now.
    pub fn since(&self, is_rung: bool) -> Instant {
        let is_routine = !is_rung && self.failures == 0;
        Instant::now() - if is_routine { PERIOD / 2 } else { Duration::ZERO }
    }

    /// The wait after a look: a server publishes the schema of a new API a moment after it serves it.
    pub fn wait(&mut self, looked: &Result<PublishedSchema, RequestError>) -> Duration {
        match looked {
            Ok(known) if known.is_published() => {
                self.failures = 0;
                PERIOD
            }
            _ => {
                self.failures += 1;
                RETRY.delay(self.failures - 1, &mut self.jitter)
            }
        }
    }
}

#[cfg(test)]
mod tests;
