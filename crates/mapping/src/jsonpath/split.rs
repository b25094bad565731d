//! Splits a path into segments, in whichever spelling it has.

use std::ops::Range;

use super::{JsonPathError, Step, error, quoted};

/// A part of a path and its place in the text.
#[derive(Debug)]
pub(super) struct Segment {
    pub range: Range<usize>,
    pub kind: SegmentKind,
}

#[derive(Debug)]
pub(super) enum SegmentKind {
    Step(Step),
    /// `..` before the next segment.
    Descend,
}

impl Segment {
    /// A step and its place in the path's text, the dot before it left out.
    pub fn step(&self, text: &str) -> Option<(Step, Range<usize>)> {
        let SegmentKind::Step(step) = &self.kind else { return None };
        let dots = text[self.range.clone()].chars().take_while(|c| *c == '.').count();
        Some((step.clone(), self.range.start + dots..self.range.end))
    }

    /// The segment in the RFC's spelling.
    pub fn rfc(&self) -> String {
        match &self.kind {
            SegmentKind::Step(Step::Name(name)) => format!("[{}]", quoted(name)),
            SegmentKind::Step(Step::Index(index)) => format!("[{index}]"),
            SegmentKind::Step(Step::Every) => "[*]".to_owned(),
            SegmentKind::Step(Step::Selection(text)) => text.clone(),
            SegmentKind::Descend => "..".to_owned(),
        }
    }
}

/// Splits a path at its dots and brackets.
pub(super) struct Splitter<'t> {
    text: &'t str,
    position: usize,
    /// Where the path ends: before a closing brace, if it began with one.
    end: usize,
}

impl<'t> Splitter<'t> {
    pub fn new(text: &'t str) -> Result<Self, JsonPathError> {
        let mut start = text.len() - text.trim_start().len();
        let mut end = text.trim_end().len().max(start);
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

    pub fn split(mut self) -> Result<Vec<Segment>, JsonPathError> {
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
        Ok(SegmentKind::Step(Step::Selection(self.text[start..start + length].to_owned())))
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
                let before = selection[..*offset].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                let name = &selection[before.len()..*offset];
                if !matches!(name, "" | "length" | "count" | "value") {
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
