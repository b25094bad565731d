//! The HTTP client of a connection: hyper-util's, with kube's TLS and the credential in every request.
//!
//! A connection says which cluster it leads to before it carries a request: whatever is in between may lead elsewhere with each
//! new one. Requests go over HTTP/1.1: a watch that fills a shared connection would block them. Watches share connections of
//! HTTP/2 ([`Streams`]) where the server speaks it, which takes TLS.

use std::error::Error;
use std::iter::successors;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use data_encoding::BASE64;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::header::{AUTHORIZATION, HOST, RETRY_AFTER, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyDataStream, BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::jiff::Timestamp;
use kube::client::ConfigExt;
use kube::config::{AuthInfo, Config};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use super::api_path::ApiPath;
use super::credential::{Credential, Identity};
use super::endpoint::Reply;
use super::expiry;
use super::identity::{Ask, cluster_identity};
use super::in_process::Stream;
use super::proxy::{Connector, Proxies};
use super::request_error::RequestError;
use super::streams::{StreamGuard, Streams};

const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// Of a connection with its TLS, and of what it is asked first, for which no request may be waiting any more.
const DIAL_DEADLINE: Duration = Duration::from_secs(60);
const TOO_LATE: &str = "the connection did not say within 60 s which cluster it leads to";
/// A peer that is gone without a word is noticed after about a minute (30 s of silence, then 3 probes of 10 s).
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// Shorter than the idle time-outs of common load balancers, so that they do not close what we are about to use.
const IDLE: Duration = Duration::from_secs(45);
/// Connections to one origin that may wait for their next request.
const WAITING: usize = 16;
/// Bytes of an answer that are read. Schemas are longest; etcd takes objects of 1.5 MiB by default.
pub(super) const LONGEST: usize = 32 << 20;
/// Bytes of one that is no success: a server may quote an object twice. In kcp, each tenant can have an admission webhook write it.
const LONGEST_REFUSAL: usize = 4 << 20;
const NOT_READ: &[u8] = b"the server's message is longer than 4 MiB, and is not read";

/// The cluster that a connection must lead to, and the address by which it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub base: Arc<str>,
    pub identity: Arc<str>,
}

