//! Who asked for a deletion, and who lets the engine give an object up.

use std::collections::BTreeSet;
use std::time::Duration;

use sync_engine::plan::Evidence;
use sync_engine::plan::decision::VANISHED;

use super::super::mapping::{KINDS, Mapping, Rule, Spread};
use super::super::records::{Made, Source};
use super::{CALM_GRACE, Checker, GRACE};

impl Checker {
    /// Who asked for a deletion: the consumer, or the mapping. Nothing, where nobody did.
    pub(super) fn evidence(&self, at: Duration, made: &Made) -> BTreeSet<Evidence> {
        let mut evidence = BTreeSet::new();
        if made.is_shared {
            // Another process may have deleted it, and made one of another uid: nobody needs what is gone.
            if made.gone || !self.is_used(at, made) {
                evidence.extend([Evidence::LastUser, Evidence::RuleGone]);
            }
            evidence.extend(self.may_be_recreated(at, made).then_some(Evidence::FollowsOriginal));
            return evidence;
        }
        let source = self.sources.get(&made.source_uid);
        let asked = source.is_some_and(|source| source.was_asked(at));
        let deletes =
            |one: &Mapping| one.on_source_delete == "Delete" && (made.is_copy() || one.delete_policy == "Delete");
        let is_guest = self.last_of(&made.owner.mapping).is_none();
        evidence.extend(self.given_up(at, made));
        // What no rule keeps goes with its source as well, whatever the rule said while there was one.
        let has_no_rule = evidence.contains(&Evidence::RuleGone);
        let is_deleted_with_it = || self.followed(at, made).any(|edition| self.is_governed(edition, made, deletes));
        if asked && (is_guest || has_no_rule || is_deleted_with_it()) {
            evidence.insert(Evidence::SourceDeleted);
        }
        evidence
    }

    /// Why a document says that the object goes; `None`: there is none any more.
    pub(super) fn given_up_by(
        &self,
        edition: Option<&Mapping>,
        at: Duration,
        made: &Made,
        source: Option<&Source>,
    ) -> Vec<Evidence> {
        let lately = self.lately(at);
        match edition.filter(|one| one.name == made.owner.mapping) {
            None => {
                let last = self.last_of(&made.owner.mapping);
                let goes = last.is_some_and(|last| last.on_mapping_removed == "Delete") && !self.is_leaving_held(made);
                goes.then_some(Evidence::MappingRemoved).into_iter().collect()
            }
            Some(mapping) => {
                let rule = mapping.all_rules().find(|rule| made.is_by(rule));
                let out = self.is_relabelled || source.is_none_or(|source| mapping.lately_left(source, lately));
                let off = |rule: &Rule| rule.conditional && source.is_none_or(|source| source.extra.was(false, lately));
                let is_changed = mapping.rules.iter().any(|rule| rule.id == made.id && !made.is_named_by(rule));
                let follows = |other: &Source| source.is_none_or(|source| other.follows(made, &source.resource));
                let recreated = || self.sources.iter().any(|(uid, other)| *uid != made.source_uid && follows(other));
                let has_vanished = |source: &Source| {
                    source.vanished && source.vanished_at.is_some_and(|since| since + mapping.stuck_after() <= at)
                };
                let is_elsewhere = source.is_none_or(|source| mapping.lately_elsewhere(made.side, source, lately));
                let is_by_rule = |one: &Mapping| one.all_rules().any(|rule| made.is_by(rule));
                let is_there = |one: &Mapping| !source.is_none_or(|it| one.lately_elsewhere(made.side, it, lately));
                let is_move_held = || self.is_loss_held(mapping, made, is_there);
                let vanished = mapping.on_source_vanished == "Delete" && source.is_some_and(has_vanished);
                let moved = is_changed && mapping.on_identity_change == "Recreate" && !self.is_held(at, made);
                let all = [
                    (rule.is_none() && !self.is_loss_held(mapping, made, is_by_rule), Evidence::RuleGone),
                    (self.has_left_list(at, made, mapping, source), Evidence::KeyGone),
                    (made.is_copy() && self.may_be_recreated(at, made), Evidence::FollowsOriginal),
                    (
                        moved || made.is_copy() && self.has_moved(at, made),
                        Evidence::Policy("onIdentityChange: Recreate"),
                    ),
                    (rule.is_some_and(off), Evidence::Unwanted),
                    (out && mapping.on_exit == "Delete", Evidence::Exit),
                    (is_elsewhere && mapping.spread != Spread::Choice && !is_move_held(), Evidence::Unwanted),
                    (is_elsewhere && mapping.spread == Spread::Choice, Evidence::Policy("onTargetChange: Recreate")),
                    (
                        mapping.on_source_recreated == "Replace" && recreated(),
                        Evidence::Policy("onSourceRecreated: Replace"),
                    ),
                    (vanished, Evidence::Policy(VANISHED)),
                ];
                all.into_iter().filter_map(|(holds, evidence)| holds.then_some(evidence)).collect()
            }
        }
    }

