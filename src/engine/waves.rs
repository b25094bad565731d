//! The steps in which a candidate reaches the sources, where its mapping has `release.waves`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::inventory::document_hash;
use super::pipeline::Pipeline;
use super::releases::is_left_to;
use super::serving::{InForce, Next, Why, component, is_removal};
use super::{Engine, TICK};
use crate::catalog::{Entry, Standing, both_write, differ_in};
use crate::health::Condition as Health;
use crate::mapping::{Mapping, OnFailure, Wave};
use crate::object::{Key, count};
use crate::release::Held;
use crate::release::waves::{Condition, Gate, Progress, Stage, Tally, Underway, Verdict};

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
        let is_untold = has_home && !self.is_release_known(name);
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
        let is_refused = progress.as_ref().is_some_and(|wanted| matches!(wanted.stage, Stage::Refused(_)));
        let is_taken_back = |recorded: &Progress| match recorded.in_force == of {
            true => is_refused && recorded.stage.wave().is_some(),
            false => progress.as_ref() != Some(recorded) && is_left_to(&in_force, recorded),
        };
        if self.recorded_releases.get(name).is_some_and(is_taken_back) {
            // A step of this candidate would be recorded in its place, without the ledger of what goes back.
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
            Some(other) if let Some(underway) = self.followed_in(name, &other, waves.len() - 1) => {
                let stage = Stage::Wave(Underway { passed: 0, ..underway });
                self.set_progress(name, Some(self.progress_of(name, one, entry, stage)));
                Next::Unchanged
            }
            _ => self.begin(name, 0),
        }
    }

    /// The waves whose sources follow a candidate. One that is to take the place of the document in force, and has not yet, has those
    /// that home tells of.
    fn followed_in(&self, name: &str, progress: &Progress, last: usize) -> Option<Underway> {
        let recorded = self.recorded_releases.get(name).filter(|recorded| recorded.in_force == progress.in_force);
        let known = if progress.stage == Stage::Released { recorded? } else { progress };
        match &known.stage {
            Stage::Wave(underway) => Some(underway.clone()),
            Stage::Released => Some(Underway { wave: last, ..Underway::default() }),
            Stage::Refused(_) => None,
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
    pub(super) fn set_refused(&self, name: &str, why: &str) {
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
        let Some((one, entry)) = self.waiting(name).filter(|_| self.is_release_known(name)) else { return };
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
    use crate::engine::tests::{
        OFF, document, edited, home_says, release, serving, serving_one, store, wave, write, write_all,
    };
    use crate::release::ledger::Ledger;

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
                let (mut engine, pipeline) = serving_one();
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

    /// It was read just before, and a person may approve the edit while another replica leads.
    #[tokio::test]
    async fn a_rejection_that_is_told_once_another_replica_leads_counts_for_nothing() {
        let (mut engine, _, at) = edited("");
        let rejected = Held { document: at(Stage::Released).release, ..Held::default() };
        engine.shared.lease.lose();
        engine.leadership();
        engine.reject_candidate("first", rejected);
        engine.shared.lease.take(None, None);
        engine.leadership();
        home_says(&mut engine, None);
        assert_eq!(engine.progress("first"), None);
    }

    /// Home may not have recorded yet that it went back. What only the candidate made goes within the limits all the same.
    #[tokio::test]
    async fn a_candidate_that_is_rejected_once_it_went_back_keeps_the_ledger_of_that() {
        let (mut engine, _, at) = edited("");
        let candidate = at(wave(0)).candidate;
        home_says(&mut engine, Some(at(wave(0))));
        for why in ["it went back", "a person rejected it"] {
            engine.refuse_candidate("first", why);
            let refused = engine.progress("first").expect("it is to be recorded");
            assert_eq!(refused.stage, Stage::Refused(why.to_owned()));
            let former = refused.ledger.map(|ledger| ledger.former.to_vec());
            assert_eq!(former.as_deref(), Some(std::slice::from_ref(&candidate)), "{why}");
        }
    }

    /// A step of the mended text would be recorded in place of the ledger by which the sources of later waves go back.
    #[tokio::test]
    async fn a_mended_text_waits_until_home_has_recorded_that_the_one_before_went_back() {
        let waves = "  release: {waves: [{percent: 50}, {percent: 100}]}\n";
        let (mut engine, _, at) = edited(waves);
        home_says(&mut engine, Some(at(wave(0))));
        engine.refuse_candidate("first", "it went back");
        write(&mut engine, document("first", "ServiceAccount", &format!("{waves}{OFF}")));
        let refused = engine.progress("first").filter(|refused| refused.ledger.is_some()).expect("a ledger");
        assert!(matches!(engine.next_step("first"), Next::GoesOn(Why::Unknown(_))));
        assert_eq!(engine.progress("first").as_ref(), Some(&refused), "nothing is to take its place");
        engine.release_recorded("first", Some(refused));
        assert!(matches!(engine.next_step("first"), Next::Passes), "no source is there that anything changes for");
    }

    /// All sources follow it by then. Those of the later waves went back, and what only it had made was deleted.
    #[tokio::test]
    async fn another_text_takes_the_place_of_one_that_is_about_to_come_into_force_with_the_same_sources() {
        let waves = "  release: {waves: [{percent: 10}, {percent: 50}, {percent: 100}]}\n";
        // What home has recorded, what is to be recorded, and the wave of the other text. There is no source: none begins.
        let rows = [
            (Some(wave(1)), wave(1), Some(1)),
            (Some(wave(2)), Stage::Released, Some(2)),
            (Some(Stage::Released), Stage::Released, Some(2)),
            (None, Stage::Released, None),
        ];
        for (recorded, wanted, then) in rows {
            let (mut engine, pipeline) = serving(waves);
            let (in_force, candidate) =
                (pipeline.generation().mapping.text.clone(), document("first", "ServiceAccount", waves));
            let of = |stage| release(&candidate, &in_force, stage, None);
            write(&mut engine, document("first", "ServiceAccount", &format!("{waves}{OFF}")));
            home_says(&mut engine, recorded.clone().map(of));
            engine.set_progress("first", Some(of(wanted)));
            engine.next_step("first");
            let progress =
                engine.progress("first").filter(|progress| progress.candidate.contains("observedGeneration"));
            assert_eq!(progress.and_then(|progress| progress.stage.wave()), then, "{recorded:?}");
        }
    }

    /// Once its consumers have deleted most sources, the limits would let it pass. What an edit before it may still take away stays
    /// counted, for who puts the file back.
    #[tokio::test]
    async fn a_removal_that_a_person_rejected_is_refused_as_an_edit_is() {
        let removal = "  lifecycle: {onMappingRemoved: Delete}\n";
        let text = document("first", "ConfigMap", removal);
        for ledger in [None, Some(Ledger::new("before".to_owned(), vec!["earlier".to_owned()], 3))] {
            let (mut engine, _) = serving(removal);
            let recorded = ledger.clone().map(|ledger| release(&text, "earlier", Stage::Released, Some(ledger)));
            home_says(&mut engine, recorded);
            write_all(&mut engine, Vec::new());
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
        let (mut engine, _) = serving("  lifecycle: {onMappingRemoved: Delete}\n");
        write_all(&mut engine, Vec::new());
        assert!(matches!(engine.next_step("first"), Next::GoesOn(Why::Unknown(_))));
        home_says(&mut engine, None);
        assert!(matches!(engine.next_step("first"), Next::Passes));
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
