//! The table of kinds of trouble: each is brought about by a test, shown to an operator, and explained; and an alert fires, or the
//! table says why none does.

use std::collections::BTreeSet;

use serde_json::Value;
use sync_engine::plan::Cause;
use sync_engine::yaml;

use super::read;
use crate::run;

/// Beside the reasons of `Synced`.
const OTHERS: [&str; 9] = [
    "a missing right",
    "a missing claim",
    "a dead endpoint",
    "a hung server",
    "a clock that is off",
    "a credential that ends",
    "an edit that is held",
    "an edit that is refused",
    "a leader that is gone",
];

/// One row.
struct Trouble {
    name: String,
    row: Value,
}

impl Trouble {
    fn text(&self, field: &str) -> Option<&str> {
        self.row[field].as_str()
    }

    /// The text of the test that brings it about, which names what is shown.
    fn case(&self) {
        let case = self.text("case").unwrap_or_default();
        let (file, name) = case.split_once("::").unwrap_or_else(|| panic!("{}: {case}", self.name));
        let text = read(format!("tests/{file}"));
        assert!(text.contains(&format!("fn {name}(")), "{}: no test {case}", self.name);
        let shows = self.text("shows").unwrap_or_default();
        if shows.strip_prefix("none, for ").is_some_and(|why| !why.is_empty()) {
            return;
        }
        assert!(!read(format!("tests/{shows}")).is_empty());
        let snapshot = shows.trim_end_matches(".snap").trim_end_matches("-kube");
        let word = snapshot.rsplit(['-', '_']).next().unwrap_or_default();
        assert!(text.contains(word), "{}: {file} compares nothing with {shows}", self.name);
    }

    /// An alert fires in a test of its own.
    fn alert(&self) {
        let (rules, tests) = (read("deploy/chart/files/alerts.yaml"), read("deploy/chart/tests/alerts.yaml"));
        match (self.text("alert"), self.text("quiet")) {
            (Some(alert), None) => {
                assert!(rules.contains(&format!("- alert: {alert}\n")), "{}: there is no {alert}", self.name);
                let name = format!("alertname: {alert}\n");
                let named = tests.split(&name).skip(1);
                let mut expected = named.filter_map(|rest| rest.split("exp_alerts:").nth(1));
                assert!(
                    expected.any(|rest| rest.trim_start().starts_with("- exp_labels")),
                    "{}: {alert} never fires",
                    self.name
                );
            }
            (None, Some(why)) => assert!(why.len() > 20, "{}: {why}", self.name),
            _ => panic!("{}: give an alert, or why there is none", self.name),
        }
    }

    fn is_explained(&self) {
        let word = self.text("explain").or(self.text("alert")).unwrap_or(&self.name);
        let output = run(&["explain", word]);
        assert!(output.status.success(), "{}: {word}", self.name);
        // What it means, and what to do.
        assert!(String::from_utf8_lossy(&output.stdout).lines().count() > 2, "{}: {word}", self.name);
    }
}

#[test]
fn each_trouble_is_brought_about_shown_and_explained() {
    let table =
        yaml::parse_one(&read("tests/troubles.yaml")).and_then(|document| document.root).expect("YAML").to_json();
    let rows = table.as_array().expect("a list").iter();
    let troubles: Vec<Trouble> = rows
        .map(|row| Trouble { name: row["trouble"].as_str().expect("a name").to_owned(), row: row.clone() })
        .collect();
    let known: BTreeSet<&str> = Cause::ALL.into_iter().map(Cause::as_str).chain(OTHERS).collect();
    let named: BTreeSet<&str> = troubles.iter().map(|trouble| trouble.name.as_str()).collect();
    assert_eq!(named, known);
    assert_eq!(troubles.len(), named.len(), "each stands once");
    for trouble in &troubles {
        trouble.case();
        trouble.alert();
        trouble.is_explained();
    }
}
