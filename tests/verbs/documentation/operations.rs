//! The page for operators names series that exist, and the rights that are computed.

use super::{read, root};
use crate::program;

const PAGE: &str = "docs/operations.md";

/// [Reference](../../docs/reference.md) has the table of series.
#[test]
fn alerts_name_series_that_exist() {
    let (page, reference) = (read(PAGE), read("docs/reference.md"));
    let is_name = |character: char| character.is_ascii_lowercase() || character == '_';
    let words = page.split(|character| !is_name(character)).filter(|word| word.starts_with("sync_engine_"));
    let named: Vec<_> = words.collect();
    assert!(named.len() > 4, "{named:?}");
    let unknown: Vec<_> = named.iter().filter(|name| !reference.contains(&format!("| `{name}"))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_rights_on_the_page_are_those_that_are_computed() {
    let page = read(PAGE);
    let (_, rest) = page.split_once("-o table\n```\n\n```text\n").expect("the table");
    let output = program::output(root(), &["rbac", "mappings", "-o", "table"]);
    let computed = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(rest.split("```").next().expect("its end")), lines(&computed));
}
