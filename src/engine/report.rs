//! What the engine tells operators of itself in `/readyz` and in the log.

use std::cmp::Reverse;

use serde_json::json;
use tracing::{error, warn};

use super::election::leaders_lease;
use super::events::Event;
use super::inventory;
use super::pipeline::Pipeline;
use super::target::aliases;
use super::{Engine, Settings};
use crate::catalog::{Change, ChangeKind};
use crate::health::{Condition, Level};
use crate::object::{are, count};
use crate::plan::Cause;

/// The condition that names connections to one cluster.
const ALIASES: &str = "connections to one cluster";

impl Engine {
    /// Sources that need somebody's help, and losses that wait for approval, by mapping.
    pub(super) fn report_blocked(&self) {
        // What a replica that stands by knows is from when it led.
        let leads = self.shared.lease.is_held();
        for pipeline in self.running() {
            let (component, mapping) = (sources_component(pipeline), pipeline.writer.mapping());
            let held = self.held_losses(mapping).get(&pipeline.generation().target.name).copied();
            match blocked(pipeline, held).filter(|_| leads) {
                Some(condition) => {
                    let message = condition.message.clone();
                    if self.shared.instruments.health.set(&component, condition) && held.is_some() {
                        self.tell_provider(Some(mapping), true, "LossesHeld", message);
                    }
                }
                None => drop(self.shared.instruments.health.remove(&component)),
            }
        }
    }

