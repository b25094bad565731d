//! What a suite on real servers has around its cases: what this machine can run, what it cannot, and the folder of a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;

use crate::process::dismiss_guardian;
use crate::servers::{self, Binaries};

/// The binaries of this machine, and the cases that were not run for want of one.
pub struct Machine {
    /// Every file of the run goes below it.
    pub folder: PathBuf,
    pinned: Result<Binaries, String>,
    kcp: Result<PathBuf, String>,
    not_run: Mutex<BTreeMap<String, usize>>,
}

impl Machine {
    pub fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("the folder of the run");
        Self { folder: folder.to_owned(), pinned: servers::pinned(), kcp: servers::kcp(), not_run: Mutex::default() }
    }

    /// Why there is no Kubernetes here.
    pub fn lacks_kubernetes(&self) -> Option<String> {
        self.pinned.as_ref().err().cloned()
    }

    /// Why there is no kcp here.
    pub fn lacks_kcp(&self) -> Option<String> {
        self.kcp.as_ref().err().cloned()
    }

    pub fn binaries(&self) -> &Binaries {
        self.pinned.as_ref().expect("a case runs only where the servers can be built")
    }

    pub fn kcp(&self) -> PathBuf {
        self.kcp.clone().expect("a case on kcp runs only where there is one")
    }

    /// The outcome of a case that cannot run: a failure where the servers are required.
    pub fn not_run(&self, reason: String, can_be_required: bool) -> Result<Completion, Failed> {
        *self.not_run.lock().expect("the count").entry(reason.clone()).or_default() += 1;
        match can_be_required && servers::required() {
            true => Err(Failed::from(reason)),
            false => Ok(Completion::ignored_with(reason)),
        }
    }

    /// Prints how many cases were not run, and why.
    pub fn report(&self) {
        for (reason, cases) in &*self.not_run.lock().expect("the count") {
            println!("{cases} cases not run: {reason}");
        }
    }
}

/// Runs a suite; its trials and nothing else share it. Cases mostly wait for servers, so there can be more of them at a
/// time than processors.
pub fn run<S>(
    name: &str,
    cases_at_a_time: usize,
    suite: impl FnOnce(&Path) -> S,
    trials: impl FnOnce(&Arc<S>, &Arc<Runtime>) -> Vec<Trial>,
    report: impl FnOnce(&S),
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(cases_at_a_time);
    let folder = servers::target_dir().join(format!("{name}/{}", std::process::id()));
    let runtime = Arc::new(Runtime::new().expect("a runtime"));
    let suite = Arc::new(suite(&folder));
    let conclusion = libtest_mimic::run(&arguments, trials(&suite, &runtime));
    report(&suite);
    // The last owner stops every server.
    drop(suite);
    dismiss_guardian();
    // The logs of a run that failed stay for a look, the databases do not.
    ["etcd", "kcp/etcd-server"].iter().for_each(|data| drop(fs::remove_dir_all(folder.join(data))));
    match conclusion.has_failed() {
        true => println!("the logs are kept in {}", folder.display()),
        false => drop(fs::remove_dir_all(folder)),
    }
    conclusion.exit_code()
}
