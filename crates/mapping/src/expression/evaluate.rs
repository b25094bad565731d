//! Walks a compiled expression over a scope.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::budget::Budget;
use super::given::Given;
use super::operators;
use super::scope::{Scope, position, step, walk};
use super::tree::{Base, Call, Expr, Path, Segment};
use super::value::{Operand, is_true, kind, own, print, text};
use super::{Unrendered, Way};

/// One evaluation: what it reads, what it may still cost, and the loop variables around it.
pub(super) struct Evaluation<'a, 'b> {
    pub scope: &'a Scope,
    pub budget: &'b mut Budget,
    pub locals: Vec<(&'a str, Cow<'a, Value>)>,
}

impl<'a, 'b> Evaluation<'a, 'b> {
    pub fn new(scope: &'a Scope, budget: &'b mut Budget) -> Self {
        Self { scope, budget, locals: Vec::new() }
    }

    pub fn evaluate(&mut self, expr: &'a Expr) -> Result<Operand<'a>, Unrendered> {
        self.budget.step()?;
        match expr {
            Expr::Literal(value) => Ok(Operand::borrowed(value)),
            Expr::Omit => Ok(Operand::Omit),
            Expr::Path(path) => self.path(path),
            Expr::Member { base, name, written, .. } => member(self.evaluate(base)?, name, written),
            Expr::Index { base, index, written, .. } => self.index(base, index, written),
            Expr::Slice { base, start, stop } => self.slice(base, start.as_deref(), stop.as_deref()),
            Expr::List(items) => self.list(items),
            Expr::Map(entries) => self.map(entries),
            Expr::Not(operand) => Ok(Operand::owned(!self.holds(operand)?)),
            Expr::Negate(operand, _) => operators::negate(&*self.value(operand)?).map(Operand::owned),
            Expr::And(left, right) => self.either(left, right, false),
            Expr::Or(left, right) => self.either(left, right, true),
            Expr::Arithmetic { operator, left, right, .. } => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                operators::arithmetic(*operator, left, right, self.budget).map(Operand::owned)
            }
            Expr::Concat { left, right, .. } => self.concat(left, right),
            Expr::Compare { first, rest, .. } => {
                let mut left = self.value(first)?;
                for (comparison, right) in rest {
                    let right = self.value(right)?;
                    if !operators::compare(*comparison, &left, &right, self.budget)? {
                        return Ok(Operand::owned(false));
                    }
                    left = right;
                }
                Ok(Operand::owned(true))
            }
            Expr::Conditional { test, then, otherwise, places: [place, other] } => {
                if self.holds(test)? {
                    self.branch(then, place)
                } else {
                    self.branch(otherwise, other)
                }
            }
            Expr::Default { value, fallback, lax, place } => match (self.given(value, lax.as_deref())?, fallback) {
                (Some(value), _) => Ok(value),
                (None, Some(fallback)) => self.branch(fallback, place),
                (None, None) => {
                    self.scope.note(place, Way::Evaluated);
                    Ok(Operand::owned(""))
                }
            },
            Expr::RegexReplace { value, pattern, replacement } => {
                let expand = matches!(**replacement, Expr::Literal(_));
                let (text, replacement) = (self.text(value)?, self.text(replacement)?);
                pattern.replace(&text, &replacement, expand, self.budget).map(Operand::owned)
            }
            Expr::Call(call) => self.call(call),
        }
    }

