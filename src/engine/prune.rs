//! `pruneGuard` over all pipelines of a mapping: those of its targets, and of its former documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;

use super::Engine;
use super::pipeline::Pipeline;
use super::pipeline::guard::{Count, Judgement, judge};
use crate::catalog::Entry;
use crate::multicluster::shares::Work;

impl Engine {
    /// Holds or releases what the mappings' documents ask to be deleted, as far as it is counted.
    pub(super) fn judge_deletions(&self) {
        for (entry, all) in self.by_mapping() {
            if !all.iter().all(|pipeline| pipeline.is_in_force()) {
                judge_mapping(entry, &all);
            }
        }
    }

    /// Releases the deletions that are held; says which. With several replicas, one of them counts, and an approval that it could
    /// not record is not handed on: a later document must not find it.
    pub(super) fn approve(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (entry, all) in self.by_mapping() {
            let before = released(entry, &all);
            let mut approved = 0;
            for pipeline in &all {
                let Some(number) = pipeline.approve() else { continue };
                let name = pipeline.name();
                warn!(
                    mapping = name,
                    "a person approved {number} deletions that follow from the changed or removed document"
                );
                lines.push(format!("mapping {name}: {number} deletions approved{}", self.repeat()));
                approved += number;
            }
            if approved > 0 {
                all.iter().for_each(|pipeline| pipeline.set_released(before + approved));
            }
            lines.extend(self.counted_elsewhere(entry, &all));
        }
        lines
    }

    /// Where to approve what this replica does not count.
    fn counted_elsewhere(&self, entry: &Entry, all: &[&Arc<Pipeline>]) -> Option<String> {
        let lease = &self.shared.lease;
        let name = &entry.mapping.name;
        let keeper = lease.owner(Work::Mapping(name)).filter(|_| lease.is_divided());
        let is_open = all.iter().all(|pipeline| pipeline.is_in_force() || pipeline.keeps());
        let keeper = keeper.filter(|_| !is_open)?;
        Some(format!("mapping {name}: replica `{keeper}` counts its deletions: what is held is approved there"))
    }

    fn repeat(&self) -> &'static str {
        match self.shared.lease.is_divided() {
            true => "; if they are held again, another replica counts them now: approve them there once more",
            false => "",
        }
    }

    /// The pipelines of each mapping: those of all targets, and of former documents.
    fn by_mapping(&self) -> Vec<(&Entry, Vec<&Arc<Pipeline>>)> {
        let mut all: BTreeMap<&str, Vec<&Arc<Pipeline>>> = BTreeMap::new();
        self.running().for_each(|pipeline| all.entry(pipeline.writer.mapping()).or_default().push(pipeline));
        all.into_iter().filter_map(|(name, pipelines)| Some((self.catalog.mapping(name)?, pipelines))).collect()
    }
}

fn judge_mapping(entry: &Entry, all: &[&Arc<Pipeline>]) {
    let counts: Vec<_> =
        all.iter().map(|pipeline| (pipeline.generation().target.name.clone(), pipeline.count())).collect();
    let before = released(entry, all);
    let judgement = judge(&entry.mapping.lifecycle.prune_guard, before, &counts);
    let mut sum = before;
    for (pipeline, (_, count)) in all.iter().zip(&counts) {
        let Count::Counted { held, .. } = count else { continue };
        // Where nothing is to be deleted, nothing is held.
        match judgement {
            Judgement::Hold if *held > 0 => pipeline.hold(),
            Judgement::Wait if *held > 0 => {}
            _ if pipeline.release_counted(*held) => sum += held,
            _ => {}
        }
    }
    if sum > before {
        all.iter().for_each(|pipeline| pipeline.set_released(sum));
    }
}

/// How many deletions were released for the document so far, as the pipelines that have it know.
fn released(entry: &Entry, all: &[&Arc<Pipeline>]) -> usize {
    let of_document = all.iter().filter(|pipeline| pipeline.generation().mapping.text == entry.mapping.text);
    of_document.map(|pipeline| pipeline.released()).max().unwrap_or_default()
}
