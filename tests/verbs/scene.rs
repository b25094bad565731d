//! A provider, a consumer and two targets in this process, for the verbs that look at what an engine has done.

use serde_json::{Value, json};
use sync_engine::object::hash::tuple_hash;
use sync_engine::sandbox::{ApiRef, Claim, Options, Sandbox, anything, resource_schema};
use tempfile::TempDir;

use super::program::Running;
use super::{directory, shown_in};

/// The kind of the sources.
pub const THINGS: (&str, &str) = ("things", "Thing");
pub const CONFIG_MAPS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };

pub struct Scene {
    pub kcp: Sandbox,
    pub target: Sandbox,
    pub edge: Sandbox,
    /// The consumer's workspace.
    pub acme: String,
    /// One that binds nothing yet.
    pub globex: String,
    /// A folder with the mapping, and with a kubeconfig for each server.
    pub root: TempDir,
}

impl Scene {
    /// The provider publishes kinds and asks for claims, and the consumer accepts some of them.
    pub async fn set(mapping: &str, kinds: &[(&str, &str)], claims: &[Claim<'_>], accepted: &[Claim<'_>]) -> Self {
        let kcp = Options::kcp().start().await.expect("starts");
        let target = Options::kubernetes().start().await.expect("starts");
        let edge = Options::kubernetes().seed("edge").start().await.expect("starts");
        let workspace = |name: &str| kcp.create_workspace("root", name).expect("a workspace");
        let [_, acme, globex] = ["provider", "acme", "globex"].map(workspace);
        let schema =
            |(plural, kind): &(&str, &str)| resource_schema(&format!("{plural}.v1.example.com"), kind, &anything());
        let schemas: Vec<Value> = kinds.iter().map(schema).collect();
        kcp.publish("root:provider", "things", &schemas, claims).expect("an export");
        kcp.bind(&acme, "root:provider", "things", accepted).expect("a binding");
        let root = directory(&[
            ("maps/a.yaml", mapping),
            ("kcp", &kcp.kubeconfig(None)),
            ("target", &target.kubeconfig(None)),
            ("edge", &edge.kubeconfig(None)),
            ("fleet/edge", &edge.kubeconfig(None)),
        ]);
        Self { kcp, target, edge, acme, globex, root }
    }

    pub fn engine(&self, flags: &[&str]) -> Running {
        Running::engine(self.root.path(), flags)
    }

    /// What a verb prints. The servers are in this process: they must go on meanwhile.
    pub fn said(&self, verb: &[&str], flags: &[&str]) -> String {
        let connections = ["--kcp-kubeconfig", "ROOT/kcp", "--target-kubeconfig", "ROOT/target"];
        tokio::task::block_in_place(|| shown_in(&self.root, &[verb, &connections, flags].concat()))
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
        self.placed_of(&self.acme)
    }

    /// The namespace that mappings give to the sources of a cluster's namespace `default`.
    pub fn placed_of(&self, cluster: &str) -> String {
        format!("default-{}", tuple_hash([cluster, "default"], 10))
    }
}
