//! From an empty cluster and back, by the commands of the docs: install, a first mapping, fail-over, upgrade, uninstall.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::chart::process;
use super::uninstall::nothing_is_left;
use crate::case::{Case, Stage, case};
use crate::credentials::{ADMIN, NOBODY, token};
use crate::engine::{Engine, Launch};
use crate::eventually::eventually;
use crate::kubectl::{Kubectl, repository};
use crate::servers;
use crate::world::World;

pub fn cases() -> Vec<Case> {
    vec![case!(installed_failed_over_upgraded_and_removed_by_the_commands_of_the_docs).on_kcp().with(servers::helm)]
}

const INSTALL: &str = include_str!("../../../docs/install.md");
const OPERATIONS: &str = include_str!("../../../docs/operations.md");
const RUNBOOK: &str = include_str!("../../../docs/runbook.md");
const UPGRADE: &str = include_str!("../../../docs/upgrade.md");

/// A state store as commit 418a3cb wrote it: the release before.
const FORMER: &str = include_str!("../fixtures/former-state-store.json");

/// What of it is of the mapping and the moment.
const OF_A_RUN: [&str; 5] = ["document", "kinds", "mapping", "recorded", "source"];

/// What the kubelet runs in a Pod of the Deployment.
const IN_POD: &str = "kubectl -n sync-engine exec deploy/sync-engine -- /sync-engine ";

