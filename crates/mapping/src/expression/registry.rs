//! The filters, functions and tests of the language: the whole list, with their arguments.
//!
//! The list is ours, so that an unknown name or a wrong number of arguments is an error at load. Everything in
//! it is pure, and pays for what it touches.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::Signature;
use super::budget::Budget;
use super::functions::{encoding, kubernetes, list, map, number, quantity, select, semver, tests, text};
use super::value::{Operand, Stop, kind};

/// A filter, function or test.
#[derive(Debug)]
pub(super) struct Function {
    pub name: &'static str,
    /// Of a filter or test, the first one is what stands before `|` or `is`.
    pub parameters: &'static [Parameter],
    /// Takes any number of further arguments.
    pub rest: bool,
    pub call: Implementation,
}

pub(super) type Implementation = for<'a> fn(Arguments<'a>, &mut Budget) -> Result<Operand<'a>, Stop>;

#[derive(Debug)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub required: bool,
    /// Given as `name=value` alone.
    pub keyword: bool,
}

/// The three ways a name can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Filter,
    Function,
    Test,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Filter, Self::Function, Self::Test];

    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Function => "function",
            Self::Test => "test",
        }
    }

    pub fn functions(self) -> &'static [Function] {
        match self {
            Self::Filter => FILTERS,
            Self::Function => FUNCTIONS,
            Self::Test => TESTS,
        }
    }

    pub fn names(self) -> Vec<&'static str> {
        self.functions().iter().map(|function| function.name).collect()
    }

    pub fn find(self, name: &str) -> Option<&'static Function> {
        self.functions().iter().find(|function| function.name == name)
    }
}

impl Function {
    /// How it is called, for its reference.
    pub fn signature(&self, role: Role) -> Signature {
        let own = usize::from(role != Role::Function);
        let parameters = self.parameters.get(own..).unwrap_or_default();
        let written = |parameter: &Parameter| match (parameter.required, parameter.keyword) {
            (true, _) => parameter.name.to_owned(),
            (false, true) => format!("[{}=]", parameter.name),
            (false, false) => format!("[{}]", parameter.name),
        };
        let (by_name, in_order): (Vec<_>, Vec<_>) = parameters.iter().partition(|parameter| parameter.keyword);
        let rest = self.rest.then(|| "…".to_owned());
        let all: Vec<_> =
            in_order.into_iter().map(written).chain(rest).chain(by_name.into_iter().map(written)).collect();
        let text = if all.is_empty() { self.name.to_owned() } else { format!("{}({})", self.name, all.join(", ")) };
        Signature { role: role.name(), name: self.name, text }
    }
}

const fn required(name: &'static str) -> Parameter {
    Parameter { name, required: true, keyword: false }
}

const fn optional(name: &'static str) -> Parameter {
    Parameter { name, required: false, keyword: false }
}

const fn keyword(name: &'static str) -> Parameter {
    Parameter { name, required: false, keyword: true }
}

const fn function(name: &'static str, parameters: &'static [Parameter], call: Implementation) -> Function {
    Function { name, parameters, rest: false, call }
}

const fn variadic(name: &'static str, parameters: &'static [Parameter], call: Implementation) -> Function {
    Function { name, parameters, rest: true, call }
}

/// What filters and tests without arguments take.
const VALUE: &[Parameter] = &[required("value")];
const LENGTH: &[Parameter] = &[required("value"), optional("length")];
const OTHER: &[Parameter] = &[required("value"), required("other")];
const ATTRIBUTE: &[Parameter] = &[required("value"), keyword("attribute")];
const SORTED: &[Parameter] = &[required("value"), keyword("attribute"), keyword("case_sensitive"), keyword("reverse")];
const UNIQUE: &[Parameter] = &[required("value"), keyword("attribute"), keyword("case_sensitive")];
const EXTREME: &[Parameter] = &[required("value"), keyword("case_sensitive")];
const CHOSEN: &[Parameter] = &[required("value"), optional("test")];
const CHOSEN_BY: &[Parameter] = &[required("value"), required("attribute"), optional("test")];

