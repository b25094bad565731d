//! Leader election over a Lease of coordination.k8s.io, as client-go's package `leaderelection` does it: who holds the Lease
//! writes, the other replicas watch along and wait.
//!
//! A replica trusts no clock but its own: a Lease has run out once this replica saw it unchanged for as long as it lasts. The
//! leader stops writing a renew deadline after the *sending* of its last successful renewal, which is before any other
//! replica can take over.
//!
//! Beyond client-go: where the Lease is missing, its holder may still be writing. Whoever creates it waits for a renew
//! deadline before it writes.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use hyper::body::Bytes;
use k8s_openapi::api::coordination::v1::{Lease as Record, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::clock::Clock;
use super::inventory::Inventories;
use crate::health::{Condition, Health};
use crate::mapping::Resource;
use crate::multicluster::ApiPath;
use crate::multicluster::backoff::Jitter;
use crate::multicluster::connection::Connection;
use crate::multicluster::endpoint::Body;
use crate::multicluster::permit::Lease;
use crate::multicluster::request_error::RequestError;
use crate::object::marks::{MANAGED_BY, MANAGER};

/// The condition of leader election in readiness.
pub const COMPONENT: &str = "leader election";

/// How the replicas of one engine agree on who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The connection of the cluster that holds the Lease.
    pub home: String,
    /// The name of this replica, which no other has.
    pub replica: String,
    /// How long a replica waits after the last renewal that it saw before it takes over.
    pub lease_duration: Duration,
    /// How long the leader goes on without a renewal.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

/// A candidate for the Lease of an engine.
#[derive(Debug)]
pub struct Election {
    pub terms: Terms,
    pub engine: String,
    /// The namespace of the Lease: that of the state store.
    pub namespace: String,
    /// The cluster of the Lease. Its address may change.
    pub home: Arc<Connection>,
    pub clock: Clock,
    pub lease: Lease,
    pub health: Health,
}

/// The Lease as it was seen last.
#[derive(Debug, Clone)]
struct Seen {
    record: Record,
    /// When it was seen like this for the first time.
    since: Instant,
}

/// What one look at the Lease says.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// This replica holds it: renew it.
    Renew,
    /// Nobody holds it, or its holder let it run out.
    Take,
    /// Another replica holds it, at least until then.
    Wait(Instant),
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
}

/// A time for which this replica holds the Lease.
struct Tenure {
    /// When it may write at the earliest: set when it takes the Lease, and kept by renewals.
    from: Instant,
    /// When it ends, if the Lease is not renewed before.
    until: Instant,
}

/// How an attempt ended.
enum Attempt {
    Leads { from: Instant },
    Waits { until: Instant },
}

