//! How many sources are worked on at once, over all mappings.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// Sources that are worked on, but for those that wait for a slow server. A server does a few requests at a time: thousands of
/// them are no faster, and cost memory and connections on both sides.
const AT_ONCE: usize = 64;

/// What takes longer is slow: another source is worked on meanwhile.
pub const SLOW: Duration = Duration::from_millis(250);

/// The turns of sources, in the order in which they ask for one.
#[derive(Debug)]
pub struct Turns {
    /// Held by who looks for room. The others wait for it: each of thousands would be woken for every slow work.
    next: tokio::sync::Mutex<()>,
    room: Semaphore,
    begun: Mutex<Begun>,
}

/// The work that has room.
#[derive(Debug, Default)]
struct Begun {
    /// By number, which is their order.
    since: BTreeMap<u64, Instant>,
    last: u64,
}

/// Room for one, until it is dropped or another one has it.
struct Turn<'t> {
    of: &'t Turns,
    number: u64,
}

impl Default for Turns {
    fn default() -> Self {
        Self::of(AT_ONCE)
    }
}

impl Turns {
    fn of(at_once: usize) -> Self {
        Self { next: tokio::sync::Mutex::default(), room: Semaphore::new(at_once), begun: Mutex::default() }
    }

    /// Works once there is room. Work that is slow makes room for the next.
    pub async fn take(&self, work: impl Future<Output = ()>) {
        let _turn = self.turn().await;
        work.await;
    }

    /// The first one who waits looks for what is slow. Nearly always nobody does, and a timer for each piece of work would wake the
    /// process.
    async fn turn(&self) -> Turn<'_> {
        let _next = self.next.lock().await;
        loop {
            let first = self.begun.lock().since.first_key_value().map(|(_, since)| *since);
            // The next one may be about to begin.
            let until = first.unwrap_or_else(Instant::now) + SLOW;
            let Ok(taken) = timeout_at(until, self.room.acquire()).await else {
                self.make_room();
                continue;
            };
            taken.into_iter().for_each(SemaphorePermit::forget);
            let mut begun = self.begun.lock();
            begun.last += 1;
            let number = begun.last;
            begun.since.insert(number, Instant::now());
            return Turn { of: self, number };
        }
    }

    fn make_room(&self) {
        let mut begun = self.begun.lock();
        if let Some(first) = begun.since.first_entry().filter(|first| first.get().elapsed() >= SLOW) {
            first.remove();
            self.room.add_permits(1);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let had_room = self.of.begun.lock().since.remove(&self.number).is_some();
        self.of.room.add_permits(usize::from(had_room));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_quick_goes_before_the_next_and_who_is_slow_lets_it_pass() {
        // How many have room at once, how long each takes, when each begins, and when all are over.
        let rows: [(usize, &[u64], &[u128], u128); 2] = [
            (1, &[20, 10_000, 30, 0], &[0, 20, 270, 300], 10_020),
            (2, &[10_000; 6], &[0, 0, 250, 250, 500, 500], 10_500),
        ];
        for (at_once, takes, begins, over) in rows {
            let (turns, begun, started) = (Turns::of(at_once), Mutex::new(Vec::new()), Instant::now());
            let log = &begun;
            let work = move |takes: u64| async move {
                log.lock().push(started.elapsed().as_millis());
                sleep(Duration::from_millis(takes)).await;
            };
            futures::future::join_all(takes.iter().map(|takes| turns.take(work(*takes)))).await;
            assert_eq!((&**begun.lock(), started.elapsed().as_millis()), (begins, over));
            assert_eq!(turns.room.available_permits(), at_once);
        }
    }

    /// All mappings together may have thousands of sources that wait, and one slow server for all of them.
    #[tokio::test(start_paused = true)]
    async fn nobody_is_woken_for_the_turns_of_others() {
        // Alone, it begins and it ends. One of many asks, its turn is the next one, it has room, and it ends.
        for (number, each) in [(1, 2), (100, 4)] {
            let (turns, polls, mut all) = (Arc::new(Turns::of(1)), Arc::new(AtomicUsize::new(0)), JoinSet::new());
            for _ in 0..number {
                let (turns, polls) = (turns.clone(), polls.clone());
                all.spawn(async move {
                    let mut taken = pin!(turns.take(sleep(SLOW * 4)));
                    poll_fn(|cx| {
                        polls.fetch_add(1, Ordering::Relaxed);
                        taken.as_mut().poll(cx)
                    })
                    .await;
                });
            }
            all.join_all().await;
            let polls = polls.load(Ordering::Relaxed);
            assert!(polls <= each * number, "{polls} of {number}");
        }
    }
}
