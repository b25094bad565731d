//! Requests to one address, with deadlines, a write limit, and errors in plain words.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use tokio::time::{Instant, timeout, timeout_at};

use super::api_path::ApiPath;
use super::connection::{Connection, Site};
use super::credential::CredentialError;
use super::http_stack::{HttpStack, why_unreachable, with_causes};
use super::identity::cluster_identity;
use super::lane::Lane;
use super::lines::Lines;
use super::permit::{Epoch, Permit};
use super::pool::{Answer, Kept, Ready, SendError};
use super::request_error::RequestError;

/// Deadline of a request where the caller gives none.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read. Schemas are longest; etcd takes objects of 1.5 MiB by default.
const LONGEST: usize = 32 << 20;
/// Why a connection that was just in use takes no request.
const CLOSED: &str = "the connection closed";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Objects without what is beside their metadata.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");

/// One address of an API server, cheap to clone. Views made by [`at`](Self::at) share HTTP stack, limits and counters.
#[derive(Clone)]
pub struct Endpoint {
    connection: Arc<Connection>,
    base: Arc<str>,
    lane: Arc<Lane>,
    site: Site,
    /// The cluster that it was found to lead to, where that may change.
    cluster: Option<Arc<str>>,
    /// Whether what is read is evidence of what the cluster has.
    is_evidence: bool,
    /// Whether lists are of the objects' metadata alone.
    is_metadata: bool,
    /// The one namespace that it reaches, where that stands for a cluster.
    namespace: Option<Arc<str>>,
    /// The one connection that its requests go over.
    over: Option<Kept>,
    /// What must hold at the moment a write leaves.
    permits: Vec<Permit>,
    /// 0: no limit.
    writes_per_second: u32,
}

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

    /// RFC 7386.
    pub fn merge_patch(bytes: impl Into<Bytes>) -> Self {
        Self { content_type: "application/merge-patch+json", bytes: bytes.into() }
    }

    /// Server-side apply: YAML, of which JSON is a part.
    pub fn apply_patch(bytes: impl Into<Bytes>) -> Self {
        Self { content_type: APPLY, bytes: bytes.into() }
    }
}

const APPLY: &str = "application/apply-patch+yaml";

/// A successful answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
}

/// `DeleteOptions` as the engine uses them: always with the uid and the version that it decided on.
#[derive(Debug, Clone, Copy)]
pub struct DeleteOptions<'a> {
    pub uid: &'a str,
    pub resource_version: &'a str,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: &'a str,
}

impl Endpoint {
    pub(super) fn new(connection: Arc<Connection>, base: String, lane: Arc<Lane>, site: Site) -> Self {
        Self {
            connection,
            base: base.into(),
            lane,
            site,
            cluster: None,
            is_evidence: false,
            is_metadata: false,
            namespace: None,
            over: None,
            permits: Vec::new(),
            writes_per_second: 0,
        }
    }

    /// A view one level deeper: `at("/clusters/abc")`. The prefix is the caller's to check.
    pub fn at(&self, prefix: &str) -> Endpoint {
        let base = format!("{}/{}", self.base, prefix.trim_matches('/'));
        Self { base: base.into(), ..self.clone() }
    }

    /// The same, found to lead to this cluster: what is watched through it is not shared with another cluster's.
    pub fn leading_to(mut self, identity: &str) -> Endpoint {
        self.cluster = Some(identity.into());
        self
    }

    /// The same for reads from which a deletion or a release follows: they go to the cluster, as writes do.
    pub fn for_evidence(&self) -> Endpoint {
        Self { is_evidence: true, ..self.clone() }
    }

    /// The same for lists of metadata.
    pub(super) fn for_metadata(&self) -> Endpoint {
        Self { is_metadata: true, ..self.clone() }
    }

    /// The same, which reaches objects of this namespace alone.
    pub fn within(mut self, namespace: &str) -> Endpoint {
        self.namespace = Some(namespace.into());
        self
    }

    /// The same, which sends no write unless the permit holds at that moment.
    pub fn permitted(mut self, permit: Permit) -> Endpoint {
        self.permits.push(permit);
        self
    }

    /// Whether every permit holds that was given to it.
    pub fn is_permitted(&self) -> bool {
        self.permits.iter().all(Permit::holds)
    }

    /// The same, whose writes and those of others with a limit follow each other at this pace. 0: no limit.
    pub fn paced(mut self, writes_per_second: u32) -> Endpoint {
        self.writes_per_second = writes_per_second;
        self
    }

    /// Base address, without trailing slash.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// What tells the server from others: two clusters of a fleet may have one address, behind different proxies.
    pub fn place(&self) -> String {
        format!("{} {}", self.connection.name(), self.base)
    }

