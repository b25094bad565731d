//! The right to write: granted before a reconcile begins, asked for again at the moment a request leaves.
//!
//! A request may wait for minutes between the plan that wanted it and the moment it is sent: for a slot, for a pause that
//! the server asked for, for a credential. Whatever ends the right meanwhile advances an [`Epoch`], and a request whose
//! [`Permit`] is of an earlier one is never sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A number that advances whenever what was known before may no longer hold.
#[derive(Debug, Clone, Default)]
pub struct Epoch(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    now: AtomicU64,
    bell: Notify,
}

impl Epoch {
    pub fn now(&self) -> u64 {
        self.0.now.load(Ordering::SeqCst)
    }

    pub fn advance(&self) {
        self.0.now.fetch_add(1, Ordering::SeqCst);
        self.0.bell.notify_waiters();
    }

    /// Advances unless somebody has done so since it was `known`.
    pub fn advance_from(&self, known: u64) {
        if self.0.now.compare_exchange(known, known + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.0.bell.notify_waiters();
        }
    }

    /// To wait for the next one. Those who wait are woken in their order.
    pub fn follow(&self) -> Follower {
        Follower { known: self.now(), epoch: self.clone() }
    }

    /// The right to write for as long as the epoch lasts.
    pub fn permit(&self) -> Permit {
        Permit(Grant::Epoch { epoch: self.clone(), granted: self.now() })
    }
}

/// Who waits for the end of an epoch.
#[derive(Debug, Clone)]
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
            let mut rung = std::pin::pin!(self.epoch.0.bell.notified());
            rung.as_mut().enable();
            if self.is_behind() {
                break;
            }
            rung.await;
        }
        self.catch_up();
    }
}

/// The right to write, until something ends it.
#[derive(Debug, Clone)]
pub struct Permit(Grant);

#[derive(Debug, Clone)]
enum Grant {
    /// Within one epoch.
    Epoch { epoch: Epoch, granted: u64 },
    /// Within one term of a lease.
    Term { lease: Lease, granted: u64 },
    /// Never.
    Nothing,
}

impl Permit {
    /// The right to look, and to write nothing.
    pub fn of_nothing() -> Self {
        Self(Grant::Nothing)
    }

    pub fn holds(&self) -> bool {
        match &self.0 {
            Grant::Epoch { epoch, granted } => epoch.now() == *granted,
            Grant::Term { lease, granted } => lease.is_held() && lease.number() == *granted,
            Grant::Nothing => false,
        }
    }
}

/// Whether this process may write. A single process always may; of several replicas, the one that holds the Lease.
#[derive(Debug, Clone)]
pub struct Lease {
    term: Arc<Mutex<Term>>,
    /// Advances with each term.
    terms: Epoch,
}

/// For as long as this process holds the lease without a break, or does not hold it.
#[derive(Debug)]
struct Term {
    is_granted: bool,
    /// Until when it is held; `None`: for ever. It is compared with the clock at the moment of each write, so that a process
    /// that stood still sends nothing once it goes on.
    until: Option<Instant>,
    /// How often the Lease had changed hands when this process took it.
    transitions: Option<i32>,
}

impl Term {
    fn is_held(&self) -> bool {
        self.is_granted && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// That of a single process.
impl Default for Lease {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Lease {
    fn new(is_granted: bool) -> Self {
        let term = Term { is_granted, until: None, transitions: None };
        Self { term: Arc::new(Mutex::new(term)), terms: Epoch::default() }
    }

    /// That of one of several replicas, which may not write yet.
    pub fn of_replica() -> Self {
        Self::new(false)
    }

    /// `None`: another process writes.
    pub fn permit(&self) -> Option<Permit> {
        let term = self.term.lock();
        term.is_held().then(|| Permit(Grant::Term { lease: self.clone(), granted: self.number() }))
    }

    /// Whether this process may write now.
    pub fn is_held(&self) -> bool {
        self.term.lock().is_held()
    }

    /// How often the Lease had changed hands when this process took it; `None`: there is no such Lease. A request is sent with
    /// a permit of the same term or not at all, so whoever builds one may ask now.
    pub fn transitions(&self) -> Option<i32> {
        self.term.lock().transitions
    }

    /// Counts the terms. What was learned in an earlier one may be outdated: another process may have written since.
    pub fn number(&self) -> u64 {
        self.terms.now()
    }

    /// To wait for another term.
    pub fn changes(&self) -> Follower {
        self.terms.follow()
    }

    /// Ends every permit, and grants none until the lease is taken again. `false`: it was not held.
    pub fn lose(&self) -> bool {
        let mut term = self.term.lock();
        let was_granted = std::mem::replace(&mut term.is_granted, false);
        if was_granted {
            self.terms.advance();
        }
        was_granted
    }

    /// Grants permits until then (`None`: until the lease is lost). Those of the present term go on.
    pub fn take(&self, until: Option<Instant>, transitions: Option<i32>) {
        let mut term = self.term.lock();
        // One that ended unnoticed goes on no more: another process may have written since.
        let goes_on = term.is_held();
        (term.is_granted, term.until, term.transitions) = (true, until, transitions);
        if !goes_on {
            self.terms.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_permit_lasts_as_long_as_its_lease_is_renewed_and_a_later_lease_does_not_renew_it() {
        let lease = Lease::default();
        let (first, number) = (lease.permit().expect("a single replica always holds the lease"), lease.number());
        lease.take(None, Some(1));
        assert!(first.holds() && lease.number() == number, "a renewal begins no term");
        assert!(lease.lose() && !lease.lose(), "it is lost once");
        assert_eq!((first.holds(), lease.number()), (false, number + 1));
        assert!(lease.permit().is_none());
        lease.take(None, None);
        assert!(!first.holds() && lease.permit().is_some_and(|permit| permit.holds()));
    }

    #[tokio::test(start_paused = true)]
    async fn no_permit_outlives_the_term_of_its_lease() {
        let lease = Lease::of_replica();
        assert!(!lease.is_held());
        let term = std::time::Duration::from_secs(10);
        lease.take(Some(Instant::now() + term), None);
        let permit = lease.permit().expect("it leads");
        tokio::time::advance(term).await;
        assert!(!permit.holds() && !lease.is_held(), "before anybody noticed");
        lease.take(Some(Instant::now() + term), None);
        assert!(!permit.holds(), "another may have led in between");
    }

    #[tokio::test]
    async fn what_changes_between_two_looks_is_not_waited_for() {
        let epoch = Epoch::default();
        let mut follower = epoch.follow();
        assert_eq!(follower.advanced().now_or_never(), None, "nothing has changed");
        epoch.advance();
        assert_eq!(follower.advanced().now_or_never(), Some(()));
        epoch.advance();
        follower.catch_up();
        assert_eq!(follower.advanced().now_or_never(), None, "it was seen");
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
