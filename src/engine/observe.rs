//! Fills the planner's picture of one source from the caches. Reads no server.

use std::cell::{LazyCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::apply::Executor;
use super::consumer_schema::PublishedSchema;
use super::controller::Feed;
use super::interests::{Collection, Facts, Interest, Topic};
use super::pipeline::wakes::target_reference;
use super::pipeline::{Generation, Pipeline};
use crate::mapping::{Kind, Mode, Side};
use crate::multicluster::Object;
use crate::multicluster::raw::Unreadable;
use crate::multicluster::registry::{Cluster, ClustersOf};
use crate::multicluster::watch::WatchState;
use crate::object::marks::{Origin, Owner, Reference};
use crate::object::{ClusterName, Key, metadata};
use crate::plan::observed::all_copies;
use crate::plan::targets::{self, OtherTarget, double};
use crate::plan::{
    Answers, Cause, Consumer, Kinds, Observed, Phase, Pin, Reason, Sight, Source, Target, TargetObject, render,
};

/// An object of which a cache has an outline.
#[derive(Debug)]
pub struct Outline {
    /// Where it is cached; `None`: it is the source.
    pub kind: Option<Kind>,
    pub at: Key,
    /// Of the whole object.
    pub bytes: usize,
}

/// The source as it was parsed last. All targets of a reconcile have it, so that it is parsed once for them.
#[derive(Debug, Clone, Default)]
pub struct SourceTree(Arc<Mutex<Option<Parsed>>>);

/// An object of a cache, and what it says.
type Parsed = (Arc<Object>, Arc<serde_json::Value>);

impl SourceTree {
    fn of(&self, object: &Arc<Object>) -> Result<Arc<serde_json::Value>, Unreadable> {
        let mut last = self.0.lock();
        if let Some((_, tree)) = last.as_ref().filter(|(of, _)| Arc::ptr_eq(of, object)) {
            return Ok(tree.clone());
        }
        let tree = Arc::new(object.value()?);
        *last = Some((object.clone(), tree.clone()));
        Ok(tree)
    }
}

/// Outlines that were met while something was observed.
#[derive(Debug, Default)]
struct Outlines(RefCell<Vec<Outline>>);

impl Outlines {
    /// The object; `None`: it is an outline, or cannot be read.
    fn whole(&self, kind: &Kind, at: &Key, object: &Object) -> Option<Arc<serde_json::Value>> {
        let read = object.value().map(Arc::new);
        if read == Err(Unreadable::Outlined) {
            self.meet(Some(kind), at, object);
        }
        read.ok()
    }

    fn meet(&self, kind: Option<&Kind>, at: &Key, object: &Object) {
        self.0.borrow_mut().push(Outline { kind: kind.cloned(), at: at.clone(), bytes: object.length() });
    }
}

/// What is known of one source now, but for the objects of which the caches have outlines: with any, it is not to be planned
/// with.
pub fn observe(executor: &Executor<'_>, facts: &mut Facts<'_>) -> (Observed, Vec<Outline>) {
    let &Executor { pipeline, generation, cluster, key, .. } = executor;
    // Related objects are read once.
    facts.again(|interest| matches!(interest, Interest::Topic(Topic::Synced(Collection::Related(_)))));
    let outlines = Outlines::default();
    let schema = schema(executor, facts);
    // Of a LogicalCluster nothing is written that a schema could drop.
    let is_schema_known = schema.is_some() || cluster.spec.holding.is_some();
    let source = source(executor, is_schema_known, &outlines, facts);
    let version = schema.as_ref().map(|known| &*known.version).unwrap_or_default();
    let unkept_status = pipeline.learned.lock().dropped.of(&key.cluster, version);
    let origin = Origin::new(&generation.mapping.source.resource, cluster.identity(), key);
    let is_present = matches!(source, Ok(Source::Present(_)));
    let kinds = kinds(executor, is_present, facts);
    let now = pipeline.shared.settings.clock.now();
    let selects = generation.mapping.source.selects(cluster.spec.name.as_str(), &cluster.spec.traits);
    let mut observed = Observed::new(pipeline.writer.clone(), key.clone(), origin, source, kinds, now);
    observed.subject.hold = cluster.spec.holding.as_ref().map(|holding| holding.hold.clone());
    observed.phase = generation.phase;
    observed.consumer = Consumer {
        path: cluster.spec.path.clone(),
        is_selected: Consumer::selection(selects),
        claims: cluster.spec.claims.clone(),
        is_read_alone: generation.mode == Mode::Observe,
        schema: schema.as_ref().and_then(|known| known.schema.clone()),
        unkept_status,
        former_status: pipeline.former_status(generation),
    };
    observed.target = Target {
        is_lost: generation.target.is_lost(),
        pin: pin(generation),
        url: Some(generation.target.endpoint().url().to_owned()),
        reporting: pipeline.shared.reporting.clone(),
        ..observed.target
    };
    observed.limits.is_promoted = pipeline.is_candidate(generation);
    observed.limits.prune = pipeline.prune(generation, key, &observed.subject.owner);
    observed.target.places = render::namespaces(&generation.mapping, &pipeline.former_placements(), &observed);
    let learned = pipeline.learned.lock();
    let stripped = learned.stripped(&owners(generation, &observed));
    let unanswered = learned.unanswered(&key.cluster, &observed.target.places, Instant::now());
    let uncompared = learned.uncompared(key);
    observed.target.was_let_go = learned.was_let_go(key, observed.source_uid(), Instant::now());
    let refused_status = learned.refused_status(key, &generation.mapping);
    drop(learned);
    let kinds = LazyCell::new(|| pipeline.kinds_of(generation));
    observed.objects.stripped =
        stripped.into_iter().map(|(reference, known)| (in_version_of(&kinds, reference), known)).collect();
    let in_version = |all: BTreeSet<Reference>| all.into_iter().map(|one| in_version_of(&kinds, one)).collect();
    let (unanswered, uncompared) = (in_version(unanswered), in_version(uncompared));
    observed.answers = Answers { unanswered, uncompared, refused_status, ..Answers::default() };
    // Nothing is decided on a source that is out of sight: nobody reads its large objects.
    let is_out_of_sight = observed.source.is_err() && outlines.0.borrow().is_empty();
    let whole = |kind: &Kind, at: &Key, object: &Object| match is_out_of_sight {
        true => object.outline().ok().map(Arc::new),
        false => outlines.whole(kind, at, object),
    };
    let owned = carrying(pipeline, generation, &observed, &observed.subject.owner, None, whole);
    // Who is not allowed to see what is beside the source sees none of it.
    let copies = carrying(pipeline, generation, &observed, &observed.subject.owner, Some(cluster), whole);
    observed.objects.extend(owned);
    observed.objects.extend(copies);
    observe_namespaces(executor, &mut observed, whole, facts);
    let Observed { source, objects, .. } = &mut observed;
    if let Ok(Source::Missing(missing)) = source {
        let is_left = objects.own().any(|object| missing.deleted.as_deref() == Some(object.source_uid()));
        let is_user = || pipeline.shared_use.lock().is_user(key);
        // What came late: nobody else is there to take it along.
        let is_alone = || objects.shared().any(|one| objects.in_use.get(&one.reference.namespace) != Some(&true));
        missing.shares =
            missing.deleted.is_some() && generation.mapping.has_shared() && (is_left || is_user() || is_alone());
    }
    wait_for_kinds(&observed, &generation.target.cluster, facts);
    (observed, outlines.0.into_inner())
}

/// Tells a target of the others of its mapping. Nothing is written to one that is the cluster of another.
pub fn with_targets(pipeline: &Pipeline, observed: &mut Observed, targets: &Arc<BTreeMap<String, OtherTarget>>) {
    observed.among = pipeline.among(targets);
    if let Some(why) = observed.among.as_ref().and_then(|among| double(among, observed.target.pin.as_ref())) {
        observed.target.kinds = Err(Reason::unseen(why));
    }
}

/// The same for who looks at one target alone: what the others have is read from their caches, where a plan reads it.
pub fn with_cached_targets(pipeline: &Pipeline, generation: &Generation, observed: &mut Observed) {
    if generation.mapping.target_rule.is_none() {
        return;
    }
    let all = pipeline.controller.pipelines();
    let targets = |observed: &Observed, reads: bool| {
        let target = |one: &Arc<Pipeline>| {
            let (name, mut other) = one.as_target();
            other.unsettled = one.unsettled_here(&observed.subject.key);
            if reads {
                // Where it is says enough.
                let outline = |_: &Kind, _: &Key, object: &Object| object.outline().ok().map(Arc::new);
                other.objects.extend(carrying(one, generation, observed, &observed.subject.owner, None, outline));
            }
            (name, other)
        };
        Arc::new(all.iter().map(target).collect())
    };
    let unread = targets(observed, false);
    with_targets(pipeline, observed, &unread);
    let Some(source) = observed.present().cloned() else { return };
    let is_seen = |name: &str| observed.among.as_ref().is_none_or(|among| among.is_seen(name));
    let tells = targets::reports_for_all(&generation.mapping, observed, &source, is_seen);
    observed.limits.tells_nothing |= !tells;
    // Beside the status, only a source without its pins asks what others have.
    if tells || targets::has_lost_its_pins(observed, &source) {
        let read = targets(observed, true);
        with_targets(pipeline, observed, &read);
    }
}

/// What is remembered of an object may be of a document that had its kind in another version, which may be served no longer.
fn in_version_of(kinds: &BTreeSet<Kind>, reference: Reference) -> Reference {
    let present = kinds.iter().find(|kind| kind.is_same_in_any_version(&reference.kind)).cloned();
    Reference { kind: present.unwrap_or(reference.kind), ..reference }
}

/// Whether sources may share something: also by a rule that the mapping has no more.
fn may_share(generation: &Generation) -> bool {
    generation.mapping.has_shared() || generation.phase == Phase::Active
}

/// The source's own, and those of the shared objects in its namespaces.
fn owners(generation: &Generation, observed: &Observed) -> Vec<Owner> {
    let shared = observed.target.places.iter().filter(|_| may_share(generation));
    let shared = shared.map(|namespace| observed.subject.writer.shared_owner(namespace));
    std::iter::once(observed.subject.owner.clone()).chain(shared).collect()
}

/// The namespaces that a source's objects may be in: whether they exist, what is shared there, and who else needs it.
fn observe_namespaces(
    executor: &Executor<'_>,
    observed: &mut Observed,
    read: impl Fn(&Kind, &Key, &Object) -> Option<Arc<serde_json::Value>>,
    facts: &mut Facts<'_>,
) {
    let &Executor { pipeline, generation, key, .. } = executor;
    let has_shared = generation.mapping.has_shared();
    let (mut shared, mut places) = (Vec::new(), BTreeSet::new());
    for namespace in &observed.target.places {
        let holds = observed.objects.iter().any(|one| one.reference.namespace == *namespace);
        if holds || generation.target.knows_namespace(namespace) {
            observed.target.namespaces.insert(namespace.clone());
        }
        let owner = observed.subject.writer.shared_owner(namespace);
        let owned = || carrying(pipeline, generation, observed, &owner, None, &read);
        if has_shared {
            places.insert(namespace.clone());
            shared.extend(facts.selection(&Collection::Target, &owner.0, owned));
        } else if may_share(generation) {
            shared.extend(owned());
        }
    }
    let standing = shared.iter().map(TargetObject::shared_place);
    places.extend(standing.filter(|place| !observed.target.places.contains(place)));
    for place in places {
        let any_copy = place.split_once('/').map(|(namespace, _)| all_copies(namespace));
        let named = any_copy.iter().chain([&place]);
        let named = named.map(|at| Topic::Placement(generation.target.cluster.clone(), at.as_str().into()));
        let in_use = || pipeline.in_use(&place, Some(key));
        if let Some(in_use) = facts.read(named.chain([Topic::PassComplete]), in_use, Option::is_none) {
            observed.objects.in_use.insert(place, in_use);
        }
    }
    observed.objects.extend(shared);
}

/// A watch that a candidate needs may show what another process has made by that document. The kind is out of sight until the state
/// store names it, or the candidate is in force.
fn wait_for_kinds(observed: &Observed, target: &ClusterName, facts: &mut Facts<'_>) {
    let Ok(Kinds(kinds)) = &observed.target.kinds else { return };
    if observed.objects.iter().any(|one| !kinds.contains_key(&one.reference.kind)) {
        facts.read([Topic::Store(target.clone())], || true, |waits| *waits);
    }
}

/// Another source may have come to use what was nobody else's when this reconcile began, or is being taken in: then nobody can tell.
/// One that leaves as well keeps nothing: each of the two would leave it to the other.
pub fn see_newcomers(pipeline: &Pipeline, observed: &mut Observed) {
    let key = &observed.subject.key;
    let kept = |place: &str| pipeline.shared_use.lock().is_kept(place, key);
    observed.objects.in_use.retain(|place, in_use| *in_use || kept(place).map(|kept| *in_use = kept).is_some());
}

/// The source as its cache shows it. A cache that is not in sync may show what exists, and never what is missing.
fn source(executor: &Executor<'_>, is_schema_known: bool, outlines: &Outlines, facts: &mut Facts<'_>) -> Sight<Source> {
    let &Executor { pipeline, generation, feed, key, .. } = executor;
    // The state before the objects: a list that ends in between is no evidence.
    let synced = Topic::Synced(Collection::Sources(feed.scope.endpoint.place().into()));
    let state = facts.read([synced], || feed.watch.state(), |state| *state != WatchState::Synced);
    if !is_schema_known {
        return Err(Reason::unseen("the schema of its API is being read"));
    }
    if let Some(object) = feed.watch.store().get(key) {
        if !object.is_whole() {
            outlines.meet(None, key, &object);
        }
        return present(executor, &object);
    }
    match state {
        WatchState::Synced => {
            let stuck_after = generation.mapping.lifecycle.stuck_after();
            Ok(Source::Missing(pipeline.learned.lock().missing(key, stuck_after, Instant::now())))
        }
        WatchState::Starting => Err(Reason::unseen("its collection is not listed yet")),
        WatchState::NotServed => Err(Reason::unseen("its API is not served (any more)")),
        WatchState::Failed { reason, .. } => Err(Reason::unseen(reason)),
    }
}

/// What a tenant wrote and the engine cannot read is left as it is, with what was made of it before.
fn present(executor: &Executor<'_>, object: &Arc<Object>) -> Sight<Source> {
    let value = executor.source_tree.of(object).map_err(|error| Reason::unseen(error.to_string()))?;
    if metadata(&value, "deletionTimestamp").is_empty() {
        executor.pipeline.learned.lock().lives(executor.key);
    }
    Ok(Source::Present(value))
}

/// `None`: not read yet. Without it the engine cannot tell which status fields the consumer's API keeps.
fn schema(executor: &Executor<'_>, facts: &mut Facts<'_>) -> Option<PublishedSchema> {
    let (feed, controller) = (executor.feed, &executor.pipeline.controller);
    facts.read([Topic::Schema(feed.scope.endpoint.place().into())], || controller.schema(feed), Option::is_none)
}

fn pin(generation: &Generation) -> Option<Pin> {
    let identity = generation.target.identity().ok()?;
    Some(Pin { connection: generation.target.name.clone(), identity })
}

/// The kinds of the mapping on its target. Nothing is taken in of a source that is not `is_present`.
fn kinds(executor: &Executor<'_>, is_present: bool, facts: &mut Facts<'_>) -> Sight<Kinds> {
    let &Executor { pipeline, generation, cluster, .. } = executor;
    let at = &generation.target.cluster;
    let identity = facts.read([Topic::Identity(at.clone())], || generation.target.identity(), Result::is_err);
    let unnamed = || {
        // Asked also where nothing is written: a candidate that would write is rehearsed there.
        let is_unnamed = is_present && !pipeline.is_named(cluster) && generation.records();
        is_unnamed.then(|| "the state store on its target does not name its cluster yet".to_owned())
    };
    let unconfirmed =
        facts.read([Topic::Store(at.clone())], || pipeline.unconfirmed().or_else(unnamed), Option::is_some);
    if let Some(why) = identity.err().or(unconfirmed) {
        return Err(Reason::unseen(why));
    }
    let place = cluster.spec.scope.endpoint.place();
    let mut starting = None;
    let kinds = pipeline.kinds_of(generation).into_iter().map(|kind| {
        let (at, is_beside) = match kind.side {
            Side::Target => (at.as_str(), false),
            Side::Source => (place.as_str(), true),
        };
        let read = || if is_beside { copies_state(executor, &kind) } else { kind_state(pipeline, generation, &kind) };
        let state = facts.read([Topic::Synced(Collection::Kind(at.into(), kind.clone()))], read, Result::is_err);
        let feed = executor.feed_of(&kind);
        // A copy of a related object is nobody's other object.
        if (!is_beside || generation.mapping.is_beside()) && is_starting(feed.as_deref(), generation, &kind) {
            starting = starting.take().or(state.clone().err());
        }
        // Beside a source, its cluster tells whether a definition exists. No virtual workspace of kcp does, and a namespace that stands
        // for a cluster is not asked.
        let has_definitions = !is_beside || matches!(cluster.spec.scope.clusters, ClustersOf::One(_));
        let is_lost = has_definitions && feed.is_some_and(|feed| feed.watch.state() == WatchState::NotServed);
        let cause = if is_lost || generation.target.lacks(&kind) { Cause::Waiting } else { Cause::Unknown };
        (kind, state.map_err(|detail| Reason { cause, detail }))
    });
    let kinds = kinds.collect();
    // An object of a kind that is not listed yet may be in use under another kind, or tell where the source is placed.
    if let Some(why) = starting {
        return Err(Reason::unseen(why));
    }
    Ok(Kinds(kinds))
}

/// Why a kind is not in sight, and whether time alone mends that.
pub fn kind_trouble(pipeline: &Pipeline, generation: &Generation, kind: &Kind) -> Option<(String, bool)> {
    let why = kind_state(pipeline, generation, kind).err().filter(|_| kind.side == Side::Target)?;
    Some((why, is_starting(pipeline.kind_feed(kind).as_deref(), generation, kind)))
}

/// Whether a kind may be served and is not listed yet. A kind whose list is refused holds up no other.
fn is_starting(feed: Option<&Feed>, generation: &Generation, kind: &Kind) -> bool {
    match feed.map(|feed| feed.watch.state()) {
        None => !generation.target.lacks(kind),
        Some(WatchState::Starting) => true,
        Some(WatchState::Failed { code, synced_before: false, .. }) => {
            code.is_none_or(|code| code == 429 || code >= 500)
        }
        Some(_) => false,
    }
}

fn kind_state(pipeline: &Pipeline, generation: &Generation, kind: &Kind) -> Result<(), String> {
    let target = &generation.target;
    let served = target.kind(kind)?;
    let name = &target.name;
    let Some(feed) = pipeline.kind_feed(kind) else {
        return Err(format!("target `{name}`: {kind} is not watched yet"));
    };
    if !served.namespaced {
        return Err(format!(
            "{kind} is cluster-scoped on target `{name}`: cluster-scoped objects are not supported yet"
        ));
    }
    match feed.watch.state() {
        WatchState::Synced => Ok(()),
        WatchState::Starting => Err(format!("target `{name}`: {kind} is not listed yet")),
        WatchState::NotServed => Err(format!(
            "target `{name}`: {kind} is not served (any more); install its CustomResourceDefinition, or name a version that it serves"
        )),
        WatchState::Failed { reason, .. } => Err(format!("target `{name}`: {reason}")),
    }
}

/// Whether the copies of a kind that are beside the source are in sight.
fn copies_state(executor: &Executor<'_>, kind: &Kind) -> Result<(), String> {
    let why = match executor.feed_of(kind).map(|feed| feed.watch.state()) {
        Some(WatchState::Synced) => return Ok(()),
        Some(WatchState::Failed { reason, .. }) => reason,
        Some(WatchState::NotServed) => "is not served".to_owned(),
        Some(WatchState::Starting) | None => "is not listed yet".to_owned(),
    };
    Err(format!("{} in the consumer's cluster: {why}", kind.kind))
}

/// What carries an owner's label, on the target or beside the sources of a cluster, and is its own. An object that cannot be read is
/// not: the server refuses to create it anew, and the uncached read that follows fails. One that is watched in two versions, for a
/// document in force and for a candidate, is there once: in the version of the document at hand.
pub fn carrying(
    pipeline: &Pipeline,
    generation: &Generation,
    observed: &Observed,
    owner: &Owner,
    beside: Option<&Cluster>,
    read: impl Fn(&Kind, &Key, &Object) -> Option<Arc<serde_json::Value>>,
) -> Vec<TargetObject> {
    // Most objects are of a rule's kind. A mapping that only deletes may follow another version of it.
    let is_of_rule = |kind: &Kind| generation.phase == Phase::Active && generation.mapping.makes(kind);
    let kinds = LazyCell::new(|| pipeline.kinds_of(generation));
    let is_twice = |kind: &Kind| {
        !is_of_rule(kind) && !kinds.contains(kind) && kinds.iter().any(|known| known.is_same_in_any_version(kind))
    };
    let of_kind = |(kind, feed): (Kind, Arc<Feed>)| {
        let owned = feed.watch.store().of_owner(&owner.0, beside.map(|cluster| &cluster.spec.name)).into_iter();
        let recognized = |(at, object): (Key, Arc<Object>)| {
            let reference = target_reference(&kind, &at);
            // Whoever writes there may have given any number of objects the label: those in other namespaces are not parsed, and of large
            // ones only its own are read from the server.
            if !observed.is_place(&reference) {
                return None;
            }
            if !object.is_whole() {
                observed.recognize(&reference, &Arc::new(object.outline().ok()?))?;
            }
            observed.recognize(&reference, &read(&kind, &at, &object)?)
        };
        owned.filter_map(recognized).collect::<Vec<_>>()
    };
    let copies = beside.map(|cluster| pipeline.controller.copy_feeds(&cluster.spec.scope));
    let feeds = copies.unwrap_or_else(|| pipeline.kind_feeds()).into_iter();
    feeds.filter(|(kind, _)| !is_twice(kind)).flat_map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::interests::Interests;

    #[test]
    fn an_object_of_a_kind_that_no_document_at_hand_names_waits_for_the_state_store() {
        let interests = Interests::default();
        let target = ClusterName::try_from("target").expect("a name");
        let [known, other] = ["ConfigMap", "Secret"].map(|kind| Kind::new("", "v1", kind));
        let mut observed = Observed::default();
        let open = |observed: &Observed| {
            let mut facts = interests.reader(&observed.subject.key);
            wait_for_kinds(observed, &target, &mut facts);
            facts.open().cloned().collect::<Vec<_>>()
        };
        for (kind, opens) in [(&known, vec![]), (&other, vec![Interest::Topic(Topic::Store(target.clone()))])] {
            let reference = Reference { kind: kind.clone(), namespace: "default".into(), name: "x".into() };
            observed.objects.push(TargetObject::new(reference, Arc::new(json!({}))));
            observed.target.kinds = Ok(Kinds([(known.clone(), Ok(()))].into()));
            assert_eq!(open(&observed), opens, "{kind}");
        }
        observed.target.kinds = Err(Reason::unseen("the state store is not read"));
        assert!(open(&observed).is_empty(), "that is what it waits for");
    }

    #[test]
    fn a_source_is_parsed_once_for_all_targets_of_a_reconcile() {
        let object = |version: &str| {
            let text = format!(r#"{{"metadata": {{"name": "a", "resourceVersion": "{version}"}}}}"#);
            Arc::new(Object::from_json(text.as_bytes()).expect("an object"))
        };
        let (first, second, tree) = (object("1"), object("2"), SourceTree::default());
        let targets = [tree.clone(), tree.clone(), tree];
        let [one, another] = [0, 1].map(|at: usize| targets[at].of(&first).expect("a tree"));
        assert!(Arc::ptr_eq(&one, &another));
        for object in [second, first] {
            let read = targets[2].of(&object).expect("a tree");
            assert_eq!(metadata(&read, "resourceVersion"), object.resource_version());
        }
    }
}
