//! A server refuses a request: the engine says so, and goes on with everything else.

use serde_json::{Value, json};

use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::{becomes, eventually};
use crate::target::namespace;
use crate::tenant::condition;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_object_that_a_policy_or_a_webhook_refuses_keeps_neither_the_others_nor_the_status_back),
        // On kcp, nothing tells when a binding enforces the export's new schema.
        case!(a_status_value_that_the_consumers_api_refuses_keeps_no_other_back).on_kube(),
        case!(a_missing_namespace_is_reported),
    ]
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const POLICY_BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// The widget that is refused.
const NAME: &str = "held";

/// A policy that refuses what `rule` matches of the widget `NAME`.
async fn deny(world: &World<'_>, rule: &Value) {
    let name = &world.name;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": format!("request.name != '{NAME}'"), "message": "denied by a policy"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    world.target.rest.create(POLICIES, &policy).await;
    world.target.rest.create(POLICY_BINDINGS, &binding).await;
}

/// A webhook at an address where nobody listens.
async fn break_webhook(world: &World<'_>, rule: &Value) {
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": world.name},
        "webhooks": [{
            "name": "broken.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"},
            "matchConditions": [{"name": "held", "expression": format!("request.name == '{NAME}'")}],
            "rules": [rule],
        }],
    });
    world.target.rest.create(WEBHOOKS, &webhook).await;
}

const WITH_SETTINGS: &str = r#"<widget mapping>
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: "{{ source.spec.size }}"}}
  status:
    from: settings
    fields:
      version: $.data.size
  reconcile: {backoff: {min: 1s, max: 5s}}
"#;

async fn an_object_that_a_policy_or_a_webhook_refuses_keeps_neither_the_others_nor_the_status_back(stage: &Stage) {
    let (world, mut engine) = stage.running_with(WITH_SETTINGS).await;
    let rule = json!({
        "apiGroups": [world.api.group], "apiVersions": ["*"], "resources": [world.api.plural], "operations": ["CREATE"],
    });
    for (configurations, answer, reason, words) in [
        (POLICY_BINDINGS, 422, "Refused", "denied by a policy"),
        (WEBHOOKS, 500, "RequestFailed", "failed calling webhook"),
    ] {
        if configurations == WEBHOOKS {
            break_webhook(&world, &rule).await;
        } else {
            deny(&world, &rule).await;
        }
        let path = format!("{}?dryRun=All", world.api.collection("default"));
        becomes("the answer to a creation", answer, async || {
            world.target.rest.try_create(&path, &world.api.object(NAME, json!({}))).await.status
        })
        .await;
        world.alpha.create(NAME, json!({"size": 1})).await;
        world.alpha.synced(NAME, "False", reason).await;
        troubles::shown(stage, &engine, reason).await;
        world.alpha.status(NAME, json!({"version": "1"})).await;
        engine.becomes_degraded(&format!("mapping {}: sources", world.name), words).await;
        assert_eq!(world.target.find(&world.alpha, NAME).await, None);

        // A change of the source reaches the other object as well.
        world.alpha.patch(NAME, json!({"spec": {"size": 2}})).await;
        world.alpha.status(NAME, json!({"version": "2"})).await;

        world.target.rest.delete(&format!("{configurations}/{}", world.name)).await;
        world.target.has_spec(&world.alpha, NAME, json!({"size": 2})).await;
        world.alpha.synced(NAME, "True", "Synced").await;
        engine.becomes_ready().await;
        world.alpha.remove(NAME).await;
    }
}

async fn a_status_value_that_the_consumers_api_refuses_keeps_no_other_back(stage: &Stage) {
    let world = stage.widgets().await;
    let narrow = world.api.with_phases(&["Pending", "Running"]);
    world.update_source(&narrow).await;
    let _engine = world.engine().await;
    world.alpha.create("it", json!({})).await;
    world.alpha.status("it", json!({"phase": "Pending"})).await;
    world.target.operate(&world.alpha, "it", json!({"phase": "Exotic", "version": "7"})).await;
    world.alpha.status("it", json!({"version": "7"})).await;
    let condition = world.alpha.synced("it", "False", "StatusFailed").await;
    assert!(condition["message"].as_str().is_some_and(|text| text.contains("phase")), "{condition}");

    world.target.operate(&world.alpha, "it", json!({"phase": "Running", "version": "8"})).await;
    world.alpha.status("it", json!({"phase": "Running", "version": "8"})).await;
    world.alpha.synced("it", "True", "Synced").await;
}

async fn a_missing_namespace_is_reported(stage: &Stage) {
    let (world, mut engine) = stage.running().await;
    let place = namespace(&world.made("scout", json!({})).await);
    // On a plain cluster, the places of the tenants differ in their hash alone: beta's is found by its refusal.
    world
        .mappings
        .write("widgets.yaml", &WIDGETS.replace("  objects:", "  placement: {createNamespace: false}\n  objects:"));
    engine.says(&["generation 2"]).await;

    world.beta.create("it", json!({"size": 1})).await;
    let missing = eventually("the source says what holds it up", async || {
        let object = world.beta.object("it").await;
        let synced = condition(&object, "Synced").cloned().unwrap_or(Value::Null);
        (synced["status"] == "False").then_some(()).ok_or_else(|| object["status"].to_string())?;
        let refused = world.target_requests().into_iter().find(|request| request.code == 404 && request.is_write());
        refused.ok_or_else(|| "no write was answered by 404".to_owned())
    })
    .await;
    engine.becomes_degraded(&format!("mapping {}: sources", world.name), "not found").await;
    let missing =
        missing.uri.split("/namespaces/").nth(1).and_then(|rest| rest.split('/').next()).expect("a namespace");
    assert_ne!(missing, place);

    world.target.make_namespace(missing).await;
    world.target.has_spec(&world.beta, "it", json!({"size": 1})).await;
    world.beta.synced("it", "True", "Synced").await;
    engine.becomes_ready().await;
}
