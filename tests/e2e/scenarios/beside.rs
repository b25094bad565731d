//! Objects beside their source, in the source's own cluster.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::credentials::ADMIN;
use crate::eventually::eventually;
use crate::kubectl::repository;
use crate::rest::Patch;
use crate::tenant::{Tenant, condition};
use crate::world::World;

const BESIDE: &str = include_str!("../fixtures/beside.yaml");

pub fn cases() -> Vec<Case> {
    vec![
        case!(an_object_beside_its_source_follows_it_and_goes_with_it).on_both(),
        case!(an_object_of_an_api_that_the_export_publishes_needs_no_claim),
    ]
}

/// What the servers themselves have a part in.
pub fn on_real_servers() -> Vec<Case> {
    vec![case!(a_consumers_account_becomes_a_workspace_of_kcp).on_kcp()]
}

impl World<'_> {
    /// The mapping of these cases, where the workspaces let the engine use ConfigMaps.
    pub(super) async fn beside(&self) {
        self.lets_use(&["configmaps"]).await;
        self.mappings.write("widgets.yaml", BESIDE);
    }
}

pub(super) fn path(tenant: &Tenant, source: &str) -> String {
    format!("/api/v1/namespaces/{}/configmaps/{source}-settings", tenant.namespace)
}

/// Waits until the object of a source holds exactly this.
async fn holds(tenant: &Tenant, source: &str, data: Value) -> Value {
    tenant.rest.has(&path(tenant, source), "/data", data).await
}

