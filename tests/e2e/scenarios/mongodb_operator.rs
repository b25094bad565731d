//! MongoDB with its own operator: passwords travel down, connections travel up, and all of it goes with the order.

use std::process::Command;

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::mongodb::{CONNECTION, DATABASE, Story, connection, own_target, secret, secrets};
use crate::case::{Case, Stage, case};
use crate::credentials::ADMIN;
use crate::eventually::eventually;
use crate::kube::ApiServer;
use crate::process::Process;
use crate::rest::{Patch, Rest};
use crate::servers;
use crate::target::{Target, namespace};
use crate::tenant::{Tenant, condition};

pub fn cases() -> Vec<Case> {
    // Two operators of one machine would want the same port for their metrics.
    let cases = [
        case!(consumers_connect_with_the_passwords_that_they_chose),
        case!(all_that_a_spec_names_comes_along).on_kube(),
    ];
    cases.map(|case| case.with(servers::mongodb_operator).alone()).into()
}

const PASSWORD: &str = "my-database-password";

async fn consumers_connect_with_the_passwords_that_they_chose(stage: &Stage) {
    let (server, target) = own_target(stage).await;
    let _controllers = stage.fleet.controllers(&server);
    let _operator = operator(stage, &server);
    let story = Story::begin(stage, &format!("{}-", stage.id), &stage.user).await;
    let (acme, globex) = (&story.acme, &story.globex);
    choose(globex, "of-globex").await;
    let _engine = story.engine(stage, &server).await;

    for (tenant, password) in [(acme, "change-me"), (globex, "of-globex")] {
        runs(&target, tenant, DATABASE).await;
        connects(&target, tenant, password).await;
    }
    choose(acme, "another").await;
    connects(&target, acme, "another").await;
    connects(&target, globex, "of-globex").await;

    let place = namespace(&target.copy(acme, DATABASE).await);
    story.as_acme.run(&["delete", "mongodbcommunity", DATABASE, "--timeout=60s"]);
    nothing_is_left(&target, &place).await;
    let left = names(&acme.rest, &secrets(&acme.namespace)).await;
    assert!(!left.contains(&CONNECTION.to_owned()) && left.contains(&PASSWORD.to_owned()), "{left:?}");
    let deletions = deletions(stage, &server);
    let order = ["mongodbcommunity/my-database", "secrets/my-database-password"];
    let at = order.map(|end| deletions.iter().position(|uri| uri.contains(end)));
    assert!(at[0].is_some() && at[0] < at[1], "the database before its password: {deletions:?}");
    connects(&target, globex, "of-globex").await;
}

