//! Known defects that the simulation must find: ours of the past, and those of other projects.
//!
//! Without the Cargo feature `mutants`, [`active`] is constantly false, and nothing of a mutant is left in the program.
//! With it, a mutant is active on the thread that `set` makes it so: one world of the simulation. A mutation stands at the place
//! where the engine prevents the defect, and is as small as possible. See `docs/mutants.md`.

macro_rules! mutants {
    ($($name:ident, $what:literal, $origin:literal;)*) => {
        /// A defect on purpose.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $(#[doc = concat!($what, " (", $origin, ")")] $name,)*
        }

        #[cfg(feature = "mutants")]
        impl Mutant {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What it does wrong.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what,)*
                }
            }

            /// Where the defect comes from.
            pub fn origin(self) -> &'static str {
                match self {
                    $(Self::$name => $origin,)*
                }
            }
        }
    };
}

mutants! {
    SourceResourceIgnored, "An edit of `source.resource` deletes the objects of the former sources", "ours";
    MissingSourceIsDeleted, "A source that is missing counts as deleted", "ours";
    LateCreateGivesUp, "A create that finds its object made gives up its own fields", "ours";
    SameNameOverwritten, "An object of another source of the mapping counts as owned", "ours";
    OldAddressKept, "A target whose address changed is called at the old one", "ours";
    SharedUseUntold, "Nobody is told when the users of a shared object change", "ours";
    RefusalForgotten, "A refused request is repeated in the same reconcile", "ours";
    SchemaReadOnce, "The schema of the consumer's API is never read again", "ours";
    OrphansUncounted, "Orphans of workspaces that are gone are not counted", "ours";
    MarksCountAnywhere, "Ownership labels and annotations count in any namespace", "ours";
    DroppedRulePlaces, "The object of a removed id says where the other objects go", "ours, found by the simulation";
    RestoreUnseen, "A version that goes back is not noticed", "kubernetes/kubernetes#107457";
    DeleteWithoutUid, "A delete has no preconditions", "kubernetes-sigs/kro#1040";
    DeleteOfAnyVersion, "A delete does not carry the version that was seen", "kubernetes/kubernetes#73648";
    UnansweredDeleteForgotten, "An object that is wanted again is not touched after a lost delete", "kubernetes/kubernetes#73648";
    CreateUnconditional, "A create writes over whatever exists", "kubernetes-sigs/kro#957";
    SelfMarkIgnored, "A copy with all labels counts as owned", "kubernetes-sigs/kro#1153";
    OwnerWithoutCluster, "Ownership does not tell two source clusters apart", "kcp-dev/api-syncagent#18";
    FinalizerAfterFirstWrite, "The finalizer is added after the first write", "coryodaniel/bonny#72";
    FinalizerReleasedUnseen, "The finalizer is released without a fresh read", "kubernetes-sigs/kro#1413";
    FinalizerReleasedEarly, "The finalizer is released while objects are being deleted", "kubernetes-sigs/kro#985";
    FinalizersUnguarded, "A patch of finalizers does not carry the version it was computed from", "kubermatic/kubermatic#6759";
    StatusUnguarded, "A status does not carry the version it was computed from", "crossplane/crossplane#395";
    UnreachableIsAbsence, "A request without an answer counts as one that found nothing", "crossplane/crossplane#6878";
    MissingApiIsAbsence, "A 404 of an API counts as absence of its objects", "EnMasseProject/enmasse#3493";
    UnlistedIsEmpty, "A cache that is not listed yet counts as empty", "scylladb/scylla-operator#2492";
    LateCreateStays, "An object that a late create makes of a deleted source stays", "crossplane/crossplane#6260";
    TargetDeletionUnseen, "A target object that people delete is not created again", "crossplane/crossplane#1478";
    NamespaceThoughtThere, "A namespace that people delete is not created again", "kubernetes-retired/kubefed#64";
    PruneDespiteFailure, "Objects are pruned although something could not be rendered", "argoproj/argo-cd#14090";
    KindForgotten, "Objects of kinds that the mapping no longer has are leaked", "kubernetes-sigs/kro#557";
    FormerSourceForgotten, "Nobody ends the deletions of sources that the mapping no longer has", "kubernetes-sigs/kro#1067";
    ReloadWakesNobody, "A changed mapping does not reach existing sources", "kubernetes-sigs/kro#519";
    EngagedNotReplayed, "A controller that starts late does not get the engaged clusters", "kubernetes-sigs/multicluster-runtime#74";
    DisengagedIsDeleted, "A cluster out of sight counts as deleted", "stolostron/rhacm-docs#8612";
    UnboundAtOnce, "A workspace is left as soon as its binding is being deleted", "kcp-dev/kcp#1964";
    TargetChangeIgnored, "Another cluster behind the target's address is taken for the former one", "ours";
    PermitIgnored, "A write is sent although the right to it has ended", "kubernetes-sigs/multicluster-runtime#74";
    ExpiredWatchResumed, "A watch that got a 410 resumes from the same version", "kubernetes-client/java#1829";
    RelistNotDiffed, "A list does not remove what is gone", "kptdev/porch#1101";
    VersionsAsText, "Versions are compared as texts", "tilt-dev/tilt#2555";
    OwnWritesHideOthers, "An event that comes while a write is under way counts as the write's", "a classic of controllers";
    EventLostInFlight, "An event that comes while its object is reconciled is lost", "openshift/origin#824";
    RetryLost, "A request that failed is not tried again", "knative/pkg#149";
    NoBackoff, "What failed is tried again every 100 ms", "kube-rs/kube#577";
    CopyOverwritesForeign, "A copy is written over whatever exists", "ours";
    CopyLeftBehind, "A copy beside its source is not deleted with it", "ours";
    SelectionUnconfirmed, "Copies of selected Secrets are deleted when the permission claim is taken back", "ours, found by the simulation";
    FieldLeftBeside, "A field that the template no longer has stays on an object beside its source", "ours";
    StrippedBesideForgotten, "An object beside its source that is stripped of its ownership annotations is not restored", "ours, found by the simulation";
    UnlistedBesideIsEmpty, "An object beside its source that is of another kind and not listed yet counts as missing", "ours, found by the simulation";
    JoinerWritesAtOnce, "A replica that joins writes before the others have seen it", "ours";
    DeletedLeaseFrees, "Others take over at once where somebody deletes the Lease of a replica", "ours";
    TwoWorkersOnOneKey, "Two workers reconcile one object at once", "kubernetes-sigs/controller-runtime#616";
}

#[cfg(not(feature = "mutants"))]
pub const fn active(_: Mutant) -> bool {
    false
}

/// Whether the defect is there on this thread.
#[cfg(feature = "mutants")]
pub fn active(mutant: Mutant) -> bool {
    current() == Some(mutant)
}

#[cfg(feature = "mutants")]
pub use thread::{current, set};

#[cfg(feature = "mutants")]
mod thread {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static CURRENT: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// The mutant of this thread.
    pub fn current() -> Option<Mutant> {
        CURRENT.get()
    }

    /// From now on this thread has this mutant, or none.
    pub fn set(mutant: Option<Mutant>) {
        CURRENT.set(mutant);
    }
}
