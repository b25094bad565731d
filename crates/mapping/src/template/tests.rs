use std::sync::Arc;

use serde_json::json;

use super::super::expression::{ObjectState, Root, RootSet};
use super::*;

fn compile(value: &Value) -> (Option<Template>, Vec<Finding>) {
    // JSON is YAML.
    let node = crate::yaml::parse_one(&value.to_string()).and_then(|document| document.root).expect("a document");
    let objects = ["db".to_owned(), "later".to_owned()];
    let names = Names { objects: &objects, ..Names::only(RootSet::TEMPLATE) };
    let mut findings = Vec::new();
    (Template::compile(&node, &names, &mut findings), findings)
}

fn scope() -> Scope {
    let mut scope = Scope::new();
    let spec = json!({"members": 3, "float": 1.0, "nothing": null, "empty": {}, "users": [{"name": "bob"}]});
    scope.set(Root::Source, Arc::new(json!({"metadata": {"name": "my-db"}, "spec": spec})));
    scope.set_object("db", ObjectState::Present(Arc::new(json!({"status": {}}))));
    scope.set_object("later", ObjectState::Missing(crate::RelatedMissing::Wait));
    scope
}

fn template(value: &Value) -> Template {
    let (template, findings) = compile(value);
    template.unwrap_or_else(|| panic!("{value} does not compile: {findings:?}"))
}

/// What is rendered, or why nothing is.
fn render(value: Value) -> String {
    match template(&value).render(&scope()) {
        Ok(value) => value.to_string(),
        Err(unrendered) => unrendered.to_string(),
    }
}

#[test]
fn renders_with_types_nulls_and_the_order_of_keys() {
    let rendered = render(json!({
        "z": "${{ source.spec }}", "a": {"name": "{{ source.metadata.name }}-x", "n": "${{ source.spec.members }}"},
        "literal": [1.0, 1, null, {}, [], "text", true], "list": ["${{ source.spec.float }}", "{{ source.spec.float }}"],
        "$$each": 1
    }));
    let expected = json!({
        "z": {"members": 3, "float": 1.0, "nothing": null, "empty": {}, "users": [{"name": "bob"}]},
        "a": {"name": "my-db-x", "n": 3},
        "literal": [1.0, 1, null, {}, [], "text", true], "list": [1.0, "1.0"],
        "$each": 1
    });
    assert_eq!(rendered, expected.to_string());
}

#[test]
fn omit_leaves_a_key_or_an_item_out() {
    let rendered = render(json!({
        "a": "${{ source.spec.missing | default(omit) }}", "b": {"c": "${{ omit }}"}, "d": [1, "${{ omit }}", 2]
    }));
    assert_eq!(rendered, json!({"b": {}, "d": [1, 2]}).to_string());
}

#[test]
fn a_map_is_left_out_where_its_condition_is_false() {
    let when = |text: &str, value: Value| {
        let mut map = value;
        map["$when"] = json!(text);
        map
    };
    let (yes, no) = ("${{ source.spec.members == 3 }}", "${{ source.spec.members == 4 }}");
    let rendered = render(json!({
        "yes": when(yes, json!({"a": 1})), "no": when(no, json!({"a": "${{ source.spec.missing }}"})),
        "list": [when(no, json!({"a": 1})), when(yes, json!({"b": "{{ source.metadata.name }}"}))],
        "merged": {"$merge": [{"a": 1}, when(no, json!({"a": 2})), when(yes, json!({"b": 3}))]},
        "layers": when(no, json!({"$merge": [{"a": 1}]})),
        "items": {"$each": [1, 2], "$item": when("${{ item == 2 }}", json!({"n": "${{ item }}"}))},
    }));
    let expected = json!({"yes": {"a": 1}, "list": [{"b": "my-db"}], "merged": {"a": 1, "b": 3}, "items": [{"n": 2}]});
    assert_eq!(rendered, expected.to_string());
    assert_eq!(template(&when(no, json!({"a": 1}))).evaluate(&scope()), Ok(Evaluated::Omit));
}

