//! The page for operators, the chart and the runbook name what there is.

use super::{files, read, root};
use crate::program;

/// [Reference](../../docs/reference.md) has the table of series.
#[test]
fn the_page_the_alerts_and_the_panels_name_series_that_exist() {
    let reference = read("docs/reference.md");
    let is_name = |character: char| character.is_ascii_lowercase() || character == '_';
    for (file, least) in
        [("docs/operations.md", 1), ("deploy/chart/files/alerts.yaml", 9), ("deploy/chart/files/dashboard.json", 9)]
    {
        let text = read(file);
        let words = text.split(|character| !is_name(character));
        let named: Vec<_> = words.filter(|word| word.starts_with("sync_engine_")).collect();
        assert!(named.len() >= least, "{file}: {named:?}");
        let row = |name: &str| format!("| `{}", name.trim_end_matches("_bucket"));
        let unknown: Vec<_> = named.iter().filter(|name| !reference.contains(&row(name))).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

/// Engines of one Prometheus may have mappings and connections of one name.
#[test]
fn alerts_count_replicas_together_and_engines_apart() {
    let alerts = read("deploy/chart/files/alerts.yaml");
    let kept: Vec<&str> = alerts.split(" by (").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(kept.len() > 10, "{kept:?}");
    let merged = |labels: &&str| !labels.split(", ").any(|label| ["job", "instance"].contains(&label));
    assert_eq!(kept.into_iter().filter(merged).collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Whoever searches the page for a message finds it.
#[test]
fn what_the_page_quotes_is_what_the_engine_says() {
    let page = read("docs/operations.md");
    let (_, section) = page.split_once("## When something is stuck\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the section after it");
    let symptoms = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let quoted: Vec<&str> = symptoms.flat_map(|symptom| symptom.split('"').skip(1).step_by(2)).collect();
    assert!(quoted.len() > 6, "{quoted:?}");
    let code: String = ["src", "crates"].into_iter().flat_map(|folder| files(folder, "rs")).map(read).collect();
    // A figure stands for what differs.
    let parts = quoted.iter().flat_map(|message| message.split('…')).map(str::trim);
    let unknown: Vec<&str> = parts.filter(|part| !code.contains(part)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// A variable that the program does not know would be ignored in silence.
#[test]
fn the_chart_gives_variables_that_the_program_reads() {
    let output = program::output(root(), &["run", "--help"]);
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let template = read("deploy/chart/templates/deployment.yaml");
    let names = template.split("{name: ").skip(1).filter_map(|rest| rest.split([',', '}']).next());
    let names: Vec<&str> = names.filter(|name| name.starts_with("SYNC_ENGINE_")).collect();
    assert!(names.len() > 10, "{names:?}");
    let unknown: Vec<_> = names.iter().filter(|name| !help.contains(&format!("[env: {name}="))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn each_alert_has_its_section_in_the_runbook() {
    let (alerts, runbook) = (read("deploy/chart/files/alerts.yaml"), read("docs/runbook.md"));
    let alerts: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let sections: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, alerts);
}
