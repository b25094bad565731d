//! `sync-engine run`: wires the engine to the world outside and keeps it running until a signal.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::arguments::RunArguments;
use super::signals::{StopSignals, hangups};
use super::{Misconfigured, connections, inputs, limits};
use crate::engine::clock::Clock;
use crate::engine::{self, Settings};
use crate::multicluster::budget::{Budget, Memory};
use crate::multicluster::connection::Process;
use crate::multicluster::directory::Reading;
use crate::multicluster::environment::CustomProviders;
use crate::reload::Reloader;
use crate::server::api::Status;
use crate::server::process::resident_memory;
use crate::server::{self, Instruments, Listener};

/// Runs until the engine has drained after the first signal.
///
/// # Errors
/// [`Usage`](super::Usage) when the arguments do not fit together, [`Misconfigured`] when something that the command line names
/// is wrong; anything else is a failure.
pub(super) async fn run(arguments: RunArguments, custom_providers: CustomProviders) -> anyhow::Result<()> {
    let machine = arguments.machine.given()?;
    let connections = arguments.connections.by_name()?;
    let election = arguments.election.terms(&arguments.state.home, &connections)?;
    let replica = election.as_ref().map(|terms| terms.replica.as_str().into());
    let (max_watches, max_memory) = limits::most(arguments.max_watches, arguments.max_memory);
    let memory = max_memory.map(|most| Memory { most, resident: resident_memory });
    let budget = Budget::new(max_watches, memory);
    let process = Process { replica, budget, machine: Arc::new(machine) };
    let mappings = arguments.mappings.unwrap_or_default();
    let instruments = Instruments::default();
    let (directory, schemas) = (mappings.clone(), arguments.schemas);
    let (of_process, health) = (process.clone(), instruments.health.clone());
    let (connections, (schemas, findings), (reloader, reload, reloads)) = read(move || {
        let connections = connections::open(connections, &of_process)?;
        let schemas = inputs::schemas(schemas.as_deref(), std::slice::from_ref(&directory))?;
        let reloader = Reloader::open(&directory, health).map_err(Misconfigured::from)?;
        Ok((connections, schemas, reloader))
    })
    .await?;
    findings.iter().for_each(|finding| warn!("{}", finding.render(false)));
    instruments.metrics.set_engine(&arguments.engine_id);
    instruments.status.publish(Status { engine: arguments.engine_id.clone(), ..Status::default() });
    if reloader.files().readable.is_empty() {
        let directory = mappings.display();
        warn!(%directory, "no *.yaml or *.yml in the mappings directory yet: waiting for the first one");
    }

    let mut signals = StopSignals::listen().context("cannot listen for signals")?;
    let hangups = hangups(reload.clone()).context("cannot listen for signals")?;
    let drain = CancellationToken::new();
    // Beside the engine run its servants; they stop after it, and are never left behind.
    let mut servants = JoinSet::new();
    let stopped = CancellationToken::new();
    let probes = server::probes(instruments.clone());
    let console = server::console(instruments.clone(), reload, arguments.console_host.into());
    for (flag, address, router) in [("probes", arguments.probes, probes), ("console", arguments.console, console)] {
        let Some(address) = address else { continue };
        let address = serve(&mut servants, address, router, &stopped).await.with_context(|| {
            format!("cannot listen on {address}; give another address with --{flag}, or `--{flag} off` for none")
        })?;
        info!(what = flag, %address, "listening");
    }
    servants.spawn(flatten(hangups));
    servants.spawn(follow(reloader, drain.clone(), stopped.clone()));

    let settings = Settings {
        engine: arguments.engine_id,
        inventory_namespace: arguments.state.state_namespace,
        home: arguments.state.home,
        connections,
        process,
        schemas,
        clock: Clock::default(),
        election,
        custom_providers,
        events: arguments.events,
    };
    // What a log begins with: who runs, as what, and within which limits.
    let election = settings.election.as_ref();
    let connections: Vec<&str> = settings.connections.keys().map(String::as_str).collect();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("SYNC_ENGINE_COMMIT"),
        engine = settings.engine,
        replica = election.map(|terms| terms.replica.as_str()),
        election = if election.is_some() { "lease" } else { "none" },
        mappings = %mappings.display(),
        connections = connections.join(" "),
        home = settings.home,
        max_watches,
        max_memory,
        "running",
    );
    tokio::select! {
        () = engine::run(settings, reloads, instruments, drain.clone()) => {}
        result = failed(&mut servants) => result?,
        () = signals.second(&drain) => bail!("stopped by a second signal, before what was under way had ended"),
    }
    stopped.cancel();
    info!("stopped");
    Ok(())
}

/// Reads what the command line names. A mount may hang.
async fn read<T: Send + 'static>(
    reading: impl FnOnce() -> Result<T, Misconfigured> + Send + 'static,
) -> Result<T, Misconfigured> {
    let what = "a kubeconfig, the mappings directory or a folder of schemas cannot be read";
    Reading::default().of(reading).await.map_err(|why| Misconfigured(format!("{what}: {why}")))?
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicluster::directory::PATIENCE;

    #[tokio::test(start_paused = true)]
    async fn a_mount_that_hangs_ends_the_start_with_the_reason() {
        let (answer, answered) = std::sync::mpsc::channel::<()>();
        let hang = read(move || answered.recv().map_err(|error| Misconfigured(error.to_string())));
        let (hangs, ()) = tokio::join!(hang, tokio::time::advance(PATIENCE));
        insta::assert_snapshot!(hangs.expect_err("no answer").0, @"a kubeconfig, the mappings directory or a folder of schemas cannot be read: its file system has not answered for 30 s");
        drop(answer);
    }
}
