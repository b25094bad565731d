//! The engine's own HTTP: two listeners, each with its own readers.
//!
//! * [`probes`] is for the kubelet and Prometheus: `/healthz`, `/readyz`, `/metrics`. It names no tenant and changes
//!   nothing.
//! * [`console`] is for people, on loopback by default: the status page, `/readyz` with its reasons, and the one
//!   request that asks for anything to be done, `POST /-/reload`. [`access`] keeps web pages of other sites away from it.
//!
//! Both answer from shared handles ([`Instruments`]) and hold no state of their own.

mod access;
pub mod api;
pub mod changes;
mod listener;
pub mod metrics;
pub(crate) mod process;
pub mod status;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub use access::{HostName, Hosts};
pub use listener::Listener;
pub use metrics::Metrics;
pub use status::StatusPage;

use crate::health::{self, Health};
use crate::reload::{Outcome, ReloadHandle};

/// What the engine reports through: cheap handles, shared by whoever has something to say.
#[derive(Debug, Clone, Default)]
pub struct Instruments {
    pub metrics: Metrics,
    pub health: Health,
    pub status: StatusPage,
    pub changes: changes::Changes,
}

/// What the kubelet and Prometheus ask.
pub fn probes(instruments: Instruments) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics_text))
        .with_state(instruments)
}

/// What people ask. `hosts` are the names by which their browsers may call it.
pub fn console(instruments: Instruments, reload: ReloadHandle, hosts: Hosts) -> Router {
    Router::new()
        .route("/", get(status_page))
        .route("/readyz", get(readiness_with_reasons))
        .route("/-/reload", post(reload_mappings))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/sources", get(api::sources))
        .route("/api/v1/sources/{*key}", get(api::source))
        .route("/api/v1/changes", get(api::changes))
        .route("/api/v1/objects/{*key}", get(api::object))
        .with_state(Shared { instruments, reload })
        .layer(middleware::from_fn_with_state(hosts, access::check))
}

#[derive(Clone)]
struct Shared {
    instruments: Instruments,
    reload: ReloadHandle,
}

async fn status_page(State(shared): State<Shared>) -> String {
    let Instruments { health, status, .. } = &shared.instruments;
    status::render(&status.latest(), &health.standings())
}

/// Alive: the process answers. What it waits for is readiness, and no reason to restart it.
async fn healthz() -> &'static str {
    "ok\n"
}

/// How many conditions are wrong. Which, and why, may name a tenant: that is for the console.
async fn readiness(State(instruments): State<Instruments>) -> (StatusCode, String) {
    let standings = instruments.health.standings();
    let report = health::report(&standings, false);
    (readiness_code(&standings), report.lines().last().map(|line| format!("{line}\n")).unwrap_or_default())
}

async fn readiness_with_reasons(State(shared): State<Shared>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let standings = shared.instruments.health.standings();
    // As Kubernetes' own `/readyz` takes it: with or without a value.
    let is_verbose = |pair: &str| pair == "verbose" || pair.starts_with("verbose=");
    (readiness_code(&standings), health::report(&standings, query.unwrap_or_default().split('&').any(is_verbose)))
}

fn readiness_code(standings: &[health::Standing]) -> StatusCode {
    let ready = standings.iter().all(|standing| standing.condition.level != health::Level::Waiting);
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn metrics_text(State(instruments): State<Instruments>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = metrics::Format::among(accepted);
    match instruments.metrics.encode(format) {
        Ok(body) => ([(header::CONTENT_TYPE, format.content_type())], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn reload_mappings(State(shared): State<Shared>) -> (StatusCode, String) {
    match shared.reload.reload().await {
        Some(Outcome { accepted: true, text }) if text.is_empty() => (StatusCode::OK, "nothing changes\n".to_owned()),
        Some(Outcome { accepted: true, text }) => (StatusCode::OK, format!("{text}\n")),
        Some(Outcome { accepted: false, text }) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{text}\n")),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the engine is shutting down\n".to_owned()),
    }
}

#[cfg(test)]
mod tests;
