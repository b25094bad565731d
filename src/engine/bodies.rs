//! Reads the objects of which the caches have outlines, for as long as a reconcile lasts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::apply::{ApplyError, Executor};
use super::interests::Facts;
use super::observe::{Outline, observe};
use crate::multicluster::Object;
use crate::multicluster::bodies::{Bodies, Room};
use crate::plan::Observed;

/// How often an object may change while it is read.
const ROUNDS: usize = 3;
/// Whoever has room and lets others wait for longer, has it against nobody.
const PATIENCE: Duration = Duration::from_secs(10);
const READ: &str = "read a large object";

/// What a reconcile has read whole.
#[derive(Debug, Default)]
pub struct Read(Mutex<Whole>);

#[derive(Debug, Default)]
struct Whole {
    objects: Vec<Arc<Object>>,
    room: Option<Room>,
    bytes: usize,
}

impl Read {
    /// While it is held, the caches have it whole.
    pub fn hold(&self, object: Arc<Object>) {
        self.0.lock().objects.push(object);
    }

    /// Waits until there is room for so many bytes more.
    pub async fn make_room(&self, bodies: &Bodies, bytes: usize) {
        let all = {
            let mut whole = self.0.lock();
            // Two who each wait for what the other has would wait for ever.
            whole.room = None;
            whole.bytes += bytes;
            whole.bytes
        };
        let room = timeout(PATIENCE, bodies.room(all)).await.ok();
        self.0.lock().room = room;
    }
}

/// What is known of a source now. What a cache has as an outline is read from its server first.
pub async fn observe_whole(executor: &Executor<'_>, facts: &mut Facts<'_>) -> Result<Observed, ApplyError> {
    for _ in 0..ROUNDS {
        let (observed, outlines) = observe(executor, facts);
        if outlines.is_empty() {
            return Ok(observed);
        }
        let bytes = outlines.iter().map(|outline: &Outline| outline.bytes).sum();
        executor.read.make_room(executor.at_source.connection().budget().bodies(), bytes).await;
        for outline in &outlines {
            let read = executor.read_outline(outline).await;
            read.map_err(|source| ApplyError::Request { action: READ.to_owned(), source })?;
        }
    }
    Err(ApplyError::Stale { action: READ.to_owned() })
}
