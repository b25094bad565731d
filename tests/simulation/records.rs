//! What the checker remembers of sources and of what engines made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::mapping::{MORE, READS, Rule, Wanted, plural};
use super::server::Side;

/// Labels and annotations that the engine promises to write on what it makes.
const OWNER: &str = "sync-engine.dev/owner";
const MAPPING: &str = "sync-engine.dev/mapping";
const CLUSTER: &str = "sync-engine.dev/cluster";
const NAMESPACE: &str = "sync-engine.dev/namespace";
const NAME: &str = "sync-engine.dev/name";
const SOURCE_UID: &str = "sync-engine.dev/source-uid";
const OBJECT: &str = "sync-engine.dev/object";
const SELF: &str = "sync-engine.dev/self";
/// Which fields the engine set.
const FIELDS: &str = "sync-engine.dev/fields";
/// Keys that only people write: into data, labels and annotations.
const OF_OTHERS: [&str; 2] = ["more", "example.dev/people"];
/// How the annotations on sources begin that name their targets.
pub const TARGETS: &str = "target.sync-engine.dev/";
/// How its finalizers on sources begin.
const FINALIZER: &str = "sync-engine.dev/";

/// Whose an object is, as the engine wrote when it made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// On the target, or beside its source.
    pub side: Side,
    pub owner: Owner,
    pub source_uid: String,
    /// Id of its rule; of several, with the key in brackets.
    pub id: String,
    /// Those that engines ever gave it: a server that is put back has a former one again.
    pub ids: BTreeSet<String>,
    /// It belongs to all sources of its namespace.
    pub is_shared: bool,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    /// When it was made.
    pub since: Duration,
    /// The engine's own hash of whom it belongs to.
    pub hash: String,
    pub gone: bool,
    /// When it went.
    pub gone_at: Duration,
    /// It had gone, and a server that was put back has it again.
    pub came_back: bool,
    /// Since when it is being deleted.
    pub deleting: Option<Duration>,
    /// Its labels or annotations were taken off: a process that saw it before knows it still.
    pub stripped: bool,
    /// The engine took them off.
    pub given_up: bool,
    /// Somebody else changed it since an engine wrote it.
    pub edited: bool,
    /// Somebody else ever changed it.
    pub was_edited: bool,
    /// Of a Secret.
    pub secret_type: String,
    /// Nobody can change its data.
    pub is_immutable: bool,
    /// What others put on it: keys of its data, its labels and annotations, and finalizers.
    pub of_others: BTreeSet<String>,
    /// Which of its fields a template set, as the engine wrote it down.
    pub fields: String,
    /// Somebody else changed that: then the engine takes what is another's for its own.
    pub was_forged: bool,
    /// The size that the engine wrote into it, and when.
    pub size: Option<String>,
    pub written: Duration,
    /// It names the copy of the password.
    pub reads: bool,
    /// It belongs to the consumer, who had taken the permission claim back when its source went.
    pub is_left: bool,
}

/// A source as an owner of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub engine: String,
    pub mapping: String,
    pub cluster: String,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} by {} of {}", self.cluster, self.namespace, self.name, self.mapping, self.engine)
    }
}

impl Made {
    /// What the labels and annotations of an object say; `None` where they are not complete.
    pub fn read(object: &Value, plural: &str, side: Side) -> Option<Self> {
        let metadata = &object["metadata"];
        let annotation = |key: &str| metadata["annotations"][key].as_str().map(str::to_owned);
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        annotation(SELF)?;
        let (engine, mapping) = metadata["labels"][MAPPING].as_str()?.split_once('.')?;
        let id = annotation(OBJECT)?;
        let is_shared = id == MORE.id && annotation(CLUSTER).is_none() && side.is_target();
        // What is shared names no source.
        let of_source = |key: &str| if is_shared { Some(String::new()) } else { annotation(key) };
        let owner = Owner {
            engine: engine.to_owned(),
            mapping: mapping.to_owned(),
            cluster: of_source(CLUSTER)?,
            namespace: annotation(NAMESPACE).unwrap_or_default(),
            name: of_source(NAME)?,
        };
        Some(Self {
            side,
            owner,
            source_uid: of_source(SOURCE_UID)?,
            ids: BTreeSet::from([id.clone()]),
            id,
            is_shared,
            plural: plural.to_owned(),
            namespace: text("namespace"),
            name: text("name"),
            hash: metadata["labels"][OWNER].as_str()?.to_owned(),
            secret_type: object["type"].as_str().unwrap_or_default().to_owned(),
            is_immutable: object["immutable"] == true,
            of_others: of_others(object),
            fields: annotation(FIELDS).unwrap_or_default(),
            size: object["data"]["size"].as_str().filter(|_| plural != "secrets").map(str::to_owned),
            reads: plural == "configmaps" && object["data"][READS].is_string(),
            ..Self::default()
        })
    }

