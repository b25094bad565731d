//! Fills the planner's picture of one source from the caches. Reads no server.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tracing::warn;

use super::pipeline::{Generation, Pipeline, SeenKinds, SourceFeed};
use crate::mapping::Kind;
use crate::mapping::schema::Schema;
use crate::multicluster::Object;
use crate::multicluster::raw::Unreadable;
use crate::multicluster::registry::Cluster;
use crate::multicluster::watch::WatchState;
use crate::object::Key;
use crate::object::marks::{self, Owner, Reference};
use crate::plan::{Observed, Shared, Source, Standing, Target, render};

/// Which versions of a namespace's shared objects a picture was made of.
#[derive(Debug)]
pub struct SharedVersions {
    namespace: String,
    hash: u64,
}

impl SharedVersions {
    /// Remembers that they were found in sync.
    pub fn settle(&self, pipeline: &Pipeline) {
        pipeline.settle_shared(&self.namespace, self.hash);
    }
}

/// What is known of one source now.
pub fn observe(
    pipeline: &Pipeline,
    generation: &Generation,
    cluster: &Cluster,
    feed: &SourceFeed,
    key: &Key,
) -> (Observed, Option<SharedVersions>) {
    let (source, target) = (source(pipeline, generation, feed, key), target(pipeline, generation));
    let mut observed = Observed {
        phase: generation.phase,
        workspace_path: cluster.spec.path.clone(),
        schema: schema(pipeline, generation, feed).flatten(),
        unkept_status: pipeline.unkept_status(),
        ..Observed::new(pipeline.writer.clone(), key.clone(), source, target, Timestamp::now())
    };
    let owner = observed.owner();
    observed.owned = standing(&carrying(pipeline, &owner), &owner);
    observed.settled = generation.settles && pipeline.is_settled(&generation.mapping, &observed);
    let namespace = namespace(generation, &observed);
    let shared = namespace.and_then(|namespace| observe_namespace(pipeline, generation, namespace, &mut observed));
    (observed, shared)
}

/// The namespace that a source's objects go to, as far as it can be told.
pub fn namespace(generation: &Generation, observed: &Observed) -> Option<String> {
    let Source::Present(source) = &observed.source else { return None };
    render::place(&generation.mapping, observed, source).ok().map(|place| place.namespace)
}

fn observe_namespace(
    pipeline: &Pipeline,
    generation: &Generation,
    namespace: String,
    observed: &mut Observed,
) -> Option<SharedVersions> {
    if generation.target.knows_namespace(&namespace)
        || observed.owned.iter().any(|one| one.reference.namespace == namespace)
    {
        observed.namespaces.insert(namespace.clone());
    }
    if !generation.mapping.objects.iter().any(|rule| rule.shared) {
        return None;
    }
    if let Some(in_use) = pipeline.in_use(&namespace, &observed.key) {
        observed.shared_in_use.insert(namespace.clone(), in_use);
    }
    let owner = observed.writer.shared_owner(&namespace);
    let found = carrying(pipeline, &owner);
    let hash = versions(pipeline, generation, &found);
    observed.shared_settled = generation.settles_shared && pipeline.is_shared_settled(&namespace, hash);
    observed.shared = Shared::later(move || standing(&found, &owner));
    generation.settles_shared.then_some(SharedVersions { namespace, hash })
}

/// Stands for these versions of these objects, as this generation of the mapping sees them.
fn versions(pipeline: &Pipeline, generation: &Generation, found: &[Found]) -> u64 {
    let versions = found.iter().map(|(kind, key, object)| (kind, key, object.uid(), object.resource_version()));
    pipeline.hash((Arc::as_ptr(&generation.mapping), versions.collect::<Vec<_>>()))
}

