//! When an operator does what: pure, so that its time is the test's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::sandbox::Key;

/// What is due for which object, in time since the operator began.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Delay before each step.
    delays: Vec<Duration>,
    due: BTreeSet<(Duration, Key, usize)>,
    /// The step that each object waits for, and the generation that it was begun for.
    objects: BTreeMap<Key, Begun>,
}

#[derive(Debug)]
struct Begun {
    generation: i64,
    waits_for: Option<(Duration, usize)>,
}

impl Schedule {
    /// A schedule of steps with these delays before them.
    pub fn new(delays: Vec<Duration>) -> Self {
        Self { delays, ..Self::default() }
    }

    /// An object was seen. It begins with the first step when it, or its generation, is new.
    pub fn saw(&mut self, key: &Key, generation: i64, now: Duration) {
        if self.objects.get(key).is_some_and(|begun| begun.generation == generation) {
            return;
        }
        self.gone(key);
        self.objects.insert(key.clone(), Begun { generation, waits_for: None });
        self.wait(key, 0, now);
    }

    /// An object is gone.
    pub fn gone(&mut self, key: &Key) {
        if let Some(Begun { waits_for: Some((time, step)), .. }) = self.objects.remove(key) {
            self.due.remove(&(time, key.clone(), step));
        }
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Duration> {
        self.due.first().map(|(time, ..)| *time)
    }

    /// Takes one step that is due.
    pub fn take(&mut self, now: Duration) -> Option<(Key, usize)> {
        self.next().filter(|time| *time <= now)?;
        let (time, key, step) = self.due.pop_first()?;
        self.wait(&key, step + 1, time);
        Some((key, step))
    }

    fn wait(&mut self, key: &Key, step: usize, from: Duration) {
        let Some(begun) = self.objects.get_mut(key) else { return };
        begun.waits_for = self.delays.get(step).map(|delay| (from + *delay, step));
        if let Some((time, step)) = begun.waits_for {
            self.due.insert((time, key.clone(), step));
        }
    }
}
