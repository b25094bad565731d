//! What authors are shown of a mapping with several targets.

use std::fs;

use insta::assert_snapshot;

use super::{directory, read, said, shown_in};

const MAPPING: &str = r#"apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: databases}
spec:
  source: {provider: edge, resource: databases.v1.example.dev}
  targets:
    forEach: ${{ source.spec.regions }}
    as: region
    key: ${{ region.name }}
    cluster: "{{ region.name }}"
    allowed: [east, west]
  objects:
    - id: db
      template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: "${{ region.size }}"}}
      ready: ${{ objects.db.status.up }}
  status:
    fields:
      ready: {value: "${{ targets | items | selectattr('1.ready') | length }}"}
---
apiVersion: sync-engine.dev/v1alpha1
kind: ClusterProvider
metadata: {name: edge}
spec: {kubeconfig: {connection: edge}}
"#;

const SOURCE: &str = "\
apiVersion: example.dev/v1
kind: Database
metadata: {name: a, namespace: default}
spec: {regions: [{name: east, size: 1}, {name: west, size: 2}]}
";

const TEST: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: MappingTest
metadata: {name: regions}
spec:
  mapping: databases
  cases:
    - name: one in each region
      source: source.yaml
      expect:
        objects.db.spec.size: 1
        targets.west.objects.db.spec.size: 2
        targets.west.cluster: west
        targets.north: null
      expectStatus: {ready: 2}
      observed:
        - {apiVersion: example.dev/v1, kind: Cluster, status: {up: true}}
      golden: all.yaml
    - name: in none
      source: {apiVersion: example.dev/v1, kind: Database, metadata: {name: a, namespace: default}, spec: {regions: []}}
      expect: {targets: null, objects: {}}
      expectStatus: {ready: 0}
";

#[test]
fn an_object_appears_on_each_target_in_its_own_step() {
    let (head, _) = MAPPING.split_once("    - id: db\n").expect("its object");
    let objects = r#"    - id: settings
      when: ${{ region.size > 1 }}
      template: {apiVersion: v1, kind: ConfigMap}
    - id: db
      template: {apiVersion: example.dev/v1, kind: Cluster, spec: {of: "${{ objects.settings.metadata.name if region.size > 1 else 'a' }}"}}
"#;
    let provider = MAPPING.split_once("---\n").expect("the provider").1;
    let mapping = format!("{head}{objects}---\n{provider}");
    let root = directory(&[("maps/a.yaml", &mapping), ("source.yaml", SOURCE)]);
    let shown = said(&root, ["render ROOT/maps -f ROOT/source.yaml --no-marks --steps"]);
    let heads: Vec<_> = shown.lines().filter(|line| line.starts_with("# ") || line.starts_with("kind: ")).collect();
    let (east, west) = ("# step: 1, # target: east, kind: Cluster", "# step: 1, # target: west, kind: ConfigMap");
    assert_eq!(heads.join(", "), format!("{east}, {west}, # step: 2, # target: west, kind: Cluster"), "{shown}");
}

#[test]
fn each_target_is_shown_and_tested() {
    let files = [("maps/a.yaml", MAPPING), ("maps/a.test.yaml", TEST), ("maps/source.yaml", SOURCE)];
    let root = directory(&files);
    assert_snapshot!("update", shown_in(&root, &["test", "ROOT/maps", "--update"]));
    assert_snapshot!("golden", read(root.path().join("maps/all.yaml")));
    let render = "render ROOT/maps -f ROOT/maps/source.yaml --no-marks -o table";
    assert_snapshot!("render-table", said(&root, [render]));

    fs::write(root.path().join("maps/a.test.yaml"), TEST.replace("db.spec.size: 2", "db.spec.size: 3"))
        .expect("written");
    assert_snapshot!("test", shown_in(&root, &["test", "ROOT/maps"]));

    let root =
        directory(&[files[0], ("new/a.yaml", &MAPPING.replace("region.size }}", "region.size * 2 }}")), files[2]]);
    assert_snapshot!("diff", shown_in(&root, &["diff", "ROOT/maps", "ROOT/new", "-f", "ROOT/maps/source.yaml"]));
}
