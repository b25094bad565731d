//! The JSON API of the console: what the status page shows, for programs, and which sources are not in sync.
//!
//! `GET /api/v1/status` answers with a [`Status`], `GET /api/v1/sources` with a [`Page`] of [`Source`]s that are not in sync,
//! `GET /api/v1/sources/KEY` with how one is [`TracedSource`]. `GET /api/v1/objects/KIND/NAMESPACE/NAME` names the sources of a target
//! object. `GET /api/v1/changes` is a page of [`Change`](super::changes::Change)s. All of them only read.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::{BoxFuture, join_all};
use serde::{Deserialize, Serialize};

use super::status::{MappingOverview, ProviderOverview, TargetOverview};
use super::{Instruments, Shared};
use crate::catalog::Files;
use crate::object::with_namespace;
use crate::plan::saved::Saved;
use crate::plan::trace::Trace;

/// Most items in one page.
const MOST: usize = 1000;

/// The engine at a glance. Names and counts only: a page without a password must not show a consumer's data.
///
/// The engine publishes it from time to time. Its version, who leads and its conditions are added once somebody asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub engine: String,
    pub version: String,
    /// Which replica leads; missing where there is one replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<Leader>,
    pub mappings: Vec<MappingOverview>,
    pub providers: Vec<ProviderOverview>,
    pub targets: Vec<TargetOverview>,
    /// Those in which something is wrong.
    pub conditions: Vec<Wrong>,
    /// Rendered diagnostics of documents with errors, one text each. An edit that waits is among the conditions.
    pub problems: Vec<String>,
    /// The files of mappings, which no answer shows.
    #[serde(skip)]
    pub files: Arc<Files>,
}

/// Which replica leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The one that answers.
    pub replica: String,
    /// The one that writes; empty where it knows of none.
    pub leader: String,
}

impl Leader {
    /// Whether the replica that answers writes nothing.
    pub fn is_standby(&self) -> bool {
        self.replica != self.leader
    }

    /// In words.
    pub fn words(&self) -> String {
        match self.leader.as_str() {
            "" => format!("replica {} stands by, and knows of no leader yet", self.replica),
            leader => format!("replica {} stands by: {leader} leads", self.replica),
        }
    }
}

/// A condition of `/readyz` in which something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    pub component: String,
    /// `degraded`, or `waiting`: the process is not ready.
    pub level: String,
    pub message: String,
    /// For how long.
    pub seconds: u64,
}

/// A source that is not in sync.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    #[serde(flatten)]
    pub of: SourceName,
    /// The path of its workspace, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// As the condition `Synced` has it.
    pub reason: String,
    pub message: String,
    /// For how long it has not been in sync.
    pub seconds: u64,
}

/// Which sources or changes are meant, as the query names it. All that is not given is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub mapping: Option<String>,
    pub reason: Option<String>,
    /// At most so many, and no more than 1000.
    pub limit: Option<usize>,
    /// `continue` of the page before.
    pub after: Option<String>,
}

/// What is asked for, or a part of it: sources in order of mapping, cluster, namespace and name; changes with the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// For the next page; missing on the last one.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Who knows the sources of a mapping on one target.
pub trait Sources: Send + Sync {
    fn mapping(&self) -> &str;
    /// The name of the target.
    fn target(&self) -> String;
    fn not_synced(&self) -> Vec<Source>;
    /// The sources of an object, as its ownership annotations name them.
    fn owners(&self, object: &ObjectName) -> Vec<SourceName>;
    /// How a source is decided now. `None`: it is not known.
    fn trace(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Option<TracedSource>>;
}

/// A source on one target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceName {
    pub mapping: String,
    /// Of the source; in kcp, the name of the logical cluster.
    pub cluster: String,
    pub namespace: String,
    pub name: String,
    /// The connection of the target.
    pub target: String,
}

/// A target object: its kind as a mapping writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// Which source is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The name of its cluster, or the path of its workspace.
    pub workspace: String,
    pub namespace: String,
    pub name: String,
    /// The file of the mapping, among these.
    pub file: String,
    pub files: Arc<Files>,
    /// Whether what was observed is asked for as well.
    pub is_whole: bool,
}

/// How a source is decided on one target.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TracedSource {
    pub trace: Trace,
    /// What it follows from, without the values of Secrets; missing where nothing could be observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<Saved>,
}

