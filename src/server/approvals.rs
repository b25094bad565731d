//! A person's approval of deletions that `pruneGuard` holds: from `POST /-/approve` to the engine.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, oneshot};

/// Cloning gives another handle to the same requests.
#[derive(Debug, Clone, Default)]
pub struct Approvals(Arc<Requests>);

#[derive(Debug, Default)]
struct Requests {
    waiting: Mutex<Vec<oneshot::Sender<Vec<String>>>>,
    added: Notify,
}

impl Approvals {
    /// Approves everything that is held now; one line for each mapping. `None`: the engine is shutting down.
    pub async fn approve(&self) -> Option<Vec<String>> {
        let (request, answer) = oneshot::channel();
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        self.0.added.notify_one();
        answer.await.ok()
    }

    /// The next request. Cancel-safe: a request that is not taken stays.
    pub async fn next(&self) -> oneshot::Sender<Vec<String>> {
        loop {
            if let Some(request) = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                return request;
            }
            self.0.added.notified().await;
        }
    }
}
