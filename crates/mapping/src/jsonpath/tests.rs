use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "metadata": {"annotations": {"a.b/c": "yes", "plain": 1}},
        "status": {
            "phase": "Running", "my-key": 1, "null": null,
            "members": [{"host": "a", "ready": true, "n": 1}, {"host": "b", "ready": false, "n": 2}, {"host": "c", "n": 3}]
        }
    })
}

fn select(path: &str) -> Value {
    let object = object();
    let compiled = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    compiled.select(&object).into_iter().cloned().collect()
}

#[test]
fn selects() {
    let cases = [
        ("$.status.phase", json!(["Running"])),
        (".status.phase", json!(["Running"])),
        ("{.status.phase}", json!(["Running"])),
        (" {$.status.phase} ", json!(["Running"])),
        ("$['status'][\"phase\"]", json!(["Running"])),
        ("$.status.my-key", json!([1])),
        ("$.status.null", json!([null])),
        ("$.status.missing.deeper", json!([])),
        ("$.status.phase.deeper", json!([])),
        (r"{.metadata.annotations.a\.b/c}", json!(["yes"])),
        ("$.metadata.annotations['a.b/c']", json!(["yes"])),
        ("$.status.members[0].host", json!(["a"])),
        ("$.status.members[-1].host", json!(["c"])),
        ("$.status.members[-4].host", json!([])),
        ("$.status.members[9]", json!([])),
        ("$.status.members[*].host", json!(["a", "b", "c"])),
        ("$.metadata.annotations.*", json!(["yes", 1])),
        ("$.status.members[1:].host", json!(["b", "c"])),
        ("$.status.members[0,2].host", json!(["a", "c"])),
        ("$.status.members[?@.ready==true].host", json!(["a"])),
        ("$.status.members[?(@.host == 'b')].n", json!([2])),
        ("$.status.members[?@.n > 1 && length(@.host) == 1].host", json!(["b", "c"])),
        ("$..host", json!(["a", "b", "c"])),
        ("$.status..n", json!([1, 2, 3])),
        ("$..['host']", json!(["a", "b", "c"])),
        ("$.status.my-key[?@.x]", json!([])),
    ];
    for (path, expected) in cases {
        assert_eq!(select(path), expected, "{path}");
    }
    assert_eq!(select("$"), json!([object()]));
}

#[test]
fn knows_whether_one_value_is_all_it_can_match() {
    let singular = |path: &str| JsonPath::parse(path).is_ok_and(|path| path.is_singular());
    assert!(["$", "$.a.b", "$.a[0]", "$['a'][-1]"].into_iter().all(singular));
    assert!(!["$.a[*]", "$.*", "$..a", "$.a[0:1]", "$.a[0,1]", "$.a[?@.b]"].into_iter().any(singular));
}

#[test]
fn says_what_is_wrong_and_where() {
    let paths = [
        "",
        "status.phase",
        "$.",
        "$.a.",
        "$.a..",
        "$..a..b",
        "$.a[0",
        "$.a[",
        "$.a[]",
        "$.a[?]",
        "$.a[x]",
        "$.a b",
        "{.a",
        "$a",
        "$.a[?match(@.b, 'x')]",
        "$.a[?search(@.b, 'x')]",
        "$.a[?@..b]",
        "$.a[?$.b]",
        "$.ü['",
        "{range .items[*]}",
        "$.a['b",
        "$.a[?@.b == ]",
    ];
    let report: String = paths
        .iter()
        .map(|path| {
            let error = JsonPath::parse(path).expect_err("the path is wrong");
            let before = path[..error.range.start].chars().count();
            let width = path[error.range.clone()].chars().count().max(1);
            format!("{path}\n{}{} {}\n", " ".repeat(before), "^".repeat(width), error.message)
        })
        .collect();
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("jsonpath_errors", report);
    });
    assert!(JsonPath::parse(&".a".repeat(600)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_panics(path in "[$.a-c\\[\\]'\"?@()*:0-9 ,=ü{}\\\\-]{0,30}") {
        match JsonPath::parse(&path) {
            Ok(compiled) => {
                let object = object();
                let found = compiled.select(&object).len();
                prop_assert!(!compiled.is_singular() || found <= 1);
            }
            Err(error) => prop_assert!(path.get(error.range).is_some()),
        }
    }
}
