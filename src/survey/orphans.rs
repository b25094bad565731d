//! Objects on a target that belong to a mapping although no source asks for them: what the engine keeps and reports as
//! orphaned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::observe::owned;
use super::{Rehearsed, SourceCluster, Surveyor, Unseen, Whole, find};
use crate::mapping::{Mapping, placement};
use crate::multicluster::RequestError;
use crate::object::marks::{self, Origin, Reference};
use crate::object::{Key, has_finalizer, metadata, with_namespace};
use crate::plan::{Cause, Phase, TargetObject, render};

/// An object that carries a true self mark of the engine and the mapping.
#[derive(Debug, Clone)]
pub struct Orphan {
    pub object: TargetObject,
    /// The source that it was made for; `None`: it is shared by the sources of its namespace.
    pub origin: Option<Origin>,
    /// Path of the source's workspace, where it was known.
    pub path: Option<String>,
    pub reason: OrphanReason,
    /// What was found, in words.
    pub why: String,
}

crate::mapping::words! {
    /// Why an object is orphaned.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum OrphanReason {
        /// Its source is missing, and the engine did not see its deletion.
        SourceMissing = "SourceMissing",
        /// The workspace or cluster of its source is not seen.
        ClusterUnseen = "ClusterUnseen",
        /// It was made for another resource than the mapping's.
        OtherResource = "OtherResource",
        /// The mapping has no object of its id any more.
        Dropped = "Dropped",
        /// Its source has no use for it: the source is not selected, or was created anew.
        NotWanted = "NotWanted",
        /// No source needs what is shared there.
        NotShared = "NotShared",
        /// It is in no namespace of its source: whoever can write on the target can have put it there.
        OtherNamespace = "OtherNamespace",
    }
}

impl Orphan {
    /// `widgets default/a of root:acme`
    pub fn source(&self) -> String {
        let Some(origin) = &self.origin else { return format!("all in {}", self.object.reference.namespace) };
        let place = self.path.as_deref().unwrap_or(&origin.cluster);
        let plural = origin.resource.split('.').next().unwrap_or_default();
        format!("{plural} {} of {place}", with_namespace(&origin.namespace, &origin.name))
    }
}

/// Finds what no source asks for.
///
/// # Errors
/// Of a read of the clusters.
pub async fn orphans(surveyor: &Surveyor, mapping: &Mapping, whole: &Whole) -> Result<Vec<Orphan>, Unseen> {
    let Whole { target, rehearsed, .. } = whole;
    let plans: Plans<'_> = rehearsed.iter().map(|one| (&one.key, one)).collect();
    let writer = surveyor.writer(mapping);
    let in_use: BTreeSet<&String> = rehearsed.iter().flat_map(|one| &one.uses.places).collect();
    let mut written: Vec<&Reference> = rehearsed.iter().flat_map(written).collect();
    written.sort_by(|one, other| one.order_in_any_version(other));
    let is_written = |at: &Reference| written.binary_search_by(|one| one.order_in_any_version(at)).is_ok();
    let kinds = target.kinds_of(mapping, Phase::DeletionsOnly);
    let (mut orphans, mut may_use) = (Vec::new(), BTreeSet::new());
    for object in owned(target, |at, _| kinds.contains(&at.kind) && !is_written(at)) {
        let namespace = &object.reference.namespace;
        let origin = marks::origin(&writer, &object.object, &object.reference);
        let found = match &origin {
            Some(origin) if !is_placed(mapping, placements(whole), path_of(whole, origin), origin, namespace) => {
                let why = "it is in no namespace of its source, where ownership labels and annotations do not count";
                Some((OrphanReason::OtherNamespace, why.to_owned()))
            }
            // The engine serves sources of an earlier document to their end.
            Some(origin) if whole.former.iter().any(|former| former.may_have(origin)) => None,
            Some(origin) => of_source(surveyor, mapping, (whole, &plans), &object, origin).await?,
            None if marks::is_ours(&object.object, &object.reference, &writer.shared_owner(namespace)) => {
                let unused = format!("no source needs what is shared in {namespace}");
                (!in_use.contains(namespace)).then_some((OrphanReason::NotShared, unused)).or_else(|| {
                    let why = format!("{}; it goes with the last source of its namespace", no_such(&object));
                    (!is_known(mapping, &object)).then_some((OrphanReason::Dropped, why))
                })
            }
            // A copy of an owned object is not owned.
            None => None,
        };
        // A source that cannot be seen may use what is shared beside its objects: its workspace may give their namespace.
        let is_unseen = |reason| matches!(reason, OrphanReason::ClusterUnseen | OrphanReason::OtherNamespace);
        if origin.is_some() && found.as_ref().is_none_or(|(reason, _)| is_unseen(*reason)) {
            may_use.insert(namespace.clone());
        }
        if let Some((reason, why)) = found {
            let path = marks::annotation(&object.object, marks::WORKSPACE).map(str::to_owned);
            orphans.push(Orphan { object, origin, path, reason, why });
        }
    }
    orphans.retain(|one: &Orphan| {
        one.reason != OrphanReason::NotShared || !may_use.contains(&one.object.reference.namespace)
    });
    orphans.sort_by(|one, other| one.object.reference.cmp(&other.object.reference));
    Ok(orphans)
}

