//! What one evaluation may cost.
//!
//! Consumer data is hostile, so everything that touches data is charged before it is done: a unit is about a
//! byte that is copied, compared or hashed, and a node counts 64, which is about what one takes in memory.
//! The budget therefore bounds memory and time at once, and by no clock: an evaluation that fails,
//! fails always.

use std::borrow::Cow;
use std::cmp::max;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::{Scope, Unrendered};

/// Work one evaluation may do: some 10 ms, and at most 8 MiB of memory.
pub const WORK: usize = 4 << 20;
/// Work of a whole template, all leaves together.
pub const TEMPLATE_WORK: usize = 8 << 20;
/// Bytes a result may have; etcd takes no larger object.
pub const RESULT: usize = 3 << 19;
/// Levels of lists and maps a result may have.
pub const DEPTH: usize = 128;
/// Work of all evaluations for one source, where its list has a template evaluated a thousand times: some 0.6 s.
pub const ALL_WORK: usize = 256 << 20;
/// Bytes that all their results may have.
pub const ALL_RESULTS: usize = 64 << 20;

const NODE: usize = 64;

/// What is left of that for all evaluations.
#[derive(Debug)]
pub(super) struct Allowance {
    work: AtomicUsize,
    result: AtomicUsize,
}

impl Allowance {
    pub fn of(work: usize) -> Self {
        Self { work: AtomicUsize::new(work), result: AtomicUsize::new(ALL_RESULTS) }
    }
}

/// Takes so much at most.
fn take(left: &AtomicUsize, most: usize) -> usize {
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most)));
    before.unwrap_or_default().min(most)
}

/// What is left of the work an evaluation may do.
#[derive(Debug)]
pub(crate) struct Budget {
    work: usize,
    result: usize,
    /// Where both were taken from, and what is left goes back to; `None`: all evaluations together have no limit.
    all: Option<Arc<Allowance>>,
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.work.fetch_add(self.work, Ordering::Relaxed);
            all.result.fetch_add(self.result, Ordering::Relaxed);
        }
    }
}

impl Budget {
    pub fn for_expression(scope: &Scope) -> Self {
        Self::new(scope, WORK)
    }

    pub fn for_template(scope: &Scope) -> Self {
        Self::new(scope, TEMPLATE_WORK)
    }

    fn new(scope: &Scope, work: usize) -> Self {
        match scope.allowance() {
            None => Self { work, result: RESULT, all: None },
            Some(all) => {
                Self { work: take(&all.work, work), result: take(&all.result, RESULT), all: Some(all.clone()) }
            }
        }
    }

    /// Whether nothing is left for all evaluations together.
    fn is_last(&self, left: impl Fn(&Allowance) -> &AtomicUsize) -> bool {
        self.all.as_ref().is_some_and(|all| left(all).load(Ordering::Relaxed) == 0)
    }

    /// A copy of a literal of a template. Its author's text is small; what repeats it is a consumer's list.
    pub fn literal(&mut self, value: &Value) -> Result<Value, Unrendered> {
        self.deliver(Cow::Borrowed(value))
    }

    /// Pays for a key of a map, or an item of a list, that a template builds.
    pub fn entry(&mut self, key: usize) -> Result<(), Unrendered> {
        self.step()?;
        self.deliver_text(key + 4)
    }

    /// Pays for work before it is done.
    pub(super) fn charge(&mut self, units: usize) -> Result<(), Unrendered> {
        match self.work.checked_sub(units) {
            Some(left) => {
                self.work = left;
                Ok(())
            }
            None => {
                self.work = 0;
                Err(Unrendered::failed(match self.is_last(|all| &all.work) {
                    true => {
                        "the expressions of this source do more work than all of them may (256 MiB of data touched)"
                    }
                    false => "the expression does more work than one evaluation may (4 MiB of data touched)",
                }))
            }
        }
    }

    /// Pays for one step of the evaluation: a node of the expression, an item of a list.
    pub(super) fn step(&mut self) -> Result<(), Unrendered> {
        self.charge(NODE)
    }

    /// Pays for a walk over a whole value.
    pub(super) fn charge_value(&mut self, value: &Value) -> Result<(), Unrendered> {
        self.charge(Size::of(value).work())
    }

    /// A copy of a value, paid for.
    pub(super) fn copy(&mut self, value: &Value) -> Result<Value, Unrendered> {
        self.charge_value(value)?;
        Ok(value.clone())
    }

    /// Checks what leaves the evaluation, and makes it its own.
    pub(super) fn deliver(&mut self, value: Cow<'_, Value>) -> Result<Value, Unrendered> {
        let size = Size::of(&value);
        if size.depth > DEPTH {
            return Err(Unrendered::failed(format!("the result is nested more than {DEPTH} levels deep")));
        }
        self.deliver_text(size.bytes)?;
        match value {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                self.charge(size.work())?;
                Ok(value.clone())
            }
        }
    }

    /// Takes the bytes of a result off what results may still have.
    pub(super) fn deliver_text(&mut self, bytes: usize) -> Result<(), Unrendered> {
        match self.result.checked_sub(bytes) {
            Some(left) => {
                self.result = left;
                Ok(())
            }
            None if self.is_last(|all| &all.result) => {
                let why = format!("the results of this source are larger than {ALL_RESULTS} bytes together");
                Err(Unrendered::failed(why))
            }
            None => Err(Unrendered::failed(format!("the result is larger than {RESULT} bytes"))),
        }
    }
}

/// What a value takes: bytes of its JSON text (escapes not counted), nodes and levels.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    bytes: usize,
    nodes: usize,
    depth: usize,
}

impl Size {
    fn work(self) -> usize {
        self.bytes + NODE * self.nodes
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(_) => Self { bytes: 5, nodes: 1, depth: 0 },
            Value::Number(_) => Self { bytes: 8, nodes: 1, depth: 0 },
            Value::String(text) => Self { bytes: text.len() + 2, nodes: 1, depth: 0 },
            Value::Array(items) => items.iter().map(Self::of).fold(Self::collection(), Self::enclose),
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| Self::of(value).keyed(key)).fold(Self::collection(), Self::enclose)
            }
        }
    }

    fn collection() -> Self {
        Self { bytes: 2, nodes: 1, depth: 1 }
    }

    fn keyed(self, key: &str) -> Self {
        Self { bytes: self.bytes + key.len() + 4, ..self }
    }

    fn enclose(self, item: Self) -> Self {
        Self {
            bytes: self.bytes + item.bytes + 1,
            nodes: self.nodes + item.nodes,
            depth: max(self.depth, item.depth + 1),
        }
    }
}
