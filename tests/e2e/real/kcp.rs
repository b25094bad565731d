//! A real kcp, its workspaces, and the documents with which a provider publishes an API and a consumer binds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::kube::{ApiServer, Kind};
use crate::api::Api;
use crate::eventually::eventually;
use crate::process::free_port;
use crate::rest::{Patch, Rest};

const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
/// What the engine needs to keep copies.
const CLAIMED: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";

/// Where the embedded etcd has its data, and their copy.
const DATA: &str = "etcd-server";
const BACKUP: &str = "etcd-backup";

const KCP: Kind = Kind {
    groups: ["system:kcp:admin", "engines"],
    certificate: "apiserver.crt",
    ready: &["/readyz", "/clusters/root/api/v1/namespaces/default"],
};

/// A workspace, as its administrator sees it.
#[derive(Clone)]
pub struct Workspace {
    /// For people and for `apiExport.path`: `root:a:b`.
    pub path: String,
    /// The logical cluster's name.
    pub cluster: String,
    pub rest: Rest,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("kcp's data") {
        let entry = entry.expect("an entry of kcp's data");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("the type of an entry").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

/// What kcp alone has.
impl ApiServer {
    /// Starts a kcp with its embedded etcd, and waits until its root workspace is served.
    pub async fn start_kcp(binary: PathBuf, folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("kcp's folder");
        let mut command = Command::new(binary);
        let [etcd_client, etcd_peer] = [free_port(), free_port()].map(|port| port.to_string());
        command
            .env("UNSAFE_E2E_HACK_DISABLE_ETCD_FSYNC", "true")
            .arg("start")
            .arg("--root-directory")
            .arg(folder)
            .args(["--embedded-etcd-client-port", &etcd_client, "--embedded-etcd-peer-port", &etcd_peer]);
        Self::run("kcp", folder.to_owned(), command, KCP).await
    }

    /// Copies the data of a kcp that was killed.
    pub fn backup(&self) {
        copy(&self.folder.join(DATA), &self.folder.join(BACKUP));
    }

    /// Puts the copy in the place of the data of a kcp that was killed.
    pub fn restore(&self) {
        let data = self.folder.join(DATA);
        fs::remove_dir_all(&data).expect("kcp's data");
        copy(&self.folder.join(BACKUP), &data);
    }

    /// A kubeconfig that points at the workspace `path`.
    pub fn workspace_kubeconfig(&self, path: &str, user: &str) -> String {
        self.kubeconfig_below(&format!("/clusters/{path}"), user)
    }

    /// Makes the workspace `root:<name>` and waits until it is ready.
    pub async fn workspace(&self, name: &str) -> Workspace {
        let rest = self.admin().await;
        let root = rest.below("/clusters/root");
        let document = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        });
        root.create(WORKSPACES, &document).await;
        let cluster = eventually(&format!("workspace {name} is ready"), async || {
            let workspace = root.get(&format!("{WORKSPACES}/{name}")).await.ok_or("it is absent")?;
            let ready = workspace["status"]["phase"] == "Ready";
            let cluster = workspace["spec"]["cluster"].as_str().filter(|_| ready);
            cluster.map(str::to_owned).ok_or_else(|| workspace["status"].to_string())
        })
        .await;
        let path = format!("root:{name}");
        let workspace = Workspace { rest: rest.below(&format!("/clusters/{path}")), path, cluster };
        // It comes a moment after the workspace.
        workspace.rest.serves("/api/v1/namespaces/default").await;
        workspace
    }

    /// The workspace `root` as its administrator sees it.
    pub async fn root(&self) -> Rest {
        self.admin().await.below("/clusters/root")
    }
}

impl Workspace {
    /// Asks for its end, in `root`.
    pub async fn delete(&self, root: &Rest) {
        root.delete(&self.object()).await;
    }

    /// Waits until its object is gone from `root`.
    pub async fn gone(&self, root: &Rest) {
        root.disappears(&self.object()).await;
    }

    fn object(&self) -> String {
        format!("{WORKSPACES}/{}", self.path.trim_start_matches("root:"))
    }

