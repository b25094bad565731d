//! The connections of the command line: each file and context must exist before anything starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Misconfigured;
use super::arguments::{ConnectionArguments, Connections, WhichArguments};
use crate::catalog::Catalog;
use crate::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec, Process};
use crate::survey::Surveyor;

/// Opens every connection of a process.
///
/// # Errors
/// For the first connection whose kubeconfig or context cannot be used.
pub(super) fn open(
    given: BTreeMap<String, ConnectionSource>,
    process: &Process,
) -> Result<BTreeMap<String, Arc<Connection>>, Misconfigured> {
    let opened = |(name, source): (String, ConnectionSource)| {
        let connection = Connection::of_process(ConnectionSpec { name: name.clone(), source }, process);
        connection.map(|connection| (name, connection)).map_err(|error| Misconfigured(error.to_string()))
    };
    given.into_iter().map(opened).collect()
}

impl Connections {
    /// Reads the clusters of connections, for no engine.
    ///
    /// # Errors
    /// Where two flags give the same connection, or a kubeconfig or context cannot be used.
    fn surveyor(&self) -> anyhow::Result<Surveyor> {
        let has_kubeconfig = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
        let connections = open(self.for_verb(has_kubeconfig)?, &Process::default())?;
        Ok(Surveyor { connections, ..Surveyor::default() })
    }

    /// The same for an engine that may have these mappings.
    ///
    /// # Errors
    /// As above, and where several engines fit.
    pub(super) fn surveyor_of(&self, which: &WhichArguments, mappings: &[&str]) -> anyhow::Result<Surveyor> {
        which.complete(self.surveyor()?, mappings)
    }
}

impl ConnectionArguments {
    /// Reads the clusters of a catalog's mappings, for no engine.
    ///
    /// # Errors
    /// As [`Connections::surveyor`].
    pub(super) fn surveyor(&self, catalog: &Catalog) -> anyhow::Result<Surveyor> {
        Ok(Surveyor {
            machine: self.machine.given()?,
            providers: catalog.provider_kinds(),
            target: self.target.clone(),
            ..self.named.surveyor()?
        })
    }

    /// The same for the engine that has these mappings.
    ///
    /// # Errors
    /// As [`Connections::surveyor_of`].
    pub(super) fn surveyor_of(&self, which: &WhichArguments, catalog: &Catalog) -> anyhow::Result<Surveyor> {
        let mappings: Vec<&str> = catalog.mappings().map(|(name, _)| name).collect();
        which.complete(self.surveyor(catalog)?, &mappings)
    }
}
