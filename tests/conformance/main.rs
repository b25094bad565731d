//! Conformance: the same requests to the sandbox and to real servers, and the answers compared.
//!
//! A case is a list of requests in `cases/*.yaml`. `kubernetes::…` plays it on the sandbox and on a real kube-apiserver
//! and compares; `recorded::…` plays it on the sandbox's kcp and compares with the recording of a real one
//! (`recorded/kcp.json`); `kcp::…` plays it on the kcp of this machine and compares with the recording, which
//! `SYNC_ENGINE_RECORD_KCP=1` renews. `kubernetes::random` goes on with random sequences; `SYNC_ENGINE_SEQUENCES` says how many.
//! A difference is a failure unless `known.yaml` lists it, and so is one that is listed and no longer there.

// Shared with the scenarios in `tests/e2e`, which use all of each.
#[allow(dead_code)]
#[path = "../e2e/api.rs"]
mod api;
#[allow(dead_code)]
#[path = "../e2e/audit.rs"]
mod audit;
#[allow(dead_code)]
#[path = "../e2e/credentials.rs"]
mod credentials;
#[allow(dead_code)]
#[path = "../e2e/eventually.rs"]
mod eventually;
#[allow(dead_code)]
#[path = "../e2e/kcp.rs"]
mod kcp;
#[allow(dead_code)]
#[path = "../e2e/kube.rs"]
mod kube;
#[allow(dead_code)]
#[path = "../e2e/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../e2e/rest.rs"]
mod rest;
#[allow(dead_code)]
#[path = "../e2e/servers.rs"]
mod servers;

mod compare;
mod known;
mod mask;
mod play;
mod random;
mod recording;
mod script;
mod server;
mod stage;
mod trials;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Conclusion};
use tokio::runtime::Runtime;

use trials::Suite;

/// Cases mostly wait for servers, so there can be more of them at a time than processors.
const CASES_AT_A_TIME: usize = 6;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CASES_AT_A_TIME);
    let folder = servers::target_dir().join(format!("conformance/{}", std::process::id()));
    let runtime = Arc::new(Runtime::new().expect("a runtime"));
    let suite = Arc::new(Suite::new(&folder));
    let conclusion = libtest_mimic::run(&arguments, suite.trials(&runtime));
    suite.report();
    // The last owner stops every server.
    drop(suite);
    process::dismiss_guardian();
    keep_or_remove(&folder, &conclusion);
    conclusion.exit_code()
}

/// The logs of a run that failed stay for a look, the databases do not.
fn keep_or_remove(folder: &Path, conclusion: &Conclusion) {
    for data in ["etcd", "kcp/etcd-server"] {
        drop(fs::remove_dir_all(folder.join(data)));
    }
    match conclusion.has_failed() {
        true => println!("the servers' logs are kept in {}", folder.display()),
        false => drop(fs::remove_dir_all(folder)),
    }
}