    /// A change for the console; and an event of a mapping's state store, or of the engine's Lease, in the home cluster, which the
    /// replica that writes tells.
    pub(super) fn tell_provider(&self, mapping: Option<&str>, is_warning: bool, reason: &str, message: String) {
        let (now, changes) = (self.shared.settings.clock.now(), &self.shared.instruments.changes);
        changes.note(now, mapping.unwrap_or_default(), is_warning, reason, &message);
        let Settings { engine, inventory_namespace: namespace, .. } = &self.shared.settings;
        let Some(home) = self.shared.settings.home_connection() else { return };
        let Some(permit) = self.shared.lease.permit() else { return };
        let (api_version, kind, name) = match mapping {
            Some(mapping) => ("v1", "ConfigMap", inventory::name(engine, mapping)),
            None => ("coordination.k8s.io/v1", "Lease", leaders_lease(engine)),
        };
        self.shared.recorder.tell(&home.endpoint().permitted(permit), || {
            let involved = json!({"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name});
            Some(Event { involved, is_warning, reason: reason.to_owned(), message })
        });
    }

    /// What became of a document. One that has become bad is told by what is wrong with it.
    pub(super) fn tell_change(&self, change: &Change) {
        let name = Some(change.name.as_str());
        let (mapping, reason) = match change.kind {
            ChangeKind::Kept(_) => return,
            ChangeKind::Removed(_) => (name, "DocumentRemoved"),
            ChangeKind::ProviderRemoved => (None, "DocumentRemoved"),
            ChangeKind::ProviderAdded | ChangeKind::ProviderChanged => (None, "DocumentLoaded"),
            _ => (name, "DocumentLoaded"),
        };
        self.tell_provider(mapping, false, reason, change.to_string());
    }

    pub(super) fn say_errors(&self, texts: &[String]) {
        let lost = self.retained.iter().filter(|(name, _)| self.catalog.mapping(name).is_none());
        let mut lost: Vec<(Level, &str)> = lost.map(|(name, known)| (known.trouble(), name.as_str())).collect();
        // The worst first.
        lost.sort_by_key(|(trouble, _)| Reverse(*trouble));
        let condition = documents(texts, &lost);
        let why = condition.message.clone();
        if self.shared.instruments.health.set("mappings", condition) && !lost.is_empty() {
            error!(why, "mappings do not run");
        }
    }

    /// Two connections to one cluster share the locks of its namespaces, but neither watches nor limits: an operator should
    /// know.
    pub(super) fn report_aliases(&self) {
        let pairs = aliases(self.targets.values()).into_iter();
        let pairs: Vec<String> = pairs.map(|(one, other)| format!("`{}` and `{}`", one.name, other.name)).collect();
        let health = &self.shared.instruments.health;
        if pairs.is_empty() {
            health.remove(ALIASES);
            return;
        }
        let why = format!(
            "the connections {} lead to one cluster: it is watched twice, and the limit of requests at a time counts for \
             each of them; name one connection in every mapping",
            pairs.join(", ")
        );
        if health.set(ALIASES, Condition::ready(why.clone())) {
            warn!(why, "connections lead to one cluster");
        }
    }
}

/// What is said of the documents. `lost`: mappings that a state store names, and of which this version can use neither a file nor
/// what is recorded, each with what that means.
fn documents(errors: &[String], lost: &[(Level, &str)]) -> Condition {
    let wrong = format!("{}; the last good versions run:\n{}", count(errors.len(), "error"), errors.join("\n"));
    match (errors, lost) {
        ([], []) => Condition::ready("every document runs as it is written"),
        // What ran before goes on: a broken edit is no reason to take the engine out of service.
        (_, []) => Condition::ready(wrong),
        (_, [(trouble, first), ..]) => {
            let (mappings, are) = (count(lost.len(), "mapping"), are(lost.len()));
            let what = format!(
                "{mappings} {are} not served, deletions included; the first is `{first}`: this version of the engine can use \
                 neither a file of it nor the document in its state store. Run the version that wrote that, or mend the file"
            );
            Condition::of(Err(if errors.is_empty() { what } else { format!("{what}; {wrong}") }), *trouble)
        }
    }
}

/// The name in `/readyz` of what holds up a pipeline's sources.
pub(super) fn sources_component(pipeline: &Pipeline) -> String {
    format!("mapping {}: sources", pipeline.name())
}

/// What an operator has to mend for a mapping's sources: a refused request, a deletion that hangs, losses to approve.
///
/// It degrades and is no more: neither a roll-out nor the drain of a node waits for a tenant, or for one mapping's edit.
/// `held`: how many losses wait for approval.
pub(super) fn blocked(pipeline: &Pipeline, held: Option<usize>) -> Option<Condition> {
    if let Some(held) = held {
        return Some(Condition::degraded(format!(
            "{} would be lost by the changed or removed document without being counted before it was released, more than is left \
             of `release.maxLost`: approve that with `sync-engine approve {mapping}`, or go back to the former document",
            count(held, "object"),
            mapping = pipeline.writer.mapping(),
        )));
    }
    let is_operators =
        |cause: Cause| matches!(cause, Cause::TargetChanged | Cause::Refused | Cause::RequestFailed | Cause::Stuck);
    let (mut blocked, mut first) = (0, None);
    pipeline.each_unsettled(|key, how| {
        if how.cause.is_some_and(is_operators) {
            blocked += 1;
            first.get_or_insert_with(|| (key.clone(), how.why.clone()));
        }
    });
    let (sources, are, (first, why)) = (count(blocked, "source"), are(blocked), first?);
    let first = pipeline.title_of(&first);
    Some(Condition::degraded(format!("{sources} {are} blocked; the first is {first}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As after a roll-back, where both are of a later version: a roll-out that goes on would leave nobody who serves it.
    #[test]
    fn a_mapping_that_no_document_stands_for_is_waited_for_and_a_broken_edit_is_not() {
        let errors = ["db.yaml:3:1: error".to_owned()];
        assert_eq!(documents(&[], &[]).level, Level::Ready);
        assert_eq!(documents(&errors, &[]).level, Level::Ready);
        let lost = documents(&errors, &[(Level::Waiting, "db"), (Level::Degraded, "queue")]);
        let of_fleet = documents(&[], &[(Level::Degraded, "queue")]);
        assert_eq!((lost.level, of_fleet.level), (Level::Waiting, Level::Degraded));
        insta::assert_snapshot!(lost.message, @"
        2 mappings are not served, deletions included; the first is `db`: this version of the engine can use neither a file of it nor the document in its state store. Run the version that wrote that, or mend the file; 1 error; the last good versions run:
        db.yaml:3:1: error
        ");
    }
}
