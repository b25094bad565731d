//! An edit is a release: what a document would do to the sources that are served, before it does it. Pure.
//!
//! A mapping has a document *in force* and at most one *candidate*, which its file holds. The candidate is rehearsed: every
//! source in sight is planned with it to its end, on what the caches show, and nothing is written. [`Rehearsal`] is what came of
//! that, and [`Rehearsal::excess`] says whether the limits of the document in force let it pass. What they hold, a person may
//! approve: [`Held`].

use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::mapping::Release;
use crate::object::marks::Reference;
use crate::object::{ClusterName, Key, are, count};
use crate::plan::rehearsal::Imagined;
use crate::plan::{Action, Cause, Evidence, Intent, Reason, Reasons};

pub mod ledger;
#[cfg(test)]
mod tests;
pub mod waves;

/// How many of the clusters, and of the sources, have to be in sight, in percent: of too few, a rehearsal says too little.
const IN_SIGHT: usize = 80;

/// Sources and objects that are named.
const SHOWN: usize = 5;

/// What cannot be taken back: something is deleted or given up, or a finalizer is released.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    Deleted(String),
    GivenUp(String),
    Released,
}

impl Loss {
    /// What an action loses; `None`: nothing.
    pub fn of(action: &Action) -> Option<Self> {
        let at = |reference: &Reference| reference.to_string();
        match action {
            Action::Delete { reference, .. } => Some(Self::Deleted(at(reference))),
            Action::GiveUp { reference, .. } => Some(Self::GivenUp(at(reference))),
            Action::PatchSource { purpose, .. } if purpose.is_release() => Some(Self::Released),
            _ => None,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted(object) => write!(f, "{object} is deleted"),
            Self::GivenUp(object) => write!(f, "{object} is given up"),
            Self::Released => f.write_str("its finalizer is released"),
        }
    }
}

/// A plan that was followed to its end without a write.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Followed {
    pub writes: Vec<Action>,
    /// `None`: it did not come to an end.
    pub rest: Option<Reasons>,
}

impl Followed {
    pub fn new(writes: &[Imagined], rest: Option<Reasons>) -> Self {
        Self { writes: writes.iter().map(|write| write.action.clone()).collect(), rest }
    }

    fn creates(&self) -> usize {
        let is_create = |action: &&Action| matches!(action, Action::Apply { intent: Intent::Create, .. });
        self.writes.iter().filter(is_create).count()
    }

    pub fn losses(&self) -> BTreeSet<Loss> {
        self.writes.iter().filter_map(Loss::of).collect()
    }

    pub fn lost_objects(&self) -> BTreeSet<Reference> {
        let losses = self.writes.iter().filter(|action| Loss::of(action).is_some());
        losses.filter_map(|action| action.reference().cloned()).collect()
    }

    /// Whether a source that is in sync would not be any more.
    pub fn fails(&self) -> bool {
        matches!(trouble(self), Some(Trouble::Failing(_)))
    }
}

/// What all of these plans lose of a source. Nothing, where there is none.
pub fn lost_by_all<T: Ord>(
    plans: &[Followed],
    losses: impl Fn(&Followed) -> BTreeSet<T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> BTreeSet<T> {
    let common = |mut all: BTreeSet<T>, one: BTreeSet<T>| {
        let mut one = Vec::from_iter(one);
        one.sort_by(&order);
        all.retain(|loss| one.binary_search_by(|other| order(other, loss)).is_ok());
        all
    };
    plans.iter().map(losses).reduce(common).unwrap_or_default()
}

/// What a source is under the document in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// It carries nothing of the engine.
    NotServed,
    InSync,
    /// It is served, and not in sync: what the candidate makes of it cannot make it worse.
    Troubled,
}

/// What a candidate does to one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    pub created: usize,
    pub is_updated: bool,
    pub is_taken_in: bool,
    pub lost: BTreeSet<Loss>,
    /// Why a source that is in sync now would not be.
    pub failing: Option<String>,
    /// Why caches cannot tell what becomes of it.
    pub not_told: Option<String>,
    /// It is served, and nothing is known of it: its target is not in sight, for example.
    pub is_out_of_sight: bool,
    /// It does not come to its end now: what it loses then, nobody can tell.
    pub is_open: bool,
}

