//! What an action would bring about, without carrying it out: so that a plan can be followed to its end.

use std::sync::Arc;

use json_patch::Patch;
use serde_json::{Value, json};

use super::action::Action;
use super::observed::{Observed, Outcome, TargetObject};
use crate::object::marks::{self, Owner};

/// A write that was not carried out, with its object before and after it.
#[derive(Debug, Clone)]
pub struct Imagined {
    pub action: Action,
    pub before: Option<Arc<Value>>,
    pub after: Option<Arc<Value>>,
}

impl Imagined {
    /// A write that has this outcome on what is observed.
    pub fn new(action: &Action, observed: &Observed, outcome: &Outcome) -> Self {
        let known = |reference| {
            let owned = observed.objects.at(reference).map(|one| &one.object);
            owned.or_else(|| observed.answers.foreign.get(reference)).cloned()
        };
        let after = if let Outcome::Object(object) = outcome { Some(object.clone()) } else { None };
        Self { action: action.clone(), before: action.reference().and_then(known), after }
    }
}

/// The outcome of a write on servers that do what they are told. `None`: the action reads, and only a server knows.
pub fn imagined(action: &Action, observed: &Observed) -> Option<Outcome> {
    Some(match action {
        Action::LookForSource | Action::Sweep { .. } | Action::Read(_) | Action::ReadAnew(_) => return None,
        Action::PatchSource { patch, .. } | Action::PatchStatus { patch, .. } => {
            observed.present().map_or(Outcome::Absent, |source| Outcome::Object(Arc::new(patched(source, patch))))
        }
        Action::CreateNamespace { .. } | Action::Delete { .. } | Action::GiveUp { .. } => Outcome::Absent,
        Action::Restore { reference, patch } => {
            let restored = observed.objects.iter().find(|one| one.reference == *reference);
            restored.map_or(Outcome::Absent, |one| Outcome::Object(Arc::new(patched(&one.object, patch))))
        }
        Action::Apply { reference, body, .. } => {
            let stands = observed.objects.iter().find(|one| one.reference == *reference);
            let mut object = stands.map_or_else(|| json!({}), |standing| (*standing.object).clone());
            // Server-side apply as far as it adds and changes; what it gives up stays here.
            json_patch::merge(&mut object, body);
            Outcome::Object(Arc::new(object))
        }
    })
}

/// The same on what the caches show, where a plan asks for a fresh read. `None`: a related object that nobody has read yet.
pub fn expected(action: &Action, observed: &Observed) -> Option<Outcome> {
    match action {
        Action::Read(original) | Action::ReadAnew(original) => observed.related.of(original).map(Outcome::Seen),
        Action::Sweep { owners, .. } => {
            let is_theirs = |one: &&TargetObject| {
                owners.iter().any(|owner| marks::is_ours(&one.object, &one.reference, &Owner(owner.clone())))
            };
            Some(Outcome::Found(observed.objects.iter().filter(is_theirs).cloned().collect()))
        }
        Action::LookForSource => Some(Outcome::Absent),
        action => imagined(action, observed),
    }
}

/// A patch that does not fit changes nothing: the plan would be made again.
fn patched(object: &Value, patch: &Patch) -> Value {
    let mut after = object.clone();
    match json_patch::patch(&mut after, patch) {
        Ok(()) => after,
        Err(_) => object.clone(),
    }
}
