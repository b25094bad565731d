//! Fills the planner's picture of one source from the caches. Reads no server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::pipeline::{Generation, Pipeline, SourceFeed};
use crate::mapping::Kind;
use crate::mapping::schema::Schema;
use crate::multicluster::Object;
use crate::multicluster::registry::Cluster;
use crate::multicluster::watch::WatchState;
use crate::object::Key;
use crate::object::marks::{self, Owner, Reference};
use crate::plan::memo::Memo;
use crate::plan::{Learned, Observed, Source, Standing, Target, render};

/// What is known of one source now.
pub fn observe(
    pipeline: &Pipeline,
    generation: &Generation,
    cluster: &Cluster,
    feed: &SourceFeed,
    key: &Key,
) -> Observed {
    let mut observed = Observed {
        writer: pipeline.writer.clone(),
        phase: generation.phase,
        key: key.clone(),
        workspace_path: cluster.spec.path.clone(),
        source: source(pipeline, generation, feed, key),
        target: target(pipeline, generation),
        owned: Vec::new(),
        shared: Vec::new(),
        shared_in_use: BTreeMap::new(),
        related: Vec::new(),
        namespaces: BTreeSet::new(),
        schema: schema(pipeline, generation, feed).flatten(),
        unkept_status: pipeline.unkept_status(),
        now: Timestamp::now(),
        learned: Learned::default(),
        memo: Memo::default(),
    };
    observed.owned = standing(pipeline, &observed.owner());
    if let Some(namespace) = namespace(generation, &observed) {
        observe_namespace(pipeline, generation, &namespace, &mut observed);
    }
    observed
}

/// The namespace that a source's objects go to, as far as it can be told.
pub fn namespace(generation: &Generation, observed: &Observed) -> Option<String> {
    let Source::Present(source) = &observed.source else { return None };
    let scope = render::base_scope(&generation.mapping, observed, source);
    render::place(&generation.mapping, observed, &scope).ok().map(|place| place.namespace)
}

fn observe_namespace(pipeline: &Pipeline, generation: &Generation, namespace: &str, observed: &mut Observed) {
    if generation.target.knows_namespace(namespace)
        || observed.owned.iter().any(|one| one.reference.namespace == namespace)
    {
        observed.namespaces.insert(namespace.to_owned());
    }
    if !generation.mapping.objects.iter().any(|rule| rule.shared) {
        return;
    }
    observed.shared = standing(pipeline, &observed.writer.shared_owner(namespace));
    if let Some(in_use) = pipeline.in_use(namespace, &observed.key) {
        observed.shared_in_use.insert(namespace.to_owned(), in_use);
    }
}

/// The source as its cache shows it. A cache that is not in sync may show what is there, and never what is not.
fn source(pipeline: &Pipeline, generation: &Generation, feed: &SourceFeed, key: &Key) -> Source {
    if schema(pipeline, generation, feed).is_none() {
        return Source::Unknown("the schema of its API is being read".into());
    }
    if let Some(object) = feed.watch.store().get(key) {
        return Source::Present(Arc::new(object.value()));
    }
    match feed.watch.state() {
        WatchState::Synced => Source::Missing,
        WatchState::Starting => Source::Unknown("its collection is not listed yet".into()),
        WatchState::NotServed => Source::Unknown("its API is not served (any more)".into()),
        WatchState::Failed { reason, .. } => Source::Unknown(reason),
    }
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
    let kinds = pipeline.kinds().into_iter().map(|kind| {
        let state = kind_state(pipeline, generation, &kind);
        (kind, state)
    });
    Target::Known { identity, kinds: kinds.collect() }
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

/// What carries an owner and a true self mark, over all kinds in use.
fn standing(pipeline: &Pipeline, owner: &Owner) -> Vec<Standing> {
    let mut all = Vec::new();
    for (kind, feed) in pipeline.kind_feeds() {
        for (key, object) in feed.watch.store().of_owner(&owner.0) {
            all.extend(ours(&kind, &key, &object, owner));
        }
    }
    all
}

fn ours(kind: &Kind, key: &Key, object: &Object, owner: &Owner) -> Option<Standing> {
    let reference = Reference { kind: kind.clone(), namespace: key.namespace.to_string(), name: key.name.to_string() };
    let object: Arc<Value> = Arc::new(object.value());
    marks::is_ours(&object, &reference, owner).then_some(Standing { reference, object })
}
