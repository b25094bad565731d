//! The decision table: from what is observed of one source to what is to be done. Pure.
//!
//! [`decision::decide`] is the table: one `match` over (source, finalizer, object) in the order of the design's rows.
//! [`plan`] asks it for each object of a source; a source's plan is the union over its objects, and the release of its
//! finalizer is the last step. [`plan`] is called again with what the servers answered ([`Observed::absorb`]) until it
//! rests.

pub mod action;
pub mod decision;
mod departure;
mod each;
mod live;
mod merge_patch;
pub mod objects;
pub mod observed;
pub mod offline;
pub mod preview;
pub mod provenance;
mod readable;
mod readiness;
mod redact;
pub mod rehearsal;
pub mod related;
pub mod render;
pub mod saved;
mod source;
pub mod status;
pub mod targets;
#[cfg(test)]
mod tests;
pub mod trace;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use action::{Action, Intent, SourcePatch};
pub use decision::Evidence;
pub use departure::{delete, give_up, is_needed, stays, unmarked};
pub use observed::{
    Answers, Consumer, Kinds, Missing, ObjectState, Observed, Original, Originals, Outcome, Phase, Pick, Pin, Prune,
    Sight, Source, Target, TargetObject,
};
pub use source::{guard, pins, release_finalizer};

use crate::mapping::template::Unrendered;
use crate::mapping::{Mapping, OnExit, SourceRecreated};
use crate::object::{has_finalizer, is_deleting, marks, metadata, one_line};

use decision::Stage;
use readiness::Case;
use targets::Share;

/// Rounds of plan and apply before a plan counts as one that does not come to rest; a new object with everything it needs
/// takes five.
pub const MAX_ROUNDS: usize = 24;

/// What to do next for one source.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Carry these out in their order, then plan again.
    Act(Vec<Action>),
    /// Carry this out; then the plan rests for these reasons, and needs not be made again.
    Last(Box<Action>, Reasons),
    /// There is nothing to do, for these reasons.
    Rest(Reasons),
}

impl Plan {
    fn in_sync() -> Self {
        Self::Rest(Reasons::default())
    }

    /// What to carry out, and why the plan rests then; `None`: it is made again.
    pub fn into_steps(self) -> (Vec<Action>, Option<Reasons>) {
        match self {
            Self::Act(actions) => (actions, None),
            Self::Last(action, reasons) => (vec![*action], Some(reasons)),
            Self::Rest(reasons) => (Vec::new(), Some(reasons)),
        }
    }
}

/// Why there is nothing to do, each reason with the word by which conditions and metrics know it. Without any, everything is as
/// it should be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reasons(pub Vec<Reason>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub cause: Cause,
    /// For the log of the provider: names targets and namespaces.
    pub detail: String,
}

crate::mapping::words! {
    /// The causes, worst first: the first of them is the reason of the `Synced` condition.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    pub enum Cause {
        TargetChanged = "TargetChanged",
        Conflict = "Conflict",
        RenderFailed = "RenderFailed",
        IdentityChanged = "IdentityChanged",
        Recreated = "Recreated",
        Refused = "Refused",
        /// The workspace of the source has not accepted a permission claim.
        ClaimNotAccepted = "ClaimNotAccepted",
        Stuck = "Stuck",
        /// An object that is being deleted is held by somebody's finalizers.
        Deleting = "Deleting",
        /// A deletion that follows from a changed document, held by `release.maxLost`.
        Held = "Held",
        Retained = "Retained",
        Orphaned = "Orphaned",
        StatusFailed = "StatusFailed",
        /// A request failed in a way that says nothing about it: time may mend it.
        RequestFailed = "RequestFailed",
        Waiting = "Waiting",
        /// A target that cannot be seen: the consumer's status stays as it is.
        Unknown = "Unknown",
        /// `mode: Observe`: what is planned is told, and not carried out. No plan rests for it, and no condition says so.
        Observed = "Observed",
    }
}

impl Cause {
    /// Whether an event of the source or the target will tell when it is over.
    fn is_wait(self) -> bool {
        matches!(
            self,
            Self::Waiting
                | Self::Unknown
                | Self::Retained
                | Self::Held
                | Self::Orphaned
                | Self::ClaimNotAccepted
                | Self::Deleting
                | Self::Observed
        )
    }
}

impl Reason {
    /// Of what is out of sight: nobody knows more.
    pub fn unseen(detail: impl Into<String>) -> Self {
        Self { cause: Cause::Unknown, detail: detail.into() }
    }

    pub fn waiting(detail: impl Into<String>) -> Self {
        Self { cause: Cause::Waiting, detail: detail.into() }
    }

    /// The same with what it is about.
    fn within(self, what: &str) -> Self {
        Self { detail: format!("{what}: {}", self.detail), ..self }
    }
}

