//! What is held of each mapping: a document that waits, or what the one in force takes away beyond its ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::warn;

use super::Engine;
use super::approval::AllHeld;
use super::inventory::document_hash;
use super::pipeline::Pipeline;
use super::serving::compiled;
use super::slots::Slot;
use crate::mapping::Mapping;
use crate::object::{Key, count};
use crate::release::Held;
use crate::release::ledger::Ledger;
use crate::release::waves::Stage;

/// A ledger of which sources may still ask something.
#[derive(Debug)]
pub(super) struct Open {
    ledger: Ledger,
    /// The documents before; `None`: one of them cannot be read any more.
    documents: Option<Vec<Arc<Mapping>>>,
    /// How much is shared out of it. What another process was to share out is, too.
    spent: usize,
    /// Whether home has it: what is given is recorded first.
    is_recorded: bool,
    /// What sources ask for beyond it.
    held: Option<Held>,
}

impl Engine {
    /// Shares out of the ledgers what sources ask for, and ends those of which nobody can ask any more.
    pub(super) fn share_ledgers(&mut self) {
        if self.shared.lease.is_held() {
            let names: Vec<String> = self.ledgers.keys().cloned().collect();
            names.iter().for_each(|name| self.share_ledger(name));
        }
        self.tell_held();
    }

    fn share_ledger(&mut self, name: &str) {
        let all: Vec<Arc<Pipeline>> = self.pipelines_of(name).cloned().collect();
        let Some(open) = self.ledgers.get(name) else { return };
        let given = match open.is_recorded {
            true => self.recorded_ledger(name, &open.ledger).map_or(open.spent, |recorded| recorded.given),
            false => open.ledger.allowed,
        };
        let asked = all.iter().flat_map(|one| one.asked().into_iter().map(move |(key, objects)| (one, key, objects)));
        let asked: Vec<(&Arc<Pipeline>, Key, usize)> = asked.collect();
        let sizes: Vec<usize> = asked.iter().map(|(_, _, objects)| *objects).collect();
        let share = open.ledger.share(given, open.spent, &sizes);
        let granted: BTreeSet<usize> = share.granted.into_iter().collect();
        let mut held = Held { document: format!("{} ledger", open.ledger.release), ..Held::default() };
        let mut spent = open.spent;
        for (index, (pipeline, key, objects)) in asked.into_iter().enumerate() {
            if granted.contains(&index) {
                spent += objects;
                pipeline.grant(key, objects);
            } else {
                *held.deletions.entry(pipeline.generation().target.name.clone()).or_default() += objects;
                held.show(format!("{}: {}", pipeline.title_of(&key), count(objects, "object")));
            }
        }
        let is_asked = !held.deletions.is_empty() || self.is_coming(name);
        let is_over = !is_asked && all.iter().all(|pipeline| pipeline.is_at_its_end());
        let Some(open) = self.ledgers.get_mut(name) else { return };
        (open.spent, open.held) = (spent, share.is_exceeded.then_some(held));
        let is_news = share.given > given;
        open.ledger.given = open.ledger.given.max(share.given);
        if is_over {
            self.close_ledger(name);
        } else if is_news {
            self.set_ledger(name, self.ledger(name).cloned());
        }
    }

    /// Whether home says that a document is released which is not in force here yet.
    fn is_coming(&self, name: &str) -> bool {
        let (Some(one), Some(progress)) = (self.in_force.get(name), self.progress(name)) else { return false };
        progress.stage == Stage::Released && progress.in_force == document_hash(&one.document().text, "")
    }

    /// The ledger of a mapping as home has it.
    fn recorded_ledger(&self, name: &str, ledger: &Ledger) -> Option<&Ledger> {
        let recorded = self.recorded_releases.get(name)?.ledger.as_ref();
        recorded.filter(|recorded| recorded.release == ledger.release)
    }

