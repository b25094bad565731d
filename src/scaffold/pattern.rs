//! A text that a pattern matches.

use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};

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

/// Takes the first way everywhere, each repetition `more` times above its least.
fn made_up(pattern: &str, more: usize) -> Option<String> {
    let mut text = String::new();
    write(&regex_syntax::parse(pattern).ok()?, more, &mut text);
    Some(text)
}

fn write(part: &Hir, more: usize, text: &mut String) {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.extend(member(class)),
        HirKind::Repetition(repetition) => {
            let times = (repetition.min as usize + more).min(repetition.max.map_or(usize::MAX, |most| most as usize));
            (0..times).for_each(|_| write(&repetition.sub, more, text));
        }
        HirKind::Capture(group) => write(&group.sub, more, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, more, text)),
        HirKind::Alternation(ways) => ways.iter().take(1).for_each(|way| write(way, more, text)),
    }
}

/// A member of a class, one that people would write if there is such.
fn member(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else { return None };
    let holds = |one: &char| class.iter().any(|range| (range.start()..=range.end()).contains(one));
    ['a', '1', 'A'].into_iter().find(holds).or_else(|| class.iter().next().map(|range| range.start()))
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
