//! Requests to one address, with deadlines, a write limit, and errors in plain words.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, DATE};
use http::uri::Scheme;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::Bytes;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use super::api_path::ApiPath;
use super::client::{Answer, Client, Content, Destination, LONGEST, SendError, Withheld};
use super::connection::{Connection, Site};
use super::identity::Ask;
use super::lane::AddressLimits;
use super::lines::Lines;
use super::permit::Permit;
use super::proxy::is_this_machine;
use super::request_error::RequestError;

/// Deadline of a request where the caller gives none.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Objects without what is beside their metadata.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");

/// One address of an API server, cheap to clone. Views made by [`at`](Self::at) share HTTP stack, limits and counters.
#[derive(Clone)]
pub struct Endpoint {
    connection: Arc<Connection>,
    base: Arc<str>,
    lane: Arc<AddressLimits>,
    site: Site,
    /// Where its connections must lead to, where that may change.
    to: Option<Destination>,
    /// Whether lists are of the objects' metadata alone.
    is_metadata: bool,
    /// The one namespace that it reaches, where that stands for a cluster.
    namespace: Option<Arc<str>>,
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
}

/// Server-side apply: YAML, of which JSON is a part.
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
    pub(super) fn new(connection: Arc<Connection>, base: String, lane: Arc<AddressLimits>, site: Site) -> Self {
        Self {
            connection,
            base: base.into(),
            lane,
            site,
            to: None,
            is_metadata: false,
            namespace: None,
            permits: Vec::new(),
            writes_per_second: 0,
        }
    }

    /// A view one level deeper: `at("/clusters/abc")`. The prefix is the caller's to check.
    pub fn at(&self, prefix: &str) -> Endpoint {
        let base = format!("{}/{}", self.base, prefix.trim_matches('/'));
        Self { base: base.into(), ..self.clone() }
    }

    /// The same, found to lead to this cluster: whatever is sent goes there, and what is watched through it is not shared with
    /// another cluster's.
    pub fn leading_to(mut self, identity: &str) -> Endpoint {
        self.to = Some(Destination { base: self.base.clone(), identity: identity.into() });
        self
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

    /// The same, whose writes and those of others with this limit follow each other at this pace. 0: no limit.
    pub fn paced(mut self, writes_per_second: u32) -> Endpoint {
        self.writes_per_second = writes_per_second;
        self
    }

    /// Base address, without trailing slash.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// What its server answered.
    pub fn parse<T: DeserializeOwned>(&self, reply: &Reply) -> Result<T, RequestError> {
        serde_json::from_slice(&reply.body).map_err(|error| self.unreadable(&error))
    }

    /// What its server answered cannot be used.
    pub fn unreadable(&self, why: &dyn fmt::Display) -> RequestError {
        RequestError::Body { url: self.url().to_owned(), reason: why.to_string() }
    }

    /// What tells the server from others: two clusters of a fleet may have one address, behind different proxies.
    pub fn place(&self) -> String {
        format!("{} {}", self.connection.name(), self.base)
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
        let (answer, until) = self.open("get", &path, DEFAULT_DEADLINE, false).await?;
        // As servers write it: <https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7>.
        let time = |value: &HeaderValue| DateTimeParser::new().parse_timestamp(value.to_str().ok()?).ok();
        let time = answer.head().headers().get(DATE).and_then(time);
        Ok((self.read(&path, answer, until, LONGEST).await?, time))
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
        self.patch(&path, field_manager, Body { content_type: APPLY, bytes: body.into() }).await
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
        let (answer, until) = self.open("watch", path, deadline, true).await?;
        if answer.head().status().is_success() {
            return Ok(Lines::new(answer));
        }
        let failed = Box::pin(self.read(path, answer, until, LONGEST)).await;
        failed.and_then(|_| Err(self.lost(path, "it is no stream".into())))
    }

    /// A GET up to the head of its answer, and until when that has to end.
    async fn open(
        &self,
        verb: &'static str,
        path: &ApiPath,
        deadline: Duration,
        is_watch: bool,
    ) -> Result<(Answer, Instant), RequestError> {
        let begun = Instant::now();
        let opened = Box::pin(self.exchange(&Method::GET, path, None, deadline, is_watch)).await;
        // No pause is for what is read.
        let opened = opened.and_then(|answer| answer.ok_or_else(|| self.not_permitted(path)));
        self.learn(verb, begun, opened.as_ref().map(|answer| answer.head().status().as_u16()));
        Ok((opened?, begun + deadline))
    }

    /// A line of a watch came.
    pub(super) fn note_answer(&self) {
        self.lane.note_answer();
    }

    /// Counts a request, and has the lane learn from what it came to.
    fn learn(&self, verb: &'static str, begun: Instant, result: Result<u16, &RequestError>) {
        let code = result.unwrap_or_else(|error| error.code().unwrap_or(0));
        self.lane.learn(verb, code, begun.elapsed(), result.err());
    }

    /// On the heap: what a request needs on its way is large, and would be copied with everything that waits for it.
    fn send<'s>(
        &'s self,
        verb: &'static str,
        method: Method,
        path: &'s ApiPath,
        body: Option<Body>,
        deadline: Duration,
        most: usize,
    ) -> BoxFuture<'s, Result<Reply, RequestError>> {
        Box::pin(async move {
            let is_outside = |namespace: &Arc<str>| !path.as_str().contains(&format!("/namespaces/{namespace}/"));
            if self.namespace.as_ref().is_some_and(is_outside) {
                return Err(RequestError::Outside { url: self.url_of(path) });
            }
            let writes = method != Method::GET;
            if writes {
                self.lane.wait_until_due(self.writes_per_second).await;
            }
            let cluster = logical_cluster(&self.base);
            loop {
                let slot = if writes { Some(self.lane.write_slot(cluster).await) } else { None };
                if let Some(reason) = self.lane.broken() {
                    return Err(self.unreachable(path, reason));
                }
                let begun = Instant::now();
                let reply = match self.exchange(&method, path, body.as_ref(), deadline, false).await {
                    Ok(Some(answer)) => self.read(path, answer, begun + deadline, most).await,
                    // Nobody waits in a slot.
                    Ok(None) => continue,
                    Err(error) => Err(error),
                };
                self.learn(verb, begun, reply.as_ref().map(|reply| reply.status));
                if slot.is_some() {
                    self.lane.wrote(cluster, begun, reply.as_ref().err());
                }
                return reply;
            }
        })
    }

    /// One request up to the head of its answer, which may go on for long. A 401 is tried once more with a new credential. `None`:
    /// the server wants no write for a while, and this one was not sent.
    async fn exchange(
        &self,
        method: &Method,
        path: &ApiPath,
        body: Option<&Body>,
        deadline: Duration,
        is_watch: bool,
    ) -> Result<Option<Answer>, RequestError> {
        let uri = Uri::from_maybe_shared(format!("{}{}", self.base, path.as_str()));
        let uri = uri.map_err(|error| self.unreachable(path, error.to_string()))?;
        let mut first = true;
        loop {
            let client = self.site.load_full();
            // An exec plugin or a token file may hang, and a write holds a slot meanwhile.
            let credential = timeout(deadline, client.authorization()).await;
            let credential =
                credential.unwrap_or_else(|_| Err(format!("no credential within {} s", deadline.as_secs())));
            let header = credential.and_then(|header| self.confidential(&uri, header));
            let header = header.map_err(|reason| RequestError::Credential { url: self.url_of(path), reason })?;
            let sending = self.transmit(&client, path, self.build(method, &uri, body), header.as_ref(), is_watch);
            let sent = timeout(deadline, sending).await;
            let sent =
                sent.unwrap_or_else(|_| Err(self.lost(path, format!("nothing within {} s", deadline.as_secs()))));
            let is_refused = match &sent {
                Ok(answer) => answer.as_ref().is_some_and(|answer| answer.head().status() == StatusCode::UNAUTHORIZED),
                Err(error) => error.code() == Some(401),
            };
            if !(std::mem::take(&mut first) && is_refused) {
                return sent;
            }
            if !client.refused(header.as_ref()) {
                let reread = Box::pin(timeout(deadline, self.connection.reread(&self.site, &client)));
                if !reread.await.unwrap_or(false) {
                    return sent;
                }
            }
        }
    }

    /// The credential, unless it would be sent for everybody to read. client-go sends none over plain HTTP either.
    fn confidential(&self, to: &Uri, header: Option<HeaderValue>) -> Result<Option<HeaderValue>, String> {
        let is_open_to_read = to.scheme() == Some(&Scheme::HTTP) && !to.host().is_some_and(is_this_machine);
        if header.is_some() && is_open_to_read && self.connection.in_process().is_none() {
            return Err("the address is plain http, where everybody on the way can read it: use https".to_owned());
        }
        Ok(header)
    }

    fn build(&self, method: &Method, uri: &Uri, body: Option<&Body>) -> Request<Content> {
        let bytes = body.map(|body| body.bytes.clone()).unwrap_or_default();
        // What has no body is not asked whether it may leave.
        debug_assert!(method == Method::GET || !bytes.is_empty(), "a write without a body");
        let may_leave = (method != Method::GET).then(|| {
            let endpoint = self.clone();
            Box::new(move || endpoint.may_leave()) as Box<_>
        });
        let mut request = Request::new(Content { bytes, may_leave });
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, if self.is_metadata { METADATA } else { JSON });
        if let Some(body) = body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(body.content_type));
        }
        request
    }

    /// Asked of a write once its connection is there: nothing waits between here and the network.
    fn may_leave(&self) -> Result<(), Withheld> {
        // While it was connected, the server may have asked for a pause.
        if self.lane.is_paused(logical_cluster(&self.base)) {
            return Err(Withheld::Paused);
        }
        if self.is_permitted() { Ok(()) } else { Err(Withheld::NotPermitted) }
    }

    /// `None`: the server wants no write for a while.
    async fn transmit(
        &self,
        client: &Arc<Client>,
        path: &ApiPath,
        request: Request<Content>,
        header: Option<&HeaderValue>,
        is_watch: bool,
    ) -> Result<Option<Answer>, RequestError> {
        match client.send(self.to.as_ref(), request, header, is_watch).await {
            Ok(answer) => Ok(Some(answer)),
            Err(SendError::Withheld(Withheld::Paused)) => Ok(None),
            Err(SendError::Withheld(Withheld::NotPermitted)) => Err(self.not_permitted(path)),
            Err(SendError::Unconfirmed(error)) => {
                if error.is_not_permitted() {
                    self.connection.identity().doubt();
                }
                Err(error)
            }
            Err(SendError::Connect(reason)) => Err(self.unreachable(path, reason)),
            Err(SendError::Lost(reason)) => Err(self.lost(path, reason)),
        }
    }

    async fn read(&self, path: &ApiPath, answer: Answer, until: Instant, most: usize) -> Result<Reply, RequestError> {
        let url = self.url_of(path);
        let read = timeout_at(until, answer.reply(&url, most)).await;
        read.unwrap_or_else(|_| Err(RequestError::Body { url, reason: "it did not end in time".into() }))
    }

    fn not_permitted(&self, path: &ApiPath) -> RequestError {
        RequestError::NotPermitted { url: self.url_of(path) }
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

impl Ask for Endpoint {
    async fn ask(&self, path: &ApiPath) -> Result<Reply, RequestError> {
        self.get(path).await
    }

    fn url(&self) -> &str {
        &self.base
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
            && self.to == other.to
    }
}

impl Eq for Endpoint {}

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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use sync_engine_mapping::Resource;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::*;
    use crate::connection::{ConnectionSource, ConnectionSpec};
    use crate::in_process::{InProcess, Surroundings};

    /// A server whose first answer to a write asks for a minute without any. All connections but the first one are late to say
    /// where they lead to.
    #[derive(Default)]
    struct Busy {
        is_dialled: AtomicBool,
        is_written: Arc<AtomicBool>,
    }

    impl Surroundings for Busy {
        fn kubeconfig(&self) -> (Uri, String) {
            (Uri::from_static("http://server"), "token".to_owned())
        }

        fn dial(&self, _: &Uri) -> io::Result<DuplexStream> {
            let (ours, stream) = duplex(1 << 16);
            let is_late = self.is_dialled.swap(true, Ordering::SeqCst);
            tokio::spawn(converse(stream, is_late, self.is_written.clone()));
            Ok(ours)
        }

        fn entropy(&self) -> u64 {
            1
        }
    }

    async fn converse(mut stream: DuplexStream, is_late: bool, is_written: Arc<AtomicBool>) {
        let mut read = Vec::new();
        while let Ok(1..) = stream.read_buf(&mut read).await {
            let is_write = read.starts_with(b"PATCH");
            let end: &[u8] = if is_write { b"\r\n\r\n{}" } else { b"\r\n\r\n" };
            if !read.ends_with(end) {
                continue;
            }
            read.clear();
            let is_first = is_write && !is_written.swap(is_write, Ordering::SeqCst);
            if is_late && !is_write {
                sleep(Duration::from_secs(1)).await;
            }
            let busy = "429 Too Many Requests\r\nretry-after: 60\r\nconnection: close";
            let head = if is_first { busy } else { "200 OK" };
            let body = r#"{"metadata": {"uid": "it"}}"#;
            let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(answer.as_bytes()).await.is_err() || is_first {
                return;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_of_a_write_that_a_pause_withholds_counts_from_when_it_is_sent() {
        let source = ConnectionSource::InProcess(InProcess(Arc::new(Busy::default())));
        let connection = Connection::open(ConnectionSpec { name: "target".to_owned(), source }).expect("a connection");
        let endpoint = connection.endpoint().leading_to("it");
        let path = ApiPath::object(&Resource::new("", "v1", "configmaps"), "default", "a").expect("a path");
        let write = || endpoint.patch(&path, "me", Body::merge_patch("{}"));
        let begun = Instant::now();
        let (first, second) = tokio::join!(write(), write());
        assert_eq!(first.map_err(|error| error.code()).err(), Some(Some(429)));
        // It was being connected when the server asked for a pause that is longer than the deadline.
        second.expect("it is sent after the pause");
        assert!(begun.elapsed() >= Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}
