//! The page for operators names every series, flag and exit code.

use std::collections::BTreeSet;

use sync_engine::server::Metrics;

use super::read;

const PAGE: &str = "docs/operations.md";

#[test]
fn every_series_is_on_the_page_and_no_other() {
    let page = read(PAGE);
    let mut names: Vec<String> = registered().into_iter().collect();
    assert!(names.len() > 18, "{names:?}");
    let (_, section) = page.split_once("\n## Metrics\n").expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next());
    let mut written: Vec<String> = rows.map(bare).collect();
    written.sort();
    names.sort();
    assert_eq!(written, names, "{PAGE} and the registry");
}

#[test]
fn every_flag_of_the_engine_is_on_the_page() {
    let page = read(PAGE);
    let arguments = read("src/cli/arguments.rs");
    let variables = arguments.split("env = \"SYNC_ENGINE_").skip(1).filter_map(|rest| rest.split('"').next());
    for flag in variables.map(|name| format!("`--{} ", name.to_lowercase().replace('_', "-"))) {
        assert!(page.contains(&flag), "{PAGE} lacks {flag}…`");
    }
}

/// Names of all series. A series without a value yet is not encoded, so the registrations are read as well.
fn registered() -> BTreeSet<String> {
    let encoded = Metrics::new().encode().expect("a text");
    let types = encoded.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).map(bare);
    let source = read("src/server/metrics.rs").replace(char::is_whitespace, "");
    let (source, _) = source.split_once("modtests").expect("its tests");
    let added = source.split("names.add(\"").skip(1).filter_map(|rest| rest.split('"').next());
    types.chain(added.map(|name| format!("sync_engine_{name}"))).collect()
}

/// A name without what its type puts behind it.
fn bare(name: &str) -> String {
    name.trim_end_matches("_total").trim_end_matches("_info").to_owned()
}
