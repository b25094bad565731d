//! Requests to one address, with deadlines, write limit and plain-worded errors.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use hyper::body::Bytes;

use super::api_path::ApiPath;
use super::request_error::RequestError;

/// Deadline of a request where the caller gives none.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// One address of an API server, cheap to clone. Views made by [`at`](Self::at) share HTTP stack, limits and counters.
#[derive(Debug, Clone)]
pub struct Endpoint {}

/// Body of a request.
#[derive(Debug, Clone)]
pub struct Body {
    pub content_type: &'static str,
    pub bytes: Bytes,
}

impl Body {
    pub fn json(bytes: impl Into<Bytes>) -> Self {
        Self { content_type: "application/json", bytes: bytes.into() }
    }
    /// RFC 6902.
    pub fn json_patch(bytes: impl Into<Bytes>) -> Self {
        Self { content_type: "application/json-patch+json", bytes: bytes.into() }
    }
    pub fn merge_patch(bytes: impl Into<Bytes>) -> Self {
        Self { content_type: "application/merge-patch+json", bytes: bytes.into() }
    }
    /// Server-side apply; JSON is YAML.
    pub fn apply_patch(bytes: impl Into<Bytes>) -> Self {
        Self { content_type: "application/apply-patch+yaml", bytes: bytes.into() }
    }
}

/// A successful answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
}

impl Endpoint {
    /// A view one level deeper: `at("/clusters/abc")`.
    pub fn at(&self, prefix: &str) -> Endpoint {
        todo!()
    }
    /// Base address, without trailing slash.
    pub fn url(&self) -> &str {
        todo!()
    }

    /// Sends one request. Writes (all but GET) wait for one of the endpoint's write slots; the deadline counts from the sending.
    pub async fn request(
        &self,
        method: Method,
        path: &ApiPath,
        body: Option<Body>,
        deadline: Duration,
    ) -> Result<Reply, RequestError> {
        todo!()
    }
    pub async fn get(&self, path: &ApiPath) -> Result<Reply, RequestError> {
        todo!()
    }
    /// POST on a collection.
    pub async fn create(&self, collection: &ApiPath, field_manager: &str, body: Bytes) -> Result<Reply, RequestError> {
        todo!()
    }
    /// PATCH of whatever kind the body is.
    pub async fn patch(&self, path: &ApiPath, field_manager: &str, body: Body) -> Result<Reply, RequestError> {
        todo!()
    }
    /// Server-side apply.
    pub async fn apply(
        &self,
        path: &ApiPath,
        field_manager: &str,
        force: bool,
        body: Bytes,
    ) -> Result<Reply, RequestError> {
        todo!()
    }
    /// DELETE with `DeleteOptions`.
    pub async fn delete(&self, path: &ApiPath, options: DeleteOptions<'_>) -> Result<Reply, RequestError> {
        todo!()
    }
    pub fn counters(&self) -> &Arc<Counters> {
        todo!()
    }
}

/// `DeleteOptions` as the engine uses them: always with a uid.
#[derive(Debug, Clone, Copy)]
pub struct DeleteOptions<'a> {
    pub uid: &'a str,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: &'a str,
}

/// Requests sent, by verb and status code (0: no answer). Read by the metrics page.
#[derive(Debug, Default)]
pub struct Counters {}

impl Counters {
    /// `(verb, code, count)`, ordered.
    pub fn snapshot(&self) -> Vec<(&'static str, u16, u64)> {
        todo!()
    }
}
