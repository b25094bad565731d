//! What is well and what is not, in words, for `/readyz`, metrics and the status page.

use std::time::SystemTime;

/// The state of one thing the engine depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `provider mongodb`, `watch mongodbcommunity.v1 at https://…`, `target t`.
    pub what: String,
    pub ok: bool,
    /// What is wrong and what to do about it; empty when all is well.
    pub message: String,
    pub since: SystemTime,
}

/// All conditions of the process; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Conditions {}

impl Conditions {
    /// Sets one; `since` moves only when `ok` or the message changes. Returns whether it changed.
    pub fn set(&self, what: &str, state: Result<(), String>) -> bool {
        todo!()
    }
    pub fn remove(&self, what: &str) {
        todo!()
    }
    /// Ordered by what they speak of.
    pub fn all(&self) -> Vec<Condition> {
        todo!()
    }
}
