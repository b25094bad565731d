use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::schedule::{Schedule, Work};
use super::*;
use crate::sandbox::{ApiRef, Key, Options, Request};

const MONGODB: &str = include_str!("../../examples/mongodb/operator.yaml");

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn steps_follow_one_another_for_each_object() {
    let (a, b) = (Key::new("", "n", "a"), Key::new("", "n", "b"));
    let mut schedule = Schedule::new(vec![seconds(1), seconds(2)], seconds(3));
    schedule.saw(&a, json!(1), seconds(0));
    schedule.saw(&b, json!(1), seconds(2));
    assert_eq!((schedule.next(), schedule.take(seconds(0))), (Some(seconds(1)), None));
    let taken: Vec<_> = std::iter::from_fn(|| schedule.take(seconds(9))).collect();
    assert_eq!(taken, [(a.clone(), Work::Step(0)), (a, Work::Step(1)), (b.clone(), Work::Step(0)), (b, Work::Step(1))]);
    assert_eq!(schedule.next(), None);
}

#[test]
fn a_new_generation_begins_again_and_what_is_gone_ends() {
    let key = Key::new("", "n", "a");
    let mut schedule = Schedule::new(vec![seconds(1), seconds(2)], seconds(3));
    schedule.saw(&key, json!(1), seconds(0));
    assert_eq!(schedule.take(seconds(1)), Some((key.clone(), Work::Step(0))));
    schedule.saw(&key, json!(1), seconds(2));
    assert_eq!(schedule.next(), Some(seconds(3)), "its own write changes nothing");
    schedule.saw(&key, json!(2), seconds(2));
    assert_eq!(schedule.take(seconds(3)), Some((key.clone(), Work::Step(0))));
    schedule.gone(&key);
    assert_eq!(schedule.next(), None);
}

#[test]
fn what_is_being_deleted_is_released_once_and_has_no_steps() {
    let key = Key::new("", "n", "a");
    let mut schedule = Schedule::new(vec![seconds(1)], seconds(3));
    schedule.saw(&key, json!(1), seconds(0));
    schedule.leaves(&key, seconds(0));
    schedule.leaves(&key, seconds(2));
    assert_eq!((schedule.take(seconds(2)), schedule.next()), (None, Some(seconds(3))));
    assert_eq!(schedule.take(seconds(3)), Some((key.clone(), Work::Release)));
    schedule.leaves(&key, seconds(4));
    assert_eq!(schedule.next(), None);
    schedule.gone(&key);
    schedule.saw(&key, json!(1), seconds(5));
    assert_eq!(schedule.next(), Some(seconds(6)), "another object of this name begins again");
}

const HOLDING: &str = "
apiVersion: sandbox.sync-engine.dev/v1alpha1
kind: ToyOperator
metadata: {name: holding}
spec:
  resource: things.v1.example.com
  finalizer: {name: example.com/cleanup, after: 2s}
  steps:
    - after: 1s
      status: {phase: \"{{ object.spec.size }}\"}
";

/// A kind without a status endpoint: the operator writes the status into the object, which changes its generation.
#[tokio::test(start_paused = true)]
async fn an_operator_holds_up_deletions_and_needs_no_status_endpoint() {
    let cluster = Arc::new(Options::kubernetes().start().await.expect("starts"));
    let mut definition = script::open_definition(&crate::mapping::Kind::new("example.com", "v1", "Thing"));
    definition["spec"]["versions"][0].as_object_mut().expect("a version").remove("subresources");
    let definitions = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
    cluster.create(definitions, &definition).expect("a definition");
    let operator = Arc::new(ToyOperator::compile("operator.yaml", HOLDING).expect("compiles"));
    let (sender, mut troubles) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |trouble| drop(sender.send(trouble));
    let player = Player::new(operator, cluster.clone(), tell).expect("the resource is served");
    let played = tokio::spawn(player.run());
    const THINGS: ApiRef<'_> = ApiRef { cluster: "", resource: "things.v1.example.com" };
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 3}});
    assert_eq!(cluster.request(&Request::post(&THINGS.url("default", ""), &thing)).code, 201);
    let now = || cluster.get(THINGS, "default", "a");
    tokio::time::sleep(seconds(60)).await;
    let played_out = now().expect("it is there");
    assert_eq!(played_out["status"], json!({"phase": "3"}));
    assert_eq!(played_out["metadata"]["finalizers"], json!(["example.com/cleanup"]));
    assert_eq!(played_out["metadata"]["generation"], 2, "the steps were played once");
    cluster.request(&Request::delete(&THINGS.url("default", "a")));
    tokio::time::sleep(seconds(1)).await;
    assert!(now().is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string()));
    tokio::time::sleep(seconds(2)).await;
    assert_eq!(now(), None);
    assert_eq!(troubles.try_recv().ok(), None);
    played.abort();
}

