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

use real::{api, audit, credentials, eventually, kube, machine, process, rest, servers};

use std::process::ExitCode;

use trials::Suite;

fn main() -> ExitCode {
    machine::run("conformance", 6, Suite::new, Suite::trials, Suite::report)
}
