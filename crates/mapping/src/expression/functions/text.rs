//! Filters on strings.

use serde_json::Value;

use super::super::budget::Budget;
use super::super::registry::Arguments;
use super::super::value::{Operand, print};
use super::Answer;

pub fn capitalize<'a>(arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    change(arguments, budget, |text| {
        let mut characters = text.chars();
        let first = characters.next().into_iter().flat_map(char::to_uppercase).collect::<String>();
        first + &characters.as_str().to_lowercase()
    })
}

/// Cuts white space, or the given characters, off both ends.
pub fn trim<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let characters = arguments.optional_text(1)?;
    if let Some(characters) = &characters {
        let text = arguments.text(0)?;
        budget.charge(text.len().saturating_mul(characters.len() + 1))?;
        return Ok(Operand::owned(text.trim_matches(|c| characters.contains(c))));
    }
    change(arguments, budget, |text| text.trim().to_owned())
}

/// A change that makes a text at most three times as long, as Unicode's case rules do.
pub fn change<'a>(
    mut arguments: Arguments<'a>,
    budget: &mut Budget,
    change: impl FnOnce(&str) -> String,
) -> Answer<'a> {
    let text = arguments.text(0)?;
    budget.charge(4 * text.len())?;
    Ok(Operand::owned(change(&text)))
}

pub fn replace<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let (text, from, to) = (arguments.text(0)?, arguments.text(1)?, arguments.text(2)?);
    budget.charge(2 * text.len() + from.len() + to.len())?;
    let found = text.matches(&*from).count();
    budget.charge(text.len() + found.saturating_mul(to.len()))?;
    Ok(Operand::owned(text.replace(&*from, &to)))
}

/// What `regex_replace` does is `Expr::RegexReplace`: its pattern is compiled at load. By name alone it has none.
pub fn regex_replace<'a>(arguments: Arguments<'a>, _: &mut Budget) -> Answer<'a> {
    Err(arguments.fail("has a pattern that is compiled at load: it cannot be called by its name"))
}

/// Splits at a separator, or at white space. At most `maximum` times.
pub fn split<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let (text, separator, maximum) = (arguments.text(0)?, arguments.optional_text(1)?, arguments.optional_integer(2)?);
    let pieces = match maximum.map(usize::try_from) {
        None | Some(Err(_)) => usize::MAX,
        Some(Ok(maximum)) => maximum.saturating_add(1),
    };
    let separator = match &separator {
        Some(separator) if separator.is_empty() => return Err(arguments.fail("cannot split at an empty text")),
        Some(separator) => Some(&**separator),
        None => None,
    };
    match separator {
        Some(separator) => collect(text.splitn(pieces, separator), budget),
        None if maximum.is_none() => collect(text.split_whitespace(), budget),
        None => Err(arguments.fail("needs a separator where it has a maximum")),
    }
}

fn collect<'a, 't>(pieces: impl Iterator<Item = &'t str>, budget: &mut Budget) -> Answer<'a> {
    let mut list = Vec::new();
    for piece in pieces {
        budget.step()?;
        budget.charge(piece.len())?;
        list.push(Value::from(piece));
    }
    Ok(Operand::owned(list))
}

/// The text of a string, number or boolean.
pub fn string<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let text = print(arguments.value(0)?)?;
    budget.charge(text.len())?;
    Ok(Operand::owned(text.into_owned()))
}