/// A server drops it, and the visitor would wait for it.
#[tokio::test(start_paused = true)]
async fn a_status_field_that_the_definition_lacks_is_told() {
    let cluster = Arc::new(Options::kubernetes().start().await.expect("starts"));
    let mut definition = script::open_definition(&crate::mapping::Kind::new("example.com", "v1", "Thing"));
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let status = json!({"type": "object", "properties": {"state": {"type": "string"}}});
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "properties": {"spec": open, "status": status}});
    let definitions = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
    cluster.create(definitions, &definition).expect("a definition");
    let operator = Arc::new(ToyOperator::compile("operator.yaml", HOLDING).expect("compiles"));
    let (sender, mut troubles) = tokio::sync::mpsc::unbounded_channel();
    let tell = move |trouble: String| drop(sender.send(trouble));
    let player = Player::new(operator, cluster.clone(), tell).expect("the resource is served");
    let played = tokio::spawn(player.run());
    let things = ApiRef { cluster: "", resource: "things.v1.example.com" };
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 3}});
    assert_eq!(cluster.request(&Request::post(&things.url("default", ""), &thing)).code, 201);
    let trouble = troubles.recv().await.expect("a trouble");
    assert!(trouble.contains("unknown field \"status.phase\""), "{trouble}");
    played.abort();
}

