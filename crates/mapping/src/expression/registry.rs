//! The filters, functions and tests of the language: the whole list, with their arguments and what they come to.
//!
//! The list is ours, so that an unknown name, a wrong number of arguments or an argument of a wrong type is an error at
//! load. Everything in it is pure, and pays for what it touches.

use std::cmp::Ordering;

use data_encoding::{BASE64, HEXLOWER};
use sha2::{Digest, Sha256};

use super::Signature;
use super::functions::{Answer, encoding, gives, kubernetes, list, map, number, quantity, select, semver, text};
use super::given::Given;
use super::operators::compare;
use super::tree::Comparison;
use super::value::{Operand, print};
use crate::schema::Form;

/// A filter, function or test.
#[derive(Debug)]
pub(crate) struct Function {
    pub role: Role,
    pub name: &'static str,
    /// Of a filter or test, the first one is what stands before `|` or `is`.
    pub parameters: &'static [Parameter],
    /// Takes any number of further arguments.
    pub rest: bool,
    pub gives: Gives,
    pub(super) call: Implementation,
}

pub(super) type Implementation = for<'a> fn(&mut Given<'a, '_>) -> Answer<'a>;

#[derive(Debug)]
pub(crate) struct Parameter {
    pub name: &'static str,
    /// The types that it takes; none: all.
    pub takes: &'static [Form],
    pub required: bool,
    /// Given as `name=value` alone.
    pub keyword: bool,
}

/// What a call comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Always(Form),
    /// What it is given, or items of it.
    Same,
    /// That depends on more than its name.
    Else,
}

crate::words! {
    /// The three ways a name can be called.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Role {
        Filter = "filter",
        Function = "function",
        Test = "test",
    }
}

impl Role {
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
    pub fn signature(&self) -> Signature {
        let own = usize::from(self.role != Role::Function);
        let written = |parameter: &Parameter| match (parameter.required, parameter.keyword) {
            (true, _) => parameter.name.to_owned(),
            (false, true) => format!("[{}=]", parameter.name),
            (false, false) => format!("[{}]", parameter.name),
        };
        let parameters = self.parameters.get(own..).unwrap_or_default();
        let (by_name, in_order): (Vec<_>, Vec<_>) = parameters.iter().partition(|parameter| parameter.keyword);
        let rest = self.rest.then(|| "…".to_owned());
        let all: Vec<_> =
            in_order.into_iter().map(written).chain(rest).chain(by_name.into_iter().map(written)).collect();
        let text = if all.is_empty() { self.name.to_owned() } else { format!("{}({})", self.name, all.join(", ")) };
        Signature { role: self.role.as_str(), name: self.name, text }
    }

    /// The same with what stands before it, for who calls it otherwise.
    pub fn usage(&self) -> String {
        let text = self.signature().text;
        match self.role {
            Role::Filter => format!("… | {text}"),
            Role::Function => text,
            Role::Test => format!("… is {text}"),
        }
    }
}

const fn required(name: &'static str, takes: &'static [Form]) -> Parameter {
    Parameter { name, takes, required: true, keyword: false }
}

const fn optional(name: &'static str, takes: &'static [Form]) -> Parameter {
    Parameter { name, takes, required: false, keyword: false }
}

const fn keyword(name: &'static str, takes: &'static [Form]) -> Parameter {
    Parameter { name, takes, required: false, keyword: true }
}

const fn function(
    name: &'static str,
    parameters: &'static [Parameter],
    gives: Gives,
    call: Implementation,
) -> Function {
    Function { role: Role::Function, name, parameters, rest: false, gives, call }
}

const fn filter(name: &'static str, parameters: &'static [Parameter], gives: Gives, call: Implementation) -> Function {
    Function { role: Role::Filter, ..function(name, parameters, gives, call) }
}

const fn test(name: &'static str, parameters: &'static [Parameter], call: Implementation) -> Function {
    Function { role: Role::Test, ..function(name, parameters, TRUTH, call) }
}

const fn variadic(function: Function) -> Function {
    Function { rest: true, ..function }
}

const ANY: &[Form] = &[];
const TEXT: &[Form] = &[Form::Text];
const INTEGER: &[Form] = &[Form::Integer];
const FLAG: &[Form] = &[Form::Boolean];

