//! What the engine must show, a theme a file.

mod admission;
mod bad_input;
mod beside;
mod chart;
mod cost;
mod examples;
mod fleets;
mod forms;
mod informers;
mod installation;
mod kubectl;
mod mongodb;
mod mongodb_operator;
mod operation;
mod orphans;
mod outages;
mod ownership;
mod refusals;
mod related;
mod reload;
mod replicas;
mod retention;
mod rights;
mod served_sources;
mod spec;
mod status;
mod targets;
mod troubles;
mod tutorial;
mod uninstall;
mod workspace_types;
mod workspaces;

use crate::case::Case;

/// All cases; those that stop a shared server come last, so that the others need not wait for them.
pub fn cases() -> Vec<Case> {
    let anywhere = [
        spec::cases(),
        status::cases(),
        ownership::cases(),
        reload::cases(),
        cost::cases(),
        retention::cases(),
        served_sources::cases(),
        orphans::cases(),
        related::cases(),
        beside::cases(),
    ];
    let on_real_servers = [
        targets::cases(),
        kubectl::cases(),
        chart::cases(),
        informers::cases(),
        installation::cases(),
        mongodb_operator::cases(),
        workspaces::cases(),
        workspace_types::cases(),
        operation::cases(),
        forms::cases(),
        replicas::cases(),
        fleets::cases(),
        bad_input::cases(),
        examples::cases(),
        admission::cases(),
        beside::on_real_servers(),
        troubles::cases(),
        tutorial::cases(),
        uninstall::cases(),
        rights::cases(),
        outages::cases(),
        refusals::cases(),
        retention::with_another_target(),
    ];
    let anywhere = anywhere.into_iter().flatten().map(Case::in_memory);
    let mut cases: Vec<Case> = anywhere.chain(on_real_servers.into_iter().flatten()).collect();
    cases.sort_by_key(Case::is_alone);
    cases
}
