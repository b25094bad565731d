//! How many writes one address gets at a time. Pure: time comes in as a value.
//!
//! An address that is overloaded gets half as many, and one more after each window of successes (additive increase,
//! multiplicative decrease). It gets more than at first only while every slot is in use, and while a write takes no longer
//! than it did in the window before.

use std::time::Duration;

use tokio::time::Instant;

/// Writes in flight at one address at first: above 2 kcp writes no more of them a second (facts.md).
pub(super) const WRITES_AT_ONCE: usize = 4;
/// Writes in flight at an address that keeps up: above 8 kcp only gets slower (facts.md).
const MOST_WRITES_AT_ONCE: usize = 8;
/// Successes that a window is made of.
const SUCCESSES: u32 = 16;
/// A write that takes so many times as long as in the window before waits for others at the server. A ninth beside eight
/// that share a server makes each of them take 1.125 times as long.
const SLOWER: f64 = 1.1;

#[derive(Debug)]
pub(super) struct Window {
    slots: usize,
    successes: u32,
    /// How long these took, all together.
    took: Duration,
    /// How long a write of the window before took.
    before: Option<Duration>,
    /// When the slots were last halved.
    halved: Option<Instant>,
}

impl Default for Window {
    fn default() -> Self {
        Self { slots: WRITES_AT_ONCE, successes: 0, took: Duration::ZERO, before: None, halved: None }
    }
}

impl Window {
    /// Writes that may be in flight now.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// A write succeeded. `full`: every slot was in use.
    pub(super) fn succeeded(&mut self, took: Duration, full: bool) {
        if !full && self.slots >= WRITES_AT_ONCE {
            return;
        }
        self.successes += 1;
        self.took += took;
        if self.successes < SUCCESSES {
            return;
        }
        let each = self.took / SUCCESSES;
        let slower = self.before.is_none_or(|before| each > before.mul_f64(SLOWER));
        self.slots = match self.slots {
            few @ ..WRITES_AT_ONCE => few + 1,
            many if slower => (many - 1).max(WRITES_AT_ONCE),
            many => (many + 1).min(MOST_WRITES_AT_ONCE),
        };
        self.begin(Some(each));
    }

    /// The address is overloaded, by its answer to a write that was sent then. Those that were in flight together say so once.
    pub(super) fn overloaded(&mut self, sent: Instant, now: Instant) {
        if self.halved.is_none_or(|halved| halved <= sent) {
            self.slots = (self.slots / 2).max(1);
            self.halved = Some(now);
        }
        self.begin(None);
    }

    fn begin(&mut self, before: Option<Duration>) {
        *self = Self { successes: 0, took: Duration::ZERO, before, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Duration = Duration::from_millis(10);

    /// Whole windows of writes, which take so long by the number of slots. Gives the slots after each.
    fn windows(window: &mut Window, number: usize, took: impl Fn(usize) -> Duration) -> Vec<usize> {
        let one = |_| {
            (0..SUCCESSES).for_each(|_| window.succeeded(took(window.slots()), true));
            window.slots()
        };
        (0..number).map(one).collect()
    }

    #[test]
    fn an_address_that_keeps_up_gets_more_up_to_the_most() {
        assert_eq!(windows(&mut Window::default(), 7, |_| USUAL), [4, 5, 6, 7, 8, 8, 8]);
    }

    #[test]
    fn an_address_that_shares_its_speed_among_the_slots_keeps_what_it_had_at_first() {
        let shared = |slots: usize| USUAL * slots as u32;
        assert_eq!(windows(&mut Window::default(), 6, shared), [4, 5, 4, 5, 4, 5]);
    }

    #[test]
    fn an_address_without_a_queue_keeps_its_slots() {
        let mut window = Window::default();
        (0..10 * SUCCESSES).for_each(|_| window.succeeded(USUAL, false));
        assert_eq!(window.slots(), WRITES_AT_ONCE);
    }

    #[test]
    fn an_overload_halves_the_slots_once_for_all_that_were_in_flight() {
        let (mut window, start) = (Window::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        for answered in 10..14 {
            window.overloaded(at(0), at(answered));
        }
        assert_eq!(window.slots(), 2);
        for sent in [20, 30, 40] {
            window.overloaded(at(sent), at(sent + 5));
        }
        assert_eq!(window.slots(), 1, "never none");
    }

    #[test]
    fn an_address_recovers_step_by_step_even_where_nothing_waits() {
        let (mut window, now) = (Window::default(), Instant::now());
        (0..2)
            .for_each(|second| window.overloaded(now + Duration::from_secs(second), now + Duration::from_secs(second)));
        let mut recovered = Vec::new();
        for _ in 0..5 {
            (0..SUCCESSES).for_each(|_| window.succeeded(USUAL, false));
            recovered.push(window.slots());
        }
        assert_eq!(recovered, [2, 3, 4, 4, 4]);
    }

    #[test]
    fn a_failure_begins_the_window_anew() {
        let (mut window, now) = (Window::default(), Instant::now());
        window.overloaded(now, now);
        (1..SUCCESSES).for_each(|_| window.succeeded(USUAL, true));
        window.overloaded(now + USUAL, now + USUAL);
        window.succeeded(USUAL, true);
        assert_eq!(window.slots(), 1);
    }
}
