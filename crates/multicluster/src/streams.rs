//! The HTTP/2 connections that watches share. The engine has several watches for each export and for each kind of a target: a
//! connection for each costs either side some 30 KiB and a file descriptor, and with TLS as much again.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures::FutureExt;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use tokio::sync::Mutex;

use super::client::{Content, Secured, SendError, Tasks};

/// Watches on one connection, where the server does not allow fewer: most allow a hundred or more. What is beyond that would
/// wait until another one ends.
const MOST: usize = 90;
/// Bytes that a watch may be sent before it has read any, as HTTP/2 has it. A connection takes as much of each: one that is not
/// read holds up no other.
const WINDOW: u32 = 65_535;

/// The connections to one origin.
#[derive(Default)]
pub(super) struct Streams {
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

struct Shared {
    joined: Joined,
    /// Each watch has a copy.
    seats: Seat,
}

/// A connection of HTTP/2 that was opened.
#[derive(Clone)]
pub(super) struct Joined {
    pub sender: SendRequest<Content>,
    /// Answers that the server gives at a time.
    most: Arc<AtomicUsize>,
}

/// Held by a watch for as long as it lasts.
pub(super) type Seat = Arc<()>;

impl Shared {
    fn watches(&self) -> usize {
        Arc::strong_count(&self.seats) - 1
    }

    fn seat(&self) -> (SendRequest<Content>, Seat) {
        (self.joined.sender.clone(), self.seats.clone())
    }

    fn has_room(&self) -> bool {
        self.watches() < self.joined.most.load(Ordering::Relaxed).min(MOST)
    }
}

impl Joined {
    /// Begins to speak HTTP/2; the connection is driven where other tasks are.
    pub(super) async fn begin(stream: Secured, tasks: Tasks) -> hyper::Result<Self> {
        let mut builder = Builder::new(tasks.clone());
        builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW * MOST as u32);
        let (sender, mut connection) = builder.handshake(stream).await?;
        let most = Arc::new(AtomicUsize::new(MOST));
        let said = most.clone();
        let driven = poll_fn(move |cx| {
            let ended = connection.poll_unpin(cx);
            said.store(connection.current_max_send_streams(), Ordering::Relaxed);
            // How it ends, each watch is told.
            ended.map(drop)
        });
        tasks.execute(driven);
        Ok(Self { sender, most })
    }
}

impl Streams {
    /// A connection with room for one more watch, opened where there is none; `None`: the server speaks HTTP/1.1 alone, as
    /// `open` finds. While one is opened, the others wait for it: what it comes to is true of all.
    pub(super) async fn seat<F>(
        &self,
        open: impl FnOnce() -> F,
    ) -> Result<Option<(SendRequest<Content>, Seat)>, SendError>
    where
        F: Future<Output = Result<Option<Joined>, SendError>>,
    {
        let failures = self.failures.load(Ordering::Relaxed);
        let mut state = self.state.lock().await;
        if state.is_refused {
            return Ok(None);
        }
        state.open.retain(|one| !one.joined.sender.is_closed());
        if let Some(found) = state.open.iter().find(|one| one.has_room()).map(Shared::seat) {
            state.open.retain(|one| one.watches() > 0);
            return Ok(Some(found));
        }
        if failures != self.failures.load(Ordering::Relaxed)
            && let Some(failure) = &state.failure
        {
            return Err(failure.clone());
        }
        match open().await {
            Ok(Some(joined)) => {
                let shared = Shared { joined, seats: Seat::default() };
                let seat = shared.seat();
                state.open.push(shared);
                Ok(Some(seat))
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
}
