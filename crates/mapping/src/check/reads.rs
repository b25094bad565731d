//! SE04: what expressions read, against the schemas of what they read.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::operands::PRINTED;
use super::types::{Bound, Environment, Type, steps};
use crate::diagnostic::Finding;
use crate::expression::{Base, Call, Comparison, Expr, Expression, Path, Piece, Segment, Text};
use crate::schema::{Field, Form, View};
use crate::yaml::{closest, quoted};

/// Looks at every read of an expression, and at what operators and filters are given.
pub(super) struct Reads<'e, 's> {
    pub environment: Cow<'e, Environment<'s>>,
    /// The place takes what is absent, or a condition around it asks whether it is there.
    guarded: bool,
    pub findings: &'e mut Vec<Finding>,
}

/// A step that an expression takes.
struct Taken<'r> {
    /// The steps up to this one, as they are written, and those before it.
    written: &'r str,
    before: &'r str,
    place: &'r Range<usize>,
    name: &'r Segment,
    /// What the path starts from.
    base: Option<&'r Base>,
}

impl<'e, 's> Reads<'e, 's> {
    pub fn new(environment: &'e Environment<'s>, guarded: bool, findings: &'e mut Vec<Finding>) -> Self {
        Self { environment: Cow::Borrowed(environment), guarded, findings }
    }

    pub fn expression(&mut self, expr: &'s Expr) {
        self.walk(expr, self.guarded);
    }

    /// A condition, which must be true or false.
    pub fn condition(&mut self, condition: &'s Expression) {
        self.expression(condition.expr());
        self.operand(condition.expr(), condition.place(), &[Form::Boolean], "a condition is");
    }

    /// A list that something is made of item by item.
    pub fn list(&mut self, list: &'s Expression) {
        self.expression(list.expr());
        self.operand(list.expr(), list.place(), &[Form::List], "what items are taken from is");
    }

    /// `takes_absent`: where there is no value, something stands in for it. Operators and filters need one all the same.
    fn walk(&mut self, expr: &'s Expr, takes_absent: bool) {
        match expr {
            Expr::Path(path) => self.path(path, takes_absent),
            Expr::Member { base, name, written, place } => {
                self.walk(base, takes_absent);
                let before = written.trim_end_matches(|c| c != '.').trim_end_matches('.');
                let base_of = base.paths().first().map(|path| &path.base);
                let taken = Taken { written, before, place, name, base: base_of };
                self.step(&self.environment.of(base), &taken, takes_absent);
            }
            Expr::Index { base, index, written, place } => {
                self.walk(base, takes_absent);
                self.expression(index);
                self.operand(index, place, &[Form::Text, Form::Integer], "an index is");
                if !takes_absent {
                    self.every_key(base, index, written, place);
                }
            }
            Expr::And(left, right) | Expr::Or(left, right) => {
                self.expression(left);
                self.where_it(left, matches!(expr, Expr::And(..))).expression(right);
            }
            Expr::Compare { first, rest, places } => {
                expr.operands().into_iter().for_each(|operand| self.expression(operand));
                let mut left = &**first;
                for ((comparison, right), places) in rest.iter().zip(places.windows(2)) {
                    self.comparable(*comparison, left, (right, &places[1]));
                    left = right;
                }
                if let ([(comparison, other)], [left, right]) = (&rest[..], &places[..]) {
                    self.comparison(*comparison, (first, left), (other, right));
                }
            }
            Expr::Conditional { test, then, otherwise, .. } => {
                self.expression(test);
                let takes_absent = takes_absent || guards(test);
                self.where_it(test, true).walk(then, takes_absent);
                self.where_it(test, false).walk(otherwise, takes_absent);
            }
            Expr::Default { value, fallback, lax, .. } => {
                self.walk(value, true);
                fallback.iter().for_each(|expr| self.walk(expr, takes_absent));
                lax.iter().for_each(|expr| self.expression(expr));
            }
            Expr::Call(call) => self.call(call),
            Expr::Arithmetic { operator, left, right, places } => {
                expr.operands().into_iter().for_each(|operand| self.expression(operand));
                self.arithmetic(*operator, [left, right], places);
            }
            Expr::Concat { left, right, places } => {
                for (operand, place) in [left, right].into_iter().zip(places) {
                    self.expression(operand);
                    self.operand(operand, place, &PRINTED, "`~` joins");
                }
            }
            Expr::Negate(operand, place) => {
                self.expression(operand);
                self.operand(operand, place, &[Form::Number], "`-` takes");
            }
            _ => expr.operands().into_iter().for_each(|operand| self.expression(operand)),
        }
    }

