//! What one subscriber has not heard yet, coalesced: a slow reader costs no more than one entry a cluster. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::registry::{Cluster, ClusterEvent, ProviderName, Reason};
use sync_engine_mapping::object::ClusterName;

/// Events that wait to be read.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    clusters: BTreeMap<(ProviderName, ClusterName), Mail>,
    identities: BTreeMap<ProviderName, String>,
    synced: BTreeSet<ProviderName>,
    pub(super) closed: bool,
}

/// What is to be told of one cluster: first that the one the reader knows is gone, then that there is another.
#[derive(Debug, Default)]
struct Mail {
    gone: Option<(Arc<Cluster>, Reason)>,
    engaged: Option<Arc<Cluster>>,
    /// The cluster that the reader knows, with other traits.
    described: Option<Arc<Cluster>>,
}

impl Mailbox {
    pub(super) fn put(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Engaged(cluster) => self.of(&cluster).engaged = Some(cluster.clone()),
            ClusterEvent::Described(cluster) => self.describe(cluster),
            ClusterEvent::Disengaged(cluster, reason) => self.disengage(cluster, reason),
            ClusterEvent::Identity(provider, identity) => drop(self.identities.insert(provider, identity)),
            ClusterEvent::Synced(provider) => drop(self.synced.insert(provider)),
        }
    }

    /// Identities first: nobody serves a cluster by a former identity of its source. Clusters then: once `Synced`
    /// is read, every cluster was.
    pub(super) fn take(&mut self) -> Option<ClusterEvent> {
        if let Some((provider, identity)) = self.identities.pop_first() {
            return Some(ClusterEvent::Identity(provider, identity));
        }
        if let Some(mut entry) = self.clusters.first_entry() {
            if let Some((cluster, reason)) = entry.get_mut().gone.take() {
                if entry.get().engaged.is_none() {
                    entry.remove();
                }
                return Some(ClusterEvent::Disengaged(cluster, reason));
            }
            let Mail { engaged, described, .. } = entry.remove();
            return engaged.map(ClusterEvent::Engaged).or(described.map(ClusterEvent::Described));
        }
        self.synced.pop_first().map(ClusterEvent::Synced)
    }

    fn describe(&mut self, cluster: Arc<Cluster>) {
        let mail = self.of(&cluster);
        // One that the reader has not heard of is engaged as it is now.
        let unread = if mail.engaged.is_some() { &mut mail.engaged } else { &mut mail.described };
        *unread = Some(cluster);
    }

    fn disengage(&mut self, cluster: Arc<Cluster>, reason: Reason) {
        let key = (cluster.provider.clone(), cluster.spec.name.clone());
        let mail = self.clusters.entry(key.clone()).or_default();
        mail.described = None;
        match &mail.engaged {
            // The reader never heard of it.
            Some(engaged) if Arc::ptr_eq(engaged, &cluster) => mail.engaged = None,
            _ => mail.gone = Some((cluster, reason)),
        }
        if mail.gone.is_none() && mail.engaged.is_none() {
            self.clusters.remove(&key);
        }
    }

    fn of(&mut self, cluster: &Cluster) -> &mut Mail {
        self.clusters.entry((cluster.provider.clone(), cluster.spec.name.clone())).or_default()
    }
}
