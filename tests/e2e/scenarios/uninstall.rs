//! What is left once an engine was uninstalled: nothing.

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::target::namespace;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![case!(an_uninstalled_engine_leaves_nothing_on_either_cluster).on_both()]
}

async fn an_uninstalled_engine_leaves_nothing_on_either_cluster(stage: &Stage) {
    // Of its own: labels of namespaces go by the id of the engine, which other cases have too.
    let (_server, world) = stage.widgets_on_own_target().await;
    let mut engine = world.launch().flag("--leader-elect", "lease").ready().await;
    world.alpha.create_synced("it", json!({"size": 1})).await;
    let made = world.target.copy(&world.alpha, "it").await;

    let refused = engine.verb(&["uninstall", "--delete", "--yes"]);
    assert!(refused.contains("refused: an engine with the id main answers at"), "{refused}");
    assert_eq!(world.alpha.holds("it").await.len(), 1);

    assert!(engine.terminate().await.success());
    let planned = engine.verb(&["uninstall", "--delete"]);
    let plan = format!("mapping {}: delete 1 object, release 1 source (target)\n", world.name);
    assert_eq!(planned, format!("{plan}nothing was written; add --yes to write\n"));
    assert_eq!(world.target.again(&made).await, made);
    assert_eq!(engine.verb(&["uninstall", "--delete", "--yes"]), format!("{plan}left: nothing\n"));

    let namespace = format!("/api/v1/namespaces/{}", namespace(&made));
    assert!(world.target.rest.get(&namespace).await.is_some(), "a namespace is never deleted");
    nothing_is_left(&world).await;
    let status = world.alpha.object("it").await["status"].clone();
    assert!(status["conditions"].is_null() && status["observedGeneration"].is_null(), "{status}");
    let again = engine.verb(&["uninstall", "--delete", "--yes"]);
    assert!(again.starts_with("left: nothing\nthere is no state store of engine main"), "{again}");
}

/// Kinds of the engine and of the chart.
const KINDS: [&str; 13] = [
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/api/v1/services",
    "/api/v1/namespaces",
    "/apis/apps/v1/deployments",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
];

/// Of the engine or of its chart, on the target and on the sources `it`.
pub async fn nothing_is_left(world: &World<'_>) {
    let mut all = Vec::new();
    for tenant in [&world.alpha, &world.beta] {
        all.extend(tenant.get("it").await);
    }
    for collection in KINDS.into_iter().chain([&*world.api.everywhere()]) {
        all.extend(world.target.rest.list(collection).await);
    }
    let of_engine = all.into_iter().filter_map(|mut object| {
        // Who wrote a field once is history.
        object["metadata"]["managedFields"] = Value::Null;
        let text = object.to_string();
        text.contains("sync-engine").then_some(text)
    });
    assert_eq!(of_engine.collect::<Vec<_>>(), Vec::<String>::new());
}
