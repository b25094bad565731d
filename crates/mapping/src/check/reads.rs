//! SE04: what expressions read, against the schemas of what they read.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::operands::PRINTED;
use super::types::{
    Bound, Environment, Shape, Type, any_consumers, calculated, flat, indexed, picked, sliced, steps, written,
};
use crate::diagnostic::Finding;
use crate::expression::{Base, Call, Comparison, Expr, Expression, Gives, Path, Piece, Role, Segment, Text};
use crate::schema::{Form, View};
use crate::yaml::{closest, quoted};

/// The function that finds a condition by its type.
const CONDITION: &str = "condition";

/// Looks at every read of an expression, and at what operators and filters are given; tells what is known of its value.
pub(super) struct Reads<'e, 's> {
    pub environment: Cow<'e, Environment<'s>>,
    /// The place takes what is absent.
    pub guarded: bool,
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

    pub fn expression(&mut self, expr: &'s Expr) -> Bound<'s> {
        self.walk(expr, self.guarded)
    }

    fn all(&mut self, exprs: impl IntoIterator<Item = &'s Expr>) -> Vec<Bound<'s>> {
        exprs.into_iter().map(|expr| self.expression(expr)).collect()
    }

    /// A condition, which must be true or false.
    pub fn condition(&mut self, condition: &'s Expression) {
        self.omits(condition.expr(), condition.place(), false);
        let bound = self.expression(condition.expr());
        self.operand(&bound, condition.place(), &[Form::Boolean], "a condition is");
    }

    /// A list that something is made of item by item.
    pub fn list(&mut self, list: &'s Expression) -> Bound<'s> {
        let bound = self.leaf(list);
        let before = self.findings.len();
        self.operand(&bound, list.place(), &[Form::List], "what items are taken from is");
        // What reads the items of what is no list would only repeat it.
        if self.findings.len() > before { Bound::any(bound.is_consumers) } else { bound }
    }

    /// What stands for a whole key or item.
    pub fn leaf(&mut self, leaf: &'s Expression) -> Bound<'s> {
        self.omits(leaf.expr(), leaf.place(), true);
        self.expression(leaf.expr())
    }

    fn omits(&mut self, expr: &Expr, place: &Range<usize>, is_whole: bool) {
        let message = "what can be absent needs a value here: `omit` stands for a whole key or item";
        self.findings.extend(expr.misplaced_omits(place, is_whole).into_iter().map(|place| {
            let finding = Finding::new("SE0402", place, message).label("no value");
            finding.help("give a value, or leave the whole out: `${{ … if … is defined else omit }}`")
        }));
    }

    /// `takes_absent`: where there is no value, something stands in for it. Operators and filters need one all the same.
    fn walk(&mut self, expr: &'s Expr, takes_absent: bool) -> Bound<'s> {
        let whole = self.whole(expr, takes_absent);
        self.environment.narrowed(expr, whole)
    }

    /// The same whatever the conditions around the place say. There are no types for `omit`.
    fn whole(&mut self, expr: &'s Expr, takes_absent: bool) -> Bound<'s> {
        match expr {
            Expr::Literal(value) => Bound::new(vec![Type::Literal(value)], false),
            Expr::Omit => Bound { is_optional: true, ..Bound::new(Vec::new(), false) },
            Expr::Path(path) => self.path(path, takes_absent),
            Expr::Member { base, name, written, place } => {
                let from = self.walk(base, takes_absent);
                let before = written.trim_end_matches(|c| c != '.').trim_end_matches('.');
                let base_of = base.paths().first().map(|path| &path.base);
                let taken = Taken { written, before, place, name, base: base_of };
                self.step(&from, &taken, takes_absent)
            }
            Expr::Index { base, index, written, place } => {
                let from = self.walk(base, takes_absent);
                let index = self.expression(index);
                self.operand(&index, place, &[Form::Text, Form::Integer], "an index is");
                let is_asked = self.environment.asks_for(written);
                let lacks = |one: &Type<'s>| matches!(one, Type::Keyed { lacks: true, .. });
                let is_optional = !is_asked && from.types.iter().any(lacks);
                if !takes_absent && !is_asked {
                    self.every_key(&from, &index, written, place);
                    if is_optional {
                        self.optional(written, place.clone(), None);
                    }
                }
                Bound { is_optional, ..Bound::new(indexed(&from, &index), from.is_consumers) }
            }
            Expr::Slice { base, start, stop } => {
                let from = self.expression(base);
                self.all(start.iter().chain(stop).map(|bound| &**bound));
                Bound::new(from.types.into_iter().map(sliced).collect(), from.is_consumers)
            }
            Expr::List(items) => Bound::list(self.all(items)),
            Expr::Map(entries) => self.map(entries),
            Expr::Not(operand) => {
                self.expression(operand);
                Bound::made(Form::Boolean, &[])
            }
            Expr::And(left, right) | Expr::Or(left, right) => {
                let holds = matches!(expr, Expr::And(..));
                let one = self.expression(left);
                one.or(self.where_it(left, holds).expression(right))
            }
            Expr::Compare { rest, places, .. } => {
                let operands = expr.operands().into_iter().map(|operand| (operand, self.whole(operand, self.guarded)));
                let whole: Vec<_> = operands.collect();
                let narrowed =
                    |(operand, bound): &(&'s Expr, Bound<'s>)| self.environment.narrowed(operand, bound.clone());
                let bounds: Vec<_> = whole.iter().map(narrowed).collect();
                for ((comparison, _), (bounds, places)) in rest.iter().zip(bounds.windows(2).zip(places.windows(2))) {
                    self.comparable(*comparison, &bounds[0], (&bounds[1], &places[1]));
                }
                if let ([(comparison, _)], [left, right], [one, other]) = (&rest[..], &whole[..], &places[..]) {
                    self.comparison(*comparison, (left, one), (right, other));
                }
                Bound::made(Form::Boolean, &[])
            }
            Expr::Conditional { test, then, otherwise, .. } => {
                self.expression(test);
                let then = self.where_it(test, true).walk(then, takes_absent);
                let otherwise = self.where_it(test, false).walk(otherwise, takes_absent);
                let is_optional = !guards(test) && (then.is_optional || otherwise.is_optional);
                Bound { is_optional, ..then.or(otherwise) }
            }
            Expr::Default { value, fallback, lax, .. } => {
                let value = self.walk(value, true);
                // Of a field that does not exist nothing is known, and not that it is the fallback.
                let value = if value.types.is_empty() { Bound::any(value.is_consumers) } else { value };
                let fallback = match fallback {
                    Some(fallback) => self.walk(fallback, takes_absent),
                    None => Bound::made(Form::Text, &[]),
                };
                self.all(lax.iter().map(|lax| &**lax));
                Bound { is_optional: fallback.is_optional, ..value.or(fallback) }
            }
            Expr::Call(call) => {
                self.picked_item(call, takes_absent);
                self.call(call, takes_absent)
            }
            Expr::Arithmetic { operator, left, right, places } => {
                let [one, other] = [left, right].map(|operand| self.expression(operand));
                self.arithmetic(*operator, [&one, &other], right, places);
                let is_consumers = one.is_consumers || other.is_consumers;
                Bound::new(calculated(*operator, one.types, other.types), is_consumers)
            }
            Expr::Concat { left, right, places } => {
                let operands = [left, right].map(|operand| self.expression(operand));
                for (operand, place) in operands.iter().zip(places) {
                    self.operand(operand, place, &PRINTED, "`~` joins");
                }
                let mut joined = Bound::made(Form::Text, &operands);
                let is_word = |one: &Type<'s>| match one {
                    Type::Literal(Value::String(text)) => text.contains(char::is_alphanumeric),
                    one => matches!(one, Type::Text(_) | Type::Printed(_)),
                };
                // As of a text: it is more than a consumer's words.
                if operands.iter().any(|operand| !operand.types.is_empty() && operand.types.iter().all(is_word)) {
                    let words = operands.into_iter().filter(|operand| operand.is_consumers);
                    joined.types = vec![Type::Text(words.flat_map(|operand| operand.types).collect())];
                }
                joined
            }
            Expr::Negate(operand, place) => {
                let operand = self.expression(operand);
                self.operand(&operand, place, &[Form::Number], "`-` takes");
                Bound::made(Form::Number, &[operand])
            }
            Expr::RegexReplace { .. } => Bound::made(Form::Text, &self.all(expr.operands())),
        }
    }

    fn map(&mut self, entries: &'s [(Expr, Expr)]) -> Bound<'s> {
        let mut fields = Vec::new();
        for (key, value) in entries {
            self.expression(key);
            let name = if let Expr::Literal(Value::String(name)) = key { name.clone() } else { String::new() };
            fields.push((name, self.expression(value)));
        }
        let is_spelled_out = entries.iter().all(|(key, _)| matches!(key, Expr::Literal(Value::String(_))));
        let map = Bound::map(fields);
        if is_spelled_out { map } else { Bound::made(Form::Map, &[map]) }
    }

    /// The same where a condition holds, or does not.
    pub fn where_it(&mut self, test: &'s Expr, holds: bool) -> Reads<'_, 's> {
        let environment = Cow::Owned(self.environment.where_it(test, holds));
        Reads { environment, guarded: self.guarded, findings: self.findings }
    }

    fn call(&mut self, call: &'s Call, takes_absent: bool) -> Bound<'s> {
        // Of an object that is absent, it is absent itself whether the generation is current.
        let takes_absent = matches!(call.name(), "defined" | "dig" | "required" | CONDITION | "default")
            || takes_absent && call.name() == "observed_generation_current";
        let arguments = call.arguments.iter().enumerate().map(|(index, argument)| {
            argument.as_ref().map(|expr| self.walk(expr, self.guarded || takes_absent && index == 0))
        });
        let arguments: Vec<Option<Bound<'s>>> = arguments.collect();
        let rest = self.all(&call.rest);
        for (index, (argument, parameter)) in arguments.iter().zip(call.function.parameters).enumerate() {
            let what = match index {
                0 => format!("`{}` takes", call.name()),
                _ => format!("`{}` of `{}` is", parameter.name, call.name()),
            };
            let typed = argument.iter().filter(|_| !parameter.takes.is_empty());
            typed.for_each(|bound| self.operand(bound, &call.place, parameter.takes, &what));
        }
        let reported = match (call.arguments.first(), arguments.first()) {
            (Some(Some(subject)), Some(Some(object))) => self.reported(call, subject, object),
            _ => None,
        };
        // A hash of a consumer's words is none of them.
        let is_other =
            call.is_test() || matches!(call.name(), "short_hash" | "sha256" | "length" | "observed_generation_current");
        let mut given = arguments.iter().flatten().chain(&rest);
        let is_consumers = !is_other && given.any(|argument| argument.is_consumers);
        let below = arguments.first().and_then(Option::as_ref).and_then(|subject| self.below(call, subject));
        let types = match reported {
            Some(conditions) if call.name() == CONDITION && !conditions.types.is_empty() => {
                conditions.items().types.into_iter().map(awaited).collect()
            }
            _ => gives(call, &arguments, below),
        };
        Bound::new(types, is_consumers)
    }

    /// A function of what a controller reports reads it: where the object's schema has no place for it, it is always absent.
    fn reported(&mut self, call: &Call, subject: &Expr, object: &Bound<'s>) -> Option<Bound<'s>> {
        let path = match call.name() {
            CONDITION => "status.conditions",
            "observed_generation_current" => "status.observedGeneration",
            _ => return None,
        };
        let (written, place) = match subject {
            Expr::Path(path) => (path.text(), &path.place),
            Expr::Index { written, place, .. } => (written.as_str(), place),
            _ => return None,
        };
        let base = subject.paths().first().map(|path| &path.base);
        Some(self.below_it(object.clone(), (written, path), (place, base), true))
    }

    /// The first or last item of a list that can be empty.
    fn picked_item(&mut self, call: &'s Call, takes_absent: bool) {
        let Some(Some(mut list)) = call.arguments.first().map(Option::as_ref) else { return };
        if takes_absent || !matches!(call.name(), "first" | "last" | "max" | "min") {
            return;
        }
        // A choice can leave none of any number of items.
        let index = if chooses(list) { i64::MAX - 1 } else { 0 };
        while let Expr::Call(inner) = list
            && let Some(Some(of)) = inner.arguments.first()
        {
            list = of;
        }
        let types = Reads::new(&self.environment, true, &mut Vec::new()).expression(list).types;
        let read = format!("… | {}", call.name());
        self.item(&types, index, &written(list), (read.as_str(), &call.place));
    }

    /// An item that can be absent, unless a condition around the place looks at the list.
    fn item(&mut self, types: &[Type<'s>], index: i64, lists: &[String], (read, place): (&str, &Range<usize>)) {
        if !self.environment.sees(lists) && types.iter().any(|one| one.can_be_shorter(index)) {
            let message = format!("`{read}` is absent where the list is too short, and nothing stands in for it");
            let finding = Finding::new("SE0408", place.clone(), message).label("can be absent");
            self.findings.push(finding.help(format!(
                "`{read} | default(…)` gives a value; `minItems` in the schema says how many items there are at least"
            )));
        }
    }

    /// What stands at a literal `attribute` of the items of a list, or `path` of a value.
    fn below(&mut self, call: &'s Call, of: &Bound<'s>) -> Option<Bound<'s>> {
        let subject = call.arguments.first()?.as_ref()?;
        let (of, path) = match (call.argument("attribute"), call.argument("path")) {
            (Some(path), _) => (of.clone().items(), path),
            (_, path) => (of.clone(), path?),
        };
        let Expr::Literal(Value::String(path)) = path else { return None };
        // What has been chosen by an attribute has it; `dig`, a default and the choice itself take what is absent.
        let takes_absent = self.guarded
            || call.argument("path").is_some()
            || call.argument("default").is_some()
            || call.name().ends_with("attr")
            || chooses(subject);
        let base = subject.paths().first().map(|path| &path.base);
        Some(self.below_it(Bound::new(of.types, false), ("…", path), (&call.place, base), takes_absent))
    }

    /// What stands at a path below a value, by how it is written.
    fn below_it(
        &mut self,
        mut bound: Bound<'s>,
        (value, path): (&str, &str),
        (place, base): (&Range<usize>, Option<&Base>),
        takes_absent: bool,
    ) -> Bound<'s> {
        let mut written = value.to_owned();
        for segment in steps(path) {
            let before = written.clone();
            segment.write(&mut written);
            let step = Taken { written: &written, before: &before, place, name: &segment, base };
            bound = self.step(&bound, &step, takes_absent);
        }
        bound
    }

    /// Tells what each of its parts prints.
    pub fn text(&mut self, text: &'s Text) -> Vec<Bound<'s>> {
        self.pieces(text.pieces())
    }

    fn pieces(&mut self, pieces: &'s [Piece]) -> Vec<Bound<'s>> {
        let mut printed = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Raw(_) => {}
                Piece::Print { expr, place } => {
                    self.omits(expr, place, false);
                    let bound = self.expression(expr);
                    self.operand(&bound, place, &PRINTED, "a text can hold");
                    printed.push(bound);
                }
                Piece::If { test, then, otherwise, .. } => {
                    self.expression(test);
                    printed.extend(self.where_it(test, true).pieces(then));
                    printed.extend(self.where_it(test, false).pieces(otherwise));
                }
                Piece::For(node) => {
                    let all = self.expression(&node.items);
                    let otherwise = self.pieces(&node.otherwise);
                    self.operand(&all, &node.place, &[Form::List, Form::Map], "a loop takes");
                    let items = all.items();
                    let single = node.targets.len() == 1;
                    let mut inner = Environment::clone(&self.environment);
                    for (position, name) in (0..).zip(&node.targets) {
                        let types = match single {
                            true => items.types.clone(),
                            false => items.step(&Segment::Index(position)).bound.types,
                        };
                        let at = (!single).then_some(position);
                        inner.take_item(name, at, Some(&node.items), Bound::new(types, items.is_consumers));
                    }
                    if let Some(filter) = &node.filter {
                        Reads::new(&inner, true, self.findings).expression(filter);
                        inner = inner.where_it(filter, true);
                    }
                    let body = Reads::new(&inner, self.guarded, self.findings).pieces(&node.body);
                    // What its items are is known to none but its own pieces.
                    let is_consumers = items.is_consumers || any_consumers(&body) || any_consumers(&otherwise);
                    printed.push(Bound::any(is_consumers));
                }
            }
        }
        printed
    }

    /// Follows a path into the schema. The first step that is not there, or need not be, is said.
    fn path(&mut self, path: &Path, mut takes_absent: bool) -> Bound<'s> {
        let mut bound = self.environment.base(&path.base);
        let base = path.base.to_string();
        if bound.is_optional && !takes_absent && !self.environment.asks_for(&base) {
            let read = if matches!(path.base, Base::Object(_) | Base::Related(_)) { path.text() } else { &*base };
            self.optional(read, path.place.clone(), None);
            takes_absent = true;
        }
        for (index, name) in path.segments.iter().enumerate() {
            let before = if index == 0 { base.as_str() } else { path.up_to(index - 1) };
            let (written, place) = (path.up_to(index), &path.places[index]);
            let step = Taken { written, before, place, name, base: Some(&path.base) };
            let found = self.findings.len();
            bound = self.step(&bound, &step, takes_absent);
            takes_absent |= self.findings[found..].iter().any(|finding| finding.code != "SE0408");
        }
        bound
    }

    /// Takes a step. Where there is no such field, a finding says so, and nothing is known of what is below.
    fn step(&mut self, from: &Bound<'s>, step: &Taken<'_>, takes_absent: bool) -> Bound<'s> {
        let mut stepped = from.step(step.name);
        if stepped.bound.is_optional && self.environment.asks_for(step.written) {
            (stepped.bound.is_optional, stepped.optional) = (false, None);
        }
        if let (true, Some(one)) = (stepped.bound.types.is_empty(), stepped.unknown.first()) {
            self.unknown(step, one);
        }
        if let (Some(one), false) = (&stepped.optional, takes_absent) {
            self.optional(step.written, step.place.clone(), Some(one));
        }
        if let (Segment::Index(index), false) = (step.name, takes_absent) {
            self.item(&from.types, *index, &[step.before.to_owned()], (step.written, step.place));
        }
        stepped.bound
    }

    fn unknown(&mut self, step: &Taken<'_>, one: &Type<'s>) {
        let Segment::Key(name) = step.name else { return };
        // What stands where the key of one of several belongs is a field that each of them has.
        if let (Some(Base::Object(id)), Type::Of(shape)) = (step.base, one)
            && let Some(field) = step.before.strip_prefix(&format!("objects.{id}."))
            && self.environment.objects.iter().any(|object| object.id == id && object.is_several)
            && shape.view.field(field).known().is_some()
        {
            let finding = Finding::new("SE0308", step.place.clone(), format!("`objects.{id}` is several objects"))
                .label("the key of one is missing");
            let help = format!("read one of them by its key: `objects.{id}[…].{field}.{name}`");
            self.findings.push(finding.help(help));
            return;
        }
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
            Type::Of(_) | Type::List(_) if one.form() == Form::List => {
                let before = step.before;
                finding.help(format!(
                    "it is a list: `{before}[0].{name}` reads one item, `| map(attribute=\"{name}\")` all"
                ))
            }
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
        let help = match read.strip_prefix("….") {
            Some(attribute) => format!(
                "`selectattr(\"{attribute}\", \"defined\")` before it chooses the items that have it; `map` also takes `default=…`"
            ),
            None => format!(
                "`{read} | default(…)` gives a value, `default(omit)` leaves the key out, `required(\"…\")` refuses"
            ),
        };
        self.findings.push(Finding::new("SE0402", place, message).label("can be absent").help(help));
    }

    /// A map that lacks a value of the enum that indexes it.
    fn every_key(&mut self, base: &Bound<'s>, index: &Bound<'s>, written: &str, place: &Range<usize>) {
        let values: Option<Vec<_>> = index.types.iter().map(Type::values).collect();
        let maps: Option<Vec<_>> = base.types.iter().map(Type::keys).collect();
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
    fn comparison(&mut self, comparison: Comparison, left: Compared<'_, 's>, right: Compared<'_, 's>) {
        match comparison {
            Comparison::Equal | Comparison::NotEqual => {
                self.never(left, right);
                self.never(right, left);
            }
            Comparison::In | Comparison::NotIn => {
                if let Expr::List(items) = right.0.0 {
                    items.iter().for_each(|item| self.never_one(left, item, right.1));
                }
            }
            _ => {}
        }
    }

    fn never(&mut self, read: Compared<'_, 's>, ((other, _), place): Compared<'_, 's>) {
        if !matches!(read.0.0, Expr::Literal(_)) {
            self.never_one(read, other, place);
        }
    }

    fn never_one(&mut self, ((read, bound), _): Compared<'_, 's>, other: &Expr, place: &Range<usize>) {
        let Expr::Literal(literal) = other else { return };
        // A variable's constant is there to be changed.
        let is_var = read.paths().iter().any(|path| matches!(path.base, Base::Var(_)));
        let open = |one: &Type<'s>| match one {
            Type::Literal(value) if is_var => Type::Simple(Form::of(value)),
            one => one.clone(),
        };
        let types: Vec<_> = bound.types.iter().map(open).collect();
        if let Some(could) = excludes(&types, literal) {
            self.findings.push(never(literal, place, could));
        }
    }
}

/// A side of a comparison, with its place. Its types are those that it can have whatever the conditions around it say, which
/// may be meant to be spelled out again.
type Compared<'r, 's> = (&'r (&'s Expr, Bound<'s>), &'r Range<usize>);

/// The types that a call comes to. `below`: what stands at the attribute or path that it names.
fn gives<'s>(call: &'s Call, arguments: &[Option<Bound<'s>>], below: Option<Bound<'s>>) -> Vec<Type<'s>> {
    let types = |argument: Option<&Bound<'s>>| argument.map(|bound| bound.types.clone());
    let first = || types(arguments.first().and_then(Option::as_ref)).unwrap_or_else(|| vec![Type::Any]);
    let items = || first().into_iter().flat_map(Type::items);
    let or_default = |given: Vec<Type<'s>>| {
        let default = call.function.parameters.iter().zip(arguments).find(|(parameter, _)| parameter.name == "default");
        let default = types(default.and_then(|(_, default)| default.as_ref()));
        [given, default.unwrap_or_default()].concat()
    };
    let is_number = |one: &Type<'s>| matches!(one.form(), Form::Integer | Form::Number | Form::Boolean);
    match (call.name(), call.function.gives) {
        // None of a consumer's words.
        ("string", _) if !call.is_test() && first().iter().all(is_number) => {
            first().into_iter().map(|one| Type::Printed(Box::new(one))).collect()
        }
        (_, Gives::Always(form)) => vec![Type::Simple(form)],
        (_, Gives::Same) => first(),
        ("int", _) => or_default(vec![Type::Simple(Form::Integer)]),
        ("float", _) => or_default(vec![Type::Simple(Form::Number)]),
        ("first" | "last" | "max" | "min", _) => items().collect(),
        ("reverse", _) => first().into_iter().map(sliced).collect(),
        ("flatten", _) => vec![Type::List(items().flat_map(flat).collect())],
        ("list", _) => vec![Type::List(items().collect())],
        ("range", _) => vec![Type::List(vec![Type::Simple(Form::Integer)])],
        ("split", _) => vec![Type::List(vec![Type::Simple(Form::Text)])],
        ("items", _) => vec![Type::List(first().into_iter().map(|one| Type::Entry(one.entries())).collect())],
        ("map", _) => vec![Type::List(match (below, call.argument("filter")) {
            (Some(below), None) => or_default(below.types),
            (None, Some(Expr::Literal(Value::String(filter)))) => {
                match Role::Filter.find(filter).map(|one| one.gives) {
                    Some(Gives::Always(form)) => vec![Type::Simple(form)],
                    _ => vec![Type::Any],
                }
            }
            _ => vec![Type::Any],
        })],
        ("dig", _) => or_default(below.map_or_else(|| vec![Type::Any], |below| below.types)),
        ("without" | "only", _) => first().into_iter().map(|one| picked(one, call)).collect(),
        _ => vec![Type::Any],
    }
}

/// A condition, as far as a schema describes it.
fn awaited(one: Type<'_>) -> Type<'_> {
    match one {
        Type::Of(shape) => Type::Of(Shape { is_awaited: true, ..shape }),
        _ => Type::Any,
    }
}

fn never(literal: &Value, place: &Range<usize>, could: String) -> Finding {
    let message = format!("what is compared here is never {literal}");
    Finding::new("SE0403", place.clone(), message).label("can never be this").help(could)
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
            Type::Simple(_) | Type::Text(_) | Type::Printed(_) if !one.form().meets(Form::of(literal)) => {
                could.push(one.form().name().to_owned());
            }
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

/// Whether an expression asks if something is there.
fn guards(expr: &Expr) -> bool {
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
        let form = view.field(meant).known().map_or(Form::Any, View::form).name();
        return finding.help(format!("did you mean `{}` ({form})?", dotted(meant)));
    }
    match names.len() {
        0 => finding,
        1..=12 => finding.help(format!("there are: {}", names.join(", "))),
        _ => finding.help(format!("there are: {}, …", names[..12].join(", "))),
    }
}
