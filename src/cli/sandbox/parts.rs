//! What runs in the sandbox beside the servers: the engine, the operators, and tasks that report on both.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::stage::Stage;
use crate::cli::arguments::{DEFAULT_ENGINE, DEFAULT_NAMESPACE};
use crate::cli::run::{failed, serve};
use crate::cli::{Misconfigured, inputs};
use crate::engine::{self, DEFAULT_TARGET, Settings};
use crate::health::Level;
use crate::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use crate::reload::{Outcome, Reload, Reloader};
use crate::sandbox::{Event, Sandbox};
use crate::server::api::Status;
use crate::server::{self, Hosts, Instruments};
use crate::story::{Member, Player, Side, ToyOperator, Trouble};

/// Something to tell.
pub(super) enum News {
    /// Something was written to a server.
    Change(Instant, Side, Event),
    /// The mappings were read.
    Reload(Outcome),
    /// The operator could not do something.
    Trouble(Trouble),
}

/// Everything that runs.
pub(super) struct Parts {
    tasks: JoinSet<anyhow::Result<()>>,
    instruments: Instruments,
    drain: CancellationToken,
    stopped: CancellationToken,
    /// Address of the engine's status page.
    pub status_page: String,
}

impl Parts {
    /// Starts everything on the servers of a stage.
    pub async fn start(stage: &Stage, port: Option<u16>) -> anyhow::Result<(Self, UnboundedReceiver<News>)> {
        let (news, received) = unbounded_channel();
        follow(&stage.scene.kcp, Side::Kcp, &news);
        for member in &stage.scene.clusters {
            let is_downstream = member.connection == DEFAULT_TARGET;
            let side = if is_downstream { Side::Downstream } else { Side::Beside(member.name.as_str().into()) };
            follow(&member.server, side, &news);
        }
        let instruments = Instruments::default();
        instruments.status.publish(Status { engine: DEFAULT_ENGINE.to_owned(), ..Status::default() });
        let (reloader, reload, reloads) =
            Reloader::open(&stage.mappings, instruments.health.clone()).map_err(Misconfigured::from)?;
        let (drain, stopped) = (CancellationToken::new(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        // kcp and the target cluster have the two ports before it.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.map_or(0, |port| port.saturating_add(2))));
        let console = server::console(instruments.clone(), reload, Hosts::default());
        let status_page = serve(&mut tasks, address, console, &stopped).await;
        let status_page = status_page.with_context(|| format!("cannot listen on {address} for the status page"))?;
        for operator in &stage.scene.script.operators {
            for cluster in stage.scene.script.works_on(operator).filter_map(|name| stage.scene.cluster(name)) {
                operate(&mut tasks, cluster, operator, &news)?;
            }
        }
        let (handed_on, engine_reloads) = mpsc::channel(1);
        spawn(&mut tasks, hand_on_reloads(reloads, handed_on, news));
        spawn(&mut tasks, reloader.run(drain.clone()));
        spawn(&mut tasks, engine::run(settings(stage)?, engine_reloads, instruments.clone(), drain.clone()));
        Ok((Self { tasks, instruments, drain, stopped, status_page: format!("http://{status_page}/") }, received))
    }

    /// What the engine is waiting for; `None` where it is ready.
    pub fn waits_for(&self) -> Option<String> {
        let mut standings = self.instruments.health.standings().into_iter();
        let waiting = standings.find(|standing| standing.condition.level == Level::Waiting)?;
        Some(format!("{}: {}", waiting.component, waiting.condition.message))
    }

    /// Ends when a part does: none of them should. Cancel-safe, as `join_next` is.
    pub async fn failed(&mut self) -> anyhow::Result<()> {
        failed(&mut self.tasks).await
    }

    /// Lets the engine end what is under way, and stops the rest.
    pub async fn stop(mut self) {
        self.drain.cancel();
        self.stopped.cancel();
        self.tasks.shutdown().await;
    }
}

fn spawn(tasks: &mut JoinSet<anyhow::Result<()>>, part: impl Future<Output = ()> + Send + 'static) {
    tasks.spawn(async {
        part.await;
        Ok(())
    });
}

fn follow(server: &Sandbox, side: Side, news: &UnboundedSender<News>) {
    let news = news.clone();
    server.follow(move |event| news.send(News::Change(Instant::now(), side.clone(), event.clone())).is_ok());
}

fn operate(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    cluster: &Member,
    operator: &Arc<ToyOperator>,
    news: &UnboundedSender<News>,
) -> anyhow::Result<()> {
    let news = news.clone();
    // The receiver may have stopped.
    let tell = move |trouble| drop(news.send(News::Trouble(trouble)));
    let player = Player::new(operator.clone(), cluster.server.clone(), tell).map_err(|answer| {
        anyhow!("the cluster {} does not serve {} ({})", cluster.name, operator.resource, answer.code)
    })?;
    spawn(tasks, player.run());
    Ok(())
}

/// Hands each reload on to the engine, and reports what becomes of it.
async fn hand_on_reloads(
    mut reloads: mpsc::Receiver<Reload>,
    engine: mpsc::Sender<Reload>,
    news: UnboundedSender<News>,
) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    while let Some(reload) = reloads.recv().await {
        // Schemas and objects may lie among the mappings here. What is in a file of ours is for the engine to judge, also where
        // nothing of ours is in it any more: an empty file is no removal.
        let mut ours = (*reload.files).clone();
        ours.readable.retain(|path, content| known.contains(path) || inputs::is_ours(content));
        known = ours.readable.keys().cloned().collect();
        let (handed_on, outcome) = Reload::new(Arc::new(ours));
        if engine.send(handed_on).await.is_err() {
            return;
        }
        // Without an answer, the reloader gets none either.
        if let Ok(outcome) = outcome.await {
            reload.answer(outcome.clone());
            // The receiver may have stopped.
            let _ = news.send(News::Reload(outcome));
        }
    }
}

fn settings(stage: &Stage) -> anyhow::Result<Settings> {
    let clusters = stage.scene.clusters.iter().map(|member| (member.connection.as_str(), member.name.as_str()));
    let connections: BTreeMap<String, Arc<Connection>> = [("kcp", "provider")]
        .into_iter()
        .chain(clusters)
        .map(|(name, context)| {
            let source =
                ConnectionSource::Kubeconfig { path: stage.own_kubeconfig.clone(), context: Some(context.to_owned()) };
            Ok((name.to_owned(), Connection::open(ConnectionSpec { name: name.to_owned(), source })?))
        })
        .collect::<anyhow::Result<_>>()?;
    // The same checks as `validate` and `run` make: a visitor's edit is accepted here if it is accepted there.
    let schemas = stage.schemas.clone();
    Ok(Settings {
        engine: DEFAULT_ENGINE.to_owned(),
        inventory_namespace: DEFAULT_NAMESPACE.to_owned(),
        home: DEFAULT_TARGET.to_owned(),
        connections,
        schemas,
        ..Settings::default()
    })
}
