//! Workspaces that kcp holds up until the engine has bootstrapped them, or cleaned them up.

use std::time::Duration;

use serde_json::{Value, json};

use crate::case::{Case, Stage, case};
use crate::eventually::{eventually, throughout};
use crate::kcp::Workspace;
use crate::rest::{Patch, Rest};
use crate::world::World;

const BOOTSTRAP: &str = include_str!("../fixtures/bootstrap.yaml");
const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const NAMESPACES: &str = "/api/v1/namespaces";

pub fn cases() -> Vec<Case> {
    let cases = [
        case!(a_new_workspace_is_ready_once_it_is_bootstrapped_by_whoever_may),
        case!(what_is_elsewhere_for_a_workspace_goes_with_it),
    ];
    cases.into_iter().map(Case::on_kcp).collect()
}

/// A WorkspaceType with an initializer and a terminator, whose engine may do what it needs and no more.
struct Types<'w> {
    world: &'w World<'w>,
    /// The workspace of the type.
    home: &'w Workspace,
    root: Rest,
}

impl<'w> Types<'w> {
    async fn publish(world: &'w World<'w>, verbs: &[&str]) -> Self {
        let home = world.provider();
        let rules = json!([{
            "apiGroups": [""], "resources": ["namespaces"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }]);
        let universal = json!([{"name": "universal", "path": "root"}]);
        let document = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": "team"},
            "spec": {
                "initializer": true, "terminator": true, "extend": {"with": universal},
                "initializerPermissions": rules, "terminatorPermissions": rules,
            },
        });
        home.rest.create("/apis/tenancy.kcp.io/v1alpha1/workspacetypes", &document).await;
        let types = Self { world, home, root: world.root().await };
        types.allow(verbs).await;
        world.mappings.write("bootstrap.yaml", &types.bootstrap());
        types
    }

    /// The mapping for its workspaces.
    fn bootstrap(&self) -> String {
        BOOTSTRAP.replace("<type>", &format!("{}:team", self.home.path))
    }

    /// What `sync-engine rbac` prints for the workspace of the type.
    async fn allow(&self, verbs: &[&str]) {
        let user = &self.world.stage.user;
        let verbs = [&["list", "watch"], verbs].concat();
        let rules = json!([
            {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"], "resourceNames": ["team"], "verbs": verbs},
            {"nonResourceURLs": ["/"], "verbs": ["access"]},
        ]);
        self.home.grant(user, &format!("types-{}-{user}", verbs.join("-")), &rules).await;
    }

    /// Orders a workspace of the type; gives it once it is being initialized.
    async fn order(&self, name: &str) -> Team<'_> {
        let name = format!("{}-{name}", self.world.stage.id);
        let document = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
            "spec": {"type": {"name": "team", "path": self.home.path}},
        });
        // kcp takes a moment to let a new type be used.
        eventually(&format!("{name} can be ordered"), async || {
            let answer = self.root.try_create(WORKSPACES, &document).await;
            answer.is_success().then_some(()).ok_or_else(|| answer.body.to_string())
        })
        .await;
        let team = Team { types: self, rest: self.root.below(&format!("/clusters/root:{name}")), name };
        team.begins().await;
        team
    }
}

/// A workspace of the type.
struct Team<'t> {
    types: &'t Types<'t>,
    name: String,
    /// As its administrator sees it.
    rest: Rest,
}

impl Team<'_> {
    async fn object(&self) -> Option<Value> {
        self.types.root.get(&format!("{WORKSPACES}/{}", self.name)).await
    }

    /// Waits until kcp initializes the workspace. An engine may be done with it already.
    async fn begins(&self) {
        eventually(&format!("{} begins", self.name), async || {
            let found = self.object().await.ok_or("it is missing")?;
            let is_so = ["Initializing", "Ready"].contains(&found["status"]["phase"].as_str().unwrap_or_default());
            is_so.then_some(()).ok_or_else(|| found["status"].to_string())
        })
        .await;
    }

    /// Waits until kcp says that the workspace is in this phase, and waits for nobody else.
    async fn phase(&self, phase: &str) {
        eventually(&format!("{} is {phase}", self.name), async || {
            let found = self.object().await.ok_or("it is missing")?;
            let entries = found["status"]["initializers"].as_array().map_or(0, Vec::len);
            let is_so = found["status"]["phase"] == phase && entries == usize::from(phase == "Initializing");
            is_so.then_some(()).ok_or_else(|| found["status"].to_string())
        })
        .await;
    }

    async fn stays(&self, phase: &str) {
        throughout(Duration::from_secs(3), &format!("{} stays {phase}", self.name), async || {
            let found = self.object().await.ok_or("it is gone")?;
            (found["status"]["phase"] == phase).then_some(()).ok_or_else(|| found["status"].to_string())
        })
        .await;
    }

    async fn namespace(&self, name: &str) -> Value {
        self.rest.appears(&format!("{NAMESPACES}/{name}")).await
    }

    async fn approve(&self) {
        let label = json!({"metadata": {"labels": {"approved": "yes"}}});
        self.rest.patch(Patch::Merge, &format!("{NAMESPACES}/space"), &label).await;
    }

    async fn logical_cluster(&self) -> Value {
        self.rest.get("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").await.expect("every workspace has one")
    }
}

