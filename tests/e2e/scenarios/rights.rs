//! What `sync-engine rbac` prints is enough for the engine, on servers that check it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::api::Api;
use crate::case::{Case, Stage, case};
use crate::credentials::{ADMIN, NOBODY};
use crate::engine::Launch;
use crate::eventually::eventually;
use crate::fleet::On;
use crate::kube::ApiServer;
use crate::kubectl::{Kubectl, repository};
use crate::rest::Rest;
use crate::scenarios::mongodb::{CONNECTION, connection, consumer_definition, secret, secrets};
use crate::target::{Target, namespace};
use crate::tenant::Tenant;

pub fn cases() -> Vec<Case> {
    vec![case!(what_rbac_prints_is_enough).on_both(), case!(without_create_nothing_is_made)]
}

const NAME: &str = "my-database";

/// The shipped mapping, whose Role and RoleBinding nobody may create who does not hold what they grant.
async fn what_rbac_prints_is_enough(stage: &Stage) {
    let scene = Scene::set(stage).await;
    let before = scene.doctor();
    assert!(before.contains("SE0806") && before.contains(&format!("rbac --for {}", scene.side)), "{before}");
    for side in ["target", scene.side] {
        scene.grant(side, &scene.rbac(side));
    }
    let after = scene.doctor();
    // In kcp, the claims are looked at as well.
    let checks = if stage.on == On::Kube { 6 } else { 7 };
    assert!(after.contains(&format!("nothing wrong; {checks} of {checks} checks are fine")), "{after}");
    let mut engine = scene.launch.ready().await;

    let copy = scene.target.copy(&scene.tenant, NAME).await;
    scene.rights_arrived(&namespace(&copy)).await;
    scene.tenant.status(NAME, json!({"phase": "Pending"})).await;
    scene.target.report(&copy, running()).await;
    scene.tenant.status(NAME, json!({"phase": "Running", "version": "6.0.5"})).await;
    let written = secret(CONNECTION, &json!({"username": "YXBw"}));
    scene.target.rest.create(&secrets(&namespace(&copy)), &written).await;
    connection(&scene.tenant).await;
    scene.tenant.patch(NAME, json!({"spec": {"members": 5}})).await;
    scene.target.has(&scene.tenant, NAME, json!({"spec": {"members": 5}})).await;

    scene.tenant.delete(NAME).await;
    scene.tenant.gone(NAME).await;
    assert_eq!(scene.target.find(&scene.tenant, NAME).await, None);
    let refused: Vec<String> = engine.log().into_iter().filter(|line| line.contains("forbidden")).collect();
    assert!(refused.is_empty(), "the engine was refused something: {refused:#?}");
    assert!(engine.terminate().await.success());
}

/// A verb less, and the story does not begin: what is printed is no more than is needed there.
async fn without_create_nothing_is_made(stage: &Stage) {
    let scene = Scene::set(stage).await;
    scene.grant(scene.side, &scene.rbac(scene.side));
    let all = scene.rbac("target");
    let documents = all.replace("  - create\n  - patch\n", "  - patch\n");
    assert_ne!(documents, all, "the documents are written as expected");
    scene.grant("target", &documents);
    let mut engine = scene.launch.start();
    // An apply that makes something is `patch` and `create`.
    engine.says(&["forbidden", "cannot create resource"]).await;
    assert_eq!(scene.target.find(&scene.tenant, NAME).await, None);
    // Nothing else was lacking.
    scene.grant("target", &all);
    scene.target.copy(&scene.tenant, NAME).await;
}

/// A consumer who has ordered, and an engine whose user nobody gave any right.
struct Scene<'s> {
    stage: &'s Stage,
    tenant: Tenant,
    target: Target,
    launch: Launch,
    mappings: PathBuf,
    /// The side of `rbac` that the consumers are on.
    side: &'static str,
    source: Kubectl,
    _clusters: Vec<ApiServer>,
}

