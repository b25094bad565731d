//! Everything of one mapping at one moment: its sources, its target, and what the engine would do for each source.

use std::sync::Arc;

use serde_json::Value;

use super::orphans::Orphan;
use super::{Rehearsed, Scene, SourceCluster, Surveyor, TargetCluster, Unseen, by_namespace, find, items};
use crate::catalog::have_same_effect;
use crate::engine::consumer_schema::ConsumerSchemas;
use crate::engine::inventory::{Inventory, SourceId};
use crate::engine::{SharedUse, compiled};
use crate::mapping::{Mapping, SourceClusters};
use crate::multicluster::RequestError;
use crate::object::marks::{self, Origin, Owner};
use crate::object::metadata;
use crate::plan::{Cause, TargetObject};

/// A mapping's clusters at one moment.
pub struct Whole {
    pub clusters: Vec<SourceCluster>,
    pub target: TargetCluster,
    /// The plan of each source.
    pub rehearsed: Vec<Rehearsed>,
    /// Sources that earlier documents of the mapping served.
    pub former: Vec<Former>,
}

/// Sources that an earlier document of a mapping served. Their objects are kept for as long as they exist.
#[derive(Clone)]
pub struct Former {
    /// `plural.group`.
    pub resource: String,
    /// Where they are now, or why that cannot be told.
    pub clusters: Result<Vec<SourceCluster>, String>,
}

impl Former {
    /// Whether the source of an object can still exist there.
    pub fn may_have(&self, origin: &Origin) -> bool {
        let is_source = |source: &Arc<Value>| {
            metadata(source, "namespace") == origin.namespace && metadata(source, "name") == origin.name
        };
        let has = |cluster: &SourceCluster| cluster.identity == origin.cluster && cluster.sources.iter().any(is_source);
        self.resource == origin.resource && self.clusters.as_ref().map_or(true, |all| all.iter().any(has))
    }
}

impl Surveyor {
    /// Reads everything of a mapping.
    ///
    /// # Errors
    /// Of a read of the clusters.
    pub async fn whole(&self, schemas: &ConsumerSchemas, mapping: &Mapping) -> Result<Whole, Unseen> {
        let target = self.target_with_past(mapping).await?;
        let clusters = self.sources(mapping).await?;
        let rehearsed = self.rehearse_together(schemas, mapping, &clusters, &target).await?;
        let former = self.former(mapping, &target).await;
        Ok(Whole { clusters, target, rehearsed, former })
    }

    /// What becomes of each source by another document of the mapping, for which everything was read. Gives no plan where that
    /// is the same document.
    ///
    /// # Errors
    /// Of a read of the clusters.
    pub async fn by_document_in_force(
        &self,
        schemas: &ConsumerSchemas,
        mapping: &Mapping,
        whole: &Whole,
    ) -> Result<Option<(Arc<Mapping>, Vec<Rehearsed>)>, Unseen> {
        let document = whole.target.inventory.as_ref().ok().and_then(|inventory| compiled(&inventory.document));
        let another =
            |one: &Arc<Mapping>| one.source.resource == mapping.source.resource && !have_same_effect(one, mapping);
        let Some(document) = document.filter(another) else { return Ok(None) };
        let rehearsed = self.rehearse_together(schemas, &document, &whole.clusters, &whole.target).await?;
        Ok(Some((document, rehearsed)))
    }

    /// What an object's orphanhood depends on, read afresh: the object, all others of its source, and the source. Where
    /// its source is not known to be in a cluster of the mapping, that is everything.
    ///
    /// # Errors
    /// Of a read of the clusters.
    pub async fn afresh(
        &self,
        schemas: &ConsumerSchemas,
        mapping: &Mapping,
        (whole, orphan): (&Whole, &Orphan),
    ) -> Result<Whole, Unseen> {
        let Some((origin, cluster)) = whole.place_of(mapping, orphan) else {
            return self.whole(schemas, mapping).await;
        };
        let owner = self.writer(mapping).owner(origin);
        let target = whole.target.afresh(&owner, &orphan.object).await?;
        let resource = &mapping.source.resource;
        let source = find(&cluster.own, resource, &origin.namespace, &origin.name).await?;
        let clusters = vec![SourceCluster { sources: source.into_iter().map(Arc::new).collect(), ..cluster.clone() }];
        let rehearsed = self.rehearse_all(schemas, mapping, &clusters, &target, None).await?;
        Ok(Whole { clusters, target, rehearsed, former: whole.former.clone() })
    }

