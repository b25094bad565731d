//! Two consumers of MongoDB, by the files that the repository ships.

use std::fs;

use serde_json::{Value, json};

use crate::api::Api;
use crate::case::Stage;
use crate::credentials::{ADMIN, NOBODY};
use crate::engine::{Engine, Launch};
use crate::fleet::On;
use crate::kube::ApiServer;
use crate::kubectl::{Kubectl, repository};
use crate::mappings::Mappings;
use crate::target::Target;
use crate::tenant::Tenant;

const EXPORT: &str = "apiExport: {name: mongodb, path: root:mongodb}";
pub const DATABASE: &str = "my-database";
/// The Secret that the operator writes for the only user.
pub const CONNECTION: &str = "my-database-admin-app";

/// Two consumers who have ordered a database each, and the engine that serves them.
pub struct Story {
    pub acme: Tenant,
    pub globex: Tenant,
    /// kubectl in acme's place.
    pub as_acme: Kubectl,
    /// kubectl where the provider publishes the API: in its workspace, or on the consumers' plain cluster.
    pub as_provider: Kubectl,
    /// The shipped mapping, for these consumers.
    pub mappings: Mappings,
    /// Without a target.
    pub launch: Launch,
    /// The consumers' cluster, where it is a plain one.
    _source: Option<ApiServer>,
}

impl Story {
    /// `prefix`: of the workspaces' names, which are the shipped ones without it; `user`: whom the engine acts as there.
    pub async fn begin(stage: &Stage, prefix: &str, user: &str) -> Self {
        match stage.on {
            On::Kcp => in_workspaces(stage, prefix, user).await,
            On::Kube => in_namespaces(stage, user).await,
            On::Sandbox => unreachable!("on real servers alone"),
        }
    }

    /// Starts the engine with this target, and waits until it is ready.
    pub async fn engine(&self, stage: &Stage, target: &ApiServer) -> Engine {
        let target = stage.keep("target.kubeconfig", &target.kubeconfig(&stage.user));
        let launch = self.launch.clone().flag("--schemas", repository().join("schemas").display());
        launch.flag("--target-kubeconfig", target.display()).ready().await
    }
}

/// A cluster of the case's own that knows MongoDBCommunity: the mapping's name is the shipped one for both kinds of source.
pub async fn own_target(stage: &Stage) -> (ApiServer, Target) {
    let server = stage.fleet.own_cluster(&stage.id).await;
    stage.kubectl("target", &server.kubeconfig(ADMIN)).apply(&["schemas/mongodb/crd.yaml"]);
    let target = Target { rest: server.admin().await, api: Api::mongodb(), mapping: "main.mongodb".to_owned() };
    (server, target)
}

pub fn secrets(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets")
}

/// A Secret whose data are in base64.
pub fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})
}

/// Waits for the Secret that tells a consumer how to connect.
pub async fn connection(tenant: &Tenant) -> Value {
    let path = format!("{}/{CONNECTION}", secrets(&tenant.namespace));
    tenant.rest.appears(&path).await
}

/// The status that the operator reports; it requires all of these fields.
pub fn running(version: &str) -> Value {
    json!({
        "phase": "Running", "version": version, "mongoUri": "mongodb://example",
        "currentMongoDBMembers": 3, "currentStatefulSetReplicas": 3,
    })
}

pub async fn operator_finds_its_rights(target: &Target, place: &str) {
    let rights = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{place}");
    let paths = [
        format!("/api/v1/namespaces/{place}/serviceaccounts/mongodb-database"),
        format!("{rights}/roles/mongodb-database"),
        format!("{rights}/rolebindings/mongodb-database"),
    ];
    for path in paths {
        target.rest.appears(&path).await;
    }
}

const CONSUMER_FILES: [&str; 2] = ["examples/mongodb/secret.yaml", "examples/mongodb/mongodb.yaml"];

