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
    error("SE0130", "a schema document that cannot be one"),
    error("SE0131", "a schema that stands one level too deep"),
    error("SE0190", "a part of the language that does not run yet"),
    error("SE0191", "a `$` key of a template that means nothing, or a key that is not a text"),
    // Expressions
    error("SE0201", "an expression that cannot be read"),
    error("SE0202", "a filter that does not exist"),
    error("SE0203", "a function that does not exist"),
    error("SE0204", "a test that does not exist"),
    error("SE0205", "a call with the wrong arguments"),
    error("SE0206", "a part of Jinja that the language does not have"),
    error("SE0207", "`${{ }}` with text around it"),
    error("SE0208", "an expression or text that is too long"),
    error("SE0209", "something else where an expression or a text is expected"),
    error("SE0210", "a JSONPath that cannot be read"),
    error("SE0211", "a key of a template that holds an expression"),
    error("SE0212", "a regular expression that cannot be one"),
    // Names
    error("SE0301", "a name that does not exist"),
    error("SE0302", "a variable that the mapping does not have, or not yet"),
    error("SE0303", "an object that the mapping does not have, in an expression"),
    error("SE0304", "a part of an object that the engine's own writes change"),
    error("SE0305", "a related object that the mapping does not have"),
    error("SE0306", "a root that cannot be read at this place"),
    error("SE0307", "a field that a root does not have"),
    error("SE0310", "an object that the mapping does not have, in a field"),
    // Types of what is read
    error("SE0401", "a field that the consumer's schema does not have"),
    error("SE0402", "an optional field that nothing stands in for"),
    error("SE0403", "a comparison with what a value can never be"),
    error("SE0404", "a field that the downstream object does not have"),
    // Types of what is written
    error("SE0501", "a field that the target's schema does not have"),
    error("SE0502", "a value of another type than the target's field"),
    error("SE0503", "a field that the target's schema requires"),
    error("SE0504", "a value that the target's schema does not take"),
    // Types of what flows back
    error("SE0601", "a field that the consumer's status does not have"),
    error("SE0602", "a value that does not fit the consumer's status"),
    error("SE0603", "a status field that is required, and that nothing writes"),
    error("SE0604", "conditions that the consumer's schema has no place for"),
    error("SE0605", "an observedGeneration that the consumer's schema has no place for"),
    error("SE0606", "a path that the downstream object does not have"),
    error("SE0607", "a path that can match several values"),
    error("SE0608", "an API without a status subresource"),
    // Safety
    error("SE0701", "two mappings writing one status field of one resource"),
    error("SE0702", "a placement where two sources can meet"),
    warning("SE0703", "a consumer's text that reaches a namespace or a kind"),
    error("SE0704", "a consumer's text that reaches RBAC"),
    warning("SE0705", "a pod template that a consumer can fill"),
    error("SE0706", "a kind that is cluster-scoped"),
];

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
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut named);
        let registered: BTreeSet<String> = CODES.iter().map(|code| code.code.to_owned()).collect();
        assert_eq!(named, registered);
    }

    fn collect(directory: &Path, named: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("the sources are there") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                collect(&path, named);
            } else if !path.ends_with("diagnostic/codes.rs") {
                let text = std::fs::read_to_string(&path).expect("readable");
                let quoted = text.match_indices("\"SE0").filter_map(|(at, _)| text.get(at + 1..at + 7));
                named.extend(
                    quoted.filter(|code| code[2..].bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned),
                );
            }
        }
    }
}