/// The source as its cache shows it. A cache that is not in sync may show what is there, and never what is not.
fn source(pipeline: &Pipeline, generation: &Generation, feed: &SourceFeed, key: &Key) -> Source {
    if schema(pipeline, generation, feed).is_none() {
        return Source::Unknown("the schema of its API is being read".into());
    }
    if let Some(object) = feed.watch.store().get(key) {
        return object.value().map_or_else(unreadable, |value| Source::Present(Arc::new(value)));
    }
    match feed.watch.state() {
        WatchState::Synced => Source::Missing,
        WatchState::Starting => Source::Unknown("its collection is not listed yet".into()),
        WatchState::NotServed => Source::Unknown("its API is not served (any more)".into()),
        WatchState::Failed { reason, .. } => Source::Unknown(reason),
    }
}

/// What a tenant wrote and the engine cannot read is left as it stands, with what was made of it before.
fn unreadable(error: Unreadable) -> Source {
    warn!("{error}");
    Source::Unknown(error.to_string())
}

/// `None`: not read yet. Without it the engine cannot tell which status fields the consumer's API keeps.
fn schema(pipeline: &Pipeline, generation: &Generation, feed: &SourceFeed) -> Option<Option<Arc<Schema>>> {
    pipeline.shared.schemas.get(feed.scope.endpoint.url(), &generation.mapping.source.resource)
}

fn target(pipeline: &Pipeline, generation: &Generation) -> Target {
    let identity = match generation.target.identity() {
        Ok(identity) => identity,
        Err(why) => return Target::Unknown(why),
    };
    if let Some(why) = pipeline.unconfirmed() {
        return Target::Unknown(why);
    }
    Target::Known { identity, kinds: kinds(pipeline, generation) }
}

/// Mostly all kinds are in sight, and nothing has changed since they were looked at one by one.
fn kinds(pipeline: &Pipeline, generation: &Generation) -> SeenKinds {
    let epoch = match pipeline.seen_kinds(&generation.target) {
        Ok(seen) => return seen,
        Err(epoch) => epoch,
    };
    let kinds = pipeline.kinds().into_iter().map(|kind| {
        let state = kind_state(pipeline, generation, &kind);
        (kind, state)
    });
    let kinds: SeenKinds = Arc::new(kinds.collect());
    if kinds.values().all(Result::is_ok) {
        pipeline.saw_kinds(&kinds, epoch);
    }
    kinds
}

fn kind_state(pipeline: &Pipeline, generation: &Generation, kind: &Kind) -> Result<(), String> {
    let target = &generation.target;
    target.kind(kind)?;
    let name = &target.name;
    let Some(feed) = pipeline.kind_feed(kind) else {
        return Err(format!("target `{name}`: {kind} is not watched yet"));
    };
    if !feed.served.namespaced {
        return Err(format!(
            "{kind} is cluster-scoped on target `{name}`: cluster-scoped objects are not supported yet"
        ));
    }
    match feed.watch.state() {
        WatchState::Synced => Ok(()),
        WatchState::Starting => Err(format!("target `{name}`: {kind} is not listed yet")),
        WatchState::NotServed => {
            Err(format!("target `{name}`: {kind} is not served (any more); install its CustomResourceDefinition"))
        }
        WatchState::Failed { reason, .. } => Err(format!("target `{name}`: {reason}")),
    }
}

/// An object that carries an owner's label.
type Found = (Kind, Key, Arc<Object>);

/// What carries an owner's label, over all kinds in use.
fn carrying(pipeline: &Pipeline, owner: &Owner) -> Vec<Found> {
    pipeline.each_kind(|kind, feed| {
        let found = feed.watch.store().of_owner(&owner.0).into_iter();
        found.map(|(key, object)| (kind.clone(), key, object)).collect()
    })
}

/// What of it carries a true self mark as well.
fn standing(found: &[Found], owner: &Owner) -> Vec<Standing> {
    found.iter().filter_map(|(kind, key, object)| ours(kind, key, object, owner)).collect()
}

/// `None` where it is not, or cannot be read: the planner then looks for it past the caches, and that look fails.
fn ours(kind: &Kind, key: &Key, object: &Object, owner: &Owner) -> Option<Standing> {
    let reference = Reference { kind: kind.clone(), namespace: key.namespace.to_string(), name: key.name.to_string() };
    let object = Arc::new(object.value().ok()?);
    marks::is_ours(&object, &reference, owner).then_some(Standing { reference, object })
}
