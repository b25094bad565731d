//! Who uses what sources share: the sources that are placed there, or name the same object, and carry the engine's finalizer.
//! Pure.
//!
//! The last user of a place takes along what is shared there. Which one is the last is known once every source of the first
//! lists was seen, and no source that may be there is out of sight: until then, nobody can tell whether another one uses it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::object::Key;
use crate::plan::observed::all_copies;

/// Sources by what they use: a namespace of the target, or a shared copy in it.
#[derive(Debug, Default)]
pub struct SharedUse {
    users: HashMap<Arc<str>, BTreeSet<Key>>,
    places: HashMap<Key, (Use, Places)>,
    /// Sources whose places have not been looked at.
    unseen: HashSet<Key>,
}

/// In their order; mostly one.
type Places = Box<[Arc<str>]>;

/// What one source uses; nothing: it needs nothing anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    pub places: BTreeSet<String>,
    pub way: Use,
}

/// How a source uses its places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Use {
    #[default]
    Needs,
    /// Until it is gone: it is being deleted.
    Leaves,
    /// Nobody can tell: its objects are there, and it is out of sight; or it is being taken in.
    MayNeed,
}

/// What is to be told to those who wait to learn whether others use a place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Places that have other users than before.
    pub places: BTreeSet<Arc<str>>,
    /// No source is unseen any more.
    pub complete: bool,
}

impl SharedUse {
    /// A list holds a source: until it is seen, it may use any place.
    pub fn listed(&mut self, key: &Key) {
        if !self.places.contains_key(key) {
            self.unseen.insert(key.clone());
        }
    }

    /// Another document may have every source use other places.
    pub fn doubt(&mut self) {
        self.unseen.extend(self.places.keys().cloned());
    }

