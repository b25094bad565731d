//! Filters that call a filter or a test for each item.

use std::borrow::Cow;

use super::super::budget::Budget;
use super::super::registry::{Arguments, Function, Role};
use super::super::value::{Operand, Stop, is_true};
use super::Answer;
use super::list::{collect, lookup};

/// `map(attribute="name")`, or `map("filter", …)` on each item.
pub fn map<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let (filter, attribute) = (arguments.optional_text(1)?, arguments.optional_text(2)?);
    let default = arguments.optional(3)?;
    let rest = arguments.rest();
    let items = arguments.items(0)?;
    let mut mapped = Vec::with_capacity(items.len());
    match (filter, attribute) {
        (Some(filter), None) => {
            let filter = find(Role::Filter, &filter, &arguments)?;
            for item in items {
                mapped.extend(call(filter, Operand::Value(item), &rest, budget)?.element(budget)?);
            }
        }
        (None, Some(attribute)) => {
            for item in items {
                let found = match (&default, lookup(&item, &attribute)) {
                    (_, Some(found)) => budget.copy(found)?,
                    (Some(default), None) => budget.copy(default)?,
                    (None, None) => return Err(Stop::absent(&format!("….{attribute}"))),
                };
                mapped.push(found);
            }
        }
        _ => return Err(arguments.fail("needs either a filter's name or `attribute=`")),
    }
    Ok(Operand::owned(mapped))
}

/// Keeps the items that pass a test, or fail it (without a test: that count as true, or false).
pub fn choose<'a>(arguments: Arguments<'a>, budget: &mut Budget, wanted: bool) -> Answer<'a> {
    choose_by(arguments, budget, None, wanted)
}

/// Keeps the items whose attribute does. One that is not there counts as false, and can be tested with `defined`.
pub fn choose_by_attribute<'a>(mut arguments: Arguments<'a>, budget: &mut Budget, wanted: bool) -> Answer<'a> {
    let attribute = arguments.text(1)?;
    choose_by(arguments, budget, Some(attribute), wanted)
}

fn choose_by<'a>(
    mut arguments: Arguments<'a>,
    budget: &mut Budget,
    attribute: Option<Cow<'a, str>>,
    wanted: bool,
) -> Answer<'a> {
    let test = match arguments.optional_text(if attribute.is_some() { 2 } else { 1 })? {
        Some(name) => Some(find(Role::Test, &name, &arguments)?),
        None => None,
    };
    let rest = arguments.rest();
    let mut kept = Vec::new();
    for item in arguments.items(0)? {
        budget.step()?;
        let subject = match &attribute {
            None => Operand::borrowed(&item),
            Some(attribute) => match lookup(&item, attribute) {
                Some(found) => Operand::borrowed(found),
                None => Operand::Absent(format!("….{attribute}").into()),
            },
        };
        if passes(test, subject, &rest, budget)? == wanted {
            kept.push(item);
        }
    }
    collect(kept.into_iter(), budget)
}

fn passes(
    test: Option<&'static Function>,
    subject: Operand<'_>,
    rest: &[Operand<'_>],
    budget: &mut Budget,
) -> Result<bool, Stop> {
    match (test, subject) {
        (None, Operand::Value(value)) => Ok(is_true(&value)),
        (None, _) => Ok(false),
        (Some(test), Operand::Absent(_)) if test.name != "defined" => Ok(false),
        (Some(test), subject) => {
            let answer = call(test, subject, rest, budget)?;
            Ok(is_true(&*answer.require()?))
        }
    }
}

/// Filters and tests that `map` and its relatives may call: not themselves, which keeps calls flat.
fn find(role: Role, name: &str, arguments: &Arguments<'_>) -> Result<&'static Function, Stop> {
    const NESTING: [&str; 5] = ["map", "select", "reject", "selectattr", "rejectattr"];
    role.find(name)
        .filter(|function| !NESTING.contains(&function.name))
        .ok_or_else(|| arguments.fail(format!("knows no {} of that name", role.name())))
}

fn call<'a>(
    function: &'static Function,
    subject: Operand<'a>,
    rest: &[Operand<'a>],
    budget: &mut Budget,
) -> Answer<'a> {
    budget.step()?;
    for operand in rest {
        if let Operand::Value(Cow::Owned(value)) = operand {
            budget.charge_value(value)?;
        }
    }
    let mut given = std::iter::once(subject).chain(rest.iter().cloned());
    let positional = function.parameters.iter().filter(|parameter| !parameter.keyword).count();
    let mut values: Vec<_> = given.by_ref().take(positional).map(Some).collect();
    values.resize_with(function.parameters.len(), || None);
    let rest: Vec<_> = given.collect();
    if !rest.is_empty() && !function.rest {
        return Err(Stop::failed(format!("`{}` takes fewer arguments", function.name)));
    }
    (function.call)(Arguments::new(function, values, rest), budget)
}
