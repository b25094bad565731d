//! JSONPath, parsed once. RFC 9535 without `match()`, `search()` and a second `..`, and kubectl's spellings.
//!
//! Names, indexes and wildcards are walked by hand, which is ten times as fast; whatever else there is goes to
//! jsonpath-rust.

use std::ops::Range;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

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
enum Step {
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

/// A part of a path and its place in the text.
#[derive(Debug)]
struct Segment {
    range: Range<usize>,
    kind: SegmentKind,
}

#[derive(Debug)]
enum SegmentKind {
    Step(Step),
    /// `..` before the next segment.
    Descend,
    /// `[…]` with a slice, a filter or a union.
    Selection(String),
}

impl Segment {
    fn step(&self) -> Option<Step> {
        match &self.kind {
            SegmentKind::Step(step) => Some(step.clone()),
            _ => None,
        }
    }

    /// The segment in the RFC's spelling.
    fn rfc(&self) -> String {
        match &self.kind {
            SegmentKind::Step(Step::Name(name)) => format!("[{}]", quoted(name)),
            SegmentKind::Step(Step::Index(index)) => format!("[{index}]"),
            SegmentKind::Step(Step::Every) => "[*]".to_owned(),
            SegmentKind::Descend => "..".to_owned(),
            SegmentKind::Selection(text) => text.clone(),
        }
    }
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

/// Splits a path at its dots and brackets.
struct Splitter<'t> {
    text: &'t str,
    position: usize,
    /// Where the path ends: before a closing brace, if it began with one.
    end: usize,
}

impl<'t> Splitter<'t> {
    fn new(text: &'t str) -> Result<Self, JsonPathError> {
        let mut start = text.len() - text.trim_start().len();
        let mut end = text.trim_end().len();
        if text[start..end].starts_with('{') {
            if !text[start..end].ends_with('}') || end - start < 2 {
                return Err(error(start..end, "`{` is never closed"));
            }
            (start, end) = (start + 1, end - 1);
        }
        if text[start..end].starts_with('$') {
            start += 1;
        } else if !text[start..end].starts_with(['.', '[']) {
            let message = if start == end { "a path is missing" } else { "a path begins with `$.`" };
            return Err(error(start..end, message));
        }
        Ok(Self { text, position: start, end })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.position..self.end]
    }

    fn split(mut self) -> Result<Vec<Segment>, JsonPathError> {
        let mut segments: Vec<Segment> = Vec::new();
        while !self.rest().is_empty() {
            let start = self.position;
            let kind = self.segment()?;
            let range = start..self.position;
            if matches!(kind, SegmentKind::Descend) && segments.iter().any(|s| matches!(s.kind, SegmentKind::Descend)) {
                return Err(error(range, "a path has one `..` at most"));
            }
            segments.push(Segment { range, kind });
        }
        match segments.last() {
            Some(Segment { range, kind: SegmentKind::Descend }) => {
                Err(error(range.clone(), "a name is missing after `..`"))
            }
            _ => Ok(segments),
        }
    }

    fn segment(&mut self) -> Result<SegmentKind, JsonPathError> {
        let rest = self.rest();
        if let Some(after) = rest.strip_prefix("..") {
            // The dots stay for a name to come: `..name` is a descent and a step.
            self.position += if after.starts_with('[') { 2 } else { 1 };
            return Ok(SegmentKind::Descend);
        }
        if rest.starts_with('[') {
            return self.bracket();
        }
        match rest.strip_prefix('.') {
            Some(_) => {
                self.position += 1;
                self.name()
            }
            None => Err(error(self.position..self.end, "a `.` or `[` is missing here")),
        }
    }

