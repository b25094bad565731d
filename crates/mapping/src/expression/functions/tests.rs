//! Tests: what stands after `is`.

use serde_json::Value;

use super::super::budget::Budget;
use super::super::operators::compare;
use super::super::registry::Arguments;
use super::super::tree::Comparison;
use super::super::value::Operand;
use super::Answer;

pub fn defined<'a>(mut arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
    Ok(Operand::owned(matches!(arguments.operand(0), Some(Operand::Value(_)))))
}

macro_rules! kinds {
    ($($name:ident: $pattern:pat $(if $guard:expr)?,)*) => {$(
        pub fn $name<'a>(mut arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
            Ok(Operand::owned(matches!(&*arguments.value(0)?, $pattern $(if $guard)?)))
        }
    )*};
}

kinds! {
    none: Value::Null,
    boolean: Value::Bool(_),
    number: Value::Number(_),
    integer: Value::Number(number) if !number.is_f64(),
    float: Value::Number(number) if number.is_f64(),
    string: Value::String(_),
    sequence: Value::Array(_),
    mapping: Value::Object(_),
}

macro_rules! comparisons {
    ($($name:ident: $comparison:ident;)*) => {$(
        pub fn $name<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
            let (left, right) = (arguments.value(0)?, arguments.value(1)?);
            compare(Comparison::$comparison, &left, &right, budget).map(Operand::owned)
        }
    )*};
}

comparisons! {
    eq: Equal;
    ne: NotEqual;
    lt: Less;
    le: LessOrEqual;
    gt: Greater;
    ge: GreaterOrEqual;
    within: In;
}

pub fn affix<'a>(mut arguments: Arguments<'a>, budget: &mut Budget, has: fn(&str, &str) -> bool) -> Answer<'a> {
    let (text, part) = (arguments.text(0)?, arguments.text(1)?);
    budget.charge(part.len())?;
    Ok(Operand::owned(has(&text, &part)))
}
