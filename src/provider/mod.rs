//! Where clusters come from: one file a provider. A provider only describes; the manager decides.

pub mod api_export;
mod kcp;
pub mod kubeconfig;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::health::Health;
use crate::mapping::{ApiExportRef, ClusterProvider, ProviderKind};
use crate::multicluster::connection::Connection;
use crate::multicluster::registry::{ProviderEvent, ProviderName};

/// A restartable, level-based stream of cluster descriptions.
pub trait Provider: Send + 'static {
    /// Describes clusters until dropped. Never ends on a server's failure: it says so in its condition and goes on trying.
    fn run(self, events: mpsc::Sender<ProviderEvent>) -> impl Future<Output = ()> + Send;
}

/// What providers are made from.
#[derive(Debug, Clone)]
pub struct Environment {
    pub connections: Arc<BTreeMap<String, Arc<Connection>>>,
    pub health: Health,
}

/// Every kind of provider.
pub enum AnyProvider {
    ApiExport(api_export::ApiExportProvider),
    Kubeconfig(kubeconfig::KubeconfigProvider),
    /// It cannot be made from what was given: its condition says why.
    Unusable,
}

impl Environment {
    /// The provider of this name; `document` is the `ClusterProvider` it refers to.
    pub fn describe(&self, name: &ProviderName, document: Option<&ClusterProvider>) -> AnyProvider {
        self.build(name, document).unwrap_or_else(|message| {
            tracing::error!("{}: {message}", condition_name(name));
            self.health.report(&condition_name(name), Err(message));
            AnyProvider::Unusable
        })
    }

    fn build(&self, name: &ProviderName, document: Option<&ClusterProvider>) -> Result<AnyProvider, String> {
        let condition = Reporter { health: self.health.clone(), what: condition_name(name) };
        match (name, document.map(|document| (&document.name, &document.kind))) {
            (ProviderName::ApiExport(export), _) => {
                let connection = self.connection(&export.connection)?;
                let provider = api_export::ApiExportProvider::new(connection, export.clone(), condition)?;
                Ok(AnyProvider::ApiExport(provider))
            }
            (ProviderName::Provider(_), Some((name, ProviderKind::Kubeconfig { connection }))) => {
                let connection = self.connection(connection)?;
                Ok(AnyProvider::Kubeconfig(kubeconfig::KubeconfigProvider::new(connection, name, condition)?))
            }
            (ProviderName::Provider(name), None) => {
                Err(format!("there is no ClusterProvider `{name}`: add its document, or correct `source.provider`"))
            }
        }
    }

    fn connection(&self, name: &str) -> Result<Arc<Connection>, String> {
        let missing = || {
            let known: Vec<&str> = self.connections.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("there is no connection `{name}` (there are: {known}); add `--kubeconfig {name}=PATH[#CONTEXT]`")
        };
        self.connections.get(name).cloned().ok_or_else(missing)
    }
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

/// The name under which a provider's condition stands.
pub fn condition_name(provider: &ProviderName) -> String {
    match provider {
        ProviderName::ApiExport(ApiExportRef { name, path: Some(path), .. }) => format!("APIExport {name} of {path}"),
        ProviderName::ApiExport(ApiExportRef { name, connection, .. }) => format!("APIExport {name} of {connection}"),
        ProviderName::Provider(name) => format!("ClusterProvider {name}"),
    }
}

/// The connection that a provider uses.
pub fn connection_of<'a>(provider: &'a ProviderName, documents: &'a [ClusterProvider]) -> Option<&'a str> {
    match provider {
        ProviderName::ApiExport(export) => Some(&export.connection),
        ProviderName::Provider(name) => documents.iter().find(|document| document.name == *name).map(|document| {
            let ProviderKind::Kubeconfig { connection } = &document.kind;
            connection.as_str()
        }),
    }
}

/// A provider's own condition.
#[derive(Debug, Clone)]
pub struct Reporter {
    health: Health,
    what: String,
}

impl Reporter {
    /// Shows the state, and says a change aloud.
    fn report(&self, state: Result<(), String>) {
        let message = state.as_ref().err().cloned();
        if self.health.report(&self.what, state) {
            match message {
                Some(message) => tracing::warn!("{}: {message}", self.what),
                None => tracing::info!("{}: in order", self.what),
            }
        }
    }
}
