//! What is left of a mapping wherever it was: its objects, and the clusters of its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::observe::{owned, reference};
use super::orphans::is_placed;
use super::whole::documents;
use super::{SourceCluster, Surveyor, TargetCluster, Unseen, items};
use crate::engine::compiled;
use crate::engine::inventory::{self, Inventory};
use crate::engine::target::is_removed;
use crate::mapping::{Kind, Mapping, ProviderKind, Resource, Side, SourceClusters};
use crate::multicluster::Endpoint;
use crate::object::marks::{self, Origin, Writer};
use crate::plan::{Phase, TargetObject};

/// What is left of a mapping at one moment.
#[derive(Default)]
pub struct Remains {
    /// The targets that were read completely, by name.
    pub targets: BTreeMap<String, TargetCluster>,
    /// The clusters of all its sources, former ones included, each with the resource that the mapping serves there.
    pub clusters: Vec<(Resource, SourceCluster)>,
    pub objects: Vec<Remnant>,
    /// What cannot be read, and why.
    pub unseen: Vec<String>,
}

/// An object that carries a true self mark of the mapping.
pub struct Remnant {
    pub object: TargetObject,
    pub resource: Resource,
    pub at: Endpoint,
    /// The target or workspace that it is in, for people.
    pub place: String,
    /// The source that it was made for; `None`: several sources share it.
    pub origin: Option<Origin>,
    /// Whether it is in no namespace of its source, where ownership labels and annotations do not count.
    pub is_elsewhere: bool,
}

impl Surveyor {
    /// Looks for everything that is left of a mapping. `store`: what its state stores say together. `targets`: where to look
    /// beside the targets that it names.
    pub async fn remains(&self, mapping: &Mapping, store: &Inventory, targets: &BTreeSet<String>) -> Remains {
        let mut remains = Remains::default();
        self.see_sources(mapping, store, &mut remains).await;
        for name in targets {
            match self.whole_target(mapping, store, name).await {
                // A connection and a provider may lead to one cluster.
                Ok((target, _)) if remains.targets.values().any(|other| other.identity == target.identity) => {}
                Ok((target, unseen)) => {
                    remains.objects.extend(self.on_target(mapping, store, name, &target, &remains.clusters));
                    remains.unseen.extend(unseen.iter().map(|why| format!("target `{name}`: {why}")));
                    if unseen.is_empty() {
                        remains.targets.insert(name.clone(), target);
                    }
                }
                Err(why) => remains.unseen.push(format!("target `{name}`: {why}")),
            }
        }
        self.see_copies(mapping, store, &mut remains).await;
        remains
    }

    async fn see_sources(&self, mapping: &Mapping, store: &Inventory, remains: &mut Remains) {
        let (mut seen, mut places) = (Vec::new(), BTreeSet::new());
        let mut recorded = Vec::new();
        for (source, text) in documents(store) {
            match compiled(text) {
                Some(document) => recorded.push((document, Some(source))),
                // A file may stand for the last one.
                None if *text == *store.document => {}
                None => remains.unseen.push(format!(
                    "the sources of {}: this version cannot use their document in the state store",
                    source.resource
                )),
            }
        }
        // Where no state store tells of the mapping, its file does.
        let file = recorded.is_empty().then_some((mapping, None));
        // The last document first: an APIExport that was created anew is the one that it names.
        let recorded = recorded.iter().rev().map(|(document, source)| (&**document, *source));
        for (document, source) in recorded.chain(file) {
            let (clusters, resource) = (&document.source.clusters, &document.source.resource);
            if seen.contains(&(clusters.clone(), resource.group_plural())) {
                continue;
            }
            seen.push((clusters.clone(), resource.group_plural()));
            if self.are_held_up(clusters) {
                continue;
            }
            let confirmed = match source {
                Some(source) => self.confirm_export(document, source).await,
                None => Ok(()),
            };
            let found = match confirmed {
                Ok(()) => self.sources(document).await.map_err(|why| why.to_string()),
                Err(why) => Err(why),
            };
            match found {
                Ok(found) => {
                    // As the state store names them.
                    if let SourceClusters::ApiExport(export) = clusters {
                        let shards = self.shards(export).await.unwrap_or_default();
                        places.extend(shards.iter().map(|shard| shard.at("/clusters/*").place()));
                    }
                    places.extend(found.iter().map(|cluster| cluster.identity.clone()));
                    remains.clusters.extend(found.into_iter().map(|cluster| (resource.clone(), cluster)));
                }
                Err(why) => remains.unseen.push(format!("the sources of {resource}: {why}")),
            }
        }
        if remains.unseen.is_empty() && !self.are_held_up(&mapping.source.clusters) {
            let name = inventory::name(&self.engine, &mapping.name);
            let lost = |place: &String| {
                format!(
                    "`{place}`, where the mapping served sources, is out of sight (if it is gone for good, take it out of \
                     `clusters` in the ConfigMap `{name}` on each target)"
                )
            };
            remains.unseen.extend(store.clusters.difference(&places).map(lost));
        }
    }

