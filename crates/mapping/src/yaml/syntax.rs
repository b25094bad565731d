//! Syntax errors in an author's words, and the traps that YAML sets for templates.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use super::{Finding, Node, NodeValue};

/// What a syntax error means in a document that starts at byte `offset` of its file.
pub(super) fn explain(error: &ScanError, text: &str, offset: usize) -> Finding {
    let at = text.floor_char_boundary(error.marker().byte_offset().unwrap_or(0));
    let tab = match error.kind() {
        ErrorKind::TabInPlainScalar => tab_below(text, at),
        kind if is_tab(kind) => indenting_tab(text, at),
        _ => None,
    };
    let at = tab.unwrap_or(at);
    let line = line_range(text, at);
    if let Some(help) = expression_trap(error.kind(), &text[line.clone()], at - line.start) {
        let start = line.start + unquoted_expression(&text[line.clone()]).unwrap_or(0);
        let end = line.start + text[line.clone()].trim_end().len();
        let message = "YAML reads this expression as structure";
        return Finding::new("SE0001", offset + start..offset + end.max(start), message).help(help);
    }
    let character = text[at..].chars().next();
    let end = character.map_or(at, |character| at + character.len_utf8());
    let (message, help) = match error.kind() {
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::ExpectedBlockSequenceEntry
            if text[line.start..at].trim_end().ends_with([']', '}']) =>
        {
            ("the list or map before this has ended".to_owned(), Some("put the whole value in quotes: `\"[]string\"`"))
        }
        kind => meaning(kind, character),
    };
    Finding { help: help.map(str::to_owned), ..Finding::new("SE0001", offset + at..offset + end, message) }
}

fn is_tab(kind: &ErrorKind) -> bool {
    use ErrorKind::{TabInBlockIndentation, TabInIndentation, TabInPlainScalar, TabNotAllowed};
    matches!(kind, TabNotAllowed | TabInBlockIndentation | TabInIndentation | TabInPlainScalar)
}

/// The first tab of an indentation below a byte: the parser reports it at the text that its line would continue.
fn tab_below(text: &str, at: usize) -> Option<usize> {
    let mut start = line_range(text, at).end + 1;
    while start < text.len() {
        let line = &text[line_range(text, start)];
        let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        match indentation.find('\t') {
            Some(tab) if indentation.len() < line.len() => return Some(start + tab),
            _ => start += line.len() + 1,
        }
    }
    None
}

/// The last tab of an indentation up to a byte: the parser may report it at the line below.
fn indenting_tab(text: &str, at: usize) -> Option<usize> {
    let mut end = line_range(text, at).end;
    loop {
        let start = text[..end].rfind('\n').map_or(0, |before| before + 1);
        let line = &text[start..end];
        let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        match indentation.find('\t') {
            Some(tab) => return Some(start + tab),
            None if start == 0 => return None,
            None => end = start - 1,
        }
    }
}

/// What an error means that is found at this character, and what to do about it.
fn meaning(kind: &ErrorKind, at: Option<char>) -> (String, Option<&'static str>) {
    let (message, help) = match kind {
        ErrorKind::UnknownAnchor => ("no anchor of this name stands above", None),
        ErrorKind::DirectiveDisallowed => ("YAML directives (`%`) are not allowed", Some("remove the line")),
        ErrorKind::MappingValueNotAllowed => {
            let help = "quote the text that holds it, or check the indentation of this line";
            ("a `: ` cannot stand here", Some(help))
        }
        ErrorKind::SimpleKeyExpected => {
            ("no `: ` behind this key", Some("write `key: value`, with a space behind the colon"))
        }
        ErrorKind::UnclosedQuotedScalar => ("this quote is never closed", None),
        ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            let help =
                "within double quotes, quote the texts of an expression by single ones: `\"{{ x | default('a') }}\"`";
            ("the quote before this ends the text", Some(help))
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar => {
            let help =
                "within single quotes, quote the texts of an expression by double ones: `'{{ x | default(\"a\") }}'`";
            ("the quote before this ends the text", Some(help))
        }
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator if at == Some('[') => {
            let help = "inside `[…]` and `{…}` a text with brackets needs quotes: `{path: \"$.a[0]\"}`";
            ("YAML reads this bracket as structure", Some(help))
        }
        kind if is_tab(kind) => ("a tab cannot indent", Some("indent with spaces")),
        ErrorKind::ExpectedBlockMappingKey => ("no key of the mapping above: its indentation or form differs", None),
        ErrorKind::ExpectedBlockSequenceEntry => ("no item of the list above: `- ` is expected here", None),
        ErrorKind::UnexpectedCharacter { character } => {
            return (format!("a value cannot start with `{character}`"), Some("quote the value"));
        }
        other => return (format!("YAML syntax: {other}"), None),
    };
    (message.to_owned(), help)
}