impl Reasons {
    pub fn one(cause: Cause, detail: impl Into<String>) -> Self {
        Self(vec![Reason { cause, detail: detail.into() }])
    }

    fn push(&mut self, cause: Cause, detail: impl Into<String>) {
        self.0.push(Reason { cause, detail: detail.into() });
    }

    /// The worst cause.
    pub fn cause(&self) -> Option<Cause> {
        self.0.iter().map(|reason| reason.cause).min()
    }

    /// The worst reason that is about the target, and not about the status, which one of several targets tells the others.
    pub fn of_target(&self) -> Option<Reason> {
        let of_target = |reason: &&Reason| reason.cause != Cause::StatusFailed;
        self.0.iter().filter(of_target).min_by_key(|reason| reason.cause).cloned()
    }

    pub fn is_in_sync(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether somebody has to mend something: look again on a timer. What else is waited for, an event will tell.
    pub fn is_blocked(&self) -> bool {
        !self.0.iter().all(|reason| reason.cause.is_wait())
    }
}

/// `Conflict: a foreign object has …`
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause.as_str(), one_line(&self.detail))
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, reason) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{reason}")?;
        }
        Ok(())
    }
}

impl From<Unrendered> for Reason {
    fn from(unrendered: Unrendered) -> Self {
        match unrendered {
            Unrendered::Waiting(what) => Self::waiting(what),
            Unrendered::Failed(why) => Self { cause: Cause::RenderFailed, detail: why },
        }
    }
}

/// Decides for one source.
pub fn plan(mapping: &Mapping, observed: &Observed) -> Plan {
    plan_noting(mapping, observed, &mut None)
}

/// The same. `places`: where what the source shares with others is, if the plan got as far as to render that.
pub fn plan_noting(mapping: &Mapping, observed: &Observed, places: &mut Option<BTreeSet<String>>) -> Plan {
    let source = match &observed.source {
        Ok(source) => source,
        Err(reason) => return Plan::Rest(Reasons(vec![reason.clone().within("source")])),
    };
    match source {
        // A workspace that is no longer held up is out of sight, or about to be: that asks for nothing.
        source if !is_held(observed, source) => Plan::in_sync(),
        Source::Missing(missing) => departure::gone(mapping, observed, missing),
        Source::Present(source) if is_deleting(source) => {
            departure::depart(mapping, observed, source, Stage::Deleting(mapping.lifecycle.on_source_delete))
        }
        Source::Present(source) => match observed.phase {
            Phase::DeletionsOnly => Plan::in_sync(),
            // Nobody would bootstrap the workspace: it is not let go as if somebody had.
            Phase::Leaving(_) if observed.subject.hold.is_some() => Plan::in_sync(),
            Phase::Leaving(policy) => {
                departure::depart(mapping, observed, source, Stage::Out(policy, Evidence::MappingRemoved))
            }
            Phase::Active => active(mapping, observed, source, places),
        },
    }
}

/// Whether objects of a source are orphaned while nothing of its plan is carried out (`mode: Observe`): those of a missing one, whoever
/// would take them away, and those that are kept, whatever becomes of the others.
pub fn has_orphans(mapping: &Mapping, observed: &Observed) -> bool {
    let mut watched = observed.clone();
    let decisions = watched.study.decisions.insert(Arc::default()).clone();
    plan(mapping, &watched);
    let is_missing = matches!(observed.source, Ok(Source::Missing(_)));
    let decisions = decisions.lock();
    let mut reasons = decisions.iter().flat_map(|decision| &decision.reasons.0);
    is_missing && observed.objects.has_own() || reasons.any(|reason| reason.cause == Cause::Orphaned)
}

/// How far the objects of a source are that its mapping wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// They are all there and ready, or none is wanted.
    Complete,
    Incomplete,
    Failed,
}

/// How far the objects of a source are; of one that is not planned to have any, they are complete.
pub fn completion(mapping: &Mapping, observed: &Observed) -> Completion {
    let is_wanted = |source: &&Arc<Value>| !is_deleting(source) && is_in(mapping, observed, source) == Ok(true);
    let Some(source) = observed.present().filter(is_wanted) else { return Completion::Complete };
    match targets::share(mapping, observed, source) {
        Ok(Share::Wanted) => {}
        Ok(_) => return Completion::Complete,
        Err(_) => return Completion::Incomplete,
    }
    match render::render(mapping, observed, source) {
        Err(_) => Completion::Incomplete,
        Ok(rendering) => match (Case { mapping, observed, rendering: &rendering }) {
            case if case.has_failed_object() => Completion::Failed,
            case if case.unready_objects().is_empty() => Completion::Complete,
            _ => Completion::Incomplete,
        },
    }
}

