//! `sync-engine render --provenance`.

use insta::assert_snapshot;

use super::{GOOD, SOURCE, directory, run, said, shown};

#[test]
fn every_field_says_where_it_came_from() {
    let source = "examples/mongodb/mongodb.yaml";
    assert_snapshot!("table", shown(&["render", "-f", source, "--provenance"]));
    let mapping = GOOD.replace(
        "spec: {size: '${{ source.spec.size }}'}}",
        "metadata: {labels: {of: '{{ source.metadata.name }}'}}, spec: {size: '${{ source.spec.size * 2 }}', plan: small}}",
    );
    let root = directory(&[("maps/a.yaml", &mapping), ("source.yaml", SOURCE)]);
    assert_snapshot!("yaml", said(&root, ["render ROOT/maps -f ROOT/source.yaml --provenance -o yaml"]));
    let output = run(&["render", "-f", source, "--provenance", "-o", "json"]);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let members = rows.as_array().expect("a list").iter().find(|row| row["field"] == "spec.members");
    assert_eq!(members.expect("the field")["reads"], serde_json::json!(["source.spec.members"]));
}
