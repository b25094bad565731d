//! The right to write: granted before a reconcile begins, asked for again at the moment a request leaves.
//!
//! A request may wait for minutes between the plan that wanted it and the moment it is sent: for a slot, for a pause that
//! the server asked for, for a credential. Whatever ends the right meanwhile advances an [`Epoch`], and a request whose
//! [`Permit`] is of an earlier one is never sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::shares::{View, Work};

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
        Permit(Grant::Epoch { epoch: self.clone(), granted: self.now() })
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

/// The right to write, until something ends it.
#[derive(Debug, Clone)]
pub struct Permit(Grant);

#[derive(Debug, Clone)]
enum Grant {
    /// Within one epoch.
    Epoch { epoch: Epoch, granted: u64 },
    /// For a work, as long as it is this process's without a break.
    Work { lease: Lease, work: Named, since: u64 },
    /// Never.
    Nothing,
}

/// A work by its name.
#[derive(Debug, Clone)]
enum Named {
    Cluster(Arc<str>),
    Mapping(Arc<str>),
}

impl Permit {
    /// The right to look, and to write nothing.
    pub fn of_nothing() -> Self {
        Self(Grant::Nothing)
    }

    pub fn holds(&self) -> bool {
        match &self.0 {
            Grant::Epoch { epoch, granted } => epoch.now() == *granted,
            Grant::Work { lease, work, since } => lease.tenure().is_kept(work.borrowed(), *since),
            Grant::Nothing => false,
        }
    }
}

impl Named {
    fn borrowed(&self) -> Work<'_> {
        match self {
            Self::Cluster(identity) => Work::Cluster(identity),
            Self::Mapping(name) => Work::Mapping(name),
        }
    }
}

impl From<Work<'_>> for Named {
    fn from(work: Work<'_>) -> Self {
        match work {
            Work::Cluster(identity) => Self::Cluster(identity.into()),
            Work::Mapping(name) => Self::Mapping(name.into()),
        }
    }
}

/// How many views are remembered. A permit of an earlier one ends.
const REMEMBERED: usize = 16;

/// What this process may write for: everything, nothing, or its share of the work.
#[derive(Debug, Clone)]
pub struct Lease {
    tenure: Arc<Mutex<Tenure>>,
    /// The number of the present view.
    number: watch::Sender<u64>,
    /// Whether several replicas write, each its share.
    is_divided: bool,
}

#[derive(Debug)]
struct Tenure {
    /// The name of this process.
    replica: Arc<str>,
    /// Who shared the work, as this process saw it: the present view comes last.
    views: VecDeque<View>,
    /// The number of the present view.
    number: u64,
    /// Until when the present view counts; `None`: for ever. It is compared with the clock at the moment of each write, so that
    /// a process that stood still sends nothing once it goes on.
    until: Option<Instant>,
    /// How often the Lease had changed hands when this process took it.
    transitions: Option<i32>,
}

impl Tenure {
    fn view(&self) -> View {
        self.views.back().cloned().unwrap_or_default()
    }

    fn lasts(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    /// Whether a work is this process's now, and was in every view from this number on.
    fn is_kept(&self, work: Work<'_>, since: u64) -> bool {
        let views = usize::try_from(self.number - since).unwrap_or(usize::MAX).saturating_add(1);
        let is_own = |view: &View| view.owner(work) == Some(&*self.replica);
        views <= self.views.len() && self.lasts() && self.views.iter().rev().take(views).all(is_own)
    }

    fn see(&mut self, view: View) {
        self.number += 1;
        self.views.push_back(view);
        if self.views.len() > REMEMBERED {
            self.views.pop_front();
        }
    }
}

/// That of a single process.
impl Default for Lease {
    fn default() -> Self {
        Self::new("", View::from_iter([""]), false)
    }
}

impl Lease {
    fn new(replica: &str, view: View, is_divided: bool) -> Self {
        let tenure =
            Tenure { replica: replica.into(), views: [view].into(), number: 0, until: None, transitions: None };
        Self { tenure: Arc::new(Mutex::new(tenure)), number: watch::Sender::new(0), is_divided }
    }

    /// That of a replica which may not write yet.
    pub fn of_replica(name: &str, is_divided: bool) -> Self {
        Self::new(name, View::default(), is_divided)
    }

    fn tenure(&self) -> MutexGuard<'_, Tenure> {
        self.tenure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: another process does it.
    pub fn permit(&self, work: Work<'_>) -> Option<Permit> {
        let tenure = self.tenure();
        let since = tenure.number;
        tenure.is_kept(work, since).then(|| Permit(Grant::Work { lease: self.clone(), work: work.into(), since }))
    }

    /// Whether this process does a work now.
    pub fn owns(&self, work: Work<'_>) -> bool {
        let tenure = self.tenure();
        tenure.is_kept(work, tenure.number)
    }

