//! The decision table: from what is observed of one source to what is to be done. Pure.
//!
//! | source | finalizer | object | plan |
//! |---|---|---|---|
//! | any | any | Unknown | wait, say for what |
//! | any | any | being deleted | wait; after `stuckAfter` say so |
//! | live, in, render failed or waiting | any | any | write nothing; say why |
//! | live, in | no | any | add finalizer |
//! | live, in | yes | OursEarlier | delete it, then create |
//! | live, in | yes | Absent, what it depends on not ready | wait, say for what |
//! | live, in | yes | Absent | create (look first) |
//! | live, in | yes | Ours, differs | apply |
//! | live, in | yes | Ours, same | nothing |
//! | live, in | yes | Ours, `when` false, or its key gone from a list that was rendered whole | delete |
//! | live, in | yes | Ours, in no id of the mapping | left, and counted |
//! | live, in | yes | Foreign | `Conflict` |
//! | live, out | no | any | nothing |
//! | live, out | yes | Absent or Foreign (fresh read) | release finalizer |
//! | live, out | yes | Ours or OursEarlier | `onExit` |
//! | deleting | yes | Ours or OursEarlier, another that depends on it stands | after the other |
//! | deleting | yes | Ours or OursEarlier | `onSourceDelete` |
//! | deleting | yes | Absent or Foreign (fresh read) | release finalizer |
//! | deleting | no | any | nothing |
//! | gone, with evidence | – | Ours | as `onSourceDelete` |
//! | gone, without evidence | – | Ours | report as orphan |
//!
//! The first row that matches wins. A source's plan is the union over its objects, and its finalizer the last step.
//! [`plan`] is called again with what the actions brought to light ([`Observed::absorb`]) until it rests.

pub mod action;
mod departure;
mod each;
mod live;
pub mod memo;
mod mirror;
pub mod observed;
pub mod preview;
mod readiness;
pub mod rehearsal;
pub mod related;
pub mod render;
mod source;
pub mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use action::{Action, Intent, SourcePatch};
pub use observed::{Evidence, Learned, Look, Observed, Outcome, Phase, Shared, Source, Standing, Target};

use crate::mapping::template::Unrendered;
use crate::mapping::{Mapping, OnExit, SourceDelete};
use crate::object::{has_finalizer, marks, metadata};

/// Rounds of plan and apply before a plan counts as one that does not come to rest; a new object with everything it needs
/// takes five.
pub const MAX_ROUNDS: usize = 24;

/// What to do next for one source.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Carry these out in their order, then plan again.
    Act(Vec<Action>),
    /// Carry this out; then the plan rests like that, and needs not be made again.
    Last(Box<Action>, Rest),
    /// There is nothing to do.
    Rest(Rest),
}

/// Why there is nothing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Rest {
    /// Everything is as it should be.
    InSync,
    /// Nothing to do until something else moves: an event will tell.
    Waiting(Reasons),
    /// Somebody has to mend something: look again on a timer.
    Blocked(Reasons),
}

/// Why a plan rests, each reason with the word by which conditions and metrics know it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reasons(pub Vec<Reason>);

#[derive(Debug, Clone, PartialEq)]
pub struct Reason {
    pub cause: Cause,
    /// For the log of the provider: names targets and namespaces.
    pub detail: String,
}

/// The causes, worst first: the first of them is the reason of the `Synced` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    TargetChanged,
    Conflict,
    RenderFailed,
    IdentityChanged,
    Refused,
    Stuck,
    Orphaned,
    StatusFailed,
    Waiting,
    /// A target that cannot be seen: the consumer's status stays as it is.
    Unknown,
}

impl Cause {
    /// Whether time alone, or an event of the source or the target, may mend it.
    fn is_wait(self) -> bool {
        matches!(self, Self::Waiting | Self::Unknown)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::TargetChanged => "TargetChanged",
            Self::Conflict => "Conflict",
            Self::RenderFailed => "RenderFailed",
            Self::IdentityChanged => "IdentityChanged",
            Self::Refused => "Refused",
            Self::Stuck => "Stuck",
            Self::Orphaned => "Orphaned",
            Self::StatusFailed => "StatusFailed",
            Self::Waiting => "Waiting",
            Self::Unknown => "Unknown",
        }
    }
}

impl Reasons {
    fn one(cause: Cause, detail: impl Into<String>) -> Self {
        Self(vec![Reason { cause, detail: detail.into() }])
    }

    fn push(&mut self, cause: Cause, detail: impl Into<String>) {
        self.0.push(Reason { cause, detail: detail.into() });
    }