    /// The engine gave it up.
    pub fn orphaned(self) -> Self {
        Self { stripped: true, given_up: true, ..self }
    }

    /// Somebody else changed the object.
    pub fn reread(&mut self, object: &Value) {
        let before = self.clone();
        match Self::read(object, &self.plural, self.side) {
            Some(now) if now.hash == self.hash && self.ids.contains(&now.id) => {
                let Self { gone, gone_at, came_back, since, deleting, is_left, written, .. } = before;
                let ids = std::mem::take(&mut self.ids);
                *self = Self { gone, gone_at, came_back, since, deleting, is_left, written, ids, ..now };
            }
            _ => self.stripped = true,
        }
        self.of_others = of_others(object);
        self.was_forged = before.was_forged || self.stripped || self.fields != before.fields;
        (self.edited, self.was_edited) = (true, true);
    }

    /// What others put on it, and a version of it has no more.
    pub fn loses(&self, object: &Value) -> Option<&str> {
        let left = of_others(object);
        self.of_others.iter().find(|one| !self.was_forged && !left.contains(*one)).map(String::as_str)
    }

    /// It is being deleted, or is not.
    pub fn note_deletion(&mut self, at: Duration, object: &Value) {
        let is_deleting = !object["metadata"]["deletionTimestamp"].is_null();
        self.deleting = is_deleting.then(|| self.deleting.unwrap_or(at));
    }

    /// It went.
    pub fn goes(&mut self, at: Duration) {
        if !self.gone {
            (self.gone, self.gone_at) = (true, at);
        }
    }

    /// Whether it is there still, and the engine's.
    pub fn remains(&self) -> bool {
        !self.gone && !self.stripped
    }

    /// Whether it is a copy of a related object.
    pub fn is_copy(&self) -> bool {
        self.id.starts_with("related.")
    }

    /// Id of its rule.
    pub fn rule_id(&self) -> &str {
        self.id.split('[').next().unwrap_or_default()
    }

    /// Which of several it is.
    pub fn key(&self) -> Option<&str> {
        self.id.split_once('[')?.1.strip_suffix(']')
    }

    /// Whether it is what a rule makes: by its id, or by its kind and name.
    pub fn is_by(&self, rule: &Rule) -> bool {
        rule.id == self.rule_id() || self.is_named_by(rule)
    }

    /// Whether it has the kind and the name that a rule gives.
    pub fn is_named_by(&self, rule: &Rule) -> bool {
        let has_own_name = ![rule.id, self.rule_id()].contains(&MORE.id);
        has_own_name && plural(rule.kind) == self.plural && self.name == format!("{}{}", self.owner.name, rule.suffix)
    }

    /// Whether it is where an object should be.
    pub fn is_at(&self, wanted: &Wanted) -> bool {
        let is_there = wanted.side == self.side && wanted.namespace == self.namespace;
        is_there && (plural(wanted.kind), &wanted.name) == (self.plural.as_str(), &self.name)
    }

    pub fn place(&self) -> String {
        format!("{} {}/{} at {}", self.plural, self.namespace, self.name, self.side.name())
    }
}

