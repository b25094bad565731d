//! Arithmetic, comparison, containment and slices, each paid for.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::Unrendered;
use super::budget::Budget;
use super::scope::position;
use super::tree::{Arithmetic, Comparison};
use super::value::{kind, own};

/// A number as JSON tells them apart: `1` is an integer, `1.0` is not.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numeric {
    /// Every i64 and u64 fits.
    Integer(i128),
    Float(f64),
}

impl Numeric {
    pub fn of(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Self::Integer(value.into()),
            (None, Some(value)) => Self::Integer(value.into()),
            (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Back to JSON, which has no infinity, and no integers beyond 64 bits.
    pub fn value(self) -> Result<Value, Unrendered> {
        let number = match self {
            Self::Integer(value) => {
                i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from)).ok()
            }
            Self::Float(value) => Number::from_f64(value),
        };
        number.map(Value::Number).ok_or_else(|| Unrendered::failed("the result is no number that JSON can hold"))
    }

    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => left.cmp(&right),
            (Self::Float(left), Self::Float(right)) => normal_zero(left).total_cmp(&normal_zero(right)),
            (Self::Integer(left), Self::Float(right)) => integer_to_float(left, right),
            (Self::Float(left), Self::Integer(right)) => integer_to_float(right, left).reverse(),
        }
    }
}

/// Compares exactly: beyond 2^53 neighbouring integers are the same float.
fn integer_to_float(left: i128, right: f64) -> Ordering {
    // Outside of i128 the cast saturates, which keeps the order.
    left.cmp(&(right.trunc() as i128)).then_with(|| 0.0_f64.total_cmp(&normal_zero(right.fract())))
}

/// `-0.0` counts as `0.0`.
fn normal_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

pub(super) fn negate(value: &Value) -> Result<Value, Unrendered> {
    match value {
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Integer(value) => Numeric::Integer(-value).value(),
            Numeric::Float(value) => Numeric::Float(-value).value(),
        },
        other => Err(Unrendered::failed(format!("`-` needs a number, not {}", kind(other)))),
    }
}

pub(super) fn arithmetic(
    operator: Arithmetic,
    left: Cow<'_, Value>,
    right: Cow<'_, Value>,
    budget: &mut Budget,
) -> Result<Value, Unrendered> {
    match (operator, &*left, &*right) {
        (_, Value::Number(left), Value::Number(right)) => {
            calculate(operator, Numeric::of(left), Numeric::of(right))?.value()
        }
        (Arithmetic::Add, Value::String(left), Value::String(right)) => {
            budget.charge(left.len() + right.len())?;
            Ok(Value::String(left.clone() + right))
        }
        (Arithmetic::Add, Value::Array(_), Value::Array(_)) => {
            let (mut left, right) = (own(left, budget)?, own(right, budget)?);
            if let (Value::Array(items), Value::Array(more)) = (&mut left, right) {
                items.extend(more);
            }
            Ok(left)
        }
        (_, left, right) => Err(Unrendered::failed(format!(
            "`{}` cannot take {} and {}{}",
            operator.symbol(),
            kind(left),
            kind(right),
            if operator == Arithmetic::Add { ": use `~` to join text" } else { "" }
        ))),
    }
}

fn calculate(operator: Arithmetic, left: Numeric, right: Numeric) -> Result<Numeric, Unrendered> {
    if matches!(operator, Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder) && right.float() == 0.0
    {
        return Err(Unrendered::failed("division by zero"));
    }
    match (left, right) {
        (Numeric::Integer(left), Numeric::Integer(right)) if operator != Arithmetic::Divide => {
            calculate_integers(operator, left, right)
        }
        (left, right) => Ok(Numeric::Float(calculate_floats(operator, left.float(), right.float()))),
    }
}

fn calculate_integers(operator: Arithmetic, left: i128, right: i128) -> Result<Numeric, Unrendered> {
    let result = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::FloorDivide => floored(left, right).map(|(quotient, _)| quotient),
        Arithmetic::Remainder => floored(left, right).map(|(_, rest)| rest),
        Arithmetic::Divide => None,
    };
    result
        .map(Numeric::Integer)
        .ok_or_else(|| Unrendered::failed(format!("`{}` leaves the range of integers", operator.symbol())))
}

fn calculate_floats(operator: Arithmetic, left: f64, right: f64) -> f64 {
    match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::FloorDivide => floored_floats(left, right).0,
        Arithmetic::Remainder => floored_floats(left, right).1,
    }
}

