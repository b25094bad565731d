//! Where clusters come from: one file a provider. A provider only describes; the manager decides.

pub mod api_export;
pub(crate) mod kcp;
pub mod kubeconfig;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::health::Health;
use crate::mapping::{ClusterProvider, ProviderKind, SourceClusters};
use crate::multicluster::connection::Connection;
use crate::multicluster::environment::{Environment, Provider};
use crate::multicluster::manager::Manager;
use crate::multicluster::registry::{ProviderEvent, ProviderName};

/// A manager that knows every kind of provider.
pub fn manager(connections: BTreeMap<String, Arc<Connection>>, health: Health) -> Manager {
    Manager::new(Environment { connections: Arc::new(connections), health }, run)
}

/// Every kind of provider.
pub enum AnyProvider {
    ApiExport(api_export::ApiExportProvider),
    Kubeconfig(kubeconfig::KubeconfigProvider),
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
        match (name, document.map(|document| (document.name, document.kind))) {
            (ProviderName::Connection(name), _) => {
                let connection = environment.connection(name)?;
                kubeconfig::KubeconfigProvider::new(connection, name, None).map(Self::Kubeconfig)
            }
            (ProviderName::Source(SourceClusters::ApiExport(export)), _) => {
                let connection = environment.connection(&export.connection)?;
                api_export::ApiExportProvider::new(connection, export.clone(), condition).map(Self::ApiExport)
            }
            (
                ProviderName::Source(SourceClusters::Provider(_)),
                Some((name, ProviderKind::Kubeconfig { connection })),
            ) => {
                let connection = environment.connection(&connection)?;
                kubeconfig::KubeconfigProvider::new(connection, &name, Some(condition)).map(Self::Kubeconfig)
            }
            (ProviderName::Source(SourceClusters::Provider(_)), Some((name, ProviderKind::NotYet(kind)))) => {
                Err(format!("the provider `{kind}` of ClusterProvider `{name}` is not supported yet"))
            }
            (ProviderName::Source(SourceClusters::Provider(name)), None) => {
                Err(format!("there is no ClusterProvider `{name}`: add its document, or correct `source.provider`"))
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
            // Nothing will come: only another document or command line changes that.
            Self::Unusable => std::future::pending().await,
        }
    }
}
