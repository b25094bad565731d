//! What must hold, judged by the world's own records: who asked for what, and who made which object.
//!
//! It shares no code with the engine's planner. The invariants are numbered as in `docs/internals/simulation.md`.

mod copies;
mod deletions;
mod order;
mod patience;
mod refusals;
mod truth;
mod waves;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use sync_engine::sandbox::{ChangeKind, Event, Request, Verb};

use self::patience::Lane;
use self::refusals::{Refused, refused_key};
use self::waves::{Candidate, TurnedDown};
use super::mapping::{MADE, Mapping, READS, TRANSFORMED, is_made, placement, plural};
use super::marks;
use super::records::{History, Made, Source, finalizer};
use super::server::{GROUP, Side, is_read};
use super::world::{Log, text};

/// How long an engine may act on what it saw before the world changed behind its back: as long as the network holds
/// requests, or as long as a reconcile takes where it holds none.
const GRACE: Duration = Duration::from_secs(60);
const CALM_GRACE: Duration = Duration::from_secs(2);

/// How long before a finalizer is released the engine may have looked for the last time.
const RACE: Duration = Duration::from_secs(5);
const CALM_RACE: Duration = Duration::from_secs(1);

/// How long after a fault the engine may know less than it would without: until its watches time out.
pub const AFTERMATH: Duration = Duration::from_secs(300);

/// How often an engine reads a state store of which no watch tells.
const UNREAD: Duration = Duration::from_secs(120);

/// For how long a server that is busy wants no write.
pub const BUSY: Duration = Duration::from_secs(1);

/// Namespace of the engine's own records.
pub const RECORDS: &str = "sync-engine";

/// Where the state store of a mapping is, or another record of it.
pub fn state_store(name: &str) -> String {
    format!("/api/v1/namespaces/{RECORDS}/configmaps/main.{name}")
}

/// What leader election writes as long as an engine runs.
pub const LEASES: &str = "leases";

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

#[derive(Default)]
pub struct Checker {
    /// What engines log, where it is kept.
    pub log: Option<Log>,
    pub violations: Vec<Violation>,
    /// Objects that engines made on the target, by uid.
    pub made: BTreeMap<String, Made>,
    /// Sources there ever were, by uid.
    pub sources: BTreeMap<String, Source>,
    /// Mappings in force, each since when; `None`: none.
    editions: Vec<(Duration, Option<Mapping>)>,
    /// Documents that a part of the sources followed.
    candidates: Vec<Candidate>,
    /// Documents that went back, or that a person rejected.
    turned_down: Vec<TurnedDown>,
    /// Every document that the author wrote. One that would serve other sources than the one in force waits.
    written: Vec<Mapping>,
    /// The last document of each mapping that an engine recorded: a process that starts without the file knows no later one.
    recorded: BTreeMap<String, Mapping>,
    /// The kinds that each state store names, by its own name.
    kinds: BTreeMap<String, String>,
    /// Documents that went from a state store that was put back, each until when engines may not have read it.
    unread: Vec<(Duration, Mapping)>,
    /// Writes of engines that changed something.
    pub writes: u64,
    /// Those of them that made a namespace.
    pub namespaces: u64,
    /// Whose tokens are whose: token to logical cluster.
    pub tokens: BTreeMap<String, String>,
    /// Whose clusters are whose: logical cluster to tenant.
    pub tenants: BTreeMap<String, &'static str>,
    /// Types of Secrets; `None`: missing.
    secrets: BTreeMap<SecretKey, History<Option<String>>>,
    /// Whether Secrets have the label by which they are selected; a missing one has none.
    selected: BTreeMap<SecretKey, History<bool>>,
    /// Whether a cluster accepts the permission claim for Secrets.
    claims: BTreeMap<String, History<bool>>,
    /// Sources that went by an engine's request.
    pub released: BTreeSet<String>,
    /// The last of them, not judged yet; or a target that an engine took off a living source.
    just_released: Vec<(String, Option<Side>)>,
    /// Passwords that engines made, as they are in Secrets now: by uid, with the server.
    passwords: BTreeMap<String, (Side, String)>,
    /// Every one that ever was, or was to be.
    ever_passwords: BTreeSet<String>,
    /// What a person approved, and when.
    pub approved: Vec<Approved>,
    /// Since when servers are away.
    pub away: BTreeMap<Side, Duration>,
    /// Whether sources are reconciled twice: under two names of their cluster, or for two targets.
    pub is_doubled: bool,
    /// Whether two processes of one engine run without an election: where they see different things, each undoes what the other one
    /// writes.
    pub has_rivals: bool,
    /// Whether the plain cluster ever left the selection of the mappings.
    pub is_relabelled: bool,
    /// Whether any request was refused, or found an object in its place.
    pub has_refused: bool,
    /// Refused requests.
    refused: BTreeMap<String, Refused>,
    /// When anything changed at a server, in the mapping, or in what admission says.
    changed: Duration,
    /// Until when the engine may know less than it would in a world without faults.
    troubled_until: Duration,
    /// Faults so far.
    pub faults: u64,
    /// Writes that reached a server and were not refused, by process.
    pub carried_out: BTreeMap<u32, u64>,
    /// Writes of one process to one object, in the minute that runs.
    paces: BTreeMap<String, (u64, u32)>,
    /// What servers asked engines for: no write from then until then.
    pauses: Vec<(Lane, Duration, Duration)>,
    /// Whether it judges also by the rules that engines are known to break.
    pub is_strict: bool,
    /// When watches fell silent.
    silences: Vec<Duration>,
    /// Whether any clock ever jumped.
    pub has_jumped: bool,
    /// Requests that are no watches, since somebody last looked.
    pub asked: BTreeMap<String, usize>,
}

