//! The decision table of the design: one `match` over (source, finalizer, object), in the order of its rows.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::Reasons;
use crate::mapping::{Drift, IdentityChange, OnExit, SourceDelete, SourceRecreated};
use crate::object::marks::Reference;

/// Why something is deleted, given up or released: the engine does that only where somebody asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The source has a deletionTimestamp, or was seen being deleted, or was released, under the uid of the object.
    SourceDeleted,
    /// `when` is false, or the rule of several targets no longer gives this one.
    Unwanted,
    /// The key of an object is gone from a list that was rendered completely.
    KeyGone,
    Exit,
    RuleGone,
    /// The mapping was removed, seen by this engine, with a policy.
    MappingRemoved,
    /// A policy of the mapping that says so by its name.
    Policy(&'static str),
    LastUser,
    FollowsOriginal,
    Person,
}

pub const VANISHED: &str = "onSourceVanished: Delete";

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SourceDeleted => "its source is deleted",
            Self::Unwanted => "the mapping does not want it for this source",
            Self::KeyGone => "its key is gone from the list",
            Self::Exit => "its source left the mapping's filter",
            Self::RuleGone => "the mapping no longer has its id",
            Self::MappingRemoved => "its mapping was removed",
            Self::Policy(policy) => policy,
            Self::LastUser => "its last user is gone",
            Self::FollowsOriginal => "it can follow its original only by recreation",
            Self::Person => "a person asked for it",
        })
    }
}

/// What the source object is, with the policies that its state calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Live, and it passes the filter.
    In,
    /// Live, and it does not pass the filter; or its mapping was removed with a policy; or it goes to another target.
    Out(OnExit, Evidence),
    /// It has a deletionTimestamp.
    Deleting(SourceDelete),
    /// Missing; it was seen being deleted, or was released, under the uid of the object at hand; or a policy says to go on as if.
    Departed(SourceDelete, Evidence),
    /// Missing, and its deletion was not seen.
    Gone,
}

/// What the mapping wants of one object of a live source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It cannot be rendered now: failed or waiting.
    Unrendered,
    /// It is wanted, and something that it depends on is not ready or has failed; of an object that exists: a copy that it
    /// refers to is missing.
    Unmet,
    Wanted,
    Unwanted(Evidence),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Unknown,
    /// Owned, and it has a deletionTimestamp.
    BeingDeleted,
    Absent,
    Foreign,
    /// Nobody owns it, and `adopt` permits to take it over.
    Unowned,
    OursOfEarlier(SourceRecreated),
    Ours(Fit),
}

/// How an owned object compares with the rendered one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The server refused the desired object in this reconcile.
    Refused,
    /// A copy that can follow its original only by recreation.
    Fixed,
    /// Of another kind or name than desired.
    Moved(IdentityChange),
    Drifted(Drift),
    Differs,
    Same,
    /// Nothing is rendered to compare it with: the source is not live, or not in.
    Uncompared {
        /// Another object that depends on this one still exists.
        needed: bool,
    },
}

/// What to do about one object. The finalizer is added before the first of them and released after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Nothing,
    /// Wait, and report for what.
    Wait,
    AddFinalizer,
    Create,
    Apply,
    ReportDrift,
    /// Report that its kind or name would change, and leave it.
    ReportMove,
    /// Report that the source was created anew, and leave the object.
    ReportRecreated,
    /// Make an object that nobody owns the source's own.
    Adopt,
    Conflict,
    /// Where nothing holds it.
    Delete(Evidence),
    /// Take the ownership labels and annotations off, and leave it.
    GiveUp(Evidence),
    /// Keep it with its finalizer, and report that it is retained.
    Retain,
    /// Keep it, count it and report it as orphaned.
    Orphaned,
    /// Nothing of this object holds the finalizer.
    Release,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete(because) => write!(f, "Delete, for {because}"),
            Self::GiveUp(because) => write!(f, "GiveUp, for {because}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A row of the table: which it is, and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Source; finalizer; object; what the mapping wants.
    pub name: &'static str,
    pub verdict: Verdict,
}

