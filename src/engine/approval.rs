//! What the engine keeps at home of the releases of its mappings, in the namespace of the state store: how far each is, and what
//! a person has to approve.
//!
//! How far a release is stands in one ConfigMap of the mapping, written before anything follows from it.
//!
//! The engine writes the *record*: what it holds of a mapping. A person writes the *approval* of what the record shows, with
//! `sync-engine approve`, and the engine only reads it: Kubernetes authenticates, authorizes and audits who approves. An
//! approval names its record by the uid, and the engine deletes the record before it releases anything. So what was approved is
//! released once, by one process, and whatever is held later has another record.
//!
//! A rejection stays beside its record, which is of one edit. Whoever reads home is told of it before anything is released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::inventory::{Inventories, document_hash};
use super::keeper::RETRY;
use super::pipeline::learned::LATE_REQUEST;
use super::{Event, Shared};
use crate::health::Condition;
use crate::multicluster::RequestError;
use crate::multicluster::backoff::Jitter;
use crate::multicluster::connection::Connection;
use crate::object::hash::tuple_hash;
use crate::object::marks::{self, HELD};
use crate::object::metadata;
use crate::release::Held;
use crate::release::waves::{Progress, note};

/// How often an approval is looked for while something is held.
const LOOK: Duration = Duration::from_secs(2);
/// How long it is waited until what is held changes no more, or another process holds nothing else, before it is recorded.
const CHANGES: Duration = Duration::from_secs(60);
/// How often it is looked while a release is open whether home has its record still.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The condition of approvals in readiness.
const COMPONENT: &str = "approvals";

/// Who writes approvals, in managedFields.
const APPROVER: &str = "sync-engine/approve";

const DIGEST_BYTES: usize = 10;

/// What is held of each mapping of which that is known; `None`: nothing.
pub type AllHeld = BTreeMap<String, Option<Held>>;

/// What the engine wrote at home of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub mapping: String,
    pub held: Held,
    pub since: Option<Timestamp>,
    uid: String,
    resource_version: String,
}

impl Record {
    /// What a person approves.
    pub fn digest(&self, engine: &str) -> String {
        self.digest_of(engine, &self.held)
    }

    /// The ConfigMap by which a person decides on what the record shows. It goes with the record.
    pub fn decision(&self, engine: &str, namespace: &str, decision: Decision) -> Value {
        let record = name(engine, &self.mapping, RECORD);
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name(engine, &self.mapping, APPROVAL),
                "namespace": namespace,
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": record, "uid": self.uid}],
            },
            "data": {
                "of": self.mapping,
                "digest": self.digest(engine),
                "approved": json!(self.held).to_string(),
                "decision": decision,
            },
        })
    }

    fn digest_of(&self, engine: &str, held: &Held) -> String {
        let what = json!([held.deletions, held.failing, held.unseen, held.out_of_sight]).to_string();
        tuple_hash([engine, &self.mapping, &self.uid, &held.document, &what], DIGEST_BYTES)
    }

    /// Of the ConfigMap that the engine wrote; `None`: it is no record.
    pub fn read(config_map: &Value) -> Option<Self> {
        let data = |field: &str| config_map["data"][field].as_str();
        Some(Self {
            mapping: data("of")?.to_owned(),
            held: serde_json::from_str(data("held")?).ok()?,
            since: data("since").and_then(|text| text.parse().ok()),
            uid: metadata(config_map, "uid").to_owned(),
            resource_version: metadata(config_map, "resourceVersion").to_owned(),
        })
    }
}

/// What the ConfigMaps' names end with.
const RECORD: &str = "held";
const APPROVAL: &str = "approval";
const RELEASE: &str = "release";

/// Names of the ConfigMaps of a mapping: the record after the approval, for an approval is of a record.
pub fn names(engine: &str, mapping: &str) -> [String; 3] {
    [APPROVAL, RECORD, RELEASE].map(|what| name(engine, mapping, what))
}

fn name(engine: &str, mapping: &str, what: &str) -> String {
    format!("{engine}.{mapping}.{what}")
}

/// What a person decides on what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    Approve,
    /// The edit is not to be released, whatever becomes of what holds it.
    Reject,
}

/// What a person wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Approval {
    digest: String,
    held: Held,
    decision: Decision,
}

impl Approval {
    /// Whether this record was shown to who wrote it, or an earlier version of it.
    fn is_of(&self, record: &Record, engine: &str) -> bool {
        record.digest_of(engine, &self.held) == self.digest
    }
}

/// How far the release of a mapping is, of the ConfigMap that the engine wrote; `None`: it is none of these.
///
/// # Errors
/// It says something else. A later version of the engine may have written that.
fn progress(config_map: &Value) -> Result<Option<Progress>, Problem> {
    let text = config_map["data"]["release"].as_str();
    let unreadable = |why| Problem::Unreadable { name: metadata(config_map, "name").to_owned(), why };
    text.map(|text| serde_json::from_str(text).map_err(unreadable)).transpose()
}

/// Records and approvals of one engine, at home.
#[derive(Debug, Clone)]
pub struct Approvals(pub Inventories);