async fn installed_failed_over_upgraded_and_removed_by_the_commands_of_the_docs(stage: &Stage) {
    let (server, world) = stage.widgets_on_own_target().await;
    let _controllers = stage.fleet.controllers(&server);
    let admin = stage.keep("target.kubeconfig", &server.kubeconfig(ADMIN));
    stage.keep("kcp.kubeconfig", &fs::read_to_string(&world.source_kubeconfig).expect("the kubeconfig"));
    symlink(repository().join("deploy"), stage.folder.join("deploy")).expect("the clone");
    let kubectl = stage.kubectl("admin", &server.kubeconfig(ADMIN));
    let place = Place { world: &world, kubectl: &kubectl, admin };

    let install = commands(INSTALL, "## In a cluster");
    place.follow(&install);
    let (launch, replicas) = place.deployment(&server.kubeconfig(NOBODY));
    assert_eq!(replicas, 2);
    let (mut first, mut second) = (launch.ready().await, launch.start());
    world.made("it", json!({"size": 1})).await;
    world.alpha.synced("it", "True", "Synced").await;
    second.becomes_ready().await;
    is_in_sync(&install, &first).await;

    // The leader is killed.
    let (_, lease) = RUNBOOK.split_once("`kubectl get lease").expect("the runbook says who leads");
    let lease = format!("kubectl get lease{} -o json", lease.split_once('`').expect("a command").0);
    let holder = || {
        let found: Value = serde_json::from_str(&place.run(&lease)).expect("JSON");
        found["items"][0]["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    };
    let former = holder();
    assert_eq!(first.metric("sync_engine_leader").await, 1.0, "the first one leads");
    first.kill();
    world.target.made(&world.beta, "it", json!({"size": 2})).await;
    world.beta.synced("it", "True", "Synced").await;
    assert_ne!(holder(), former);
    assert!(second.terminate().await.success());

    // What the release before left. The new one reads it, notes where the sources are, and writes nothing else.
    let path = format!("/api/v1/namespaces/sync-engine/configmaps/main.{}", world.name);
    let stored = world.target.rest.get(&path).await.expect("a state store");
    place.write_former(&stored);
    let stored = world.target.rest.get(&path).await.expect("a state store");
    let objects = world.target.copies().await;
    let sources = [world.alpha.object("it").await, world.beta.object("it").await];
    let upgrade = commands(UPGRADE, "## Upgrade");
    place.follow(&upgrade);
    let (launch, _) = place.deployment(&server.kubeconfig(NOBODY));
    let mut upgraded = launch.ready().await;
    upgraded.says(&["caught up"]).await;
    is_in_sync(&upgrade, &upgraded).await;
    let mut now = world.target.rest.get(&path).await.expect("a state store");
    let clusters = now["data"].as_object_mut().and_then(|data| data.remove("clusters"));
    assert!(clusters.is_some(), "{now}");
    assert_eq!(now["data"], stored["data"], "all else stays as it is");
    assert_eq!(world.target.copies().await, objects);
    assert_eq!([world.alpha.object("it").await, world.beta.object("it").await], sources);

    let (stop, rest) = commands(OPERATIONS, "## Uninstall")
        .split_first()
        .map(|(one, rest)| (one.clone(), rest.to_vec()))
        .expect("commands");
    assert!(stop.contains("--replicas=0"), "{stop}");
    place.run(&stop);
    assert!(upgraded.terminate().await.success());
    let said: String = rest.iter().map(|line| place.run(line)).collect();
    assert!(said.contains("left: nothing"), "{said}");
    nothing_is_left(&world).await;
}

/// Where the commands are typed.
struct Place<'w> {
    world: &'w World<'w>,
    kubectl: &'w Kubectl,
    admin: PathBuf,
}

impl Place<'_> {
    /// Runs the commands that are not for a Pod. An image is nobody's here: what it holds is a process of this machine.
    fn follow(&self, commands: &[String]) {
        let here = commands.iter().filter(|line| !line.starts_with("docker ") && !line.starts_with(IN_POD));
        let said: Vec<String> = here.map(|line| self.run(line)).collect();
        assert!(said.len() > 3, "{commands:?}");
    }

    /// Runs a command that has to succeed, as a shell does.
    fn run(&self, command: &str) -> String {
        let stage = self.world.stage;
        stage.shell(&stage.folder, &[("KUBECONFIG", &self.admin), ("HOME", &stage.folder)], command)
    }

    /// A replica as the kubelet starts it, with the token of its ServiceAccount; and how many there are to be.
    fn deployment(&self, kubeconfig_of_nobody: &str) -> (Launch, u64) {
        let text = self.run("kubectl -n sync-engine get deployment sync-engine -o json");
        let deployment: Value = serde_json::from_str(&text).expect("JSON");
        let account = self.kubectl.run(&["create", "token", "sync-engine", "--namespace", "sync-engine"]);
        let kubeconfig = kubeconfig_of_nobody.replace(&token(NOBODY), account.trim());
        let target = self.world.stage.keep("account.kubeconfig", &kubeconfig);
        let replicas = deployment["spec"]["replicas"].as_u64().expect("a number");
        (process(self.world, &[deployment], &target), replicas)
    }

    /// Puts what the release before would have written in place of a state store.
    fn write_former(&self, stored: &Value) {
        let mut former: Value = serde_json::from_str(FORMER).expect("JSON");
        for field in OF_A_RUN {
            former["data"][field] = stored["data"][field].clone();
        }
        // A hash of the document, of which it knows nothing.
        former["data"].as_object_mut().expect("fields").remove("inForce");
        let mut replaced = stored.clone();
        replaced["data"] = former["data"].take();
        replaced["metadata"]["labels"] = former["metadata"]["labels"].take();
        replaced["metadata"]["managedFields"] = Value::Null;
        let file = self.world.stage.keep("former.json", &replaced.to_string());
        self.run(&format!("kubectl replace -f {}", file.display()));
    }
}

/// The last command is `status`, in a Pod: it ends well once everything is in sync.
async fn is_in_sync(commands: &[String], engine: &Engine) {
    let verb = commands.last().and_then(|line| line.strip_prefix(IN_POD)).expect("a verb");
    let verb: Vec<&str> = verb.split(' ').collect();
    eventually("everything is in sync", async || engine.verb_succeeds(&verb)).await;
}

/// The commands of the first block below a heading, each on one line.
fn commands(page: &str, heading: &str) -> Vec<String> {
    let (_, rest) = page.split_once(&format!("{heading}\n")).expect("the heading");
    let (_, block) = rest.split_once("```sh\n").expect("a block");
    let (block, _) = block.split_once("```").expect("the end of the block");
    block.replace("\\\n", " ").lines().map(str::to_owned).collect()
}
