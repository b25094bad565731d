//! The HTTP front on loopback: HTTP/1.1, and where TLS is asked for HTTP/2 as well.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, DATE, RETRY_AFTER, WARNING};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use super::faults::Fault;
use super::reply::{Answer, Outcome, Stream};
use super::request::{Exchange, Request};
use super::server::Server;
use super::status::Failure;

/// The body of an answer: all at once, or the lines of a watch.
type Content = UnsyncBoxBody<Bytes, Infallible>;

/// The most that a body may have, as for a real API server (3 MiB).
const MAX_BODY: usize = 3 << 20;

/// Why there is no answer: the connection is to be cut.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox cuts this connection")]
struct Cut;

/// Opens a port on loopback; 0 for any.
pub(super) async fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

/// Listens where it listened before. Meanwhile an outgoing connection may have got the port, a client's that keeps trying
/// to come back among them: that is waited out.
pub(super) async fn listen_again(port: u16) -> io::Result<TcpListener> {
    let given_up = Instant::now() + Duration::from_secs(30);
    loop {
        match listen(port).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < given_up => {
                sleep(Duration::from_millis(50)).await;
            }
            listening => return listening,
        }
    }
}

/// Accepts connections for one shard until it is dropped, and with it every connection.
pub(super) async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, server: Arc<Server>, shard: usize) {
    let mut connections = JoinSet::new();
    loop {
        // Both arms can be dropped at any time: an accepted connection is returned at once, a finished one is forgotten.
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((connection, _)) = accepted {
                    connections.spawn(serve(connection, tls.clone(), server.clone(), shard));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Sends bookmarks until it is dropped.
pub(super) async fn send_bookmarks(server: Arc<Server>, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        server.send_bookmarks();
    }
}

async fn serve(connection: TcpStream, tls: Option<TlsAcceptor>, server: Arc<Server>, shard: usize) {
    // Without it small answers wait for the client's acknowledgement; a socket that is gone shows below.
    let _ = connection.set_nodelay(true);
    match tls {
        None => serve_on(connection, server, shard).await,
        Some(tls) => {
            // A client that refuses the certificate is gone.
            let Ok(connection) = tls.accept(connection).await else { return };
            serve_on(connection, server, shard).await;
        }
    }
}

/// Speaks as the client does, which shows by how it begins.
async fn serve_on(connection: impl AsyncRead + AsyncWrite + Unpin + 'static, server: Arc<Server>, shard: usize) {
    let service = service_fn(move |request| answer(server.clone(), shard, request));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    // As kube-apiserver has it.
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250);
    // How a connection ends is the client's matter.
    let _ = builder.serve_connection(TokioIo::new(connection), service).await;
}

async fn answer(
    server: Arc<Server>,
    shard: usize,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Content>, Cut> {
    let (head, body) = request.into_parts();
    let mut request = Request { shard, ..Request::of_head(&head) };
    let authorization = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Who has no token is answered before the body is read.
    let mut answer = match server.tokens.user(authorization) {
        None => Ok(refuse(&Failure::unauthorized())),
        Some(user) => match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => {
                (request.user, request.body) = (user, body.to_bytes());
                carry_out(&server, &request).await
            }
            Err(error) if error.is::<LengthLimitError>() => Ok(refuse(&Failure::too_large(MAX_BODY))),
            Err(_) => Err(Cut),
        },
    };
    let date = server.now().date().and_then(|date| date.parse().ok());
    if let (Ok(response), Some(date)) = (&mut answer, date) {
        response.headers_mut().insert(DATE, date);
    }
    server.answered(|| Exchange {
        call: request.call(),
        path: head.uri.to_string(),
        user_agent: request.user_agent.clone(),
        code: answer.as_ref().map_or(0, |answer| answer.status().as_u16()),
    });
    answer
}

async fn carry_out(server: &Server, request: &Request) -> Result<hyper::Response<Content>, Cut> {
    match server.admit(&request.call()) {
        None => Ok(respond(server.handle(request))),
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            Ok(respond(server.handle(request)))
        }
        Some(Fault::DropBefore) => Err(Cut),
        Some(Fault::DropAfter) => {
            server.handle(request);
            Err(Cut)
        }
        Some(Fault::Refuse(failure)) => Ok(refuse(&failure)),
    }
}

fn refuse(failure: &Failure) -> hyper::Response<Content> {
    respond(Outcome::refused(failure))
}

fn respond(outcome: Outcome) -> hyper::Response<Content> {
    match outcome {
        Outcome::Answer(answer) => answer.into_response().map(BodyExt::boxed_unsync),
        Outcome::Stream(stream) => {
            let mut response = hyper::Response::new(lines(stream));
            response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            response
        }
    }
}

/// The lines of a watch until its time is over.
fn lines(stream: Stream) -> Content {
    let next = async |mut lines: UnboundedReceiver<Bytes>| Some((Ok(Frame::data(lines.recv().await?)), lines));
    let lines = stream::unfold(stream.lines, next);
    match stream.timeout {
        Some(timeout) => StreamBody::new(lines.take_until(sleep(timeout))).boxed_unsync(),
        None => StreamBody::new(lines).boxed_unsync(),
    }
}

impl Answer {
    /// The answer over HTTP.
    pub fn into_response(self) -> hyper::Response<Full<Bytes>> {
        let mut response = hyper::Response::new(Full::new(self.body));
        let code = http::StatusCode::from_u16(self.code);
        *response.status_mut() = code.unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(self.content_type));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        for warning in self.warnings {
            let text = format!("299 - \"{}\"", warning.replace('"', "\\\""));
            if let Ok(value) = text.parse() {
                headers.append(WARNING, value);
            }
        }
        response
    }
}