async fn a_new_workspace_is_ready_once_it_is_bootstrapped_by_whoever_may(stage: &Stage) {
    let world = stage.unmapped(true).await;
    let types = Types::publish(&world, &["terminate"]).await;
    let mut engine = world.launch().start();
    let component = format!("ClusterProvider {}-teams", world.name);
    engine.becomes_unready(&component, "have the verb `initialize` on workspacetypes `team`").await;
    let one = types.order("one").await;
    one.stays("Initializing").await;
    assert_eq!(one.rest.get(&format!("{NAMESPACES}/space")).await, None, "without the right, nothing is touched");

    types.allow(&["initialize"]).await;
    engine.becomes_ready().await;
    let two = types.order("two").await;
    for team in [&one, &two] {
        let made = team.namespace("space").await;
        assert_eq!(made["metadata"]["annotations"]["made-for"], format!("root:{}", team.name));
        team.stays("Initializing").await;
        let tools = team.rest.get(&format!("{NAMESPACES}/tools")).await;
        assert_eq!(tools, None, "it waits for the other");
    }

    // The engine stops in the middle, and another goes on where it was.
    drop(engine);
    one.approve().await;
    one.stays("Initializing").await;
    let mut engine = world.engine().await;
    one.phase("Ready").await;
    engine.says(&["remove initializer", "workspace="]).await;
    one.namespace("tools").await;
    two.stays("Initializing").await;
    two.approve().await;
    two.phase("Ready").await;

    // Nothing of the engine is on the LogicalCluster, and what it made is its owner's now.
    let left = one.logical_cluster().await;
    for part in ["annotations", "labels", "finalizers"] {
        assert!(!left["metadata"][part].to_string().contains("sync-engine"), "{left}");
    }
    assert!(!left["status"].to_string().contains("Synced"), "{left}");
    world.settled().await;
    one.rest.delete(&format!("{NAMESPACES}/tools")).await;
    world.no_write(Duration::from_secs(3)).await;
    assert_eq!(engine.ask("/readyz").await.expect("an answer").body, "ready\n");
    engine.terminate().await;
}

/// One ConfigMap on the target for each workspace.
const ELSEWHERE: &str = "
  target: {cluster: target}
  objects:
    - id: account
      template: {apiVersion: v1, kind: ConfigMap, data: {workspace: \"{{ workspace.path }}\"}}
";

async fn what_is_elsewhere_for_a_workspace_goes_with_it(stage: &Stage) {
    let world = stage.unmapped(true).await;
    let types = Types::publish(&world, &["initialize", "terminate"]).await;
    let text = types.bootstrap();
    let head = text.split("\n  target:").next().expect("what comes before the target");
    world.mappings.write("bootstrap.yaml", &format!("{head}{ELSEWHERE}"));
    let account = async |team: &Team<'_>| {
        let of_engines = "/api/v1/configmaps?labelSelector=app.kubernetes.io/managed-by%3Dsync-engine";
        let path = format!("root:{}", team.name);
        world.target.rest.list(of_engines).await.into_iter().find(|one| one["data"]["workspace"] == path)
    };
    let engine = world.engine().await;
    let (team, other) = (types.order("leaving").await, types.order("staying").await);
    for team in [&team, &other] {
        team.phase("Ready").await;
        assert!(account(team).await.is_some(), "it is ready once that is there");
    }
    engine.counts_orphans(0).await;

    // Nobody lets the workspace go while the engine is down, and an engine that starts takes workspaces in use for no orphans.
    drop(engine);
    types.root.delete(&format!("{WORKSPACES}/{}", team.name)).await;
    throughout(Duration::from_secs(3), "the workspace and its account stay", async || {
        let found = team.object().await.ok_or("the workspace is gone")?;
        let has_account = account(&team).await.is_some();
        has_account.then_some(()).ok_or_else(|| found["status"].to_string())
    })
    .await;
    // Nor does an engine that is given another target by mistake.
    let wrong = stage.fleet.own_cluster(&stage.id).await;
    let mut lost = world.launch_at(&wrong.kubeconfig(&stage.user)).start();
    lost.says(&["holds no state store", "1 workspace is being deleted"]).await;
    drop(lost);
    let held = team.object().await.expect("the workspace stays");
    assert_eq!(held["status"]["terminators"].as_array().map(Vec::len), Some(1), "{held}");
    let mut engine = world.engine().await;
    eventually("the workspace is gone", async || {
        team.object().await.map_or(Ok(()), |found| Err(found["status"].to_string()))
    })
    .await;
    engine.says(&["remove terminator", "workspace="]).await;
    assert_eq!(account(&team).await, None, "it goes first");
    world.settled().await;
    assert!(account(&other).await.is_some(), "the other workspace is in use");
    engine.counts_orphans(0).await;
    assert_eq!(engine.ask("/readyz").await.expect("an answer").body, "ready\n");
}