impl Election {
    /// Takes part until told to stop, and then hands the Lease back.
    pub async fn run(self, stop: CancellationToken) {
        let mut jitter = Jitter::new(self.home.entropy());
        let mut seen = None;
        let mut tenure = Tenure { from: Instant::now(), until: Instant::now() };
        loop {
            let (sent, retry) = (Instant::now(), self.terms.retry_period);
            let attempt = self.attempt(&mut seen, &mut tenure).await;
            if matches!(attempt, Ok(Attempt::Leads { .. })) {
                tenure.until = sent + self.terms.renew_deadline;
            }
            let pause = match &attempt {
                Ok(Attempt::Leads { from }) if *from > Instant::now() => retry.min(*from - Instant::now()),
                Ok(Attempt::Leads { .. }) => {
                    self.lead(tenure.until, seen.as_ref().map_or(0, |seen| transitions(&seen.record)));
                    retry
                }
                Ok(Attempt::Waits { until }) => {
                    self.look_again(&mut jitter).min(until.saturating_duration_since(Instant::now()))
                }
                Err(_) => self.look_again(&mut jitter),
            };
            self.report(&attempt, seen.as_ref());
            // Cancel-safe: a timer, and a token that stays cancelled.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = sleep(pause) => {}
            }
        }
        self.hand_back(seen).await;
    }

    /// Sooner than the leader renews: a renewal is seen within a second, and so is a Lease that was handed back.
    fn look_again(&self, jitter: &mut Jitter) -> Duration {
        self.terms.retry_period.mul_f64(0.3 + 0.15 * jitter.unit())
    }

    fn lead(&self, until: Instant, transitions: i32) {
        if !self.lease.is_held() {
            // Where its term ended unnoticed, what was dropped since then is looked at again.
            self.lease.lose();
            info!(replica = self.terms.replica, "leads: this replica writes from now on");
        }
        self.lease.take(Some(until), Some(transitions));
    }

    fn report(&self, attempt: &Result<Attempt, RequestError>, seen: Option<&Seen>) {
        let condition = match attempt {
            Ok(Attempt::Leads { .. }) if self.lease.is_held() => Condition::ready("this replica leads"),
            Ok(Attempt::Leads { .. }) => {
                Condition::ready("this replica leads soon: the last holder of the Lease may still be writing")
            }
            Ok(Attempt::Waits { .. }) => {
                self.stand_back("another replica leads");
                let leader = seen.map(|seen| holder(&seen.record)).unwrap_or_default();
                Condition::ready(format!("standby: `{leader}` leads"))
            }
            Err(error) => {
                if !self.lease.is_held() {
                    self.stand_back("the Lease could not be renewed in time");
                }
                Condition::waiting(format!("the Lease {} cannot be kept: {error}", self.name()))
            }
        };
        self.health.set(COMPONENT, condition);
    }

    fn stand_back(&self, why: &str) {
        let changes = self.lease.changes();
        if *changes.borrow() {
            warn!(replica = self.terms.replica, "leads no more: {why}; nothing is written until it leads again");
            self.lease.lose();
        }
    }

    /// One look at the Lease, or one write where this replica holds it. A write that conflicts is decided on anew, once.
    ///
    /// A Lease that names this replica although it did not know is of an earlier state of the server, or the answer of its
    /// own write was lost. Another replica may have led since then, and be writing. The same where its term has ended.
    async fn attempt(&self, seen: &mut Option<Seen>, tenure: &mut Tenure) -> Result<Attempt, RequestError> {
        let was_mine = self.is_mine(seen.as_ref()) && Instant::now() < tenure.until;
        let mut must_look = !was_mine;
        loop {
            if must_look {
                match self.get().await? {
                    Some(record) => note(seen, record),
                    None => return self.create(seen, was_mine, tenure).await,
                }
            }
            let Some(known) = seen.as_ref() else { return Ok(Attempt::Waits { until: Instant::now() }) };
            let (record, is_taken) = match decide(known, &self.terms.replica, Instant::now()) {
                Decision::Wait(until) => return Ok(Attempt::Waits { until }),
                Decision::Renew => (self.renewed(&known.record), false),
                Decision::Take => (self.taken(&known.record), true),
            };
            match self.put(&record).await {
                Ok(stored) => {
                    note(seen, stored);
                    if is_taken {
                        tenure.from = Instant::now();
                    } else if !was_mine {
                        tenure.from = Instant::now() + self.terms.renew_deadline;
                    }
                    return Ok(Attempt::Leads { from: tenure.from });
                }
                // Somebody else wrote or deleted it, or an earlier write took effect whose answer was lost.
                Err(error) if !must_look && (error.code() == Some(409) || error.code() == Some(404)) => {
                    must_look = true
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn is_mine(&self, seen: Option<&Seen>) -> bool {
        seen.is_some_and(|seen| holder(&seen.record) == self.terms.replica)
    }

    /// Creates a missing Lease. Somebody may have deleted it while its holder writes.
    async fn create(
        &self,
        seen: &mut Option<Seen>,
        was_mine: bool,
        tenure: &mut Tenure,
    ) -> Result<Attempt, RequestError> {
        let is_new = self.store().ensure_namespace().await?;
        let metadata = ObjectMeta {
            name: Some(self.name()),
            namespace: Some(self.namespace.clone()),
            labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let path = ApiPath::collection(&leases(), &self.namespace)?;
        // Who deletes the Lease does not make its epochs begin anew, as long as a replica remembers it.
        let spec = seen.as_ref().and_then(|seen| seen.record.spec.clone());
        match self.send(Method::POST, &path, &self.taken(&Record { metadata, spec })).await {
            Ok(stored) => {
                // In a namespace that was missing, no other replica had one.
                let is_first = is_new && seen.is_none();
                if !was_mine && !is_first {
                    tenure.from = Instant::now() + self.terms.renew_deadline;
                }
                note(seen, stored);
                Ok(Attempt::Leads { from: tenure.from })
            }
            // Another replica was faster.
            Err(error) if error.is_already_exists() => {
                *seen = None;
                Ok(Attempt::Waits { until: Instant::now() })
            }
            Err(error) => Err(error),
        }
    }

    /// Hands the Lease back, so that another replica need not wait until it runs out.
    async fn hand_back(&self, seen: Option<Seen>) {
        self.stand_back("it stops");
        let Some(Seen { mut record, .. }) = seen.filter(|seen| holder(&seen.record) == self.terms.replica) else {
            return;
        };
        let spec = record.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(self.clock.now()));
        match self.put(&record).await {
            Ok(_) => info!(replica = self.terms.replica, "handed the Lease back"),
            Err(error) => warn!(%error, "the Lease could not be handed back; it runs out by itself"),
        }
    }

    fn renewed(&self, record: &Record) -> Record {
        let mut record = record.clone();
        record.spec.get_or_insert_default().renew_time = Some(MicroTime(self.clock.now()));
        record
    }

    fn taken(&self, record: &Record) -> Record {
        let now = MicroTime(self.clock.now());
        let is_first = record.spec.is_none();
        let spec = LeaseSpec {
            holder_identity: Some(self.terms.replica.clone()),
            lease_duration_seconds: i32::try_from(self.terms.lease_duration.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(if is_first { 0 } else { transitions(record).saturating_add(1) }),
            ..LeaseSpec::default()
        };
        Record { spec: Some(spec), ..record.clone() }
    }

    fn store(&self) -> Inventories {
        Inventories { endpoint: self.home.endpoint(), engine: self.engine.clone(), namespace: self.namespace.clone() }
    }

    fn name(&self) -> String {
        format!("sync-engine-{}", self.engine)
    }

    fn path(&self) -> Result<ApiPath, RequestError> {
        Ok(ApiPath::object(&leases(), &self.namespace, &self.name())?)
    }

    async fn get(&self) -> Result<Option<Record>, RequestError> {
        let endpoint = self.home.endpoint();
        match endpoint.request(Method::GET, &self.path()?, None, self.deadline()).await {
            Ok(reply) => self.read(&reply.body).map(Some),
            Err(error) if error.is_not_found_of(&self.name()) || error.is_not_found_of(&self.namespace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn put(&self, record: &Record) -> Result<Record, RequestError> {
        self.send(Method::PUT, &self.path()?, record).await
    }

    async fn send(&self, method: Method, path: &ApiPath, record: &Record) -> Result<Record, RequestError> {
        let path = path.clone().query("fieldManager", MANAGER);
        let body = serde_json::to_vec(record).map_err(|error| self.unreadable(&error))?;
        let body = Body::json(Bytes::from(body));
        let reply = self.home.endpoint().request(method, &path, Some(body), self.deadline()).await?;
        self.read(&reply.body)
    }

    fn read(&self, body: &[u8]) -> Result<Record, RequestError> {
        serde_json::from_slice(body).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &serde_json::Error) -> RequestError {
        RequestError::Body { url: self.home.endpoint().url().to_owned(), reason: error.to_string() }
    }

    /// So that two attempts fit in a renew deadline.
    fn deadline(&self) -> Duration {
        self.terms.renew_deadline / 2
    }
}

fn leases() -> Resource {
    Resource { group: "coordination.k8s.io".into(), version: "v1".into(), plural: "leases".into() }
}

fn holder(record: &Record) -> &str {
    record.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// How often it changed hands: the epoch of its holder.
fn transitions(record: &Record) -> i32 {
    record.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default()
}

/// Remembers what was read, and since when it is so. By the version too: a leader whose clock stands still renews all the
/// same.
fn note(seen: &mut Option<Seen>, record: Record) {
    let version = |record: &Record| record.metadata.resource_version.clone();
    let is_same = |seen: &Seen| seen.record.spec == record.spec && version(&seen.record) == version(&record);
    let is_same = seen.as_ref().is_some_and(is_same);
    let since = seen.as_ref().filter(|_| is_same).map_or_else(Instant::now, |seen| seen.since);
    *seen = Some(Seen { record, since });
}

fn decide(seen: &Seen, replica: &str, now: Instant) -> Decision {
    let spec = seen.record.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
    let until = seen.since + Duration::from_secs(seconds.unsigned_abs().into());
    match holder(&seen.record) {
        "" => Decision::Take,
        holder if holder == replica => Decision::Renew,
        _ if now >= until => Decision::Take,
        _ => Decision::Wait(until),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, seconds: i32, version: &str) -> Record {
        Record {
            metadata: ObjectMeta { resource_version: Some(version.to_owned()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(seconds),
                ..LeaseSpec::default()
            }),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_by_the_clock_of_who_looks_and_from_the_last_change_that_it_saw() {
        let (mut seen, start) = (None, Instant::now());
        note(&mut seen, record("other", 15, "1"));
        let decision = |seen: &Option<Seen>| decide(seen.as_ref().unwrap(), "me", Instant::now());
        assert_eq!(decision(&seen), Decision::Wait(start + Duration::from_secs(15)));
        tokio::time::advance(Duration::from_secs(14)).await;
        note(&mut seen, record("other", 15, "1"));
        assert_eq!(decision(&seen), Decision::Wait(start + Duration::from_secs(15)), "it is as it was");
        note(&mut seen, record("other", 15, "2"));
        assert_eq!(decision(&seen), Decision::Wait(start + Duration::from_secs(29)), "it was renewed");
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(decision(&seen), Decision::Take);
        note(&mut seen, record("me", 15, "3"));
        assert_eq!(decision(&seen), Decision::Renew);
        note(&mut seen, record("", 1, "4"));
        assert_eq!(decision(&seen), Decision::Take, "handed back");
    }
}