/// Sends requests with a connection's credential.
pub(super) struct Client {
    /// Without what [`Credential`] took out of it.
    config: Config,
    proxies: Arc<Proxies>,
    access: Arc<Access>,
    pools: Mutex<Pools>,
    /// When the client certificate of the configuration ends.
    certificate_ends: Option<Timestamp>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

/// Who asks.
pub(super) struct Access {
    credential: Credential,
    /// As whom the kubeconfig acts.
    impersonation: HeaderMap,
    agent: HeaderValue,
}

/// Connections that stay open between requests.
struct Pools {
    tls: Tls,
    /// The client certificate of an exec plugin that it was made with.
    identity: Option<Arc<Identity>>,
    /// In their order, which a simulation repeats: one pool of many origins closes connections in any order.
    all: Vec<Arc<Pool>>,
}

/// What opens connections, by what is spoken over them.
#[derive(Clone)]
struct Tls {
    requests: HttpsConnector<Connector>,
    /// It offers HTTP/2.
    watches: HttpsConnector<Connector>,
}

/// The connections to one origin that must lead to the same cluster.
struct Pool {
    origin: Uri,
    to: Option<Destination>,
    requests: legacy::Client<Dial, Content>,
    watches: Streams,
}

/// Why no answer came.
#[derive(Debug, Clone)]
pub(super) enum SendError {
    /// The write was not to leave at the last moment.
    Withheld(Withheld),
    /// What the new connection was asked first came to this.
    Unconfirmed(RequestError),
    /// No connection came about.
    Connect(String),
    /// Whether the request arrived is not known.
    Lost(String),
}

/// Why a write does not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the write was withheld")]
pub(super) enum Withheld {
    Paused,
    NotPermitted,
}

/// The body of a request. Of a write, it asks at the last moment whether it may leave: without it, its head is not sent.
#[derive(Default)]
pub(super) struct Content {
    pub bytes: Bytes,
    pub may_leave: Option<Box<dyn Fn() -> Result<(), Withheld> + Send + Sync>>,
}

impl hyper::body::Body for Content {
    type Data = Bytes;
    type Error = Withheld;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Withheld>>> {
        let may_leave = self.may_leave.as_ref().map_or(Ok(()), |may_leave| may_leave());
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| may_leave.map(|()| Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// The head of an answer has come, and its body is still to be read.
pub(super) struct Answer {
    response: Response<Incoming>,
    /// Its tasks drive the connection.
    _client: Arc<Client>,
    /// Of a watch on a connection that it shares.
    _stream: Option<StreamGuard>,
}

impl Client {
    /// The error says what is wrong with the credential.
    pub(super) fn new(mut config: Config, proxies: Proxies, agent: HeaderValue) -> Result<Self, String> {
        let proxies = Arc::new(proxies);
        let credential = Credential::take(&mut config.auth_info)?;
        let access = Access { credential, impersonation: impersonation(&config)?, agent };
        let tls = tls(&config, &proxies)?;
        let certificate_ends = certificate(&config.auth_info).and_then(|pem| expiry::of_certificate(&pem));
        let pools = Mutex::new(Pools { tls, identity: None, all: Vec::new() });
        Ok(Self { config, proxies, access: Arc::new(access), pools, certificate_ends, tasks: Arc::default() })
    }

    /// When the credential ends, as far as it says so: what ends first.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        [self.certificate_ends, self.access.credential.ends()].into_iter().flatten().min()
    }

    /// What the next request carries as `Authorization`; runs an exec plugin where there is one and it is time. The error says
    /// why there is no credential.
    pub(super) async fn authorization(&self) -> Result<Option<HeaderValue>, String> {
        let (header, identity) = self.access.credential.current().await?;
        let mut pools = self.pools.lock();
        if pools.identity != identity {
            let mut config = self.config.clone();
            if let Some(identity) = &identity {
                config.auth_info = identity.put_into(&config.auth_info)?;
            }
            *pools = Pools { tls: tls(&config, &self.proxies)?, identity, all: Vec::new() };
        }
        Ok(header)
    }

    /// The server said 401 to this header. Whether there may be a better one now.
    pub(super) fn refused(&self, header: Option<&HeaderValue>) -> bool {
        self.access.credential.refused(header)
    }

    /// Sends a request with this `Authorization`, up to the head of its answer. That of a watch goes on for long.
    pub(super) async fn send(
        self: &Arc<Self>,
        to: Option<&Destination>,
        mut request: Request<Content>,
        authorization: Option<&HeaderValue>,
        is_watch: bool,
    ) -> Result<Answer, SendError> {
        self.access.sign(request.headers_mut(), authorization);
        let pool = self.pool(to, request.uri());
        let may_share = is_watch && request.uri().scheme() == Some(&Scheme::HTTPS);
        let answer = |response, stream| Answer { response, _client: self.clone(), _stream: stream };
        // Twice: that a server takes no more requests over a connection (GOAWAY) shows with the next one, which it was not sent.
        let tries = if may_share { 2 } else { 0 };
        for _ in 0..tries {
            let Some((mut shared, stream)) = pool.watches.stream(request.uri()).await? else { break };
            match shared.try_send_request(request).await {
                Ok(response) => return Ok(answer(response, Some(stream))),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Lost(with_causes(&error.into_error()))),
                },
            }
        }
        let response = pool.requests.request(request).await.map_err(|error| SendError::of(&error))?;
        Ok(answer(response, None))
    }

    fn pool(&self, to: Option<&Destination>, uri: &Uri) -> Arc<Pool> {
        let mut pools = self.pools.lock();
        let is_it = |pool: &&Arc<Pool>| {
            let origin = &pool.origin;
            origin.authority() == uri.authority() && origin.scheme() == uri.scheme() && pool.to.as_ref() == to
        };
        if let Some(pool) = pools.all.iter().find(is_it) {
            return pool.clone();
        }
        let Tls { requests, watches } = pools.tls.clone();
        let dial = |tls| Dial { tls, to: to.cloned(), access: self.access.clone() };
        let tasks = Tasks(Arc::downgrade(&self.tasks));
        let requests = legacy::Client::builder(tasks.clone())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(WAITING)
            .build(dial(requests));
        let watches = Streams::new(dial(watches), tasks);
        let pool = Arc::new(Pool { origin: uri.clone(), to: to.cloned(), requests, watches });
        pools.all.push(pool.clone());
        pool
    }
}

impl Access {
    fn sign(&self, headers: &mut HeaderMap, authorization: Option<&HeaderValue>) {
        headers.insert(USER_AGENT, self.agent.clone());
        headers.extend(self.impersonation.clone());
        if let Some(header) = authorization {
            headers.insert(AUTHORIZATION, header.clone());
        }
    }
}

/// Drives connections for as long as the client is there.
#[derive(Clone)]
pub(super) struct Tasks(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// Opens connections that lead to where they must.
#[derive(Clone)]
pub(super) struct Dial {
    tls: HttpsConnector<Connector>,
    to: Option<Destination>,
    access: Arc<Access>,
}

pub(super) type Secured = MaybeHttpsStream<TokioIo<Stream>>;

impl Service<Uri> for Dial {
    type Response = Secured;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Secured, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tls.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, to, access) = (self.tls.call(uri), self.to.clone(), self.access.clone());
        let dialled = async move {
            let stream = connecting.await?;
            match to {
                Some(to) => confirm(stream, to, &access).await,
                None => Ok(stream),
            }
        };
        Dial::within_deadline(dialled).boxed()
    }
}

