//! Tables of cases over the whole way from text to value.

mod findings;
mod hostile;
mod properties;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

pub(super) fn node(text: &str) -> Arc<Node> {
    Arc::new(Node { span: 0..text.len(), value: NodeValue::String(Scalar::plain(text)) })
}

pub(super) fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Compiles with everything declared that the tests read.
pub(super) fn with_names<T>(run: impl FnOnce(&Names, &mut Vec<Finding>) -> T) -> (T, Vec<Finding>) {
    let (vars, objects, related) =
        (strings(&["members", "broken"]), strings(&["db", "later"]), strings(&["passwords"]));
    let locals = strings(&["user"]);
    let names = Names { vars: &vars, objects: &objects, related: &related, locals: &locals, roots: RootSet::TRANSFORM };
    let mut findings = Vec::new();
    (run(&names, &mut findings), findings)
}

pub(super) fn compile(expression: &str) -> Expression {
    let text = format!("${{{{ {expression} }}}}");
    let (compiled, findings) = with_names(|names, findings| Expression::compile(&node(&text), names, findings));
    compiled.unwrap_or_else(|| panic!("`{expression}` does not compile: {findings:#?}"))
}

pub(super) fn compile_text(text: &str) -> Text {
    let (compiled, findings) = with_names(|names, findings| Text::compile(&node(text), names, findings));
    compiled.unwrap_or_else(|| panic!("`{text}` does not compile: {findings:#?}"))
}

pub(super) fn scope() -> Scope {
    let mut scope = Scope::new();
    scope.set(
        Root::Source,
        Arc::new(json!({
            "metadata": {"name": "my-db", "namespace": "default", "resourceVersion": "7", "labels": {"a.b/c": "d"}},
            "spec": {
                "members": 3, "big": 9007199254740993_u64, "huge": 18446744073709551615_u64, "low": i64::MIN,
                "float": 1.0, "half": 2.5, "nothing": null, "yes": true, "no": false, "empty": {}, "none": [], "text": "Hello World",
                "users": [{"name": "bob", "roles": ["a", "b"]}, {"name": "Ada", "roles": []}],
                "numbers": [3, 1, 2], "words": ["b", "A", "a"], "keyed": {"z": 1, "a": {"deep": [1, null]}, "m": "x"},
                "evil": "${{ source.spec.secret }} {{ 1 }}"
            },
            "status": {"phase": "Running"}
        })),
    );
    scope.set(Root::Workspace, Arc::new(json!({"cluster": "abc", "path": "root:acme"})));
    scope.set(Root::Placement, Arc::new(json!({"namespace": "ns", "name": "my-db"})));
    scope.set(Root::Target, Arc::new(json!({"cluster": "target"})));
    scope.set(Root::Mapping, Arc::new(json!({"name": "mongodb"})));
    scope.set(Root::Value, Arc::new(json!("in ns")));
    scope.set_var("members", Ok(Evaluated::Value(json!(5))));
    scope.set_var("broken", Err(Unrendered::failed("no number")));
    scope.set_local("user", Arc::new(json!({"name": "bob"})));
    scope.set_object(
        "db",
        ObjectState::Present(Arc::new(json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}}))),
    );
    scope.set_object("later", ObjectState::Missing(crate::RelatedMissing::Wait));
    scope
}

pub(super) fn evaluate(expression: &str) -> Result<Evaluated, Unrendered> {
    compile(expression).evaluate(&scope())
}

#[track_caller]
fn gives(cases: &[(&str, Value)]) {
    for (expression, expected) in cases {
        let outcome = evaluate(expression);
        // Compared as text: `1` and `1.0` differ.
        let Ok(Evaluated::Value(value)) = &outcome else { panic!("`{expression}`: {outcome:?}") };
        assert_eq!(value.to_string(), expected.to_string(), "`{expression}`");
    }
}

#[track_caller]
fn prints(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(compile_text(text).render(&scope()).as_deref(), Ok(*expected), "`{text}`");
    }
}

