//! The page for operators names series that exist.

use super::read;

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
