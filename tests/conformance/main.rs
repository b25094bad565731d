//! Conformance: the same requests to the sandbox and to real servers, and the answers compared.
//!
//! A case is a list of requests in `cases/*.yaml`. `kubernetes::…` plays it on the sandbox and on a real kube-apiserver
//! and compares; `recorded::…` plays it on the sandbox's kcp and compares with the recording of a real one
//! (`recorded/kcp.json`); `kcp::…` plays it on the kcp of this machine and compares with the recording, which
//! `SYNC_ENGINE_RECORD_KCP=1` renews. `kubernetes::random` goes on with random sequences; `SYNC_ENGINE_SEQUENCES` says how many.
//! A difference is a failure unless `known.yaml` lists it, and so is one that is listed and no longer there.

mod compare;
mod known;
mod mask;
mod play;
mod random;
#[expect(dead_code, reason = "the scenarios in tests/e2e use all of it, and this a part")]
#[path = "../e2e/real/mod.rs"]
mod real;
mod recording;
mod script;
mod server;
mod stage;
mod trials;

use real::{api, audit, credentials, eventually, kcp, kube, process, rest, servers};

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
