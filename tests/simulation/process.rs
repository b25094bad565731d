//! A process of the engine in a world: the engine whole, from its event loop down to its HTTP stack.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use sync_engine::engine::clock::Clock;
use sync_engine::engine::election::Terms;
use sync_engine::engine::{self, Settings};
use sync_engine::mapping::schema::Schemas;
use sync_engine::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use sync_engine::multicluster::environment::CustomProviders;
use sync_engine::reload::{Reload, Snapshot};
use sync_engine::server::Instruments;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::core::Shared;
use super::network::Link;
use super::server::Side;

/// The process with another engine id.
pub const OTHER: u32 = 2;

pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The id of a process.
fn engine(process: u32) -> &'static str {
    if process == OTHER { "other" } else { "main" }
}

pub struct Process {
    task: JoinSet<()>,
    instruments: Instruments,
    reloads: mpsc::Sender<Reload>,
    shutdown: CancellationToken,
}

impl Process {
    pub fn start(shared: &Shared, number: u32, is_kcp: bool, elects: bool) -> Self {
        let (reloads, receiver) = mpsc::channel(16);
        let shutdown = CancellationToken::new();
        let settings = Settings {
            engine: engine(number).into(),
            inventory_namespace: super::checker::RECORDS.into(),
            connections: connections(shared, number, is_kcp),
            schemas: Schemas::default(),
            clock: clock(shared.clone(), number),
            election: elects.then(|| terms(number)),
            custom_providers: CustomProviders::default(),
        };
        let (mut task, instruments) = (JoinSet::new(), Instruments::default());
        task.spawn(engine::run(settings, receiver, instruments.clone(), shutdown.clone()));
        Self { task, instruments, reloads, shutdown }
    }

    /// The figures that it publishes under a metric's name, by their labels.
    pub fn figures(&self, metric: &str) -> BTreeMap<String, i64> {
        let text = self.instruments.metrics.encode().expect("text");
        let of_metric = |line: &str| {
            let (labels, figure) = line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} ")?;
            Some((labels.to_owned(), figure.parse().ok()?))
        };
        text.lines().filter_map(of_metric).collect()
    }

    /// Everything that it reports of itself: metrics and the status page.
    pub fn reports(&self) -> [(&'static str, String); 2] {
        let metrics = self.instruments.metrics.encode().expect("text");
        [("a metric", metrics), ("the status page", format!("{:?}", self.instruments.status.latest()))]
    }

    /// Hands it the mappings directory, whose documents are `sound` or not.
    pub fn reload(&self, shared: &Shared, documents: Option<String>, sound: bool) {
        let files = documents.map(|text| ("mapping.yaml".to_owned(), text.into_bytes())).into_iter().collect();
        let (reload, answer) = Reload::new(Arc::new(Snapshot { files, problems: Vec::new() }));
        // A process that is stopping reads no more.
        let _ = self.reloads.try_send(reload);
        let judge = shared.clone();
        shared.spawn(async move {
            let Ok(outcome) = answer.await else { return };
            if outcome.accepted != sound {
                judge.lock().checker.violated("I4", format!("documents are taken for what they are not: {outcome}"));
            }
        });
    }

    /// Approves what it holds.
    pub fn approve(&self, shared: &Shared) {
        let approvals = self.instruments.approvals.clone();
        // An engine that ends does not answer.
        shared.spawn(async move { drop(approvals.approve().await) });
    }

    /// Kills it in the middle of whatever it does.
    pub async fn kill(mut self) {
        self.task.shutdown().await;
        drop(self);
        settle().await;
    }

    /// Tells it to stop, and waits until it has.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(120), self.task.join_next()).await;
        assert!(ended.is_ok(), "the engine does not stop");
        drop(self);
        settle().await;
    }
}

/// Lets the runtime drop what was aborted.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// As `--leader-elect lease` has them.
fn terms(process: u32) -> Terms {
    Terms {
        home: "target".into(),
        replica: replica(process),
        lease_duration: LEASE_DURATION,
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

/// The name of a process in the Lease.
pub fn replica(process: u32) -> String {
    format!("replica-{process}")
}

fn connections(shared: &Shared, process: u32, is_kcp: bool) -> BTreeMap<String, Arc<Connection>> {
    let source = if is_kcp { ("kcp", Side::Source, "/clusters/root") } else { ("source", Side::Source, "") };
    [source, ("target", Side::Target, "")]
        .into_iter()
        .map(|(name, side, path)| {
            let link = Link { shared: shared.clone(), process, side, path };
            let source = ConnectionSource::InProcess(link.surroundings());
            let connection = Connection::open(ConnectionSpec { name: name.into(), source }).expect("a connection");
            (name.to_owned(), connection)
        })
        .collect()
}

fn clock(shared: Shared, process: u32) -> Clock {
    Clock::new(move || Timestamp::from_second(shared.lock().clock(process).0).expect("a moment"))
}
