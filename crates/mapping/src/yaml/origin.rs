//! Where the decoded text of a scalar stands in the file.

use std::ops::Range;

/// How the decoded text of a scalar lies in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Origin {
    /// Byte for byte, from this offset on.
    Verbatim(usize),
    /// Run by run. The last character has one of its own.
    Aligned(Box<[Run]>),
    /// Somewhere in here.
    Whole(Range<usize>),
}

/// Text that stands in the file as it is, or one character that stands there in another way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    /// The byte of the text with which it begins.
    at: u32,
    /// Bytes of the file.
    start: u32,
    end: u32,
    is_verbatim: bool,
}

impl Run {
    /// The byte of the file where a byte of the text is, with which a character begins.
    fn start_of(&self, byte: usize) -> usize {
        let further = if self.is_verbatim { byte.saturating_sub(self.at as usize) } else { 0 };
        (self.start as usize + further).min(self.end as usize)
    }
}

/// How a scalar is written, as far as its characters are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Plain, literal and folded: characters stand for themselves.
    Unquoted,
    SingleQuoted,
    DoubleQuoted,
}

impl Origin {
    /// How `text` lies in `raw`, which starts at byte `offset` of the file.
    pub(super) fn of(text: &str, raw: &str, offset: usize, style: Style) -> Self {
        if text == raw {
            return Self::Verbatim(offset);
        }
        align(text, raw, offset, style).map_or(Self::Whole(offset..offset + raw.len()), Self::Aligned)
    }

    pub(super) fn locate(&self, range: Range<usize>) -> Range<usize> {
        match self {
            Self::Verbatim(start) => start + range.start..start + range.end,
            Self::Whole(whole) => whole.clone(),
            Self::Aligned(runs) => {
                let run = |byte: usize| runs.partition_point(|run| run.at as usize <= byte).checked_sub(1);
                let Some(first) = run(range.start).map(|at| runs[at]) else { return 0..0 };
                let is_last = runs.last() == Some(&first);
                let start = first.start_of(if is_last { first.at as usize } else { range.start });
                let end = match range.end.checked_sub(1).filter(|_| range.end > range.start).and_then(run) {
                    // The end of what stands there as it is, or of the one character.
                    Some(at) if runs[at].is_verbatim => runs[at].start_of(range.end),
                    Some(at) => runs[at].end as usize,
                    None => start,
                };
                start..end.max(start)
            }
        }
    }
}

/// Matches the non-blank characters of `text` and `raw` one by one; folding, indentation and line breaks move blanks
/// only. `None` where the two do not match after all.
fn align(text: &str, raw: &str, offset: usize, style: Style) -> Option<Box<[Run]>> {
    let rest = if style == Style::Unquoted { raw } else { raw.get(1..)? };
    let mut source = Characters { raw, rest, style };
    let mut runs: Vec<Run> = Vec::new();
    for (at, character) in text.char_indices() {
        let place = if is_blank(character) { source.here() } else { source.next_visible(character)? };
        let (is_verbatim, is_last) = (place.len() == character.len_utf8(), at + character.len_utf8() == text.len());
        let (start, end) = (u32::try_from(offset + place.start).ok()?, u32::try_from(offset + place.end).ok()?);
        match runs.last_mut() {
            Some(run) if run.is_verbatim && is_verbatim && run.end == start && !is_last => run.end = end,
            _ => runs.push(Run { at: u32::try_from(at).ok()?, start, end, is_verbatim }),
        }
    }
    Some(runs.into())
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// The characters of a scalar as they stand in the file.
struct Characters<'a> {
    raw: &'a str,
    rest: &'a str,
    style: Style,
}

impl Characters<'_> {
    fn position(&self) -> usize {
        self.raw.len() - self.rest.len()
    }

    /// The place of a blank: the next character, whatever it is.
    fn here(&self) -> Range<usize> {
        let start = self.position();
        start..start + self.rest.chars().next().map_or(0, char::len_utf8)
    }

    /// Steps over the next non-blank character, which must be `expected`.
    fn next_visible(&mut self, expected: char) -> Option<Range<usize>> {
        loop {
            let start = self.position();
            let (character, length) = self.decode()?;
            self.rest = &self.rest[length..];
            match character {
                Some(character) if is_blank(character) => {}
                Some(character) => return (character == expected).then_some(start..start + length),
                None => {}
            }
        }
    }

    /// The next character after escapes, and the bytes it takes; `None` inside for an escaped line break.
    fn decode(&self) -> Option<(Option<char>, usize)> {
        let first = self.rest.chars().next()?;
        if self.style == Style::SingleQuoted && self.rest.starts_with("''") {
            return Some((Some('\''), 2));
        }
        if self.style != Style::DoubleQuoted || first != '\\' {
            return Some((Some(first), first.len_utf8()));
        }
        let escape = self.rest[1..].chars().next()?;
        let hexadecimal = |digits: usize| {
            let code = u32::from_str_radix(self.rest.get(2..2 + digits)?, 16).ok()?;
            Some((Some(char::from_u32(code)?), 2 + digits))
        };
        let character = match escape {
            'x' => return hexadecimal(2),
            'u' => return hexadecimal(4),
            'U' => return hexadecimal(8),
            '\n' | '\r' => return Some((None, 2)),
            'n' => '\n',
            't' | '\t' => '\t',
            'r' => '\r',
            '0' => '\0',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'e' => '\u{1b}',
            'N' => '\u{85}',
            '_' => '\u{a0}',
            'L' => '\u{2028}',
            'P' => '\u{2029}',
            other => other,
        };
        Some((Some(character), 1 + escape.len_utf8()))
    }
}
