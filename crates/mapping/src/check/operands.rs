//! SE0407: operands and arguments that no value of their types can be.

use std::ops::Range;

use super::reads::Reads;
use super::types::{Bound, Type, written};
use crate::diagnostic::Finding;
use crate::expression::{Arithmetic, Comparison, Expr};
use crate::schema::Form;

/// What can be printed.
pub(super) const PRINTED: [Form; 3] = [Form::Text, Form::Number, Form::Boolean];

impl<'s> Reads<'_, 's> {
    /// What an operator or filter is given, where it can be of no type that it takes.
    pub fn operand(&mut self, given: &Bound<'s>, place: &Range<usize>, wanted: &[Form], what: &str) {
        let types = &given.types;
        let fits = |one: &Type<'_>| wanted.iter().any(|form| one.form().meets(*form));
        if let (Some(one), false) = (types.first(), types.iter().any(fits)) {
            let names: Vec<_> = wanted.iter().map(|form| form.name()).collect();
            let message = format!("{what} {}, and this is {}", names.join(" or "), one.form().name());
            let finding = Finding::new("SE0407", place.clone(), message).label(one.form().name());
            self.findings.push(match one.form() {
                Form::List if wanted == PRINTED => finding.help("`| join(\", \")` or `| tojson` makes a text of it"),
                Form::Map if wanted == PRINTED => finding.help("`| tojson` makes a text of it"),
                form if wanted == [Form::Text] && (form == Form::Integer || PRINTED.contains(&form)) => {
                    finding.help("`| string` makes a text of it")
                }
                Form::Text if wanted == [Form::Number] => {
                    finding.help("`| int`, `| float` or `| quantity` makes a number of it")
                }
                _ => finding,
            });
        }
    }

    /// Operands that no value of their types can be together.
    pub fn arithmetic(
        &mut self,
        operator: Arithmetic,
        operands: [&Bound<'s>; 2],
        right: &Expr,
        places: &[Range<usize>; 2],
    ) {
        let together: &[Form] = match operator {
            Arithmetic::Add => &[Form::Number, Form::Text, Form::List],
            _ => &[Form::Number],
        };
        let what = format!("`{}` takes", operator.symbol());
        let before = self.findings.len();
        for (operand, place) in operands.into_iter().zip(places) {
            self.operand(operand, place, together, &what);
        }
        if self.findings.len() == before {
            self.pair(operands, &places[1], together, &format!("`{}` cannot take", operator.symbol()));
        }
        // `a + b | int` is `a + (b | int)`.
        if let (Some(finding), Expr::Call(call)) = (self.findings[before..].last_mut(), right)
            && call.is_filter()
            && (call.takes().len() != 1 || call.takes() == [Form::Number])
        {
            let help = format!(
                "a filter binds more tightly than an operator: write `(… {} …) | {}`",
                operator.symbol(),
                call.name()
            );
            finding.help = Some(help);
        } else if let (Some(finding), Arithmetic::Add) = (self.findings[before..].last_mut(), operator) {
            let is_list = |bound: &Bound<'s>| bound.types.iter().any(|one| one.form() == Form::List);
            let help = match operands.into_iter().any(is_list) {
                true => "`+` joins two lists: `[a] + b`",
                false => "`~` joins texts and numbers",
            };
            finding.help.get_or_insert_with(|| help.to_owned());
        }
        let divides = matches!(operator, Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder);
        if divides && can_be_zero(right) && !self.environment.sees(&written(right)) {
            let message = format!("`{}` fails where the divisor is 0", operator.symbol());
            let finding = Finding::new("SE0407", places[1].clone(), message).label("can be 0");
            self.findings.push(finding.help("let another number stand in: `default(1)`, for example"));
        }
    }

    /// Two operands that must be of one type among these.
    fn pair(&mut self, operands: [&Bound<'s>; 2], place: &Range<usize>, together: &[Form], what: &str) {
        let [left, right] = operands.map(|operand| &operand.types);
        let (Some(one), Some(other)) = (left.first(), right.first()) else { return };
        let any = |types: &[Type<'_>], form: &Form| types.iter().any(|one| one.form().meets(*form));
        if !together.iter().any(|form| any(left, form) && any(right, form)) {
            let message = format!("{what} {} and {}", one.form().name(), other.form().name());
            self.findings.push(Finding::new("SE0407", place.clone(), message).label(other.form().name()));
        }
    }

    /// Whether values of these types can be compared at all.
    pub fn comparable(
        &mut self,
        comparison: Comparison,
        left: &Bound<'s>,
        (right, place): (&Bound<'s>, &Range<usize>),
    ) {
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {}
            Comparison::In | Comparison::NotIn => {
                self.operand(right, place, &[Form::List, Form::Map, Form::Text], "`in` looks into");
                if !right.types.is_empty() && right.types.iter().all(|one| one.form() == Form::Text) {
                    self.operand(left, place, &[Form::Text], "in a text, `in` looks for");
                }
            }
            _ => self.pair([left, right], place, &[Form::Number, Form::Text], "there is no order of"),
        }
    }
}

/// Whether an expression names 0 for one of its values.
fn can_be_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value) => value.as_f64() == Some(0.0),
        Expr::Default { fallback: Some(fallback), .. } => can_be_zero(fallback),
        Expr::Conditional { then, otherwise, .. } => can_be_zero(then) || can_be_zero(otherwise),
        _ => false,
    }
}
