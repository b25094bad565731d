//! The steps in which a candidate reaches the sources, where its mapping has `release.waves`.
//!
//! Home records each step before anything follows from it, and the state stores name what the candidate makes before anything
//! is written with it. So a process that starts in the middle finds which sources follow which document, and what both left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::approval::Releases;
use super::inventory::document_hash;
use super::pipeline::Pipeline;
use super::pipeline::promotion::Candidate;
use super::serving::{InForce, Next, Why, compiled, component, is_removal, names_other_sources};
use super::{Engine, TICK};
use crate::catalog::{Entry, Standing, both_write, differ_in, have_same_effect};
use crate::health::Condition as Health;
use crate::mapping::{Mapping, Mode, OnFailure, Wave};
use crate::object::{Key, count};
use crate::release::Held;
use crate::release::ledger::Ledger;
use crate::release::waves::{Condition, Gate, Progress, Stage, Tally, Underway, Verdict, note};

/// Why a candidate is refused that nobody wants.
const REJECTED: &str = "a person rejected it";

/// What this process knows of the release of a candidate.
#[derive(Debug, Default)]
pub struct Course {
    gate: Gate,
    /// The release and the wave that the gate is of, and when it was looked at last.
    looked: Option<((String, usize), Instant)>,
    /// The wave whose gate has failed, and waits for a person.
    pub(super) failed_gate: Option<(usize, Tally)>,
    /// What people are told.
    text: String,
}

