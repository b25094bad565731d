//! Notes of what was evaluated: for the author, whose tests should reach everything that a mapping says.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

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

impl Way {
    pub(super) fn of_condition(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
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
}
