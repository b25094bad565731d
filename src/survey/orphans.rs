//! What stands on a target for a mapping although no source asks for it: a source that is gone, an object that the mapping
//! no longer has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Rehearsed, SourceCluster, Surveyor, TargetCluster, Unseen, object, rehearse_gone};
use crate::mapping::Mapping;
use crate::multicluster::RequestError;
use crate::object::marks::{self, Reference};
use crate::object::{Key, metadata};
use crate::plan::{Action, Evidence, Rest, Standing};

/// An object that carries a true mark of the engine and the mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    pub reference: Reference,
    pub made_for: MadeFor,
    pub fate: Fate,
    /// Why it stands for nothing, and why that becomes of it.
    pub why: String,
}

/// Whose an object is, by its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MadeFor {
    Source {
        key: Key,
        path: Option<String>,
    },
    /// All sources of its namespace.
    Shared,
}

/// What the engine does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Deleted,
    /// Left standing, without our marks.
    GivenUp,
    /// Left as it stands.
    Kept,
}

/// Finds what no source asks for, and what the engine would do with it; `rehearsed` are the plans of all sources that stand.
///
/// # Errors
/// Of a look at the clusters.
pub async fn orphans(
    surveyor: &Surveyor,
    mapping: &Mapping,
    clusters: &[SourceCluster],
    target: &TargetCluster,
    rehearsed: &[Rehearsed],
) -> Result<Vec<Orphan>, Unseen> {
    let standing = Stranded::among(surveyor, mapping, clusters, target, rehearsed);
    let mut orphans = standing.kept;
    for (key, objects) in standing.sourceless {
        orphans.extend(left_behind(surveyor, mapping, clusters, target, key, objects).await?);
    }
    orphans.sort_by(|one, other| one.reference.cmp(&other.reference));
    Ok(orphans)
}

#[derive(Default)]
struct Stranded {
    /// Of sources that stand: nothing becomes of it now.
    kept: Vec<Orphan>,
    /// By the source that is not there.
    sourceless: BTreeMap<Key, Vec<Standing>>,
}

impl Stranded {
    fn among(
        surveyor: &Surveyor,
        mapping: &Mapping,
        clusters: &[SourceCluster],
        target: &TargetCluster,
        rehearsed: &[Rehearsed],
    ) -> Self {
        let writer = surveyor.writer(mapping);
        let sources: BTreeSet<Key> = clusters.iter().flat_map(keys).collect();
        let in_use: BTreeSet<&str> = rehearsed.iter().filter_map(|one| one.namespace.as_deref()).collect();
        let written: BTreeSet<&Reference> = rehearsed.iter().flat_map(written).collect();
        let mut stranded = Self::default();
        for standing in all(target) {
            if written.contains(&standing.reference) {
                continue;
            }
            let namespace = &standing.reference.namespace;
            match marks::origin(&writer, &standing.object, &standing.reference) {
                Some(key) if !sources.contains(&key) => stranded.sourceless.entry(key).or_default().push(standing),
                Some(key) if !is_known(mapping, &standing) => {
                    let why = format!("{}; it goes with its source", no_such(&standing));
                    stranded.keep(standing.reference.clone(), of(key, &standing), why);
                }
                None if marks::is_ours(&standing.object, &standing.reference, &writer.shared_owner(namespace)) => {
                    if !in_use.contains(namespace.as_str()) {
                        let why =
                            format!("no source needs what is shared in {namespace}, and the last one left without it");
                        stranded.keep(standing.reference, MadeFor::Shared, why);
                    } else if !is_known(mapping, &standing) {
                        let why = format!("{}; it goes with the last source of its namespace", no_such(&standing));
                        stranded.keep(standing.reference, MadeFor::Shared, why);
                    }
                }
                // What is as it should be; and copies, which are nobody's.
                Some(_) | None => {}
            }
        }
        stranded
    }

    fn keep(&mut self, reference: Reference, made_for: MadeFor, why: String) {
        self.kept.push(Orphan { reference, made_for, fate: Fate::Kept, why });
    }
}

fn keys(cluster: &SourceCluster) -> impl Iterator<Item = Key> {
    let key = |source| Key::new(cluster.name.clone(), metadata(source, "namespace"), metadata(source, "name"));
    cluster.sources.iter().map(move |source| key(source))
}

