//! What tests reach of a mapping, and their results for programs.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use super::{GOOD, TEST, broken, directory, run, shown_in, tested};

/// The good mapping with more to decide.
fn deciding() -> String {
    let (head, rest) = GOOD.split_once("      template:").expect("a template");
    let (_, status) = rest.split_once("  status:").expect("a status");
    let head = head.replace("    resource:", "    when: ${{ source.spec.size < 9 }}\n    resource:");
    format!("{head}{TEMPLATE}  status:{status}")
}

const TEMPLATE: &str = r#"      template:
        apiVersion: example.dev/v1
        kind: Cluster
        metadata:
          name: "{% if source.spec.named is defined %}{{ source.spec.named }}{% else %}db{% endif %}"
        spec:
          size: ${{ source.spec.size }}
          plan: ${{ source.spec.plan | default("free" if source.spec.size < 2 else "paid") }}
"#;

const CASES: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: MappingTest
metadata: {name: sizes}
spec:
  mapping: databases
  cases:
    - name: has the size that was asked for
      source: source.yaml
      expect: {objects.db.spec.size: 3}
";

/// Each of the rest is reached by one more case.
const MORE: &str = r"    - name: a plan and a name
      source: {apiVersion: example.dev/v1, kind: Database, metadata: {name: a, labels: {tier: managed}}, spec: {size: 1, plan: gold, named: my}}
      expect: {objects.db.metadata.name: my, objects.db.spec.plan: gold}
    - name: small ones are free
      source: {apiVersion: example.dev/v1, kind: Database, metadata: {name: a, labels: {tier: managed}}, spec: {size: 1}}
      expect: {objects.db.spec.plan: free}
    - name: large ones are not for this mapping
      source: {apiVersion: example.dev/v1, kind: Database, metadata: {name: a, labels: {tier: managed}}, spec: {size: 9}}
      leftAlone: true
";

#[test]
fn what_no_test_reaches_is_shown_where_it_stands() {
    let root = tested(&deciding(), CASES, &[]);
    assert_snapshot!(shown_in(&root, &["test", "ROOT/maps"]), @r#"
    exit 0
    sizes (ROOT/maps/a.test.yaml)
      ok    has the size that was asked for

    mapping databases: 6 of 10 expressions and branches tested (60 %)

    note: no test makes this condition false
     --> ROOT/maps/a.yaml:7:15
      |
    7 |     when: ${{ source.spec.size < 9 }}
      |               ^^^^^^^^^^^^^^^^^^^^

    note: no test makes this condition true
      --> ROOT/maps/a.yaml:16:24
       |
    16 |           name: "{% if source.spec.named is defined %}{{ source.spec.named }}{% else %}db{% endif %}"
       |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    note: no test evaluates this expression
      --> ROOT/maps/a.yaml:16:58
       |
    16 |           name: "{% if source.spec.named is defined %}{{ source.spec.named }}{% else %}db{% endif %}"
       |                                                          ^^^^^^^^^^^^^^^^^

    note: no test takes this branch
      --> ROOT/maps/a.yaml:19:48
       |
    19 |           plan: ${{ source.spec.plan | default("free" if source.spec.size < 2 else "paid") }}
       |                                                ^^^^^^

    1 case passed, 0 failed
    stderr:
    an engine would refuse these mappings for 1 error: `sync-engine validate` shows what is wrong
    "#);
    // What fails is to be mended first.
    fs::write(root.path().join("maps/a.test.yaml"), CASES.replace("source.yaml", "sources.yaml")).expect("a file");
    let failing = shown_in(&root, &["test", "ROOT/maps"]);
    assert!(failing.contains("0 of 10 expressions") && !failing.contains("note: "), "{failing}");
    fs::write(root.path().join("maps/a.test.yaml"), CASES).expect("a file");
    let least = |percent: &str| shown_in(&root, &["test", "ROOT/maps", "--min-coverage", percent]);
    assert!(least("60").starts_with("exit 0\n"), "{}", least("60"));
    let short = least("61");
    assert_snapshot!(format!("{}\n{}", short.lines().next().unwrap_or_default(), short.lines().find(|line| line.contains(" passed, ")).unwrap_or_default()), @r"
    exit 1
    1 case passed, 0 failed; less than 61 % of mapping databases is tested
    ");
    fs::write(root.path().join("maps/a.test.yaml"), format!("{CASES}{MORE}")).expect("a file");
    let whole = least("100");
    assert!(whole.starts_with("exit 0\n") && whole.contains("\n4 cases passed, 0 failed\n"), "{whole}");
    assert!(whole.contains("10 of 10 expressions and branches tested (100 %)") && !whole.contains("note: "), "{whole}");
}

#[test]
fn results_are_for_programs_too() {
    let last = MORE.find("    - name: large").expect("the last case");
    let test = format!("{CASES}      golden: golden.yaml\n{}", &MORE[last..]).replace("size: 3}\n", "size: 4}\n");
    let golden = "apiVersion: example.dev/v1\nkind: Cluster\nspec:\n  size: 2\n";
    let root = tested(&deciding(), &test, &[("maps/golden.yaml", golden)]);
    assert_snapshot!("test-yaml", shown_in(&root, &["test", "ROOT/maps", "-o", "yaml"]));
    assert_snapshot!(shown_in(&root, &["test", "ROOT/maps", "-o", "table"]), @r"
    exit 1
    RESULT   TEST    CASE                                  FILE
    failed   sizes   has the size that was asked for       ROOT/maps/a.test.yaml
    passed   sizes   large ones are not for this mapping   ROOT/maps/a.test.yaml

    MAPPING     TESTED   PERCENT   FILE
    databases   7/10     70%       ROOT/maps/a.yaml
    stderr:
    an engine would refuse these mappings for 1 error: `sync-engine validate` shows what is wrong
    ");
}

#[test]
fn mappings_that_cannot_be_used_are_for_programs_too() {
    let root = directory(&[("maps/a.yaml", &broken()), ("maps/a.test.yaml", TEST)]);
    let output = run(&["test", &root.path().join("maps").display().to_string(), "-o", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert_eq!(results["diagnostics"][0]["code"], "SE0301", "{results:#}");
}

#[test]
fn a_source_that_must_be_left_alone_is() {
    let (head, _) = CASES.split_once("      expect:").expect("what it expects");
    let test = format!("{head}      leftAlone: true\n{MORE}      expect: {{objects.db: null}}\n");
    let root = tested(&deciding(), &test, &[]);
    let shown = shown_in(&root, &["test", "ROOT/maps"]);
    let cases: Vec<_> = shown.lines().take_while(|line| !line.is_empty()).collect();
    assert_snapshot!(cases.join("\n"), @r"
    exit 1
    sizes (ROOT/maps/a.test.yaml)
      FAIL  has the size that was asked for
            the mapping's filter lets the source in
      ok    a plan and a name
      ok    small ones are free
      FAIL  large ones are not for this mapping
            leftAlone: nothing else can be expected of a source that is left alone
    ");
}
