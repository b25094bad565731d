//! Fills the planner's picture of one source from the caches. Reads no server.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tracing::warn;

use super::content::{Seen, content, content_of_shared};
use super::pipeline::{Generation, Pipeline, SeenKinds, SourceFeed};
use crate::mapping::Kind;
use crate::mapping::schema::Schema;
use crate::multicluster::Object;
use crate::multicluster::raw::Unreadable;
use crate::multicluster::registry::Cluster;
use crate::multicluster::watch::WatchState;
use crate::object::Key;
use crate::object::marks::{self, Owner, Reference};
use crate::plan::{Observed, Phase, Shared, Source, Standing, Target, render};

/// The content of a namespace's shared objects that a picture was made of.
#[derive(Debug)]
pub struct SharedContent {
    namespace: String,
    content: u64,
}

impl SharedContent {
    /// Remembers that they were found in sync.
    pub fn settle(&self, pipeline: &Pipeline) {
        pipeline.settle_shared(&self.namespace, self.content);
    }
}

/// What a reconcile starts from.
pub struct Observation {
    pub observed: Observed,
    /// The version of the source, where it was read whole.
    pub source: Option<Arc<Object>>,
    pub shared: Option<SharedContent>,
    pub seen: Seen,
}

/// What is known of one source now.
pub fn observe(
    pipeline: &Pipeline,
    generation: &Generation,
    cluster: &Cluster,
    feed: &SourceFeed,
    key: &Key,
) -> Observation {
    let (cached, target) = (cached_source(pipeline, generation, feed, key), target(pipeline, generation));
    let mut observed = Observed {
        phase: generation.phase,
        workspace_path: cluster.spec.path.clone(),
        schema: schema(pipeline, generation, feed).flatten(),
        unkept_status: pipeline.unkept_status(),
        ..Observed::new(pipeline.writer.clone(), key.clone(), Source::Missing, target, Timestamp::now())
    };
    let found = carrying(pipeline, &observed.owner);
    observed.settled = is_settled(pipeline, generation, &observed, &cached, &found);
    let read = |observed: &mut Observed, read: Read| {
        observed.source = source(&cached, read);
        observed.owned = standing(&found, &observed.owner, read);
    };
    let heads = observed.settled && generation.reports_from_heads;
    read(&mut observed, if heads { Object::head } else { Object::value });
    let namespace = namespace(generation, &observed);
    let shared = namespace.and_then(|namespace| observe_namespace(pipeline, generation, namespace, &mut observed));
    let renders_shared = generation.mapping.has_shared() && !observed.shared_settled;
    if heads && renders_shared {
        // What is rendered of them reads more.
        read(&mut observed, Object::value);
    }
    let mut seen = Seen::default();
    if !observed.settled {
        cached.iter().chain(found.iter().map(|(.., object)| object)).for_each(|object| seen.note(object));
    }
    Observation { observed, source: cached.ok().filter(|_| !heads || renders_shared), shared, seen }
}

/// How much of an object is read.
type Read = fn(&Object) -> Result<Value, Unreadable>;

/// Whether a source was found in sync with what stands in the caches, and needs no look for another reason.
fn is_settled(
    pipeline: &Pipeline,
    generation: &Generation,
    observed: &Observed,
    cached: &Result<Arc<Object>, Source>,
    found: &[Found],
) -> bool {
    let Ok(source) = cached else { return false };
    if !generation.settles
        || generation.phase != Phase::Active
        || pipeline.is_stale(&observed.key, source.resource_version())
    {
        return false;
    }
    let content = content(pipeline, generation, observed, source.content(), contents(found));
    pipeline.is_settled(&observed.key, content)
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
) -> Option<SharedContent> {
    if generation.target.knows_namespace(&namespace)
        || observed.owned.iter().any(|one| one.reference.namespace == namespace)
    {
        observed.namespaces.insert(namespace.clone());
    }
    if !generation.mapping.has_shared() {
        return None;
    }
    if let Some(in_use) = pipeline.in_use(&namespace, &observed.key) {
        observed.shared_in_use.insert(namespace.clone(), in_use);
    }
    let owner = observed.writer.shared_owner(&namespace);
    let found = carrying(pipeline, &owner);
    let content = content_of_shared(pipeline, generation, contents(&found));
    observed.shared_settled = generation.settles_shared && pipeline.is_shared_settled(&namespace, content);
    observed.shared = Shared::later(move || standing(&found, &owner, Object::value));
    generation.settles_shared.then_some(SharedContent { namespace, content })
}

/// The source as its cache shows it. A cache that is not in sync may show what is there, and never what is not.
fn cached_source(
    pipeline: &Pipeline,
    generation: &Generation,
    feed: &SourceFeed,
    key: &Key,
) -> Result<Arc<Object>, Source> {
    if schema(pipeline, generation, feed).is_none() {
        return Err(Source::Unknown("the schema of its API is being read".into()));
    }
    feed.watch.store().get(key).ok_or_else(|| match feed.watch.state() {
        WatchState::Synced => Source::Missing,
        WatchState::Starting => Source::Unknown("its collection is not listed yet".into()),
        WatchState::NotServed => Source::Unknown("its API is not served (any more)".into()),
        WatchState::Failed { reason, .. } => Source::Unknown(reason),
    })
}

fn source(cached: &Result<Arc<Object>, Source>, read: Read) -> Source {
    match cached {
        Ok(object) => read(object).map_or_else(unreadable, |value| Source::Present(Arc::new(value))),
        Err(source) => source.clone(),
    }
}

/// What a tenant wrote and the engine cannot read is left as it stands, with what was made of it before.
fn unreadable(error: Unreadable) -> Source {
    warn!("{error}");
    Source::Unknown(error.to_string())
}

/// `None`: not read yet. Without it the engine cannot tell which status fields the consumer's API keeps.
fn schema(pipeline: &Pipeline, generation: &Generation, feed: &SourceFeed) -> Option<Option<Arc<Schema>>> {
    pipeline
        .shared
        .schemas
        .get(feed.scope.endpoint.url(), &generation.mapping.source.resource)
        .map(|known| known.schema)
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

fn contents(found: &[Found]) -> Vec<u64> {
    found.iter().map(|(.., object)| object.content()).collect()
}

/// What carries an owner's label, over all kinds in use.
fn carrying(pipeline: &Pipeline, owner: &Owner) -> Vec<Found> {
    pipeline.each_kind(|kind, feed| {
        let found = feed.watch.store().of_owner(&owner.0).into_iter();
        found.map(|(key, object)| (kind.clone(), key, object)).collect()
    })
}

/// What of it carries a true self mark as well.
fn standing(found: &[Found], owner: &Owner, read: Read) -> Vec<Standing> {
    found.iter().filter_map(|(kind, key, object)| ours(kind, key, read(object).ok()?, owner)).collect()
}

/// `None` where it is not, or cannot be read: the planner then looks for it past the caches, and that look fails.
fn ours(kind: &Kind, key: &Key, object: Value, owner: &Owner) -> Option<Standing> {
    let reference = Reference { kind: kind.clone(), namespace: key.namespace.to_string(), name: key.name.to_string() };
    let object = Arc::new(object);
    marks::is_ours(&object, &reference, owner).then(|| Standing::new(reference, object))
}
