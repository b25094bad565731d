//! Worlds whose engines may run too few watches for a while.

use super::*;

#[test]
fn engines_that_may_run_too_few_watches_delete_nothing_that_is_needed() {
    every_seed_holds("SYNC_ENGINE_SEEDS_LIMITED", 0..48, plan::of_limited);
}
