//! What the core answers.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::collection::Event;
use super::status::Failure;
use super::watch::Interest;

/// The answer to one request.
#[derive(Debug)]
pub enum Reply {
    Answer(Answer),
    /// A stream: some lines now, and each later event that is of interest.
    Watch(Box<Subscription>),
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub content_type: &'static str,
    pub warnings: Vec<String>,
    /// Seconds of a `Retry-After` header.
    pub retry_after: Option<u32>,
    pub body: Bytes,
}

/// An accepted watch.
#[derive(Debug)]
pub struct Subscription {
    pub interest: Interest,
    /// Lines to be sent at once.
    pub backlog: Vec<Bytes>,
    pub bookmarks: bool,
    /// When the server ends it.
    pub timeout: Option<Duration>,
    /// Whether it ends after the backlog: it was refused in the stream.
    pub refused: bool,
}

/// What is sent back for a request.
pub enum Outcome {
    Answer(Answer),
    Stream(Stream),
}

/// The lines of a watch.
pub struct Stream {
    pub lines: UnboundedReceiver<Bytes>,
    pub timeout: Option<Duration>,
}

/// Where the events of a watch go.
pub struct Watcher {
    pub interest: Interest,
    bookmarks: bool,
    pub lines: UnboundedSender<Bytes>,
}

impl Outcome {
    pub fn refused(failure: &Failure) -> Outcome {
        Outcome::Answer(Answer::from(failure))
    }
}

impl Reply {
    /// What is sent back, and who has to be shown events from now on.
    pub fn open(self) -> (Outcome, Option<Watcher>) {
        let Subscription { interest, backlog, bookmarks, timeout, refused } = match self {
            Reply::Answer(answer) => return (Outcome::Answer(answer), None),
            Reply::Watch(subscription) => *subscription,
        };
        let (sender, lines) = unbounded_channel();
        for line in backlog {
            // The receiver is at hand: nothing can fail yet.
            let _ = sender.send(line);
        }
        let watcher = (!refused).then(|| Watcher { interest, bookmarks, lines: sender });
        (Outcome::Stream(Stream { lines, timeout }), watcher)
    }
}

impl Watcher {
    /// Whether the client is still there.
    pub(super) fn send(&self, event: &Event) -> bool {
        match self.interest.line_for(event) {
            Some(line) => self.lines.send(line).is_ok(),
            None => !self.lines.is_closed(),
        }
    }

    /// Sends a bookmark, if it wants one. Whether the client is still there.
    pub fn send_bookmark(&self, version: u64) -> bool {
        match self.bookmarks && !self.interest.is_ahead_of(version) {
            true => self.lines.send(self.interest.bookmark(version, None)).is_ok(),
            false => !self.lines.is_closed(),
        }
    }
}

impl Answer {
    pub(super) fn json(code: u16, body: impl Into<Bytes>) -> Answer {
        let content_type = "application/json";
        Answer { code, content_type, warnings: Vec::new(), retry_after: None, body: body.into() }
    }

    pub(super) fn value(code: u16, body: &Value) -> Answer {
        Answer::json(code, body.to_string())
    }

    pub(super) fn text(code: u16, body: &'static str) -> Answer {
        Answer { content_type: "text/plain; charset=utf-8", ..Answer::json(code, body) }
    }

    /// The body as JSON; null where it is not JSON.
    pub fn to_json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl From<&Failure> for Answer {
    fn from(failure: &Failure) -> Answer {
        match failure {
            Failure::PageNotFound => Answer::text(404, "404 page not found\n"),
            Failure::Status(status) => {
                Answer { retry_after: status.retry_after, ..Answer::value(status.code, &status.to_json()) }
            }
        }
    }
}