/// The hint for an expression that YAML takes apart.
fn expression_trap(kind: &ErrorKind, line: &str, at: usize) -> Option<&'static str> {
    let start = unquoted_expression(line)?;
    let before = &line[..start];
    let typed = line[start..].starts_with('$');
    // Its own braces and brackets are a flow collection, too.
    let bare = !typed && (before.is_empty() || before.ends_with(": ") || before.ends_with("- "));
    let ends_early = matches!(kind, ErrorKind::ExpectedFlowSequenceSeparator | ErrorKind::ExpectedFlowMappingSeparator);
    if is_inside(before) || ends_early && !bare {
        return Some(INSIDE);
    }
    if matches!(kind, ErrorKind::MappingValueNotAllowed) && at >= start {
        return Some("`: ` ends an unquoted text: put the whole value in quotes, or write `:` without the space");
    }
    bare.then_some(BEGINS_WITH_BRACES)
}

/// Whether a list or map in brackets is open at the end of this part of a line.
fn is_inside(before: &str) -> bool {
    before.matches(['[', '{']).count() > before.matches([']', '}']).count()
}

const INSIDE: &str = "inside `[…]` and `{…}` an expression needs quotes: `[\"${{ x }}\"]`";

const BEGINS_WITH_BRACES: &str =
    "a value that begins with `{` is a map to YAML: write `${{ x }}`, or put a text in quotes, `\"{{ x }}-text\"`";

/// Where an expression starts on a line outside of quotes.
fn unquoted_expression(line: &str) -> Option<usize> {
    let mut quote = None;
    let mut previous = ' ';
    for (at, character) in line.char_indices() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => {}
            // A quote opens only where a value starts; elsewhere it is an apostrophe.
            None if matches!(character, '"' | '\'') && matches!(previous, ' ' | '[' | '{' | ',' | ':') => {
                quote = Some(character);
            }
            None if ["${{", "{{", "{%"].iter().any(|open| line[at..].starts_with(open)) => return Some(at),
            None => {}
        }
        previous = character;
    }
    None
}

/// A collection, or nothing, where a key should be.
pub(super) fn no_key(node: &Node, text: &str, offset: usize) -> Finding {
    let start = node.span.start - offset;
    let opened = text[..start].ends_with('{') && matches!(node.value, NodeValue::Mapping(_));
    if opened {
        let line = line_range(text, start);
        let help = if is_inside(&text[line.start..start - 1]) { INSIDE } else { BEGINS_WITH_BRACES };
        let end = line.start + text[line].trim_end().len();
        return Finding::new("SE0005", offset + start - 1..offset + end, "YAML reads this expression as structure")
            .help(help);
    }
    let what = node.describe();
    Finding::new("SE0005", node.headline(), format!("a key must be a text, and this is {what}")).help("quote the key")
}

/// An expression that a comment cuts off: `${{ x # y }}`.
pub(super) fn cut_by_comment(scalar: &str, rest: &str, span: &Range<usize>) -> Option<Finding> {
    let open = scalar.rfind("{{")?;
    let cut = !scalar[open..].contains("}}") && rest.trim_start_matches([' ', '\t']).starts_with('#');
    cut.then(|| {
        Finding::new("SE0008", span.clone(), "this expression has no end: ` #` begins a comment")
            .help("put the whole value in quotes")
    })
}

/// The line around a byte, without its line break.
fn line_range(text: &str, at: usize) -> Range<usize> {
    let at = at.min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |before| before + 1);
    let end = text[at..].find('\n').map_or(text.len(), |after| at + after);
    start..end
}

/// Number of the line that holds a byte, from 0.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