impl Effect {
    /// What a candidate's plan comes to. `before`: the plans of the documents before it, on the same observation. What all of
    /// them lose, or fail at, is not the candidate's doing.
    pub fn of(now: Now, followed: &Followed, before: &[Followed]) -> Self {
        let created = followed.creates();
        let updates = |action: &Action| {
            matches!(
                action,
                Action::Apply { intent: Intent::Update { .. } | Intent::Adopt { .. }, .. } | Action::PatchStatus { .. }
            )
        };
        let mut effect = Self {
            created,
            is_updated: followed.writes.iter().any(updates),
            is_taken_in: now == Now::NotServed && created > 0,
            lost: &followed.losses() - &lost_by_all(before, Followed::losses, Loss::cmp),
            is_open: followed.rest.as_ref().is_none_or(|reasons| !reasons.is_in_sync()),
            ..Self::default()
        };
        let failed_before = !before.is_empty() && before.iter().all(Followed::fails);
        match trouble(followed) {
            Some(Trouble::Failing(why)) if now == Now::InSync && !failed_before => effect.failing = Some(why),
            Some(Trouble::NotTold(why)) => effect.not_told = Some(why),
            Some(Trouble::OutOfSight(why)) => {
                (effect.not_told, effect.is_out_of_sight) = (Some(why), now != Now::NotServed);
            }
            _ => {}
        }
        effect
    }

    /// The same source on another target.
    fn and(&mut self, other: Self) {
        self.created += other.created;
        self.is_updated |= other.is_updated;
        self.is_taken_in |= other.is_taken_in;
        self.lost.extend(other.lost);
        self.failing = self.failing.take().or(other.failing);
        self.not_told = self.not_told.take().or(other.not_told);
        self.is_out_of_sight |= other.is_out_of_sight;
        self.is_open |= other.is_open;
    }
}

enum Trouble {
    Failing(String),
    NotTold(String),
    OutOfSight(String),
}

/// Why a plan does not end in sync.
fn trouble(followed: &Followed) -> Option<Trouble> {
    if followed.writes.iter().any(|action| action.because() == Some(Evidence::Exit)) {
        return Some(Trouble::Failing("it leaves the mapping's filter".to_owned()));
    }
    let Some(Reasons(reasons)) = &followed.rest else {
        return Some(Trouble::NotTold("its plan does not come to rest".to_owned()));
    };
    let worst = reasons.iter().min_by_key(|reason: &&Reason| reason.cause)?;
    let why = worst.to_string();
    Some(match worst.cause {
        // It may be made by the release itself.
        Cause::Waiting if followed.creates() > 0 => Trouble::NotTold(why),
        Cause::Unknown | Cause::RequestFailed => Trouble::OutOfSight(why),
        Cause::Held | Cause::Deleting | Cause::Stuck => Trouble::NotTold(why),
        Cause::TargetChanged
        | Cause::Conflict
        | Cause::RenderFailed
        | Cause::IdentityChanged
        | Cause::Recreated
        | Cause::Refused
        | Cause::ClaimNotAccepted
        | Cause::Retained
        | Cause::Orphaned
        | Cause::StatusFailed
        | Cause::Waiting
        | Cause::Observed => Trouble::Failing(why),
    })
}

/// What is held of a mapping, for a person to approve: nothing beyond it is carried out for that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Which document waits for which one, or a removal: a hash.
    pub document: String,
    /// How many objects are lost, by the connection of the target.
    pub deletions: BTreeMap<String, usize>,
    /// How many sources newly fail.
    #[serde(default)]
    pub failing: usize,
    /// Clusters that are out of sight.
    #[serde(default)]
    pub unseen: BTreeSet<String>,
    /// How many sources are, of those whose clusters are in sight.
    #[serde(default)]
    pub out_of_sight: usize,
    /// The first sources, and what becomes of them: for people.
    #[serde(default)]
    pub shown: Vec<String>,
    /// What the limits allow anyway: by so much may it exceed what was approved. Consumers create objects meanwhile.
    #[serde(skip)]
    pub allowed: Allowed,
}

