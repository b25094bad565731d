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

    /// The cluster is no longer engaged, or has another schema. `true`: it dropped something.
    pub fn forget(&mut self, cluster: &ClusterName) -> bool {
        self.clusters.remove(cluster).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::try_from(name).unwrap()
    }

    /// Another tenant's cluster may keep what this one drops, and so may this one with another schema. Operators read it once.
    #[test]
    fn what_a_cluster_drops_is_known_of_it_and_its_schema_and_is_news_once_for_all_clusters() {
        let mut fields = DroppedFields::default();
        // The cluster, the version of its schema, what it drops, and whether that is news.
        let rows: [(&str, &str, &[&str], bool); 7] = [
            ("a", "1", &[], false),
            ("a", "1", &["/y"], true),
            ("a", "1", &["/x"], true),
            ("a", "1", &["/x"], false),
            ("b", "1", &["/x"], false),
            ("b", "1", &["/x", "/z"], true),
            ("a", "2", &["/y"], true),
        ];
        for (name, version, dropped, is_news) in rows {
            let told = fields.note(&cluster(name), &Arc::from(version), dropped);
            assert_eq!(told, is_news, "{name} {version} {dropped:?}");
        }
        let of = |fields: &DroppedFields, name: &str, version: &str| -> Vec<String> {
            fields.of(&cluster(name), version).iter().cloned().collect()
        };
        assert_eq!(of(&fields, "a", "2"), ["/y"], "another schema starts afresh");
        assert_eq!(of(&fields, "a", "1"), [""; 0], "the former schema is out of date");
        assert_eq!(of(&fields, "b", "1"), ["/x", "/z"]);
        assert_eq!(of(&fields, "c", "1"), [""; 0]);
        fields.forget(&cluster("a"));
        assert_eq!((of(&fields, "a", "2"), fields.size()), (Vec::new(), 1));
    }
}
