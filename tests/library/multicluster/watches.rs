//! Watches: the traps that servers set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use sync_engine::health::Health;
use sync_engine::multicluster::budget::{Budget, Memory};
use sync_engine::multicluster::connection::{Connection, Process};
use sync_engine::multicluster::raw::Parsed;
use sync_engine::multicluster::registry::{ClustersOf, WatchScope};
use sync_engine::multicluster::store::ChangeCause;
use sync_engine::multicluster::watch::{Selectors, Watch, WatchState, Watches};
use sync_engine::multicluster::{ApiPath, Body};
use sync_engine::sandbox::{ApiRef, Failure, Fault, Options, Sandbox, Verb, anything, resource_schema};

use crate::multicluster::scene::{Folder, cluster, connection, key, plain_scope, resource, until, until_state};

const CONFIG_MAPS: ApiRef<'static> = ApiRef { cluster: "", resource: "configmaps.v1" };

struct Scene {
    sandbox: Sandbox,
    scope: WatchScope,
    watches: Arc<Watches>,
    health: Health,
}

impl Scene {
    async fn new() -> Self {
        Self::within(Budget::default()).await
    }

    async fn within(budget: Budget) -> Self {
        let sandbox = Options::kubernetes().start().await.expect("a sandbox");
        let folder = Folder::with(&sandbox.kubeconfig(None));
        let process = Process { budget, ..Process::default() };
        let scope = plain_scope(Connection::of_process(folder.spec(None), &process).expect("a connection").endpoint());
        let health = Health::default();
        Self { sandbox, scope, watches: Watches::new(health.clone()), health }
    }

    fn create(&self, name: &str) {
        self.create_with(name, "1");
    }

    fn create_with(&self, name: &str, value: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value},
            "metadata": {"name": name, "namespace": "default"},
        });
        self.sandbox.create(CONFIG_MAPS, &object).expect("created");
    }

    fn edit(&self, name: &str, value: &str) {
        self.sandbox.merge(CONFIG_MAPS, "default", name, &json!({"data": {"key": value}})).expect("edited");
    }

    fn config_maps(&self) -> Arc<Watch> {
        self.watches.acquire(&self.scope, &resource("configmaps.v1"), &Selectors::default())
    }

    /// A watch that the budget does not permit.
    async fn beyond_budget(&self) -> Arc<Watch> {
        let watch = self.watches.acquire(&self.scope, &resource("secrets.v1"), &Selectors::default());
        until_state(&watch, "failed", |state| matches!(state, WatchState::Failed { code: None, .. })).await;
        watch
    }

    async fn synced(&self) -> Arc<Watch> {
        self.synced_of("configmaps.v1", Selectors::default()).await
    }

    async fn synced_of(&self, name: &str, selectors: Selectors) -> Arc<Watch> {
        let watch = self.watches.acquire(&self.scope, &resource(name), &selectors);
        until_state(&watch, "synced", |state| *state == WatchState::Synced).await;
        watch
    }

    fn lists(&self) -> u64 {
        self.sandbox.counters().of(Verb::List, "configmaps")
    }
}

