use std::cell::Cell;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::promotion::Candidate;
use super::shared_use::Uses;
use super::wakes::target_reference;
use super::*;
use crate::engine::Settings;
use crate::engine::apply::Executor;
use crate::engine::events::Recorder;
use crate::engine::interests::{Collection, Interests, Related, Topic};
use crate::engine::inventory::{Former, SourceId};
use crate::engine::keeper::{
    Unanswered, check_first, check_sources, heed_home, is_final, look_at_home, remove, tell_home, wanted,
};
use crate::engine::observe::{carrying, observe};
use crate::engine::retained;
use crate::engine::serving::compiled;
use crate::engine::slots::double;
use crate::engine::target::aliases;
use crate::engine::target::tests::{Open, cluster, cluster_at, connection, connection_by, serves};
use crate::engine::tests::settings;
use crate::engine::worker;
use crate::health::{Health, Level};
use crate::mapping::{OnExit, Resource, Side};
use crate::multicluster::Object;
use crate::multicluster::connection::Connection;
use crate::multicluster::permit::{Lease, Permit};
use crate::multicluster::raw::Parsed;
use crate::multicluster::registry::WatchScope;
use crate::multicluster::store::{Change, ChangeCause};
use crate::object::ClusterName;
use crate::object::marks::{self, Origin, Owner};
use crate::plan::{Observed, Prune};
use crate::server::Instruments;

const DOCUMENT: &str = r#"apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: widgets}
spec:
  source:
    apiExport: {name: widgets, path: "root:widgets"}
    resource: widgets.v1.example.dev
  objects:
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, data: {size: "1"}}
"#;

fn pipeline(lease: Lease) -> Arc<Pipeline> {
    pipeline_among([].into(), lease)
}

fn pipeline_among(connections: BTreeMap<String, Arc<Connection>>, lease: Lease) -> Arc<Pipeline> {
    let settings = Settings { connections, ..settings(&["target"]) };
    let mut shared = Shared::new(settings, Instruments::default(), Recorder::default());
    shared.lease = lease;
    let target = Arc::new(Target::new("target", connection(), Arc::default()).expect("a target"));
    let generation = Generation::new(compiled(DOCUMENT).expect("a mapping"), Phase::Active, target);
    let writer = Writer::new("main", "widgets");
    let controller = Controller::new(writer, Arc::new(shared), generation.mapping.clone(), 7);
    let pipeline = Pipeline::new(controller.clone(), generation);
    controller.add("", &pipeline);
    pipeline
}

/// A document takes the place of the one that runs.
fn run(pipeline: &Arc<Pipeline>, text: &str) -> Arc<Generation> {
    let target = pipeline.generation().target.clone();
    pipeline.swap(Generation::new(compiled(text).expect("a mapping"), Phase::Active, target));
    pipeline.generation()
}

/// What runs once a file has this document.
fn of_file(pipeline: &Pipeline, text: &str, phase: Phase) -> Generation {
    let target = pipeline.generation().target.clone();
    Generation { is_of_file: true, ..Generation::new(compiled(text).expect("a mapping"), phase, target) }
}

/// A document by which the sources of a namespace share an account.
fn sharing(account: &str) -> String {
    let account = format!("{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {account}}}}}");
    format!("{DOCUMENT}    - {{id: account, shared: Namespace, template: {account}}}\n")
}

/// A document with several targets.
fn several() -> String {
    DOCUMENT.replace("  objects:", "  targets: {allowed: [target, other]}\n  objects:")
}

/// One whose engine has a home.
fn pipeline_with_home() -> Arc<Pipeline> {
    pipeline_among([("target".to_owned(), connection())].into(), Lease::default())
}

/// The same mapping on another target.
fn beside(pipeline: &Pipeline, name: &str) -> Arc<Pipeline> {
    let target = Arc::new(Target::new(name, connection(), Arc::default()).expect("a target"));
    let generation = Generation::new(pipeline.generation().mapping.clone(), Phase::Active, target);
    let other = Pipeline::new(pipeline.controller.clone(), generation);
    pipeline.controller.add(name, &other);
    other
}

/// What the mapping serves, as the state store says it.
fn served() -> SourceId {
    SourceId { resource: "widgets.example.dev".into(), identity: "one".into() }
}

/// A source waits for a fact.
fn wait_for(pipeline: &Pipeline, name: &str, topic: Topic) {
    pipeline.controller.interests.reader(&key(name)).read([topic], || (), |()| true);
}

/// Takes all sources out of the queue.
fn queued(pipeline: &Pipeline) -> Vec<Key> {
    pipeline.controller.queue.remove_cluster(&key("x").cluster)
}

/// Whoever asks home from now on is told what another one was: it knows of none.
async fn home_was_asked(pipeline: &Pipeline) {
    let asked = Instant::now() + Duration::from_secs(60);
    pipeline.controller.told_home.lock().await.asked = Some((pipeline.shared.lease.number(), asked));
}

/// What the state store holds once a document is in force.
fn in_force(text: &str) -> Inventory {
    Inventory { document: text.into(), resource_version: "1".into(), ..Inventory::default() }
}

/// Each way in which a source comes to lose something by the document in force.
#[tokio::test]
async fn a_source_loses_what_was_counted_or_granted_or_what_it_lost_at_its_end() {
    let pipeline = pipeline(Lease::default());
    let (key, owner) = (key("x"), Owner("o".into()));
    let generation = pipeline.generation();
    let prune = || pipeline.prune(&generation, &key, &owner);
    assert_eq!(prune(), Prune::Allowed, "nothing is compared");
    let before = Some(vec![generation.mapping.clone()]);
    let open = |counted: &[&str]| {
        pipeline.open_losses(before.clone(), counted.iter().map(|one| (*one).to_owned()).collect());
        pipeline.state.lock().losses.listed(&key);
    };
    open(&["o"]);
    assert_eq!(prune(), Prune::Allowed, "it was counted");
    open(&["other"]);
    assert_eq!(prune(), Prune::none());
    pipeline.planned(&key, &generation, 2, false);
    assert_eq!(pipeline.asked(), [(key.clone(), 2)]);
    pipeline.grant(key.clone(), 2);
    assert!(pipeline.asked().is_empty());
    assert_eq!([1, 2, 3].map(|objects| pipeline.may_lose(&generation, &key, objects)), [true, true, false]);
    let target = generation.target.clone();
    let candidate = Generation::new(generation.mapping.clone(), Phase::Active, target);
    assert!(!pipeline.may_lose(&candidate, &key, 1), "a candidate takes nothing of it");
    assert_eq!(pipeline.prune(&candidate, &key, &owner), Prune::none());
    pipeline.planned(&key, &generation, 0, true);
    assert_eq!(prune(), Prune::Allowed, "it was seen at its end");
    let rests = pipeline.tables();
    pipeline.state.lock().losses.listed(&key);
    assert_ne!(pipeline.tables(), rests, "it came into sight again");
    assert!(!pipeline.may_lose(&generation, &key, 1), "what it was granted was for its way to that end");
    pipeline.state.lock().losses.forget_all(|one| one.cluster == key.cluster);
    assert_eq!(pipeline.tables(), rests);
}

/// Its cluster may be engaged later, or its list does not show it any more: what it loses then, nobody has counted.
#[tokio::test]
async fn a_source_that_only_its_object_names_asks_for_what_it_loses_until_nothing_of_it_is_left() {
    let pipeline = pipeline(Lease::default());
    let (generation, key, writer) = (pipeline.generation(), key("x"), &pipeline.writer);
    let kind = &generation.mapping.objects[0].kind;
    let at = Key::new(ClusterName::try_from("target").expect("a name"), "default", "x");
    let origin = Origin::new(&generation.mapping.source.resource, "c", &key);
    let (owner, object) = (writer.owner(&origin), owned(writer, &origin, kind, &at));

    let prune = || pipeline.prune(&generation, &key, &owner);
    pipeline.open_losses(Some(vec![generation.mapping.clone()]), BTreeSet::new());
    assert_eq!(prune(), Prune::Allowed, "nobody has heard of it");
    pipeline.controller.enqueue_origin(kind, &at, &object, Priority::Initial);
    assert_eq!(prune(), Prune::none());
    pipeline.planned(&key, &generation, 0, false);
    assert_eq!(prune(), Prune::none(), "it is orphaned for now");
    pipeline.planned(&key, &generation, 1, false);
    assert_eq!(pipeline.asked(), [(key.clone(), 1)]);
    pipeline.forget(&key);
    assert_eq!((prune(), pipeline.asked()), (Prune::Allowed, Vec::new()));
}

