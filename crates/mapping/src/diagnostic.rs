//! What is wrong with a document, where, and how it is shown.

mod codes;

use std::fmt;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

pub use crate::yaml::Finding;
pub use codes::{CODES, Code, code, is_error};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document does not run.
    Error,
    /// It runs, and something about it deserves a look.
    Warning,
}

/// A [`Finding`] with its file, lines and the text it points at: complete in itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    #[serde(flatten)]
    pub finding: Finding,
    #[serde(flatten)]
    pub spot: Spot,
}

/// A place of a file, complete in itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Spot {
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Bytes of the file.
    #[serde(skip)]
    pub span: Range<usize>,
    /// The first line that is pointed at.
    #[serde(skip)]
    excerpt: Excerpt,
}

/// A line and the bytes of it that are underlined.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Excerpt {
    text: String,
    marked: Range<usize>,
}

impl Spot {
    /// A span beyond the content, or inside of a character, is clamped.
    pub fn new(span: &Range<usize>, file: &str, content: &[u8]) -> Self {
        let start = span.start.min(content.len());
        let end = span.end.clamp(start, content.len());
        let line_start = content[..start].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line_end = content[start..].iter().position(|byte| *byte == b'\n').map_or(content.len(), |at| start + at);
        let before = readable(&content[line_start..start]);
        let marked = readable(&content[start..end.min(line_end)]);
        let text = format!("{before}{marked}{}", readable(&content[end.min(line_end)..line_end]));
        Self {
            file: file.to_owned(),
            line: content[..start].iter().filter(|byte| **byte == b'\n').count() + 1,
            column: before.chars().count() + 1,
            span: start..end,
            excerpt: Excerpt { marked: before.len()..before.len() + marked.len(), text: text.trim_end().to_owned() },
        }
    }

    /// The line with the place underlined, below a message. Ends without a line break.
    pub fn note(&self, message: &str, colours: bool) -> String {
        let group = Level::NOTE.primary_title(message).element(self.snippet(None));
        renderer(colours).render(&[group]).trim_end().to_owned()
    }

    fn snippet<'a>(&'a self, label: Option<&'a str>) -> Snippet<'a, Annotation<'a>> {
        let Excerpt { text, marked } = &self.excerpt;
        let marked = marked.start.min(text.len())..marked.end.min(text.len());
        let mark = AnnotationKind::Primary.span(marked).label(label);
        Snippet::source(text.as_str()).line_start(self.line).path(self.file.as_str()).annotation(mark)
    }
}

fn renderer(colours: bool) -> Renderer {
    if colours { Renderer::styled() } else { Renderer::plain() }
}

impl Diagnostic {
    /// Places a finding in its file. A span beyond the content, or inside of a character, is clamped.
    pub fn new(finding: Finding, file: &str, content: &[u8]) -> Self {
        let spot = Spot::new(&finding.span, file, content);
        let severity = if is_error(finding.code) { Severity::Error } else { Severity::Warning };
        Self { severity, finding: Finding { span: spot.span.clone(), ..finding }, spot }
    }

    /// The same with a further note.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.finding.notes.push(note.into());
        self
    }

    /// The same with its file's path below a directory.
    pub fn under(mut self, directory: &str) -> Self {
        self.spot.file = format!("{}/{}", directory.trim_end_matches('/'), self.spot.file);
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Several lines, with the place in the file underlined. Ends without a line break.
    pub fn render(&self, colours: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let Finding { code, message, label, help, notes, .. } = &self.finding;
        let snippet = self.spot.snippet(label.as_deref());
        let mut group = level.primary_title(message.as_str()).id(*code).element(snippet);
        if let Some(help) = help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        for note in notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        renderer(colours).render(&[group]).trim_end().to_owned()
    }
}

/// `FILE:LINE:COLUMN`
impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One line: place, code and message.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, finding, spot } = self;
        write!(f, "{spot}: {severity}[{}]: {}", finding.code, finding.message)?;
        match &finding.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// Text of any bytes. Control characters, which could rewrite a terminal, are shown as a replacement.
fn readable(bytes: &[u8]) -> String {
    let replace = |character: char| character.is_control() && character != '\t';
    String::from_utf8_lossy(bytes).trim_end_matches('\r').replace(replace, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(content: &str, part: &str) -> Diagnostic {
        let start = content.find(part).expect("stands in the content");
        let finding = Finding::new("SE0101", start..start + part.len(), "unknown field `memberz`")
            .label("no such field")
            .help("did you mean `members`?")
            .note("mapping `mongodb` keeps running generation 7");
        Diagnostic::new(finding, "mongodb.yaml", content.as_bytes()).under("mappings/")
    }

    #[test]
    fn one_line() {
        let diagnostic = at("ä: {ö: 1, memberz: 3}\n", "memberz");
        insta::assert_snapshot!(diagnostic, @"mappings/mongodb.yaml:1:11: error[SE0101]: unknown field `memberz` (did you mean `members`?)");
        assert_eq!(diagnostic.spot.column, 11);
        insta::assert_snapshot!(serde_json::json!(diagnostic), @r#"{"code":"SE0101","column":11,"file":"mappings/mongodb.yaml","help":"did you mean `members`?","label":"no such field","line":1,"message":"unknown field `memberz`","notes":["mapping `mongodb` keeps running generation 7"],"severity":"error","span":{"end":19,"start":12}}"#);
    }

    #[test]
    fn any_span_of_any_bytes_can_be_shown() {
        let contents: [&[u8]; 6] = [b"", b"\n", b"a\r\nb\xff\xfe\r\n", "ä\nöü\n".as_bytes(), b"\x1b[31m\0", b"a\tb"];
        for content in contents {
            for start in 0..10 {
                for end in 0..10 {
                    let finding = Finding::new("SE0001", Range { start, end }, "wrong").label("here");
                    let shown = Diagnostic::new(finding, "a.yaml", content).render(false);
                    assert!(shown.starts_with("error[SE0001]: wrong") && !shown.contains('\x1b'), "{shown}");
                }
            }
        }
    }

    #[test]
    fn several_lines_are_marked_on_the_first() {
        let finding = Finding::new("SE0001", 3..9, "wrong");
        let diagnostic = Diagnostic::new(finding, "a.yaml", b"a: [1,\n  2]\n");
        insta::assert_snapshot!(diagnostic.render(false), @r"
        error[SE0001]: wrong
         --> a.yaml:1:4
          |
        1 | a: [1,
          |    ^^^
        ");
    }
}