impl Approvals {
    /// What a person has to decide on, of each mapping that holds something.
    pub async fn records(&self) -> Result<Vec<Record>, RequestError> {
        Ok(self.kept().await?.iter().filter_map(Record::read).collect())
    }

    /// All that the engine keeps here of releases.
    async fn kept(&self) -> Result<Vec<Value>, RequestError> {
        self.0.config_maps(&format!("{HELD}={}", self.0.engine)).await
    }

    /// A ConfigMap that the engine writes over the version that it read: a request that comes late finds another one, or none.
    async fn put(&self, name: &str, known: Option<(&str, &str)>, data: Value) -> Result<Value, RequestError> {
        let mut body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self.0.namespace,
                "labels": {HELD: self.0.engine, marks::MANAGED_BY: marks::MANAGER},
                // Where nothing was read, only a create: no object has the version 1.
                "resourceVersion": "1",
            },
            "data": data,
        });
        if let Some((uid, resource_version)) = known {
            body["metadata"]["uid"] = uid.into();
            body["metadata"]["resourceVersion"] = resource_version.into();
        }
        self.0.ensure_namespace().await?;
        self.0.apply_config_map(name, marks::MANAGER, Bytes::from(body.to_string())).await
    }

    /// Writes how far a release is, over what is `known`; `None`: there is none.
    async fn write_release(
        &self,
        mapping: &str,
        wanted: Option<&Progress>,
        known: Option<&Progress>,
    ) -> Result<(), Problem> {
        let name = self.name(mapping, RELEASE);
        let found = self.0.config_map(&name).await.map_err(Problem::Unread)?;
        if self.is_recorded(mapping, found.as_ref(), wanted, known)? {
            return Ok(());
        }
        let version = found.as_ref().map(|found| (metadata(found, "uid"), metadata(found, "resourceVersion")));
        let written = match (wanted, version) {
            (Some(wanted), version) => {
                let data = json!({"of": mapping, "release": json!(wanted).to_string()});
                self.put(&name, version, data).await.map(drop)
            }
            (None, Some((uid, version))) => self.0.delete_config_map(&name, uid, version).await,
            (None, None) => Ok(()),
        };
        written.map_err(Problem::Unwritten)
    }

    /// Whether home has what is wanted of a release already. A record that is in no list counts as missing: it is written over, or again.
    fn is_recorded(
        &self,
        mapping: &str,
        found: Option<&Value>,
        wanted: Option<&Progress>,
        known: Option<&Progress>,
    ) -> Result<bool, Problem> {
        let there = found.map(progress).transpose()?.flatten();
        let is_listed = found.is_none_or(|found| self.is_listed(found));
        if there.as_ref() == wanted {
            // An answer was lost.
            return Ok(is_listed);
        }
        let is_known = there.as_ref() == known || (known.is_none() && !is_listed);
        if is_known { Ok(false) } else { Err(Problem::Elsewhere(mapping.to_owned())) }
    }

    /// Somebody may have taken the label off.
    fn is_listed(&self, found: &Value) -> bool {
        marks::label(found, HELD) == Some(&*self.0.engine)
    }

    /// What cannot be read, or is in no list, shows nothing that a person could have decided on: another record takes its place.
    async fn record(&self, mapping: &str) -> Result<Option<Record>, RequestError> {
        let name = self.name(mapping, RECORD);
        let Some(found) = self.0.config_map(&name).await? else { return Ok(None) };
        let record = Record::read(&found).filter(|record| record.mapping == mapping && self.is_listed(&found));
        if record.is_none() {
            self.0.delete_config_map(&name, metadata(&found, "uid"), metadata(&found, "resourceVersion")).await?;
        }
        Ok(record)
    }

    /// Writes what is held, over the record that is known.
    async fn write(
        &self,
        mapping: &str,
        held: &Held,
        known: Option<&Record>,
        now: Timestamp,
    ) -> Result<Record, RequestError> {
        let since = known.and_then(|record| record.since).unwrap_or(now);
        let data = json!({"of": mapping, "held": json!(held).to_string(), "since": since.to_string()});
        let known = known.map(|record| (&*record.uid, &*record.resource_version));
        let stored = self.put(&self.name(mapping, RECORD), known, data).await?;
        Record::read(&stored).ok_or_else(|| self.0.endpoint.unreadable(&"what was stored is no record of what is held"))
    }

    /// Deletes exactly this record.
    async fn remove(&self, record: &Record) -> Result<(), RequestError> {
        self.0.delete_config_map(&self.name(&record.mapping, RECORD), &record.uid, &record.resource_version).await
    }

    async fn approval(&self, mapping: &str) -> Result<Option<Approval>, RequestError> {
        let found = self.0.config_map(&self.name(mapping, APPROVAL)).await?;
        Ok(found.and_then(|config_map| {
            let data = |field: &str| config_map["data"][field].as_str();
            let held = serde_json::from_str(data("approved")?).ok()?;
            // Whoever wrote it by hand approves.
            let decision =
                data("decision").map_or(Some(Decision::Approve), |text| serde_json::from_value(text.into()).ok())?;
            Some(Approval { digest: data("digest")?.to_owned(), held, decision })
        }))
    }

    /// A person decides on what a record shows.
    pub async fn decide(&self, record: &Record, decision: Decision) -> Result<(), RequestError> {
        let body = Bytes::from(record.decision(&self.0.engine, &self.0.namespace, decision).to_string());
        self.0.apply_config_map(&self.name(&record.mapping, APPROVAL), APPROVER, body).await.map(drop)
    }

    fn name(&self, mapping: &str, what: &str) -> String {
        name(&self.0.engine, mapping, what)
    }
}