async fn in_workspaces(stage: &Stage, prefix: &str, user: &str) -> Story {
    let kcp = stage.kcp().await;
    let provider = kcp.workspace(&format!("{prefix}mongodb")).await;
    let as_provider = stage.kubectl("provider", &kcp.workspace_kubeconfig(&provider.path, ADMIN));
    as_provider.apply(&["schemas/mongodb/apiresourceschema.yaml", "schemas/mongodb/apiexport.yaml"]);
    if user != NOBODY {
        provider.allow(user, "mongodb").await;
    }
    let binding = stage.keep("apibinding.yaml", &shipped("examples/mongodb/apibinding.yaml", &provider.path));
    let mut tenants = Vec::new();
    for name in ["acme", "globex"] {
        let workspace = kcp.workspace(&format!("{prefix}{name}")).await;
        let consumer = stage.kubectl(name, &kcp.workspace_kubeconfig(&workspace.path, ADMIN));
        consumer.run(&["apply", "-f", &binding.display().to_string()]);
        workspace.wait_for_binding("mongodb", &Api::mongodb()).await;
        consumer.apply(&CONSUMER_FILES);
        tenants.push(Tenant::in_workspace(&workspace, &Api::mongodb()));
    }
    let [acme, globex] = <[Tenant; 2]>::try_from(tenants).unwrap_or_else(|_| unreachable!("two names above"));
    let source = stage.keep("source.kubeconfig", &kcp.workspace_kubeconfig("root", user));
    let mappings = Mappings::new(stage.folder.join("mappings"), Vec::new());
    mappings.write("mongodb.yaml", &shipped("mappings/mongodb.yaml", &provider.path));
    let launch = Launch::bare(&stage.folder)
        .flag("--mappings", mappings.folder().display())
        .flag("--kcp-kubeconfig", source.display());
    let as_acme = stage.kubectl("acme", &kcp.workspace_kubeconfig(&format!("root:{prefix}acme"), ADMIN));
    Story { acme, globex, as_acme, as_provider, mappings, launch, _source: None }
}

/// A file of the repository, for the provider's workspace at `path`.
fn shipped(file: &str, path: &str) -> String {
    let text = fs::read_to_string(repository().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(text.contains("root:mongodb"), "{file} names the provider as expected");
    text.replace("root:mongodb", path)
}

/// The shipped mapping with the one line changed that says where the consumers are.
async fn in_namespaces(stage: &Stage, user: &str) -> Story {
    let server = stage.fleet.own_cluster(&format!("{}-source", stage.id)).await;
    let admin = server.admin().await;
    let consumer = stage.kubectl("source", &server.kubeconfig(ADMIN));
    let definition = stage.keep("consumer-crd.json", &consumer_definition().to_string());
    consumer.run(&["apply", "-f", &definition.display().to_string()]);
    consumer.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
    consumer.apply(&CONSUMER_FILES);

    let acme = Tenant::in_cluster(admin, &Api::mongodb());
    let globex = acme.with_namespace("globex").await;
    let ordered = acme.object(DATABASE).await;
    let password = json!({"password": "Y2hhbmdlLW1l"});
    globex.rest.create(&secrets(&globex.namespace), &secret("my-database-password", &password)).await;
    globex.create(DATABASE, ordered["spec"].clone()).await;

    let mapping = fs::read_to_string(repository().join("mappings/mongodb.yaml")).expect("the shipped mapping");
    assert!(mapping.contains(EXPORT), "the mapping names its source as expected");
    let mappings = Mappings::new(stage.folder.join("mappings"), vec![("<name>", "mongodb".to_owned())]);
    mappings.write("mongodb.yaml", &mapping.replace(EXPORT, "provider: mongodb-source"));
    mappings.write("provider.yaml", include_str!("../fixtures/provider.yaml"));
    let source = stage.keep("source.kubeconfig", &server.kubeconfig(user));
    let launch = Launch::bare(&stage.folder)
        .flag("--mappings", mappings.folder().display())
        .flag("--connection", format!("source={}", source.display()));
    Story { acme, globex, as_acme: consumer.clone(), as_provider: consumer, mappings, launch, _source: Some(server) }
}

/// The consumers' schema as a plain cluster takes it.
fn consumer_definition() -> Value {
    let text = fs::read_to_string(repository().join("schemas/mongodb/apiresourceschema.yaml")).expect("the schema");
    let document: Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut spec = document["spec"].clone();
    for version in spec["versions"].as_array_mut().expect("versions") {
        version["schema"] = json!({"openAPIV3Schema": version["schema"]});
    }
    let name =
        format!("{}.{}", spec["names"]["plural"].as_str().expect("a plural"), spec["group"].as_str().expect("a group"));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name}, "spec": spec,
    })
}
