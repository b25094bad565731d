//! Sharding: each replica has a Lease of its own, and those that are alive divide the work.
//!
//! A replica *sees* who is alive in one consistent list of all Leases, which it reads after each renewal of its own. What it
//! sees counts until a renew deadline after that renewal was *sent*. Then it writes for what is its own by rendezvous hashing.
//!
//! Two replicas never write for one cluster at a time. Of two that see each other, the cluster is one's by both views. One sees
//! the other no more once that one handed its Lease back, or once it saw that Lease unchanged, or found it missing, for as long
//! as a Lease lasts: by then the other has stopped. And one that joins, or comes back after its Lease had run out or was
//! missing, waits for a renew deadline: by then every other replica has seen it or has stopped.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::members::Members;
use super::record::{self, Record, is_same_reign};
use super::{Attempt, Election, no_later};
use crate::health::Condition;
use crate::multicluster::request_error::RequestError;

/// What a replica knows.
#[derive(Debug, Default)]
pub struct Member {
    members: Members,
    own: Option<Own>,
    /// When Leases that nobody needs were deleted last.
    cleaned_up: Option<Instant>,
}

/// How often Leases that nobody needs are looked for.
const CLEAN_UP: Duration = Duration::from_secs(60);

/// The Lease of this replica.
#[derive(Debug)]
struct Own {
    record: Record,
    /// When its last renewal was sent.
    renewed: Instant,
    /// When the replica joined: since then, it renewed the Lease in time.
    joined: Instant,
    /// From when on it writes, once it is known who may not have seen it join.
    from: Option<Instant>,
}

impl Member {
    pub fn own(self) -> Option<Record> {
        self.own.map(|own| own.record)
    }
}

impl Election {
    pub(super) async fn take_part(&self, member: &mut Member, soon: Duration) -> Attempt {
        if let Err(error) = self.look(member).await {
            return self.failed(&error, soon);
        }
        let (now, leaders) = (Instant::now(), self.leaders_lease());
        let Some(own) = &mut member.own else {
            self.stand_back("its Lease is missing");
            return Attempt { condition: Condition::ready("the Lease of this replica is created anew"), pause: soon };
        };
        let pause = member.members.next_end(now).map_or(soon, |end| no_later(soon, end));
        if let Some(leader) = member.members.leader(&leaders, now) {
            self.stand_back("a replica with --leader-elect lease leads");
            let condition =
                Condition::ready(format!("`{leader}` leads, with --leader-elect lease: this replica waits"));
            return Attempt { condition, pause };
        }
        let (terms, view) = (&self.terms, member.members.view(&leaders, now));
        let longest = || member.members.longest(terms.lease_duration, terms.renew_deadline, now);
        let from = *own.from.get_or_insert_with(|| own.joined + longest());
        let all: Vec<&str> = view.replicas().collect();
        let all = all.join("`, `");
        if now < from {
            let why = "this replica serves its share soon: others may not have seen it yet";
            // A roll-out goes on once it serves.
            let condition = Condition::waiting(format!("{why}; alive are `{all}`"));
            return Attempt { condition, pause: no_later(pause, from) };
        }
        if self.lease.share(view, Some(own.renewed + terms.renew_deadline)) {
            info!(replica = terms.replica, replicas = all, "serves its share of the source clusters");
        }
        self.clean_up(member, now).await;
        Attempt { condition: Condition::ready(format!("this replica serves its share; alive are `{all}`")), pause }
    }

    /// Renews the Lease where it is time, and reads those of all replicas after that.
    async fn look(&self, member: &mut Member) -> Result<(), RequestError> {
        if member.own.as_ref().is_none_or(|own| own.renewed.elapsed() >= self.terms.retry_period) {
            self.renew(member).await?;
        }
        let listed = record::list(&self.store(), self.deadline()).await?;
        member.members.note(listed, Instant::now());
        let is_listed =
            |own: &Own| member.members.listed(&self.name()).is_some_and(|record| is_same_reign(record, &own.record));
        // Others do not see it.
        member.own = member.own.take().filter(is_listed);
        Ok(())
    }

    /// Renews the Lease, or takes part anew. A Lease that is of no reign that this replica knows was restored, or is of an
    /// earlier process of its name.
    async fn renew(&self, member: &mut Member) -> Result<(), RequestError> {
        member.own = member.own.take().filter(|own| self.is_in_time(own));
        if let Some(own) = &member.own {
            let sent = Instant::now();
            match self.put(&self.renewed(&own.record)).await {
                Ok(stored) => return self.has_renewed(member, stored, sent),
                // Somebody else wrote or deleted it, or an earlier renewal took effect whose answer was lost.
                Err(error) if error.code() == Some(409) || error.code() == Some(404) => {}
                Err(error) => return Err(error),
            }
        }
        let found = self.get().await?;
        let sent = Instant::now();
        let stored = match found {
            Some(found) => {
                let is_known = member.own.as_ref().is_some_and(|own| is_same_reign(&own.record, &found));
                self.put(&if is_known { self.renewed(&found) } else { self.taken(&found) }).await?
            }
            None => {
                self.store().ensure_namespace().await?;
                self.post(None).await?
            }
        };
        self.has_renewed(member, stored, sent)
    }

    fn has_renewed(&self, member: &mut Member, record: Record, sent: Instant) -> Result<(), RequestError> {
        // Others take over after the Lease has run out: an answer that comes after that renews nothing.
        let is_renewed = |own: &&Own| self.is_in_time(own) && is_same_reign(&own.record, &record);
        let goes_on = member.own.as_ref().filter(is_renewed).map(|own| (own.joined, own.from));
        if goes_on.is_none() {
            self.stand_back("its Lease had run out, or is another");
        }
        let (joined, from) = goes_on.unwrap_or((Instant::now(), None));
        member.own = Some(Own { record, renewed: sent, joined, from });
        Ok(())
    }

    fn is_in_time(&self, own: &Own) -> bool {
        own.renewed.elapsed() < self.terms.renew_deadline
    }

    /// Deletes the Leases of replicas that will not return. One that returns after all joins anew.
    async fn clean_up(&self, member: &mut Member, now: Instant) {
        let is_first = member.members.view(&self.leaders_lease(), now).replicas().next() == Some(&self.terms.replica);
        if !is_first || member.cleaned_up.is_some_and(|last| now < last + CLEAN_UP) {
            return;
        }
        member.cleaned_up = Some(now);
        for record in member.members.stale(now).filter(|record| record.metadata.name != Some(self.leaders_lease())) {
            let name = record.metadata.name.as_deref().unwrap_or_default();
            match self.delete(record).await {
                Ok(()) => info!(name, "deleted the Lease of a replica that is gone"),
                Err(error) => return warn!(name, %error, "the Lease of a replica that is gone could not be deleted"),
            }
        }
    }
}
