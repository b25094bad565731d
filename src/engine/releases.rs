//! How far releases are, as home says it, and which document the sources of each mapping follow by that.
//!
//! Home records each step before anything follows from it, and the state stores name what the candidate makes before anything
//! is written with it. So a process that starts in the middle finds which sources follow which document, and what both left.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::warn;

use super::Engine;
use super::approval::Releases;
use super::inventory::document_hash;
use super::pipeline::Pipeline;
use super::pipeline::promotion::Candidate;
use super::serving::{InForce, compiled, names_other_sources};
use crate::catalog::{Standing, have_same_effect};
use crate::mapping::{Mapping, Mode};
use crate::release::ledger::Ledger;
use crate::release::waves::{Progress, Stage, note};

impl Engine {
    /// What home says of releases is known from now on, in this term of the lease.
    pub(super) fn releases_known(&mut self, mut releases: Releases) {
        if releases.asked != self.releases.borrow().asked {
            // It was read before that was asked for.
            return;
        }
        let ledgers = releases.progress.iter().filter_map(|(name, progress)| Some((name, progress.ledger.as_ref()?)));
        ledgers.for_each(|(name, ledger)| self.reread_ledger(name, ledger));
        let is_same_term = std::mem::replace(&mut self.releases_read_in, releases.term) == releases.term;
        let before = std::mem::replace(&mut self.recorded_releases, releases.progress.clone());
        let wanted = self.releases.borrow().progress.clone();
        for name in wanted.keys().chain(before.keys()).filter(|_| is_same_term) {
            // Home has not recorded yet what is wanted: what a person decided, or that a mapping is gone, is told only once.
            if before.get(name) == self.recorded_releases.get(name) {
                note(&mut releases.progress, name, wanted.get(name).cloned());
            }
        }
        self.releases.send_replace(releases);
        for (name, refused) in
            wanted.iter().filter(|(name, refused)| is_same_term && before.get(*name) != Some(*refused))
        {
            self.refuse_again(name, refused);
        }
        self.pipelines.values().for_each(|running| running.pipeline.home_read());
        self.follow_releases();
        self.judge_documents();
    }

    /// A person rejects once. That counts also where home has a further step of the same release meanwhile, or was put back to a
    /// moment before it.
    fn refuse_again(&self, name: &str, refused: &Progress) {
        let Stage::Refused(why) = &refused.stage else { return };
        if self.waiting(name).is_none_or(|(one, entry)| one.release(entry) != refused.release) {
            return;
        }
        match self.progress(name) {
            None => self.set_progress(name, Some(refused.clone())),
            Some(known) if known.stage.wave().is_some() && known.release == refused.release => {
                self.set_refused(name, why);
            }
            Some(_) => {}
        }
    }

    /// Home records from now on that a release is so far.
    pub(super) fn release_recorded(&mut self, name: &str, progress: Option<Progress>) {
        note(&mut self.recorded_releases, name, progress);
        self.follow_releases();
        self.judge_and_share();
    }

    pub(super) fn are_releases_known(&self) -> bool {
        self.releases.borrow().term == Some(self.shared.lease.number()) && self.shared.lease.is_held()
    }

    /// The same of one mapping: this version may not be able to read what home says of it.
    pub(super) fn is_release_known(&self, name: &str) -> bool {
        self.are_releases_known() && !self.releases.borrow().unreadable.contains(name)
    }

    pub(super) fn set_progress(&self, name: &str, progress: Option<Progress>) {
        self.releases.send_if_modified(|releases| note(&mut releases.progress, name, progress));
    }

    pub(super) fn progress(&self, name: &str) -> Option<Progress> {
        self.releases.borrow().progress.get(name).cloned()
    }

    /// What is left of the ledger, as it is to be recorded.
    pub(super) fn set_ledger(&self, name: &str, ledger: Option<Ledger>) {
        self.set_progress(name, self.progress(name).map(|progress| Progress { ledger, ..progress }));
    }