/// A release that goes on while the ledger of the one before is open is compared with both documents before.
#[tokio::test]
async fn losses_are_compared_with_every_document_before() {
    let pipeline = pipeline(Lease::default());
    let edited = compiled(&DOCUMENT.replace("\"1\"", "\"2\"")).expect("a mapping");
    let key = key("x");
    let generation = pipeline.generation();
    let texts =
        |all: Option<Vec<Arc<Mapping>>>| all.map(|all| all.iter().map(|one| one.text.clone()).collect::<Vec<_>>());
    let candidate = Generation::new(edited.clone(), Phase::Active, generation.target.clone());
    let in_force = generation.mapping.text.clone();
    assert_eq!(texts(pipeline.compared_with(&generation, &key)), Some(vec![]));
    assert_eq!(texts(pipeline.compared_with(&candidate, &key)), Some(vec![in_force.clone()]));
    pipeline.open_losses(Some(vec![edited.clone()]), BTreeSet::new());
    pipeline.state.lock().losses.listed(&key);
    assert_eq!(texts(pipeline.compared_with(&generation, &key)), Some(vec![edited.text.clone()]));
    assert_eq!(texts(pipeline.documents_before()), Some(vec![edited.text.clone(), in_force.clone()]));
    let leaving =
        Generation::new(generation.mapping.clone(), Phase::Leaving(OnExit::Delete), generation.target.clone());
    assert_eq!(texts(pipeline.compared_with(&leaving, &key)), Some(vec![edited.text.clone(), in_force]));
    pipeline.open_losses(None, BTreeSet::new());
    pipeline.state.lock().losses.listed(&key);
    assert_eq!(texts(pipeline.compared_with(&candidate, &key)), None, "what cannot be read would keep everything");
}

/// An object that names this source, with true ownership annotations.
fn owned(writer: &Writer, origin: &Origin, kind: &Kind, at: &Key) -> Object {
    let owner = writer.owner(origin);
    let mut annotations: BTreeMap<&str, String> = marks::origin_annotations(origin).collect();
    annotations.insert(marks::OBJECT, "copy".into());
    annotations.insert(marks::SELF, owner.self_mark("copy", &target_reference(kind, at)));
    let labels: BTreeMap<&str, &str> = marks::labels(writer, &owner).into();
    let metadata = serde_json::json!({
        "name": &*at.name, "namespace": &*at.namespace, "uid": "u", "resourceVersion": "1",
        "labels": labels, "annotations": annotations,
    });
    let object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    Object::from_json(object.to_string().as_bytes()).expect("an object")
}

/// The watch on a kind shows an object of this source.
fn shows(pipeline: &Pipeline, kind: Kind, source: &str) {
    let at = Key::new(ClusterName::try_from("target").expect("a name"), "default", source);
    let origin = Origin::new(&pipeline.generation().mapping.source.resource, "c", &key(source));
    let object = owned(&pipeline.writer, &origin, &kind, &at);
    let (scope, selectors) = (cluster("target").spec.scope.clone(), of_mapping(&pipeline.writer));
    let (resource, collection) = (kind.resource(&kind.plural()), Collection::Kind("target".into(), kind.clone()));
    let feed = pipeline.controller.follow(&scope, &resource, &selectors, collection, |_, _| ());
    put(&feed, &object.json());
    pipeline.feeds.lock().insert(kind, Arc::new(feed));
}

/// A watch shows this object.
fn put(feed: &Feed, text: &str) {
    feed.watch.store().put(Parsed::read(text).expect("its text")).expect("an object");
}

/// It deletes what is there in the version that is served, whatever version its document names. In the middle of a release, the state
/// store names that of the candidate too: each object is there once.
#[tokio::test]
async fn a_mapping_that_only_deletes_sees_a_kind_in_the_version_of_its_state_store() {
    let rows: [(Phase, &[&str], &str); 4] = [
        (Phase::Active, &["v2"], "v1"),
        (Phase::DeletionsOnly, &["v2"], "v2"),
        (Phase::Leaving(OnExit::Delete), &["v2"], "v2"),
        (Phase::DeletionsOnly, &["v1", "v2"], "v1"),
    ];
    for (phase, stored, version) in rows {
        let pipeline = pipeline(Lease::default());
        let generation = pipeline.generation();
        pipeline.swap(Generation::new(generation.mapping.clone(), phase, generation.target.clone()));
        let stored = stored.iter().map(|version| Kind::new("", *version, "ConfigMap"));
        pipeline.confirm(&pipeline.generation(), Ok(Inventory { kinds: stored.collect(), ..in_force(DOCUMENT) }));
        let kinds: Vec<Kind> = pipeline.kinds().into_iter().collect();
        assert_eq!(kinds, [Kind::new("", version, "ConfigMap")]);
    }
}

/// The object may be gone, and its watch ends before it tells.
#[tokio::test]
async fn who_has_an_object_of_a_kind_that_is_followed_no_more_is_looked_at_again() {
    let pipeline = pipeline(Lease::default());
    shows(&pipeline, Kind::new("", "v1", "Secret"), "x");
    pipeline.confirm(&pipeline.generation(), Ok(in_force(DOCUMENT)));
    queued(&pipeline);
    pipeline.follow_kinds();
    assert_eq!((pipeline.kind_feeds().len(), pipeline.controller.queue.depth().ready), (0, 1));
}

/// One that vanished may wait for its cluster, with objects that are gone meanwhile.
#[tokio::test]
async fn who_has_an_object_is_looked_at_again_where_its_target_is_found_elsewhere() {
    for is_another in [false, true] {
        let pipeline = pipeline(Lease::default());
        let generation = pipeline.generation();
        let (target, kind) = (&generation.target, &generation.mapping.objects[0].kind);
        let moved = connection().endpoint_at("http://127.0.0.1:2").expect("an address");
        target.engage(&Arc::new(cluster_at("target", moved)));
        serves(target, kind);
        shows(&pipeline, kind.clone(), "x");
        queued(&pipeline);
        if is_another {
            pipeline.target_replaced();
        } else {
            pipeline.follow_kinds();
        }
        assert_eq!((pipeline.objects(), queued(&pipeline)), (0, vec![key("x")]), "another cluster: {is_another}");
    }
}

/// The watch that a candidate needs on another version of a kind shows the same objects.
#[tokio::test]
async fn an_object_beside_its_source_is_there_once_in_the_version_of_the_document_at_hand() {
    let document = |version: &str| {
        let part = format!("apiVersion: example.dev/{version}, kind: Part");
        let beside = DOCUMENT.replace("  objects:", "  target: {cluster: source}\n  objects:");
        beside.replace("apiVersion: v1, kind: ConfigMap", &part)
    };
    for [at_hand, waits] in [["v1", "v2"], ["v2", "v1"]] {
        let (pipeline, cluster, key) = (pipeline(Lease::default()), cluster("c"), key("x"));
        let generation = run(&pipeline, &document(at_hand));
        pipeline.controller.engage(&cluster);
        pipeline.set_candidate(Some(&compiled(&document(waits)).expect("a mapping")));
        let origin = Origin::new(&generation.mapping.source.resource, cluster.identity(), &key);
        let feeds = pipeline.controller.copy_feeds(&cluster.spec.scope);
        assert_eq!(feeds.len(), 2);
        for (kind, feed) in feeds {
            put(&feed, &owned(&pipeline.writer, &origin, &kind, &key).json());
        }
        let feed = pipeline.controller.feed_of(&cluster).expect("its sources are followed");
        let executor = Executor::permitted(&pipeline, &generation, &cluster, &feed, &key, Permit::of_nothing());
        let interests = Interests::default();
        let (observed, _) = observe(&executor, &mut interests.reader(&key));
        let versions: Vec<&str> = observed.objects.iter().map(|one| &*one.reference.kind.version).collect();
        assert_eq!(versions, [at_hand]);
    }
}

