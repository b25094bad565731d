//! What a provider is, and what providers are made from. The providers themselves stand in [`crate::provider`].

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::connection::{Connection, flag};
use super::registry::{ProviderEvent, ProviderName};
use crate::health::Health;
use crate::mapping::{ApiExportRef, ClusterProvider, SourceClusters};

/// A restartable, level-based stream of cluster descriptions.
pub trait Provider: Send + 'static {
    /// Describes clusters until dropped. Never ends on a server's failure: it says so in its condition and goes on trying.
    fn run(self, events: mpsc::Sender<ProviderEvent>) -> impl Future<Output = ()> + Send;
}

/// Runs the provider of a name; the document is the `ClusterProvider` that the name refers to.
pub type Describe =
    fn(Environment, ProviderName, Option<ClusterProvider>, mpsc::Sender<ProviderEvent>) -> BoxFuture<'static, ()>;

/// What providers are made from.
#[derive(Debug, Clone)]
pub struct Environment {
    pub connections: Arc<BTreeMap<String, Arc<Connection>>>,
    pub health: Health,
}

impl Environment {
    /// The connection of this name; the error says which there are.
    pub fn connection(&self, name: &str) -> Result<Arc<Connection>, String> {
        let missing = || {
            let known: Vec<&str> = self.connections.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("there is no connection `{name}` (there are: {known}); add `{}`", flag(name))
        };
        self.connections.get(name).cloned().ok_or_else(missing)
    }

    /// The condition of a provider.
    pub fn reporter(&self, provider: &ProviderName) -> Reporter {
        Reporter { health: self.health.clone(), what: condition_name(provider) }
    }
}

/// The name under which a provider's condition stands.
pub fn condition_name(provider: &ProviderName) -> String {
    let clusters = match provider {
        ProviderName::Connection(name) => return format!("target {name}"),
        ProviderName::Source(clusters) => clusters,
    };
    match clusters {
        SourceClusters::ApiExport(ApiExportRef { name, path: Some(path), .. }) => format!("APIExport {name} of {path}"),
        SourceClusters::ApiExport(ApiExportRef { name, connection, .. }) => format!("APIExport {name} of {connection}"),
        SourceClusters::Provider(name) => format!("ClusterProvider {name}"),
    }
}

/// The connection at whose address a provider finds the addresses of its clusters: where that changes, it starts anew. A
/// provider of one cluster follows its connection itself.
pub fn connection_of(provider: &ProviderName) -> Option<&str> {
    match provider {
        ProviderName::Source(SourceClusters::ApiExport(export)) => Some(&export.connection),
        ProviderName::Source(SourceClusters::Provider(_)) | ProviderName::Connection(_) => None,
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
    pub fn report(&self, state: Result<(), String>) {
        let message = state.as_ref().err().cloned();
        if self.health.report(&self.what, state) {
            match message {
                Some(message) => tracing::warn!("{}: {message}", self.what),
                None => tracing::info!("{}: in order", self.what),
            }
        }
    }
}
