//! Runs providers and owns the lifecycle of clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::condition::Conditions;
use super::connection::Connection;
use super::registry::{Cluster, ProviderName, Reason};
use crate::mapping::ClusterProvider;
use crate::object::ClusterName;

/// What the manager tells its subscribers.
#[derive(Debug, Clone)]
pub enum ClusterEvent {
    Engaged(Arc<Cluster>),
    Disengaged(Arc<Cluster>, Reason),
    /// The provider has described all there is (maybe nothing).
    Synced(ProviderName),
    /// The provider's source identity became known, or is another.
    Identity(ProviderName, String),
}

/// The manager: cheap to clone.
#[derive(Debug, Clone)]
pub struct Manager {}

impl Manager {
    pub fn new(connections: BTreeMap<String, Arc<Connection>>, conditions: Conditions) -> Self {
        todo!()
    }
    /// The `ClusterProvider` documents in force. Providers in use whose document changed are replaced.
    pub fn configure(&self, documents: Vec<ClusterProvider>) {
        todo!()
    }
    /// Runs exactly these providers from now on: starts the new, stops those no longer named (`ProviderStopped`).
    pub fn run(&self, providers: impl IntoIterator<Item = ProviderName>) {
        todo!()
    }
    /// Events from now on, preceded by every cluster that is engaged.
    pub fn subscribe(&self) -> ClusterEvents {
        todo!()
    }
    pub fn clusters(&self, provider: &ProviderName) -> Vec<Arc<Cluster>> {
        todo!()
    }
    pub fn cluster(&self, provider: &ProviderName, name: &ClusterName) -> Option<Arc<Cluster>> {
        todo!()
    }
    pub fn identity(&self, provider: &ProviderName) -> Option<String> {
        todo!()
    }
    pub fn is_synced(&self, provider: &ProviderName) -> bool {
        todo!()
    }
    /// Gates dispatch: true with a single replica.
    pub fn owns(&self, cluster: &ClusterName) -> bool {
        true
    }
    pub fn connection(&self, name: &str) -> Option<Arc<Connection>> {
        todo!()
    }
    /// Stops every provider, disengages every cluster (`Shutdown`), and waits for the tasks.
    pub async fn shutdown(&self) {
        todo!()
    }
}

/// A subscriber's events: coalesced per cluster, so that a slow reader costs no memory.
#[derive(Debug)]
pub struct ClusterEvents {}

impl ClusterEvents {
    /// Cancel-safe. `None` after shutdown.
    pub async fn next(&mut self) -> Option<ClusterEvent> {
        todo!()
    }
}
