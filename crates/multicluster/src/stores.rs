//! What one watch fills: a store of everything that it tells of, or a store for each mapping of an engine.
//!
//! A mapping has its store for itself: objects of others cost it nothing when it looks for its own. A store is there as soon as
//! an object of its mapping is, so that who asks for it later finds everything in it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::raw::{NotAnObject, Parsed};
use super::store::Store;
use sync_engine_mapping::object::Key;

#[derive(Debug)]
pub(super) struct Stores {
    /// Has everything; where there is a store for each mapping, it has nothing but the number of the list.
    whole: Arc<Store>,
    /// How the labels begin of the mappings that have a store each; `None`: one store has everything.
    prefix: Option<String>,
    /// By the label of the mapping.
    parts: Mutex<BTreeMap<Box<str>, Arc<Store>>>,
    /// What events told of since the list in progress began; `None`: there is no list in progress.
    overtaken: Mutex<Option<HashSet<Key>>>,
}

/// A list in progress. Dropped before [`finish`](Self::finish), nothing is removed.
///
/// All of its pages are of the moment at which it began. Events that come meanwhile are of later moments.
#[derive(Clone, Copy)]
pub(super) struct Listing<'a> {
    stores: &'a Stores,
    number: u32,
}

impl Stores {
    pub(super) fn new(whole: Arc<Store>, prefix: Option<String>) -> Self {
        Self { whole, prefix, parts: Mutex::default(), overtaken: Mutex::default() }
    }

    /// The store of a mapping, by its label; empty: the one that has everything.
    pub(super) fn of(&self, mapping: &str) -> Arc<Store> {
        if mapping.is_empty() {
            return self.whole.clone();
        }
        self.parts.lock().entry(mapping.into()).or_insert_with(|| self.whole.another()).clone()
    }

    /// As [`Store::put`]. An object whose label names another mapping now leaves the store that it was in.
    pub(super) fn put(&self, now: Parsed<'_>) -> Result<bool, NotAnObject> {
        self.overtake(&now);
        self.place(&now).map_or(Ok(true), |store| store.put(now))
    }

    /// As [`Store::delete`].
    pub(super) fn delete(&self, last: Parsed<'_>) -> bool {
        self.overtake(&last);
        let is_known = self.place(&last).is_none_or(|store| store.delete(last));
        self.forget_unused();
        is_known
    }

    /// Drops stores without objects that nobody asked for: whoever can write a label on the target makes one of them.
    fn forget_unused(&self) {
        self.parts.lock().retain(|_, store| Arc::strong_count(store) > 1 || !store.is_empty());
    }

    /// A list begins: what is not in it by its end is gone.
    pub(super) fn begin_list(&self) -> Listing<'_> {
        // Under the lock: a store that is made meanwhile is of this list, or of the one before.
        let parts = self.parts.lock();
        let number = self.whole.begin_list();
        for store in parts.values() {
            store.begin_list();
        }
        *self.overtaken.lock() = Some(HashSet::new());
        Listing { stores: self, number }
    }

    /// What the list in progress has of an object is older than what its event tells.
    fn overtake(&self, told: &Parsed<'_>) {
        if let Some(overtaken) = &mut *self.overtaken.lock() {
            overtaken.extend(self.whole.key_of(told));
        }
    }

    /// As [`Store::doubt_versions`].
    pub(super) fn doubt_versions(&self) {
        let parts = self.parts.lock();
        self.whole.doubt_versions();
        parts.values().for_each(|store| store.doubt_versions());
    }

    /// As [`Store::has_untold_answer`].
    pub(super) fn has_untold_answer(&self) -> bool {
        self.all().iter().any(|store| store.has_untold_answer())
    }

    /// As [`Store::contradicts`].
    pub(super) fn contradict(&self, shown: &Parsed<'_>, version: &str) -> bool {
        self.store_of(shown).is_some_and(|store| store.contradicts(shown, version))
    }

    /// The store of an object, which has left all others.
    fn place(&self, object: &Parsed<'_>) -> Option<Arc<Store>> {
        let store = self.store_of(object);
        if self.prefix.is_none() || store.as_ref().is_some_and(|store| store.was_told(object)) {
            return store;
        }
        // The watch tells of it here for the first time: another store may have it.
        if let Some(key) = self.whole.key_of(object) {
            let is_other = |other: &&Arc<Store>| store.as_ref().is_none_or(|store| !Arc::ptr_eq(store, other));
            self.all().iter().filter(is_other).for_each(|other| other.leave(&key, object));
        }
        store
    }

    /// The store that an object belongs to; `None`: its label names no mapping of the engine.
    fn store_of(&self, object: &Parsed<'_>) -> Option<Arc<Store>> {
        match &self.prefix {
            None => Some(self.whole.clone()),
            Some(prefix) => Some(self.of(object.mapping.filter(|mapping| mapping.starts_with(&**prefix))?)),
        }
    }

    fn all(&self) -> Vec<Arc<Store>> {
        [&self.whole].into_iter().chain(self.parts.lock().values()).cloned().collect()
    }
}

