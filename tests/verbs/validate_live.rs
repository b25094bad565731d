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

/// A Gadget beside each Widget.
const GADGETS: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: gadgets}
spec:
  source: {apiExport: {name: widgets, path: root:widgets}, resource: widgets.v1.example.dev}
  target: {cluster: workspace}
  objects:
    - id: gadget
      template: {apiVersion: example.dev/v1, kind: Gadget}
";

/// It makes the sandbox publish Gadgets too.
const MAPS: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: maps}
spec:
  source: {apiExport: {name: widgets, path: root:widgets}, resource: gadgets.v1.example.dev}
  objects:
    - id: map
      template: {apiVersion: v1, kind: ConfigMap}
";

const GIZMOS: &str = "\
apiVersion: apis.kcp.io/v1alpha2
kind: APIExport
metadata: {name: widgets}
spec:
  resources:
    - {group: example.dev, name: gizmos, schema: v1.gizmos.example.dev, storage: {crd: {}}}
";

fn api(kind: &str, plural: &str) -> String {
    format!(
        "\
apiVersion: apis.kcp.io/v1alpha1
kind: APIResourceSchema
metadata: {{name: v1.{plural}.example.dev}}
spec:
  group: example.dev
  names: {{kind: {kind}, listKind: {kind}List, plural: {plural}, singular: {kind}}}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {{status: {{}}}}
      schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"
    )
}

/// The live export is asked, whatever a file says of it.
#[test]
fn what_the_live_export_publishes_takes_no_claim() {
    let widget = "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: it, namespace: default}\n";
    let root = directory(&[
        ("story/mappings/gadgets.yaml", GADGETS),
        ("story/mappings/maps.yaml", MAPS),
        ("story/schemas/widgets.yaml", &api("Widget", "widgets")),
        ("story/schemas/gadgets.yaml", &api("Gadget", "gadgets")),
        ("story/examples/widget.yaml", widget),
        ("gadgets.yaml", GADGETS),
        ("gizmos.yaml", &GADGETS.replace("kind: Gadget", "kind: Gizmo")),
        ("schemas/export.yaml", GIZMOS),
    ]);
    let at = |path: &str| root.path().join(path).display().to_string();
    let live = Live::of(&at("story"), "2 of 2 orders are ready");
    let said = live.shown(&["validate", &at("gadgets.yaml"), "--live"]);
    assert!(said.ends_with("1 mapping in 1 file, nothing wrong\n"), "{said}");
    let said = live.shown(&["validate", &at("gizmos.yaml"), "--live", "--schemas", &at("schemas")]);
    let lacks = "the APIExport `widgets` does not claim get, list, watch, create, patch, delete of `gizmos`";
    assert!(said.contains("SE0805") && said.contains(lacks), "{said}");
}
