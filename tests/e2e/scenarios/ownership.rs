//! Whose object is it? Nothing that the engine did not make is touched, and nothing forged is believed.

use std::time::Duration;

use serde_json::{Value, json};
use sync_engine::mapping::Kind;
use sync_engine::object::marks::{Owner, Reference};

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::engine::{Engine, printed};
use crate::eventually::{becomes, eventually, throughout};
use crate::rest::Patch;
use crate::target::{name, namespace, uid};
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_foreign_object_is_not_touched),
        case!(a_stripped_object_is_restored),
        case!(copied_marks_do_not_make_an_object_ours),
        case!(forged_marks_carry_no_status_and_move_no_source),
        case!(a_service_account_is_shared_until_the_last_source_goes),
        case!(the_last_source_of_a_namespace_ends_while_an_edit_is_carried_out).in_memory_alone(),
        case!(two_engines_leave_each_other_alone),
        case!(an_engine_at_anothers_place_says_conflict),
        case!(two_mappings_on_one_resource_leave_each_other_alone),
    ]
}

/// The namespace that alpha's objects get downstream, learnt from one of them.
async fn place_of_alpha(world: &World<'_>) -> String {
    namespace(&world.made("scout", json!({})).await)
}

async fn unchanged(world: &World<'_>, object: &Value) {
    world
        .target
        .keeps(object, "somebody else's object stays as it is", |now| {
            now["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"]
        })
        .await;
}

