//! Names of clusters and namespaces, each kept once however many objects carry it.

use std::sync::Arc;

use hashbrown::HashMap;

use super::raw::Parsed;
use super::registry::ClustersOf;
use sync_engine_mapping::object::{ClusterName, Key};

/// Above this many names they are all forgotten: keys that hold them keep them alive, and new keys share new ones.
const MOST: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Names {
    clusters: HashMap<Box<str>, ClusterName>,
    namespaces: HashMap<Box<str>, Arc<str>>,
}

impl Names {
    /// The key of an object; `None` where it does not say which cluster it lives in.
    pub(super) fn key(&mut self, clusters: &ClustersOf, parsed: &Parsed<'_>) -> Option<Key> {
        let cluster = match clusters {
            ClustersOf::One(cluster) => cluster.clone(),
            ClustersOf::Annotated => self.cluster(parsed.cluster?)?,
            ClustersOf::Namespaces => self.cluster(parsed.namespace)?,
        };
        Some(Key::new(cluster, self.namespace(parsed.namespace), parsed.name))
    }

    fn cluster(&mut self, name: &str) -> Option<ClusterName> {
        if let Some(known) = self.clusters.get(name) {
            return Some(known.clone());
        }
        let made = ClusterName::try_from(name).ok()?;
        forget_too_many(&mut self.clusters);
        self.clusters.insert(name.into(), made.clone());
        Some(made)
    }

    fn namespace(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.namespaces.get(name) {
            return known.clone();
        }
        let made: Arc<str> = Arc::from(name);
        forget_too_many(&mut self.namespaces);
        self.namespaces.insert(name.into(), made.clone());
        made
    }
}

fn forget_too_many<V>(names: &mut HashMap<Box<str>, V>) {
    if names.len() >= MOST {
        names.clear();
    }
}