/// Keeps the records, and looks for approvals.
#[derive(Clone)]
pub(super) struct Attendant {
    pub home: Arc<Connection>,
    pub shared: Arc<Shared>,
    pub held: watch::Receiver<AllHeld>,
    pub releases: watch::Receiver<Releases>,
    pub events: mpsc::Sender<Event>,
}

/// How far the releases are to be, by mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Releases {
    /// The term of the lease in which home was read; `None`: it is not known yet.
    pub term: Option<u64>,
    /// How often the engine has asked for what home says to be read anew.
    pub asked: u64,
    pub progress: BTreeMap<String, Progress>,
    /// Mappings of which home says it in a form that this version does not read.
    pub unreadable: BTreeSet<String>,
}

/// Mappings of which there is a record, as far as this process has seen since it leads.
#[derive(Default)]
struct Recorded {
    /// With the uid of the record that shows what this process holds; empty where it was only found there.
    mappings: BTreeMap<String, String>,
    /// What is recorded of releases.
    releases: BTreeMap<String, Progress>,
    /// What cannot be read of that, by mapping.
    unreadable: BTreeMap<String, Problem>,
    /// In which term of the lease they were listed.
    term: Option<u64>,
    /// How often the engine had asked for that.
    asked: u64,
    /// What was written of releases without an answer, and when: it may come late, after it was deleted.
    unanswered: Vec<(String, Progress, Instant)>,
    /// When it was looked whether those of releases are there still.
    looked: Option<Instant>,
    /// How often home was known to be restored when it was last read.
    restored: u64,
    /// The digests of rejections that the engine was told of, by mapping.
    rejected: BTreeMap<String, String>,
    /// What was held at the last look that is not recorded, since when exactly that, and since when anything of that edit.
    unrecorded: BTreeMap<String, (Held, Instant, Instant)>,
}

impl Recorded {
    /// Whether as much was held for `long`. A process that starts counts sources that it does not see yet with all their objects.
    /// What never stops changing is recorded in the end: a person could not approve it otherwise.
    fn is_settled(&mut self, mapping: &str, held: &Held, long: Duration) -> bool {
        let now = Instant::now();
        let (seen, since, first) =
            self.unrecorded.entry(mapping.to_owned()).or_insert_with(|| (held.clone(), now, now));
        if seen.edit() != held.edit() {
            *first = now;
        }
        if seen != held {
            (*seen, *since) = (held.clone(), now);
        }
        since.elapsed() >= long || first.elapsed() >= CHANGES
    }

    /// Whether another process has put what it holds in the place of what this one holds.
    fn is_of_another(&self, there: &Record, held: &Held) -> bool {
        let own = self.mappings.get(&there.mapping).filter(|uid| !uid.is_empty());
        own.is_some_and(|uid| *uid != there.uid) && there.held.edit() != held.edit()
    }

    /// Whether home is to be read: in another term, or because the engine asks for it.
    fn is_outdated(&self, term: u64, asked: u64) -> bool {
        (self.term, self.asked) != (Some(term), asked)
    }

    fn is_unanswered(&self, mapping: &str, progress: &Progress) -> bool {
        self.unanswered.iter().any(|(of, written, _)| (&**of, written) == (mapping, progress))
    }

    /// A record of a release could not be written. One that may still arrive is not known from the answer.
    fn failed(&mut self, mapping: &str, wanted: Option<&Progress>, problem: &Problem) {
        match (problem, wanted) {
            (Problem::Elsewhere(_), _) => self.term = None,
            (Problem::Unwritten(error), Some(wanted))
                if error.may_take_effect() && !self.is_unanswered(mapping, wanted) =>
            {
                self.unanswered.push((mapping.to_owned(), wanted.clone(), Instant::now()));
            }
            _ => {}
        }
    }

    /// Whether home has records of releases, or may come to have some.
    fn has_releases(&self) -> bool {
        !self.releases.is_empty() || !self.unreadable.is_empty() || !self.unanswered.is_empty()
    }

    /// What home has of releases, where these are `wanted`. What came late of one that is over is known from now on: it is deleted.
    /// A record that another process may have written over the known one is read anew. An earlier one is there since a restore, and
    /// is written over, as are all of them where that is known.
    fn found(&mut self, there: BTreeMap<String, Progress>, wanted: &BTreeMap<String, Progress>, is_restored: bool) {
        if is_restored {
            self.releases = there;
            return;
        }
        self.releases.retain(|mapping, _| there.contains_key(mapping));
        for (mapping, found) in &there {
            let Some(known) = self.releases.get(mapping).filter(|known| *known != found) else { continue };
            if self.is_unanswered(mapping, found) {
                continue;
            }
            if found.in_force == known.in_force || found.in_force == document_hash(&known.candidate, "") {
                self.term = None;
            } else {
                self.releases.insert(mapping.clone(), found.clone());
            }
        }
        let is_over = |mapping: &String, progress: &Progress| {
            !wanted.contains_key(mapping) && self.is_unanswered(mapping, progress)
        };
        let late: Vec<_> = there.into_iter().filter(|(mapping, progress)| is_over(mapping, progress)).collect();
        for (mapping, progress) in late {
            self.releases.entry(mapping).or_insert(progress);
        }
    }
}

