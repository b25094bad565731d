//! What a scalar is: plain text, one typed expression, or text with expressions in it.

use std::ops::Range;
use std::sync::LazyLock;

use minijinja::machinery::Token;
use minijinja::syntax::SyntaxConfig;

use super::tokens::{Closing, closing, tokens};
use crate::diagnostic::Finding;
use crate::yaml::Scalar;

/// Bytes an expression, or a tag of a text, may have. Much longer ones would overflow the parser's stack.
pub(super) const EXPRESSION_LENGTH: usize = 1024;
/// What to do about a longer one.
pub(super) const SHORTER: &str = "compute parts of it in `vars`, or where none can be read, write less";
/// Bytes a text with expressions may have.
const TEXT_LENGTH: usize = 64 << 10;
/// Tags (`{% %}`) a text may have: the parser goes one level deeper with each `elif`.
const TAGS: usize = 64;

/// `$${{` stands for a literal `${{`. The parser knows nothing of it, so it is shown this noncharacter, which is as
/// long in UTF-8 and so moves no offset.
pub(super) const ESCAPED: &str = "$${{";
pub(super) const PLACEHOLDER: char = '\u{10FFFE}';
const _: () = assert!(PLACEHOLDER.len_utf8() == ESCAPED.len());

/// What a scalar holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Form {
    Literal,
    /// Exactly one `${{ }}`; the bytes between the braces.
    Typed(Range<usize>),
    Text,
}

/// Jinja without comments: `{#` is common in the shell scripts that templates carry.
static SYNTAX: LazyLock<SyntaxConfig> = LazyLock::new(|| {
    SyntaxConfig::builder()
        .comment_delimiters("\u{10FFFF}{#", "#}\u{10FFFF}")
        .keep_trailing_newline(true)
        .build()
        .expect("delimiters that differ from each other are accepted")
});

pub(super) fn syntax() -> SyntaxConfig {
    SYNTAX.clone()
}

/// Finds out what a scalar holds; `None` with a finding where it is broken.
pub(super) fn classify(scalar: &Scalar, findings: &mut Vec<Finding>) -> Option<Form> {
    let text = &*scalar.text;
    if !["{{", "{%"].iter().any(|mark| text.contains(mark)) {
        return Some(Form::Literal);
    }
    let start = text.len() - text.trim_start().len();
    match text[start..].strip_prefix("${{") {
        Some(_) => typed(scalar, start, findings),
        None => Some(Form::Text),
    }
}

fn typed(scalar: &Scalar, start: usize, findings: &mut Vec<Finding>) -> Option<Form> {
    let text = &*scalar.text;
    let end = text.trim_end().len();
    match closing(&text[start + 1..end]) {
        Closing::At(inner, close) if start + 1 + close == end => Some(Form::Typed(start + 3..start + 1 + inner)),
        Closing::At(..) => Some(Form::Text),
        Closing::Missing(Some(bracket)) => {
            let bracket = start + 1 + bracket.start..start + 1 + bracket.end;
            let message = format!("`{}` is never closed", &text[bracket.clone()]);
            findings.push(Finding::new("SE0201", scalar.locate(bracket), message));
            None
        }
        // What reads it says what is wrong with it.
        Closing::Missing(None) | Closing::Broken if text[start + 3..end].contains("}}") => {
            text[..end].rfind("}}").map(|close| Form::Typed(start + 3..close))
        }
        Closing::Missing(None) | Closing::Broken => {
            findings.push(
                Finding::new("SE0201", scalar.locate(start..end), "`${{` is never closed")
                    .label("no `}}` for this")
                    .help("in YAML ` #` begins a comment and `: ` a map: put quotes around the whole scalar"),
            );
            None
        }
    }
}

/// A text as the parser may see it; `None` with findings where it is too large, or mixes the two forms.
pub(super) fn prepare(scalar: &Scalar, findings: &mut Vec<Finding>) -> Option<String> {
    let text = &*scalar.text;
    let found = findings.len();
    let mut refuse = |code, range: Range<usize>, message: String, help: String| {
        findings.push(Finding::new(code, scalar.locate(range), message).help(help));
    };
    if text.len() > TEXT_LENGTH {
        let message = format!("a text with expressions has at most {TEXT_LENGTH} bytes");
        refuse("SE0208", 0..text.len(), message, "split the text".to_owned());
        return None;
    }
    if let Some(start) = text.find(PLACEHOLDER) {
        let range = start..start + PLACEHOLDER.len_utf8();
        refuse("SE0201", range, "the text holds U+10FFFE".to_owned(), "leave it out: it is no character".to_owned());
        return None;
    }
    let prepared = text.replace(ESCAPED, PLACEHOLDER.encode_utf8(&mut [0; 4]));
    let tags = tags_of(&prepared);
    for tag in &tags {
        if tag.len() > EXPRESSION_LENGTH {
            let message = format!("an expression has at most {EXPRESSION_LENGTH} bytes");
            refuse("SE0208", tag.clone(), message, SHORTER.to_owned());
        }
        if prepared[tag.clone()].starts_with("{{") && prepared[..tag.start].ends_with('$') {
            let range = tag.start - 1..tag.end;
            refuse("SE0207", range, "`${{ }}` must be the whole value".to_owned(), unmixed(text, tag));
        }
    }
    let mut statements = tags.into_iter().filter(|tag| prepared[tag.clone()].starts_with("{%"));
    if let Some(tag) = statements.nth(TAGS) {
        refuse("SE0208", tag, format!("a text has at most {TAGS} tags"), "split the text".to_owned());
    }
    (findings.len() == found).then_some(prepared)
}

/// How to write a `${{ }}` that has other text beside it.
fn unmixed(text: &str, tag: &Range<usize>) -> String {
    // Up to the next word or expression.
    let before = text[..tag.start - 1].rsplit(|c: char| c.is_whitespace() || c == '}').next().unwrap_or_default();
    let after = text[tag.end..].split(|c: char| c.is_whitespace() || c == '$').next().unwrap_or_default();
    let written = &text[tag.clone()];
    format!(
        "write `{before}{written}{after}`: inside other text `{{{{ }}}}` prints a value; `$${{{{` is a literal `${{{{`"
    )
}

/// The ranges of all `{{ }}` and `{% %}`. One that is not closed reaches to the end.
fn tags_of(text: &str) -> Vec<Range<usize>> {
    let (mut tags, mut open) = (Vec::new(), None);
    for (token, range) in tokens(text, false).map_while(Result::ok) {
        match token {
            Token::VariableStart | Token::BlockStart => open = Some(range.start),
            Token::VariableEnd | Token::BlockEnd => tags.extend(open.take().map(|start| start..range.end)),
            _ => {}
        }
    }
    tags.extend(open.map(|start| start..text.len()));
    tags
}