/// What needs no approval: how many sources may newly fail, and how many objects may be lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    pub failing: usize,
    pub lost: usize,
}

impl Held {
    /// The edit that is held, whatever of it is: by its rehearsal, by a gate, or by its ledger.
    pub fn edit(&self) -> &str {
        self.document.split_once(' ').map_or(&*self.document, |(edit, _)| edit)
    }

    /// On all targets.
    pub fn lost(&self) -> usize {
        self.deletions.values().sum()
    }

    /// One of the first sources, with what becomes of it.
    pub fn show(&mut self, text: String) {
        if self.shown.len() < SHOWN {
            self.shown.push(text);
        }
    }

    pub fn size(&self) -> usize {
        self.failing + self.lost() + self.unseen.len() + self.out_of_sight
    }

    /// Whether nothing of it is beyond what was approved and what the limits allow besides.
    pub fn is_within(&self, approved: &Self) -> bool {
        let approved_on = |target: &str| approved.deletions.get(target).copied().unwrap_or_default();
        let beyond = self.deletions.iter().map(|(target, held)| held.saturating_sub(approved_on(target)));
        self.document == approved.document
            && beyond.sum::<usize>() <= self.allowed.lost
            && self.failing <= approved.failing + self.allowed.failing
            && self.unseen.is_subset(&approved.unseen)
            && self.out_of_sight <= approved.out_of_sight
    }
}

/// What a candidate does to all sources in sight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rehearsal {
    sources: BTreeMap<Key, Effect>,
    /// How many objects are lost on each target.
    lost: BTreeMap<String, usize>,
    /// How many of them each source loses there.
    losing: BTreeMap<String, BTreeMap<Key, usize>>,
    /// How many objects the mapping has.
    pub objects: usize,
    /// Clusters (addresses of kcp's shards) in sight, and those that are not: each counts once, however many targets there are.
    pub seen: BTreeSet<String>,
    pub unseen: BTreeSet<String>,
    /// Whether servers were asked, and not caches alone.
    pub asks_servers: bool,
    /// Paths of workspaces, as far as they are known: for people.
    pub paths: BTreeMap<ClusterName, String>,
}

impl Rehearsal {
    /// What becomes of a source on a target.
    pub fn add(&mut self, target: &str, key: Key, effect: Effect) {
        let lost = effect.lost.iter().filter(|loss| **loss != Loss::Released).count();
        if lost > 0 {
            *self.lost.entry(target.to_owned()).or_default() += lost;
            self.losing.entry(target.to_owned()).or_default().insert(key.clone(), lost);
        }
        match self.sources.entry(key) {
            Entry::Vacant(vacant) => drop(vacant.insert(effect)),
            Entry::Occupied(mut known) => known.get_mut().and(effect),
        }
    }

    /// What is out of sight, where that is so much that the rest says too little.
    pub fn hidden(&self) -> Vec<String> {
        let mut all = Vec::new();
        let (hidden, clusters) = (self.unseen.len(), self.seen.len() + self.unseen.len());
        if self.seen.len() * 100 < clusters * IN_SIGHT {
            let names: Vec<&str> = self.unseen.iter().take(SHOWN).map(String::as_str).collect();
            let (clusters, are) = (count(clusters, "cluster"), are(hidden));
            all.push(format!("{hidden} of {clusters} of its sources {are} out of sight: {}", names.join(", ")));
        }
        let (hidden, sources) = (self.count(|effect| effect.is_out_of_sight), self.sources.len());
        if (sources - hidden) * 100 < sources * IN_SIGHT {
            let first = self.sources.values().find(|effect| effect.is_out_of_sight);
            let why = first.and_then(|one| one.not_told.as_deref()).unwrap_or_default();
            let (sources, are) = (count(sources, "source"), are(hidden));
            all.push(format!("{hidden} of {sources} {are} out of sight ({why})"));
        }
        all
    }

    /// All objects of a target are lost.
    pub fn takes_all(&mut self, target: &str, objects: usize) {
        if objects > 0 {
            let lost = self.lost.entry(target.to_owned()).or_default();
            *lost = objects.max(*lost);
        }
    }