    /// Has the sources of each mapping follow the documents that home says.
    pub(super) fn follow_releases(&mut self) {
        if !self.are_releases_known() {
            return;
        }
        // Several may say so. A release that a state store names no more may be over, or the state store was put back.
        if self.running().filter(|pipeline| pipeline.takes_doubt()).count() > 0 {
            self.releases.send_modify(|releases| (releases.term, releases.asked) = (None, releases.asked + 1));
            return;
        }
        let names: BTreeSet<String> = self.pipelines.keys().map(|slot| slot.mapping.clone()).collect();
        for name in names.into_iter().filter(|name| self.is_release_known(name)).collect::<Vec<_>>() {
            match self.recorded_releases.get(&name).cloned() {
                None => {
                    self.forget_recorded_ledger(&name);
                    self.pipelines_of(&name).for_each(|pipeline| pipeline.doubt_document());
                    self.end_release(&name);
                }
                Some(progress) => self.follow_progress(&name, progress),
            }
        }
    }

    fn follow_progress(&mut self, name: &str, progress: Progress) {
        let Some(entry) = self.catalog.mapping(name).cloned() else { return };
        let in_force = self.in_force.get(name).map(|one| document_hash(&one.document().text, ""));
        let holds_file = |pipeline: &Arc<Pipeline>| pipeline.holds(&entry.mapping);
        if entry.mapping.mode != Mode::Enforce {
            // It goes on where it was, once the mapping writes again.
            self.forget_recorded_ledger(name);
            self.pipelines_of(name).for_each(|pipeline| pipeline.no_release_is_under_way());
        } else if entry.standing == Standing::Retained {
            // Without its file, a mapping is retained as it was in force.
            self.forget_recorded_ledger(name);
            self.end_release(name);
        } else if in_force.as_ref() == Some(&progress.in_force) {
            self.follow_ledger(name, &progress);
            self.follow_release(name, progress);
        } else if in_force.is_some() || self.pipelines_of(name).any(holds_file) {
            let runs = self.in_force.get(name).map_or_else(|| entry.mapping.clone(), InForce::document);
            // It was released, or a person rejected the removal of its mapping.
            let is_in_force = progress.stage.wave().is_none() && does_the_same(&runs, &progress.candidate);
            if is_in_force && progress.ledger.is_some() {
                return self.go_on(name, &runs, &progress);
            }
            if is_left_to(&runs, &progress) {
                return self.take_back(name, &runs, &progress);
            }
            // The candidate took the place of the document in force, and nothing is left that anybody could ask for.
            self.forget_recorded_ledger(name);
            self.end_release(name);
            let is_over = self.pipelines_of(name).all(|pipeline| pipeline.is_release_recorded(""));
            if is_over && self.progress(name).as_ref() == Some(&progress) {
                self.set_progress(name, None);
            }
        }
        // Else it is not known yet which document is in force.
    }

    /// The document in force goes by the ledger at home, unless that is about to end, or another process has ended it.
    fn follow_ledger(&mut self, name: &str, progress: &Progress) {
        let is_ending = self.progress(name).is_none_or(|wanted| wanted.ledger.is_none());
        match progress.ledger.clone() {
            Some(ledger) if !is_ending => self.open_ledger(name, ledger, true),
            None if is_ending => self.forget_recorded_ledger(name),
            _ => {}
        }
    }

    /// A document that was released may still take something away.
    fn go_on(&mut self, name: &str, document: &Arc<Mapping>, progress: &Progress) {
        self.follow_ledger(name, progress);
        let is_released = progress.stage == Stage::Released;
        if is_released && *document.text != progress.candidate && self.progress(name).as_ref() == Some(progress) {
            // An edit that was in force at once has taken its place.
            let candidate = document.text.to_string();
            self.set_progress(name, Some(Progress { candidate, ..progress.clone() }));
        }
        for pipeline in self.pipelines_of(name) {
            pipeline.record_release(Some(Candidate { document: document.clone(), release: progress.release.clone() }));
            pipeline.demote();
        }
    }

    /// What runs does what the document in force did: that is released over the candidate, which goes no further.
    fn take_back(&self, name: &str, in_force: &Mapping, progress: &Progress) {
        let back = Progress {
            release: document_hash(&in_force.text, &progress.candidate),
            in_force: document_hash(&progress.candidate, ""),
            candidate: in_force.text.to_string(),
            stage: Stage::Released,
            ledger: self.ledger_back(name, in_force, progress),
        };
        self.set_progress(name, Some(back));
    }

