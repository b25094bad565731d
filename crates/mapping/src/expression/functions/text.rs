//! Filters on strings.

use serde_json::Value;

use super::super::given::Given;
use super::{Answer, gives};

pub fn capitalize<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    change(given, |text| {
        let mut characters = text.chars();
        let first = characters.next().into_iter().flat_map(char::to_uppercase).collect::<String>();
        first + &characters.as_str().to_lowercase()
    })
}

/// A change that makes a text at most three times as long, as Unicode's case rules do.
pub fn change<'a>(given: &mut Given<'a, '_>, change: impl FnOnce(&str) -> String) -> Answer<'a> {
    let text = given.text(0)?;
    given.budget.charge(2 * text.len())?;
    gives(change(&text))
}

/// Cuts white space, or the given characters, off both ends.
pub fn trim<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let (text, characters) = (given.text(0)?, given.optional_text(1)?);
    let Some(characters) = characters else { return gives(text.trim()) };
    given.budget.charge(text.len().saturating_mul(characters.len()))?;
    gives(text.trim_matches(|c| characters.contains(c)))
}

pub fn replace<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let (text, from, to) = (given.text(0)?, given.text(1)?, given.text(2)?);
    given.budget.charge(text.matches(&*from).count().saturating_mul(to.len()))?;
    gives(text.replace(&*from, &to))
}

/// What `regex_replace` does is `Expr::RegexReplace`: its pattern is compiled at load. By name alone it has none.
pub fn regex_replace<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    Err(given.fail("has a pattern that is compiled at load: it cannot be called by its name"))
}

/// Splits at a separator, or at white space. At most `maximum` times.
pub fn split<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let (text, separator, maximum) = (given.text(0)?, given.optional_text(1)?, given.integer(2)?);
    let pieces: Box<dyn Iterator<Item = &str>> = match (separator.as_deref(), maximum.map(usize::try_from)) {
        (Some(""), _) => return Err(given.fail("cannot split at an empty text")),
        (Some(separator), Some(Ok(maximum))) => Box::new(text.splitn(maximum.saturating_add(1), separator)),
        (Some(separator), _) => Box::new(text.split(separator)),
        (None, None) => Box::new(text.split_whitespace()),
        (None, Some(_)) => return Err(given.fail("needs a separator where it has a maximum")),
    };
    let mut list = Vec::new();
    for piece in pieces {
        given.budget.step()?;
        list.push(Value::from(piece));
    }
    gives(list)
}
