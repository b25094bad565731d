//! The order in which the objects of a source are made, and in which they are deleted.

use std::time::Duration;

use super::super::mapping::{CA, Mapping, PASSWORD};
use super::super::records::Made;
use super::{AFTERMATH, Checker, GRACE};

impl Checker {
    /// What an object that is to be made depends on by every document, and that does not exist.
    pub(super) fn missing_need(&self, at: Duration, made: &Made) -> Option<&'static str> {
        let is_there = |other: &Made| (other.place(), &other.owner.cluster) == (made.place(), &made.owner.cluster);
        if self.made.values().any(|other| is_there(other) && !other.gone) {
            return None;
        }
        let mut editions = self.followed(at, made).map(|edition| edition.filter(|one| one.name == made.owner.mapping));
        let first = editions.next()??;
        let others: Option<Vec<&Mapping>> = editions.collect();
        let others = others?;
        let is_needed = |rule| others.iter().all(|one| one.needed_by(made.rule_id()).any(|other| other == rule));
        // After a fault, a cache may show an object until its watch times out: that of a process which stood still, for example.
        let shows = |since| match self.grace(since) {
            calm if calm < GRACE => calm,
            after_a_fault => after_a_fault.max(AFTERMATH),
        };
        let exists = |other: &&Made| !other.gone || other.gone_at + shows(other.gone_at) >= at;
        let of_source = |other: &&Made| other.side == made.side && other.owner == made.owner;
        let mut needed = first.needed_by(made.rule_id()).filter(|rule| is_needed(*rule));
        let missing =
            needed.find(|rule| !self.made.values().filter(of_source).filter(exists).any(|other| other.is_by(rule)));
        missing.map(|rule| rule.id)
    }

    /// What still names a copy whose rule is gone, though it is written without that name.
    pub(super) fn standing_reader(&self, at: Duration, made: &Made) -> Option<String> {
        let drops = |edition: Option<&Mapping>| {
            let edition = edition.filter(|one| one.name == made.owner.mapping && one.mode == "Enforce");
            edition.is_some_and(|one| !one.copies(PASSWORD.id) && one.rules.contains(&CA))
        };
        let source = self.sources.get(&made.source_uid)?;
        let lately = self.lately(at);
        let leaves = |edition: Option<&Mapping>| {
            edition.is_none_or(|one| one.lately_left(source, lately) || one.lately_elsewhere(made.side, source, lately))
        };
        let goes = made.id != PASSWORD.id || source.was_asked(at) || self.followed(at, made).any(leaves);
        let mut candidates = self.reaching(at, made).map(|one| Some(&one.mapping));
        if goes || !self.editions.last().is_some_and(|(_, last)| drops(last.as_ref())) || !candidates.all(drops) {
            return None;
        }
        let reads = |other: &&Made| {
            let is_its = (&other.source_uid, &other.owner, other.side) == (&made.source_uid, &made.owner, made.side);
            is_its && other.id == CA.id && other.reads && other.remains() && !other.edited && !lately(other.written)
        };
        self.made.values().find(reads).map(Made::place)
    }

    /// What depends by every document on an object that is to be deleted, and still exists.
    pub(super) fn standing_dependent(&self, at: Duration, made: &Made) -> Option<String> {
        let is_changed = |edition: Option<&Mapping>| {
            let rule = edition.and_then(|one| one.rules.iter().find(|rule| rule.id == made.id));
            rule.is_some_and(|rule| !made.is_named_by(rule))
        };
        // What is made anew at once has its dependents again.
        let is_recreated = made.is_copy() && (self.may_be_recreated(at, made) || self.has_moved(at, made));
        if made.is_shared || is_recreated || self.followed(at, made).any(is_changed) {
            return None;
        }
        let depends = |other: &Made| {
            // Of an object whose rule is gone, nobody knows any more on what it depends.
            let needs = |one: &Mapping| {
                one.rules.iter().any(|rule| rule.id == other.rule_id())
                    && one.needed_by(other.rule_id()).any(|rule| rule.id == made.rule_id())
            };
            self.followed(at, made).all(|edition| self.governing(edition, made).is_some_and(needs))
        };
        let lately = self.lately(at);
        let stands = |other: &&Made| {
            other.remains()
                && other.side == made.side
                && (&other.source_uid, &other.owner) == (&made.source_uid, &made.owner)
                && !lately(other.since)
                && !self.is_out_of_reach(at, other)
        };
        self.made.values().filter(stands).find(|other| depends(other)).map(Made::place)
    }
}