    /// Whether two endpoints are one address, whose limits they share.
    pub fn shares_limits_with(&self, other: &Endpoint) -> bool {
        Arc::ptr_eq(&self.lane, &other.lane)
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sends one request. Whatever is no GET waits for one of the address's write slots; the deadline counts from the sending.
    pub async fn request(
        &self,
        method: Method,
        path: &ApiPath,
        body: Option<Body>,
        deadline: Duration,
    ) -> Result<Reply, RequestError> {
        let verb = verb(&method, body.as_ref());
        self.send(verb, method, path, body, deadline, LONGEST).await
    }

    pub async fn get(&self, path: &ApiPath) -> Result<Reply, RequestError> {
        self.request(Method::GET, path, None, DEFAULT_DEADLINE).await
    }

    /// The server's version, and the time of day that its answer tells, in whole seconds.
    pub async fn version(&self) -> Result<(Reply, Option<Timestamp>), RequestError> {
        let path = ApiPath::version();
        let begun = Instant::now();
        let answer = self.exchange(Method::GET, &path, None, DEFAULT_DEADLINE).await;
        self.learn("get", begun, answer.as_ref().map(|answer| answer.status().as_u16()));
        let answer = answer?;
        let (status, time) = (answer.status().as_u16(), answer.headers().get(DATE).and_then(time));
        let body = self.read(&path, answer, begun + DEFAULT_DEADLINE, LONGEST).await?;
        Ok((Reply { status, body }, time))
    }

    /// POST on a collection.
    pub async fn create(&self, collection: &ApiPath, field_manager: &str, body: Bytes) -> Result<Reply, RequestError> {
        let path = collection.clone().query("fieldManager", field_manager);
        self.request(Method::POST, &path, Some(Body::json(body)), DEFAULT_DEADLINE).await
    }

    /// PATCH of whatever kind the body is.
    pub async fn patch(&self, path: &ApiPath, field_manager: &str, body: Body) -> Result<Reply, RequestError> {
        let path = path.clone().query("fieldManager", field_manager);
        self.request(Method::PATCH, &path, Some(body), DEFAULT_DEADLINE).await
    }

    /// Server-side apply. `force` takes fields from other managers.
    pub async fn apply(
        &self,
        path: &ApiPath,
        field_manager: &str,
        force: bool,
        body: impl Into<Bytes>,
    ) -> Result<Reply, RequestError> {
        let path = if force { path.clone().query("force", "true") } else { path.clone() };
        self.patch(&path, field_manager, Body::apply_patch(body)).await
    }

    pub async fn delete(&self, path: &ApiPath, options: DeleteOptions<'_>) -> Result<Reply, RequestError> {
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": options.propagation,
            "preconditions": {"uid": options.uid, "resourceVersion": options.resource_version},
        });
        self.request(Method::DELETE, path, Some(Body::json(body.to_string())), DEFAULT_DEADLINE).await
    }

    /// A page of a list, of so many bytes at most: a GET, counted as `list`.
    pub(super) async fn list_page(
        &self,
        path: &ApiPath,
        deadline: Duration,
        most: usize,
    ) -> Result<Reply, RequestError> {
        self.send("list", Method::GET, path, None, deadline, most).await
    }

    /// Opens a watch; `deadline` is for its first answer.
    pub(super) async fn watch(&self, path: &ApiPath, deadline: Duration) -> Result<Lines, RequestError> {
        let begun = Instant::now();
        let opened = self.exchange(Method::GET, path, None, deadline).await;
        self.learn("watch", begun, opened.as_ref().map(|answer| answer.status().as_u16()));
        opened.map(Lines::new)
    }

    /// A line of a watch came.
    pub(super) fn note_answer(&self) {
        self.lane.note_answer();
    }

    /// Advances whenever a watch at this address sees a version go back.
    pub(super) fn restored(&self) -> &Epoch {
        &self.lane.restored
    }

    /// Counts a request, and has the lane learn from what it came to.
    fn learn(&self, verb: &'static str, begun: Instant, result: Result<u16, &RequestError>) {
        let code = result.unwrap_or_else(|error| error.code().unwrap_or(0));
        self.lane.learn(verb, code, begun.elapsed(), result.err());
    }

    async fn send(
        &self,
        verb: &'static str,
        method: Method,
        path: &ApiPath,
        body: Option<Body>,
        deadline: Duration,
        most: usize,
    ) -> Result<Reply, RequestError> {
        if self.is_outside(path) {
            return Err(RequestError::Outside { url: self.url_of(path) });
        }
        let writes = method != Method::GET;
        if writes {
            self.lane.wait_until_due(self.writes_per_second).await;
        }
        let slot = if writes { Some(self.lane.write_slot(logical_cluster(&self.base)).await) } else { None };
        if let Some(reason) = self.lane.broken() {
            return Err(self.unreachable(path, reason));
        }
        let begun = Instant::now();
        let reply = self.whole(method, path, body, deadline, most).await;
        self.learn(verb, begun, reply.as_ref().map(|reply| reply.status));
        if let Some(slot) = slot {
            slot.learn(begun, reply.as_ref().err());
        }
        reply
    }

    /// Which cluster a connection leads to is asked of all.
    fn is_outside(&self, path: &ApiPath) -> bool {
        let is_inside = |namespace: &Arc<str>| path.as_str().contains(&format!("/namespaces/{namespace}/"));
        self.over.is_none() && self.namespace.as_ref().is_some_and(|namespace| !is_inside(namespace))
    }

    async fn whole(
        &self,
        method: Method,
        path: &ApiPath,
        body: Option<Body>,
        deadline: Duration,
        most: usize,
    ) -> Result<Reply, RequestError> {
        let until = Instant::now() + deadline;
        let answer = self.exchange(method, path, body, deadline).await?;
        let status = answer.status().as_u16();
        let body = self.read(path, answer, until, most).await?;
        Ok(Reply { status, body })
    }

    /// One request up to the head of its answer, errors already told apart. A 401 is tried once more with a new credential.
    async fn exchange(
        &self,
        method: Method,
        path: &ApiPath,
        body: Option<Body>,
        deadline: Duration,
    ) -> Result<Answer, RequestError> {
        let target = format!("{}{}", self.lane.origin.path_of(&self.base), path.as_str());
        let uri = Uri::from_maybe_shared(target).map_err(|error| self.unreachable(path, error.to_string()))?;
        let mut first = true;
        loop {
            let stack = self.site.load_full();
            // An exec plugin or a token file may hang, and a write holds a slot meanwhile.
            let credential = timeout(deadline, stack.authorization()).await;
            let credential = credential.map_err(|_| RequestError::Credential {
                url: self.url_of(path),
                reason: format!("no credential within {} s", deadline.as_secs()),
            })?;
            let header = credential.and_then(|header| self.confidential(header));
            let header = header.map_err(|e| RequestError::Credential { url: self.url_of(path), reason: e.0 })?;
            let mut request = build(&method, &uri, body.as_ref(), header.as_ref(), self.connection.agent());
            if self.is_metadata {
                request.headers_mut().insert(ACCEPT, METADATA);
            }
            let request = stack.impersonating(request);
            let until = Instant::now() + deadline;
            let answer = self.head(&stack, path, request, deadline).await?;
            if answer.status().is_success() {
                return Ok(answer);
            }
            if first && answer.status() == StatusCode::UNAUTHORIZED {
                first = false;
                if stack.refused(header.as_ref()) || Box::pin(self.connection.reread()).await {
                    continue;
                }
            }
            return Err(Box::pin(self.failure(path, answer, until)).await);
        }
    }

    /// The credential, unless it would be sent for everybody to read. client-go sends none over plain HTTP either.
    fn confidential(&self, header: Option<HeaderValue>) -> Result<Option<HeaderValue>, CredentialError> {
        if header.is_some() && self.lane.origin.is_open_to_read() && self.connection.in_process().is_none() {
            return Err(CredentialError(
                "the address is plain http, where everybody on the way can read it: use https".to_owned(),
            ));
        }
        Ok(header)
    }

    async fn head(
        &self,
        stack: &HttpStack,
        path: &ApiPath,
        request: Request<Full<Bytes>>,
        deadline: Duration,
    ) -> Result<Answer, RequestError> {
        let sending = pin!(self.transmit(stack, path, request));
        let sent = timeout(deadline, sending).await;
        sent.unwrap_or_else(|_| Err(self.lost(path, format!("nothing within {} s", deadline.as_secs()))))
    }

    /// A write, and a read that is evidence, goes over a connection that is known to lead to the cluster: whatever is in
    /// between may lead elsewhere with each new connection.
    async fn transmit(
        &self,
        stack: &HttpStack,
        path: &ApiPath,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, RequestError> {
        let origin = &self.lane.origin;
        let (writes, failed) = (request.method() != Method::GET, |error| self.not_sent(path, error));
        loop {
            let ready = match (&self.over, &self.cluster) {
                (Some(kept), _) => kept.next().ok_or_else(|| self.lost(path, CLOSED.into()))?,
                (None, Some(cluster)) if writes || self.is_evidence => {
                    let ready = stack.open(origin, Some(cluster)).await.map_err(failed)?;
                    if ready.leads_to(cluster) { ready } else { self.confirm(path, ready, cluster).await? }
                }
                (None, _) => stack.open(origin, None).await.map_err(failed)?,
            };
            // While it was confirmed, the server may have asked for a pause.
            if writes && self.lane.is_paused(logical_cluster(&self.base)) {
                ready.put_back();
                self.lane.wait_for_pause(logical_cluster(&self.base)).await;
                continue;
            }
            // The last moment: nothing waits between here and the connection.
            if writes && !self.is_permitted() {
                ready.put_back();
                return Err(RequestError::NotPermitted { url: self.url_of(path) });
            }
            match ready.send(request).await {
                Ok(answer) => return Ok(answer),
                Err((Some(unsent), _)) => request = unsent,
                Err((None, error)) => return Err(failed(error)),
            }
        }
    }

    /// Asks over a connection whether it leads to the cluster: requests within a request.
    fn confirm<'a>(
        &'a self,
        path: &'a ApiPath,
        ready: Ready,
        cluster: &'a Arc<str>,
    ) -> BoxFuture<'a, Result<Ready, RequestError>> {
        Box::pin(async move {
            let closed = || self.lost(path, CLOSED.into());
            let kept = ready.kept().ok_or_else(closed)?;
            let over = Self { over: Some(kept.clone()), ..self.clone() };
            if cluster_identity(&over).await? != **cluster {
                self.connection.identity().doubt();
                return Err(RequestError::NotPermitted { url: self.url_of(path) });
            }
            Ok(kept.end().ok_or_else(closed)?.found_to_lead_to(cluster))
        })
    }

    fn not_sent(&self, path: &ApiPath, error: SendError) -> RequestError {
        match error {
            SendError::Connect(error) => self.unreachable(path, why_unreachable(&*error)),
            SendError::Lost(error) => self.lost(path, with_causes(&error)),
        }
    }

    async fn failure(&self, path: &ApiPath, answer: Answer, until: Instant) -> RequestError {
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(seconds);
        match self.read(path, answer, until, LONGEST).await {
            Ok(body) => RequestError::of_answer(code, &self.url_of(path), retry_after, &body),
            Err(error) => error,
        }
    }

    async fn read(&self, path: &ApiPath, answer: Answer, until: Instant, most: usize) -> Result<Bytes, RequestError> {
        let failed = |reason| RequestError::Body { url: self.url_of(path), reason };
        let reading = pin!(answer.read(most));
        match timeout_at(until, reading).await {
            Ok(Ok(Some(body))) => Ok(body),
            Ok(Ok(None)) => Err(RequestError::TooLong { url: self.url_of(path), most }),
            Ok(Err(error)) => Err(failed(with_causes(&error))),
            Err(_) => Err(failed("it did not end in time".into())),
        }
    }

    fn unreachable(&self, path: &ApiPath, reason: String) -> RequestError {
        RequestError::Unreachable { url: self.url_of(path), reason }
    }

    fn lost(&self, path: &ApiPath, reason: String) -> RequestError {
        RequestError::AnswerLost { url: self.url_of(path), reason }
    }

    /// For messages: without the query.
    fn url_of(&self, path: &ApiPath) -> String {
        let path = path.as_str();
        format!("{}{}", self.base, path.split_once('?').map_or(path, |(path, _)| path))
    }
}

