//! The registry of codes: stable, and each explained.

mod document;
mod expressions;
mod live;
mod safety;
mod types;
mod yaml;

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

const fn error(
    code: &'static str,
    title: &'static str,
    explanation: &'static str,
    example: &'static str,
    fix: &'static str,
) -> Code {
    Code { code, severity: Severity::Error, title, explanation, example, fix }
}

const fn warning(
    code: &'static str,
    title: &'static str,
    explanation: &'static str,
    example: &'static str,
    fix: &'static str,
) -> Code {
    Code { severity: Severity::Warning, ..error(code, title, explanation, example, fix) }
}

/// The registry by phase of the load.
const PHASES: [&[Code]; 6] =
    [yaml::YAML, document::DOCUMENT, expressions::EXPRESSIONS, types::TYPES, safety::SAFETY, live::LIVE];

/// All codes, in order.
pub static CODES: LazyLock<Vec<Code>> = LazyLock::new(|| PHASES.concat());

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

    #[test]
    fn codes_are_in_order_and_unique() {
        assert!(CODES.windows(2).all(|pair| pair[0].code < pair[1].code));
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
            } else if !path.to_string_lossy().contains("diagnostic/codes") {
                let text = std::fs::read_to_string(&path).expect("readable");
                let quoted = text.match_indices("\"SE0").filter_map(|(at, _)| text.get(at + 1..at + 7));
                named.extend(
                    quoted.filter(|code| code[2..].bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned),
                );
            }
        }
    }
}