/// Certificates, a CA and the password of the metrics; a user with a name that Kubernetes would refuse, who comes and goes.
async fn all_that_a_spec_names_comes_along(stage: &Stage) {
    let (server, target) = own_target(stage).await;
    let _controllers = stage.fleet.controllers(&server);
    let _operator = operator(stage, &server);
    let story = Story::begin(stage, "", &stage.user).await;
    let tenant = &story.acme;
    let _engine = story.engine(stage, &server).await;
    tenant.create("secured", secured(json!([user("App")]))).await;
    let waiting = tenant.synced("secured", "False", "Waiting").await;
    assert!(waiting["message"].as_str().is_some_and(|message| message.contains("default/passwords")), "{waiting}");
    for (name, data) in [
        ("server-cert", json!({"tls.crt": "YQ==", "tls.key": "Yg=="})),
        ("passwords", json!({"metrics": "YQ==", "App": "YQ==", "Report_1": "Yg=="})),
    ] {
        tenant.rest.create(&secrets(&tenant.namespace), &secret(name, &data)).await;
    }
    let authority = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "our-ca"}, "data": {"ca.crt": "ours", "notes": "private"},
    });
    tenant.rest.create(&format!("/api/v1/namespaces/{}/configmaps", tenant.namespace), &authority).await;
    runs(&target, tenant, "secured").await;
    reads(&target, tenant, "secured-admin-app").await;
    let place = namespace(&target.copy(tenant, "secured").await);
    let copy = target.rest.get(&format!("/api/v1/namespaces/{place}/configmaps/our-ca")).await.expect("the CA");
    assert_eq!(copy["data"], json!({"ca.crt": "ours"}));

    tenant.patch("secured", json!({"spec": {"users": [user("App"), user("Report_1")]}})).await;
    reads(&target, tenant, "secured-admin-report-1").await;
    tenant.patch("secured", json!({"spec": {"users": [user("App")]}})).await;
    eventually("the connection goes with its user", async || {
        start_pods(&target.rest).await;
        let left =
            [names(&tenant.rest, &secrets(&tenant.namespace)).await, names(&target.rest, &secrets(&place)).await];
        let gone = left.iter().flatten().all(|name| name != "secured-admin-report-1");
        if gone { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    runs(&target, tenant, "secured").await;
    for name in ["secured", DATABASE] {
        tenant.remove(name).await;
    }
    nothing_is_left(&target, &place).await;
}

fn secured(users: Value) -> Value {
    json!({
        "type": "ReplicaSet", "members": 1, "version": "6.0.5", "users": users,
        "security": {
            "authentication": {"modes": ["SCRAM"]},
            "tls": {"enabled": true, "certificateKeySecretRef": {"name": "server-cert"}, "caConfigMapRef": {"name": "our-ca"}},
        },
        "prometheus": {"username": "metrics", "passwordSecretRef": {"name": "passwords", "key": "metrics"}},
    })
}

fn user(name: &str) -> Value {
    json!({
        "name": name, "db": "admin", "passwordSecretRef": {"name": "passwords", "key": name}, "roles": [],
        "scramCredentialsSecretName": format!("secured-{}", name.to_lowercase().replace('_', "-")),
    })
}

/// Waits until the consumer has this Secret. Meanwhile the pods start.
async fn reads(target: &Target, tenant: &Tenant, name: &str) {
    let path = format!("{}/{name}", secrets(&tenant.namespace));
    eventually(&format!("the consumer reads {name}"), async || {
        start_pods(&target.rest).await;
        let object = tenant.object("secured").await;
        tenant.rest.get(&path).await.map(drop).ok_or_else(|| object["status"].to_string())
    })
    .await;
}

/// The operator as the administrator of its cluster. It asks for the names of images, which nobody pulls here.
fn operator(stage: &Stage, server: &ApiServer) -> Process {
    let kubeconfig = stage.keep("operator.kubeconfig", &server.kubeconfig(ADMIN));
    let images = ["MONGODB_IMAGE", "AGENT_IMAGE", "VERSION_UPGRADE_HOOK_IMAGE", "READINESS_PROBE_IMAGE"];
    let mut command = Command::new(servers::mongodb_operator().expect("the case runs only where there is one"));
    command
        .env("KUBECONFIG", kubeconfig)
        .env("WATCH_NAMESPACE", "*")
        .env("MONGODB_REPO_URL", "registry.example.com")
        .envs(images.map(|image| (image, image.to_lowercase())));
    Process::spawn("the operator", &mut command, &stage.folder.join("operator.log"))
}

/// The consumer writes another password into the Secret.
async fn choose(tenant: &Tenant, password: &str) {
    let path = format!("{}/{PASSWORD}", secrets(&tenant.namespace));
    let change = json!({"data": {"password": BASE64.encode(password.as_bytes())}});
    tenant.rest.patch(Patch::Merge, &path, &change).await;
}

/// Waits until the consumer reads one condition `Ready`, and that it is true. Meanwhile the pods start.
async fn runs(target: &Target, tenant: &Tenant, name: &str) {
    eventually("the database runs", async || {
        start_pods(&target.rest).await;
        let object = tenant.object(name).await;
        let ready = condition(&object, "Ready").is_some_and(|condition| condition["status"] == "True");
        ready.then_some(()).ok_or_else(|| object["status"].to_string())
    })
    .await;
    let object = tenant.object(name).await;
    let conditions = object["status"]["conditions"].as_array().expect("conditions");
    assert_eq!(conditions.iter().filter(|condition| condition["type"] == "Ready").count(), 1, "{conditions:?}");
}

/// Waits until the Secret in the consumer's namespace leads to the consumer's own database, with this password. Pods go on.
async fn connects(target: &Target, tenant: &Tenant, password: &str) {
    let place = namespace(&target.copy(tenant, DATABASE).await);
    let start = format!("mongodb://app:{password}@my-database-0.my-database-svc.{place}.svc.cluster.local:27017,");
    connection(tenant).await;
    let secret = eventually(&format!("the connection has the password {password}"), async || {
        start_pods(&target.rest).await;
        let secret = connection(tenant).await;
        let uri = text(&secret, "connectionString.standard");
        if uri.starts_with(&start) { Ok(secret) } else { Err(uri) }
    })
    .await;
    let keys: Vec<&String> = secret["data"].as_object().expect("data").keys().collect();
    assert_eq!(keys, ["connectionString.standard", "connectionString.standardSrv", "password", "username"]);
    assert_eq!([text(&secret, "username"), text(&secret, "password")], ["app".to_owned(), password.to_owned()]);
}

fn text(secret: &Value, key: &str) -> String {
    let encoded = secret["data"][key].as_str().unwrap_or_default();
    String::from_utf8(BASE64.decode(encoded.as_bytes()).expect("base64")).expect("text")
}

/// What kubelets and MongoDB's agents do: pods become ready, and say which configuration they run.
async fn start_pods(cluster: &Rest) {
    for pod in cluster.list("/api/v1/pods").await {
        let metadata = &pod["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            continue;
        }
        let path =
            format!("/api/v1/namespaces/{}/pods/{}", namespace(&pod), metadata["name"].as_str().unwrap_or_default());
        let version = configuration(cluster, &pod).await;
        if metadata["annotations"][AGENT] != version {
            report(cluster, &path, &json!({"metadata": {"annotations": {AGENT: version}}})).await;
        }
        if pod["status"]["phase"] != "Running" {
            let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            report(cluster, &format!("{path}/status"), &json!({"status": ready})).await;
        }
    }
}

const AGENT: &str = "agent.mongodb.com/version";

/// The version of the configuration that the operator wrote for the agent of a pod, which its StatefulSet owns.
async fn configuration(cluster: &Rest, pod: &Value) -> String {
    let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
    let secret = cluster.get(&format!("{}/{owner}-config", secrets(&namespace(pod)))).await.unwrap_or_default();
    let configuration = text(&secret, "cluster-config.json");
    let configuration: Value = serde_json::from_str(&configuration).unwrap_or_default();
    configuration["version"].to_string()
}

/// A pod may be gone by now.
async fn report(cluster: &Rest, path: &str, change: &Value) {
    let answer = cluster.try_patch(Patch::Merge, path, change).await;
    assert!(answer.is_success() || answer.status == 404, "{path}: {answer:?}");
}

async fn names(rest: &Rest, collection: &str) -> Vec<String> {
    let objects = rest.list(collection).await;
    objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

/// Waits until the namespace holds nothing that the engine, the operator or its StatefulSets made. The volumes stay.
async fn nothing_is_left(target: &Target, place: &str) {
    let of = |path: &str, resource: &str| format!("{path}/namespaces/{place}/{resource}");
    let collections = [
        target.api.collection(place),
        of("/apis/apps/v1", "statefulsets"),
        of("/api/v1", "pods"),
        of("/api/v1", "services"),
        secrets(place),
        of("/apis/rbac.authorization.k8s.io/v1", "roles"),
        of("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    ];
    for collection in collections {
        eventually(&format!("{collection} is empty"), async || {
            let left = names(&target.rest, &collection).await;
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
    }
}

/// What the engine deleted on the target, oldest first.
fn deletions(stage: &Stage, server: &ApiServer) -> Vec<String> {
    let requests = server.audit().requests(&stage.user).into_iter();
    requests.filter(|request| request.verb == "delete" && request.is_complete()).map(|request| request.uri).collect()
}
