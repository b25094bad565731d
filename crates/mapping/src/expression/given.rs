//! The arguments of one call.

use std::borrow::Cow;

use serde_json::Value;

use super::Unrendered;
use super::budget::Budget;
use super::operators::Numeric;
use super::registry::Function;
use super::value::{Operand, kind, text};
use crate::schema::Form;

/// What a filter, function or test is given. Each argument is taken once; one that is absent, `omit`, or of a type that its
/// parameter does not take, fails. The value itself is never named: it may be a secret.
#[derive(Debug)]
pub(super) struct Given<'a, 'b> {
    pub budget: &'b mut Budget,
    function: &'static Function,
    values: Vec<Option<Operand<'a>>>,
    rest: Vec<Operand<'a>>,
}

impl<'a, 'b> Given<'a, 'b> {
    pub fn new(
        function: &'static Function,
        values: Vec<Option<Operand<'a>>>,
        rest: Vec<Operand<'a>>,
        budget: &'b mut Budget,
    ) -> Self {
        Self { budget, function, values, rest }
    }

    /// The argument as it is; `None` where it was not given.
    pub fn operand(&mut self, index: usize) -> Option<Operand<'a>> {
        self.values.get_mut(index).and_then(Option::take)
    }

    pub fn optional(&mut self, index: usize) -> Result<Option<Cow<'a, Value>>, Unrendered> {
        let Some(operand) = self.operand(index) else { return Ok(None) };
        let value = operand.require()?;
        let takes = self.function.parameters[index].takes;
        if takes.is_empty() || takes.iter().any(|form| admits(*form, &value)) {
            return Ok(Some(value));
        }
        let names: Vec<_> = takes.iter().map(|form| form.name()).collect();
        let wanted = match &names[..] {
            [one] => (*one).to_owned(),
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
            [] => String::new(),
        };
        Err(self.wrong(&wanted, &value))
    }

    pub fn value(&mut self, index: usize) -> Result<Cow<'a, Value>, Unrendered> {
        self.optional(index)?
            .ok_or_else(|| Unrendered::failed(format!("`{}` needs more arguments", self.function.name)))
    }

    /// The value of an argument that may be absent: then `None`.
    pub fn present(&mut self, index: usize) -> Result<Option<Cow<'a, Value>>, Unrendered> {
        match self.operand(index) {
            Some(Operand::Absent(_)) | None => Ok(None),
            Some(operand) => operand.require().map(Some),
        }
    }

    /// A text, which is paid for as if it were read and copied.
    pub fn text(&mut self, index: usize) -> Result<Cow<'a, str>, Unrendered> {
        match text(self.value(index)?) {
            Ok(text) => {
                self.budget.charge(2 * text.len())?;
                Ok(text)
            }
            Err(other) => Err(self.wrong("a string", &other)),
        }
    }

    pub fn optional_text(&mut self, index: usize) -> Result<Option<Cow<'a, str>>, Unrendered> {
        if self.values[index].is_some() { self.text(index).map(Some) } else { Ok(None) }
    }

    pub fn integer(&mut self, index: usize) -> Result<Option<i64>, Unrendered> {
        let Some(value) = self.optional(index)? else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong("an integer", &value))
    }

    pub fn number(&mut self) -> Result<Numeric, Unrendered> {
        match &*self.value(0)? {
            Value::Number(number) => Ok(Numeric::of(number)),
            other => Err(self.wrong("a number", other)),
        }
    }

    pub fn flag(&mut self, index: usize) -> Result<bool, Unrendered> {
        Ok(self.optional(index)?.is_some_and(|value| *value == Value::Bool(true)))
    }

    /// The items of the list that the first argument is, borrowed as the list is. Each is paid for.
    pub fn items(&mut self) -> Result<Vec<Cow<'a, Value>>, Unrendered> {
        let items: Vec<_> = match self.value(0)? {
            Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
            Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
            other => return Err(self.wrong("a list", &other)),
        };
        self.budget.charge(64 * items.len())?;
        Ok(items)
    }

    pub fn rest(&mut self) -> Vec<Operand<'a>> {
        std::mem::take(&mut self.rest)
    }

    pub fn wrong(&self, wanted: &str, got: &Value) -> Unrendered {
        self.fail(format!("needs {wanted}, not {}", kind(got)))
    }

    pub fn fail(&self, message: impl std::fmt::Display) -> Unrendered {
        Unrendered::failed(format!("`{}` {message}", self.function.name))
    }

    /// What is absent, for the list given holds nothing.
    pub fn of_nothing(&self) -> Operand<'a> {
        Operand::Absent(format!("[] | {}", self.function.name).into())
    }
}

/// Whether a value is of a type; `1.0` is no integer.
fn admits(form: Form, value: &Value) -> bool {
    match form {
        Form::Text => value.is_string(),
        Form::Integer => value.is_number() && !value.is_f64(),
        Form::Number => value.is_number(),
        Form::Boolean => value.is_boolean(),
        Form::List => value.is_array(),
        Form::Map => value.is_object(),
        Form::IntegerOrText | Form::Any => true,
    }
}
