//! Where clusters come from: one file a provider. A provider only describes; the manager decides.

pub mod api_export;
mod cluster_api;
mod cluster_inventory;
mod files;
mod fleet;
mod hub;
pub mod kcp;
mod kind;
pub mod kubeconfig;
pub mod members;
mod namespaces;
mod roll;
mod secrets;
mod workspace_types;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use self::fleet::Fleet;
use self::members::Groups;
use crate::environment::{Environment, Provider};
use crate::manager::Manager;
use crate::registry::{ProviderEvent, ProviderName};
use sync_engine_mapping::{ApiExportRef, ClusterProvider, ProviderKind, SourceClusters};

/// A manager that knows every kind of provider.
pub fn manager(environment: Environment) -> Manager {
    Manager::new(environment, run)
}

/// Every kind of provider.
pub enum AnyProvider {
    ApiExport(api_export::ApiExportProvider),
    Kubeconfig(kubeconfig::KubeconfigProvider),
    Namespaces(namespaces::NamespacesProvider),
    WorkspaceTypes(workspace_types::WorkspaceTypesProvider),
    Fleet(Fleet),
    /// It cannot be made from what was given: its condition says why.
    Unusable,
}

impl AnyProvider {
    fn build(
        environment: &Environment,
        name: &ProviderName,
        document: Option<ClusterProvider>,
    ) -> Result<Self, String> {
        let condition = environment.reporter(name);
        let connection = |name: &str| environment.connection(name);
        let clusters = match name {
            ProviderName::Connection(name) => {
                return kubeconfig::KubeconfigProvider::new(connection(name)?, name, None).map(Self::Kubeconfig);
            }
            ProviderName::Source(clusters) => clusters,
        };
        let of_export = |export: &ApiExportRef| {
            let connection = connection(&export.connection)?;
            api_export::ApiExportProvider::new(connection, export.clone(), condition.clone()).map(Self::ApiExport)
        };
        let ClusterProvider { name, kind } = match (clusters, document) {
            (SourceClusters::ApiExport(export), _) => return of_export(export),
            (SourceClusters::Provider(name), None) => {
                return Err(format!(
                    "there is no ClusterProvider `{name}`: add its document, or correct the name in the mapping"
                ));
            }
            (SourceClusters::Provider(_), Some(provider)) => provider,
        };
        match kind {
            ProviderKind::Kubeconfig { connection: to } => {
                kubeconfig::KubeconfigProvider::new(connection(&to)?, &name, Some(condition)).map(Self::Kubeconfig)
            }
            ProviderKind::Namespaces { connection: to, selector } => {
                namespaces::NamespacesProvider::new(connection(&to)?, &name, &selector, condition).map(Self::Namespaces)
            }
            ProviderKind::WorkspaceTypes { connection: to, initializing, terminating } => {
                let connection = connection(&to)?;
                workspace_types::WorkspaceTypesProvider::new(connection, initializing, terminating, condition)
                    .map(Self::WorkspaceTypes)
            }
            kind => {
                let provider = ClusterProvider { name: name.clone(), kind };
                let groups = Groups::of(&provider, connection, &environment.custom, &environment.process.machine)?;
                Ok(Self::Fleet(Fleet { name, groups, environment: environment.clone(), condition }))
            }
        }
    }
}

/// Runs the provider of this name. One that cannot be made says why in its condition, and describes nothing.
fn run(
    environment: Environment,
    name: ProviderName,
    document: Option<ClusterProvider>,
    events: mpsc::Sender<ProviderEvent>,
) -> BoxFuture<'static, ()> {
    let provider = AnyProvider::build(&environment, &name, document).unwrap_or_else(|message| {
        environment.reporter(&name).report(Err(message));
        AnyProvider::Unusable
    });
    Box::pin(provider.run(events))
}

impl Provider for AnyProvider {
    async fn run(self, events: mpsc::Sender<ProviderEvent>) {
        match self {
            Self::ApiExport(provider) => provider.run(events).await,
            Self::Kubeconfig(provider) => provider.run(events).await,
            Self::Namespaces(provider) => provider.run(events).await,
            Self::WorkspaceTypes(provider) => provider.run(events).await,
            Self::Fleet(provider) => provider.run(events).await,
            // Nothing will come: only another document or command line changes that.
            Self::Unusable => std::future::pending().await,
        }
    }
}
