//! The page for operators names every series, and the rights that are computed.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use sync_engine::server::Metrics;

use super::{read, root};

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
fn the_rights_on_the_page_are_those_that_are_computed() {
    let page = read(PAGE);
    let (_, rest) = page.split_once("-o table\n```\n\n```text\n").expect("the table");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sync-engine"));
    command.env_clear().current_dir(root()).args(["rbac", "mappings", "--schemas", "schemas", "-o", "table"]);
    let output = command.stdin(Stdio::null()).output().expect("the binary starts");
    let computed = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(rest.split("```").next().expect("its end")), lines(&computed));
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
