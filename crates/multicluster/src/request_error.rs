//! What can become of a request.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use sync_engine_mapping::object::{InvalidName, one_line};

/// However long a server asks us to stay away, it is asked again after this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Entries of `details.causes` that are read. An admission webhook can write a million, and one takes much more memory than its text.
const MOST_CAUSES: usize = 1024;

/// Why a request brought no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    /// The server answered with an error.
    #[error(transparent)]
    Status(Box<Status>),
    /// A 404 in plain text: this server does not serve the kind or version.
    #[error("the server does not serve {url}")]
    NotServed { url: String },
    /// Nothing was sent.
    #[error("cannot reach {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// The answer was lost: a write may have been applied.
    #[error("no answer from {url}: {reason}")]
    AnswerLost { url: String, reason: String },
    /// The answer came and could not be read.
    #[error("cannot read the answer of {url}: {reason}")]
    Body { url: String, reason: String },
    /// The answer is longer than the engine reads.
    #[error("the answer of {url} is longer than {} MiB", most >> 20)]
    TooLong { url: String, most: usize },
    /// The credential could not be made (exec plugin, token file); nothing was sent.
    #[error("no credential for {url}: {reason}")]
    Credential { url: String, reason: String },
    /// This process or its system is at its limits; nothing was sent.
    #[error("{reason}")]
    NoBudget { reason: String },
    /// The right to write ended while the request waited, or the address leads to another cluster; nothing was sent.
    #[error("{url} is not to be used now: its identity is in doubt, or another process took over")]
    NotPermitted { url: String },
    /// It is not in the namespace that stands for the cluster; nothing was sent.
    #[error("{url} is outside of the namespace that stands for the cluster")]
    Outside { url: String },
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl RequestError {
    /// The HTTP status code, where there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            Self::NotServed { .. } => Some(404),
            _ => None,
        }
    }

    /// The server's `Status`, where there is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Positive evidence that the object of this name is absent: a 404 whose `Status` names it.
    pub fn is_not_found_of(&self, name: &str) -> bool {
        self.status().is_some_and(|s| s.code == 404 && s.reason == "NotFound" && !name.is_empty() && s.name == name)
    }

    /// 409 because of a version, a uid or another manager's fields.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason != "AlreadyExists")
    }

    /// 409 because an object of this name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason == "AlreadyExists")
    }

    /// 401 or 403.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.code(), Some(401 | 403))
    }

    /// 403 because the namespace is being terminated.
    pub fn is_terminating(&self) -> bool {
        self.status()
            .is_some_and(|s| s.code == 403 && s.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
    }

    /// 400, 413, 415 or 422: sending the same again changes nothing.
    pub fn is_invalid(&self) -> bool {
        matches!(self.code(), Some(400 | 413 | 415 | 422)) || self.is_mistyped()
    }

    /// The 500 with which API servers answer a server-side apply whose values do not have the schema's types.
    fn is_mistyped(&self) -> bool {
        self.status().is_some_and(|s| s.code == 500 && s.message.starts_with("failed to create typed patch object"))
    }

    /// 410: the version or the page asked for is too old.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(|s| s.code == 410 || s.reason == "Expired" || s.reason == "Gone")
    }

    /// The kind, version or path is not served here: no evidence about any object.
    pub fn kind_not_served(&self) -> bool {
        matches!(self, Self::NotServed { .. })
    }

    /// The right to write ended before the request was sent.
    pub fn is_not_permitted(&self) -> bool {
        matches!(self, Self::NotPermitted { .. })
    }

    /// Whether time alone may mend it: unreachable, a lost answer, 408, 429 or 5xx.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Status(status) => matches!(status.code, 408 | 429 | 500..) && !self.is_mistyped(),
            Self::Unreachable { .. } | Self::AnswerLost { .. } | Self::Body { .. } | Self::Credential { .. } => true,
            Self::NotPermitted { .. } | Self::NoBudget { .. } | Self::TooLong { .. } => true,
            Self::NotServed { .. } | Self::Outside { .. } | Self::Name(_) => false,
        }
    }

    /// Whether a write may have taken effect, or may still: it was sent, and no server has refused it.
    pub fn may_take_effect(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Credential { .. } | Self::NoBudget { .. } | Self::NotPermitted { .. } => {
                false
            }
            error => error.retryable(),
        }
    }

    /// When the server wants to be asked again: in [`LONGEST_RETRY_AFTER`] at most.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(|status| status.retry_after)
    }

    /// The error of an answer that is no success.
    ///
    /// `retry_after` is the header of that name. A 404 that is no `Status` means that the path is not served.
    pub(super) fn of_answer(code: u16, url: &str, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let status = match Status::parse(code, body) {
            Some(status) => status,
            None if code == 404 => return Self::NotServed { url: url.to_owned() },
            None => Status::of_text(code, body),
        };
        let retry_after = status.heeded(retry_after).or(status.retry_after);
        Self::Status(Box::new(Status { retry_after, ..status }))
    }
}

