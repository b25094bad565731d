//! Two mappings on one resource must not write one place of its status.

use crate::mapping::compile::overlap;
use crate::mapping::{Mapping, SourceClusters};

/// What a mapping watches: the clusters, the resource's group and its plural.
pub(super) type SourceKey = (SourceClusters, String, String);

pub(super) fn source_key(mapping: &Mapping) -> SourceKey {
    let mut clusters = mapping.source.clusters.clone();
    if let SourceClusters::ApiExport(export) = &mut clusters {
        // A way to the export, not another export.
        export.endpoint_slice = None;
    }
    let resource = &mapping.source.resource;
    (clusters, resource.group.clone(), resource.plural.clone())
}

/// Whether a mapping writes status at all: one that does not gets along with any number of others.
pub(super) fn writes_status(mapping: &Mapping) -> bool {
    let status = &mapping.status;
    !status.fields.is_empty()
        || status.condition_types().next().is_some()
        || !status.engine_conditions.is_empty()
        || status.observed_generation
}

/// What two mappings of one source would both write, in words; `None` where they get along.
pub(super) fn common_status(one: &Mapping, other: &Mapping) -> Option<String> {
    let paths = |mapping: &Mapping| -> Vec<String> {
        mapping.status.fields.iter().map(|field| field.target.join(".")).collect()
    };
    let others = paths(other);
    if let Some(path) = paths(one).into_iter().find(|path| others.iter().any(|other| overlap(path, other))) {
        return Some(format!("status field `{path}`"));
    }
    let mut common = one.status.condition_types().filter(|kind| other.status.condition_types().any(|o| o == *kind));
    if let Some(kind) = common.next() {
        return Some(format!("condition `{kind}`"));
    }
    if !one.status.engine_conditions.is_empty() && !other.status.engine_conditions.is_empty() {
        return Some("condition `Synced`".into());
    }
    (one.status.observed_generation && other.status.observed_generation).then(|| "`observedGeneration`".into())
}

/// How the newcomer gets along.
pub(super) fn remedy(common: &str) -> &'static str {
    match common {
        "condition `Synced`" | "`observedGeneration`" => {
            "one of the two sets `status: {engineConditions: [], observedGeneration: Off}`"
        }
        _ => "let one of the two mappings write it",
    }
}