impl Dial {
    pub(super) async fn within_deadline<T>(dialled: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
        timeout(DIAL_DEADLINE, dialled).await.map_err(|_| TOO_LATE)?
    }

    /// Opens a connection to speak HTTP/2 over; `None`: the server does not.
    pub(super) async fn for_http2(&self, to: &Uri) -> Result<Option<Secured>, BoxError> {
        let stream = self.tls.clone().oneshot(to.clone()).await?;
        Ok(stream.connected().is_negotiated_h2().then_some(stream))
    }

    /// Whether such a connection leads to where it must.
    pub(super) async fn confirm_http2(&self, sender: &http2::SendRequest<Content>) -> Result<(), BoxError> {
        let Some(to) = &self.to else { return Ok(()) };
        ask(Sender::Shared(sender.clone()), to, &self.access).await
    }
}

/// Asks over a connection which cluster it leads to, and gives it back if that is the one.
async fn confirm(stream: Secured, to: Destination, access: &Access) -> Result<Secured, BoxError> {
    let (sender, connection) = http1::handshake(stream).await?;
    // The connection ends once nobody asks any more, and gives back what it was made of.
    let (parts, confirmed) = futures::join!(connection.without_shutdown(), ask(Sender::Alone(sender), &to, access));
    confirmed?;
    Ok(parts?.io)
}

/// Asks over a connection whether it leads to a cluster.
async fn ask(sender: Sender, to: &Destination, access: &Access) -> Result<(), BoxError> {
    let uri: Uri = to.base.parse()?;
    let mut headers = HeaderMap::new();
    let (header, _) = access.credential.current().await?;
    access.sign(&mut headers, header.as_ref());
    let prefix = match &sender {
        Sender::Alone(_) => {
            headers.insert(HOST, HeaderValue::from_str(uri.authority().map_or("", |authority| authority.as_str()))?);
            uri.path().trim_end_matches('/').to_owned()
        }
        Sender::Shared(_) => to.base.to_string(),
    };
    let elsewhere = || RequestError::NotPermitted { url: to.base.to_string() };
    match cluster_identity(&Asked { sender: sender.into(), headers, prefix, base: to.base.clone() }).await {
        Ok(found) if found == *to.identity => Ok(()),
        Ok(_) => Err(elsewhere().into()),
        // It is no answer to the request that waits: a 404 would say that what that asks for is missing, or not served.
        Err(error) if !error.retryable() && !error.is_forbidden() => Err(elsewhere().into()),
        Err(error) => Err(error.into()),
    }
}

/// A connection that is asked before it is handed out.
struct Asked {
    sender: tokio::sync::Mutex<Sender>,
    headers: HeaderMap,
    base: Arc<str>,
    /// What stands before a path in a request: the path of the address, or all of it.
    prefix: String,
}

enum Sender {
    Alone(http1::SendRequest<Content>),
    Shared(http2::SendRequest<Content>),
}