const VALUE: Parameter = required("value", ANY);
const OF_TEXT: Parameter = required("value", TEXT);
const OF_LIST: Parameter = required("value", &[Form::List]);
const OF_MAP: Parameter = required("value", &[Form::Map]);
const OF_NUMBER: Parameter = required("value", &[Form::Number]);
const OTHER: Parameter = required("other", ANY);
const DEFAULT: Parameter = optional("default", ANY);
const LENGTH: Parameter = optional("length", INTEGER);
const TESTED: Parameter = optional("test", TEXT);
const ATTRIBUTE: Parameter = keyword("attribute", TEXT);
const CASE_SENSITIVE: Parameter = keyword("case_sensitive", FLAG);

const STRING: Gives = Gives::Always(Form::Text);
const NUMBER: Gives = Gives::Always(Form::Number);
const TRUTH: Gives = Gives::Always(Form::Boolean);
const COUNT: Gives = Gives::Always(Form::Integer);

static FILTERS: &[Function] = &[
    filter("abs", &[OF_NUMBER], NUMBER, number::abs),
    filter("as_quantity", &[OF_NUMBER], STRING, quantity::as_quantity),
    filter("b64decode", &[OF_TEXT], STRING, encoding::b64decode),
    filter("b64encode", &[OF_TEXT], STRING, |given| gives(BASE64.encode(given.text(0)?.as_bytes()))),
    filter("capitalize", &[OF_TEXT], STRING, text::capitalize),
    filter("default", &[VALUE, optional("fallback", ANY), optional("lax", FLAG)], Gives::Else, map::default),
    filter("dig", &[VALUE, required("path", TEXT), DEFAULT], Gives::Else, map::dig),
    filter("dns_label", &[OF_TEXT, LENGTH], STRING, kubernetes::dns_label),
    filter("dns_subdomain", &[OF_TEXT, LENGTH], STRING, kubernetes::dns_subdomain),
    filter("first", &[OF_LIST], Gives::Else, |given| list::pick(given, |items| items.into_iter().next())),
    filter("flatten", &[OF_LIST], Gives::Else, list::flatten),
    filter("float", &[VALUE, DEFAULT], Gives::Else, number::float),
    filter("fromjson", &[OF_TEXT], Gives::Else, encoding::fromjson),
    filter("int", &[VALUE, DEFAULT], Gives::Else, number::int),
    filter("items", &[OF_MAP], Gives::Else, list::items),
    filter("join", &[OF_LIST, optional("separator", TEXT), ATTRIBUTE], STRING, list::join),
    filter("label_value", &[OF_TEXT, LENGTH], STRING, kubernetes::label_value),
    filter("last", &[OF_LIST], Gives::Else, |given| list::pick(given, |mut items| items.pop())),
    filter("length", &[required("value", &[Form::Text, Form::List, Form::Map])], COUNT, list::length),
    filter("list", &[required("value", &[Form::List, Form::Map, Form::Text])], Gives::Else, list::list),
    filter("lower", &[OF_TEXT], STRING, |given| text::change(given, str::to_lowercase)),
    variadic(filter(
        "map",
        &[OF_LIST, optional("filter", TEXT), ATTRIBUTE, keyword("default", ANY)],
        Gives::Else,
        select::map,
    )),
    filter("max", &[OF_LIST, CASE_SENSITIVE], Gives::Else, |given| list::extreme(given, Ordering::is_ge)),
    filter("min", &[OF_LIST, CASE_SENSITIVE], Gives::Else, |given| list::extreme(given, Ordering::is_lt)),
    variadic(filter("only", &[OF_MAP], Gives::Else, |given| map::keep(given, true))),
    filter("quantity", &[required("value", &[Form::Text, Form::Number])], NUMBER, quantity::quantity),
    filter(
        "regex_replace",
        &[OF_TEXT, required("pattern", TEXT), required("replacement", TEXT)],
        STRING,
        text::regex_replace,
    ),
    variadic(filter("reject", &[OF_LIST, TESTED], Gives::Same, |given| select::choose(given, false))),
    variadic(filter("rejectattr", CHOSEN_BY, Gives::Same, |given| select::choose_by_attribute(given, false))),
    filter("replace", &[OF_TEXT, required("from", TEXT), required("to", TEXT)], STRING, text::replace),
    filter("required", &[VALUE, required("message", TEXT)], Gives::Same, map::required),
    filter("reverse", &[required("value", &[Form::List, Form::Text])], Gives::Else, list::reverse),
    filter("round", &[OF_NUMBER, optional("precision", INTEGER)], NUMBER, number::round),
    variadic(filter("select", &[OF_LIST, TESTED], Gives::Same, |given| select::choose(given, true))),
    variadic(filter("selectattr", CHOSEN_BY, Gives::Same, |given| select::choose_by_attribute(given, true))),
    filter("semver", &[OF_TEXT], Gives::Else, semver::semver),
    filter("sha256", &[OF_TEXT], STRING, |given| gives(HEXLOWER.encode(&Sha256::digest(given.text(0)?.as_bytes())))),
    filter("sort", &[OF_LIST, ATTRIBUTE, CASE_SENSITIVE, keyword("reverse", FLAG)], Gives::Same, list::sort),
    filter("split", &[OF_TEXT, optional("separator", TEXT), optional("maximum", INTEGER)], Gives::Else, text::split),
    filter("string", &[VALUE], STRING, |given| gives(print(given.value(0)?)?.into_owned())),
    filter("sum", &[OF_LIST, ATTRIBUTE], NUMBER, list::sum),
    filter("tojson", &[VALUE], STRING, encoding::tojson),
    filter("toyaml", &[VALUE], STRING, encoding::toyaml),
    filter("trim", &[OF_TEXT, optional("characters", TEXT)], STRING, text::trim),
    filter("unique", &[OF_LIST, ATTRIBUTE, CASE_SENSITIVE], Gives::Same, list::unique),
    filter("upper", &[OF_TEXT], STRING, |given| text::change(given, str::to_uppercase)),
    variadic(filter("without", &[OF_MAP], Gives::Else, |given| map::keep(given, false))),
];

