//! What the checker remembers of sources and of what engines made of them.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::mapping::{KINDS, Rule, Wanted};

/// Labels and annotations that the engine promises to write on what it makes.
const OWNER: &str = "sync-engine.dev/owner";
const MAPPING: &str = "sync-engine.dev/mapping";
const CLUSTER: &str = "sync-engine.dev/cluster";
const NAMESPACE: &str = "sync-engine.dev/namespace";
const NAME: &str = "sync-engine.dev/name";
const SOURCE_UID: &str = "sync-engine.dev/source-uid";
const OBJECT: &str = "sync-engine.dev/object";
const SELF: &str = "sync-engine.dev/self";

/// Whose an object is, as the engine wrote when it made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub owner: Owner,
    pub source_uid: String,
    pub id: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    /// When it was made.
    pub since: Duration,
    /// The engine's own hash of whom it belongs to.
    pub hash: String,
    pub gone: bool,
    /// Its labels or annotations were taken off: the engine may know it still, or not.
    pub stripped: bool,
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

impl Made {
    /// What the labels and annotations of an object say; `None` where they are not complete.
    pub fn read(object: &Value, plural: &str) -> Option<Self> {
        let metadata = &object["metadata"];
        let annotation = |key: &str| metadata["annotations"][key].as_str().map(str::to_owned);
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        annotation(SELF)?;
        let mapping = metadata["labels"][MAPPING].as_str()?.split_once('.')?.1.to_owned();
        let owner = Owner {
            mapping,
            cluster: annotation(CLUSTER)?,
            namespace: annotation(NAMESPACE).unwrap_or_default(),
            name: annotation(NAME)?,
        };
        Some(Self {
            owner,
            source_uid: annotation(SOURCE_UID)?,
            id: annotation(OBJECT)?,
            plural: plural.to_owned(),
            namespace: text("namespace"),
            name: text("name"),
            hash: metadata["labels"][OWNER].as_str()?.to_owned(),
            since: Duration::ZERO,
            gone: false,
            stripped: false,
        })
    }

    /// The engine gave it up.
    pub fn orphaned(self) -> Self {
        Self { stripped: true, ..self }
    }

    /// Somebody else changed the object.
    pub fn reread(&mut self, object: &Value) {
        let (gone, since) = (self.gone, self.since);
        match Self::read(object, &self.plural) {
            Some(now) if now.hash == self.hash => *self = now,
            _ => self.stripped = true,
        }
        (self.gone, self.since) = (gone, since);
    }

    /// Whether it is there still, and the engine's.
    pub fn remains(&self) -> bool {
        !self.gone && !self.stripped
    }

    /// Whether it is what a rule makes: by its id, or by its kind and name.
    pub fn is_by(&self, rule: &Rule) -> bool {
        let plural = KINDS.iter().find(|(kind, _)| *kind == rule.kind).map_or("", |(_, plural)| plural);
        rule.id == self.id || (plural == self.plural && self.name == format!("{}{}", self.owner.name, rule.suffix))
    }

    /// Whether it is where an object should be.
    pub fn is_at(&self, wanted: &Wanted) -> bool {
        let plural = KINDS.iter().find(|(kind, _)| *kind == wanted.kind).map_or("", |(_, plural)| plural);
        (plural, &wanted.namespace, &wanted.name) == (self.plural.as_str(), &self.namespace, &self.name)
    }

    pub fn place(&self) -> String {
        format!("{} {}/{}", self.plural, self.namespace, self.name)
    }
}

/// What consumers said about a source, and when.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub resource: String,
    /// Somebody asked for its deletion; until when that counts.
    asked: Option<Duration>,
    extra: Lately,
    managed: Lately,
}

/// A fact, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    is: bool,
    since: Duration,
}

impl Lately {
    fn set(&mut self, at: Duration, is: bool) {
        if self.is != is {
            *self = Self { is, since: at };
        }
    }

    fn was_false(self, at: Duration, grace: impl Fn(Duration) -> Duration) -> bool {
        !self.is || self.since + grace(self.since) >= at
    }
}

impl Source {
    pub fn is_seen(&mut self, at: Duration, resource: &str, object: &Value, gone: bool) {
        self.resource = resource.to_owned();
        self.extra.set(at, object["spec"]["extra"] == true);
        self.managed.set(at, object["metadata"]["labels"]["tier"] == "managed");
        if gone || !object["metadata"]["deletionTimestamp"].is_null() {
            self.asked = Some(Duration::MAX);
        }
    }

    /// What it was is what it is: its deletion counts for those alone who saw it.
    pub fn is_restored(&mut self, at: Duration, object: &Value, grace: Duration) {
        self.extra.set(at, object["spec"]["extra"] == true);
        self.managed.set(at, object["metadata"]["labels"]["tier"] == "managed");
        if object["metadata"]["deletionTimestamp"].is_null() {
            self.asked = self.asked.map(|until| until.min(at + grace));
        }
    }

    pub fn was_asked(&self, at: Duration) -> bool {
        self.asked.is_some_and(|until| at <= until)
    }

    pub fn lately_plain(&self, at: Duration, grace: impl Fn(Duration) -> Duration) -> bool {
        self.extra.was_false(at, grace)
    }

    pub fn lately_unmanaged(&self, at: Duration, grace: impl Fn(Duration) -> Duration) -> bool {
        self.managed.was_false(at, grace)
    }
}
