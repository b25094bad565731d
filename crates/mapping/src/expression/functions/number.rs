//! Filters on numbers, and conversions to them.

use serde_json::Value;

use super::super::given::Given;
use super::super::operators::Numeric;
use super::{Answer, gives};

pub fn abs<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let number = match given.number()? {
        Numeric::Integer(value) => Numeric::Integer(value.abs()),
        Numeric::Float(value) => Numeric::Float(value.abs()),
    };
    gives(number.value()?)
}

/// Rounds half away from zero. An integer stays as it is, a float stays a float.
pub fn round<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let number = match (given.number()?, given.integer(1)?.unwrap_or(0)) {
        (Numeric::Float(value), precision) => {
            let factor = 10_f64.powi(precision.clamp(0, 15) as i32);
            Numeric::Float((value * factor).round() / factor)
        }
        (integer, _) => integer,
    };
    gives(number.value()?)
}

/// An integer from a number, a boolean or a text; what is no integer gives the default, where there is one.
pub fn int<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    convert(given, "an integer", |value| match value {
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

pub fn float<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    convert(given, "a number", |value| match value {
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

fn convert<'a>(given: &mut Given<'a, '_>, wanted: &str, convert: impl Fn(&Value) -> Option<Numeric>) -> Answer<'a> {
    let value = given.value(0)?;
    given.budget.charge(value.as_str().map_or(0, str::len))?;
    match (convert(&value), given.operand(1)) {
        (Some(number), _) => gives(number.value()?),
        (None, Some(default)) => Ok(default),
        (None, None) => Err(given.fail(format!("finds no number in the text, which must be {wanted}"))),
    }
}
