//! The right to write: granted before a reconcile begins, asked for again at the moment a request leaves.
//!
//! A request may wait for minutes between the plan that wanted it and the moment it is sent: for a slot, for a pause that
//! the server asked for, for a credential. Whatever ends the right meanwhile advances an [`Epoch`], and a request whose
//! [`Permit`] is of an earlier one is never sent.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A number that advances whenever what was known before may no longer hold.
#[derive(Debug, Clone, Default)]
pub struct Epoch {
    now: watch::Sender<u64>,
    bell: Arc<Notify>,
}

impl Epoch {
    pub fn now(&self) -> u64 {
        *self.now.borrow()
    }

    pub fn advance(&self) {
        self.now.send_modify(|now| *now += 1);
        self.bell.notify_waiters();
    }

    /// Advances unless somebody has done so since it was `known`.
    pub fn advance_from(&self, known: u64) {
        let is_advanced = self.now.send_if_modified(|now| {
            let is_known = *now == known;
            *now += u64::from(is_known);
            is_known
        });
        if is_advanced {
            self.bell.notify_waiters();
        }
    }

    /// To wait for the next one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.now.subscribe()
    }

    /// The same for many: they are woken in the order in which they wait.
    pub fn follow(&self) -> Follower {
        Follower { known: self.now(), epoch: self.clone() }
    }

    /// The right to write for as long as the epoch lasts.
    pub fn permit(&self) -> Permit {
        Permit { epoch: self.clone(), granted: self.now(), term: Term::default() }
    }
}

/// Who waits for the end of an epoch.
#[derive(Debug)]
pub struct Follower {
    epoch: Epoch,
    known: u64,
}

impl Follower {
    /// The number now, which counts as known.
    pub fn catch_up(&mut self) -> u64 {
        self.known = self.epoch.now();
        self.known
    }

    /// Whether it has advanced since it was known.
    pub fn is_behind(&self) -> bool {
        self.epoch.now() != self.known
    }

    /// Returns when it has, and counts that as known. Cancel-safe.
    pub async fn advanced(&mut self) {
        loop {
            // Enabled before the look, so that an advance in between wakes it.
            let mut rung = std::pin::pin!(self.epoch.bell.notified());
            rung.as_mut().enable();
            if self.is_behind() {
                break;
            }
            rung.await;
        }
        self.catch_up();
    }
}

/// The right to write within one epoch, and not beyond the term of a lease.
#[derive(Debug, Clone)]
pub struct Permit {
    epoch: Epoch,
    granted: u64,
    term: Term,
}

impl Permit {
    pub fn holds(&self) -> bool {
        self.epoch.now() == self.granted && self.term.lasts()
    }
}

/// Until when a lease counts; `None`: for ever. It is compared with the clock at the moment of each write, so that a process
/// that stood still sends nothing once it goes on.
#[derive(Debug, Clone, Default)]
struct Term(Arc<Mutex<Option<Instant>>>);

impl Term {
    fn lasts(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|until| Instant::now() < until)
    }

    fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// Whether this process may write at all. A single replica always may; one of several while it leads.
#[derive(Debug, Clone)]
pub struct Lease {
    /// How often the Lease had changed hands when this process took it.
    transitions: Arc<Mutex<Option<i32>>>,
    held: watch::Sender<bool>,
    term: Term,
    epoch: Epoch,
}

impl Default for Lease {
    fn default() -> Self {
        Self {
            transitions: Arc::default(),
            held: watch::Sender::new(true),
            term: Term::default(),
            epoch: Epoch::default(),
        }
    }
}

impl Lease {
    /// The lease of a replica that does not lead yet.
    pub fn of_standby() -> Self {
        Self { held: watch::Sender::new(false), ..Self::default() }
    }

    /// `None`: another process holds the lease.
    pub fn permit(&self) -> Option<Permit> {
        let permit = Permit { term: self.term.clone(), ..self.epoch.permit() };
        (*self.held.borrow() && permit.holds()).then_some(permit)
    }

    /// Whether permits are granted now.
    pub fn is_held(&self) -> bool {
        self.permit().is_some()
    }

    /// How often the Lease had changed hands when this process took it; `None`: there is no Lease. A request is sent with a
    /// permit of the same tenure or not at all, so whoever builds one may ask now.
    pub fn transitions(&self) -> Option<i32> {
        *self.transitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To wait until permits are granted, or end.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.held.subscribe()
    }

    /// Ends every permit, and grants none until the lease is [taken](Self::take).
    pub fn lose(&self) {
        self.epoch.advance();
        self.held.send_if_modified(|held| std::mem::replace(held, false));
    }

    /// Grants permits until then (`None`: until the lease is lost). Those of an earlier epoch stay void.
    pub fn take(&self, until: Option<Instant>, transitions: Option<i32>) {
        *self.transitions.lock().unwrap_or_else(PoisonError::into_inner) = transitions;
        self.term.set(until);
        self.held.send_if_modified(|held| !std::mem::replace(held, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_ends_with_its_epoch_and_a_later_lease_does_not_renew_it() {
        let lease = Lease::default();
        let first = lease.permit().expect("a single replica always holds the lease");
        assert!(first.holds());
        lease.lose();
        assert!(!first.holds() && lease.permit().is_none());
        lease.take(None, None);
        assert!(!first.holds() && lease.permit().is_some_and(|permit| permit.holds()));
    }

    #[tokio::test(start_paused = true)]
    async fn no_permit_outlives_the_term_of_its_lease() {
        let lease = Lease::of_standby();
        assert!(!lease.is_held());
        let term = std::time::Duration::from_secs(10);
        lease.take(Some(Instant::now() + term), None);
        let permit = lease.permit().expect("it leads");
        tokio::time::advance(term).await;
        assert!(!permit.holds() && !lease.is_held(), "before anybody noticed");
        lease.take(Some(Instant::now() + term), None);
        assert!(permit.holds(), "nobody else led in between");
    }

    #[test]
    fn who_learns_of_an_end_that_is_known_does_not_advance_the_epoch_again() {
        let epoch = Epoch::default();
        let known = epoch.now();
        epoch.advance_from(known);
        epoch.advance_from(known);
        assert_eq!(epoch.now(), known + 1);
    }
}
