//! SE04: what expressions read, against the schemas of what they read.

use std::ops::Range;

use serde_json::Value;

use super::types::{Bound, Environment, Shape, Type};
use crate::diagnostic::Finding;
use crate::expression::{Base, Comparison, Expr, Path, Piece, Root, Segment, Text, TextForm};
use crate::schema::{Field, Form, View};
use crate::yaml::closest;

/// Looks at every read of an expression.
pub(super) struct Reads<'e, 's> {
    pub environment: &'e Environment<'s>,
    pub findings: &'e mut Vec<Finding>,
}

impl<'s> Reads<'_, 's> {
    /// `guarded`: the place takes what is absent.
    pub fn expression(&mut self, expr: &'s Expr, guarded: bool) {
        match expr {
            Expr::Path(path) => self.path(path, guarded),
            Expr::And(left, right) | Expr::Or(left, right) => {
                self.expression(left, guarded);
                self.expression(right, guarded || guards(left));
            }
            Expr::Compare { first, rest, places } => {
                expr.operands().into_iter().for_each(|operand| self.expression(operand, guarded));
                if let ([(comparison, other)], [left, right]) = (&rest[..], &places[..]) {
                    self.comparison(*comparison, (first, left), (other, right));
                }
            }
            Expr::Conditional { test, then, otherwise, .. } => {
                self.expression(test, guarded);
                let guarded = guarded || guards(test);
                self.expression(then, guarded);
                self.expression(otherwise, guarded);
            }
            Expr::Default { value, fallback, lax, .. } => {
                self.expression(value, true);
                fallback.iter().chain(lax).for_each(|expr| self.expression(expr, guarded));
            }
            Expr::Call(call) => {
                let takes_absent = matches!(call.name(), "defined" | "dig" | "required" | "condition" | "default");
                for (index, argument) in call.arguments.iter().enumerate() {
                    argument.iter().for_each(|expr| self.expression(expr, guarded || takes_absent && index == 0));
                }
                call.rest.iter().for_each(|expr| self.expression(expr, guarded));
            }
            _ => expr.operands().into_iter().for_each(|operand| self.expression(operand, guarded)),
        }
    }

    pub fn text(&mut self, text: &'s Text, guarded: bool) {
        match text.form() {
            TextForm::Literal(_) => {}
            TextForm::Typed(expression) => self.expression(expression.expr(), guarded),
            TextForm::Pieces(pieces) => self.pieces(pieces, guarded),
        }
    }

    fn pieces(&mut self, pieces: &'s [Piece], guarded: bool) {
        for piece in pieces {
            match piece {
                Piece::Raw(_) => {}
                Piece::Print { expr, .. } => self.expression(expr, guarded),
                Piece::If { test, then, otherwise, .. } => {
                    self.expression(test, guarded);
                    let guarded = guarded || guards(test);
                    self.pieces(then, guarded);
                    self.pieces(otherwise, guarded);
                }
                Piece::For(node) => {
                    self.expression(&node.items, guarded);
                    self.pieces(&node.otherwise, guarded);
                    let mut inner = self.environment.clone();
                    let items = self.environment.items(&node.items);
                    let single = node.targets.len() == 1;
                    inner.locals.extend(node.targets.iter().map(|name| {
                        let types = if single { items.types.clone() } else { vec![Type::Any] };
                        (name.clone(), Bound::new(types, items.is_consumers))
                    }));
                    let guarded = guarded || node.filter.as_ref().is_some_and(guards);
                    let mut reads = Reads { environment: &inner, findings: self.findings };
                    node.filter.iter().for_each(|filter| reads.expression(filter, true));
                    reads.pieces(&node.body, guarded);
                }
            }
        }
    }

    /// Follows a path into the schema, to the first step that is not there or need not be.
    fn path(&mut self, path: &Path, guarded: bool) {
        let bound = self.environment.base(&path.base);
        let [Type::Of(shape)] = &bound.types[..] else { return };
        let mut view = shape.view;
        let mut optional = None;
        for (index, segment) in path.segments.iter().enumerate() {
            let next = match segment {
                // A list has no fields, and neither has a text: expressions say so when they run.
                Segment::Key(_) if !view.form().meets(Form::Map) => None,
                Segment::Key(name) => match view.field(name) {
                    Field::Open => None,
                    Field::Unknown => return self.unknown(path, index, view, shape),
                    Field::Known(found) => {
                        let whole = index == 0 && matches!(path.base, Base::Root(Root::Source));
                        let stands = whole || found.has_default() || view.required().any(|required| required == name);
                        if !stands && optional.is_none() {
                            optional = Some((index, view));
                        }
                        Some(found)
                    }
                },
                Segment::Index(_) => view.item(),
            };
            match next {
                Some(next) => view = next,
                None => break,
            }
        }
        if let (Some((index, view)), false) = (optional, guarded) {
            self.optional(path, index, view);
        }
    }

    fn unknown(&mut self, path: &Path, index: usize, view: View<'s>, shape: &Shape<'s>) {
        let Segment::Key(name) = &path.segments[index] else { return };
        let code = if matches!(path.base, Base::Object(_)) { "SE0404" } else { "SE0401" };
        let message = format!("`{}` does not exist in {}", path.up_to(index), shape.view.schema().kind);
        let finding = Finding::new(code, path.places[index].clone(), message).label("no such field");
        let before = if index == 0 { path.base_text() } else { path.up_to(index - 1).to_owned() };
        self.findings.push(with_suggestion(finding, name, &before, view));
    }

    fn optional(&mut self, path: &Path, index: usize, view: View<'s>) {
        let read = path.up_to(index);
        let message = format!("`{read}` is optional in {}, and nothing stands in for it", view.schema().kind);
        let finding = Finding::new("SE0402", path.places[index].clone(), message).label("can be absent");
        self.findings.push(finding.help(format!(
            "`{read} | default(…)` gives a value, `default(omit)` leaves the key out, `required(\"…\")` refuses"
        )));
    }

    /// A literal that the other side can never be.
    fn comparison(
        &mut self,
        comparison: Comparison,
        left: (&'s Expr, &Range<usize>),
        right: (&'s Expr, &Range<usize>),
    ) {
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {
                self.never(left.0, right);
                self.never(right.0, left);
            }
            Comparison::In | Comparison::NotIn => self.never_in(left.0, right),
            _ => {}
        }
    }

    fn never(&mut self, read: &'s Expr, (other, place): (&'s Expr, &Range<usize>)) {
        let Expr::Literal(literal) = other else { return };
        if matches!(read, Expr::Literal(_)) {
            return;
        }
        if let Some(could) = excludes(&self.environment.infer(read), literal) {
            self.findings.push(never(literal, place, could));
        }
    }

    fn never_in(&mut self, read: &'s Expr, (list, place): (&'s Expr, &Range<usize>)) {
        let Expr::List(items) = list else { return };
        let types = self.environment.infer(read);
        for item in items {
            if let Expr::Literal(literal) = item
                && let Some(could) = excludes(&types, literal)
            {
                self.findings.push(never(literal, place, could));
            }
        }
    }
}

