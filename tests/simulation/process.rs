//! A process of the engine in a world: the engine whole, from its event loop down to its HTTP stack.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use k8s_openapi::jiff::Timestamp;
use sync_engine::catalog::Files;
use sync_engine::engine::clock::Clock;
use sync_engine::engine::election::Terms;
use sync_engine::engine::{self, Settings};
use sync_engine::mapping::Traits;
use sync_engine::multicluster::budget::Budget;
use sync_engine::multicluster::connection::{self, Connection, ConnectionSource, ConnectionSpec};
use sync_engine::multicluster::environment::{CustomProviders, Listed, Members};
use sync_engine::multicluster::in_process::{InProcess, Surroundings};
use sync_engine::object::ClusterName;
use sync_engine::reload::{Outcome, Reload};
use sync_engine::server::Instruments;
use sync_engine::server::metrics::Format;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::action::{Plan, Roster};
use super::core::Shared;
use super::mapping::Spread;
use super::network::Link;
use super::server::Side;

/// The process with another engine id.
pub const OTHER: u32 = 2;

/// A third process of the engine that the first two are of.
pub const THIRD: u32 = 3;

pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The id of a process.
fn engine(process: u32) -> &'static str {
    if process == OTHER { "other" } else { "main" }
}

/// An engine that runs: its directory of documents, and what it reports.
pub struct Running {
    pub task: JoinSet<()>,
    pub instruments: Instruments,
    reloads: mpsc::Sender<Reload>,
    shutdown: CancellationToken,
}

impl Running {
    pub fn start(settings: Settings) -> Self {
        let (reloads, receiver) = mpsc::channel(16);
        let (mut task, instruments, shutdown) = (JoinSet::new(), Instruments::default(), CancellationToken::new());
        task.spawn(engine::run(settings, receiver, instruments.clone(), shutdown.clone()));
        Self { task, instruments, reloads, shutdown }
    }

    /// Hands it the mappings directory.
    pub fn read(&self, documents: Option<String>) -> oneshot::Receiver<Outcome> {
        let readable = documents.map(|text| ("mapping.yaml".to_owned(), text.into_bytes())).into_iter().collect();
        let (reload, answer) = Reload::new(Arc::new(Files { readable, ..Files::default() }));
        // An engine that is stopping reads no more.
        let _ = self.reloads.try_send(reload);
        answer
    }

    pub fn metrics(&self) -> String {
        self.instruments.metrics.encode(Format::OpenMetrics).expect("text")
    }
}

pub struct Process {
    running: Running,
    /// The mappings in the file that it read last, and those that it saw leave it.
    read: BTreeSet<&'static str>,
    pub removed: BTreeSet<&'static str>,
}

impl Process {
    pub fn start(shared: &Shared, plan: &Plan, number: u32) -> Self {
        let max_watches = shared.lock().max_watches;
        let election = plan.elects.then(|| terms(number));
        let replica = election.as_ref().map(|terms| terms.replica.as_str().into());
        let common =
            connection::Process { replica, budget: Budget::new(max_watches, None), ..connection::Process::default() };
        let clock = shared.clone();
        let settings = Settings {
            home: "target".to_owned(),
            engine: engine(number).into(),
            inventory_namespace: super::checker::RECORDS.into(),
            connections: connections(shared, plan, number, &common),
            clock: Clock::new(move || Timestamp::from_second(clock.lock().clock(number).0).expect("a moment")),
            process: common,
            election,
            custom_providers: fleet(shared, number),
            ..Settings::default()
        };
        Self { running: Running::start(settings), read: BTreeSet::new(), removed: BTreeSet::new() }
    }

