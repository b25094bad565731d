//! Every workspace bound to a kcp APIExport.
//!
//! The export's endpoint slice lists one address per shard that has a consumer; at each of them the APIBindings of the export
//! can be watched across all workspaces. A workspace is described from the moment its binding is Bound until the binding is
//! gone, its deletion included: its objects still carry the engine's finalizers then.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::discovery::{Collection, home, parsed, refusal};
use super::kcp::{self, Binding, EndpointSlice};
use super::workspaces::{Find, Shard, Workspaces};
use crate::connection::Connection;
use crate::environment::Reporter;
use crate::raw::CLUSTER_ANNOTATION;
use crate::registry::ClusterSpec;
use crate::watch::{Selectors, WatchState, Watches};
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::{ApiExportRef, Resource};

/// The consumers of an APIExport.
pub(super) struct Consumers {
    export: ApiExportRef,
    /// The endpoint slices and the exports of its workspace.
    slices: Collection,
    exports: Collection,
    /// The workspace of the export: its address, and what people call it.
    url: String,
    home: String,
}

/// The workspaces bound to one APIExport.
pub(super) fn workspaces(
    connection: Arc<Connection>,
    export: ApiExportRef,
    condition: Reporter,
    watches: &Arc<Watches>,
) -> Result<Workspaces<Consumers>, String> {
    let workspace = connection.workspace(export.path.as_deref()).map_err(|error| error.to_string())?;
    // All of them: so the exports of a workspace share both watches.
    let follow = |versions: &[Resource], only: &'static [&'static str]| {
        Collection::follow(watches, home(&workspace), versions, Selectors { only, ..Selectors::default() })
    };
    let (slices, exports) = (follow(&[kcp::endpoint_slices()], &[]), follow(&kcp::exports(), &kcp::READ_OF_EXPORTS));
    let url = workspace.url().to_owned();
    let home = match &export.path {
        Some(path) => format!("workspace {path}"),
        None => format!("the workspace at {url}"),
    };
    let consumers = Consumers { export, slices, exports, url, home };
    Ok(Workspaces::new(consumers, connection, condition, watches))
}

impl Consumers {
    fn slice(&self) -> Option<EndpointSlice> {
        let chosen = |slices: &[EndpointSlice]| kcp::choose(slices, &self.export).cloned();
        let name = self.export.endpoint_slice.as_ref().unwrap_or(&self.export.name);
        // All are read only where none has the name: there may be a thousand.
        let named: Option<EndpointSlice> = self.slices.get(name).as_deref().and_then(parsed);
        let all = || self.slices.all().filter_map(|slice| parsed(&slice)).collect::<Vec<_>>();
        chosen(named.as_slice()).or_else(|| chosen(&all()))
    }

    /// Logical cluster of the export.
    fn export_cluster(&self) -> Option<String> {
        let export = self.exports.get(&self.export.name)?.value().ok()?;
        kcp::annotation(&export, CLUSTER_ANNOTATION).map(str::to_owned)
    }
}

impl Find for Consumers {
    type Of = ();

    fn homes(&mut self) -> Vec<&mut Collection> {
        vec![&mut self.slices, &mut self.exports]
    }

    fn stand_ins(&self) -> (Vec<Resource>, Selectors) {
        (kcp::bindings().into(), Selectors { only: &kcp::READ_OF_BINDINGS, ..Selectors::default() })
    }

    fn addresses(&self) -> BTreeMap<String, ()> {
        let slice = self.slice().unwrap_or_default();
        slice.urls().into_iter().map(|url| (url.trim_end_matches('/').to_owned(), ())).collect()
    }

    fn is_complete(&self) -> bool {
        self.slices.is_synced() && self.slice().is_some()
    }

    /// The hash tells whether two exports share their storage: the same API may move to another export.
    fn identity(&self) -> Option<String> {
        let export = self.exports.get(&self.export.name)?;
        Some(export.value().ok()?["status"]["identityHash"].as_str()?.to_owned())
    }

    fn describe(&self, shard: &Shard<()>, cluster: &ClusterName, is_described: bool) -> Option<ClusterSpec> {
        let export_cluster = self.export_cluster();
        let binding = shard.stand_ins.of_cluster(cluster).into_iter().find_map(|object| {
            let binding: Binding = parsed(&object)?;
            let is_seen = is_described || binding.is_bound() || object.deleting();
            (is_seen && binding.binds(&self.export.name, export_cluster.as_deref())).then_some(binding)
        })?;
        let (path, claims) = (binding.workspace_path(), Some(binding.claims()));
        Some(ClusterSpec { path, claims, ..shard.workspace(cluster) })
    }

    fn trouble(&self) -> Option<String> {
        let Self { export: ApiExportRef { name, endpoint_slice, .. }, slices, exports, url, home } = self;
        let rights = || format!("get, list and watch apiexports and apiexportendpointslices in {home}");
        if let Some(refused) = refusal(slices.state(), rights) {
            return Some(refused);
        }
        if *slices.state() == WatchState::NotServed {
            return Some(format!(
                "{url} serves no APIExportEndpointSlices: check that the kubeconfig leads to a kcp workspace, and `apiExport.path`"
            ));
        }
        if exports.is_synced() && exports.get(name).is_none() {
            return Some(format!("there is no APIExport `{name}` in {home}: create it, or correct `source.apiExport`"));
        }
        if self.slice().is_none() {
            return Some(match endpoint_slice {
                Some(slice) => {
                    format!("there is no APIExportEndpointSlice `{slice}` in {home}: correct `apiExport.endpointSlice`")
                }
                None => format!(
                    "no APIExportEndpointSlice in {home} refers to APIExport `{name}`: kcp makes one with the export, or create one"
                ),
            });
        }
        refusal(exports.state(), rights)
    }

    fn needed(&self, (): &()) -> String {
        format!("have all verbs on apiexports/content of `{}` in {}", self.export.name, self.home)
    }
}
