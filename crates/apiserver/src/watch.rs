//! Watches: which events they are sent, and as what.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::collection::{Change, ChangeKind, Stored};
use super::reply::{Answer, Subscription};
use super::request::{Query, ResourcePath};
use super::resource::Storage;
use super::selector::Selector;
use super::state::{Scope, State, View};
use super::status::Failure;

/// Which events a watch is sent.
#[derive(Clone, Debug)]
pub struct Interest {
    view: View,
    /// The collection watched.
    pub storage: Storage,
    namespace: Option<String>,
    selector: Selector,
    /// Events up to this version are known to the client.
    after: u64,
}

impl State {
    pub(super) fn watch(&self, view: &View, path: &ResourcePath, query: &Query) -> Result<Subscription, Failure> {
        let (storage, selector) = (view.resource.storage(), view.selector(query)?);
        let mut interest =
            Interest { view: view.clone(), storage, namespace: path.namespace.clone(), selector, after: 0 };
        let from = query.get("resourceVersion").unwrap_or_default();
        let initial_events = query.is_true("sendInitialEvents");
        let backlog = match from {
            _ if initial_events => Ok(self.initial_events(&interest, query.is_true("allowWatchBookmarks"))),
            "" | "0" => Ok(self.initial_events(&interest, false)),
            version => {
                interest.after = version.parse().map_err(|_| invalid_version(version))?;
                self.missed_events(&interest)
            }
        };
        let bookmarks = query.is_true("allowWatchBookmarks");
        let timeout = query.get("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        let refused = backlog.is_err();
        let backlog = backlog.unwrap_or_else(|failure| vec![line("ERROR", &Answer::from(&failure).body)]);
        Ok(Subscription { interest, backlog, bookmarks, timeout, refused })
    }

    /// Everything there is, as additions.
    fn initial_events(&self, interest: &Interest, say_where_they_end: bool) -> Vec<Bytes> {
        let objects = self.objects_of(&interest.view, interest.namespace.as_deref(), None);
        let matching = objects.filter(|(key, stored)| interest.selector.matches(key, stored));
        let mut lines: Vec<Bytes> =
            matching.map(|(_, stored)| line("ADDED", &interest.view.object(stored, self.now))).collect();
        if say_where_they_end {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            lines.push(interest.bookmark(self.version(), Some(annotations)));
        }
        lines
    }

    /// What happened since the version that the watch resumes from.
    fn missed_events(&self, interest: &Interest) -> Result<Vec<Bytes>, Failure> {
        let Some(collection) = self.collection(&interest.view.resource) else { return Ok(Vec::new()) };
        let Some(missed) = collection.since(interest.after, interest.cluster()) else {
            let (from, now) = (interest.after, self.version());
            return Err(Failure::expired(format!("too old resource version: {from} ({now})")));
        };
        Ok(missed.filter_map(|change| interest.line_for(change)).collect())
    }
}

impl Interest {
    /// The logical cluster watched; `None` for several of them, or none.
    pub fn cluster(&self) -> Option<&str> {
        self.view.scope.cluster()
    }

    /// The line a change is sent as; `None` where it is not of interest.
    pub fn line_for(&self, change: &Change) -> Option<Bytes> {
        let in_reach = match &self.view.scope {
            Scope::Cluster(cluster) => *cluster == change.key.cluster,
            Scope::Bound { shard, .. } => *shard == change.shard,
            Scope::Nothing => false,
        };
        let in_namespace = self.namespace.as_deref().is_none_or(|namespace| namespace == &*change.key.namespace);
        if change.object.version <= self.after || change.storage != self.storage || !in_reach || !in_namespace {
            return None;
        }
        let matches = |stored: &Stored| self.selector.matches(&change.key, stored);
        let matched = change.previous.as_deref().is_some_and(matches);
        let kind = match (change.kind, matched, matches(&change.object)) {
            (ChangeKind::Deleted, true, _) => "DELETED",
            (ChangeKind::Deleted, false, _) | (_, false, false) => return None,
            (_, true, false) => return change.previous.as_deref().map(|old| self.left(old, change)),
            (_, false, true) => "ADDED",
            (_, true, true) => "MODIFIED",
        };
        Some(line(kind, &self.view.object(&change.object, change.at)))
    }

    /// An object that no longer matches: its last matching state, under the version of the change.
    fn left(&self, old: &Stored, change: &Change) -> Bytes {
        line("DELETED", &self.view.object(&Stored::new(old.object(), change.object.version), change.at))
    }

    /// Whether the watch began at a version that this one has not reached: it is sent nothing until then, as where a
    /// server was put back.
    pub fn is_ahead_of(&self, version: u64) -> bool {
        self.after > version
    }

    pub fn bookmark(&self, version: u64, annotations: Option<Value>) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        line("BOOKMARK", self.view.bookmark(metadata).as_bytes())
    }
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let parts: [&[u8]; 5] = [br#"{"type":""#, kind.as_bytes(), br#"","object":"#, object, b"}\n"];
    parts.concat().into()
}

fn invalid_version(version: &str) -> Failure {
    let why =
        format!("resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax");
    Failure::status(500, "", why)
}
