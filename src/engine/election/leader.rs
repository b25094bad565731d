//! Leader election, as client-go does it: who holds the Lease writes.
//!
//! Beyond client-go: where the Lease is missing, its holder may still be writing. Whoever creates it waits for a renew
//! deadline before it writes.

use std::time::Duration;

use tokio::time::Instant;
use tracing::info;

use super::record::{Record, Seen, holder, transitions};
use super::{Election, no_later};
use crate::health::Condition;
use crate::multicluster::request_error::RequestError;

/// What a candidate knows.
#[derive(Debug)]
pub struct Candidate {
    seen: Option<Seen>,
    /// Of the time for which this replica holds it: when it may write at the earliest. Set when it takes the Lease, and kept
    /// by renewals.
    from: Instant,
    /// When that time ends, if the Lease is not renewed before.
    until: Instant,
}

impl Default for Candidate {
    fn default() -> Self {
        Self { seen: None, from: Instant::now(), until: Instant::now() }
    }
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

/// What came of it.
enum Outcome {
    Leads,
    Waits { until: Instant },
}

impl Candidate {
    /// The Lease, if this replica holds it.
    pub fn own(&self, replica: &str) -> Option<&Record> {
        self.seen.as_ref().map(|seen| &seen.record).filter(|record| holder(record) == replica)
    }

    /// Who writes, as far as this replica knows: it does itself once it may, which can be after it has taken the Lease.
    pub fn leader(&self, replica: &str, may_write: bool) -> &str {
        let holder = self.seen.as_ref().map(|seen| holder(&seen.record)).unwrap_or_default();
        if holder == replica && !may_write { "" } else { holder }
    }

    fn note(&mut self, record: Record) {
        self.seen = Some(Seen::after(self.seen.take(), record, Instant::now()));
    }
}

impl Election {
    /// One attempt: the condition that it leaves, and when to try again.
    pub(super) async fn stand(&self, candidate: &mut Candidate, soon: Duration) -> (Condition, Duration) {
        let (sent, retry) = (Instant::now(), self.terms.retry_period);
        let outcome = match self.run_for(candidate).await {
            Ok(outcome) => outcome,
            Err(error) => return (self.failed(&error), soon),
        };
        let seen = candidate.seen.as_ref().map(|seen| &seen.record);
        match outcome {
            Outcome::Leads => {
                candidate.until = sent + self.terms.renew_deadline;
                let is_early = candidate.from > Instant::now();
                if !is_early {
                    self.lead(candidate.until, seen.map_or(0, transitions));
                }
                let condition = Condition::ready(match self.shared.lease.is_held() {
                    true => "this replica leads",
                    false => "this replica leads soon: the last holder of the Lease may still be writing",
                });
                (condition, if is_early { no_later(retry, candidate.from) } else { retry })
            }
            Outcome::Waits { until } => {
                self.stand_back("another replica leads");
                let leader = seen.map(holder).unwrap_or_default();
                (Condition::ready(format!("standby: `{leader}` leads")), no_later(soon, until))
            }
        }
    }

    fn lead(&self, until: Instant, transitions: i32) {
        if !self.shared.lease.is_held() {
            info!(replica = self.terms.replica, "leads: this replica writes from now on");
        }
        self.shared.lease.take(Some(until), Some(transitions));
    }

