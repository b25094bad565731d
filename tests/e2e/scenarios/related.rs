//! Secrets travel both ways: passwords to the target, connections to the consumer.

use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};

use super::mongodb::secrets;
use super::troubles;
use crate::case::{Case, Stage, case};
use crate::engine::Engine;
use crate::eventually::{becomes, eventually};
use crate::rest::{Patch, Rest};
use crate::target::namespace;
use crate::tenant::Tenant;
use crate::world::World;

const RELATED: &str = include_str!("../fixtures/related.yaml");
const SELECTED: &str = "<widget mapping>
  related:
    - {id: settings, direction: ToTarget, resource: configmaps.v1, from: {selector: {matchLabels: {for: widgets}}}, shared: Namespace}
";

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_password_travels_down_and_a_connection_up).on_both(),
        case!(what_labels_select_is_copied).on_kcp(),
        case!(a_password_is_made_once_and_comes_back_with_its_address),
        case!(a_claim_is_waited_for_and_followed_again).on_kcp(),
    ]
}

fn secret(name: &str, data: &[(&str, &str)]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), json!(BASE64.encode(value.as_bytes())))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"team": "a", "own": "b"}}, "data": data})
}

/// Waits until a Secret holds exactly these values.
async fn holds(rest: &Rest, namespace: &str, name: &str, data: &[(&str, &str)]) -> Value {
    rest.has(&format!("{}/{name}", secrets(namespace)), "/data", secret(name, data)["data"].take()).await
}

async fn is_gone(rest: &Rest, namespace: &str, name: &str) {
    rest.disappears(&format!("{}/{name}", secrets(namespace))).await;
}

async fn put(tenant: &Tenant, name: &str, data: &[(&str, &str)]) {
    tenant.rest.create(&secrets(&tenant.namespace), &secret(name, data)).await;
}

impl World<'_> {
    /// A world whose workspaces let the engine use Secrets, with the mapping of these cases.
    async fn with_secrets(&self) {
        self.lets_use(&["secrets", "configmaps"]).await;
        self.mappings.write("widgets.yaml", RELATED);
    }
}

/// No value of a Secret is in the log, the metrics or on a page: neither as it is, nor as base64, nor in hexadecimal.
async fn tells_none(engine: &Engine, values: &[&str]) {
    let mut told = engine.log();
    for path in ["/", "/readyz?verbose"] {
        told.push(engine.ask(path).await.map(|answer| answer.body.to_string()).unwrap_or_default());
    }
    told.push(engine.probe("/metrics").await.map(|answer| answer.body.to_string()).unwrap_or_default());
    assert!(told.len() > 30, "at the level trace it tells more: {told:#?}");
    for value in values {
        for form in [(*value).to_owned(), BASE64.encode(value.as_bytes()), HEXLOWER.encode(value.as_bytes())] {
            let line = told.iter().find(|line| line.contains(&form));
            assert_eq!(line, None, "it tells {value}");
        }
    }
}

