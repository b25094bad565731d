//! A look at all tokens of a text before its parser runs.
//!
//! minijinja's parser loses an error of its lexer behind a text literal: of `a == "web" && b` it would keep the first
//! half. So nothing is parsed before every token of it was read.

use std::ops::Range;

use minijinja::machinery::{Token, Tokenizer};

use super::parse::Compiler;
use super::source;

/// Operators of other languages, longer ones first, and how they are written here.
const SPELLINGS: [(&str, &str); 12] = [
    ("&&", "write `a and b`"),
    ("||", "write `a or b`"),
    ("??", "write `x | default(y)`"),
    ("?.", "write `x.y | default(z)`"),
    ("?", "write `a if condition else b`"),
    ("!", "write `not x`"),
    ("<>", "write `a != b`"),
    ("=", "write `a == b`"),
    ("$", "a path begins with a root: `source.spec.x`, for example"),
    ("AND", "write `a and b`"),
    ("OR", "write `a or b`"),
    ("NOT", "write `not x`"),
];

/// Statements of Jinja that the language does not have, and what it has.
const STATEMENTS: [&str; 12] =
    ["autoescape", "block", "call", "do", "extends", "filter", "from", "import", "include", "macro", "set", "with"];
const ONLY: &str = "of Jinja's statements there are `{% if %}` and `{% for %}`; compute values in `vars`";

impl Compiler<'_> {
    /// Reads every token; `None` with a finding where there is something that is none.
    pub fn check_tokens(&mut self, in_expression: bool) -> Option<()> {
        let source = self.source();
        let (mut end, mut before) = (0, None);
        // Parentheses that are open, and the name of the filter that stands before.
        let (mut open, mut filter, mut is_foreign) = (0_usize, None, false);
        for token in tokens(source, in_expression) {
            match token {
                Ok((token, range)) => {
                    let is_filter = matches!((&before, &token), (Some(Token::Pipe), Token::Ident(_)));
                    match (before, &token) {
                        (Some(Token::Pipe), Token::Pipe) if range.start == end => return self.no_token(end - 1),
                        (Some(Token::BlockStart), Token::Ident(name)) if STATEMENTS.contains(name) => {
                            self.report("SE0206", range.clone(), format!("`{name}` is not part of the language"))
                                .help = Some(ONLY.to_owned());
                            is_foreign = true;
                        }
                        (_, Token::ParenOpen) => open += 1,
                        (_, Token::ParenClose) => open = open.saturating_sub(1),
                        (_, Token::Assign) if open == 0 && !is_foreign => return self.no_token(range.start),
                        (Some(Token::Lt), Token::Gt) if range.start == end => return self.no_token(end - 1),
                        (Some(Token::Dot), Token::Ident(_)) => {}
                        (_, Token::Ident("AND" | "OR" | "NOT")) => return self.no_token(range.start),
                        (_, Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Float(_)) => {
                            if let Some(name) = filter {
                                let help = format!("write `{name}({})`", &source[range.clone()]);
                                self.report("SE0201", range, "the arguments of a filter stand in parentheses").help =
                                    Some(help);
                                return None;
                            }
                        }
                        _ => {}
                    }
                    filter = is_filter.then(|| &source[range.clone()]);
                    (end, before) = (range.end, Some(token));
                }
                Err(error) if error.detail() == Some("unexpected character") => {
                    let blank = |text: &str| text.len() - text.trim_ascii_start().len();
                    return self.no_token(end + blank(&source[end..]));
                }
                Err(error) => return self.syntax_error(&error),
            }
        }
        Some(())
    }

    /// What stands there is no part of the language.
    fn no_token(&mut self, at: usize) -> Option<()> {
        let rest = &self.source()[at..];
        match SPELLINGS.iter().find(|(foreign, _)| rest.starts_with(foreign)) {
            Some((foreign, help)) => {
                let message = format!("`{foreign}` is no operator of the language");
                self.report("SE0201", at..at + foreign.len(), message).help = Some((*help).to_owned());
            }
            None => {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                self.report("SE0201", at..at + length, "unexpected character");
            }
        }
        None
    }
}

/// How the first `{{` of a text ends.
pub(super) enum Closing {
    /// Where `}}` begins and ends.
    At(usize, usize),
    /// Nowhere; with the bracket that is open at the end of the text, if there is one.
    Missing(Option<Range<usize>>),
    /// Something before is no token.
    Broken,
}

/// Finds the `}}` that closes a text's first `{{`: not one in a string or of a map.
pub(super) fn closing(text: &str) -> Closing {
    let mut open: Vec<Range<usize>> = Vec::new();
    for token in tokens(text, false) {
        let Ok((token, range)) = token else { return Closing::Broken };
        let opened = match token {
            Token::VariableEnd => return Closing::At(range.start, range.end),
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                open.push(range);
                continue;
            }
            Token::ParenClose => "(",
            Token::BracketClose => "[",
            Token::BraceClose => "{",
            _ => continue,
        };
        // A `}` that closes nothing is half of the `}}` that a bracket keeps from being read.
        open.pop_if(|bracket| &text[bracket.clone()] == opened);
    }
    Closing::Missing(open.pop())
}

/// The tokens of a text with their ranges, up to the end or to something that is none.
pub(super) fn tokens(
    text: &str,
    in_expression: bool,
) -> impl Iterator<Item = Result<(Token<'_>, Range<usize>), minijinja::Error>> {
    let mut tokenizer = Tokenizer::new(text, "", in_expression, source::syntax());
    std::iter::from_fn(move || tokenizer.next_token().transpose())
        .map(|read| read.map(|(token, span)| (token, span.start_offset as usize..span.end_offset as usize)))
}
