//! Workspaces and the logical clusters behind them.

use serde_json::json;

use super::super::builtin::{CORE, TENANCY};
use super::super::collection::Key;
use super::super::resource::Resource;
use super::super::settle::{Touched, drop_finalizer};
use super::super::state::State;
use super::{set_condition, short_hash};

/// Keeps a Workspace until its logical cluster is empty.
pub(crate) const CLEANUP_FINALIZER: &str = "core.kcp.io/logicalcluster";

impl State {
    pub(crate) fn settle_workspace(&mut self, key: &Key) {
        let Some(workspaces) = self.builtin(TENANCY, "workspaces") else { return };
        let Some(stored) = self.stored(&workspaces, key).cloned() else { return };
        let workspace = stored.object();
        if stored.deleting {
            let cluster = workspace["spec"]["cluster"].as_str().unwrap_or_default();
            self.leave(&workspaces, key, cluster);
        } else if workspace["status"]["phase"].is_null() {
            self.open(&workspaces, key);
        }
    }

    /// Makes the logical cluster of a new workspace.
    fn open(&mut self, workspaces: &Resource, key: &Key) {
        let path = format!("{}:{}", self.path_of(&key.cluster), key.name);
        let cluster = short_hash(&format!("{path}/{}", self.next_uid()));
        let url = format!("{}/clusters/{path}", self.settings.urls[0]);
        self.change_own(workspaces, key, |workspace| {
            workspace["spec"]["cluster"] = cluster.as_str().into();
            workspace["spec"]["URL"] = url.as_str().into();
            workspace["status"] = json!({"phase": "Initializing"});
        });
        let shard = self.clusters.len() % self.settings.urls.len();
        self.add_cluster(&cluster, &path, shard, &["default"]);
        let owner = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", "name": *key.name, "cluster": *key.cluster,
        });
        let logical_cluster = json!({
            "apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "cluster"},
            "spec": {"owner": owner}, "status": {"phase": "Ready", "URL": url},
        });
        self.add_own(&cluster, "", "logicalclusters", logical_cluster);
        let now = self.now.to_string();
        self.change_own(workspaces, key, |workspace| {
            workspace["status"]["phase"] = "Ready".into();
            set_condition(workspace, "WorkspaceInitialized", Ok(()), &now);
            set_condition(workspace, "WorkspaceScheduled", Ok(()), &now);
        });
    }

    /// Empties the logical cluster of a workspace that is being deleted; the workspace goes once nothing is left.
    fn leave(&mut self, workspaces: &Resource, key: &Key, cluster: &str) {
        let Some(logical_clusters) = self.builtin(CORE, "logicalclusters") else { return };
        let contents = self.all_served(cluster).into_iter().filter(|resource| !resource.is(CORE, "logicalclusters"));
        let left: usize = contents.map(|resource| self.empty(&resource, cluster, None)).sum();
        if left > 0 {
            self.draining.insert(Touched::Workspace(key.clone()), cluster.into());
            return;
        }
        self.draining.remove(&Touched::Workspace(key.clone()));
        self.empty(&logical_clusters, cluster, None);
        if let Some(gone) = self.clusters.remove(cluster) {
            self.paths.remove(&gone.path);
        }
        self.change_own(workspaces, key, |workspace| drop_finalizer(workspace, CLEANUP_FINALIZER));
    }
}