async fn a_password_travels_down_and_a_connection_up(stage: &Stage) {
    let world = stage.unmapped(true).await;
    world.with_secrets().await;
    let engine = world.launch().flag("--log-level", "trace").ready().await;
    let (alpha, beta, target) = (&world.alpha, &world.beta, &world.target);
    for tenant in [alpha, beta] {
        tenant.create("it", json!({"size": 1, "tags": ["alice"]})).await;
    }
    let waiting = alpha.synced("it", "False", "Waiting").await;
    assert!(waiting.to_string().contains("default/alice") || waiting.to_string().contains("/alice"), "{waiting}");
    put(alpha, "alice", &[("password", "marked-value-of-alpha"), ("other", "x")]).await;
    put(beta, "alice", &[("password", "marked-value-of-beta")]).await;

    // The copy exists before what needs it, and holds what the mapping says alone.
    let widget = target.has_spec(alpha, "it", json!({"size": 1})).await;
    let place = namespace(&widget);
    let copy = holds(&target.rest, &place, "it-alice", &[("password", "marked-value-of-alpha")]).await;
    let version =
        |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap_or("0").parse::<u64>().unwrap();
    assert!(version(&copy) < version(&widget), "the Secret before the Widget");
    assert_eq!((&copy["metadata"]["labels"]["team"], &copy["metadata"]["labels"]["own"]), (&json!("a"), &Value::Null));
    assert!(!copy["metadata"].to_string().contains("kcp.io"), "{copy}");
    let other = namespace(&target.has_spec(beta, "it", json!({"size": 1})).await);
    holds(&target.rest, &other, "it-alice", &[("password", "marked-value-of-beta")]).await;
    alpha.synced("it", "True", "Synced").await;

    // Nothing is written to an original: no finalizer holds it, and nothing says who reads it.
    let original = alpha.rest.get(&format!("{}/alice", secrets(&alpha.namespace))).await.expect("the original");
    let metadata = original["metadata"].to_string();
    assert!(original["metadata"]["finalizers"].is_null() && !metadata.contains("sync-engine"), "{metadata}");

    // It follows its original.
    let path = format!("{}/alice", secrets(&alpha.namespace));
    let changed = json!({"data": {"password": BASE64.encode(b"marked-and-changed")}});
    alpha.rest.patch(Patch::Merge, &path, &changed).await;
    holds(&target.rest, &place, "it-alice", &[("password", "marked-and-changed")]).await;

    // The way back.
    let data = [("uri", "db://marked:value@it.internal"), ("host", "it.internal"), ("extra", "never")];
    target.rest.create(&secrets(&place), &secret("it-conn", &data)).await;
    let expected = [("uri", "db://marked:value@it.internal"), ("host", "it.example.com")];
    let copy = holds(&alpha.rest, &alpha.namespace, "it-connection", &expected).await;
    let source = alpha.object("it").await;
    assert_eq!(copy["metadata"]["ownerReferences"][0]["uid"], source["metadata"]["uid"], "{copy}");
    alpha.status("it", json!({"message": "it-connection"})).await;
    let path = format!("{}/it-conn", secrets(&place));
    target.rest.patch(Patch::Merge, &path, &json!({"data": {"uri": BASE64.encode(b"db://new"), "host": null}})).await;
    let copy = holds(&alpha.rest, &alpha.namespace, "it-connection", &[("uri", "db://new")]).await;
    let path = format!("{}/it-connection", secrets(&alpha.namespace));
    alpha.rest.patch(Patch::Merge, &path, &json!({"data": {"uri": BASE64.encode(b"by hand")}})).await;
    holds(&alpha.rest, &alpha.namespace, "it-connection", &[("uri", "db://new")]).await;
    assert!(beta.rest.get(&format!("{}/it-connection", secrets(&beta.namespace))).await.is_none(), "{copy}");

    // A copy stays when its original goes, and goes with its item.
    alpha.rest.delete(&format!("{}/alice", secrets(&alpha.namespace))).await;
    alpha.synced("it", "False", "Waiting").await;
    holds(&target.rest, &place, "it-alice", &[("password", "marked-and-changed")]).await;
    put(alpha, "alice", &[("password", "again")]).await;
    holds(&target.rest, &place, "it-alice", &[("password", "again")]).await;
    alpha.patch("it", json!({"spec": {"tags": []}})).await;
    is_gone(&target.rest, &place, "it-alice").await;
    alpha.synced("it", "True", "Synced").await;
    world.settled().await;
    world.no_write(Duration::from_secs(3)).await;

    alpha.remove("it").await;
    is_gone(&alpha.rest, &alpha.namespace, "it-connection").await;
    beta.remove("it").await;
    is_gone(&target.rest, &other, "it-alice").await;
    holds(&beta.rest, &beta.namespace, "alice", &[("password", "marked-value-of-beta")]).await;
    let values =
        ["marked-value-of-alpha", "marked-value-of-beta", "marked-and-changed", "db://marked:value@it.internal"];
    tells_none(&engine, &values).await;
}

