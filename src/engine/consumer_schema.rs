//! What the consumer's API knows under `.status`: as its server says it, else as `--schemas` has it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::mapping::Resource;
use crate::mapping::schema::{Schema, Schemas};
use crate::multicluster::{ApiPath, Endpoint, RequestError};

/// Schemas of source resources, by the address they were read from.
#[derive(Debug)]
pub struct ConsumerSchemas {
    files: Schemas,
    live: Mutex<BTreeMap<String, BTreeMap<Resource, Read>>>,
}

/// What was found where a schema was looked for.
type Read = Option<Arc<Schema>>;

impl ConsumerSchemas {
    pub fn new(files: Schemas) -> Self {
        Self { files, live: Mutex::default() }
    }

    /// `None`: not read yet. `Some(None)`: nobody knows it.
    pub fn get(&self, url: &str, resource: &Resource) -> Option<Read> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(url)?.get(resource).cloned()
    }

    /// Reads the schema of a resource. `false`: the server does not publish it (yet), and what the files have stands in.
    ///
    /// # Errors
    /// What time may mend.
    pub async fn load(&self, endpoint: &Endpoint, resource: &Resource) -> Result<bool, RequestError> {
        if let Some(Some(_)) = self.get(endpoint.url(), resource) {
            return Ok(true);
        }
        let read = match endpoint.get(&ApiPath::open_api(resource)?).await {
            Ok(reply) => published(&reply.body, resource),
            Err(error) if error.retryable() => return Err(error),
            Err(_) => None,
        };
        let found = read.is_some();
        let schema = read.or_else(|| self.files.resource(resource).cloned());
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.entry(endpoint.url().to_owned()).or_default().insert(resource.clone(), schema);
        Ok(found)
    }
}

/// The schema of a resource in an OpenAPI v3 document of its group and version.
fn published(document: &[u8], resource: &Resource) -> Option<Arc<Schema>> {
    let mut schemas = Schemas::default();
    schemas.add_openapi(&serde_json::from_slice(document).ok()?);
    schemas.resource(resource).cloned()
}
