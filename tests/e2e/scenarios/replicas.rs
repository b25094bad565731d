//! Several replicas of one engine: one writes, and another takes over.

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::credentials::ADMIN;
use crate::engine::Engine;
use crate::eventually::eventually;
use crate::rest::{Patch, Rest};
use crate::target::namespace;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![case!(another_replica_takes_over_and_a_policy_refuses_what_the_killed_leader_sends_late).on_kube()]
}

const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const EPOCH: &str = "sync-engine.dev/epoch";

const REPLICAS: [&str; 2] = ["one", "two"];

/// Replicas of one engine on one world.
struct Group<'w> {
    world: &'w World<'w>,
    engines: Vec<(&'static str, Engine)>,
    target: Rest,
    /// Where the Lease is.
    path: String,
}

impl<'w> Group<'w> {
    /// Starts both, and waits until each says that it is ready: one leads, the other stands by.
    async fn start(world: &'w World<'w>) -> Self {
        let target = world.target.rest.clone();
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/notes-{}/leases/sync-engine-main", world.stage.id);
        let mut group = Self { world, engines: Vec::new(), target, path };
        for name in REPLICAS {
            // The terms of the Lease are the defaults: a slow machine, too, renews it in time.
            let launch = world.launch().flag("--leader-elect", "lease").flag("--replica", name);
            group.engines.push((name, launch.ready().await));
            group.led_by_other_than("").await;
        }
        group
    }

    async fn lease(&self) -> Value {
        self.target.get(&self.path).await.unwrap_or_default()
    }

    /// Waits until another replica holds the Lease; says which.
    async fn led_by_other_than(&self, former: &str) -> String {
        eventually("another replica leads", async || {
            let lease = self.lease().await;
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            let is_another = !holder.is_empty() && holder != former;
            is_another.then(|| holder.to_owned()).ok_or_else(|| lease.to_string())
        })
        .await
    }

    fn engine(&mut self, name: &str) -> &mut Engine {
        let found = self.engines.iter_mut().find(|(replica, _)| *replica == name);
        &mut found.expect("a replica of the group").1
    }

    /// A source is created, and synced by whoever leads.
    async fn syncs(&self, name: &str) {
        self.world.alpha.create_synced(name, json!({"size": 1})).await;
    }

    /// The replicas that wrote objects, each reign once: what both servers noted, by the User-Agent.
    async fn reigns(&self) -> Vec<String> {
        let writes = self.world.settled().await;
        let mut reigns: Vec<String> =
            writes.iter().map(|write| write.replica().expect("a replica's name").to_owned()).collect();
        reigns.dedup();
        reigns
    }
}

/// The policy of the page on operations, for the user and the Lease of a case.
fn policy(stage: &Stage) -> String {
    let (_, rest) = OPERATIONS.split_once("<!-- policy -->\n```yaml\n").expect("the page has the policy");
    let (text, _) = rest.split_once("```").expect("the policy ends");
    text.replace("system:serviceaccount:sync-engine:sync-engine", &stage.user)
        .replace("namespace: sync-engine,", &format!("namespace: notes-{},", stage.id))
        .replace("sync-engine-epoch", &format!("epoch-{}", stage.id))
}

async fn another_replica_takes_over_and_a_policy_refuses_what_the_killed_leader_sends_late(stage: &Stage) {
    // While the Lease is missing, the policy holds up whatever it selects: the other cases have another cluster.
    let (server, world) = stage.widgets_on_own_target().await;
    let file = stage.keep("policy.yaml", &policy(stage)).display().to_string();
    stage.kubectl("admin", &server.kubeconfig(ADMIN)).run(&["apply", "--validate=strict", "-f", &file]);
    let config_map = |labels: Value| json!({"metadata": {"name": "of-others", "labels": labels}});
    let config_maps = "/api/v1/namespaces/default/configmaps";
    eventually("the policy refuses what looks like the engine's while there is no Lease", async || {
        let owned = config_map(json!({"sync-engine.dev/owner": "somebody"}));
        let answer = world.target.rest.try_create(&format!("{config_maps}?dryRun=All"), &owned).await;
        (answer.status == 422).then_some(()).ok_or_else(|| format!("{answer:?}"))
    })
    .await;
    world.target.rest.create(config_maps, &config_map(json!({}))).await;

    let mut group = Group::start(&world).await;
    group.syncs("a").await;
    let first = group.led_by_other_than("").await;
    group.engine(&first).kill();
    // Nobody tells the other one that it is gone.
    group.syncs("b").await;
    let second = group.led_by_other_than(&first).await;
    assert_eq!(group.engine(&second).metric("sync_engine_leader").await, 1.0);
    assert_eq!(group.reigns().await, [first, second], "one writes at a time");
    let unwritten = world.target.copy(&world.alpha, "a").await;
    assert_eq!(unwritten["metadata"]["annotations"][EPOCH], "0", "what is in sync is not written for the epoch");
    let copy = world.target.follows(&world.alpha, "a", json!({"size": 2})).await;
    assert_eq!(copy["metadata"]["annotations"][EPOCH], "1");

    // What the first leader might have sent before it was killed.
    let engine = world.as_engine().await;
    let late = |epoch: &str| json!({"metadata": {"annotations": {EPOCH: epoch}}, "spec": {"size": 9}});
    eventually("the policy is in force", async || {
        let path = format!("{}?dryRun=All", world.target.path(&copy));
        let answer = engine.try_patch(Patch::Merge, &path, &late("0")).await;
        let is_refused = answer.status == 422 && answer.body.to_string().contains("earlier leader");
        is_refused.then_some(()).ok_or_else(|| format!("{answer:?}"))
    })
    .await;
    for (name, epoch) in [("a", "0"), ("b", "0")] {
        let copy = world.target.copy(&world.alpha, name).await;
        let answer = engine.try_patch(Patch::Merge, &world.target.path(&copy), &late(epoch)).await;
        assert_eq!(answer.status, 422, "{answer:?}");
        assert_eq!(world.target.again(&copy).await["spec"], copy["spec"]);
    }
    let copy = world.target.copy(&world.alpha, "b").await;
    let namespace = namespace(&copy);
    let collection = world.api.collection(&namespace);
    let create = json!({
        "apiVersion": copy["apiVersion"], "kind": copy["kind"],
        "metadata": {
            "name": "late", "namespace": namespace, "labels": copy["metadata"]["labels"], "annotations": {EPOCH: "0"},
        },
        "spec": {"size": 9},
    });
    assert_eq!(engine.try_create(&collection, &create).await.status, 422);
    group.target.delete(&group.path).await;
    group.syncs("c").await;
    world.alpha.remove("a").await;
}
