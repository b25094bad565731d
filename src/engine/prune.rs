//! `pruneGuard` over all pipelines of a mapping: those of its targets, and of its former documents.

use std::sync::Arc;

use tracing::warn;

use super::Engine;
use super::pipeline::Pipeline;
use super::pipeline::guard::{Count, Judgement, judge};
use crate::catalog::Entry;

impl Engine {
    /// Holds or releases what the mappings' documents ask to be deleted, as far as it is counted.
    pub(super) fn judge_deletions(&self) {
        for (_, entry) in self.catalog.mappings() {
            let all = self.all_of(entry);
            if !all.iter().all(|pipeline| pipeline.is_in_force()) {
                judge_mapping(entry, &all);
            }
        }
    }

    /// Releases the deletions that are held; says which.
    pub(super) fn approve(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (_, entry) in self.catalog.mappings() {
            let all = self.all_of(entry);
            let before = released(entry, &all);
            let mut approved = 0;
            for pipeline in &all {
                let Some(number) = pipeline.approve() else { continue };
                let name = pipeline.name();
                warn!(
                    mapping = name,
                    "a person approved {number} deletions that follow from the changed or removed document"
                );
                lines.push(format!("mapping {name}: {number} deletions approved"));
                approved += number;
            }
            if approved > 0 {
                all.iter().for_each(|pipeline| pipeline.set_released(before + approved));
            }
        }
        lines
    }

    fn all_of<'a>(&'a self, entry: &Entry) -> Vec<&'a Arc<Pipeline>> {
        self.running().filter(|pipeline| pipeline.writer.mapping() == entry.mapping.name).collect()
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
