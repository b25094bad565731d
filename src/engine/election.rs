//! Which replica writes, agreed on by a Lease of coordination.k8s.io.
//!
//! One Lease, as client-go's package `leaderelection` has it: who holds it writes, the other replicas watch along and wait
//! ([`leader`]).
//!
//! A replica trusts no clock but its own: a Lease has run out once this replica saw it unchanged for as long as it lasts. A
//! replica stops writing a renew deadline after the *sending* of its last successful renewal, which is before any other
//! replica can take over.

mod leader;
mod record;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Shared;
use super::inventory::Inventories;
use crate::health::Condition;
use crate::multicluster::backoff::Jitter;
use crate::multicluster::connection::Connection;
use crate::multicluster::request_error::RequestError;
pub use record::leaders_lease;

use leader::Candidate;
use record::Record;

/// The condition of leader election in readiness.
pub const COMPONENT: &str = "leader election";

/// The terms on which the replicas of one engine agree on who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The name of this replica, which no other has.
    pub replica: String,
    /// How long a replica waits after the last renewal that it saw before it takes over.
    pub lease_duration: Duration,
    /// How long a replica goes on without a renewal.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

/// A replica among others.
#[derive(Debug, Clone)]
pub struct Election {
    pub terms: Terms,
    /// The cluster of the Lease, which is in the namespace of the state store. Its address may change.
    pub home: Arc<Connection>,
    pub shared: Arc<Shared>,
}

impl Terms {
    /// # Errors
    /// What is wrong: the same as client-go checks.
    pub fn check(&self) -> Result<(), String> {
        let seconds = |duration: Duration| duration.as_secs_f64();
        if self.lease_duration.as_secs() < 1 || self.retry_period.is_zero() {
            return Err("a Lease lasts a second at least, and the retry period is not zero".to_owned());
        }
        if self.renew_deadline >= self.lease_duration {
            return Err(format!(
                "the renew deadline ({} s) must be shorter than the lease duration ({} s)",
                seconds(self.renew_deadline),
                seconds(self.lease_duration)
            ));
        }
        if self.retry_period.mul_f64(1.2) >= self.renew_deadline {
            return Err(format!(
                "the retry period ({} s) must be shorter than the renew deadline ({} s) by a fifth at least",
                seconds(self.retry_period),
                seconds(self.renew_deadline)
            ));
        }
        Ok(())
    }

    /// What the Lease says: whole seconds, and no fewer than it lasts. Others take over by that.
    fn lease_seconds(&self) -> Option<i32> {
        i32::try_from(self.lease_duration.as_millis().div_ceil(1000)).ok()
    }
}

impl Election {
    /// Takes part until told to stop, and then hands the Lease back.
    pub async fn run(self, stop: CancellationToken) {
        let mut jitter = Jitter::new(self.home.entropy());
        let mut candidate = Candidate::default();
        loop {
            // Sooner than a replica renews: a renewal is seen within a second, and so is a Lease that was handed back.
            let soon = self.terms.retry_period.mul_f64(0.3 + 0.15 * jitter.unit());
            let (condition, pause) = self.stand(&mut candidate, soon).await;
            let leader = candidate.leader(&self.terms.replica, self.shared.lease.is_held());
            self.shared.instruments.status.set_leader(&self.terms.replica, leader);
            self.shared.instruments.health.set(COMPONENT, condition);
            // Cancel-safe: a timer, and a token that stays cancelled.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = sleep(pause) => {}
            }
        }
        self.stand_back("it stops");
        if let Some(own) = candidate.own(&self.terms.replica) {
            self.hand_back(own).await;
        }
    }

    /// The Lease could not be read or written. What this replica may do, it may do until its time is over.
    fn failed(&self, error: &RequestError) -> Condition {
        if !self.shared.lease.is_held() {
            self.stand_back("the Lease could not be renewed in time");
        }
        Condition::waiting(format!("the Lease {} cannot be kept: {error}", self.name()))
    }

    fn stand_back(&self, why: &str) {
        if self.shared.lease.lose() {
            warn!(replica = self.terms.replica, %why, "leads no more; nothing is written until it leads again");
        }
    }

    /// Hands the Lease back, so that other replicas need not wait until it runs out.
    async fn hand_back(&self, own: &Record) {
        match self.put(&self.handed_back(own)).await {
            Ok(_) => info!(replica = self.terms.replica, "handed the Lease back"),
            Err(error) => warn!(%error, "the Lease could not be handed back; it runs out by itself"),
        }
    }

    fn store(&self) -> Inventories {
        self.shared.inventories(self.home.endpoint())
    }
}

/// Who holds a Lease of an engine, in words. `None`: nobody, or each holder let it run out. `is_sure`: no clock but this
/// process's own is trusted to say that one has run out, which takes as long as a Lease lasts.
pub async fn holder(store: &Inventories, is_sure: bool) -> Result<Option<String>, RequestError> {
    let listed = async || {
        let listed = record::list(store).await?;
        Ok::<_, RequestError>(listed.into_iter().filter(|one| !record::holder(one).is_empty()).collect::<Vec<_>>())
    };
    let name = |one: &Record| one.metadata.name.clone().unwrap_or_default();
    let words = |one: &Record| format!("`{}` holds the Lease {}/{}", record::holder(one), store.namespace, name(one));
    let before = listed().await?;
    let now = Timestamp::now();
    if let Some(current) = before.iter().find(|one| record::is_current(one, now)) {
        return Ok(Some(words(current)));
    }
    let Some(longest) = before.iter().map(record::lasts).max().filter(|_| is_sure) else { return Ok(None) };
    sleep(longest).await;
    let is_as_before = |one: &Record| before.iter().any(|other| other.metadata == one.metadata);
    Ok(listed().await?.iter().find(|one| !is_as_before(one)).map(words))
}

/// Deletes the Leases of an engine that nobody runs any more.
pub async fn remove(store: &Inventories) -> Result<(), RequestError> {
    for record in record::list(store).await? {
        record::delete(store, &record).await?;
    }
    Ok(())
}

/// Until then, and at least that long.
fn no_later(pause: Duration, until: Instant) -> Duration {
    pause.min(until.saturating_duration_since(Instant::now()))
}