    /// A name after a dot, up to the next dot or bracket; a backslash takes the next character as it is.
    fn name(&mut self) -> Result<SegmentKind, JsonPathError> {
        let start = self.position;
        let mut name = String::new();
        let mut characters = self.rest().char_indices().peekable();
        let mut length = 0;
        while let Some((offset, c)) = characters.next() {
            let c = match c {
                '.' | '[' => break,
                '\\' => characters.next().map(|(_, next)| next).unwrap_or(c),
                c if c.is_whitespace() || matches!(c, ']' | '{' | '}' | '(' | ')' | '"' | '\'' | '?' | '|') => {
                    let place = start + offset;
                    return Err(error(place..place + c.len_utf8(), format!("{c:?} stands within `['…']` only")));
                }
                c => c,
            };
            name.push(c);
            length = characters.peek().map_or(self.end - start, |(next, _)| *next);
        }
        self.position = start + length;
        match name.as_str() {
            "" => Err(error(start.saturating_sub(1)..start.max(1), "a name is missing after the dot")),
            "*" => Ok(SegmentKind::Step(Step::Every)),
            _ => Ok(SegmentKind::Step(Step::Name(name))),
        }
    }

    /// `[0]`, `[*]`, `['name']`, or a selection that is left to jsonpath-rust.
    fn bracket(&mut self) -> Result<SegmentKind, JsonPathError> {
        let start = self.position;
        let length = closing(self.rest()).ok_or_else(|| error(start..self.end, "`[` is never closed"))?;
        self.position += length;
        let inner = self.text[start + 1..start + length - 1].trim();
        // The RFC has no `01`, `+1` and `-0`.
        if let Some(index) = inner.parse::<i64>().ok().filter(|index| index.to_string() == inner) {
            return Ok(SegmentKind::Step(Step::Index(index)));
        }
        if inner == "*" {
            return Ok(SegmentKind::Step(Step::Every));
        }
        if let Some(name) = unquoted(inner) {
            return Ok(SegmentKind::Step(Step::Name(name)));
        }
        self.check_selection(start, length)?;
        Ok(SegmentKind::Selection(self.text[start..start + length].to_owned()))
    }

    /// Refuses what would cost more than a walk over the data.
    fn check_selection(&self, start: usize, length: usize) -> Result<(), JsonPathError> {
        let selection = &self.text[start..start + length];
        let outside: Vec<(usize, char)> = outside_strings(selection).collect();
        for (index, (offset, c)) in outside.iter().enumerate() {
            let place = start + offset;
            let follows = outside.get(index + 1).map(|(_, next)| *next);
            if *c == '$' {
                return Err(error(place..place + 1, "a filter reads its own item only: write `@`"));
            }
            if *c == '.' && follows == Some('.') {
                return Err(error(place..place + 2, "`..` cannot stand in a filter"));
            }
            if *c == '(' {
                let name: String = selection[..*offset]
                    .chars()
                    .rev()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect();
                if !matches!(name.as_str(), "" | "length" | "count" | "value") {
                    return Err(error(place - name.len()..place, format!("there is no function `{name}()` here")));
                }
            }
        }
        Ok(())
    }
}

