//! Facts that reconciles read and that are no objects.

use sync_engine_mapping::Kind;
use sync_engine_mapping::object::ClusterName;

/// A fact that can change. Each names the cluster that it is a fact of, so that a change wakes nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic<C> {
    /// Whether a target serves a kind, and as which resource.
    Served(ClusterName, Kind),
    /// Whether a collection is listed completely and watched.
    Synced(C),
    /// The schema of the source's API, as an address publishes it.
    Schema(Box<str>),
    /// Which sources are placed into a namespace of a target.
    Placement(ClusterName, Box<str>),
    /// Which cluster a target is, and whether that is confirmed.
    Identity(ClusterName),
    /// Whether a workspace is bound, or a cluster is there.
    Binding(ClusterName),
    /// Whether the state store of a target is confirmed.
    Store(ClusterName),
    /// Whether somebody has approved a deletion that is held.
    Approval,
    /// Whether every source of the first lists was seen.
    PassComplete,
}
