//! Which clusters are listed by themselves while the first list of all of them lasts.
//!
//! A wildcard list is in the order of cluster names, and kcp takes some 20 ms for each megabyte of it. What was made before it
//! began would wait for the objects of other tenants. So after a second, the clusters that the list has not come to are listed
//! by their own paths, one at a time, the last name first, and up to where their objects are large.
//!
//! Such a list is of a later moment than the list of all, and what it shows is told again by that list or by the watch. It tells
//! what there is. What is missing, the list of all alone tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::endpoint::Endpoint;
use sync_engine_mapping::object::ClusterName;

/// How long the list of all lasts before single clusters are listed.
pub(super) const AFTER: Duration = Duration::from_secs(1);
/// From the end of one cluster's list to the next one: thousands of clusters cost the server a part of its time.
pub(super) const PACE: Duration = Duration::from_millis(5);
/// The same where the server gave no answer that is of use.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a page. A longer one is not read to its end.
pub(super) const BYTES: usize = 256 << 10;
/// How many times as many objects the next page has.
const GROWTH: u32 = 4;

/// The clusters that a watch shows, until its first list is complete.
#[derive(Debug, Default)]
pub(super) struct OwnLists {
    clusters: Mutex<Clusters>,
    /// Another cluster is engaged.
    bell: Notify,
}

#[derive(Debug, Default)]
struct Clusters {
    engaged: BTreeMap<Arc<str>, Endpoint>,
    /// Those that the list in progress has not come to, and that were not listed by themselves since it began.
    awaited: BTreeSet<Arc<str>>,
    is_over: bool,
}

/// The page of a cluster's own list that is asked for next.
#[derive(Debug)]
pub(super) struct OwnPage {
    pub cluster: Arc<str>,
    pub endpoint: Endpoint,
    /// Objects.
    pub limit: u32,
    /// `None`: it is the first.
    pub token: Option<String>,
}

impl OwnPage {
    /// The page after one that came. `None`: it was the last, or the next one would be large, and is left to the list of all.
    pub fn next(self, token: Option<String>, bytes: usize) -> Option<Self> {
        let is_small = bytes < BYTES / GROWTH as usize;
        token.filter(|_| is_small).map(|token| Self { token: Some(token), limit: self.limit * GROWTH, ..self })
    }
}

impl OwnLists {
    pub fn engage(&self, cluster: &ClusterName, endpoint: &Endpoint) {
        let (mut clusters, cluster) = (self.clusters.lock(), Arc::<str>::from(cluster.as_str()));
        if !clusters.is_over && clusters.engaged.insert(cluster.clone(), endpoint.clone()).is_none() {
            clusters.awaited.insert(cluster);
            self.bell.notify_one();
        }
    }

    /// A list of all begins.
    pub fn begin(&self) {
        let mut clusters = self.clusters.lock();
        clusters.awaited = clusters.engaged.keys().cloned().collect();
    }

    /// The list of all has come to a cluster.
    pub fn shown(&self, cluster: &str) {
        self.clusters.lock().awaited.remove(cluster);
    }

    /// The list of all is complete, and nobody needs another one.
    pub fn finish(&self) {
        *self.clusters.lock() = Clusters { is_over: true, ..Clusters::default() };
    }

    /// The first page of the next cluster, once there is one. For one caller.
    pub async fn next(&self) -> OwnPage {
        loop {
            if let Some(page) = self.clusters.lock().next() {
                return page;
            }
            self.bell.notified().await;
        }
    }
}

impl Clusters {
    fn next(&mut self) -> Option<OwnPage> {
        let cluster = self.awaited.pop_last()?;
        let endpoint = self.engaged.get(&cluster)?.clone();
        // Of a tenant with large objects, one costs the server enough.
        Some(OwnPage { cluster, endpoint, limit: 1, token: None })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::registry::tests::connection;

    #[test]
    fn the_last_cluster_that_the_list_has_not_come_to_is_next() {
        let (lists, endpoint) = (OwnLists::default(), connection().endpoint());
        let engage = |name: &str| lists.engage(&name.try_into().expect("a name"), &endpoint);
        let next = || Some(lists.next().now_or_never()?.cluster.to_string());
        let all = || std::iter::from_fn(next).collect::<Vec<_>>();
        ["b", "d", "a", "c"].into_iter().for_each(engage);
        lists.begin();
        lists.shown("d");
        assert_eq!(all(), ["c", "b", "a"]);
        engage("a");
        engage("e");
        assert_eq!(all(), ["e"], "once for each list");
        lists.begin();
        assert_eq!(all(), ["e", "d", "c", "b", "a"]);
        lists.finish();
        engage("f");
        lists.begin();
        assert_eq!(next(), None, "nobody waits any more");
    }

    #[test]
    fn a_cluster_is_listed_up_to_where_its_objects_are_large() {
        let lists = OwnLists::default();
        lists.engage(&"a".try_into().expect("a name"), &connection().endpoint());
        let limits = |bytes: &[usize]| {
            lists.begin();
            let first = lists.next().now_or_never().expect("a page");
            let (mut limits, mut page) = (vec![first.limit], Some(first));
            for bytes in bytes {
                page = page.and_then(|page| page.next(Some("token".to_owned()), *bytes));
                limits.extend(page.as_ref().map(|page| page.limit));
            }
            (limits, page.and_then(|page| page.next(None, 0)).is_some())
        };
        assert_eq!(limits(&[2_000, 8_000, 32_000, 128_000]), (vec![1, 4, 16, 64], false));
        assert_eq!(limits(&[200_000, 0]), (vec![1], false));
        assert_eq!(limits(&[]), (vec![1], false), "all of it");
    }
}
