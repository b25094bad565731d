//! Pages that are written by this test: their content, and that the files have it.

use std::env;
use std::fs;

use super::{cli, fields, read, readable, reference, root};

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
    if env::var_os(UPDATE).is_some() {
        pages.iter().for_each(|(path, content)| fs::write(root().join(path), content).expect("a file"));
    }
    let stale = pages.iter().filter(|(path, content)| read(path) != *content);
    let stale: Vec<_> = stale.map(|(path, _)| path).collect();
    assert!(stale.is_empty(), "run: {UPDATE}=1 cargo test --test verbs documentation\nnot fresh: {stale:?}");
}
