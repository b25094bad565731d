//! Sources that are pinned to targets, for the verbs that change pins.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, ReplaceOperation};
use serde_json::Value;

use super::arguments::ScopeArguments;
use super::live::{Finding, Outcome, act, path_of};
use super::sources;
use crate::mapping::{Mapping, Resource};
use crate::multicluster::Endpoint;
use crate::object::marks::Writer;
use crate::plan::{guard, pins};
use crate::survey::{Surveyor, Unseen};

/// A source whose annotation pins it to targets.
pub(super) struct Pinned {
    pub writer: Writer,
    pub source: Arc<Value>,
    /// Hash of the target's identity, by connection.
    pub pins: BTreeMap<String, String>,
    mapping: String,
    resource: Resource,
    place: String,
    at: Endpoint,
}

/// The sources of a mapping in a scope that are pinned.
///
/// # Errors
/// Of a read of the clusters.
pub(super) async fn pinned(
    surveyor: &Surveyor,
    mapping: &Mapping,
    scope: &ScopeArguments,
) -> Result<Vec<Pinned>, Unseen> {
    let mut found = Vec::new();
    for cluster in surveyor.sources(mapping).await? {
        found.extend(cluster.sources.iter().filter(|source| scope.includes(source)).map(|source| {
            let writer = surveyor.writer(mapping);
            Pinned {
                pins: pins(&writer, source),
                writer,
                source: source.clone(),
                mapping: mapping.name.clone(),
                resource: mapping.source.resource.clone(),
                place: cluster.place().to_owned(),
                at: cluster.own.clone(),
            }
        }));
    }
    found.retain(|one| !one.pins.is_empty());
    Ok(found)
}

impl Pinned {
    /// Pins it to exactly these targets.
    pub(super) fn pinned_to(&self, pins: &BTreeMap<String, String>) -> Patch {
        let path = PointerBuf::from_tokens(["metadata", "annotations", self.writer.target_annotation()]);
        let replace = ReplaceOperation { path, value: text(pins).into() };
        Patch(vec![guard(&self.source), PatchOperation::Replace(replace)])
    }

    /// Writes the source through the address that the engine writes it through.
    pub(super) async fn write(&self, patch: &Patch) -> Result<(), String> {
        act(&self.at, &path_of(&self.resource, &self.source)?, &self.writer, patch).await.map(drop)
    }

    pub(super) fn finding(&self, outcome: Outcome, reason: &'static str, found: &str) -> Finding {
        Finding {
            outcome,
            mapping: self.mapping.clone(),
            object: sources::title(&self.source),
            source: self.place.clone(),
            reason,
            why: format!("it is pinned to {}; {found}", text(&self.pins)),
        }
    }
}

fn text(pins: &BTreeMap<String, String>) -> String {
    let pins: Vec<_> = pins.iter().map(|(connection, identity)| format!("{connection}={identity}")).collect();
    pins.join(",")
}
