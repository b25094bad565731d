//! Connections: what the command line named, read as kubectl reads it.

use std::path::PathBuf;
use std::sync::Arc;

use super::endpoint::Endpoint;

/// One connection of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSpec {
    pub name: String,
    pub source: ConnectionSource,
}

/// Where a connection's address and credential come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionSource {
    /// A kubeconfig file; `context` `None`: its current context.
    Kubeconfig { path: PathBuf, context: Option<String> },
    /// The service account of the pod.
    InCluster,
    /// As kubectl: `KUBECONFIG` (a list), `~/.kube/config`, else in-cluster.
    Default { context: Option<String> },
}

/// What is wrong with a connection as the command line gave it (exit code 78).
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("placeholder")]
    Placeholder,
}

/// What a reload of a connection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    Unchanged,
    /// Swapped in place: every endpoint of the connection uses the new credential from now on.
    Credential,
    /// The server's address is another: clusters have to be replaced.
    Address,
}

/// A connection that works: one HTTP stack, shared by all endpoints made from it.
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// Reads the configuration. Talks to no server (an exec plugin runs with the first request).
    pub fn open(spec: ConnectionSpec) -> Result<Arc<Self>, ConnectionError> {
        todo!()
    }
    pub fn name(&self) -> &str {
        todo!()
    }
    /// The connection's own address.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        todo!()
    }
    /// Another address with the same credential, verbatim: an endpoint slice's URL.
    pub fn endpoint_at(self: &Arc<Self>, url: &str) -> Result<Endpoint, ConnectionError> {
        todo!()
    }
    /// The address of a workspace: `path` replaces the `/clusters/…` part of the connection's URL; `None`: as it stands.
    pub fn workspace(self: &Arc<Self>, path: Option<&str>) -> Result<Endpoint, ConnectionError> {
        todo!()
    }
    /// Reads the configuration again. A broken one keeps what works, and is returned to be said aloud.
    pub fn reload(&self) -> Result<Reloaded, ConnectionError> {
        todo!()
    }
}
