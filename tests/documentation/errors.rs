//! A page for each code, and their index: what `sync-engine explain` says, with what `validate` prints.

use std::collections::BTreeMap;
use std::fmt::Write;

use sync_engine::mapping::diagnostic::{CODES, Code};

use super::generated::notice;
use super::root;

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

/// The pages by their paths.
pub fn pages() -> BTreeMap<String, String> {
    let pages = CODES.iter().map(|code| (format!("docs/errors/{}.md", code.code), page(code)));
    pages.chain([("docs/errors/README.md".to_owned(), index())]).collect()
}

fn page(code: &Code) -> String {
    let mut page = notice("src/mapping/diagnostic/codes");
    let title = code.title.trim_end_matches('.');
    let _ = write!(page, "\n# {}: {title}\n\n{} {}\n", code.code, weight(code), code.explanation);
    section(&mut page, "For example", "yaml", code.example);
    if let Some(said) = said(code) {
        section(&mut page, "What `validate` says", "text", &said);
    }
    section(&mut page, "Put right", "yaml", code.fix);
    let _ =
        write!(page, "\nThe same on the command line: `sync-engine explain {}`. [All codes](README.md)\n", code.code);
    page
}

fn weight(code: &Code) -> &'static str {
    match code.severity.to_string().as_str() {
        "error" => "An error: the document does not run; one that ran before keeps its last good version.",
        _ => "A warning: the document runs.",
    }
}

fn section(page: &mut String, title: &str, language: &str, text: &str) {
    if !text.is_empty() {
        let _ = write!(page, "\n## {title}\n\n```{language}\n{}\n```\n", text.trim_end());
    }
}

/// The reviewed text of the example's findings; `None` where the example is in words alone.
fn said(code: &Code) -> Option<String> {
    let snapshot = std::fs::read_to_string(root().join(format!("tests/ui/codes/{}.snap", code.code))).ok()?;
    let (_, text) = snapshot.strip_prefix("---\n")?.split_once("\n---\n")?;
    Some(text.to_owned())
}

fn index() -> String {
    let mut page = notice("src/mapping/diagnostic/codes");
    page.push_str(
        "\n# Error codes\n\nWhat `sync-engine validate` and the engine find wrong in a directory of mappings. Codes are stable: one that \
         is given up is never given to something else. Everything that is wrong is found at once; a document with an error \
         does not run, and its neighbours do.\n",
    );
    for (prefix, title) in PHASES {
        let codes: Vec<_> = CODES.iter().filter(|code| code.code.starts_with(prefix)).collect();
        assert!(!codes.is_empty(), "{prefix} has codes");
        let _ = write!(page, "\n## {title}\n\n| code | | |\n|---|---|---|\n");
        for code in codes {
            let _ = writeln!(page, "| [{0}]({0}.md) | {1} | {2} |", code.code, code.severity, code.title);
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
