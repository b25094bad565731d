//! Filters on lists.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::super::Unrendered;
use super::super::budget::Budget;
use super::super::given::Given;
use super::super::operators::{self, Numeric};
use super::super::scope::step;
use super::super::tree::{Arithmetic, Segment};
use super::super::value::{Operand, own, print};
use super::{Answer, gives};

/// Characters of a string, items of a list, entries of a map.
pub fn length<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let value = given.value(0)?;
    given.budget.charge(value.as_str().map_or(0, str::len))?;
    gives(match &*value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        other => other.as_object().map_or(0, serde_json::Map::len),
    })
}

/// One item of a list.
pub fn pick<'a>(
    given: &mut Given<'a, '_>,
    pick: impl FnOnce(Vec<Cow<'a, Value>>) -> Option<Cow<'a, Value>>,
) -> Answer<'a> {
    let picked = pick(given.items()?);
    Ok(picked.map_or_else(|| given.of_nothing(), Operand::Value))
}

/// The item that replaces all before it.
pub fn extreme<'a>(given: &mut Given<'a, '_>, replaces: impl Fn(Ordering) -> bool) -> Answer<'a> {
    let case_sensitive = given.flag(1)?;
    let mut items = given.items()?.into_iter();
    let Some(mut best) = items.next() else { return Ok(given.of_nothing()) };
    for item in items {
        if replaces(order(&item, &best, case_sensitive, given.budget)?) {
            best = item;
        }
    }
    Ok(Operand::Value(best))
}

/// Order as Jinja has it: letters count the same in either case, unless asked otherwise.
fn order(left: &Value, right: &Value, case_sensitive: bool, budget: &mut Budget) -> Result<Ordering, Unrendered> {
    match (left, right) {
        (Value::String(left), Value::String(right)) if !case_sensitive => {
            budget.charge(4 * (left.len() + right.len()))?;
            Ok(left.to_lowercase().cmp(&right.to_lowercase()))
        }
        (left, right) => operators::order(left, right, budget),
    }
}

/// Sorts stably numbers, or strings, or items by one of their attributes.
pub fn sort<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let attribute = given.optional_text(1)?;
    let (case_sensitive, reverse) = (given.flag(2)?, given.flag(3)?);
    let items = given.items()?;
    let mut keyed = items
        .into_iter()
        .map(|item| Ok((key(&item, attribute.as_deref(), given.budget)?, item)))
        .collect::<Result<Vec<_>, Unrendered>>()?;
    // Checks and pays first, for a comparison that fails midway would leave the sort without an order.
    for pair in keyed.windows(2) {
        operators::order(&pair[0].0, &pair[1].0, given.budget)?;
    }
    let levels = keyed.len().checked_ilog2().unwrap_or_default() as usize + 1;
    for (key, _) in &mut keyed {
        given.budget.charge(levels * (64 + key.as_str().map_or(0, str::len)))?;
        if let (Value::String(text), false) = (&mut *key, case_sensitive) {
            *text = text.to_lowercase();
        }
    }
    keyed.sort_by(|(left, _), (right, _)| {
        let ordering = match (left, right) {
            (Value::Number(left), Value::Number(right)) => Numeric::of(left).compare(Numeric::of(right)),
            (Value::String(left), Value::String(right)) => left.cmp(right),
            _ => Ordering::Equal,
        };
        if reverse { ordering.reverse() } else { ordering }
    });
    collect(keyed.into_iter().map(|(_, item)| item), given.budget)
}

/// Pairs of key and value, in the map's order.
pub fn items<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let value = own(given.value(0)?, given.budget)?;
    given.budget.charge(128 * value.as_object().map_or(0, serde_json::Map::len))?;
    let fields = if let Value::Object(fields) = value { fields } else { serde_json::Map::new() };
    gives(fields.into_iter().map(|(key, value)| Value::from(vec![Value::String(key), value])).collect::<Vec<_>>())
}

/// Each item once, the first of its equals. Letters count the same in either case, unless asked otherwise.
pub fn unique<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let (attribute, case_sensitive) = (given.optional_text(1)?, given.flag(2)?);
    let (mut seen, mut kept) = (BTreeSet::new(), Vec::new());
    for item in given.items()? {
        let key = key(&item, attribute.as_deref(), given.budget)?;
        given.budget.charge_value(&key)?;
        let mut identity = String::new();
        write_identity(&key, case_sensitive, &mut identity);
        if seen.insert(identity) {
            kept.push(item);
        }
    }
    collect(kept.into_iter(), given.budget)
}

