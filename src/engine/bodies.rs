//! Reads the objects of which the caches have outlines, for as long as a reconcile lasts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::apply::{ApplyError, Executor};
use super::interests::Facts;
use super::observe::{Outline, observe};
use crate::multicluster::Object;
use crate::multicluster::bodies::{Bodies, Room};
use crate::plan::{Cause, Observed, Original, Reason, Sight};

/// How often an object may change while it is read.
const ROUNDS: usize = 3;
/// Whoever has room and lets others wait for longer, has it against nobody.
const PATIENCE: Duration = Duration::from_secs(10);
const READ: &str = "read a large object";
/// Bytes of the related objects of one source. A consumer may have thousands, each as large as etcd takes, and a reconcile holds all
/// that it has read.
const MOST_RELATED: usize = 16 << 20;

/// What a reconcile has read whole.
#[derive(Debug, Default)]
pub struct Read(Mutex<Whole>);

#[derive(Debug, Default)]
struct Whole {
    objects: Vec<Arc<Object>>,
    room: Option<Room>,
    bytes: usize,
    /// Bytes of related objects, by what was read of them last, and all together.
    related: BTreeMap<Original, usize>,
    all_related: usize,
}

impl Read {
    /// While it is held, the caches have it whole.
    pub fn hold(&self, object: Arc<Object>) {
        self.0.lock().objects.push(object);
    }

    /// So many bytes were read of related objects, in place of what was read of them before.
    ///
    /// # Errors
    /// With them, the related objects are larger than those of one source may be.
    pub fn relate(&self, original: &Original, bytes: usize) -> Sight<()> {
        let Whole { related, all_related, .. } = &mut *self.0.lock();
        let former = related.insert(original.clone(), bytes).unwrap_or_default();
        *all_related = *all_related + bytes - former;
        if *all_related <= MOST_RELATED {
            return Ok(());
        }
        let most = MOST_RELATED >> 20;
        let detail = format!("with {original}, the related objects of the source are larger than {most} MiB");
        Err(Reason { cause: Cause::RenderFailed, detail })
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
        let (observed, outlines) = executor.tally.work(|| observe(executor, facts));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Resource, Side};
    use crate::plan::Pick;

    #[test]
    fn the_related_objects_of_one_source_have_so_many_bytes_together() {
        let read = Read::default();
        let relate = |name: &str, bytes| {
            let (resource, pick) = (Resource::new("", "v1", "secrets"), Pick::Name(name.to_owned()));
            let original = Original { side: Side::Source, resource, namespace: "default".to_owned(), pick };
            read.relate(&original, bytes).map_err(|reason| reason.to_string())
        };
        let too_many = |name: &str| {
            let with = format!("with secrets default/{name}");
            Err(format!("RenderFailed: {with}, the related objects of the source are larger than 16 MiB"))
        };
        for (name, bytes, told) in [
            ("a", 10 << 20, Ok(())),
            ("b", 6 << 20, Ok(())),
            ("c", 1, too_many("c")),
            ("d", 0, too_many("d")),
            ("a", 1 << 20, Ok(())),
            ("c", 9 << 20, Ok(())),
            ("c", (9 << 20) + 1, too_many("c")),
        ] {
            assert_eq!(relate(name, bytes), told, "{name} {bytes}");
        }
    }
}