fn placements(whole: &Whole) -> impl Iterator<Item = &String> {
    whole.target.inventory.iter().flat_map(|store| &store.placements)
}

/// Path of the workspace of a source, where it is seen.
fn path_of<'w>(whole: &'w Whole, origin: &Origin) -> Option<&'w str> {
    whole.clusters.iter().find(|one| one.identity == origin.cluster)?.path.as_deref()
}

/// Whether the namespace is one that the mapping, now or in an earlier document, gives for a source.
pub(super) fn is_placed<'p>(
    mapping: &Mapping,
    placements: impl IntoIterator<Item = &'p String>,
    workspace_path: Option<&str>,
    origin: &Origin,
    namespace: &str,
) -> bool {
    let rules: Vec<_> = placements.into_iter().filter_map(|text| placement::rule(text)).map(Arc::new).collect();
    render::namespaces_of(mapping, &rules, origin, workspace_path).contains(namespace)
}

/// The plans of all sources.
type Plans<'r> = BTreeMap<&'r Key, &'r Rehearsed>;

/// Why an object of a source is orphaned. Both sides are read afresh: a source that exists has no orphans by being missing.
async fn of_source(
    surveyor: &Surveyor,
    mapping: &Mapping,
    (whole, plans): (&Whole, &Plans<'_>),
    object: &TargetObject,
    origin: &Origin,
) -> Result<Option<(OrphanReason, String)>, RequestError> {
    if origin.resource != mapping.source.resource.group_plural() {
        let why =
            format!("it was made for {}, and the mapping now serves {}", origin.resource, mapping.source.resource);
        return Ok(Some((OrphanReason::OtherResource, why)));
    }
    let cluster = whole.clusters.iter().find(|one| one.identity == origin.cluster);
    if let Some(rehearsed) = cluster.and_then(|cluster| of(plans, cluster, origin)) {
        return Ok(of_living_source(surveyor, mapping, rehearsed, object));
    }
    let Some(cluster) = cluster.filter(|cluster| cluster.engaged) else {
        let why = "the workspace or cluster of its source is not seen".to_owned();
        return Ok(Some((OrphanReason::ClusterUnseen, why)));
    };
    match find(&cluster.own, &mapping.source.resource, &origin.namespace, &origin.name).await {
        Ok(Some(_)) => Ok(None),
        Ok(None) => {
            let why = "its source is missing, and nobody saw it being deleted".to_owned();
            Ok(Some((OrphanReason::SourceMissing, why)))
        }
        Err(error) if error.retryable() => Err(error),
        Err(error) => {
            Ok(Some((OrphanReason::ClusterUnseen, format!("whether its source is missing cannot be told: {error}"))))
        }
    }
}

/// Why an object of a source that exists is orphaned.
fn of_living_source(
    surveyor: &Surveyor,
    mapping: &Mapping,
    rehearsed: &Rehearsed,
    object: &TargetObject,
) -> Option<(OrphanReason, String)> {
    if !is_known(mapping, object) {
        return Some((OrphanReason::Dropped, format!("{}; it goes with its source", no_such(object))));
    }
    let (source, after) = &rehearsed.source;
    let is_orphaned = rehearsed.rest.as_ref()?.0.iter().any(|reason| reason.cause == Cause::Orphaned);
    let is_earlier = object.source_uid() != metadata(source, "uid");
    let is_released = !has_finalizer(after, surveyor.writer(mapping).finalizer());
    let why = match is_earlier {
        true => "it was made for an earlier source of the same name",
        false => "its source does not pass the mapping's filter",
    };
    (is_orphaned && (is_earlier || is_released)).then(|| (OrphanReason::NotWanted, why.to_owned()))
}

/// The plan of a source.
fn of<'r>(plans: &Plans<'r>, cluster: &SourceCluster, origin: &Origin) -> Option<&'r Rehearsed> {
    let key = Key::new(cluster.name.clone(), origin.namespace.as_str(), origin.name.as_str());
    plans.get(&key).copied()
}

/// What the plan of a source that stands takes away, or takes over: an object can be another of the mapping's now.
fn written(rehearsed: &Rehearsed) -> impl Iterator<Item = &Reference> {
    rehearsed.writes.iter().filter_map(|write| write.action.reference())
}

/// Whether the mapping has an object of this id still, single or several as then.
fn is_known(mapping: &Mapping, object: &TargetObject) -> bool {
    mapping.rule(object.rule_id()).is_some_and(|rule| rule.for_each.is_some() == object.key().is_some())
}

fn no_such(object: &TargetObject) -> String {
    format!("the mapping has no object `{}` any more", object.object_id())
}
