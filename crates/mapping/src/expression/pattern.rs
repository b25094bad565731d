//! Regular expressions: literals of the author, compiled at load, matched in time linear in the text.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};

use super::Unrendered;
use super::budget::Budget;

/// Bytes a compiled pattern may have: room for a few classes of Unicode, none for counted repetitions of them.
const SIZE: usize = 256 << 10;

/// What a byte of text costs, at worst about one look at each state that the pattern can be in.
const COST: usize = 64;

/// Patterns in use, by their text. One takes 5 to 150 KiB, and half as much again once it has matched; the mappings of a
/// provider are made alike.
static IN_USE: Mutex<BTreeMap<String, Weak<Regex>>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
pub(crate) struct Pattern(Arc<Regex>);

impl Pattern {
    /// # Errors
    /// What is wrong with the pattern, in one line.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        let mut in_use = IN_USE.lock();
        if let Some(known) = in_use.get(source).and_then(Weak::upgrade) {
            return Ok(Self(known));
        }
        let built = Arc::new(Self::build(source)?);
        in_use.retain(|_, pattern| pattern.strong_count() > 0);
        in_use.insert(source.to_owned(), Arc::downgrade(&built));
        Ok(Self(built))
    }

    fn build(source: &str) -> Result<Regex, String> {
        let built = RegexBuilder::new(source).size_limit(SIZE).dfa_size_limit(SIZE).build();
        built.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the pattern is too large: its repetitions multiply".to_owned(),
            // The parser draws its own caret; its last line says what it means.
            other => {
                let text = other.to_string();
                text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
            }
        })
    }

    /// Replaces all matches. `$1` and `${name}` in an author's replacement stand for what a group matched; in data
    /// (`expand` is false) they stand for themselves.
    pub(super) fn replace(
        &self,
        text: &str,
        replacement: &str,
        expand: bool,
        budget: &mut Budget,
    ) -> Result<String, Unrendered> {
        budget.charge(text.len().saturating_mul(COST))?;
        let mut replaced = String::new();
        let mut end = 0;
        let groups = if expand { replacement.matches('$').count() } else { 0 };
        for captures in self.0.captures_iter(text) {
            let Some(found) = captures.get(0) else { continue };
            // Bytes that the replacement can come to.
            let longest = replacement.len().saturating_add(groups.saturating_mul(found.len()));
            budget.charge(COST + longest)?;
            replaced.push_str(&text[end..found.start()]);
            if expand {
                captures.expand(replacement, &mut replaced);
            } else {
                replaced.push_str(replacement);
            }
            end = found.end();
        }
        replaced.push_str(&text[end..]);
        Ok(replaced)
    }
}