/// The first row that matches decides.
#[rustfmt::skip]
pub fn decide(source: Stage, finalizer: bool, object: Found, wish: Wish) -> Row {
    use {Found::*, Stage::*, Wish::*};
    use Evidence::{FollowsOriginal, Policy, SourceDeleted};
    let (name, verdict) = match (source, finalizer, object, wish) {
        (_, _, Unknown, _) => ("any; any; unknown", Verdict::Wait),
        (_, _, BeingDeleted, _) => ("any; any; ours, being deleted", Verdict::Wait),
        (In, _, _, Unrendered) => ("live, in; any; any; not rendered", Verdict::Wait),
        (In, false, _, Wanted) => ("live, in; no finalizer; any; wanted", Verdict::AddFinalizer),
        (In, false, _, Unmet) => ("live, in; no finalizer; any; a dependency is not met", Verdict::Wait),
        (In, false, _, Unwanted(_)) => ("live, in; no finalizer; any; not wanted", Verdict::Nothing),
        (In, true, OursOfEarlier(SourceRecreated::Adopt), Wanted | Unmet) => ("live, in; finalizer; ours of an earlier source (Adopt); wanted", Verdict::Apply),
        (In, true, OursOfEarlier(SourceRecreated::Adopt), Unwanted(because)) => ("live, in; finalizer; ours of an earlier source (Adopt); not wanted", Verdict::Delete(because)),
        (In, true, OursOfEarlier(SourceRecreated::Block), _) => ("live, in; finalizer; ours of an earlier source (Block)", Verdict::ReportRecreated),
        (In, true, OursOfEarlier(SourceRecreated::Replace), _) => ("live, in; finalizer; ours of an earlier source (Replace)", Verdict::Delete(Policy("onSourceRecreated: Replace"))),
        (In, true, Absent | Unowned, Unmet) => ("live, in; finalizer; absent or unowned; a dependency is not met", Verdict::Wait),
        (In, true, Absent, Wanted) => ("live, in; finalizer; absent; wanted", Verdict::Create),
        (In, true, Absent | Foreign | Unowned, Unwanted(_)) => ("live, in; finalizer; absent or foreign; not wanted", Verdict::Nothing),
        (In, true, Ours(Fit::Refused), _) => ("live, in; finalizer; ours, refused or failed", Verdict::Wait),
        (In, true, Ours(Fit::Fixed), Wanted | Unmet) => ("live, in; finalizer; ours, a copy that cannot follow its original", Verdict::Delete(FollowsOriginal)),
        (In, true, Ours(Fit::Moved(IdentityChange::Block)), _) => ("live, in; finalizer; ours, of another kind or name (Block)", Verdict::ReportMove),
        (In, true, Ours(Fit::Moved(IdentityChange::Orphan)), _) => ("live, in; finalizer; ours, of another kind or name (Orphan)", Verdict::GiveUp(Policy("onIdentityChange: Orphan"))),
        (In, true, Ours(Fit::Moved(IdentityChange::Recreate)), _) => ("live, in; finalizer; ours, of another kind or name (Recreate)", Verdict::Delete(Policy("onIdentityChange: Recreate"))),
        (In, true, Ours(Fit::Uncompared { needed: true }), _) => ("live, in; finalizer; ours of an earlier source (Replace), and a dependent exists", Verdict::Wait),
        (In, true, Ours(_), Unwanted(because)) => ("live, in; finalizer; ours; not wanted", Verdict::Delete(because)),
        (In, true, Ours(Fit::Drifted(_) | Fit::Differs), Unmet) => ("live, in; finalizer; ours, differs; a dependency is not met", Verdict::Wait),
        (In, true, Ours(Fit::Drifted(Drift::Correct)), _) => ("live, in; finalizer; ours, changed by somebody else (Correct)", Verdict::Apply),
        (In, true, Ours(Fit::Drifted(Drift::Report)), _) => ("live, in; finalizer; ours, changed by somebody else (Report)", Verdict::ReportDrift),
        (In, true, Ours(Fit::Drifted(Drift::Ignore)), _) => ("live, in; finalizer; ours, changed by somebody else (Ignore)", Verdict::Nothing),
        (In, true, Ours(Fit::Differs), _) => ("live, in; finalizer; ours, differs", Verdict::Apply),
        (In, true, Ours(Fit::Same | Fit::Uncompared { .. }), _) => ("live, in; finalizer; ours, same", Verdict::Nothing),
        (In, true, Unowned, Wanted) => ("live, in; finalizer; foreign, and nobody owns it (IfUnowned); wanted", Verdict::Adopt),
        (In, true, Foreign, Wanted | Unmet) => ("live, in; finalizer; foreign", Verdict::Conflict),
        (Out(..), false, Ours(_), _) => ("live, out; no finalizer; ours", Verdict::Orphaned),
        (Out(..), false, _, _) => ("live, out; no finalizer; not ours", Verdict::Nothing),
        (Out(..), true, Absent | Foreign | Unowned, _) => ("live, out; finalizer; absent or foreign", Verdict::Release),
        (Out(..), true, OursOfEarlier(_), _) => ("live, out; finalizer; ours of an earlier source", Verdict::Orphaned),
        (Out(OnExit::Retain, _), true, Ours(_), _) => ("live, out (Retain); finalizer; ours", Verdict::Retain),
        (Out(OnExit::Orphan, because), true, Ours(_), _) => ("live, out (Orphan); finalizer; ours", Verdict::GiveUp(because)),
        (Out(OnExit::Delete, _), true, Ours(Fit::Uncompared { needed: true }), _) => ("live, out (Delete); finalizer; ours, and a dependent exists", Verdict::Wait),
        (Out(OnExit::Delete, because), true, Ours(_), _) => ("live, out (Delete); finalizer; ours", Verdict::Delete(because)),
        (Deleting(_) | Departed(..), _, Ours(Fit::Uncompared { needed: true }), _) => ("deleting or gone; any; ours, and a dependent exists", Verdict::Wait),
        (Deleting(_), true, OursOfEarlier(_), _) => ("deleting; finalizer; ours of an earlier source", Verdict::Orphaned),
        (Deleting(_), true, Absent | Foreign | Unowned, _) => ("deleting; finalizer; absent or foreign", Verdict::Release),
        (Deleting(_), false, Absent | Foreign | Unowned | OursOfEarlier(_), _) => ("deleting; no finalizer; not ours", Verdict::Nothing),
        (Deleting(SourceDelete::Delete), _, Ours(_), _) => ("deleting (Delete); any; ours", Verdict::Delete(SourceDeleted)),
        (Deleting(SourceDelete::Orphan), _, Ours(_), _) => ("deleting (Orphan); any; ours", Verdict::GiveUp(SourceDeleted)),
        (Departed(SourceDelete::Delete, because), _, Ours(_), _) => ("gone, seen being deleted (Delete); any; ours", Verdict::Delete(because)),
        (Departed(SourceDelete::Orphan, because), _, Ours(_), _) => ("gone, seen being deleted (Orphan); any; ours", Verdict::GiveUp(because)),
        (Gone | Departed(..), _, Ours(_) | OursOfEarlier(_), _) => ("gone; any; ours", Verdict::Orphaned),
        (Gone | Departed(..), _, Absent | Foreign | Unowned, _) => ("gone; any; absent or foreign", Verdict::Nothing),
    };
    Row { name, verdict }
}

