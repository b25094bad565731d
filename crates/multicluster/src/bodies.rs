//! How much memory the bodies of objects may take: the spec of one tenant's objects costs the others nothing.
//!
//! An object is kept whole while it is small and its cluster has room; else a store keeps an outline of it, and whoever needs
//! the rest reads it from the server. So many objects, or so large ones, as somebody likes make his own reconciles dearer.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::raw::Object;
use super::store::Store;
use sync_engine_mapping::object::ClusterName;

/// Larger objects are never kept whole.
const LARGEST: usize = 256 << 10;
/// Bodies of one cluster of several that share an address, as they are kept. A cluster that has its address for itself has
/// all that the process has.
const SHARE: usize = 32 << 20;
/// Bodies that are read at one moment, in KiB, over all reconciles.
const READ_AT_ONCE: u32 = 4 << 10;
/// Objects whose texts stores keep unpacked, all stores together: some 10 MiB.
const PLAIN: usize = 8192;
/// Clusters that a message names.
const NAMED: usize = 10;

/// The memory for bodies. Clones share it; the default has no limit over all clusters.
#[derive(Debug, Clone)]
pub struct Bodies(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Over all clusters, in bytes.
    most: Option<usize>,
    ledger: Mutex<Ledger>,
    room: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Ledger {
    total: usize,
    clusters: HashMap<ClusterName, Share>,
    stores: Vec<Weak<Store>>,
    /// Whether what [`Bodies::condition`] says may have changed.
    changed: bool,
}

/// What stores keep of one cluster.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    objects: usize,
    /// Objects that are kept as outlines.
    outlined: usize,
}

/// Room for a body that is being read, until it is dropped.
pub type Room = OwnedSemaphorePermit;

impl Default for Bodies {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Bodies {
    /// `most` is for all clusters together, in bytes.
    pub fn new(most: Option<usize>) -> Self {
        let room = Arc::new(Semaphore::new(READ_AT_ONCE as usize));
        Self(Arc::new(Shared { most, ledger: Mutex::default(), room }))
    }

    /// Waits until bodies of so many bytes may be read. One that is larger than what may be read at once is read alone.
    pub async fn room(&self, bytes: usize) -> Room {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).clamp(1, READ_AT_ONCE);
        self.0.room.clone().acquire_many_owned(kib).await.expect("the semaphore is never closed")
    }

    /// Which clusters have objects that are kept as outlines; `None`: the same as when that was last asked.
    pub(super) fn condition(&self) -> Option<Result<(), String>> {
        let mut ledger = self.0.ledger.lock();
        if !std::mem::take(&mut ledger.changed) {
            return None;
        }
        let over = ledger.clusters.iter().filter(|(_, share)| share.outlined > 0);
        let mut over: Vec<_> = over.map(|(cluster, share)| (share.outlined, cluster.as_str())).collect();
        over.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        if over.is_empty() {
            return Some(Ok(()));
        }
        let mut named: Vec<String> =
            over.iter().take(NAMED).map(|(objects, cluster)| format!("{cluster} ({objects})")).collect();
        if over.len() > NAMED {
            named.push(format!("and {} more", over.len() - NAMED));
        }
        Some(Err(format!(
            "clusters whose objects are large or many, so that the engine reads them from the server again and again: {}",
            named.join(", ")
        )))
    }

    pub(super) fn counts_of(&self, store: &Arc<Store>) {
        let mut ledger = self.0.ledger.lock();
        ledger.stores.retain(|store| store.strong_count() > 0);
        ledger.stores.push(Arc::downgrade(store));
    }

    /// How many objects each store keeps unpacked, for a while: at least the last one.
    pub(super) fn plain_of_each(&self) -> usize {
        (PLAIN / self.0.ledger.lock().stores.len().max(1)).max(1)
    }

    /// Whether an object is kept whole. `shares`: its cluster is one of several that share an address.
    pub(super) fn keeps(&self, cluster: &ClusterName, object: &Object, shares: bool) -> bool {
        let is_over = |share: &Share| share.bytes + object.takes() > SHARE;
        object.length() <= LARGEST && !(shares && self.0.ledger.lock().clusters.get(cluster).is_some_and(is_over))
    }

    pub(super) fn note(&self, cluster: &ClusterName, object: &Object) {
        let mut ledger = self.0.ledger.lock();
        ledger.total += body(object);
        let share = match ledger.clusters.get_mut(cluster) {
            Some(share) => share,
            None => ledger.clusters.entry(cluster.clone()).or_default(),
        };
        share.bytes += body(object);
        share.objects += 1;
        share.outlined += usize::from(object.is_outlined());
        ledger.changed |= object.is_outlined();
    }

    pub(super) fn forget(&self, cluster: &ClusterName, object: &Object) {
        let mut ledger = self.0.ledger.lock();
        ledger.total = ledger.total.saturating_sub(body(object));
        let Some(share) = ledger.clusters.get_mut(cluster) else { return };
        share.bytes = share.bytes.saturating_sub(body(object));
        share.objects = share.objects.saturating_sub(1);
        share.outlined = share.outlined.saturating_sub(usize::from(object.is_outlined()));
        if share.objects == 0 {
            ledger.clusters.remove(cluster);
        }
        ledger.changed |= object.is_outlined();
    }

    /// Beyond what there may be, the clusters with the most bodies lose theirs first. An eighth more than needed goes, so that
    /// the next object does not ask for the same again.
    pub(super) fn shrink(&self) {
        let Some(most) = self.0.most else { return };
        let (mut excess, stores, mut clusters) = {
            let ledger = self.0.ledger.lock();
            if ledger.total <= most {
                return;
            }
            let clusters = ledger.clusters.iter().map(|(cluster, share)| (share.bytes, cluster.clone()));
            (ledger.total - most + most / 8, ledger.stores.clone(), clusters.collect::<Vec<_>>())
        };
        clusters.sort_unstable_by(|a, b| b.cmp(a));
        let stores: Vec<Arc<Store>> = stores.iter().filter_map(Weak::upgrade).collect();
        for (_, cluster) in clusters {
            for store in &stores {
                if excess == 0 {
                    return;
                }
                excess = store.outline(&cluster, excess);
            }
        }
    }
}

/// Bytes of a body that is kept. Outlines count for nothing: they are what every object costs.
fn body(object: &Object) -> usize {
    if object.is_whole() { object.takes() } else { 0 }
}
