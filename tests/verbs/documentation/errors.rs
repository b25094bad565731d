//! The page of error codes.

use std::fmt::Write;

use sync_engine::mapping::diagnostic::{CODES, Code, Severity};

use super::generated::notice;

/// What the phases of the load find, by the first digits of their codes.
const PHASES: [(&str, &str); 9] = [
    ("SE00", "YAML"),
    ("SE01", "The document"),
    ("SE02", "Expressions"),
    ("SE03", "Names"),
    ("SE04", "What is read"),
    ("SE05", "What is written"),
    ("SE06", "Status"),
    ("SE07", "What a consumer must not decide"),
    ("SE08", "What live clusters lack"),
];

/// The page: each code with what it means. `sync-engine explain` has the examples.
pub fn page() -> String {
    let mut page = notice("crates/mapping/src/diagnostic/codes");
    page.push_str(
        "\n# Error codes\n\nThese are the codes of `sync-engine validate`, `doctor` and the engine. They are stable. A document with an error does not run; if it \
         ran before, its last good version keeps running. A warning does not keep a document from running.\n\n`sync-engine explain CODE` \
         prints an example of each code and how to correct it.\n",
    );
    for (prefix, title) in PHASES {
        let codes: Vec<_> = CODES.iter().filter(|code| code.code.starts_with(prefix)).collect();
        assert!(!codes.is_empty(), "{prefix} has codes");
        let _ = writeln!(page, "\n## {title}");
        for Code { code, title, severity, explanation, .. } in codes {
            let severity = if *severity == Severity::Error { "" } else { " (warning)" };
            let _ = write!(page, "\n### {code}\n\n**{title}**{severity}. {explanation}\n");
        }
    }
    page
}

#[test]
fn every_code_belongs_to_a_phase() {
    let strays: Vec<_> =
        CODES.iter().filter(|code| !PHASES.iter().any(|(prefix, _)| code.code.starts_with(prefix))).collect();
    assert!(strays.is_empty(), "give these a place in the index: {strays:?}");
}