/// Whoever may write in another namespace may have given ten thousand large objects the label of one source.
#[tokio::test]
async fn what_carries_the_label_of_a_source_in_a_namespace_that_is_not_its_own_is_not_parsed() {
    let pipeline = pipeline(Lease::default());
    let generation = pipeline.generation();
    shows(&pipeline, generation.mapping.objects[0].kind.clone(), "x");
    let owner = pipeline.writer.owner(&Origin::new(&generation.mapping.source.resource, "c", &key("x")));
    for (place, all) in [("default", 1), ("elsewhere", 0)] {
        let (mut observed, parsed) = (Observed::default(), Cell::new(0));
        observed.subject.owner = owner.clone();
        observed.target.places = [place.to_owned()].into();
        let read = |_: &Kind, _: &Key, object: &Object| {
            parsed.set(parsed.get() + 1);
            object.value().ok().map(Arc::new)
        };
        let found = carrying(&pipeline, &generation, &observed, &owner, None, read).len();
        assert_eq!((found, parsed.get()), (all, all), "{place}");
    }
}

/// A cluster that is found at another address is out of sight until the engine has heard of it: its sources have not changed.
#[tokio::test]
async fn how_often_a_source_was_changed_is_not_known_while_it_is_out_of_sight() {
    let (pipeline, cluster) = (pipeline(Lease::default()), cluster("c"));
    pipeline.controller.engage(&cluster);
    let feed = pipeline.controller.feed_of(&cluster).expect("its sources are followed");
    let source =
        r#"{"metadata": {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 3}}"#;
    put(&feed, source);
    assert_eq!(pipeline.generation_number(&feed.keys()[0]), None);
}

/// At each start and each change of leader, each of many targets hears of it: nobody goes through the objects of all others for that.
#[tokio::test]
async fn what_a_target_hears_of_a_release_has_those_looked_at_who_wait_for_it_there() {
    let pipeline = pipeline(Lease::default());
    let (other, candidate) = (beside(&pipeline, "other"), compiled(&sharing("a")).expect("a mapping"));
    shows(&pipeline, Kind::new("", "v1", "Secret"), "x");
    shows(&other, Kind::new("", "v1", "ServiceAccount"), "y");
    pipeline.confirm(&pipeline.generation(), Ok(Inventory { release: "found".into(), ..in_force(DOCUMENT) }));
    queued(&pipeline);
    other.no_release_is_under_way();
    assert!(queued(&pipeline).is_empty(), "nobody waits for that");
    pipeline.no_release_is_under_way();
    assert_eq!(queued(&pipeline), [key("x")]);
    // One that is missing, and has its objects elsewhere.
    wait_for(&pipeline, "z", Topic::Store(other.generation().target.cluster.clone()));
    other.promote(&candidate, &[]);
    other.demote();
    assert_eq!(BTreeSet::from_iter(queued(&pipeline)), [key("y"), key("z")].into());
}

/// A target may come and go all day.
#[tokio::test]
async fn a_target_that_is_lost_has_nobody_go_through_the_objects_of_the_others() {
    let pipeline = pipeline(Lease::default());
    let other = beside(&pipeline, "other");
    shows(&pipeline, Kind::new("", "v1", "Secret"), "x");
    shows(&other, Kind::new("", "v1", "Secret"), "y");
    assert!(other.has_become_lost_or_found(), "nobody knows yet which cluster it is");
    queued(&pipeline);
    pipeline.controller.enqueue_sources(&[]);
    assert!(queued(&pipeline).is_empty(), "which targets there are is no news to sources that are gone");
    pipeline.controller.look_at_targets();
    assert_eq!(queued(&pipeline), [key("x")]);
    pipeline.controller.look_at_targets();
    assert!(queued(&pipeline).is_empty(), "it is no news");
}

/// A consumer writes beside their source what they like.
#[tokio::test]
async fn an_object_beside_its_source_names_no_source_elsewhere() {
    let pipeline = pipeline(Lease::default());
    let mapping = pipeline.generation().mapping.clone();
    let origin = Origin::new(&mapping.source.resource, "c", &key("x"));
    let named = |side: Side, cluster: &str, namespace: &str| {
        let kind = mapping.objects[0].kind.on(side);
        let at = Key::new(ClusterName::try_from(cluster).expect("a name"), namespace, "any");
        pipeline.controller.source_of(&kind, &at, &owned(&pipeline.writer, &origin, &kind, &at))
    };
    assert_eq!(named(Side::Target, "target", "other"), Some(key("x")));
    assert_eq!(named(Side::Source, "c", "default"), Some(key("x")));
    assert_eq!([named(Side::Source, "d", "default"), named(Side::Source, "c", "other")], [None, None]);
}

fn key(name: &str) -> Key {
    Key::new(ClusterName::try_from("c").expect("a name"), "default", name)
}

fn at(place: &str) -> Uses {
    Uses { places: [place.to_owned()].into(), ..Uses::default() }
}

/// It is planned again only after the state store was confirmed: another source may be planned before it.
#[tokio::test]
async fn a_replica_that_stood_by_does_not_know_who_uses_what_is_shared() {
    let lease = Lease::of_replica();
    lease.take(None, None);
    let pipeline = pipeline(lease.clone());
    run(&pipeline, &sharing("a"));
    let uses = |place: &str| pipeline.shared_use.lock().in_use(place, Some(&key("other")));
    let saw = |place: &str| pipeline.saw_places(&pipeline.generation(), &key("x"), &at(place));
    saw("former");
    assert_eq!((uses("former"), uses("new")), (Some(true), Some(false)));
    lease.lose();
    pipeline.leadership(lease.number());
    // It went to another place, and one more came.
    pipeline.stands_by(&key("x"), true);
    pipeline.stands_by(&key("y"), true);
    lease.take(None, None);
    pipeline.leadership(lease.number());
    assert_eq!(uses("new"), None, "nothing is taken along before both are planned");
    saw("new");
    pipeline.stands_by(&key("y"), false);
    assert_eq!((uses("former"), uses("new")), (Some(false), Some(true)));
}

/// What is shared names no source, and who is gone reads nothing.
#[tokio::test]
async fn a_shared_object_without_users_wakes_sources_that_were_deleted_lately() {
    let lease = Lease::default();
    let pipeline = pipeline(lease.clone());
    run(&pipeline, &sharing("a"));
    let kind = Kind::new("", "v1", "ServiceAccount");
    let place = Key::new(ClusterName::try_from("target").expect("a name"), "default", "a");
    let owner = pipeline.writer.shared_owner(&place.namespace);
    let labels: BTreeMap<&str, &str> = marks::labels(&pipeline.writer, &owner).into();
    let metadata = serde_json::json!({
        "name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1", "labels": labels,
    });
    let object = serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    let object = Arc::new(Object::from_json(object.to_string().as_bytes()).expect("an object"));
    let woken = || {
        let cause = ChangeCause::Event;
        pipeline.target_changed(&kind, &Change { key: &place, before: None, after: Some(&object), cause });
        queued(&pipeline)
    };
    assert!(woken().is_empty(), "none was deleted");
    pipeline.learned.lock().saw_deletion(&key("x"), "u", tokio::time::Instant::now());
    pipeline.saw_places(&pipeline.generation(), &key("y"), &at("default"));
    assert!(woken().is_empty(), "another one uses it");
    pipeline.uses_nothing(&key("y"));
    assert_eq!(woken(), [key("x")]);
    lease.lose();
    assert!(woken().is_empty(), "another replica knows who uses it");
    lease.take(None, None);
    pipeline.leadership(lease.number());
    pipeline.confirm(&pipeline.generation(), Ok(in_force(&sharing("a"))));
    assert_eq!(queued(&pipeline), [key("x")], "that one may have ended before it came");
}

