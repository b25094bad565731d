//! The page of filters, functions and tests names all of them, with their arguments, and its examples hold.

use serde_json::Value;
use sync_engine::mapping::expression::signatures;

use super::read;
use crate::program;

const PAGE: &str = "docs/functions.md";

/// An example of the page, and what it gives; `None`: it fails.
struct Example {
    expression: String,
    gives: Option<Value>,
}

#[test]
fn the_page_has_every_signature_and_no_other() {
    let page = read(PAGE);
    for (role, title) in [("filter", "## Filters"), ("function", "## Functions"), ("test", "## Tests")] {
        let (_, section) = page.split_once(&format!("\n{title}\n")).expect("the section");
        let section = section.split("\n## ").next().expect("its text");
        let mut written: Vec<&str> = section.lines().flat_map(signatures_of).collect();
        written.sort_unstable();
        let known = signatures().into_iter().filter(|one| one.role == role).map(|one| one.text);
        let mut known: Vec<String> = known.collect();
        known.sort_unstable();
        assert_eq!(written, known, "{title} of {PAGE}");
    }
}

/// `- **`first`**, **`second`** …`
fn signatures_of(line: &str) -> Vec<&str> {
    match line.strip_prefix("- ") {
        Some(item) => item.split("**`").skip(1).filter_map(|rest| rest.split("`**").next()).collect(),
        None => Vec::new(),
    }
}

#[test]
fn every_example_of_the_page_holds() {
    let examples = examples(&read(PAGE));
    assert!(examples.len() > signatures().len(), "every name has an example: {}", examples.len());
    let (good, failing): (Vec<_>, Vec<_>) = examples.into_iter().partition(|example| example.gives.is_some());
    let rendered = render(&good).unwrap_or_else(|error| panic!("{error}"));
    for (index, example) in good.iter().enumerate() {
        assert_eq!(Some(&rendered[format!("e{index}")]), example.gives.as_ref(), "${{{{{}}}}}", example.expression);
    }
    assert!(failing.len() >= 3);
    for example in failing {
        let expression = example.expression.clone();
        render(&[example]).expect_err(&expression);
    }
}

/// Every `${{ … }}` that the page says something of.
fn examples(page: &str) -> Vec<Example> {
    let page = page.replace("\n  ", " ");
    let parts = page.split("`${{").skip(1).filter_map(|rest| rest.split_once("}}`"));
    parts
        .filter_map(|(expression, rest)| Some(Example { expression: expression.to_owned(), gives: given(rest)? }))
        .collect()
}

/// What stands behind an example: `Some(None)` where it fails, `None` where it is none.
fn given(rest: &str) -> Option<Option<Value>> {
    if rest.starts_with(" fails") {
        return Some(None);
    }
    let value = rest.strip_prefix(" gives `")?.split('`').next()?;
    Some(Some(serde_json::from_str(value).unwrap_or_else(|error| panic!("{value}: {error}"))))
}

/// Renders expressions as a mapping would; gives their values.
fn render(examples: &[Example]) -> Result<Value, String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let page = read(PAGE);
    let (_, source) = page.split_once("<!-- file: source.yaml -->\n```yaml\n").expect("the object of the page");
    std::fs::write(folder.path().join("source.yaml"), source.split("```").next().expect("its text")).expect("a file");
    let fields = examples.iter().enumerate().map(|(index, example)| {
        format!("          e{index}: {}\n", Value::from(format!("${{{{{}}}}}", example.expression)))
    });
    let mapping = format!(
        "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {{name: examples}}\nspec:\n  source: {{apiExport: {{name: \
         examples}}, resource: databases.v1.example.dev}}\n  objects:\n    - id: db\n      template:\n        apiVersion: \
         example.dev/v1\n        kind: Cluster\n        spec:\n{}",
        fields.collect::<String>()
    );
    std::fs::write(folder.path().join("mapping.yaml"), mapping).expect("a file");
    let arguments = ["render", "mapping.yaml", "-f", "source.yaml", "--no-marks", "-o", "json"];
    let output = program::output(folder.path(), &arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let rendered: Option<Value> = serde_json::from_str(&stdout).ok();
    match rendered.as_ref().and_then(|rendered| spec(rendered)) {
        Some(spec) if output.status.success() => Ok(spec.clone()),
        _ => Err(format!("{stdout}{stderr}")),
    }
}

/// The spec of the one object, alone or in a list.
fn spec(rendered: &Value) -> Option<&Value> {
    let object = rendered.get("items").and_then(|items| items.get(0)).or(rendered.get(0)).unwrap_or(rendered);
    object.get("spec")
}
