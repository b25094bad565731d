//! `sync-engine run`: wires the engine to the world outside and keeps it running until a signal.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::signals::{StopSignals, hangups};
use super::{Misconfigured, RunOptions, connections, inputs, limits};
use crate::engine::clock::Clock;
use crate::engine::{self, Settings};
use crate::multicluster::connection::Process;
use crate::multicluster::environment::CustomProviders;
use crate::reload::Reloader;
use crate::server::api::Status;
use crate::server::{self, Instruments, Listener};

/// Runs until the engine has drained after the first signal.
///
/// # Errors
/// [`Misconfigured`] when something that the command line names is wrong; anything else is a failure.
pub(super) async fn run(options: RunOptions, custom_providers: CustomProviders) -> anyhow::Result<()> {
    let replica = options.election.as_ref().map(|terms| terms.replica.as_str().into());
    let budget = limits::budget(options.max_watches, options.max_memory);
    let process = Process { replica, budget, machine: Arc::new(options.machine.clone()) };
    let connections = connections::open(options.connections.clone(), &process)?;
    let (schemas, findings) = inputs::schemas(options.schemas.as_deref(), std::slice::from_ref(&options.mappings))?;
    findings.iter().for_each(|finding| warn!("{}", finding.render(false)));
    let instruments = Instruments::default();
    instruments.metrics.set_engine(&options.engine_id);
    instruments.status.publish(Status { engine: options.engine_id.clone(), ..Status::default() });
    let (reloader, reload, reloads) =
        Reloader::open(&options.mappings, instruments.health.clone()).map_err(Misconfigured::from)?;
    if reloader.files().readable.is_empty() {
        let directory = options.mappings.display();
        warn!(%directory, "no *.yaml or *.yml in the mappings directory yet: waiting for the first one");
    }

    let mut signals = StopSignals::listen().context("cannot listen for signals")?;
    let hangups = hangups(reload.clone()).context("cannot listen for signals")?;
    let drain = CancellationToken::new();
    // Beside the engine run its servants; they stop after it, and are never left behind.
    let mut servants = JoinSet::new();
    let stopped = CancellationToken::new();
    let probes = server::probes(instruments.clone());
    let console = server::console(instruments.clone(), reload, options.console_hosts.clone().into());
    for (flag, address, router) in [("probes", options.probes, probes), ("console", options.console, console)] {
        let Some(address) = address else { continue };
        let address = serve(&mut servants, address, router, &stopped).await.with_context(|| {
            format!("cannot listen on {address}; give another address with --{flag}, or `--{flag} off` for none")
        })?;
        info!(what = flag, %address, "listening");
    }
    servants.spawn(flatten(hangups));
    servants.spawn(follow(reloader, drain.clone(), stopped.clone()));

    tell_start(&options);
    let settings = Settings {
        engine: options.engine_id,
        inventory_namespace: options.state_namespace,
        home: options.home,
        connections,
        process,
        schemas,
        clock: Clock::default(),
        election: options.election,
        custom_providers,
        events: options.events,
    };
    tokio::select! {
        () = engine::run(settings, reloads, instruments, drain.clone()) => {}
        result = failed(&mut servants) => result?,
        () = signals.second(&drain) => bail!("stopped by a second signal, before what was under way had ended"),
    }
    stopped.cancel();
    info!("stopped");
    Ok(())
}

/// The first line of a log: who runs, as what, and within which limits.
fn tell_start(options: &RunOptions) {
    let connections: Vec<&str> = options.connections.keys().map(String::as_str).collect();
    let election = options.election.as_ref();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("SYNC_ENGINE_COMMIT"),
        engine = options.engine_id,
        replica = election.map(|terms| terms.replica.as_str()),
        election = if election.is_some() { "lease" } else { "none" },
        mappings = %options.mappings.display(),
        connections = connections.join(" "),
        home = options.home,
        max_watches = options.max_watches,
        max_memory = options.max_memory,
        "running",
    );
}

/// Starts to answer at an address until `stopped`; gives the address that was bound.
pub(super) async fn serve(
    servants: &mut JoinSet<anyhow::Result<()>>,
    address: SocketAddr,
    router: Router,
    stopped: &CancellationToken,
) -> io::Result<SocketAddr> {
    let listener = Listener::bind(address).await?;
    let address = listener.address();
    servants.spawn(flatten(listener.run(router, stopped.clone())));
    Ok(address)
}

async fn follow(reloader: Reloader, drain: CancellationToken, stopped: CancellationToken) -> anyhow::Result<()> {
    reloader.run(drain).await;
    // An end is a failure to `failed`; this one was asked for.
    stopped.cancelled().await;
    Ok(())
}

async fn flatten(servant: impl Future<Output = io::Result<()>>) -> anyhow::Result<()> {
    Ok(servant.await?)
}

/// Waits for a servant to fail. Cancel-safe, as `join_next` is.
pub(super) async fn failed(servants: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    match servants.join_next().await {
        Some(Ok(Ok(()))) => bail!("a part of the program ended before the engine did"),
        Some(Ok(Err(error))) => Err(error),
        Some(Err(panic)) => Err(panic.into()),
        None => std::future::pending().await,
    }
}