/// How far releases are, of ConfigMaps at home, and what cannot be read of that. A copy under another name is no record.
fn kept_releases(found: &[Value], engine: &str) -> (BTreeMap<String, Progress>, BTreeMap<String, Problem>) {
    let (mut releases, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
    for config_map in found {
        let of_engine = metadata(config_map, "name").strip_prefix(engine).and_then(|rest| rest.strip_prefix('.'));
        let of_release = of_engine.and_then(|rest| rest.strip_suffix(RELEASE)?.strip_suffix('.'));
        let Some(mapping) = of_release.map(str::to_owned) else { continue };
        match progress(config_map) {
            Ok(Some(progress)) => drop(releases.insert(mapping, progress)),
            Ok(None) => {}
            Err(problem) => drop(unreadable.insert(mapping, problem)),
        }
    }
    (releases, unreadable)
}

impl Attendant {
    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let (mut recorded, mut failures) = (Recorded::default(), 0);
        let mut jitter = Jitter::new(self.home.entropy());
        let (mut leadership, mut restored) = (self.shared.lease.changes(), self.home.restored().follow());
        loop {
            leadership.catch_up();
            restored.catch_up();
            let held = self.held.borrow_and_update().clone();
            let releases = self.releases.borrow_and_update().clone();
            let problems = self.attend(&held, &releases, &mut recorded).await;
            let is_any_held = held.values().any(Option::is_some);
            // A person mends these.
            let is_told = |one: &Problem| matches!(one, Problem::Outdated { .. } | Problem::Beside(_));
            failures = if problems.iter().all(is_told) { 0 } else { failures + 1 };
            let pause = match failures {
                0 if is_any_held => LOOK,
                0 if recorded.has_releases() => LOOK_AGAIN,
                0 => Duration::MAX,
                _ => RETRY.delay(failures, &mut jitter),
            };
            self.report(problems.iter().chain(recorded.unreadable.values()));
            // Cancel-safe: values that count as unseen until they are taken, and a timer. The engine ends this task before
            // it lets go of the other ends.
            tokio::select! {
                Ok(()) = self.held.changed() => {}
                Ok(()) = self.releases.changed() => {}
                () = leadership.advanced() => {}
                () = restored.advanced() => {}
                () = sleep(pause) => {}
            }
        }
    }

    fn report<'p>(&self, problems: impl Iterator<Item = &'p Problem>) {
        let texts: BTreeSet<String> = problems.map(ToString::to_string).collect();
        if texts.is_empty() {
            self.shared.instruments.health.remove(COMPONENT);
            return;
        }
        // That something is held is a condition of the mapping.
        self.shared.instruments.health.set(COMPONENT, Condition::degraded(Vec::from_iter(texts).join("; ")));
    }

    /// Brings the records up to date, and hands on what is approved.
    async fn attend(&self, held: &AllHeld, releases: &Releases, recorded: &mut Recorded) -> Vec<Problem> {
        let term = self.shared.lease.number();
        if !self.shared.lease.is_held() {
            *recorded = Recorded::default();
            return Vec::new();
        }
        if !recorded.is_outdated(term, releases.asked)
            && let Err(problem) = self.look_again(&releases.progress, recorded).await
        {
            return vec![problem];
        }
        if recorded.is_outdated(term, releases.asked) {
            // What was wanted before goes by another record: the engine says what is wanted now.
            return self.read_home(term, releases.asked, recorded).await.err().into_iter().collect();
        }
        let mut problems = Vec::new();
        if releases.term == Some(term) {
            problems.extend(self.record_releases(&releases.progress, recorded).await);
        }
        // What was held before it was unknown, or nothing, says nothing of how long it is held now.
        recorded.unrecorded.retain(|mapping, _| held.get(mapping).is_some_and(Option::is_some));
        for (mapping, held) in held {
            if problems.iter().any(Problem::is_of_all) {
                break;
            }
            let result = match held {
                Some(held) => self.hold(term, mapping, held, recorded).await,
                None if recorded.mappings.contains_key(mapping) => self.end(mapping, recorded).await,
                None => Ok(()),
            };
            problems.extend(result.err());
        }
        problems
    }

    /// Home may have been put back to a moment before a record, or to the record of an earlier release: the record is written anew. Once
    /// that is known, what was over goes too: a process that starts would take it up again.
    async fn look_again(&self, wanted: &BTreeMap<String, Progress>, recorded: &mut Recorded) -> Result<(), Problem> {
        let (now, restored) = (Instant::now(), self.home.restored().now());
        let is_restored = restored != recorded.restored;
        let is_due = recorded.has_releases() && recorded.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN);
        if !is_due && !is_restored {
            return Ok(());
        }
        let found = self.reading().kept().await.map_err(Problem::Unread)?;
        let (there, unreadable) = kept_releases(&found, &self.shared.settings.engine);
        recorded.found(there, wanted, is_restored);
        if is_restored {
            let held = found.iter().filter_map(Record::read);
            recorded.mappings.extend(held.map(|record| (record.mapping, String::new())));
        }
        if !unreadable.keys().eq(recorded.unreadable.keys()) {
            recorded.term = None;
        }
        recorded.unreadable = unreadable;
        recorded.unanswered.retain(|(_, _, at)| now.duration_since(*at) < LATE_REQUEST);
        (recorded.looked, recorded.restored) = (Some(Instant::now()), restored);
        Ok(())
    }

    /// Records how far releases are, and tells of each once it is recorded. What is refused of one holds up no other.
    async fn record_releases(&self, releases: &BTreeMap<String, Progress>, recorded: &mut Recorded) -> Vec<Problem> {
        let mut problems = Vec::new();
        let over = recorded.releases.keys().filter(|mapping| !releases.contains_key(*mapping));
        let over: Vec<(String, Option<&Progress>)> = over.map(|mapping| (mapping.clone(), None)).collect();
        let all = releases.iter().map(|(mapping, progress)| (mapping.clone(), Some(progress)));
        let news = all.filter(|(mapping, progress)| recorded.releases.get(mapping) != *progress);
        for (mapping, progress) in news.chain(over).collect::<Vec<_>>() {
            let Some(approvals) = self.permitted() else { break };
            if let Err(problem) = approvals.write_release(&mapping, progress, recorded.releases.get(&mapping)).await {
                recorded.failed(&mapping, progress, &problem);
                let is_of_all = problem.is_of_all();
                problems.push(problem);
                if is_of_all {
                    break;
                }
                continue;
            }
            note(&mut recorded.releases, &mapping, progress.cloned());
            let _ = self.events.send(Event::ReleaseRecorded(mapping, progress.cloned())).await;
        }
        problems
    }

    /// Nothing is held any more.
    async fn end(&self, mapping: &str, recorded: &mut Recorded) -> Result<(), Problem> {
        let Some(approvals) = self.permitted() else { return Ok(()) };
        approvals.0.delete_as_it_is(&approvals.name(mapping, RECORD)).await.map_err(Problem::Unwritten)?;
        recorded.mappings.remove(mapping);
        Ok(())
    }

    async fn hold(&self, term: u64, mapping: &str, held: &Held, recorded: &mut Recorded) -> Result<(), Problem> {
        let Some(approvals) = self.permitted() else { return Ok(()) };
        let known = approvals.record(mapping).await.map_err(Problem::Unread)?;
        recorded.mappings.entry(mapping.to_owned()).or_default();
        let is_of_another = known.as_ref().is_some_and(|there| recorded.is_of_another(there, held));
        let record = match known {
            // A record that a person may have seen stays.
            Some(record) if held.is_within(&record.held) => record,
            _ if !recorded.is_settled(mapping, held, if is_of_another { CHANGES } else { LOOK }) => {
                return if is_of_another { Err(Problem::Beside(mapping.to_owned())) } else { Ok(()) };
            }
            mut known => {
                // What a person decided on another edit goes with its record.
                if let Some(other) = known.take_if(|known| known.held.edit() != held.edit()) {
                    // If the answer to the write is lost, the record that is there is not known to be another process's.
                    recorded.mappings.insert(mapping.to_owned(), String::new());
                    approvals.remove(&other).await.map_err(Problem::Unwritten)?;
                }
                let written = approvals.write(mapping, held, known.as_ref(), self.shared.settings.clock.now());
                written.await.map_err(Problem::Unwritten)?
            }
        };
        recorded.unrecorded.remove(mapping);
        recorded.mappings.insert(mapping.to_owned(), record.uid.clone());
        let Some(approval) = approvals.approval(mapping).await.map_err(Problem::Unread)? else { return Ok(()) };
        let is_of_record = approval.is_of(&record, &self.shared.settings.engine);
        if approval.decision == Decision::Reject && is_of_record {
            // Both stay: the edit stays held, and a person may approve it later.
            if recorded.rejected.get(mapping) != Some(&approval.digest) {
                recorded.rejected.insert(mapping.to_owned(), approval.digest);
                let _ =
                    self.events.send(Event::Decided(term, mapping.to_owned(), approval.held, approval.decision)).await;
            }
            return Ok(());
        }
        if !is_of_record || !held.is_within(&approval.held) {
            return Err(Problem::Outdated { mapping: mapping.to_owned(), digest: approval.digest });
        }
        // First: whoever looks for it later finds no record that the approval is of.
        approvals.remove(&record).await.map_err(Problem::Unwritten)?;
        recorded.mappings.remove(mapping);
        let _ = self.events.send(Event::Decided(term, mapping.to_owned(), approval.held, approval.decision)).await;
        Ok(())
    }

    /// Tells of what home has, and of what people rejected of that.
    async fn read_home(&self, term: u64, asked: u64, recorded: &mut Recorded) -> Result<(), Problem> {
        let (approvals, engine, restored) = (self.reading(), &self.shared.settings.engine, self.home.restored().now());
        let found = approvals.kept().await.map_err(Problem::Unread)?;
        let (releases, unreadable) = kept_releases(&found, engine);
        let (mut mappings, mut rejections) = (BTreeMap::new(), Vec::new());
        for record in found.iter().filter_map(Record::read) {
            let approval = approvals.approval(&record.mapping).await.map_err(Problem::Unread)?;
            let rejection = approval.filter(|one| one.decision == Decision::Reject && one.is_of(&record, engine));
            rejections.extend(rejection.map(|one| (record.mapping.clone(), one)));
            mappings.insert(record.mapping, String::new());
        }
        let mut rejected = BTreeMap::new();
        // First: once releases are known, an edit that nothing holds any more is released.
        for (mapping, Approval { digest, held, decision }) in rejections {
            rejected.insert(mapping.clone(), digest);
            let _ = self.events.send(Event::Decided(term, mapping, held, decision)).await;
        }
        let (progress, untold) = (releases.clone(), unreadable.keys().cloned().collect());
        let known = Releases { term: Some(term), asked, progress, unreadable: untold };
        let _ = self.events.send(Event::Releases(known)).await;
        let (looked, unanswered) = (Some(Instant::now()), std::mem::take(&mut recorded.unanswered));
        let known = Recorded { mappings, releases, unreadable, term: Some(term), asked, ..Recorded::default() };
        *recorded = Recorded { unanswered, looked, restored, rejected, ..known };
        Ok(())
    }

    /// Who only reads needs no permit.
    fn reading(&self) -> Approvals {
        Approvals(self.shared.inventories(self.home.endpoint()))
    }

    /// `None`: another replica leads.
    fn permitted(&self) -> Option<Approvals> {
        let permit = self.shared.lease.permit()?;
        Some(Approvals(self.shared.inventories(self.home.endpoint().permitted(permit))))
    }
}

