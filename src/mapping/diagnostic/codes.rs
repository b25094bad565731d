//! The registry of codes: stable, and each explained.

use super::Severity;

/// A code and what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub code: &'static str,
    pub severity: Severity,
    /// One line.
    pub title: &'static str,
}

const fn error(code: &'static str, title: &'static str) -> Code {
    Code { code, severity: Severity::Error, title }
}

const fn warning(code: &'static str, title: &'static str) -> Code {
    Code { code, severity: Severity::Warning, title }
}

/// All codes, in order.
pub const CODES: &[Code] = &[
    // YAML
    error("SE0001", "the text is not YAML"),
    error("SE0002", "a key stands twice in a mapping"),
    error("SE0003", "the merge key `<<`"),
    error("SE0004", "a tag other than `!!str`"),
    error("SE0005", "a key that is not a text"),
    error("SE0006", "a document too deep or, through aliases, too large"),
    error("SE0007", "a file that is not UTF-8"),
    error("SE0008", "an expression cut off by a comment"),
    error("SE0009", "a number that JSON cannot hold, or that readers of YAML do not agree about"),
    error("SE0010", "a file too large to be read"),
    error("SE0011", "a file that cannot be read"),
    warning("SE0012", "an empty file where mappings stood"),
    // Document
    error("SE0101", "a field that does not exist"),
    error("SE0102", "a value of another type than the field takes"),
    error("SE0103", "a field that must be there"),
    error("SE0104", "a choice of none, several or an unknown one"),
    error("SE0105", "a document of an unknown kind or version"),
    error("SE0110", "a name or id of another form than required"),
    error("SE0111", "an id, name or object that stands twice"),
    error("SE0112", "a resource that is not `plural.version.group`"),
    error("SE0113", "what a template must not say about an object's identity"),
    error("SE0114", "fields that contradict each other"),
    error("SE0115", "a path into the consumer's status that cannot be one"),
    error("SE0116", "a selector or filter that can match nothing"),
    error("SE0117", "two rules for one place of the status"),
    error("SE0118", "a JSON pointer that cannot be one"),
    error("SE0120", "a ClusterProvider that no document defines"),
    error("SE0121", "a name that another document has already"),
    error("SE0190", "a part of the language that does not run yet"),
    // Expressions
    error("SE0210", "a JSONPath that cannot be read"),
    // Names
    error("SE0310", "an object that the mapping does not have"),
    // Safety
    error("SE0701", "two mappings writing one status field of one resource"),
];

/// What a code stands for.
pub fn code(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|known| known.code == code)
}

/// Whether a finding of this code keeps its document from running.
pub fn is_error(text: &str) -> bool {
    code(text).is_none_or(|code| code.severity == Severity::Error)
}
