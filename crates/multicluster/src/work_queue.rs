//! The queue as the event loop and the workers use it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::backoff::Backoff;
use super::queue::{Cost, Depth, Next, Priority, Queue, Requeue};
use sync_engine_mapping::object::{ClusterName, Key};

/// A queue shared by whoever adds and by the workers; cheap to clone.
#[derive(Clone)]
pub struct WorkQueue {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
    closed: AtomicBool,
}

impl WorkQueue {
    /// `seed`: of the jitter in its backoff.
    pub fn new(backoff: Backoff, seed: u64) -> Self {
        let queue = Mutex::new(Queue::new(backoff, seed));
        Self { shared: Arc::new(Shared { queue, changed: Notify::new(), closed: AtomicBool::new(false) }) }
    }

    /// Coalesces with what is queued; what is in flight runs once more after it.
    pub fn add(&self, key: Key, priority: Priority) {
        self.shared.queue.lock().add(key, priority, now());
        self.shared.changed.notify_one();
    }

    /// To be reconciled in `delay` at the latest, together with what is added until then.
    pub fn add_after(&self, key: Key, delay: Duration) {
        self.shared.queue.lock().add_after(key, delay, now());
        self.shared.changed.notify_one();
    }

    /// Forgets what is queued for a cluster, and says what that was. What is in flight runs once more.
    pub fn remove_cluster(&self, cluster: &ClusterName) -> Vec<Key> {
        self.shared.queue.lock().remove_cluster(cluster)
    }

    /// The next request, fair between clusters, where so many may be in flight; `None` once the queue is closed. Cancel-safe.
    pub async fn next(&self, at_once: usize) -> Option<InFlight> {
        loop {
            // Enabled before the look, so that what is added in between wakes it.
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if self.shared.closed.load(Ordering::SeqCst) {
                return None;
            }
            let next = self.shared.queue.lock().next(at_once, now());
            match next {
                Next::Ready(key) => {
                    // One notification may stand for several additions: pass it on.
                    self.shared.changed.notify_one();
                    let by_timer = self.shared.queue.lock().is_by_timer(&key);
                    return Some(InFlight { shared: self.shared.clone(), key, by_timer, finished: false });
                }
                Next::Wait(None) => changed.await,
                Next::Wait(Some(until)) => {
                    let _ = tokio::time::timeout_at(until.into(), changed).await;
                }
            }
        }
    }

    /// Hands out nothing more; what is in flight finishes.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    /// When a request that waits is due. `None`: it does not wait, or is in flight.
    pub fn due(&self, key: &Key) -> Option<Instant> {
        self.shared.queue.lock().due(key, now())
    }

    /// Whether a request is ready or in flight.
    pub fn serves(&self, key: &Key) -> bool {
        self.shared.queue.lock().serves(key)
    }

    /// Whether more requests wait than are served at once.
    pub fn is_busy(&self) -> bool {
        self.shared.queue.lock().is_busy()
    }

    pub fn depth(&self) -> Depth {
        self.shared.queue.lock().depth(now())
    }
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.depth()).finish()
    }
}

/// A request in flight. Dropped without [`finish`](Self::finish) (a panic), it is retried with backoff.
pub struct InFlight {
    shared: Arc<Shared>,
    key: Key,
    by_timer: bool,
    finished: bool,
}

impl InFlight {
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Whether nothing but time asked for it. What it writes then, no event told of: that is counted, and never decided on.
    pub fn is_by_timer(&self) -> bool {
        self.by_timer
    }

    /// A cluster whose reconciles cost much is served less often.
    pub fn finish(mut self, outcome: Requeue, cost: impl Into<Cost>) {
        self.finished = true;
        self.answer(outcome, cost.into());
    }

    fn answer(&self, outcome: Requeue, cost: Cost) {
        self.shared.queue.lock().finish(self.key.clone(), outcome, cost, now());
        self.shared.changed.notify_one();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.finished {
            self.answer(Requeue::Retry, 1.into());
        }
    }
}

/// Tokio's clock, which tests can hold.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::key;

    fn queue() -> WorkQueue {
        WorkQueue::new(Backoff { min: Duration::from_millis(1), max: Duration::from_millis(1) }, 7)
    }

    #[tokio::test]
    async fn waiting_workers_are_woken_by_additions_and_by_time() {
        let queue = queue();
        let work = async || {
            let lease = queue.next(8).await.unwrap();
            let name = lease.key().name.clone();
            lease.finish(Requeue::Done, 1);
            name
        };
        let workers = tokio::join!(work(), work(), async {
            queue.add(key("c", "now"), Priority::Live);
            queue.add_after(key("c", "soon"), Duration::from_millis(2));
        });
        let names = [workers.0, workers.1];
        assert!(names.contains(&"now".into()) && names.contains(&"soon".into()), "{names:?}");
    }

    #[tokio::test]
    async fn a_lease_that_is_dropped_is_tried_again() {
        let queue = queue();
        queue.add(key("c", "a"), Priority::Live);
        drop(queue.next(8).await.unwrap());
        let again = queue.next(8).await.unwrap();
        assert_eq!((again.key(), queue.depth().in_flight), (&key("c", "a"), 1));
        again.finish(Requeue::Done, 1);
        assert_eq!(queue.depth(), Depth::default());
    }

    #[tokio::test]
    async fn closing_wakes_every_worker() {
        let queue = queue();
        queue.add_after(key("c", "later"), Duration::from_secs(3600));
        let workers = tokio::join!(queue.next(8), queue.next(8), queue.next(8), async { queue.close() });
        assert!(workers.0.is_none() && workers.1.is_none() && workers.2.is_none());
    }
}