static FILTERS: &[Function] = &[
    function("abs", VALUE, number::abs),
    function("as_quantity", VALUE, quantity::as_quantity),
    function("b64decode", VALUE, encoding::b64decode),
    function("b64encode", VALUE, encoding::b64encode),
    function("capitalize", VALUE, text::capitalize),
    function("default", &[required("value"), optional("fallback"), optional("lax")], map::default),
    function("dig", &[required("value"), required("path"), optional("default")], map::dig),
    function("dns_label", LENGTH, kubernetes::dns_label),
    function("dns_subdomain", LENGTH, kubernetes::dns_subdomain),
    function("first", VALUE, |arguments, budget| list::pick(arguments, budget, |items| items.into_iter().next())),
    function("flatten", VALUE, list::flatten),
    function("float", &[required("value"), optional("default")], number::float),
    function("fromjson", VALUE, encoding::fromjson),
    function("int", &[required("value"), optional("default")], number::int),
    function("items", VALUE, list::items),
    function("join", &[required("value"), optional("separator"), keyword("attribute")], list::join),
    function("label_value", LENGTH, kubernetes::label_value),
    function("last", VALUE, |arguments, budget| list::pick(arguments, budget, |mut items| items.pop())),
    function("length", VALUE, list::length),
    function("list", VALUE, list::list),
    function("lower", VALUE, |arguments, budget| text::change(arguments, budget, str::to_lowercase)),
    variadic("map", &[required("value"), optional("filter"), keyword("attribute"), keyword("default")], select::map),
    function("max", EXTREME, |arguments, budget| list::extreme(arguments, budget, Ordering::is_ge)),
    function("min", EXTREME, |arguments, budget| list::extreme(arguments, budget, Ordering::is_lt)),
    variadic("only", VALUE, |arguments, budget| map::keep(arguments, budget, true)),
    function("quantity", VALUE, quantity::quantity),
    function("regex_replace", &[required("value"), required("pattern"), required("replacement")], text::regex_replace),
    variadic("reject", CHOSEN, |arguments, budget| select::choose(arguments, budget, false)),
    variadic("rejectattr", CHOSEN_BY, |arguments, budget| select::choose_by_attribute(arguments, budget, false)),
    function("replace", &[required("value"), required("from"), required("to")], text::replace),
    function("required", &[required("value"), required("message")], map::required),
    function("reverse", VALUE, list::reverse),
    function("round", &[required("value"), optional("precision")], number::round),
    variadic("select", CHOSEN, |arguments, budget| select::choose(arguments, budget, true)),
    variadic("selectattr", CHOSEN_BY, |arguments, budget| select::choose_by_attribute(arguments, budget, true)),
    function("semver", VALUE, semver::semver),
    function("sha256", VALUE, encoding::sha256),
    function("sort", SORTED, list::sort),
    function("split", &[required("value"), optional("separator"), optional("maximum")], text::split),
    function("string", VALUE, text::string),
    function("sum", ATTRIBUTE, list::sum),
    function("tojson", VALUE, encoding::tojson),
    function("toyaml", VALUE, encoding::toyaml),
    function("trim", &[required("value"), optional("characters")], text::trim),
    function("unique", UNIQUE, list::unique),
    function("upper", VALUE, |arguments, budget| text::change(arguments, budget, str::to_uppercase)),
    variadic("without", VALUE, |arguments, budget| map::keep(arguments, budget, false)),
];

static FUNCTIONS: &[Function] = &[
    function("condition", &[required("object"), required("type")], kubernetes::condition),
    function("observed_generation_current", &[required("object")], kubernetes::observed_generation_current),
    function("range", &[required("start"), optional("stop")], list::range),
    variadic("short_hash", &[], kubernetes::short_hash),
];

static TESTS: &[Function] = &[
    function("boolean", VALUE, tests::boolean),
    function("defined", VALUE, tests::defined),
    function("endingwith", OTHER, |arguments, budget| {
        tests::affix(arguments, budget, |text, part| text.ends_with(part))
    }),
    function("eq", OTHER, tests::eq),
    function("float", VALUE, tests::float),
    function("ge", OTHER, tests::ge),
    function("gt", OTHER, tests::gt),
    function("in", OTHER, tests::within),
    function("integer", VALUE, tests::integer),
    function("le", OTHER, tests::le),
    function("lt", OTHER, tests::lt),
    function("mapping", VALUE, tests::mapping),
    function("ne", OTHER, tests::ne),
    function("none", VALUE, tests::none),
    function("number", VALUE, tests::number),
    function("semver", &[required("value"), required("requirement")], semver::satisfies),
    function("sequence", VALUE, tests::sequence),
    function("startingwith", OTHER, |arguments, budget| {
        tests::affix(arguments, budget, |text, part| text.starts_with(part))
    }),
    function("string", VALUE, tests::string),
];