    /// Who does a work, as this process sees it.
    pub fn owner(&self, work: Work<'_>) -> Option<String> {
        self.tenure().view().owner(work).map(str::to_owned)
    }

    /// Whether this process may write anything now.
    pub fn is_held(&self) -> bool {
        let tenure = self.tenure();
        tenure.lasts() && !tenure.view().is_empty()
    }

    pub fn is_divided(&self) -> bool {
        self.is_divided
    }

    /// How often the Lease had changed hands when this process took it; `None`: there is no such Lease. A request is sent with
    /// a permit of the same tenure or not at all, so whoever builds one may ask now.
    pub fn transitions(&self) -> Option<i32> {
        self.tenure().transitions
    }

    /// Counts the views. What was learned under an earlier one may be outdated: another process may have written since.
    pub fn number(&self) -> u64 {
        self.tenure().number
    }

    /// To wait for another view.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }

    /// Ends every permit, and grants none until there is a view again. `false`: there was none.
    pub fn lose(&self) -> bool {
        self.see(View::default(), |tenure| tenure.view().is_empty())
    }

    /// Grants permits for everything until then (`None`: until the lease is lost).
    pub fn take(&self, until: Option<Instant>, transitions: Option<i32>) {
        let mut tenure = self.tenure();
        tenure.transitions = transitions;
        let alone = View::from_iter([&tenure.replica]);
        drop(tenure);
        self.share(alone, until);
    }

    /// Grants permits for this process's share until then. Those for what stays its own go on. `true`: the shares are others.
    pub fn share(&self, view: View, until: Option<Instant>) -> bool {
        if !self.tenure().lasts() {
            // It ended unnoticed: another process may have written since.
            self.lose();
        }
        self.tenure().until = until;
        self.see(view.clone(), |tenure| tenure.view() == view)
    }

    fn see(&self, view: View, is_known: impl FnOnce(&Tenure) -> bool) -> bool {
        let mut tenure = self.tenure();
        if is_known(&tenure) {
            return false;
        }
        tenure.see(view);
        self.number.send_replace(tenure.number);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: Work<'static> = Work::Mapping("m");

    #[test]
    fn a_permit_ends_with_its_epoch_and_a_later_lease_does_not_renew_it() {
        let lease = Lease::default();
        let first = lease.permit(EVERYTHING).expect("a single replica always holds the lease");
        assert!(first.holds());
        lease.lose();
        assert!(!first.holds() && lease.permit(EVERYTHING).is_none());
        lease.take(None, None);
        assert!(!first.holds() && lease.permit(EVERYTHING).is_some_and(|permit| permit.holds()));
    }

    #[tokio::test(start_paused = true)]
    async fn no_permit_outlives_the_term_of_its_lease() {
        let lease = Lease::of_replica("a", false);
        assert!(!lease.is_held());
        let term = std::time::Duration::from_secs(10);
        lease.take(Some(Instant::now() + term), None);
        let permit = lease.permit(EVERYTHING).expect("it leads");
        tokio::time::advance(term).await;
        assert!(!permit.holds() && !lease.is_held(), "before anybody noticed");
        lease.take(Some(Instant::now() + term), None);
        assert!(!permit.holds(), "another may have led in between");
    }

    /// A cluster of each replica's.
    fn work_of(view: &View, replica: &str) -> String {
        let names = (0..100).map(|number| number.to_string());
        names.into_iter().find(|name| view.owner(Work::Cluster(name)) == Some(replica)).expect("a share")
    }

    #[test]
    fn who_loses_a_cluster_loses_its_permits_alone() {
        let lease = Lease::of_replica("a", true);
        let (alone, both) = (View::from_iter(["a"]), View::from_iter(["a", "b"]));
        let (kept, lost) = (work_of(&both, "a"), work_of(&both, "b"));
        lease.share(alone.clone(), None);
        let permits = [&kept, &lost].map(|name| lease.permit(Work::Cluster(name)).expect("it is alone"));
        assert!(lease.share(both.clone(), None) && !lease.share(both, None), "the second tells nothing new");
        assert_eq!(permits.each_ref().map(Permit::holds), [true, false]);
        lease.share(alone, None);
        assert_eq!(permits.each_ref().map(Permit::holds), [true, false], "another wrote in between");
        assert!(lease.owns(Work::Cluster(&lost)));
    }

    #[test]
    fn a_permit_of_a_view_that_is_forgotten_ends() {
        let lease = Lease::of_replica("a", true);
        let views = [View::from_iter(["a"]), View::from_iter(["a", "b"])];
        let kept = work_of(&views[1], "a");
        lease.share(views[0].clone(), None);
        let permit = lease.permit(Work::Cluster(&kept)).expect("it is alone");
        for number in 0..REMEMBERED {
            assert!(lease.share(views[(number + 1) % 2].clone(), None));
        }
        assert!(!permit.holds() && lease.owns(Work::Cluster(&kept)));
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
