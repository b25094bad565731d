//! Filters on numbers, and conversions to them.

use serde_json::Value;

use super::super::budget::Budget;
use super::super::operators::Numeric;
use super::super::registry::Arguments;
use super::super::value::{Operand, Stop};
use super::Answer;

pub fn abs<'a>(mut arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
    match numeric(&mut arguments)? {
        Numeric::Integer(value) => Numeric::Integer(value.abs()),
        Numeric::Float(value) => Numeric::Float(value.abs()),
    }
    .value()
    .map(Operand::owned)
}

/// Rounds half away from zero. An integer stays as it is, a float stays a float.
pub fn round<'a>(mut arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
    let precision = arguments.optional_integer(1)?.unwrap_or(0);
    match numeric(&mut arguments)? {
        Numeric::Float(value) => {
            let factor = 10_f64.powi(precision.clamp(0, 15) as i32);
            Numeric::Float((value * factor).round() / factor)
        }
        integer => integer,
    }
    .value()
    .map(Operand::owned)
}

fn numeric(arguments: &mut Arguments<'_>) -> Result<Numeric, Stop> {
    match &*arguments.value(0)? {
        Value::Number(number) => Ok(Numeric::of(number)),
        other => Err(arguments.wrong("a number", other)),
    }
}

/// An integer from a number, a boolean or a text; what is no integer gives the default, where there is one.
pub fn int<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    convert(&mut arguments, budget, "an integer", |value| match value {
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Float(value) => whole(value),
            integer => Some(integer),
        },
        Value::Bool(value) => Some(Numeric::Integer((*value).into())),
        Value::String(text) => {
            text.parse().map(Numeric::Integer).ok().or_else(|| text.parse::<f64>().ok().and_then(whole))
        }
        _ => None,
    })
}

pub fn float<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    convert(&mut arguments, budget, "a number", |value| match value {
        Value::Number(number) => Some(Numeric::Float(Numeric::of(number).float())),
        Value::Bool(value) => Some(Numeric::Float(if *value { 1.0 } else { 0.0 })),
        Value::String(text) => text.parse().ok().filter(|value: &f64| value.is_finite()).map(Numeric::Float),
        _ => None,
    })
}

/// The part before the point.
fn whole(value: f64) -> Option<Numeric> {
    // i128 holds every float below 2^127 exactly; what JSON cannot hold is refused on the way back.
    (value.abs() < 1e30).then(|| Numeric::Integer(value.trunc() as i128))
}

fn convert<'a>(
    arguments: &mut Arguments<'a>,
    budget: &mut Budget,
    wanted: &str,
    convert: impl FnOnce(&Value) -> Option<Numeric>,
) -> Answer<'a> {
    let value = arguments.value(0)?;
    if let Value::String(text) = &*value {
        budget.charge(text.len())?;
    }
    match (convert(&value), arguments.operand(1)) {
        (Some(number), _) => number.value().map(Operand::owned),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(arguments.fail(format!("finds no number in the text, which must be {wanted}"))),
    }
}