/// Quotient and rest as in Python and Jinja: the quotient is rounded down, and the rest has the divisor's sign.
fn floored(left: i128, right: i128) -> Option<(i128, i128)> {
    let (quotient, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    let is_above = rest != 0 && (rest < 0) != (right < 0);
    Some(if is_above { (quotient - 1, rest + right) } else { (quotient, rest) })
}

/// The same of floats.
fn floored_floats(left: f64, right: f64) -> (f64, f64) {
    let rest = left % right;
    let quotient = ((left - rest) / right).round();
    let is_above = rest != 0.0 && (rest < 0.0) != (right < 0.0);
    if is_above { (quotient - 1.0, rest + right) } else { (quotient, rest) }
}

impl Arithmetic {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Remainder => "%",
        }
    }
}

pub(super) fn compare(
    comparison: Comparison,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<bool, Unrendered> {
    match comparison {
        Comparison::Equal => equal(left, right, budget),
        Comparison::NotEqual => equal(left, right, budget).map(|equal| !equal),
        Comparison::Less => order(left, right, budget).map(Ordering::is_lt),
        Comparison::LessOrEqual => order(left, right, budget).map(Ordering::is_le),
        Comparison::Greater => order(left, right, budget).map(Ordering::is_gt),
        Comparison::GreaterOrEqual => order(left, right, budget).map(Ordering::is_ge),
        Comparison::In => contains(right, left, budget),
        Comparison::NotIn => contains(right, left, budget).map(|contains| !contains),
    }
}

/// Equality of JSON: numbers by value, maps whatever their order; values of different kinds are never equal.
pub(super) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, Unrendered> {
    budget.step()?;
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Ok(Numeric::of(left).compare(Numeric::of(right)).is_eq()),
        (Value::String(left), Value::String(right)) => {
            budget.charge(left.len().min(right.len()))?;
            Ok(left == right)
        }
        (Value::Array(left), Value::Array(right)) => {
            Ok(left.len() == right.len() && all(left.iter().zip(right), |(left, right)| equal(left, right, budget))?)
        }
        (Value::Object(left), Value::Object(right)) => Ok(left.len() == right.len()
            && all(left, |(key, left)| match right.get(key) {
                Some(right) => {
                    budget.charge(key.len())?;
                    equal(left, right, budget)
                }
                None => Ok(false),
            })?),
        (left, right) => Ok(left == right),
    }
}

fn all<T>(
    items: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool, Unrendered>,
) -> Result<bool, Unrendered> {
    for item in items {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Order of numbers among each other and of strings among each other; nothing else has one.
pub(super) fn order(left: &Value, right: &Value, budget: &mut Budget) -> Result<Ordering, Unrendered> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Ok(Numeric::of(left).compare(Numeric::of(right))),
        (Value::String(left), Value::String(right)) => {
            budget.charge(left.len().min(right.len()))?;
            Ok(left.cmp(right))
        }
        (left, right) => Err(Unrendered::failed(format!(
            "{} and {} have no order: compare numbers, or strings",
            kind(left),
            kind(right)
        ))),
    }
}

/// `needle in container`: an item of a list, a key of a map, a part of a string.
pub(super) fn contains(container: &Value, needle: &Value, budget: &mut Budget) -> Result<bool, Unrendered> {
    match (container, needle) {
        (Value::Array(items), _) => {
            for item in items {
                if equal(item, needle, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Object(fields), Value::String(key)) => Ok(fields.contains_key(key)),
        (Value::Object(_), _) => Ok(false),
        (Value::String(text), Value::String(part)) => {
            budget.charge(text.len() + part.len())?;
            Ok(text.contains(part.as_str()))
        }
        (container, needle) => {
            Err(Unrendered::failed(format!("{} cannot be looked for in {}", kind(needle), kind(container))))
        }
    }
}

/// Part of a list or, by characters, of a string. Bounds beyond the ends are cut off.
pub(super) fn slice(
    value: &Value,
    start: Option<i64>,
    stop: Option<i64>,
    budget: &mut Budget,
) -> Result<Value, Unrendered> {
    let bounds = |length: usize| {
        let clamp = |index: i64| position(index, length).unwrap_or(0).min(length);
        let start = start.map_or(0, clamp);
        (start, stop.map_or(length, clamp).max(start))
    };
    match value {
        Value::Array(items) => {
            let (start, stop) = bounds(items.len());
            items[start..stop].iter().map(|item| budget.copy(item)).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        Value::String(text) => {
            budget.charge(2 * text.len())?;
            let (start, stop) = bounds(text.chars().count());
            Ok(Value::String(text.chars().skip(start).take(stop - start).collect()))
        }
        other => Err(Unrendered::failed(format!("a slice needs a list or a string, not {}", kind(other)))),
    }
}