/// What a person approves.
#[derive(Clone, Debug)]
pub struct Approved {
    pub at: Duration,
    /// The losses that the record named, with kind, namespace and name; `None`: it names the first of many.
    pub losses: Option<Vec<String>>,
}

/// Side, cluster, namespace and name of a Secret.
type SecretKey = (Side, String, String, String);

impl Mapping {
    /// Whether a source was out of the filter a moment ago.
    fn lately_left(&self, source: &Source, lately: impl Fn(Duration) -> bool) -> bool {
        (self.selects && source.managed.was(false, &lately)) || (self.when && source.extra.was(false, &lately))
    }

    /// Whether the mapping gave a source no object on a target a moment ago.
    fn lately_elsewhere(&self, side: Side, source: &Source, lately: impl Fn(Duration) -> bool) -> bool {
        let was_given = |extra: bool| self.spread.targets(extra).contains(&side);
        let lately_not = [false, true].into_iter().any(|extra| !was_given(extra) && source.extra.was(extra, &lately));
        side.is_target() && self.may_leave_targets() && lately_not
    }
}

impl Checker {
    /// The author writes a document.
    pub fn write(&mut self, mapping: Mapping) {
        self.written.push(mapping);
    }

    /// The cluster of the sources is another one: those of the former are out of sight.
    pub fn forgets_sources(&mut self) {
        self.sources.values_mut().for_each(|source| source.held.clear());
    }

    /// What is in force while the file holds this document: the one that the engine recorded, in the mode of the file. One that
    /// writes nothing is not recorded, and in force all the same.
    pub fn in_force(&self, draft: &Mapping) -> Mapping {
        let waits = |recorded: &&Mapping| draft.mode == "Enforce" || recorded.resource != draft.resource;
        let recorded = self.recorded.get(draft.name).filter(waits);
        recorded.map_or_else(|| draft.clone(), |recorded| Mapping { mode: draft.mode, ..recorded.clone() })
    }

    /// Whether this is what is in force, as far as the checker was told.
    pub fn goes_by(&self, mapping: Option<&Mapping>) -> bool {
        self.editions.last().is_some_and(|(_, edition)| edition.as_ref() == mapping)
    }

    pub fn edit(&mut self, at: Duration, mapping: Option<Mapping>) {
        self.changed = at;
        self.editions.push((at, mapping));
        // After a change, what was refused may be tried again.
        self.refused.clear();
    }

    /// Something goes wrong, with what follows from it until then.
    pub fn is_troubled(&mut self, until: Duration) {
        self.faults += 1;
        self.feels_it(until);
    }

    /// What went wrong is felt until then.
    pub fn feels_it(&mut self, until: Duration) {
        self.troubled_until = self.troubled_until.max(until);
    }

    /// Watches fall silent: what changes from now on, they show once they have timed out.
    pub fn is_kept_in_the_dark(&mut self, at: Duration) {
        self.silences.push(at);
    }

    /// Whether they ever did.
    pub fn was_kept_in_the_dark(&self) -> bool {
        !self.silences.is_empty()
    }

    /// When the last of them has timed out.
    pub fn sees_all_again(&self) -> Duration {
        self.silences.iter().max().map_or(Duration::ZERO, |last| *last + AFTERMATH)
    }

