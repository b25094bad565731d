//! What the state store on the target says, and what follows from that for the document that runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::{Generation, NOT_READ, Pipeline, State, recorded_as};
use crate::engine::interests::Topic;
use crate::engine::inventory::{self, Inventory};
use crate::engine::serving::{compiled, names_other_sources, other_document};
use crate::mapping::template::Text;
use crate::mapping::{Kind, Mapping, Mode, Side, placement};
use crate::multicluster::queue::Priority;
use crate::multicluster::registry::Cluster;
use crate::object::Key;
use crate::plan::Phase;

impl Pipeline {
    /// Notes what became of the state store with this generation. Once it is confirmed, every source is planned: what was planned
    /// before knew neither the target nor what is held back.
    pub fn confirm(&self, generation: &Arc<Generation>, result: Result<Inventory, String>) {
        let mut state = self.state.lock();
        if state.term != self.shared.lease.number() || !Arc::ptr_eq(generation, &self.generation()) {
            // The term of the lease or the document is another meanwhile: it is read again.
            return;
        }
        let was_unconfirmed = state.unconfirmed.is_some();
        let was_told = state.unconfirmed.as_ref().is_some_and(|why| why != NOT_READ);
        let was_recorded = !state.store.resource_version.is_empty();
        let former = state.store.kinds.clone();
        match result {
            Ok(mut store) => {
                // A document that is not recorded leaves the one before in the state store, whose place it still takes.
                if generation.records() && other_document(&store, &generation.mapping).is_none() {
                    state.superseded.clear();
                }
                if (&state.store.release, &state.store.document) != (&store.release, &store.document) {
                    // Sources may follow another document from now on.
                    self.shared.counted.notify_one();
                }
                if !state.promotion.is_told() {
                    state.known_releases.insert(store.release.clone());
                } else if !state.knows_release(&store.release) {
                    // Another process has begun it since home was read, or the state store was put back, and home with it.
                    state.promotion.doubt();
                }
                // What nobody recorded has taken in nothing.
                state.has_served |= !store.resource_version.is_empty();
                if store.document == generation.mapping.text {
                    // It is kept once.
                    store.document = generation.mapping.text.clone();
                    *self.controller.last_recorded.lock() = Some(store.document.clone());
                    state.recorded_at = store.recorded;
                }
                state.keep(generation, store);
                state.unconfirmed = None;
            }
            Err(why) => state.unconfirmed = Some(why),
        }
        let is_confirmed = state.unconfirmed.is_none();
        let is_recorded = !state.store.resource_version.is_empty();
        let left: Vec<Kind> = former.difference(&state.store.kinds).cloned().collect();
        drop(state);
        left.iter().for_each(|kind| self.kind_left(kind));
        if is_recorded && !was_recorded {
            // Those of other targets may have waited for it.
            self.controller.check_unconfirmed();
        }
        if was_unconfirmed && is_confirmed {
            self.controller.enqueue_for(&[self]);
            // It may have come while nobody led.
            self.wake_deleted(Priority::Initial);
        }
        // Another reason why it is still not confirmed is no news to those who wait.
        if is_confirmed || !was_told {
            self.controller.touch(Topic::Store(generation.target.cluster.clone()));
        }
    }

    /// Why the inventory is not confirmed, if so. In another term of the lease, it is not.
    pub fn unconfirmed(&self) -> Option<String> {
        let state = self.state.lock();
        let is_outdated = state.term != self.shared.lease.number();
        let unread = || is_outdated.then(|| NOT_READ.to_owned());
        state.unconfirmed.clone().or_else(unread).or_else(|| state.untold_release())
    }

    /// Whether it is known what the state store says.
    pub fn is_store_read(&self) -> bool {
        self.state.lock().unconfirmed.is_none()
    }

    /// Whether the target was found without a state store of the mapping, without which nothing is written.
    pub fn is_unrecorded(&self) -> bool {
        let state = self.state.lock();
        state.unconfirmed.is_none() && state.store.resource_version.is_empty()
    }

    /// What the state store says to a replica that stands by.
    pub fn saw_recorded(&self, store: Option<&Inventory>) {
        let text = &self.generation().mapping.text;
        self.state.lock().store_in_words = match store {
            None => "the state store is not there, or cannot be read",
            Some(store) if store.document != *text => "the state store has another document",
            Some(store) if store.release.is_empty() => "in force",
            Some(_) => "recorded, and its release goes on",
        };
    }

