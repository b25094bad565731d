//! What an expression computes with: JSON, borrowed as long as it can be, and two things that are no JSON.

use std::borrow::Cow;

use serde_json::Value;

use super::budget::Budget;
use super::{Evaluated, Unrendered};

/// A value on its way through an expression.
#[derive(Debug, Clone)]
pub(super) enum Operand<'a> {
    Value(Cow<'a, Value>),
    /// Nothing stands at this path.
    Absent(Gap<'a>),
    /// `omit`: the key or item is left out.
    Omit,
}

/// A path at which nothing stands.
#[derive(Debug, Clone)]
pub(super) struct Gap<'a> {
    path: Cow<'a, str>,
    /// A controller is expected to report it: what needs its value waits.
    is_awaited: bool,
}

impl Gap<'_> {
    /// What a controller has not reported yet.
    pub fn awaited(path: String) -> Self {
        Self { path: path.into(), is_awaited: true }
    }

    pub fn into_owned(self) -> Gap<'static> {
        Gap { path: self.path.into_owned().into(), is_awaited: self.is_awaited }
    }

    /// What becomes of a whole expression that is absent. Where objects are undefined as long as they are missing
    /// (`lenient`), so is what they do not report.
    pub fn deliver(self, lenient: bool) -> Result<Evaluated, Unrendered> {
        if self.is_awaited && !lenient { Err(self.stop()) } else { Ok(Evaluated::Absent(self.path.into_owned())) }
    }

    fn stop(&self) -> Unrendered {
        if self.is_awaited {
            Unrendered::Waiting(format!("`{}`, which is not reported yet", self.path))
        } else {
            Unrendered::absent(&self.path)
        }
    }
}

impl<'a, T: Into<Cow<'a, str>>> From<T> for Gap<'a> {
    fn from(path: T) -> Self {
        Self { path: path.into(), is_awaited: false }
    }
}

impl Unrendered {
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// An absent path met what needs a value.
    pub(super) fn absent(path: &str) -> Self {
        Self::Failed(format!(
            "`{path}` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it \
             with `is defined`"
        ))
    }

    pub(super) fn omit() -> Self {
        Self::failed("`omit` is no value: it can only stand for a whole key or item")
    }
}

impl<'a> Operand<'a> {
    pub fn owned(value: impl Into<Value>) -> Self {
        Self::Value(Cow::Owned(value.into()))
    }

    pub fn borrowed(value: &'a Value) -> Self {
        Self::Value(Cow::Borrowed(value))
    }

    /// The value, where nothing else will do.
    pub fn require(self) -> Result<Cow<'a, Value>, Unrendered> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Absent(gap) => Err(gap.stop()),
            Self::Omit => Err(Unrendered::omit()),
        }
    }

    /// The value to put into a list or a map; `None` leaves it out.
    pub fn element(self, budget: &mut Budget) -> Result<Option<Value>, Unrendered> {
        match self {
            Self::Omit => Ok(None),
            operand => own(operand.require()?, budget).map(Some),
        }
    }
}

/// An owned value; a copy is paid for.
pub(super) fn own(value: Cow<'_, Value>, budget: &mut Budget) -> Result<Value, Unrendered> {
    match value {
        Cow::Owned(value) => Ok(value),
        Cow::Borrowed(value) => budget.copy(value),
    }
}

/// What a value is, with its article.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Whether a value counts as true: not false, zero, empty or null.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// A part of a value, borrowed as the value is; of an owned one, a copy that is paid for.
pub(super) fn part<'a>(
    value: Cow<'a, Value>,
    find: impl Fn(&Value) -> Option<&Value>,
    budget: &mut Budget,
) -> Result<Option<Operand<'a>>, Unrendered> {
    match value {
        Cow::Borrowed(value) => Ok(find(value).map(Operand::borrowed)),
        Cow::Owned(value) => find(&value).map(|found| budget.copy(found).map(Operand::owned)).transpose(),
    }
}

/// The text that a value is, or the value.
pub(super) fn text(value: Cow<'_, Value>) -> Result<Cow<'_, str>, Cow<'_, Value>> {
    match value {
        Cow::Borrowed(Value::String(text)) => Ok(Cow::Borrowed(text)),
        Cow::Owned(Value::String(text)) => Ok(Cow::Owned(text)),
        other => Err(other),
    }
}

/// A value as text: strings, numbers and booleans alone have one form that everybody agrees on.
pub(super) fn print(value: Cow<'_, Value>) -> Result<Cow<'_, str>, Unrendered> {
    text(value).or_else(|other| match &*other {
        Value::Number(_) | Value::Bool(_) => Ok(Cow::Owned(other.to_string())),
        Value::Null => Err(Unrendered::failed("null has no text: give one with `default('...', true)`")),
        Value::Array(_) => {
            Err(Unrendered::failed("a list has no text of its own: use `| join(\", \")`, `| tojson` or `| toyaml`"))
        }
        other => {
            Err(Unrendered::failed(format!("{} has no text of its own: use `| tojson` or `| toyaml`", kind(other))))
        }
    })
}
