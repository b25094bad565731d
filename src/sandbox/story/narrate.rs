//! Writes to the servers, told as a story. Pure: a change in, a line out.

use std::collections::BTreeMap;

use serde_json::Value;

use super::describe;
use super::player;
use super::scene::Consumer;
use crate::object::marks;
use crate::sandbox::{Change, ChangeKind};

/// Which server a change happened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// kcp, with the consumers' workspaces.
    Kcp,
    /// The cluster that the databases run on.
    Downstream,
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A consumer, by the workspace's name.
    Consumer(String),
    /// The engine.
    Engine,
    /// The toy operator.
    Operator,
    /// Somebody at the downstream cluster, by field manager: `kubectl-edit`.
    Somebody(String),
}

/// One sentence of the story, and what it is about in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Who.
    pub actor: Actor,
    /// Did what.
    pub text: String,
    /// One difference each.
    pub details: Vec<String>,
}

impl Actor {
    /// At most a few characters, for a column.
    pub fn name(&self) -> &str {
        match self {
            Self::Consumer(name) | Self::Somebody(name) => name,
            Self::Engine => "engine",
            Self::Operator => "operator",
        }
    }
}

/// Knows who is who.
#[derive(Debug)]
pub struct Narrator {
    /// Consumers by the name of their logical cluster.
    consumers: BTreeMap<String, String>,
    /// Where the engine keeps its own notes, which are no part of the story.
    notes: String,
}

impl Narrator {
    /// A narrator of these consumers' story; `notes` is the engine's inventory namespace.
    pub fn new(consumers: &[Consumer], notes: &str) -> Self {
        let named = consumers.iter().map(|consumer| (consumer.cluster.clone(), consumer.name.clone()));
        Self { consumers: named.collect(), notes: notes.to_owned() }
    }

    /// What a change means; `None` where it is no part of the story.
    pub fn tell(&self, side: Side, change: &Change) -> Option<Line> {
        match side {
            Side::Kcp => self.tell_of_kcp(change),
            Side::Downstream => self.tell_of_downstream(change),
        }
    }

    /// A workspace's life is the consumer's: bindings and the like go on behind it.
    fn tell_of_kcp(&self, change: &Change) -> Option<Line> {
        let consumer = self.consumers.get(&*change.key.cluster)?;
        if change.storage.group.ends_with("kcp.io") {
            return None;
        }
        let object = change.object.object();
        let name = named(change, &object);
        let by_engine = is_engine(change);
        let actor = if by_engine { Actor::Engine } else { Actor::Consumer(consumer.clone()) };
        let line = |text: String, details| Some(Line { actor: actor.clone(), text, details });
        match difference(change, &object) {
            Difference::Added => line(format!("creates {name}"), Vec::new()),
            Difference::Gone => line(format!("{name} of {consumer} is gone"), Vec::new()),
            Difference::Deleting => line(format!("deletes {name}; it stays until its finalizers are released"), vec![]),
            Difference::Status(details) => line(format!("status of {name} in {consumer}"), details),
            Difference::Fields(details) if by_engine => line(format!("writes {name} of {consumer}"), details),
            Difference::Fields(details) => line(format!("changes {name}"), details),
            Difference::Finalizer if by_engine => line(format!("takes on {name} of {consumer}: finalizer"), Vec::new()),
            Difference::Released if by_engine => line(format!("lets {name} of {consumer} go"), Vec::new()),
            Difference::Finalizer | Difference::Released | Difference::Nothing => None,
        }
    }

    fn tell_of_downstream(&self, change: &Change) -> Option<Line> {
        if [&change.key.namespace, &change.key.name].iter().any(|name| ***name == self.notes) {
            return None;
        }
        let object = change.object.object();
        let name = named(change, &object);
        let actor = actor_downstream(change);
        let line = |text: String, details| Some(Line { actor: actor.clone(), text, details });
        let verb = if actor == Actor::Engine { "renders" } else { "creates" };
        match difference(change, &object) {
            Difference::Added => line(format!("{verb} {name}{}", origin(&object)), Vec::new()),
            Difference::Gone => line(format!("deletes {name}"), Vec::new()),
            Difference::Status(details) => line(format!("reports on {name}"), details),
            Difference::Fields(details) if actor == Actor::Engine => line(format!("updates {name}"), details),
            Difference::Fields(details) => line(format!("changes {name}"), details),
            Difference::Deleting => line(format!("deletes {name}; it stays until it is finalized"), Vec::new()),
            Difference::Finalizer | Difference::Released | Difference::Nothing => None,
        }
    }
}

fn actor_downstream(change: &Change) -> Actor {
    match &*change.author {
        _ if is_engine(change) => Actor::Engine,
        player::AUTHOR => Actor::Operator,
        author => Actor::Somebody(author.to_owned()),
    }
}

fn is_engine(change: &Change) -> bool {
    change.author.starts_with(marks::MANAGER)
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
    match &*change.key.namespace {
        "" => format!("{kind} {}", change.key.name),
        namespace => format!("{kind} {namespace}/{}", change.key.name),
    }
}

/// Whose an object is that the engine made.
fn origin(object: &Value) -> String {
    match marks::annotation(object, marks::WORKSPACE) {
        Some(path) => format!(" for {}", path.rsplit(':').next().unwrap_or(path)),
        None => String::new(),
    }
}