/// Why a source is not in sync, asked of the engine and decided again from a file.
async fn is_traced(engine: &Engine, name: &str, row: &str) {
    let source = eventually("the source is listed", async || {
        let page = engine.ask("/api/v1/sources").await?.body;
        let items = page["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().find(|source| source["name"] == name).ok_or_else(|| page.to_string())
    })
    .await;
    let text = |field: &str| source[field].as_str().unwrap_or_default();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.json").display().to_string();
    let object = format!("{}/{name}", text("namespace"));
    let traced = engine.told(&["trace", text("mapping"), text("cluster"), &object, "--save", &file]);
    assert!(traced.contains(&format!("    row: {row}\n")), "{traced}");
    assert_eq!(printed(&["trace", "--replay", &file]), traced);
}

async fn a_foreign_object_is_not_touched(stage: &Stage) {
    let (world, engine) = stage.running().await;
    let place = place_of_alpha(&world).await;
    let collection = world.api.collection(&place);
    let foreign = world.target.rest.create(&collection, &world.api.object("taken", json!({"note": "mine"}))).await;
    let foreign = world.target.report(&foreign, json!({"phase": "Secret"})).await;

    world.alpha.create("taken", json!({"size": 1})).await;
    world.alpha.synced("taken", "False", "Conflict").await;
    troubles::shown(stage, &engine, "Conflict").await;
    unchanged(&world, &foreign).await;
    is_traced(&engine, "taken", "live, in; finalizer; foreign").await;
    let status = world.alpha.object("taken").await["status"].clone();
    assert_ne!(status["phase"], "Secret", "a foreign object's status is nobody's: {status}");

    world.target.delete(&foreign).await;
    world.target.has_spec(&world.alpha, "taken", json!({"size": 1})).await;
    world.alpha.synced("taken", "True", "Synced").await;

    // The consumer can leave a conflict too: what is foreign stays when the source goes.
    let other = world.target.rest.create(&collection, &world.api.object("other", json!({}))).await;
    world.alpha.create("other", json!({"size": 1})).await;
    world.alpha.synced("other", "False", "Conflict").await;
    world.alpha.remove("other").await;
    unchanged(&world, &other).await;
}

async fn a_stripped_object_is_restored(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.alpha.create_synced("it", json!({"size": 1})).await;
    let copy = world.target.copy(&world.alpha, "it").await;
    let path = world.target.path(&copy);
    for nothing in [json!({"annotations": null}), json!({"labels": null, "annotations": null})] {
        world.target.rest.patch(Patch::Merge, &path, &json!({"metadata": nothing})).await;
        eventually("its labels and annotations are back", async || {
            let now = world.target.again(&copy).await;
            let is_back = |field: &str| now["metadata"][field] == copy["metadata"][field] && uid(&now) == uid(&copy);
            (is_back("labels") && is_back("annotations")).then_some(()).ok_or_else(|| now["metadata"].to_string())
        })
        .await;
    }
    world.alpha.synced("it", "True", "Synced").await;
}

/// An object with the labels and annotations of another one.
fn with_marks_of(world: &World<'_>, original: &Value, name: &str, spec: Value) -> Value {
    let mut object = world.api.object(name, spec);
    for field in ["labels", "annotations"] {
        object["metadata"][field] = original["metadata"][field].clone();
    }
    object
}

async fn copied_marks_do_not_make_an_object_ours(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    let place = place_of_alpha(&world).await;
    let ours = world.target.copy(&world.alpha, "scout").await;
    let copied = with_marks_of(&world, &ours, "taken", json!({"note": "mine"}));
    let copied = world.target.rest.create(&world.api.collection(&place), &copied).await;

    world.alpha.create("taken", json!({"size": 1})).await;
    world.alpha.synced("taken", "False", "Conflict").await;
    unchanged(&world, &copied).await;

    // Its original goes without taking the copy along.
    world.alpha.remove("scout").await;
    unchanged(&world, &copied).await;
}

async fn forged_marks_carry_no_status_and_move_no_source(stage: &Stage) {
    let (world, _engine) = stage.running().await;
    world.beta.create("victim", json!({"size": 1})).await;
    let real = world.target.operate(&world.beta, "victim", json!({"phase": "Running"})).await;
    world.beta.status("victim", json!({"phase": "Running"})).await;

    let place = place_of_alpha(&world).await;
    let forged = with_marks_of(&world, &real, "victim", json!({"note": "forged"}));
    let forged = world.target.rest.create(&world.api.collection(&place), &forged).await;
    let forged = world.target.report(&forged, json!({"phase": "Forged"})).await;
    throughout(Duration::from_secs(3), "the victim's status is its own", async || {
        let status = world.beta.object("victim").await["status"].clone();
        (status["phase"] == "Running").then_some(()).ok_or_else(|| status.to_string())
    })
    .await;
    unchanged(&world, &forged).await;

    world.beta.remove("victim").await;
    unchanged(&world, &forged).await;

    // Nor does a source that is created later follow those that anybody can compute for it.
    world.target.delete(&forged).await;
    let mut forged = with_marks_of(&world, &real, "victim", json!({"note": "forged"}));
    forged["metadata"]["annotations"]["sync-engine.dev/self"] = true_self_mark(&world, &real, &place).into();
    let forged = world.target.rest.create(&world.api.collection(&place), &forged).await;
    world.beta.create_synced("victim", json!({"size": 2})).await;
    let path = world.target.path(&real);
    let made = world.target.rest.get(&path).await.expect("the object is made in the source's own namespace");
    assert_eq!(made["spec"], json!({"size": 2}));
    unchanged(&world, &forged).await;

    world.beta.remove("victim").await;
    assert_eq!(world.target.rest.get(&path).await, None);
    unchanged(&world, &forged).await;
}

/// What anybody can compute: the self mark that `object`, an object of the case's mapping, would have in another namespace.
fn true_self_mark(world: &World<'_>, object: &Value, place: &str) -> String {
    let owner = object["metadata"]["labels"]["sync-engine.dev/owner"].as_str().expect("an owner");
    let mark = |namespace: &str| {
        let kind = Kind::new(&world.api.group, "v1", "Widget");
        let reference = Reference { kind, namespace: namespace.to_owned(), name: name(object) };
        Owner(owner.to_owned()).self_mark("widget", &reference)
    };
    let real = object["metadata"]["annotations"]["sync-engine.dev/self"].as_str().expect("a self mark");
    assert_eq!(mark(&namespace(object)), real, "self marks are computed as the engine does");
    mark(place)
}

pub(super) const WITH_SERVICE_ACCOUNT: &str = r#"<mapping>
  objects:
    - id: account
      shared: Namespace
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: widget-runner}}
    - id: widget
      template: {apiVersion: <group>/v1, kind: Widget, spec: "${{ source.spec }}"}
"#;

async fn a_service_account_is_shared_until_the_last_source_goes(stage: &Stage) {
    let (world, _engine) = stage.running_with(WITH_SERVICE_ACCOUNT).await;
    world.alpha.create("one", json!({})).await;
    world.alpha.create("two", json!({})).await;
    world.target.copy(&world.alpha, "one").await;
    let place = namespace(&world.target.copy(&world.alpha, "two").await);
    let account = format!("/api/v1/namespaces/{place}/serviceaccounts/widget-runner");
    let made = world.target.rest.appears(&account).await;

    world.alpha.remove("one").await;
    throughout(Duration::from_secs(2), "the other source keeps the account", async || {
        let now = world.target.rest.get(&account).await.ok_or("it is gone")?;
        (uid(&now) == uid(&made)).then_some(()).ok_or_else(|| now.to_string())
    })
    .await;

    world.alpha.remove("two").await;
    assert_eq!(world.target.rest.get(&account).await, None, "the last source takes the account along");
    let left = world.target.rest.get(&format!("/api/v1/namespaces/{place}")).await.expect("the namespace stays");
    assert_eq!(left["metadata"]["labels"]["app.kubernetes.io/managed-by"], "sync-engine");
}