/// A reconcile goes on with the document that it began with.
#[tokio::test]
async fn what_a_source_uses_by_a_document_that_was_replaced_meanwhile_tells_nothing() {
    let pipeline = pipeline(Lease::default());
    let saw = |by: &Generation, place: &str| pipeline.saw_places(by, &key("x"), &at(place));
    let uses = |place: &str| pipeline.shared_use.lock().in_use(place, Some(&key("other")));
    let former = run(&pipeline, &sharing("a"));
    saw(&former, "former");
    let present = run(&pipeline, &sharing("b"));
    saw(&former, "former");
    assert_eq!(uses("new"), None, "it may use any place by the document that runs");
    saw(&present, "new");
    assert_eq!((uses("former"), uses("new")), (Some(false), Some(true)));
    run(&pipeline, DOCUMENT);
    saw(&present, "new");
    assert_eq!(pipeline.shared_use.lock().size(), 0, "nothing is shared any more");
}

#[tokio::test]
async fn what_a_source_uses_is_news_to_others_alone() {
    let pipeline = pipeline(Lease::default());
    let generation = run(&pipeline, &sharing("a"));
    let topic = || Topic::Placement(generation.target.cluster.clone(), "place".into());
    ["x", "y"].iter().for_each(|name| wait_for(&pipeline, name, topic()));
    pipeline.saw_places(&generation, &key("x"), &at("place"));
    assert_eq!(queued(&pipeline), [key("y")]);
    pipeline.uses_nothing(&key("x"));
    assert_eq!(queued(&pipeline), [key("y")]);
}

/// A reconcile may be under way when the cluster leaves: what it notes after that, the next one takes back.
#[tokio::test]
async fn a_source_whose_cluster_is_not_engaged_uses_nothing() {
    let pipeline = pipeline(Lease::default());
    let generation = run(&pipeline, &sharing("a"));
    pipeline.saw_places(&generation, &key("x"), &at("place"));
    let queue = &pipeline.controller.queue;
    queue.add(key("x"), Priority::Initial);
    let taken = queue.next(1).await.expect("it is queued");
    worker::reconcile(pipeline.controller.clone(), taken).await;
    assert_eq!(pipeline.shared_use.lock().size(), 0);
}

/// A kind may be missing on one target for good, while another target is doubted every second.
#[tokio::test]
async fn what_a_target_tells_wakes_nobody_who_waits_for_a_kind_on_another() {
    let pipeline = pipeline(Lease::default());
    let kind = pipeline.generation().mapping.objects[0].kind.clone();
    for (name, at) in [("x", "target"), ("y", "other")] {
        wait_for(&pipeline, name, Topic::Synced(Collection::Kind(at.into(), kind.clone())));
    }
    pipeline.target_told();
    assert_eq!(queued(&pipeline), [key("x")]);
}

/// A kind whose definition never came is in no watch that could tell of it.
#[tokio::test]
async fn who_waits_for_a_kind_that_the_state_store_names_no_more_is_woken() {
    let pipeline = pipeline(Lease::default());
    let generation = pipeline.generation();
    let kind = Kind::new("example.dev", "v1", "Other");
    let named = || Inventory { kinds: [kind.clone()].into(), ..in_force(DOCUMENT) };
    pipeline.confirm(&generation, Ok(named()));
    let of_kind = Collection::Kind(generation.target.cluster.as_str().into(), kind.clone());
    wait_for(&pipeline, "x", Topic::Synced(of_kind));
    pipeline.confirm(&generation, Ok(named()));
    assert!(queued(&pipeline).is_empty(), "it is named still");
    pipeline.confirm(&generation, Ok(in_force(DOCUMENT)));
    assert_eq!(queued(&pipeline), [key("x")]);
}

#[tokio::test]
async fn a_document_does_not_run_on_the_confirmation_of_the_one_before() {
    let edited = DOCUMENT.replace("\"1\"", "\"2\"");
    let pipeline = pipeline(Lease::default());
    let first = pipeline.generation();
    pipeline.confirm(&first, Ok(in_force(DOCUMENT)));
    assert_eq!(pipeline.unconfirmed(), None);

    let second = run(&pipeline, &edited);
    pipeline.confirm(&first, Ok(in_force(DOCUMENT)));
    assert!(pipeline.unconfirmed().is_some(), "the keeper had read the state store for the document before");

    pipeline.confirm(&second, Ok(in_force(&edited)));
    assert_eq!(pipeline.unconfirmed(), None);
}

/// Its objects are seen in the version that the mapping names: nothing has to be looked for in another one.
#[tokio::test]
async fn a_state_store_names_each_kind_in_one_version() {
    let pipeline = pipeline(Lease::default());
    let generation = pipeline.generation();
    let named = generation.mapping.objects[0].kind.clone();
    let former = Kind::new(&named.group, "v0", &named.kind);
    let other = Kind::new("example.dev", "v1", "Other");
    let plurals = [(former.clone(), "irregular".to_owned())].into();
    let found = Inventory { kinds: [former, other.clone()].into(), plurals, ..in_force(DOCUMENT) };
    let wanted = wanted(&pipeline, &generation, Some(&found), served(), &BTreeMap::new());
    assert_eq!(wanted.kinds, [named.clone(), other].into());
    assert_eq!(wanted.plurals, [(named, "irregular".to_owned())].into(), "one definition has both versions");
}

/// A document with a mistake in its source holds up nothing; what a state store holds, nobody overwrites for it.
#[tokio::test]
async fn a_document_of_other_sources_takes_the_place_of_one_that_was_never_recorded_and_supersedes_nothing() {
    let other = DOCUMENT.replace("widgets.v1.example.dev", "gadgets.v1.example.dev");
    let widgets = compiled(DOCUMENT).expect("a mapping");
    // One that runs deletions alone is confirmed without a state store.
    let unrecorded = Inventory { resource_version: String::new(), ..in_force(DOCUMENT) };
    for store in [None, Some(unrecorded), Some(in_force(DOCUMENT))] {
        let pipeline = pipeline(Lease::default());
        let is_recorded = store.as_ref().is_some_and(|store| !store.resource_version.is_empty());
        if let Some(store) = store {
            pipeline.confirm(&pipeline.generation(), Ok(store));
        }
        assert_eq!(pipeline.has_served(), is_recorded);
        run(&pipeline, &other);
        assert_eq!((pipeline.has_served(), pipeline.supersedes(&widgets)), (false, is_recorded));
    }
}

/// One that had left for good is struck from the state store, perhaps at the moment in which it comes back.
#[tokio::test]
async fn the_state_store_is_looked_at_where_a_source_is_in_a_cluster_that_it_may_not_name() {
    let (pipeline, cluster) = (pipeline(Lease::default()), cluster("c"));
    let is_due = || pipeline.inventory_due().now_or_never().is_some();
    pipeline.note_here(&cluster);
    assert!(!is_due(), "it may have no source");
    pipeline.forget_clusters(&[&cluster], &[&cluster]);
    is_due();
    pipeline.note_here(&cluster);
    assert!(is_due(), "it had left");
    assert!(!pipeline.is_named(&cluster) && is_due(), "a source asks for it");
    let clusters = [recorded_as(&cluster)].into();
    pipeline.confirm(&pipeline.generation(), Ok(Inventory { clusters, ..in_force(DOCUMENT) }));
    is_due();
    pipeline.note_here(&cluster);
    assert!(pipeline.is_named(&cluster) && !is_due());
}