    /// Evaluates what has a place of its own in the notes that are taken.
    pub fn branch(&mut self, expr: &'a Expr, place: &Range<usize>) -> Result<Operand<'a>, Unrendered> {
        let evaluated = self.evaluate(expr);
        if !matches!(evaluated, Err(Unrendered::Waiting(_))) {
            self.scope.note(place, Way::Evaluated);
        }
        evaluated
    }

    /// The value of an expression that must have one.
    pub fn value(&mut self, expr: &'a Expr) -> Result<Cow<'a, Value>, Unrendered> {
        self.evaluate(expr)?.require()
    }

    /// Whether the value of an expression counts as true.
    pub fn holds(&mut self, expr: &'a Expr) -> Result<bool, Unrendered> {
        Ok(is_true(&*self.value(expr)?))
    }

    /// The text of an operand of `regex_replace`.
    fn text(&mut self, expr: &'a Expr) -> Result<Cow<'a, str>, Unrendered> {
        text(self.value(expr)?)
            .map_err(|other| Unrendered::failed(format!("`regex_replace` needs a string, not {}", kind(&other))))
    }

    fn path(&mut self, path: &'a Path) -> Result<Operand<'a>, Unrendered> {
        let Base::Local(name) = &path.base else { return self.read(path) };
        match self.locals.iter().rev().find(|(known, _)| known == name) {
            None => self.scope.read(path),
            Some((_, Cow::Borrowed(value))) => Ok(walk(value, path, 0)),
            Some((_, Cow::Owned(value))) => {
                // The loop variable outlives this expression, not the evaluation: what is read of it is copied.
                match walk(value, path, 0) {
                    Operand::Value(found) => Ok(Operand::owned(self.budget.copy(&found)?)),
                    Operand::Absent(gap) => Ok(Operand::Absent(gap.into_owned())),
                    Operand::Omit => Ok(Operand::Omit),
                }
            }
        }
    }

    /// What the scope holds. Several objects as a whole are put together, which is paid for.
    fn read(&mut self, path: &'a Path) -> Result<Operand<'a>, Unrendered> {
        match self.scope.several(path) {
            Some(all) if path.segments.is_empty() => {
                self.scope.check_whole(all, &path.base)?;
                let copy = |(key, value): (&String, &Arc<Value>)| Ok((key.clone(), self.budget.copy(value)?));
                let whole = all.all.iter().map(copy).collect::<Result<_, Unrendered>>()?;
                Ok(Operand::owned(Value::Object(whole)))
            }
            _ => self.scope.read(path),
        }
    }

    fn index(&mut self, base: &'a Expr, index: &'a Expr, written: &'a str) -> Result<Operand<'a>, Unrendered> {
        if let Expr::Path(path) = base
            && let Some(all) = self.scope.several(path)
            && path.segments.is_empty()
        {
            let key = print(self.value(index)?)?;
            return self.scope.one(all, &path.base, &key, "…");
        }
        let (base, index) = (self.evaluate(base)?, self.value(index)?);
        let segment = match &*index {
            Value::String(key) => Segment::Key(key.clone()),
            Value::Number(number) => match number.as_i64() {
                Some(index) => Segment::Index(index),
                None => return Err(Unrendered::failed("an index must be an integer")),
            },
            other => return Err(Unrendered::failed(format!("{} cannot be an index or a key", kind(other)))),
        };
        member(base, &segment, written)
    }

    fn slice(
        &mut self,
        base: &'a Expr,
        start: Option<&'a Expr>,
        stop: Option<&'a Expr>,
    ) -> Result<Operand<'a>, Unrendered> {
        let base = self.value(base)?;
        let mut bound = |expr: Option<&'a Expr>| match expr {
            None => Ok(None),
            Some(expr) => match self.value(expr)?.as_i64() {
                Some(index) => Ok(Some(index)),
                None => Err(Unrendered::failed("a bound of a slice must be an integer")),
            },
        };
        let (start, stop) = (bound(start)?, bound(stop)?);
        operators::slice(&base, start, stop, self.budget).map(Operand::owned)
    }

    fn list(&mut self, items: &'a [Expr]) -> Result<Operand<'a>, Unrendered> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.extend(self.evaluate(item)?.element(self.budget)?);
        }
        Ok(Operand::owned(list))
    }

    fn map(&mut self, entries: &'a [(Expr, Expr)]) -> Result<Operand<'a>, Unrendered> {
        let mut map = serde_json::Map::with_capacity(entries.len());
        for (key, value) in entries {
            let key = match own(self.value(key)?, self.budget)? {
                Value::String(key) => key,
                other => {
                    return Err(Unrendered::failed(format!("a key of a map must be a string, not {}", kind(&other))));
                }
            };
            if let Some(value) = self.evaluate(value)?.element(self.budget)? {
                map.insert(key, value);
            }
        }
        Ok(Operand::owned(map))
    }

    /// `and` and `or` give the operand that decides, as in Jinja.
    fn either(&mut self, left: &'a Expr, right: &'a Expr, decided_by: bool) -> Result<Operand<'a>, Unrendered> {
        let left = self.value(left)?;
        if is_true(&left) == decided_by { Ok(Operand::Value(left)) } else { self.value(right).map(Operand::Value) }
    }

    fn concat(&mut self, left: &'a Expr, right: &'a Expr) -> Result<Operand<'a>, Unrendered> {
        let (left, right) = (print(self.value(left)?)?, print(self.value(right)?)?);
        self.budget.charge(left.len() + right.len())?;
        Ok(Operand::owned(left.into_owned() + &right))
    }

    /// What `default` is asked to stand in for, where it is there.
    fn given(&mut self, value: &'a Expr, lax: Option<&'a Expr>) -> Result<Option<Operand<'a>>, Unrendered> {
        match self.evaluate(value)? {
            Operand::Value(value) => {
                let lax = lax.map_or(Ok(false), |lax| self.holds(lax))?;
                Ok(if lax && !is_true(&value) { None } else { Some(Operand::Value(value)) })
            }
            Operand::Omit => Ok(Some(Operand::Omit)),
            Operand::Absent(_) => Ok(None),
        }
    }

    fn call(&mut self, call: &'a Call) -> Result<Operand<'a>, Unrendered> {
        let mut values = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            values.push(argument.as_ref().map(|argument| self.evaluate(argument)).transpose()?);
        }
        let rest = call.rest.iter().map(|argument| self.evaluate(argument)).collect::<Result<Vec<_>, _>>()?;
        (call.function.call)(&mut Given::new(call.function, values, rest, self.budget))
    }
}

/// What a key or an index leads to. An absent base stays what it is: the first missing step is the one to name.
pub(super) fn member<'a>(base: Operand<'a>, segment: &Segment, written: &'a str) -> Result<Operand<'a>, Unrendered> {
    let absent = || Operand::Absent(written.into());
    match base {
        Operand::Omit => Err(Unrendered::omit()),
        Operand::Absent(gap) => Ok(Operand::Absent(gap)),
        Operand::Value(Cow::Borrowed(value)) => Ok(step(value, segment).map_or_else(absent, Operand::borrowed)),
        Operand::Value(Cow::Owned(value)) => {
            let found = match (value, segment) {
                (Value::Object(mut fields), Segment::Key(key)) => fields.remove(key),
                (Value::Array(mut items), Segment::Index(index)) => position(*index, items.len())
                    .filter(|index| *index < items.len())
                    .map(|index| items.swap_remove(index)),
                _ => None,
            };
            Ok(found.map_or_else(absent, Operand::owned))
        }
    }
}
