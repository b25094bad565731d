//! Filters on lists.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::super::budget::Budget;
use super::super::operators::{self, Numeric};
use super::super::registry::Arguments;
use super::super::scope::step;
use super::super::tree::{Arithmetic, Segment};
use super::super::value::{Operand, Stop, own, print};
use super::Answer;

/// Characters of a string, items of a list, entries of a map.
pub fn length<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let value = arguments.value(0)?;
    let length = match &*value {
        Value::String(text) => {
            budget.charge(text.len())?;
            text.chars().count()
        }
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        other => return Err(arguments.wrong("a string, a list or a map", other)),
    };
    Ok(Operand::owned(length))
}

/// One item of a list.
pub fn pick<'a>(
    mut arguments: Arguments<'a>,
    budget: &mut Budget,
    pick: impl FnOnce(Vec<Cow<'a, Value>>) -> Option<Cow<'a, Value>>,
) -> Answer<'a> {
    let items = arguments.items(0)?;
    budget.charge(64 * items.len())?;
    Ok(pick(items).map_or_else(|| arguments.of_nothing(), Operand::Value))
}

/// The item that replaces all before it.
pub fn extreme<'a>(
    mut arguments: Arguments<'a>,
    budget: &mut Budget,
    replaces: impl Fn(Ordering) -> bool,
) -> Answer<'a> {
    let case_sensitive = arguments.flag(1)?;
    let mut best: Option<Cow<'a, Value>> = None;
    for item in arguments.items(0)? {
        budget.step()?;
        let better = match &best {
            None => true,
            Some(best) => replaces(order(&item, best, case_sensitive, budget)?),
        };
        if better {
            best = Some(item);
        }
    }
    Ok(best.map_or_else(|| arguments.of_nothing(), Operand::Value))
}

/// Order as Jinja has it: letters count the same in either case, unless asked otherwise.
fn order(left: &Value, right: &Value, case_sensitive: bool, budget: &mut Budget) -> Result<Ordering, Stop> {
    match (left, right) {
        (Value::String(left), Value::String(right)) if !case_sensitive => {
            budget.charge(4 * (left.len() + right.len()))?;
            Ok(left.to_lowercase().cmp(&right.to_lowercase()))
        }
        (left, right) => operators::order(left, right, budget),
    }
}

/// Sorts stably numbers, or strings, or items by one of their attributes.
pub fn sort<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let attribute = arguments.optional_text(1)?;
    let (case_sensitive, reverse) = (arguments.flag(2)?, arguments.flag(3)?);
    let items = arguments.items(0)?;
    let mut keyed = items
        .into_iter()
        .map(|item| Ok((key(&item, attribute.as_deref(), budget)?, item)))
        .collect::<Result<Vec<_>, Stop>>()?;
    // Checks and pays first, for a comparison that fails midway would leave the sort without an order.
    for pair in keyed.windows(2) {
        operators::order(&pair[0].0, &pair[1].0, budget)?;
    }
    let levels = keyed.len().checked_ilog2().unwrap_or_default() as usize + 1;
    for (key, _) in &mut keyed {
        budget.charge(levels * (64 + key.as_str().map_or(0, str::len)))?;
        if let (Value::String(text), false) = (&mut *key, case_sensitive) {
            *text = text.to_lowercase();
        }
    }
    keyed.sort_by(|(left, _), (right, _)| {
        let ordering = sort_order(left, right);
        if reverse { ordering.reverse() } else { ordering }
    });
    collect(keyed.into_iter().map(|(_, item)| item), budget)
}

/// Order of keys of one kind.
fn sort_order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Numeric::of(left).compare(Numeric::of(right)),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        _ => Ordering::Equal,
    }
}

/// Pairs of key and value, in the map's order.
pub fn items<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    match own(arguments.value(0)?, budget)? {
        Value::Object(fields) => {
            budget.charge(128 * fields.len())?;
            let pairs = fields.into_iter().map(|(key, value)| Value::Array(vec![Value::String(key), value]));
            Ok(Operand::owned(pairs.collect::<Vec<_>>()))
        }
        other => Err(arguments.wrong("a map", &other)),
    }
}

/// Each item once, the first of its equals. Letters count the same in either case, unless asked otherwise.
pub fn unique<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let attribute = arguments.optional_text(1)?;
    let case_sensitive = arguments.flag(2)?;
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for item in arguments.items(0)? {
        let key = key(&item, attribute.as_deref(), budget)?;
        budget.charge_value(&key)?;
        if seen.insert(identity(&key, case_sensitive)) {
            kept.push(item);
        }
    }
    collect(kept.into_iter(), budget)
}

