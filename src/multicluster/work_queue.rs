//! The queue as workers use it.

use std::sync::Arc;
use std::time::Duration;

use super::queue::{Backoff, Depth, Outcome, Priority, Queued};
use crate::object::ClusterName;

/// A queue shared by the event loop (adds) and workers (take); cheap to clone.
#[derive(Debug)]
pub struct WorkQueue<K> {
    inner: Arc<std::marker::PhantomData<K>>,
}

impl<K: Queued> WorkQueue<K> {
    pub fn new(backoff: Backoff) -> Self {
        todo!()
    }
    /// Coalesces with what is queued; what is in flight runs once more after it.
    pub fn add(&self, key: K, priority: Priority) {
        todo!()
    }
    pub fn add_after(&self, key: K, delay: Duration) {
        todo!()
    }
    /// Forgets what is queued for a cluster.
    pub fn remove_cluster(&self, cluster: &ClusterName) {
        todo!()
    }
    /// The next request, fair between clusters; `None` once the queue is closed. Cancel-safe.
    pub async fn next(&self) -> Option<Lease<K>> {
        todo!()
    }
    /// Hands out nothing more; what is in flight finishes.
    pub fn close(&self) {
        todo!()
    }
    pub fn depth(&self) -> Depth {
        todo!()
    }
}

/// A request in flight. Dropped without `finish` (a panic) it is retried with backoff.
#[derive(Debug)]
pub struct Lease<K: Queued> {
    key: K,
}

impl<K: Queued> Lease<K> {
    pub fn key(&self) -> &K {
        &self.key
    }
    /// `cost`: requests sent; a cluster whose reconciles cost much is served less often.
    pub fn finish(self, outcome: Outcome, cost: u32) {
        todo!()
    }
}