    /// A source was looked at.
    pub fn seen(&mut self, key: &Key, Uses { places, way }: &Uses) -> News {
        let complete = self.unseen.remove(key) && self.unseen.is_empty();
        let (former_way, former) = self.places.remove(key).unwrap_or_default();
        let former: BTreeSet<Arc<str>> = former.into_iter().collect();
        let now: BTreeSet<Arc<str>> = places.iter().map(|place| self.interned(place)).collect();
        for place in former.difference(&now) {
            if let Some(users) = self.users.get_mut(place) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(place);
                }
            }
        }
        for place in now.difference(&former) {
            self.users.entry(place.clone()).or_default().insert(key.clone());
        }
        let is_told_anew = (former_way == Use::MayNeed) != (*way == Use::MayNeed);
        let changed = if is_told_anew { &former | &now } else { &former ^ &now };
        if !now.is_empty() {
            self.places.insert(key.clone(), (*way, now.into_iter().collect()));
        }
        News { places: changed, complete }
    }

    /// These sources are out of sight, and their objects are no business of this engine.
    pub fn forget_all(&mut self, are_away: impl Fn(&Key) -> bool) -> News {
        let keys = self.places.keys().chain(&self.unseen).filter(|key| are_away(key));
        let keys: BTreeSet<Key> = keys.cloned().collect();
        keys.iter().map(|key| self.seen(key, &Uses::default())).fold(News::default(), |mut all, news| {
            all.places.extend(news.places);
            News { complete: all.complete || news.complete, ..all }
        })
    }

    /// Whether a source uses a place, but for one of them. `None`: nobody can tell before every source is seen.
    pub fn in_use(&self, place: &str, but_for: Option<&Key>) -> Option<bool> {
        let is_other = |key: &&Key| but_for != Some(*key);
        let mut others = self.users_of(place).filter(is_other).peekable();
        let may_be_used = others.peek().is_some();
        // The first one tells: a namespace may have ten thousands.
        if others.any(|key| self.way_of(key) != Use::MayNeed) {
            return Some(true);
        }
        (!may_be_used && !self.unseen.iter().any(|key| is_other(&key))).then_some(false)
    }

    /// Whether a source uses anything.
    pub fn is_user(&self, key: &Key) -> bool {
        self.places.contains_key(key)
    }

    /// Whether another source that was seen uses a place, and is not leaving. `None`: nobody can tell.
    pub fn is_kept(&self, place: &str, but_for: &Key) -> Option<bool> {
        let mut ways = self.users_of(place).filter(|key| *key != but_for).map(|key| self.way_of(key));
        let may_be_kept = ways.clone().any(|way| way == Use::MayNeed);
        if ways.any(|way| way == Use::Needs) { Some(true) } else { (!may_be_kept).then_some(false) }
    }

    fn way_of(&self, key: &Key) -> Use {
        self.places.get(key).map(|(way, _)| *way).unwrap_or_default()
    }

    /// Of a copy, also those who may use any copy in its namespace.
    fn users_of(&self, place: &str) -> impl Iterator<Item = &Key> + Clone {
        let any_copy = place.split_once('/').map(|(namespace, _)| all_copies(namespace));
        let users = [self.users.get(place), any_copy.and_then(|all| self.users.get(&*all))];
        users.into_iter().flatten().flatten()
    }

    /// Sources that are seen or unseen, and places with users.
    pub fn size(&self) -> usize {
        self.users.len() + self.places.len() + self.unseen.len()
    }

    /// One text for all sources of a place.
    fn interned(&self, place: &str) -> Arc<str> {
        let known = self.users.get_key_value(place).map(|(known, _)| known.clone());
        known.unwrap_or_else(|| Arc::from(place))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::object::ClusterName;

    fn key(name: &str) -> Key {
        let (cluster, name) = name.split_once('/').unwrap_or(("c", name));
        Key::new(ClusterName::try_from(cluster).unwrap(), "ns", name)
    }

    fn told(news: News) -> Vec<String> {
        news.places.iter().map(ToString::to_string).collect()
    }

    fn at(places: &[&str]) -> Uses {
        Uses { places: places.iter().map(|place| (*place).to_owned()).collect(), way: Use::Needs }
    }

    #[test]
    fn the_last_source_of_a_namespace_is_known_once_all_are_seen() {
        let mut shared = SharedUse::default();
        let (a, b) = (key("a"), key("b"));
        shared.listed(&a);
        shared.listed(&b);
        assert_eq!(shared.in_use("x", Some(&a)), None);
        assert!(!shared.seen(&a, &at(&["x"])).complete);
        assert_eq!(shared.in_use("x", Some(&a)), None, "b may be placed there");
        assert_eq!(shared.in_use("x", Some(&b)), Some(true), "a is, whatever else is");
        assert!(shared.seen(&b, &at(&["y"])).complete);
        assert_eq!(shared.in_use("x", Some(&a)), Some(false));
        shared.listed(&b);
        assert_eq!(shared.in_use("x", Some(&a)), Some(false), "b was seen: nobody waits when it is listed again");
    }

    #[test]
    fn places_with_other_users_are_told() {
        let mut shared = SharedUse::default();
        assert_eq!(told(shared.seen(&key("a"), &at(&["x"]))), ["x"]);
        assert_eq!(told(shared.seen(&key("a"), &at(&["x"]))), [""; 0], "nothing changes");
        assert_eq!(told(shared.seen(&key("a"), &at(&["y"]))), ["x", "y"]);
        assert_eq!(told(shared.seen(&key("a"), &at(&["y", "y/Secret/s"]))), ["y/Secret/s"]);
        assert_eq!(told(shared.seen(&key("a"), &at(&[]))), ["y", "y/Secret/s"]);
        assert!(shared.users.is_empty() && shared.places.is_empty());
    }

    #[test]
    fn another_document_makes_every_source_unseen() {
        let mut shared = SharedUse::default();
        let (a, b) = (key("a"), key("b"));
        shared.seen(&a, &at(&["x"]));
        shared.seen(&b, &at(&["x"]));
        shared.doubt();
        assert_eq!(shared.in_use("x/Secret/s", Some(&a)), None, "b may use it");
        assert!(!shared.seen(&a, &at(&["x"])).complete && shared.seen(&b, &at(&["x", "x/Secret/s"])).complete);
        assert_eq!(shared.in_use("x/Secret/s", Some(&a)), Some(true));
    }

    #[test]
    fn who_is_being_deleted_keeps_nothing() {
        let mut shared = SharedUse::default();
        let (a, b) = (key("a"), key("b"));
        shared.seen(&a, &at(&["x"]));
        let kept = [("x", &b), ("x", &a), ("y", &b)].map(|(place, but_for)| shared.is_kept(place, but_for));
        assert_eq!(kept, [true, false, false].map(Some));
        shared.seen(&a, &Uses { way: Use::Leaves, ..at(&["x"]) });
        assert_eq!((shared.is_kept("x", &b), shared.in_use("x", Some(&b))), (Some(false), Some(true)));
    }

    #[test]
    fn who_may_be_there_is_waited_for() {
        let mut shared = SharedUse::default();
        let (a, b) = (key("a"), key("b"));
        shared.seen(&a, &at(&["x"]));
        let doubt = shared.seen(&a, &Uses { way: Use::MayNeed, ..at(&["x", "x/*"]) });
        assert_eq!(told(doubt), ["x", "x/*"]);
        assert_eq!((shared.in_use("x/Secret/s", Some(&b)), shared.in_use("x", Some(&a))), (None, Some(false)));
        assert_eq!((shared.is_kept("x", &b), shared.in_use("y", None)), (None, Some(false)));
        shared.seen(&b, &at(&["x"]));
        assert_eq!(shared.in_use("x", None), Some(true));
        assert_eq!(told(shared.seen(&a, &Uses::default())), ["x", "x/*"]);
        assert_eq!(shared.in_use("x", Some(&b)), Some(false));
    }

    #[test]
    fn clusters_that_go_take_their_sources_along_in_one_walk() {
        let mut shared = SharedUse::default();
        shared.listed(&key("gone/unseen"));
        shared.seen(&key("gone/a"), &at(&["x"]));
        shared.seen(&key("lost/a"), &at(&["y"]));
        shared.seen(&key("c/a"), &at(&["x"]));
        let asked = Cell::new(0);
        let are_away = |key: &Key| {
            asked.set(asked.get() + 1);
            key.cluster.as_str() != "c"
        };
        let news = shared.forget_all(are_away);
        assert_eq!((news.complete, asked.get()), (true, 4));
        assert_eq!(told(news), ["x", "y"]);
        assert_eq!(shared.in_use("x", Some(&key("c/a"))), Some(false));
        shared.forget_all(|_| true);
        assert!(shared.users.is_empty() && shared.places.is_empty() && shared.unseen.is_empty());
    }
}