/// A text that is the same for equal values: numbers by value, maps whatever their order.
fn identity(value: &Value, case_sensitive: bool) -> String {
    match value {
        Value::String(text) if !case_sensitive => Value::from(text.to_lowercase()).to_string(),
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Float(float) if float.fract() == 0.0 && float.abs() < 1e30 => (float as i128).to_string(),
            _ => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| identity(item, true)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let mut entries: Vec<_> = fields
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), identity(value, true)))
                .collect();
            entries.sort_unstable();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}

pub fn reverse<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    match arguments.value(0)? {
        value if value.is_string() => {
            let text = print(value)?;
            budget.charge(2 * text.len())?;
            Ok(Operand::owned(text.chars().rev().collect::<String>()))
        }
        Cow::Borrowed(Value::Array(items)) => collect(items.iter().rev().map(Cow::Borrowed), budget),
        Cow::Owned(Value::Array(items)) => collect(items.into_iter().rev().map(Cow::Owned), budget),
        other => Err(arguments.wrong("a list or a string", &other)),
    }
}

/// The items of the lists in a list, one after the other; what is no list stays as it is.
pub fn flatten<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let mut flat = Vec::new();
    for item in arguments.items(0)? {
        budget.charge(64)?;
        match own(item, budget)? {
            Value::Array(items) => {
                budget.charge(64 * items.len())?;
                flat.extend(items);
            }
            item => flat.push(item),
        }
    }
    Ok(Operand::owned(flat))
}

/// A list as it is; of a map its keys, of a string its characters.
pub fn list<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let value = arguments.value(0)?;
    let texts: Vec<String> = match &*value {
        Value::Array(_) => return Ok(Operand::Value(value)),
        Value::Object(fields) => {
            budget.charge_value(&value)?;
            fields.keys().cloned().collect()
        }
        Value::String(text) => {
            budget.charge(64 * text.len())?;
            text.chars().map(String::from).collect()
        }
        other => return Err(arguments.wrong("a list, a map or a string", other)),
    };
    Ok(Operand::owned(texts))
}

/// The items' texts with a separator between them.
pub fn join<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let separator = arguments.optional_text(1)?.unwrap_or_default();
    let attribute = arguments.optional_text(2)?;
    let mut joined = String::new();
    for (position, item) in arguments.items(0)?.into_iter().enumerate() {
        let text = match &attribute {
            Some(_) => print(Cow::Owned(key(&item, attribute.as_deref(), budget)?))?,
            None => print(item)?,
        };
        budget.step()?;
        budget.charge(separator.len() + text.len())?;
        if position > 0 {
            joined.push_str(&separator);
        }
        joined.push_str(&text);
    }
    Ok(Operand::owned(joined))
}

pub fn sum<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let attribute = arguments.optional_text(1)?;
    let mut total = Value::from(0);
    for item in arguments.items(0)? {
        let item = key(&item, attribute.as_deref(), budget)?;
        if !item.is_number() {
            return Err(arguments.wrong("numbers", &item));
        }
        total = operators::arithmetic(Arithmetic::Add, Cow::Owned(total), Cow::Owned(item), budget)?;
    }
    Ok(Operand::owned(total))
}

/// `range(stop)` or `range(start, stop)`: integers in a row.
pub fn range<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let first = arguments.optional_integer(0)?.unwrap_or_default();
    let (start, stop) = arguments.optional_integer(1)?.map_or((0, first), |stop| (first, stop));
    let length = usize::try_from(i128::from(stop) - i128::from(start)).unwrap_or_default();
    budget.charge(length.saturating_mul(128))?;
    Ok(Operand::owned((start..stop).collect::<Vec<_>>()))
}

/// The item itself, or what stands at its attribute.
pub(super) fn key(item: &Value, attribute: Option<&str>, budget: &mut Budget) -> Result<Value, Stop> {
    match attribute {
        None => budget.copy(item),
        Some(attribute) => match lookup(item, attribute) {
            Some(found) => budget.copy(found),
            None => Err(Stop::absent(&format!("….{attribute}"))),
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
    let items = items.map(|item| own(item, budget)).collect::<Result<Vec<_>, _>>()?;
    Ok(Operand::owned(items))
}
