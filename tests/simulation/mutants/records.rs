//! Which mutants are found, and why the others are missed.

use sync_engine::mutants::Mutant;

/// What is known of a mutant.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    /// At the median of the starting points, after so many seeds; the invariant that failed first from seed 0 on.
    Found { median: u64, invariant: &'static str },
    /// Why no world of a thousand shows it.
    Missed(&'static str),
}

/// Whether only worlds with more copies of Secrets can show it.
pub fn is_about_copies(mutant: Mutant) -> bool {
    use Mutant::{CopyLeftBehind, CopyOverwritesForeign, SelectionUnconfirmed, SharedUseUntold};
    matches!(mutant, CopyLeftBehind | CopyOverwritesForeign | SelectionUnconfirmed | SharedUseUntold)
}

/// Whether only worlds with objects beside their sources can show it.
pub fn is_about_objects_beside(mutant: Mutant) -> bool {
    use Mutant::{FieldLeftBeside, StrippedBesideForgotten, UnlistedBesideIsEmpty};
    matches!(mutant, FieldLeftBeside | StrippedBesideForgotten | UnlistedBesideIsEmpty)
}

/// Whether only worlds with replicas that share the work can show it.
pub fn is_about_shards(mutant: Mutant) -> bool {
    matches!(mutant, Mutant::JoinerWritesAtOnce | Mutant::DeletedLeaseFrees)
}

pub fn record(mutant: Mutant) -> Record {
    let found = |median, invariant| Record::Found { median, invariant };
    match mutant {
        Mutant::SourceResourceIgnored => found(5, "I1"),
        Mutant::MissingSourceIsDeleted => found(31, "I1"),
        Mutant::LateCreateGivesUp => found(1, "I2"),
        Mutant::SameNameOverwritten => found(2, "I2"),
        Mutant::OldAddressKept => found(356, "I5"),
        Mutant::SharedUseUntold => Record::Missed("Not known yet: not found in 80 worlds with shared copies"),
        Mutant::RefusalForgotten => found(2, "I5"),
        Mutant::SchemaReadOnce => found(57, "I4"),
        Mutant::OrphansUncounted => found(1, "I7"),
        Mutant::MarksCountAnywhere => Record::Missed(
            "Not known yet: people plant copies in namespaces of their own, and nothing follows from it in 600 worlds",
        ),
        Mutant::DroppedRulePlaces => found(2, "I4"),
        Mutant::RestoreUnseen => found(4, "I4"),
        Mutant::DeleteWithoutUid => found(2, "I1"),
        Mutant::DeleteOfAnyVersion => Record::Missed(
            "The checker judges a delete when it is sent; an object that a late delete hits is created again",
        ),
        Mutant::UnansweredDeleteForgotten => Record::Missed(
            "The checker judges a delete when it is sent; an object that a late delete hits is created again",
        ),
        Mutant::CreateUnconditional => found(1, "I2"),
        Mutant::SelfMarkIgnored => found(34, "I4"),
        Mutant::OwnerWithoutCluster => found(1, "I7"),
        Mutant::FinalizerAfterFirstWrite => found(1, "I4"),
        Mutant::FinalizerReleasedUnseen => {
            Record::Missed("The caches know almost always what the fresh read would find")
        }
        Mutant::FinalizerReleasedEarly => found(143, "I4"),
        Mutant::FinalizersUnguarded => Record::Missed("Nobody in a world adds other finalizers to sources"),
        Mutant::StatusUnguarded => {
            Record::Missed("Rare: found after 173 seeds of an earlier version, and not in 600 of this one")
        }
        Mutant::UnreachableIsAbsence => found(39, "I4"),
        Mutant::MissingApiIsAbsence => {
            Record::Missed("A second defence holds: a source is released only after a read past the caches")
        }
        Mutant::UnlistedIsEmpty => found(51, "I5"),
        Mutant::LateCreateStays => found(384, "I4"),
        Mutant::TargetDeletionUnseen => found(53, "I4"),
        Mutant::NamespaceThoughtThere => found(42, "I4"),
        Mutant::PruneDespiteFailure => Record::Missed("The templates of no world fail"),
        Mutant::KindForgotten => found(488, "I4"),
        Mutant::FormerSourceForgotten => found(61, "I4"),
        Mutant::ReloadWakesNobody => found(2, "I4"),
        Mutant::EngagedNotReplayed => found(3, "I4"),
        Mutant::DisengagedIsDeleted => found(1, "I1"),
        Mutant::UnboundAtOnce => found(9, "I4"),
        Mutant::TargetChangeIgnored => Record::Missed("No world leads the address of the target to another cluster"),
        Mutant::PermitIgnored => Record::Missed("Between plan and write, the cluster behind an address never changes"),
        Mutant::ExpiredWatchResumed => found(179, "I4"),
        Mutant::RelistNotDiffed => found(31, "I7"),
        Mutant::VersionsAsText => Record::Missed(
            "It takes versions with another number of digits and an answer that its event overtakes: rare",
        ),
        Mutant::OwnWritesHideOthers => found(53, "I7"),
        Mutant::EventLostInFlight => found(10, "I7"),
        Mutant::RetryLost => found(39, "I4"),
        Mutant::NoBackoff => found(1, "I5"),
        Mutant::CopyOverwritesForeign => found(11, "I2"),
        Mutant::CopyLeftBehind => found(2, "I4"),
        Mutant::SelectionUnconfirmed => found(74, "I1"),
        Mutant::FieldLeftBeside => found(7, "I4"),
        Mutant::StrippedBesideForgotten => Record::Missed(
            "Judged only where nothing else happens than what consumers do: a scenario finds it, and none of 200 worlds",
        ),
        Mutant::UnlistedBesideIsEmpty => Record::Missed(
            "It takes an edit of the kind while no process runs: a scenario finds it, and none of 200 worlds",
        ),
        Mutant::JoinerWritesAtOnce => found(2, "I8"),
        Mutant::DeletedLeaseFrees => found(2, "I8"),
        Mutant::TwoWorkersOnOneKey => found(1, "I7"),
    }
}
