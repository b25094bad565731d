//! Filters on maps, and the ones that meet what is absent.

use serde_json::Value;

use super::super::Unrendered;
use super::super::given::Given;
use super::super::value::{Operand, is_true, part};
use super::list::lookup;
use super::{Answer, gives};

/// The value, or the fallback where it is absent (with `lax` also where it counts as false).
pub fn default<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let lax = given.flag(2)?;
    match given.operand(0) {
        Some(Operand::Value(value)) if !lax || is_true(&value) => Ok(Operand::Value(value)),
        Some(Operand::Omit) => Ok(Operand::Omit),
        _ => Ok(given.operand(1).unwrap_or_else(|| Operand::owned(""))),
    }
}

/// The value, or a failure with the author's own words where it is absent or null.
pub fn required<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let message = given.text(1)?;
    match given.operand(0) {
        Some(Operand::Value(value)) if !value.is_null() => Ok(Operand::Value(value)),
        Some(Operand::Omit) => Err(Unrendered::omit()),
        _ => Err(Unrendered::failed(message)),
    }
}

/// What stands at a path of keys and indexes, `a.b.0`; where nothing does, the default.
pub fn dig<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let path = given.text(1)?;
    let found = match given.present(0)? {
        Some(value) => part(value, |value| lookup(value, &path), given.budget)?,
        None => None,
    };
    let absent = || Operand::Absent(format!("… | dig({path:?})").into());
    Ok(found.or_else(|| given.operand(2)).unwrap_or_else(absent))
}

/// The given keys of the map, in the map's order, or the others; the ones it does not have are left out.
pub fn keep<'a>(given: &mut Given<'a, '_>, named: bool) -> Answer<'a> {
    let texts = given.rest().into_iter().map(|key| match key.require()?.into_owned() {
        Value::String(key) => Ok(key),
        other => Err(given.wrong("strings", &other)),
    });
    let keys = texts.collect::<Result<Vec<String>, Unrendered>>()?;
    let mut kept = serde_json::Map::new();
    for (key, value) in given.value(0)?.as_object().into_iter().flatten() {
        if keys.contains(key) == named {
            given.budget.charge(key.len())?;
            kept.insert(key.clone(), given.budget.copy(value)?);
        }
    }
    gives(kept)
}
