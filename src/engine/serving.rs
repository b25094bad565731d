//! The document in force of each mapping, and the one in its file that waits to take its place.
//!
//! * What a mapping serves is part of its identity. A document that would serve something else is refused while the one in force
//!   serves sources: it needs a name of its own.
//! * Every other edit is a release, and so is the removal of a mapping that takes its objects along: it is
//!   [rehearsed](super::rehearse), and held where it is beyond the limits of the document in force.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::inventory::{Inventory, document_hash};
use super::keeper::home_of_list;
use super::pipeline::{Generation, NOT_READ, Pipeline};
use super::rehearse::{OnTarget, rehearse};
use super::slots::{Slot, selected};
use super::waves::Course;
use super::{Engine, Event, TICK, departure};
use crate::catalog::{Catalog, Entry, Files, Standing, have_same_effect};
use crate::health::Condition;
use crate::mapping::compile::Compiled;
use crate::mapping::{ClusterProvider, Mapping, Mode, OnExit, Side, SourceClusters};
use crate::object::{Key, count};
use crate::plan::Phase;
use crate::release::ledger::Ledger;
use crate::release::waves::Progress;
use crate::release::waves::Stage::Released;
use crate::release::{Allowed, Held, Rehearsal};

/// A document that goes on although its file holds another one.
#[derive(Debug)]
pub struct InForce {
    mapping: Arc<Mapping>,
    stage: Stage,
    candidate: Candidate,
    /// How far its release is.
    pub(super) course: Course,
    /// What people approved of it: what the rehearsal showed, and gates that had failed.
    pub(super) approved: Vec<Held>,
    /// Why the document in the file waits, and what the engine tells of that.
    waits: Option<(Why, String)>,
}

/// How far the document in force is from its end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Serving,
    /// It was found to serve no source. It takes in none, and everything is looked at once more: a finalizer may be on its way.
    Closing,
    /// The state store, of an earlier version of the engine, names former sources with these resources.
    Former(BTreeSet<String>),
}

impl InForce {
    fn new(mapping: Arc<Mapping>, stage: Stage) -> Self {
        let (candidate, course) = (Candidate::default(), Course::default());
        Self { mapping, stage, candidate, course, approved: Vec::new(), waits: None }
    }

    /// The document in force.
    pub(super) fn document(&self) -> Arc<Mapping> {
        self.mapping.clone()
    }

    /// How its mapping leaves, where it is removed and takes its objects along.
    fn departure(&self, entry: &Entry) -> Option<OnExit> {
        departure(&self.mapping).filter(|_| is_removal(entry))
    }

    /// What is to take its place: the document in the file, or the removal of the mapping.
    fn next(&self, entry: &Entry) -> (Arc<Mapping>, Phase) {
        match self.departure(entry) {
            Some(policy) => (self.mapping.clone(), Phase::Leaving(policy)),
            None => (entry.mapping.clone(), Phase::Active),
        }
    }

    /// Which document takes the place of this one, or its removal: a hash.
    pub(super) fn release(&self, entry: &Entry) -> String {
        match self.next(entry) {
            (_, Phase::Leaving(policy)) => document_hash(&format!("{policy:?}"), &self.mapping.text),
            (document, _) => document_hash(&document.text, &self.mapping.text),
        }
    }

    /// What a person would approve: which document takes the place of which, and what comes of that.
    fn rehearsed(&self, entry: &Entry) -> Option<Held> {
        let (document, phase) = self.next(entry);
        let candidate = Some(&self.candidate).filter(|candidate| candidate.is(&document, phase));
        candidate?.rehearsal().map(|rehearsal| rehearsal.held(self.release(entry), &self.mapping.release))
    }

    /// The same, once a gate has failed.
    fn failed(&self, entry: &Entry) -> Option<Held> {
        let (wave, tally) = self.course.failed_gate?;
        let document = format!("{} wave {}", self.release(entry), wave + 1);
        let may_fail = self.mapping.release.waves.get(wave).map_or(0, |of| of.may_fail(tally.sources));
        let allowed = Allowed { failing: may_fail, lost: 0 };
        Some(Held { document, failing: tally.failing(), allowed, ..Held::default() })
    }

    fn approval(&self, held: Option<Held>) -> Option<&Held> {
        let held = held?;
        self.approved.iter().find(|approved| held.is_within(approved))
    }

    pub(super) fn is_approved(&self, entry: &Entry) -> bool {
        self.approval(self.rehearsed(entry)).is_some()
    }

    pub(super) fn is_gate_approved(&self, entry: &Entry) -> bool {
        self.approval(self.failed(entry)).is_some()
    }

    /// A step of its release is under way, or another replica judges it: nothing is wrong with it.
    pub(super) fn waits_no_more(&mut self) {
        self.waits = None;
    }

    fn waits_for(&self, text: &str) -> bool {
        self.waits.as_ref().is_some_and(|(why, _)| why.text() == text)
    }

