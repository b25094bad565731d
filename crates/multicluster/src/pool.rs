//! Connections that stay open between requests, and the answers that come over them.
//!
//! Each is driven by whoever waits for its answer, not by a task of its own as in hyper-util's client: a request then
//! wakes one task instead of three.

use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::StreamExt;
use hashbrown::HashMap;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyDataStream, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service};

use super::in_process::Stream;
use super::proxy::Connector;

/// Connections to one origin that may wait for their next request.
const WAITING: usize = 16;

/// Where connections lead to: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: Scheme,
    authority: Authority,
    /// What requests carry as `Host`.
    host: HeaderValue,
}

/// By the host alone: an [`Authority`] is hashed byte by byte, whatever its case.
impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.host.hash(state);
    }
}

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// Nothing was sent.
    #[error("no connection")]
    Connect(#[source] BoxError),
    /// Whether the request arrived is not known.
    #[error(transparent)]
    Lost(#[from] hyper::Error),
}

/// All connections made by one connector.
pub(super) struct Pool {
    connector: HttpsConnector<Connector>,
    /// How long a connection waits for its next request.
    patience: Duration,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// By where they lead to, those used last at the end.
    links: HashMap<Arc<Origin>, Vec<Waiting>>,
    /// Whether somebody looks after those that wait for too long.
    swept: bool,
    /// Who does; it ends with the pool.
    sweeper: JoinSet<()>,
}

/// A connection that waits for its next request.
struct Waiting {
    since: Instant,
    link: Box<Link>,
}

impl Waiting {
    fn is_usable(&mut self, patience: Duration) -> bool {
        self.since.elapsed() < patience && self.link.is_ready()
    }
}

type Body = Full<Bytes>;

/// One connection, ready for a request or in the middle of one.
struct Link {
    sender: http1::SendRequest<Body>,
    connection: http1::Connection<MaybeHttpsStream<TokioIo<Stream>>, Body>,
    closed: bool,
    /// Whether it carried a request before.
    used: bool,
    /// Identity of the cluster that it was found to lead to.
    leads_to: Option<Arc<str>>,
}

/// A connection that is ready for one request. Dropped, it closes.
pub(super) struct Ready {
    link: Box<Link>,
    origin: Arc<Origin>,
    home: Home,
}

/// Where a connection goes once its answer is read.
#[derive(Clone)]
enum Home {
    Pool(Arc<Pool>),
    Kept(Kept),
}

/// A connection that several requests follow each other on, and nobody else's in between.
#[derive(Clone)]
pub(super) struct Kept {
    slot: Arc<Mutex<Option<Box<Link>>>>,
    origin: Arc<Origin>,
    pool: Arc<Pool>,
}

impl Ready {
    /// Whether it was found to lead to the cluster of this identity.
    pub(super) fn leads_to(&self, identity: &str) -> bool {
        self.link.leads_to.as_deref() == Some(identity)
    }

    pub(super) fn found_to_lead_to(mut self, identity: &Arc<str>) -> Self {
        self.link.leads_to = Some(identity.clone());
        self
    }

    /// Sends a request, whose address is a path, up to the head of its answer. The error comes with the request where the
    /// connection closed at this very moment, and nothing of it was sent.
    pub(super) async fn send(
        mut self,
        mut request: Request<Body>,
    ) -> Result<Answer, (Option<Request<Body>>, SendError)> {
        request.headers_mut().insert(header::HOST, self.origin.host.clone());
        let used = std::mem::replace(&mut self.link.used, true);
        match self.link.exchange(request).await {
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                Ok(Answer { head: Response::from_parts(head, ()), body: BodyDataStream::new(body), ready: self })
            }
            Err((unsent, error)) => Err((unsent.filter(|_| used), error.into())),
        }
    }

    /// Has it wait for its next request.
    pub(super) fn put_back(self) {
        match self.home {
            Home::Pool(pool) => pool.put(&self.origin, self.link),
            Home::Kept(kept) => *kept.slot() = Some(self.link),
        }
    }

    /// Keeps it for requests that follow each other; `None`: it is kept already.
    pub(super) fn kept(self) -> Option<Kept> {
        let Home::Pool(pool) = self.home else { return None };
        Some(Kept { slot: Arc::new(Mutex::new(Some(self.link))), origin: self.origin, pool })
    }
}

impl Kept {
    /// For the next of its requests; `None`: the one before is not answered, or the connection has closed.
    pub(super) fn next(&self) -> Option<Ready> {
        let link = self.slot().take()?;
        Some(Ready { link, origin: self.origin.clone(), home: Home::Kept(self.clone()) })
    }