async fn a_claim_is_waited_for_and_followed_again(stage: &Stage) {
    let world = stage.unmapped(true).await;
    world.mappings.write("widgets.yaml", RELATED);
    let provider = world.provider();
    let (alpha, beta, target) = (&world.alpha, &world.beta, &world.target);
    provider.claim(&world.api, &["secrets"]).await;
    let [in_alpha, in_beta] = &world.workspaces[..] else { panic!("two workspaces") };
    in_beta.accept(&world.api, &["secrets"]).await;
    let engine = world.engine().await;
    for tenant in [alpha, beta] {
        put(tenant, "alice", &[("password", "p")]).await;
        tenant.create("it", json!({"size": 1, "tags": ["alice"]})).await;
    }
    // Who has accepted it waits for nobody else.
    beta.synced("it", "True", "Synced").await;
    let lacking = alpha.synced("it", "False", "ClaimNotAccepted").await;
    assert!(lacking.to_string().contains("resource: secrets, verbs: [get, list, watch"), "{lacking}");
    troubles::shown(stage, &engine, "ClaimNotAccepted").await;
    in_alpha.accept(&world.api, &["secrets"]).await;
    alpha.synced("it", "True", "Synced").await;
    let place = namespace(&target.copy(alpha, "it").await);
    holds(&target.rest, &place, "it-alice", &[("password", "p")]).await;

    in_alpha.take_back(&world.api).await;
    alpha.synced("it", "False", "ClaimNotAccepted").await;
    holds(&target.rest, &place, "it-alice", &[("password", "p")]).await;
    let path = format!("{}/alice", secrets(&alpha.namespace));
    alpha.rest.patch(Patch::Merge, &path, &json!({"data": {"password": BASE64.encode(b"q")}})).await;
    in_alpha.accept(&world.api, &["secrets"]).await;
    holds(&target.rest, &place, "it-alice", &[("password", "q")]).await;
    alpha.synced("it", "True", "Synced").await;

    // Without the claim, a consumer can still leave.
    in_alpha.take_back(&world.api).await;
    alpha.synced("it", "False", "ClaimNotAccepted").await;
    alpha.remove("it").await;
    is_gone(&target.rest, &place, "it-alice").await;
}

async fn what_labels_select_is_copied(stage: &Stage) {
    let world = stage.unmapped(true).await;
    world.with_secrets().await;
    world.mappings.write("widgets.yaml", SELECTED);
    let _engine = world.engine().await;
    let (alpha, target) = (&world.alpha, &world.target);
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"of": name}});
    alpha.rest.create(&maps(&alpha.namespace), &map("first", json!({"for": "widgets"}))).await;
    alpha.rest.create(&maps(&alpha.namespace), &map("other", json!({"for": "others"}))).await;
    alpha.create("it", json!({"size": 1})).await;
    let place = namespace(&target.copy(alpha, "it").await);
    let copied = async |expected: &[&str]| {
        becomes(&format!("copied are {expected:?}"), expected, async || {
            let all = target.labelled(&maps(&place)).await;
            let mut names: Vec<_> =
                all.iter().filter_map(|one| one["data"]["of"].as_str()).map(str::to_owned).collect();
            names.sort_unstable();
            names
        })
        .await;
    };
    copied(&["first"]).await;

    // Labels come and go.
    let other = format!("{}/other", maps(&alpha.namespace));
    alpha.rest.patch(Patch::Merge, &other, &json!({"metadata": {"labels": {"for": "widgets"}}})).await;
    copied(&["first", "other"]).await;
    alpha.rest.patch(Patch::Merge, &other, &json!({"metadata": {"labels": {"for": "others"}}})).await;
    copied(&["first"]).await;

    alpha.remove("it").await;
    copied(&[]).await;
}

const MADE: &str = r#"<mapping>
  related:
    - id: access
      when: ${{ objects.widget.ready }}
      direction: ToSource
      resource: secrets.v1
      from: {name: "{{ placement.name }}-made"}
      to: {name: "{{ source.metadata.name }}-access"}
      data: {include: [password], add: {uri: "db://{{ related.access.data.password | b64decode }}@{{ placement.name }}"}}
  objects:
    - id: made
      generate: {password: {length: 20}}
      template:
        apiVersion: v1
        kind: Secret
        metadata: {name: "{{ placement.name }}-made"}
        stringData: {size: "{{ source.spec.size }}"}
    - id: role
      apply: {atCreation: ["/rules/*/verbs"]}
      template:
        apiVersion: rbac.authorization.k8s.io/v1
        kind: Role
        metadata: {name: "{{ placement.name }}-role"}
        rules:
          - {apiGroups: [""], resources: [pods], resourceNames: [first], verbs: [get]}
    - id: widget
      dependsOn: [made]
      ready: ${{ objects.widget.status.phase | default("") == "Running" }}
      template: {apiVersion: <group>/v1, kind: Widget, spec: {size: "${{ source.spec.size }}"}}