impl Sender {
    async fn send(&mut self, request: Request<Content>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Alone(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Shared(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

impl Ask for Asked {
    async fn ask(&self, path: &ApiPath) -> Result<Reply, RequestError> {
        let url = format!("{}{}", self.base, path.as_str());
        let lost = |error: BoxError| RequestError::AnswerLost { url: url.clone(), reason: with_causes(&*error) };
        let request = Request::get(format!("{}{}", self.prefix, path.as_str())).body(Content::default());
        let mut request = request.map_err(|error| lost(error.into()))?;
        *request.headers_mut() = self.headers.clone();
        let response = self.sender.lock().await.send(request).await.map_err(|error| lost(error.into()))?;
        reply(response, &url, LONGEST).await
    }

    fn url(&self) -> &str {
        &self.base
    }
}

impl Answer {
    pub(super) fn head(&self) -> &Response<Incoming> {
        &self.response
    }

    /// The next piece of the body; `None` at its end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, String>> {
        let piece = BodyDataStream::new(self.response.body_mut()).next().await?;
        Some(piece.map_err(|error| with_causes(&error)))
    }

    /// The whole answer. Read to its end, its connection is free for the next request.
    pub(super) async fn reply(self, url: &str, most: usize) -> Result<Reply, RequestError> {
        reply(self.response, url, most).await
    }
}

async fn reply(response: Response<Incoming>, url: &str, most: usize) -> Result<Reply, RequestError> {
    let (head, body) = response.into_parts();
    let is_success = head.status.is_success();
    let most = if is_success { most } else { most.min(LONGEST_REFUSAL) };
    let body = match Limited::new(body, most).collect().await {
        Ok(body) => body.to_bytes(),
        // Its code says what became of the request.
        Err(error) if error.is::<LengthLimitError>() && !is_success => Bytes::from_static(NOT_READ),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(RequestError::TooLong { url: url.to_owned(), most });
        }
        Err(error) => return Err(RequestError::Body { url: url.to_owned(), reason: with_causes(&*error) }),
    };
    let status = head.status.as_u16();
    if is_success {
        return Ok(Reply { status, body });
    }
    let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Err(RequestError::of_answer(status, url, retry_after.map(Duration::from_secs), &body))
}

impl SendError {
    fn of(error: &legacy::Error) -> Self {
        for cause in successors(Some(error as &dyn Error), |&error| error.source()) {
            if let Some(withheld) = cause.downcast_ref::<Withheld>() {
                return Self::Withheld(*withheld);
            }
        }
        // Its own words say only at which step it failed.
        let cause = error.source().unwrap_or(error);
        if error.is_connect() { Self::of_dial(cause) } else { Self::Lost(with_causes(cause)) }
    }

    /// Why no connection came about.
    pub(super) fn of_dial(error: &(dyn Error + 'static)) -> Self {
        let mut causes = successors(Some(error), |&error| error.source());
        match causes.find_map(|cause| cause.downcast_ref::<RequestError>()) {
            Some(error) => Self::Unconfirmed(error.clone()),
            None => Self::Connect(why_unreachable(error)),
        }
    }
}

/// The client certificate of a kubeconfig's user, as PEM.
fn certificate(user: &AuthInfo) -> Option<Vec<u8>> {
    match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => BASE64.decode(data.trim().as_bytes()).ok(),
        (None, path) => std::fs::read(path.as_ref()?).ok(),
    }
}

fn tls(config: &Config, proxies: &Arc<Proxies>) -> Result<Tls, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_DEADLINE));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    let tcp = Connector::new(tcp, proxies.clone());
    let config_of_tls = config.rustls_client_config().map_err(|error| unusable(&error))?;
    let builder = || {
        let mut builder = HttpsConnectorBuilder::new().with_tls_config(config_of_tls.clone()).https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = name.clone().try_into().map_err(|_| format!("`tls-server-name`: `{name}` is no host name"))?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        Ok::<_, String>(builder)
    };
    let requests = builder()?.enable_http1().wrap_connector(tcp.clone());
    Ok(Tls { requests, watches: builder()?.enable_all_versions().wrap_connector(tcp) })
}

/// Headers by which a kubeconfig's user acts as another.
fn impersonation(config: &Config) -> Result<HeaderMap, String> {
    let layer = config.extra_headers_layer().map_err(|error| unusable(&error))?;
    let echo = service_fn(async |request: Request<()>| Ok::<_, std::convert::Infallible>(request));
    let request = layer.layer(echo).call(Request::new(())).now_or_never();
    Ok(request.and_then(Result::ok).map(|request| request.into_parts().0.headers).unwrap_or_default())
}

/// What is wrong with a configuration, without kube's own introduction.
fn unusable(error: &kube::Error) -> String {
    match error {
        kube::Error::InferKubeconfig(error) => with_causes(error),
        error => with_causes(error),
    }
}

/// An error and its causes in one line, what is said twice said once.
fn with_causes(error: &dyn Error) -> String {
    successors(error.source(), |&error| error.source()).map(ToString::to_string).fold(
        error.to_string(),
        |text, more| {
            if text.contains(&more) { text } else { format!("{text}: {more}") }
        },
    )
}

/// Why no connection came about, in words.
pub(super) fn why_unreachable(error: &dyn Error) -> String {
    let all = with_causes(error);
    let hints = [
        ("Connection refused", "connection refused: is the server running, and is the address right?"),
        ("dns error", "the host name cannot be resolved"),
        ("UnknownIssuer", "the certificate is signed by an authority that `certificate-authority` does not name"),
        ("NotValidForName", "the certificate is not valid for this host name"),
        ("Expired", "the certificate is expired"),
        (
            "Too many open files",
            "this process has as many files open as it may: raise that limit, or give --max-watches",
        ),
        ("deadline has elapsed", "no connection within 10 s"),
        ("InvalidContentType", "the server does not speak TLS: is it `http` instead of `https`?"),
    ];
    let hint = hints.iter().find(|(mark, _)| all.contains(mark));
    hint.map_or(all, |(_, words)| (*words).to_owned())
}
