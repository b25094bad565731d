//! Who uses the shared objects of a namespace: the sources that are placed there and carry the engine's finalizer. Pure.
//!
//! The last source of a namespace takes its shared objects along. Which one is the last is known once every source of the
//! first lists was seen: until then, nobody can tell whether another one is placed there.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::object::{ClusterName, Key};

/// Sources by the namespace they are placed into.
#[derive(Debug, Default)]
pub struct SharedUse {
    users: HashMap<Arc<str>, BTreeSet<Key>>,
    namespaces: HashMap<Key, Arc<str>>,
    /// Sources whose placement has not been looked at.
    unseen: HashSet<Key>,
}

/// What is to be told to those who wait to learn whether others use a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Namespaces that have other users than before.
    pub namespaces: Vec<Arc<str>>,
    /// No source is unseen any more.
    pub complete: bool,
}

impl SharedUse {
    /// A list holds a source: until it is seen, it may be placed anywhere.
    pub fn listed(&mut self, key: &Key) {
        if !self.namespaces.contains_key(key) {
            self.unseen.insert(key.clone());
        }
    }

    /// Where a source is placed; `None`: it needs nothing anywhere.
    pub fn seen(&mut self, key: &Key, namespace: Option<&str>) -> News {
        let complete = self.unseen.remove(key) && self.unseen.is_empty();
        let former = self.namespaces.get(key).cloned();
        if former.as_deref() == namespace {
            return News { complete, namespaces: Vec::new() };
        }
        let left = former.map(|former| self.leave(key, former));
        let entered = namespace.map(|namespace| self.enter(key, namespace));
        News { complete, namespaces: left.into_iter().chain(entered).collect() }
    }

    /// The sources of a cluster are out of sight, and its objects are no business of this engine.
    pub fn forget_cluster(&mut self, cluster: &ClusterName) -> News {
        let keys = self.namespaces.keys().chain(&self.unseen).filter(|key| key.cluster == *cluster);
        let keys: BTreeSet<Key> = keys.cloned().collect();
        keys.iter().map(|key| self.seen(key, None)).fold(News::default(), |mut all, news| {
            all.namespaces.extend(news.namespaces);
            News { complete: all.complete || news.complete, ..all }
        })
    }

    /// Whether another source uses the shared objects of a namespace. `None`: nobody can tell before every source is seen.
    pub fn in_use(&self, namespace: &str, by_others_than: &Key) -> Option<bool> {
        let users = self.users.get(namespace);
        if users.is_some_and(|users| users.iter().any(|key| key != by_others_than)) {
            return Some(true);
        }
        self.unseen.iter().all(|key| key == by_others_than).then_some(false)
    }

    /// Sources that are placed or unseen, and namespaces with users.
    pub fn size(&self) -> usize {
        self.users.len() + self.namespaces.len() + self.unseen.len()
    }

    fn leave(&mut self, key: &Key, namespace: Arc<str>) -> Arc<str> {
        self.namespaces.remove(key);
        if let Some(users) = self.users.get_mut(&namespace) {
            users.remove(key);
            if users.is_empty() {
                self.users.remove(&namespace);
            }
        }
        namespace
    }

    fn enter(&mut self, key: &Key, namespace: &str) -> Arc<str> {
        // One text for all sources of a namespace.
        let known = self.users.get_key_value(namespace).map(|(known, _)| known.clone());
        let namespace = known.unwrap_or_else(|| Arc::from(namespace));
        self.namespaces.insert(key.clone(), namespace.clone());
        self.users.entry(namespace.clone()).or_default().insert(key.clone());
        namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        let (cluster, name) = name.split_once('/').unwrap_or(("c", name));
        Key::new(ClusterName::try_from(cluster).unwrap(), "ns", name)
    }

    fn namespaces(news: News) -> Vec<String> {
        news.namespaces.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_last_source_of_a_namespace_is_known_once_all_are_seen() {
        let mut shared = SharedUse::default();
        let (a, b) = (key("a"), key("b"));
        shared.listed(&a);
        shared.listed(&b);
        assert_eq!(shared.in_use("x", &a), None);
        assert!(!shared.seen(&a, Some("x")).complete);
        assert_eq!(shared.in_use("x", &a), None, "b may be placed there");
        assert_eq!(shared.in_use("x", &b), Some(true), "a is, whatever else is");
        assert!(shared.seen(&b, Some("y")).complete);
        assert_eq!(shared.in_use("x", &a), Some(false));
    }

    #[test]
    fn a_source_that_was_seen_is_not_waited_for_when_it_is_listed_again() {
        let mut shared = SharedUse::default();
        let (a, b) = (key("a"), key("b"));
        shared.listed(&a);
        shared.seen(&a, Some("x"));
        shared.listed(&a);
        assert_eq!(shared.in_use("x", &a), Some(false));
        assert_eq!(shared.in_use("y", &b), Some(false));
    }

    #[test]
    fn namespaces_with_other_users_are_told() {
        let mut shared = SharedUse::default();
        assert_eq!(namespaces(shared.seen(&key("a"), Some("x"))), ["x"]);
        assert_eq!(namespaces(shared.seen(&key("a"), Some("x"))), [""; 0], "nothing changes");
        assert_eq!(namespaces(shared.seen(&key("a"), Some("y"))), ["x", "y"]);
        assert_eq!(namespaces(shared.seen(&key("a"), None)), ["y"]);
        assert!(shared.users.is_empty() && shared.namespaces.is_empty());
    }

    #[test]
    fn a_cluster_that_goes_takes_its_sources_along() {
        let mut shared = SharedUse::default();
        shared.listed(&key("gone/unseen"));
        shared.seen(&key("gone/a"), Some("x"));
        shared.seen(&key("c/a"), Some("x"));
        let news = shared.forget_cluster(&key("gone/a").cluster);
        assert!(news.complete);
        assert_eq!(namespaces(news), ["x"]);
        assert_eq!(shared.in_use("x", &key("c/a")), Some(false));
        shared.forget_cluster(&key("c/a").cluster);
        assert!(shared.users.is_empty() && shared.namespaces.is_empty() && shared.unseen.is_empty());
    }
}
