//! What the servers say they were asked: the audit log, read request by request.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Writes the policy that makes an API server note every request of `users` once, when it is answered, and no other.
pub fn write_policy(folder: &Path, users: &[String]) -> PathBuf {
    let file = folder.join("audit-policy.yaml");
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": users}, {"level": "None"}],
    });
    fs::write(&file, policy.to_string()).expect("the audit policy");
    file
}

/// A server's audit log.
#[derive(Clone)]
pub struct AuditLog(Source);

#[derive(Clone)]
enum Source {
    /// As a real server writes it.
    File(PathBuf),
    /// As an in-memory server tells it.
    Memory(Arc<Mutex<Vec<Request>>>),
}

/// One request that reached a server.
#[derive(Clone)]
pub struct Request {
    pub verb: String,
    pub uri: String,
    pub code: u64,
    /// `ResponseStarted` (a watch that is open) or `ResponseComplete`.
    pub stage: String,
    pub user: String,
    /// What the client calls itself: `sync-engine/VERSION (REPLICA)`.
    pub agent: String,
    /// When it was received, in the servers' form of time, which sorts.
    pub received: String,
}

impl AuditLog {
    pub fn at(file: PathBuf) -> Self {
        Self(Source::File(file))
    }

    pub fn in_memory(requests: Arc<Mutex<Vec<Request>>>) -> Self {
        Self(Source::Memory(requests))
    }

    /// The requests of one user so far, oldest first.
    pub fn requests(&self, user: &str) -> Vec<Request> {
        let file = match &self.0 {
            Source::File(file) => file,
            Source::Memory(requests) => return requests.lock().expect("the requests").clone(),
        };
        let text = fs::read(file).unwrap_or_default();
        let name = format!("\"username\":\"{user}\"");
        String::from_utf8_lossy(&text)
            .lines()
            .filter(|line| line.contains(&name))
            .filter_map(|line| serde_json::from_str(line).ok())
            .map(|event: Value| Request::of_event(&event))
            .filter(|request| request.user == user)
            .collect()
    }
}

/// As a failure shows it.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.verb, self.uri, self.code)
    }
}

impl Request {
    fn of_event(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            verb: text(&event["verb"]),
            uri: text(&event["requestURI"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            stage: text(&event["stage"]),
            user: text(&event["user"]["username"]),
            agent: text(&event["userAgent"]),
            received: text(&event["requestReceivedTimestamp"]),
        }
    }

    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// The replica that sent it, where it has a name.
    pub fn replica(&self) -> Option<&str> {
        Some(self.agent.split_once('(')?.1.trim_end_matches(')'))
    }

    pub fn is_list(&self) -> bool {
        self.verb == "list"
    }

    /// A GET of one object.
    pub fn is_read(&self) -> bool {
        self.verb == "get"
    }

    /// Whether the request is over; an open watch is noted once more when it ends.
    pub fn is_complete(&self) -> bool {
        self.stage == "ResponseComplete"
    }
}
