//! What the pipelines of a mapping with several targets know of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use super::{NOT_READ, Pipeline, Unsettled};
use crate::multicluster::queue::Priority;
use crate::object::{Key, metadata};
use crate::plan::TargetObject;
use crate::plan::objects::Objects;
use crate::plan::targets::{Among, Other, Sight};

/// The other targets of the mapping.
#[derive(Debug, Default)]
pub struct Others {
    /// Set where the mapping has several targets.
    is_among: bool,
    /// The clusters of a provider that may be targets now.
    selected: BTreeSet<String>,
    /// Their pipelines, by the name of the target.
    pipelines: BTreeMap<String, Weak<Pipeline>>,
    /// Sources of which this target tells in the status how all are.
    reports_for_all: BTreeSet<Key>,
    /// What the target that tells of a source was told of its objects here: a hash of their versions.
    versions: BTreeMap<Key, u64>,
    /// Sources that may wait for other targets, with the names of those that were not in sight, and how they were seen.
    withheld: BTreeMap<Key, BTreeMap<String, Sight>>,
    /// Former targets, as long as the state store names them.
    left: BTreeSet<String>,
    /// Whether the cluster could not be reached when that was last looked at.
    is_lost: bool,
}

impl Others {
    /// Whether the mapping has several targets.
    pub fn is_among(&self) -> bool {
        self.is_among
    }
}

impl Pipeline {
    /// These are the mapping's other targets from now on. `true`: they were others before.
    pub fn know(&self, selected: BTreeSet<String>, pipelines: BTreeMap<String, Weak<Self>>) -> bool {
        let mut others = self.others();
        let is_same = |(name, one): (&String, &Weak<Self>)| {
            others.pipelines.get(name).is_some_and(|known| Weak::ptr_eq(known, one))
        };
        let is_known = others.is_among
            && others.selected == selected
            && others.pipelines.len() == pipelines.len()
            && pipelines.iter().all(is_same);
        others.is_among = true;
        others.selected = selected;
        let gone: Vec<String> =
            others.pipelines.keys().filter(|name| !pipelines.contains_key(*name)).cloned().collect();
        others.left.extend(gone);
        others.left.retain(|name| !pipelines.contains_key(name));
        others.pipelines = pipelines;
        !is_known
    }

    /// Whether the mapping had this target once, and has it no longer.
    pub fn was_target(&self, name: &str) -> bool {
        self.others().left.contains(name)
    }

    /// The state store names these targets.
    pub fn recorded_targets(&self, names: &BTreeSet<String>) {
        self.others().left.retain(|name| names.contains(name));
    }

    /// Whether nothing of the mapping is left on its target, as far as that can be known: no source in sight names the target,
    /// and no object is there. A cluster that its provider no longer lists is not asked.
    pub fn is_left(&self) -> bool {
        let target = &self.generation().target;
        self.are_sources_listed()
            && !self.serves_somebody()
            && (target.is_away() || (self.follows_every_kind() && !self.has_any_object()))
            && !self.any_source(|pins| pins.contains_key(&target.name))
    }

    /// The targets that the mapping has, where there are several.
    pub fn all_targets(&self) -> BTreeSet<String> {
        let others = self.others();
        let own = others.is_among.then(|| self.generation().target.name.clone());
        others.pipelines.keys().cloned().chain(own).collect()
    }

    fn other_pipelines(&self) -> Vec<(String, Arc<Self>)> {
        let others = self.others();
        others.pipelines.iter().filter_map(|(name, one)| Some((name.clone(), one.upgrade()?))).collect()
    }

    /// What is known of the mapping's targets for one source, but for its objects there.
    pub fn among(&self, key: &Key) -> Option<Among> {
        let selected = {
            let others = self.others();
            others.is_among.then(|| others.selected.clone())?
        };
        let others = self.other_pipelines().into_iter().map(|(name, one)| {
            let unsettled = one.state().unsettled.get(key).cloned();
            let other = Other {
                sight: one.sight(key),
                identity: one.generation().target.identity().ok(),
                url: Some(one.generation().target.endpoint().url().to_owned()),
                cannot_report: unsettled.as_ref().is_some_and(Unsettled::cannot_report),
                objects: Objects::default(),
                unsettled: unsettled.and_then(|how| how.of_target.clone()),
            };
            (name, other)
        });
        let name = self.generation().target.name.clone();
        Some(Among { name, selected, others: others.collect(), is_reported_elsewhere: false })
    }

    /// Remembers which other targets a source may wait for, and whether this one tells of all; `objects` reads what another
    /// target has of it, if anybody `reads` that.
    pub fn read_others(&self, key: &Key, among: &mut Among, reads: bool, objects: impl Fn(&Self) -> Objects) {
        if reads {
            for (name, one) in self.other_pipelines() {
                among.others.entry(name).and_modify(|other| other.objects = objects(&one));
            }
        }
        let generation = self.generation();
        let is_unseen = |other: &Other| match generation.mapping.has_several_targets() {
            true => other.sight != Sight::Seen,
            // A source moves to a target that can be reached, whatever that has of it.
            false => other.sight == Sight::Lost || other.identity.is_none(),
        };
        let unseen = among.others.iter().filter(|(_, other)| is_unseen(other));
        let unseen: BTreeMap<String, Sight> = unseen.map(|(name, other)| (name.clone(), other.sight)).collect();
        let mut others = self.others();
        match unseen.is_empty() {
            true => others.withheld.remove(key),
            false => others.withheld.insert(key.clone(), unseen),
        };
        match among.is_reported_elsewhere {
            true => others.reports_for_all.remove(key),
            false => others.reports_for_all.insert(key.clone()),
        };
    }

