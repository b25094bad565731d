//! What the core answers.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;

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
