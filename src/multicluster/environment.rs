//! What a provider is, and what providers are made from. The providers themselves stand in [`crate::provider`].

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::connection::{Connection, ConnectionError, ConnectionSpec, Reloaded, flag};
use super::registry::{ProviderEvent, ProviderName};
use crate::health::{Condition, Health, Level};
use crate::mapping::{ApiExportRef, ClusterProvider, SourceClusters};
use crate::object::ClusterName;

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
    /// This replica's name, where there are several: servers are told it.
    pub replica: Option<Arc<str>>,
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

    /// A connection that no command line named: a provider found its configuration.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn open(&self, spec: ConnectionSpec) -> Result<Arc<Connection>, ConnectionError> {
        Connection::of_fleet(spec, self.replica.as_deref())
    }

    /// The condition of a provider.
    pub fn reporter(&self, provider: &ProviderName) -> Reporter {
        Reporter { health: self.health.clone(), what: condition_name(provider), trouble: Level::Waiting }
    }

    /// The condition of a connection's configuration.
    pub fn configuration_of(&self, connection: &str, trouble: Level) -> Reporter {
        Reporter { health: self.health.clone(), what: format!("configuration of connection {connection}"), trouble }
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

/// Whether a provider finds the addresses of its clusters at the address of this connection: where that changes, it starts
/// anew. A provider of one cluster follows its connection itself.
pub fn finds_by(provider: &ProviderName, document: Option<&ClusterProvider>, connection: &str) -> bool {
    match (provider, document) {
        (ProviderName::Source(SourceClusters::ApiExport(export)), _) => export.connection == connection,
        (ProviderName::Source(SourceClusters::Provider(_)), Some(document)) => {
            document.kind.parts().into_iter().any(|kind| kind.hub() == Some(connection))
        }
        (ProviderName::Source(SourceClusters::Provider(_)), None) | (ProviderName::Connection(_), _) => false,
    }
}

/// A condition of a provider's own.
#[derive(Debug, Clone)]
pub struct Reporter {
    health: Health,
    what: String,
    /// What it means that something is wrong.
    trouble: Level,
}

impl Reporter {
    /// Shows the state, and says a change aloud.
    pub fn report(&self, state: Result<(), String>) {
        self.set(Condition::of(state, self.trouble));
    }

    /// Only part of what the provider lists is wrong.
    pub fn degrade(&self, message: String) {
        self.set(Condition::degraded(message));
    }

    fn set(&self, condition: Condition) {
        let (is_in_order, message) = (condition.level == Level::Ready, condition.message.clone());
        if self.health.set(&self.what, condition) {
            match is_in_order {
                false => tracing::warn!("{}: {message}", self.what),
                true => tracing::info!("{}: in order", self.what),
            }
        }
    }

    /// The condition of one of the provider's clusters.
    pub fn of_cluster(&self, name: &ClusterName) -> Self {
        Self { health: self.health.clone(), what: format!("{}, cluster {name}", self.what), trouble: Level::Degraded }
    }

    /// There is nothing to report on any more.
    pub fn withdraw(&self) {
        self.health.remove(&self.what);
    }

    /// Says what a reload of a connection's configuration found; a broken one leaves what works in use.
    pub fn heed(&self, connection: &str, found: &Result<Reloaded, ConnectionError>) {
        let state = found.as_ref().map(|_| ()).map_err(ToString::to_string);
        let changed = self.health.set(&self.what, Condition::of(state, self.trouble));
        match found {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Credential) => tracing::info!(connection, "another credential is in use"),
            Ok(Reloaded::Address) => tracing::info!(connection, "another address is in use"),
            Err(error) if changed => tracing::error!("{error}; what was read before stays in use"),
            Err(_) => {}
        }
    }
}