/// The arguments of one call. Taking one that is absent or `omit` as a value fails, and names it.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    function: &'static Function,
    values: Vec<Option<Operand<'a>>>,
    rest: Vec<Operand<'a>>,
}

impl<'a> Arguments<'a> {
    pub fn new(function: &'static Function, values: Vec<Option<Operand<'a>>>, rest: Vec<Operand<'a>>) -> Self {
        Self { function, values, rest }
    }

    /// The argument as it is; `None` where it was not given, or was taken before.
    pub fn operand(&mut self, index: usize) -> Option<Operand<'a>> {
        self.values.get_mut(index).and_then(Option::take)
    }

    /// The value of an argument that may be absent: then `None`.
    pub fn present(&mut self, index: usize) -> Result<Option<Cow<'a, Value>>, Stop> {
        match self.operand(index) {
            Some(Operand::Absent(_)) | None => Ok(None),
            Some(operand) => operand.require().map(Some),
        }
    }

    pub fn optional(&mut self, index: usize) -> Result<Option<Cow<'a, Value>>, Stop> {
        self.operand(index).map(Operand::require).transpose()
    }

    pub fn value(&mut self, index: usize) -> Result<Cow<'a, Value>, Stop> {
        match self.optional(index)? {
            Some(value) => Ok(value),
            None => Err(Stop::failed(format!("`{}` needs more arguments", self.function.name))),
        }
    }

    pub fn text(&mut self, index: usize) -> Result<Cow<'a, str>, Stop> {
        match self.value(index)? {
            Cow::Borrowed(Value::String(text)) => Ok(Cow::Borrowed(text)),
            Cow::Owned(Value::String(text)) => Ok(Cow::Owned(text)),
            other => Err(self.wrong("a string", &other)),
        }
    }

    pub fn optional_text(&mut self, index: usize) -> Result<Option<Cow<'a, str>>, Stop> {
        if self.values.get(index).is_some_and(Option::is_some) { self.text(index).map(Some) } else { Ok(None) }
    }

    pub fn optional_integer(&mut self, index: usize) -> Result<Option<i64>, Stop> {
        match self.optional(index)? {
            None => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| self.wrong("an integer", &value)),
        }
    }

    pub fn flag(&mut self, index: usize) -> Result<bool, Stop> {
        match self.optional(index)? {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong("a boolean", &value)),
        }
    }

    /// The items of a list, borrowed as the list is.
    pub fn items(&mut self, index: usize) -> Result<Vec<Cow<'a, Value>>, Stop> {
        match self.value(index)? {
            Cow::Borrowed(Value::Array(items)) => Ok(items.iter().map(Cow::Borrowed).collect()),
            Cow::Owned(Value::Array(items)) => Ok(items.into_iter().map(Cow::Owned).collect()),
            other => Err(self.wrong("a list", &other)),
        }
    }

    pub fn rest(&mut self) -> Vec<Operand<'a>> {
        std::mem::take(&mut self.rest)
    }

    /// The further arguments, each of which must be a string.
    pub fn rest_texts(&mut self) -> Result<Vec<String>, Stop> {
        self.rest()
            .into_iter()
            .map(|operand| match operand.require()?.into_owned() {
                Value::String(text) => Ok(text),
                other => Err(self.wrong("strings", &other)),
            })
            .collect()
    }

    /// What is absent, for the list given holds nothing.
    pub fn of_nothing(&self) -> Operand<'a> {
        Operand::Absent(format!("[] | {}", self.function.name).into())
    }

    /// What was given is of the wrong kind. The value itself is never named: it may be a secret.
    pub fn wrong(&self, expected: &str, got: &Value) -> Stop {
        self.fail(format!("needs {expected}, not {}", kind(got)))
    }

    pub fn fail(&self, message: impl std::fmt::Display) -> Stop {
        Stop::failed(format!("`{}` {message}", self.function.name))
    }
}

#[cfg(test)]
mod invariants {
    use super::*;

    #[test]
    fn names_are_sorted_and_stand_once() {
        for role in Role::ALL {
            let names = role.names();
            let mut sorted = names.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(names, sorted, "{}s", role.name());
        }
    }
}
