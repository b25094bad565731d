//! What is held of a mapping on all its targets: a document that waits, or what the one in force deletes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::warn;

use super::Engine;
use super::approval::Deletions;
use super::pipeline::guard::{Count, Judgement, judge};
use super::pipeline::{Generation, Pipeline};
use crate::catalog::Entry;
use crate::release::Held;

impl Engine {
    /// Holds or releases what the mappings' documents ask to be deleted, as far as it is counted.
    pub(super) fn judge_deletions(&self) {
        for (entry, all) in self.by_mapping() {
            if !all.iter().all(|pipeline| pipeline.is_in_force()) {
                judge_mapping(&entry, &all, self.approved.get(&entry.mapping.name));
            }
        }
        self.tell_held();
    }

    /// Tells what is held to whoever records it and looks for approvals.
    pub(super) fn tell_held(&self) {
        let known = self.by_mapping().into_iter().map(|(entry, all)| {
            let name = entry.mapping.name.clone();
            let known = match self.held_candidate(&name) {
                Some(held) => Deletions::Held(held),
                None if self.has_candidate(&name) => Deletions::Counting,
                None => deletions(&all),
            };
            (name, known)
        });
        let known: BTreeMap<String, Deletions> = known.collect();
        self.deletions.send_if_modified(|told| {
            let is_news = *told != known;
            *told = known;
            is_news
        });
    }

    /// Releases the deletions of a mapping that are held, for a person approved them.
    pub(super) fn approved(&mut self, mapping: &str, approved: Held) {
        if let Some(held) = self.held_candidate(mapping) {
            return self.approve_candidate(mapping, &held, approved);
        }
        self.approve_deletions(mapping, &approved);
    }

    fn approve_deletions(&self, mapping: &str, approved: &Held) {
        let all = self.by_mapping().into_iter().find(|(entry, _)| entry.mapping.name == mapping);
        let Some((entry, all)) = all else { return };
        match deletions(&all) {
            Deletions::Held(held) if held.is_within(approved) => {}
            _ => return warn!(mapping, "something else is held than a person approved; nothing is released"),
        }
        let before = released(&entry, &all);
        let number: usize = all.iter().filter_map(|pipeline| pipeline.approve()).sum();
        warn!(
            mapping,
            deletions = number,
            "a person approved deletions that follow from the changed or removed document"
        );
        if number > 0 {
            let told = format!("a person approved {number} deletions that follow from the changed or removed document");
            self.tell_provider(Some(mapping), false, "DeletionsApproved", told);
            all.iter().for_each(|pipeline| pipeline.set_released(before + number));
        }
        self.tell_held();
    }

    /// The pipelines of each mapping: those of all targets.
    fn by_mapping(&self) -> Vec<(Cow<'_, Entry>, Vec<&Arc<Pipeline>>)> {
        let mut all: BTreeMap<&str, Vec<&Arc<Pipeline>>> = BTreeMap::new();
        self.running().for_each(|pipeline| all.entry(pipeline.writer.mapping()).or_default().push(pipeline));
        all.into_iter().filter_map(|(name, pipelines)| Some((self.entry(name)?, pipelines))).collect()
    }
}

fn judge_mapping(entry: &Entry, all: &[&Arc<Pipeline>], approved: Option<&Held>) {
    let counts: Vec<_> =
        all.iter().map(|pipeline| (pipeline.generation().target.name.clone(), pipeline.count())).collect();
    let before = released(entry, all);
    let mut judgement = judge(entry.mapping.release.max_lost, before, &counts);
    // A person knew of it before the document was released.
    let counted = |(pipeline, (_, count)): (&&Arc<Pipeline>, &(String, Count))| match count {
        Count::Counted { held, .. } if *held > 0 => Some((pipeline.generation(), *held)),
        _ => None,
    };
    let held = held(all.iter().zip(&counts).filter_map(counted));
    if judgement == Judgement::Hold && approved.is_some_and(|approved| held.is_within(approved)) {
        judgement = Judgement::Release;
    }
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

/// What is known of the deletions that a mapping's document asks for, as far as this replica decides on them.
fn deletions(all: &[&Arc<Pipeline>]) -> Deletions {
    let held = held(all.iter().filter_map(|pipeline| Some((pipeline.generation(), pipeline.held_here()?))));
    match held.deletions.is_empty() {
        false => Deletions::Held(held),
        true if all.iter().all(|pipeline| pipeline.is_in_force()) => Deletions::InForce,
        true => Deletions::Counting,
    }
}

/// So many deletions of these documents, each on its target.
fn held(of: impl Iterator<Item = (Arc<Generation>, usize)>) -> Held {
    let mut held = Held::default();
    let mut documents = BTreeSet::new();
    for (generation, number) in of {
        *held.deletions.entry(generation.target.name.clone()).or_default() += number;
        documents.insert(generation.ruling());
    }
    held.document = Vec::from_iter(documents).join(" ");
    held
}

/// How many deletions were released for the document so far, as the pipelines that have it know.
fn released(entry: &Entry, all: &[&Arc<Pipeline>]) -> usize {
    let of_document = all.iter().filter(|pipeline| pipeline.generation().mapping.text == entry.mapping.text);
    of_document.map(|pipeline| pipeline.released()).max().unwrap_or_default()
}