    /// The same where a condition holds, or does not.
    fn where_it(&mut self, test: &'s Expr, holds: bool) -> Reads<'_, 's> {
        let environment = Cow::Owned(self.environment.where_it(test, holds));
        Reads { environment, guarded: self.guarded || guards(test), findings: self.findings }
    }

    fn call(&mut self, call: &'s Call) {
        let guarded = self.guarded;
        let takes_absent = matches!(call.name(), "defined" | "dig" | "required" | "condition" | "default");
        for (index, argument) in call.arguments.iter().enumerate() {
            argument.iter().for_each(|expr| self.walk(expr, guarded || takes_absent && index == 0));
        }
        call.rest.iter().for_each(|expr| self.expression(expr));
        for (index, (argument, parameter)) in call.arguments.iter().zip(call.function.parameters).enumerate() {
            let what = match index {
                0 => format!("`{}` takes", call.name()),
                _ => format!("`{}` of `{}` is", parameter.name, call.name()),
            };
            let typed = argument.iter().filter(|_| !parameter.takes.is_empty());
            typed.for_each(|expr| self.operand(expr, &call.place, parameter.takes, &what));
        }
        let Some(subject) = call.arguments.first().and_then(Option::as_ref) else { return };
        let (types, path) = match (call.argument("attribute"), call.argument("path")) {
            (Some(path), _) => (self.environment.infer(subject).into_iter().flat_map(Type::items).collect(), path),
            (_, Some(path)) => (self.environment.infer(subject), path),
            _ => return,
        };
        let Expr::Literal(Value::String(path)) = path else { return };
        // What has been chosen by an attribute has it; `dig`, a default and the choice itself take what is absent.
        let takes_absent = guarded
            || call.argument("path").is_some()
            || call.argument("default").is_some()
            || call.name().ends_with("attr")
            || chooses(subject);
        let mut bound = Bound::new(types, false);
        let mut written = "…".to_owned();
        for segment in steps(path) {
            let before = written.clone();
            segment.write(&mut written);
            let base = subject.paths().first().map(|path| &path.base);
            let step = Taken { written: &written, before: &before, place: &call.place, name: &segment, base };
            match self.step(&bound, &step, takes_absent) {
                Some(next) => bound = next,
                None => return,
            }
        }
    }

    pub fn text(&mut self, text: &'s Text) {
        self.pieces(text.pieces());
    }

    fn pieces(&mut self, pieces: &'s [Piece]) {
        for piece in pieces {
            match piece {
                Piece::Raw(_) => {}
                Piece::Print { expr, place } => {
                    self.expression(expr);
                    self.operand(expr, place, &PRINTED, "a text can hold");
                }
                Piece::If { test, then, otherwise, .. } => {
                    self.expression(test);
                    self.where_it(test, true).pieces(then);
                    self.where_it(test, false).pieces(otherwise);
                }
                Piece::For(node) => {
                    self.expression(&node.items);
                    self.pieces(&node.otherwise);
                    let mut inner = Environment::clone(&self.environment);
                    self.operand(&node.items, &node.place, &[Form::List, Form::Map], "a loop takes");
                    let items = self.environment.of(&node.items).items();
                    let single = node.targets.len() == 1;
                    inner.locals.extend(node.targets.iter().map(|name| {
                        let types = if single { items.types.clone() } else { vec![Type::Any] };
                        (name.clone(), Bound::new(types, items.is_consumers))
                    }));
                    let guarded = self.guarded || node.filter.as_ref().is_some_and(guards);
                    node.filter.iter().for_each(|filter| Reads::new(&inner, true, self.findings).expression(filter));
                    Reads::new(&inner, guarded, self.findings).pieces(&node.body);
                }
            }
        }
    }

    /// Follows a path into the schema, to the first step that is not there or need not be.
    fn path(&mut self, path: &Path, takes_absent: bool) {
        let mut bound = self.environment.base(&path.base);
        let base = path.base.to_string();
        let mut takes_absent = takes_absent;
        if bound.is_optional && !takes_absent {
            let read = if matches!(path.base, Base::Object(_) | Base::Related(_)) { path.text() } else { &*base };
            self.optional(read, path.place.clone(), None);
            takes_absent = true;
        }
        for (index, name) in path.segments.iter().enumerate() {
            let before = if index == 0 { base.as_str() } else { path.up_to(index - 1) };
            let (written, place) = (path.up_to(index), &path.places[index]);
            let step = Taken { written, before, place, name, base: Some(&path.base) };
            let found = self.findings.len();
            match self.step(&bound, &step, takes_absent) {
                Some(next) => bound = next,
                None => return,
            }
            takes_absent |= self.findings.len() > found;
        }
    }