    /// Whether the candidate makes something else of a source than the document that it follows.
    pub(super) fn changes(&self, key: &Key) -> bool {
        self.candidate.rehearsal().is_none_or(|rehearsal| rehearsal.changes(key))
    }

    /// What the candidate would do, in a line.
    pub(super) fn effect(&self) -> String {
        self.candidate.rehearsal().map_or_else(|| "no source is served".to_owned(), ToString::to_string)
    }
}

/// How far the rehearsal of the document in the file is.
#[derive(Debug, Default)]
struct Candidate {
    document: Option<(Arc<Mapping>, Phase)>,
    is_running: bool,
    /// What came of the last one, and when.
    result: Option<(Result<Rehearsal, String>, Instant)>,
}

impl Candidate {
    fn is(&self, document: &Arc<Mapping>, phase: Phase) -> bool {
        self.document.as_ref().is_some_and(|(known, of)| Arc::ptr_eq(known, document) && *of == phase)
    }

    /// Whether it was rehearsed just now.
    fn is_fresh(&self) -> bool {
        !self.is_running && self.result.as_ref().is_some_and(|(_, at)| at.elapsed() < TICK)
    }

    /// What was found of the document.
    fn rehearsal(&self) -> Option<&Rehearsal> {
        self.result.as_ref().and_then(|(result, _)| result.as_ref().ok())
    }
}

/// How long a result is good for that holds a candidate: what holds it may be mended.
const LASTS: Duration = Duration::from_secs(30);

/// What comes next of a document in force.
pub(super) enum Next {
    /// The document in the file takes its place: nothing is served by it.
    Over,
    Close,
    GoesOn(Why),
    /// The document in the file is rehearsed first.
    Rehearse,
    /// It was, and the limits let it pass; where it takes steps, it has taken the last one.
    Passes,
    /// Something is under way, or is still to be told.
    Unchanged,
}

/// Why a document in a file waits.
#[derive(Debug)]
pub(super) enum Why {
    /// It would serve something else.
    Refused(String),
    /// It is beyond the limits of a release.
    Held(String),
    /// Servers are still to tell.
    Unknown(String),
}

impl Why {
    fn text(&self) -> &str {
        let (Self::Refused(text) | Self::Held(text) | Self::Unknown(text)) = self;
        text
    }
}

