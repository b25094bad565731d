//! Source clusters that a mapping selects, of those that its provider lists.

use serde_json::json;

use super::fleets::{cluster, secret};
use super::troubles;
use crate::case::{Case, Stage, case};
use crate::eventually::becomes;
use crate::kube::ApiServer;
use crate::rest::Patch;
use crate::tenant::Tenant;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![case!(a_relabelled_cluster_keeps_its_objects_and_gets_its_deletions).on_kube()]
}

const PROVIDER: &str = r#"apiVersion: sync-engine.dev/v1alpha1
kind: ClusterProvider
metadata: {name: <name>-fleet}
spec:
  kubeconfigSecrets: {connection: target, namespace: <hub>, selector: {matchLabels: {fleet: edge}}}
"#;

/// Two source clusters, `a` and `b`, which Secrets of the target list; the mapping serves those of the tier `gold`.
struct Fleet<'w> {
    world: World<'w>,
    a: Tenant,
    b: Tenant,
    secrets: String,
    _server: ApiServer,
}

impl<'w> Fleet<'w> {
    async fn of(stage: &'w Stage) -> Self {
        let world = stage.widgets().await;
        let hub = format!("fleet-{}", stage.id);
        world.target.make_namespace(&hub).await;
        let secrets = format!("/api/v1/namespaces/{hub}/secrets");
        world.mappings.write("provider.yaml", &PROVIDER.replace("<hub>", &hub));
        let (server, b) = cluster(&world, "b").await;
        let source = &stage.fleet.kubernetes().await.source;
        for (name, tier, server) in [("a", "gold", source), ("b", "silver", &server)] {
            world.target.rest.create(&secrets, &secret(name, tier, &server.kubeconfig(&stage.user))).await;
        }
        let fleet = Self { a: world.alpha.clone(), b, secrets, _server: server, world };
        fleet.serve("Retain");
        fleet
    }

    /// Writes the mapping, with this policy for sources that leave it.
    fn serve(&self, on_exit: &str) {
        let direct = self.world.mappings.fill("<source>");
        let (_, resource) = direct.split_once("resource").expect("the source of the world");
        let source = format!(
            "{{provider: <name>-fleet, clusters: {{matchLabels: {{tier: gold}}}}, onExit: {on_exit}, resource{resource}"
        );
        self.world.mappings.write("widgets.yaml", &WIDGETS.replace("<source>", &source));
    }

    async fn becomes(&self, cluster: &str, tier: &str) {
        let change = json!({"metadata": {"labels": {"tier": tier}}});
        self.world.target.rest.patch(Patch::Merge, &format!("{}/{cluster}", self.secrets), &change).await;
    }

    /// Waits until the target has objects of exactly these sizes.
    async fn has(&self, expected: &[i64]) {
        becomes(&format!("the target has {expected:?}"), expected, async || {
            let copies = self.world.target.copies().await;
            let mut sizes: Vec<i64> = copies.iter().filter_map(|copy| copy["spec"]["size"].as_i64()).collect();
            sizes.sort_unstable();
            sizes
        })
        .await;
    }
}

async fn a_relabelled_cluster_keeps_its_objects_and_gets_its_deletions(stage: &Stage) {
    let fleet = Fleet::of(stage).await;
    let (a, b) = (&fleet.a, &fleet.b);
    a.create("it", json!({"size": 1})).await;
    b.create("it", json!({"size": 2})).await;
    b.create("never", json!({"size": 9})).await;
    let mut engine = fleet.world.engine().await;
    a.synced("it", "True", "Synced").await;
    fleet.world.settled().await;
    fleet.has(&[1]).await;
    assert!(b.holds("it").await.is_empty(), "nothing is written to a cluster that was never selected");
    b.remove("never").await;

    // Into the selection, and out of it again: nothing is deleted, and nothing follows.
    fleet.becomes("b", "gold").await;
    b.synced("it", "True", "Synced").await;
    fleet.has(&[1, 2]).await;
    let made = fleet.world.target.uids().await;
    fleet.becomes("b", "silver").await;
    b.synced("it", "False", "Retained").await;
    troubles::shown(stage, &engine, "Retained").await;
    b.patch("it", json!({"spec": {"size": 4}})).await;
    a.patch("it", json!({"spec": {"size": 3}})).await;
    fleet.has(&[2, 3]).await;
    assert_eq!(b.holds("it").await.len(), 1, "the finalizer");

    // So it is for an engine that starts anew, and one that was down while another cluster was relabelled.
    engine.terminate().await;
    fleet.becomes("a", "silver").await;
    let mut engine = fleet.world.engine().await;
    a.synced("it", "False", "Retained").await;
    fleet.world.settled().await;
    a.patch("it", json!({"spec": {"size": 5}})).await;
    b.create("other", json!({"size": 6})).await;
    fleet.world.settled().await;
    fleet.has(&[2, 3]).await;
    assert!(b.holds("other").await.is_empty());

    // Whoever deletes there is not kept waiting, and nobody else's object goes.
    b.remove("it").await;
    fleet.has(&[3]).await;
    fleet.becomes("a", "gold").await;
    fleet.becomes("b", "gold").await;
    a.synced("it", "True", "Synced").await;
    b.synced("other", "True", "Synced").await;
    fleet.has(&[5, 6]).await;
    let kept = fleet.world.target.uids().await;
    assert_eq!(kept.intersection(&made).count(), 1, "{made:?} {kept:?}");

    // Only who asks for it has the objects deleted.
    fleet.serve("Delete");
    engine.says(&["onExit changed"]).await;
    fleet.becomes("b", "silver").await;
    fleet.has(&[5]).await;
    b.synced("other", "False", "NotSelected").await;
    b.let_go("other").await;
    engine.is_running().expect("it runs");
}