    /// What becomes of all sources: once the plan of each tells what it uses, it is known who is the last user of what they
    /// share.
    async fn rehearse_together(
        &self,
        schemas: &ConsumerSchemas,
        mapping: &Mapping,
        clusters: &[SourceCluster],
        target: &TargetCluster,
    ) -> Result<Vec<Rehearsed>, Unseen> {
        let rehearsed = self.rehearse_all(schemas, mapping, clusters, target, None).await?;
        let asks = |one: &Rehearsed| one.rest.iter().flat_map(|rest| &rest.0).any(|why| why.cause == Cause::Unknown);
        if !rehearsed.iter().any(asks) {
            return Ok(rehearsed);
        }
        let mut shared = SharedUse::default();
        for one in &rehearsed {
            shared.seen(&one.key, &one.uses);
        }
        self.rehearse_all(schemas, mapping, clusters, target, Some(&shared)).await
    }

    /// What becomes of each of these sources.
    async fn rehearse_all(
        &self,
        schemas: &ConsumerSchemas,
        mapping: &Mapping,
        clusters: &[SourceCluster],
        target: &TargetCluster,
        shared: Option<&SharedUse>,
    ) -> Result<Vec<Rehearsed>, Unseen> {
        let mut rehearsed = Vec::new();
        for cluster in clusters.iter().filter(|cluster| !cluster.sources.is_empty()) {
            let schema = schemas.check(&cluster.shard, &mapping.source.resource).await?.schema;
            let copies = self.copies(mapping, cluster).await?;
            let scene = Scene { surveyor: self, mapping, cluster, target, shared, schema, copies };
            for source in &cluster.sources {
                rehearsed.push(scene.rehearse(source).await?);
            }
        }
        Ok(rehearsed)
    }

    /// The sources of the documents that the state store remembers.
    async fn former(&self, mapping: &Mapping, target: &TargetCluster) -> Vec<Former> {
        let mut all = Vec::new();
        for (source, document) in target.inventory.iter().flat_map(documents) {
            let clusters = self.former_sources(mapping, source, document).await;
            all.push(Former { resource: source.resource.clone(), clusters });
        }
        all
    }

    /// None where the document has the sources of the mapping itself, which are read anyway.
    async fn former_sources(
        &self,
        mapping: &Mapping,
        source: &SourceId,
        document: &str,
    ) -> Result<Vec<SourceCluster>, String> {
        let former = compiled(document).ok_or("its document in the state store cannot be read")?;
        self.confirm_export(&former, source).await?;
        let resource = former.source.resource.group_plural();
        if former.source.clusters == mapping.source.clusters && resource == mapping.source.resource.group_plural() {
            return Ok(Vec::new());
        }
        self.sources(&former).await.map_err(|error| error.to_string())
    }

    /// # Errors
    /// The APIExport of a document is another than the one that its state store names, or cannot be read.
    pub(super) async fn confirm_export(&self, document: &Mapping, source: &SourceId) -> Result<(), String> {
        let SourceClusters::ApiExport(export) = &document.source.clusters else { return Ok(()) };
        let found = self.export(export).await.map_err(|error| error.to_string())?;
        match found["status"]["identityHash"].as_str() == Some(&source.identity) {
            true => Ok(()),
            false => Err(format!("the APIExport `{}` has another identity than in the state store", export.name)),
        }
    }
}

pub(super) fn documents(inventory: &Inventory) -> impl Iterator<Item = (&SourceId, &str)> {
    let former = inventory.former.iter().map(|one| (&one.source, one.document.as_str()));
    let last = (&inventory.source, &*inventory.document);
    former.chain([last]).filter(|(source, _)| !source.resource.is_empty())
}

impl Whole {
    /// The source of an object, with the cluster that it was or would be in.
    fn place_of<'o>(&self, mapping: &Mapping, orphan: &'o Orphan) -> Option<(&'o Origin, &SourceCluster)> {
        let origin = orphan.origin.as_ref()?;
        let cluster = self.clusters.iter().find(|one| one.identity == origin.cluster)?;
        (origin.resource == mapping.source.resource.group_plural()).then_some((origin, cluster))
    }
}

impl TargetCluster {
    /// The same with the objects of one owner, and one object that may have lost its label.
    async fn afresh(&self, owner: &Owner, one: &TargetObject) -> Result<Self, RequestError> {
        let label = format!("{}={}", marks::OWNER, owner.0);
        let mut fresh = Self { standing: Default::default(), ..self.clone() };
        for (kind, served) in self.kinds.iter().filter_map(|(kind, served)| Some((kind, served.as_ref().ok()?))) {
            let mut listed = items(&self.endpoint, &served.resource, Some(&label)).await?;
            let is_listed = listed.iter().any(|object| metadata(object, "uid") == one.uid());
            if one.reference.kind == *kind && !is_listed {
                let (namespace, name) = (&one.reference.namespace, &one.reference.name);
                listed.extend(find(&self.endpoint, &served.resource, namespace, name).await?);
            }
            fresh.standing.insert(kind.clone(), by_namespace(listed));
        }
        Ok(fresh)
    }
}
