//! Which status fields the servers of clusters drop without an error, because their schemas do not have them.
//!
//! What was learned holds for one cluster and one version of its schema: another tenant's cluster may keep what this one
//! drops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::object::ClusterName;

/// Fields are JSON pointers of status leaves. A cluster that drops nothing has no entry.
#[derive(Debug, Default)]
pub struct DroppedFields {
    clusters: BTreeMap<ClusterName, Dropped>,
}

/// What a cluster drops, by the version of the schema under which it was learned.
#[derive(Debug)]
struct Dropped {
    version: Arc<str>,
    fields: Arc<BTreeSet<String>>,
}

impl DroppedFields {
    /// The fields that a cluster drops.
    pub fn of(&self, cluster: &ClusterName, version: &str) -> Arc<BTreeSet<String>> {
        let known = self.clusters.get(cluster).filter(|known| &*known.version == version);
        known.map(|known| known.fields.clone()).unwrap_or_default()
    }

    /// Notes fields that a cluster dropped. `true`: none with this schema was known to drop them.
    pub fn note(&mut self, cluster: &ClusterName, version: &Arc<str>, dropped: &[&str]) -> bool {
        if dropped.is_empty() {
            return false;
        }
        let is_known =
            |known: &Dropped| known.version == *version && dropped.iter().all(|field| known.fields.contains(*field));
        let news = !self.clusters.values().any(is_known);
        let mut fields = self.of(cluster, version);
        Arc::make_mut(&mut fields).extend(dropped.iter().map(|field| (*field).to_owned()));
        self.clusters.insert(cluster.clone(), Dropped { version: version.clone(), fields });
        news
    }

    /// Clusters that are known to drop something.
    pub fn size(&self) -> usize {
        self.clusters.len()
    }

    /// The cluster is no longer engaged.
    pub fn forget(&mut self, cluster: &ClusterName) {
        self.clusters.remove(cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::try_from(name).unwrap()
    }

    fn of(fields: &DroppedFields, name: &str, version: &str) -> Vec<String> {
        fields.of(&cluster(name), version).iter().cloned().collect()
    }

    #[test]
    fn what_one_cluster_drops_is_written_to_another() {
        let mut fields = DroppedFields::default();
        assert!(fields.note(&cluster("a"), &Arc::from("1"), &["/y"]));
        assert!(fields.note(&cluster("a"), &Arc::from("1"), &["/x"]));
        assert_eq!(of(&fields, "a", "1"), ["/x", "/y"]);
        assert_eq!(of(&fields, "b", "1"), [""; 0]);
    }

    #[test]
    fn another_schema_starts_afresh() {
        let mut fields = DroppedFields::default();
        fields.note(&cluster("a"), &Arc::from("1"), &["/x"]);
        assert_eq!(of(&fields, "a", "2"), [""; 0]);
        fields.note(&cluster("a"), &Arc::from("2"), &["/y"]);
        assert_eq!(of(&fields, "a", "2"), ["/y"]);
        assert_eq!(of(&fields, "a", "1"), [""; 0], "the former schema is out of date");
    }

    #[test]
    fn a_field_is_reported_once_for_all_clusters_with_the_schema() {
        let (mut fields, version) = (DroppedFields::default(), Arc::from("1"));
        assert!(!fields.note(&cluster("a"), &version, &[]));
        assert!(fields.note(&cluster("a"), &version, &["/x"]));
        assert!(!fields.note(&cluster("a"), &version, &["/x"]));
        assert!(!fields.note(&cluster("b"), &version, &["/x"]));
        assert!(fields.note(&cluster("b"), &version, &["/x", "/y"]));
        assert!(fields.note(&cluster("a"), &Arc::from("2"), &["/x"]));
    }

    #[test]
    fn a_cluster_that_goes_is_forgotten() {
        let mut fields = DroppedFields::default();
        fields.note(&cluster("a"), &Arc::from("1"), &["/x"]);
        fields.forget(&cluster("a"));
        assert!(fields.clusters.is_empty());
    }
}
