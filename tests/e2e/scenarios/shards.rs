//! Several replicas of one engine, each of which writes for its share of the source clusters.

use std::collections::BTreeMap;

use serde_json::json;

use super::replicas::{REPLICAS, electing};
use super::retention::with_settings;
use crate::audit::Request;
use crate::case::{Case, Stage, case};
use crate::engine::{Engine, Launch};
use crate::eventually::eventually;
use crate::target::namespace;
use crate::world::{WIDGETS, World};

pub fn cases() -> Vec<Case> {
    vec![
        case!(another_replica_serves_the_share_of_a_killed_one).on_kcp(),
        case!(held_deletions_are_approved_whichever_replica_counts_them).in_memory_alone(),
        case!(a_replica_with_other_mappings_writes_nothing_and_says_so).in_memory_alone(),
        case!(a_standby_with_other_mappings_says_so).in_memory_alone(),
    ]
}

/// Replicas of one engine on one world.
struct Group<'w> {
    world: &'w World<'w>,
    engines: BTreeMap<&'static str, Engine>,
    /// What the clusters of the tenants are called in requests: that of the workspace, and that of the target's namespace.
    places: [[String; 2]; 2],
}

fn sharing(launch: Launch, replica: &str) -> Launch {
    electing(launch, replica).flag("--leader-elect", "sharded")
}

impl<'w> Group<'w> {
    /// Starts three, each of which is ready, and has a source of each tenant synced.
    async fn start(world: &'w World<'w>) -> Self {
        Self::launch(world, [world.launch(), world.launch(), world.launch()]).await
    }

    async fn launch(world: &'w World<'w>, launches: [Launch; 3]) -> Self {
        let mut engines = BTreeMap::new();
        for (name, launch) in REPLICAS.into_iter().zip(launches) {
            engines.insert(name, sharing(launch, name).ready().await);
        }
        let mut group = Self { world, engines, places: Default::default() };
        for (index, tenant) in [&world.alpha, &world.beta].into_iter().enumerate() {
            tenant.create_synced("a", json!({"size": 1})).await;
            let copy = world.target.copy(tenant, "a").await;
            let cluster = tenant.cluster.clone().expect("a tenant of kcp");
            group.places[index] = [format!("/clusters/{cluster}/"), format!("/namespaces/{}/", namespace(&copy))];
        }
        group
    }

    fn engine(&mut self, name: &str) -> &mut Engine {
        self.engines.get_mut(name).expect("a replica of the group")
    }

    /// The replicas that wrote for alpha and for beta, each reign once: what both servers noted, by the User-Agent.
    async fn reigns(&self) -> [Vec<String>; 2] {
        let writes = self.world.settled().await;
        self.places.each_ref().map(|places| {
            let of = writes.iter().filter(|write| places.iter().any(|place| write.uri.contains(place)));
            let mut reigns: Vec<String> = of.map(|write| write.replica().expect("a name").to_owned()).collect();
            reigns.dedup();
            reigns
        })
    }

    /// Who serves alpha. Each cluster has had one replica so far.
    async fn owner(&self) -> &'static str {
        let reigns = self.reigns().await;
        assert!(reigns.iter().all(|reigns| reigns.len() == 1), "{reigns:?}");
        REPLICAS.into_iter().find(|name| *name == reigns[0][0]).expect("a replica of the group")
    }

    /// How many clusters all replicas together serve.
    async fn served(&self) -> f64 {
        let mut served = 0.0;
        for engine in self.engines.values() {
            served += engine.metric("sync_engine_clusters_owned").await;
        }
        served
    }
}

/// Both tenants have a source of this name synced.
async fn sync(world: &World<'_>, name: &str) {
    for tenant in [&world.alpha, &world.beta] {
        tenant.create_synced(name, json!({"size": 1})).await;
    }
}