    /// Whether faults may be felt still, or were a moment ago.
    pub fn is_troubled_still(&self, at: Duration) -> bool {
        self.troubled_until + AFTERMATH >= at
    }

    /// Somebody did something.
    pub fn has_changed(&mut self, at: Duration) {
        self.changed = at;
    }

    /// How long what changed then may be acted on as it was before.
    fn grace(&self, since: Duration) -> Duration {
        let hidden = self.silences.iter().filter(|from| **from <= since).map(|from| *from + AFTERMATH);
        let hidden = hidden.map(|until| until.saturating_sub(since)).max().unwrap_or_default();
        hidden + if self.troubled_until >= since { GRACE } else { CALM_GRACE }
    }

    /// How long before a finalizer was released then the engine may have looked for the last time.
    fn race(&self, at: Duration) -> Duration {
        if self.troubled_until >= at { RACE } else { CALM_RACE }
    }

    /// Whether an object arrived after the engine had looked for the last time before it let its source go.
    pub fn is_late(&self, made: &Made) -> bool {
        let source = self.sources.get(&made.source_uid);
        let released = source.and_then(|source| source.released_at(&made.owner.engine, &made.owner.mapping));
        released.is_some_and(|at| made.since + self.race(at) >= at)
    }

    /// Whether what changed then may be acted on still as it was before.
    fn lately(&self, at: Duration) -> impl Fn(Duration) -> bool + Copy {
        move |since| since.saturating_add(self.grace(since)) >= at
    }

    pub fn violated(&mut self, invariant: &'static str, text: impl Into<String>) {
        self.violations.push(Violation { invariant, text: text.into() });
    }