    /// Takes a step. `None`: there is no such field, and a finding says so.
    fn step(&mut self, from: &Bound<'s>, step: &Taken<'_>, takes_absent: bool) -> Option<Bound<'s>> {
        let stepped = from.step(step.name);
        if stepped.bound.types.is_empty()
            && let Some(one) = stepped.unknown.first()
        {
            self.unknown(step, one);
            return None;
        }
        if let (Some(one), false) = (&stepped.optional, takes_absent) {
            self.optional(step.written, step.place.clone(), Some(one));
        }
        Some(stepped.bound)
    }

    fn unknown(&mut self, step: &Taken<'_>, one: &Type<'s>) {
        let Segment::Key(name) = step.name else { return };
        let code = match step.base {
            Some(Base::Object(_)) => "SE0404",
            Some(Base::Var(_)) => "SE0302",
            Some(Base::Related(_)) => "SE0305",
            _ => "SE0401",
        };
        let of = if let Type::Of(shape) = one { format!(" in {}", shape.view.schema().kind) } else { String::new() };
        let message = format!("`{}` does not exist{of}", step.written);
        let finding = Finding::new(code, step.place.clone(), message).label("no such field");
        self.findings.push(match one {
            Type::Of(shape) => with_suggestion(finding, name, step.before, shape.view),
            other => with_closest(finding, name, step.before, &other.keys().unwrap_or_default()),
        });
    }

    fn optional(&mut self, read: &str, place: Range<usize>, one: Option<&Type<'s>>) {
        let message = match one {
            Some(Type::Of(shape)) => {
                format!("`{read}` is optional in {}, and nothing stands in for it", shape.view.schema().kind)
            }
            _ => format!("`{read}` can be absent, and nothing stands in for it"),
        };
        let finding = Finding::new("SE0402", place, message).label("can be absent");
        self.findings.push(finding.help(format!(
            "`{read} | default(…)` gives a value, `default(omit)` leaves the key out, `required(\"…\")` refuses"
        )));
    }

    /// A map that lacks a value of the enum that indexes it.
    fn every_key(&mut self, base: &'s Expr, index: &'s Expr, written: &str, place: &Range<usize>) {
        let values: Option<Vec<_>> = self.environment.infer(index).iter().map(Type::values).collect();
        let types = self.environment.infer(base);
        let maps: Option<Vec<_>> = types.iter().map(Type::keys).collect();
        let (Some(values), Some(maps)) = (values, maps) else { return };
        let mut lacking: Vec<&str> = values.concat().into_iter().filter_map(Value::as_str).collect();
        lacking.retain(|value| maps.iter().any(|keys| !keys.contains(value)));
        if lacking.is_empty() {
            return;
        }
        let message = format!("`{written}` has no {}", quoted(lacking));
        let finding = Finding::new("SE0406", place.clone(), message).label("can be a value that the map lacks");
        self.findings.push(finding.help("add it to the map, or give another value with `| default(…)`"));
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

    /// The types that a value can have, whatever the conditions around it say: those may be meant to be spelled out again.
    /// A variable's constant is there to be changed.
    fn possible(&self, read: &'s Expr) -> Vec<Type<'s>> {
        let environment = Environment { facts: Vec::new(), ..Environment::clone(&self.environment) };
        let is_var = read.paths().iter().any(|path| matches!(path.base, Base::Var(_)));
        let open = |one: Type<'s>| match one {
            Type::Literal(value) if is_var => Type::Simple(Form::of(value)),
            one => one,
        };
        environment.infer(read).into_iter().map(open).collect()
    }

    fn never(&mut self, read: &'s Expr, (other, place): (&'s Expr, &Range<usize>)) {
        let Expr::Literal(literal) = other else { return };
        if matches!(read, Expr::Literal(_)) {
            return;
        }
        if let Some(could) = excludes(&self.possible(read), literal) {
            self.findings.push(never(literal, place, could));
        }
    }

    fn never_in(&mut self, read: &'s Expr, (list, place): (&'s Expr, &Range<usize>)) {
        let Expr::List(items) = list else { return };
        let types = self.possible(read);
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

/// Whether a list holds chosen items alone.
fn chooses(expr: &Expr) -> bool {
    let is_choice = |call: &Call| matches!(call.name(), "select" | "selectattr" | "reject" | "rejectattr");
    matches!(expr, Expr::Call(call) if is_choice(call)) || expr.operands().into_iter().any(chooses)
}

/// Did you mean …; else what there is.
fn with_closest(finding: Finding, name: &str, before: &str, names: &[&str]) -> Finding {
    match closest(name, names) {
        Some(meant) => finding.help(format!("did you mean `{before}.{meant}`?")),
        None if names.is_empty() => finding,
        None => finding.help(format!("there are: {}", quoted(names))),
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
