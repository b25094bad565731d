//! The right to write: granted before a reconcile begins, asked for again at the moment a request leaves.
//!
//! A request may wait for minutes between the plan that wanted it and the moment it is sent: for a slot, for a pause that
//! the server asked for, for a credential. Whatever ends the right meanwhile advances an [`Epoch`], and a request whose
//! [`Permit`] is of an earlier one is never sent.

use tokio::sync::watch;

/// A number that advances whenever what was known before may no longer hold.
#[derive(Debug, Clone, Default)]
pub struct Epoch(watch::Sender<u64>);

impl Epoch {
    pub fn now(&self) -> u64 {
        *self.0.borrow()
    }

    pub fn advance(&self) {
        self.0.send_modify(|now| *now += 1);
    }

    /// Advances unless somebody has done so since it was `known`.
    pub fn advance_from(&self, known: u64) {
        self.0.send_if_modified(|now| {
            let is_known = *now == known;
            *now += u64::from(is_known);
            is_known
        });
    }

    /// To wait for the next one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    /// The right to write for as long as the epoch lasts.
    pub fn permit(&self) -> Permit {
        Permit { epoch: self.clone(), granted: self.now() }
    }
}

/// The right to write within one epoch.
#[derive(Debug, Clone)]
pub struct Permit {
    epoch: Epoch,
    granted: u64,
}

impl Permit {
    pub fn holds(&self) -> bool {
        self.epoch.now() == self.granted
    }
}

/// Whether this process may write at all. A single replica always may.
#[derive(Debug, Clone)]
pub struct Lease {
    held: watch::Sender<bool>,
    epoch: Epoch,
}

impl Default for Lease {
    fn default() -> Self {
        Self { held: watch::Sender::new(true), epoch: Epoch::default() }
    }
}

impl Lease {
    /// `None`: another process holds the lease.
    pub fn permit(&self) -> Option<Permit> {
        let permit = self.epoch.permit();
        self.held.borrow().then_some(permit)
    }

    /// Ends every permit, and grants none until the lease is [taken](Self::take).
    pub fn lose(&self) {
        self.held.send_replace(false);
        self.epoch.advance();
    }

    /// Grants permits again. Those of an earlier epoch stay void.
    pub fn take(&self) {
        self.held.send_replace(true);
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
        lease.take();
        assert!(!first.holds() && lease.permit().is_some_and(|permit| permit.holds()));
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