    /// What may go of what only a candidate made that a part of the sources has followed. What home has of the ledger before counts:
    /// a process that has just started has opened none.
    pub(super) fn ledger_back(&self, name: &str, in_force: &Mapping, progress: &Progress) -> Option<Ledger> {
        if matches!(progress.stage, Stage::Refused(_)) {
            // It went back before: what may go since then is recorded.
            return progress.ledger.clone();
        }
        let before = progress.ledger.as_ref().map(|ledger| ledger.former.clone()).unwrap_or_default();
        let former = before.iter().cloned().chain([progress.candidate.clone()]).collect();
        let objects: usize = self.pipelines_of(name).map(|pipeline| pipeline.objects()).sum();
        let copies = self.pipelines_of(name).next().map_or(0, |pipeline| pipeline.copies());
        let most = in_force.release.max_lost.most(objects + copies);
        Some(Ledger::new(document_hash(&in_force.text, &progress.candidate), former, most))
    }

    fn follow_release(&mut self, name: &str, progress: Progress) {
        let Some(in_force) = self.in_force.get(name).map(InForce::document) else { return };
        let file = self.catalog.mapping(name).map(|entry| entry.mapping.clone());
        let followed = self.pipelines_of(name).filter_map(|pipeline| Some(pipeline.release_to_record()?.document));
        let known = followed.chain(file).find(|document| *document.text == progress.candidate);
        let Some(document) = known.or_else(|| compiled(&progress.candidate)) else {
            if matches!(progress.stage, Stage::Refused(_)) {
                return self.end_release(name);
            }
            if self.progress(name).as_ref() == Some(&progress) {
                let why = "this version of the engine cannot read it";
                warn!(mapping = name, why, "the sources that follow a candidate go back");
                let ledger = self.ledger_back(name, &in_force, &progress);
                let stage = Stage::Refused(why.to_owned());
                self.set_progress(name, Some(Progress { stage, ledger, ..progress }));
            }
            return;
        };
        let Progress { release, stage, ledger, .. } = progress;
        let waves = &in_force.release.waves;
        let so_far = match &stage {
            Stage::Wave(underway) => waves.len().min(underway.wave + 1),
            Stage::Released => waves.len(),
            Stage::Refused(_) => 0,
        };
        if matches!(stage, Stage::Refused(_)) && ledger.is_none() {
            return self.end_release(name);
        }
        for pipeline in self.pipelines_of(name) {
            pipeline.record_release(Some(Candidate { document: document.clone(), release: release.clone() }));
            match so_far {
                0 => pipeline.demote(),
                _ if pipeline.is_release_recorded(&release) => pipeline.promote(&document, &waves[..so_far]),
                _ => {}
            }
        }
    }

    /// Every source follows the document in force.
    fn end_release(&self, name: &str) {
        for pipeline in self.pipelines_of(name) {
            pipeline.demote();
            pipeline.record_release(None);
        }
    }
}

/// Whether a document does what this one did, so that the ledger of that is its own.
fn does_the_same(document: &Mapping, text: &str) -> bool {
    *document.text == *text || compiled(text).is_some_and(|one| have_same_effect(&one, document))
}