    /// The connection is anybody's again.
    pub(super) fn end(&self) -> Option<Ready> {
        let mut link = self.slot().take()?;
        link.is_ready().then(|| Ready { link, origin: self.origin.clone(), home: Home::Pool(self.pool.clone()) })
    }

    fn slot(&self) -> MutexGuard<'_, Option<Box<Link>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer whose body is still to be read. Dropped before its end, it closes its connection.
pub(super) struct Answer {
    head: Response<()>,
    body: BodyDataStream<Incoming>,
    ready: Ready,
}

impl Origin {
    /// `None`: the address has no scheme or no host.
    pub(super) fn of(address: &Uri) -> Option<Self> {
        let (scheme, authority) = (address.scheme()?, address.authority()?);
        let is_default = match authority.port_u16() {
            Some(port) => port == if *scheme == Scheme::HTTPS { 443 } else { 80 },
            None => true,
        };
        let host = if is_default { authority.host() } else { authority.as_str() };
        Some(Self { scheme: scheme.clone(), authority: authority.clone(), host: HeaderValue::from_str(host).ok()? })
    }

    /// Of an address there, what follows its host.
    pub(super) fn path_of<'a>(&self, address: &'a str) -> &'a str {
        let length = self.scheme.as_str().len() + "://".len() + self.authority.as_str().len();
        address.get(length..).unwrap_or_default()
    }

    /// Whether everybody on the way can read what is sent there. What stays on this machine is nobody's to read.
    pub(super) fn is_open_to_read(&self) -> bool {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_here = host.parse().map_or(host == "localhost", |address: IpAddr| address.is_loopback());
        self.scheme == Scheme::HTTP && !is_here
    }

    fn uri(&self) -> Result<Uri, http::Error> {
        Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone()).path_and_query("/").build()
    }
}

impl Pool {
    pub(super) fn new(connector: HttpsConnector<Connector>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { connector, patience, idle: Mutex::default() })
    }

    /// A connection that waits for a request, if there is one, and else a new one. With an identity, rather one that was
    /// found to lead to that cluster. Must be called within a Tokio runtime.
    pub(super) async fn open(
        self: &Arc<Self>,
        origin: &Arc<Origin>,
        identity: Option<&str>,
    ) -> Result<Ready, SendError> {
        let link = match self.take(origin, identity) {
            Some(link) => link,
            None => Box::pin(self.connect(origin)).await?,
        };
        Ok(Ready { link, origin: origin.clone(), home: Home::Pool(self.clone()) })
    }

    async fn connect(&self, origin: &Origin) -> Result<Box<Link>, SendError> {
        let uri = origin.uri().map_err(|error| SendError::Connect(error.into()))?;
        let mut connector = self.connector.clone();
        poll_fn(|cx| connector.poll_ready(cx)).await.map_err(SendError::Connect)?;
        let stream = connector.call(uri).await.map_err(SendError::Connect)?;
        let (sender, connection) = http1::handshake(stream).await?;
        Ok(Box::new(Link { sender, connection, closed: false, used: false, leads_to: None }))
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, origin: &Origin, identity: Option<&str>) -> Option<Box<Link>> {
        let mut idle = self.idle();
        let waiting = idle.links.get_mut(origin)?;
        waiting.retain_mut(|one| one.is_usable(self.patience));
        let found = identity
            .and_then(|identity| waiting.iter().rposition(|one| one.link.leads_to.as_deref() == Some(identity)));
        let last = found.or_else(|| waiting.len().checked_sub(1))?;
        Some(waiting.remove(last).link)
    }

    fn put(self: &Arc<Self>, origin: &Arc<Origin>, mut link: Box<Link>) {
        if !link.is_ready() {
            return;
        }
        let mut idle = self.idle();
        let waiting = idle.links.entry(origin.clone()).or_default();
        if waiting.len() < WAITING {
            waiting.push(Waiting { since: Instant::now(), link });
        }
        if !std::mem::replace(&mut idle.swept, true) {
            while idle.sweeper.try_join_next().is_some() {}
            idle.sweeper.spawn(sweep(Arc::downgrade(self), self.patience));
        }
    }
}

/// Closes what has waited for too long, until nothing waits.
async fn sweep(pool: Weak<Pool>, patience: Duration) {
    loop {
        sleep(patience).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.links.retain(|_, waiting| {
            waiting.retain_mut(|one| one.is_usable(patience));
            !waiting.is_empty()
        });
        if idle.links.is_empty() {
            idle.swept = false;
            return;
        }
    }
}