/// What the plan of a source that stands takes away, or takes over: an object can be another of the mapping's now.
fn written(rehearsed: &Rehearsed) -> impl Iterator<Item = &Reference> {
    rehearsed.writes.iter().filter_map(|(action, _)| action.reference())
}

fn all(target: &TargetCluster) -> impl Iterator<Item = Standing> {
    target.standing.iter().flat_map(|(kind, objects)| {
        objects.iter().map(|object: &Arc<Value>| {
            let text = |field| metadata(object, field).to_owned();
            let reference = Reference { kind: kind.clone(), namespace: text("namespace"), name: text("name") };
            Standing::new(reference, object.clone())
        })
    })
}

/// Whether the mapping has an object of this id still, single or several as then.
fn is_known(mapping: &Mapping, standing: &Standing) -> bool {
    mapping.rule(standing.rule_id()).is_some_and(|rule| rule.for_each.is_some() == standing.key().is_some())
}

fn no_such(standing: &Standing) -> String {
    format!("the mapping has no object `{}` any more", standing.object_id())
}

fn of(key: Key, standing: &Standing) -> MadeFor {
    let path = marks::annotation(&standing.object, marks::WORKSPACE).map(str::to_owned);
    MadeFor::Source { key, path }
}

/// What becomes of the objects of a source that is not there: what the planner says to the evidence there is.
async fn left_behind(
    surveyor: &Surveyor,
    mapping: &Mapping,
    clusters: &[SourceCluster],
    target: &TargetCluster,
    key: Key,
    objects: Vec<Standing>,
) -> Result<Vec<Orphan>, Unseen> {
    let evidence = match is_another(surveyor, mapping, target).await? {
        true => Evidence::None("the target's inventory is of another source of the same name".into()),
        false => evidence(mapping, clusters, &key).await?,
    };
    let departed = rehearse_gone(surveyor, mapping, target, key.clone(), evidence.clone()).await?;
    let fate = |reference: &Reference| {
        let of = |action: &&Action| action.reference() == Some(reference);
        match departed.writes.iter().find(of) {
            Some(Action::Delete { .. }) => Fate::Deleted,
            Some(Action::Unmark { .. }) => Fate::GivenUp,
            _ => Fate::Kept,
        }
    };
    let orphan = |standing: Standing| {
        let fate = fate(&standing.reference);
        let why = match (&evidence, &departed.rest) {
            (Evidence::None(why), _) => why.clone(),
            (Evidence::Gone, Some(Rest::Waiting(reasons) | Rest::Blocked(reasons))) if fate == Fate::Kept => {
                format!("its source is gone; {reasons}")
            }
            (Evidence::Gone, _) => "its source is gone".to_owned(),
        };
        Orphan { made_for: of(key.clone(), &standing), reference: standing.reference, fate, why }
    };
    Ok(objects.into_iter().map(orphan).collect())
}

/// Whether what stands was made for another source, of which nothing can be told.
async fn is_another(surveyor: &Surveyor, mapping: &Mapping, target: &TargetCluster) -> Result<bool, Unseen> {
    let recorded = target.inventory.as_ref().map(|inventory| inventory.source.as_str()).unwrap_or_default();
    Ok(!recorded.is_empty() && recorded != surveyor.source_identity(mapping).await?)
}

/// As the engine looks for it: a 404 that names the source, while its collection lists (it did, or nobody would ask) and
/// its workspace is bound.
async fn evidence(mapping: &Mapping, clusters: &[SourceCluster], key: &Key) -> Result<Evidence, RequestError> {
    let Some(cluster) = clusters.iter().find(|cluster| cluster.name == key.cluster && cluster.engaged) else {
        return Ok(Evidence::None("its source is not found, and its workspace or cluster is not seen either".into()));
    };
    Ok(match object(&cluster.own, &mapping.source.resource, &key.namespace, &key.name).await {
        Ok(_) => Evidence::None("its source exists, though the list does not show it".into()),
        Err(error) if error.is_not_found_of(&key.name) => Evidence::Gone,
        Err(error) if error.retryable() => return Err(error),
        Err(error) => Evidence::None(format!("whether its source is gone cannot be told: {error}")),
    })
}