impl Course {
    /// How long the last look at the gate of this release and wave is ago. What was seen of another text, which a part of the sources
    /// followed until now, tells nothing of this one.
    fn looks_at(&mut self, of: (String, usize), underway: &Underway, now: Instant) -> Duration {
        let elapsed = match &self.looked {
            Some((known, at)) if *known == of => now.duration_since(*at).min(TICK * 2),
            _ => {
                self.gate = Gate::of(underway);
                Duration::ZERO
            }
        };
        self.looked = Some((of, now));
        elapsed
    }
}

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

    pub(super) fn set_progress(&self, name: &str, progress: Option<Progress>) {
        self.releases.send_if_modified(|releases| note(&mut releases.progress, name, progress));
    }

    pub(super) fn progress(&self, name: &str) -> Option<Progress> {
        self.releases.borrow().progress.get(name).cloned()
    }

    /// Has the sources of each mapping follow the documents that home says.
    pub(super) fn follow_releases(&mut self) {
        if !self.are_releases_known() {
            return;
        }
        // Several may say so.
        if self.running().filter(|pipeline| pipeline.takes_doubt()).count() > 0 {
            self.releases.send_modify(|releases| (releases.term, releases.asked) = (None, releases.asked + 1));
            return;
        }
        let names: BTreeSet<String> = self.pipelines.keys().map(|slot| slot.mapping.clone()).collect();
        for name in names {
            // Each of its targets may say so.
            if self.pipelines_of(&name).filter(|pipeline| pipeline.takes_end()).count() > 0 {
                self.ended_elsewhere(&name);
            }
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

    /// Another process of the engine has seen every source at its end.
    fn ended_elsewhere(&mut self, name: &str) {
        self.drop_ledger(name);
        let refused = self.progress(name).filter(|progress| matches!(progress.stage, Stage::Refused(_)));
        let left = refused.map(|progress| Progress { ledger: None, ..progress });
        note(&mut self.recorded_releases, name, left.clone());
        self.set_progress(name, left);
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

    /// The document in force goes by the ledger at home, unless that is about to end.
    fn follow_ledger(&mut self, name: &str, progress: &Progress) {
        let is_ending = self.progress(name).is_none_or(|wanted| wanted.ledger.is_none());
        if let Some(ledger) = progress.ledger.clone().filter(|_| !is_ending) {
            self.open_ledger(name, ledger, true);
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
    fn ledger_back(&self, name: &str, in_force: &Mapping, progress: &Progress) -> Option<Ledger> {
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

    fn follow_release(&mut self, name: &str, Progress { release, candidate, stage, ledger, .. }: Progress) {
        let Some(in_force) = self.in_force.get(name).map(InForce::document) else { return };
        let file = self.catalog.mapping(name).map(|entry| entry.mapping.clone());
        let followed = self.pipelines_of(name).filter_map(|pipeline| Some(pipeline.release_to_record()?.document));
        let known = followed.chain(file).find(|document| *document.text == candidate);
        let Some(document) = known.or_else(|| compiled(&candidate)) else {
            warn!(
                mapping = name,
                "the candidate that a part of the sources follows cannot be read any more: they go back"
            );
            return self.end_release(name);
        };
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

    /// Why a candidate is not released, whatever the limits say: it went back, or a person rejected it.
    pub(super) fn refusal(&self, name: &str) -> Option<String> {
        let (one, entry) = self.waiting(name)?;
        let Progress { release, stage: Stage::Refused(why), .. } = self.progress(name)? else { return None };
        let is_of_it = release == one.release(entry);
        (is_of_it && !one.is_approved(entry)).then(|| format!("it is not released: {why}"))
    }

    /// What comes next of a candidate that the limits of the document in force let pass.
    pub(super) fn next_step(&mut self, name: &str) -> Next {
        let Some((one, entry)) = self.waiting(name) else { return Next::Unchanged };
        let has_home = self.shared.settings.home_connection().is_some();
        let is_untold = has_home && !self.are_releases_known();
        let untold = || Next::GoesOn(Why::Unknown("the home cluster has not told yet how far releases are".to_owned()));
        if is_removal(entry) {
            // A person may have rejected it. Home that is lost, which needs not record it, holds up no removal.
            return if is_untold && !self.is_home_lost() { untold() } else { Next::Passes };
        }
        let (in_force, candidate) = (one.document(), entry.mapping.clone());
        if let Some(why) = self.writes_beside(name, &candidate) {
            return Next::GoesOn(Why::Unknown(why));
        }
        let waves = &in_force.release.waves;
        let is_approved = one.is_approved(entry);
        if is_untold {
            return untold();
        }
        let release = one.release(entry);
        let (of, progress) = (document_hash(&in_force.text, ""), self.progress(name));
        let is_taken_back = |recorded: &Progress| {
            recorded.in_force != of && progress.as_ref() != Some(recorded) && is_left_to(&in_force, recorded)
        };
        if self.recorded_releases.get(name).is_some_and(is_taken_back) {
            // A step of this candidate would be recorded in its place.
            return Next::GoesOn(Why::Unknown("home has not recorded yet what an earlier edit left".to_owned()));
        }
        // That of a document before tells nothing.
        let progress = progress.filter(|progress| progress.in_force == of);
        if waves.is_empty() {
            return Next::Passes;
        }
        if !has_home {
            return Next::GoesOn(Why::Held("its waves cannot be recorded without a home cluster".to_owned()));
        }
        if let Some(why) = cannot_take_steps(&in_force, &candidate) {
            let what = format!("{why}, which reaches all sources at once, and `release.waves` asks for steps");
            return if is_approved { Next::Passes } else { Next::GoesOn(Why::Held(what)) };
        }
        match progress {
            Some(Progress { release: of, stage: Stage::Released, .. }) if of == release => Next::Passes,
            Some(Progress { release: of, stage: Stage::Wave(underway), .. }) if of == release => {
                self.look(name, &candidate, underway)
            }
            // Another text takes the place of the one that sources follow: with the same sources.
            Some(Progress { stage: Stage::Wave(underway), .. }) => {
                let stage = Stage::Wave(Underway { passed: 0, ..underway });
                self.set_progress(name, Some(self.progress_of(name, one, entry, stage)));
                Next::Unchanged
            }
            _ => self.begin(name, 0),
        }
    }

    /// Why a document waits for an edit of another mapping: until that is in force, both would write one part of the status.
    pub(super) fn writes_beside(&self, name: &str, candidate: &Mapping) -> Option<String> {
        let writes = |other: &str| {
            self.catalog.mapping(other).is_some_and(|entry| entry.standing != Standing::Retained) && other != name
        };
        let others = self.in_force.iter().filter(|(other, _)| writes(other));
        let mut common = others.filter_map(|(other, one)| Some((other, both_write(&one.document(), candidate)?)));
        let (other, common) = common.next()?;
        Some(format!(
            "it would write the {common}, which mapping `{other}` writes until its own edit is in force; two mappings that swap \
             what they write take two edits each"
        ))
    }

    /// Begins a wave, or the first one after it that has a source of which the candidate makes something else.
    fn begin(&mut self, name: &str, from: usize) -> Next {
        let Some((one, entry)) = self.waiting(name) else { return Next::Unchanged };
        let in_force = one.document();
        let waves = &in_force.release.waves;
        let before = self.conditions(name, &entry.mapping, &waves[..from]);
        let changes = |key: &Key| !before.contains_key(key) && one.changes(key);
        let mut all = (from..waves.len()).map(|wave| (wave, self.conditions(name, &entry.mapping, &waves[..=wave])));
        let Some((wave, members)) = all.find(|(_, members)| members.keys().any(changes)) else {
            // Nobody is left whom the candidate changes.
            return Next::Passes;
        };
        let tally: Tally = members.into_values().collect();
        let (failing, out_of_sight) = (tally.failing() + tally.anyway, tally.out_of_sight);
        let stage = Stage::Wave(Underway { wave, failing, out_of_sight, passed: 0 });
        self.set_progress(name, Some(self.progress_of(name, one, entry, stage)));
        let (generation, effect) = (entry.generation, one.effect());
        let begins = format!("wave {} of {}: {}", wave + 1, waves.len(), following(tally.sources));
        let text = format!("mapping {name}: generation {generation} begins {begins}; the release: {effect}");
        info!(mapping = name, generation, wave = begins, effect, "a wave begins");
        self.tell_provider(Some(name), false, "WaveStarted", text.clone());
        self.said.push(text);
        self.say_underway(name, begins);
        Next::Unchanged
    }

    /// Looks at the sources of a wave that is under way.
    fn look(&mut self, name: &str, candidate: &Arc<Mapping>, underway: Underway) -> Next {
        let in_force = self.in_force[name].document();
        let release = &in_force.release;
        let number = underway.wave.min(release.waves.len() - 1);
        let (wave, is_last) = (&release.waves[number], number + 1 == release.waves.len());
        let is_followed =
            self.recorded_releases.get(name).is_some_and(|recorded| recorded.stage.wave() == Some(number));
        let is_promoted = |pipeline: &Arc<Pipeline>| pipeline.is_lost() || pipeline.follows(candidate, number + 1);
        if !is_followed || !self.pipelines_of(name).all(is_promoted) {
            return Next::Unchanged;
        }
        let tally: Tally = self.conditions(name, candidate, &release.waves[..=number]).into_values().collect();
        let Some(one) = self.in_force.get_mut(name) else { return Next::Unchanged };
        let of = (document_hash(&candidate.text, &in_force.text), number);
        let elapsed = one.course.looks_at(of, &underway, Instant::now());
        let verdict = one.course.gate.look(wave, release.progress_deadline, &underway, &tally, elapsed);
        let passed = one.course.gate.passed().as_secs();
        one.course.failed_gate = None;
        let text = format!("wave {} of {}: {}", number + 1, release.waves.len(), following(tally.sources));
        match verdict {
            Verdict::Passed if is_last => Next::Passes,
            Verdict::Passed => self.begin(name, number + 1),
            Verdict::Waits(why) => {
                // Another process repeats a tenth of the soak at most.
                if passed >= underway.passed + (wave.soak.as_secs() / 10).max(1) && passed < wave.soak.as_secs() {
                    let stage = Stage::Wave(Underway { passed, ..underway });
                    self.set_progress(name, self.progress(name).map(|progress| Progress { stage, ..progress }));
                }
                self.say_underway(name, format!("{text}, {why}"));
                Next::Unchanged
            }
            Verdict::Failed(why) if !is_last && release.on_failure == OnFailure::Return => {
                let why = format!("it went back, for wave {} failed: {why}", number + 1);
                self.refuse_candidate(name, &why);
                Next::GoesOn(Why::Held(format!("it is not released: {why}")))
            }
            Verdict::Failed(why) => {
                if let Some(one) = self.in_force.get_mut(name) {
                    one.course.failed_gate = Some((number, tally));
                }
                match self.waiting(name).is_some_and(|(one, entry)| one.is_gate_approved(entry)) {
                    true if is_last => Next::Passes,
                    true => self.begin(name, number + 1),
                    false => Next::GoesOn(Why::Held(format!("{text}; its gate failed: {why}"))),
                }
            }
        }
    }

    /// What is to be recorded of a release. What is left of the ledger before stays.
    pub(super) fn progress_of(&self, name: &str, one: &InForce, entry: &Entry, stage: Stage) -> Progress {
        Progress {
            release: one.release(entry),
            in_force: document_hash(&one.document().text, ""),
            candidate: entry.mapping.text.to_string(),
            stage,
            ledger: self.ledger(name).cloned(),
        }
    }

    /// What is left of the ledger, as it is to be recorded.
    pub(super) fn set_ledger(&self, name: &str, ledger: Option<Ledger>) {
        self.set_progress(name, self.progress(name).map(|progress| Progress { ledger, ..progress }));
    }

    /// The sources of the waves so far follow the document in force again, and the candidate is refused until its text changes
    /// or a person approves it.
    fn refuse_candidate(&mut self, name: &str, why: &str) {
        error!(mapping = name, why, "the document in the file is refused: all sources follow the one in force");
        let text = format!("all sources follow the document in force: {why}");
        self.tell_provider(Some(name), true, "DocumentReturned", text);
        self.set_refused(name, why);
        if let Some(one) = self.in_force.get_mut(name) {
            one.approved.clear();
            one.course = Course::default();
        }
    }

    /// The candidate is refused. What only the sources of the waves have goes within the limits of the document in force.
    fn set_refused(&self, name: &str, why: &str) {
        let Some((one, entry)) = self.waiting(name) else { return };
        let refused = self.progress_of(name, one, entry, Stage::Refused(why.to_owned()));
        let ledger = match self.progress(name) {
            // It may have gone back, which home has not recorded yet.
            Some(known) if known.in_force == refused.in_force && known.stage != Stage::Released => {
                self.ledger_back(name, &one.document(), &known)
            }
            // What the document in force may still take away: without a file, it takes nothing, and its ledger is at home alone.
            Some(known) if is_removal(entry) => known.ledger,
            _ => refused.ledger.clone(),
        };
        self.set_progress(name, Some(Progress { ledger, ..refused }));
    }

    /// A person does not want the document in the file, whatever becomes of what holds it. A process that starts may not know yet
    /// which document that is.
    pub(super) fn reject_candidate(&mut self, name: &str, rejected: Held) {
        if self.waiting(name).is_none() && self.held(name).is_some() {
            return warn!(
                mapping = name,
                "a person rejected losses of a document that is in force: only an edit can be rejected"
            );
        }
        self.rejected.insert(name.to_owned(), rejected);
        self.judge_documents();
    }

    /// Refuses the document in the file where a person rejected that.
    pub(super) fn refuse_rejected(&mut self, name: &str) {
        let Some((one, entry)) = self.waiting(name).filter(|_| self.are_releases_known()) else { return };
        let (release, is_approved) = (one.release(entry), one.is_approved(entry));
        let Some(rejected) = self.rejected.remove(name) else { return };
        let stage = self.progress(name).filter(|progress| progress.release == release).map(|progress| progress.stage);
        if rejected.edit() != release || stage == Some(Stage::Released) {
            return warn!(
                mapping = name,
                "a person rejected something else than the edit that waits: it goes on, and `sync-engine approve` shows what is held"
            );
        }
        // Each process that leads is told of it.
        if is_approved || stage != Some(Stage::Refused(REJECTED.to_owned())) {
            warn!(mapping = name, "a person rejected the document in the file");
            self.refuse_candidate(name, REJECTED);
        }
    }

    /// How the sources of these waves are, on all targets: each as it is where it is worst.
    fn conditions(&self, name: &str, candidate: &Arc<Mapping>, waves: &[Wave]) -> BTreeMap<Key, Condition> {
        let mut all = BTreeMap::new();
        for (key, condition) in self.pipelines_of(name).flat_map(|pipeline| pipeline.conditions(candidate, waves)) {
            let known = all.entry(key).or_insert(condition);
            *known = condition.max(*known);
        }
        all
    }

    fn say_underway(&mut self, name: &str, text: String) {
        let Some(one) = self.in_force.get_mut(name) else { return };
        one.waits_no_more();
        one.course.text.clone_from(&text);
        self.shared.instruments.health.set(&component(name), Health::ready(text));
    }

    /// How far the release of a mapping is, for people.
    pub(super) fn release_in_words(&self, entry: &Entry) -> Option<&str> {
        let one = self.in_force.get(&entry.mapping.name).filter(|_| entry.standing != Standing::Retained)?;
        Some(&*one.course.text).filter(|text| !text.is_empty())
    }
}

fn following(sources: usize) -> String {
    format!("{} follow{} it", count(sources, "source"), if sources == 1 { "s" } else { "" })
}

/// Whether a document does what this one did, so that the ledger of that is its own.
fn does_the_same(document: &Mapping, text: &str) -> bool {
    *document.text == *text || compiled(text).is_some_and(|one| have_same_effect(&one, document))
}

/// Whether sources may have something of a candidate that the document which runs instead does not make: none of it goes uncounted.
fn is_left_to(runs: &Mapping, progress: &Progress) -> bool {
    let may_lose = progress.stage.wave().is_some() || progress.ledger.is_some();
    let is_other = |one: &Arc<Mapping>| !have_same_effect(one, runs) && !names_other_sources(one, runs);
    may_lose && compiled(&progress.candidate).as_ref().is_none_or(is_other)
}

/// Why a candidate reaches all sources at once, whatever the waves are.
fn cannot_take_steps(in_force: &Mapping, candidate: &Mapping) -> Option<&'static str> {
    let (here, there) = (&in_force.source, &candidate.source);
    if here.resource != there.resource {
        return Some("the edit reads another version of the sources");
    }
    if here.clusters != there.clusters {
        return Some("the edit reads the sources from elsewhere");
    }
    if differ_in(in_force, candidate, "target") {
        return Some("the edit has another target");
    }
    if in_force.has_shared() != candidate.has_shared() {
        return Some("the edit begins or ends to share objects between sources");
    }
    let shares = |mapping: &Mapping| mapping.objects.iter().any(|rule| rule.shared && rule.copy.is_some());
    if (shares(in_force) || shares(candidate)) && differ_in(in_force, candidate, "related") {
        return Some("the edit changes copies that several sources share");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Files;
    use crate::engine::DEFAULT_TARGET;
    use crate::engine::inventory::Inventory;
    use crate::engine::tests::{document, engine};

    /// An engine with one mapping, whose document the state store holds.
    fn serving() -> (Engine, Arc<Pipeline>) {
        let (mut engine, _) = engine(&[DEFAULT_TARGET]);
        write(&mut engine, document("first", "ConfigMap", ""));
        let pipeline = engine.pipelines_of("first").next().expect("it runs").clone();
        store(&pipeline, "");
        (engine, pipeline)
    }

    /// How far the release of a candidate over this document is.
    fn of(candidate: &str, in_force: &str, stage: Stage, ledger: Option<Ledger>) -> Progress {
        let (release, in_force) = (document_hash(candidate, in_force), document_hash(in_force, ""));
        Progress { release, in_force, candidate: candidate.to_owned(), stage, ledger }
    }

    /// The file holds this document.
    fn write(engine: &mut Engine, text: String) {
        let readable = [("first.yaml".to_owned(), text.into_bytes())].into();
        engine.files = Arc::new(Files { readable, ..Files::default() });
        engine.update();
    }

    /// The state store holds the document of the file, and names this release.
    fn store(pipeline: &Pipeline, release: &str) {
        let (generation, resource_version, release) = (pipeline.generation(), "1".to_owned(), release.to_owned());
        let document = generation.mapping.text.clone();
        pipeline.confirm(&generation, Ok(Inventory { document, resource_version, release, ..Inventory::default() }));
    }

    fn home_says(engine: &mut Engine, progress: Option<Progress>) {
        let term = Some(engine.shared.lease.number());
        let progress = progress.map(|progress| ("first".to_owned(), progress)).into_iter().collect();
        let asked = engine.releases.borrow().asked;
        engine.releases_known(Releases { term, asked, progress });
    }

    /// Its author takes it back in the middle of a wave, just before it would have come into force, or once it went back, and may
    /// write a comment with that. A process that starts may find a further edit in the file, which waits.
    #[tokio::test]
    async fn what_a_candidate_left_is_counted_once_the_file_has_the_document_before_again() {
        let (earlier, candidate) = ("earlier".to_owned(), document("first", "ServiceAccount", ""));
        let ledger = || Some(Ledger::new("before".to_owned(), vec!["earlier".to_owned()], 3));
        let (wave, refused) = (|| Stage::Wave(Underway::default()), || Stage::Refused("it went back".to_owned()));
        let both = || Some(vec![earlier.clone(), candidate.clone()]);
        // The stage and the ledger at home, and the documents that the losses of the file's are compared with.
        let rows = [
            ("in a wave", wave(), None, Some(vec![candidate.clone()])),
            ("in a wave, with the losses of an edit before", wave(), ledger(), both()),
            ("released, and nowhere in force", Stage::Released, ledger(), both()),
            ("it went back, and not all of it is gone", refused(), ledger(), Some(vec![earlier.clone()])),
            ("it went back, and left nothing", refused(), None, None),
            ("every source was seen at its end", Stage::Released, None, None),
        ];
        let further =
            document("first", "ServiceAccount", "  status: {engineConditions: [], observedGeneration: Off}\n");
        let of_each = |is_edited| rows.clone().map(|row| (is_edited, row));
        for (is_edited, (case, stage, ledger, former)) in of_each(false).into_iter().chain(of_each(true)) {
            let (mut engine, pipeline) = serving();
            let text = pipeline.generation().mapping.text.clone();
            if is_edited {
                write(&mut engine, further.clone());
                assert!(engine.in_force.contains_key("first"), "{case}");
            }
            home_says(&mut engine, Some(of(&candidate, "the same without a comment", stage, ledger)));
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
        let candidate = document("first", "ServiceAccount", "");
        let wave = |wave| Some(Stage::Wave(Underway { wave, ..Underway::default() }));
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
            let (mut engine, pipeline) = serving();
            let in_force = pipeline.generation().mapping.text.clone();
            write(&mut engine, candidate.clone());
            let of = |stage: Option<Stage>| stage.map(|stage| of(&candidate, &in_force, stage, None));
            home_says(&mut engine, of(before));
            engine.set_progress("first", of(wanted));
            let (number, asked) = (engine.shared.lease.number(), engine.releases.borrow().asked);
            let term = Some(if is_same_term { number } else { number + 1 });
            let progress = of(now).map(|progress| ("first".to_owned(), progress)).into_iter().collect();
            engine.releases_known(Releases { term, asked, progress });
            assert_eq!(engine.progress("first").map(|progress| progress.stage), then, "{case}");
        }
    }

    /// The process before ended before it had recorded that, and what held the edit is mended meanwhile.
    #[tokio::test]
    async fn what_a_person_rejected_is_refused_also_where_nothing_holds_it() {
        let candidate = document("first", "ServiceAccount", "");
        let refused = Some(Stage::Refused(REJECTED.to_owned()));
        // What of the edit was held, as the engine calls it, whether it is this edit, and what comes of it.
        for (of, is_it, then) in
            [("", true, refused.clone()), (" wave 2", true, refused), ("", false, None), (" wave 2", false, None)]
        {
            for is_told_first in [true, false] {
                let (mut engine, pipeline) = serving();
                let in_force = pipeline.generation().mapping.text.clone();
                let release = document_hash(if is_it { &candidate } else { "another" }, &in_force);
                let rejected = Held { document: format!("{release}{of}"), ..Held::default() };
                if is_told_first {
                    engine.reject_candidate("first", rejected.clone());
                }
                home_says(&mut engine, None);
                write(&mut engine, candidate.clone());
                if !is_told_first {
                    engine.reject_candidate("first", rejected);
                }
                let stage = engine.progress("first").map(|progress| progress.stage);
                assert_eq!(stage, then, "{of}, {is_it}, {is_told_first}");
            }
        }
    }

    /// Home may not have recorded yet that it went back. What only the candidate made goes within the limits all the same.
    #[tokio::test]
    async fn a_candidate_that_is_rejected_once_it_went_back_keeps_the_ledger_of_that() {
        let (mut engine, pipeline) = serving();
        let in_force = pipeline.generation().mapping.text.clone();
        let candidate = document("first", "ServiceAccount", "");
        write(&mut engine, candidate.clone());
        home_says(&mut engine, Some(of(&candidate, &in_force, Stage::Wave(Underway::default()), None)));
        for why in ["it went back", "a person rejected it"] {
            engine.refuse_candidate("first", why);
            let refused = engine.progress("first").expect("it is to be recorded");
            assert_eq!(refused.stage, Stage::Refused(why.to_owned()));
            let former = refused.ledger.map(|ledger| ledger.former.to_vec());
            assert_eq!(former.as_deref(), Some(std::slice::from_ref(&candidate)), "{why}");
        }
    }

    /// Once its consumers have deleted most sources, the limits would let it pass. What an edit before it may still take away stays
    /// counted, for who puts the file back.
    #[tokio::test]
    async fn a_removal_that_a_person_rejected_is_refused_as_an_edit_is() {
        let text = document("first", "ConfigMap", "  lifecycle: {onMappingRemoved: Delete}\n");
        for ledger in [None, Some(Ledger::new("before".to_owned(), vec!["earlier".to_owned()], 3))] {
            let (mut engine, _) = engine(&[DEFAULT_TARGET]);
            write(&mut engine, text.clone());
            store(&engine.pipelines_of("first").next().expect("it runs").clone(), "");
            let recorded = ledger.clone().map(|ledger| of(&text, "earlier", Stage::Released, Some(ledger)));
            home_says(&mut engine, recorded);
            engine.files = Arc::default();
            engine.update();
            assert!(engine.in_force.contains_key("first") && engine.refusal("first").is_none());
            engine.refuse_candidate("first", "a person rejected it");
            let recorded = engine.progress("first");
            home_says(&mut engine, recorded);
            assert_eq!(engine.refusal("first").as_deref(), Some("it is not released: a person rejected it"));
            write(&mut engine, text.clone());
            store(&engine.pipelines_of("first").next().expect("it runs").clone(), "");
            engine.follow_releases();
            assert_eq!(engine.ledger("first"), ledger.as_ref());
        }
    }

    /// Another process led when a person rejected it.
    #[tokio::test]
    async fn a_removal_waits_until_home_has_told_what_a_person_rejected() {
        let (mut engine, _) = engine(&[DEFAULT_TARGET]);
        write(&mut engine, document("first", "ConfigMap", "  lifecycle: {onMappingRemoved: Delete}\n"));
        store(&engine.pipelines_of("first").next().expect("it runs").clone(), "");
        engine.files = Arc::default();
        engine.update();
        assert!(matches!(engine.next_step("first"), Next::GoesOn(Why::Unknown(_))));
        home_says(&mut engine, None);
        assert!(matches!(engine.next_step("first"), Next::Passes));
    }

    /// A backup of home brings back its record and the name in the state store: nothing is under way that would be looked after.
    #[tokio::test]
    async fn home_is_read_anew_where_a_state_store_names_a_release_that_it_did_not_tell_of() {
        let (mut engine, pipeline) = serving();
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

    /// It has put the candidate in force, or has taken it back: by what this process knows, sources would follow the document before.
    #[tokio::test]
    async fn the_state_store_is_read_anew_where_another_process_has_ended_the_release_that_sources_follow() {
        let (mut engine, pipeline) = serving();
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

    /// A text that mends another one is not refused for how long that was out of order, and soaks as long as any.
    #[test]
    fn the_gate_of_another_text_or_wave_begins_anew() {
        let (mut course, start, second) = (Course::default(), Instant::now(), Duration::from_secs(1));
        let (underway, soaked) = (Underway::default(), Gate::of(&Underway { passed: 50, ..Underway::default() }));
        for (of, wave) in [("one", 0), ("other", 0), ("other", 1)] {
            let looks_at = |course: &mut Course, at| course.looks_at((of.to_owned(), wave), &underway, at);
            assert_eq!(looks_at(&mut course, start), Duration::ZERO);
            assert_eq!(course.gate, Gate::default(), "{of} {wave}");
            course.gate = soaked.clone();
            assert_eq!(looks_at(&mut course, start + second), second);
            assert_eq!(course.gate, soaked);
        }
    }
}