impl Link {
    /// Moves everything on as far as it goes.
    fn drive(&mut self, cx: &mut Context<'_>) {
        self.closed = self.closed || Pin::new(&mut self.connection).poll(cx).is_ready();
    }

    /// Whether it can take a request.
    fn is_ready(&mut self) -> bool {
        // Whatever it comes to, `closed` tells.
        let _ = at_once(poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(())
        }));
        !self.closed && self.sender.is_ready()
    }

    /// An error comes with the request where nothing of it was sent.
    async fn exchange(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, (Option<Request<Body>>, hyper::Error)> {
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        let answered = poll_fn(|cx| {
            self.drive(cx);
            at_once(answer.as_mut())
        });
        answered.await.map_err(|mut error| (error.take_message(), error.into_error()))
    }
}

/// What a future comes to now. It wakes nobody: for what somebody else is polled for, which brings it.
fn at_once<F: Future>(future: F) -> Poll<F::Output> {
    // Without a waker there must be no budget either: running out of it, a future asks to be woken.
    std::pin::pin!(unconstrained(future)).poll(&mut Context::from_waker(Waker::noop()))
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        self.head.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.head.headers()
    }

    /// The next piece of the body; `None` at its end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The whole body; `None`: it is longer than `most`. Read to its end, its connection is free for the next request.
    pub(super) async fn read(mut self, most: usize) -> Result<Option<Bytes>, hyper::Error> {
        let mut first = Bytes::new();
        let mut all = Vec::new();
        while let Some(piece) = self.next().await.transpose()? {
            if first.len().max(all.len()) + piece.len() > most {
                return Ok(None);
            }
            match (first.is_empty(), all.is_empty()) {
                (true, _) => first = piece,
                (false, true) => {
                    all.extend_from_slice(&first);
                    all.extend_from_slice(&piece);
                }
                (false, false) => all.extend_from_slice(&piece),
            }
        }
        self.ready.put_back();
        Ok(Some(if all.is_empty() { first } else { all.into() }))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        // The connection waits until it is asked for the body.
        if let Poll::Ready(next) = at_once(self.body.next()) {
            return Poll::Ready(next);
        }
        self.ready.link.drive(cx);
        at_once(self.body.next())
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::connect::HttpConnector;
    use kube::client::ConfigExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::proxy::Proxies;
    use super::*;

    /// The rest is shown from outside, in `tests/library/multicluster/pool.rs`.
    #[tokio::test]
    async fn what_waits_for_too_long_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let tcp = Connector::new(http, Arc::new(Proxies::of_environment()));
        let connector = kube::Config::new(address.clone()).rustls_https_connector_with_connector(tcp).unwrap();
        let pool = Pool::new(connector, Duration::from_millis(20));
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
            stream.read_buf(&mut request).await.unwrap()
        };
        let client = async {
            let origin = Arc::new(Origin::of(&address).unwrap());
            let ready = pool.open(&origin, None).await.ok().unwrap();
            let answer = ready.send(Request::new(Body::default())).await.ok().unwrap();
            answer.read(2).await.unwrap()
        };
        // Nobody asks for anything any more, and the server sees the end.
        assert_eq!(tokio::join!(server, client), (0, Some(Bytes::from_static(b"{}"))));
        assert!(pool.idle().links.is_empty() && !pool.idle().swept);
    }

    #[test]
    fn plain_http_is_open_to_read_beyond_this_machine() {
        let is_open = |address: &str| Origin::of(&address.parse().unwrap()).unwrap().is_open_to_read();
        assert!(["http://10.0.0.1:8080", "http://kcp.example", "http://localhost.example"].into_iter().all(is_open));
        assert!(
            !["https://kcp.example", "http://127.0.0.1:1", "http://[::1]", "http://localhost:80"]
                .into_iter()
                .any(is_open)
        );
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let origin = |address: &str| Origin::of(&address.parse().unwrap()).unwrap();
        for (address, host, path) in [
            ("https://kcp.example:6443/services/a", "kcp.example:6443", "/services/a"),
            ("https://kcp.example:443", "kcp.example", ""),
            ("https://kcp.example:80", "kcp.example:80", ""),
            ("http://[::1]/clusters/a", "[::1]", "/clusters/a"),
        ] {
            assert_eq!((origin(address).host.to_str().unwrap(), origin(address).path_of(address)), (host, path));
        }
        assert_eq!(origin("https://a:1/b"), origin("https://a:1/c"));
        assert_ne!(origin("https://a:1"), origin("http://a:1"));
        assert!(Origin::of(&"/a".parse().unwrap()).is_none());
    }
}
