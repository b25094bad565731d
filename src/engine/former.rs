//! Former sources of mappings: they run on, for deletions and finalizers alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{error, info};

use super::Engine;
use super::inventory::{Former, SourceId};
use super::pipeline::{Generation, Pipeline};
use super::slots::Slot;
use crate::mapping::Mapping;
use crate::mapping::compile::Compiled;
use crate::plan::Phase;

impl Engine {
    /// Runs exactly these former sources of a mapping.
    pub(super) fn follow_former(&mut self, slot: &Slot, former: Vec<Former>) {
        let wanted: BTreeSet<&SourceId> = former.iter().map(|one| &one.source).collect();
        let ended: Vec<(Slot, SourceId)> =
            self.former.keys().filter(|(of, source)| of == slot && !wanted.contains(source)).cloned().collect();
        for key in ended {
            if self.pipelines.get(slot).is_some_and(|running| running.pipeline.serves(&key.1)) {
                info!(
                    mapping = slot.mapping,
                    cluster = key.1.identity,
                    "the former source is served through the fleet now"
                );
            }
            let running = self.former.remove(&key).and_then(|(_, running)| running);
            running.into_iter().for_each(|running| self.end(running));
        }
        for one in &former {
            self.start_former(slot, one);
        }
        // From the latest to the earliest.
        let mut later: Vec<_> =
            self.pipelines.get(slot).map(|running| Arc::downgrade(&running.pipeline)).into_iter().collect();
        for one in former.iter().rev() {
            let Some((_, Some(running))) = self.former.get(&(slot.clone(), one.source.clone())) else { continue };
            running.pipeline.is_followed_by(later.clone());
            later.push(Arc::downgrade(&running.pipeline));
        }
        let present = self.pipelines.get(slot).map(|running| &running.pipeline);
        let all: Vec<&Arc<Pipeline>> = present.into_iter().chain(self.former_of(slot)).collect();
        for one in &all {
            let others = all.iter().filter(|other| !Arc::ptr_eq(one, other));
            one.set_beside(others.map(|other| Arc::downgrade(other)).collect());
        }
        if let Some(running) = self.pipelines.get(slot)
            && former.iter().any(|one| running.pipeline.serves(&one.source))
        {
            // It came into sight meanwhile, and is to be taken off the state store.
            running.pipeline.check_inventory();
        }
        self.run_providers();
    }

    pub(super) fn start_former(&mut self, slot: &Slot, former: &Former) {
        let mapping = &slot.mapping;
        let key = (slot.clone(), former.source.clone());
        if self.former.contains_key(&key) || !self.pipelines.contains_key(slot) {
            return;
        }
        let Some(document) = compiled(&former.document) else {
            return error!(mapping, "the former document in the state store cannot be read; its objects are kept");
        };
        info!(mapping, source = former.source.resource, "the former source runs on, for deletions alone");
        self.former.insert(key.clone(), (document.clone(), None));
        self.run_providers();
        let target =
            if slot.target.is_empty() { document.state_store(&self.settings.home) } else { &slot.target }.to_owned();
        let Some(target) = self.target(&target) else { return };
        let generation = Generation::former(document, self.former_phase(mapping), former.source.clone(), target);
        let running = self.spawn(slot, generation);
        self.former.insert(key, (running.pipeline.generation().mapping.clone(), Some(running)));
    }

    /// A former source is served for deletions alone, until its mapping leaves.
    pub(super) fn former_phase(&self, mapping: &str) -> Phase {
        match self.catalog.mapping(mapping).map(Self::phase) {
            Some(leaving @ Phase::Leaving(_)) => leaving,
            _ => Phase::DeletionsOnly,
        }
    }

    pub(super) fn former_of<'a>(&'a self, slot: &'a Slot) -> impl Iterator<Item = &'a Arc<Pipeline>> {
        let of = self.former.iter().filter(move |((of, _), _)| of == slot);
        of.filter_map(|(_, (_, running))| Some(&running.as_ref()?.pipeline))
    }

    /// Has the former sources of a mapping leave with it, or come back.
    pub(super) fn lead_former(&mut self, slot: &Slot) {
        let phase = self.former_phase(&slot.mapping);
        for pipeline in self.former_of(slot) {
            let Generation { mapping, target, former, .. } = &*pipeline.generation();
            if pipeline.generation().phase != phase
                && let Some(source) = former
            {
                pipeline.swap(Generation::former(mapping.clone(), phase, source.clone(), target.clone()));
                pipeline.enqueue_all();
            }
        }
    }

    pub(super) fn former_done(&mut self, slot: &Slot, source: SourceId) {
        info!(mapping = slot.mapping, source = source.resource, "nothing of the former source is left");
        if let Some(running) = self.pipelines.get(slot) {
            running.pipeline.former_is_done(source);
        }
    }
}

/// The mapping of a document as the state store keeps it.
pub fn compiled(document: &str) -> Option<Arc<Mapping>> {
    let document = crate::yaml::parse_one(document)?;
    match crate::mapping::compile::compile_kept(&document)? {
        Compiled::Mapping(mapping) => Some(mapping),
        _ => None,
    }
}

/// Whether two documents of a mapping name the same resource of the same provider.
pub fn is_of_same_sources(one: &str, other: &str) -> bool {
    let sources = |document: &str| {
        let source = &compiled(document)?.source;
        Some((source.resource.group_plural(), source.clusters.clone()))
    };
    sources(one).is_some_and(|sources_of_one| Some(sources_of_one) == sources(other))
}