    fn reports_for_all(&self, key: &Key) -> bool {
        self.others().reports_for_all.contains(key)
    }

    /// Nothing of these sources is left: none of them waits for another target.
    pub(super) fn forget_waiting(&self, is_gone: impl Fn(&Key) -> bool) {
        let mut others = self.others();
        others.withheld.retain(|key, _| !is_gone(key));
        others.reports_for_all.retain(|key| !is_gone(key));
        others.versions.retain(|key, _| !is_gone(key));
        drop(others);
        self.state().promotion.forget(is_gone);
    }

    /// Sources that may wait for other targets.
    pub(super) fn waiting(&self) -> usize {
        self.others().withheld.len()
    }

    /// Whether the target, or its state store, cannot be reached.
    pub fn is_lost(&self) -> bool {
        let target = &self.generation().target;
        let is_refused = |why: &String| why != NOT_READ && target.identity().is_ok();
        target.is_lost() || self.state().unconfirmed.as_ref().is_some_and(is_refused)
    }

    /// Whether what this target has of a source is known.
    fn sight(&self, key: &Key) -> Sight {
        if self.is_lost() {
            return Sight::Lost;
        }
        let is_known = self.generation().target.identity().is_ok();
        let has_come = self.source_feeds().iter().any(|feed| feed.watch.store().get(key).is_some());
        // A source that was planned before the objects were listed may have some here all the same.
        let is_listed = self.has_asked_for_every_kind();
        let state = self.state();
        match state.unconfirmed.is_none() && is_known && has_come && is_listed && !state.unplanned.contains(key) {
            true => Sight::Seen,
            false => Sight::Starting,
        }
    }

    /// A source has these objects here, which the status tells of.
    pub fn note_objects(&self, key: &Key, objects: &Objects) {
        if !self.generation().mapping.has_several_targets() {
            return;
        }
        let version = |one: &TargetObject| (one.uid().to_owned(), metadata(&one.object, "resourceVersion").to_owned());
        let mut hash = DefaultHasher::new();
        objects.iter().map(version).for_each(|version| version.hash(&mut hash));
        let versions = objects.iter().next().map(|_| hash.finish());
        let mut others = self.others();
        let before = match versions {
            Some(versions) => others.versions.insert(key.clone(), versions),
            None => others.versions.remove(key),
        };
        drop(others);
        if versions != before {
            self.tell_others(key);
        }
    }

    /// How the source is here is news to the target that tells of all; where it is not known which one does, and where this one
    /// did and cannot now, to each.
    pub fn tell_others(&self, key: &Key) {
        if !self.generation().mapping.has_several_targets() {
            return;
        }
        let cannot_report = self.state().unsettled.get(key).is_some_and(Unsettled::cannot_report);
        let others: Vec<Arc<Self>> = self.other_pipelines().into_iter().map(|(_, one)| one).collect();
        let reporters: Vec<Arc<Self>> = others.iter().filter(|one| one.reports_for_all(key)).cloned().collect();
        let told = match (self.reports_for_all(key), reporters.is_empty()) {
            (true, _) if cannot_report => others,
            (_, false) => reporters,
            (true, true) => Vec::new(),
            (false, true) => others,
        };
        told.iter().for_each(|one| one.queue.add(key.clone(), Priority::Live));
    }

    /// A source was planned here for the first time: the others may have waited for that.
    pub fn tell_waiting(&self, key: &Key) {
        let waits = |one: &Self| one.others().withheld.contains_key(key);
        let waiting = self.other_pipelines().into_iter().filter(|(_, one)| waits(one));
        waiting.for_each(|(_, one)| one.queue.add(key.clone(), Priority::Live));
    }

    /// Queues what waited for a target that is seen otherwise now; and all sources of the others, once this target cannot be
    /// reached any more. Called now and then, so that a short interruption changes no status.
    pub fn look_at_others(&self) {
        let pipelines = self.other_pipelines();
        if pipelines.is_empty() {
            return;
        }
        let (generation, has_several) = (self.generation(), self.generation().mapping.has_several_targets());
        // A source does not move to a target before it is known which cluster that is.
        let is_lost = self.is_lost() || (!has_several && generation.target.identity().is_err());
        let withheld = {
            let mut others = self.others();
            if is_lost && !others.is_lost {
                pipelines.iter().for_each(|(_, one)| one.enqueue_all());
            }
            others.is_lost = is_lost;
            others.withheld.clone()
        };
        let has_changed = |key: &Key, name: &String, seen: Sight| {
            let one = pipelines.iter().find(|(other, _)| other == name);
            one.is_none_or(|(_, one)| one.sight(key) != seen)
        };
        for (key, unseen) in withheld {
            if unseen.iter().any(|(name, seen)| has_changed(&key, name, *seen)) {
                // Whoever still has to wait says so again.
                self.others().withheld.remove(&key);
                self.queue.add(key, Priority::Initial);
            }
        }
    }
}