/// Length of a bracket with what it holds.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, c) in outside_strings(text) {
        match c {
            '[' => depth += 1,
            ']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The characters that are not part of a quoted string.
fn outside_strings(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    let mut escaped = false;
    text.char_indices().filter(move |(_, c)| match quote {
        Some(open) => {
            if escaped {
                escaped = false;
            } else if *c == '\\' {
                escaped = true;
            } else if *c == open {
                quote = None;
            }
            false
        }
        None => {
            if matches!(c, '\'' | '"') {
                quote = Some(*c);
            }
            quote.is_none()
        }
    })
}

/// The name in quotes; `None` where it is none, or has escapes beyond the quote and the backslash.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text[1..].strip_suffix(quote)?;
    let mut name = String::new();
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => name.push(characters.next().filter(|c| matches!(c, '\'' | '"' | '\\'))?),
            c if c == quote => return None,
            c => name.push(c),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"annotations": {"a.b/c": "yes", "plain": 1}},
            "status": {
                "phase": "Running", "my-key": 1, "null": null,
                "members": [{"host": "a", "ready": true, "n": 1}, {"host": "b", "ready": false, "n": 2}, {"host": "c", "n": 3}]
            }
        })
    }

    fn select(path: &str) -> Value {
        let object = object();
        let compiled = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        compiled.select(&object).into_iter().cloned().collect()
    }

    #[test]
    fn selects() {
        let cases = [
            ("$.status.phase", json!(["Running"])),
            (".status.phase", json!(["Running"])),
            ("{.status.phase}", json!(["Running"])),
            (" {$.status.phase} ", json!(["Running"])),
            ("$['status'][\"phase\"]", json!(["Running"])),
            ("$.status.my-key", json!([1])),
            ("$.status.null", json!([null])),
            ("$.status.missing.deeper", json!([])),
            ("$.status.phase.deeper", json!([])),
            (r"{.metadata.annotations.a\.b/c}", json!(["yes"])),
            ("$.metadata.annotations['a.b/c']", json!(["yes"])),
            ("$.status.members[0].host", json!(["a"])),
            ("$.status.members[-1].host", json!(["c"])),
            ("$.status.members[-4].host", json!([])),
            ("$.status.members[9]", json!([])),
            ("$.status.members[*].host", json!(["a", "b", "c"])),
            ("$.metadata.annotations.*", json!(["yes", 1])),
            ("$.status.members[1:].host", json!(["b", "c"])),
            ("$.status.members[0,2].host", json!(["a", "c"])),
            ("$.status.members[?@.ready==true].host", json!(["a"])),
            ("$.status.members[?(@.host == 'b')].n", json!([2])),
            ("$.status.members[?@.n > 1 && length(@.host) == 1].host", json!(["b", "c"])),
            ("$..host", json!(["a", "b", "c"])),
            ("$.status..n", json!([1, 2, 3])),
            ("$..['host']", json!(["a", "b", "c"])),
            ("$.status.my-key[?@.x]", json!([])),
        ];
        for (path, expected) in cases {
            assert_eq!(select(path), expected, "{path}");
        }
        assert_eq!(select("$"), json!([object()]));
    }

    #[test]
    fn knows_whether_one_value_is_all_it_can_match() {
        let singular = |path: &str| JsonPath::parse(path).is_ok_and(|path| path.is_singular());
        assert!(["$", "$.a.b", "$.a[0]", "$['a'][-1]"].into_iter().all(singular));
        assert!(!["$.a[*]", "$.*", "$..a", "$.a[0:1]", "$.a[0,1]", "$.a[?@.b]"].into_iter().any(singular));
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let paths = [
            "",
            "status.phase",
            "$.",
            "$.a.",
            "$.a..",
            "$..a..b",
            "$.a[0",
            "$.a[",
            "$.a[]",
            "$.a[?]",
            "$.a[x]",
            "$.a b",
            "{.a",
            "$a",
            "$.a[?match(@.b, 'x')]",
            "$.a[?search(@.b, 'x')]",
            "$.a[?@..b]",
            "$.a[?$.b]",
            "$.ü['",
            "{range .items[*]}",
            "$.a['b",
            "$.a[?@.b == ]",
        ];
        let report: String = paths
            .iter()
            .map(|path| {
                let error = JsonPath::parse(path).expect_err("the path is wrong");
                let before = path[..error.range.start].chars().count();
                let width = path[error.range.clone()].chars().count().max(1);
                format!("{path}\n{}{} {}\n", " ".repeat(before), "^".repeat(width), error.message)
            })
            .collect();
        insta::assert_snapshot!(report);
        assert!(JsonPath::parse(&".a".repeat(600)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn never_panics(path in "[$.a-c\\[\\]'\"?@()*:0-9 ,=ü{}\\\\-]{0,30}") {
            match JsonPath::parse(&path) {
                Ok(compiled) => {
                    let object = object();
                    let found = compiled.select(&object).len();
                    prop_assert!(!compiled.is_singular() || found <= 1);
                }
                Err(error) => prop_assert!(path.get(error.range).is_some()),
            }
        }

        /// What is walked by hand is what jsonpath-rust finds.
        #[test]
        fn steps_agree_with_the_library(path in "(\\.(status|members|host|\\*|metadata)|\\[(-?[0-3]|\\*|'phase')\\]){0,4}") {
            let (path, object) = (format!("${path}"), object());
            let ours = JsonPath::parse(&path).map(|path| path.select(&object).into_iter().cloned().collect::<Vec<_>>());
            let theirs = parse_json_path(&path)
                .ok()
                .and_then(|query| js_path_process(&query, &object).ok())
                .map(|found| found.into_iter().map(|reference| reference.val().clone()).collect::<Vec<_>>());
            prop_assert_eq!(ours.ok(), theirs);
        }
    }
}
