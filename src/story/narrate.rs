//! Writes to the servers, told as a story. Pure: a change in, a line out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::describe;
use super::player;
use super::scene::Consumer;
use crate::object::{marks, with_namespace};
use crate::sandbox::{Change, ChangeKind};

/// Which server a change happened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// kcp, with the consumers' workspaces.
    Kcp,
    /// The cluster that the databases run on.
    Downstream,
    /// Another cluster, by its name.
    Beside(Arc<str>),
}

/// What lines call the engine and the toy operator.
pub const ENGINE: &str = "engine";
pub const OPERATOR: &str = "operator";

/// One sentence of the story, and what it is about in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// [`ENGINE`], [`OPERATOR`], a consumer's workspace, or a field manager at the downstream cluster: `kubectl-edit`.
    pub who: String,
    /// Did what.
    pub text: String,
    /// One difference each.
    pub details: Vec<String>,
}

/// Knows who is who.
#[derive(Debug)]
pub struct Narrator {
    /// Consumers by the name of their logical cluster.
    consumers: BTreeMap<String, String>,
    /// Namespace of the engine's state store, which is no part of the story.
    state_namespace: String,
}

impl Narrator {
    pub fn new(consumers: &[Consumer], state_namespace: &str) -> Self {
        let named = consumers.iter().map(|consumer| (consumer.cluster.clone(), consumer.name.clone()));
        Self { consumers: named.collect(), state_namespace: state_namespace.to_owned() }
    }

    /// What a change means; `None` where it is no part of the story.
    pub fn tell(&self, side: &Side, change: &Change) -> Option<Line> {
        let author = match side {
            Side::Kcp => self.consumer(change)?,
            _ if self.is_state_store(change) => return None,
            _ if &*change.author == player::AUTHOR => OPERATOR,
            Side::Beside(cluster) => cluster,
            Side::Downstream => &change.author,
        };
        let by_engine = change.author.starts_with(marks::MANAGER);
        let of = match side {
            Side::Kcp => format!(" of {author}"),
            Side::Beside(cluster) => format!(" on {cluster}"),
            Side::Downstream => String::new(),
        };
        // Whoever is told by the name of the place needs no other word of it.
        let on = if by_engine || author == OPERATOR { of.as_str() } else { "" };
        let object = change.object.object();
        let name = named(change, &object);
        let (text, details) = match (difference(change, &object), by_engine, side) {
            // What kcp makes of an object of its own.
            (Difference::Status(_) | Difference::Fields(_), ..) if is_kcps(change) => return None,
            (Difference::Added, _, Side::Kcp) => (format!("creates {name}{}", origin(&object)), Vec::new()),
            (Difference::Added, ..) => (format!("creates {name}{on}{}", origin(&object)), Vec::new()),
            (Difference::Gone, _, Side::Downstream) => (format!("deletes {name}"), Vec::new()),
            (Difference::Gone, ..) => (format!("{name}{of} is gone"), Vec::new()),
            (Difference::Deleting, ..) => {
                (format!("deletes {name}; it stays until its finalizers are released"), Vec::new())
            }
            (Difference::Status(details), ..) => (format!("writes the status of {name}{on}"), details),
            (Difference::Fields(details), true, _) => (format!("updates {name}{on}"), details),
            (Difference::Fields(details), ..) => (format!("changes {name}{on}"), details),
            (Difference::Finalizer, true, _) => (format!("adds its finalizer to {name}{of}"), Vec::new()),
            (Difference::Released, true, _) => (format!("removes its finalizer from {name}{of}"), Vec::new()),
            (Difference::Finalizer | Difference::Released | Difference::Nothing, ..) => return None,
        };
        let who = if by_engine { ENGINE } else { author };
        Some(Line { who: who.to_owned(), text, details })
    }

    /// The consumer in whose workspace something changed. What kcp itself does there (bindings and the like) is not told.
    fn consumer(&self, change: &Change) -> Option<&str> {
        let consumer = self.consumers.get(&*change.key.cluster)?;
        let is_told = !is_kcps(change) || change.author.starts_with(marks::MANAGER);
        is_told.then_some(consumer)
    }

    fn is_state_store(&self, change: &Change) -> bool {
        [&change.key.namespace, &change.key.name].iter().any(|name| ***name == self.state_namespace)
    }
}

/// Whether an object is of kcp's own APIs.
fn is_kcps(change: &Change) -> bool {
    change.storage.group.ends_with("kcp.io")
}

/// What a change consists of, the most telling part of it.
enum Difference {
    Added,
    Gone,
    Deleting,
    Status(Vec<String>),
    Fields(Vec<String>),
    Finalizer,
    Released,
    Nothing,
}

fn difference(change: &Change, object: &Value) -> Difference {
    let previous = match (change.kind, &change.previous) {
        (ChangeKind::Deleted, _) => return Difference::Gone,
        (ChangeKind::Added, _) | (_, None) => return Difference::Added,
        (ChangeKind::Modified, Some(previous)) => previous,
    };
    if change.object.deleting && !previous.deleting {
        return Difference::Deleting;
    }
    let old = previous.object();
    let status = describe::status_changes(&old, object);
    let fields = describe::changes(&old, object);
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    match (fields.is_empty(), status.is_empty()) {
        (false, _) => Difference::Fields(fields),
        (true, false) => Difference::Status(status),
        _ if finalizers(object) > finalizers(&old) => Difference::Finalizer,
        _ if finalizers(object) < finalizers(&old) => Difference::Released,
        _ => Difference::Nothing,
    }
}

/// `MongoDBCommunity default/my-database`.
fn named(change: &Change, object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or(&change.storage.plural);
    format!("{kind} {}", with_namespace(&change.key.namespace, &change.key.name))
}

/// Whose an object is that the engine made.
fn origin(object: &Value) -> String {
    let path = marks::annotation(object, marks::WORKSPACE);
    path.map(|path| format!(" for {}", path.rsplit(':').next().unwrap_or(path))).unwrap_or_default()
}
