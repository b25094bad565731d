//! The HTTP/2 connections that watches share. The engine has several watches for each export and for each kind of a target: a
//! connection for each costs either side some 30 KiB and a file descriptor, and with TLS as much again.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use http::Uri;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::TokioTimer;
use tokio::sync::Mutex;

use super::client::{Content, Dial, SendError, Tasks};

/// Watches on one connection, where the server does not allow fewer: most allow a hundred or more. What is beyond that would
/// wait until another one ends.
const MOST: usize = 90;
/// Bytes that a watch may be sent before it has read any, as HTTP/2 has it. A connection takes as much of each: one that is not
/// read holds up no other.
const WINDOW: u32 = 65_535;
/// A connection that brought nothing for so long is asked for a sign of life (PING), as client-go does it.
const QUIET: Duration = Duration::from_secs(30);
/// One that gives none within this has ended, and its watches with it.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// The connections to one origin.
pub(super) struct Streams {
    dial: Dial,
    tasks: Tasks,
    state: Mutex<State>,
    failures: AtomicU64,
}

#[derive(Default)]
struct State {
    /// In the order in which they are filled.
    open: Vec<Shared>,
    /// The server speaks HTTP/1.1 alone.
    is_refused: bool,
    /// Why the last one did not come about.
    failure: Option<SendError>,
}

/// A connection with its watches.
struct Shared {
    sender: SendRequest<Content>,
    /// Answers that the server gives at a time.
    most: Arc<AtomicUsize>,
    /// Each watch has a copy.
    guard: StreamGuard,
}

/// Held by a watch for as long as it lasts.
pub(super) type StreamGuard = Arc<()>;

impl Shared {
    fn watches(&self) -> usize {
        Arc::strong_count(&self.guard) - 1
    }

    fn has_room(&self) -> bool {
        self.watches() < self.most.load(Ordering::Relaxed).min(MOST)
    }

    fn stream(&self) -> (SendRequest<Content>, StreamGuard) {
        (self.sender.clone(), self.guard.clone())
    }
}

impl Streams {
    /// `dial` has to offer HTTP/2.
    pub(super) fn new(dial: Dial, tasks: Tasks) -> Self {
        Self { dial, tasks, state: Mutex::default(), failures: AtomicU64::new(0) }
    }

    /// A connection with room for one more watch, opened where there is none; `None`: the server speaks HTTP/1.1 alone. While one
    /// is opened, the others wait for it: what it comes to is true of all.
    pub(super) async fn stream(&self, to: &Uri) -> Result<Option<(SendRequest<Content>, StreamGuard)>, SendError> {
        let failures = self.failures.load(Ordering::Relaxed);
        let mut state = self.state.lock().await;
        if state.is_refused {
            return Ok(None);
        }
        state.open.retain(|one| !one.sender.is_closed());
        if let Some(found) = state.open.iter().find(|one| one.has_room()).map(Shared::stream) {
            state.open.retain(|one| one.watches() > 0);
            return Ok(Some(found));
        }
        if failures != self.failures.load(Ordering::Relaxed)
            && let Some(failure) = &state.failure
        {
            return Err(failure.clone());
        }
        match self.open(to).await {
            Ok(Some(shared)) => {
                let stream = shared.stream();
                state.open.push(shared);
                Ok(Some(stream))
            }
            Ok(None) => {
                state.is_refused = true;
                Ok(None)
            }
            Err(failure) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                state.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }

    async fn open(&self, to: &Uri) -> Result<Option<Shared>, SendError> {
        let opening = async {
            let Some(stream) = self.dial.for_http2(to).await? else { return Ok(None) };
            let (sender, mut connection) = speaking(self.tasks.clone()).handshake(stream).await?;
            let most = Arc::new(AtomicUsize::new(MOST));
            let said = most.clone();
            self.tasks.execute(poll_fn(move |cx| {
                let ended = connection.poll_unpin(cx);
                said.store(connection.current_max_send_streams(), Ordering::Relaxed);
                // How it ends, each watch is told.
                ended.map(drop)
            }));
            self.dial.confirm_http2(&sender).await?;
            Ok(Some(Shared { sender, most, guard: StreamGuard::default() }))
        };
        Dial::within_deadline(opening).await.map_err(|error| SendError::of_dial(&*error))
    }
}

/// How HTTP/2 is spoken. A peer that is gone without a word has to be noticed here: the probes of TCP are sent only while it owes
/// no acknowledgement, and each watch that is opened or given up sends something. The system then repeats that for a quarter of
/// an hour, in which every new watch would be opened on this connection, and fail.
fn speaking<E: Clone>(tasks: E) -> Builder<E> {
    let mut builder = Builder::new(tasks);
    builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW * MOST as u32);
    builder.timer(TokioTimer::new()).keep_alive_interval(QUIET).keep_alive_timeout(SIGN_OF_LIFE);
    builder
}

#[cfg(test)]
mod tests {
    use http::Request;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::duplex;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_to_a_server_that_is_gone_without_a_word_ends() {
        // The other side is there, and nobody reads or writes.
        let (stream, _server) = duplex(1 << 16);
        let connected = speaking(TokioExecutor::new()).handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connected.expect("nothing of the server is waited for");
        let watch = Request::get("https://server/").body(Content::default()).expect("a request");
        let both = async { tokio::join!(connection, sender.send_request(watch)) };
        let (_, answer) = timeout(Duration::from_secs(60), both).await.expect("it ends");
        assert!(answer.is_err() && sender.is_closed(), "the next watch opens another connection");
    }
}
