//! Several targets of one mapping: for each source one of them, or several at a time.

use serde_json::json;

use super::fleets::secret;
use crate::case::{Case, Stage, case};
use crate::engine::Launch;
use crate::eventually::becomes;
use crate::kube::ApiServer;
use crate::rest::Patch;
use crate::target::Target;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![
        case!(each_item_of_a_list_is_a_target_and_one_that_is_down_delays_no_other),
        case!(connections_to_one_cluster_are_reported_and_no_two_targets_of_one_mapping).on_kube(),
        case!(every_cluster_that_a_provider_lists_under_a_label_is_a_target).on_kube(),
    ]
}

const EACH: &str = r#"<mapping>
  targets:
    forEach: ${{ source.spec.tags | default([]) }}
    as: region
    key: ${{ region }}
    cluster: "{{ region }}"
    allowed: [target, west]
  objects:
    - id: widget
      template:
        apiVersion: <group>/v1
        kind: Widget
        spec: {size: "${{ source.spec.size }}", note: "{{ region }}"}
      ready: ${{ objects.widget.status.phase | default("") == "Running" }}
  status:
    fields:
      phase: {value: "${{ targets.west.objects.widget.status.phase | default('None') }}"}
      ready: {value: "${{ targets | items | selectattr('1.ready') | length }}"}
      endpoints:
        value:
          $each: ${{ targets | items }}
          $as: one
          $item: "{{ one[0] }} {{ one[1].reason }}"
"#;

const ONE: &str = r#"<mapping>
  target:
    cluster: ${{ source.spec.version }}
    allowed: [target, west]
    onTargetChange: Block
  objects:
    - id: widget
      template: {apiVersion: <group>/v1, kind: Widget, spec: '${{ source.spec }}'}
"#;

/// A world with a second target, called `west`, of the case's own.
struct Two<'w> {
    world: World<'w>,
    server: ApiServer,
    west: Target,
}

impl<'w> Two<'w> {
    async fn of(stage: &'w Stage, mapping: &str) -> Self {
        let world = stage.unmapped(true).await;
        let server = stage.fleet.own_cluster(&format!("{}-west", stage.id)).await;
        let rest = server.admin().await;
        world.api.install(&rest).await;
        world.mappings.write("widgets.yaml", mapping);
        let west = Target { rest, ..world.target.clone() };
        Self { world, server, west }
    }

    fn launch(&self) -> Launch {
        let kubeconfig = self.world.stage.keep("west.kubeconfig", &self.server.kubeconfig(&self.world.stage.user));
        self.world.launch().and_flag("--connection", format!("west={}", kubeconfig.display()))
    }
}

async fn each_item_of_a_list_is_a_target_and_one_that_is_down_delays_no_other(stage: &Stage) {
    let two = Two::of(stage, EACH).await;
    let (alpha, east, west) = (&two.world.alpha, &two.world.target, &two.west);
    let mut engine = two.launch().ready().await;
    alpha.create("it", json!({"size": 1, "tags": ["target", "west"]})).await;
    east.has_spec(alpha, "it", json!({"size": 1, "note": "target"})).await;
    west.has_spec(alpha, "it", json!({"size": 1, "note": "west"})).await;
    east.operate(alpha, "it", json!({"phase": "Running"})).await;
    alpha.status("it", json!({"phase": "None", "ready": 1, "endpoints": ["target Ready", "west NotReady"]})).await;
    west.operate(alpha, "it", json!({"phase": "Running"})).await;
    alpha.status("it", json!({"phase": "Running", "ready": 2, "endpoints": ["target Ready", "west Ready"]})).await;
    alpha.synced("it", "True", "Synced").await;

    // With one target down, the other goes on, and the status says which one is down.
    two.server.kill();
    alpha.status("it", json!({"ready": 1, "endpoints": ["target Ready", "west Unreachable"]})).await;
    let message = alpha.synced("it", "False", "Waiting").await["message"].to_string();
    assert!(message.contains("`west`") && !message.contains("127.0.0.1"), "{message}");
    alpha.patch("it", json!({"spec": {"size": 2}})).await;
    east.has_spec(alpha, "it", json!({"size": 2, "note": "target"})).await;
    two.server.resume().await;
    west.has_spec(alpha, "it", json!({"size": 2, "note": "west"})).await;
    alpha.synced("it", "True", "Synced").await;

    // An engine that starts anew writes nothing.
    engine.terminate().await;
    let before = two.world.writes().len();
    let mut engine = two.launch().ready().await;
    two.world.settled().await;
    assert_eq!(two.world.writes().len(), before, "in sync");

    // A key that is gone from the list takes its object along; the finalizer stays for the other one.
    alpha.patch("it", json!({"spec": {"tags": ["west"]}})).await;
    east.gone(alpha, "it").await;
    alpha.status("it", json!({"ready": 1, "endpoints": ["west Ready"]})).await;
    assert_eq!(alpha.holds("it").await.len(), 1, "the finalizer");
    west.copy(alpha, "it").await;
    alpha.remove("it").await;
    west.gone(alpha, "it").await;
    engine.is_running().expect("it runs");
}

