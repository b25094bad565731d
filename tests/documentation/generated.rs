//! Pages that are written by this test: their content, and that the files have it.

use std::collections::BTreeMap;
use std::env;
use std::fs;

use super::{cli, errors, fields, readable, root};

/// Says to write the pages instead of comparing them.
const UPDATE: &str = "UPDATE_DOCS";

/// Stands on every generated page.
pub fn notice(from: &str) -> String {
    format!("<!-- Generated from {from}: {UPDATE}=1 cargo test --test documentation -->\n")
}

#[test]
fn generated_pages_are_fresh() {
    let mut pages = errors::pages();
    pages.insert("docs/fields.md".to_owned(), fields::page());
    pages.insert("docs/cli.md".to_owned(), cli::page());
    pages.insert("docs/language.md".to_owned(), readable::page());
    let update = env::var_os(UPDATE).is_some();
    let stale: Vec<_> = pages.iter().filter(|(path, content)| !is_fresh(path, content, update)).collect();
    let stale: Vec<_> = stale.into_iter().map(|(path, _)| path).chain(&superfluous(&pages, update)).cloned().collect();
    assert!(stale.is_empty(), "run: {UPDATE}=1 cargo test --test documentation\nnot fresh: {stale:?}");
}

fn is_fresh(path: &str, content: &str, update: bool) -> bool {
    let file = root().join(path);
    if update {
        fs::create_dir_all(file.parent().expect("it stands in a folder")).expect("a folder");
        fs::write(&file, content).expect("a file");
    }
    fs::read_to_string(file).is_ok_and(|found| found == content)
}

/// Pages of codes that there are no more.
fn superfluous(pages: &BTreeMap<String, String>, update: bool) -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/errors")).expect("the pages");
    let names = entries.map(|entry| format!("docs/errors/{}", entry.expect("an entry").file_name().to_string_lossy()));
    let left: Vec<_> = names.filter(|path| !pages.contains_key(path)).collect();
    if update {
        left.iter().for_each(|path| fs::remove_file(root().join(path)).expect("a file"));
        return Vec::new();
    }
    left
}