/// The logical cluster that an address leads to: the last part of `…/clusters/NAME`; empty outside kcp.
fn logical_cluster(base: &str) -> &str {
    base.rsplit_once("/clusters/").map_or("", |(_, name)| name.split('/').next().unwrap_or_default())
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.base).finish()
    }
}

/// The same address through the same connection, while that leads to the same server and cluster.
impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base
            && Arc::ptr_eq(&self.connection, &other.connection)
            && Arc::ptr_eq(&self.site, &other.site)
            && self.cluster == other.cluster
    }
}

impl Eq for Endpoint {}

fn build(
    method: &Method,
    uri: &Uri,
    body: Option<&Body>,
    header: Option<&HeaderValue>,
    agent: HeaderValue,
) -> Request<Full<Bytes>> {
    let bytes = body.map(|body| body.bytes.clone()).unwrap_or_default();
    let mut request = Request::new(Full::new(bytes));
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, agent);
    headers.insert(ACCEPT, JSON);
    if let Some(body) = body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(body.content_type));
    }
    if let Some(header) = header {
        headers.insert(AUTHORIZATION, header.clone());
    }
    request
}

fn verb(method: &Method, body: Option<&Body>) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ if body.is_some_and(|body| body.content_type == APPLY) => "apply",
        _ => "patch",
    }
}

/// As servers write `Date`: <https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7>.
fn time(value: &HeaderValue) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(value.to_str().ok()?).ok()
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
