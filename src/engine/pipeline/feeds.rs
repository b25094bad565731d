//! What a pipeline watches: the engine's objects on its target, by kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::wakes::target_reference;
use super::{Generation, Pipeline};
use crate::engine::controller::{Controller, Feed};
use crate::engine::interests::{Collection, Topic};
use crate::mapping::{Kind, Side};
use crate::multicluster::Object;
use crate::multicluster::store::Change;
use crate::multicluster::watch::{Selectors, WatchState};
use crate::object::Key;
use crate::object::marks::{self, Origin, Writer};
use crate::plan::Phase;

/// Selects the objects of a mapping.
pub fn of_mapping(writer: &Writer) -> Selectors {
    Selectors { of_mapping: writer.label().to_owned(), outlines: true, ..Selectors::default() }
}

impl Pipeline {
    /// Opens the watches on the target's kinds as far as they are resolved, and ends those on kinds that are no longer used.
    pub fn follow_kinds(self: &Arc<Self>) {
        let (generation, mut kinds) = (self.generation(), self.followed_kinds());
        kinds.retain(|kind| kind.side == Side::Target);
        // Which kinds are in use is known once the state store is.
        let is_known = self.is_store_read();
        let unused: Vec<_> = self.feeds.lock().extract_if(.., |kind, _| is_known && !kinds.contains(kind)).collect();
        // Their sources are looked at again: no event tells any more what becomes of these objects.
        unused.iter().for_each(|(kind, feed)| self.controller.queue_standing(kind, feed));
        // The end of a subscription must not meet the lock.
        drop(unused);
        for kind in kinds {
            generation.target.want(&kind);
            let resource = match generation.target.kind(&kind) {
                Ok(served) => Some(served.resource),
                // One that was served once may be gone with all its objects.
                Err(_) => {
                    self.plural(&kind).filter(|_| generation.target.lacks(&kind)).map(|plural| kind.resource(&plural))
                }
            };
            let (Some(resource), Some(scope)) = (resource, generation.target.scope()) else { continue };
            if self.feeds.lock().get(&kind).is_some_and(|feed| feed.scope == scope) {
                continue;
            }
            let (pipeline, of) = (Arc::downgrade(self), kind.clone());
            let changed = move |_: &Controller, change: &Change<'_>| {
                if let Some(pipeline) = pipeline.upgrade() {
                    pipeline.target_changed(&of, change);
                }
            };
            let of = Collection::Kind(generation.target.cluster.as_str().into(), kind.clone());
            let selectors = of_mapping(&self.writer);
            let feed = Arc::new(self.controller.follow(&scope, &resource, &selectors, of.clone(), changed));
            let former = self.feeds.lock().insert(kind.clone(), feed.clone());
            // At another address, no event tells that an object is gone that the former watch has shown.
            former.iter().chain([&feed]).for_each(|one| self.controller.queue_standing(&kind, one));
            drop(former);
            self.controller.touch(Topic::Synced(of));
        }
    }

    /// The kinds of the mapping, and those which only its state store still names.
    pub fn kinds(&self) -> BTreeSet<Kind> {
        self.kinds_of(&self.generation())
    }

    /// The same, and those of a document that waits: it is rehearsed on what is there.
    pub fn followed_kinds(&self) -> BTreeSet<Kind> {
        let mut kinds = self.kinds();
        let candidate = self.state.lock().candidate.clone();
        kinds.extend(candidate.iter().flat_map(|candidate| &candidate.objects).map(|rule| rule.kind.clone()));
        kinds
    }

    /// The kinds of a document, and those which only the state store names: each in the version of the document. One that only deletes
    /// goes by the state store where that names another version alone: that is the one which is served.
    pub fn kinds_of(&self, generation: &Generation) -> BTreeSet<Kind> {
        let mut kinds: BTreeSet<Kind> = generation.mapping.objects.iter().map(|rule| rule.kind.clone()).collect();
        let mut stored = self.state.lock().store.kinds.clone();
        let is_stored =
            |kind: &Kind| stored.contains(kind) || !stored.iter().any(|one| one.is_same_in_any_version(kind));
        kinds.retain(|kind| generation.phase == Phase::Active || is_stored(kind));
        stored.retain(|other| !kinds.iter().any(|kind| kind.is_same_in_any_version(other)));
        kinds.extend(stored);
        kinds
    }

    /// Whether the engine's objects of every kind are listed, or gone with the kind. Beside a source, its finalizer stands for those
    /// that no workspace lets the engine see.
    pub fn follows_every_kind(&self) -> bool {
        let is_beside = self.generation().mapping.is_beside();
        let is_seen = |feed: &Feed| feed.is_listed() || feed.watch.state() == WatchState::NotServed;
        self.kinds().iter().all(|kind| match kind.side {
            Side::Target => self.kind_feed(kind).is_some_and(|feed| feed.is_listed()),
            Side::Source => !is_beside || self.controller.all_copies(kind, is_seen),
        })
    }

    /// Whether the first list of every kind came, or was refused.
    pub fn has_asked_for_every_kind(&self) -> bool {
        self.feeds.lock().values().all(|feed| feed.watch.state() != WatchState::Starting)
    }

    pub fn kind_feed(&self, kind: &Kind) -> Option<Arc<Feed>> {
        self.feeds.lock().get(kind).cloned()
    }

    pub fn kind_feeds(&self) -> Vec<(Kind, Arc<Feed>)> {
        self.feeds.lock().iter().map(|(kind, feed)| (kind.clone(), feed.clone())).collect()
    }

    /// What holds the mapping's own objects, by kind: on the target, or beside the sources.
    pub fn object_feeds(&self) -> Vec<(Kind, Arc<Feed>)> {
        let beside = self.generation().mapping.is_beside().then(|| self.controller.all_copy_feeds());
        self.kind_feeds().into_iter().chain(beside.into_iter().flatten()).collect()
    }

    /// How many objects of the mapping are in sight.
    pub fn objects(&self) -> usize {
        self.object_feeds().iter().map(|(_, feed)| feed.watch.store().len()).sum()
    }

    /// How many copies are beside the sources of a mapping that has its objects elsewhere: the same for each of its targets.
    pub fn copies(&self) -> usize {
        match self.generation().mapping.is_beside() {
            true => 0,
            false => self.controller.all_copy_feeds().iter().map(|(_, feed)| feed.watch.store().len()).sum(),
        }
    }

    /// Whether a source has objects: a copy of one that somebody made elsewhere is none. The key of a source whose cluster is
    /// not engaged has that cluster's identity for its name, as every key in kcp.
    pub fn has_objects(&self, key: &Key) -> bool {
        let resource = &self.generation().mapping.source.resource;
        let by_name = || self.writer.owner(&Origin::new(resource, key.cluster.as_str(), key));
        let owner = self.controller.owner(key).unwrap_or_else(by_name);
        let is_owned = |kind: &Kind, (at, object): &(Key, Arc<Object>)| {
            let object = object.outline();
            object.is_ok_and(|object| marks::is_ours(&object, &target_reference(kind, at), &owner))
        };
        let has = |(kind, feed): &(Kind, Arc<Feed>)| {
            feed.watch.store().of_owner(&owner.0, None).iter().any(|found| is_owned(kind, found))
        };
        self.object_feeds().iter().any(has)
    }

    /// Forgets namespaces of the target that hold nothing of this mapping: it would only save the creation of one.
    pub fn forget_namespaces(&self) {
        let keys = self.kind_feeds().into_iter().flat_map(|(_, feed)| feed.watch.store().keys());
        let used: BTreeSet<Arc<str>> = keys.map(|key| key.namespace.clone()).collect();
        self.generation().target.retain_namespaces(|namespace| used.contains(namespace));
    }
}
