//! What is to be reconciled next: fair between clusters, one in flight per request. Pure: time comes in as a value.

use std::time::{Duration, Instant};

use crate::object::ClusterName;

/// What a queue holds: something that belongs to a source cluster.
pub trait Queued: Clone + Ord + Send + 'static {
    fn cluster(&self) -> &ClusterName;
}

impl Queued for crate::object::Key {
    fn cluster(&self) -> &ClusterName {
        &self.cluster
    }
}

/// Live changes go before what the first list brought, until that has waited for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Live,
    Initial,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// In order; the backoff is reset.
    Done,
    /// In order; look again then (the backoff is reset).
    After(Duration),
    /// Failed: exponential backoff with jitter.
    Retry,
    /// Failed, and the server said when to come back: not before that.
    RetryAfter(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub min: Duration,
    pub max: Duration,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<K> {
    /// Reconcile this; answer with `finish`.
    Ready(K),
    /// Nothing before this instant, or before something is added.
    Wait(Option<Instant>),
    /// Closed: nothing more will be handed out.
    Closed,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    pub ready: usize,
    pub delayed: usize,
    pub in_flight: usize,
    pub oldest_age: Duration,
}