    /// The worst cause.
    pub fn cause(&self) -> Option<Cause> {
        self.0.iter().map(|reason| reason.cause).min()
    }

    /// How a plan rests for these reasons.
    fn verdict(self) -> Rest {
        match self.cause() {
            None => Rest::InSync,
            Some(_) if self.0.iter().all(|reason| reason.cause.is_wait()) => Rest::Waiting(self),
            Some(_) => Rest::Blocked(self),
        }
    }

    fn rest(self) -> Plan {
        Plan::Rest(self.verdict())
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", reason.cause.as_str(), reason.detail)?;
        }
        Ok(())
    }
}

impl From<Unrendered> for Reason {
    fn from(unrendered: Unrendered) -> Self {
        match unrendered {
            Unrendered::Waiting(what) => Self { cause: Cause::Waiting, detail: what },
            Unrendered::Failed(why) => Self { cause: Cause::RenderFailed, detail: why },
        }
    }
}

/// Decides for one source. The rows are matched top down.
pub fn plan(mapping: &Mapping, observed: &Observed) -> Plan {
    match &observed.source {
        Source::Unknown(why) => Reasons::one(Cause::Unknown, format!("source: {why}")).rest(),
        Source::Missing => departure::gone(mapping, observed),
        Source::Present(source) if is_deleting(source) => deleting(mapping, observed, source),
        Source::Present(source) => match observed.phase {
            Phase::DeletionsOnly => Plan::Rest(Rest::InSync),
            Phase::Leaving(policy) => left(mapping, observed, source, policy),
            Phase::Active => active(mapping, observed, source),
        },
    }
}

fn active(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Plan {
    match is_in(mapping, observed, source) {
        Ok(true) => live::live(mapping, observed, source),
        Ok(false) => left(mapping, observed, source, mapping.source.on_exit),
        Err(reason) if owns_finalizer(observed, source) => live::undecided(mapping, observed, source, reason),
        Err(reason) => Reasons(vec![reason]).rest(),
    }
}

/// The filter: selector, namespaces, then `when`.
fn is_in(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Result<bool, Reason> {
    if observed.settled {
        return Ok(true);
    }
    let filter = &mapping.source;
    if !filter.selector.matches(source.pointer("/metadata/labels")) {
        return Ok(false);
    }
    let namespace = metadata(source, "namespace");
    if !namespace.is_empty() && !filter.namespaces.matches(namespace) {
        return Ok(false);
    }
    let Some(when) = &filter.when else { return Ok(true) };
    render::truth(when.evaluate(&render::base_scope(mapping, observed, source))).map_err(|unrendered| {
        let Reason { cause, detail } = unrendered.into();
        Reason { cause, detail: format!("source.when: {detail}") }
    })
}

fn is_deleting(source: &Value) -> bool {
    !metadata(source, "deletionTimestamp").is_empty()
}

fn owns_finalizer(observed: &Observed, source: &Value) -> bool {
    has_finalizer(source, observed.writer.finalizer())
}

/// Rows "live, out".
fn left(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, policy: OnExit) -> Plan {
    if !owns_finalizer(observed, source) {
        return Plan::Rest(Rest::InSync);
    }
    match policy {
        OnExit::Retain => Plan::Rest(Rest::InSync),
        OnExit::Delete => departure::depart(mapping, observed, Some(source), SourceDelete::Delete),
        OnExit::Orphan => departure::depart(mapping, observed, Some(source), SourceDelete::Orphan),
    }
}

/// Rows "deleting".
fn deleting(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Plan {
    if !owns_finalizer(observed, source) {
        return Plan::Rest(Rest::InSync);
    }
    departure::depart(mapping, observed, Some(source), mapping.lifecycle.on_source_delete)
}

/// Whether the source was pinned to another target than the one at hand.
fn target_changed(observed: &Observed, source: &Value, identity: &str) -> Option<Reason> {
    let pinned = marks::annotation(source, observed.writer.target_annotation());
    let expected = owns_finalizer(observed, source) || pinned.is_some();
    (expected && pinned != Some(identity)).then(|| Reason {
        cause: Cause::TargetChanged,
        detail: format!(
            "the target is not the cluster this object was synced to (pinned {}, found {identity}): \
             give the engine the kubeconfig of the former target, or, if the move is meant, remove the annotation \
             and the finalizer `{}` by hand",
            pinned.unwrap_or("nothing"),
            observed.writer.finalizer(),
        ),
    })
}
