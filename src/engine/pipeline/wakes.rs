//! Who is woken by what: sources by their own events and by those of their objects, and who reads or waits for something
//! else by the index of [interests](crate::engine::interests).

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::shared_use::{News, Uses};
use super::{Generation, Pipeline};
use crate::engine::controller::Feed;
use crate::engine::interests::{Collection, Topic};
use crate::mapping::{Kind, Side};
use crate::multicluster::Object;
use crate::multicluster::queue::Priority;
use crate::multicluster::store::{Change, ChangeCause};
use crate::object::Key;
use crate::object::marks::{self, OwnershipRecord, Reference};

impl Pipeline {
    /// The target was identified, or serves a kind that it did not.
    pub fn target_told(&self) {
        let target = &self.generation().target.cluster;
        self.controller.touch(Topic::Identity(target.clone()));
        let of = |kind| Collection::Kind(target.as_str().into(), kind);
        self.kinds().into_iter().for_each(|kind| self.controller.touch(Topic::Synced(of(kind))));
    }

    /// The state store names a kind no more: nobody waits any more until it is listed.
    pub(super) fn kind_left(&self, kind: &Kind) {
        let at = match kind.side {
            Side::Target => vec![self.generation().target.cluster.to_string()],
            Side::Source => self.controller.source_feeds().iter().map(|feed| feed.scope.endpoint.place()).collect(),
        };
        let of = |at: String| Collection::Kind(at.into(), kind.clone());
        at.into_iter().for_each(|at| self.controller.touch(Topic::Synced(of(at))));
    }

    /// Whether a source, but for one of them, needs what is shared at a place. `None`: nobody can tell before every source was listed and
    /// seen.
    pub fn in_use(&self, place: &str, but_for: Option<&Key>) -> Option<bool> {
        let in_use = self.shared_use.lock().in_use(place, but_for);
        in_use.filter(|in_use| *in_use || self.controller.are_sources_listed())
    }

    /// What a source shares with others was looked at, by this document. One that it no longer follows tells nothing: a reconcile
    /// that began with it may end after another one has taken its place.
    pub fn saw_places(&self, by: &Generation, key: &Key, uses: &Uses) {
        let mut shared_use = self.shared_use.lock();
        let is_followed = self.generation().mapping.text == by.mapping.text || self.is_candidate(by);
        let news = if is_followed { shared_use.seen(key, uses) } else { News::default() };
        drop(shared_use);
        self.tell(news, Some(key));
    }

    /// A source needs nothing that others share.
    pub fn uses_nothing(&self, key: &Key) {
        let news = self.shared_use.lock().seen(key, &Uses::default());
        self.tell(news, Some(key));
    }

    /// Another replica plans a source. Until this one leads and does, it may use any place: nobody takes along what it shares.
    pub fn stands_by(&self, key: &Key, is_there: bool) {
        if !is_there {
            // Once this replica leads, nobody plans a source that is gone.
            self.state.lock().unplanned.remove(key);
        }
        match is_there && self.generation().mapping.has_shared() {
            true => self.shared_use.lock().listed(key),
            false => self.uses_nothing(key),
        }
    }

    /// Wakes who reads who else uses a place. The source that the news is `of` does not: it would wake itself for ever while a
    /// watch does not show that its objects are gone.
    pub(super) fn tell(&self, news: News, of: Option<&Key>) {
        let unused = news.places.iter().filter(|place| self.in_use(place, None) == Some(false));
        let unused: Vec<_> = unused.map(|place| self.writer.shared_owner(place)).collect();
        self.learned.lock().forget_owners(&unused);
        let target = &self.generation().target.cluster;
        let topics = news.places.iter().map(|place| Topic::Placement(target.clone(), (**place).into()));
        let topics = topics.chain(news.complete.then_some(Topic::PassComplete));
        topics.for_each(|topic| self.controller.touch_but_for(topic, of));
    }

    pub(super) fn target_changed(&self, kind: &Kind, change: &Change<'_>) {
        if let Some((reference, known)) = self.stripped(kind, change) {
            self.learned.lock().saw_stripped(reference, known);
        }
        let priority = if change.cause == ChangeCause::InitialList { Priority::Initial } else { Priority::Live };
        let Some(object) = change.after.or(change.before) else { return };
        if let Some(former) = change.before.filter(|former| former.owner() != object.owner()) {
            self.controller.enqueue_origin(kind, change.key, former, priority);
        }
        self.controller.enqueue_origin(kind, change.key, object, priority);
        if change.before.is_none() && change.after.is_some_and(|after| self.has_no_user(kind, change.key, after)) {
            self.wake_deleted(priority);
        }
    }

