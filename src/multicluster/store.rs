//! The cache of one watch: objects by (cluster, namespace, name), with uid.

use std::sync::Arc;

use super::raw::Object;
use crate::object::{ClusterName, Key};

/// What a subscriber is told. `before` and `after` are never equal.
#[derive(Debug)]
pub struct Change<'a> {
    pub key: &'a Key,
    pub before: Option<&'a Arc<Object>>,
    pub after: Option<&'a Arc<Object>>,
    pub cause: Cause,
}

/// How the store learned of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Part of the first list.
    InitialList,
    /// Found by listing again: a deletion of this cause was not seen, only its result.
    Relist,
    Event,
    /// The answer of somebody's own write.
    Write,
}

/// Objects of one watch. All methods are short and never wait: the lock is never held across an await.
#[derive(Debug)]
pub struct Store {}

impl Store {
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        todo!()
    }
    /// Keys and objects of one cluster, in order. O(its objects).
    pub fn of_cluster(&self, cluster: &ClusterName) -> Vec<(Key, Arc<Object>)> {
        todo!()
    }
    /// Objects that carry this value in the label `sync-engine.dev/owner`.
    pub fn of_owner(&self, owner: &str) -> Vec<(Key, Arc<Object>)> {
        todo!()
    }
    /// Every key, ordered.
    pub fn keys(&self) -> Vec<Key> {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Calls `notify` after each change, without any lock held, until the subscription is dropped.
    /// `notify` must be quick (put the key into a queue). What stands in the store already is not replayed: subscribe first, then read.
    pub fn subscribe(self: &Arc<Self>, notify: impl Fn(&Change<'_>) + Send + Sync + 'static) -> Subscription {
        todo!()
    }
}

/// Keeps a subscriber registered.
#[derive(Debug)]
pub struct Subscription {}

impl Subscription {
    pub fn store(&self) -> &Arc<Store> {
        todo!()
    }
    /// Registers a write of this subscriber before it is sent: its event may overtake its answer. Until the
    /// [`PendingWrite`] is completed or dropped, events for `key` are stored and not told to this subscriber (others hear of them).
    pub fn expect(&self, key: &Key) -> PendingWrite {
        todo!()
    }
}

/// A write on its way.
#[derive(Debug)]
#[must_use = "dropping it says that the answer was lost"]
pub struct PendingWrite {}

impl PendingWrite {
    /// Puts the answer into the store unless something newer came in the meantime; its event is then no change.
    /// `true`: an event beyond this write came in between, reconcile the key again.
    pub fn complete(self, answer: Object) -> bool {
        todo!()
    }
    // Drop: the answer was lost. Unregisters; events that were held back are told now.
}