/// A `Status` of an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    pub code: u16,
    /// `NotFound`, `Conflict`, `Invalid`, …; empty where the answer was no `Status`.
    pub reason: String,
    pub message: String,
    /// `details.name` and `details.kind`: what the status speaks of.
    pub name: String,
    pub kind: String,
    pub causes: Vec<StatusCause>,
    pub retry_after: Option<Duration>,
}

/// One entry of `details.causes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl std::error::Error for Status {}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code;
        match (self.code, &*one_line(self.message.trim())) {
            (401, _) => write!(f, "the server does not accept the credential (401): check the kubeconfig's user"),
            (_, "") => write!(f, "the server answered {code} without a word"),
            (_, message) if self.reason.is_empty() => write!(f, "{message} ({code})"),
            (_, message) => write!(f, "{message} ({code} {})", self.reason),
        }
    }
}

impl Status {
    /// Reads a `Status`; `None` where the text is none.
    pub(super) fn parse(code: u16, body: &[u8]) -> Option<Self> {
        let document: StatusDocument<'_> = serde_json::from_slice(body).ok()?;
        if document.kind != "Status" {
            return None;
        }
        let details = document.details.unwrap_or_default();
        let asked = details.retry_after_seconds.filter(|&s| s > 0).map(Duration::from_secs);
        let causes = details.causes.into_iter().flatten().take(MOST_CAUSES);
        let status = Self {
            code: document.code.unwrap_or(code),
            reason: document.reason.unwrap_or_default(),
            message: document.message.unwrap_or_default(),
            name: details.name.unwrap_or_default(),
            kind: details.kind.unwrap_or_default(),
            causes: causes.filter_map(|cause| serde_json::from_str(cause.get()).ok()).collect(),
            retry_after: None,
        };
        Some(Self { retry_after: status.heeded(asked), ..status })
    }

    /// How long to wait where an answer asks for it. Only a server that has too much to do (429) or cannot serve now (503) is
    /// waited for. Admission webhooks belong to whoever installed them: in kcp, each tenant can.
    fn heeded(&self, asked: Option<Duration>) -> Option<Duration> {
        // A webhook wrote it, or could not be called: it says nothing about the server. API servers begin the message of a webhook
        // that denies a request with its name (`ToStatusErr` of k8s.io/apiserver).
        let message = &self.message;
        let is_of_webhook = message.starts_with("admission webhook ") || message.contains("failed calling webhook");
        let is_of_server = matches!(self.code, 429 | 503) && !is_of_webhook;
        asked.filter(|_| is_of_server).map(|wait| wait.min(LONGEST_RETRY_AFTER))
    }

    /// For answers that are no `Status`, such as a proxy's page: the first line, shortened.
    fn of_text(code: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&body[..body.len().min(2048)]);
        let message = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        Self { code, message: message.chars().take(200).collect(), ..Self::default() }
    }
}

