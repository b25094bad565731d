//! Pages that are written by this test: their content, and that the files have it.

use std::env;
use std::fs;

use super::{cli, fields, readable, reference, root};

/// Says to write the pages instead of comparing them.
const UPDATE: &str = "UPDATE_DOCS";

/// Stands on every generated page.
pub fn notice(from: &str) -> String {
    format!("<!-- Generated from {from}: {UPDATE}=1 cargo test --test verbs documentation -->\n")
}

#[test]
fn generated_pages_are_fresh() {
    let pages = [
        ("docs/fields.md", fields::page()),
        ("docs/toy-operators.md", fields::toy_operators()),
        ("docs/cli.md", cli::page()),
        ("docs/reference.md", reference::page()),
        ("docs/language.md", readable::page()),
    ];
    let update = env::var_os(UPDATE).is_some();
    let stale: Vec<_> = pages.iter().filter(|(path, content)| !is_fresh(path, content, update)).collect();
    let stale: Vec<_> = stale.into_iter().map(|(path, _)| path).collect();
    assert!(stale.is_empty(), "run: {UPDATE}=1 cargo test --test verbs documentation\nnot fresh: {stale:?}");
}

fn is_fresh(path: &str, content: &str, update: bool) -> bool {
    let file = root().join(path);
    if update {
        fs::write(&file, content).expect("a file");
    }
    fs::read_to_string(file).is_ok_and(|found| found == content)
}