    /// Queues the sources that were deleted lately, where they may have shared something: what comes late of that names no source, and who
    /// is gone reads nothing.
    pub(super) fn wake_deleted(&self, priority: Priority) {
        if self.generation().mapping.has_shared() {
            let deleted = self.learned.lock().deleted_lately(Instant::now());
            deleted.into_iter().for_each(|key| self.controller.queue.add(key, priority));
        }
    }

    /// Whether an object is one that sources of its namespace share, and none of them is known to use: a create may come late. A
    /// replica that stands by knows of no user at all, and takes nothing along.
    fn has_no_user(&self, kind: &Kind, at: &Key, object: &Object) -> bool {
        kind.side == Side::Target
            && self.shared.lease.is_held()
            && self.generation().mapping.has_shared()
            && self.in_use(&at.namespace, None) != Some(true)
            && object.owner() == Some(&*self.writer.shared_owner(&at.namespace).0)
    }

    /// An owned object that lost its ownership annotations, or left the watch with its label. Of a copy beside its source, all targets of
    /// the mapping know the same.
    pub fn stripped(&self, kind: &Kind, change: &Change<'_>) -> Option<(Reference, OwnershipRecord)> {
        let before = change.before?;
        // Another object in its place shows that it was deleted.
        let is_gone = |after: &Object| after.uid() != before.uid();
        if change.after.is_some_and(|after| is_gone(after) || marks::says_the_same(&before.json(), &after.json())) {
            return None;
        }
        let reference = target_reference(kind, change.key);
        let before = before.outline().ok()?;
        // Whose source this mapping does not serve would be remembered for ever.
        let key_of = |origin| self.controller.key_of(&origin, kind, change.key);
        let is_served = |origin| key_of(origin).is_some_and(|key| self.controller.is_engaged(&key.cluster));
        let origin = marks::origin(&self.writer, &before, &reference);
        // What is shared names no source, and is on the target.
        let is_used = || kind.side == Side::Target && self.in_use(&reference.namespace, None) != Some(false);
        let is_needed = origin.map_or_else(is_used, is_served);
        let known = OwnershipRecord::of(&self.writer, &before, &reference).filter(|_| is_needed)?;
        let after = change.after.and_then(|after| after.outline().ok());
        let is_ours = after.is_some_and(|after| marks::is_ours(&after, &reference, &known.owner));
        (!is_ours).then_some((reference, known))
    }

    /// Whether the target holds an object of a source of this resource.
    pub fn has_any_object(&self) -> bool {
        let has = |(kind, feed): &(Kind, Arc<Feed>)| {
            feed.objects().any(|(at, object)| self.controller.source_of(kind, &at, &object).is_some())
        };
        self.object_feeds().iter().filter(|(_, feed)| !feed.is_removed()).any(has)
    }

    /// The sources that objects of a kind name, by the place of the object.
    pub fn sources_of_object(&self, kind: &str, namespace: &str, name: &str) -> BTreeSet<Key> {
        let is_it = |at: &Key| *at.namespace == *namespace && *at.name == *name;
        let feeds = self.object_feeds().into_iter().filter(|(of, _)| of.kind.eq_ignore_ascii_case(kind));
        let sources = feeds.flat_map(|(kind, feed)| {
            let store = feed.watch.store();
            let there = store.keys().into_iter().filter(is_it);
            there.filter_map(|at| self.controller.source_of(&kind, &at, &*store.get(&at)?)).collect::<Vec<_>>()
        });
        sources.collect()
    }

    /// Nothing of a missing source is left here.
    pub fn forget(&self, key: &Key) {
        self.learned.lock().forget(key);
        let mut state = self.state.lock();
        state.promotion.forget(|one| one == key);
        state.losses.forget(key);
        drop(state);
        self.uses_nothing(key);
    }
}

/// The object of a kind at a place of the target.
pub fn target_reference(kind: &Kind, at: &Key) -> Reference {
    Reference { kind: kind.clone(), namespace: at.namespace.to_string(), name: at.name.to_string() }
}
