//! Worlds whose engines may run too few watches for a while.

use super::*;

#[test]
fn engines_that_may_run_too_few_watches_delete_nothing_that_is_needed() {
    every_seed_holds("SYNC_ENGINE_SEEDS_LIMITED", 0..48, plan::of_limited);
}

/// Each has counted other deletions of the same document, for both started anew when it came.
#[test]
fn two_processes_agree_on_how_many_deletions_were_released() {
    let steps = [
        (0, Action::Create(X_CA)),
        (1_500, Action::Rebuild(Side::Source, Ahead::Expired)),
        (15_000, Action::Start(1)),
        (70_000, Action::Edit(Edit::NoStatus("size"))),
    ];
    holds(&Plan { max_watches: Some(64), ..world(Plain, &steps) }, 16);
}