#[test]
fn the_shipped_operator_renders_what_the_schema_requires() {
    let operator = ToyOperator::compile("operator.yaml", MONGODB).expect("compiles");
    let object = Arc::new(json!({
        "metadata": {"name": "db", "namespace": "tenant"},
        "spec": {"members": 2, "version": "6.0.5", "users": [{"name": "me", "db": "mine"}]},
    }));
    let last = operator.steps.last().expect("steps");
    let status = last.status(&object).expect("a status").expect("renders");
    insta::assert_snapshot!(status, @r#"{"currentMongoDBMembers":2,"currentStatefulSetReplicas":2,"message":null,"mongoUri":"mongodb://db-0.db-svc.tenant.svc.cluster.local:27017,db-1.db-svc.tenant.svc.cluster.local:27017/?replicaSet=db","phase":"Running","version":"6.0.5"}"#);
    let secrets = last.secrets(&object).expect("renders");
    assert_eq!(secrets[0]["metadata"], json!({"name": "db-mine-me", "namespace": "tenant"}));
    insta::assert_snapshot!(secrets[0]["stringData"], @r#"{"connectionString.standard":"mongodb://me:toy-password@db-0.db-svc.tenant.svc.cluster.local:27017,db-1.db-svc.tenant.svc.cluster.local:27017/mine?replicaSet=db&ssl=false","connectionString.standardSrv":"mongodb+srv://me:toy-password@db-svc.tenant.svc.cluster.local/mine?replicaSet=db&ssl=false","password":"toy-password","username":"me"}"#);
    assert_eq!(secrets[1]["metadata"]["name"], "db-scram-credentials");
}

#[test]
fn what_is_wrong_with_an_operator_is_said_with_its_place() {
    let text = MONGODB.replace("object.spec.version", "source.spec.version").replace("300ms", "soon");
    let problems = ToyOperator::compile("operator.yaml", &text).expect_err("two mistakes");
    insta::assert_snapshot!(problems.join("\n"), @"
    error[SE0102]: `soon` is no length of time; write `30s`, `15m`, `10h` or `1h30m`
     --> operator.yaml:9:14
      |
    9 |     - after: soon
      |              ^^^^
    error[SE0306]: `source` cannot be read here
      --> operator.yaml:20:22
       |
    20 |         version: ${{ source.spec.version }}
       |                      ^^^^^^
       |
       = help: here can be read: `object`
    ");
}

/// What the narrator says of what `act` does to a cluster.
async fn told(act: impl FnOnce(&crate::sandbox::Sandbox)) -> String {
    let sandbox = Options::kubernetes().start().await.expect("starts");
    let (sender, changes) = std::sync::mpsc::channel();
    sandbox.follow(move |change| sender.send(change.clone()).is_ok());
    act(&sandbox);
    let narrator = Narrator::new(&[], "sync-engine");
    let lines = changes.try_iter().filter_map(|change| narrator.tell(&Side::Downstream, &change));
    let lines: Vec<_> = lines.map(|line| format!("{}: {} {:?}", line.who, line.text, line.details)).collect();
    lines.join("\n")
}

#[tokio::test]
async fn a_life_is_told() {
    const MAPS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };
    let by = |manager: &str, name: &str| format!("{}?fieldManager={manager}", MAPS.url("default", name));
    let story = told(|sandbox| {
        let annotations = json!({"sync-engine.dev/workspace": "root:acme"});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": annotations},
            "data": {"x": "1"},
        });
        assert_eq!(sandbox.request(&Request::post(&by("sync-engine/main/m", ""), &map)).code, 201);
        let merge = "application/merge-patch+json";
        let edit = json!({"data": {"x": null, "y.z": "2"}, "metadata": {"labels": {"l": "v"}}});
        sandbox.request(&Request::patch(&by("kubectl-edit", "a"), merge, &edit));
        let noise = json!({"metadata": {"annotations": {"sync-engine.dev/hash": "0"}}});
        sandbox.request(&Request::patch(&by("sync-engine/main/m", "a"), merge, &noise));
        sandbox.request(&Request::delete(&by("sync-engine", "a")));
    });
    insta::assert_snapshot!(story.await, @r#"
    engine: creates ConfigMap default/a for acme []
    kubectl-edit: changes ConfigMap default/a ["data[y.z]: 2", "data.x: removed", "metadata.labels.l: v"]
    engine: deletes ConfigMap default/a []
    "#);
}

#[test]
fn a_status_is_told_with_its_conditions() {
    let old = json!({"status": {"phase": "Pending"}});
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "reason": "Because", "message": message, "lastTransitionTime": "now"});
    let conditions = json!([condition("Ready", "True", "fine"), condition("Synced", "False", "somebody else's")]);
    let new = json!({"status": {"phase": "Running", "observedGeneration": 2, "conditions": conditions}});
    insta::assert_snapshot!(describe::status_changes(&old, &new).join("\n"), @r"
    Ready: True (Because)
    Synced: False (Because: somebody else's)
    phase: Pending → Running
    ");
}

#[test]
fn what_a_secret_holds_is_not_told() {
    let old = json!({"kind": "Secret", "type": "Opaque", "data": {"a.b": "c2VjcmV0", "gone": "c2VjcmV0"}});
    let new = json!({"kind": "Secret", "type": "other", "data": {"a.b": "b3RoZXI=", "new": "c2VjcmV0"}});
    let told = ["data[a.b]: changed", "data.new: changed", "data.gone: removed", "type: Opaque → other"];
    assert_eq!(describe::changes(&old, &new), told);
}