/// A document that takes in no source does not write the state store, which names the cluster and the target still.
#[tokio::test]
async fn a_cluster_or_a_target_that_has_left_is_known_to_have_until_the_state_store_is_written_without_it() {
    let (pipeline, cluster) = (pipeline(Lease::default()), cluster("c"));
    let place = recorded_as(&cluster);
    let document = pipeline.generation();
    let closing = Generation::new(document.mapping.clone(), Phase::DeletionsOnly, document.target.clone());
    pipeline.forget_clusters(&[&cluster], &[&cluster]);
    pipeline.leaves_target("former");
    pipeline.swap(closing);
    pipeline.confirm(&pipeline.generation(), Ok(in_force(DOCUMENT)));
    assert!(pipeline.has_left(&place) && pipeline.was_target("former"));
    pipeline.swap(Generation::new(document.mapping.clone(), Phase::Active, document.target.clone()));
    pipeline.confirm(&pipeline.generation(), Ok(in_force(DOCUMENT)));
    assert!(!pipeline.has_left(&place) && !pipeline.was_target("former"));
}

/// A provider of sources and a target may be one connection, and call its cluster differently.
#[tokio::test]
async fn related_objects_of_both_sides_are_watched_apart_at_one_address() {
    let pipeline = pipeline(Lease::default());
    let endpoint = connection().endpoint();
    let of_side = |name: &str| ClustersOf::One(ClusterName::try_from(name).expect("a name"));
    let feed = |name: &str| {
        let (at, clusters) = (endpoint.place(), of_side(name));
        let scope = WatchScope { endpoint: endpoint.clone(), clusters: clusters.clone() };
        let resource = Resource::new("", "v1", "secrets");
        pipeline.controller.related_feed(&scope, &Arc::new(Related { at, clusters, resource, labels: String::new() }))
    };
    let feeds = ["source", "target"].map(|side| (feed(side), of_side(side)));
    assert!(feeds.iter().all(|(feed, clusters)| feed.scope.clusters == *clusters));
    assert!(Arc::ptr_eq(&feeds[0].0, &feed("source")), "it is opened once");
}

/// It may hold objects: only an engine that has looked for them takes it out of the state store.
#[tokio::test]
async fn a_target_that_the_mapping_does_not_run_on_for_now_stays_in_the_state_store() {
    let pipeline = pipeline(Lease::default());
    let generation = pipeline.generation();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let found = Inventory { targets: names(&["held-up", "target"]), ..in_force(DOCUMENT) };
    let named = || wanted(&pipeline, &generation, Some(&found), served(), &BTreeMap::new()).targets;
    let targets_are = |all: &[&str]| pipeline.controller.targets_are(names(all));
    assert!(targets_are(&["held-up", "target"]) && !targets_are(&["held-up", "target"]));
    assert!(targets_are(&["target"]), "it is news");
    assert_eq!(named(), names(&["held-up", "target"]));
    pipeline.leaves_target("held-up");
    assert_eq!(named(), names(&["target"]));
    assert!(targets_are(&["held-up", "target"]));
    assert_eq!(named(), names(&["held-up", "target"]), "it is a target again");
}

/// A keeper may be faster than what tells it of the mapping's targets, and a start goes by what home names.
#[tokio::test]
async fn a_target_is_named_with_its_first_state_store_whatever_it_knows_of_the_others() {
    let pipeline = pipeline(Lease::default());
    let named = |generation: &Generation| wanted(&pipeline, generation, None, served(), &BTreeMap::new()).targets;
    assert_eq!(named(&pipeline.generation()), BTreeSet::new(), "it is the only one");
    assert_eq!(named(&run(&pipeline, &several())), ["target".to_owned()].into());
}

#[tokio::test]
async fn connections_to_one_cluster_are_told_with_the_first_of_them_and_a_fleet_leaves_the_engine_ready() {
    let target = |name: &str, identity: &str, open: Open| {
        let mut cluster = cluster(name);
        Arc::make_mut(&mut cluster.spec).identity = identity.into();
        let target = Arc::new(Target::new(name, connection_by(open), Arc::default()).expect("a target"));
        target.engage(&Arc::new(cluster));
        target
    };
    let [of_process, of_fleet] = [Connection::of_process as Open, Connection::of_fleet];
    let (a, b) = (target("a", "one", of_process), target("b", "other", of_process));
    let (c, d) = (target("c", "one", of_fleet), target("d", "one", of_process));
    let all = [a.clone(), b.clone(), c, d.clone()];
    let told: Vec<_> = aliases(&all).iter().map(|(one, other)| format!("{} {}", one.name, other.name)).collect();
    assert_eq!(told, ["a c", "a d"]);
    let level = |targets: &[Arc<Target>]| double(targets).map(|condition| condition.level);
    assert_eq!(level(&all), Some(Level::Degraded));
    assert_eq!((level(&[a.clone(), d]), level(&[a, b])), (Some(Level::Waiting), None));
}

/// Each start would know it by that, and wait for a target that it had before.
#[tokio::test]
async fn a_mapping_that_leaves_takes_along_what_home_says_of_it_whatever_its_target_is() {
    let pipeline = pipeline_with_home();
    pipeline.confirm(&pipeline.generation(), Ok(Inventory::default()));
    let permit = pipeline.shared.lease.permit().expect("a single process has it");
    let error = remove(&pipeline, &permit).await.expect_err("nobody answers there").to_string();
    assert!(error.contains("/configmaps/main.widgets.targets"), "{error}");
}

/// Of a target that is away, each try to reach it fails in its own way.
#[tokio::test]
async fn who_waits_for_the_state_store_is_woken_by_the_first_reason_and_by_none_that_follows_it() {
    let pipeline = pipeline(Lease::default());
    wait_for(&pipeline, "a", Topic::Store(pipeline.generation().target.cluster.clone()));
    for (result, wakes) in [
        (Err("refused".to_owned()), 1),
        (Err("no answer".to_owned()), 0),
        (Ok(in_force(DOCUMENT)), 1),
        (Err("no answer".to_owned()), 1),
        (Err("refused".to_owned()), 0),
    ] {
        pipeline.confirm(&pipeline.generation(), result);
        assert_eq!(queued(&pipeline).len(), wakes);
    }
}

/// One cluster of many holds up no roll-out.
#[tokio::test]
async fn a_target_that_cannot_be_reached_is_news_once_and_one_of_a_fleet_leaves_the_engine_ready() {
    for (open, is_of_fleet) in [Connection::of_process as Open, Connection::of_fleet].into_iter().zip([false, true]) {
        let connection = connection_by(open);
        let target = Arc::new(Target::new("target", connection.clone(), Arc::default()).expect("a target"));
        let (events, mut news) = mpsc::channel(8);
        let (found, health) = (target.clone(), Health::default());
        let (mut tasks, told) = (JoinSet::new(), health.clone());
        tasks.spawn(async move { found.discover(&told, &events).await });
        tokio::task::yield_now().await;
        let mut answered = async |identity: Result<String, String>| {
            connection.identity().doubt();
            connection.identity().confirm(connection.identity().doubts().catch_up(), identity);
            tokio::task::yield_now().await;
            std::iter::from_fn(|| news.try_recv().ok()).count()
        };
        assert_eq!(answered(Err("refused".into())).await, 1 + 1, "that it is looked up, and that it is lost");
        assert_eq!(answered(Err("no answer".into())).await, 0);
        assert_eq!(answered(Err("refused".into())).await, 0);
        assert_eq!((health.standings().len(), health.is_ready()), (1, is_of_fleet));
        target.retire();
        tasks.join_all().await;
    }
}

/// Another one is read through the connection that leads to it now: this one would fail, and say so, for ever.
#[tokio::test]
async fn the_state_stores_of_a_target_are_not_asked_for_through_a_connection_that_leads_there_no_more() {
    let pipeline = pipeline(Lease::default());
    let (target, (events, _news)) = (pipeline.generation().target.clone(), mpsc::channel(8));
    target.retire();
    assert!(retained::read(target, pipeline.shared.clone(), events).now_or_never().is_some());
}

