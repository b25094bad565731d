//! A port that bears clients that keep connections and send nothing.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long a client may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may last. The longest answer is that of a reload of a thousand mappings.
const LIFETIME: Duration = Duration::from_secs(60);

/// How many connections a port keeps. One more ends the oldest, so that a probe always gets an answer.
const CONNECTIONS: usize = 64;

/// How long a shutdown waits for answers that are under way.
const GRACE: Duration = Duration::from_secs(2);

/// A bound port that does not answer yet.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds `address`; with port 0 the system chooses one, which [`Listener::address`] then tells.
    ///
    /// # Errors
    /// The port is taken, or this process may not have it.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown`, then lets what is under way end, for two seconds at most. A connection carries one
    /// request, has five seconds to send its head, and lasts a minute at most.
    pub async fn run(self, router: Router, shutdown: CancellationToken) -> io::Result<()> {
        let mut connections = JoinSet::new();
        let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            // Each arm can be dropped at any time: an accepted connection is returned at once, a finished one is
            // forgotten.
            tokio::select! {
                accepted = self.listener.accept() => {
                    let stream = match accepted {
                        Ok((stream, _)) => stream,
                        // The client left, or there are no descriptors: the next one may have more luck.
                        Err(_) => {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                            continue;
                        }
                    };
                    oldest.retain(|connection| !connection.is_finished());
                    while oldest.len() >= CONNECTIONS {
                        oldest.pop_front().iter().for_each(AbortHandle::abort);
                    }
                    oldest.push_back(connections.spawn(serve(stream, router.clone())));
                }
                Some(_) = connections.join_next() => {}
                () = shutdown.cancelled() => break,
            }
        }
        let ended = async { while connections.join_next().await.is_some() {} };
        // Those that are overdue end with the set.
        let _ = tokio::time::timeout(GRACE, ended).await;
        Ok(())
    }
}

/// How a connection ends is the client's matter.
async fn serve(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = tokio::time::timeout(LIFETIME, connection).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn start() -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<io::Result<()>>) {
        let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        let (address, shutdown) = (listener.address(), CancellationToken::new());
        let router = Router::new().route("/healthz", get(async || "ok\n"));
        (address, shutdown.clone(), tokio::spawn(listener.run(router, shutdown)))
    }

    async fn ask(address: SocketAddr) -> String {
        let mut connection = TcpStream::connect(address).await.expect("a connection");
        connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn it_answers_until_it_is_told_to_stop() {
        let (address, shutdown, running) = start().await;
        let answer = ask(address).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok\n"), "{answer}");
        shutdown.cancel();
        running.await.expect("no panic").expect("a clean end");
    }

    #[tokio::test]
    async fn connections_that_send_nothing_keep_nobody_out() {
        let (address, _shutdown, _running) = start().await;
        let mut idle = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            idle.push(TcpStream::connect(address).await.expect("a connection"));
            assert!(ask(address).await.ends_with("ok\n"));
        }
        // The oldest were closed for those that came after them.
        assert_eq!(idle[0].read(&mut [0]).await.unwrap_or_default(), 0);
    }
}