/// What consumers said about a source, and when.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub resource: String,
    /// Cluster, namespace and name; the cluster as the server names it.
    pub place: [String; 3],
    /// It went, and no engine had to see its deletion: the server was put back to a time before it, or somebody took a finalizer off
    /// that would have kept it.
    pub vanished: bool,
    /// When it did so for the first time.
    pub vanished_at: Option<Duration>,
    /// The engines' finalizers that it ever carried.
    pub was_held: BTreeSet<String>,
    /// The targets that engines ever wrote on it, and those that it names now.
    pub was_sent_to: BTreeSet<String>,
    pub sent_to: BTreeSet<String>,
    /// The engines' finalizers that somebody else took off, and no engine put back.
    let_go: BTreeSet<String>,
    /// Those that an engine took off, each when, and no engine put back.
    released: BTreeMap<String, Duration>,
    /// Those that it carried when it was seen last.
    pub held: BTreeSet<String>,
    /// Somebody asked for its deletion; until when that counts.
    asked: Option<Duration>,
    gone: bool,
    /// The size that each of its generations asked for.
    sizes: Vec<(i64, String)>,
    /// `status.observedGeneration`.
    pub observed: Option<i64>,
    /// Whether it says that a deletion is stuck.
    pub is_stuck: bool,
    pub extra: Lately,
    pub managed: Lately,
    /// The names of its Secret, each since when.
    pub secrets: History<String>,
}

/// What something was, each since when.
#[derive(Clone, Debug)]
pub struct History<T>(Vec<(Duration, T)>);

impl<T> Default for History<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> History<T> {
    pub fn note(&mut self, at: Duration, now: T) {
        if self.0.last().is_none_or(|(_, last)| *last != now) {
            self.0.push((at, now));
        }
    }

    /// Whether it ever was.
    pub fn ever(&self, was: &T) -> bool {
        self.0.iter().any(|(_, one)| one == was)
    }

    /// What it is, and what it was until a moment ago.
    pub fn lately(&self, lately: impl Fn(Duration) -> bool) -> impl Iterator<Item = &T> {
        let ended = self.0.iter().skip(1).map(|(since, _)| *since).chain([Duration::MAX]);
        self.0.iter().zip(ended).filter(move |(_, ended)| lately(*ended)).map(|((_, was), _)| was)
    }
}

/// A fact, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lately {
    is: bool,
    since: Duration,
}

impl Lately {
    fn set(&mut self, at: Duration, is: bool) {
        if self.is != is {
            *self = Self { is, since: at };
        }
    }

    /// Whether it is so, or was until a moment ago.
    pub fn was(self, what: bool, lately: impl Fn(Duration) -> bool) -> bool {
        self.is == what || lately(self.since)
    }
}

impl Source {
    pub fn is_seen(
        &mut self,
        at: Duration,
        resource: &str,
        place: [String; 3],
        object: &Value,
        by_engine: bool,
        gone: bool,
    ) {
        self.resource = resource.to_owned();
        self.place = place;
        self.gone = gone;
        self.was_sent_to.extend(targets_of(object));
        self.note_finalizers(at, object, by_engine);
        self.vanished = gone && !self.let_go.is_empty();
        if self.vanished {
            self.vanished_at.get_or_insert(at);
        }
        self.reread(at, object);
        if gone || !object["metadata"]["deletionTimestamp"].is_null() {
            self.asked = Some(Duration::MAX);
        }
    }

    /// Notes which finalizers of engines it carries.
    fn note_finalizers(&mut self, at: Duration, object: &Value, by_engine: bool) {
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        let held = finalizers.filter_map(Value::as_str).filter(|one| one.starts_with(FINALIZER));
        let held: BTreeSet<String> = held.map(str::to_owned).collect();
        self.was_held.extend(held.iter().cloned());
        let left = self.held.difference(&held).cloned();
        match by_engine {
            true => self.released.extend(left.map(|one| (one, at))),
            false => self.let_go.extend(left),
        }
        self.let_go.retain(|one| !held.contains(one));
        self.released.retain(|one, _| !held.contains(one));
        self.held = held;
    }

    /// What it was is what it is: its deletion counts for those alone who saw it.
    pub fn is_restored(&mut self, at: Duration, object: &Value, grace: Duration) {
        (self.gone, self.vanished) = (false, false);
        self.note_finalizers(at, object, false);
        let generation = generation_of(object);
        self.sizes.retain(|(known, _)| *known < generation);
        self.reread(at, object);
        if object["metadata"]["deletionTimestamp"].is_null() {
            self.asked = self.asked.map(|until| until.min(at + grace));
        }
    }

