//! `sync-engine rbac`: that it is enough is shown on real servers, by tests/e2e/scenarios/rights.rs.

use insta::assert_snapshot;

use super::{GOOD, broken, directory, run, said, shown, shown_in};

#[test]
fn it_prints_what_to_apply_where() {
    assert_snapshot!("table", shown(&["rbac", "-o", "table"]));
    assert_snapshot!("provider", shown(&["rbac", "--for", "provider", "--subject", "group:engines"]));
    let target = shown(&["rbac", "--for", "target", "--state-namespace", "notes"]);
    // The table has the rules of the ClusterRole, in this order.
    let (roles, others): (Vec<_>, Vec<_>) =
        target.split("---\n").partition(|one| one.contains("\nkind: ClusterRole\n"));
    assert!(roles.concat().contains("  - notes\n"), "the namespace of the state store can be read: {roles:?}");
    assert_snapshot!("target", others.join("---\n"));
    let output = run(&["rbac", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kinds: Vec<_> = list["items"].as_array().expect("a list").iter().map(|item| item["kind"].clone()).collect();
    let [roles, own] = [["ClusterRole", "ClusterRoleBinding"], ["Role", "RoleBinding"]];
    assert_eq!(kinds, [&["Namespace"][..], &roles, &own, &roles, &["APIExport"]].concat());
}

#[test]
fn leader_election_takes_leases_at_home() {
    let flags = ["rbac", "--leader-elect", "lease", "--for", "target", "-o", "table"];
    let leases = |table: String| table.lines().find(|line| line.contains("leases")).map(str::to_owned);
    let row = leases(shown(&flags)).expect("a rule for Leases");
    let words: Vec<&str> = row.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    let rule =
        ["target target, namespace sync-engine", "leases.coordination.k8s.io", "get,create,update", "leader election"];
    assert_eq!(words, rule);
    let row = leases(shown(&[&flags[..], &["--home", "hub"]].concat())).expect("a rule for Leases");
    assert!(row.starts_with("target hub,"), "{row}");
    assert_eq!(leases(shown(&["rbac", "-o", "table"])), None);
}

#[test]
fn the_chart_gets_what_its_cluster_is_asked_as_a_source_and_as_a_hub() {
    let values = shown(&["rbac", "examples/fleet", "-o", "values"]);
    assert!(values.contains("- offers/status\n") && values.contains("namespace: fleet\n"), "{values}");
    assert!(!values.contains("kind: Namespace\n"), "it would be deleted with the release: {values}");
}

#[test]
fn roles_of_several_clusters_are_not_for_one() {
    let shown = shown(&["rbac", "examples/fleet", "--for", "target"]);
    assert!(shown.contains("stderr:\nthese are roles of one name for 2 places: "), "{shown}");
}

#[test]
fn what_travels_along_takes_a_claim() {
    let related = "  related:
    - {id: passwords, direction: ToTarget, resource: secrets.v1, from: {name: passwords}}
    - {id: ca, direction: ToSource, resource: configmaps.v1, from: {name: ca}}
  objects:";
    let root = directory(&[("maps/a.yaml", &GOOD.replace("  objects:", related))]);
    assert_snapshot!("claims", shown_in(&root, &["rbac", "ROOT/maps", "--for", "claims"]));
    let table = shown_in(&root, &["rbac", "ROOT/maps", "--for", "target", "-o", "table"]);
    assert!(table.contains("secrets ") && table.contains("related passwords"), "{table}");
}

#[test]
fn what_the_export_publishes_takes_no_claim() {
    let object = |id: &str, version: &str, kind: &str| {
        format!("    - id: {id}\n      template: {{apiVersion: {version}, kind: {kind}}}\n")
    };
    let objects =
        [("copy", "example.dev/v1", "Database"), ("gadget", "example.dev/v1", "Gadget"), ("map", "v1", "ConfigMap")];
    let objects: String = objects.map(|(id, version, kind)| object(id, version, kind)).concat();
    let before = GOOD.split("  objects:").next().expect("a source");
    let mapping = format!("{before}  target: {{cluster: source}}\n  objects:\n{objects}");
    let export = |name: &str| {
        format!(
            "apiVersion: apis.kcp.io/v1alpha2\nkind: APIExport\nmetadata: {{name: {name}}}\nspec:\n  resources:\n    \
             - {{group: example.dev, name: gadgets, schema: v1.gadgets.example.dev, storage: {{crd: {{}}}}}}\n"
        )
    };
    let (own, other) = (export("databases"), export("other"));
    let root = directory(&[("maps/a.yaml", &mapping), ("own/a.yaml", &own), ("other/a.yaml", &other)]);
    let claimed = |schemas: &[&str]| {
        let shown = shown_in(&root, &[&["rbac", "ROOT/maps", "--for", "claims", "-o", "table"], schemas].concat());
        let claims = shown.lines().filter_map(|line| line.strip_prefix("claim databases")?.split_whitespace().next());
        claims.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(claimed(&[]), ["gadgets.example.dev", "configmaps"]);
    assert_eq!(claimed(&["--schemas", "ROOT/other"]), ["gadgets.example.dev", "configmaps"]);
    assert_eq!(claimed(&["--schemas", "ROOT/own"]), ["configmaps"]);
}

#[test]
fn it_says_what_it_guesses_and_what_it_does_not_understand() {
    let root = directory(&[("maps/a.yaml", GOOD), ("none/a.yaml", "a: 1"), ("bad/a.yaml", &broken())]);
    assert_snapshot!("values", said(&root, ["rbac ROOT/maps -o values"]));
    let lines = ["rbac ROOT/maps --subject me", "rbac ROOT/missing", "rbac ROOT/none"];
    assert_snapshot!(said(&root, lines), @"
    exit 2
    stderr:
    error: invalid value 'me' for '--subject <SUBJECT>': write user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME

    For more information, try '--help'.
    exit 3
    stderr:
    error: cannot read `ROOT/missing`: it does not exist
    exit 3
    stderr:
    error: there is no mapping in `ROOT/none`
    ");
    let bad = said(&root, ["rbac ROOT/bad"]);
    assert!(bad.contains("error: not every mapping in `ROOT/bad` can be used\n\nerror[SE0301]"), "{bad}");
    assert!(bad.starts_with("exit 3\n") && bad.contains("error[SE0101]"), "{bad}");
}