    /// What the engine says why it deletes an object must be so.
    pub(super) fn check_evidence(&mut self, made: &Made, cluster: &str, allowed: &BTreeSet<Evidence>, what: &str) {
        let kind = KINDS.iter().find(|(_, plural)| *plural == made.plural).map_or("", |(kind, _)| kind);
        let about = format!("{kind} {}/{}", made.namespace, made.name);
        let Some(said) = self.log.as_ref().and_then(|log| log.said("delete", cluster, &about)) else { return };
        // A deletion that waits for dependents is repeated with another policy.
        let is_repeated = made.deleting.is_some() && said == Evidence::Policy("delete.propagation").to_string();
        if !is_repeated && !allowed.iter().any(|evidence| evidence.to_string() == said) {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            self.violated("I1", format!("{what}: it says \"{said}\", and that is not so: {}", allowed.join(", ")));
        }
    }

    /// Whether what this document deletes waits for a person: the last one that keeps it let nothing be deleted, and nobody has
    /// approved anything since.
    fn is_loss_held(&self, edition: &Mapping, made: &Made, keeps: impl Fn(&Mapping) -> bool) -> bool {
        let of_mapping = self.editions.iter().filter_map(|(since, other)| Some((*since, other.as_ref()?)));
        let of_mapping: Vec<_> = of_mapping.filter(|(_, other)| other.name == edition.name).collect();
        let here = of_mapping.iter().rposition(|(_, other)| std::ptr::eq(*other, edition)).unwrap_or_default();
        let loses_it = |(_, other): &&(Duration, &Mapping)| !keeps(other);
        let without = of_mapping[..=here].iter().rev().take_while(loses_it).count();
        let (former, without) = of_mapping[..=here].split_at(here + 1 - without);
        let (Some((removed, _)), Some((since, before))) = (without.first(), former.last()) else { return false };
        before.max_lost == 0 && made.since + CALM_GRACE < *removed && !self.is_approved(*since, made)
    }

    /// Whether a person approved since then that an object is lost.
    fn is_approved(&self, since: Duration, made: &Made) -> bool {
        let place = format!(" {}/{} ", made.namespace, made.name);
        let names = |losses: &Vec<String>| losses.iter().any(|loss| loss.contains(&place));
        self.approved.iter().any(|one| one.at >= since && one.losses.as_ref().is_none_or(names))
    }

    /// Whether what a removed mapping takes along waits for a person: its last document let nothing be deleted for long before.
    fn is_leaving_held(&self, made: &Made) -> bool {
        let is_its = |edition: &&Mapping| edition.name == made.owner.mapping;
        let last = self.editions.iter().rposition(|(_, edition)| edition.as_ref().filter(is_its).is_some());
        let Some((since, Some(mapping))) = last.map(|last| &self.editions[last]) else { return false };
        let Some((removed, _)) = last.and_then(|last| self.editions.get(last + 1)) else { return false };
        mapping.max_lost == 0
            && made.since + CALM_GRACE < *removed
            && *since + GRACE < *removed
            && !self.is_approved(*removed, made)
    }

    /// Whether what a changed document deletes waits for a person's approval.
    fn is_held(&self, at: Duration, made: &Made) -> bool {
        let Some((since, Some(mapping))) = self.editions.last() else { return false };
        mapping.max_lost == 0 && *since + GRACE < at && !self.is_approved(*since, made)
    }

    /// Whether some policy lets the engine take its labels and annotations off an object.
    pub(super) fn may_orphan(&self, at: Duration, made: &Made) -> bool {
        let source = self.sources.get(&made.source_uid);
        let lately = self.lately(at);
        let asked = made.is_shared || source.is_some_and(|source| source.was_asked(at));
        // What has no rule any more goes by the most careful rule of its kind.
        let has_policy = |one: &Mapping| !one.related.iter().any(|rule| made.is_by(rule));
        let leaves =
            |one: &Mapping| one.on_source_delete == "Orphan" || (one.delete_policy == "Orphan" && has_policy(one));
        if asked && self.followed(at, made).any(|edition| self.is_governed(edition, made, leaves)) {
            return true;
        }
        let by_edition = |edition: Option<&Mapping>| match edition.filter(|one| one.name == made.owner.mapping) {
            None => self.last_of(&made.owner.mapping).is_some_and(|last| last.on_mapping_removed == "Orphan"),
            Some(mapping) => {
                let out = self.is_relabelled || source.is_none_or(|source| mapping.lately_left(source, lately));
                let is_changed = mapping.rules.iter().any(|rule| rule.id == made.id && !made.is_named_by(rule));
                (out && mapping.on_exit == "Orphan")
                    || (is_changed && mapping.on_identity_change == "Orphan")
                    || (mapping.delete_policy == "Orphan" && has_policy(mapping) && !self.given_up(at, made).is_empty())
            }
        };
        self.ruling(at, made).any(by_edition)
    }
}