/// The answer may be older than what another process has written since. And where nobody answers, each term would leave one task
/// that goes on asking.
#[tokio::test(start_paused = true)]
async fn state_stores_that_were_asked_for_before_a_term_tell_nothing_in_it() {
    let lease = Lease::of_replica();
    let pipeline = pipeline(lease.clone());
    let (target, (events, _news)) = (pipeline.generation().target.clone(), mpsc::channel(8));
    let mut reading = Box::pin(retained::read(target, pipeline.shared.clone(), events));
    assert!(reading.as_mut().now_or_never().is_none());
    lease.take(None, None);
    assert!(tokio::time::timeout(Duration::from_secs(3600), reading).await.is_ok());
}

/// Without an election, another process may keep the same state store.
#[tokio::test]
async fn a_release_is_over_that_this_process_knows_and_not_one_that_another_has_begun_since() {
    let pipeline = pipeline(Lease::default());
    let naming = |release: &str| Ok(Inventory { release: release.into(), ..in_force(DOCUMENT) });
    pipeline.confirm(&pipeline.generation(), naming("found"));
    assert!(!pipeline.is_over("found"), "home has not told");
    pipeline.no_release_is_under_way();
    assert!(pipeline.is_over("found"));
    pipeline.confirm(&pipeline.generation(), naming("begun"));
    assert!(!pipeline.is_over("begun") && pipeline.takes_doubt() && pipeline.unconfirmed().is_some());
    pipeline.no_release_is_under_way();
    let document = compiled(DOCUMENT).expect("a mapping");
    let begins_and_withdraws = |release: &str| {
        pipeline.record_release(Some(Candidate { document: document.clone(), release: release.into() }));
        pipeline.record_release(None);
    };
    begins_and_withdraws("own");
    assert!(pipeline.is_over("own"));
    pipeline.confirm(&pipeline.generation(), naming("own"));
    assert!(!pipeline.takes_doubt());
    begins_and_withdraws("next");
    assert!(["own", "next"].iter().all(|release| pipeline.is_over(release)), "the next one may not come to be named");
    pipeline.confirm(&pipeline.generation(), naming("restored"));
    assert!(!pipeline.is_over("restored") && pipeline.takes_doubt());
    pipeline.home_read();
    assert!(!pipeline.is_over("restored"), "the engine has not told");
    pipeline.no_release_is_under_way();
    assert!(pipeline.is_over("restored"));
}

/// Home was read before the state store: another process may have begun what that names in between.
#[tokio::test]
async fn a_release_that_a_slow_state_store_names_is_not_over_because_home_had_none_before() {
    let pipeline = pipeline(Lease::default());
    pipeline.home_read();
    pipeline.no_release_is_under_way();
    let begun = || Inventory { release: "begun".into(), ..in_force(DOCUMENT) };
    pipeline.confirm(&pipeline.generation(), Ok(begun()));
    assert!(!pipeline.is_over("begun") && pipeline.takes_doubt());
    pipeline.home_read();
    pipeline.no_release_is_under_way();
    pipeline.confirm(&pipeline.generation(), Ok(begun()));
    assert!(pipeline.is_over("begun") && !pipeline.takes_doubt(), "home was read after it was named");
}

/// Another process may end it, and nothing else would tell.
#[tokio::test]
async fn a_state_store_is_read_again_while_it_names_a_release() {
    let pipeline = pipeline(Lease::default());
    let status = pipeline.generation().mapping.status.written();
    let rests = Inventory { status, ..in_force(DOCUMENT) };
    assert!(is_final(&pipeline, &rests));
    assert!(!is_final(&pipeline, &Inventory { release: "begun".into(), ..rests }));
}

/// An APIExport that is created anew has another identity hash, and its sources are in another storage.
#[tokio::test]
async fn a_document_acts_where_the_state_store_holds_the_same_sources_with_the_same_identity() {
    let pipeline = pipeline(Lease::default());
    let other = DOCUMENT.replace("widgets.v1.example.dev", "gadgets.v1.example.dev");
    let id = |resource: &str, identity: &str| SourceId { resource: resource.into(), identity: identity.into() };
    let here = id("widgets.example.dev", "one");
    let store = |source: SourceId, document: &str| Inventory { source, ..in_force(document) };
    let check = |found: &Inventory| check_sources(&pipeline, &pipeline.generation(), found, &here);
    let refused = |found: &Inventory| check(found).expect_err("it is refused");
    let recorded = store(here.clone(), DOCUMENT);
    assert_eq!(check(&recorded), Ok(()));
    assert!(refused(&store(id("widgets.example.dev", "two"), DOCUMENT)).starts_with("SourceChanged"));
    let held = Inventory { is_held_as_before: true, ..recorded.clone() };
    assert!(refused(&held).contains("put the former file back there"));
    let former = vec![Former { source: id("gadgets.example.dev", "one"), document: other.clone() }];
    assert!(refused(&Inventory { former, ..recorded }).contains("--former"));
    let of_others = store(id("gadgets.example.dev", "one"), &other);
    assert!(refused(&of_others).contains("a document of other sources"));
    assert!(refused(&store(id("gadgets.example.dev", "one"), "kind: [")).contains("cannot read"));
    pipeline.supersede(&compiled(&other).expect("a mapping"));
    assert_eq!(check(&of_others), Ok(()), "the engine has released it");
}

/// Another process may have released a later document before this one saw the file go: deletions go by that one.
#[tokio::test]
async fn a_document_that_another_process_has_replaced_deletes_nothing() {
    let pipeline = pipeline(Lease::default());
    let store = |size: &str, second: i64| Inventory {
        source: served(),
        recorded: Timestamp::from_second(second).ok(),
        ..in_force(&DOCUMENT.replace("\"1\"", size))
    };
    let generation = pipeline.generation();
    pipeline.confirm(&generation, Ok(store("\"1\"", 5)));
    pipeline.swap(Generation::new(generation.mapping.clone(), Phase::DeletionsOnly, generation.target.clone()));
    for (second, is_later) in [(3, false), (7, true)] {
        let found = store("\"2\"", second);
        assert_eq!(pipeline.is_replaced_by(&found), is_later);
        let checked = check_sources(&pipeline, &pipeline.generation(), &found, &served());
        assert_eq!(checked.is_err_and(|why| why.contains("another process with this engine id")), is_later);
    }
}

/// Nobody else knows of it, and a start would go by the one before.
#[tokio::test]
async fn a_document_whose_file_went_before_it_was_recorded_gives_way_to_the_one_before() {
    let pipeline = pipeline(Lease::default());
    let found = Inventory { source: served(), ..in_force(DOCUMENT) };
    let of_file = |phase| of_file(&pipeline, &sharing("a"), phase);
    let check = || check_sources(&pipeline, &pipeline.generation(), &found, &served());
    pipeline.swap(of_file(Phase::Active));
    pipeline.supersede(&compiled(DOCUMENT).expect("a mapping"));
    assert_eq!(check(), Ok(()), "it is about to be recorded");
    pipeline.swap(of_file(Phase::DeletionsOnly));
    assert!(check().expect_err("it is refused").contains("goes on until this one is released"));
    pipeline.named_at_home(&pipeline.generation().mapping, Timestamp::UNIX_EPOCH);
    assert_eq!(check(), Ok(()));
    // Its target may be gone before another one is back.
    let other = Pipeline::new(pipeline.controller.clone(), of_file(Phase::DeletionsOnly));
    pipeline.controller.remove("");
    assert_eq!(check_sources(&other, &other.generation(), &found, &served()), Ok(()));
}

/// Another process may have led meanwhile, and a target that is in sight may have been away.
#[tokio::test]
async fn a_document_whose_file_went_goes_on_where_home_names_it() {
    let (pipeline, several) = (pipeline_with_home(), several());
    pipeline.swap(of_file(&pipeline, &several, Phase::DeletionsOnly));
    let generation = pipeline.generation();
    for (at_home, is_it) in [(DOCUMENT, false), (&*several, true)] {
        let list = Inventory { recorded: Some(Timestamp::UNIX_EPOCH), ..in_force(at_home) };
        pipeline.controller.told_home.lock().await.list = Some((pipeline.shared.lease.number(), list));
        home_was_asked(&pipeline).await;
        assert_eq!(look_at_home(&pipeline, &generation).await.is_ok(), is_it);
        assert_eq!(pipeline.went_unrecorded(&generation), !is_it);
    }
}

