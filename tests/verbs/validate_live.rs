//! `sync-engine validate --live`: what clusters lack. What takes users and their rights is shown on real servers, by
//! tests/e2e/scenarios/rights.rs.

use std::fs;

use insta::assert_snapshot;

use super::live::Live;
use super::{ROOT, directory};

#[test]
fn what_the_clusters_lack_is_said_with_its_place() {
    let live = Live::mongodb();
    assert_eq!(live.shown(&["validate", "mappings", "--live"]), "exit 0\n1 mapping in 1 file, nothing wrong\n");
    let shipped = fs::read_to_string(format!("{ROOT}/mappings/mongodb.yaml")).expect("the shipped mapping");
    let said = |old: &str, new: &str| {
        let changed = shipped.replacen(old, new, 1);
        assert_ne!(changed, shipped, "{old}");
        let root = directory(&[("mongodb.yaml", &changed)]);
        let path = root.path().display().to_string();
        // Ports are others each time.
        let port = regex::Regex::new(r"127\.0\.0\.1:\d+").expect("a pattern");
        port.replace_all(&live.shown(&["validate", &path, "--live"]).replace(&path, "ROOT"), "ADDRESS").into_owned()
    };
    assert_snapshot!("SE0801", said("  objects:\n", "  target: {cluster: edge}\n\n  objects:\n"));
    assert_snapshot!("SE0802", said("{name: mongodb, path", "{name: other, path"));
    assert_snapshot!("SE0803", said("path: root:mongodb}", "path: root:mongodb, endpointSlice: other}"));
    assert_snapshot!("SE0804", said("mongodbcommunity.v1.", "mongodbcommunity.v2."));
    let related =
        "  related:\n    - {id: account, direction: ToTarget, resource: serviceaccounts.v1, from: {name: account}}\n";
    assert_snapshot!("SE0805", said("  related:\n", related));
    assert_snapshot!("SE0807", said("kind: MongoDBCommunity", "kind: MongoDB"));
    let wrong = "spec:\n          $merge:\n            - ${{ source.spec }}\n            - {members: many}";
    assert_snapshot!("SE0808", said("spec: ${{ source.spec }}", wrong));
}
