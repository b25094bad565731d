//! Filters on maps, and the ones that meet what is absent.

use std::borrow::Cow;

use serde_json::Value;

use super::super::budget::Budget;
use super::super::registry::Arguments;
use super::super::value::{Operand, Stop, is_true, own};
use super::Answer;
use super::list::lookup;

/// The value, or the fallback where it is absent (with `lax` also where it counts as false).
pub fn default<'a>(mut arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
    let lax = arguments.flag(2)?;
    match arguments.operand(0) {
        Some(Operand::Value(value)) if !lax || is_true(&value) => Ok(Operand::Value(value)),
        Some(Operand::Omit) => Ok(Operand::Omit),
        _ => Ok(arguments.operand(1).unwrap_or_else(|| Operand::owned(""))),
    }
}

/// The value, or a failure with the author's own words where it is absent or null.
pub fn required<'a>(mut arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
    let message = arguments.text(1)?;
    match arguments.operand(0) {
        Some(Operand::Value(value)) if !value.is_null() => Ok(Operand::Value(value)),
        Some(Operand::Omit) => Err(Stop::omit()),
        _ => Err(Stop::failed(message)),
    }
}

/// What stands at a path of keys and indexes, `a.b.0`; where nothing does, the default.
pub fn dig<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let path = arguments.text(1)?;
    let found = match arguments.present(0)? {
        Some(value) => descend(value, &path, budget)?,
        None => None,
    };
    match (found, arguments.operand(2)) {
        (Some(found), _) => Ok(found),
        (None, Some(default)) => Ok(default),
        (None, None) => Ok(Operand::Absent(format!("… | dig({path:?})").into())),
    }
}

fn descend<'a>(value: Cow<'a, Value>, path: &str, budget: &mut Budget) -> Result<Option<Operand<'a>>, Stop> {
    budget.charge(path.len())?;
    Ok(match value {
        Cow::Borrowed(value) => lookup(value, path).map(Operand::borrowed),
        Cow::Owned(value) => lookup(&value, path).map(|found| budget.copy(found)).transpose()?.map(Operand::owned),
    })
}

/// The given keys of the map, in the map's order, or the others; the ones it does not have are left out.
pub fn keep<'a>(mut arguments: Arguments<'a>, budget: &mut Budget, named: bool) -> Answer<'a> {
    let keys = arguments.rest_texts()?;
    let fields = match arguments.value(0)? {
        Cow::Borrowed(Value::Object(fields)) => fields
            .iter()
            .filter(|(key, _)| keys.contains(key) == named)
            .map(|(key, value)| {
                budget.charge(key.len())?;
                Ok((key.clone(), own(Cow::Borrowed(value), budget)?))
            })
            .collect::<Result<_, Stop>>()?,
        Cow::Owned(Value::Object(mut fields)) => {
            fields.retain(|key, _| keys.contains(key) == named);
            fields
        }
        other => return Err(arguments.wrong("a map", &other)),
    };
    Ok(Operand::owned(Value::Object(fields)))
}
