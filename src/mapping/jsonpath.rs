//! JSONPath, parsed once. RFC 9535 without `match()`, `search()` and a second `..`, and kubectl's spellings.
//!
//! Names, indexes and wildcards are walked by hand, which is ten times as fast; whatever else there is goes to
//! jsonpath-rust.

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
    query: Query,
}

#[derive(Debug)]
enum Query {
    Steps(Vec<Step>),
    /// With slices, filters, unions or descendants.
    Full(JpQuery),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    /// Counted from the end where negative.
    Index(i64),
    Every,
}

/// What is wrong with a path, and which bytes of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonPathError {
    pub range: Range<usize>,
    pub message: String,
}

impl JsonPath {
    /// The field of an object that the path leads into; `None` where it may lead into several, or to all of it.
    pub fn field(&self) -> Option<&str> {
        match &self.query {
            Query::Steps(steps) => steps.first().and_then(|step| match step {
                Step::Name(name) => Some(name.as_str()),
                Step::Index(_) | Step::Every => None,
            }),
            Query::Full(_) => None,
        }
    }

    /// Parses `$.status.phase`, `.status.phase`, `{.status.phase}`; `\.` is a dot within a name.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        if text.len() > LENGTH {
            return Err(error(0..text.len(), format!("a path has at most {LENGTH} bytes")));
        }
        let segments = Splitter::new(text)?.split()?;
        let query = match segments.iter().map(Segment::step).collect::<Option<Vec<_>>>() {
            Some(steps) => Query::Steps(steps),
            None => Query::Full(full(&segments)?),
        };
        Ok(Self { text: text.to_owned(), query })
    }

    /// Whether it matches at most one value, whatever the data.
    pub fn is_singular(&self) -> bool {
        match &self.query {
            Query::Steps(steps) => !steps.contains(&Step::Every),
            Query::Full(_) => false,
        }
    }

    /// The values that match, in their order.
    pub fn select<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match &self.query {
            Query::Steps(steps) => {
                let mut found = Vec::new();
                follow(value, steps, &mut found);
                found
            }
            Query::Full(query) => js_path_process(query, value)
                .map(|found| found.into_iter().map(|reference| reference.val()).collect())
                .unwrap_or_default(),
        }
    }

    /// The steps, where there are only names, indexes and wildcards.
    pub(super) fn steps(&self) -> Option<&[Step]> {
        match &self.query {
            Query::Steps(steps) => Some(steps),
            Query::Full(_) => None,
        }
    }

    /// The path as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn follow<'v>(value: &'v Value, steps: &[Step], found: &mut Vec<&'v Value>) {
    let Some((step, rest)) = steps.split_first() else { return found.push(value) };
    match (step, value) {
        (Step::Name(name), Value::Object(fields)) => {
            if let Some(value) = fields.get(name) {
                follow(value, rest, found);
            }
        }
        (Step::Index(index), Value::Array(items)) => {
            let index = if *index < 0 { items.len() as i64 + index } else { *index };
            if let Some(value) = usize::try_from(index).ok().and_then(|index| items.get(index)) {
                follow(value, rest, found);
            }
        }
        (Step::Every, Value::Array(items)) => items.iter().for_each(|value| follow(value, rest, found)),
        (Step::Every, Value::Object(fields)) => fields.values().for_each(|value| follow(value, rest, found)),
        _ => {}
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
fn full(segments: &[Segment]) -> Result<JpQuery, JsonPathError> {
    for segment in segments {
        if let SegmentKind::Selection(text) = &segment.kind
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
