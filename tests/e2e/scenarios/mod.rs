//! What the engine must show, a theme a file.

mod harness;

use crate::case::Case;

/// All cases; those that stop a server come last, so that the others need not wait for them.
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [harness::cases()].into_iter().flatten().collect();
    cases.sort_by_key(Case::is_alone);
    cases
}
