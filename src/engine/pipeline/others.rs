//! What a pipeline knows of the mapping's other targets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Generation, NOT_READ, Pipeline};
use crate::engine::slots::selected;
use crate::mapping::{ClusterSelection, Mapping, SourceClusters};
use crate::multicluster::backoff::Backoff;
use crate::multicluster::queue::{Cost, Next, Priority, Queue, Requeue};
use crate::object::Key;
use crate::plan::Reason;
use crate::plan::objects::Objects;
use crate::plan::targets::{OtherTarget, Reach, TargetContext};

/// Sources that are worked on here, and those that wait for that: a slow target keeps no other one waiting.
#[derive(Debug)]
pub struct TargetSeats {
    taken: usize,
    /// In turns of their clusters: none waits behind all that another one has.
    waiting: Queue,
}

impl Default for TargetSeats {
    fn default() -> Self {
        Self { taken: 0, waiting: Queue::new(Backoff { min: Duration::ZERO, max: Duration::ZERO }, 0) }
    }
}

impl TargetSeats {
    /// Sources that wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.depth(Instant::now().into_std()).ready
    }

    /// Takes one of so many seats. `false`: it waits.
    fn take(&mut self, key: &Key, most: usize) -> bool {
        let is_free = self.taken < most;
        match is_free {
            true => self.taken += 1,
            false => self.waiting.add(key.clone(), Priority::Live, Instant::now().into_std()),
        }
        is_free
    }

    /// As many of those that wait as there are seats.
    fn call(&mut self, most: usize) -> Vec<Key> {
        let (free, now) = (most.saturating_sub(self.taken), Instant::now().into_std());
        let next = || {
            let Next::Ready(key) = self.waiting.next(usize::MAX, now) else { return None };
            self.waiting.finish(key.clone(), Requeue::Done, Cost::default(), now);
            Some(key)
        };
        std::iter::from_fn(next).take(free).collect()
    }
}

/// A source that is worked on here. Dropped, it leaves its seat to the next one.
#[derive(Debug)]
pub struct TargetSeat(Arc<Pipeline>);

impl Drop for TargetSeat {
    fn drop(&mut self) {
        self.0.state.lock().seats.taken -= 1;
        self.0.call_next();
    }
}

impl Pipeline {
    /// Begins to work on a source here. `None`: so many have a seat already; the source is queued once one is free.
    pub fn seat(self: &Arc<Self>, key: &Key) -> Option<TargetSeat> {
        let most = self.generation().mapping.reconcile.concurrency.max(1);
        let is_taken = self.state.lock().seats.take(key, most);
        is_taken.then(|| TargetSeat(self.clone()))
    }

    /// Queues as many of those that wait as there are seats. Called now and then too: who was queued may not come.
    pub fn call_next(&self) {
        let most = self.generation().mapping.reconcile.concurrency.max(1);
        let next = self.state.lock().seats.call(most);
        next.into_iter().for_each(|key| self.controller.queue.add(key, Priority::Live));
    }

    /// These are targets of the mapping, or are again: the state store names them. `true`: the pipeline hears that for the first
    /// time.
    pub fn has_targets(&self, names: &BTreeSet<String>) -> bool {
        let mut state = self.state.lock();
        state.targets_left.retain(|name| !names.contains(name));
        !std::mem::replace(&mut state.is_introduced, true)
    }

    /// Nothing of the mapping is left on a former target: the state store needs not name it any more.
    pub fn leaves_target(&self, name: &str) {
        self.state.lock().targets_left.insert(name.to_owned());
    }

    /// Whether the mapping had this target once, and has it no longer.
    pub fn was_target(&self, name: &str) -> bool {
        self.state.lock().targets_left.contains(name)
    }

    /// The engine knows what the state store says, or that there is none. Who waits for all of them looks again once the last one has
    /// told.
    pub fn told_store(&self) {
        let is_news = !std::mem::replace(&mut self.state.lock().is_told, true);
        let has_told = |one: &Arc<Self>| one.has_told_store() || one.is_lost();
        if is_news && self.controller.pipelines().iter().all(has_told) {
            self.controller.check_unconfirmed();
        }
    }

    /// What was told before this term of the lease counts no more: its keeper may be about to read it anew.
    pub fn has_told_store(&self) -> bool {
        let state = self.state.lock();
        state.is_told && state.term == self.shared.lease.number()
    }

    /// There is no state store. One that was known before this one is confirmed, in a former term for example, is gone.
    pub fn lacks_store(&self) {
        let mut state = self.state.lock();
        if state.unconfirmed.is_some() {
            state.store.resource_version.clear();
        }
        drop(state);
        self.told_store();
    }

    /// Another target whose state store may hold a later document than this one's: it has not told yet. One that cannot be
    /// reached holds up nothing, and what is in force here goes on.
    pub fn untold_target(&self) -> Option<String> {
        if self.is_store_read() {
            return None;
        }
        let mut others = self.controller.pipelines().into_iter().filter(|one| !std::ptr::eq(&**one, self));
        let untold = others.find(|one| !one.has_told_store() && !one.is_lost())?;
        Some(untold.generation().target.name.clone())
    }

