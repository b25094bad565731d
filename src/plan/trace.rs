//! Why a source is as it is: the row of the decision table for each of its objects, what would differ, and what it waits for.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decision::{Decision, Verdict};
use super::provenance::{File, Written};
use super::{Observed, Reason, Reasons, live, plan, render};
use crate::mapping::{Mapping, is_within};
use crate::object::marks;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    pub mapping: String,
    /// Of the source; in kcp, the name of the logical cluster.
    pub cluster: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    pub namespace: String,
    pub name: String,
    pub target: String,
    /// When it was observed.
    pub observed: Timestamp,
    pub verdict: Conclusion,
    pub reasons: Vec<Said>,
    /// What is done next.
    pub next: Vec<String>,
    pub objects: Vec<TracedObject>,
    #[serde(flatten)]
    pub past: Past,
}

/// What the decisions on its objects come to for a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conclusion {
    InSync,
    /// Until something else moves.
    Waiting,
    /// Until somebody mends something.
    Blocked,
    /// There is something to do.
    Acting,
    /// It cannot be looked at now: the last decisions tell why.
    Unseen,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// As the condition `Synced` has it.
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracedObject {
    /// In the mapping.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Of the decision table: source; finalizer; object; what the mapping wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Who has an object that is foreign, as far as it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    pub actions: Vec<String>,
    pub reasons: Vec<Said>,
    pub differs: Vec<Differs>,
}

/// A field that is not as the mapping writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Differs {
    /// JSON pointer.
    pub field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Value>,
    /// The line that writes it; empty where the engine does.
    pub place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    pub reads: Vec<String>,
}

/// What the engine remembers of a source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// Since when it follows a document that is not in force yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows_candidate_since: Option<Timestamp>,
    /// Since when it is not in sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub waits_for: Vec<String>,
    /// When it is looked at again, if nothing changes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Timestamp>,
    /// The last of them, in their order.
    pub decisions: Vec<Decided>,
}

/// A decision that was carried out, several times in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    pub first: Timestamp,
    pub last: Timestamp,
    pub times: u64,
    pub actions: Vec<String>,
    pub why: String,
}

fn said(reasons: &Reasons) -> Vec<Said> {
    let said = |reason: &Reason| Said { reason: reason.cause.as_str().to_owned(), message: reason.detail.clone() };
    reasons.0.iter().map(said).collect()
}

impl Trace {
    /// A source of which nothing is observed.
    pub fn unseen(mapping: &str, cluster: &str, (namespace, name): (&str, &str), target: &str, now: Timestamp) -> Self {
        Self {
            mapping: mapping.to_owned(),
            cluster: cluster.to_owned(),
            workspace: None,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            target: target.to_owned(),
            observed: now,
            verdict: Conclusion::Unseen,
            reasons: Vec::new(),
            next: Vec::new(),
            objects: Vec::new(),
            past: Past::default(),
        }
    }

    /// Decides once, and takes down why. `file` is what the mapping was read from.
    pub fn of(mapping: &Mapping, observed: &Observed, file: Option<&File<'_>>, past: Past) -> Self {
        let mut watched = observed.clone();
        let decisions = watched.study.decisions.insert(Arc::default()).clone();
        watched.study.recorder = None;
        let (next, rest) = plan(mapping, &watched).into_steps();
        let decisions = std::mem::take(&mut *decisions.lock());
        let (verdict, reasons) = match &rest {
            // Those of its objects: the plan has something to do first.
            None => (Conclusion::Acting, decisions.iter().flat_map(|decision| said(&decision.reasons)).collect()),
            Some(reasons) if reasons.is_in_sync() => (Conclusion::InSync, Vec::new()),
            Some(reasons) if reasons.is_blocked() => (Conclusion::Blocked, said(reasons)),
            Some(reasons) => (Conclusion::Waiting, said(reasons)),
        };
        let rows = file.map(|file| rows(mapping, observed, file)).unwrap_or_default();
        let target = observed.among.as_ref().map(|among| among.name.clone());
        let pinned = || observed.target.pin.as_ref().map(|pin| pin.connection.clone());
        let (namespace, name) = (&*observed.subject.key.namespace, &*observed.subject.key.name);
        let target = target.or_else(pinned).unwrap_or_else(|| mapping.target.clone());
        Self {
            workspace: observed.consumer.path.clone(),
            verdict,
            reasons,
            next: next.iter().map(ToString::to_string).collect(),
            objects: decisions.into_iter().map(|decision| traced(decision, &rows)).collect(),
            past,
            ..Self::unseen(
                observed.subject.writer.mapping(),
                observed.subject.key.cluster.as_str(),
                (namespace, name),
                &target,
                observed.now,
            )
        }
    }

    /// Whether it is in sync, and nothing is left to do.
    pub fn is_in_sync(&self) -> bool {
        self.verdict == Conclusion::InSync && self.next.is_empty()
    }
}

fn rows(mapping: &Mapping, observed: &Observed, file: &File<'_>) -> Vec<Written> {
    let Some(source) = observed.present() else { return Vec::new() };
    let rendering = render::render(mapping, observed, source);
    rendering.map(|rendering| file.rows(mapping, &rendering)).unwrap_or_default()
}

fn traced(decision: Decision, rows: &[Written]) -> TracedObject {
    let is_foreign = decision.row.is_some_and(|row| row.verdict == Verdict::Conflict);
    let object = decision.reference.as_ref().map(ToString::to_string);
    let of_object: Vec<&Written> = rows.iter().filter(|row| Some(&row.object) == object.as_ref()).collect();
    let differs = match (&decision.desired, &decision.object) {
        (Some(desired), Some(found)) if !is_foreign => differs(desired, found, &of_object),
        _ => Vec::new(),
    };
    TracedObject {
        id: decision.id,
        object,
        row: decision.row.map(|row| row.name.to_owned()),
        verdict: decision.row.map(|row| row.verdict.to_string()),
        holder: decision.object.filter(|_| is_foreign).and_then(|object| marks::holder(&object)),
        actions: decision.actions,
        reasons: said(&decision.reasons),
        differs,
    }
}

/// What the engine writes by itself differs with what the mapping writes, and tells nothing beside it.
fn differs(desired: &Value, found: &Value, rows: &[&Written]) -> Vec<Differs> {
    let all = live::differing(desired, found);
    let (own, mapped): (Vec<String>, Vec<String>) = all.into_iter().partition(|pointer| live::is_ownership(pointer));
    let told = if mapped.is_empty() { own } else { mapped };
    told.into_iter().map(|field| differs_at(field, desired, found, rows)).collect()
}

fn differs_at(field: String, desired: &Value, found: &Value, rows: &[&Written]) -> Differs {
    // The field itself, else the leaf that holds it or the first that it holds.
    let is_near = |row: &&&Written| is_within(&field, &row.pointer) || is_within(&row.pointer, &field);
    let row = rows.iter().find(|row| row.pointer == field).or_else(|| rows.iter().find(is_near));
    // In a list that is merged by key, the item is at another index.
    let is_in_list = field.split('/').any(|segment| segment.parse::<usize>().is_ok());
    Differs {
        wanted: desired.pointer(&field).cloned(),
        found: if is_in_list { None } else { found.pointer(&field).cloned() },
        place: row.map(|row| row.place.clone()).unwrap_or_default(),
        expression: row.and_then(|row| row.expression.clone()),
        reads: row.map(|row| row.reads.clone()).unwrap_or_default(),
        field,
    }
}
