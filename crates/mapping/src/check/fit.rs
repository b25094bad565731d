//! Whether a value fits a place: literals, and types that schemas describe.

use serde_json::Value;

use super::types::{Shape, Type};
use crate::diagnostic::Finding;
use crate::schema::{Field, Form, View};
use crate::yaml::Node;

/// Levels of a consumer's subtree that are compared.
const DEPTH: usize = 24;

/// Why a value does not fit a place.
#[derive(Debug, PartialEq)]
pub(super) enum Misfit {
    /// It is of another type.
    Form { is: Form, wanted: Form },
    /// It is of the type, and still none of the values that are taken.
    Value(String),
}

impl Misfit {
    /// Says that a value, named by `what`, does not fit the place at a path. The codes are for another type and another value.
    pub fn finding(&self, codes: [&'static str; 2], node: &Node, path: &str, view: View<'_>, what: &str) -> Finding {
        let kind = &view.schema().kind;
        match self {
            Self::Form { is, wanted } => {
                let message = format!("`{path}` of {kind} is {}; {what} is {}", wanted.name(), is.name());
                Finding::new(codes[0], node.headline(), message).label(format!("not {}", wanted.name()))
            }
            Self::Value(why) => {
                let message = format!("`{path}` of {kind} does not take this value");
                Finding::new(codes[1], node.headline(), message).help(why.clone())
            }
        }
    }
}

/// Whether a literal fits a place; of a list or map, only that it is one.
pub(super) fn literal(value: &Value, view: View<'_>) -> Option<Misfit> {
    let (is, wanted) = (Form::of(value), view.form());
    if value.is_null() {
        return None;
    }
    let fraction = is == Form::Number && wanted == Form::Integer;
    if !is.meets(wanted) || fraction {
        return Some(Misfit::Form { is, wanted });
    }
    if let Some(choices) = view.choices()
        && !choices.contains(value)
    {
        let listed: Vec<_> = choices.iter().map(|choice| format!("`{}`", plain(choice))).collect();
        return Some(Misfit::Value(format!("one of {} is taken", listed.join(", "))));
    }
    let (pattern, minimum, maximum) = view.bounds();
    if let (Value::String(text), Some(pattern)) = (value, pattern) {
        // A pattern that this engine cannot read says nothing.
        let refuses = regex::Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text));
        return refuses.then(|| Misfit::Value(format!("the pattern is `{pattern}`")));
    }
    let number = value.as_f64()?;
    if minimum.is_some_and(|minimum| number < minimum) {
        return minimum.map(|minimum| Misfit::Value(format!("the smallest value is {minimum}")));
    }
    maximum.filter(|maximum| number > *maximum).map(|maximum| Misfit::Value(format!("the largest value is {maximum}")))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What of a typed value does not fit a place.
#[derive(Debug)]
pub(super) enum Mismatch<'s> {
    Misfit {
        path: String,
        misfit: Misfit,
    },
    /// A field that the place does not have; with the fields it has.
    Pruned {
        path: String,
        name: String,
        at: View<'s>,
    },
}

/// Everything of a type that does not fit a place.
pub(super) fn mismatches<'s>(one: &Type<'s>, view: View<'s>) -> Vec<Mismatch<'s>> {
    let mut found = Vec::new();
    match one {
        Type::Any => {}
        Type::Literal(value) => {
            found.extend(literal(value, view).map(|misfit| Mismatch::Misfit { path: String::new(), misfit }));
        }
        Type::Simple(form) => {
            if !form.meets(view.form()) {
                let misfit = Misfit::Form { is: *form, wanted: view.form() };
                found.push(Mismatch::Misfit { path: String::new(), misfit });
            }
        }
        Type::Of(shape) => compare(shape, view, DEPTH, &mut found),
    }
    found
}

fn compare<'s>(shape: &Shape<'s>, to: View<'s>, depth: usize, found: &mut Vec<Mismatch<'s>>) {
    let (is, wanted) = (shape.view.form(), to.form());
    if !is.meets(wanted) {
        found.push(Mismatch::Misfit { path: shape.path.clone(), misfit: Misfit::Form { is, wanted } });
        return;
    }
    if depth == 0 {
        return;
    }
    if let (Some(from), Some(to)) = (shape.view.item(), to.item()) {
        compare(&Shape::new(from, format!("{}[]", shape.path)), to, depth - 1, found);
    }
    for (name, below) in shape.view.fields().filter(|(name, _)| shape.keeps(name)) {
        let path = format!("{}.{name}", shape.path);
        match to.field(name) {
            Field::Open => {}
            Field::Known(to) => compare(&Shape::new(below, path), to, depth - 1, found),
            Field::Unknown => found.push(Mismatch::Pruned { path, name: name.to_owned(), at: to }),
        }
    }
}