#[derive(Deserialize)]
struct StatusDocument<'a> {
    #[serde(default)]
    kind: String,
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
    #[serde(borrow)]
    details: Option<Details<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details<'a> {
    name: Option<String>,
    kind: Option<String>,
    #[serde(borrow)]
    causes: Option<Vec<&'a RawValue>>,
    retry_after_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, body: &str) -> RequestError {
        RequestError::of_answer(code, "https://kcp/clusters/a/apis/x", None, body.as_bytes())
    }

    const NOT_FOUND: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"databases.x \"db\" not found","reason":"NotFound","details":{"name":"db","group":"x","kind":"databases"},"code":404}"#;

    #[test]
    fn only_a_status_that_names_the_object_is_evidence() {
        let gone = answer(404, NOT_FOUND);
        assert!(gone.is_not_found_of("db") && !gone.is_not_found_of("other") && !gone.kind_not_served());
        let not_served = answer(404, "404 page not found\n");
        assert!(!not_served.is_not_found_of("db") && not_served.kind_not_served());
        let nameless = answer(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#);
        assert!(!nameless.is_not_found_of("") && !nameless.kind_not_served());
    }

    #[test]
    fn an_apply_of_the_wrong_type_is_invalid_and_no_other_500_is() {
        let body = |message: &str| format!(r#"{{"kind":"Status","message":"{message}","code":500}}"#);
        let mistyped =
            answer(500, &body("failed to create typed patch object (a/b; x/v1, Kind=Y): .spec: expected map"));
        assert!(mistyped.is_invalid() && !mistyped.retryable());
        let broken = answer(500, &body("etcdserver: request timed out"));
        assert!(!broken.is_invalid() && broken.retryable());
        let webhook = answer(500, &body("Internal error occurred: failed calling webhook 'a.b': connection refused"));
        assert!(webhook.retryable());
    }

    #[test]
    fn the_two_kinds_of_409_are_told_apart() {
        let exists = answer(409, r#"{"kind":"Status","reason":"AlreadyExists","code":409}"#);
        let conflict = answer(409, r#"{"kind":"Status","reason":"Conflict","code":409}"#);
        assert!(exists.is_already_exists() && !exists.is_conflict());
        assert!(conflict.is_conflict() && !conflict.is_already_exists());
    }

    #[test]
    fn retry_after_comes_from_the_header_or_the_details() {
        let body = r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":3}}"#;
        assert_eq!(answer(429, body).retry_after(), Some(Duration::from_secs(3)));
        let header = RequestError::of_answer(429, "u", Some(Duration::from_secs(7)), b"slow down");
        assert_eq!((header.retry_after(), header.retryable()), (Some(Duration::from_secs(7)), true));
    }

    /// A maintenance page asks for a day, and a broken proxy for more seconds than time has.
    #[test]
    fn nobody_is_waited_for_longer_than_a_minute() {
        for seconds in [86_400, u64::MAX] {
            let header = RequestError::of_answer(503, "u", Some(Duration::from_secs(seconds)), b"maintenance");
            assert_eq!(header.retry_after(), Some(LONGEST_RETRY_AFTER), "{seconds}");
            let body = format!(r#"{{"kind":"Status","code":429,"details":{{"retryAfterSeconds":{seconds}}}}}"#);
            assert_eq!(answer(429, &body).retry_after(), Some(LONGEST_RETRY_AFTER), "{seconds}");
        }
    }

    #[test]
    fn only_a_server_that_has_too_much_to_do_is_waited_for() {
        let asks = |code: u16, message: &str| {
            let body = format!(
                r#"{{"kind":"Status","code":{code},"message":"{message}","details":{{"retryAfterSeconds":50}}}}"#
            );
            let error = RequestError::of_answer(code, "u", Some(Duration::from_secs(50)), body.as_bytes());
            error.retry_after().is_some()
        };
        assert!(asks(429, "too many requests") && asks(503, "storage is (re)initializing"));
        assert!(!asks(403, "no") && !asks(500, "no") && !asks(422, "no"));
        let webhook = "admission webhook 'of.a.tenant' denied the request: later";
        assert!(!asks(403, webhook) && !asks(429, webhook) && !asks(503, webhook));
        let error = answer(429, &format!(r#"{{"kind":"Status","code":429,"message":"{webhook}"}}"#));
        assert!(error.retryable());
    }

    #[test]
    fn a_part_of_many_causes_is_read() {
        let causes = format!("{}{{}}", r#"{"field":"status.a"},"#.repeat(2 * MOST_CAUSES));
        let error = answer(422, &format!(r#"{{"kind":"Status","code":422,"details":{{"causes":[{causes}]}}}}"#));
        let causes =
            error.status().map(|status| status.causes.iter().filter(|cause| cause.field == "status.a").count());
        assert_eq!(causes, Some(MOST_CAUSES));
    }

    #[test]
    fn errors_in_words() {
        insta::assert_snapshot!(answer(404, NOT_FOUND), @r#"databases.x "db" not found (404 NotFound)"#);
        insta::assert_snapshot!(answer(404, "404 page not found"), @"the server does not serve https://kcp/clusters/a/apis/x");
        insta::assert_snapshot!(answer(502, "\n<html>Bad gateway</html>\n"), @"<html>Bad gateway</html> (502)");
        insta::assert_snapshot!(answer(503, ""), @"the server answered 503 without a word");
        insta::assert_snapshot!(answer(401, r#"{"kind":"Status","message":"Unauthorized","reason":"Unauthorized","code":401}"#), @"the server does not accept the credential (401): check the kubeconfig's user");
        insta::assert_snapshot!(
            answer(403, r#"{"kind":"Status","message":"databases.x is forbidden: User \"engine\" cannot list resource \"databases\"","reason":"Forbidden","code":403}"#),
            @r#"databases.x is forbidden: User "engine" cannot list resource "databases" (403 Forbidden)"#
        );
    }
}
