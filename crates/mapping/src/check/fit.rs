//! Whether a value fits a place: literals, and types that schemas describe.

use serde_json::Value;

use super::types::Type;
use crate::diagnostic::Finding;
use crate::names::count;
use crate::schema::{DEPTH, Field, Form, View};
use crate::yaml::{Node, quoted};

/// Why a value does not fit a place.
#[derive(Debug, PartialEq)]
pub(super) enum Misfit {
    /// It is of another type.
    Form { is: Form, wanted: Form },
    /// It is of the type, and still none of the values that are taken.
    Value(String),
    /// It can be such a value.
    Choices(String),
    /// It can be any text, and only some are taken.
    Text(String),
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
            Self::Choices(why) => {
                let message = format!("`{path}` of {kind} does not take each value of {what}");
                Finding::new(codes[1], node.headline(), message).help(why.clone())
            }
            Self::Text(why) => {
                let message = format!("`{path}` of {kind} does not take every text of {what}");
                Finding::new("SE0506", node.headline(), message).label("any text can come here").help(why.clone())
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
        return Some(Misfit::Value(format!("one of {} is taken", quoted(choices.iter().map(plain)))));
    }
    let (pattern, minimum, maximum) = view.bounds();
    if let Value::String(text) = value {
        // A pattern that this engine cannot read says nothing.
        let refuses = |pattern: &str| regex::Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text));
        if let Some(pattern) = pattern.filter(|pattern| refuses(pattern)) {
            return Some(Misfit::Value(format!("the pattern is `{pattern}`")));
        }
        let (length, (least, most)) = (text.chars().count(), view.lengths());
        let short = least.filter(|least| length < *least).map(|least| ("shortest", least));
        let refused = short.or(most.filter(|most| length > *most).map(|most| ("longest", most)));
        return refused.map(|(end, limit)| Misfit::Value(format!("the {end} text has {}", count(limit, "character"))));
    }
    let number = value.as_f64()?;
    if minimum.is_some_and(|minimum| number < minimum) {
        return minimum.map(|minimum| Misfit::Value(format!("the smallest value is {minimum}")));
    }
    maximum.filter(|maximum| number > *maximum).map(|maximum| Misfit::Value(format!("the largest value is {maximum}")))
}

/// A value of an enum, or a text without one, that a place does not take.
fn choices(own: View<'_>, place: View<'_>) -> Option<Misfit> {
    let Some(values) = own.choices() else { return any_text(own, place) };
    let taken = place.choices()?;
    let other = values.iter().find(|value| !value.is_null() && !taken.contains(value))?;
    let taken = quoted(taken.iter().map(plain));
    Some(Misfit::Choices(format!("one of {taken} is taken, and it can be `{}`", plain(other))))
}

/// A text that its own schema does not bound, where a place takes only some texts.
fn any_text(own: View<'_>, place: View<'_>) -> Option<Misfit> {
    let taken = match (place.choices(), place.bounds().0) {
        _ if !own.is_any_text() => return None,
        (Some(choices), _) => format!("one of {} is taken: list them as `enum`", quoted(choices.iter().map(plain))),
        (None, pattern) => format!("the pattern is `{}`: write it", pattern?),
    };
    Some(Misfit::Text(format!("{taken} in the consumers' schema, too")))
}

/// A value that a place does not take as text.
fn printed(own: &Type<'_>, place: View<'_>) -> Option<Misfit> {
    let values = match own {
        Type::Literal(value) => vec![(*value).clone()],
        Type::Of(shape) => shape.view.examples(),
        _ => Vec::new(),
    };
    let refused = |value: &Value| match literal(&Value::String(plain(value)), place)? {
        Misfit::Value(why) => Some((why, plain(value))),
        _ => None,
    };
    if let Some((why, value)) = values.iter().find_map(refused) {
        return Some(Misfit::Choices(format!("{why}, and it can be `{value}`")));
    }
    if !values.is_empty() || own.form() != Form::Integer {
        return None;
    }
    // Of integers without an end, some may be taken: those with so many digits, for example, or those that the place names.
    let (why, _) = refused(&Value::from(1))?;
    let named = why.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<i64>().ok());
    let long = (0..18).map(|digits| 10_i64.pow(digits)).flat_map(|least| (1..10).map(move |first| first * least));
    let is_none_taken = named.chain(long).all(|one| refused(&one.into()).is_some());
    is_none_taken.then(|| Misfit::Choices(format!("{why}, and no integer is like that")))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What of a typed value does not fit a place.
#[derive(Debug)]
pub(super) enum Mismatch<'s> {
    Misfit {
        /// How the author reads the value; empty for one that is written out.
        path: String,
        /// Where it would stand, below the place.
        below: String,
        view: View<'s>,
        misfit: Misfit,
    },
    /// A field that the place does not have; with the fields it has.
    Pruned { path: String, below: String, name: String, at: View<'s> },
}

/// Everything of a type that does not fit a place.
pub(super) fn mismatches<'s>(one: &Type<'s>, view: View<'s>) -> Vec<Mismatch<'s>> {
    let mut found = Vec::new();
    compare(one, view, "", DEPTH, &mut found);
    found
}

/// `below`: where the value would stand.
fn compare<'s>(one: &Type<'s>, view: View<'s>, below: &str, depth: usize, found: &mut Vec<Mismatch<'s>>) {
    let misfit = match one {
        Type::Literal(value) => literal(value, view),
        other => {
            let (is, wanted) = (other.form(), view.form());
            let form = (!is.meets(wanted)).then_some(Misfit::Form { is, wanted });
            form.or_else(|| match other {
                Type::Of(shape) => choices(shape.view, view),
                Type::Printed(value) => printed(value, view),
                _ => None,
            })
        }
    };
    let value: &Type<'s> = if let Type::Printed(value) = one { value } else { one };
    let path = || if let Type::Of(shape) = value { shape.path.clone() } else { String::new() };
    if let Some(misfit) = misfit {
        return found.push(Mismatch::Misfit { path: path(), below: below.to_owned(), view, misfit });
    }
    if depth == 0 {
        return;
    }
    if let Type::Merged(layers) = one {
        let parts = layers.iter().flat_map(|layer| &layer.types);
        return parts.for_each(|one| compare(one, view, below, depth - 1, found));
    }
    if one.form() == Form::List
        && let Some(view) = view.item()
    {
        one.clone().items().iter().for_each(|item| compare(item, view, &format!("{below}[]"), depth - 1, found));
    }
    for (name, field) in fields(one) {
        let below = format!("{below}.{name}");
        match view.field(&name) {
            Field::Open => {}
            Field::Known(view) => field.iter().for_each(|one| compare(one, view, &below, depth - 1, found)),
            Field::Unknown => {
                let path = match one {
                    Type::Of(shape) => format!("{}.{name}", shape.path),
                    _ => String::new(),
                };
                found.push(Mismatch::Pruned { path, below, name, at: view });
            }
        }
    }
}

/// The fields of a map, each with the types that it can have.
fn fields<'s>(one: &Type<'s>) -> Vec<(String, Vec<Type<'s>>)> {
    match one {
        Type::Of(shape) => {
            let kept = shape.view.fields().filter(|(name, _)| shape.keeps(name));
            let of = |(name, view): (&str, View<'s>)| (name.to_owned(), vec![Type::Of(shape.field(name, view))]);
            kept.map(of).collect()
        }
        Type::Map { fields, .. } => fields.iter().map(|(name, field)| (name.clone(), field.types.clone())).collect(),
        _ => Vec::new(),
    }
}