    /// One look at the Lease, or one write where this replica holds it. A write that conflicts is decided on anew, once.
    ///
    /// A Lease that names this replica although it did not know is of an earlier state of the server, or the answer of its
    /// own write was lost. Another replica may have led since then, and be writing. The same where its term has ended, and where
    /// the server is at an earlier state in which nobody held the Lease.
    async fn run_for(&self, candidate: &mut Candidate) -> Result<Outcome, RequestError> {
        let was_mine = candidate.own(&self.terms.replica).is_some() && Instant::now() < candidate.until;
        let mut must_look = !was_mine;
        loop {
            if must_look {
                match self.get().await? {
                    Some(record) => candidate.note(record),
                    None => return self.create(candidate, was_mine).await,
                }
            }
            let Some(known) = &candidate.seen else { return Ok(Outcome::Waits { until: Instant::now() }) };
            let is_restored = known.is_restored;
            let (record, is_taken) = match decide(known, &self.terms.replica, Instant::now()) {
                Decision::Wait(until) => return Ok(Outcome::Waits { until }),
                Decision::Renew => (self.renewed(&known.record), false),
                Decision::Take => (self.taken(&known.record), true),
            };
            match self.put(&record).await {
                Ok(stored) => {
                    candidate.note(stored);
                    if is_taken && (was_mine || !is_restored) {
                        candidate.from = Instant::now();
                    } else if !was_mine {
                        candidate.from = Instant::now() + self.terms.renew_deadline;
                    }
                    return Ok(Outcome::Leads);
                }
                // Somebody else wrote or deleted it, or an earlier write took effect whose answer was lost.
                Err(error) if !must_look && (error.code() == Some(409) || error.code() == Some(404)) => {
                    must_look = true
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates a missing Lease. Somebody may have deleted it while its holder writes.
    async fn create(&self, candidate: &mut Candidate, was_mine: bool) -> Result<Outcome, RequestError> {
        let is_new = self.store().ensure_namespace().await?;
        // Who deletes the Lease does not make its epochs begin anew, as long as a replica remembers it.
        let spec = candidate.seen.as_ref().and_then(|seen| seen.record.spec.clone());
        match self.post(spec).await {
            Ok(stored) => {
                // In a namespace that was missing, no other replica had one.
                let is_first = is_new && candidate.seen.is_none();
                if !was_mine && !is_first {
                    candidate.from = Instant::now() + self.terms.renew_deadline;
                }
                candidate.note(stored);
                Ok(Outcome::Leads)
            }
            // Another replica was faster.
            Err(error) if error.is_already_exists() => {
                candidate.seen = None;
                Ok(Outcome::Waits { until: Instant::now() })
            }
            Err(error) => Err(error),
        }
    }
}

fn decide(seen: &Seen, replica: &str, now: Instant) -> Decision {
    match holder(&seen.record) {
        "" => Decision::Take,
        holder if holder == replica => Decision::Renew,
        _ if now >= seen.ends() => Decision::Take,
        _ => Decision::Wait(seen.ends()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn a_lease_whose_version_goes_back_is_of_a_server_that_was_restored() {
        let mut candidate = Candidate::default();
        let mut is_restored = |holder: &str, version: &str| {
            candidate.note(record(holder, 15, version));
            candidate.seen.as_ref().is_some_and(|seen| seen.is_restored)
        };
        let seen = [("other", "7"), ("other", "9"), ("", "4"), ("", "4"), ("other", "12")];
        assert_eq!(seen.map(|(holder, version)| is_restored(holder, version)), [false, false, true, true, false]);
    }

    #[test]
    fn a_replica_that_holds_the_lease_leads_once_it_may_write() {
        let mut candidate = Candidate::default();
        assert_eq!(candidate.leader("me", false), "");
        candidate.note(record("me", 15, "1"));
        assert_eq!([false, true].map(|may_write| candidate.leader("me", may_write)), ["", "me"]);
        candidate.note(record("other", 15, "2"));
        assert_eq!(candidate.leader("me", false), "other");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_runs_out_by_the_clock_of_who_looks_and_from_the_last_change_that_it_saw() {
        let (mut candidate, start) = (Candidate::default(), Instant::now());
        candidate.note(record("other", 15, "1"));
        let decision = |candidate: &Candidate| decide(candidate.seen.as_ref().unwrap(), "me", Instant::now());
        assert_eq!(decision(&candidate), Decision::Wait(start + Duration::from_secs(15)));
        tokio::time::advance(Duration::from_secs(14)).await;
        candidate.note(record("other", 15, "1"));
        assert_eq!(decision(&candidate), Decision::Wait(start + Duration::from_secs(15)), "it is as it was");
        candidate.note(record("other", 15, "2"));
        assert_eq!(decision(&candidate), Decision::Wait(start + Duration::from_secs(29)), "it was renewed");
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(decision(&candidate), Decision::Take);
        candidate.note(record("me", 15, "3"));
        assert_eq!(decision(&candidate), Decision::Renew);
        candidate.note(record("", 1, "4"));
        assert_eq!(decision(&candidate), Decision::Take, "handed back");
    }
}
