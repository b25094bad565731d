//! Which cluster an address leads to.

use serde::Deserialize;

use super::api_path::ApiPath;
use super::endpoint::Endpoint;
use super::request_error::RequestError;
use crate::mapping::Resource;

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

/// Identity of the cluster behind an endpoint: uid of its namespace `kube-system`, or of `default` where there is none.
pub async fn cluster_identity(endpoint: &Endpoint) -> Result<String, RequestError> {
    match namespace_uid(endpoint, "kube-system").await {
        Err(error) if error.is_not_found_of("kube-system") => namespace_uid(endpoint, "default").await,
        result => result,
    }
}

async fn namespace_uid(endpoint: &Endpoint, name: &str) -> Result<String, RequestError> {
    let namespaces = Resource { group: String::new(), version: "v1".into(), plural: "namespaces".into() };
    let reply = endpoint.get(&ApiPath::object(&namespaces, "", name)?).await?;
    let namespace: Result<Namespace, _> = serde_json::from_slice(&reply.body);
    namespace
        .map(|namespace| namespace.metadata.uid)
        .map_err(|error| RequestError::Body { url: endpoint.url().to_owned(), reason: error.to_string() })
}
