//! Seats that clusters share: the write slots of an address, and the leases of a queue. Pure: time comes in as a value.
//!
//! A cluster takes a long time if it likes: a tenant's own admission webhook may answer after half a minute. Three rules keep
//! its work from holding up that of others:
//!
//! * A cluster has one seat while others wait. The caller asks the clusters in turns, and those with fewer seats first.
//! * A cluster whose last work took longer than [`SLOW`], or has such work under way, is slow. Together, slow clusters have at
//!   most half of the seats.
//! * Nobody knows that a cluster is slow before its work has taken so long, nor which slow one never answers. Work that is late
//!   holds no seat against a cluster that has none, among all and among the slow ones: a server that is slow for everybody
//!   makes nobody wait for the one who hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Work that takes longer makes its cluster slow.
const SLOW: Duration = Duration::from_secs(1);
/// Work under way for longer is late. Twenty clusters that turn slow at one moment hold up the next one for 1.25 s at the four
/// slots of an address.
pub(super) const LATE: Duration = Duration::from_millis(250);
/// Work under way, late work included: so many times the seats at most.
const MOST: usize = 16;
/// For how long a cluster counts as slow that does nothing.
const FORGET: Duration = Duration::from_secs(600);

/// Which seats are taken, and by whom.
#[derive(Debug)]
pub(super) struct Seats<C> {
    /// By whom, and since when.
    taken: BTreeMap<u64, (C, Instant)>,
    /// Clusters whose last work was slow, and since when.
    slow: Arc<BTreeMap<C, Instant>>,
    last: u64,
}

/// Who may take a seat at one moment.
#[derive(Debug)]
pub(super) struct Admission<C> {
    now: Instant,
    slow: Arc<BTreeMap<C, Instant>>,
    /// Clusters with work under way that is slow already.
    hanging: BTreeSet<C>,
    by_cluster: BTreeMap<C, Share>,
    seats: usize,
    all: Share,
    of_slow: Share,
}

/// Seats that are taken, and those of them with work that is not late.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    taken: usize,
    prompt: usize,
}

impl Share {
    fn add(&mut self, more: Self) {
        self.taken += more.taken;
        self.prompt += more.prompt;
    }

    /// Whether so many seats have room for one more, perhaps for a cluster's first.
    const fn has_room(self, seats: usize, is_first: bool) -> bool {
        self.taken < seats || (is_first && self.prompt < seats)
    }
}

impl<C> Default for Seats<C> {
    fn default() -> Self {
        Self { taken: BTreeMap::new(), slow: Arc::default(), last: 0 }
    }
}

impl<C: Clone + Ord> Seats<C> {
    /// Who may take one of so many seats now.
    pub(super) fn admission(&self, seats: usize, now: Instant) -> Admission<C> {
        let mut admission = Admission {
            now,
            slow: self.slow.clone(),
            hanging: BTreeSet::new(),
            by_cluster: BTreeMap::new(),
            seats,
            all: Share::default(),
            of_slow: Share::default(),
        };
        for (cluster, since) in self.taken.values() {
            let seat = Share { taken: 1, prompt: usize::from(now < *since + LATE) };
            admission.all.add(seat);
            admission.by_cluster.entry(cluster.clone()).or_default().add(seat);
            if *since + SLOW <= now {
                admission.hanging.insert(cluster.clone());
            }
        }
        let mut of_slow = Share::default();
        let slow = admission.by_cluster.iter().filter(|(cluster, _)| admission.is_slow(cluster));
        slow.for_each(|(_, share)| of_slow.add(*share));
        admission.of_slow = of_slow;
        admission
    }

    /// Takes a seat; the number is what [`leave`](Self::leave) is told.
    pub(super) fn take(&mut self, cluster: C, now: Instant) -> u64 {
        self.last += 1;
        self.taken.insert(self.last, (cluster, now));
        self.last
    }

    pub(super) fn leave(&mut self, seat: u64) {
        self.taken.remove(&seat);
    }

    /// Work of a cluster took so long.
    pub(super) fn worked(&mut self, cluster: &C, took: Duration, now: Instant) {
        if took > SLOW {
            let slow = Arc::make_mut(&mut self.slow);
            slow.retain(|_, at| now < *at + FORGET);
            slow.insert(cluster.clone(), now);
        } else if self.slow.contains_key(cluster) {
            Arc::make_mut(&mut self.slow).remove(cluster);
        }
    }

    /// When somebody may be let in whom [`admission`](Self::admission) turned away: once the next work is late.
    pub(super) fn look_again(&self, now: Instant) -> Option<Instant> {
        self.taken.values().map(|(_, since)| *since + LATE).filter(|late| now < *late).min()
    }
}

impl<C: Ord> Admission<C> {
    pub(super) fn admits(&self, cluster: &C) -> bool {
        let is_first = self.seats_of(cluster) == 0;
        if self.all.taken >= self.seats.saturating_mul(MOST) {
            return false;
        }
        let is_slow = self.is_slow(cluster);
        if is_slow && self.is_alone(cluster) {
            return self.all.has_room(self.seats, is_first);
        }
        if is_slow && !self.slow_have_room(is_first) {
            return false;
        }
        // However many slow clusters have a seat, the others have the second half.
        let beyond_half = self.of_slow.taken.saturating_sub(self.half());
        Share { taken: self.all.taken - beyond_half, prompt: self.all.prompt }.has_room(self.seats, is_first)
    }