/// Whether sources may have something of a candidate that the document which runs instead does not make: none of it goes uncounted.
pub(super) fn is_left_to(runs: &Mapping, progress: &Progress) -> bool {
    let may_lose = progress.stage.wave().is_some() || progress.ledger.is_some();
    let is_other = |one: &Arc<Mapping>| !have_same_effect(one, runs) && !names_other_sources(one, runs);
    may_lose && compiled(&progress.candidate).as_ref().is_none_or(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::inventory::Inventory;
    use crate::engine::serving::{Next, Why};
    use crate::engine::tests::{OFF, document, edited, home_says, release, serving, serving_one, store, wave, write};

    /// Its author takes it back in the middle of a wave, just before it would have come into force, or once it went back, and may
    /// write a comment with that. A process that starts may find a further edit in the file, which waits.
    #[tokio::test]
    async fn what_a_candidate_left_is_counted_once_the_file_has_the_document_before_again() {
        let (earlier, candidate) = ("earlier".to_owned(), document("first", "ServiceAccount", ""));
        let ledger = || Some(Ledger::new("before".to_owned(), vec!["earlier".to_owned()], 3));
        let refused = || Stage::Refused("it went back".to_owned());
        let both = || Some(vec![earlier.clone(), candidate.clone()]);
        // The stage and the ledger at home, and the documents that the losses of the file's are compared with.
        let rows = [
            ("in a wave", wave(0), None, Some(vec![candidate.clone()])),
            ("in a wave, with the losses of an edit before", wave(0), ledger(), both()),
            ("released, and nowhere in force", Stage::Released, ledger(), both()),
            ("it went back, and not all of it is gone", refused(), ledger(), Some(vec![earlier.clone()])),
            ("it went back, and left nothing", refused(), None, None),
            ("every source was seen at its end", Stage::Released, None, None),
        ];
        let further = document("first", "ServiceAccount", OFF);
        let of_each = |is_edited| rows.clone().map(|row| (is_edited, row));
        for (is_edited, (case, stage, ledger, former)) in of_each(false).into_iter().chain(of_each(true)) {
            let (mut engine, pipeline) = serving_one();
            let text = pipeline.generation().mapping.text.clone();
            if is_edited {
                write(&mut engine, further.clone());
                assert!(engine.in_force.contains_key("first"), "{case}");
            }
            home_says(&mut engine, Some(release(&candidate, "the same without a comment", stage, ledger)));
            let back = engine.progress("first");
            let is_of_file = |back: &Progress| back.stage == Stage::Released && back.candidate == *text;
            assert!(back.as_ref().is_none_or(is_of_file), "{case}, {is_edited}: {back:?}");
            let compared = back.and_then(|back| back.ledger).map(|ledger| ledger.former.to_vec());
            assert_eq!(compared, former, "{case}, {is_edited}");
            let waits = matches!(engine.next_step("first"), Next::GoesOn(Why::Unknown(_)));
            assert_eq!(waits, is_edited && former.is_some(), "{case}: the further edit waits for that");
        }
    }

    /// A person has rejected the candidate, or the mapping is gone, while home could not record it. Then home is read anew: a state
    /// store names a release that this process does not know.
    #[tokio::test]
    async fn what_home_has_not_recorded_yet_is_still_wanted_once_home_is_read_anew() {
        let wave = |number| Some(wave(number));
        let rejected = || Some(Stage::Refused("a person rejected it".to_owned()));
        // What is wanted, what home says before and after, whether that is in the same term, and what is wanted then.
        let rows = [
            ("a rejection", rejected(), wave(0), wave(0), true, rejected()),
            ("the end of a record", None, wave(0), wave(0), true, None),
            ("the first wave", wave(0), None, None, true, wave(0)),
            ("another process has recorded a step", wave(1), wave(0), rejected(), true, rejected()),
            ("a rejection, and a step that nobody knew of", rejected(), wave(0), wave(1), true, rejected()),
            ("a rejection, and home was put back", rejected(), wave(0), None, true, rejected()),
            ("a rejection that was recorded, and approved elsewhere", rejected(), rejected(), wave(0), true, wave(0)),
            ("another term", wave(1), wave(0), wave(0), false, wave(0)),
        ];
        for (case, wanted, before, now, is_same_term, then) in rows {
            let (mut engine, _, at) = edited("");
            let of = |stage: Option<Stage>| stage.map(&at);
            home_says(&mut engine, of(before));
            engine.set_progress("first", of(wanted));
            let (number, asked) = (engine.shared.lease.number(), engine.releases.borrow().asked);
            let term = Some(if is_same_term { number } else { number + 1 });
            let progress = of(now).map(|progress| ("first".to_owned(), progress)).into_iter().collect();
            engine.releases_known(Releases { term, asked, progress, ..Releases::default() });
            assert_eq!(engine.progress("first").map(|progress| progress.stage), then, "{case}");
        }
    }

    /// A backup of home brings back its record and the name in the state store: nothing is under way that would be looked after.
    #[tokio::test]
    async fn home_is_read_anew_where_a_state_store_names_a_release_that_it_did_not_tell_of() {
        let (mut engine, pipeline) = serving_one();
        home_says(&mut engine, None);
        store(&pipeline, "restored");
        engine.judge_and_share();
        assert!(!engine.are_releases_known());
        assert!(pipeline.unconfirmed().is_some(), "nothing is planned before");
        let term = Some(engine.shared.lease.number());
        engine.releases_known(Releases { term, ..Releases::default() });
        assert!(!engine.are_releases_known(), "it was read before the state store");
        home_says(&mut engine, None);
        assert!(engine.are_releases_known());
        assert_eq!(pipeline.unconfirmed(), None);
        store(&pipeline, "restored");
        engine.judge_and_share();
        assert!(engine.are_releases_known(), "it is over");
    }

    /// A later version of the engine wrote it, or somebody by hand.
    #[tokio::test]
    async fn a_release_that_home_tells_in_an_unreadable_form_holds_up_its_own_mapping_alone() {
        for (unreadable, waits) in [("first", true), ("second", false)] {
            let (mut engine, pipeline) = serving_one();
            store(&pipeline, "begun");
            let (term, unreadable) = (Some(engine.shared.lease.number()), [unreadable.to_owned()].into());
            engine.releases_known(Releases { term, unreadable, ..Releases::default() });
            assert_eq!(pipeline.unconfirmed().is_some(), waits, "which sources follow which document");
            write(&mut engine, document("first", "ServiceAccount", ""));
            assert_eq!(matches!(engine.next_step("first"), Next::GoesOn(Why::Unknown(_))), waits);
        }
    }

    /// The engine was upgraded in the middle of a wave. The file has what the present version reads.
    #[tokio::test]
    async fn what_a_candidate_made_that_cannot_be_read_any_more_is_counted() {
        let (mut engine, pipeline) = serving_one();
        let (in_force, candidate) = (pipeline.generation().mapping.text.clone(), "kind: Earlier".to_owned());
        write(&mut engine, document("first", "ServiceAccount", ""));
        home_says(&mut engine, Some(release(&candidate, &in_force, wave(0), None)));
        let back = engine.progress("first").expect("it is to be recorded");
        assert!(matches!(back.stage, Stage::Refused(_)));
        assert_eq!(back.ledger.as_ref().map(|ledger| ledger.former.to_vec()), Some(vec![candidate]));
        engine.release_recorded("first", Some(back.clone()));
        assert_eq!(engine.ledger("first"), back.ledger.as_ref());
    }

    /// Another process has ended it, or the state store was put back. Then sources that went back would lose what the candidate made.
    #[tokio::test]
    async fn home_is_read_anew_where_a_state_store_names_no_more_what_sources_follow() {
        for is_at_home in [true, false] {
            let waves = "  release: {waves: [{percent: 50}, {percent: 100}]}\n";
            let (mut engine, pipeline) = serving(waves);
            let in_force = pipeline.generation().mapping.text.clone();
            write(&mut engine, document("first", "ServiceAccount", waves));
            let candidate = engine.catalog.mapping("first").expect("its file").mapping.clone();
            let wave = release(&candidate.text, &in_force, wave(0), None);
            home_says(&mut engine, Some(wave.clone()));
            store(&pipeline, &wave.release);
            engine.judge_and_share();
            pipeline.names_no_release();
            store(&pipeline, "");
            engine.judge_and_share();
            assert!(!engine.are_releases_known() && pipeline.follows(&candidate, 1), "home is asked first");
            let now = is_at_home.then_some(wave);
            home_says(&mut engine, now.clone());
            assert!(engine.are_releases_known() && pipeline.follows(&candidate, 1) == is_at_home);
            assert_eq!(engine.progress("first"), now);
        }
    }

    /// It has put the candidate in force, or has taken it back: by what this process knows, sources would follow the document before.
    #[tokio::test]
    async fn the_state_store_is_read_anew_where_another_process_has_ended_the_release_that_sources_follow() {
        let (mut engine, pipeline) = serving_one();
        home_says(&mut engine, None);
        assert_eq!(pipeline.unconfirmed(), None);
        let candidate = compiled(&document("first", "ServiceAccount", "")).expect("a mapping");
        pipeline.promote(&candidate, &[]);
        let (being_read, document) = (pipeline.generation(), pipeline.generation().mapping.text.clone());
        home_says(&mut engine, None);
        assert!(!pipeline.follows(&candidate, 0) && !pipeline.is_store_read());
        pipeline.confirm(&being_read, Ok(Inventory { document, resource_version: "1".into(), ..Inventory::default() }));
        assert!(!pipeline.is_store_read(), "it was read before");
        store(&pipeline, "");
        home_says(&mut engine, None);
        assert_eq!(pipeline.unconfirmed(), None, "once");
    }
}
