//! The registry of codes: stable, and each explained. Its text is the page of error codes, and the examples beside this file.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Severity;

/// A code and what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub code: &'static str,
    pub severity: Severity,
    /// One line.
    pub title: &'static str,
    /// Why it is wrong, in a sentence or two.
    pub explanation: &'static str,
    /// What brings it about: fields of a mapping's `spec`, or a whole document. A comment alone says it in words.
    pub example: &'static str,
    /// The same, put right.
    pub fix: &'static str,
}

/// A section for each code: its title, whether it is a warning, and its explanation.
const PAGE: &str = include_str!("../../../../docs/errors.md");

/// A section for each code: an example, and its fix.
const EXAMPLES: &str = include_str!("examples.txt");

/// All codes, in order.
pub static CODES: LazyLock<Vec<Code>> = LazyLock::new(|| {
    let examples: BTreeMap<_, _> = EXAMPLES.split("\n## ").filter_map(|section| section.split_once('\n')).collect();
    let read = |section: &'static str| {
        let (code, text) = section.split("\n##").next()?.split_once("\n\n")?;
        read(code, text, examples.get(code)?)
    };
    PAGE.split("\n### ").skip(1).filter_map(read).collect()
});

/// `**title** (warning). Explanation`; and an example, `=>`, its fix.
fn read(code: &'static str, text: &'static str, blocks: &'static str) -> Option<Code> {
    let (title, rest) = text.strip_prefix("**")?.split_once("**")?;
    let (marked, explanation) = rest.split_once(". ")?;
    let severity = if marked == " (warning)" { Severity::Warning } else { Severity::Error };
    let (example, fix) = blocks.split_once("=>\n")?;
    Some(Code { code, severity, title, explanation: explanation.trim(), example, fix })
}

/// What a code stands for.
pub fn code(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|known| known.code == code)
}

/// Whether a finding of this code keeps its document from running.
pub fn is_error(text: &str) -> bool {
    code(text).is_none_or(|code| code.severity == Severity::Error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// In order, and none is lost where its section cannot be read.
    #[test]
    fn every_section_is_a_code() {
        assert!(CODES.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert_eq!(CODES.len(), PAGE.matches("\n### ").count());
        assert_eq!(CODES.len(), EXAMPLES.matches("\n## ").count());
    }

    /// Every code that the sources name stands in the registry, and the other way round.
    #[test]
    fn the_registry_is_complete() {
        let mut named = BTreeSet::new();
        let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        ["src", "crates"].iter().for_each(|folder| collect(&repository.join(folder), &mut named));
        let registered: BTreeSet<String> = CODES.iter().map(|code| code.code.to_owned()).collect();
        assert_eq!(named, registered);
    }

    fn collect(directory: &Path, named: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("the sources are there") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                collect(&path, named);
            } else {
                let text = std::fs::read_to_string(&path).expect("readable");
                let quoted = text.match_indices("\"SE0").filter_map(|(at, _)| text.get(at + 1..at + 7));
                named.extend(
                    quoted.filter(|code| code[2..].bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned),
                );
            }
        }
    }
}
