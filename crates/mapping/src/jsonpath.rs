//! JSONPath, parsed once. RFC 9535 without `match()`, `search()` and a second `..`, and kubectl's spellings.
//!
//! The paths are evaluated by jsonpath-rust. They are known step by step up to a descendant, for the checks.

mod split;

use std::ops::Range;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

use split::{Segment, SegmentKind, Splitter};

/// Bytes a path may have.
const LENGTH: usize = 1024;

/// A compiled path.
#[derive(Debug)]
pub struct JsonPath {
    text: String,
    query: JpQuery,
    /// Each with the bytes of `text` that hold it, up to a descendant.
    beginning: Vec<(Step, Range<usize>)>,
    /// Whether it has no more than these.
    is_whole: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    /// Counted from the end where negative.
    Index(i64),
    Every,
    /// `[…]` with a slice, a filter or a union: of a list, some items.
    Selection(String),
}

/// What is wrong with a path, and which bytes of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonPathError {
    pub range: Range<usize>,
    pub message: String,
}

impl JsonPath {
    /// Parses `$.status.phase`, `.status.phase`, `{.status.phase}`; `\.` is a dot within a name.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        if text.len() > LENGTH {
            return Err(error(0..text.len(), format!("a path has at most {LENGTH} bytes")));
        }
        let segments = Splitter::new(text)?.split()?;
        let beginning: Vec<_> = segments.iter().map_while(|segment| segment.step(text)).collect();
        let is_whole = beginning.len() == segments.len();
        Ok(Self { text: text.to_owned(), query: query(&segments)?, beginning, is_whole })
    }

    /// The names of its steps, `*` for an item. `None`: it has slices, filters, unions or descendants.
    pub fn names(&self) -> Option<Vec<&str>> {
        fn name((step, _): &(Step, Range<usize>)) -> &str {
            if let Step::Name(name) = step { name } else { "*" }
        }
        self.steps().map(|steps| steps.iter().map(name).collect())
    }

    /// Whether it matches at most one value, whatever the data.
    pub fn is_singular(&self) -> bool {
        self.steps().is_some_and(|steps| !steps.iter().any(|(step, _)| *step == Step::Every))
    }

    /// The values that match, in their order.
    pub fn select<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let found = js_path_process(&self.query, value).unwrap_or_default();
        found.into_iter().map(|reference| reference.val()).collect()
    }

    /// The steps and where in the text they are, where there are only names, indexes and wildcards.
    pub(super) fn steps(&self) -> Option<&[(Step, Range<usize>)]> {
        let is_plain = self.is_whole && !self.beginning.iter().any(|(step, _)| matches!(step, Step::Selection(_)));
        is_plain.then_some(self.beginning())
    }

    /// The steps up to a descendant.
    pub(super) fn beginning(&self) -> &[(Step, Range<usize>)] {
        &self.beginning
    }

    /// Whether nothing follows these.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The path as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn error(range: Range<usize>, message: impl Into<String>) -> JsonPathError {
    JsonPathError { range, message: message.into() }
}

/// A name as a JSON string, which is one of the RFC's two ways to quote.
fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

/// Hands a path to jsonpath-rust. A selection that it refuses is named; its own positions are of another text.
fn query(segments: &[Segment]) -> Result<JpQuery, JsonPathError> {
    for segment in segments {
        if let SegmentKind::Step(Step::Selection(text)) = &segment.kind
            && parse_json_path(&format!("${text}")).is_err()
        {
            return Err(error(segment.range.clone(), "this is no slice, filter or list of selectors"));
        }
    }
    let whole: String = std::iter::once("$".to_owned()).chain(segments.iter().map(Segment::rfc)).collect();
    parse_json_path(&whole).map_err(|_| {
        let start = segments.first().map_or(0, |segment| segment.range.start);
        error(start..segments.last().map_or(start, |segment| segment.range.end), "this is no JSONPath")
    })
}

#[cfg(test)]
mod tests;