/// A keeper reads its state store each time it is rung: each of many targets would be read as often as there are others.
#[tokio::test]
async fn a_target_that_tells_what_its_state_store_says_has_only_those_read_that_wait() {
    let pipeline = pipeline(Lease::default());
    let others = (1..8).map(|number| beside(&pipeline, &format!("t{number}")));
    let all: Vec<Arc<Pipeline>> = [pipeline.clone()].into_iter().chain(others).collect();
    let rung = || all.iter().filter(|one| one.inventory_due().now_or_never().is_some()).count();
    let confirm = |one: &Arc<Pipeline>| one.confirm(&one.generation(), Ok(in_force(DOCUMENT)));
    all[1..].iter().for_each(|one| one.told_store());
    assert_eq!(rung(), 0, "one of them has not told yet");
    all[0].told_store();
    assert_eq!(rung(), 8, "each may have waited for the last one");
    all[1..].iter().for_each(confirm);
    assert_eq!(rung(), 7, "but for the one that was confirmed first");
    confirm(&all[0]);
    assert_eq!(rung(), 0, "all of them are in order");
    all[0].target_replaced();
    all[0].told_store();
    assert_eq!(rung(), 1, "the others do not wait");
}

/// Of a new mapping, a thousand targets wait for a thousand clusters of sources. A tenant may have a watch on what is related come and go.
#[tokio::test]
async fn a_watch_that_comes_or_goes_has_no_state_store_read_that_does_not_wait_for_it() {
    let pipeline = pipeline(Lease::default());
    let other = beside(&pipeline, "other");
    let rung = || [&pipeline, &other].map(|one| one.inventory_due().now_or_never().is_some());
    let kind = pipeline.generation().mapping.objects[0].kind.clone();
    let resource = Resource::new("", "v1", "secrets");
    let clusters = ClustersOf::Annotated;
    let related = Related { at: "shard".to_owned(), clusters, resource, labels: String::new() };
    for (of, rings) in [
        (Collection::Kind("target".into(), kind.clone()), [true, false]),
        (Collection::Kind("shard".into(), kind.on(Side::Source)), [false; 2]),
        (Collection::Related(Arc::new(related)), [false; 2]),
        // Other clusters are still to be described.
        (Collection::Sources("shard".into()), [false; 2]),
    ] {
        pipeline.controller.watch_told(&of);
        assert_eq!(rung(), rings, "{of:?}");
    }
    pipeline.confirm(&pipeline.generation(), Ok(in_force(DOCUMENT)));
    rung();
    pipeline.controller.watch_told(&Collection::Kind("target".into(), kind));
    assert_eq!(rung(), [false; 2], "it is in order");
}

/// Two processes may begin at once without an election: one of them takes sources in while the other one still reads.
#[tokio::test]
async fn what_another_process_took_in_is_proven_by_the_state_store_that_it_wrote() {
    let pipeline = pipeline(Lease::default());
    pipeline.set_unproven([key("x")].into());
    pipeline.recorded_by_another();
    assert!(!pipeline.is_unproven(&key("x")));
    pipeline.set_unproven([key("x")].into());
    pipeline.confirm(&pipeline.generation(), Ok(in_force(DOCUMENT)));
    pipeline.recorded_by_another();
    assert!(pipeline.is_unproven(&key("x")), "this process wrote it");
}

/// What the other process took in would be no more than forged, until a restart.
#[tokio::test]
async fn a_state_store_is_not_taken_for_this_keepers_own_because_home_could_not_be_told() {
    let pipeline = pipeline_with_home();
    let (generation, mut unanswered) = (run(&pipeline, &several()), Unanswered::default());
    let permit = pipeline.shared.lease.permit().expect("a single process has it");
    let store = Inventory { mapping: generation.mapping.name.clone(), ..in_force(DOCUMENT) };
    let told = tell_home(&pipeline, &generation, &store, &permit, &mut unanswered).await;
    let told = told.expect_err("nobody answers there");
    assert!(told.contains("/configmaps"), "home was asked: {told}");
    assert!(!unanswered.may_be_own);
}

/// A later version may have known a field, and made objects by it that the file here does not name. Only a person can say that they
/// may go uncounted.
#[tokio::test]
async fn a_document_that_nobody_can_read_gives_way_to_the_file_once_a_person_takes_it_out() {
    let pipeline = pipeline(Lease::default());
    let later = DOCUMENT.replace("  objects:", "  fromALaterVersion: true\n  objects:");
    let check = |document: &str| {
        let found = Inventory { source: served(), ..in_force(document) };
        check_sources(&pipeline, &pipeline.generation(), &found, &served())
    };
    assert!(check(&later).expect_err("it is refused").contains("take the field `document` out"));
    assert_eq!(check(""), Ok(()));
    // The same at home, for a target that has none yet, or an earlier one.
    let (term, home) = (pipeline.shared.lease.number(), connection());
    for (at_home, is_heeded) in [(&*later, false), ("", true), (DOCUMENT, true)] {
        pipeline.controller.told_home.lock().await.list = Some((term, in_force(at_home)));
        let heeded = heed_home(&pipeline, &pipeline.generation(), &home, None).await;
        assert_eq!(heeded.is_ok(), is_heeded, "{heeded:?}");
    }
}

/// A file that is broken brings no mapping up that somebody else wrote there, for targets that hold nothing of it.
#[tokio::test]
async fn a_document_that_the_state_store_of_another_target_alone_holds_runs_nowhere() {
    let (pipeline, home) = (pipeline_with_home(), connection());
    let (of_stores, of_file) = (pipeline.generation(), of_file(&pipeline, DOCUMENT, Phase::Active));
    let at_home = |generation: &Generation| check_first(&pipeline, generation).expect_err("sources are listed first");
    assert!(at_home(&of_stores).contains("no file holds") && !at_home(&of_file).contains("no file holds"));
    home_was_asked(&pipeline).await;
    assert!(heed_home(&pipeline, &of_stores, &home, None).await.is_err());
    assert!(heed_home(&pipeline, &of_file, &home, None).await.is_ok());
}

/// A tenant may write the finalizer before the mapping has served anybody, or restore an object with it.
#[tokio::test]
async fn a_finalizer_keeps_no_mapping_from_its_first_state_store_where_no_target_holds_another() {
    let (pipeline, home) = (pipeline_with_home(), connection());
    let metadata = serde_json::json!({
        "name": "x", "namespace": "default", "uid": "x", "resourceVersion": "1", "finalizers": [pipeline.writer.finalizer()],
    });
    let source =
        serde_json::json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": metadata}).to_string();
    pipeline.controller.engage(&cluster("c"));
    let feed = pipeline.controller.source_feeds().remove(0);
    put(&feed, &source);
    assert_eq!(pipeline.controller.sources_held("").len(), 1);
    home_was_asked(&pipeline).await;
    let [alone, beside] = [DOCUMENT, &*several()].map(|text| of_file(&pipeline, text, Phase::Active));
    assert!(heed_home(&pipeline, &alone, &home, None).await.is_ok(), "it has no other target");
    let target = Arc::new(Target::new("other", connection(), Arc::default()).expect("a target"));
    let other =
        Pipeline::new(pipeline.controller.clone(), Generation::new(beside.mapping.clone(), Phase::Active, target));
    pipeline.told_store();
    assert!(heed_home(&pipeline, &beside, &home, None).await.is_err(), "the other one is still to come");
    pipeline.controller.add("other", &other);
    assert!(heed_home(&pipeline, &beside, &home, None).await.is_err(), "it has not told yet");
    other.told_store();
    assert!(heed_home(&pipeline, &beside, &home, None).await.is_ok(), "it holds none");
    let (lease, all) = (pipeline.shared.lease.clone(), [&pipeline, &other]);
    let begin_anew = || {
        lease.lose();
        lease.take(None, None);
    };
    begin_anew();
    home_was_asked(&pipeline).await;
    assert!(heed_home(&pipeline, &beside, &home, None).await.is_err(), "another process may have made one");
    all.iter().for_each(|one| one.leadership(lease.number()));
    all.iter().for_each(|one| one.told_store());
    other.confirm(&other.generation(), Ok(in_force(DOCUMENT)));
    assert!(heed_home(&pipeline, &beside, &home, None).await.is_err(), "it holds one");
    begin_anew();
    home_was_asked(&pipeline).await;
    all.iter().for_each(|one| one.leadership(lease.number()));
    all.iter().for_each(|one| one.lacks_store());
    assert!(heed_home(&pipeline, &beside, &home, None).await.is_ok(), "another process led, and it was deleted");
}

