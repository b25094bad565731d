//! Fills the planner's picture of one source from the caches. Reads no server.

use std::sync::Arc;

use tracing::warn;

use super::pipeline::{Generation, Pipeline, SourceFeed};
use crate::mapping::Kind;
use crate::mapping::schema::Schema;
use crate::multicluster::Object;
use crate::multicluster::raw::Unreadable;
use crate::multicluster::registry::Cluster;
use crate::multicluster::watch::WatchState;
use crate::object::marks::{Origin, Owner, Reference};
use crate::object::{Key, metadata};
use crate::plan::{Answers, Missing, Observed, Pin, Source, Target, TargetObject, render};

/// What is known of one source now.
pub fn observe(
    pipeline: &Pipeline,
    generation: &Generation,
    cluster: &Cluster,
    feed: &SourceFeed,
    key: &Key,
) -> Observed {
    let source = source(pipeline, generation, feed, key);
    let origin = Origin::new(&generation.mapping.source.resource, cluster.identity(), key);
    let mut observed = Observed {
        phase: generation.phase,
        workspace_path: cluster.spec.path.clone(),
        schema: schema(pipeline, generation, feed).flatten(),
        unkept_status: pipeline.unkept_status(),
        prune: pipeline.prune(),
        pin: pin(generation),
        ..Observed::new(
            pipeline.writer.clone(),
            key.clone(),
            origin,
            source,
            target(pipeline, generation),
            pipeline.shared.clock.now(),
        )
    };
    observed.places = render::namespaces(&generation.mapping, &pipeline.former_placements(), &observed);
    observed.owned = carrying(pipeline, &observed.owner, |at, object| observed.owns(at, object));
    observed.answers = Answers {
        unanswered: pipeline.unanswered(),
        refused_status: pipeline.refused_status(key, &generation.mapping),
        ..Answers::default()
    };
    observe_namespaces(pipeline, generation, &mut observed);
    observed
}

/// The namespaces that a source's objects may be in: whether they exist, what is shared there, and who else needs it.
fn observe_namespaces(pipeline: &Pipeline, generation: &Generation, observed: &mut Observed) {
    let mut shared = Vec::new();
    for namespace in &observed.places {
        let holds = observed.owned.iter().any(|one| one.reference.namespace == *namespace);
        if holds || generation.target.knows_namespace(namespace) {
            observed.namespaces.insert(namespace.clone());
        }
        if generation.mapping.has_shared() {
            if let Some(in_use) = pipeline.in_use(namespace, &observed.key) {
                observed.shared_in_use.insert(namespace.clone(), in_use);
            }
            let owner = observed.writer.shared_owner(namespace);
            shared.extend(carrying(pipeline, &owner, |at, object| observed.shares(at, object)));
        }
    }
    observed.shared = shared;
}

/// The source as its cache shows it. A cache that is not in sync may show what exists, and never what is missing.
fn source(pipeline: &Pipeline, generation: &Generation, feed: &SourceFeed, key: &Key) -> Source {
    if schema(pipeline, generation, feed).is_none() {
        return Source::Unknown("the schema of its API is being read".into());
    }
    if let Some(object) = feed.watch.store().get(key) {
        return present(pipeline, key, &object);
    }
    match feed.watch.state() {
        WatchState::Synced => Source::Missing(Missing {
            deleted: pipeline.deleted(key),
            long: pipeline.is_missing_for(key, generation.mapping.lifecycle.stuck_after),
        }),
        WatchState::Starting => Source::Unknown("its collection is not listed yet".into()),
        WatchState::NotServed => Source::Unknown("its API is not served (any more)".into()),
        WatchState::Failed { reason, .. } => Source::Unknown(reason),
    }
}

/// What a tenant wrote and the engine cannot read is left as it is, with what was made of it before.
fn present(pipeline: &Pipeline, key: &Key, object: &Object) -> Source {
    let value = match object.value() {
        Ok(value) => value,
        Err(error) => {
            warn!("{error}");
            return Source::Unknown(error.to_string());
        }
    };
    if metadata(&value, "deletionTimestamp").is_empty() {
        pipeline.lives(key);
    }
    Source::Present(Arc::new(value))
}

/// `None`: not read yet. Without it the engine cannot tell which status fields the consumer's API keeps.
fn schema(pipeline: &Pipeline, generation: &Generation, feed: &SourceFeed) -> Option<Option<Arc<Schema>>> {
    pipeline
        .shared
        .schemas
        .get(feed.scope.endpoint.url(), &generation.mapping.source.resource)
        .map(|known| known.schema)
}

fn pin(generation: &Generation) -> Option<Pin> {
    let identity = generation.target.identity().ok()?;
    Some(Pin { connection: generation.target.name.clone(), identity })
}

fn target(pipeline: &Pipeline, generation: &Generation) -> Target {
    if let Err(why) = generation.target.identity() {
        return Target::Unknown(why);
    }
    if let Some(why) = pipeline.unconfirmed() {
        return Target::Unknown(why);
    }
    let kinds = pipeline.kinds().into_iter().map(|kind| {
        let state = kind_state(pipeline, generation, &kind);
        (kind, state)
    });
    Target::Known { kinds: Arc::new(kinds.collect()) }
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

/// What carries an owner's label, over all kinds in use, and passes. An object that cannot be read does not: the server
/// refuses to create it anew, and the uncached read that follows fails.
fn carrying(
    pipeline: &Pipeline,
    owner: &Owner,
    passes: impl Fn(&Reference, &serde_json::Value) -> bool,
) -> Vec<TargetObject> {
    let found = pipeline.each_kind(|kind, feed| {
        let read = |(key, object): (Key, Arc<Object>)| Some((target_reference(kind, &key), read(&object).ok()?));
        feed.watch.store().of_owner(&owner.0).into_iter().filter_map(read).collect()
    });
    let found = found.into_iter().filter(|(reference, object)| passes(reference, object));
    found.map(|(reference, object)| TargetObject::new(reference, object)).collect()
}

fn read(object: &Object) -> Result<Arc<serde_json::Value>, Unreadable> {
    object.value().map(Arc::new)
}

fn target_reference(kind: &Kind, key: &Key) -> Reference {
    Reference { kind: kind.clone(), namespace: key.namespace.to_string(), name: key.name.to_string() }
}