/// Writes a text that is the same for equal values: numbers by value, maps whatever their order.
fn write_identity(value: &Value, case_sensitive: bool, text: &mut String) {
    match value {
        Value::String(content) if !case_sensitive => *text += &Value::from(content.to_lowercase()).to_string(),
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Float(float) if float.fract() == 0.0 && float.abs() < 1e30 => {
                *text += &(float as i128).to_string();
            }
            _ => *text += &number.to_string(),
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_identity(item, true, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (key, value) in fields {
                *text += &Value::from(key.as_str()).to_string();
                text.push(':');
                write_identity(value, true, text);
                text.push(',');
            }
            text.push('}');
        }
        other => *text += &other.to_string(),
    }
}

pub fn reverse<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let mut value = own(given.value(0)?, given.budget)?;
    match &mut value {
        Value::String(text) => *text = text.chars().rev().collect(),
        other => other.as_array_mut().into_iter().for_each(|items| items.reverse()),
    }
    gives(value)
}

/// The items of the lists in a list, one after the other; what is no list stays as it is.
pub fn flatten<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let mut flat = Vec::new();
    for item in given.items()? {
        match own(item, given.budget)? {
            Value::Array(items) => {
                given.budget.charge(64 * items.len())?;
                flat.extend(items);
            }
            item => flat.push(item),
        }
    }
    gives(flat)
}

/// A list as it is; of a map its keys, of a string its characters.
pub fn list<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let value = given.value(0)?;
    match &*value {
        Value::Object(fields) => {
            given.budget.charge_value(&value)?;
            gives(fields.keys().cloned().collect::<Vec<_>>())
        }
        Value::String(text) => {
            given.budget.charge(64 * text.len())?;
            gives(text.chars().map(String::from).collect::<Vec<_>>())
        }
        _ => Ok(Operand::Value(value)),
    }
}

/// The items' texts with a separator between them.
pub fn join<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let (separator, attribute) = (given.optional_text(1)?.unwrap_or_default(), given.optional_text(2)?);
    let mut joined = String::new();
    for (position, item) in given.items()?.into_iter().enumerate() {
        let text = match &attribute {
            Some(_) => print(Cow::Owned(key(&item, attribute.as_deref(), given.budget)?))?,
            None => print(item)?,
        };
        given.budget.charge(separator.len() + text.len())?;
        if position > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(&text);
    }
    gives(joined)
}

pub fn sum<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let attribute = given.optional_text(1)?;
    let mut total = Value::from(0);
    for item in given.items()? {
        let item = key(&item, attribute.as_deref(), given.budget)?;
        if !item.is_number() {
            return Err(given.wrong("numbers", &item));
        }
        total = operators::arithmetic(Arithmetic::Add, Cow::Owned(total), Cow::Owned(item), given.budget)?;
    }
    gives(total)
}

/// `range(stop)` or `range(start, stop)`: integers in a row.
pub fn range<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let first = given.integer(0)?.unwrap_or_default();
    let (start, stop) = given.integer(1)?.map_or((0, first), |stop| (first, stop));
    let length = usize::try_from(i128::from(stop) - i128::from(start)).unwrap_or_default();
    given.budget.charge(length.saturating_mul(128))?;
    gives((start..stop).collect::<Vec<_>>())
}

/// The item itself, or what stands at its attribute.
pub(super) fn key(item: &Value, attribute: Option<&str>, budget: &mut Budget) -> Result<Value, Unrendered> {
    match attribute {
        None => budget.copy(item),
        Some(attribute) => match lookup(item, attribute) {
            Some(found) => budget.copy(found),
            None => Err(Unrendered::absent(&format!("….{attribute}"))),
        },
    }
}

/// An attribute of an item; dots lead further down.
pub(super) fn lookup<'v>(item: &'v Value, attribute: &str) -> Option<&'v Value> {
    attribute.split('.').try_fold(item, |value, name| {
        let segment = match (value, name.parse()) {
            (Value::Array(_), Ok(index)) => Segment::Index(index),
            _ => Segment::Key(name.to_owned()),
        };
        step(value, &segment)
    })
}

pub(super) fn collect<'a, 'i>(items: impl Iterator<Item = Cow<'i, Value>>, budget: &mut Budget) -> Answer<'a> {
    gives(items.map(|item| own(item, budget)).collect::<Result<Vec<_>, _>>()?)
}
