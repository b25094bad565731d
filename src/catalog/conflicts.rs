//! Two mappings on one resource must not write one place of its status.

use crate::mapping::compile::overlap;
use crate::mapping::{Mapping, SourceClusters};

/// What both mappings would write, in words; `None` where they get along.
pub(super) fn common_status(one: &Mapping, other: &Mapping) -> Option<String> {
    if !same_source(one, other) {
        return None;
    }
    let paths = |mapping: &Mapping| -> Vec<String> {
        mapping.status.fields.iter().map(|field| field.target.join(".")).collect()
    };
    let others = paths(other);
    if let Some(path) = paths(one).into_iter().find(|path| others.iter().any(|other| overlap(path, other))) {
        return Some(format!("status field `{path}`"));
    }
    let conditions = &other.status.conditions;
    let shared = one.status.conditions.iter().find(|rule| conditions.iter().any(|other| other.kind == rule.kind));
    if let Some(rule) = shared {
        return Some(format!("condition `{}`", rule.kind));
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

fn same_source(one: &Mapping, other: &Mapping) -> bool {
    let (a, b) = (&one.source.resource, &other.source.resource);
    a.group == b.group && a.plural == b.plural && same_clusters(&one.source.clusters, &other.source.clusters)
}

/// The endpoint slice is a way to an export, not another export.
fn same_clusters(one: &SourceClusters, other: &SourceClusters) -> bool {
    match (one, other) {
        (SourceClusters::ApiExport(a), SourceClusters::ApiExport(b)) => {
            (&a.connection, &a.path, &a.name) == (&b.connection, &b.path, &b.name)
        }
        _ => one == other,
    }
}
