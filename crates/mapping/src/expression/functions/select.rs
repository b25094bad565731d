//! Filters that call a filter or a test for each item.

use std::borrow::Cow;

use super::super::Unrendered;
use super::super::given::Given;
use super::super::registry::{Function, Role};
use super::super::value::{Operand, is_true};
use super::list::{collect, lookup};
use super::{Answer, gives};

/// `map(attribute="name")`, or `map("filter", …)` on each item.
pub fn map<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let (filter, attribute, default) = (given.optional_text(1)?, given.optional_text(2)?, given.optional(3)?);
    let (rest, items) = (given.rest(), given.items()?);
    let mut mapped = Vec::with_capacity(items.len());
    match (filter, attribute) {
        (Some(filter), None) => {
            let filter = find(Role::Filter, &filter, given)?;
            for item in items {
                mapped.extend(call(filter, Operand::Value(item), &rest, given)?.element(given.budget)?);
            }
        }
        (None, Some(attribute)) => {
            for item in &items {
                match lookup(item, &attribute).or(default.as_deref()) {
                    Some(found) => mapped.push(given.budget.copy(found)?),
                    None => return Err(Unrendered::absent(&format!("….{attribute}"))),
                }
            }
        }
        _ => return Err(given.fail("needs either a filter's name or `attribute=`")),
    }
    gives(mapped)
}

/// Keeps the items that pass a test, or fail it (without a test: that count as true, or false).
pub fn choose<'a>(given: &mut Given<'a, '_>, wanted: bool) -> Answer<'a> {
    choose_by(given, None, wanted)
}

/// Keeps the items whose attribute does. One that is not there counts as false, and can be tested with `defined`.
pub fn choose_by_attribute<'a>(given: &mut Given<'a, '_>, wanted: bool) -> Answer<'a> {
    let attribute = given.text(1)?;
    choose_by(given, Some(attribute), wanted)
}

fn choose_by<'a>(given: &mut Given<'a, '_>, attribute: Option<Cow<'a, str>>, wanted: bool) -> Answer<'a> {
    let test = match given.optional_text(if attribute.is_some() { 2 } else { 1 })? {
        Some(name) => Some(find(Role::Test, &name, given)?),
        None => None,
    };
    let (rest, mut kept) = (given.rest(), Vec::new());
    for item in given.items()? {
        let found = attribute.as_ref().map_or(Some(&*item), |attribute| lookup(&item, attribute));
        let passes = match (test, found) {
            (None, found) => found.is_some_and(is_true),
            (Some(test), None) if test.name != "defined" => false,
            (Some(test), found) => {
                let subject = found.map_or_else(|| Operand::Absent("….".into()), Operand::borrowed);
                is_true(&*call(test, subject, &rest, given)?.require()?)
            }
        };
        if passes == wanted {
            kept.push(item);
        }
    }
    collect(kept.into_iter(), given.budget)
}

/// Filters and tests that `map` and its relatives may call: not themselves, which keeps calls flat.
fn find(role: Role, name: &str, given: &Given<'_, '_>) -> Result<&'static Function, Unrendered> {
    const NESTING: [&str; 5] = ["map", "select", "reject", "selectattr", "rejectattr"];
    role.find(name)
        .filter(|function| !NESTING.contains(&function.name))
        .ok_or_else(|| given.fail(format!("knows no {} of that name", role.as_str())))
}

fn call<'a>(
    function: &'static Function,
    subject: Operand<'a>,
    rest: &[Operand<'a>],
    given: &mut Given<'_, '_>,
) -> Answer<'a> {
    given.budget.step()?;
    for operand in rest {
        if let Operand::Value(Cow::Owned(value)) = operand {
            given.budget.charge_value(value)?;
        }
    }
    let mut all = std::iter::once(subject).chain(rest.iter().cloned());
    let positional = function.parameters.iter().filter(|parameter| !parameter.keyword).count();
    let mut values: Vec<_> = all.by_ref().take(positional).map(Some).collect();
    values.resize_with(function.parameters.len(), || None);
    let rest: Vec<_> = all.collect();
    if !rest.is_empty() && !function.rest {
        return Err(Unrendered::failed(format!("`{}` takes fewer arguments", function.name)));
    }
    (function.call)(&mut Given::new(function, values, rest, given.budget))
}
