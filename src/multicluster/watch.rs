//! List, then watch: one resource of one endpoint, into a store, for as long as somebody holds the watch.

use std::sync::Arc;

use super::endpoint::Endpoint;
use super::registry::WatchScope;
use super::store::Store;
use crate::mapping::Resource;

/// What a watch shows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchState {
    /// The first list is not complete.
    Starting,
    /// Listed completely at least once since it was served, and watching.
    Synced,
    /// The server does not serve the resource (or, on kcp, nobody has bound it there): nothing is known, and nothing is evidence.
    NotServed,
    /// It was synced or not, and now fails; it goes on trying.
    Failed { reason: String, synced_before: bool },
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey {
    pub endpoint: String,
    pub resource: Resource,
    /// Empty: everything.
    pub label_selector: String,
    pub field_selector: String,
}

/// A running watch. Dropping the last handle ends it.
#[derive(Debug)]
pub struct Watch {}

impl Watch {
    pub fn store(&self) -> &Arc<Store> {
        todo!()
    }
    pub fn state(&self) -> WatchState {
        todo!()
    }
    /// Changes of the state.
    pub fn states(&self) -> tokio::sync::watch::Receiver<WatchState> {
        todo!()
    }
    pub fn key(&self) -> &WatchKey {
        todo!()
    }
}

/// All watches of the process, one per [`WatchKey`], shared by whoever asks.
#[derive(Debug, Default)]
pub struct Watches {}

impl Watches {
    /// The running watch of this scope, resource and selector, or a new one. Never waits.
    pub fn acquire(self: &Arc<Self>, scope: &WatchScope, resource: &Resource, selectors: &Selectors) -> Arc<Watch> {
        todo!()
    }
    /// The watches that run.
    pub fn running(&self) -> Vec<Arc<Watch>> {
        todo!()
    }
}

/// Server-side selectors of a watch, as they stand in the query.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selectors {
    pub label: String,
    pub field: String,
}

#[allow(unused)]
fn unused(_: &Endpoint) {}