/// `.data.key` of a ConfigMap in the store.
fn value(watch: &Watch, name: &str) -> Option<String> {
    let object = watch.store().get(&key("here", "default", name))?;
    object.value().ok()?["data"]["key"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn pages_are_listed_and_changes_followed() {
    let scene = Scene::new().await;
    for n in 0..1_201 {
        scene.create(&format!("a{n}"));
    }
    let watch = scene.synced().await;
    assert_eq!((watch.store().len(), scene.lists()), (1_201, 9), "4, 8, 16, 32, 64, 128, 256, 500 and the rest");
    scene.create("b");
    scene.edit("a1", "2");
    scene.sandbox.delete(CONFIG_MAPS, "default", "a2").expect("deleted");
    until(watch.store(), "changes", |store| {
        let gone = store.get(&key("here", "default", "a2")).is_none();
        gone && store.get(&key("here", "default", "b")).is_some() && value(&watch, "a1").as_deref() == Some("2")
    })
    .await;
    let object = watch.store().get(&key("here", "default", "b")).unwrap();
    assert!(object.value().unwrap()["metadata"].get("managedFields").is_none());
    assert_eq!(object.value().unwrap()["kind"], "ConfigMap");
    assert_eq!(scene.lists(), 9);
}

#[tokio::test]
async fn one_watch_is_shared_and_outlives_its_first_user() {
    let scene = Scene::new().await;
    let first = scene.synced().await;
    let second = scene.config_maps();
    assert!(Arc::ptr_eq(first.store(), second.store()));
    drop(first);
    let third = scene.config_maps();
    scene.create("a");
    until(third.store(), "a", |store| store.len() == 1).await;
    assert_eq!((scene.lists(), scene.watches.len()), (1, 1));
    drop((second, third));
    assert!(scene.watches.is_empty() && scene.health.standings().is_empty());
}

#[tokio::test]
async fn mappings_of_an_engine_share_a_watch_and_each_sees_its_own_objects() {
    let scene = Scene::new().await;
    let label = |name: &str, mapping: Value| {
        let labels = json!({"metadata": {"labels": {"sync-engine.dev/mapping": mapping}}});
        scene.sandbox.merge(CONFIG_MAPS, "default", name, &labels).expect("edited");
    };
    for (name, mapping) in [("a", "main.a"), ("b", "main.b"), ("late", "main.late"), ("foreign", "other.a")] {
        scene.create(name);
        label(name, mapping.into());
    }
    scene.create("nobodys");
    let of = |mapping: &str| {
        let selectors = Selectors { of_mapping: mapping.into(), ..Selectors::default() };
        scene.watches.acquire(&scene.scope, &resource("configmaps.v1"), &selectors)
    };
    let (a, b) = (of("main.a"), of("main.b"));
    until_state(&a, "synced", |state| *state == WatchState::Synced).await;
    let late = of("main.late");
    let names = [&a, &b, &late].map(|watch| watch.store().keys());
    assert_eq!(names, ["a", "b", "late"].map(|name| vec![key("here", "default", name)]));
    assert_eq!((scene.lists(), scene.watches.len(), late.is_synced()), (1, 1, true));
    // A label that is another moves the object, and one that is taken away looks like a deletion.
    label("a", "main.b".into());
    until(b.store(), "it moves", |store| store.len() == 2).await;
    assert!(a.store().is_empty());
    label("late", Value::Null);
    until(late.store(), "it is gone", |store| store.is_empty()).await;
}

#[tokio::test]
async fn what_two_connections_or_clusters_watch_at_one_address_stays_apart() {
    let scene = Scene::new().await;
    scene.create("a");
    let watch = scene.synced().await;
    let others = [
        WatchScope { clusters: ClustersOf::One(cluster("there")), ..scene.scope.clone() },
        plain_scope(connection(&scene.sandbox.kubeconfig(None)).endpoint()),
    ];
    for scope in others {
        let other = scene.watches.acquire(&scope, &resource("configmaps.v1"), &Selectors::default());
        until_state(&other, "synced", |state| *state == WatchState::Synced).await;
        assert!(!Arc::ptr_eq(watch.store(), other.store()));
        assert_eq!(other.store().len(), 1);
    }
}

#[tokio::test]
async fn only_objects_of_one_ending_are_kept() {
    let scene = Scene::new().await;
    ["a-kubeconfig", "a-ca"].into_iter().for_each(|name| scene.create(name));
    let selectors = Selectors { ending: "-kubeconfig".into(), ..Selectors::default() };
    let watch = scene.synced_of("configmaps.v1", selectors).await;
    ["b-ca", "b-kubeconfig"].into_iter().for_each(|name| scene.create(name));
    until(watch.store(), "both", |store| store.len() == 2).await;
    assert_eq!(watch.store().keys(), ["a-kubeconfig", "b-kubeconfig"].map(|name| key("here", "default", name)));
}

#[tokio::test]
async fn of_large_objects_the_metadata_is_listed_and_each_is_measured_once_it_is_read() {
    const NUMBER: usize = 40;
    let scene = Scene::new().await;
    for number in 0..NUMBER {
        scene.create_with(&format!("large-{number}"), &"x".repeat(900_000));
    }
    scene.create("small");
    let watch = scene.synced_of("configmaps.v1", Selectors { outlines: true, ..Selectors::default() }).await;
    let store = watch.store();
    let whole = || store.keys().iter().filter(|key| store.get(key).expect("it is there").is_whole()).count();
    assert_eq!(
        (store.len(), whole(), scene.lists()),
        (NUMBER + 1, 0, 4),
        "pages that are too long, and of metadata, twice"
    );
    let outline = store.get(&key("here", "default", "large-0")).expect("it is there").outline().expect("metadata");
    assert_eq!((&outline["metadata"]["name"], &outline["kind"]), (&json!("large-0"), &Value::Null));

    let subscription = store.subscribe(|_| {});
    for name in ["small", "large-0"] {
        let path = ApiPath::object(&resource("configmaps.v1"), "default", name).expect("a path");
        let pending = subscription.expect(&key("here", "default", name));
        let reply = scene.scope.endpoint.get(&path).await.expect("an answer");
        pending.complete(&Parsed::from_json(&reply.body).expect("an object")).expect("read");
    }
    assert_eq!(whole(), 1, "the small one is kept as it is");
    scene.create("another");
    until(store, "an event", |store| store.len() == NUMBER + 2).await;
    let standings = scene.health.standings();
    let said = standings.iter().find(|standing| standing.component == "large objects").expect("a condition");
    assert!(said.condition.message.ends_with(": here (1)"), "{}", said.condition.message);
    assert!(scene.health.is_ready(), "nobody else is held up");
}

#[tokio::test]
async fn a_server_that_is_killed_is_waited_for_and_what_was_missed_is_found() {
    let mut scene = Scene::new().await;
    ["kept", "gone"].iter().for_each(|name| scene.create(name));
    let watch = scene.synced().await;
    let relisted = Arc::new(AtomicBool::new(false));
    let seen = relisted.clone();
    let _subscription = watch.store().subscribe(move |change| {
        if change.after.is_none() {
            seen.store(change.cause == ChangeCause::Relist, Ordering::SeqCst);
        }
    });
    scene.sandbox.disconnect().await;
    until_state(&watch, "failed", |state| {
        matches!(state, WatchState::Failed { synced_before: true, reason, .. } if reason.contains("connection refused"))
    })
    .await;
    assert!(!scene.health.is_ready());
    assert_eq!(watch.store().len(), 2, "what is out of sight is kept");
    scene.sandbox.delete(CONFIG_MAPS, "default", "gone").expect("deleted");
    scene.create("new");
    scene.sandbox.compact();
    scene.sandbox.reconnect().await.expect("back");
    until(watch.store(), "caught up", |store| {
        store.keys() == [key("here", "default", "kept"), key("here", "default", "new")]
    })
    .await;
    until_state(&watch, "synced", |state| *state == WatchState::Synced).await;
    assert!(relisted.load(Ordering::SeqCst), "the deletion itself was not seen");
    assert!(scene.health.is_ready());
}

#[tokio::test]
async fn an_event_of_another_history_has_every_watch_of_the_server_listed() {
    let scene = Scene::new().await;
    ["kept", "edited"].iter().for_each(|name| scene.create(name));
    let backup = scene.sandbox.backup();
    let secrets = scene.synced_of("secrets.v1", Selectors::default()).await;
    let watch = scene.synced().await;
    scene.edit("edited", "lost");
    scene.create("lost");
    until(watch.store(), "what is about to be lost", |store| store.len() == 3).await;
    let before = scene.sandbox.counters().of(Verb::List, "secrets");
    scene.sandbox.restore(&backup);
    // The first write after the restore has a version that was given before.
    scene.edit("kept", "2");
    until(watch.store(), "the earlier state", |_| value(&watch, "edited").as_deref() == Some("1")).await;
    until(watch.store(), "the edit", |_| value(&watch, "kept").as_deref() == Some("2")).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    let lists = || scene.sandbox.counters().of(Verb::List, "secrets") - before;
    scene.sandbox.create(ApiRef { cluster: "", resource: "secrets.v1" }, &secret).expect("created");
    until(secrets.store(), "s", |store| store.len() == 1).await;
    assert_eq!(lists(), 1, "though no event of a secret went back");
}

#[tokio::test]
async fn a_resource_that_nobody_has_bound_is_not_an_empty_list() {
    for unbound in [sync_engine::sandbox::Unbound::NotFound, sync_engine::sandbox::Unbound::EmptyWithoutVersion] {
        let sandbox = Options::kcp().unbound(unbound).start().await.expect("a sandbox");
        sandbox.publish("root", "things", &[schema()], &[]).expect("an export");
        let endpoint = connection(&sandbox.kubeconfig(None)).endpoint().at("services/apiexport/root/things/clusters/*");
        let scope = WatchScope { endpoint, clusters: ClustersOf::Annotated };
        let watches = Watches::new(Health::default());
        let watch = watches.acquire(&scope, &resource("things.v1.example.com"), &Selectors::default());
        until_state(&watch, "not served", |state| *state == WatchState::NotServed).await;
        let workspace = sandbox.create_workspace("root", "consumer").expect("a workspace");
        sandbox.bind(&workspace, "root", "things", &[]).expect("a binding");
        until_state(&watch, "synced", |state| *state == WatchState::Synced).await;
    }
}

pub fn schema() -> Value {
    resource_schema("things.v1.example.com", "Thing", &anything())
}

#[tokio::test]
async fn a_watch_beyond_the_budget_waits_for_another_to_end() {
    let scene = Scene::within(Budget::new(Some(1), None)).await;
    let first = scene.synced().await;
    let second = scene.beyond_budget().await;
    assert_eq!((first.state(), scene.sandbox.counters().of(Verb::List, "secrets")), (WatchState::Synced, 0));
    drop(first);
    until_state(&second, "synced", |state| *state == WatchState::Synced).await;
}

#[tokio::test]
async fn a_list_that_takes_too_much_memory_is_given_up_and_what_is_known_is_listed_again() {
    static RESIDENT: AtomicU64 = AtomicU64::new(0);
    let memory = Memory { most: 1, resident: || Some(RESIDENT.load(Ordering::SeqCst)) };
    let mut scene = Scene::within(Budget::new(None, Some(memory))).await;
    let first = scene.synced().await;
    RESIDENT.store(2, Ordering::SeqCst);
    let second = scene.beyond_budget().await;
    scene.sandbox.disconnect().await;
    until_state(&first, "failed", |state| matches!(state, WatchState::Failed { .. })).await;
    scene.sandbox.reconnect().await.expect("the server is back");
    until_state(&first, "synced again", |state| *state == WatchState::Synced).await;
    assert!(matches!(second.state(), WatchState::Failed { .. }));
    RESIDENT.store(1, Ordering::SeqCst);
    until_state(&second, "synced", |state| *state == WatchState::Synced).await;
}

#[tokio::test]
async fn what_is_forbidden_is_said_and_tried_again() {
    let scene = Scene::new().await;
    let denied =
        Failure::status(403, "Forbidden", "configmaps is forbidden: User \"me\" cannot list resource \"configmaps\"");
    scene.sandbox.faults().inject(move |call| (call.resource == "configmaps").then(|| Fault::Refuse(denied.clone())));
    let watch = scene.config_maps();
    until_state(&watch, "failed", |state| matches!(state, WatchState::Failed { code: Some(403), .. })).await;
    let condition = scene.health.standings().pop().expect("a condition");
    insta::assert_snapshot!(condition.condition.message, @r#"configmaps is forbidden: User "me" cannot list resource "configmaps" (403 Forbidden)"#);
    insta::assert_snapshot!(condition.component.replace(&scene.sandbox.url(), "URL"), @"watch of configmaps.v1 at URL through kcp (here)");
}

#[tokio::test]
async fn own_writes_are_not_told_whichever_way_they_race() {
    let scene = Scene::new().await;
    scene.create("a");
    let watch = scene.synced().await;
    let told = Arc::new(AtomicBool::new(false));
    let note = told.clone();
    let subscription = watch.store().subscribe(move |_| note.store(true, Ordering::SeqCst));
    let path = ApiPath::object(&resource("configmaps.v1"), "default", "a").unwrap();
    let it = key("here", "default", "a");
    for n in 0..200 {
        let pending = subscription.expect(&it);
        let patch = json!([{"op": "replace", "path": "/data/key", "value": n.to_string()}]).to_string();
        let reply = scene.scope.endpoint.patch(&path, "me", Body::json_patch(patch)).await.expect("patched");
        let (_, again) = pending.complete(&Parsed::from_json(&reply.body).expect("an object")).expect("an object");
        assert!(!again);
        assert_eq!(value(&watch, "a"), Some(n.to_string()));
    }
    // Everything of ours has come by once a later event of somebody else has.
    scene.create("z");
    let z = key("here", "default", "z");
    until(watch.store(), "z", |store| store.get(&z).is_some()).await;
    drop(subscription);
    assert_eq!(value(&watch, "a").as_deref(), Some("199"));
}

#[tokio::test]
async fn long_objects_and_long_lines_arrive_whole() {
    let scene = Scene::new().await;
    let long = "é\"\\\n".repeat(40_000);
    scene.create_with("long", &long);
    let watch = scene.synced().await;
    assert_eq!(value(&watch, "long").as_deref(), Some(long.as_str()));
    scene.edit("long", &"x".repeat(400_000));
    until(watch.store(), "a line of many frames", |_| value(&watch, "long").is_some_and(|text| text.len() == 400_000))
        .await;
}