    /// Whether another target of a mapping may hold a state store of it: not all have told that they hold none.
    pub fn may_another_hold_a_store(&self, mapping: &Mapping) -> bool {
        let (Some(rule), manager) = (&mapping.target_rule, &self.shared.manager) else { return false };
        let holds_none = |one: &Arc<Self>| one.has_told_store() && one.state.lock().store.resource_version.is_empty();
        let (without, others): (Vec<_>, Vec<_>) = self.controller.pipelines().into_iter().partition(holds_none);
        let without: BTreeSet<String> = without.iter().map(|one| one.generation().target.name.clone()).collect();
        // Asked before its clusters are listed: once they are known, all of them are.
        let is_open = |fleet: &ClusterSelection| !manager.is_synced(&SourceClusters::Provider(fleet.provider.clone()));
        !others.is_empty()
            || rule.fleet.as_ref().is_some_and(is_open)
            || rule.allowed.iter().cloned().chain(selected(manager, mapping)).any(|name| !without.contains(&name))
    }

    /// The mapping was removed, and has taken everything away here, if this generation still runs.
    pub fn take_leave(&self, generation: &Arc<Generation>) {
        let mut state = self.state.lock();
        state.has_taken_leave = Arc::ptr_eq(generation, &self.generation());
    }

    /// Whether the mapping was removed and has taken everything away here, in this term of the lease.
    pub fn has_taken_leave(&self) -> bool {
        let state = self.state.lock();
        state.has_taken_leave && state.term == self.shared.lease.number()
    }

    /// Whether nothing of the mapping is left on its target, as far as that can be known: no source in sight names the target,
    /// and no object is there, nor may come late. A cluster that its provider no longer lists is not asked.
    pub fn is_left(&self) -> bool {
        let target = &self.generation().target;
        self.controller.are_sources_listed()
            && !self.learned.lock().may_come_late(Instant::now())
            && !self.controller.serves_somebody()
            && (target.is_away() || (self.follows_every_kind() && !self.has_any_object()))
            && !self.controller.any_source_on(&target.name)
    }

    /// Whether every cluster of sources that the target's state store names is in sight. What a target that is away said last counts
    /// no more.
    pub fn hides_no_source(&self) -> bool {
        self.generation().target.is_away() || (self.are_clusters_known() && self.lost_cluster().is_none())
    }

    /// Whether the target, or its state store, cannot be reached.
    pub fn is_lost(&self) -> bool {
        let target = &self.generation().target;
        let is_refused = |why: &String| why != NOT_READ && target.identity().is_ok();
        target.is_lost() || self.state.lock().unconfirmed.as_ref().is_some_and(is_refused)
    }

    /// Whether that is otherwise than when it was last asked. A source does not move to a target before it is known which cluster
    /// that is.
    pub fn has_become_lost_or_found(&self) -> bool {
        let is_lost = self.is_lost() || self.generation().target.identity().is_err();
        std::mem::replace(&mut self.state.lock().was_lost, is_lost) != is_lost
    }

    /// Whether what the target has of the mapping's sources is known.
    fn reach(&self) -> Reach {
        if self.is_lost() {
            return Reach::Lost;
        }
        let is_known = self.generation().target.identity().is_ok() && self.is_store_read();
        if is_known && self.has_asked_for_every_kind() { Reach::Seen } else { Reach::Starting }
    }

    /// What is known of the target, but for the objects that a source has there.
    pub fn as_target(&self) -> (String, OtherTarget) {
        let target = &self.generation().target;
        let other = OtherTarget {
            reach: self.reach(),
            identity: target.identity().ok(),
            url: Some(target.endpoint().url().to_owned()),
            objects: Objects::default(),
            unsettled: None,
        };
        (target.name.clone(), other)
    }

    /// This target, one of several that are `targets`; `None`: the mapping has one for all.
    pub fn among(&self, targets: &Arc<BTreeMap<String, OtherTarget>>) -> Option<TargetContext> {
        let generation = self.generation();
        generation.mapping.target_rule.as_ref()?;
        let (selected, name) = (self.controller.selected(), generation.target.name.clone());
        Some(TargetContext { name, selected, targets: targets.clone() })
    }

    /// Why a source was not in sync on the target when it was planned last, as others tell it.
    pub fn unsettled_here(&self, key: &Key) -> Option<Reason> {
        self.state.lock().unsettled.get(key).and_then(|how| how.of_target.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ClusterName;

    #[test]
    fn a_source_does_not_wait_behind_all_that_another_cluster_has() {
        let key = |cluster: &str, name: &str| Key::new(ClusterName::try_from(cluster).expect("a name"), "ns", name);
        let mut seats = TargetSeats::default();
        assert!(seats.take(&key("busy", "first"), 1));
        (0..100).for_each(|number| assert!(!seats.take(&key("busy", &number.to_string()), 1)));
        assert!(!seats.take(&key("other", "x"), 1) && !seats.take(&key("other", "x"), 1));
        assert_eq!((seats.waiting(), seats.call(1)), (101, Vec::new()));
        assert_eq!(seats.call(4), [key("busy", "0"), key("other", "x"), key("busy", "1")]);
        assert_eq!((seats.call(1000).len(), seats.waiting()), (98, 0));
    }
}
