//! Two mappings on one resource must not write one place of its status, nor let one workspace go; and a mapping must not ask for
//! what its provider does not have.

use crate::compile::overlap;
use crate::{ClusterSelection, Mapping, MappingRemoved, ProviderKind, SourceClusters, SourceVanished};

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

/// The same of any two mappings: those of other sources get along.
pub fn both_write(one: &Mapping, other: &Mapping) -> Option<String> {
    if source_key(one) == source_key(other) { common_status(one, other) } else { None }
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

/// Whether two providers have workspaces of one type in one stage.
pub(super) fn hold_the_same(one: &ProviderKind, other: &ProviderKind) -> bool {
    let types = |kind: &ProviderKind| match kind {
        ProviderKind::WorkspaceTypes(types) => [types.initializing.clone(), types.terminating.clone()],
        _ => [None, None],
    };
    let [one, other] = [types(one), types(other)];
    one.iter().zip(&other).any(|(one, other)| one.is_some() && one == other)
}

/// What a mapping over the workspaces of a type asks for that they do not give, and what to write instead.
pub(super) fn misfit(mapping: &Mapping, kind: &ProviderKind) -> Option<(String, &'static str)> {
    let (source, status, lifecycle) = (&mapping.source, &mapping.status, &mapping.lifecycle);
    let said = |what: &str| format!("the sources are workspaces that are initializing or terminating, and {what}");
    if !source.resource.is_workspace() {
        let help = "write `resource: logicalclusters.v1alpha1.core.kcp.io`: the workspace itself is the source";
        return Some((said(&format!("`{}` is none of them", source.resource)), help));
    }
    if source.selection.is_some() {
        let help = "leave `clusters` out: `selector` and `when` choose workspaces";
        return Some((said("each has a name that nobody chose"), help));
    }
    if let ProviderKind::WorkspaceTypes(types) = kind
        && !mapping.is_beside()
        && types.initializing.is_some()
        && types.terminating != types.initializing
    {
        let help = "name the same type in `terminating`, or write `target: {cluster: source}`";
        return Some((said("objects on another cluster would outlive them"), help));
    }
    if !status.fields.is_empty() || status.condition_types().next().is_some() {
        return Some((said("nobody reads a status there"), "leave `status` out"));
    }
    // Whether a workspace in use still needs what it shares cannot be told.
    if mapping.has_shared() || !mapping.related.is_empty() {
        let help = "leave `shared` and `related` out";
        return Some((said("what they have in common with others is out of sight with them"), help));
    }
    let keeps = lifecycle.on_source_vanished == SourceVanished::Retain
        && lifecycle.on_mapping_removed == MappingRemoved::Retain;
    let help =
        "leave `onSourceVanished` and `onMappingRemoved` out: a workspace that is in use keeps what was made for it";
    (!keeps).then(|| (said("they are out of sight once they are in use"), help))
}

/// What a selection of clusters compares and a provider of these kinds never tells, and what to write instead.
pub(super) fn untold(selection: &ClusterSelection, kinds: &[&ProviderKind]) -> Option<(String, &'static str)> {
    let said = |what: &str| format!("the ClusterProvider `{}` tells no {what} of its clusters", selection.provider);
    if !selection.properties.is_empty() && !kinds.iter().any(|kind| kind.tells_properties()) {
        let help = "`matchProperties` goes with providers that tell properties: `clusterInventory` and `custom`";
        return Some((said("properties"), help));
    }
    let help = "`matchLabels` goes with providers that tell labels: `kubeconfigSecrets`, `clusterApi`, `clusterInventory`, \
                `namespaces` and `custom`";
    let is_untold = !selection.labels.is_empty() && !kinds.iter().any(|kind| kind.tells_labels());
    is_untold.then(|| (said("labels"), help))
}