    /// Whether the sources are workspaces that kcp holds up: the engine writes nothing to them.
    fn are_held_up(&self, clusters: &SourceClusters) -> bool {
        let SourceClusters::Provider(provider) = clusters else { return false };
        matches!(self.providers.get(provider), Some(ProviderKind::WorkspaceTypes(_)))
    }

    /// A target with what of the mapping is there, and which kinds cannot be read.
    async fn whole_target(
        &self,
        mapping: &Mapping,
        store: &Inventory,
        name: &str,
    ) -> Result<(TargetCluster, Vec<String>), Unseen> {
        let endpoint = self.endpoint_of(name).await?;
        let target = self.target_of(mapping, endpoint, Ok(store.clone())).await?;
        let mut unseen = Vec::new();
        for kind in target.kinds_of(mapping, Phase::DeletionsOnly) {
            let Err(why) = &target.kinds[kind] else { continue };
            // Where no state store names a kind, nobody knows whether it was served.
            let by_name = || (!store.kinds.contains(kind)).then(|| kind.plural());
            let plural = store.plural(kind).or_else(by_name);
            // With its CustomResourceDefinition, all objects of a kind are gone.
            if !is_removed(&target.endpoint, kind, plural.as_deref()).await.unwrap_or(false) {
                unseen.push(why.to_string());
            }
        }
        Ok((target, unseen))
    }

    fn on_target(
        &self,
        mapping: &Mapping,
        store: &Inventory,
        name: &str,
        target: &TargetCluster,
        clusters: &[(Resource, SourceCluster)],
    ) -> Vec<Remnant> {
        let writer = self.writer(mapping);
        let kinds = target.kinds_of(mapping, Phase::DeletionsOnly);
        let all = owned(target, |at, _| kinds.contains(&at.kind)).into_iter().filter_map(|object| {
            let origin = owner(&writer, &object)?;
            let resource = target.kinds.get(&object.reference.kind)?.as_ref().ok()?.resource.clone();
            let is_elsewhere = origin.as_ref().is_some_and(|origin| {
                let cluster = clusters.iter().map(|(_, cluster)| cluster).find(|one| one.identity == origin.cluster);
                let path = cluster.and_then(|cluster| cluster.path.as_deref());
                !is_placed(mapping, &store.placements, path, origin, &object.reference.namespace)
            });
            let (at, place) = (target.endpoint.clone(), format!("target `{name}`"));
            Some(Remnant { object, resource, at, place, origin, is_elsewhere })
        });
        all.collect()
    }

    /// Objects and copies beside the sources. A kind that a workspace does not let the engine see has none there.
    async fn see_copies(&self, mapping: &Mapping, store: &Inventory, remains: &mut Remains) {
        let writer = self.writer(mapping);
        let label = format!("{}={}", marks::MAPPING, writer.label());
        let kinds: BTreeSet<&Kind> = mapping.objects.iter().map(|rule| &rule.kind).chain(&store.kinds).collect();
        let kinds = kinds.into_iter().filter(|kind| kind.side == Side::Source);
        let mut seen = BTreeSet::new();
        for kind in kinds {
            let resource = kind.resource(&kind.plural());
            for (_, cluster) in &remains.clusters {
                if !seen.insert((kind, &cluster.identity)) {
                    continue;
                }
                match items(&cluster.own, &resource, Some(&label)).await {
                    Ok(found) => remains.objects.extend(found.into_iter().filter_map(|object| {
                        let object = TargetObject::new(reference(kind, &object), Arc::new(object));
                        let origin = owner(&writer, &object)?;
                        let is_here = |origin: &Origin| {
                            origin.cluster == cluster.identity && origin.namespace == object.reference.namespace
                        };
                        let is_elsewhere = !origin.as_ref().is_none_or(is_here);
                        let (at, resource, place) = (cluster.own.clone(), resource.clone(), cluster.place().to_owned());
                        Some(Remnant { object, resource, at, place, origin, is_elsewhere })
                    })),
                    Err(error) if error.kind_not_served() || error.code() == Some(404) => {}
                    Err(error) => remains.unseen.push(format!("{kind} in {}: {error}", cluster.place())),
                }
            }
        }
    }
}

/// Whose an object is: of one source, or of several that share it. `None`: it is foreign, and may be a copy of an owned object.
fn owner(writer: &Writer, object: &TargetObject) -> Option<Option<Origin>> {
    let TargetObject { reference, object, .. } = object;
    let shared = || marks::is_ours(object, reference, &writer.shared_owner(&reference.namespace)).then_some(None);
    marks::origin(writer, object, reference).map(Some).or_else(shared)
}

impl Remains {
    /// Each source, with its cluster and resource.
    pub fn sources(&self) -> impl Iterator<Item = (&Resource, &SourceCluster, &Arc<Value>)> {
        self.clusters
            .iter()
            .flat_map(|(resource, cluster)| cluster.sources.iter().map(move |source| (resource, cluster, source)))
    }
}
