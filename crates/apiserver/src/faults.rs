//! Faults that a test asks for, request by request.

use std::time::Duration;

use super::request::Call;
use super::status::Failure;
use parking_lot::Mutex;

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is carried out later.
    Delay(Duration),
    /// The connection is cut, nothing was done.
    DropBefore,
    /// It is carried out, the connection is cut before the answer.
    DropAfter,
    /// It is refused: 409, 410, 429 with Retry-After, 5xx.
    Refuse(Failure),
}

type Rule = Box<dyn FnMut(&Call) -> Option<Fault> + Send>;

/// The faults in force. Rules are asked in order, the first one with an answer decides.
#[derive(Default)]
pub struct Faults(Mutex<Vec<Rule>>);

impl Faults {
    /// Adds a rule that sees every request. A rule that never answers can serve to record the requests.
    pub fn inject(&self, rule: impl FnMut(&Call) -> Option<Fault> + Send + 'static) {
        self.0.lock().push(Box::new(rule));
    }

    /// Lets the next `times` requests that match fail in the same way.
    pub fn next(&self, mut times: u32, matches: impl Fn(&Call) -> bool + Send + 'static, fault: Fault) {
        self.inject(move |call| {
            let hit = times > 0 && matches(call);
            times -= u32::from(hit);
            hit.then(|| fault.clone())
        });
    }

    /// Ends all faults.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    pub(super) fn of(&self, call: &Call) -> Option<Fault> {
        self.0.lock().iter_mut().find_map(|rule| rule(call))
    }
}
