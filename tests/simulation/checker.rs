//! What must hold, judged by the world's own records: who asked for what, and who made which object.
//!
//! It shares no code with the engine's planner. The invariants are numbered as in `docs/simulation.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use sync_engine::sandbox::{ChangeKind, Event, Request, Verb};

use super::mapping::Mapping;
use super::server::Side;

/// How long an engine may act on what it saw before the world changed behind its back.
const GRACE: Duration = Duration::from_secs(60);

/// Labels and annotations that the engine promises to write on what it makes.
const OWNER: &str = "sync-engine.dev/owner";
const MAPPING: &str = "sync-engine.dev/mapping";
const CLUSTER: &str = "sync-engine.dev/cluster";
const NAMESPACE: &str = "sync-engine.dev/namespace";
const NAME: &str = "sync-engine.dev/name";
const SOURCE_UID: &str = "sync-engine.dev/source-uid";
const OBJECT: &str = "sync-engine.dev/object";

/// Namespace of the engine's own records.
pub const RECORDS: &str = "sync-engine";

/// Something that must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub text: String,
}

impl Violation {
    /// Whether another says the same of other objects.
    pub fn is_like(&self, other: &Self) -> bool {
        self.invariant == other.invariant && self.words() == other.words()
    }

    /// The text without names and numbers.
    pub fn words(&self) -> Vec<&str> {
        self.text.split_whitespace().filter(|word| word.chars().all(|letter| letter.is_ascii_lowercase())).collect()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

/// Whose an object is, as the engine wrote when it made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub owner: Owner,
    pub source_uid: String,
    pub id: String,
    /// Plural, namespace and name.
    pub at: (String, String, String),
    /// The engine's own hash of whom it belongs to.
    hash: String,
    pub gone: bool,
}

/// A source as an owner of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub mapping: String,
    pub cluster: String,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} by {}", self.cluster, self.namespace, self.name, self.mapping)
    }
}

#[derive(Default)]
pub struct Checker {
    pub violations: Vec<Violation>,
    /// Objects that engines made on the target, by uid.
    pub made: BTreeMap<String, Made>,
    /// Sources whose deletion somebody asked for, and until when that counts.
    asked: BTreeMap<String, Option<Duration>>,
    /// Resources of the sources there ever were, by their uids.
    sources: BTreeMap<String, String>,
    /// Mappings in force, each since when.
    editions: Vec<(Duration, Option<Mapping>)>,
    /// Writes of engines that changed something.
    pub writes: u64,
    /// Whose tokens are whose: token to logical cluster.
    pub tokens: BTreeMap<String, String>,
    /// Sources that went by an engine's request, not judged yet.
    released: Vec<String>,
}

impl Checker {
    pub fn edit(&mut self, at: Duration, mapping: Option<Mapping>) {
        self.editions.push((at, mapping));
    }

    pub fn violated(&mut self, invariant: &'static str, text: impl Into<String>) {
        self.violations.push(Violation { invariant, text: text.into() });
    }

    /// A server was put back: what is alive there again is no longer asked to be deleted.
    pub fn restored(&mut self, at: Duration, alive: impl IntoIterator<Item = String>) {
        for uid in alive {
            if let Some(until) = self.asked.get_mut(&uid) {
                until.get_or_insert(at + GRACE);
            }
        }
    }

    fn was_asked(&self, at: Duration, source_uid: &str) -> bool {
        self.asked.get(source_uid).is_some_and(|until| until.is_none_or(|until| at <= until))
    }

