use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const BACKOFF: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(60) };

/// A request for an object of a cluster.
pub fn key(cluster: &str, name: impl ToString) -> Key {
    let cluster = ClusterName::try_from(cluster).unwrap();
    Key::new(cluster, "ns", name.to_string())
}

fn queue() -> (Queue, Instant) {
    (Queue::new(BACKOFF, 42), Instant::now())
}

fn ready(queue: &mut Queue, now: Instant) -> Key {
    match queue.next(usize::MAX, now) {
        Next::Ready(key) => key,
        next => panic!("nothing ready: {next:?}"),
    }
}

fn waits(queue: &mut Queue, now: Instant) -> Option<Instant> {
    match queue.next(usize::MAX, now) {
        Next::Wait(until) => until,
        next => panic!("not waiting: {next:?}"),
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn what_is_corrected_without_end_is_slowed_down_alone() {
    let (mut queue, start) = queue();
    let (mut corrections, mut edits) = (0, 0);
    for step in 0..10_000u32 {
        let now = start + Duration::from_millis(10) * step;
        queue.add(key("c", "fought over"), Priority::Live, now);
        queue.add(key("c", "other"), Priority::Live, now);
        while let Next::Ready(key) = queue.next(usize::MAX, now) {
            let is_correction = &*key.name == "fought over";
            corrections += u32::from(is_correction);
            // The other one is edited all the time, and what an operator reports of it comes and goes.
            let writes = match is_correction {
                true => BTreeMap::from([(1, 7), (2, step.into())]),
                false => BTreeMap::from([(1, step.into()), (2, u64::from(step % 2))]),
            };
            edits += u32::from(!is_correction);
            queue.finish(key, Requeue::Done, Cost { writes, ..Cost::from(1) }, now);
        }
        assert_eq!(queue.depth(now).ready, 0, "the other one is served at once");
    }
    assert!((125..=132).contains(&corrections), "{corrections} in a hundred seconds");
    assert_eq!(edits, 10_000);
    let end = start + secs(101);
    assert_eq!(ready(&mut queue, end), key("c", "fought over"), "the last change is not lost");
}

#[test]
fn a_request_that_was_quiet_may_write_at_once_again() {
    let (mut queue, start) = queue();
    for round in 0..3 {
        let now = start + secs(60) * round;
        for _ in 0..30 {
            queue.add(key("c", 1), Priority::Live, now);
            let key = ready(&mut queue, now);
            queue.finish(key, Requeue::Done, 2, now);
        }
    }
    let quiet = start + secs(300);
    assert_eq!(waits(&mut queue, quiet), None, "what is quiet is forgotten");
}

#[test]
fn what_costs_more_is_served_less_often() {
    let work = Cost { worked: Duration::from_millis(20), ..Cost::default() };
    for dear in [Cost::from(4), work] {
        let (mut queue, now) = queue();
        for n in 0..100 {
            queue.add(key("dear", n), Priority::Live, now);
            queue.add(key("cheap", n), Priority::Live, now);
        }
        let mut served: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..40 {
            let key = ready(&mut queue, now);
            *served.entry(key.cluster.to_string()).or_default() += 1;
            let cost = if key.cluster.as_str() == "dear" { dear.clone() } else { Cost::from(1) };
            queue.finish(key, Requeue::Done, cost, now);
        }
        assert_eq!((served["cheap"], served["dear"]), (32, 8), "{dear:?}");
    }
}

#[test]
fn live_goes_before_initial_until_that_has_waited() {
    let (mut queue, now) = queue();
    queue.add(key("c", "initial"), Priority::Initial, now);
    queue.add(key("c", "live"), Priority::Live, now);
    assert_eq!(ready(&mut queue, now), key("c", "live"));
    queue.add(key("c", "live 2"), Priority::Live, now + secs(9));
    assert_eq!(ready(&mut queue, now + INITIAL_WAIT), key("c", "initial"));
}

#[test]
fn a_live_change_promotes_what_is_queued_and_keeps_its_age() {
    let (mut queue, now) = queue();
    queue.add(key("c", "a"), Priority::Initial, now);
    queue.add(key("c", "b"), Priority::Initial, now);
    queue.add(key("c", "b"), Priority::Live, now + secs(2));
    assert_eq!(queue.depth(now + secs(3)), Depth { ready: 2, oldest_age: secs(3), ..Depth::default() });
    assert_eq!(ready(&mut queue, now + secs(3)), key("c", "b"));
    queue.add(key("c", "a"), Priority::Initial, now);
    assert_eq!(queue.depth(now).ready, 1, "coalesced");
}

#[test]
fn what_is_in_flight_runs_once_more_and_not_beside_itself() {
    let (mut queue, now) = queue();
    queue.add(key("c", "a"), Priority::Live, now);
    let a = ready(&mut queue, now);
    queue.add(key("c", "a"), Priority::Initial, now);
    queue.add(key("c", "a"), Priority::Live, now);
    assert_eq!(waits(&mut queue, now), None);
    queue.finish(a, Requeue::Done, 0, now);
    let a = ready(&mut queue, now);
    queue.finish(a, Requeue::Done, 0, now);
    assert_eq!((waits(&mut queue, now), queue.depth(now)), (None, Depth::default()));
}

#[test]
fn failures_back_off_and_success_resets() {
    let (mut queue, start) = queue();
    let mut now = start;
    queue.add(key("c", "a"), Priority::Live, now);
    for failures in 0..10 {
        let a = ready(&mut queue, now);
        queue.finish(a, Requeue::Retry, 0, now);
        let until = waits(&mut queue, now).unwrap();
        let whole = secs(2u64.pow(failures).min(60));
        assert!(until - now >= whole / 2 && until - now <= whole, "{failures}: {:?}", until - now);
        now = until;
    }
    let a = ready(&mut queue, now);
    queue.finish(a, Requeue::Done, 0, now);
    queue.add(key("c", "a"), Priority::Live, now);
    let a = ready(&mut queue, now);
    queue.finish(a, Requeue::Retry, 0, now);
    assert!(waits(&mut queue, now).unwrap() - now <= secs(1));
}

#[test]
fn a_request_that_fails_and_wakes_itself_does_not_spin() {
    let (mut queue, now) = queue();
    queue.add(key("c", "a"), Priority::Live, now);
    let a = ready(&mut queue, now);
    queue.add(key("c", "a"), Priority::Live, now);
    queue.finish(a, Requeue::Retry, 1, now);
    let until = waits(&mut queue, now).unwrap();
    assert!(until >= now + secs(1) / 2 && until <= now + secs(1));
    // From outside, news of what waits in backoff is looked at once.
    queue.add(key("c", "a"), Priority::Live, now);
    assert_eq!(ready(&mut queue, now), key("c", "a"));
}

#[test]
fn a_servers_word_is_kept() {
    let (mut queue, now) = queue();
    queue.add(key("c", "a"), Priority::Live, now);
    let a = ready(&mut queue, now);
    queue.finish(a, Requeue::RetryAfter(secs(30)), 1, now);
    assert_eq!(waits(&mut queue, now), Some(now + secs(30)));
}

#[test]
fn of_two_timers_the_sooner_one_counts_and_a_failure_more_than_a_look_at_a_set_time() {
    let (soon, late) = (secs(1), secs(9));
    for (one, other, timer) in [
        (Requeue::Done, Requeue::Done, Requeue::Done),
        (Requeue::After(late), Requeue::After(soon), Requeue::After(soon)),
        (Requeue::After(soon), Requeue::Retry, Requeue::Retry),
        (Requeue::RetryAfter(soon), Requeue::Retry, Requeue::RetryAfter(soon)),
        (Requeue::RetryAfter(soon), Requeue::RetryAfter(late), Requeue::RetryAfter(late)),
    ] {
        assert_eq!((one.sooner(other), other.sooner(one)), (timer, timer), "{one:?} {other:?}");
    }
}

#[test]
fn later_looks_coalesce_to_the_earliest() {
    let (mut queue, now) = queue();
    queue.add_after(key("c", "a"), secs(9), now);
    queue.add_after(key("c", "a"), secs(5), now);
    queue.add_after(key("c", "a"), secs(7), now);
    assert_eq!(waits(&mut queue, now), Some(now + secs(5)));
    let a = ready(&mut queue, now + secs(5));
    queue.add_after(a.clone(), secs(3), now + secs(5));
    queue.finish(a, Requeue::After(secs(60)), 1, now + secs(6));
    assert_eq!(waits(&mut queue, now + secs(6)), Some(now + secs(8)));
}

#[test]
fn a_cluster_that_is_removed_is_forgotten_and_what_is_in_flight_runs_once_more() {
    let (mut queue, now) = queue();
    for name in ["a", "b"] {
        queue.add(key("gone", name), Priority::Live, now);
    }
    queue.add_after(key("gone", "later"), secs(1), now);
    queue.add(key("stays", "x"), Priority::Live, now);
    let in_flight = ready(&mut queue, now);
    assert_eq!(in_flight, key("gone", "a"));
    queue.remove_cluster(&in_flight.cluster);
    queue.finish(in_flight.clone(), Requeue::Done, 0, now);
    assert_eq!(ready(&mut queue, now), key("stays", "x"));
    assert_eq!(ready(&mut queue, now), in_flight);
    queue.finish(in_flight, Requeue::Done, 0, now);
    assert_eq!((waits(&mut queue, now), queue.lanes.len()), (None, 1));
}

/// All that may be in flight, of eight at once.
fn take(queue: &mut Queue, now: Instant) -> Vec<Key> {
    let next = || match queue.next(8, now) {
        Next::Ready(key) => Some(key),
        _ => None,
    };
    std::iter::from_fn(next).collect()
}

/// A reconcile of a slow cluster may take half a minute.
#[test]
fn slow_clusters_leave_half_of_what_is_in_flight_to_others() {
    let (mut queue, start) = queue();
    for cluster in 0..20 {
        (0..10).for_each(|n| queue.add(key(&format!("slow{cluster}"), n), Priority::Live, start));
    }
    queue.add(key("quiet", 0), Priority::Live, start);
    let mut slow = take(&mut queue, start);
    assert_eq!(slow.len(), 8);
    let Next::Wait(Some(late)) = queue.next(8, start) else { panic!("no time to look again") };
    slow.extend(take(&mut queue, late));
    let Next::Wait(Some(later)) = queue.next(8, late) else { panic!("no time to look again") };
    slow.extend(take(&mut queue, later));
    assert!(later - start < secs(1) && slow.contains(&key("quiet", 0)), "{slow:?}");
    slow.retain(|key| key.cluster.as_str() != "quiet");
    queue.finish(key("quiet", 0), Requeue::Done, 1, later);
    let end = start + secs(28);
    slow.into_iter().for_each(|key| queue.finish(key, Requeue::Done, 1, end));
    (0..4).for_each(|n| queue.add(key("quiet", n), Priority::Live, end));
    let (quiet, slow): (Vec<Key>, Vec<Key>) =
        take(&mut queue, end).into_iter().partition(|key| key.cluster.as_str() == "quiet");
    assert_eq!((slow.len(), quiet.len()), (4, 4), "{slow:?}");
}

#[test]
fn slow_clusters_that_wait_for_room_are_not_looked_at_for_others() {
    let (mut queue, start) = queue();
    let name = |number: usize| format!("slow{number}");
    for number in 0..1000 {
        queue.add(key(&name(number), 0), Priority::Live, start);
        queue.seats.worked(&key(&name(number), 0).cluster, secs(2), start);
    }
    let slow = take(&mut queue, start);
    assert_eq!(slow, [0, 1, 2, 3].map(|number| key(&name(number), 0)));
    let waiting = |queue: &Queue| (queue.turns.len(), queue.slow_turns.len());
    assert_eq!(waiting(&queue), (0, 996));
    (0..2).for_each(|n| queue.add(key("quiet", n), Priority::Live, start));
    assert_eq!(take(&mut queue, start), [key("quiet", 0), key("quiet", 1)]);
    assert_eq!(waiting(&queue), (0, 996));
    // A cluster that has become quick is one of the others, and the turn of the next slow one has come.
    queue.add(slow[0].clone(), Priority::Live, start);
    queue.add(key("slow1", 1), Priority::Live, start);
    assert_eq!((take(&mut queue, start), waiting(&queue)), (Vec::new(), (0, 997)));
    queue.finish(slow[1].clone(), Requeue::Done, 1, start);
    assert_eq!(take(&mut queue, start), [key("slow4", 0), key("slow1", 1)]);
    assert_eq!(waiting(&queue), (0, 995));
}

#[derive(Debug, Clone)]
enum Op {
    Add(u8, u8, bool),
    AddAfter(u8, u8, u8),
    Next,
    Finish(u8, u8, u8),
    RemoveCluster(u8),
    Pass(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4u8, 0..4u8, any::<bool>()).prop_map(|(c, n, live)| Op::Add(c, n, live)),
        1 => (0..4u8, 0..4u8, 0..20u8).prop_map(|(c, n, delay)| Op::AddAfter(c, n, delay)),
        4 => Just(Op::Next),
        3 => (0..8u8, 0..4u8, 0..9u8).prop_map(|(which, outcome, cost)| Op::Finish(which, outcome, cost)),
        1 => (0..4u8).prop_map(Op::RemoveCluster),
        1 => (0..30u8).prop_map(Op::Pass),
    ]
}

proptest! {
    /// One in flight per request, nothing lost, nothing invented, the books balance, nobody starves.
    #[test]
    fn any_history_keeps_the_invariants(ops in proptest::collection::vec(op(), 1..200)) {
        let (mut queue, mut now) = queue();
        let mut in_flight: Vec<Key> = Vec::new();
        // Requests that must still be handed out: added, and not handed out since.
        let mut owed: BTreeSet<Key> = BTreeSet::new();
        for op in ops {
            match op {
                Op::Add(cluster, name, live) => {
                    let key = key(&format!("c{cluster}"), name);
                    owed.insert(key.clone());
                    queue.add(key, if live { Priority::Live } else { Priority::Initial }, now);
                }
                Op::AddAfter(cluster, name, delay) => {
                    let key = key(&format!("c{cluster}"), name);
                    owed.insert(key.clone());
                    queue.add_after(key, secs(delay.into()), now);
                }
                Op::Next => {
                    if let Next::Ready(key) = queue.next(usize::MAX, now) {
                        prop_assert!(!in_flight.contains(&key), "twice in flight");
                        owed.remove(&key);
                        in_flight.push(key);
                    }
                }
                Op::Finish(which, outcome, cost) if !in_flight.is_empty() => {
                    let key = in_flight.remove(which as usize % in_flight.len());
                    let outcome = match outcome {
                        0 => Requeue::Done,
                        1 => Requeue::Retry,
                        2 => Requeue::After(secs(5)),
                        _ => Requeue::RetryAfter(secs(3)),
                    };
                    if outcome != Requeue::Done { owed.insert(key.clone()); }
                    queue.finish(key, outcome, u32::from(cost), now);
                }
                Op::RemoveCluster(cluster) => {
                    let cluster = ClusterName::try_from(format!("c{cluster}").as_str()).unwrap();
                    queue.remove_cluster(&cluster);
                    owed.retain(|key| key.cluster != cluster);
                    // What is in flight of it runs once more.
                    in_flight.retain(|key| {
                        let gone = key.cluster == cluster;
                        if gone {
                            queue.finish(key.clone(), Requeue::Retry, 1, now);
                            owed.insert(key.clone());
                        }
                        !gone
                    });
                }
                Op::Finish(..) => {}
                Op::Pass(seconds) => now += secs(seconds.into()),
            }
            let depth = queue.depth(now);
            prop_assert_eq!(depth.in_flight, in_flight.len());
            prop_assert_eq!(queue.entries.len(), depth.ready + depth.delayed + depth.in_flight);
        }
        in_flight.drain(..).for_each(|key| queue.finish(key, Requeue::Done, 1, now));
        now += secs(3600);
        while let Next::Ready(key) = queue.next(usize::MAX, now) {
            owed.remove(&key);
            queue.finish(key, Requeue::Done, 1, now);
        }
        prop_assert!(owed.is_empty(), "lost: {:?}", owed);
        prop_assert!(queue.entries.is_empty() && queue.lanes.is_empty() && queue.turns.is_empty() && queue.slow_turns.is_empty());
    }

    /// Whatever the others have queued, a cluster waits for at most one request of each of them.
    #[test]
    fn nobody_waits_for_more_than_one_turn_of_each_other(sizes in proptest::collection::vec(1usize..30, 2..6)) {
        let (mut queue, now) = queue();
        for (cluster, size) in sizes.iter().enumerate() {
            for n in 0..*size { queue.add(key(&format!("c{cluster}"), n), Priority::Initial, now); }
        }
        queue.add(key("late", "x"), Priority::Initial, now);
        let before = (0..=sizes.len()).position(|_| ready(&mut queue, now).cluster.as_str() == "late");
        prop_assert!(before.is_some());
    }
}

#[test]
fn an_event_takes_the_place_of_a_timer() {
    let (mut queue, now) = queue();
    let (a, b, c) = (key("c", "a"), key("c", "b"), key("c", "c"));
    for one in [&a, &b] {
        queue.add(one.clone(), Priority::Live, now);
        assert_eq!(ready(&mut queue, now), *one);
        queue.finish(one.clone(), Requeue::After(secs(1)), 1, now);
    }
    // News that waits for more of them is an event, too.
    queue.add_after(b.clone(), secs(2), now);
    queue.add_after(c.clone(), secs(1), now);
    assert_eq!([&a, &b, &c].map(|one| ready(&mut queue, now + secs(1)) == *one), [true; 3]);
    assert_eq!([&a, &b, &c].map(|one| queue.is_by_timer(one)), [true, false, false]);
    // An event during a run that fails is waited for no longer than the shortest backoff, and is an event still.
    queue.add(a.clone(), Priority::Live, now);
    queue.finish(a.clone(), Requeue::Retry, 1, now);
    assert_eq!(ready(&mut queue, now + secs(1)), a);
    assert!(!queue.is_by_timer(&a));
}
