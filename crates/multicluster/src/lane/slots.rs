//! Who writes next at one address. Pure: time comes in as a value.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::seats::Seats;

/// The write slots of one address, and who waits for one: `W`, by logical cluster.
#[derive(Debug)]
pub(super) struct Slots<W> {
    /// A slot is a seat.
    seats: Seats<Arc<str>>,
    waiting: BTreeMap<Arc<str>, VecDeque<W>>,
    /// Clusters for which somebody waits, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// The last look, if nothing has happened since.
    looked: Option<Looked>,
}

/// A look that found nobody who may have a slot. Each of a thousand who wait asks again once it is time: the first one looks for all.
#[derive(Debug, Clone, Copy)]
struct Looked {
    /// When another one may find somebody. `None`: not before something happens.
    again: Option<Instant>,
}

impl<W> Default for Slots<W> {
    fn default() -> Self {
        Self { seats: Seats::default(), waiting: BTreeMap::new(), turns: VecDeque::new(), looked: None }
    }
}

impl<W> Slots<W> {
    pub(super) fn wait(&mut self, cluster: &Arc<str>, who: W) {
        let waiting = self.waiting.entry(cluster.clone()).or_default();
        if waiting.is_empty() {
            self.turns.push_back(cluster.clone());
        }
        waiting.push_back(who);
        self.looked = None;
    }

    /// A slot is handed back.
    pub(super) fn leave(&mut self, slot: u64) {
        self.seats.leave(slot);
        self.looked = None;
    }

    /// A write to a cluster took so long.
    pub(super) fn worked(&mut self, cluster: &Arc<str>, took: Duration, now: Instant) {
        self.seats.worked(cluster, took, now);
        self.looked = None;
    }

    /// Gives the next slot of so many to the cluster with the fewest, in turns. The number is that of the slot.
    ///
    /// # Errors
    /// Nobody may have one. When to look again, if time alone may change that.
    pub(super) fn grant(&mut self, slots: usize, now: Instant) -> Result<(W, u64), Option<Instant>> {
        if let Some(Looked { again }) = self.looked
            && again.is_none_or(|again| now < again)
        {
            return Err(again);
        }
        self.next(slots, now).ok_or_else(|| {
            let again = self.seats.look_again(now);
            self.looked = Some(Looked { again });
            again
        })
    }