/// One object of a source, with the row that decided on it and what followed.
#[derive(Debug, Clone)]
pub struct Decision {
    /// In the mapping; of several objects of one rule with the key.
    pub id: String,
    /// `None`: where it goes cannot be told.
    pub reference: Option<Reference>,
    /// `None`: it never came to a row, for what it would be is not known.
    pub row: Option<Row>,
    pub desired: Option<Arc<Value>>,
    pub object: Option<Arc<Value>>,
    pub actions: Vec<String>,
    pub reasons: Reasons,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_row_has_a_name_of_its_own_that_says_one_thing() {
        let deletes = [SourceDelete::Delete, SourceDelete::Orphan];
        let stages = [OnExit::Retain, OnExit::Orphan, OnExit::Delete].map(|policy| Stage::Out(policy, Evidence::Exit));
        let stages = stages.into_iter().chain(deletes.map(Stage::Deleting));
        let stages = stages.chain(deletes.map(|policy| Stage::Departed(policy, Evidence::SourceDeleted)));
        let stages: Vec<Stage> = stages.chain([Stage::In, Stage::Gone]).collect();
        let moves = [IdentityChange::Block, IdentityChange::Orphan, IdentityChange::Recreate].map(Fit::Moved);
        let drifts = [Drift::Correct, Drift::Report, Drift::Ignore].map(Fit::Drifted);
        let others = [Fit::Refused, Fit::Fixed, Fit::Differs, Fit::Same];
        let uncompared = [true, false].map(|needed| Fit::Uncompared { needed });
        let fits = moves.into_iter().chain(drifts).chain(others).chain(uncompared);
        let earlier = [SourceRecreated::Adopt, SourceRecreated::Block, SourceRecreated::Replace];
        let found = earlier.map(Found::OursOfEarlier).into_iter().chain(fits.map(Found::Ours));
        let found = found.chain([Found::Unknown, Found::BeingDeleted, Found::Absent, Found::Foreign, Found::Unowned]);
        let mut rows: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for object in found {
            for wish in [Wish::Unrendered, Wish::Unmet, Wish::Wanted, Wish::Unwanted(Evidence::RuleGone)] {
                for (stage, finalizer) in stages.iter().flat_map(|stage| [(*stage, true), (*stage, false)]) {
                    let Row { name, verdict } = decide(stage, finalizer, object, wish);
                    rows.entry(name).or_default().insert(format!("{verdict:?}"));
                }
            }
        }
        let ambiguous: Vec<_> = rows.iter().filter(|(_, verdicts)| verdicts.len() > 1).collect();
        assert!(ambiguous.is_empty(), "{ambiguous:?}");
        let written = include_str!("decision.rs").matches("=> (\"").count();
        assert_eq!(rows.len(), written, "each row is reached, and two have no name in common");
    }
}