    /// The source server was put back, and holds these sources now.
    pub fn sources_restored<'a>(&mut self, at: Duration, alive: impl Iterator<Item = &'a Value>) {
        self.sources.values_mut().for_each(|source| source.vanishes(at));
        let grace = self.grace(at);
        for object in alive {
            // A source that lives again has its objects again.
            self.released.remove(&text(object, "uid"));
            if let Some(source) = self.sources.get_mut(&text(object, "uid")) {
                source.is_restored(at, object, grace);
            }
        }
    }

    /// A server was put back, and holds these objects now.
    pub fn objects_restored<'a>(&mut self, at: Duration, side: Side, objects: impl Iterator<Item = &'a Value>) {
        if side == Side::Target {
            // Home knows of them no longer.
            self.turned_down.clear();
        }
        let before: BTreeSet<String> =
            self.made.iter().filter(|(_, made)| !made.gone).map(|(uid, _)| uid.clone()).collect();
        self.made.values_mut().filter(|made| made.side == side).for_each(|made| made.goes(at));
        let mut types: BTreeMap<SecretKey, (String, bool)> = BTreeMap::new();
        self.passwords.retain(|_, (known, _)| *known != side);
        for object in objects {
            if let Some(password) = password(object) {
                self.passwords.insert(text(object, "uid"), (side, password));
            }
            if let Some(made) = self.made.get_mut(&text(object, "uid")) {
                let is_back = !before.contains(&text(object, "uid"));
                made.since = if is_back { at } else { made.since };
                made.came_back |= is_back;
                made.gone = false;
                // Since when it is being deleted is what the backup says.
                made.note_deletion(Duration::ZERO, object);
                made.reread(object);
            }
            if let Some(kind) = object["type"].as_str() {
                let cluster = object["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or_default();
                let key = (side, cluster.to_owned(), text(object, "namespace"), text(object, "name"));
                types.insert(key, (kind.to_owned(), copies::is_selected(object)));
            }
        }
        for key in self.secrets.keys().filter(|key| key.0 == side).cloned().collect::<Vec<_>>() {
            types.entry(key).or_default();
        }
        for (key, (kind, is_selected)) in types {
            self.selected.entry(key.clone()).or_default().note(at, is_selected);
            self.secrets.entry(key).or_default().note(at, Some(kind).filter(|kind| !kind.is_empty()));
        }
    }

    /// The state store of a mapping was put back. Where objects are beside their sources, no watch tells of that.
    pub fn record_restored(&mut self, at: Duration, name: &str, record: &Value) {
        self.note_kinds(&format!("main.{name}"), record);
        let document = record["data"]["document"].as_str().and_then(|text| self.document(text));
        let before = document.and_then(|document| self.recorded.insert(name.to_owned(), document));
        let until = at + UNREAD + self.grace(at);
        self.unread.extend(before.filter(|before| before.is_beside).map(|before| (until, before)));
    }

    /// Notes which kinds a state store names.
    fn note_kinds(&mut self, store: &str, record: &Value) {
        let kinds = record["data"]["kinds"].as_str().map(str::to_owned);
        self.kinds.extend(kinds.map(|kinds| (store.to_owned(), kinds)));
    }

    /// Whether nobody knows an object any more: it came back beside its source, with a server that was put back, and the state store
    /// no longer names its kind there.
    pub fn is_forgotten(&self, made: &Made) -> bool {
        let store = self.kinds.get(&format!("{}.{}", made.owner.engine, made.owner.mapping));
        let is_it = |line: &str| line.split(' ').nth(1).is_some_and(|kind| plural(kind) == made.plural);
        let names = |kinds: &String| kinds.lines().any(|line| line.ends_with(" (source)") && is_it(line));
        made.side == Side::Source && made.came_back && store.is_some_and(|kinds| !names(kinds))
    }

    /// An engine sends a request to this server, by this host.
    pub fn sent(&mut self, at: Duration, (process, side, host): (u32, Side, &str), request: &Request) {
        let call = request.call();
        self.check_request(process, request);
        if !is_read(call.verb) {
            self.check_pause(at, (process, host), request);
        }
        let is_judged = match side {
            Side::Target | Side::Second => call.namespace != RECORDS,
            Side::Source => is_made(&call.resource),
        };
        if !is_judged {
            return;
        }
        match call.verb {
            Verb::Delete => {}
            Verb::Apply => return self.applied(at, process, side, request),
            Verb::Create if side == Side::Source => return self.applied(at, process, side, request),
            Verb::DeleteCollection => return self.violated("I1", "a collection is deleted at once"),
            _ => return,
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let what = format!("engine {process} deletes {} {}/{}", call.resource, call.namespace, call.name);
        let Some(uid) = body["preconditions"]["uid"].as_str() else {
            return self.violated("I1", format!("{what} without a uid"));
        };
        if body["propagationPolicy"] != "Background" {
            let policy = &body["propagationPolicy"];
            self.violated(
                "I6b",
                format!("{what}, and what that owns with the policy {policy}, which no mapping asks for"),
            );
        }
        let Some(made) = self.made.get(uid).cloned() else {
            return self.violated("I1", format!("{what}, which no engine made"));
        };
        let evidence = self.evidence(at, &made);
        if evidence.is_empty() {
            return self.violated("I1", format!("{what} of {}, and nobody asked for it", made.owner));
        }
        self.check_evidence(&made, &call.cluster, &evidence, &what);
        if let Some(reader) = self.standing_reader(at, &made) {
            self.violated("I6b", format!("{what} while {reader} names it"));
        } else if let Some(dependent) = self.standing_dependent(at, &made) {
            self.violated("I6b", format!("{what} before {dependent}, which depends on it"));
        }
    }

    /// Before the first object is made of a source, the source carries the engine's finalizer.
    fn applied(&mut self, at: Duration, process: u32, side: Side, request: &Request) {
        let (call, body) = (request.call(), serde_json::from_slice::<Value>(&request.body).unwrap_or_default());
        let Some(mut made) = Made::read(&body, &call.resource, side) else { return };
        (made.namespace, made.name) = (call.namespace.to_string(), call.name.to_string());
        if made.name.is_empty() {
            made.name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        }
        if let Some(needed) = self.missing_need(at, &made) {
            let text = format!("engine {process} creates {} before `{needed}`, on which it depends", made.place());
            self.violated("I6b", text);
        }
        if let Some(what) = self.unreleased(at, &made, &body) {
            self.violated("I9", format!("engine {process} writes {what}"));
        }
        let Some(source) = self.sources.get(&made.source_uid) else { return };
        // Of several targets, the source names each that may hold objects of it.
        let lacks = match side {
            _ if source.was_held.is_empty() => "carries a finalizer",
            Side::Second if !source.was_sent_to.contains(side.name()) => "names the target",
            _ => return,
        };
        let what = format!("{} {}/{}", call.resource, call.namespace, call.name);
        self.violated("I4", format!("engine {process} writes {what} before its source {lacks}"));
    }

    /// The document that decides what becomes of an object when its source goes: a former source, and one whose mapping is
    /// gone, go by their last document.
    pub fn governing<'m>(&'m self, edition: Option<&'m Mapping>, made: &Made) -> Option<&'m Mapping> {
        let resource = self.sources.get(&made.source_uid).map(|source| source.resource.as_str());
        let is_of = |one: &&Mapping| one.name == made.owner.mapping && resource.is_none_or(|of| one.resource == of);
        let last = || self.editions.iter().rev().find_map(|(_, edition)| edition.as_ref().filter(is_of));
        edition.filter(is_of).or_else(last).or_else(|| self.last_of(&made.owner.mapping))
    }

    /// Whether that document says so. Without a file, it may also be the last one that was recorded, or that home names.
    fn is_governed(&self, edition: Option<&Mapping>, made: &Made, says: impl Fn(&Mapping) -> bool) -> bool {
        let name = &made.owner.mapping;
        let has_file = edition.is_some_and(|one| one.name == *name);
        let records = [name.clone(), format!("{name}.targets")];
        let recorded = records.iter().filter(|_| !has_file).filter_map(|record| self.recorded.get(record));
        self.governing(edition, made).into_iter().chain(recorded).any(says)
    }

    /// Mappings in force a moment ago.
    fn recent(&self, at: Duration) -> impl Iterator<Item = Option<&Mapping>> {
        let (lately, ended) = (self.lately(at), self.editions.iter().skip(1).map(|(since, _)| *since));
        let editions = self.editions.iter().zip(ended.chain([Duration::MAX]));
        editions.filter(move |(_, ended)| lately(*ended)).map(|((_, edition), _)| edition.as_ref())
    }

    /// Documents that were in force a moment ago for the engine that made an object. One with another id records its own, and may
    /// be as far as the file.
    fn ruling(&self, at: Duration, made: &Made) -> impl Iterator<Item = Option<&Mapping>> {
        let unread = self.unread.iter().filter(move |(until, _)| *until >= at).map(|(_, document)| Some(document));
        self.recent(at).chain(unread).chain(self.of_file(made).map(Some))
    }

    /// The file's document, where an engine made an object that may go by it already.
    fn of_file(&self, made: &Made) -> Option<&Mapping> {
        self.written.last().filter(|_| made.owner.engine != "main")
    }

    /// Whether it ever held of the mapping.
    pub fn ever(&self, holds: impl Fn(&Mapping) -> bool) -> bool {
        self.editions.iter().filter_map(|(_, edition)| edition.as_ref()).any(holds)
    }

    /// The document that the author wrote last for a mapping.
    pub fn last_written(&self, name: &str) -> Option<&Mapping> {
        self.written.iter().rev().find(|mapping| mapping.name == name)
    }

    /// The last document of a mapping.
    pub fn last_of(&self, name: &str) -> Option<&Mapping> {
        self.editions.iter().rev().find_map(|(_, edition)| edition.as_ref().filter(|mapping| mapping.name == name))
    }

    /// Something was written at a server, by an engine or by somebody else.
    pub fn happened(&mut self, at: Duration, side: Side, process: Option<u32>, events: &[Event]) {
        for event in events.iter().filter(|event| &*event.storage.plural != LEASES) {
            self.changed = at;
            self.writes += u64::from(process.is_some() && !is_dropped_record(event));
            if let Some(process) = process {
                self.check_values(process, event);
            }
            if (&*event.storage.group, &*event.storage.plural) == ("", "secrets") {
                self.note_type(at, side, event);
                self.note_password(side, event, process);
            }
            match side {
                Side::Source => self.source_changed(at, event, process),
                Side::Target | Side::Second => self.target_changed(at, side, event, process),
            }
        }
    }

    fn source_changed(&mut self, at: Duration, event: &Event, process: Option<u32>) {
        if is_made(&event.storage.plural) {
            return self.object_changed(at, Side::Source, event, process);
        }
        if &*event.storage.group != GROUP {
            return;
        }
        let (uid, gone) = (event.object.uid.to_string(), event.kind == ChangeKind::Deleted);
        let source = self.sources.entry(uid.clone()).or_default();
        let (former, observed) = (source.sent_to.clone(), source.observed);
        let place = [&event.key.cluster, &event.key.namespace, &event.key.name].map(|text| text.to_string());
        source.is_seen(at, &event.storage.plural, place, &event.object.object(), process.is_some(), gone);
        let left = former.difference(&source.sent_to).filter(|_| source.is_held()).map(|name| Side::of_host(name));
        let left: Vec<Side> = left.collect();
        let is_new = source.observed != observed && !gone && process.is_some();
        if process.is_some() {
            self.check_stuck(at, &uid, &event.object.object());
        }
        let source = self.sources.entry(uid.clone()).or_default();
        if let Some(generation) = source.observed.filter(|_| is_new)
            && let Some(why) = self.untrue(at, &uid, generation)
        {
            let name = &event.key.name;
            self.violated("I6b", format!("{name} says that generation {generation} is observed, and {why}"));
        }
        if gone && process.is_some() {
            self.released.insert(uid.clone());
            self.just_released.push((uid, None));
        } else if process.is_some() {
            self.just_released.extend(left.into_iter().map(|side| (uid.clone(), Some(side))));
        }
    }

    /// Notes which document an engine records in the state store of a mapping. It is of other sources only once the engine holds
    /// none of those before. A person who changes something else in one leaves a document there that may be an earlier one.
    fn note_record(&mut self, at: Duration, event: &Event, process: Option<u32>) {
        let Some(name) = event.key.name.strip_prefix("main.") else { return };
        if event.kind == ChangeKind::Deleted {
            self.recorded.remove(name);
            return;
        }
        let Some(process) = process else { return };
        let object = event.object.object();
        let Some(mapping) = object["data"]["document"].as_str().and_then(|text| self.document(text)) else { return };
        let before = self.recorded.insert(name.to_owned(), mapping.clone());
        let Some(before) = before.filter(|before| *before != mapping) else { return };
        self.check_turned_down(&mapping);
        if self.editions.last().is_some_and(|(_, edition)| edition.as_ref().is_some_and(|one| one.name == mapping.name))
        {
            self.edit(at, Some(mapping.clone()));
        }
        if before.resource == mapping.resource {
            return;
        }
        let finalizer = finalizer("main", mapping.name);
        let is_held =
            |one: &&Source| one.is_alive() && one.resource == before.resource && one.held.contains(&finalizer);
        if let Some(held) = self.sources.values().find(is_held) {
            let text = format!(
                "engine {process} records a document of {} while {} {:?} carries its finalizer",
                mapping.resource, held.resource, held.place
            );
            self.violated("I4", text);
        }
    }

    /// The document of the author's with this text.
    fn document(&self, text: &str) -> Option<Mapping> {
        let mut document = serde_json::from_str::<Value>(text).ok()?;
        // Of a fleet, the file selects clusters, whatever the mapping is.
        document["spec"]["source"].as_object_mut()?.remove("clusters");
        let is_it = |one: &&Mapping| [true, false].map(|is_kcp| one.document(is_kcp, false)).contains(&document);
        self.written.iter().rev().find(is_it).cloned()
    }

    fn target_changed(&mut self, at: Duration, side: Side, event: &Event, process: Option<u32>) {
        if &*event.key.namespace == RECORDS {
            self.note_release(at, event);
            self.note_kinds(&event.key.name, &event.object.object());
            return self.note_record(at, event, process);
        }
        self.object_changed(at, side, event, process);
    }

    /// Something changed that engines may make.
    fn object_changed(&mut self, at: Duration, side: Side, event: &Event, process: Option<u32>) {
        let plural = &*event.storage.plural;
        if plural != "namespaces" && !is_made(plural) {
            return;
        }
        let place = format!("{plural} {}/{}", event.key.namespace, event.key.name);
        let uid = &*event.object.uid;
        if let Some(made) = self.made.get_mut(uid) {
            made.note_deletion(at, &event.object.object());
            if event.kind == ChangeKind::Deleted {
                made.goes(at);
            }
            if process.is_none() {
                made.reread(&event.object.object());
            }
        }
        let Some(process) = process else { return };
        match (plural, event.kind) {
            ("namespaces", ChangeKind::Added) => self.namespaces += 1,
            ("namespaces", _) => self.violated("I2", format!("engine {process} writes to the existing {place}")),
            (_, ChangeKind::Added) => self.created(at, side, event, process, &place),
            (_, ChangeKind::Deleted) => {}
            (_, ChangeKind::Modified) => self.changed(at, side, event, process, &place),
        }
    }

    fn created(&mut self, at: Duration, side: Side, event: &Event, process: u32, place: &str) {
        let object = event.object.object();
        match Made::read(&object, &event.storage.plural, side) {
            Some(made) => {
                self.check_tokens(&object, &made, place);
                self.made.insert(event.object.uid.to_string(), Made { since: at, written: at, ..made });
            }
            None => self.violated("I2", format!("engine {process} creates {place} without its ownership annotations")),
        }
    }

    fn changed(&mut self, at: Duration, side: Side, event: &Event, process: u32, place: &str) {
        let uid = event.object.uid.to_string();
        let Some(before) = self.made.get(&uid).cloned() else {
            if self.ever(|mapping| mapping.adopts) {
                return self.created(at, side, event, process, place);
            }
            return self.violated("I2", format!("engine {process} writes to {place}, which no engine made"));
        };
        let object = event.object.object();
        if let Some(lost) = before.loses(&object) {
            self.violated("I6b", format!("engine {process} takes {lost} of others off {place}"));
        }
        match Made::read(&object, &event.storage.plural, before.side) {
            None if before.stripped => {}
            None if self.may_orphan(at, &before) => {
                self.made.insert(uid, before.orphaned());
            }
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
                let Made { since, deleting, was_edited, was_forged, ids, .. } = before;
                let ids = &ids | &now.ids;
                self.made.insert(uid, Made { since, deleting, was_edited, was_forged, ids, written: at, ..now });
            }
        }
    }

    /// Whether two say different things about whose an object is. A recreated source may take over what it had.
    fn is_other(&self, now: &Made, before: &Made) -> bool {
        let resource = |made: &Made| self.sources.get(&made.source_uid).map(|source| source.resource.clone());
        now.owner != before.owner || now.hash != before.hash || resource(now) != resource(before)
    }

    /// Who read a password that was made goes on with it: no engine puts another in its place.
    fn note_password(&mut self, side: Side, event: &Event, process: Option<u32>) {
        let (uid, now) = (event.object.uid.to_string(), password(&event.object.object()));
        let now = now.filter(|_| event.kind != ChangeKind::Deleted);
        let before = self.passwords.remove(&uid).map(|(_, before)| before);
        let is_lost = before.is_some() && before != now && event.kind != ChangeKind::Deleted;
        if let Some(process) = process.filter(|_| is_lost) {
            let place = format!("{}/{}", event.key.namespace, event.key.name);
            self.violated("I6b", format!("engine {process} replaces the password in {place}"));
        }
        if let Some(now) = now {
            self.ever_passwords.insert(now.clone());
            self.passwords.insert(uid, (side, now));
        }
    }

    /// How a text shows a value of a Secret.
    fn shown(&self, text: &str) -> Option<&'static str> {
        marks::shown(text).or_else(|| self.ever_passwords.iter().find_map(|made| marks::shown_of(made, text)))
    }

    /// No value of a Secret is anywhere but in the data of a Secret.
    fn check_values(&mut self, process: u32, event: &Event) {
        let mut object = event.object.object();
        let plural = &*event.storage.plural;
        if plural == "secrets" {
            object["data"] = Value::Null;
        }
        if let Some(how) = self.shown(&object.to_string()) {
            let place = format!("{plural} {}/{}", event.key.namespace, event.key.name);
            self.violated("I3", format!("engine {process} writes a value of a Secret {how} into {place}"));
        }
    }

    /// Nor in a URL, or in what else is sent.
    fn check_request(&mut self, process: u32, request: &Request) {
        let call = request.call();
        let mut body = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
        self.ever_passwords.extend(password(&body));
        if call.resource == "secrets" && body.is_object() {
            body["data"] = Value::Null;
        }
        let text = format!("{} {:?} {body}", request.path, request.query);
        if let Some(how) = self.shown(&text) {
            let text =
                format!("engine {process} shows a value of a Secret {how} in a {} of {}", call.verb, call.resource);
            self.violated("I3", text);
        }
    }

    /// Nor in what engines report of themselves.
    pub fn check_report(&mut self, what: &str, text: &str) {
        if let Some(how) = self.shown(text) {
            let line = text.lines().find(|line| self.shown(line).is_some()).unwrap_or_default();
            self.violated("I3", format!("{what} shows a value of a Secret {how}: {line}"));
        }
    }

    /// Nothing of one tenant may be in an object of another.
    fn check_tokens(&mut self, object: &Value, made: &Made, place: &str) {
        let values: Vec<String> =
            object["data"].as_object().into_iter().flatten().map(|(_, value)| read(value)).collect();
        // What is shared names no cluster, and is in the namespace of one.
        let is_of = |cluster: &&String| made.namespace.starts_with(&placement(cluster, "default"));
        let cluster = if made.is_shared { self.tenants.keys().find(is_of) } else { Some(&made.owner.cluster) };
        let tenant = cluster.and_then(|cluster| self.tenants.get(cluster));
        let others = values.iter().filter_map(|value| marks::tenant(value.trim_start_matches(TRANSFORMED)));
        if let Some(other) = others.into_iter().find(|other| tenant.is_some_and(|tenant| tenant != other)) {
            let text = format!("{place} of {} holds a value of a Secret of {other}", made.owner);
            self.violated("I3", text);
        }
        let text = values.join("\n");
        let foreign = self.tokens.iter().find(|(token, owner)| text.contains(*token) && **owner != made.owner.cluster);
        if let Some((token, owner)) = foreign {
            let text = format!("{place} of {} holds {token} of {owner}", made.owner);
            self.violated("I3", text);
        }
    }

    /// An engine's request, `sent` then, was answered. Where it does not hear the answer, at `heard`, it may send the request
    /// again.
    pub fn answered(
        &mut self,
        at: Duration,
        sent: Duration,
        (process, side, host): (u32, Side, &str),
        request: &Request,
        code: u16,
        heard: Option<Duration>,
    ) {
        for (uid, of_target) in std::mem::take(&mut self.just_released) {
            // What arrived a moment before it was sent may have been under way while the engine looked: it has to go later.
            let race = self.race(at);
            let source = self.sources.get(&uid);
            let lets_go = |Made { owner, .. }: &Made| {
                source.is_some_and(|source| source.lets_go_of(&owner.engine, &owner.mapping))
            };
            // What a restore brought back on a server that has been away since then.
            let is_unseen = |made: &Made| self.away.get(&made.side).is_some_and(|since| made.since > *since);
            let remains = |made: &&Made| {
                made.source_uid == uid
                    && !is_unseen(made)
                    && of_target.is_none_or(|target| made.side == target)
                    && made.remains()
                    && made.since + race < sent
                    && !lets_go(made)
                    && !self.is_forgotten(made)
                    && !self.is_out_of_reach(at, made)
            };
            let left: Vec<String> = self.made.values().filter(remains).map(Made::place).collect();
            let is_left = |(_, made): &(&String, &Made)| made.source_uid == uid && self.is_out_of_reach(at, made);
            let beside: Vec<String> = self.made.iter().filter(is_left).map(|(uid, _)| uid.clone()).collect();
            if !left.is_empty() {
                let text = format!("a source or a target is released while these remain: {}", left.join(", "));
                self.violated("I4", text);
            }
            for uid in beside {
                self.made.entry(uid).and_modify(|made| made.is_left = true);
            }
        }
        let call = request.call();
        // The pages of a list are one question.
        if call.verb != Verb::Watch && request.query.get("continue").is_none() {
            *self.asked.entry(format!("{} {} at {}", call.verb, request.path, side.name())).or_default() += 1;
        }
        if call.verb == Verb::List || (call.verb == Verb::Get && call.namespace == RECORDS) {
            // It is connected anew, starts over, or has its state store again: what was refused may be tried again.
            self.changed = at;
        }
        if is_read(call.verb) || call.resource == LEASES {
            return;
        }
        self.count_pace(at, process, side, request);
        if let Some(heard) = heard.filter(|_| code == 429) {
            self.is_told_to_wait(heard, BUSY, (process, host), request);
        }
        match code {
            400 | 403 | 405 | 422 if heard.is_some() => self.count_refusal(at, process, side, request),
            400 | 403 | 405 | 422 => self.has_refused = true,
            409 if call.verb == Verb::Apply || call.verb == Verb::Create && call.resource == "configmaps" => {
                // An object is there: what was refused is another request now.
                self.has_refused = true;
                self.refused.remove(&refused_key(process, side, request));
            }
            429 | 500.. => {}
            _ => *self.carried_out.entry(process).or_default() += 1,
        }
    }
}

/// The password of a Secret for which an engine makes one.
fn password(object: &Value) -> Option<String> {
    let is_made = object["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(MADE.suffix));
    Some(read(&object["data"][READS])).filter(|password| is_made && !password.is_empty())
}

/// The text of a value; what Secrets have is read first.
fn read(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let decoded = data_encoding::BASE64.decode(text.as_bytes()).ok();
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
}

/// Whether an engine drops what it kept for a person: a process that starts without the file of a mapping holds no removal.
fn is_dropped_record(event: &Event) -> bool {
    &*event.key.namespace == RECORDS && event.key.name.ends_with(".held") && event.kind == ChangeKind::Deleted
}