async fn another_replica_serves_the_share_of_a_killed_one(stage: &Stage) {
    let world = stage.widgets().await;
    let mut group = Group::start(&world).await;
    eventually("each cluster has one replica", async || {
        let served = group.served().await;
        (served == 2.0).then_some(()).ok_or_else(|| served.to_string())
    })
    .await;
    let owner = group.owner().await;
    group.engine(owner).kill();
    // Nobody tells the others that it is gone.
    sync(&world, "b").await;
    let [alpha, beta] = group.reigns().await;
    assert!(alpha.len() == 2 && alpha[0] == owner, "{alpha:?}");
    assert!(beta.len() == 1 || beta[0] == owner, "a share moves only if it has to: {beta:?}");
}

async fn held_deletions_are_approved_whichever_replica_counts_them(stage: &Stage) {
    let world = stage.widgets().await;
    world.mappings.write("widgets.yaml", &with_settings());
    let group = Group::start(&world).await;
    let left = async || {
        let mut left = 0;
        for [_, namespace] in &group.places {
            left += world.target.labelled(&format!("/api/v1{namespace}configmaps")).await.len();
        }
        left
    };
    let stands = async |number| {
        let now = left().await;
        (now == number).then_some(()).ok_or_else(|| format!("{now} settings"))
    };
    eventually("both tenants have settings", async || stands(2).await).await;
    world.mappings.write("widgets.yaml", WIDGETS);
    for tenant in [&world.alpha, &world.beta] {
        tenant.synced("a", "False", "Held").await;
    }
    // Whichever replica counts them finds the approval at home.
    let engine = group.engines.values().next().expect("a replica");
    engine.approve(&world.name).await;
    eventually("the settings are deleted", async || stands(0).await).await;
}

async fn a_replica_with_other_mappings_writes_nothing_and_says_so(stage: &Stage) {
    disagree(stage, "sharded").await;
}

async fn a_standby_with_other_mappings_says_so(stage: &Stage) {
    disagree(stage, "lease").await;
}

/// One of two replicas gets another document, and later the other one too.
async fn disagree(stage: &Stage, how: &str) {
    let world = stage.widgets().await;
    let other = world.second_mappings("other");
    other.write("widgets.yaml", WIDGETS);
    let launches = [world.launch(), world.launch().flag("--mappings", other.folder().display())];
    let mut engines = Vec::new();
    for (name, launch) in REPLICAS.into_iter().zip(launches) {
        engines.push(electing(launch, name).flag("--leader-elect", how).ready().await);
    }
    sync(&world, "a").await;
    // The document of the one that keeps the state store counts.
    let labelled = WIDGETS.replace("kind: Widget\n", "kind: Widget\n        metadata: {labels: {edition: second}}\n");
    other.write("widgets.yaml", &labelled);
    let differs = eventually("one of them has another document than the state store", async || {
        for (index, engine) in engines.iter().enumerate() {
            let answer = engine.ask("/readyz?verbose").await?;
            let text = answer.body.as_str().unwrap_or_default();
            if answer.is_success() && text.contains("is not the one that the state store") {
                return Ok(index);
            }
        }
        Err("neither says so".to_owned())
    })
    .await;
    engines[differs].says(&["this replica writes nothing for it"]).await;
    let before = world.settled().await.len();
    for tenant in [&world.alpha, &world.beta] {
        tenant.patch("a", json!({"spec": {"size": 2}})).await;
    }
    let writers: Vec<_> = world.settled().await.split_off(before);
    let is_by_it = |write: &&Request| write.replica() == Some(REPLICAS[differs]);
    assert_eq!(writers.iter().filter(is_by_it).count(), 0, "{writers:?}");
    world.mappings.write("widgets.yaml", &labelled);
    for tenant in [&world.alpha, &world.beta] {
        let expected = json!({"metadata": {"labels": {"edition": "second"}}, "spec": {"size": 2}});
        world.target.has(tenant, "a", expected).await;
    }
    engines[differs].becomes_ready().await;
}
