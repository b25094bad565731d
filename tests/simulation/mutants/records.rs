//! Which mutants are found, and why the others are missed.

use sync_engine::mutants::Mutant;

/// What is known of a mutant.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    /// At the median, after so many seeds; the invariant that failed first from seed 0 on.
    Found { median: u64, invariant: &'static str },
    /// Why no world of a thousand shows it.
    Missed(&'static str),
}

pub fn record(mutant: Mutant) -> Record {
    let found = |median, invariant| Record::Found { median, invariant };
    match mutant {
        Mutant::SourceResourceIgnored => found(8, "I1"),
        Mutant::MissingSourceIsDeleted => found(12, "I1"),
        Mutant::LateCreateGivesUp => found(1, "I2"),
        Mutant::SameNameOverwritten => found(2, "I2"),
        Mutant::OldAddressKept => Record::Missed("The kubeconfig of no world changes"),
        Mutant::SharedUseUntold => Record::Missed("No world has shared objects"),
        Mutant::RefusalForgotten => found(6, "I5"),
        Mutant::SchemaReadOnce => Record::Missed("The export of no world gets another schema"),
        Mutant::OrphansUncounted => Record::Missed("The checker reads neither metrics nor the status page"),
        Mutant::MarksCountAnywhere => Record::Missed("Nobody in a world forges ownership labels and annotations"),
        Mutant::DroppedRulePlaces => found(242, "I4"),
        Mutant::RestoreUnseen => Record::Missed("Not known yet: the mutant was strengthened after it was measured"),
        Mutant::DeleteWithoutUid => found(3, "I1"),
        Mutant::DeleteOfAnyVersion => Record::Missed(
            "The checker judges a delete when it is sent; an object that a late delete hits is created again",
        ),
        Mutant::UnansweredDeleteForgotten => Record::Missed(
            "The checker judges a delete when it is sent; an object that a late delete hits is created again",
        ),
        Mutant::CreateUnconditional => found(1, "I2"),
        Mutant::SelfMarkIgnored => found(11, "I4"),
        Mutant::OwnerWithoutCluster => found(154, "I4"),
        Mutant::FinalizerAfterFirstWrite => found(1, "I4"),
        Mutant::FinalizerReleasedUnseen => {
            Record::Missed("The caches know almost always what the fresh read would find")
        }
        Mutant::FinalizerReleasedEarly => {
            Record::Missed("It takes a held object and the deletion of its very source: rare")
        }
        Mutant::FinalizersUnguarded => Record::Missed("Nobody in a world adds other finalizers to sources"),
        Mutant::StatusUnguarded => Record::Missed("Rare: found after 173 seeds from 0, and not in 1,000 from 10,000"),
        Mutant::UnreachableIsAbsence => Record::Missed(
            "A second defence holds: the identity of a target out of reach is in doubt, which ends every write",
        ),
        Mutant::MissingApiIsAbsence => Record::Missed("The API of no world goes away and comes back with its objects"),
        Mutant::UnlistedIsEmpty => Record::Missed(
            "A second defence holds: a create fails where an object exists, and a finalizer is released after a fresh read",
        ),
        Mutant::LateCreateStays => {
            Record::Missed("It takes a create that arrives after the deletion of its source has ended: rare")
        }
        Mutant::TargetDeletionUnseen => found(36, "I4"),
        Mutant::NamespaceThoughtThere => found(44, "I4"),
        Mutant::PruneDespiteFailure => Record::Missed("The templates of no world fail"),
        Mutant::KindForgotten => found(17, "I4"),
        Mutant::FormerSourceForgotten => found(49, "I4"),
        Mutant::ReloadWakesNobody => found(8, "I4"),
        Mutant::EngagedNotReplayed => found(12, "I4"),
        Mutant::DisengagedIsDeleted => found(6, "I1"),
        Mutant::UnboundAtOnce => found(11, "I4"),
        Mutant::TargetChangeIgnored => Record::Missed("No world leads the address of the target to another cluster"),
        Mutant::PermitIgnored => Record::Missed("Between plan and write, the cluster behind an address never changes"),
        Mutant::ExpiredWatchResumed => found(302, "I4"),
        Mutant::RelistNotDiffed => found(619, "stands still"),
        Mutant::VersionsAsText => Record::Missed(
            "It takes versions with another number of digits and an answer that its event overtakes: rare",
        ),
        Mutant::OwnWritesHideOthers => Record::Missed("The event of one of the next writes wakes the source as well"),
        Mutant::EventLostInFlight => found(45, "I4"),
        Mutant::RetryLost => found(10, "I4"),
        Mutant::NoBackoff => found(6, "I5"),
        Mutant::TwoWorkersOnOneKey => found(11, "I5"),
    }
}
