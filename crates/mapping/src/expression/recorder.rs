//! Notes of what was evaluated: for the author, whose tests should reach everything that a mapping says.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::Outcome;

/// What can become of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// It was evaluated, to the end: one that waits was not.
    Evaluated,
    /// It was a condition, and held.
    True,
    /// It was a condition, and did not hold.
    False,
    /// It was a list, and something was made from an item of it.
    Item,
}

/// Takes down which places of a mapping's file were evaluated. Clones share what they hold. Evaluations that were handed
/// none cost nothing.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<BTreeSet<(usize, usize, Way)>>>);

impl Recorder {
    pub fn note(&self, place: &Range<usize>, way: Way) {
        self.0.lock().insert((place.start, place.end, way));
    }

    pub fn has(&self, place: &Range<usize>, way: Way) -> bool {
        self.0.lock().contains(&(place.start, place.end, way))
    }

    /// Notes what came of an expression.
    pub(super) fn outcome(&self, place: &Range<usize>, outcome: &Outcome) {
        match outcome {
            Outcome::Waiting(_) => return,
            Outcome::Value(Value::Bool(truth)) => self.condition(place, *truth),
            _ => {}
        }
        self.note(place, Way::Evaluated);
    }

    pub(super) fn condition(&self, place: &Range<usize>, holds: bool) {
        self.note(place, if holds { Way::True } else { Way::False });
    }
}