/// Why something that is held cannot be approved now.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("approvals and releases cannot be read at home: {0}")]
    Unread(RequestError),
    #[error("what is held, or how far a release is, cannot be recorded at home: {0}")]
    Unwritten(RequestError),
    #[error(
        "the ConfigMap `{name}` says how far a release is, in a form that this version of the engine does not read ({why}): no \
         edit of its mapping is released before a later version runs, or the ConfigMap is deleted"
    )]
    Unreadable { name: String, why: serde_json::Error },
    #[error("another process has recorded how far the release of mapping {0} is: it is read again")]
    Elsewhere(String),
    #[error(
        "another process with this engine id holds another edit of mapping {0}, and `sync-engine approve` shows that for now: \
         give all replicas the same files, and each other engine an id of its own (`--engine-id`)"
    )]
    Beside(String),
    #[error(
        "the approval {digest} of mapping {mapping} is of something else: the document changed, or more is held now. Look \
         again with `sync-engine approve {mapping}`"
    )]
    Outdated { mapping: String, digest: String },
}

impl Problem {
    /// Whether it is of home, or of this process: what else is to be written waits, too.
    fn is_of_all(&self) -> bool {
        match self {
            Self::Unread(error) | Self::Unwritten(error) => error.retryable(),
            Self::Elsewhere(_) | Self::Beside(_) | Self::Unreadable { .. } | Self::Outdated { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::engine;
    use crate::engine::{DEFAULT_TARGET, Engine};
    use crate::multicluster::request_error::Status;
    use crate::release::waves::Stage;

    fn held(document: &str, deletions: &[(&str, usize)]) -> Held {
        let deletions = deletions.iter().map(|(target, number)| ((*target).to_owned(), *number)).collect();
        Held { document: document.to_owned(), deletions, ..Held::default() }
    }

    fn record(uid: &str, held: Held) -> Record {
        Record { mapping: "widgets".into(), held, since: None, uid: uid.into(), resource_version: "7".into() }
    }

    /// Each of the two deleted what the other had written, every few seconds.
    #[test]
    fn what_another_process_put_in_the_place_of_what_this_one_holds_is_known_by_its_record() {
        // The uid of the record that this process keeps, the one that is there and its edit, and whether that is another process's.
        let rows = [
            (None, "2", "b", false),
            (Some(""), "2", "b", false),
            (Some("1"), "1", "b", false),
            (Some("1"), "2", "a wave 2", false),
            (Some("1"), "2", "b", true),
        ];
        for (own, uid, edit, is_of_another) in rows {
            let mappings = own.map(|own: &str| ("widgets".to_owned(), own.to_owned())).into_iter().collect();
            let recorded = Recorded { mappings, ..Recorded::default() };
            let there = record(uid, held(edit, &[]));
            assert_eq!(recorded.is_of_another(&there, &held("a", &[])), is_of_another, "{own:?} {uid} {edit}");
        }
    }

    fn progress(release: &str, in_force: &str) -> Progress {
        Progress {
            release: release.into(),
            in_force: in_force.into(),
            candidate: "b".into(),
            stage: Stage::Released,
            ledger: None,
        }
    }

    /// Sources ask a ledger for another loss at each tick.
    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_recorded_also_where_it_changes_at_each_look() {
        // What is held at each look, and at which of them it is recorded.
        let same = |_: usize| held("a", &[("east", 3)]);
        let other_edits =
            |look: usize| if look < 20 { held("a", &[("east", look)]) } else { held("b", &[("east", look)]) };
        let changing = |look: usize| held("a", &[("east", look)]);
        let rows: [(&dyn Fn(usize) -> Held, usize); 3] = [(&same, 1), (&changing, 30), (&other_edits, 50)];
        for (held_at, recorded_at) in rows {
            let (mut recorded, mut look) = (Recorded::default(), 0);
            while !recorded.is_settled("widgets", &held_at(look), LOOK) {
                tokio::time::advance(LOOK).await;
                look += 1;
            }
            assert_eq!(look, recorded_at);
        }
    }

    /// It was written over as if there were none, and sources of a wave went back. Then it held up all mappings.
    #[test]
    fn what_a_later_version_says_of_a_release_is_not_taken_for_no_release_and_is_of_its_mapping_alone() {
        let config_map = |name: &str, release: &Value| json!({"metadata": {"name": name}, "data": {"of": "widgets", "release": release.to_string()}});
        let (written, mut later) = (progress("a", "b"), json!(progress("c", "d")));
        later["stage"] = json!({"Paused": {"until": "noon"}});
        let (releases, unreadable) = kept_releases(
            &[
                config_map("main.widgets.release", &later),
                config_map("main.gadgets.release", &json!(written)),
                config_map("main.gadgets.release-before", &later),
                json!({"metadata": {"name": "main.gadgets.held"}, "data": {"of": "gadgets", "held": "{}"}}),
            ],
            "main",
        );
        assert_eq!(releases, BTreeMap::from([("gadgets".to_owned(), written)]));
        assert_eq!(unreadable.keys().collect::<Vec<_>>(), ["widgets"]);
        let problem = unreadable["widgets"].to_string();
        assert!(problem.contains("`main.widgets.release`") && problem.contains("Paused"), "{problem}");
    }

    /// Home was read again each second, and told nothing of it.
    #[tokio::test]
    async fn a_record_whose_label_a_person_took_off_is_written_over_or_gets_it_again() {
        let (engine, _received) = engine(&[DEFAULT_TARGET]);
        let approvals = attendant(&engine).reading();
        let (former, wanted) = (progress("former", "a"), progress("wanted", "a"));
        // What is there, whether it has its label, what of it is known, and whether that is what is wanted already.
        let rows = [
            (&former, true, None, None),
            (&former, true, Some(&former), Some(false)),
            (&wanted, true, None, Some(true)),
            (&former, false, None, Some(false)),
            (&former, false, Some(&former), Some(false)),
            (&former, false, Some(&wanted), None),
            (&wanted, false, None, Some(false)),
        ];
        for (there, has_label, known, is_recorded) in rows {
            let labels = if has_label { json!({HELD: "main"}) } else { json!({}) };
            let found = json!({"metadata": {"labels": labels}, "data": {"release": json!(there).to_string()}});
            let found = approvals.is_recorded("widgets", Some(&found), Some(&wanted), known);
            assert_eq!(found.ok(), is_recorded, "{}, {has_label}, {}", there.release, known.is_some());
        }
    }

    #[test]
    fn what_home_refuses_of_one_mapping_holds_up_no_other() {
        let too_large = Status { code: 422, ..Status::default() };
        assert!(!Problem::Unwritten(RequestError::Status(Box::new(too_large))).is_of_all());
        assert!(!Problem::Elsewhere("widgets".into()).is_of_all(), "its record may be one that no list shows");
        let lost = RequestError::AnswerLost { url: "https://home".into(), reason: "the connection broke".into() };
        assert!(Problem::Unwritten(lost).is_of_all(), "each request would last as long");
    }

    fn attendant(engine: &Engine) -> Attendant {
        Attendant {
            home: engine.shared.settings.home_connection().expect("a home").clone(),
            shared: engine.shared.clone(),
            held: engine.all_held.subscribe(),
            releases: engine.releases.subscribe(),
            events: engine.events.clone(),
        }
    }

    /// A record that is written at once may count sources that come into sight a moment later with all their objects.
    #[tokio::test]
    async fn what_was_held_before_it_was_unknown_is_not_held_since_then() {
        let (engine, _received) = engine(&[DEFAULT_TARGET]);
        let attendant = attendant(&engine);
        for (now, stays) in [(None, false), (Some(None), false), (Some(Some(held("a", &[]))), true)] {
            let mut recorded = Recorded { term: Some(engine.shared.lease.number()), ..Recorded::default() };
            recorded.is_settled("widgets", &held("a", &[]), LOOK);
            let all: AllHeld = now.map(|now| ("widgets".to_owned(), now)).into_iter().collect();
            attendant.attend(&all, &Releases::default(), &mut recorded).await;
            assert_eq!(recorded.unrecorded.contains_key("widgets"), stays, "{all:?}");
        }
    }

    /// Each request would wait for the same deadline.
    #[tokio::test]
    async fn home_that_gives_no_answer_is_asked_once_however_much_is_held() {
        let (engine, _received) = engine(&[DEFAULT_TARGET]);
        let attendant = attendant(&engine);
        let all: AllHeld = ["gadgets", "widgets"].map(|mapping| (mapping.to_owned(), Some(held("a", &[])))).into();
        let mut recorded = Recorded { term: Some(engine.shared.lease.number()), ..Recorded::default() };
        let problems = attendant.attend(&all, &Releases::default(), &mut recorded).await;
        assert!(matches!(problems[..], [Problem::Unread(_)]), "{problems:?}");
    }

    #[test]
    fn home_is_read_anew_in_another_term_and_for_an_engine_that_asks() {
        let recorded = Recorded { term: Some(1), asked: 7, ..Recorded::default() };
        for (term, asked, is_outdated) in [(1, 7, false), (2, 7, true), (1, 8, true)] {
            assert_eq!(recorded.is_outdated(term, asked), is_outdated, "{term} {asked}");
        }
        assert!(Recorded::default().is_outdated(0, 0));
    }

    /// Home would be read again and again for what another process has written, or nobody.
    #[test]
    fn what_home_has_refused_does_not_come_late() {
        let refused = RequestError::Status(Box::new(Status { code: 422, ..Status::default() }));
        let never_left = RequestError::Unreachable { url: "https://home".into(), reason: "connection refused".into() };
        let lost = RequestError::AnswerLost { url: "https://home".into(), reason: "the connection broke".into() };
        for (error, may_come) in [(refused, false), (never_left, false), (lost, true)] {
            let (mut recorded, wanted) = (Recorded::default(), progress("wanted", "a"));
            recorded.failed("widgets", Some(&wanted), &Problem::Unwritten(error));
            assert_eq!(recorded.is_unanswered("widgets", &wanted), may_come);
        }
    }

    /// A create that comes after the record was deleted makes it anew, and nothing else would tell.
    #[test]
    fn what_comes_late_is_known_and_what_another_process_wrote_is_not() {
        let progress = |release: &str| progress(release, "a");
        let (mine, other) = ("widgets".to_owned(), "gadgets".to_owned());
        let unanswered = vec![(mine.clone(), progress("late"), Instant::now())];
        let mut recorded = Recorded { unanswered, ..Recorded::default() };
        let there = BTreeMap::from([(mine.clone(), progress("late")), (other.clone(), progress("late"))]);
        let mut found = |there: &BTreeMap<String, Progress>, wanted: &BTreeMap<String, Progress>| {
            recorded.found(there.clone(), wanted, false);
            recorded.releases.keys().cloned().collect::<Vec<_>>()
        };
        let wanted = BTreeMap::from([(mine.clone(), progress("late"))]);
        assert_eq!(found(&there, &wanted), [""; 0], "that it is recorded is still to be told");
        assert_eq!(found(&there, &BTreeMap::new()), std::slice::from_ref(&mine));
        assert_eq!(found(&BTreeMap::new(), &BTreeMap::new()), [""; 0], "home was put back");
        assert_eq!(found(&BTreeMap::from([(mine, progress("of another"))]), &BTreeMap::new()), [""; 0]);
    }

    /// The ledger of a release that was over before the restore is not the one of the release that is under way.
    #[test]
    fn a_restored_record_is_written_over_and_that_of_another_process_is_read() {
        let of = |progress: Progress| BTreeMap::from([("widgets".to_owned(), progress)]);
        let written = progress("written", "a");
        for (there, is_read_anew, is_written_over) in [
            (written.clone(), false, false),
            (progress("unanswered", "z"), false, false),
            (progress("over the same", "a"), true, false),
            (progress("over the candidate", &document_hash("b", "")), true, false),
            (progress("earlier", "z"), false, true),
        ] {
            let unanswered = vec![("widgets".to_owned(), progress("unanswered", "z"), Instant::now())];
            let (releases, term) = (of(written.clone()), Some(1));
            let mut recorded = Recorded { releases, term, unanswered, ..Recorded::default() };
            recorded.found(of(there.clone()), &of(written.clone()), false);
            assert_eq!(recorded.term.is_none(), is_read_anew, "{}", there.release);
            assert_eq!(recorded.releases != of(written.clone()), is_written_over, "{}", there.release);
        }
    }

    /// The process that starts next would take up again what is over, and sources would follow what was refused.
    #[test]
    fn whatever_home_has_since_a_restore_that_is_known_is_written_over() {
        let of = |progress: Progress| BTreeMap::from([("widgets".to_owned(), progress)]);
        let mut recorded = Recorded { releases: of(progress("written", "a")), term: Some(1), ..Recorded::default() };
        let restored = BTreeMap::from([
            ("widgets".to_owned(), progress("over the same", "a")),
            ("gadgets".to_owned(), progress("over", "a")),
        ]);
        recorded.found(restored.clone(), &of(progress("written", "a")), true);
        assert_eq!((recorded.releases, recorded.term), (restored, Some(1)));
    }

    #[test]
    fn an_approval_is_for_one_record_of_one_mapping_and_engine() {
        let one = record("1", held("a", &[("east", 3)]));
        let digest = one.digest("main");
        assert_eq!(digest, record("1", held("a", &[("east", 3)])).digest("main"));
        let others = [
            record("2", one.held.clone()).digest("main"),
            record("1", held("b", &[("east", 3)])).digest("main"),
            record("1", held("a", &[("east", 4)])).digest("main"),
            Record { mapping: "gadgets".into(), ..one.clone() }.digest("main"),
            one.digest("other"),
        ];
        others.iter().for_each(|other| assert_ne!(*other, digest));
    }
}
