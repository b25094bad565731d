//! The decision table of the design: one `match` over (source, finalizer, object), in the order of its rows.

use crate::mapping::{Drift, IdentityChange, OnExit, SourceDelete, SourceRecreated};

/// What the source object is, with the policies that its state calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Live, and it passes the filter.
    In,
    /// Live, and it does not pass the filter; or its mapping was removed with a policy.
    Out(OnExit),
    /// It has a deletionTimestamp.
    Deleting(SourceDelete),
    /// Missing; it was seen being deleted, or was released, under the uid of the object at hand.
    Departed(SourceDelete),
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
    /// `when` is false, or its key is gone from a list that was rendered completely.
    Unwanted,
    /// No object of the mapping has its id any more.
    Dropped,
}

/// What the object on the target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Unknown,
    /// Owned, and it has a deletionTimestamp.
    BeingDeleted,
    Absent,
    Foreign,
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
    /// Somebody else changed it.
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
    /// Report that it drifted, and leave it.
    ReportDrift,
    /// Report that its kind or name would change, and leave it.
    ReportMove,
    /// Report that the source was created anew, and leave the object.
    ReportRecreated,
    Conflict,
    /// Delete, because the source is being deleted, or to create the object anew at once.
    Delete,
    /// Delete, because the mapping no longer wants it: within `pruneGuard`.
    Prune,
    /// Take the ownership labels and annotations off, and leave it.
    GiveUp,
    /// Keep it with its finalizer, and report that it is retained.
    Retain,
    /// Keep it, count it and report it as orphaned.
    Orphaned,
    /// Nothing of this object holds the finalizer.
    Release,
}

/// The first row that matches decides.
#[rustfmt::skip]
pub fn decide(source: Stage, finalizer: bool, object: Found, wish: Wish) -> Verdict {
    use {Found::*, Stage::*, Wish::*};
    match (source, finalizer, object, wish) {
        (_, _, Unknown | BeingDeleted, _) => Verdict::Wait,
        (In, _, _, Unrendered) => Verdict::Wait,
        (In, false, _, Wanted) => Verdict::AddFinalizer,
        (In, false, _, Unmet) => Verdict::Wait,
        (In, false, _, Unwanted | Dropped) => Verdict::Nothing,
        (In, true, OursOfEarlier(SourceRecreated::Adopt), Wanted | Unmet) => Verdict::Apply,
        (In, true, OursOfEarlier(SourceRecreated::Adopt), Unwanted | Dropped) => Verdict::Prune,
        (In, true, OursOfEarlier(SourceRecreated::Block), _) => Verdict::ReportRecreated,
        (In, true, OursOfEarlier(SourceRecreated::Replace), _) => Verdict::Prune,
        (In, true, Absent, Unmet) => Verdict::Wait,
        (In, true, Absent, Wanted) => Verdict::Create,
        (In, true, Absent | Foreign, Unwanted | Dropped) => Verdict::Nothing,
        (In, true, Ours(Fit::Refused), _) => Verdict::Wait,
        (In, true, Ours(Fit::Fixed), Wanted | Unmet) => Verdict::Delete,
        (In, true, Ours(Fit::Moved(IdentityChange::Block)), _) => Verdict::ReportMove,
        (In, true, Ours(Fit::Moved(IdentityChange::Orphan)), _) => Verdict::GiveUp,
        (In, true, Ours(Fit::Moved(IdentityChange::Recreate)), _) => Verdict::Prune,
        (In, true, Ours(_), Unwanted | Dropped) => Verdict::Prune,
        (In, true, Ours(Fit::Drifted(_) | Fit::Differs), Unmet) => Verdict::Wait,
        (In, true, Ours(Fit::Drifted(Drift::Correct)), _) => Verdict::Apply,
        (In, true, Ours(Fit::Drifted(Drift::Report)), _) => Verdict::ReportDrift,
        (In, true, Ours(Fit::Drifted(Drift::Ignore)), _) => Verdict::Nothing,
        (In, true, Ours(Fit::Differs), _) => Verdict::Apply,
        (In, true, Ours(Fit::Same | Fit::Uncompared { .. }), _) => Verdict::Nothing,
        (In, true, Foreign, Wanted | Unmet) => Verdict::Conflict,
        (Out(_), false, Ours(_), _) => Verdict::Orphaned,
        (Out(_), false, _, _) => Verdict::Nothing,
        (Out(_), true, Absent | Foreign, _) => Verdict::Release,
        (Out(_), true, OursOfEarlier(_), _) => Verdict::Orphaned,
        (Out(OnExit::Retain), true, Ours(_), _) => Verdict::Retain,
        (Out(OnExit::Orphan), true, Ours(_), _) => Verdict::GiveUp,
        (Out(OnExit::Delete), true, Ours(Fit::Uncompared { needed: true }), _) => Verdict::Wait,
        (Out(OnExit::Delete), true, Ours(_), _) => Verdict::Prune,
        (Deleting(_) | Departed(_), _, Ours(Fit::Uncompared { needed: true }), _) => Verdict::Wait,
        (Deleting(_), true, OursOfEarlier(_), _) => Verdict::Orphaned,
        (Deleting(_), true, Absent | Foreign, _) => Verdict::Release,
        (Deleting(_), false, Absent | Foreign | OursOfEarlier(_), _) => Verdict::Nothing,
        (Deleting(policy) | Departed(policy), _, Ours(_), _) => match policy {
            SourceDelete::Delete => Verdict::Delete,
            SourceDelete::Orphan => Verdict::GiveUp,
        },
        (Gone | Departed(_), _, Ours(_) | OursOfEarlier(_), _) => Verdict::Orphaned,
        (Gone | Departed(_), _, Absent | Foreign, _) => Verdict::Nothing,
    }
}
