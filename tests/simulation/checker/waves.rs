//! Which document a source follows: the one in force, or a candidate whose waves have reached it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sync_engine::plan::Evidence;
use sync_engine::sandbox::{ChangeKind, Event};

use super::super::mapping::{Mapping, Rule, WAVES};
use super::super::records::Made;
use super::super::server::Side;
use super::Checker;

/// After how long an engine knows that a target is away: it asks each every few seconds.
const KNOWN_AWAY: Duration = Duration::from_secs(15);

/// How the names of the records of releases end.
const RELEASE: &str = ".release";

/// A document that a part of the sources follows.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(super) mapping: Mapping,
    /// How many of the sources, in percent.
    reach: u8,
    /// Every wave is over: it is about to be in force, or is.
    is_released: bool,
    since: Duration,
    until: Duration,
}

/// A document that is not to be released before the author writes another one, or a person approves it.
#[derive(Clone, Debug)]
pub struct TurnedDown {
    mapping: Mapping,
    at: Duration,
    /// How many documents the author had written.
    written: usize,
}

impl Checker {
    /// Notes how far a candidate is, as the engine records it at home before anything follows from it.
    pub(super) fn note_release(&mut self, at: Duration, event: &Event) {
        let Some(name) = event.key.name.strip_suffix(RELEASE).and_then(|name| name.strip_prefix("main.")) else {
            return;
        };
        let is_its = |one: &&mut Candidate| one.mapping.name == name && one.until == Duration::MAX;
        let before = self.candidates.iter_mut().filter(is_its).map(|one| {
            one.until = at;
            one.clone()
        });
        let before = before.last();
        let object = event.object.object();
        let record = object["data"]["release"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(record) = record.filter(|_| event.kind != ChangeKind::Deleted) else { return };
        let is_released = record["stage"] == "Released";
        let reach = match &record["stage"] {
            _ if is_released => Some(100),
            stage => stage["Wave"]["wave"].as_u64().and_then(|wave| WAVES.get(wave as usize)).copied(),
        };
        let Some(mapping) = record["candidate"].as_str().and_then(|text| self.document(text)) else { return };
        let Some(reach) = reach else {
            let is_refused = record["stage"]["Refused"].is_string();
            let written = self.written.len();
            self.turned_down.extend(is_refused.then_some(TurnedDown { mapping, at, written }));
            return;
        };
        self.check_turned_down(&mapping);
        let before = before.filter(|before| before.mapping == mapping);
        let is_same_wave = |before: &Candidate| (before.reach, before.is_released) == (reach, is_released);
        let since = before.as_ref().filter(|before| is_same_wave(before)).map_or(at, |before| before.since);
        if let Some(before) = before.filter(|before| !is_same_wave(before)) {
            self.check_gate(at, &before);
        }
        self.candidates.push(Candidate { mapping, reach, is_released, since, until: Duration::MAX });
    }

    /// A document is released: not one that was turned down.
    pub(super) fn check_turned_down(&mut self, released: &Mapping) {
        let is_out = |one: &TurnedDown| {
            let is_decided_anew = self.approved.iter().any(|approved| approved.at >= one.at);
            one.mapping == *released && one.written == self.written.len() && !is_decided_anew
        };
        if self.turned_down.iter().any(is_out) {
            self.violated("I9", format!("a document of {} is released that was turned down", released.name));
        }
    }

    /// A gate has passed: a target that went away while its wave was under way tells nothing of the sources on it.
    fn check_gate(&mut self, at: Duration, wave: &Candidate) {
        let was_approved = self.approved.iter().any(|one| one.at >= wave.since);
        let is_away =
            |side: Side| self.away.get(&side).is_some_and(|since| wave.since < *since && *since + KNOWN_AWAY < at);
        let is_member = |made: &&Made| {
            made.owner.engine == "main"
                && made.owner.mapping == wave.mapping.name
                && made.remains()
                && place(&made.hash) < f64::from(wave.reach)
        };
        let members: BTreeMap<&String, bool> =
            self.made.values().filter(is_member).fold(BTreeMap::new(), |mut all, made| {
                *all.entry(&made.source_uid).or_default() |= is_away(made.side);
                all
            });
        let (all, hidden) = (members.len(), members.values().filter(|is_hidden| **is_hidden).count());
        if hidden * 2 > all && !was_approved {
            let text = format!("a gate passes with {hidden} of {all} sources out of sight");
            self.violated("I9", text);
        }
    }

    /// The candidate that a part of the sources follows now.
    pub fn candidate(&self, name: &str) -> Option<&Mapping> {
        let last = self.candidates.iter().rfind(|one| one.mapping.name == name && one.until == Duration::MAX);
        last.map(|one| &one.mapping)
    }

    /// Candidates that reached a source a moment ago.
    pub(super) fn reaching(&self, at: Duration, made: &Made) -> impl Iterator<Item = &Candidate> {
        let (percent, lately) = (place(&made.hash), self.lately(at));
        let reaches = move |one: &&Candidate| {
            let is_its = (&*made.owner.engine, &*made.owner.mapping) == ("main", one.mapping.name);
            lately(one.until) && is_its && percent < f64::from(one.reach)
        };
        self.candidates.iter().filter(reaches)
    }

    /// Documents that the source of an object may have followed a moment ago.
    pub(super) fn followed(&self, at: Duration, made: &Made) -> impl Iterator<Item = Option<&Mapping>> {
        self.ruling(at, made).chain(self.reaching(at, made).map(|one| Some(&one.mapping)))
    }

    /// Candidates that any source may have followed a moment ago.
    pub(super) fn candidates(&self, at: Duration, name: &str) -> impl Iterator<Item = &Mapping> {
        let lately = self.lately(at);
        self.candidates.iter().filter(move |one| lately(one.until) && one.mapping.name == name).map(|one| &one.mapping)
    }

    /// Why the mapping says that an object goes: the document in force has to say so, and a candidate that the source follows
    /// as well. Which of them it follows just now, the reason shows.
    pub(super) fn given_up(&self, at: Duration, made: &Made) -> BTreeSet<Evidence> {
        let source = self.sources.get(&made.source_uid);
        let mut evidence: BTreeSet<Evidence> =
            self.ruling(at, made).flat_map(|edition| self.given_up_by(edition, at, made, source)).collect();
        if evidence.is_empty() {
            return evidence;
        }
        let (mut keeps, lately) = (false, self.lately(at));
        for candidate in self.reaching(at, made) {
            let its = self.given_up_by(Some(&candidate.mapping), at, made, source);
            let is_followed = candidate.until == Duration::MAX && !candidate.is_released;
            keeps |= is_followed && !lately(candidate.since) && its.is_empty();
            evidence.extend(its);
        }
        if keeps { BTreeSet::new() } else { evidence }
    }

    /// What is wrong with an object that the engine writes: no document has it that its source may follow.
    pub(super) fn unreleased(&self, at: Duration, made: &Made, object: &Value) -> Option<String> {
        let edition = object["data"]["edition"].as_str();
        let makes = |one: &Mapping| {
            let is_it = |rule: &&Rule| rule.id == made.rule_id() && made.is_named_by(rule);
            one.name == made.owner.mapping
                && one.rules.iter().any(|rule| is_it(&rule))
                && edition.is_none_or(|edition| edition == one.edition.to_string())
        };
        if made.owner.engine != "main" || made.is_copy() || made.is_shared {
            return None;
        }
        if self.followed(at, made).flatten().any(makes) {
            return None;
        }
        let is_written = self.written.iter().any(makes);
        let percent = place(&made.hash);
        is_written.then(|| {
            format!(
                "{} of {}, at {percent:.0} percent, by a document that it does not follow",
                made.place(),
                made.owner
            )
        })
    }
}

/// Where a source stands among all, from 0 to below 100: its owner's hash, whose digits are in base 32.
fn place(hash: &str) -> f64 {
    let digit = |letter: char| "abcdefghijklmnopqrstuvwxyz234567".find(letter).unwrap_or_default() as f64;
    let mut part = 100.0;
    let add = |sum: f64, letter: char| {
        part /= 32.0;
        sum + digit(letter) * part
    };
    hash.chars().take(8).fold(0.0, add)
}
