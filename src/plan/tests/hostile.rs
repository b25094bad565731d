//! Consumer data is only data, and what is secret stays so.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::World;
use super::{DATABASES, LISTS, compiled, edited, fresh, mapping};
use crate::mapping::placement;
use crate::plan::render;

/// What an expression, a structure or a text would look like.
fn tempting() -> Value {
    json!({
        "typed": "${{ source.metadata.name }}",
        "text": "{{ source.metadata.name }} {% if true %}x{% endif %} {# #}",
        "escaped": "$${{ 1 + 1 }}",
        "$each": ["${{ 1 }}"], "$as": "a", "$item": {"$merge": [{"a": "{{ 1 }}"}]},
        "$$key": {"{{ source.metadata.name }}": "omit"},
    })
}

#[test]
fn expressions_in_consumer_data_are_never_evaluated() {
    let through = r#"  vars:
    all: ${{ source.spec.given }}
  objects:
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec:
          typed: ${{ vars.all.typed }}
          text: "{{ vars.all.text }}"
          whole: ${{ vars.all }}
          merged: {$merge: [{}, "${{ vars.all }}"]}
          each: {$each: "${{ [vars.all] }}", $as: one, $item: "${{ one }}"}
          json: ${{ vars.all | tojson | fromjson }}
  status:
    fields:
      typed: {path: $.spec.typed, transform: "${{ value }}"}
"#;
    let mut world = fresh().with(|world| world.edit_source(|source| source["spec"]["given"] = tempting()));
    world.sync(&mapping(through));
    let (spec, given) = (&world.object("Database")["spec"], tempting());
    assert_eq!((&spec["typed"], &spec["text"]), (&given["typed"], &given["text"]));
    for copy in [&spec["whole"], &spec["merged"], &spec["each"][0], &spec["json"]] {
        assert_eq!(copy, &given);
    }
    assert_eq!(world.status()["typed"], given["typed"]);
}

/// The engine has one thread, and each item has an evaluation of its own.
#[test]
fn the_items_of_a_list_do_not_have_the_work_of_a_template_each() {
    let user = "spec: {name: \"${{ user.name }}\"}";
    let mapping = edited(LISTS, &[(user, "spec: {count: \"${{ range(1000000) | length }}\"}")]);
    let users: Vec<Value> = (0..40).map(|number| json!({"name": format!("n{number}")})).collect();
    let mut world = fresh().with(|world| world.edit_source(|source| source["spec"]["users"] = json!(users)));
    let said = world.settle(&mapping).to_string();
    assert!(said.contains("does more work than one evaluation may"), "{said}");
    assert!(said.contains("object `user[n39]`: the expressions of this source do more work"), "{said}");
}

/// The message is copied into a condition, the log and what is remembered.
#[test]
fn drift_names_a_few_of_the_places_that_somebody_changed() {
    let reports = mapping(
        r"  objects:
    - id: db
      drift: Report
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec: ${{ source.spec.given }}
",
    );
    let given = |value: Value| Value::from_iter((0..100).map(|number| (format!("f{number:03}"), value.clone())));
    let mut world = fresh().with(|world| world.edit_source(|source| source["spec"]["given"] = given(json!(1))));
    world.sync(&reports);
    world.edit("Database", |object| object["spec"] = given(json!(2)));
    let told = world.settle(&reports).to_string();
    assert!(
        told.contains("was changed at /spec/f000, ") && told.contains(", /spec/f015, and 84 more (drift"),
        "{told}"
    );
}

/// They are in a ConfigMap on the target, and evaluated each time that a source is looked at.
#[test]
fn former_namespace_rules_do_little_work() {
    let rules = ["former-{{ short_hash(source.metadata.namespace) }}", "much-{{ range(20000) | length }}"];
    let rules = rules.map(|text| Arc::new(placement::rule(text).expect("a rule")));
    let mapping = mapping(DATABASES);
    let places = render::namespaces(&mapping, &rules, &fresh().observe(&mapping));
    assert_eq!(places.len(), 2, "the mapping's own and one more: {places:?}");
    assert!(places.iter().any(|place| place.starts_with("former-")));
}

const SECRET: &str = "hunter2hunter2";

/// Every way to fail over a value that I know of, each in a place of its own.
const FAILING: [&str; 17] = [
    "secret + 1",
    "secret - 1",
    "-secret",
    "secret < 1",
    "secret.missing",
    "secret | int + {}",
    "secret | fromjson",
    "secret | b64decode",
    "secret | quantity",
    "secret | semver",
    "[1, 2][secret]",
    "{'a': 1}[secret]",
    "secret | map(attribute='a') | list",
    "secret | regex_replace('x', 1)",
    "1 in secret",
    "objects.user[secret].data",
    "(secret ~ secret) | dig('a.b')",
];

#[test]
fn a_secret_appears_in_no_reason_status_or_log() {
    for place in ["when", "template", "name", "key", "ready", "field", "condition"] {
        for expression in FAILING {
            // What an author puts into a name, a key or the status is there to be read.
            if matches!(place, "name" | "key" | "field") && expression.contains("b64decode") {
                continue;
            }
            let expression = expression.replace("secret", "objects.token.data.password");
            let mut world = fresh();
            let said = tell(&mut world, place, &expression);
            assert!(!said.contains(SECRET) && !said.contains("aHVudGVy"), "{place} `{expression}`: {said}");
        }
    }
}

/// Everything that is said while an expression over a secret is tried in a place of the mapping.
fn tell(world: &mut World, place: &str, expression: &str) -> String {
    let at = |wanted: &str, default: &str| {
        if place == wanted { format!("${{{{ {expression} }}}}") } else { default.to_owned() }
    };
    let text = format!(
        "  objects:\n    - id: token\n      template: {{apiVersion: v1, kind: Secret}}\n    - id: user\n      forEach: [a]\n      as: one\n      key: \"{key}\"\n      \
         template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: \"{{{{ placement.name }}}}-{{{{ one }}}}\"}}}}\n    - id: db\n      when: \"{when}\"\n      \
         ready: \"{ready}\"\n      template: {{apiVersion: example.dev/v1, kind: Database, metadata: {{name: \"{name}\"}}, spec: {{a: \"{template}\"}}}}\n    \
         - {{id: view, dependsOn: [db], template: {{apiVersion: example.dev/v1, kind: View}}}}\n  \
         status:\n    fields: {{phase: {{value: \"{field}\"}}}}\n    conditions: [{{type: Ready, status: \"{condition}\"}}]\n",
        key = if place == "key" { format!("${{{{ one ~ ({expression}) }}}}") } else { "${{ one }}".into() },
        when = at("when", "${{ true }}"),
        ready = at("ready", "${{ true }}"),
        name = at("name", "{{ placement.name }}-db"),
        template = at("template", "x"),
        field = at("field", "x"),
        condition = at("condition", "True"),
    );
    // A key that reads the user itself waits for itself, which is refused.
    let mapping = match compiled(&text) {
        Ok(mapping) => mapping,
        Err(findings) if findings.iter().any(|finding| finding.code == "SE0311") => return String::new(),
        Err(findings) => panic!("{text}: {findings:?}"),
    };
    let mut said = format!("{:?}", world.settle(&mapping));
    for password in [SECRET, "aHVudGVyMmh1bnRlcjI="] {
        world.edit("Secret", |secret| secret["data"] = json!({"password": password}));
        said += &format!("{:?}", world.settle(&mapping));
    }
    said + &world.take_log().join("\n") + &world.source.as_ref().map(Value::to_string).unwrap_or_default()
}