impl Engine {
    /// What runs of each mapping: the document in force.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, Cow<'_, Entry>)> {
        self.catalog.mappings().map(|(name, entry)| (name, self.entry_in_force(name, entry)))
    }

    /// The same of one mapping.
    pub(super) fn entry(&self, name: &str) -> Option<Cow<'_, Entry>> {
        self.catalog.mapping(name).map(|entry| self.entry_in_force(name, entry))
    }

    fn entry_in_force<'a>(&self, name: &str, entry: &'a Entry) -> Cow<'a, Entry> {
        let Some(InForce { mapping, .. }) = self.in_force.get(name) else { return Cow::Borrowed(entry) };
        let standing = if entry.standing == Standing::Running { Standing::KeptOnError } else { entry.standing };
        Cow::Owned(Entry { mapping: mapping.clone(), standing, ..entry.clone() })
    }

    /// A document in force, and the entry of what waits for it.
    pub(super) fn waiting(&self, name: &str) -> Option<(&InForce, &Entry)> {
        self.in_force.get(name).zip(self.catalog.mapping(name))
    }

    /// What a document in force may still do.
    pub(super) fn limit(&self, name: &str, phase: Phase) -> Phase {
        match (self.in_force.get(name).map(|one| &one.stage), phase) {
            (Some(Stage::Former(_)), _) | (Some(Stage::Closing), Phase::Active) => Phase::DeletionsOnly,
            _ => phase,
        }
    }

    /// The documents in files that wait for one in force, whose sources and targets the engine has to look at too.
    pub(super) fn waiting_documents(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.in_force.keys().filter_map(|name| Some(&self.catalog.mapping(name)?.mapping))
    }

    /// The providers of the files, and those that documents in force name: what is served would go out of sight with them.
    pub(super) fn providers(&self) -> Vec<ClusterProvider> {
        let of_files = self.catalog.providers().map(|one| (one.name.clone(), one.clone()));
        let mut providers: BTreeMap<String, ClusterProvider> = of_files.collect();
        for (mapping, one) in &self.in_force {
            let lost = one.mapping.providers().into_iter().filter(|name| !providers.contains_key(*name));
            let last: Vec<ClusterProvider> = lost.filter_map(|name| self.last_provider(mapping, name)).collect();
            providers.extend(last.into_iter().map(|one| (one.name.clone(), one)));
        }
        providers.into_values().collect()
    }

    /// A provider without a good document, as this process had it last; else as the state stores of a mapping have it.
    fn last_provider(&self, mapping: &str, name: &str) -> Option<ClusterProvider> {
        self.shared.manager.document(&SourceClusters::Provider(name.to_owned())).or_else(|| {
            let known = self.retained.get(mapping)?;
            let recorded = BTreeMap::from([(mapping.to_owned(), known.documents(self.is_home_read(known)))]);
            let (catalog, _) = Catalog::default().update(&Files::default(), &recorded);
            catalog.providers().find(|one| one.name == name).cloned()
        })
    }

    /// A document that does not do the same as the one in force does not take its place before it is judged.
    pub(super) fn hold_candidates(&mut self) {
        self.hold_removals();
        let (catalog, health) = (&self.catalog, &self.shared.instruments.health);
        let removed = &self.removed;
        self.in_force.retain(|name, one| {
            let is_other = |entry: &Entry| match one.departure(entry) {
                Some(_) => !removed.contains(name),
                None => waits_for_release(&one.mapping, &entry.mapping),
            };
            let stays = matches!(one.stage, Stage::Former(_));
            let holds = catalog.mapping(name).is_some_and(|entry| stays || is_other(entry));
            if !holds {
                health.remove(&component(name));
            }
            holds
        });
        let is_decided = |name: &str| {
            self.in_force.contains_key(name) || self.released.contains(name) || self.removed.contains(name)
        };
        let running = self.catalog.mappings().filter(|(name, _)| !is_decided(name));
        let other = running.filter_map(|(name, entry)| {
            // What the state store holds is told before a document takes anything in.
            let pipeline = self.pipelines_of(name).find(|pipeline| pipeline.has_served())?;
            let mapping = pipeline.document_in_force()?;
            waits_for_release(&mapping, &entry.mapping)
                .then(|| (name.to_owned(), InForce::new(mapping, Stage::Serving)))
        });
        let other: Vec<_> = other.collect();
        self.in_force.extend(other);
    }

    /// A mapping that is removed goes on as it is retained until its removal is released.
    fn hold_removals(&mut self) {
        let removed = std::mem::take(&mut self.removed);
        let is_removed = |name: &String| self.catalog.mapping(name).is_some_and(is_removal);
        let (removed, back): (BTreeSet<_>, BTreeSet<_>) = removed.into_iter().partition(is_removed);
        self.removed = removed;
        // What its removal takes away is not compared any more.
        back.iter().for_each(|name| drop(self.drop_ledger(name)));
        let removals =
            self.catalog.mappings().filter(|(name, entry)| is_removal(entry) && !self.removed.contains(*name));
        let removals: Vec<(String, Arc<Mapping>)> =
            removals.map(|(name, entry)| (name.to_owned(), entry.mapping.clone())).collect();
        for (name, last) in removals {
            let in_force = self.in_force.get(&name).map(|one| one.mapping.clone());
            let recorded = || self.pipelines_of(&name).find_map(|pipeline| pipeline.document_in_force());
            let in_force = in_force.or_else(recorded).unwrap_or(last);
            if departure(&in_force).is_none() {
                continue;
            }
            if self.pipelines_of(&name).next().is_none() || in_force.mode == Mode::Observe {
                // It never ran, or writes nothing.
                self.removed.insert(name);
            } else {
                self.in_force.entry(name).or_insert_with(|| InForce::new(in_force, Stage::Serving));
            }
        }
    }

    /// What a state store says of a mapping.
    pub(super) fn recorded(&mut self, slot: &Slot, store: Inventory) {
        self.follow_recorded(slot, store);
        if let Some(running) = self.pipelines.get(slot) {
            running.pipeline.told_store();
        }
    }

    fn follow_recorded(&mut self, slot: &Slot, store: Inventory) {
        let name = &slot.mapping;
        if !slot.target.is_empty() {
            self.follow_targets(name, &store.targets);
        }
        let latest = self.latest.entry(name.clone()).or_default();
        // Where one target holds all, that is what counts: it may have been put back.
        let (is_later, is_earlier) = (store.recorded > *latest, store.recorded < *latest && !slot.target.is_empty());
        *latest = store.recorded.max(*latest);
        let (Some(pipeline), Some(entry)) =
            (self.pipelines.get(slot).map(|one| one.pipeline.clone()), self.entry(name))
        else {
            return;
        };
        let former: BTreeSet<String> = store.former.iter().map(|former| former.source.resource.clone()).collect();
        let was_former = self.in_force.get(name).is_some_and(|one| matches!(one.stage, Stage::Former(_)));
        if former.is_empty() && was_former && !store.is_list {
            self.end_waiting(name);
            return self.converge();
        }
        let (document, stage) = match former.is_empty() {
            false => (compiled(&store.document), Stage::Former(former)),
            true => (other_document(&store, &entry.mapping), Stage::Serving),
        };
        // What is known of a mapping without a file is the latest that any target has. Another process may have recorded a later one
        // before this one saw the file go, or this one had recorded nothing of what was in the file.
        let is_retained = entry.standing == Standing::Retained;
        let went_unrecorded = pipeline.went_unrecorded(&pipeline.generation());
        let may_be_late = went_unrecorded || self.in_force.contains_key(name) || pipeline.is_replaced_by(&store);
        let document = document.filter(|one| !is_retained || may_be_late || names_other_sources(one, &entry.mapping));
        let Some(document) = document.filter(|one| went_unrecorded || !pipeline.supersedes(one)) else { return };
        let is_in_force = |one: &Arc<Pipeline>| one.is_confirmed_with(&entry.mapping);
        // What home says counts, whatever this process knew.
        let is_former = is_earlier || (!is_later && self.pipelines_of(name).any(is_in_force));
        if stage == Stage::Serving && !store.is_list && is_former {
            // A target that was out of sight, or that the mapping had once and has again.
            if !went_unrecorded {
                pipeline.supersede(&document);
                pipeline.check_inventory();
            }
            return;
        }
        if self.in_force.get(name).is_some_and(|one| one.stage == stage && one.mapping.text == document.text) {
            return;
        }
        let file = self.catalog.mapping(name).filter(|file| file.standing == Standing::Running);
        if stage == Stage::Serving && file.is_some_and(|file| !waits_for_release(&document, &file.mapping)) {
            return self.released_elsewhere(name);
        }
        if stage == Stage::Serving && file.is_some() && pipeline.is_replaced_by(&store) {
            warn!(
                mapping = name,
                engine = self.shared.settings.engine,
                connection = pipeline.generation().target.name,
                "another process with this engine id released another document than the file has, and this one releases its own \
                 again: give all replicas the same files, and each other engine an id of its own (`--engine-id`)"
            );
        }
        self.in_force.insert(name.clone(), InForce::new(document, stage));
        self.converge();
    }

    /// Another process of this engine has recorded the document in the file as the one in force.
    fn released_elsewhere(&mut self, name: &str) {
        let Some(one) = self.end_waiting(name) else { return };
        info!(mapping = name, "another process released the document in the file: it is in force now");
        self.pipelines_of(name).for_each(|pipeline| pipeline.supersede(&one.mapping));
        self.released.insert(name.to_owned());
        self.converge();
    }

    /// Lets the documents in files take the place of those in force, as far as nothing is served by these any more.
    pub(super) fn judge_documents(&mut self) {
        if !self.shared.lease.is_held() {
            return;
        }
        let names: Vec<String> = self.in_force.keys().cloned().collect();
        let mut changes = false;
        self.follow_releases();
        for name in names {
            self.refuse_rejected(&name);
            let next = match self.judge(&name) {
                Next::Passes => self.next_step(&name),
                next => next,
            };
            let next = match next {
                Next::Over | Next::Passes if self.lacks_home(&name) => {
                    Next::GoesOn(Why::Unknown("the home cluster, which records it first, cannot be reached".to_owned()))
                }
                next => next,
            };
            match next {
                Next::Over => {
                    self.close_ledger(&name);
                    self.release(&name);
                    changes = true;
                }
                Next::Rehearse => self.rehearse(&name),
                Next::Passes => changes |= self.come_into_force(&name),
                Next::Close => changes |= self.set_stage(&name, Stage::Closing),
                Next::GoesOn(why) => {
                    changes |= self.set_stage(&name, Stage::Serving);
                    self.keep_waiting(&name, why);
                }
                Next::Unchanged => {}
            }
        }
        if changes {
            self.converge();
        }
        self.released.clear();
    }

    /// From now on, another replica judges the documents that wait, and tells of them.
    pub(super) fn judges_no_more(&mut self) {
        for (name, one) in &mut self.in_force {
            one.waits_no_more();
            self.shared.instruments.health.remove(&component(name));
        }
    }

    pub(super) fn is_home_lost(&self) -> bool {
        self.targets.get(&self.shared.settings.home).is_some_and(|home| home.is_lost())
    }

    /// Whether home cannot be reached, which has to name a document before a target does.
    fn lacks_home(&self, name: &str) -> bool {
        let is_named_there = |pipeline: &Arc<Pipeline>| home_of_list(pipeline, &pipeline.generation()).is_some();
        let is_edit = |(_, entry): (&InForce, &Entry)| !is_removal(entry);
        self.is_home_lost() && self.waiting(name).is_some_and(is_edit) && self.pipelines_of(name).any(is_named_there)
    }

    /// What is held of a document that waits.
    pub(super) fn held_candidate(&self, name: &str) -> Option<Held> {
        let (one, entry) = self.waiting(name)?;
        let is_held = matches!(one.waits, Some((Why::Held(_), _)));
        is_held.then(|| one.failed(entry).or_else(|| one.rehearsed(entry))).flatten()
    }

    /// Whether a document waits of which it is not known yet whether it is held.
    pub(super) fn has_candidate(&self, name: &str) -> bool {
        self.in_force.get(name).is_some_and(|one| !matches!(one.waits, Some((Why::Refused(_), _))))
    }

    /// How many documents wait for good, as they name other sources.
    pub(super) fn refused_documents(&self) -> usize {
        self.in_force.values().filter(|one| matches!(one.waits, Some((Why::Refused(_), _)))).count()
    }

    /// A person approves what a document that waits would do.
    pub(super) fn approve_candidate(&mut self, name: &str, held: &Held, approved: Held) {
        if !held.is_within(&approved) {
            return warn!(
                mapping = name,
                "something else is held than a person approved; nothing is released, and `sync-engine approve` shows it"
            );
        }
        warn!(mapping = name, failing = held.failing, lost = held.lost(), "a person approved the document in the file");
        let (failing, lost) = (count(held.failing, "source"), count(held.lost(), "object"));
        let told = format!("a person approved the document: {failing} newly failing, {lost} lost");
        self.tell_provider(Some(name), false, "DocumentApproved", told);
        if let Some(one) = self.in_force.get_mut(name) {
            one.approved.push(approved);
        }
        self.judge_documents();
    }

    /// Every gate is passed: what it loses is counted anew and recorded, and the document in the file takes the place of the one
    /// in force. `true`: it has.
    fn come_into_force(&mut self, name: &str) -> bool {
        let Some((one, entry)) = self.waiting(name) else { return false };
        let release = one.release(entry);
        let recorded = self.recorded_releases.get(name);
        if let Some(recorded) = recorded.filter(|one| one.release == release && one.stage == Released).cloned() {
            // Whoever comes later finds it in the state stores that there is a ledger at home.
            let is_named = |pipeline: &Arc<Pipeline>| pipeline.is_lost() || pipeline.is_release_recorded(&release);
            if !self.pipelines_of(name).all(is_named) {
                return false;
            }
            self.ledgers.remove(name);
            recorded.ledger.into_iter().for_each(|ledger| self.open_ledger(name, ledger, true));
            self.release(name);
            return true;
        }
        if !one.candidate.is_fresh() {
            self.rehearse(name);
            return false;
        }
        let ledger = self.ledger_of(name, one, entry);
        if ledger.is_some() && self.shared.settings.home_connection().is_some() && one.departure(entry).is_none() {
            let progress = Progress { ledger, ..self.progress_of(name, one, entry, Released) };
            self.set_progress(name, Some(progress));
            self.in_force.get_mut(name).into_iter().for_each(InForce::waits_no_more);
            return false;
        }
        self.ledgers.remove(name);
        ledger.into_iter().for_each(|ledger| self.open_ledger(name, ledger, false));
        self.release(name);
        true
    }

    /// What the document in the file may take away beyond what was counted. `None`: nobody can ask for anything.
    fn ledger_of(&self, name: &str, one: &InForce, entry: &Entry) -> Option<Ledger> {
        let rehearsal = one.candidate.rehearsal()?;
        let is_settled = |pipeline: &Arc<Pipeline>| pipeline.is_settled();
        if rehearsal.is_harmless() && !one.mapping.has_shared() && self.pipelines_of(name).all(is_settled) {
            return None;
        }
        let before = self.pipelines_of(name).next().and_then(|pipeline| pipeline.documents_before());
        // What cannot be read any more would keep everything.
        let former =
            before.map_or_else(|| vec![String::new()], |all| all.iter().map(|one| one.text.to_string()).collect());
        let approved = one.approval(one.rehearsed(entry)).map_or(0, Held::lost);
        let most = one.mapping.release.max_lost.most(rehearsal.objects);
        let mut ledger = Ledger::new(one.release(entry), former, most + approved);
        for (target, losing) in rehearsal.losing() {
            let pipeline = self.pipelines_of(name).find(|one| one.generation().target.name == *target);
            let Some(pipeline) = pipeline.or_else(|| self.pipelines_of(name).next()) else { continue };
            let owners = losing.iter().filter_map(|(key, lost)| Some((pipeline.controller.owner(key)?.0, *lost)));
            ledger.count(target, owners);
        }
        Some(ledger)
    }

    /// The document in the file takes the place of the one in force.
    fn release(&mut self, name: &str) {
        let Some(one) = self.end_waiting(name) else { return };
        let effect = one.effect();
        let text = if self.catalog.mapping(name).is_some_and(is_removal) {
            self.removed.insert(name.to_owned());
            // Where the last file only observes, that goes on.
            if self.catalog.mapping(name).is_some_and(|last| last.mapping.mode != Mode::Observe) {
                self.catalog = self.catalog.leave(name, &one.mapping);
            }
            warn!(mapping = name, effect, "the removal of the mapping is released");
            format!("mapping {name}: its removal is released: {effect}")
        } else {
            self.pipelines_of(name).for_each(|pipeline| pipeline.supersede(&one.mapping));
            self.released.insert(name.to_owned());
            let generation = self.catalog.mapping(name).map_or(0, |entry| entry.generation);
            info!(mapping = name, generation, effect, "the document in the file is in force now");
            format!("mapping {name}: generation {generation} is released: {effect}")
        };
        self.tell_provider(Some(name), false, "DocumentReleased", text.clone());
        self.said.push(text);
    }

    /// No document waits for the one in force any more.
    fn end_waiting(&mut self, name: &str) -> Option<InForce> {
        self.shared.instruments.health.remove(&component(name));
        self.in_force.remove(name)
    }

    /// Plans every source with the document in the file. What comes of it is an event.
    fn rehearse(&mut self, name: &str) {
        let Some((one, entry)) = self.waiting(name) else { return };
        let (document, phase) = one.next(entry);
        let slots: BTreeMap<Slot, String> = self.slots(&document);
        let selected = Arc::new(selected(&self.shared.manager, &document));
        let running = self.slots_of(name).map(|(slot, one)| (slot.clone(), one.pipeline.clone()));
        let running: Vec<(Slot, Arc<Pipeline>)> = running.collect();
        let on = running.into_iter().map(|(slot, pipeline)| {
            let target = slots.get(&slot).and_then(|target| self.target(target));
            let target = target.unwrap_or_else(|| pipeline.generation().target.clone());
            // Where no mapping runs on that target, nobody has asked it for these kinds yet.
            let kinds = pipeline.followed_kinds();
            kinds.iter().filter(|kind| kind.side == Side::Target).for_each(|kind| target.want(kind));
            OnTarget {
                pipeline,
                candidate: Generation::new(document.clone(), phase, target),
                selected: selected.clone(),
            }
        });
        let on: Vec<OnTarget> = on.collect();
        if let Some(one) = self.in_force.get_mut(name) {
            if !one.candidate.is(&document, phase) {
                // That was the gate of another text.
                one.course.failed_gate = None;
                one.candidate = Candidate { document: Some((document.clone(), phase)), ..Candidate::default() };
            }
            one.candidate.is_running = true;
        }
        let (events, name) = (self.events.clone(), name.to_owned());
        self.tasks.spawn(async move {
            // A defect that one document shows keeps no other waiting.
            let result = AssertUnwindSafe(rehearse(on)).catch_unwind().await;
            let result = result.unwrap_or_else(|_| Err("its rehearsal ended by a defect of the engine".to_owned()));
            let _ = events.send(Event::Rehearsed(name, (document, phase), Box::new(result))).await;
        });
    }

    /// A rehearsal has ended.
    pub(super) fn rehearsed(&mut self, name: &str, of: (Arc<Mapping>, Phase), result: Result<Rehearsal, String>) {
        let Some(one) = self.in_force.get_mut(name) else { return };
        if one.candidate.is(&of.0, of.1) {
            (one.candidate.is_running, one.candidate.result) = (false, Some((result, Instant::now())));
        }
        self.judge_documents();
        self.answer_reloads(false);
    }

    /// Whether a document is being rehearsed for the first time, or home is about to record that it takes the place of the one in
    /// force.
    pub(super) fn is_rehearsing(&self) -> bool {
        let releases = self.releases.borrow();
        self.in_force.iter().any(|(name, one)| {
            let wanted = releases.progress.get(name).filter(|wanted| wanted.stage == Released);
            let is_ending =
                wanted.zip(self.catalog.mapping(name)).is_some_and(|(it, entry)| it.release == one.release(entry));
            is_ending || one.candidate.is_running && one.candidate.result.is_none()
        })
    }

    /// What the limits of the document in force make of the one in the file.
    fn judge_release(&self, one: &InForce, entry: &Entry) -> Next {
        // A document whose file is gone takes no other one's place.
        if entry.standing != Standing::Running && one.departure(entry).is_none() {
            return Next::Unchanged;
        }
        let recorded = self.recorded_releases.get(&entry.mapping.name);
        if recorded.is_some_and(|recorded| recorded.stage == Released && recorded.release == one.release(entry)) {
            return Next::Passes;
        }
        let (document, phase) = one.next(entry);
        if !one.candidate.is(&document, phase) {
            return Next::Rehearse;
        }
        let Some((result, at)) = one.candidate.result.as_ref().filter(|_| !one.candidate.is_running) else {
            return Next::Unchanged;
        };
        let excess = match result {
            Ok(_) if let Some(why) = self.refusal(&entry.mapping.name) => Why::Held(why),
            Ok(rehearsal) => match rehearsal.excess(&one.mapping.release) {
                None => return Next::Passes,
                Some(_) if one.is_approved(entry) => return Next::Passes,
                Some(excess) => Why::Held(excess),
            },
            Err(why) => Why::Unknown(format!("it cannot be rehearsed yet: {why}")),
        };
        let lasts = if matches!(excess, Why::Held(_)) { LASTS } else { TICK };
        match one.waits_for(excess.text()) && at.elapsed() >= lasts {
            true => Next::Rehearse,
            false => Next::GoesOn(excess),
        }
    }

    fn set_stage(&mut self, name: &str, stage: Stage) -> bool {
        let known = self.in_force.get_mut(name).filter(|one| !matches!(one.stage, Stage::Former(_)));
        known.is_some_and(|one| std::mem::replace(&mut one.stage, stage.clone()) != stage)
    }

    fn judge(&self, name: &str) -> Next {
        let Some((one, entry)) = self.waiting(name) else { return Next::Unchanged };
        if let Stage::Former(resources) = &one.stage {
            let resources = Vec::from_iter(resources.iter().map(String::as_str)).join(", ");
            return Next::GoesOn(Why::Unknown(format!(
                "its state store names former sources of an earlier version of the engine ({resources}): deletions alone go \
                 on, until `sync-engine uninstall {name} --former` has released them",
            )));
        }
        if entry.standing == Standing::Retained {
            return self.judge_release(one, entry);
        }
        let all: Vec<_> = self.pipelines_of(name).collect();
        if all.is_empty() {
            return Next::Unchanged;
        }
        let Some(why) = self.difference(&one.mapping, &entry.mapping, &all) else {
            return self.judge_release(one, entry);
        };
        // Each stage has the state stores read again.
        let is_being_read = all.iter().any(|pipeline| pipeline.unconfirmed().as_deref() == Some(NOT_READ));
        match all.iter().map(|pipeline| pipeline.serves_any()).collect::<Option<Vec<bool>>>() {
            // A document that is kept for a broken file takes the place of no other one.
            Some(serves) if entry.standing == Standing::Running && !serves.contains(&true) => match one.stage {
                _ if let Some(why) = self.writes_beside(name, &entry.mapping) => Next::GoesOn(Why::Unknown(why)),
                Stage::Closing if all.iter().all(|pipeline| pipeline.is_closed()) => Next::Over,
                _ => Next::Close,
            },
            None if let Some(lost) = all.iter().find_map(|pipeline| pipeline.lost_in_words()) => {
                Next::GoesOn(Why::Refused(format!("{}, and {lost}", why.text())))
            }
            None if one.stage == Stage::Closing && is_being_read => Next::Unchanged,
            None => Next::GoesOn(Why::Unknown(format!(
                "{}, and not all that the document in force serves is in sight",
                why.text()
            ))),
            Some(_) => Next::GoesOn(why),
        }
    }

    /// Why a document would serve something else than the one in force. `None`: it serves the same.
    fn difference(&self, in_force: &Mapping, other: &Mapping, all: &[&Arc<Pipeline>]) -> Option<Why> {
        let manager = &self.shared.manager;
        let (here, there) = (&in_force.source, &other.source);
        let (resource, other) = (here.resource.group_plural(), there.resource.group_plural());
        if resource != other {
            return Some(Why::Refused(format!("it would serve {other} instead of {resource}")));
        }
        if here.clusters == there.clusters {
            return None;
        }
        let from = format!("the sources of {} instead of {}", named(&there.clusters), named(&here.clusters));
        if let (SourceClusters::ApiExport(_), SourceClusters::ApiExport(_)) = (&here.clusters, &there.clusters) {
            return match (manager.identity(&here.clusters), manager.identity(&there.clusters)) {
                (Some(here), Some(there)) if here == there => None,
                (Some(_), Some(_)) => {
                    Some(Why::Refused(format!("it would serve {from}, which has another identity hash")))
                }
                _ => {
                    Some(Why::Unknown(format!("whether it serves {from} is not known before both APIExports are read")))
                }
            };
        }
        let served: BTreeSet<_> = held(all).into_iter().map(|key| key.cluster.clone()).collect();
        let is_lacking = |name: &_| {
            let cluster = manager.cluster(&here.clusters, name);
            cluster.is_none_or(|one| manager.cluster_of_identity(&there.clusters, one.identity()).is_none())
        };
        let lacking = served.iter().find(|name| is_lacking(*name));
        match lacking {
            Some(lacking) => {
                Some(Why::Refused(format!("it would serve {from}, which does not have the cluster {lacking}")))
            }
            None if manager.is_synced(&there.clusters) && all.iter().all(|one| one.controller.are_sources_listed()) => {
                None
            }
            None => Some(Why::Unknown(format!("whether it serves {from} is not known before all clusters are"))),
        }
    }

    fn keep_waiting(&mut self, name: &str, why: Why) {
        if self.in_force.get(name).is_none_or(|one| one.waits_for(why.text())) {
            return;
        }
        let Some(entry) = self.catalog.mapping(name) else { return };
        let (file, is_removed) = (entry.file.as_deref().unwrap_or("its file"), is_removal(entry));
        let text = match &why {
            Why::Unknown(why) if is_removed => format!("its removal waits: {why}"),
            Why::Held(why) if is_removed => format!(
                "its removal is held, and deletions alone go on: {why}. `sync-engine approve {name}` shows and approves it; or \
                 put {file} back",
            ),
            Why::Unknown(why) => format!("the document in {file} waits: {why}"),
            Why::Held(why) => format!(
                "the document in {file} is held, and the one before goes on: {why}. `sync-engine approve {name}` shows and \
                 approves it",
            ),
            Why::Refused(why) => format!(
                "the document in {file} is refused: {why}{}; the former document goes on. Put its text back into {file}, write \
                 the new one into a file of its own with another metadata.name, and remove {file} once its sources are gone",
                served(&self.pipelines_of(name).collect::<Vec<_>>())
            ),
        };
        self.shared.instruments.health.set(&component(name), Condition::degraded(text.clone()));
        let reason = match &why {
            Why::Unknown(_) => None,
            Why::Held(_) => Some("DocumentHeld"),
            Why::Refused(_) => Some("DocumentRefused"),
        };
        if let Some(one) = self.in_force.get_mut(name) {
            one.waits = Some((why, text.clone()));
        }
        match reason {
            None => info!(mapping = name, why = text, "the document does not run yet"),
            // It waits as it was asked to, and runs once a person approves it.
            Some("DocumentHeld") => warn!(mapping = name, why = text, "an edit is held"),
            Some(_) => error!(mapping = name, why = text, "an edit is refused"),
        }
        if let Some(reason) = reason {
            self.tell_provider(Some(name), true, reason, text);
        }
        self.tell_held();
    }

    /// What is wrong with documents that wait, by mapping.
    pub(super) fn refusals(&self) -> Vec<String> {
        let told = self.in_force.iter().filter_map(|(name, one)| Some((name, &one.waits.as_ref()?.1)));
        told.map(|(name, text)| format!("mapping {name}: {text}")).collect()
    }
}

