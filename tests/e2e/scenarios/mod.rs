//! What the engine must show, a theme a file.

mod bad_input;
mod cost;
mod deletion;
mod harness;
mod isolation;
mod mongodb;
mod objects;
mod operation;
mod outages;
mod ownership;
mod reload;
mod restarts;
mod retention;
mod spec;
mod status;
mod workspaces;

use crate::case::Case;

/// All cases; those that stop a shared server come last, so that the others need not wait for them.
pub fn cases() -> Vec<Case> {
    let anywhere = [
        isolation::cases(),
        spec::cases(),
        objects::cases(),
        status::cases(),
        deletion::cases(),
        ownership::cases(),
        restarts::cases(),
        reload::cases(),
        cost::cases(),
    ];
    let on_real_servers = [
        harness::cases(),
        mongodb::cases(),
        retention::cases(),
        workspaces::cases(),
        operation::cases(),
        bad_input::cases(),
        outages::cases(),
    ];
    let anywhere = anywhere.into_iter().flatten().map(Case::in_memory);
    let mut cases: Vec<Case> = anywhere.chain(on_real_servers.into_iter().flatten()).collect();
    cases.sort_by_key(Case::is_alone);
    cases
}