impl Listing<'_> {
    /// An object of the list, as [`Store::put`] takes it.
    pub(super) fn item(&self, object: Parsed<'_>) -> Result<bool, NotAnObject> {
        if self.is_overtaken(&object) {
            return Ok(true);
        }
        self.stores.store_of(&object).map_or(Ok(true), |store| store.put_told(object, true))
    }

    /// An object of the list of its own cluster, as [`Store::put_ahead`] takes it. What an event told of may be gone since.
    pub(super) fn ahead(&self, object: &Parsed<'_>) -> Result<bool, NotAnObject> {
        if let Some(store) = self.stores.store_of(object).filter(|_| !self.is_overtaken(object)) {
            store.put_ahead(object)?;
        }
        Ok(true)
    }

    /// Whether an event told of it since the list began.
    fn is_overtaken(&self, object: &Parsed<'_>) -> bool {
        let is_in = |overtaken: &HashSet<Key>| {
            !overtaken.is_empty() && self.stores.whole.key_of(object).is_some_and(|key| overtaken.contains(&key))
        };
        self.stores.overtaken.lock().as_ref().is_some_and(is_in)
    }

    /// The list was complete as of `version`: what a store has and the list had not, or had for another store, is gone from it.
    pub(super) fn finish(self, version: &str) {
        *self.stores.overtaken.lock() = None;
        for store in self.stores.all() {
            store.finish_list(self.number, version);
        }
        self.stores.forget_unused();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::ClustersOf;
    use crate::store::ChangeCause;
    use crate::store::tests::{heard, listen, told};
    use sync_engine_mapping::object::{ClusterName, Key};

    fn stores() -> Stores {
        let one = ClustersOf::One(ClusterName::try_from("target").expect("a name"));
        Stores::new(Store::new(one), Some("main.".into()))
    }

    fn text(name: &str, mapping: Option<&str>, version: u64) -> String {
        let labels = json!({"sync-engine.dev/mapping": mapping, "sync-engine.dev/owner": "o"});
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string(), "labels": labels});
        json!({"metadata": metadata}).to_string()
    }

    fn put(stores: &Stores, name: &str, mapping: Option<&str>, version: u64) {
        assert!(stores.put(Parsed::read(&text(name, mapping, version)).expect("it")).expect("an object"));
    }

    fn names(store: &Store) -> Vec<String> {
        store.keys().iter().map(|key| key.name.to_string()).collect()
    }

    #[test]
    fn each_mapping_hears_of_its_own_objects() {
        let stores = stores();
        stores.begin_list().finish("1");
        let (a, b) = (stores.of("main.a"), stores.of("main.b"));
        let ((_a, to_a), (_b, to_b)) = (listen(&a), listen(&b));
        put(&stores, "x", Some("main.a"), 2);
        put(&stores, "y", Some("other.a"), 3);
        put(&stores, "z", None, 4);
        assert_eq!(heard(&to_a), [told("x", None, Some(2), ChangeCause::Event)]);
        assert!(heard(&to_b).is_empty() && b.is_empty());
        // Whoever comes later finds what there is.
        put(&stores, "l", Some("main.late"), 5);
        assert_eq!(names(&stores.of("main.late")), ["l"]);
        assert!(stores.delete(Parsed::read(&text("x", Some("main.a"), 6)).expect("it")));
        assert_eq!(heard(&to_a), [told("x", Some(6), None, ChangeCause::Deleted)]);
    }

    #[test]
    fn a_label_that_no_mapping_has_costs_nothing_once_its_objects_are_gone() {
        let stores = stores();
        let a = stores.of("main.a");
        put(&stores, "x", Some("main.a"), 2);
        put(&stores, "y", Some("main.forged"), 3);
        put(&stores, "z", Some("main.forged-too"), 4);
        assert_eq!(stores.parts.lock().len(), 3);
        for (name, mapping) in [("x", "main.a"), ("y", "main.forged")] {
            stores.delete(Parsed::read(&text(name, Some(mapping), 5)).expect("it"));
        }
        assert_eq!(stores.parts.lock().len(), 2, "somebody asked for the first one");
        stores.begin_list().finish("6");
        assert_eq!(stores.parts.lock().keys().map(|label| &**label).collect::<Vec<_>>(), ["main.a"]);
        assert!(a.is_empty());
    }

    #[test]
    fn an_object_whose_label_is_another_leaves_its_store() {
        for label in [None, Some("main.b"), Some("other.a")] {
            let stores = stores();
            let (a, b) = (stores.of("main.a"), stores.of("main.b"));
            put(&stores, "x", Some("main.a"), 2);
            let (_subscription, to_a) = listen(&a);
            put(&stores, "x", label, 3);
            assert_eq!(heard(&to_a), [told("x", Some(2), None, ChangeCause::Deleted)], "{label:?}");
            assert_eq!((a.len(), b.len()), (0, usize::from(label == Some("main.b"))));
        }
    }

    /// The former owner's store must not keep what another mapping took over by a write whose answer came first.
    #[test]
    fn an_answer_in_another_store_hides_no_change_of_the_label() {
        let stores = stores();
        let (a, b) = (stores.of("main.a"), stores.of("main.b"));
        put(&stores, "x", Some("main.a"), 2);
        let (subscription, _) = listen(&b);
        let key = Key::new(ClusterName::try_from("target").expect("a name"), "", "x");
        let pending = subscription.expect(&key);
        pending.complete(&Parsed::read(&text("x", Some("main.b"), 3)).expect("it")).expect("an object");
        put(&stores, "x", Some("main.b"), 3);
        assert_eq!((a.len(), b.len()), (0, 1));
    }

    /// Pages are of the moment at which the list began.
    #[test]
    fn what_events_told_of_since_a_list_began_is_not_told_by_its_pages() {
        let stores = stores();
        for (name, mapping) in [("edited", "main.a"), ("moved", "main.b"), ("gone", "main.a")] {
            put(&stores, name, Some(mapping), 2);
        }
        let a = stores.of("main.a");
        let (_subscription, to_a) = listen(&a);
        let item = |list: &Listing<'_>, name: &str, mapping: &str, version| {
            list.item(Parsed::read(&text(name, Some(mapping), version)).expect("it")).expect("an object");
        };
        let list = stores.begin_list();
        item(&list, "same", "main.a", 3);
        put(&stores, "edited", Some("main.a"), 6);
        put(&stores, "moved", Some("main.b"), 7);
        for name in ["gone", "unknown"] {
            assert!(stores.delete(Parsed::read(&text(name, Some("main.a"), 8)).expect("it")));
        }
        for (name, mapping) in [("edited", "main.a"), ("moved", "main.a"), ("gone", "main.a"), ("unknown", "main.a")] {
            item(&list, name, mapping, 4);
        }
        list.finish("5");
        assert_eq!([names(&a), names(&stores.of("main.b"))], [vec!["edited", "same"], vec!["moved"]]);
        let key = Key::new(ClusterName::try_from("target").expect("a name"), "", "edited");
        assert_eq!(a.get(&key).expect("it is there").resource_version(), "6");
        let initial = |name, version| told(name, None, Some(version), ChangeCause::InitialList);
        let deleted = |name| told(name, Some(8), None, ChangeCause::Deleted);
        let edited = told("edited", Some(2), Some(6), ChangeCause::Event);
        let expected = [initial("same", 3), edited, deleted("gone"), initial("unknown", 8), deleted("unknown")];
        assert_eq!(heard(&to_a), expected, "whoever hears of an end heard of it before");
        // Of the next list, everything counts.
        let list = stores.begin_list();
        item(&list, "edited", "main.a", 9);
        list.finish("10");
        assert_eq!(names(&a), ["edited"]);
    }

    /// The list of a single cluster is of a later moment than the list of all, and proves no absence.
    #[test]
    fn what_a_single_cluster_tells_is_ahead_of_the_list_in_progress_until_that_or_an_event_tells_it() {
        let one = ClustersOf::One(ClusterName::try_from("source").expect("a name"));
        let stores = Stores::new(Store::new(one), None);
        let whole = stores.of("");
        let (_subscription, heard_of) = listen(&whole);
        let with = |name: &str, version: u64, act: &dyn Fn(Parsed<'_>)| {
            act(Parsed::read(&text(name, None, version)).expect("it"));
        };
        let list = stores.begin_list();
        let item = |name: &str, version| with(name, version, &|it| assert!(list.item(it).expect("an object")));
        let ahead = |name: &str, version| with(name, version, &|it| assert!(list.ahead(&it).expect("an object")));
        let deleted = |name: &str, version| with(name, version, &|it| assert!(stores.delete(it)));
        let version = |name: &str| {
            let key = Key::new(ClusterName::try_from("source").expect("a name"), "", name);
            whole.get(&key).map(|object| object.resource_version().to_owned())
        };
        // The list is of version 10. What it or an event has told of is known, or gone.
        item("listed", 3);
        put(&stores, "told", None, 12);
        deleted("gone", 14);
        heard(&heard_of);
        ["listed", "told", "gone"].into_iter().for_each(|name| ahead(name, 11));
        assert_eq!(
            (version("listed").as_deref(), version("told").as_deref(), version("gone")),
            (Some("3"), Some("12"), None)
        );
        assert_eq!(heard(&heard_of), []);
        let all = ["same", "edited", "edited-again", "new", "removed", "removed-new", "lost"];
        let all = || all.into_iter().zip([5, 16, 17, 18, 6, 19, 7]);
        all().for_each(|(name, version)| ahead(name, version));
        let initial = all().map(|(name, version)| told(name, None, Some(version), ChangeCause::InitialList));
        assert_eq!(heard(&heard_of), initial.collect::<Vec<_>>());
        assert!(!stores.has_untold_answer(), "a stream that ends meanwhile is no reason to begin the list anew");
        // What is older changes nothing, and what is the same is no news.
        ["same", "edited", "edited-again"].into_iter().for_each(|name| item(name, 5));
        put(&stores, "edited-again", None, 15);
        put(&stores, "new", None, 18);
        assert_eq!(["same", "edited", "edited-again"].map(version), ["5", "16", "17"].map(|it| Some(it.to_owned())));
        assert!(
            heard(&heard_of)
                .iter()
                .all(|(name, before, after, _)| name.starts_with("edited") && before.is_some() && after.is_some())
        );
        deleted("removed", 20);
        deleted("removed-new", 21);
        item("removed", 6);
        list.finish("10");
        assert_eq!(
            names(&whole),
            ["edited", "edited-again", "listed", "new", "same", "told"],
            "what no list has is gone"
        );
    }

    #[test]
    fn a_list_moves_and_removes_what_it_does_not_show_where_it_was() {
        let stores = stores();
        for (name, mapping) in [("x", "main.a"), ("y", "main.a"), ("z", "main.a")] {
            put(&stores, name, Some(mapping), 2);
        }
        let list = stores.begin_list();
        for (name, mapping) in [("x", "main.a"), ("y", "main.b"), ("n", "main.new")] {
            list.item(Parsed::read(&text(name, Some(mapping), 3)).expect("it")).expect("an object");
        }
        assert_eq!(names(&stores.of("main.a")), ["x", "y", "z"], "the list is not complete");
        list.finish("3");
        assert_eq!(["main.a", "main.b", "main.new"].map(|mapping| names(&stores.of(mapping))), [["x"], ["y"], ["n"]]);
    }
}
