//! Every write (and every look) the engine can make, as a value.
//!
//! An action carries all that is needed to carry it out: where, what, and on which condition. The shell that
//! executes it never decides. Its `Display` is its log line; bodies are left out of it, for they may hold secrets.

use std::fmt;
use std::sync::Arc;

use json_patch::Patch;
use serde_json::Value;

use crate::mapping::{Kind, Propagation};
use crate::object::marks::Reference;

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// JSON Patch of the source object, guarded by its resourceVersion.
    PatchSource { purpose: SourcePatch, patch: Patch },
    /// JSON Patch of the source's `/status`, guarded by its resourceVersion.
    PatchStatus { patch: Patch },
    /// Is the source really gone? One GET, and whether its collection lists normally.
    LookForSource,
    /// What stands at a place where our cache knows of nothing? One GET.
    Look { reference: Reference },
    /// What carries one of these owners (in this namespace, or anywhere), or stands at these places?
    /// Uncached reads, before a finalizer is released.
    Sweep { owners: Vec<String>, kinds: Vec<Kind>, namespace: Option<String>, places: Vec<Reference> },
    /// Make a namespace; one that exists already is fine.
    CreateNamespace { name: String, labels: Value },
    /// Server-side apply of a whole object.
    Apply { reference: Reference, body: Arc<Value>, intent: Intent },
    /// Delete exactly this incarnation.
    Delete { reference: Reference, uid: String, propagation: Propagation },
    /// JSON Patch that takes our marks off an object and leaves it standing.
    Unmark { reference: Reference, patch: Patch },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePatch {
    AddFinalizer,
    ReleaseFinalizer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Nothing stood there when we looked: without force, and given up again if the server says that something did.
    Create,
    /// Proven ours: with force, and only onto this incarnation.
    Update { uid: String },
}

impl Action {
    /// The one downstream object that the action is about.
    pub fn reference(&self) -> Option<&Reference> {
        match self {
            Self::Look { reference }
            | Self::Apply { reference, .. }
            | Self::Delete { reference, .. }
            | Self::Unmark { reference, .. } => Some(reference),
            _ => None,
        }
    }

    /// Whether the action changes anything on a server.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Look { .. } | Self::LookForSource | Self::Sweep { .. })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PatchSource { purpose: SourcePatch::AddFinalizer, .. } => write!(f, "add finalizer"),
            Self::PatchSource { purpose: SourcePatch::ReleaseFinalizer, .. } => write!(f, "release finalizer"),
            Self::PatchStatus { .. } => write!(f, "update status"),
            Self::LookForSource => write!(f, "look for source"),
            Self::Look { reference } => write!(f, "look at {reference}"),
            Self::Sweep { owners, .. } => write!(f, "look for all objects of owner {}", owners.join(", ")),
            Self::CreateNamespace { name, .. } => write!(f, "create Namespace {name}"),
            Self::Apply { reference, intent: Intent::Create, .. } => write!(f, "create {reference}"),
            Self::Apply { reference, intent: Intent::Update { .. }, .. } => write!(f, "update {reference}"),
            Self::Delete { reference, .. } => write!(f, "delete {reference}"),
            Self::Unmark { reference, .. } => write!(f, "give up {reference}"),
        }
    }
}
