//! The trials of the suite, and the count at its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Completion, Failed, Trial};
use tokio::runtime::Runtime;

use crate::compare::compare;
use crate::known::KnownDifferences;
use crate::random;
use crate::recording::{self, Recording};
use crate::script::{self, Case, Kind};
use crate::stage::{InMemory, Stage};

/// Everything that the trials share.
pub struct Suite {
    stage: Stage,
    cases: Vec<Case>,
    recording: Recording,
    known: KnownDifferences,
    /// What was compared, by what it was compared with.
    counts: Mutex<BTreeMap<&'static str, usize>>,
}

/// What a trial compares.
#[derive(Clone, Copy)]
enum Comparison {
    /// The sandbox with a kube-apiserver.
    Kubernetes,
    /// The sandbox with the recording of a kcp.
    Recorded,
    /// A kcp with the recording.
    Kcp,
}

impl Suite {
    pub fn new(folder: &Path) -> Self {
        Self {
            stage: Stage::new(folder),
            cases: script::cases(),
            recording: Recording::read(),
            known: KnownDifferences::read(),
            counts: Mutex::default(),
        }
    }

    pub fn trials(self: &Arc<Self>, runtime: &Arc<Runtime>) -> Vec<Trial> {
        let mut trials = vec![self.trial("lists name cases that exist", runtime, |suite, _| suite.check_lists())];
        trials.push(self.trial("kubernetes::random sequences", runtime, |suite, runtime| suite.run_random(runtime)));
        for case in &self.cases {
            for comparison in Comparison::of(case) {
                let (of, ..) = comparison.facts();
                let (case, name) = (case.clone(), format!("{of}::{}", case.name));
                trials.push(
                    self.trial(&name, runtime, move |suite, runtime| runtime.block_on(suite.run(comparison, &case))),
                );
            }
        }
        trials
    }

    fn trial(
        self: &Arc<Self>,
        name: &str,
        runtime: &Arc<Runtime>,
        body: impl FnOnce(&Suite, &Runtime) -> Result<Completion, Failed> + Send + 'static,
    ) -> Trial {
        let (suite, runtime) = (self.clone(), runtime.clone());
        Trial::ignorable_test(name, move || body(&suite, &runtime))
    }

    /// What was compared with what, and what was not run, with the reason.
    pub fn report(&self) {
        if recording::is_renewed() {
            self.recording.write(|name| self.cases.iter().any(|case| case.name == name));
        }
        let counts = self.counts.lock().expect("the counts");
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        println!("conformance: {}; {} differences known", counts.join(", "), self.known.met());
        self.stage.machine.report();
    }

    async fn run(&self, comparison: Comparison, case: &Case) -> Result<Completion, Failed> {
        if let Some(not_run) = self.not_run(comparison) {
            return not_run;
        }
        let complaints = match comparison {
            Comparison::Kubernetes => self.with_kubernetes(case).await,
            Comparison::Recorded => self.with_recording(case).await,
            Comparison::Kcp => self.recording_with_kcp(case).await,
        };
        let (_, what, _) = comparison.facts();
        *self.counts.lock().expect("the counts").entry(what).or_default() += 1;
        match complaints.is_empty() {
            true => Ok(Completion::Completed),
            false => Err(Failed::from(complaints.join("\n"))),
        }
    }

    fn run_random(&self, runtime: &Runtime) -> Result<Completion, Failed> {
        if let Some(not_run) = self.not_run(Comparison::Kubernetes) {
            return not_run;
        }
        let (ours, theirs) = runtime
            .block_on(async { tokio::join!(InMemory::start(Kind::Kubernetes), self.stage.real(Kind::Kubernetes)) });
        let sequences = random::run(runtime, &ours, theirs)?;
        self.counts.lock().expect("the counts").insert("random sequences with kube-apiserver", sequences as usize);
        Ok(Completion::Completed)
    }

    /// The outcome of a comparison whose server this machine cannot have.
    fn not_run(&self, comparison: Comparison) -> Option<Result<Completion, Failed>> {
        let (_, _, kind) = comparison.facts();
        let reason = self.stage.missing(kind?)?;
        // No package registry has a kcp, so nobody can be required to have one.
        Some(self.stage.machine.not_run(reason, kind != Some(Kind::Kcp)))
    }

    async fn with_kubernetes(&self, case: &Case) -> Vec<String> {
        let sandbox = InMemory::start(Kind::Kubernetes).await;
        let ours = sandbox.play(case).await;
        let theirs = self.stage.real(Kind::Kubernetes).await.play_with_admission(case).await;
        self.known.judge(&case.name, Kind::Kubernetes, &compare(&ours, &theirs))
    }

    async fn with_recording(&self, case: &Case) -> Vec<String> {
        let Some(theirs) = self.recording.of(&case.name) else { return vec![not_recorded()] };
        let sandbox = InMemory::start(Kind::Kcp).await;
        let ours = sandbox.play(case).await;
        self.known.judge(&case.name, Kind::Kcp, &compare(&ours, theirs))
    }

    async fn recording_with_kcp(&self, case: &Case) -> Vec<String> {
        let kcp = self.stage.real(Kind::Kcp).await;
        let theirs = kcp.play(case).await;
        if recording::is_renewed() {
            self.recording.renew(kcp.version().await, &case.name, theirs);
            return Vec::new();
        }
        let Some(recorded) = self.recording.of(&case.name) else { return vec![not_recorded()] };
        let differences = compare(recorded, &theirs);
        if differences.is_empty() {
            return Vec::new();
        }
        let (recorded, played) = (&self.recording.kept.version, kcp.version().await);
        let versions = format!("recorded from kcp {recorded}, played on kcp {played}");
        std::iter::once(versions).chain(differences.iter().map(ToString::to_string)).collect()
    }

    /// The recording and the list of known differences name no case that is gone.
    fn check_lists(&self) -> Result<Completion, Failed> {
        let exists = |name: &&str| self.cases.iter().any(|case| case.name == *name);
        let named = self.known.cases().chain(self.recording.cases());
        let gone: Vec<&str> = named.filter(|name| !exists(name)).collect();
        match gone.is_empty() {
            true => Ok(Completion::Completed),
            false => Err(Failed::from(format!("these cases are listed and do not exist: {gone:?}"))),
        }
    }
}

impl Comparison {
    fn of(case: &Case) -> Vec<Comparison> {
        let of_kind = |kind: &Kind| match kind {
            Kind::Kubernetes => vec![Comparison::Kubernetes],
            Kind::Kcp => vec![Comparison::Recorded, Comparison::Kcp],
        };
        case.on.iter().flat_map(of_kind).collect()
    }

    /// Its name, what is compared, and the server without which that cannot be.
    fn facts(self) -> (&'static str, &'static str, Option<Kind>) {
        match self {
            Comparison::Kubernetes => ("kubernetes", "cases with kube-apiserver", Some(Kind::Kubernetes)),
            Comparison::Recorded => ("recorded", "cases with the recording of kcp", None),
            Comparison::Kcp => ("kcp", "recorded cases with kcp", Some(Kind::Kcp)),
        }
    }
}

fn not_recorded() -> String {
    "kcp's answers are not recorded: run with SYNC_ENGINE_RECORD_KCP=1 where there is a kcp".to_owned()
}