impl<'s> Scene<'s> {
    async fn set(stage: &'s Stage) -> Self {
        let server = stage.fleet.own_cluster(&stage.id).await;
        kubectl(stage, "target", &server.kubeconfig(ADMIN)).apply(&["schemas/mongodb/crd.yaml"]);
        let target =
            Target { rest: server.admin().await, api: Api::mongodb(), mapping: format!("main.{}", mapping(stage)) };
        let kubeconfig = stage.keep("target.kubeconfig", &server.kubeconfig(NOBODY));
        let scene = match stage.on {
            On::Kcp => Self::in_workspace(stage, target).await,
            On::Kube => Self::in_cluster(stage, target).await,
            On::Sandbox => unreachable!("on real servers alone"),
        };
        let launch = scene.launch.flag("--target-kubeconfig", kubeconfig.display());
        let mut clusters = scene._clusters;
        clusters.push(server);
        Self { launch, _clusters: clusters, ..scene }
    }

    async fn in_workspace(stage: &'s Stage, target: Target) -> Self {
        let kcp = stage.kcp().await;
        let provider = kcp.workspace(&format!("{}-provider", stage.id)).await;
        let source = kubectl(stage, "provider", &kcp.kubeconfig(&provider.path, ADMIN));
        source.apply(&["schemas/mongodb/apiresourceschema.yaml", "schemas/mongodb/apiexport.yaml"]);
        let workspace = kcp.workspace(&format!("{}-consumer", stage.id)).await;
        let binding = fs::read_to_string(repository().join("examples/mongodb/apibinding.yaml")).expect("the binding");
        let binding = stage.keep("apibinding.yaml", &binding.replace("root:mongodb", &provider.path));
        let consumer = kubectl(stage, "consumer", &kcp.kubeconfig(&workspace.path, ADMIN));
        consumer.run(&["apply", "-f", &binding.display().to_string()]);
        workspace.wait_for_binding("mongodb", &Api::mongodb()).await;
        let tenant = Tenant::new(workspace.rest, "default".to_owned(), Some(workspace.cluster), Api::mongodb());
        order_database(&tenant).await;
        let reference = format!("apiExport: {{name: mongodb, path: {}}}", provider.path);
        let mappings = write_mapping(stage, &reference);
        let kubeconfig = stage.keep("source.kubeconfig", &kcp.kubeconfig("root", NOBODY));
        let launch = launch(stage, &mappings).flag("--kcp-kubeconfig", kubeconfig.display());
        Self { stage, tenant, target, launch, mappings, side: "provider", source, _clusters: Vec::new() }
    }

    async fn in_cluster(stage: &'s Stage, target: Target) -> Self {
        let server = stage.fleet.own_cluster(&format!("{}-source", stage.id)).await;
        let source = kubectl(stage, "source", &server.kubeconfig(ADMIN));
        let definition = stage.keep("consumer-crd.json", &consumer_definition().to_string());
        source.run(&["apply", "-f", &definition.display().to_string()]);
        source.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        let tenant = Tenant::new(server.admin().await, "default".to_owned(), None, Api::mongodb());
        order_database(&tenant).await;
        let mappings = write_mapping(stage, "provider: databases");
        let provider = include_str!("../fixtures/provider.yaml").replace("<name>-source", "databases");
        fs::write(mappings.join("provider.yaml"), provider).expect("the provider");
        let kubeconfig = stage.keep("source.kubeconfig", &server.kubeconfig(NOBODY));
        let launch = launch(stage, &mappings).flag("--connection", format!("source={}", kubeconfig.display()));
        Self { stage, tenant, target, launch, mappings, side: "source", source, _clusters: vec![server] }
    }