    /// Whether it may be of use to ask for a slow cluster.
    pub(super) fn may_admit_slow(&self) -> bool {
        // One alone has more than half of the seats.
        let may_be_alone = self.by_cluster.len() <= 1 && self.known_slow().nth(1).is_none();
        may_be_alone || self.slow_have_room(true)
    }

    /// Whether the half of slow clusters has room for one more, perhaps for a cluster's first.
    fn slow_have_room(&self, is_first: bool) -> bool {
        self.of_slow.taken < self.half().saturating_mul(MOST) && self.of_slow.has_room(self.half(), is_first)
    }

    fn half(&self) -> usize {
        (self.seats / 2).max(1)
    }

    /// Whether it is of no use to ask for any cluster.
    pub(super) fn is_full(&self) -> bool {
        self.all.prompt >= self.seats
    }

    pub(super) fn seats_of(&self, cluster: &C) -> usize {
        self.by_cluster.get(cluster).map_or(0, |share| share.taken)
    }

    pub(super) fn is_slow(&self, cluster: &C) -> bool {
        self.hanging.contains(cluster) || self.slow.get(cluster).is_some_and(|at| self.now < *at + FORGET)
    }

    /// A slow cluster leaves seats to nobody where no other one is known.
    fn is_alone(&self, cluster: &C) -> bool {
        self.by_cluster.keys().chain(self.known_slow()).all(|other| other == cluster)
    }

    /// Clusters whose last work was slow, without those that did nothing for long.
    fn known_slow(&self) -> impl Iterator<Item = &C> {
        self.slow.iter().filter(|(_, at)| self.now < **at + FORGET).map(|(cluster, _)| cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Lets a cluster take as many seats of four as it may have.
    fn fill(seats: &mut Seats<u32>, cluster: u32, now: Instant) -> usize {
        let mut number = 0;
        while seats.admission(4, now).admits(&cluster) {
            seats.take(cluster, now);
            number += 1;
        }
        number
    }

    #[test]
    fn a_cluster_without_a_seat_waits_for_work_only_until_that_is_late() {
        let (mut seats, start) = (Seats::default(), Instant::now());
        assert_eq!(fill(&mut seats, 1, start), 4);
        assert!(!seats.admission(4, start).admits(&2));
        let late = seats.look_again(start).expect("a time");
        assert_eq!(late, start + LATE);
        assert_eq!(fill(&mut seats, 2, late), 1, "one seat, as long as late work has the others");
        assert_eq!(fill(&mut seats, 1, late), 0);
    }

    #[test]
    fn slow_clusters_have_half_of_the_seats_together() {
        let (mut seats, start) = (Seats::default(), Instant::now());
        (1..=20).for_each(|cluster| seats.worked(&cluster, SLOW + millis(1), start));
        assert_eq!((1..=20).map(|cluster| fill(&mut seats, cluster, start)).sum::<usize>(), 2);
        assert_eq!(fill(&mut seats, 21, start), 2, "the rest");
        let later = start + FORGET;
        seats.worked(&1, millis(1), later);
        assert!(seats.admission(8, later).is_slow(&21), "work that hangs makes slow at once");
        assert!(!seats.admission(8, later).is_slow(&3), "what did nothing for long is not known");
    }

    #[test]
    fn a_slow_cluster_that_hangs_holds_up_no_other_slow_one() {
        let (mut seats, start) = (Seats::default(), Instant::now());
        (1..=20).for_each(|cluster| seats.worked(&cluster, SLOW * 2, start));
        assert_eq!(fill(&mut seats, 1, start), 2);
        let late = |turn| start + LATE * turn;
        assert_eq!(fill(&mut seats, 1, late(1)), 0);
        assert_eq!((2..=20).map(|cluster| fill(&mut seats, cluster, late(1))).sum::<usize>(), 2, "one each, of two");
        for turn in 2..200 {
            (1..=20).for_each(|cluster| assert!(fill(&mut seats, cluster, late(turn)) <= 1));
        }
        assert_eq!(seats.admission(4, late(200)).of_slow.taken, 2 + 19, "one each, and the first its second");
        assert_eq!(fill(&mut seats, 21, late(200)), 2, "the second half, as ever");
    }

    #[test]
    fn a_slow_cluster_without_others_has_every_seat() {
        let (mut seats, start) = (Seats::default(), Instant::now());
        seats.worked(&1, SLOW * 2, start);
        assert_eq!(fill(&mut seats, 1, start), 4);
        assert_eq!(fill(&mut seats, 1, start + SLOW), 0, "late work of its own counts");
        let (mut seats, later) = (Seats::default(), start + FORGET);
        [(2, start), (1, start + SLOW)].into_iter().for_each(|(cluster, at)| seats.worked(&cluster, SLOW * 2, at));
        for _ in 0..2 {
            seats.take(1, later);
        }
        assert!(seats.admission(4, later).may_admit_slow(), "the other one did nothing for long");
    }

    #[test]
    fn one_seat_is_in_turns_between_slow_and_others() {
        let (mut seats, start) = (Seats::default(), Instant::now());
        seats.worked(&1, SLOW * 2, start);
        let slow = seats.take(1, start);
        assert!(!seats.admission(1, start).admits(&2) && seats.admission(1, start + LATE).admits(&2));
        seats.leave(slow);
        seats.take(2, start);
        assert!(!seats.admission(1, start).admits(&1));
    }

    #[test]
    fn work_that_never_ends_is_bounded() {
        let (mut seats, start) = (Seats::default(), Instant::now());
        for cluster in 0..200 {
            fill(&mut seats, cluster, start + millis(300) * cluster);
        }
        assert_eq!(seats.taken.len(), 4 * MOST);
    }
}
