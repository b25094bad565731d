//! A provider, a consumer and two targets in this process, for the verbs that look at what a real engine has done.

use serde_json::{Value, json};
use sync_engine::object::hash::tuple_hash;
use sync_engine::sandbox::{ApiRef, Claim, Options, Sandbox, anything, resource_schema};
use tempfile::TempDir;

use super::directory;
use super::program::Running;

pub const CONFIG_MAPS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };

pub struct Scene {
    pub kcp: Sandbox,
    pub target: Sandbox,
    pub edge: Sandbox,
    /// The consumer's workspace.
    pub acme: String,
    /// A folder with the mapping, and with a kubeconfig for each server.
    pub root: TempDir,
}

impl Scene {
    /// The provider asks for claims, and the consumer accepts some of them.
    pub async fn set(mapping: &str, claims: &[Claim<'_>], accepted: &[Claim<'_>]) -> Self {
        let kcp = Options::kcp().start().await.expect("starts");
        let target = Options::kubernetes().start().await.expect("starts");
        let edge = Options::kubernetes().seed("edge").start().await.expect("starts");
        let [_, acme] = ["provider", "acme"].map(|name| kcp.create_workspace("root", name).expect("a workspace"));
        let schema = resource_schema("things.v1.example.com", "Thing", &anything());
        kcp.publish("root:provider", "things", &[schema], claims).expect("an export");
        kcp.bind(&acme, "root:provider", "things", accepted).expect("a binding");
        let root = directory(&[
            ("maps/a.yaml", mapping),
            ("kcp", &kcp.kubeconfig(None)),
            ("target", &target.kubeconfig(None)),
            ("edge", &edge.kubeconfig(None)),
            ("fleet/edge", &edge.kubeconfig(None)),
        ]);
        Self { kcp, target, edge, acme, root }
    }

    pub fn engine(&self, flags: &[&str]) -> Running {
        Running::engine(self.root.path(), flags)
    }

    pub fn things(&self) -> ApiRef<'_> {
        ApiRef { cluster: &self.acme, resource: "things.v1.example.com" }
    }

    /// A source with the label that mappings may select.
    pub fn thing(&self, name: &str, spec: Value) {
        let metadata = json!({"name": name, "namespace": "default", "labels": {"tier": "managed"}});
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec});
        self.kcp.create(self.things(), &thing).expect("a source");
    }

    /// The namespace of the objects.
    pub fn placed(&self) -> String {
        format!("default-{}", tuple_hash([&*self.acme, "default"], 10))
    }
}