    /// The figures that it publishes under a metric's name, by their labels.
    pub fn figures(&self, metric: &str) -> BTreeMap<String, i64> {
        let of_metric = |line: &str| {
            let (labels, figure) = line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} ")?;
            Some((labels.to_owned(), figure.parse().ok()?))
        };
        self.running.metrics().lines().filter_map(of_metric).collect()
    }

    /// Whether it says that it writes.
    pub fn leads(&self) -> bool {
        self.running.metrics().lines().any(|line| line == "sync_engine_leader 1")
    }

    /// Everything that it reports of itself: metrics and the status page.
    pub fn reports(&self) -> [(&'static str, String); 2] {
        let status = self.running.instruments.status.latest();
        [("a metric", self.running.metrics()), ("the status page", format!("{status:?}"))]
    }

    /// Has it read the mappings directory, whose documents are `sound` or not; `names`: of its mappings, if they are.
    pub fn reload(&mut self, shared: &Shared, documents: Option<String>, names: BTreeSet<&'static str>, sound: bool) {
        if sound {
            self.removed.extend(self.read.difference(&names));
            self.removed.retain(|name| !names.contains(name));
            self.read = names;
        }
        let answer = self.running.read(documents);
        let judge = shared.clone();
        shared.spawn(async move {
            let Ok(outcome) = answer.await else { return };
            // Whether a document, or a removal, has to wait, the state store tells.
            let waits = ["the document in mapping.yaml", "its removal is held", "its removal waits"];
            let waits = waits.iter().any(|waits| outcome.text.contains(waits));
            if outcome.accepted != (sound && !waits) {
                let why = format!("documents are taken for what they are not: {}", outcome.text);
                judge.lock().checker.violated("I4", why);
            }
        });
    }

    /// Kills it in the middle of whatever it does.
    pub async fn kill(mut self) {
        self.running.task.shutdown().await;
        drop(self);
        settle().await;
    }

    /// Tells it to stop, and waits until it has.
    pub async fn stop(mut self) {
        self.running.shutdown.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(120), self.running.task.join_next()).await;
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

/// As the flags have them by default.
pub fn terms(process: u32) -> Terms {
    Terms {
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

fn connections(
    shared: &Shared,
    plan: &Plan,
    process: u32,
    common: &connection::Process,
) -> BTreeMap<String, Arc<Connection>> {
    let source = if plan.is_kcp { ("kcp", Side::Source, "/clusters/root") } else { ("source", Side::Source, "") };
    let second = (plan.spread != Spread::One).then_some(("second", Side::Second, ""));
    [source, ("target", Side::Target, "")]
        .into_iter()
        .chain(second)
        .map(|(name, side, path)| {
            let link = Link { shared: shared.clone(), process, side, path, host: String::new() };
            let source = ConnectionSource::InProcess(InProcess(Arc::new(link)));
            let spec = ConnectionSpec { name: name.into(), source };
            let connection = Connection::of_process(spec, common).expect("a connection");
            (name.to_owned(), connection)
        })
        .collect()
}

/// The provider that lists the plain cluster.
fn fleet(shared: &Shared, process: u32) -> CustomProviders {
    let member = Link { shared: shared.clone(), process, side: Side::Source, path: "", host: String::new() };
    CustomProviders::default().with("fleet", move |_| {
        let names = ["one", "two"].map(|name| ClusterName::try_from(name).expect("a name"));
        let members =
            names.map(|name| (name, ConnectionSource::InProcess(InProcess(Arc::new(Member(member.clone()))))));
        Ok(Fleet { shared: member.shared.clone(), members })
    })
}

/// The plain cluster, by each name under which a fleet may list it.
struct Fleet {
    shared: Shared,
    members: [(ClusterName, ConnectionSource); 2],
}

impl Members for Fleet {
    async fn look(&mut self) -> Result<Listed, String> {
        let roster = self.shared.lock().roster;
        let listed = match roster {
            Roster::Unreadable => return Err("the list cannot be read".to_owned()),
            Roster::Missing => &self.members[..0],
            Roster::Listed | Roster::Relabelled | Roster::Astray => &self.members[..1],
            Roster::Renamed => &self.members[1..],
            Roster::Doubled => &self.members[..],
        };
        let tier = if roster == Roster::Relabelled { "silver" } else { "gold" };
        let traits = Traits { labels: Some(BTreeMap::from([("tier".to_owned(), tier.to_owned())])), properties: None };
        let traits = listed.iter().map(|(name, _)| (name.clone(), traits.clone())).collect();
        Ok(Listed { members: listed.iter().cloned().collect(), traits, ..Listed::default() })
    }

    async fn changed(&mut self) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// How often the fleet is listed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The way to a cluster of the fleet: its kubeconfig may lead to another.
struct Member(Link);

impl Surroundings for Member {
    fn kubeconfig(&self) -> (Uri, String) {
        let is_astray = self.0.shared.lock().roster == Roster::Astray;
        let side = if is_astray { Side::Target } else { Side::Source };
        Link { side, ..self.0.clone() }.kubeconfig()
    }

    fn dial(&self, to: &Uri) -> io::Result<DuplexStream> {
        self.0.dial(to)
    }

    fn entropy(&self) -> u64 {
        self.0.entropy()
    }
}