fn never(literal: &Value, place: &Range<usize>, could: String) -> Finding {
    let message = format!("what is compared here is never {literal}");
    Finding::new("SE0403", place.clone(), message).label("never so").help(could)
}

/// What the types could be instead, where none of them can be the literal.
fn excludes(types: &[Type<'_>], literal: &Value) -> Option<String> {
    if types.is_empty() || literal.is_null() {
        return None;
    }
    let mut could = Vec::new();
    for one in types {
        match one {
            Type::Of(shape) if shape.view.form().meets(Form::of(literal)) => {
                let choices = shape.view.choices()?;
                if choices.contains(literal) {
                    return None;
                }
                could.extend(choices.iter().map(Value::to_string));
            }
            Type::Literal(value) if *value != literal => could.push(value.to_string()),
            Type::Simple(form) if !form.meets(Form::of(literal)) => could.push(form.name().to_owned()),
            Type::Of(shape) if !shape.view.is_nullable() => could.push(shape.view.form().name().to_owned()),
            _ => return None,
        }
    }
    let mut listed: Vec<String> = Vec::new();
    for one in could {
        if !listed.contains(&one) {
            listed.push(one);
        }
    }
    Some(format!("it can be {}", listed.join(", ")))
}

/// Whether an expression asks if something is there: what it decides about may read it.
pub(super) fn guards(expr: &Expr) -> bool {
    match expr {
        Expr::Default { .. } => true,
        Expr::Call(call) if matches!(call.name(), "defined" | "dig") => true,
        _ => expr.operands().into_iter().any(guards),
    }
}

/// Did you mean …, with its type; else what there is.
pub(super) fn with_suggestion(finding: Finding, name: &str, before: &str, view: View<'_>) -> Finding {
    let names: Vec<&str> = view.fields().map(|(name, _)| name).collect();
    let dotted = |name: &str| if before.is_empty() { name.to_owned() } else { format!("{before}.{name}") };
    if let Some(meant) = closest(name, &names) {
        let form = match view.field(meant) {
            Field::Known(view) => view.form().name(),
            _ => Form::Any.name(),
        };
        return finding.help(format!("did you mean `{}` ({form})?", dotted(meant)));
    }
    match names.len() {
        0 => finding,
        1..=12 => finding.help(format!("there are: {}", names.join(", "))),
        _ => finding.help(format!("there are: {}, …", names[..12].join(", "))),
    }
}
