//! Every write (and every uncached read) that the engine can make, as a value.
//!
//! An action carries everything that is needed to carry it out: where, what, and on which condition. The shell that
//! executes it never decides. Its name is the message of its log line, its verb and what it is about are the fields; nothing
//! shows a body, because a body may hold secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use json_patch::Patch;
use serde_json::Value;

use super::decision::Evidence;
use super::observed::Original;
use crate::mapping::{Kind, Propagation};
use crate::object::hold::HoldStage;
use crate::object::marks::Reference;

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// JSON Patch of the source object, guarded by its resourceVersion.
    PatchSource { purpose: SourcePatch, patch: Patch },
    /// JSON Patch of the source's `/status`, guarded by its resourceVersion. `values` are the leaves that it sets, by
    /// their JSON pointers below `.status`.
    PatchStatus { patch: Patch, values: BTreeMap<String, Value> },
    /// Are these related objects there, and what do they hold? Answered from a cache where there is one.
    Read(Original),
    /// Are related objects still as their cache shows them? One uncached read, before something is lost or written for what is gone.
    ReadAnew(Original),
    /// Is a source that the cache does not show really missing? One uncached GET.
    LookForSource,
    /// What belongs to one of these owners in these namespaces, or is one of these objects? Uncached reads, before a
    /// finalizer is released.
    Sweep { owners: Vec<String>, kinds: Vec<Kind>, namespaces: Vec<String>, objects: Vec<Reference> },
    /// Creates a namespace; one that exists already is used as it is.
    CreateNamespace { name: String, labels: Value },
    /// Server-side apply of a whole object.
    Apply { reference: Reference, body: Arc<Value>, intent: Intent },
    /// Deletes exactly this version of this incarnation.
    Delete { reference: Reference, uid: String, resource_version: String, propagation: Propagation, because: Evidence },
    /// JSON Patch that takes the ownership labels and annotations off an object and leaves the object.
    GiveUp { reference: Reference, patch: Patch, because: Evidence },
    /// JSON Patch that puts the ownership labels and annotations back on an object that is being deleted.
    Restore { reference: Reference, patch: Patch },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePatch {
    /// With the annotation that names the target.
    AddFinalizer,
    /// Takes one of several targets off that annotation.
    Unpin(Evidence),
    /// The same of the last target, with the finalizer.
    ReleaseFinalizer(Evidence),
    /// Takes an initializer or a terminator out of the status of a LogicalCluster.
    ReleaseHold(HoldStage),
}

impl SourcePatch {
    /// Whether it says that nothing of the source is left on the target.
    pub fn is_release(self) -> bool {
        matches!(self, Self::Unpin(_) | Self::ReleaseFinalizer(_) | Self::ReleaseHold(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Only if nothing is there: the server answers 409 to a create where any object exists.
    Create,
    /// The object is owned: with force, and only onto this incarnation.
    Update { uid: String },
    /// Nobody owned the version that the body names: with force, and only onto that version.
    Adopt { uid: String },
}

impl Action {
    pub fn reference(&self) -> Option<&Reference> {
        match self {
            Self::Apply { reference, .. }
            | Self::Delete { reference, .. }
            | Self::GiveUp { reference, .. }
            | Self::Restore { reference, .. } => Some(reference),
            _ => None,
        }
    }

    /// Why something is deleted, given up or released by it.
    pub fn because(&self) -> Option<Evidence> {
        match self {
            Self::Delete { because, .. }
            | Self::GiveUp { because, .. }
            | Self::PatchSource {
                purpose: SourcePatch::Unpin(because) | SourcePatch::ReleaseFinalizer(because), ..
            } => Some(*because),
            _ => None,
        }
    }

    /// Where the action writes, and what, as hashes: two actions with the same content correct what somebody changed in between.
    pub fn content(&self) -> Option<(u64, u64)> {
        self.verb()?;
        let (mut place, mut content) = (DefaultHasher::new(), DefaultHasher::new());
        self.reference().hash(&mut place);
        match self {
            Self::PatchStatus { values, .. } => {
                "status".hash(&mut place);
                for (pointer, value) in values {
                    pointer.hash(&mut content);
                    hash_content(value, "lastTransitionTime", &mut content);
                }
            }
            Self::Apply { body, .. } => hash_content(body, "resourceVersion", &mut content),
            Self::CreateNamespace { name, .. } => name.hash(&mut place),
            other => other.to_string().hash(&mut content),
        }
        Some((place.finish(), content.finish()))
    }

    /// Kubernetes' verb of a write, with `patch_status` for one of a status. `None`: nothing changes on a server.
    pub fn verb(&self) -> Option<&'static str> {
        match self {
            Self::PatchStatus { .. } => Some("patch_status"),
            Self::PatchSource { .. } | Self::GiveUp { .. } | Self::Restore { .. } => Some("patch"),
            Self::CreateNamespace { .. } => Some("create"),
            Self::Apply { .. } => Some("apply"),
            Self::Delete { .. } => Some("delete"),
            Self::Read(_) | Self::ReadAnew(_) | Self::LookForSource | Self::Sweep { .. } => None,
        }
    }

    /// What is done, in words that do not depend on what it is done to.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PatchSource { purpose: SourcePatch::AddFinalizer, .. } => "add finalizer",
            Self::PatchSource { purpose: SourcePatch::ReleaseFinalizer(_), .. } => "release finalizer",
            Self::PatchSource { purpose: SourcePatch::Unpin(_), .. } => "release target",
            Self::PatchSource { purpose: SourcePatch::ReleaseHold(HoldStage::Initializing), .. } => {
                "remove initializer"
            }
            Self::PatchSource { purpose: SourcePatch::ReleaseHold(HoldStage::Terminating), .. } => "remove terminator",
            Self::PatchStatus { .. } => "update status",
            Self::Read(_) | Self::ReadAnew(_) => "read",
            Self::LookForSource => "get source",
            Self::Sweep { .. } => "list all objects of owner",
            Self::CreateNamespace { .. } | Self::Apply { intent: Intent::Create, .. } => "create",
            Self::Apply { intent: Intent::Update { .. }, .. } => "update",
            Self::Apply { intent: Intent::Adopt { .. }, .. } => "adopt",
            Self::Delete { .. } => "delete",
            Self::GiveUp { .. } => "give up",
            Self::Restore { .. } => "restore ownership labels of",
        }
    }
}

/// All of a value, but for the fields of one name: versions of objects and times of conditions are no content.
fn hash_content(value: &Value, left_out: &str, hasher: &mut DefaultHasher) {
    match value {
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash_content(item, left_out, hasher));
        }
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != left_out) {
                name.hash(hasher);
                hash_content(value, left_out, hasher);
            }
        }
        value => value.hash(hasher),
    }
}

/// With `{:#}`, it says also why.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Read(original) | Self::ReadAnew(original) => write!(f, " {original}"),
            Self::Sweep { owners, .. } => write!(f, " {}", owners.join(", ")),
            Self::CreateNamespace { name, .. } => write!(f, " Namespace {name}"),
            other => other.reference().map_or(Ok(()), |reference| write!(f, " {reference}")),
        }?;
        match self.because().filter(|_| f.alternate()) {
            Some(because) => write!(f, " ({because})"),
            None => Ok(()),
        }
    }
}