async fn an_object_beside_its_source_follows_it_and_goes_with_it(stage: &Stage) {
    let world = stage.unmapped(true).await;
    world.beside().await;
    let mut engine = world.engine().await;
    let (alpha, beta) = (&world.alpha, &world.beta);
    alpha.create("it", json!({"size": 1, "version": "v1"})).await;
    beta.create("it", json!({"size": 2})).await;
    let made = holds(alpha, "it", json!({"size": "1", "version": "v1"})).await;
    holds(beta, "it", json!({"size": "2"})).await;
    assert_eq!(made["metadata"]["labels"]["part"], "v1");
    engine.says(&["message=create", "kind=ConfigMap", "connection=source"]).await;
    alpha.status("it", json!({"phase": "1", "message": "none"})).await;
    alpha.synced("it", "True", "Synced").await;
    assert_eq!(alpha.holds("it").await.len(), 1, "the finalizer");

    // What the template no longer says goes; what the consumer adds stays, and is read; what it changes is corrected.
    let by_consumer = json!({"data": {"note": "mine", "size": "9"}});
    alpha.rest.patch(Patch::Merge, &path(alpha, "it"), &by_consumer).await;
    holds(alpha, "it", json!({"size": "1", "version": "v1", "note": "mine"})).await;
    alpha.status("it", json!({"message": "mine"})).await;
    alpha.patch("it", json!({"spec": {"version": null, "size": 3}})).await;
    let now = holds(alpha, "it", json!({"size": "3", "note": "mine"})).await;
    assert_eq!(now["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(now["metadata"]["labels"]["part"], Value::Null);
    alpha.status("it", json!({"phase": "3"})).await;
    assert_eq!(world.target.copies().await.len(), 0, "nothing is made elsewhere");

    // An engine that starts in a world in sync writes nothing.
    world.settled().await;
    engine.terminate().await;
    let _engine = world.engine().await;
    world.no_write(Duration::from_secs(3)).await;

    alpha.rest.delete(&path(alpha, "it")).await;
    holds(alpha, "it", json!({"size": "3"})).await;
    alpha.remove("it").await;
    alpha.rest.disappears(&path(alpha, "it")).await;
    holds(beta, "it", json!({"size": "2"})).await;
}

/// A Gadget for each Widget.
const GADGETS: &str = "<mapping>
  target: {cluster: source}
  objects:
    - id: gadget
      template: {apiVersion: <group>/v1, kind: Gadget, spec: \"${{ source.spec }}\"}
  status:
    fields:
      phase: {path: $.status.phase, default: Pending}
";

async fn an_object_of_an_api_that_the_export_publishes_needs_no_claim(stage: &Stage) {
    let world = stage.unmapped(true).await;
    let gadgets = world.api.sibling("gadgets", "Gadget");
    world.serve_at_source(&gadgets).await;
    world.mappings.write("widgets.yaml", GADGETS);
    let _engine = world.engine().await;
    let (alpha, gadget) = (&world.alpha, world.alpha.of(&gadgets));
    alpha.create_synced("it", json!({"size": 1})).await;
    assert_eq!(gadget.object("it").await["spec"], json!({"size": 1}));
    gadget
        .rest
        .patch(Patch::Merge, &format!("{}/status", gadget.path("it")), &json!({"status": {"phase": "Running"}}))
        .await;
    alpha.status("it", json!({"phase": "Running"})).await;
    alpha.remove("it").await;
    assert_eq!(gadget.get("it").await, None);
}

/// The example `account`: kcp itself makes the workspaces, and the claim names the identity of kcp's own export.
async fn a_consumers_account_becomes_a_workspace_of_kcp(stage: &Stage) {
    let world = stage.unmapped(true).await;
    let folder = repository().join("examples/account");
    let file = |path: &str| folder.join(path).display().to_string();
    let kcp = stage.kcp().await;
    let identity = kcp.root().await.get("/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io").await;
    let identity = identity.expect("kcp's own export")["status"]["identityHash"].clone();
    let provider = world.provider();
    let kubectl = stage.kubectl("provider", &kcp.workspace_kubeconfig(&provider.path, ADMIN));
    kubectl.run(&["apply", "-f", &file("schemas/apiresourceschema.yaml"), "-f", &file("schemas/apiexport.yaml")]);
    let export = provider.rest.get("/apis/apis.kcp.io/v1alpha2/apiexports/account").await.expect("the export");
    let mut claim = export["spec"]["permissionClaims"][0].clone();
    assert_eq!(claim["identityHash"], "replace-this", "as the page says");
    claim["identityHash"] = identity;
    provider.set_claims("account", std::slice::from_ref(&claim)).await;
    provider.allow(&stage.user, "account").await;

    let mapping = fs::read_to_string(folder.join("mappings/account.yaml")).expect("the mapping");
    world.mappings.write("account.yaml", &mapping.replace("root:accounts", &provider.path));
    let mut engine = world.engine().await;
    let consumer = &world.workspaces[0];
    consumer.request_binding(&provider.path, "account").await;
    claim["state"] = json!("Accepted");
    claim["selector"] = json!({"matchAll": true});
    consumer.answer_claims("account", &[claim]).await;
    let accounts = "/apis/core.platform-mesh.io/v1alpha1/accounts";
    let account = json!({
        "apiVersion": "core.platform-mesh.io/v1alpha1", "kind": "Account", "metadata": {"name": "team"},
        "spec": {"displayName": "Team", "type": "account"},
    });
    consumer.rest.serves(accounts).await;
    consumer.rest.create(accounts, &account).await;
    let path = format!("{accounts}/team");
    let ready = eventually("the account is ready", async || {
        let found = consumer.rest.get(&path).await.ok_or("it is missing")?;
        let is_ready = condition(&found, "Ready").is_some_and(|one| one["status"] == "True");
        if is_ready { Ok(found) } else { Err(found["status"].to_string()) }
    })
    .await;
    let workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces/team";
    let made = consumer.rest.get(workspaces).await.expect("the workspace");
    assert_eq!(ready["status"]["url"], made["spec"]["URL"]);
    assert_eq!(made["spec"]["type"], json!({"name": "universal", "path": "root"}));

    // The finalizer stays until kcp has taken the whole workspace away.
    consumer.rest.delete(&path).await;
    consumer.rest.disappears(&path).await;
    assert_eq!(consumer.rest.get(workspaces).await, None, "its workspace went first");
    engine.terminate().await;
}