/// Another process may have led in between whose files still had the mapping. Once all targets have taken leave, it is forgotten.
#[tokio::test]
async fn what_was_taken_away_in_a_former_term_may_be_there_again() {
    let lease = Lease::default();
    let pipeline = pipeline(lease.clone());
    pipeline.take_leave(&pipeline.generation());
    assert!(pipeline.has_taken_leave());
    lease.lose();
    lease.take(None, None);
    assert!(!pipeline.has_taken_leave(), "it has not heard of the term yet");
    pipeline.leadership(lease.number());
    assert!(!pipeline.has_taken_leave());
}

/// How a plan ended that did not end in sync.
fn unsettled(why: &str, is_logged: bool) -> Unsettled {
    let (cause, of_target, since) = (Some(Cause::Unknown), None, Instant::now());
    Unsettled { cause, orphans: false, why: why.to_owned(), of_target, since, is_logged }
}

/// The table has nothing of a source that is in sync.
#[tokio::test]
async fn the_last_sixteen_decisions_are_kept_while_a_source_is_not_in_sync() {
    let pipeline = pipeline(Lease::default());
    let key = key("x");
    let rests = pipeline.tables();
    pipeline.remember(&key, Vec::new(), None, Vec::new());
    assert!(pipeline.remembered(&key).is_none(), "it is in sync");
    for number in 0..20 {
        for _ in 0..3 {
            pipeline.settled(&key, Some(unsettled(&format!("why {number}"), true)));
            pipeline.remember(&key, Vec::new(), Some(Answers::default()), vec!["a change".into()]);
        }
    }
    let (past, ..) = pipeline.remembered(&key).expect("it is not in sync");
    let told: Vec<(&str, u64)> = past.decisions.iter().map(|one| (one.why.as_str(), one.times)).collect();
    assert_eq!((told.len(), told[0], told[15]), (16, ("why 4", 3), ("why 19", 3)));
    assert_eq!(past.waits_for, ["a change"]);
    assert_ne!(pipeline.tables(), rests);
    pipeline.settled(&key, None);
    assert!(pipeline.remembered(&key).is_none() && pipeline.tables() == rests);
}

/// A tenant may have ten thousand sources, each with a thousand objects that a server refuses at length, and change why each time.
#[tokio::test]
async fn what_is_remembered_of_a_source_is_small() {
    let pipeline = pipeline(Lease::default());
    let source = key("x");
    let kind = Kind::new("", "v1", "ConfigMap");
    for number in 0..20 {
        let why = format!("{number}{}", "x".repeat(4096));
        let failed = |object: usize| {
            let failure = Reason { cause: Cause::Refused, detail: why.clone() };
            (target_reference(&kind, &key(&object.to_string())), failure)
        };
        let answers = Answers { failed: (0..1000).map(failed).collect(), ..Answers::default() };
        pipeline.settled(&source, Some(unsettled(&why, true)));
        pipeline.remember(&source, Vec::new(), Some(answers), Vec::new());
    }
    let (past, answers, _) = pipeline.remembered(&source).expect("it is not in sync");
    let latest = past.decisions.last().expect("decisions");
    assert!(latest.why.starts_with("19x") && past.decisions.len() == 3, "{}", past.decisions.len());
    let bytes: usize = answers.failed.values().map(|failure| failure.detail.len()).sum();
    assert!(answers.failed.len() == 1000 && bytes < 100 << 10, "{bytes}");
}

/// What is out of sight for a moment, after a start or an edit, is not logged for each source, and nor is its end.
#[tokio::test]
async fn that_a_source_is_in_sync_again_is_news_where_the_log_has_it_as_not_in_sync() {
    let pipeline = pipeline(Lease::default());
    let key = key("x");
    for (logged, is_news) in [(&[false][..], false), (&[true], true), (&[true, false], true), (&[], false)] {
        for is_logged in logged {
            pipeline.settled(&key, Some(unsettled("", *is_logged)));
        }
        assert_eq!(pipeline.settled(&key, None), is_news, "{logged:?}");
    }
}

/// A rehearsal blames a candidate for no source that was in trouble before: what says nothing of the document in force is no trouble.
#[tokio::test]
async fn what_is_out_of_sight_fails_for_the_moment_or_is_only_observed_is_no_trouble() {
    let pipeline = pipeline(Lease::default());
    let key = key("x");
    for (cause, is_troubled) in [
        (None, false),
        (Some(Cause::Unknown), false),
        (Some(Cause::RequestFailed), false),
        (Some(Cause::Observed), false),
        (Some(Cause::Retained), true),
        (Some(Cause::Waiting), true),
    ] {
        pipeline.settled(&key, Some(Unsettled { cause, ..unsettled("", true) }));
        assert_eq!(pipeline.is_troubled(&key), is_troubled, "{cause:?}");
    }
}

/// A tenant may take the finalizer off and delete a source at once: nobody sees it with a time of deletion.
#[tokio::test]
async fn a_deletion_that_an_event_told_is_evidence_and_what_a_list_lacks_is_none() {
    let pipeline = pipeline(Lease::default());
    let text = |more: &str| format!(r#"{{"metadata": {{"name": "x", "uid": "u", "resourceVersion": "1"{more}}}}}"#);
    let object = |more: &str| Arc::new(Object::from_json(text(more).as_bytes()).expect("an object"));
    let evidence = |more: &str, cause: ChangeCause| {
        let key = key("x");
        let before = object(more);
        pipeline.controller.source_changed(&Change { key: &key, before: Some(&before), after: None, cause });
        let mut learned = pipeline.learned.lock();
        let deleted = learned.missing(&key, Duration::ZERO, tokio::time::Instant::now()).deleted;
        learned.lives(&key);
        deleted
    };
    let deleting = r#", "deletionTimestamp": "2026-01-01T00:00:00Z""#;
    assert_eq!(evidence("", ChangeCause::Deleted).as_deref(), Some("u"));
    assert_eq!(evidence(deleting, ChangeCause::Relist).as_deref(), Some("u"));
    for cause in [ChangeCause::InitialList, ChangeCause::Relist, ChangeCause::Event, ChangeCause::Write] {
        assert_eq!(evidence("", cause), None, "{cause:?}");
    }
}

/// Who waits for a source that was never taken in does not wait until those beside it are read, which were served before.
#[tokio::test]
async fn a_new_source_goes_before_those_of_its_workspace_that_were_served_before() {
    let pipeline = pipeline(Lease::default());
    let list = |name: &str, finalizers: &[&str]| {
        let metadata = serde_json::json!({"name": name, "namespace": "default", "uid": name, "finalizers": finalizers});
        let object = serde_json::json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": metadata});
        let object = Arc::new(Object::from_json(object.to_string().as_bytes()).expect("an object"));
        let key = key(name);
        pipeline.controller.take_up(&Change {
            key: &key,
            before: None,
            after: Some(&object),
            cause: ChangeCause::InitialList,
        });
    };
    ["a", "b", "c"].iter().for_each(|name| list(name, &[pipeline.writer.finalizer()]));
    list("new", &["another.dev/finalizer"]);
    let next = pipeline.controller.queue.next(8).await.expect("the queue is open");
    assert_eq!(&*next.key().name, "new");
}