#[test]
fn values_keep_what_json_tells_apart() {
    gives(&[
        ("source.spec.big", json!(9007199254740993_u64)),
        ("source.spec.huge", json!(18446744073709551615_u64)),
        ("source.spec.low", json!(i64::MIN)),
        ("source.spec.float", json!(1.0)),
        ("source.spec.nothing", json!(null)),
        ("source.spec.empty", json!({})),
        ("source.spec.none", json!([])),
        ("source.spec.keyed", json!({"z": 1, "a": {"deep": [1, null]}, "m": "x"})),
        ("source.spec.keyed | without('m')", json!({"z": 1, "a": {"deep": [1, null]}})),
        ("[source.spec.huge, source.spec.float, source.spec.nothing]", json!([18446744073709551615_u64, 1.0, null])),
        ("source.spec.huge if true else 0", json!(18446744073709551615_u64)),
        ("source.spec.missing | default(source.spec.huge)", json!(18446744073709551615_u64)),
        ("18446744073709551615", json!(18446744073709551615_u64)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1.0", json!(1.0)),
        ("none", json!(null)),
        ("null", json!(null)),
        ("source.spec.evil", json!("${{ source.spec.secret }} {{ 1 }}")),
    ]);
}

#[test]
fn the_source_is_read_without_what_our_writes_change() {
    gives(&[("source.metadata", json!({"name": "my-db", "namespace": "default", "labels": {"a.b/c": "d"}}))]);
    assert_eq!(evaluate("source['sta' ~ 'tus']"), Ok(Evaluated::Absent("source['sta' ~ 'tus']".to_owned())));
}

#[test]
fn paths() {
    gives(&[
        ("source.spec.users[1].name", json!("Ada")),
        ("source.spec.users[-1].name", json!("Ada")),
        ("source.spec.users.0.name", json!("bob")),
        ("source.metadata.labels['a.b/c']", json!("d")),
        ("source.spec[source.spec.no | string | replace('false', 'members')]", json!(3)),
        ("source.spec.users[source.spec.members - 3].name", json!("bob")),
        ("(source.spec.users | last).name", json!("Ada")),
        ("user.name", json!("bob")),
        ("vars.members", json!(5)),
        ("objects.db.status.phase", json!("Running")),
        ("value | replace(placement.namespace, source.metadata.namespace)", json!("in default")),
        ("workspace.path ~ '/' ~ target.cluster ~ '/' ~ mapping.name", json!("root:acme/target/mongodb")),
    ]);
}

/// Odd cases; the plain ones are the examples of docs/functions.md, which a test evaluates.
#[test]
fn operators() {
    gives(&[
        ("7 / 2", json!(3.5)),
        ("7 % 4", json!(3)),
        ("[7 // -2, -7 // 2, -7 // -2]", json!([-4, -4, 3])),
        ("[7 % -2, -7 % 2, -7 % -2]", json!([-1, 1, -1])),
        ("[7.5 // -2, 7.5 % -2, 1.0 // 0.1]", json!([-4.0, -0.5, 9.0])),
        ("1.5 + 1.5", json!(3.0)),
        ("-source.spec.members", json!(-3)),
        ("source.spec.huge - 1", json!(18446744073709551614_u64)),
        ("'a' ~ 1 ~ true ~ 1.0", json!("a1true1.0")),
        ("'a' + 'b'", json!("ab")),
        ("[1] + [2.0]", json!([1, 2.0])),
        ("1 == 1.0", json!(true)),
        ("source.spec.big == 9007199254740992.0", json!(false)),
        ("source.spec.big > 9007199254740992.0", json!(true)),
        ("1 == '1'", json!(false)),
        ("true == 1", json!(false)),
        ("{'a': 1, 'b': [2]} == {'b': [2.0], 'a': 1}", json!(true)),
        ("1 < 2 < 3", json!(true)),
        ("1 < 2 > 3", json!(false)),
        ("'a' < 'b'", json!(true)),
        ("'ell' in source.spec.text", json!(true)),
        ("1 in source.spec.numbers", json!(true)),
        ("'z' in source.spec.keyed", json!(true)),
        ("'q' not in source.spec.keyed", json!(true)),
        ("not source.spec.no and source.spec.yes", json!(true)),
        ("source.spec.none or 'fallback'", json!("fallback")),
        ("source.spec.numbers and 1", json!(1)),
        ("source.spec.numbers[:-1]", json!([3, 1])),
        ("'grüße'[2:4]", json!("üß")),
        ("source.spec.text[3:1]", json!("")),
    ]);
}

/// The same of calls.
#[test]
fn filters_and_functions() {
    gives(&[
        ("source.spec.missing.deeper | default(3)", json!(3)),
        ("source.spec.missing | default", json!("")),
        ("source.spec.nothing | default(3)", json!(null)),
        ("source.spec.nothing | default(3, true)", json!(3)),
        ("source.spec.nothing | default(3, lax=true)", json!(3)),
        ("'my-db-prod' | regex_replace('^(.*)-(db)', '$2-${1}')", json!("db-my-prod")),
        ("'aXbX' | regex_replace('(?i)x', '')", json!("ab")),
        ("'a1' | regex_replace('[0-9]', source.spec.evil)", json!("a${{ source.spec.secret }} {{ 1 }}")),
        ("'a1' | regex_replace('([0-9])', '$' ~ '1')", json!("a$1")),
        ("'500m' | quantity < 1", json!(true)),
        ("source.spec.members | quantity", json!(3)),
        ("('v6.0.5-rc.1' | semver).prerelease", json!("rc.1")),
        ("('6.0' | semver).minor", json!(0)),
        ("'6.0.5-rc.1' is semver('>=6.0.5')", json!(false)),
        ("['5.0.1', '6.2'] | select('semver', '>=6') | list", json!(["6.2"])),
        ("'a,b,c' | split(',', 1)", json!(["a", "b,c"])),
        ("' a  b ' | split", json!(["a", "b"])),
        ("source.spec.numbers | sort(reverse=true)", json!([3, 2, 1])),
        ("source.spec.words | sort", json!(["A", "a", "b"])),
        ("source.spec.words | sort(case_sensitive=true)", json!(["A", "a", "b"])),
        ("['b', 'a', 'B', 'A'] | sort(reverse=true)", json!(["b", "B", "a", "A"])),
        ("[2, 1.5, -1, 18446744073709551615] | sort", json!([-1, 1.5, 2, 18446744073709551615_u64])),
        ("[{}] | sort", json!([{}])),
        ("source.spec.words | unique", json!(["b", "A"])),
        ("source.spec.words | unique(case_sensitive=true)", json!(["b", "A", "a"])),
        ("[1, 1.0, 2] | unique", json!([1, 2])),
        ("[[1, 'a'], [1.0, 'a'], [1, 'A'], ['1,a']] | unique | length", json!(3)),
        ("[{'a': [1], 'b': 2}, {'b': 2.0, 'a': [1.0]}] | unique | length", json!(1)),
        ("source.spec.users | map(attribute='age', default=0)", json!([0, 0])),
        ("source.spec.words | map('replace', 'a', 'o')", json!(["b", "A", "o"])),
        ("[0, 1, none, ''] | select", json!([1])),
        ("source.spec.users | selectattr('roles') | map(attribute='name')", json!(["bob"])),
        ("source.spec.users | rejectattr('age', 'defined') | length", json!(2)),
        ("source.spec.users | map(attribute='roles.0', default='-')", json!(["a", "-"])),
        ("[{'n': 1.5}, {'n': 1}] | sum(attribute='n')", json!(2.5)),
        ("[[1, 2], 3, [], [[4]]] | flatten", json!([1, 2, 3, [4]])),
        ("10 * 1024 * 1024 * 1024 | as_quantity | quantity", json!(10_737_418_240_i64)),
        ("source.spec.keyed | length", json!(3)),
        ("source.spec.keyed | list", json!(["a", "m", "z"])),
        ("source.spec.keyed | items | first", json!(["a", {"deep": [1, null]}])),
        ("source.spec | dig('keyed.a.deep.0')", json!(1)),
        ("source.spec | dig('keyed.q.deep', 'none')", json!("none")),
        ("source.spec.missing | dig('a', 1)", json!(1)),
        ("2.9 | int", json!(2)),
        ("3 | float", json!(3.0)),
        ("2.456 | round(2)", json!(2.46)),
        ("3 | round", json!(3)),
        ("range(1, 3)", json!([1, 2])),
        ("range(3, 1)", json!([])),
        ("'aMOp' | b64decode", json!("hé")),
        ("source.spec.keyed | tojson", json!("{\"a\":{\"deep\":[1,null]},\"m\":\"x\",\"z\":1}")),
        ("'{\"z\": 1.0, \"a\": 18446744073709551615}' | fromjson", json!({"z": 1.0, "a": 18446744073709551615_u64})),
        ("'a' | sha256", json!("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")),
        ("condition(objects.db, 'Ready').status == 'True'", json!(true)),
        ("condition(objects.db, 'Gone').status | default('Unknown')", json!("Unknown")),
        (
            "observed_generation_current({'metadata': {'generation': 2}, 'status': {'observedGeneration': 2}})",
            json!(true),
        ),
        ("observed_generation_current({'metadata': {'generation': 3}, 'status': {}}) | default('?')", json!("?")),
        ("source.spec.nothing is defined", json!(true)),
        ("1.0 is integer", json!(false)),
        ("1 is not float", json!(true)),
    ]);
}

/// These are written into object names: they must never change.
#[test]
fn short_hash_is_stable_for_ever() {
    gives(&[
        ("short_hash('')", json!("v5kxb5nbqefxv54m")),
        ("short_hash('a')", json!("hmmw7veqppw7khbq")),
        ("short_hash('ab', 'c')", json!("maovi5xczt7czb5c")),
        ("short_hash('a', 'bc')", json!("h6x2dtzpdgt4ceu3")),
        ("short_hash('2xcau5l8pb5n4bev', 'default')", json!("awjngjkggz5jmake")),
        ("short_hash(3, true, 'ü')", json!("bzkmt7dnecmp5bd4")),
    ]);
}

#[test]
fn names_for_kubernetes() {
    gives(&[
        ("'my-db' | dns_label", json!("my-db")),
        ("'My_DB' | dns_label", json!("my-db")),
        ("'a__b' | dns_label", json!("a-b")),
        ("'a--b' | dns_label", json!("a--b")),
        ("'-a-' | dns_label", json!("a")),
        ("'grüße' | dns_label", json!("gr-e")),
        ("'a.b' | dns_label", json!("a-b")),
        ("'!!!' | dns_label", json!("x")),
        ("'' | dns_label", json!("x")),
        ("'abc-def' | dns_label(4)", json!("abc")),
        ("'A.b..C_d.' | dns_subdomain", json!("a.b.c-d")),
        ("'a.b' | dns_subdomain(2)", json!("a")),
        ("'Team Blue/1.0_x' | label_value", json!("Team-Blue-1.0_x")),
        ("'.a.' | label_value", json!("a")),
        ("'!' | label_value", json!("")),
        ("('x' ~ 'y' * 1 if false else 'abcdefgh') | label_value(3)", json!("abc")),
    ]);
}

/// What a reader of YAML takes for a line break, or drops, is escaped.
#[test]
fn yaml_text_escapes_what_readers_change() {
    for character in ['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'] {
        let value = evaluate(&format!("'a{character}b' | toyaml"));
        assert_eq!(as_text(&value), format!("\"a\\u{:04x}b\"\n", u32::from(character)));
    }
}

#[test]
fn yaml_text() {
    let value = evaluate("source.spec.keyed | toyaml");
    insta::assert_snapshot!(as_text(&value), @r"
    a:
      deep:
      - 1
      - null
    m: x
    z: 1
    ");
    let value =
        evaluate("[{'a': [1, {'b': 'yes', 'c': 'x: y'}], 'd': {}}, [], [[1], 2], 'multi\\nline', 1.0, '1'] | toyaml");
    insta::assert_snapshot!(as_text(&value), @r#"
    - a:
      - 1
      - b: "yes"
        c: "x: y"
      d: {}
    - []
    - - - 1
      - 2
    - |-
      multi
      line
    - 1.0
    - "1"
    "#);
}

fn as_text(outcome: &Result<Evaluated, Unrendered>) -> String {
    match outcome {
        Ok(Evaluated::Value(Value::String(text))) => text.clone(),
        other => format!("{other:?}"),
    }
}

#[test]
fn text() {
    prints(&[
        ("plain", "plain"),
        ("a-{{ source.metadata.name }}-z", "a-my-db-z"),
        (
            "{{ source.spec.members }} {{ source.spec.yes }} {{ source.spec.float }} {{ source.spec.huge }}",
            "3 true 1.0 18446744073709551615",
        ),
        ("${{ source.spec.members }}", "3"),
        ("{% if source.spec.yes %}on{% else %}off{% endif %}", "on"),
        ("{% if source.spec.no %}a{% elif source.spec.members == 3 %}b{% endif %}", "b"),
        ("{% for u in source.spec.users %}{{ u.name }},{% endfor %}", "bob,Ada,"),
        ("{% for u in source.spec.users if u.roles %}{{ u.name }}{% endfor %}", "bob"),
        ("{% for k, v in source.spec.keyed | only('z', 'm') | items %}{{ k }}={{ v }};{% endfor %}", "m=x;z=1;"),
        ("{% for k in source.spec.keyed %}{{ k }}{% endfor %}", "amz"),
        ("{% for u in source.spec.none %}x{% else %}nobody{% endfor %}", "nobody"),
        (
            "{% for u in source.spec.users %}{% for r in u.roles %}{{ u.name }}{{ r }} {% endfor %}{% endfor %}",
            "boba bobb ",
        ),
        ("a {%- if true %} b {%- endif %} c", "a b c"),
        ("line\n", "line\n"),
        ("{{ 1 }}\n", "1\n"),
        ("$${{ x }}", "${{ x }}"),
        ("$${{ x }}-{{ 1 }}", "${{ x }}-1"),
        ("{{ '$${{' }}", "$${{"),
        ("costs $5 {{ '{{' }}", "costs $5 {{"),
        ("{% raw %}{{ $labels.x }}{% endraw %}", "{{ $labels.x }}"),
        ("${#array[@]} {{ 1 }} {# no comment #}", "${#array[@]} 1 {# no comment #}"),
        ("{{ source.spec.evil }}", "${{ source.spec.secret }} {{ 1 }}"),
        ("{{ {'a': {'b': 1}}.a.b }}", "1"),
    ]);
}

#[test]
fn typed_scalars_may_hold_braces_and_line_breaks() {
    for (text, expected) in [
        ("${{ {'a': {'b': 1}} }}", json!({"a": {"b": 1}})),
        ("${{ '}}' }}", json!("}}")),
        ("${{-1}}", json!(-1)),
        ("${{\n  1 +\n  1\n}}\n", json!(2)),
        (" ${{ 1 }} ", json!(1)),
    ] {
        let (compiled, findings) = with_names(|names, findings| Expression::compile(&node(text), names, findings));
        let expression = compiled.unwrap_or_else(|| panic!("{text}: {findings:?}"));
        assert_eq!(expression.evaluate(&scope()), Ok(Evaluated::Value(expected)), "{text}");
    }
}

#[test]
fn omit_leaves_out() {
    assert_eq!(evaluate("omit"), Ok(Evaluated::Omit));
    assert_eq!(evaluate("source.spec.missing | default(omit)"), Ok(Evaluated::Omit));
    assert_eq!(evaluate("1 if source.spec.no else omit"), Ok(Evaluated::Omit));
    gives(&[("[1, omit, source.spec.missing | default(omit)]", json!([1])), ("{'a': omit, 'b': 2}", json!({"b": 2}))]);
}

#[test]
fn absent_names_the_first_step_that_is_missing() {
    for (expression, path) in [
        ("source.spec.tls.enabled", "source.spec.tls"),
        ("source.spec.users[7].name", "source.spec.users[7]"),
        ("source.metadata.labels['x.y/z']", "source.metadata.labels[\"x.y/z\"]"),
        ("source.spec.nothing.x", "source.spec.nothing.x"),
        ("source.spec.missing if true else 1", "source.spec.missing"),
        ("source.spec.none | first", "[] | first"),
        ("source.spec.keyed | dig('q')", "… | dig(\"q\")"),
        ("user.age", "user.age"),
        ("(source.spec.users | first).age", "(source.spec.users | first).age"),
    ] {
        assert_eq!(evaluate(expression), Ok(Evaluated::Absent(path.to_owned())), "{expression}");
    }
}

#[test]
fn what_is_not_there_yet_is_waited_for_and_not_swallowed() {
    for expression in [
        "objects.later.status.phase",
        "objects.later | default(1)",
        "objects.later is defined",
        "related.passwords.data",
        "condition(objects.later, 'Ready').status | default('Unknown')",
        "condition(objects.db, 'Unreported')",
        "condition(objects.db, 'Unreported').status == 'True'",
        "1 if objects.later.x else 2",
        "[objects.later.x | default(omit)]",
    ] {
        assert!(matches!(evaluate(expression), Err(Unrendered::Waiting(_))), "{expression}");
    }
    gives(&[
        ("1 if true else objects.later.x", json!(1)),
        ("source.spec.members | default(objects.later.x)", json!(3)),
    ]);
    assert_eq!(evaluate("objects.later.x"), Err(Unrendered::Waiting("object `later`".to_owned())));
}

#[test]
fn in_status_a_missing_object_is_undefined() {
    let mut scope = scope();
    scope.lenient_objects(true);
    let evaluate = |expression: &str| compile(expression).evaluate(&scope);
    assert_eq!(evaluate("objects.later.status.phase | default('') == 'Running'"), Ok(Evaluated::Value(json!(false))));
    assert_eq!(evaluate("objects.later.status.phase"), Ok(Evaluated::Absent("objects.later".to_owned())));
    assert!(matches!(evaluate("condition(objects.later, 'Ready').status"), Ok(Evaluated::Absent(_))));
    let waiting = Unrendered::Waiting("`condition(…, \"Ready\")`, which is not reported yet".to_owned());
    assert_eq!(evaluate("condition(objects.later, 'Ready').status == 'True'"), Err(waiting));
}

#[test]
fn a_variable_hands_on_what_came_of_it() {
    let mut scope = scope();
    let evaluate = |scope: &Scope, expression: &str| compile(expression).evaluate(scope);
    assert_eq!(evaluate(&scope, "vars.broken | default(1)"), Err(Unrendered::failed("`vars.broken`: no number")));
    let waiting = || Err(Unrendered::Waiting("object `db`".to_owned()));
    scope.set_var("members", waiting());
    assert_eq!(evaluate(&scope, "vars.members + 1"), waiting());
    let absent = || Ok(Evaluated::Absent("source.spec.x".to_owned()));
    scope.set_var("members", absent());
    assert_eq!(evaluate(&scope, "vars.members"), absent());
    assert_eq!(evaluate(&scope, "vars.members | default(2)"), Ok(Evaluated::Value(json!(2))));
    scope.set_var("members", Ok(Evaluated::Omit));
    assert_eq!(evaluate(&scope, "vars.members"), Ok(Evaluated::Omit));
}

#[test]
fn failures_name_the_fix_and_no_value() {
    let expressions = [
        "source.spec.missing + 1",
        "source.spec.missing == 'x'",
        "not source.spec.missing",
        "source.spec.missing | lower",
        "omit ~ 'x'",
        "source.spec.text + 1",
        "source.spec.text * 3",
        "source.spec.keyed ~ 'x'",
        "source.spec.nothing ~ 'x'",
        "source.spec.text < 1",
        "1 // 0",
        "source.spec.huge + 1",
        "source.spec.huge * source.spec.huge",
        "1e308 * 10",
        "1 in 2",
        "source.spec.text | int",
        "source.spec.text | b64decode",
        "source.spec.text | fromjson",
        "source.spec.missing | required('set spec.missing')",
        "source.spec.keyed | lower",
        "source.spec.users | sort",
        "[1, 'a', 2, none] | sort",
        "source.spec.users | map(attribute='age')",
        "source.spec.users | join(', ')",
        "short_hash(1.5)",
        "'a' | dns_label(64)",
        "{1: 2}",
        "related.passwords['x']",
        "source.spec.text | quantity",
        "source.spec.text | semver",
        "'1.0' is semver('~1')",
        "source.spec.numbers | regex_replace('a', 'b')",
        "source.spec.missing | regex_replace('a', 'b')",
    ];
    let report: Vec<_> =
        expressions.iter().map(|expression| format!("{expression}\n    {}", failure(expression))).collect();
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!(report.join("\n"));
    });
}

fn failure(expression: &str) -> String {
    match evaluate(expression) {
        Err(Unrendered::Failed(why)) => why,
        Err(waiting) => format!("{waiting:?}"),
        Ok(evaluated) => panic!("`{expression}`: {evaluated:?}"),
    }
}

#[test]
fn a_condition_is_true_or_false() {
    assert_eq!(compile("source.spec.members > 2").holds(&scope()), Ok(true));
    let refused: Vec<_> = ["source.spec.members", "source.spec.missing", "omit", "objects.later.x"]
        .into_iter()
        .map(|expression| compile(expression).holds(&scope()).unwrap_err().to_string())
        .collect();
    insta::assert_snapshot!(refused.join("\n"), @r#"
    `source.spec.members` must be true or false, and is a number
    `source.spec.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    `omit` is no value: it can only stand for a whole key or item
    waiting for object `later`
    "#);
}

#[test]
fn constants_and_objects_read() {
    let constant = Arc::new(Node { span: 0..4, value: NodeValue::Bool(true) });
    let (compiled, _) = with_names(|names, findings| Expression::compile(&constant, names, findings));
    assert_eq!(compiled.map(|expression| expression.evaluate(&Scope::new())), Some(Ok(Evaluated::Value(json!(true)))));
    let expression = compile("objects.db.x | default(objects['later'].y)");
    assert!(expression.references().objects.iter().eq(["db", "later"]));
    assert_eq!(expression.source_text(), "objects.db.x | default(objects['later'].y)");
}
