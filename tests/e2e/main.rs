//! The main job, by the real binary: consumers' objects in kcp workspaces, or on a plain cluster, synced to another
//! cluster. On real servers, and for the themes that need nothing else on the in-memory ones of the sandbox.
//!
//! `cargo test --test e2e` runs all; `cargo test --test e2e -- kcp::deletion` those whose name contains the words.
//! A machine without Go, or without a `kcp` binary, lists the cases that need it as not run, with the reason;
//! `SYNC_ENGINE_REQUIRE_SERVERS=1` makes that a failure.

mod case;
mod engine;
mod fleet;
mod kubectl;
mod mappings;
mod memory;
mod operator;
mod real;
mod scenarios;
#[path = "../verbs/documentation/steps.rs"]
mod steps;
mod target;
mod tenant;
mod world;

// Everything names them from here, wherever they are shared with.
use real::{api, audit, credentials, eventually, kcp, kube, process, proxy, rest, servers};

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Conclusion};
use tokio::runtime::Runtime;

use fleet::Fleet;

/// Cases mostly wait for servers, so there can be more of them at a time than processors.
const CASES_AT_A_TIME: usize = 8;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_A_TIME);
    let folder = servers::target_dir().join(format!("e2e/{}", std::process::id()));
    let fleet = Arc::new(Fleet::new(&folder));
    let runtime = Arc::new(Runtime::new().expect("a runtime"));
    case::collect_panics();

    let trials = scenarios::cases().into_iter().flat_map(|case| case.trials(&fleet, &runtime)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    report_not_run(&fleet);
    // The last owner stops every server.
    drop(fleet);
    process::dismiss_guardian();
    keep_or_remove(&folder, &conclusion);
    conclusion.exit_code()
}

fn report_not_run(fleet: &Fleet) {
    for (reason, cases) in fleet.not_run() {
        println!("{cases} cases not run: {reason}");
    }
}

/// The logs of a run that failed stay for a look.
fn keep_or_remove(folder: &std::path::Path, conclusion: &Conclusion) {
    match conclusion.has_failed() {
        true => println!("the servers' and engines' logs are kept in {}", folder.display()),
        false => drop(fs::remove_dir_all(folder)),
    }
}