#[test]
fn a_list_without_items_is_left_out_where_that_is_asked_for() {
    let list =
        |of: Value| json!({"a": {"$each": of, "$item": "${{ item }}", "$when": "${{ item > 1 }}", "$empty": "omit"}});
    assert_eq!([render(list(json!([1]))), render(list(json!([1, 2])))], ["{}", r#"{"a":[2]}"#]);
}

#[test]
fn the_item_of_a_list_has_a_name_unless_another_is_given() {
    let list = json!({"$each": "${{ source.spec.users }}", "$item": "${{ item.name }}"});
    assert_eq!(render(list.clone()), r#"["bob"]"#);
    let nested = json!({"$each": "${{ source.spec.users }}", "$item": list});
    let (_, findings) = compile(&nested);
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["SE0111"]);
}

#[test]
fn one_expression_keeps_its_outcome() {
    let evaluate = |text: &str| template(&json!(text)).evaluate(&scope());
    assert_eq!(evaluate("${{ omit }}"), Ok(Evaluated::Omit));
    assert_eq!(evaluate("${{ source.spec.missing }}"), Ok(Evaluated::Absent("source.spec.missing".to_owned())));
    assert_eq!(evaluate("{{ source.spec.members }}"), Ok(Evaluated::Value(json!("3"))));
    assert_eq!(evaluate("plain"), Ok(Evaluated::Value(json!("plain"))));
}

#[test]
fn failures_say_where_in_the_template() {
    let said = [
        render(json!({"spec": {"users": [{"name": 1}, {"name": "${{ source.spec.user }}"}]}})),
        render(json!({"metadata": {"annotations": {"a.b/c": "{{ source.spec.users }}"}}})),
        render(json!([["x-{{ source.spec.nothing }}"]])),
        render(json!({"a": "${{ objects.later.status.phase }}"})),
        render(json!("${{ omit }}")),
        render(json!("${{ source.spec.missing }}")),
        render(json!({"a": {"$each": [{"n": 1}, {}], "$as": "i", "$item": {"x": "${{ i.n }}"}}})),
        render(json!({"a": {"$each": "${{ source.spec }}", "$as": "i", "$item": 1}})),
        render(json!({"a": {"$each": [1], "$as": "i", "$when": "${{ i }}", "$item": 1}})),
        render(json!({"a": {"$merge": [{}, "${{ source.spec.users }}"]}})),
        render(json!({"a": {"b": 1, "$when": "${{ source.spec.members }}"}})),
        render(json!({"a": {"$each": "${{ source.spec.missing }}", "$as": "i", "$item": 1}})),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    spec.users[1].name: `source.spec.user` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    metadata.annotations["a.b/c"]: `source.spec.users`: a list has no text of its own: use `| join(", ")`, `| tojson` or `| toyaml`
    [0][0]: `source.spec.nothing`: null has no text: give one with `default('...', true)`
    waiting for object `later` (read at `a`)
    `omit` is no value: it can only stand for a whole key or item
    `source.spec.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    a[1].x: `i.n` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    a: `$each` takes a list, and was given a map: write `| items` for its pairs
    a[0].$when: `i` must be true or false, and is a number
    a: `$merge` takes maps, and was given a list
    a.$when: `source.spec.members` must be true or false, and is a number
    a: `source.spec.missing` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    "#);
}

#[test]
fn each_builds_a_list() {
    let mut scope = scope();
    let users =
        json!([{"name": "ann", "roles": ["a", "b"]}, {"name": "bob", "roles": []}, {"name": "eve", "roles": ["c"]}]);
    scope.set(Root::Source, Arc::new(json!({"users": users})));
    let rendered = template(&json!({
        "users": {
            "$each": "${{ source.users }}", "$as": "user", "$when": "${{ user.name != 'bob' }}",
            "$item": {
                "name": "{{ user.name }}-x",
                "roles": {"$each": "${{ user.roles }}", "$as": "role", "$item": {"role": "${{ role }}", "of": "${{ user.name }}"}}
            }
        },
        "literal": {"$each": [1, 2], "$as": "n", "$item": "${{ n * 2 }}"},
        "some": {"$each": "${{ source.users }}", "$as": "u", "$item": "${{ u.name if u.name != 'ann' else omit }}"},
        "none": {"$each": "${{ source.missing | default(omit) }}", "$as": "u", "$item": 1},
        "empty": {"$each": "${{ source.missing | default([]) }}", "$as": "u", "$item": 1},
    }))
    .render(&scope);
    let expected = json!({
        "users": [
            {"name": "ann-x", "roles": [{"role": "a", "of": "ann"}, {"role": "b", "of": "ann"}]},
            {"name": "eve-x", "roles": [{"role": "c", "of": "eve"}]}
        ],
        "literal": [2, 4], "some": ["bob", "eve"], "empty": []
    });
    assert_eq!(rendered.map(|value| value.to_string()), Ok(expected.to_string()));
}

#[test]
fn merge_lays_maps_over_each_other() {
    let rendered = render(json!({
        "$merge": [
            {"a": 1, "b": {"c": 1, "d": [1, 2]}, "n": 1},
            "${{ {'b': {'e': 2}, 'z': 3} }}",
            "${{ omit }}",
            {"b": {"d": [3], "c": "${{ omit }}"}, "n": null, "a": {"x": 1}, "$$merge": 1},
        ]
    }));
    let expected = json!({"a": {"x": 1}, "b": {"c": 1, "d": [3], "e": 2}, "n": null, "z": 3, "$merge": 1});
    assert_eq!(rendered, expected.to_string());
}

/// A consumer's lists multiply what an author wrote: both caps are reached, and nothing else gives way first.
#[test]
fn structure_pays_for_what_it_multiplies() {
    let mut scope = scope();
    let many: Vec<_> = (0..1_000).collect();
    scope.set(Root::Source, Arc::new(json!({"many": many})));
    let squared = |item: Value| {
        let inner = json!({"$each": "${{ source.many }}", "$as": "b", "$item": item});
        let outer = json!({"$each": "${{ source.many }}", "$as": "a", "$item": inner});
        template(&outer).render(&scope).map(|_| ()).unwrap_err().to_string()
    };
    let long = "x".repeat(5_000);
    insta::assert_snapshot!([squared(json!(1)), squared(json!("${{ b }}")), squared(json!(long))].join("\n"), @"
    [39][615]: the expression does more work than one evaluation may (4 MiB of data touched)
    [30][232]: the expression does more work than one evaluation may (4 MiB of data touched)
    [0][310]: the result is larger than 1572864 bytes
    ");
}
