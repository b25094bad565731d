//! `sync-engine schema pull`: what it copies is enough for the checks.

use insta::assert_snapshot;

use super::live::Live;
use super::shown_in;

#[test]
fn what_is_pulled_is_what_mappings_are_checked_against() {
    let live = Live::mongodb();
    let root = tempfile::tempdir().expect("a temporary directory");
    let schemas = root.path().join("schemas").display().to_string();
    let said = live.shown(&["schema", "pull", "mappings", "--schemas", &schemas]).replace(&schemas, "SCHEMAS");
    assert!(said.contains("wrote SCHEMAS/kcp/v1.mongodbcommunity.mongodbcommunity.mongodb.com.yaml\n"), "{said}");
    assert!(said.contains("wrote SCHEMAS/target/mongodbcommunity.mongodbcommunity.mongodb.com.yaml\n"), "{said}");
    let checked = shown_in(&root, &["validate", "mappings", "--schemas", "ROOT/schemas"]);
    assert_eq!(checked, "exit 0\n1 mapping in 1 file, nothing wrong\n");
    let trap = ["validate", "tests/ui/checks/status.yaml", "--schemas", "ROOT/schemas", "-o", "github"];
    assert!(!shown_in(&root, &trap).contains("SE0130"), "the copies are schemas");
}

#[test]
fn what_is_not_to_be_had_is_said() {
    let live = Live::mongodb();
    let root = tempfile::tempdir().expect("a temporary directory");
    let shipped = std::fs::read_to_string("mappings/mongodb.yaml").expect("the shipped mapping");
    let path = root.path().join("mongodb.yaml");
    let pull = |text: String| {
        std::fs::write(&path, text).expect("a file");
        let (path, schemas) = (path.display().to_string(), root.path().join("schemas").display().to_string());
        let said = live.shown(&["schema", "pull", &path, "--schemas", &schemas]);
        let said = said.replace(&root.path().display().to_string(), "ROOT");
        let lines = said.lines().filter(|line| !line.contains("openapi."));
        // The port is another each time.
        lines.map(|line| line.split(" in http").next().unwrap_or(line).to_owned() + "\n").collect::<String>()
    };
    let unknown = shipped.replacen("kind: MongoDBCommunity", "kind: Postgres", 1);
    let said = pull(unknown.replacen("apiVersion: mongodbcommunity.mongodb.com/v1", "apiVersion: postgres.dev/v1", 1));
    assert!(said.starts_with("exit 1\n"), "{said}");
    assert!(said.contains("not found: target `target`: Postgres (postgres.dev/v1) is not served there"), "{said}");
    assert_snapshot!(pull(shipped.replace("{name: mongodb, path", "{name: other, path")), @"
    exit 3
    stderr:
    error: mapping `mongodb`: there is no APIExport `other`
    ");
}