fn active(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, places: &mut Option<BTreeSet<String>>) -> Plan {
    match is_in(mapping, observed, source) {
        Ok(true) => passing(mapping, observed, source, places),
        Ok(false) => departure::depart(mapping, observed, source, Stage::Out(mapping.source.on_exit, Evidence::Exit)),
        Err(reason) if owns_finalizer(observed, source) => live::report_only(mapping, observed, source, reason),
        Err(reason) => Plan::Rest(Reasons(vec![reason])),
    }
}

/// A source that passes the filter: its objects may go to this target, or to others.
fn passing(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, places: &mut Option<BTreeSet<String>>) -> Plan {
    match targets::share(mapping, observed, source) {
        Ok(Share::Wanted) => live::live(mapping, observed, source, places),
        Ok(Share::Leaving) => departure::move_away(mapping, observed, source),
        Ok(Share::Released) => Plan::Act(vec![source::add_finalizer(observed, source, Vec::new())]),
        Ok(Share::Elsewhere) => {
            departure::depart(mapping, observed, source, Stage::Out(OnExit::Retain, Evidence::Unwanted))
        }
        Ok(Share::Moved(reason)) => live::report_only(mapping, observed, source, reason),
        Err(unrendered) => live::report_only(mapping, observed, source, unrendered.into()),
    }
}

/// The filter: the source's cluster, selector, namespaces, then `when`.
fn is_in(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Sight<bool> {
    let filter = &mapping.source;
    if !observed.consumer.is_selected.clone()? {
        return Ok(false);
    }
    if !filter.selector.matches(source.pointer("/metadata/labels")) {
        return Ok(false);
    }
    let namespace = metadata(source, "namespace");
    if !namespace.is_empty() && !filter.namespaces.matches(namespace) {
        return Ok(false);
    }
    let Some(when) = &filter.when else { return Ok(true) };
    let holds = when.holds(&render::base_scope(mapping, observed, source));
    holds.map_err(|unrendered| Reason::from(unrendered).within("source.when"))
}

/// Whether a source is still what the engine has a part in; always, but for workspaces that kcp holds up.
fn is_held(observed: &Observed, source: &Source) -> bool {
    let Some(hold) = &observed.subject.hold else { return true };
    matches!(source, Source::Present(source) if hold.index_in(source).is_some())
}

/// Home workspaces are below it, unless kcp is told otherwise (`--home-workspaces-root`).
const HOMES: &str = "root:users:";

/// What becomes of an object that was made for an earlier source of the same name. The name of a home workspace, and so of its
/// logical cluster, derives from its user's name and is used again. The next user can change the path of the workspace, and not what
/// the object says of the path that it had.
fn on_source_recreated(mapping: &Mapping, observed: &Observed, object: &TargetObject) -> SourceRecreated {
    let is_home = |path: &str| path.starts_with(HOMES);
    let may_be_home = || {
        observed.consumer.path.as_deref().is_none_or(is_home)
            || object.annotation(marks::WORKSPACE).is_some_and(is_home)
    };
    let default = || if may_be_home() { SourceRecreated::Block } else { SourceRecreated::Adopt };
    mapping.lifecycle.on_source_recreated.unwrap_or_else(default)
}

/// Whether the source carries the engine's finalizer, or its hold, for what this target has.
pub fn owns_finalizer(observed: &Observed, source: &Value) -> bool {
    match &observed.subject.hold {
        Some(hold) => hold.index_in(source).is_some(),
        None => has_finalizer(source, observed.subject.writer.finalizer()) && targets::is_held_here(observed, source),
    }
}

/// Whether the source is pinned to another target than the one at hand. A source without a pin is pinned before the first
/// write.
fn target_changed(observed: &Observed, source: &Value) -> Option<Reason> {
    let Pin { connection: name, identity } = observed.target.pin.as_ref()?;
    let pins = targets::known_pins(observed, source);
    // The other targets have pipelines of their own, also where their kubeconfigs were mixed up.
    let is_here = |(connection, pinned): &(&String, &String)| match &observed.among {
        None => true,
        Some(among) => **connection == among.name || *pinned == identity && among.other(connection).is_none(),
    };
    let pins: Vec<_> = pins.iter().filter(is_here).collect();
    let changed = !pins.is_empty() && !pins.iter().any(|(_, pinned)| *pinned == identity);
    let pinned: Vec<_> = pins.iter().map(|(connection, identity)| format!("{connection}={identity}")).collect();
    changed.then(|| Reason {
        cause: Cause::TargetChanged,
        detail: format!(
            "the target is not the cluster this object was synced to (pinned {}, found {name}={identity}): give the engine \
             the kubeconfig of the former target; or, if the move is meant, run `sync-engine retarget`; or, if the former \
             target is lost, `sync-engine uninstall --lost-target`",
            pinned.join(","),
        ),
    })
}
