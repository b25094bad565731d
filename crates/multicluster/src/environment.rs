//! What a provider is, and what providers are made from. The providers themselves stand in [`crate::provider`].
//!
//! A program that embeds the engine adds providers of its own: see [`Members`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::connection::{
    Connection, ConnectionError, ConnectionSource, ConnectionSpec, Process, Reloaded, flag, listed,
};
use super::directory::Reading;
use super::registry::ProviderName;
use super::watch::Watches;
use crate::health::{Condition, Health, Level};
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::{ApiExportRef, ClusterProvider, SourceClusters, Traits};

/// Lists clusters. This is what a provider of your own has to say; the engine does the rest: it follows each cluster, tells
/// clusters apart by their identity, and swaps credentials. `examples/custom_provider.rs` shows a whole one.
pub trait Members: Send + 'static {
    /// Every cluster there is, by its name. A cluster that is left out is out of sight: its objects stay.
    ///
    /// # Errors
    /// Why that cannot be told now, for `/readyz`. The clusters of the last answer stay.
    fn look(&mut self) -> impl Future<Output = Result<Listed, String>> + Send;

    /// Until another look may find something else.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// What a look found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Listed {
    /// How each cluster is reached. A cluster whose source is another than before is left and joined anew; so a kubeconfig that
    /// changes stays the same [`Held`](super::connection::Held), and is replaced in it.
    pub members: BTreeMap<ClusterName, ConnectionSource>,
    /// What is listed and cannot be a member, and why.
    pub refused: Vec<String>,
    /// By what mappings select clusters, where there is any.
    pub traits: BTreeMap<ClusterName, Traits>,
}

/// [`Members`] of any type.
pub trait AnyMembers: Send {
    fn look(&mut self) -> BoxFuture<'_, Result<Listed, String>>;
    fn changed(&mut self) -> BoxFuture<'_, ()>;
}

impl<M: Members> AnyMembers for M {
    fn look(&mut self) -> BoxFuture<'_, Result<Listed, String>> {
        Box::pin(Members::look(self))
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(Members::changed(self))
    }
}

/// The providers of a program that embeds the engine, by the names that `spec.custom.name` of a `ClusterProvider` refers to.
#[derive(Clone, Default)]
pub struct CustomProviders(BTreeMap<String, Arc<Make>>);

type Make = dyn Fn(&Value) -> Result<Box<dyn AnyMembers>, String> + Send + Sync;

impl CustomProviders {
    /// Registers a provider. `make` is given `spec.custom.parameters`, and says what is wrong with them; it may be called
    /// again at any time.
    #[must_use]
    pub fn with<M: Members>(
        mut self,
        name: &str,
        make: impl Fn(&Value) -> Result<M, String> + Send + Sync + 'static,
    ) -> Self {
        let make = move |parameters: &Value| Ok(Box::new(make(parameters)?) as Box<dyn AnyMembers>);
        self.0.insert(name.to_owned(), Arc::new(make));
        self
    }

    /// # Errors
    /// There is none of this name, or it refuses the parameters.
    pub fn make(&self, name: &str, parameters: &Value) -> Result<Box<dyn AnyMembers>, String> {
        let make = self.0.get(name).ok_or_else(|| {
            let known = listed(self.0.keys().map(String::as_str));
            format!("this program has no custom provider `{name}` (it has: {known}); see docs/providers.md")
        })?;
        make(parameters).map_err(|why| format!("`spec.custom.parameters` of the provider `{name}`: {why}"))
    }
}

impl fmt::Debug for CustomProviders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// How a connection is opened whose files may hang.
pub type Opening = Reading<Result<Arc<Connection>, ConnectionError>>;

/// What providers are made from.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub connections: Arc<BTreeMap<String, Arc<Connection>>>,
    pub health: Health,
    pub process: Process,
    pub custom: CustomProviders,
    /// What providers watch, each collection once. Their own conditions speak for these watches.
    pub watches: Arc<Watches>,
}

impl Environment {
    /// The connection of this name; the error says which there are.
    pub fn connection(&self, name: &str) -> Result<Arc<Connection>, String> {
        let missing = || {
            let known = listed(self.connections.keys().map(String::as_str));
            format!("there is no connection `{name}` (there are: {known}); add `{}`", flag(name))
        };
        self.connections.get(name).cloned().ok_or_else(missing)
    }

    /// A connection that no command line named: a provider found its configuration. A mount that hangs keeps the thread of
    /// `opening`, however often it is asked.
    ///
    /// # Errors
    /// The configuration cannot be used, or not read in time.
    pub async fn open(&self, spec: ConnectionSpec, opening: &mut Opening) -> Result<Arc<Connection>, String> {
        let (process, name) = (self.process.clone(), spec.name.clone());
        let is_in_process = matches!(spec.source, ConnectionSource::InProcess(_));
        let open = move || Connection::of_fleet(spec, &process);
        // Servers in this process have no files.
        let opened = match is_in_process {
            true => open(),
            false => opening.of(open).await.unwrap_or_else(|why| Err(ConnectionError::unread(&name, &why))),
        };
        opened.map_err(|error| error.to_string())
    }

    /// The condition of a provider.
    pub fn reporter(&self, provider: &ProviderName) -> Reporter {
        Reporter { health: self.health.clone(), what: condition_name(provider), trouble: Level::Waiting }
    }

    /// The condition of a connection whose server gives no answer.
    pub fn answers_of(&self, connection: &Connection) -> Reporter {
        let what = format!("answers of connection {}", connection.name());
        Reporter { health: self.health.clone(), what, trouble: connection.trouble() }
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
                false => tracing::warn!(component = self.what, why = message, "not in order"),
                true => tracing::info!(component = self.what, "in order"),
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
    pub fn report_reload(&self, connection: &str, found: &Result<Reloaded, ConnectionError>) {
        let state = found.as_ref().map(|_| ()).map_err(ToString::to_string);
        let changed = self.health.set(&self.what, Condition::of(state, self.trouble));
        match found {
            Ok(Reloaded::Unchanged) => {}
            Ok(Reloaded::Credential) => tracing::info!(connection, "another credential is in use"),
            Ok(Reloaded::Address) => tracing::info!(connection, "another address is in use"),
            Err(error) if changed => {
                tracing::error!(connection, %error, "the connection cannot be read anew: what was read before stays in use")
            }
            Err(_) => {}
        }
    }
}
