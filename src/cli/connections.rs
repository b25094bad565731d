//! The connections of the command line: each file and context must exist before anything starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Misconfigured;
use super::arguments::ConnectionArguments;
use super::options::KubeconfigRef;
use crate::catalog::Catalog;
use crate::multicluster::connection::{Connection, ConnectionSpec, Process};
use crate::survey::Surveyor;

/// Opens every connection of a process.
///
/// # Errors
/// For the first connection whose kubeconfig or context cannot be used.
pub(super) fn open(
    given: BTreeMap<String, KubeconfigRef>,
    process: &Process,
) -> Result<BTreeMap<String, Arc<Connection>>, Misconfigured> {
    let opened = |(name, reference): (String, KubeconfigRef)| {
        let connection =
            Connection::of_process(ConnectionSpec { name: name.clone(), source: reference.into() }, process);
        connection.map(|connection| (name, connection)).map_err(|error| Misconfigured(error.to_string()))
    };
    given.into_iter().map(opened).collect()
}

impl ConnectionArguments {
    /// Reads the clusters of a catalog's mappings.
    ///
    /// # Errors
    /// Where two flags give the same connection, or a kubeconfig or context cannot be used.
    pub(super) fn surveyor(&self, catalog: &Catalog, engine: &str, home: &str) -> anyhow::Result<Surveyor> {
        let has_kubeconfig = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
        Ok(Surveyor {
            connections: open(self.by_name(has_kubeconfig)?, &Process::default())?,
            machine: self.named.machine.given()?,
            providers: catalog.providers().map(|provider| (provider.name.clone(), provider.kind.clone())).collect(),
            engine: engine.to_owned(),
            home: home.to_owned(),
            target: self.target.clone(),
        })
    }
}