    /// The same; empty before it was read.
    pub fn recorded_in_words(&self) -> &'static str {
        self.state.lock().store_in_words
    }

    /// The document that the state store holds, or the one that takes its place and is not recorded yet.
    pub fn document_in_force(&self) -> Option<Arc<Mapping>> {
        let (generation, document) = (self.generation(), self.state.lock().store.document.clone());
        if generation.mapping.text == document {
            return Some(generation.mapping.clone());
        }
        let recorded = compiled(&document)?;
        if self.supersedes(&recorded) { Some(generation.mapping.clone()) } else { Some(recorded) }
    }

    /// This document takes the place of another one.
    pub fn supersede(&self, document: &Arc<Mapping>) {
        self.state.lock().superseded.push(document.clone());
    }

    pub fn supersedes(&self, document: &Mapping) -> bool {
        let current = self.generation();
        let is_it = |one: &Arc<Mapping>| {
            // Former sources have one place, whatever was said of them.
            let are_former = names_other_sources(one, &current.mapping) && !names_other_sources(one, document);
            one.text == document.text || are_former
        };
        self.state.lock().superseded.iter().any(is_it)
    }

    /// Whether the state store holds this document, and everything may be done that it says.
    pub fn is_confirmed_with(&self, mapping: &Arc<Mapping>) -> bool {
        self.unconfirmed().is_none() && self.holds(mapping) && Arc::ptr_eq(&self.generation().mapping, mapping)
    }

    /// Whether sources may have been taken in by the document that runs.
    pub fn has_served(&self) -> bool {
        self.state.lock().has_served
    }

    /// Whether another process has recorded this state store since the document that runs was last recorded.
    pub fn is_replaced_by(&self, store: &Inventory) -> bool {
        self.state.lock().recorded_at.is_some_and(|at| store.recorded > Some(at))
    }

    /// Home has had a document since then.
    pub fn named_at_home(&self, document: &Mapping, since: Timestamp) {
        if self.generation().mapping.text == document.text {
            *self.controller.last_recorded.lock() = Some(document.text.clone());
            let mut state = self.state.lock();
            state.recorded_at = state.recorded_at.max(Some(since));
        }
    }

    /// Whether the file of a document was removed before home or a state store had it: nothing follows from it, and the document
    /// before goes on.
    pub fn went_unrecorded(&self, generation: &Generation) -> bool {
        let was_recorded = || self.controller.last_recorded.lock().as_ref() == Some(&generation.mapping.text);
        let is_removed = generation.phase != Phase::Active && generation.mode == Mode::Enforce;
        generation.is_of_file && is_removed && !was_recorded()
    }

    /// Whether the state store names the cluster of a source; if not, it is to. Nothing is taken in there before: if the cluster
    /// is lost, nobody would know that it had sources. One that never had any is not named: nobody waits for it.
    pub fn is_named(&self, cluster: &Cluster) -> bool {
        let is_named = self.state.lock().store.clusters.contains(&recorded_as(cluster));
        if !is_named {
            self.check_inventory();
        }
        is_named
    }

    /// A cluster that the state store names, and that is out of sight.
    pub fn lost_cluster(&self) -> Option<String> {
        let here = self.are_clusters_known().then(|| self.controller.source_clusters())?;
        self.state.lock().store.clusters.difference(&here).next().cloned()
    }

    /// The same in words, and how a person ends it: nobody else knows whether something is left there.
    pub fn lost_in_words(&self) -> Option<String> {
        let (lost, generation) = (self.lost_cluster()?, self.generation());
        let store = inventory::name(&self.shared.settings.engine, self.writer.mapping());
        Some(format!(
            "`{lost}`, where the document in force served sources, is out of sight (if it is gone for good, take it out of \
             `clusters` in the ConfigMap `{store}` on target `{}`)",
            generation.target.name
        ))
    }

    /// These sources say that they were synced before there was a state store.
    pub fn set_unproven(&self, sources: BTreeSet<Key>) {
        self.state.lock().unproven = sources;
    }

    /// Another process has written the state store that this one found missing: what it took in since is no forgery.
    pub fn recorded_by_another(&self) {
        let mut state = self.state.lock();
        if state.store.resource_version.is_empty() {
            state.unproven.clear();
        }
    }

    /// Whether a source says that it was synced before there was a state store. It no longer does once it is let go.
    pub fn is_unproven(&self, key: &Key) -> bool {
        self.state.lock().unproven.contains(key)
    }

    pub fn proven(&self, key: &Key) {
        self.state.lock().unproven.remove(key);
    }

    /// Whether sources of former documents may still carry the engine's finalizer.
    pub fn has_former(&self) -> bool {
        !self.state.lock().store.former.is_empty()
    }

    pub fn former_placements(&self) -> Vec<Arc<Text>> {
        self.state.lock().former_placements.clone()
    }

    /// What only other documents than this one wrote into the status.
    pub fn former_status(&self, generation: &Generation) -> Arc<BTreeSet<String>> {
        let state = self.state.lock();
        match std::ptr::eq(generation, &*self.generation()) {
            true => state.former_status.clone(),
            false => Arc::new(generation.mapping.status.no_longer_written(&state.store.status)),
        }
    }

    /// The plural that a kind is or was served by, in any version, where the target or the state store tells it. Once the state store
    /// is read, `None` says that it never was. Beside a source, it is taken from the kind's name.
    pub fn plural(&self, kind: &Kind) -> Option<String> {
        if kind.side == Side::Source {
            return Some(kind.plural());
        }
        let served = self.generation().target.kind(kind).ok().map(|served| served.resource.plural);
        served.or_else(|| self.state.lock().store.plural(kind))
    }
}

impl State {
    /// Why nothing is planned although the state store is read: which sources follow a candidate is recorded at home.
    pub(super) fn untold_release(&self) -> Option<String> {
        let is_untold = !self.store.release.is_empty() && !self.promotion.is_told();
        is_untold.then(|| "how far the release of a candidate is, which home tells, is not known yet".to_owned())
    }

    fn knows_release(&self, release: &str) -> bool {
        release.is_empty() || self.promotion.records(release) || self.known_releases.contains(release)
    }

    fn keep(&mut self, generation: &Generation, store: Inventory) {
        // Where it is not written, it names them still.
        if generation.records() {
            self.places_left.retain(|place| store.clusters.contains(place));
            self.targets_left.retain(|name| store.targets.contains(name));
        }
        self.former_placements =
            store.placements.iter().filter_map(|text| placement::rule(text)).map(Arc::new).collect();
        self.former_status = Arc::new(generation.mapping.status.no_longer_written(&store.status));
        self.store = store;
    }
}