impl Source {
    /// What the page behind this one begins after.
    fn position(&self) -> String {
        let SourceName { mapping, cluster, namespace, name, target } = &self.of;
        // No name has a slash.
        [mapping, cluster, namespace, name, target].map(String::as_str).join("/")
    }
}

impl Filter {
    /// # Errors
    /// Where a parameter is unknown, or is no number.
    fn parse(query: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*name {
                "mapping" => filter.mapping = Some(value),
                "reason" => filter.reason = Some(value),
                "continue" => filter.after = Some(value),
                "limit" => filter.limit = Some(value.parse().map_err(|_| format!("limit: `{value}` is no number"))?),
                other => return Err(format!("`{other}` is none of mapping, reason, limit and continue")),
            }
        }
        Ok(filter)
    }

    /// The size of a page.
    pub fn at_most(&self) -> usize {
        self.limit.unwrap_or(MOST).clamp(1, MOST)
    }

    /// As a query has it.
    pub fn to_query(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        let all = [("mapping", &self.mapping), ("reason", &self.reason), ("limit", &limit), ("continue", &self.after)];
        let given = all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish()
    }
}

/// A page of what is asked for.
fn page(mut all: Vec<Source>, filter: &Filter) -> Page<Source> {
    all.retain(|source| filter.reason.as_ref().is_none_or(|reason| *reason == source.reason));
    let mut placed: Vec<_> = all.into_iter().map(|source| (source.position(), source)).collect();
    placed.sort();
    placed.retain(|(position, _)| filter.after.as_ref().is_none_or(|after| position > after));
    let limit = filter.at_most();
    let more = placed.len() > limit;
    placed.truncate(limit);
    let next = placed.last().filter(|_| more).map(|(position, _)| position.clone());
    Page { items: placed.into_iter().map(|(_, source)| source).collect(), next }
}

pub(super) async fn status(State(shared): State<Shared>) -> Response {
    let Instruments { health, status, .. } = &shared.instruments;
    let wrong = health.standings().into_iter().filter_map(|standing| {
        let level = standing.condition.level.wrong()?;
        let (component, message) = (standing.component, standing.condition.message);
        Some(Wrong { component, level: level.to_owned(), message, seconds: standing.lasted.as_secs() })
    });
    json(&Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        leader: status.leader(),
        conditions: wrong.collect(),
        ..Status::clone(&status.latest())
    })
}

pub(super) async fn sources(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let filter = match Filter::parse(&query.unwrap_or_default()) {
        Ok(filter) => filter,
        Err(why) => return bad_request(&why),
    };
    if let Some(refusal) = of_standby(&shared) {
        return refusal;
    }
    let (known, latest) = (shared.instruments.status.sources(), shared.instruments.status.latest());
    let is_known = |mapping: &String| latest.mappings.iter().any(|one| one.name == *mapping);
    if let Some(mapping) = filter.mapping.as_ref().filter(|mapping| !is_known(mapping)) {
        return no_mapping(&latest, mapping);
    }
    let is_meant = |one: &&Arc<dyn Sources>| filter.mapping.as_ref().is_none_or(|mapping| mapping == one.mapping());
    json(&page(known.iter().filter(is_meant).flat_map(|one| one.not_synced()).collect(), &filter))
}

/// `MAPPING/WORKSPACE/NAMESPACE/NAME`, with an empty namespace where there is none.
pub(super) async fn source(
    State(shared): State<Shared>,
    Path(key): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let [mapping, workspace, namespace, name] = key.split('/').collect::<Vec<_>>()[..] else {
        return not_found("a source is MAPPING/WORKSPACE/NAMESPACE/NAME");
    };
    let (mut target, mut is_whole) = (None, false);
    for (parameter, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match &*parameter {
            "target" => target = Some(value.into_owned()),
            "saved" => is_whole = value == "true",
            other => return bad_request(&format!("`{other}` is none of target and saved")),
        }
    }
    let status = &shared.instruments.status;
    let latest = status.latest();
    let Some(of) = latest.mappings.iter().find(|one| one.name == mapping) else {
        return no_mapping(&latest, mapping);
    };
    if let Some(refusal) = of_standby(&shared) {
        return refusal;
    }
    let [workspace, namespace, name] = [workspace, namespace, name].map(str::to_owned);
    let (file, files) = (of.origin.clone(), latest.files.clone());
    let asked = Asked { workspace, namespace, name, file, files, is_whole };
    let is_meant = |one: &Arc<dyn Sources>| {
        one.mapping() == mapping && target.as_ref().is_none_or(|target| *target == one.target())
    };
    let known = status.sources().into_iter().filter(is_meant).map(|one| one.trace(asked.clone()));
    let items: Vec<TracedSource> = join_all(known).await.into_iter().flatten().collect();
    if items.is_empty() {
        let Asked { workspace, namespace, name, .. } = asked;
        let what = "no source that it knows or watches has this name; a workspace goes by its path, such as root:acme, or its cluster";
        let how = if namespace.is_empty() { ", and a source with a namespace by NAMESPACE/NAME" } else { "" };
        let title = with_namespace(&namespace, &name);
        return not_found(&format!("mapping `{mapping}`, workspace `{workspace}`, `{title}`: {what}{how}"));
    }
    json(&Page { items, next: None })
}

