//! YAML on the pages is of the language: whole documents validate as they stand, and fragments as parts of one.

use std::collections::BTreeSet;
use std::fs;

use super::read;
use crate::program;

/// Pages, and how many blocks each has at least.
const PAGES: [(&str, usize); 5] = [
    ("README.md", 1),
    ("docs/language.md", 3),
    ("docs/from-a-controller.md", 2),
    ("docs/providers.md", 8),
    ("docs/patterns.md", 3),
];

/// The texts of a page's code blocks of a language.
pub fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn yaml_on_the_pages_is_of_the_language() {
    for (name, least) in PAGES {
        let page = read(name);
        let blocks = blocks(&page, "yaml");
        assert!(blocks.len() >= least, "{name}");
        for block in blocks {
            let whole = block.starts_with("apiVersion:");
            let mut document = if whole { block.to_owned() } else { framed(block) };
            joined(block).chain(named(block)).for_each(|name| document.push_str(&provider(name)));
            let said = validate(&document);
            assert_eq!(said, None, "{name}:\n{block}");
        }
    }
}

/// The names of the providers that another joins.
fn joined(block: &str) -> impl Iterator<Item = &str> {
    let names = block.split_once("multi: [").and_then(|(_, rest)| rest.split_once(']'));
    names.into_iter().flat_map(|(names, _)| names.split(", "))
}

/// The names of the providers whose clusters a fragment has its sources on, or names as targets.
fn named(block: &str) -> BTreeSet<&str> {
    let names = block.split("provider: ").skip(1).filter_map(|rest| rest.split([',', '}', '\n']).next());
    names.chain(block.split("cluster: \"").skip(1).filter_map(|rest| Some(rest.split_once("/{{")?.0))).collect()
}

fn provider(name: &str) -> String {
    let kind = "apiVersion: sync-engine.dev/v1alpha1\nkind: ClusterProvider";
    format!("---\n{kind}\nmetadata: {{name: {name}}}\nspec: {{none: {{}}}}\n")
}

/// What `validate` finds wrong.
fn validate(document: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("mapping.yaml"), document).expect("a file");
    let output = program::output(folder.path(), &["validate", "mapping.yaml"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (!said.contains("nothing wrong")).then_some(said)
}

/// A fragment with what a mapping must have besides.
fn framed(fragment: &str) -> String {
    let mut document =
        "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {name: databases}\nspec:\n".to_owned();
    let has = |field: &str| fragment.lines().any(|line| line.starts_with(field));
    let template = "template: {apiVersion: db.example.org/v1, kind: Cluster}";
    let mut parts = fragment.to_owned();
    if !has("source:") {
        parts.push_str("source: {apiExport: {name: databases}, resource: databases.v1.example.dev}\n");
    }
    if !has("objects:") {
        parts.push_str(&format!("objects: [{{id: db, {template}}}]\n"));
    } else if !fragment.contains("template:") {
        parts = parts.replace("  - id: db\n", &format!("  - id: db\n    {template}\n"));
    }
    document.extend(parts.lines().map(|line| format!("  {line}\n")));
    document
}