    /// An engine sends a request.
    pub fn sent(&mut self, at: Duration, process: u32, side: Side, request: &Request) {
        let call = request.call();
        if side != Side::Target || call.namespace == RECORDS {
            return;
        }
        match call.verb {
            Verb::Delete => {}
            Verb::DeleteCollection => return self.violated("I1", "a collection is deleted at once"),
            _ => return,
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let what = format!("engine {process} deletes {} {}/{}", call.resource, call.namespace, call.name);
        let Some(uid) = body["preconditions"]["uid"].as_str() else {
            return self.violated("I1", format!("{what} without a uid"));
        };
        match self.made.get(uid) {
            // Somebody else's, or never there.
            None => self.violated("I1", format!("{what}, which no engine made")),
            Some(made) if self.may_delete(at, made) => {}
            Some(made) => {
                let text = format!("{what} of {}, and nobody asked for it", made.owner);
                self.violated("I1", text);
            }
        }
    }

    fn may_delete(&self, at: Duration, made: &Made) -> bool {
        self.was_asked(at, &made.source_uid) || self.gave_up(at, made)
    }

    /// Whether a mapping in force a moment ago has no object of this id any more.
    fn gave_up(&self, at: Duration, made: &Made) -> bool {
        let last = self.editions.len().saturating_sub(1);
        let recent = |(index, (_, _)): &(usize, &(Duration, Option<Mapping>))| {
            *index == last || self.editions[index + 1].0 + GRACE >= at
        };
        let wants = |mapping: &Mapping| mapping.rules.iter().any(|rule| rule.id == made.id && !rule.conditional);
        let editions = self.editions.iter().enumerate().filter(recent);
        let mut mappings = editions.filter_map(|(_, (_, mapping))| mapping.as_ref());
        mappings.any(|mapping| mapping.name == made.owner.mapping && !wants(mapping))
    }

    /// Something was written at a server, by an engine or by somebody else.
    pub fn happened(&mut self, at: Duration, side: Side, process: Option<u32>, events: &[Event]) {
        for event in events {
            if process.is_some() {
                self.writes += 1;
            }
            match side {
                Side::Source => self.source_changed(event, process),
                Side::Target => self.target_changed(at, event, process),
            }
        }
    }

    fn source_changed(&mut self, event: &Event, process: Option<u32>) {
        if &*event.storage.group != super::server::GROUP {
            return;
        }
        self.sources.insert(event.object.uid.to_string(), event.storage.plural.to_string());
        let gone = event.kind == ChangeKind::Deleted;
        if gone || event.object.deleting {
            self.asked.insert(event.object.uid.to_string(), None);
        }
        if gone && process.is_some() {
            self.released.push(event.object.uid.to_string());
        }
    }

    fn target_changed(&mut self, at: Duration, event: &Event, process: Option<u32>) {
        let plural = &*event.storage.plural;
        if &*event.key.namespace == RECORDS || !matches!(plural, "configmaps" | "secrets" | "namespaces") {
            return;
        }
        let at_place = format!("{plural} {}/{}", event.key.namespace, event.key.name);
        let uid = event.object.uid.to_string();
        let Some(process) = process else {
            if event.kind == ChangeKind::Deleted {
                self.lost(&uid);
            }
            return;
        };
        match (plural, event.kind) {
            ("namespaces", ChangeKind::Added) => {}
            ("namespaces", _) => self.violated("I2", format!("engine {process} writes to the existing {at_place}")),
            (_, ChangeKind::Added) => self.created(event, process, &at_place),
            (_, ChangeKind::Deleted) => self.lost(&uid),
            (_, ChangeKind::Modified) => self.changed(at, event, process, &at_place),
        }
    }

    fn lost(&mut self, uid: &str) {
        if let Some(made) = self.made.get_mut(uid) {
            made.gone = true;
        }
    }

    fn created(&mut self, event: &Event, process: u32, place: &str) {
        let object = event.object.object();
        match self.read(&object, event) {
            Some(made) => {
                self.check_tokens(&object, &made, place);
                self.made.insert(event.object.uid.to_string(), made);
            }
            None => self.violated("I2", format!("engine {process} creates {place} without its ownership annotations")),
        }
    }

    fn changed(&mut self, _at: Duration, event: &Event, process: u32, place: &str) {
        let Some(before) = self.made.get(&*event.object.uid).cloned() else {
            return self.violated("I2", format!("engine {process} writes to {place}, which no engine made"));
        };
        let object = event.object.object();
        match self.read(&object, event) {
            None => {
                let text = format!("engine {process} strips {place} of {} of its ownership annotations", before.owner);
                self.violated("I2", text);
            }
            Some(now) if self.is_other(&now, &before) => {
                let text = format!(
                    "engine {process} writes {} of {} over {place}, {} of {}",
                    now.id, now.owner, before.id, before.owner
                );
                self.violated("I2", text);
            }
            Some(now) => {
                self.check_tokens(&object, &now, place);
                self.made.insert(event.object.uid.to_string(), now);
            }
        }
    }

    /// Whether two say different things about whose an object is. A recreated source may take over what it had.
    fn is_other(&self, now: &Made, before: &Made) -> bool {
        let resource = |made: &Made| self.sources.get(&made.source_uid);
        now.owner != before.owner || now.hash != before.hash || resource(now) != resource(before)
    }

    /// Nothing of one tenant may be in an object of another.
    fn check_tokens(&mut self, object: &Value, made: &Made, place: &str) {
        let text = object["data"].to_string();
        let foreign = self.tokens.iter().find(|(token, owner)| text.contains(*token) && **owner != made.owner.cluster);
        if let Some((token, owner)) = foreign {
            let text = format!("{place} of {} holds {token} of {owner}", made.owner);
            self.violated("I3", text);
        }
    }

    /// What the annotations of an object say.
    fn read(&self, object: &Value, event: &Event) -> Option<Made> {
        let annotation = |key: &str| object["metadata"]["annotations"][key].as_str().map(str::to_owned);
        let label = |key: &str| object["metadata"]["labels"][key].as_str();
        let hash = label(OWNER)?.to_owned();
        let mapping = label(MAPPING)?.split_once('.')?.1.to_owned();
        let owner = Owner {
            mapping,
            cluster: annotation(CLUSTER)?,
            namespace: annotation(NAMESPACE).unwrap_or_default(),
            name: annotation(NAME)?,
        };
        Some(Made {
            owner,
            source_uid: annotation(SOURCE_UID)?,
            id: annotation(OBJECT)?,
            at: (event.storage.plural.to_string(), event.key.namespace.to_string(), event.key.name.to_string()),
            hash,
            gone: false,
        })
    }

    /// An engine's request was answered.
    pub fn answered(&mut self, _at: Duration, _side: Side, _request: &Request, _code: u16) {
        let released = std::mem::take(&mut self.released);
        for uid in released {
            let left: Vec<String> =
                self.made.values().filter(|made| made.source_uid == uid && !made.gone).map(place).collect();
            if !left.is_empty() {
                let text = format!("a finalizer is released while these remain: {}", left.join(", "));
                self.violated("I4", text);
            }
        }
    }
}

fn place(made: &Made) -> String {
    format!("{} {}/{}", made.at.0, made.at.1, made.at.2)
}