/// A second mapping on the same resource: another kind of object, and no word upstream.
const SETTINGS: &str = r#"
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: <name>-settings}
spec:
  source: <source>
  target: {cluster: west}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: "{{ source.spec.size }}"}}
  status: {observedGeneration: Off, engineConditions: []}
"#;

async fn connections_to_one_cluster_are_reported_and_no_two_targets_of_one_mapping(stage: &Stage) {
    let world = stage.unmapped(true).await;
    world.mappings.write("settings.yaml", SETTINGS);
    world.mappings.write("widgets.yaml", &format!("{ONE}  lifecycle: {{onMappingRemoved: Delete}}\n"));
    let same = format!("west={}", world.target_kubeconfig.display());
    let mut engine = world.launch().and_flag("--connection", same).start();
    world.alpha.create("it", json!({"size": 1, "version": "west"})).await;
    engine.becomes_unready("mapping", "are one cluster").await;
    engine.says(&["`target` and `west`", "lead to one cluster"]).await;
    let settings = Target { mapping: format!("{}-settings", world.target.mapping), ..world.target.clone() };
    becomes("the mapping of one of them works", 1, async || settings.labelled("/api/v1/configmaps").await.len()).await;
    assert!(world.target.copies().await.is_empty(), "nothing is written by the other");
    world.mappings.remove("widgets.yaml");
    engine.becomes_ready().await;
}

const FLEET: &str = r#"<mapping>
  targets:
    clusters: {provider: <name>-fleet, matchLabels: {tier: gold}}
  objects:
    - id: widget
      template:
        apiVersion: <group>/v1
        kind: Widget
        spec: {size: "${{ source.spec.size }}", note: "{{ target.key }}"}
      ready: ${{ objects.widget.status.phase | default("") == "Running" }}
  status:
    fields:
      ready: {value: "${{ targets | items | selectattr('1.ready') | length }}"}
---
apiVersion: sync-engine.dev/v1alpha1
kind: ClusterProvider
metadata: {name: <name>-fleet}
spec:
  kubeconfigSecrets: {connection: target, namespace: <namespace>, selector: {matchLabels: {fleet: edge}}}
"#;

async fn every_cluster_that_a_provider_lists_under_a_label_is_a_target(stage: &Stage) {
    let namespace = format!("fleet-{}", stage.id);
    let two = Two::of(stage, &FLEET.replace("<namespace>", &namespace)).await;
    let (alpha, hub, west) = (&two.world.alpha, &two.world.target, &two.west);
    hub.make_namespace(&namespace).await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let east = &stage.fleet.kubernetes().await.target.kubeconfig(&stage.user);
    let kubeconfig = two.server.kubeconfig(&stage.user);
    hub.rest.create(&secrets, &secret("west", "gold", &kubeconfig)).await;
    hub.rest.create(&secrets, &secret("east", "silver", east)).await;
    let mut engine = two.launch().ready().await;
    alpha.create("it", json!({"size": 1})).await;
    west.has_spec(alpha, "it", json!({"size": 1, "note": "west"})).await;
    west.operate(alpha, "it", json!({"phase": "Running"})).await;
    alpha.status("it", json!({"ready": 1})).await;
    assert!(hub.copies().await.is_empty(), "another tier");

    // A cluster that joins the selection is a target at once; one that leaves it keeps what it has.
    hub.rest.patch(Patch::Merge, &format!("{secrets}/east"), &secret("east", "gold", east)).await;
    hub.has_spec(alpha, "it", json!({"size": 1, "note": "east"})).await;
    hub.operate(alpha, "it", json!({"phase": "Running"})).await;
    alpha.status("it", json!({"ready": 2})).await;
    hub.rest.patch(Patch::Merge, &format!("{secrets}/west"), &secret("west", "silver", &kubeconfig)).await;
    alpha.status("it", json!({"ready": 1})).await;
    alpha.patch("it", json!({"spec": {"size": 2}})).await;
    hub.has_spec(alpha, "it", json!({"size": 2, "note": "east"})).await;
    west.has_spec(alpha, "it", json!({"size": 1, "note": "west"})).await;

    // An engine that starts anew knows of the former target by the state stores. While the provider does not list it, the source
    // stays, and says why.
    engine.terminate().await;
    hub.rest.delete(&format!("{secrets}/west")).await;
    let engine = two.launch().start();
    alpha.delete("it").await;
    hub.gone(alpha, "it").await;
    alpha.synced("it", "False", "TargetChanged").await;
    west.has_spec(alpha, "it", json!({"size": 1, "note": "west"})).await;
    hub.rest.create(&secrets, &secret("west", "silver", &kubeconfig)).await;
    alpha.gone("it").await;
    west.gone(alpha, "it").await;
    drop(engine);
}