    fn next(&mut self, slots: usize, now: Instant) -> Option<(W, u64)> {
        if self.turns.is_empty() {
            return None;
        }
        let admission = self.seats.admission(slots, now);
        let admitted = self.turns.iter().enumerate().filter(|(_, cluster)| admission.admits(cluster));
        let (turn, _) = admitted.min_by_key(|(turn, cluster)| (admission.seats_of(cluster), *turn))?;
        let cluster = self.turns.remove(turn)?;
        let waiting = self.waiting.get_mut(&cluster)?;
        let who = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&cluster);
        } else {
            self.turns.push_back(cluster.clone());
        }
        Some((who, self.seats.take(cluster, now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes to clusters, which take so long each.
    struct World {
        slots: Slots<(u32, Instant)>,
        start: Instant,
        /// By the time at which they end: the cluster, the slot, when it was asked for and given.
        writing: BTreeMap<(Instant, u64), (u32, Instant)>,
        /// The longest wait of each cluster.
        waited: BTreeMap<u32, Duration>,
    }

    fn name(cluster: u32) -> Arc<str> {
        format!("c{cluster}").into()
    }

    const QUIET: u32 = 0;
    const SLOW: Duration = Duration::from_secs(28);
    const QUICK: Duration = Duration::from_millis(20);

    impl World {
        fn new() -> Self {
            let (slots, start) = (Slots::default(), Instant::now());
            Self { slots, start, writing: BTreeMap::new(), waited: BTreeMap::new() }
        }

        /// Lets time pass until the instant. Whoever has written wants to write again at once, but for the quiet one.
        fn pass(&mut self, until: Instant, took: impl Fn(u32) -> Duration) {
            let mut now = self.start;
            while now < until {
                while let Ok(((cluster, asked), slot)) = self.slots.grant(4, now) {
                    let waited = self.waited.entry(cluster).or_default();
                    *waited = (*waited).max(now - asked);
                    self.writing.insert((now + took(cluster), slot), (cluster, now));
                }
                while self.writing.first_key_value().is_some_and(|((end, _), _)| *end <= now) {
                    let ((_, slot), (cluster, begun)) = self.writing.pop_first().expect("one");
                    self.slots.leave(slot);
                    self.slots.worked(&name(cluster), now - begun, now);
                    if cluster != QUIET {
                        self.slots.wait(&name(cluster), (cluster, now));
                    }
                }
                now += Duration::from_millis(10);
            }
            self.start = now;
        }

        fn want(&mut self, cluster: u32, writes: u32) {
            (0..writes).for_each(|_| self.slots.wait(&name(cluster), (cluster, self.start)));
        }

        /// How long the quiet cluster waits at most, of writes that it wants one after the other.
        fn quiet_waits(&mut self, writes: u32) -> Duration {
            self.waited.remove(&QUIET);
            for _ in 0..writes {
                self.want(QUIET, 1);
                self.pass(self.start + Duration::from_secs(3), |cluster| if cluster == QUIET { QUICK } else { SLOW });
            }
            self.waited.get(&QUIET).copied().unwrap_or(Duration::MAX)
        }
    }

    #[test]
    fn a_slow_cluster_holds_up_no_other() {
        let mut world = World::new();
        world.want(1, 100);
        assert!(world.quiet_waits(40) <= Duration::from_millis(300), "{:?}", world.waited);
    }

    #[test]
    fn twenty_slow_clusters_hold_up_no_other() {
        let mut world = World::new();
        (1..=20).for_each(|cluster| world.want(cluster, 100));
        let at_first = world.quiet_waits(1);
        assert!(at_first <= Duration::from_millis(1500), "{at_first:?}: none of them is known to be slow");
        assert!(world.quiet_waits(40) <= Duration::from_millis(20), "{:?}", world.waited);
        assert!(world.waited.len() > 20, "slow clusters are served too: {:?}", world.waited);
    }

    #[test]
    fn clusters_are_served_in_turns_and_one_alone_has_every_slot() {
        let (mut slots, now) = (Slots::default(), Instant::now());
        (0..10).for_each(|n| slots.wait(&name(1), (1, n)));
        let first: Vec<u32> = (0..2).map(|_| slots.grant(4, now).expect("a slot").0.0).collect();
        (0..3).for_each(|n| slots.wait(&name(2), (2, n)));
        slots.wait(&name(3), (3, 0));
        let next: Vec<_> = std::iter::from_fn(|| slots.grant(4, now).ok()).collect();
        assert_eq!((first, next.iter().map(|(who, _)| who.0).collect::<Vec<_>>()), (vec![1, 1], vec![2, 3]));
        slots.leave(next[0].1);
        assert_eq!(slots.grant(4, now).map(|(who, _)| who), Ok((2, 1)), "of the cluster that has none");
    }

    /// With each slow write, the time comes for all who wait.
    #[test]
    fn one_look_serves_all_who_wait_until_something_happens_or_it_is_time() {
        let (mut slots, now) = (Slots::default(), Instant::now());
        (0..3).for_each(|cluster| slots.wait(&name(cluster), cluster));
        let (_, slot) = slots.grant(1, now).expect("a slot");
        let Err(Some(again)) = slots.grant(1, now) else { panic!("no time to look again") };
        // Nobody is told of this.
        slots.seats.leave(slot);
        assert_eq!(slots.grant(1, now), Err(Some(again)), "it is not looked a second time");
        let (who, slot) = slots.grant(1, again).expect("it is time");
        assert_eq!((who, slots.grant(1, again).is_err()), (1, true));
        slots.leave(slot);
        assert_eq!(slots.grant(1, again).map(|(who, _)| who), Ok(2));
    }
}