const CHOSEN_BY: &[Parameter] = &[OF_LIST, required("attribute", TEXT), TESTED];

static FUNCTIONS: &[Function] = &[
    function("condition", &[required("object", ANY), required("type", TEXT)], Gives::Else, kubernetes::condition),
    function("observed_generation_current", &[required("object", ANY)], TRUTH, kubernetes::observed_generation_current),
    function("range", &[required("start", INTEGER), optional("stop", INTEGER)], Gives::Else, list::range),
    variadic(function("short_hash", &[], STRING, kubernetes::short_hash)),
];

static TESTS: &[Function] = &[
    test("boolean", &[VALUE], |given| gives(given.value(0)?.is_boolean())),
    test("defined", &[VALUE], |given| gives(matches!(given.operand(0), Some(Operand::Value(_))))),
    test("endingwith", &[OF_TEXT, required("other", TEXT)], |given| gives(given.text(0)?.ends_with(&*given.text(1)?))),
    test("eq", &[VALUE, OTHER], |given| compared(given, Comparison::Equal)),
    test("float", &[VALUE], |given| gives(given.value(0)?.is_f64())),
    test("ge", &[VALUE, OTHER], |given| compared(given, Comparison::GreaterOrEqual)),
    test("gt", &[VALUE, OTHER], |given| compared(given, Comparison::Greater)),
    test("in", &[VALUE, OTHER], |given| compared(given, Comparison::In)),
    test("integer", &[VALUE], |given| {
        gives(matches!(&*given.value(0)?, value if value.is_number() && !value.is_f64()))
    }),
    test("le", &[VALUE, OTHER], |given| compared(given, Comparison::LessOrEqual)),
    test("lt", &[VALUE, OTHER], |given| compared(given, Comparison::Less)),
    test("mapping", &[VALUE], |given| gives(given.value(0)?.is_object())),
    test("ne", &[VALUE, OTHER], |given| compared(given, Comparison::NotEqual)),
    test("none", &[VALUE], |given| gives(given.value(0)?.is_null())),
    test("number", &[VALUE], |given| gives(given.value(0)?.is_number())),
    test("semver", &[OF_TEXT, required("requirement", TEXT)], semver::satisfies),
    test("sequence", &[VALUE], |given| gives(given.value(0)?.is_array())),
    test("startingwith", &[OF_TEXT, required("other", TEXT)], |given| {
        gives(given.text(0)?.starts_with(&*given.text(1)?))
    }),
    test("string", &[VALUE], |given| gives(given.value(0)?.is_string())),
];

fn compared<'a>(given: &mut Given<'a, '_>, comparison: Comparison) -> Answer<'a> {
    let (left, right) = (given.value(0)?, given.value(1)?);
    gives(compare(comparison, &left, &right, given.budget)?)
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
            assert_eq!(names, sorted, "{}s", role.as_str());
        }
    }
}
