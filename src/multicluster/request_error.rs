//! What can become of a request.

use std::time::Duration;

/// Why a request brought no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    /// The server answered with a `Status`.
    #[error("{0}")]
    Status(Box<Status>),
    /// A 404 in plain text: this server does not serve the kind or version.
    #[error("the server does not serve {path}")]
    NotServed { path: String },
    /// Nothing was sent.
    #[error("cannot reach {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// The answer was lost: a write may have been applied.
    #[error("no answer from {url}: {reason}")]
    AnswerLost { url: String, reason: String },
    /// The answer came and could not be read.
    #[error("cannot read the answer of {url}: {reason}")]
    Body { url: String, reason: String },
    /// The credential could not be made (exec plugin, token file); nothing was sent.
    #[error("no credential for {url}: {reason}")]
    Credential { url: String, reason: String },
    #[error(transparent)]
    Name(#[from] crate::object::InvalidName),
}

/// A `Status` of an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub code: u16,
    /// `NotFound`, `Conflict`, `Invalid`, …; empty where the answer was no `Status`.
    pub reason: String,
    pub message: String,
    /// `details.name` and `details.kind`: what the status speaks of.
    pub name: String,
    pub kind: String,
    pub causes: Vec<Cause>,
    pub retry_after: Option<Duration>,
}

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Cause {
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub field: String,
}

impl RequestError {
    /// The HTTP status code, where there was an answer.
    pub fn code(&self) -> Option<u16> {
        todo!()
    }
    /// Positive evidence that the object of this name is absent: a 404 whose `Status` names it.
    pub fn is_not_found_of(&self, name: &str) -> bool {
        todo!()
    }
    /// 409 with reason `Conflict` (or `AlreadyExists`, which [`is_already_exists`](Self::is_already_exists) tells apart).
    pub fn is_conflict(&self) -> bool {
        todo!()
    }
    pub fn is_already_exists(&self) -> bool {
        todo!()
    }
    /// 401 or 403.
    pub fn is_forbidden(&self) -> bool {
        todo!()
    }
    /// 422, or a 400: sending it again changes nothing.
    pub fn is_invalid(&self) -> bool {
        todo!()
    }
    /// 410, or reason `Expired`.
    pub fn is_expired(&self) -> bool {
        todo!()
    }
    pub fn kind_not_served(&self) -> bool {
        todo!()
    }
    /// Whether a write may have been applied although it failed.
    pub fn may_have_been_applied(&self) -> bool {
        todo!()
    }
    /// Whether time alone may mend it (unreachable, 429, 5xx, lost answers).
    pub fn retryable(&self) -> bool {
        todo!()
    }
    pub fn retry_after(&self) -> Option<Duration> {
        todo!()
    }
}
