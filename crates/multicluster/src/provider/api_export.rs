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
use crate::Object;
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
        let binds = |binding: &Binding| binding.binds(&self.export.name, export_cluster.as_deref());
        let binding = described_by(&shard.stand_ins.of_cluster(cluster), binds, is_described)?;
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

/// The binding that describes a workspace: the one that is bound. Else one that is being deleted, or any, where it `is_described`: it was
/// bound. A tenant may have any number of bindings, and kcp binds one of them: texts tell it from the others, which are not read.
fn described_by(all: &[Arc<Object>], binds: impl Fn(&Binding) -> bool, is_described: bool) -> Option<Binding> {
    let read = |object: &Arc<Object>| parsed::<Binding>(object).filter(&binds);
    let mut bound = all.iter().filter(|object| object.json().contains(r#""Bound""#));
    let mut others = all.iter().filter(|object| is_described || object.deleting());
    bound.find_map(|object| read(object).filter(Binding::is_bound)).or_else(|| others.find_map(read))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_binding_that_is_bound_describes_its_workspace_and_no_other_one_is_read() {
        let binding = |number: u32, phase: &str| {
            let reference = json!({"export": {"name": "db"}});
            let (metadata, spec) = (json!({"name": format!("b{number:03}")}), json!({"reference": reference}));
            let text = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}}).to_string();
            Arc::new(Object::from_json(text.as_bytes()).expect("an object"))
        };
        for (last, is_described, described, most) in [
            ("Bound", false, Some(true), 1),
            ("Bound", true, Some(true), 1),
            ("Binding", true, Some(false), 1),
            ("Binding", false, None, 0),
        ] {
            let all: Vec<_> = (0..100).map(|number| binding(number, "Binding")).chain([binding(100, last)]).collect();
            let read = Cell::new(0);
            let binds = |binding: &Binding| {
                read.set(read.get() + 1);
                binding.binds("db", None)
            };
            let found = described_by(&all, binds, is_described);
            let is_bound = found.as_ref().map(Binding::is_bound);
            assert_eq!((is_bound, read.get()), (described, most), "{last} {is_described}");
        }
    }
}