/// Whether a mapping is removed, seen by this process.
pub(super) fn is_removal(entry: &Entry) -> bool {
    entry.standing == Standing::Retained && entry.removal_seen
}

pub(super) fn component(name: &str) -> String {
    format!("document of mapping {name}")
}

/// The sources that the document in force serves: all targets of a mapping have the same.
fn held(all: &[&Arc<Pipeline>]) -> BTreeSet<Key> {
    all.first().map(|one| one.controller.sources_held("")).unwrap_or_default()
}

/// How many sources the document in force serves, and where.
fn served(all: &[&Arc<Pipeline>]) -> String {
    let sources = held(all);
    let clusters: BTreeSet<_> = sources.iter().map(|key| &key.cluster).collect();
    let (of_sources, of_clusters) = (count(sources.len(), "source"), count(clusters.len(), "cluster"));
    let carry = if sources.len() == 1 { "carries" } else { "carry" };
    let first = all.first().and_then(|one| Some(one.title_of(sources.first()?)));
    match first {
        Some(first) => {
            format!(", and {of_sources} of {of_clusters} {carry} its finalizer, the first is {first}")
        }
        None if all.iter().any(|one| one.has_any_object()) => {
            ", and orphaned objects are left (`sync-engine orphans`)".to_owned()
        }
        None => String::new(),
    }
}

