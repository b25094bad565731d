//! The engine's own HTTP server: health, metrics, a status page, reload and approval.
//!
//! It answers from shared handles ([`Instruments`]) and holds no state of its own. Nothing it answers shows a
//! consumer's data, for it asks nobody for a password.

mod approvals;
pub mod metrics;
pub(crate) mod process;
pub mod status;

use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use approvals::Approvals;
pub use metrics::Metrics;
pub use status::{Overview, StatusPage};

use crate::health::{self, Health};
use crate::reload::{Outcome, ReloadHandle};

/// How long a shutdown waits for answers that are under way.
const GRACE: Duration = Duration::from_secs(2);

/// What the engine reports through: cheap handles, shared by whoever has something to say.
#[derive(Debug, Clone, Default)]
pub struct Instruments {
    pub metrics: Metrics,
    pub health: Health,
    pub status: StatusPage,
    pub approvals: Approvals,
}

/// A bound port that does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
}

#[derive(Clone)]
struct Shared {
    instruments: Instruments,
    reload: ReloadHandle,
}

impl Server {
    /// Binds `address`; with port 0 the system chooses one, which [`Server::address`] then tells.
    pub async fn bind(address: SocketAddr, instruments: Instruments, reload: ReloadHandle) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, router: router(Shared { instruments, reload }) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown`, then lets what is under way end, for two seconds at most.
    pub async fn run(self, shutdown: CancellationToken) -> io::Result<()> {
        let stop = shutdown.clone().cancelled_owned();
        let serve = axum::serve(self.listener, self.router).with_graceful_shutdown(stop).into_future();
        let overdue = async {
            shutdown.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            result = serve => result,
            () = overdue => Ok(()),
        }
    }
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(status_page))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .route("/-/reload", post(reload))
        .route("/-/approve", post(approve))
        .with_state(shared)
}

async fn status_page(State(shared): State<Shared>) -> String {
    let Instruments { health, status, .. } = &shared.instruments;
    status::render(&status.latest(), &health.standings())
}

/// Alive: the process answers. What it waits for is readiness, and no reason to restart it.
async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(shared): State<Shared>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let standings = shared.instruments.health.standings();
    let ready = standings.iter().all(|standing| standing.condition.level != health::Level::Waiting);
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, health::report(&standings, is_verbose(query.as_deref())))
}

/// `?verbose`, as Kubernetes' own `/readyz` takes it: with or without a value.
fn is_verbose(query: Option<&str>) -> bool {
    query.unwrap_or_default().split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="))
}

async fn metrics_text(State(shared): State<Shared>) -> Response {
    match shared.instruments.metrics.encode() {
        Ok(body) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Releases deletions that follow from a changed or removed document and are held by `pruneGuard`.
async fn approve(State(shared): State<Shared>) -> (StatusCode, String) {
    match shared.instruments.approvals.approve().await {
        Some(approved) if approved.is_empty() => (StatusCode::OK, "nothing waits for approval\n".to_owned()),
        Some(approved) => (StatusCode::OK, format!("{}\n", approved.join("\n"))),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the engine is shutting down\n".to_owned()),
    }
}

async fn reload(State(shared): State<Shared>) -> (StatusCode, String) {
    match shared.reload.reload().await {
        Some(outcome) => (reload_status(&outcome), format!("{outcome}\n")),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the engine is shutting down\n".to_owned()),
    }
}

fn reload_status(outcome: &Outcome) -> StatusCode {
    if outcome.accepted { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }
}

#[cfg(test)]
mod tests;