pub(super) async fn changes(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let page = Filter::parse(&query.unwrap_or_default()).and_then(|filter| shared.instruments.changes.page(&filter));
    match page {
        Ok(page) => json(&page),
        Err(why) => bad_request(&why),
    }
}

/// The sources of a target object: `KIND/NAMESPACE/NAME`, with an empty namespace where there is none.
pub(super) async fn object(State(shared): State<Shared>, Path(key): Path<String>) -> Response {
    let [kind, namespace, name] = key.split('/').collect::<Vec<_>>()[..] else {
        return not_found("an object is KIND/NAMESPACE/NAME");
    };
    let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
    let object = ObjectName { kind, namespace, name };
    let known = shared.instruments.status.sources();
    let owners: BTreeSet<SourceName> = known.iter().flat_map(|one| one.owners(&object)).collect();
    if owners.is_empty() {
        let ObjectName { kind, namespace, name } = object;
        let name = with_namespace(&namespace, &name);
        return not_found(&format!("no source of this engine has the object {kind} {name}"));
    }
    json(&Page { items: owners.into_iter().collect(), next: None })
}

/// Who stands by plans nothing, and cannot tell what is in sync.
fn of_standby(shared: &Shared) -> Option<Response> {
    let leader = shared.instruments.status.leader().filter(Leader::is_standby)?;
    Some((StatusCode::CONFLICT, format!("{}; ask the leader\n", leader.words())).into_response())
}

fn no_mapping(latest: &Status, mapping: &str) -> Response {
    let known: Vec<&str> = latest.mappings.iter().map(|one| one.name.as_str()).collect();
    not_found(&format!("there is no mapping `{mapping}`; this engine has: {}", known.join(", ")))
}

fn not_found(why: &str) -> Response {
    (StatusCode::NOT_FOUND, format!("{why}\n")).into_response()
}

fn bad_request(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response()
}

fn json(document: &impl Serialize) -> Response {
    match serde_json::to_string(document) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn source(name: &str, reason: &str) -> Source {
        let [mapping, cluster, namespace, name, target] = ["m", "c", "n", name, "target"].map(str::to_owned);
        let of = SourceName { mapping, cluster, namespace, name, target };
        Source { of, workspace: None, reason: reason.to_owned(), message: String::new(), seconds: 1 }
    }

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let all: Vec<Source> = (0..25).map(|number| source(&format!("s{number:02}"), "Conflict")).rev().collect();
        let mut filter = Filter { limit: Some(10), ..Filter::default() };
        let mut names = Vec::new();
        loop {
            let page = page(all.clone(), &filter);
            assert!(page.items.len() <= 10);
            names.extend(page.items.into_iter().map(|source| source.of.name));
            let Some(next) = page.next else { break };
            filter.after = Some(next);
        }
        assert_eq!(names, (0..25).map(|number| format!("s{number:02}")).collect::<Vec<_>>());
    }

    #[test]
    fn a_filter_is_read_as_it_is_written() {
        let filter = Filter {
            mapping: Some("a b&c".to_owned()),
            limit: Some(7),
            after: Some("m/c/n/s".to_owned()),
            ..Filter::default()
        };
        assert_eq!(Filter::parse(&filter.to_query()), Ok(filter));
        assert!(Filter::parse("limit=x").is_err() && Filter::parse("reasons=x").is_err());
    }

    #[test]
    fn a_reason_is_asked_for_by_its_name() {
        let all = vec![source("a", "Conflict"), source("b", "Refused")];
        let filter = Filter { reason: Some("Refused".to_owned()), ..Filter::default() };
        let Page { items, next } = page(all, &filter);
        assert_eq!((items.len(), items[0].of.name.as_str(), next), (1, "b", None));
    }
}
