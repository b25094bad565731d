//! A text that a pattern matches.

use std::iter::Peekable;
use std::str::Chars;

use regex::Regex;

/// What people would write, tried before anything is made up.
const USUAL: [&str; 18] = [
    "example",
    "1",
    "10",
    "1Gi",
    "1h",
    "1h0m0s",
    "100m",
    "1.0.0",
    "v1.0.0",
    "example.com",
    "https://example.com",
    "/example",
    "example/example",
    "0 0 * * *",
    "2026-01-01T00:00:00Z",
    "10.0.0.0/24",
    "10.0.0.1",
    "EXAMPLE",
];

/// A text of an allowed length that matches; `None` where none is found.
pub fn matching(pattern: &str, allows: impl Fn(&str) -> bool) -> Option<String> {
    let compiled = Regex::new(pattern).ok()?;
    let fits = |text: &str| allows(text) && compiled.is_match(text);
    let usual = USUAL.iter().find(|text| fits(text)).map(|text| (*text).to_owned());
    // The shortest one, and longer ones for patterns with a lower limit of length beside them.
    usual.or_else(|| (0..=32).find_map(|more| made_up(pattern, more).filter(|text| fits(text))))
}

/// Walks along the pattern and takes the first way everywhere, each repetition `more` times above its least.
fn made_up(pattern: &str, more: usize) -> Option<String> {
    let mut walk = Walk { rest: pattern.chars().peekable(), more };
    let text = walk.alternatives()?;
    walk.rest.next().is_none().then_some(text)
}

struct Walk<'p> {
    rest: Peekable<Chars<'p>>,
    more: usize,
}

impl Walk<'_> {
    /// The first of the alternatives, up to the end or a `)`.
    fn alternatives(&mut self) -> Option<String> {
        let first = self.sequence()?;
        while self.rest.next_if_eq(&'|').is_some() {
            self.sequence()?;
        }
        Some(first)
    }

    fn sequence(&mut self) -> Option<String> {
        let mut text = String::new();
        while let Some(next) = self.rest.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            let atom = self.atom()?;
            let times = self.times()?;
            text.push_str(&atom.repeat(times));
        }
        Some(text)
    }

    fn atom(&mut self) -> Option<String> {
        Some(match self.rest.next()? {
            '^' | '$' => String::new(),
            '.' => "x".to_owned(),
            '(' => self.group()?,
            '[' => self.class()?.to_string(),
            '\\' => escaped(self.rest.next()?),
            literal => literal.to_string(),
        })
    }

    fn group(&mut self) -> Option<String> {
        if self.rest.next_if_eq(&'?').is_some() {
            // `?:`, flags as in `?i:`, a name as in `?P<name>`.
            while self.rest.next_if(|next| !matches!(next, ':' | '>' | ')')).is_some() {}
            self.rest.next_if(|next| matches!(next, ':' | '>'));
        }
        let text = self.alternatives()?;
        self.rest.next_if_eq(&')').map(|_| text)
    }

    /// A member of a class: of one that excludes, something else.
    fn class(&mut self) -> Option<char> {
        let excludes = self.rest.next_if_eq(&'^').is_some();
        let mut members = Vec::new();
        loop {
            match self.rest.next()? {
                ']' if !members.is_empty() => break,
                '[' if self.rest.peek() == Some(&':') => members.push(self.posix()?),
                '\\' => members.push(escaped(self.rest.next()?).chars().next()?),
                // Between two members it says that all between them are; the first of them is enough.
                '-' if !members.is_empty() && self.rest.peek() != Some(&']') => {
                    let end = self.rest.next()?;
                    members.extend((end == '\\').then(|| self.rest.next()).flatten());
                }
                member => members.push(member),
            }
        }
        let others = ('a'..='z').chain('0'..='9');
        match excludes {
            false => members.first().copied(),
            true => others.into_iter().find(|other| !members.contains(other)),
        }
    }

    /// `[:alpha:]`
    fn posix(&mut self) -> Option<char> {
        let name: String = std::iter::from_fn(|| self.rest.next_if(|next| *next != ']')).collect();
        self.rest.next()?;
        Some(match name.trim_matches(':') {
            "digit" | "xdigit" => '1',
            "upper" => 'A',
            "space" => ' ',
            "punct" => '.',
            _ => 'a',
        })
    }

    /// How often what was just read is repeated.
    fn times(&mut self) -> Option<usize> {
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => return self.counted(),
            _ => return Some(1),
        };
        self.rest.next();
        self.rest.next_if_eq(&'?');
        Some((least + self.more).min(most))
    }

    /// `{2}`, `{2,}`, `{2,5}`
    fn counted(&mut self) -> Option<usize> {
        self.rest.next();
        let text: String = std::iter::from_fn(|| self.rest.next_if(|next| *next != '}')).collect();
        self.rest.next()?;
        self.rest.next_if_eq(&'?');
        let (least, most) = text.split_once(',').unwrap_or((&text, &text));
        let least: usize = least.trim().parse().ok()?;
        let most = if most.trim().is_empty() { usize::MAX } else { most.trim().parse().ok()? };
        Some((least + self.more).min(most))
    }
}

fn escaped(character: char) -> String {
    match character {
        'd' => "1".to_owned(),
        'w' | 'D' | 'S' => "a".to_owned(),
        's' | 'W' => " ".to_owned(),
        'b' | 'A' | 'z' => String::new(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        literal => literal.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_texts_for_the_patterns_of_real_apis() {
        for (pattern, expected) in [
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "example"),
            (r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?))?$", "1"),
            (r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$", "1h"),
            (r"^\d{4}-\d{2}$", "1111-11"),
            (r"^(arn|urn):[a-f]{3,}_[^:]x?$", "arn:aaa_a"),
            (r"^[[:upper:]]{2}\.[\w.-]+@x$", "AA.a@x"),
        ] {
            assert_eq!(matching(pattern, |_| true).as_deref(), Some(expected), "{pattern}");
        }
    }

    #[test]
    fn a_length_makes_longer_ones() {
        let text = matching("^[a-f]+$", |text| text.len() >= 12);
        assert_eq!(text.as_deref(), Some("aaaaaaaaaaaa"));
        assert_eq!(matching("^[a-f]{2}$", |text| text.len() > 5), None);
        assert_eq!(matching("(", |_| true), None);
    }
}
