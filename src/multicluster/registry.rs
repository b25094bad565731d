//! Which clusters there are: what providers say, turned into engage and disengage. Pure.

use std::sync::Arc;

use super::endpoint::Endpoint;
use crate::mapping::SourceClusters;
use crate::object::ClusterName;

/// Who describes clusters: a mapping's `source` names it.
pub type ProviderName = SourceClusters;

/// A cluster as its provider describes it.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    pub name: ClusterName,
    /// Workspace path, where there is one (`root:orgs:acme`).
    pub path: Option<String>,
    /// Where the cluster itself is read and written.
    pub endpoint: Endpoint,
    /// Where its objects are watched: shared by all clusters of a kcp shard.
    pub scope: WatchScope,
}

/// One address at which objects of one or of many clusters are listed and watched.
#[derive(Debug, Clone)]
pub struct WatchScope {
    pub endpoint: Endpoint,
    pub clusters: ClustersOf,
}

/// Whose objects a scope serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClustersOf {
    One(ClusterName),
    /// A kcp wildcard: the annotation `kcp.io/cluster` of each object says it.
    Annotated,
}

/// An engaged cluster. A new value for each engagement: compare with `Arc::ptr_eq`.
#[derive(Debug)]
pub struct Cluster {
    pub provider: ProviderName,
    pub spec: ClusterSpec,
}

/// Why a cluster is no longer engaged. None of them means that objects were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    Removed,
    Replaced,
    NotReady,
    EndpointLost,
    NotOwned,
    ProviderStopped,
    Shutdown,
}

/// What a provider sends.
#[derive(Debug, Clone)]
pub enum ProviderEvent {
    Apply(ClusterSpec),
    Gone(ClusterName, Reason),
    /// Everything there is was applied since the stream (re)started. No cluster at all is a normal case.
    Synced,
    /// Identity of the source: uid of the APIExport, or of the cluster.
    Identity(String),
}

/// What follows from a provider's event.
#[derive(Debug, Clone)]
pub enum Transition {
    Engage(Arc<Cluster>),
    Disengage(Arc<Cluster>, Reason),
}