    /// Publishes `api` as an APIExport, and gives `engine` the rights it needs there.
    pub async fn publish(&self, api: &Api, engine: &str) {
        self.rest.create("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &api.resource_schema()).await;
        self.rest.create("/apis/apis.kcp.io/v1alpha2/apiexports", &api.export()).await;
        self.allow(engine, &api.plural).await;
    }

    /// Has the export of the first of these APIs lead to all of them; the schema of the last one is new.
    pub async fn republish(&self, apis: &[&Api]) {
        let [export, new] = [apis[0], apis[apis.len() - 1]];
        self.rest.create("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &new.resource_schema()).await;
        let path = format!("/apis/apis.kcp.io/v1alpha2/apiexports/{}", export.plural);
        let resources: Vec<Value> = apis.iter().map(|api| api.export()["spec"]["resources"][0].clone()).collect();
        self.rest.patch(Patch::Merge, &path, &json!({"spec": {"resources": resources}})).await;
    }

    /// Has the export of `api` claim resources of the core group.
    pub async fn claim(&self, api: &Api, resources: &[&str]) {
        let claim = |resource: &&str| json!({"group": "", "resource": resource, "verbs": CLAIMED});
        self.set_claims(&api.plural, &resources.iter().map(claim).collect::<Vec<_>>()).await;
    }

    /// Has an export make these claims.
    pub async fn set_claims(&self, export: &str, claims: &[Value]) {
        let path = format!("/apis/apis.kcp.io/v1alpha2/apiexports/{export}");
        self.rest.patch(Patch::Merge, &path, &json!({"spec": {"permissionClaims": claims}})).await;
    }

    /// Accepts those claims, and waits until they are in force.
    pub async fn accept(&self, api: &Api, resources: &[&str]) {
        let selector = json!({"matchAll": true});
        let claim = |resource: &&str| json!({"group": "", "resource": resource, "verbs": CLAIMED, "state": "Accepted", "selector": selector});
        self.answer_claims(&api.plural, &resources.iter().map(claim).collect::<Vec<_>>()).await;
    }

    /// Accepts no claim any more.
    pub async fn take_back(&self, api: &Api) {
        self.answer_claims(&api.plural, &[]).await;
    }

    /// Accepts exactly these claims in a binding, and waits until they are in force.
    pub async fn answer_claims(&self, binding: &str, claims: &[Value]) {
        let path = format!("{BINDINGS}/{binding}");
        self.rest.patch(Patch::Merge, &path, &json!({"spec": {"permissionClaims": claims}})).await;
        eventually(&format!("{} claims are in force in {}", claims.len(), self.path), async || {
            let binding = self.binding(binding).await.ok_or("the binding is absent")?;
            let applied = binding["status"]["appliedPermissionClaims"].as_array().map_or(0, Vec::len);
            if applied == claims.len() { Ok(()) } else { Err(binding["status"].to_string()) }
        })
        .await;
    }

    /// The least rights of an engine in the workspace of the export `export`.
    pub async fn allow(&self, engine: &str, export: &str) {
        let rules = json!([
            {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports", "apiexportendpointslices"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "resourceNames": [export], "verbs": ["*"]},
            {"nonResourceURLs": ["/"], "verbs": ["access"]},
        ]);
        self.grant(engine, &format!("sync-engine-{engine}-{export}"), &rules).await;
    }

    /// Lets a user do what the rules say, by a ClusterRole of this name.
    pub async fn grant(&self, user: &str, name: &str, rules: &Value) {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        self.rest.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
        self.rest.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    }

    /// Binds the export of `api` in the workspace `provider`, and waits until the API is served here.
    pub async fn bind(&self, provider: &str, api: &Api) {
        self.request_binding(provider, &api.plural).await;
        self.wait_for_binding(&api.plural, api).await;
    }

    /// Waits until the API that a binding brings is served, which is a moment after the binding is Bound.
    pub async fn wait_for_binding(&self, binding: &str, api: &Api) {
        eventually(&format!("{} is served in {}", api.resource(), self.path), async || {
            let binding = self.binding(binding).await.ok_or("the binding is absent")?;
            let answer = self.rest.look(&api.everywhere()).await?;
            let served = binding["status"]["phase"] == "Bound" && answer.is_success();
            served.then_some(()).ok_or_else(|| format!("{} {}", binding["status"], answer.body))
        })
        .await;
    }

    pub async fn request_binding(&self, provider: &str, name: &str) {
        let document = json!({
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
            "spec": {"reference": {"export": {"path": provider, "name": name}}},
        });
        // For a moment after an unbinding kcp puts the former binding's labels on a new one, and refuses it for them.
        eventually(&format!("{name} can be bound in {}", self.path), async || {
            let answer = self.rest.try_create(BINDINGS, &document).await;
            answer.is_success().then_some(()).ok_or_else(|| answer.body.to_string())
        })
        .await;
    }

    /// Asks kcp to take the binding away; kcp waits for the finalizers of its objects.
    pub async fn unbind(&self, name: &str) {
        self.rest.delete(&format!("{BINDINGS}/{name}")).await;
    }

    /// Waits until the binding is gone.
    pub async fn unbound(&self, name: &str) {
        self.rest.disappears(&format!("{BINDINGS}/{name}")).await;
    }

    async fn binding(&self, name: &str) -> Option<Value> {
        self.rest.get(&format!("{BINDINGS}/{name}")).await
    }
}