    /// Whether nothing is lost, and there is nobody of whom something may be lost that was not counted.
    pub fn is_harmless(&self) -> bool {
        let is_told = |effect: &Effect| !effect.is_open && effect.not_told.is_none() && effect.lost.is_empty();
        self.lost.is_empty() && self.unseen.is_empty() && self.sources.values().all(is_told)
    }

    pub fn lost(&self) -> usize {
        self.lost.values().sum()
    }

    /// How many objects each source loses, by target.
    pub fn losing(&self) -> &BTreeMap<String, BTreeMap<Key, usize>> {
        &self.losing
    }

    /// What a person would approve beside the limits of the document in force.
    pub fn held(&self, document: String, limits: &Release) -> Held {
        Held {
            document,
            deletions: self.lost.clone(),
            failing: self.failing().count(),
            unseen: self.unseen.clone(),
            out_of_sight: self.count(|effect| effect.is_out_of_sight),
            shown: self.shown(),
            allowed: Allowed {
                failing: limits.max_failing.of(self.sources.len()),
                lost: limits.max_lost.most(self.objects),
            },
        }
    }

    /// The first sources that fail or lose something.
    fn shown(&self) -> Vec<String> {
        let named = |key: &Key| self.paths.get(&key.cluster).map_or_else(|| key.to_string(), |path| key.at(path));
        let failing = self.failing().map(|(key, why)| format!("{}: {why}", named(key)));
        let losing = self.sources.iter().filter_map(|(key, effect)| Some((key, effect.lost.first()?)));
        failing.take(SHOWN).chain(losing.take(SHOWN).map(|(key, loss)| format!("{}: {loss}", named(key)))).collect()
    }

    /// Whether a source is made something else of, as far as that is known.
    pub fn changes(&self, key: &Key) -> bool {
        self.sources.get(key).is_some_and(|effect| *effect != Effect { is_open: effect.is_open, ..Effect::default() })
    }

    /// Sources that newly fail, each with the reason.
    pub fn failing(&self) -> impl Iterator<Item = (&Key, &str)> {
        self.sources.iter().filter_map(|(key, effect)| Some((key, effect.failing.as_deref()?)))
    }

    fn count(&self, is_such: impl Fn(&Effect) -> bool) -> usize {
        self.sources.values().filter(|effect| is_such(effect)).count()
    }

    /// What holds the candidate: more than the limits of the document in force allow. `None`: it is released.
    pub fn excess(&self, limits: &Release) -> Option<String> {
        let mut all = Vec::new();
        let (failing, lost) = (self.failing().count(), self.lost());
        if failing > limits.max_failing.of(self.sources.len()) {
            all.push(format!(
                "{} that {} in sync would not be, and `release.maxFailing` allows {}",
                count(failing, "source"),
                are(failing),
                limits.max_failing
            ));
        }
        if limits.max_lost.is_exceeded_by(lost, self.objects) {
            all.push(format!(
                "{lost} of {} would be lost, and `release.maxLost` allows {} and {}%",
                count(self.objects.max(lost), "object"),
                limits.max_lost.objects,
                limits.max_lost.percent
            ));
        }
        all.extend(self.hidden());
        let shown = self.shown();
        let first = if shown.is_empty() { String::new() } else { format!("; first {}", shown.join("; ")) };
        (!all.is_empty()).then(|| format!("{}{first}", all.join("; ")))
    }
}

/// The line by which it is acknowledged.
impl fmt::Display for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.sources.len();
        let created: usize = self.sources.values().map(|effect| effect.created).sum();
        write!(
            f,
            "{} newly failing, {} updated, {} newly taken in, {} created, {} lost; rehearsed on {} of {}",
            self.failing().count(),
            self.count(|effect| effect.is_updated),
            self.count(|effect| effect.is_taken_in),
            count(created, "object"),
            self.lost(),
            sources - self.count(|effect| effect.not_told.is_some()),
            count(sources, "source"),
        )?;
        match self.unseen.len() {
            0 => {}
            1 => f.write_str(", 1 cluster is out of sight")?,
            many => write!(f, ", {many} clusters are out of sight")?,
        }
        f.write_str(if self.asks_servers { "; servers were asked" } else { "; servers were not asked" })
    }
}
