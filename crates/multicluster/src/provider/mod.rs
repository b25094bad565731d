//! Where clusters come from: one file a provider. A provider only describes; the manager decides. What `run` tells is a
//! restartable, level-based stream: it never ends on a server's failure, but says so in its condition and goes on trying.

mod api_export;
mod cluster_inventory;
mod discovery;
mod files;
mod fleet;
mod fleet_members;
mod hub;
pub mod kcp;
mod kind;
mod kubeconfig;
pub mod members;
mod namespaces;
mod secrets;
mod workspace_types;
mod workspaces;

use futures::future::{BoxFuture, pending};
use tokio::sync::mpsc;

use self::fleet::Fleet;
use self::kubeconfig::KubeconfigProvider;
use self::members::Groups;
use self::namespaces::NamespacesProvider;
use crate::environment::Environment;
use crate::registry::{ProviderEvent, ProviderName};
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::object::hold::HoldStage;
use sync_engine_mapping::{ClusterProvider, ProviderKind, SourceClusters};

/// Runs the provider of this name; the document is the `ClusterProvider` that it refers to. One that cannot be made says why in
/// its condition, and describes nothing: only another document or command line changes that.
pub(super) fn run(
    environment: Environment,
    name: ProviderName,
    document: Option<ClusterProvider>,
    events: mpsc::Sender<ProviderEvent>,
) -> BoxFuture<'static, ()> {
    start(&environment, &name, document, events).unwrap_or_else(|message| {
        environment.reporter(&name).report(Err(message));
        Box::pin(pending())
    })
}

fn start(
    environment: &Environment,
    name: &ProviderName,
    document: Option<ClusterProvider>,
    events: mpsc::Sender<ProviderEvent>,
) -> Result<BoxFuture<'static, ()>, String> {
    let Environment { custom, process, watches, .. } = environment;
    let condition = environment.reporter(name);
    let connection = |name: &str| environment.connection(name);
    let cluster_of = |to: &str, name: &str| {
        let (connection, name) = (connection(to)?, ClusterName::try_from(name).map_err(|error| error.to_string())?);
        Ok::<_, String>(KubeconfigProvider { connection, name })
    };
    let clusters = match name {
        ProviderName::Connection(name) => return Ok(Box::pin(cluster_of(name, name)?.run(None, events))),
        ProviderName::Source(clusters) => clusters,
    };
    let ClusterProvider { name, kind } = match (clusters, document) {
        (SourceClusters::ApiExport(export), _) => {
            let (connection, export) = (connection(&export.connection)?, export.clone());
            return Ok(Box::pin(api_export::workspaces(connection, export, condition, watches)?.run(events)));
        }
        (SourceClusters::Provider(name), None) => {
            return Err(format!(
                "there is no good document of the ClusterProvider `{name}`: add it, correct its errors (the log and \
                 `/readyz?verbose` tell them), or correct the name in the mapping"
            ));
        }
        (SourceClusters::Provider(_), Some(provider)) => provider,
    };
    Ok(match kind {
        ProviderKind::Kubeconfig(one) => Box::pin(cluster_of(&one.connection, &name)?.run(Some(condition), events)),
        ProviderKind::Namespaces(of) => {
            let (whole, selector, watches) = (cluster_of(&of.connection, &name)?, of.selector, watches.clone());
            Box::pin(NamespacesProvider { whole, selector, condition, watches }.run(events))
        }
        ProviderKind::WorkspaceTypes(of) => {
            let types = [(HoldStage::Initializing, of.initializing), (HoldStage::Terminating, of.terminating)];
            let types = types.into_iter().filter_map(|(stage, of)| Some((stage, of?))).collect();
            Box::pin(workspace_types::workspaces(connection(&of.connection)?, types, condition, watches)?.run(events))
        }
        kind => {
            let groups = Groups::of(&name, &kind, connection, custom, &process.machine, watches)?;
            Box::pin(Fleet { name, groups, environment: environment.clone(), condition }.run(events))
        }
    })
}