    /// What the verb prints for a side.
    fn rbac(&self, side: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_sync-engine"))
            .args(["rbac", "--for", side, "--subject", &format!("user:{NOBODY}"), "--schemas"])
            .arg(repository().join("schemas"))
            .arg(&self.mappings)
            .output()
            .expect("the binary starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What `doctor` says with the engine's own kubeconfigs.
    fn doctor(&self) -> String {
        let kubeconfig = |file: &str| self.stage.folder.join(file).display().to_string();
        let source = match self.side {
            "provider" => ["--kcp-kubeconfig".to_owned(), kubeconfig("source.kubeconfig")],
            _ => ["--connection".to_owned(), format!("source={}", kubeconfig("source.kubeconfig"))],
        };
        let output = Command::new(env!("CARGO_BIN_EXE_sync-engine"))
            .args(["doctor", "--schemas"])
            .arg(repository().join("schemas"))
            .arg(&self.mappings)
            .args(source)
            .args(["--target-kubeconfig", &kubeconfig("target.kubeconfig")])
            .output()
            .expect("the binary starts");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Applies it, as the administrator of that side.
    fn grant(&self, side: &str, documents: &str) {
        let file = self.stage.keep(&format!("{side}-rbac.yaml"), documents).display().to_string();
        let target = self.stage.folder.join("target.kubectl");
        match side {
            "target" => Kubectl::new(self.stage.fleet.kubectl(), target).run(&["apply", "-f", &file]),
            _ => self.source.run(&["apply", "-f", &file]),
        };
    }

    /// The Role and its binding, which grant more than an engine has by its other rules.
    async fn rights_arrived(&self, place: &str) {
        for plural in ["roles", "rolebindings"] {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{place}/{plural}/mongodb-database");
            eventually(&format!("{path} is there"), async || arrived(&self.target.rest, &path).await).await;
        }
    }
}

async fn arrived(rest: &Rest, path: &str) -> Result<(), String> {
    rest.get(path).await.map(drop).ok_or_else(|| "it is absent".to_owned())
}

fn mapping(stage: &Stage) -> String {
    format!("rights-{}", stage.id)
}

fn launch(stage: &Stage, mappings: &Path) -> Launch {
    Launch::bare(&stage.folder).flag("--mappings", mappings.display())
}

/// The shipped mapping for another source, under a name of its own.
fn write_mapping(stage: &Stage, reference: &str) -> PathBuf {
    let shipped = fs::read_to_string(repository().join("mappings/mongodb.yaml")).expect("the shipped mapping");
    let text = shipped
        .replace("name: mongodb\nspec", &format!("name: {}\nspec", mapping(stage)))
        .replace("apiExport: {name: mongodb, path: root:mongodb}", reference);
    let folder = stage.folder.join("mappings");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("mongodb.yaml"), text).expect("the mapping");
    folder
}

fn kubectl(stage: &Stage, name: &str, kubeconfig: &str) -> Kubectl {
    Kubectl::new(stage.fleet.kubectl(), stage.keep(&format!("{name}.kubectl"), kubeconfig))
}

/// A database, and the password that it waits for.
async fn order_database(tenant: &Tenant) {
    let password = secret("password", &json!({"password": "Y2hhbmdlLW1l"}));
    tenant.rest.create(&secrets(&tenant.namespace), &password).await;
    tenant.create(NAME, order()).await;
}

fn order() -> Value {
    json!({
        "type": "ReplicaSet", "members": 3, "version": "6.0.5",
        "security": {"authentication": {"modes": ["SCRAM"]}},
        "users": [{
            "name": "app", "db": "admin", "passwordSecretRef": {"name": "password"},
            "roles": [{"name": "readWriteAnyDatabase", "db": "admin"}], "scramCredentialsSecretName": "app",
        }],
    })
}

/// The status that the operator reports; it requires all of these fields.
fn running() -> Value {
    json!({
        "phase": "Running", "version": "6.0.5", "mongoUri": "mongodb://example",
        "currentMongoDBMembers": 3, "currentStatefulSetReplicas": 3,
    })
}
