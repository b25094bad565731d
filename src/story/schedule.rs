//! When an operator does what: pure, so that its time is the test's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::sandbox::Key;

/// What is due for which object, in time since the operator began.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Delay before each step.
    delays: Vec<Duration>,
    /// Delay before the finalizer is taken away.
    release: Duration,
    due: BTreeSet<(Duration, Key, Work)>,
    objects: BTreeMap<Key, Begun>,
}

/// What an operator does for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// The step of this number.
    Step(usize),
    /// It takes its finalizer away.
    Release,
}

#[derive(Debug)]
struct Begun {
    /// What was ordered when it began; `None`: the object is being deleted.
    ordered: Option<Value>,
    waits_for: Option<(Duration, Work)>,
}

impl Schedule {
    /// A schedule of steps with these delays before them, and of a release.
    pub fn new(delays: Vec<Duration>, release: Duration) -> Self {
        Self { delays, release, ..Self::default() }
    }

    /// An object was seen. It begins with the first step when it, or what is ordered by it, is new.
    pub fn saw(&mut self, key: &Key, ordered: Value, now: Duration) {
        if self.objects.get(key).is_some_and(|begun| begun.ordered.as_ref() == Some(&ordered)) {
            return;
        }
        self.begin(key, Some(ordered));
        self.step(key, 0, now);
    }

    /// An object was seen that is being deleted, and waits for its release.
    pub fn leaves(&mut self, key: &Key, now: Duration) {
        if self.objects.get(key).is_none_or(|begun| begun.ordered.is_some()) {
            self.begin(key, None);
            self.wait(key, Some((now + self.release, Work::Release)));
        }
    }

    /// An object is gone.
    pub fn gone(&mut self, key: &Key) {
        if let Some(Begun { waits_for: Some((time, work)), .. }) = self.objects.remove(key) {
            self.due.remove(&(time, key.clone(), work));
        }
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Duration> {
        self.due.first().map(|(time, ..)| *time)
    }

    /// Takes one piece of work that is due.
    pub fn take(&mut self, now: Duration) -> Option<(Key, Work)> {
        self.next().filter(|time| *time <= now)?;
        let (time, key, work) = self.due.pop_first()?;
        if let Work::Step(step) = work {
            self.step(&key, step + 1, time);
        }
        Some((key, work))
    }

    fn begin(&mut self, key: &Key, ordered: Option<Value>) {
        self.gone(key);
        self.objects.insert(key.clone(), Begun { ordered, waits_for: None });
    }

    fn step(&mut self, key: &Key, step: usize, from: Duration) {
        let delay = self.delays.get(step).copied();
        self.wait(key, delay.map(|delay| (from + delay, Work::Step(step))));
    }

    fn wait(&mut self, key: &Key, waits_for: Option<(Duration, Work)>) {
        let Some(begun) = self.objects.get_mut(key) else { return };
        begun.waits_for = waits_for;
        self.due.extend(waits_for.map(|(time, work)| (time, key.clone(), work)));
    }
}
