//! The main job with the files that the repository ships, as the README tells it: what `sync-engine rbac` prints is enough for
//! it, on servers that check it.

use serde_json::json;

use super::mongodb::{
    CONNECTION, DATABASE, Story, connection, operator_finds_its_rights, own_target, running, secret, secrets,
};
use crate::case::{Case, Stage, case};
use crate::credentials::{ADMIN, NOBODY};
use crate::engine::{Launch, output, printed};
use crate::fleet::On;
use crate::kube::ApiServer;
use crate::kubectl::{Kubectl, repository};
use crate::target::{Target, namespace};
use crate::tenant::contains;

pub fn cases() -> Vec<Case> {
    vec![case!(databases_of_two_consumers_run_apart_by_what_rbac_prints_and_not_by_less).on_both()]
}

/// The shipped mapping, whose Role and RoleBinding nobody may create who does not hold what they grant.
async fn databases_of_two_consumers_run_apart_by_what_rbac_prints_and_not_by_less(stage: &Stage) {
    let scene = Scene::set(stage).await;
    let (acme, globex, target) = (&scene.story.acme, &scene.story.globex, &scene.target);
    let before = scene.doctor();
    assert!(before.contains("SE0806") && before.contains(&format!("rbac --for {}", scene.side)), "{before}");
    scene.grant(scene.side, &scene.rbac(scene.side));
    let all = scene.rbac("target");
    let less = all.replace("  - create\n  - patch\n", "  - patch\n");
    assert_ne!(less, all, "the documents are written as expected");
    scene.grant("target", &less);
    let mut engine = scene.launch.start();
    // An apply that makes something is `patch` and `create`.
    engine.says(&["forbidden", "cannot create resource"]).await;
    assert_eq!(target.find(acme, DATABASE).await, None);
    engine.kill();

    scene.grant("target", &all);
    let after = scene.doctor();
    // In kcp, the claims are looked at as well.
    let checks = if stage.on == On::Kube { 6 } else { 7 };
    assert!(after.contains(&format!("nothing wrong; {checks} of {checks} checks are fine")), "{after}");
    let mut engine = scene.launch.ready().await;

    let databases = [target.copy(acme, DATABASE).await, target.copy(globex, DATABASE).await];
    assert_ne!(namespace(&databases[0]), namespace(&databases[1]));
    assert_eq!(databases[0]["spec"], acme.object(DATABASE).await["spec"], "the whole spec arrives");
    for database in &databases {
        operator_finds_its_rights(target, &namespace(database)).await;
    }
    acme.status(DATABASE, json!({"phase": "Pending"})).await;

    target.report(&databases[0], running("6.0.5")).await;
    acme.status(DATABASE, json!({"phase": "Running", "version": "6.0.5"})).await;
    acme.condition(DATABASE, "Ready", json!({"status": "True"})).await;
    let data = json!({"username": "YXBw", "password": "Y2hhbmdlLW1l", "own": "eA=="});
    target.rest.create(&secrets(&namespace(&databases[0])), &secret(CONNECTION, &data)).await;
    let data = connection(acme).await["data"].clone();
    assert_eq!(data, json!({"username": "YXBw", "password": "Y2hhbmdlLW1l"}));
    let other = globex.object(DATABASE).await["status"].clone();
    assert!(contains(&other, &json!({"phase": "Pending"})) && other["version"].is_null(), "{other}");

    let as_acme = &scene.story.as_acme;
    as_acme.run(&["patch", "mongodbcommunity", DATABASE, "--type=merge", "-p", r#"{"spec":{"members":5}}"#]);
    target.has(acme, DATABASE, json!({"spec": {"members": 5}})).await;

    as_acme.run(&["delete", "mongodbcommunity", DATABASE, "--timeout=60s"]);
    assert_eq!(target.find(acme, DATABASE).await, None, "kubectl returns when the database is gone");
    let accounts = target.labelled("/api/v1/serviceaccounts").await;
    assert_eq!(accounts.len(), 2, "the other consumer's accounts stay: {accounts:?}");
    assert!(target.find(globex, DATABASE).await.is_some());
    let passwords = target.labelled("/api/v1/secrets").await;
    assert_eq!(passwords.len(), 1, "the other consumer's password stays: {passwords:?}");
    let refused: Vec<String> = engine.log().into_iter().filter(|line| line.contains("forbidden")).collect();
    assert!(refused.is_empty(), "the engine was refused something: {refused:#?}");
    assert!(engine.terminate().await.success());
}

/// Consumers who have ordered, and an engine whose user nobody gave any right.
struct Scene<'s> {
    stage: &'s Stage,
    story: Story,
    target: Target,
    on_target: Kubectl,
    launch: Launch,
    /// The side of `rbac` that the consumers are on.
    side: &'static str,
    _server: ApiServer,
}

impl<'s> Scene<'s> {
    async fn set(stage: &'s Stage) -> Self {
        let (server, target) = own_target(stage).await;
        let story = Story::begin(stage, "", NOBODY).await;
        let kubeconfig = stage.keep("target.kubeconfig", &server.kubeconfig(NOBODY));
        Self {
            stage,
            target,
            on_target: stage.kubectl("target", &server.kubeconfig(ADMIN)),
            launch: story.launch.clone().flag("--target-kubeconfig", kubeconfig.display()),
            story,
            side: if stage.on == On::Kube { "source" } else { "provider" },
            _server: server,
        }
    }

    /// What the verb prints for a side.
    fn rbac(&self, side: &str) -> String {
        let [schemas, mappings] = self.documents();
        output(&["rbac", "--for", side, "--subject", &format!("user:{NOBODY}"), "--schemas", &schemas, &mappings])
    }

    /// What `doctor` says with the engine's own kubeconfigs.
    fn doctor(&self) -> String {
        let ([schemas, mappings], connections) = (self.documents(), self.launch.of_verbs());
        let connections = connections.iter().map(String::as_str);
        printed(&["doctor", "--schemas", &schemas, &mappings].into_iter().chain(connections).collect::<Vec<_>>())
    }

    /// The shipped schemas, and the mapping.
    fn documents(&self) -> [String; 2] {
        [&*repository().join("schemas"), self.story.mappings.folder()].map(|path| path.display().to_string())
    }

    /// Applies it, as the administrator of that side.
    fn grant(&self, side: &str, documents: &str) {
        let file = self.stage.keep(&format!("{side}-rbac.yaml"), documents).display().to_string();
        let administrator = if side == "target" { &self.on_target } else { &self.story.as_provider };
        administrator.run(&["apply", "-f", &file]);
    }
}