async fn the_last_source_of_a_namespace_ends_while_an_edit_is_carried_out(stage: &Stage) {
    let (world, _engine) = stage.running_with(WITH_SERVICE_ACCOUNT).await;
    world.alpha.create("last", json!({})).await;
    world.beta.create("other", json!({})).await;
    let place = namespace(&world.target.copy(&world.alpha, "last").await);
    let elsewhere = namespace(&world.target.copy(&world.beta, "other").await);
    world.settled().await;

    let carried_out = world.memory().delay_next_apply(&elsewhere).await;
    let edited = WITH_SERVICE_ACCOUNT.replace("kind: Widget,", "kind: Widget, metadata: {labels: {edited: 'yes'}},");
    world.mappings.write("widgets.yaml", &edited);
    carried_out.await;
    world.alpha.remove("last").await;
    let account = format!("/api/v1/namespaces/{place}/serviceaccounts/widget-runner");
    assert_eq!(world.target.rest.get(&account).await, None, "the last source takes the account along");
}

/// The same source as `WIDGETS`, at a place of its own, and nothing of it upstream.
const ELSEWHERE: &str = r#"<mapping>
  placement: {name: "{{ source.metadata.name }}-elsewhere"}
  objects:
    - id: widget
      template: {apiVersion: <group>/v1, kind: Widget, spec: "${{ source.spec }}"}
  status: {observedGeneration: Off}
"#;

async fn two_engines_leave_each_other_alone(stage: &Stage) {
    let (world, mut first) = stage.running().await;
    let folder = world.second_mappings("other-mappings");
    folder.write("widgets.yaml", ELSEWHERE);
    let launch = world.launch().flag("--engine-id", "other").flag("--mappings", folder.folder().display());
    let _second = launch.ready().await;
    let others = world.target.of("other", &world.name);

    let mine = world.made("it", json!({"size": 1})).await;
    let theirs = others.copy(&world.alpha, "it").await;
    assert_ne!(uid(&mine), uid(&theirs));
    world.target.report(&mine, json!({"phase": "Running"})).await;
    others.report(&theirs, json!({"phase": "Other"})).await;
    world.alpha.status("it", json!({"phase": "Running"})).await;
    becomes("both engines hold the object", 2, async || world.alpha.holds("it").await.len()).await;

    // One engine alone can not finish a deletion, and deletes what is its own only.
    first.kill();
    world.alpha.delete("it").await;
    others.gone(&world.alpha, "it").await;
    assert_eq!(uid(&world.target.again(&mine).await), uid(&mine));
    let _first = world.engine().await;
    world.alpha.gone("it").await;
    assert_eq!(world.target.find(&world.alpha, "it").await, None);
}

async fn an_engine_at_anothers_place_says_conflict(stage: &Stage) {
    let (world, _first) = stage.running().await;
    let mine = world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;
    let _second = world.launch().flag("--engine-id", "other").ready().await;
    world.alpha.condition("it", "other.sync-engine.dev/Synced", json!({"reason": "Conflict"})).await;
    let now = world.target.again(&mine).await;
    assert_eq!(now["metadata"]["labels"], mine["metadata"]["labels"]);
    assert_eq!(uid(&now), uid(&mine));
}

/// A second mapping on the same resource: another kind of object, and no word upstream.
pub(super) const SETTINGS: &str = r#"
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: <name>-settings}
spec:
  source: <source>
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: "{{ source.spec.size }}"}}
  status: {observedGeneration: Off, engineConditions: []}
"#;

async fn two_mappings_on_one_resource_leave_each_other_alone(stage: &Stage) {
    let world = stage.widgets().await;
    world.mappings.write("settings.yaml", SETTINGS);
    let mut engine = world.engine().await;
    let widget = world.made("it", json!({"size": 1})).await;
    let settings = world.target.of("main", &format!("{}-settings", world.name));
    let config_maps = format!("/api/v1/namespaces/{}/configmaps", namespace(&widget));
    let holds_size = async |size: &str| {
        eventually(&format!("the settings say {size}"), async || {
            let found = settings.labelled(&config_maps).await;
            let met = found.len() == 1 && found[0]["data"]["size"] == size;
            met.then_some(()).ok_or_else(|| format!("{found:?}"))
        })
        .await;
    };
    holds_size("1").await;
    world.alpha.patch("it", json!({"spec": {"size": 2}})).await;
    holds_size("2").await;
    world.target.has_spec(&world.alpha, "it", json!({"size": 2})).await;

    engine
        .says_of(|| world.mappings.write("widgets.yaml", &WIDGETS.replace("Pending", "Waiting")), &[&world.name])
        .await;
    world.alpha.status("it", json!({"phase": "Waiting"})).await;
    holds_size("2").await;

    world.alpha.remove("it").await;
    assert_eq!(settings.labelled(&config_maps).await, Vec::<Value>::new());
    assert_eq!(world.target.copies().await, Vec::<Value>::new());
}
