//! Waiting for the world: every expectation about a server or the engine has a deadline and says what it last saw.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// How long the slowest honest answer may take on a small, busy machine.
pub const DEADLINE: Duration = Duration::from_secs(90);

const POLL: Duration = Duration::from_millis(100);

/// Asks `look` again and again until it finds something; panics at the deadline with the last reason it gave.
#[track_caller]
pub fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> impl Future<Output = T> {
    within(DEADLINE, what, look)
}

/// Waits until what `look` finds is what is expected.
#[track_caller]
pub fn becomes<T: Debug + PartialEq<E>, E>(
    what: &str,
    expected: E,
    mut look: impl AsyncFnMut() -> T,
) -> impl Future<Output = ()> {
    eventually(what, async move || {
        let found = look().await;
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    })
}

/// `eventually` with a deadline of its own.
#[track_caller]
pub fn within<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let end = Instant::now() + deadline;
        let mut ticks = poll();
        loop {
            ticks.tick().await;
            match look().await {
                Ok(found) => return found,
                Err(seen) if Instant::now() > end => {
                    panic!("{place}: not within {deadline:?}: {what}; last seen: {seen}")
                }
                Err(_) => {}
            }
        }
    }
}

/// Watches `look` for the whole of `span`, and panics as soon as it complains.
#[track_caller]
pub fn throughout(
    span: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<(), String>,
) -> impl Future<Output = ()> {
    let place = Location::caller();
    async move {
        let end = Instant::now() + span;
        let mut ticks = poll();
        while Instant::now() < end {
            ticks.tick().await;
            if let Err(seen) = look().await {
                panic!("{place}: not throughout {span:?}: {what}; seen: {seen}");
            }
        }
    }
}

/// Ticks at which to look again: the first is now.
pub fn poll() -> tokio::time::Interval {
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
