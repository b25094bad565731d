//! What the document in force takes away that the documents before it would have kept, until every source was seen at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Generation, Pipeline};
use crate::mapping::Mapping;
use crate::multicluster::queue::Priority;
use crate::object::Key;
use crate::object::marks::Owner;
use crate::plan::Prune;

/// What a source may lose, and what it asks for.
#[derive(Debug, Default)]
pub struct Losses {
    /// `None`: every source has followed the document in force to its end.
    before: Option<Arc<Before>>,
    /// Sources that have not. One that is missing has not as long as it has objects: they may be lost later.
    open: BTreeSet<Key>,
    /// How many objects sources would lose that nobody counted, and may not.
    asked: BTreeMap<Key, usize>,
    /// How many they may.
    granted: BTreeMap<Key, usize>,
}

/// What the losses of a document are compared with.
#[derive(Debug)]
struct Before {
    /// What all of them would lose is not lost by the document. `None`: one of them cannot be read any more, and would keep
    /// everything.
    documents: Option<Vec<Arc<Mapping>>>,
    /// Owners whose losses were counted before the release.
    counted: BTreeSet<String>,
}

impl Losses {
    /// Nothing of a source is left.
    pub fn forget(&mut self, key: &Key) {
        self.open.remove(key);
        self.asked.remove(key);
        self.granted.remove(key);
    }

    /// These sources are out of sight.
    pub fn forget_all(&mut self, are_away: impl Fn(&Key) -> bool) {
        self.open.retain(|key| !are_away(key));
        self.asked.retain(|key, _| !are_away(key));
        self.granted.retain(|key, _| !are_away(key));
    }

    /// A source comes into sight, or is named by an object that it has.
    pub fn listed(&mut self, key: &Key) {
        if self.before.is_some() {
            self.open.insert(key.clone());
        }
    }

    /// A source would lose so many objects that nobody counted. `true`: that is news.
    fn asks(&mut self, key: &Key, objects: usize, is_at_its_end: bool) -> bool {
        if self.before.is_none() {
            return false;
        }
        if is_at_its_end {
            self.open.remove(key);
            // If it comes into sight once more, it asks again.
            self.granted.remove(key);
        }
        match objects <= self.granted_to(key) {
            true => self.asked.remove(key).is_some(),
            false => self.asked.insert(key.clone(), objects) != Some(objects),
        }
    }

    fn granted_to(&self, key: &Key) -> usize {
        self.granted.get(key).copied().unwrap_or_default()
    }

    pub fn is_closed(&self) -> bool {
        self.before.is_none()
    }

    /// Sources that ask for something, or may; but for those of which that is known already.
    pub fn size(&self, is_known: impl Fn(&Key) -> bool) -> usize {
        self.open.iter().filter(|key| !is_known(key)).count()
    }
}

impl Pipeline {
    /// The document in force took the place of these, which would lose less. `counted`: owners whose losses here were counted.
    pub fn open_losses(&self, documents: Option<Vec<Arc<Mapping>>>, counted: BTreeSet<String>) {
        let listed = self.controller.source_feeds().into_iter().flat_map(|feed| feed.keys());
        let of_objects = self.kind_feeds().into_iter().chain(self.controller.all_copy_feeds());
        let open: BTreeSet<Key> = listed.chain(self.controller.named_by(of_objects)).collect();
        let before = Some(Arc::new(Before { documents, counted }));
        self.state.lock().losses = Losses { before, open: open.clone(), ..Losses::default() };
        // What was planned before counts for nothing.
        open.into_iter().for_each(|key| self.controller.queue.add(key, Priority::Initial));
    }

    /// Nothing is compared any more.
    pub fn close_losses(&self) {
        let losses = std::mem::take(&mut self.state.lock().losses);
        losses.asked.into_keys().for_each(|key| self.controller.queue.add(key, Priority::Initial));
    }

    /// What may be taken away from a source.
    pub fn prune(&self, generation: &Generation, key: &Key, owner: &Owner) -> Prune {
        let is_in_force = std::ptr::eq(generation, &*self.generation());
        let losses = &self.state.lock().losses;
        let is_free = |before: &Before| before.counted.contains(&owner.0) || !losses.open.contains(key);
        // What another document takes away, a candidate or one of before, is compared with the one in force.
        match is_in_force && losses.before.as_deref().is_none_or(is_free) {
            true => Prune::Allowed,
            false => Prune::none(),
        }
    }

    /// The documents that the losses of a source by this one are compared with. `None`: what nobody can read any more would keep
    /// everything.
    pub fn compared_with(&self, generation: &Generation, key: &Key) -> Option<Vec<Arc<Mapping>>> {
        let (in_force, follows) = (self.generation(), self.generation_of(key));
        let losses = &self.state.lock().losses;
        let before = losses.before.as_deref().filter(|_| losses.open.contains(key));
        let mut all = before.map_or(Some(Vec::new()), |before| before.documents.clone())?;
        if !std::ptr::eq(generation, &*in_force) {
            all.push(in_force.mapping.clone());
            // It may follow another candidate by now.
            let is_another = ![&generation.mapping.text, &in_force.mapping.text].contains(&&follows.mapping.text);
            all.extend(is_another.then(|| follows.mapping.clone()));
        }
        Some(all)
    }

    /// The documents that the next one is compared with.
    pub fn documents_before(&self) -> Option<Vec<Arc<Mapping>>> {
        let in_force = self.generation().mapping.clone();
        let before = self.state.lock().losses.before.clone();
        let mut all = before.map_or(Some(Vec::new()), |before| before.documents.clone())?;
        all.push(in_force);
        Some(all)
    }

    /// Whether a source may lose so many objects by this document that nobody counted.
    pub fn may_lose(&self, generation: &Generation, key: &Key, objects: usize) -> bool {
        let is_in_force = std::ptr::eq(generation, &*self.generation());
        is_in_force && self.state.lock().losses.granted_to(key) >= objects
    }

    /// A source was planned, with everything in sight, and so many losses are held. What was under way when the document changed
    /// is planned again.
    pub fn planned(&self, key: &Key, generation: &Generation, held: usize, is_at_its_end: bool) {
        let is_in_force = std::ptr::eq(generation, &*self.generation());
        if !is_in_force && !self.is_candidate(generation) {
            return;
        }
        let mut state = self.state.lock();
        state.unplanned.remove(key);
        // What a candidate takes away is looked at once it is in force.
        let is_news = is_in_force && state.losses.asks(key, held, is_at_its_end);
        drop(state);
        if is_news {
            self.shared.counted.notify_one();
        }
    }

    /// What sources ask for and do not have.
    pub fn asked(&self) -> Vec<(Key, usize)> {
        self.state.lock().losses.asked.iter().map(|(key, objects)| (key.clone(), *objects)).collect()
    }

    /// A source may lose so many.
    pub fn grant(&self, key: Key, objects: usize) {
        let mut state = self.state.lock();
        state.losses.asked.remove(&key);
        state.losses.granted.insert(key.clone(), objects);
        drop(state);
        self.controller.queue.add(key, Priority::Live);
    }

    /// Whether nothing is compared, and no object is left of a source that is out of sight.
    pub fn is_settled(&self) -> bool {
        self.state.lock().losses.is_closed() && self.orphans().is_empty()
    }

    /// Whether every source has followed the document in force to its end, and all that have objects are in sight.
    pub fn is_at_its_end(&self) -> bool {
        self.sees_everything()
            && self.state.lock().losses.open.is_empty()
            && self.orphans().is_empty()
            && !self.controller.serves_somebody()
            && self.is_planned()
    }
}
