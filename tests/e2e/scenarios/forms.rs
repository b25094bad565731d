//! What a server stores in another form than it was written in, and what it remembers of who wrote what.

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::rest::Patch;
use crate::target::{name, namespace, uid};
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(drift_of_values_that_the_server_stores_in_another_form_is_corrected).on_kube(),
        case!(an_api_moves_to_a_new_version_and_nothing_is_made_anew).on_kube(),
        case!(an_object_with_thousands_of_keys_is_written_beside_its_source).on_kube(),
    ]
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const FORMS: &str = r#"<mapping>
  objects:
    - id: app
      template:
        apiVersion: apps/v1
        kind: Deployment
        spec:
          replicas: 1
          selector: {matchLabels: {app: a}}
          template:
            metadata: {labels: {app: a}}
            spec:
              containers:
                - name: main
                  image: example.org/app:1
                  env: [{name: EMPTY, value: ""}]
                  resources: {limits: {cpu: 1000m, memory: 1024Mi}}
    - id: service
      template:
        apiVersion: v1
        kind: Service
        spec: {selector: {app: a}, ports: [{name: http, port: 80, targetPort: 8080}]}
    - id: login
      template:
        apiVersion: v1
        kind: Secret
        stringData: {user: "${{ source.spec.version }}", extra: "${{ source.spec.note | default(omit) }}"}
"#;

/// The one object of the mapping in a collection across namespaces, `/api/v1/secrets` for example.
async fn only(world: &World<'_>, all: &str) -> String {
    let objects = eventually("the object is made", async || {
        let objects = world.target.labelled(all).await;
        if objects.len() == 1 { Ok(objects) } else { Err(format!("there are {}", objects.len())) }
    })
    .await;
    let (api, plural) = all.rsplit_once('/').expect("a path");
    format!("{api}/namespaces/{}/{plural}/{}", namespace(&objects[0]), name(&objects[0]))
}

async fn drift_of_values_that_the_server_stores_in_another_form_is_corrected(stage: &Stage) {
    let (world, _engine) = stage.running_with(FORMS).await;
    world.alpha.create_synced("it", json!({"version": "ann", "note": "x"})).await;
    let rest = &world.target.rest;
    let app = only(&world, "/apis/apps/v1/deployments").await;
    let container = "/spec/template/spec/containers/0";
    for (field, drift, stored) in [
        ("/resources/limits/cpu", json!("32"), json!("1")),
        ("/resources/limits/memory", json!("7Gi"), json!("1Gi")),
        ("/env/0", json!({"name": "EMPTY", "value": "full"}), json!({"name": "EMPTY"})),
    ] {
        let pointer = format!("{container}{field}");
        rest.has(&app, &pointer, stored.clone()).await;
        world.settled().await;
        rest.patch(Patch::Json, &app, &json!([{"op": "replace", "path": pointer, "value": drift}])).await;
        rest.has(&app, &pointer, stored).await;
    }

    // An operator's own item stays, beside the engine's, which is corrected.
    let service = only(&world, "/api/v1/services").await;
    let ports = json!({"spec": {"ports": [
        {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}, {"name": "metrics", "port": 9090, "protocol": "TCP"},
    ]}});
    rest.patch(Patch::Merge, &service, &ports).await;
    world.settled().await;
    rest.patch(Patch::Json, &service, &json!([{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 9}]))
        .await;
    rest.has(&service, "/spec/ports/0/targetPort", json!(8080)).await;
    rest.has(&service, "/spec/ports/1/name", json!("metrics")).await;

    let login = only(&world, "/api/v1/secrets").await;
    rest.has(&login, "/data", json!({"user": "YW5u", "extra": "eA=="})).await;
    rest.patch(Patch::Merge, &login, &json!({"stringData": {"user": "mallory"}})).await;
    rest.has(&login, "/data", json!({"user": "YW5u", "extra": "eA=="})).await;
    world.alpha.patch("it", json!({"spec": {"version": "bob", "note": null}})).await;
    rest.has(&login, "/data", json!({"user": "Ym9i"})).await;
    world.settled().await;
}

/// Both versions of the consumers' API are served for a while: the mapping moves, then the consumers, then the former version goes.
async fn an_api_moves_to_a_new_version_and_nothing_is_made_anew(stage: &Stage) {
    let (world, engine) = stage.running().await;
    let made = world.made("it", json!({"size": 1})).await;
    let (rest, group, plural) = (&world.alpha.rest, &world.api.group, &world.api.plural);
    let definition = format!("{DEFINITIONS}/{plural}.{group}");
    let former = rest.get(&definition).await.expect("the definition")["spec"]["versions"][0].clone();
    let version = |name: &str, served: bool| {
        let mut version = former.clone();
        (version["name"], version["served"], version["storage"]) = (name.into(), served.into(), (name == "v1").into());
        version
    };
    let serve = async |v1: bool| {
        let versions = json!({"spec": {"versions": [version("v1", v1), version("v2", true)]}});
        rest.patch(Patch::Merge, &definition, &versions).await;
    };
    serve(true).await;
    let moved = format!("/apis/{group}/v2/namespaces/{}/{plural}/it", world.alpha.namespace);
    rest.appears(&moved).await;
    let source = world.mappings.fill("<source>").replace(&format!("{plural}.v1."), &format!("{plural}.v2."));
    assert!(source.contains(".v2."), "{source}");
    world.mappings.write("widgets.yaml", &WIDGETS.replace("<source>", &source));
    for (size, serves_v1) in [(2, true), (3, false)] {
        serve(serves_v1).await;
        rest.patch(Patch::Merge, &moved, &json!({"spec": {"size": size}})).await;
        let now = world.target.has_spec(&world.alpha, "it", json!({"size": size})).await;
        assert_eq!(uid(&now), uid(&made));
    }
    assert!(engine.log().iter().all(|line| !line.contains("is refused")), "another version is no other source");
}

const LARGE: &str = r#"<mapping>
  target: {cluster: source}
  objects:
    - id: map
      template: {apiVersion: v1, kind: ConfigMap, data: "${{ source.spec.labels }}"}
"#;

async fn an_object_with_thousands_of_keys_is_written_beside_its_source(stage: &Stage) {
    let (world, _engine) = stage.running_with(LARGE).await;
    let keys = |count: usize| -> Value {
        (0..count).map(|n| (format!("key-{n:06}-{}", "k".repeat(30)), json!("v"))).collect()
    };
    let alpha = &world.alpha;
    alpha.create_synced("it", json!({"labels": keys(6_000)})).await;
    let path = format!("/api/v1/namespaces/{}/configmaps/it", alpha.namespace);
    alpha.rest.has(&path, "/data", keys(6_000)).await;
    let removed: Value =
        keys(6_000).as_object().expect("a map").keys().skip(1).map(|key| (key.clone(), Value::Null)).collect();
    alpha.patch("it", json!({"spec": {"labels": removed}})).await;
    alpha.rest.has(&path, "/data", keys(1)).await;
}