    /// A ledger as it is to be recorded.
    pub(super) fn ledger(&self, name: &str) -> Option<&Ledger> {
        self.ledgers.get(name).filter(|open| open.is_recorded).map(|open| &open.ledger)
    }

    /// The document in force of a mapping may take away this much beyond what was counted. `is_recorded`: home has it.
    pub(super) fn open_ledger(&mut self, name: &str, ledger: Ledger, is_recorded: bool) {
        if self.ledgers.get(name).is_some_and(|open| open.ledger.release == ledger.release) {
            return;
        }
        let documents = ledger.former.iter().map(|text| compiled(text)).collect();
        let open = Open { spent: ledger.given, ledger, documents, is_recorded, held: None };
        self.ledgers.insert(name.to_owned(), open);
        self.slots_of(name).for_each(|(slot, _)| self.open_losses(slot));
    }

    /// Home has this of a ledger: what another process of the engine has given out of it since is spent.
    pub(super) fn reread_ledger(&mut self, name: &str, recorded: &Ledger) {
        let known = self.recorded_ledger(name, recorded).map_or(recorded.given, |known| known.given);
        let open = self.ledgers.get_mut(name);
        if let Some(open) = open.filter(|open| open.is_recorded && open.ledger.release == recorded.release) {
            open.spent += open.ledger.reread(recorded, known);
        }
    }

    /// A pipeline goes by the ledger of its mapping.
    pub(super) fn open_losses(&self, slot: &Slot) {
        let (Some(Open { ledger, documents, .. }), Some(running)) =
            (self.ledgers.get(&slot.mapping), self.pipelines.get(slot))
        else {
            return;
        };
        // Where a mapping has one target, that may be another one from now on.
        let counted = match slot.target.is_empty() {
            true => ledger.counted.values().flatten().cloned().collect(),
            false => ledger.counts_on(&slot.target),
        };
        running.pipeline.open_losses(documents.clone(), counted);
    }

    /// Nothing is compared any more: every source has come to its end, or the mapping serves others.
    pub(super) fn close_ledger(&mut self, name: &str) {
        if self.drop_ledger(name).is_some_and(|open| open.is_recorded) {
            self.set_ledger(name, None);
        }
    }

    /// The same, without a word at home.
    pub(super) fn drop_ledger(&mut self, name: &str) -> Option<Open> {
        let open = self.ledgers.remove(name)?;
        self.pipelines_of(name).for_each(|pipeline| pipeline.close_losses());
        Some(open)
    }

    /// A mapping that takes nothing away for now goes by what home has once it does again.
    pub(super) fn forget_recorded_ledger(&mut self, name: &str) {
        if self.ledger(name).is_some() {
            self.drop_ledger(name);
        }
    }

    /// Tells what is held to whoever records it and looks for approvals. Where nothing is, the record goes, and with it what a person
    /// rejected: the same edit may be wanted later.
    pub(super) fn tell_held(&mut self) {
        let known = self.catalog.mappings().filter_map(|(name, _)| {
            let held = self.held(name);
            let is_known = held.is_some() || !(self.has_candidate(name) || self.may_hold(name));
            is_known.then(|| (name.to_owned(), held))
        });
        let known: AllHeld = known.collect();
        self.rejected.retain(|name, _| known.get(name) != Some(&None));
        self.all_held.send_if_modified(|told| {
            let is_news = *told != known;
            *told = known;
            is_news
        });
    }

    /// Whether something may be held that is not known yet: a process that starts has planned no source, and a mapping may run only once
    /// a cluster of a fleet comes into sight.
    fn may_hold(&self, name: &str) -> bool {
        let is_open = self.ledgers.contains_key(name);
        let may_ask = |pipeline: &Arc<Pipeline>| {
            let is_untold = pipeline.unconfirmed().is_some() || !pipeline.has_told_store();
            is_untold || !pipeline.asked().is_empty() || (is_open && !pipeline.is_planned())
        };
        let mut running = self.pipelines_of(name).peekable();
        !self.is_release_known(name) || running.peek().is_none() || running.any(may_ask)
    }

