use std::sync::Arc;

use serde_json::json;

use super::super::expression::{ObjectState, Root, RootSet};
use super::*;
use crate::yaml::Scalar;

/// A node as YAML would give it; the spans are of no use.
fn node(value: &Value) -> Node {
    let value = match value {
        Value::Null => NodeValue::Null,
        Value::Bool(value) => NodeValue::Bool(*value),
        Value::Number(number) => NodeValue::Number(number.clone()),
        Value::String(text) => NodeValue::String(Scalar::plain(text)),
        Value::Array(items) => NodeValue::Sequence(items.iter().map(|item| Arc::new(node(item))).collect()),
        Value::Object(fields) => NodeValue::Mapping(
            fields.iter().map(|(key, value)| (Arc::new(node(&json!(key))), Arc::new(node(value)))).collect(),
        ),
    };
    Node { span: 0..1, value }
}

fn compile(value: &Value) -> (Option<Template>, Vec<Finding>) {
    let objects = ["db".to_owned(), "later".to_owned()];
    let names = Names { objects: &objects, ..Names::only(RootSet::TEMPLATE) };
    let mut findings = Vec::new();
    (Template::compile(&node(value), &names, &mut findings), findings)
}

fn scope() -> Scope {
    let mut scope = Scope::new();
    let spec = json!({"members": 3, "float": 1.0, "nothing": null, "empty": {}, "users": [{"name": "bob"}]});
    scope.set(Root::Source, Arc::new(json!({"metadata": {"name": "my-db"}, "spec": spec})));
    scope.set_object("db", ObjectState::Present(Arc::new(json!({"status": {}}))));
    scope.set_object("later", ObjectState::Missing);
    scope
}

fn template(value: &Value) -> Template {
    let (template, findings) = compile(value);
    template.unwrap_or_else(|| panic!("{value} does not compile: {findings:?}"))
}

#[test]
fn renders_with_types_nulls_and_the_order_of_keys() {
    let rendered = template(&json!({
        "z": "${{ source.spec }}", "a": {"name": "{{ source.metadata.name }}-x", "n": "${{ source.spec.members }}"},
        "literal": [1.0, 1, null, {}, [], "text", true], "list": ["${{ source.spec.float }}", "{{ source.spec.float }}"],
        "$$each": 1
    }))
    .render(&scope());
    let expected = json!({
        "z": {"members": 3, "float": 1.0, "nothing": null, "empty": {}, "users": [{"name": "bob"}]},
        "a": {"name": "my-db-x", "n": 3},
        "literal": [1.0, 1, null, {}, [], "text", true], "list": [1.0, "1.0"],
        "$each": 1
    });
    assert_eq!(rendered.map(|value| value.to_string()), Ok(expected.to_string()));
}

#[test]
fn omit_leaves_a_key_or_an_item_out() {
    let rendered = template(&json!({
        "a": "${{ source.spec.missing | default(omit) }}", "b": {"c": "${{ omit }}"}, "d": [1, "${{ omit }}", 2]
    }))
    .render(&scope());
    assert_eq!(rendered, Ok(json!({"b": {}, "d": [1, 2]})));
}

#[test]
fn one_expression_keeps_its_outcome() {
    let evaluate = |text: &str| template(&json!(text)).evaluate(&scope());
    assert_eq!(evaluate("${{ omit }}"), Outcome::Omit);
    assert_eq!(evaluate("${{ source.spec.missing }}"), Outcome::Absent("source.spec.missing".to_owned()));
    assert_eq!(evaluate("{{ source.spec.members }}"), Outcome::Value(json!("3")));
    assert_eq!(evaluate("plain"), Outcome::Value(json!("plain")));
}

#[test]
fn failures_say_where_in_the_template() {
    let render = |value: Value| match template(&value).render(&scope()) {
        Ok(value) => value.to_string(),
        Err(unrendered) => unrendered.to_string(),
    };
    let said = [
        render(json!({"spec": {"users": [{"name": 1}, {"name": "${{ source.spec.user }}"}]}})),
        render(json!({"metadata": {"annotations": {"a.b/c": "{{ source.spec.users }}"}}})),
        render(json!([["x-{{ source.spec.nothing }}"]])),
        render(json!({"a": "${{ objects.later.status.phase }}"})),
        render(json!("${{ omit }}")),
        render(json!("${{ source.spec.missing }}")),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    spec.users[1].name: `source.spec.user` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    metadata.annotations["a.b/c"]: a list has no text of its own: use `| join(", ")`, `| tojson` or `| toyaml`
    [0][0]: null has no text: give one with `default('...', true)`
    waiting for object `later` (read at `a`)
    `omit` is no value: it can only stand for a whole key or item
    `source.spec.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    "#);
}

#[test]
fn keys_are_never_data() {
    let (template, findings) = compile(&json!({
        "{{ source.metadata.name }}": 1, "${{ x }}": 1, "$each": [], "$item": {}, "$merg": [], "$x": 1, "a": "${{ nope }}", "b": ["{{ 1 | nope }}"]
    }));
    assert!(template.is_none());
    let said: Vec<_> = findings
        .iter()
        .map(|finding| format!("{} {} ({})", finding.code, finding.message, finding.help.as_deref().unwrap_or("-")))
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    SE0211 a key cannot hold an expression (keys are what the mapping's author writes, never data)
    SE0211 a key cannot hold an expression (keys are what the mapping's author writes, never data)
    SE0190 `$each` is not supported yet (lists and maps can come whole from `${{ … }}`)
    SE0190 `$item` is not supported yet (lists and maps can come whole from `${{ … }}`)
    SE0191 `$merg` has no meaning (did you mean `$merge`?)
    SE0191 `$x` has no meaning (a key of that name is written `$$x`)
    SE0301 `nope` is not known (here can be read: `source`, `workspace`, `placement`, `target`, `vars`, `related`, `objects`, `mapping`; text stands in quotes)
    SE0202 there is no filter `nope` (-)
    "#);
}

#[test]
fn knows_what_it_reads_and_whether_it_is_literal() {
    let reads = template(&json!({"a": "${{ objects.db.x }}", "b": ["{{ objects.later.y }}"]}));
    assert_eq!(reads.objects_read().collect::<Vec<_>>(), ["db", "later"]);
    assert_eq!(reads.literal(), None);
    assert_eq!(template(&json!({"a": [1, "x"]})).literal(), Some(&json!({"a": [1, "x"]})));
}
