//! The workspaces that kcp holds up for the engine: those of a WorkspaceType with an initializer or a terminator.
//!
//! The type's status lists one address per shard at which the LogicalClusters that still carry the entry can be watched,
//! across all workspaces. What is in such a workspace is read and written below the same address, as long as it carries
//! the entry. A workspace that no longer does is out of sight: nothing was deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::discovery::{Collection, home, refusal};
use super::workspaces::{Find, Shard, Workspaces};
use crate::connection::Connection;
use crate::environment::Reporter;
use crate::registry::{ClusterSpec, ClustersOf, Holding, WatchScope};
use crate::watch::{Selectors, WatchState, Watches};
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::object::hold::{Hold, HoldStage};
use sync_engine_mapping::{Resource, WorkspaceType};

/// Workspaces that are held up.
pub(super) struct HeldUp {
    types: Vec<HoldingType>,
}

/// A type whose workspaces are held up, followed in its workspace.
struct HoldingType {
    stage: HoldStage,
    name: WorkspaceType,
    home: Collection,
}

/// The workspaces of these types.
pub(super) fn workspaces(
    connection: Arc<Connection>,
    types: Vec<(HoldStage, WorkspaceType)>,
    condition: Reporter,
    watches: &Arc<Watches>,
) -> Result<Workspaces<HeldUp>, String> {
    let follow = |(stage, name): (HoldStage, WorkspaceType)| {
        let workspace = connection.workspace(Some(&name.workspace)).map_err(|error| error.to_string())?;
        let by_name = Selectors { field: format!("metadata.name={}", name.name), ..Selectors::default() };
        let workspace_types = Resource::new("tenancy.kcp.io", "v1alpha1", "workspacetypes");
        let home = Collection::follow(watches, home(&workspace), &[workspace_types], by_name);
        Ok(HoldingType { stage, name, home })
    };
    let types = types.into_iter().map(follow).collect::<Result<_, String>>()?;
    Ok(Workspaces::new(HeldUp { types }, connection, condition, watches))
}

/// The addresses of a stage in a WorkspaceType, each with what the workspaces there are held up by. kcp says both in the path:
/// `/services/initializingworkspaces/<logical cluster>:<type>`.
fn addresses(of: &Value, stage: HoldStage) -> Vec<(String, Hold)> {
    let service = match stage {
        HoldStage::Initializing => "/services/initializingworkspaces/",
        HoldStage::Terminating => "/services/terminatingworkspaces/",
    };
    let address = |one: &Value| {
        let url = one["url"].as_str()?.trim_end_matches('/');
        let (_, name) = url.split_once(service)?;
        (!name.is_empty() && !name.contains('/')).then(|| (url.to_owned(), Hold { stage, name: name.to_owned() }))
    };
    of["status"]["virtualWorkspaces"].as_array().into_iter().flatten().filter_map(address).collect()
}

impl HoldingType {
    fn addresses(&self) -> Vec<(String, Hold)> {
        let document = self.home.get(&self.name.name).and_then(|object| object.value().ok());
        document.map(|document| addresses(&document, self.stage)).unwrap_or_default()
    }

    fn trouble(&self) -> Option<String> {
        let Self { stage, name: kind, home } = self;
        let WorkspaceType { workspace, name } = kind;
        let rights = || format!("list and watch workspacetypes in workspace {workspace}");
        if let Some(refused) = refusal(home.state(), rights) {
            return Some(refused);
        }
        if *home.state() == WatchState::NotServed {
            let url = home.endpoint().url();
            return Some(format!("{url} serves no WorkspaceTypes: check the kubeconfig and the path"));
        }
        if home.get(name).is_none() {
            return Some(format!(
                "there is no WorkspaceType `{name}` in workspace {workspace}: create it, or correct its path"
            ));
        }
        let (entry, is_listed) = (stage.entry(), !self.addresses().is_empty());
        (!is_listed).then(|| format!("the WorkspaceType `{kind}` has no {entry}: set `spec.{entry}: true` in it"))
    }
}

impl Find for HeldUp {
    /// Which of the types, and what the workspaces are held up by.
    type Of = (usize, Hold);

    fn homes(&mut self) -> Vec<&mut Collection> {
        self.types.iter_mut().map(|of| &mut of.home).collect()
    }

    fn stand_ins(&self) -> (Vec<Resource>, Selectors) {
        (vec![Resource::new("core.kcp.io", "v1alpha1", "logicalclusters")], Selectors::default())
    }

    fn addresses(&self) -> BTreeMap<String, (usize, Hold)> {
        let listed = self.types.iter().map(HoldingType::addresses).enumerate();
        listed.flat_map(|(of, all)| all.into_iter().map(move |(url, hold)| (url, (of, hold)))).collect()
    }

    fn is_complete(&self) -> bool {
        self.types.iter().all(|of| of.home.is_synced() && !of.addresses().is_empty())
    }

    /// What they are held up by.
    fn identity(&self) -> Option<String> {
        let holds = self.addresses().into_values().map(|(_, hold)| hold.name);
        let names: BTreeSet<_> = holds.collect();
        self.is_complete().then(|| names.into_iter().collect::<Vec<_>>().join(","))
    }

    fn describe(
        &self,
        shard: &Shard<(usize, Hold)>,
        cluster: &ClusterName,
        _is_described: bool,
    ) -> Option<ClusterSpec> {
        let (_, hold) = &shard.of;
        let held = shard.stand_ins.of_cluster(cluster).into_iter().filter_map(|object| object.value().ok());
        let logical_cluster = held.into_iter().find(|value| hold.index_in(value).is_some())?;
        let path = logical_cluster.pointer("/metadata/annotations/kcp.io~1path").and_then(Value::as_str);
        let spec = shard.workspace(cluster);
        let scope = WatchScope { endpoint: spec.endpoint.clone(), clusters: ClustersOf::Annotated };
        let holding = Some(Holding { hold: hold.clone(), scope: shard.scope.clone() });
        Some(ClusterSpec { path: path.map(str::to_owned), scope, holding, ..spec })
    }

    /// A workspace may be deleted while it is initialized.
    fn rank(&self, (_, hold): &(usize, Hold)) -> usize {
        usize::from(hold.stage == HoldStage::Initializing)
    }

    fn trouble(&self) -> Option<String> {
        self.types.iter().find_map(HoldingType::trouble)
    }

    fn needed(&self, (of, _): &(usize, Hold)) -> String {
        let HoldingType { stage, name: WorkspaceType { workspace, name }, .. } = &self.types[*of];
        let verb = stage.verb();
        format!("have the verb `{verb}` on workspacetypes `{name}` in workspace {workspace}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_a_type_are_told_apart_by_their_service() {
        let found = serde_json::json!({"status": {"virtualWorkspaces": [
            {"type": "initializing", "url": "https://kcp:6443/services/initializingworkspaces/35g9:team"},
            {"url": "https://other:6443/services/initializingworkspaces/35g9:team/"},
            {"type": "terminating", "url": "https://kcp:6443/services/terminatingworkspaces/35g9:team"},
            {"url": "https://kcp:6443/services/initializingworkspaces/"},
        ]}});
        let of = |stage| addresses(&found, stage).into_iter().map(|(url, hold)| format!("{url} {}", hold.name));
        let expected = [
            "https://kcp:6443/services/initializingworkspaces/35g9:team 35g9:team",
            "https://other:6443/services/initializingworkspaces/35g9:team 35g9:team",
        ];
        assert_eq!(of(HoldStage::Initializing).collect::<Vec<_>>(), expected);
        assert_eq!(of(HoldStage::Terminating).count(), 1);
    }
}