    /// What is held of a mapping.
    pub(super) fn held(&self, name: &str) -> Option<Held> {
        self.held_candidate(name).or_else(|| self.ledgers.get(name)?.held.clone())
    }

    /// How many losses wait for a person's approval, by the connection of the target.
    pub(super) fn held_losses(&self, name: &str) -> BTreeMap<String, usize> {
        let held = self.ledgers.get(name).and_then(|open| open.held.as_ref());
        held.map(|held| held.deletions.clone()).unwrap_or_default()
    }

    /// A person approved what is held of a mapping.
    pub(super) fn approved(&mut self, name: &str, approved: Held) {
        self.rejected.remove(name);
        if let Some(held) = self.held_candidate(name) {
            return self.approve_candidate(name, &held, approved);
        }
        let Some(open) = self.ledgers.get_mut(name) else { return };
        let Some(held) = open.held.as_ref().filter(|held| held.is_within(&approved)) else {
            return warn!(
                mapping = name,
                "something else is held than a person approved; nothing is released, and `sync-engine approve` shows it"
            );
        };
        let objects = held.lost();
        open.ledger.approve(open.spent, objects);
        warn!(mapping = name, objects, "a person approved losses that follow from the changed or removed document");
        let objects = count(objects, "object");
        let told = format!("a person approved the loss of {objects} by the changed or removed document");
        self.tell_provider(Some(name), false, "LossesApproved", told);
        // That of a removal is not at home. Home may have the one of the edit before, for who puts the file back.
        if let Some(ledger) = self.ledger(name).cloned() {
            self.set_ledger(name, Some(ledger));
        }
        self.share_ledgers();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Event;
    use crate::engine::tests::{home_says, release, serving_one, store};

    /// The lease was lost and is held again, and home tells of the ledger while the keeper still waits for a slow target.
    #[tokio::test]
    async fn a_pipeline_goes_by_the_ledger_also_where_its_keeper_hears_of_the_term_after_that() {
        let (mut engine, pipeline) = serving_one();
        let text = pipeline.generation().mapping.text.clone();
        let ledger = Ledger::new("edit".to_owned(), vec!["earlier".to_owned()], 3);
        let lease = engine.shared.lease.clone();
        lease.lose();
        lease.take(None, None);
        engine.handle(Event::Leadership);
        store(&pipeline, "");
        assert!(pipeline.is_settled());
        home_says(&mut engine, Some(release(&text, "earlier", Stage::Released, Some(ledger))));
        pipeline.leadership(lease.number());
        assert!(!pipeline.is_settled());
    }

    /// Who puts the file back finds what the edit before may still take away.
    #[tokio::test]
    async fn losses_of_a_removal_that_a_person_approves_leave_the_ledger_at_home_as_it_is() {
        for is_recorded in [false, true] {
            let (mut engine, pipeline) = serving_one();
            let text = pipeline.generation().mapping.text.clone();
            let ledger = |of: &str| Ledger::new(of.to_owned(), vec!["earlier".to_owned()], 3);
            home_says(&mut engine, Some(release(&text, "earlier", Stage::Released, Some(ledger("edit")))));
            if !is_recorded {
                engine.drop_ledger("first");
                engine.open_ledger("first", ledger("removal"), false);
            }
            let held =
                Held { document: "it".to_owned(), deletions: [("target".to_owned(), 5)].into(), ..Held::default() };
            engine.ledgers.get_mut("first").expect("a ledger").held = Some(held.clone());
            engine.approved("first", held);
            let at_home = engine.progress("first").and_then(|progress| progress.ledger).expect("it stays");
            assert_eq!((&*at_home.release, at_home.allowed), ("edit", if is_recorded { 5 } else { 3 }));
        }
    }
}