"#;

/// What the engine made is on the object alone: neither another process nor a change of anything else makes it anew.
async fn a_password_is_made_once_and_comes_back_with_its_address(stage: &Stage) {
    let world = stage.unmapped(true).await;
    world.with_secrets().await;
    world.mappings.write("widgets.yaml", MADE);
    let (alpha, target) = (&world.alpha, &world.target);
    let mut engine = world.launch().flag("--log-level", "trace").ready().await;
    let widget = target.made(alpha, "it", json!({"size": 1})).await;
    let place = namespace(&widget);
    let of_made = format!("{}/it-made", secrets(&place));
    let made = async || {
        let found = target.rest.get(&of_made).await.expect("the Secret");
        let password = found["data"]["password"].as_str().map(|text| BASE64.decode(text.as_bytes()).expect("base64"));
        (String::from_utf8(password.unwrap_or_default()).expect("text"), found["data"]["size"].clone())
    };
    let (password, _) = made().await;
    assert!(password.len() == 20 && password.chars().all(|c| c.is_ascii_alphanumeric()), "{}", password.len());
    is_gone(&alpha.rest, &alpha.namespace, "it-access").await;
    target.report(&widget, json!({"phase": "Running"})).await;
    let uri = |password: &str| format!("db://{password}@it");
    holds(&alpha.rest, &alpha.namespace, "it-access", &[("password", &password), ("uri", &uri(&password))]).await;
    tells_none(&engine, &[&password]).await;
    engine.kill();

    // Others may set what an item of a list has at its creation.
    let role = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{place}/roles/it-role");
    let verbs = json!([{"op": "replace", "path": "/rules/0/verbs", "value": ["get", "list"]}]);
    target.rest.patch(Patch::Json, &role, &verbs).await;
    world.mappings.write("widgets.yaml", &MADE.replace("[first]", "[second]"));
    let engine = world.launch().flag("--log-level", "trace").ready().await;
    alpha.patch("it", json!({"spec": {"size": 2}})).await;
    eventually("both follow their templates", async || {
        let (now, size) = made().await;
        assert_eq!(now, password, "it is not made again");
        let rule = target.rest.get(&role).await.ok_or("it is missing")?["rules"][0].clone();
        assert_eq!(rule["verbs"], json!(["get", "list"]), "{rule}");
        let follow = size == json!(BASE64.encode(b"2")) && rule["resourceNames"][0] == "second";
        follow.then_some(()).ok_or_else(|| format!("{size} {rule}"))
    })
    .await;

    // A rotation by hand stays and is followed; where the key is deleted, another text is made.
    target.rest.patch(Patch::Merge, &of_made, &json!({"data": {"password": BASE64.encode(b"rotated-by-hand")}})).await;
    let rotated = [("password", "rotated-by-hand"), ("uri", "db://rotated-by-hand@it")];
    holds(&alpha.rest, &alpha.namespace, "it-access", &rotated).await;
    target.rest.patch(Patch::Merge, &of_made, &json!({"data": {"password": null}})).await;
    let another = eventually("another text is made", async || {
        let (now, _) = made().await;
        if now.len() == 20 && now != password { Ok(now) } else { Err(now.len().to_string()) }
    })
    .await;
    holds(&alpha.rest, &alpha.namespace, "it-access", &[("password", &another), ("uri", &uri(&another))]).await;
    target.report(&widget, json!({"phase": "Stopped"})).await;
    is_gone(&alpha.rest, &alpha.namespace, "it-access").await;
    tells_none(&engine, &[&password, &another, "rotated-by-hand"]).await;
}