    /// Notes what it says now.
    fn reread(&mut self, at: Duration, object: &Value) {
        self.sent_to = targets_of(object);
        self.extra.set(at, object["spec"]["extra"] == true);
        self.managed.set(at, object["metadata"]["labels"]["tier"] == "managed");
        self.secrets.note(at, object["spec"]["secret"].as_str().unwrap_or_default().to_owned());
        let generation = generation_of(object);
        if self.sizes.last().is_none_or(|(known, _)| *known < generation) {
            self.sizes.push((generation, object["spec"]["size"].to_string()));
        }
        self.observed = object["status"]["observedGeneration"].as_i64();
    }

    /// The last generation that asked for a size.
    pub fn generation_with(&self, size: &str) -> Option<i64> {
        self.sizes.iter().rev().find(|(_, known)| known == size).map(|(generation, _)| *generation)
    }

    /// Whether it is where the object's source was, and is another one.
    pub fn follows(&self, made: &Made, resource: &str) -> bool {
        let [cluster, namespace, name] = &self.place;
        let here = cluster.is_empty() || *cluster == made.owner.cluster;
        here && self.resource == resource && (namespace, name) == (&made.owner.namespace, &made.owner.name)
    }

    /// Whether somebody took off the finalizer that would keep it until the objects of this mapping are gone.
    pub fn lets_go_of(&self, engine: &str, mapping: &str) -> bool {
        self.let_go.contains(&finalizer(engine, mapping))
    }

    /// When the engine took off its finalizer, where it has none now.
    pub fn released_at(&self, engine: &str, mapping: &str) -> Option<Duration> {
        self.released.get(&finalizer(engine, mapping)).copied()
    }

    pub fn is_alive(&self) -> bool {
        !self.gone && !self.vanished
    }

    /// Whether it carries a finalizer of an engine.
    pub fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn was_asked(&self, at: Duration) -> bool {
        self.asked.is_some_and(|until| at <= until)
    }

    /// The server was put back to a time without it.
    pub fn vanishes(&mut self, at: Duration) {
        if !self.gone {
            self.vanished = true;
            self.vanished_at.get_or_insert(at);
        }
        self.gone = true;
    }
}

/// The names of the targets that an engine wrote on a source.
fn targets_of(source: &Value) -> BTreeSet<String> {
    let annotations = source["metadata"]["annotations"].as_object().into_iter().flatten();
    let of_engine = annotations.filter(|(key, _)| key.starts_with(TARGETS)).filter_map(|(_, value)| value.as_str());
    let names = of_engine.flat_map(|value| value.split(',')).filter_map(|pair| pair.split('=').next());
    names.map(str::to_owned).collect()
}

/// Whether an engine wrote on a source that it is on a target.
pub fn is_sent_to(source: &Value, target: Side) -> bool {
    targets_of(source).contains(target.name())
}

/// The finalizer by which an engine holds the sources of a mapping.
pub fn finalizer(engine: &str, mapping: &str) -> String {
    format!("{FINALIZER}{engine}.{mapping}")
}

fn generation_of(source: &Value) -> i64 {
    source["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// What people and operators put on an object of the engine.
fn of_others(object: &Value) -> BTreeSet<String> {
    let metadata = &object["metadata"];
    let keys = |part: &'static str, all: &Value| {
        let keys = all.as_object().into_iter().flatten().map(|(key, _)| key.clone());
        keys.filter(|key| OF_OTHERS.contains(&key.as_str())).map(|key| format!("{part} {key}")).collect::<Vec<_>>()
    };
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let finalizers = finalizers.filter(|one| !one.starts_with(FINALIZER)).map(|one| format!("the finalizer {one}"));
    let parts =
        [("data", &object["data"]), ("the label", &metadata["labels"]), ("the annotation", &metadata["annotations"])];
    parts.into_iter().flat_map(|(part, all)| keys(part, all)).chain(finalizers).collect()
}
