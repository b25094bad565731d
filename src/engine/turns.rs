//! How many sources are worked on at once, over all mappings.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Sources that are worked on, but for those that wait for a slow server. A server does a few requests at a time: thousands of
/// them are no faster, and cost memory and connections on both sides.
const AT_ONCE: usize = 64;

/// What takes longer is slow: another source is worked on meanwhile.
const SLOW: Duration = Duration::from_millis(250);

/// The turns of sources, in the order in which they ask for one.
#[derive(Debug)]
pub struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl Turns {
    /// Works once there is room. Work that is slow makes room for the next; what `when_slow` gives is dropped at its end.
    pub async fn take<W, R>(&self, work: impl FnOnce() -> W, when_slow: impl FnOnce() -> R)
    where
        W: Future<Output = ()>,
    {
        let turn = self.0.acquire().await.ok();
        let mut work = pin!(work());
        if timeout(SLOW, work.as_mut()).await.is_err() {
            drop(turn);
            let _room = when_slow();
            work.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_quick_goes_before_the_next_and_who_is_slow_lets_it_pass() {
        let (turns, begun, started) = (Turns(Semaphore::new(1)), Mutex::new(Vec::new()), Instant::now());
        let work = async |takes: u64| {
            begun.lock().unwrap().push(started.elapsed().as_millis());
            sleep(Duration::from_millis(takes)).await;
        };
        let all = [20, 10_000, 30, 0].map(|takes| turns.take(move || work(takes), || ()));
        futures::future::join_all(all).await;
        assert_eq!(*begun.lock().unwrap(), [0, 20, 270, 300]);
        assert_eq!(started.elapsed().as_millis(), 10_020);
    }
}
