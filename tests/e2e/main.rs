//! The main job, by the real binary: consumers' objects in kcp workspaces, or on a plain cluster, synced to another
//! cluster. On real servers; where one is missing, the themes that need nothing else run on the in-memory ones of the
//! sandbox.
//!
//! `cargo test --test e2e` runs all; `cargo test --test e2e -- kcp::orphans` those whose name contains the words.
//! A machine without Go, or without a `kcp` binary, lists the cases that need it as not run, with the reason;
//! `SYNC_ENGINE_REQUIRE_SERVERS=1` makes that a failure.

mod case;
mod engine;
mod fleet;
mod kubectl;
mod mappings;
mod memory;
mod real;
mod scenarios;
#[path = "../verbs/documentation/steps.rs"]
mod steps;
mod target;
mod tenant;
mod webhook;
mod world;

// Everything names them from here, wherever they are shared with.
use real::{api, audit, credentials, eventually, kcp, kube, machine, process, rest, servers};

use std::process::ExitCode;
use std::sync::Arc;

use tokio::runtime::Runtime;

use fleet::Fleet;

fn main() -> ExitCode {
    case::collect_panics();
    let trials = |fleet: &Arc<Fleet>, runtime: &Arc<Runtime>| {
        scenarios::cases().into_iter().flat_map(|case| case.trials(fleet, runtime)).collect()
    };
    machine::run("e2e", 8, Fleet::new, trials, |fleet| fleet.machine.report())
}