/// The clusters of sources as a mapping names them.
fn named(clusters: &SourceClusters) -> String {
    match clusters {
        SourceClusters::ApiExport(export) => match &export.path {
            Some(path) => format!("the APIExport {} of {path}", export.name),
            None => format!("the APIExport {}", export.name),
        },
        SourceClusters::Provider(name) => format!("the ClusterProvider {name}"),
    }
}

/// Whether two documents name different sources. They may lead to the same ones all the same.
pub fn names_other_sources(one: &Mapping, other: &Mapping) -> bool {
    let (one, other) = (&one.source, &other.source);
    one.clusters != other.clusters || one.resource.group_plural() != other.resource.group_plural()
}

/// Whether a document takes the place of the one in force only once it is released. One that writes nothing is in force as soon
/// as it is read, but for the sources that it takes in.
fn waits_for_release(in_force: &Mapping, document: &Mapping) -> bool {
    let is_active = document.mode == Mode::Enforce;
    names_other_sources(in_force, document) || (is_active && !have_same_effect(in_force, document))
}

/// The document of a state store, where another one does not take its place at once.
pub fn other_document(store: &Inventory, mapping: &Mapping) -> Option<Arc<Mapping>> {
    let recorded = (store.document != mapping.text).then(|| compiled(&store.document)).flatten();
    recorded.filter(|recorded| waits_for_release(recorded, mapping))
}

/// The mapping of a document as the state store keeps it.
pub fn compiled(document: &str) -> Option<Arc<Mapping>> {
    let document = crate::yaml::parse_one(document)?;
    match crate::mapping::compile::compile_kept(&document)? {
        Compiled::Mapping(mapping) => Some(mapping),
        _ => None,
    }
}
