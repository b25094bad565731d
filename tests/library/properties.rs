//! Random documents and random consumer objects: nothing panics, nothing exceeds its cap, and what is rendered once is
//! rendered again. `SYNC_ENGINE_PROPERTY_CASES` asks for more than the few that each run tries.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::{Map, Value, json};
use sync_engine::mapping::Mapping;
use sync_engine::mapping::check::check;
use sync_engine::mapping::compile::{Compiled, compile};
use sync_engine::mapping::diagnostic::Diagnostic;
use sync_engine::mapping::schema::Schemas;
use sync_engine::object::ClusterName;
use sync_engine::plan::preview::{Preview, SETTLED, Scene, Unseen, preview};
use sync_engine::yaml;

/// Bytes that one template may come to: API servers take no larger object.
const RESULT: usize = 1_572_864;

/// What owner marks may add to it.
const MARKS: usize = 8_192;

const FUNCTIONS: [&str; 24] = [
    "default(omit)",
    "default([])",
    "default('x')",
    "length",
    "first",
    "last",
    "list",
    "items",
    "tojson",
    "toyaml",
    "dns_label(20)",
    "short_hash",
    "b64encode",
    "upper",
    "reverse",
    "sort",
    "unique",
    "join('-')",
    "map('string') | list",
    "without('a', 'b')",
    "only('a')",
    "dig('a.b', 1)",
    "required('needed')",
    "string",
];

/// What every place can read.
const ROOTS: [&str; 9] = [
    "source.spec",
    "source.spec.a",
    "source.spec.b",
    "source.spec.a.b",
    "source.metadata.name",
    "source.spec.list[0]",
    "placement.name",
    "workspace.cluster",
    "mapping.name",
];

/// What a place can read that nothing waits for.
const LATER: [&str; 4] = ["vars.one", "objects.second", "objects.many['a']", "objects.many[source.spec.a]"];

fn cases() -> u32 {
    std::env::var("SYNC_ENGINE_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

/// Data as a consumer may write it, with what looks like expressions and structure.
fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::from),
        "[a-z]{1,300}".prop_map(Value::from),
        prop::sample::select(vec!["${{ source.spec }}", "{{ 1 }}", "{% for x in y %}", "$$", "---", "\u{0}"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-d]|list|\\$each|\\$merge|metadata", inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Expressions that mostly compile.
fn expression(later: &[&'static str]) -> impl Strategy<Value = String> + use<> {
    let roots = [&ROOTS[..], later].concat();
    let leaf = prop_oneof![
        180 => prop::sample::select(roots).prop_map(str::to_owned),
        30 => "[0-9]{1,4}",
        30 => "'[a-z]{0,6}'",
        20 => Just("omit".to_owned()),
        1 => "[ -~]{0,12}",
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            4 => (inner.clone(), prop::sample::select(FUNCTIONS.to_vec())).prop_map(|(value, call)| format!("{value} | {call}")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("{a} if {b} else {c}")),
            1 => (inner.clone(), prop::sample::select(vec!["+", "~", "==", "in", "and", "*"]), inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("({a})[{b}]")),
        ]
    })
}

/// A leaf of a template: an expression, text with one, or a loop that prints.
fn leaf(later: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
    prop_oneof![
        4 => expression(later).prop_map(|one| json!(format!("${{{{ {one} }}}}"))),
        2 => expression(later).prop_map(|one| json!(format!("a-{{{{ {one} }}}}"))),
        1 => expression(later).prop_map(|one| json!(format!("{{% for x in {one} %}}{{{{ x }}}}{{% endfor %}}"))),
        2 => "[a-z0-9 ]{0,10}".prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
    ]
}

fn template(later: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
    let list = expression(later).boxed();
    leaf(later).prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            2 => prop::collection::vec(("[a-e]", inner.clone()), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            1 => (list.clone(), "[i-z]", inner.clone())
                .prop_map(|(list, name, item)| json!({"$each": format!("${{{{ {list} }}}}"), "$as": name, "$item": item})),
            1 => (list.clone(), inner.clone())
                .prop_map(|(when, inner)| json!({"$when": format!("${{{{ {when} == 1 }}}}"), "in": inner})),
            1 => prop::collection::vec(inner, 0..3).prop_map(|layers| json!({"$merge": layers})),
        ]
    })
}

/// A whole mapping whose parts are random. JSON is YAML.
fn document() -> impl Strategy<Value = Value> {
    let parts = (
        template(&LATER),
        template(&LATER[..1]),
        leaf(&[]),
        leaf(&LATER),
        expression(&LATER[..1]),
        expression(&LATER[..1]),
        leaf(&LATER[..1]),
        prop::option::of(expression(&LATER)),
    );
    parts.prop_map(|(first, second, var, field, list, key, name, when)| {
        let typed = |text: &str| json!(format!("${{{{ {text} }}}}"));
        let mut one = json!({
            "id": "first", "template": {"apiVersion": "example.dev/v1", "kind": "First", "spec": first},
        });
        if let Some(when) = when {
            one["when"] = typed(&when);
        }
        let many = json!({
            "id": "many", "forEach": typed(&list), "as": "item", "key": typed(&format!("(item) ~ ({key} | length)")),
            "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ placement.name }}-{{ item }}"}, "data": {"name": name},
            },
        });
        let second = json!({
            "id": "second", "template": {"apiVersion": "example.dev/v1", "kind": "Second", "spec": second},
        });
        json!({
            "apiVersion": "sync-engine.dev/v1alpha1", "kind": "Mapping", "metadata": {"name": "random"},
            "spec": {
                "source": {"provider": "edge", "resource": "databases.v1.example.dev"}, "vars": {"one": var},
                "objects": [one, many, second], "status": {"fields": {"phase": {"value": field}}},
            },
        })
    })
}

/// The mapping, where the document is good. Whatever is wrong with it can be shown.
fn compiled(text: &str) -> Option<Arc<Mapping>> {
    let mut found = None;
    for document in yaml::parse(text.as_bytes()) {
        let outcome = compile(&document);
        let mut findings = outcome.findings;
        if let Some(Compiled::Mapping(mapping)) = outcome.compiled {
            findings.extend(check(&mapping, &Schemas::default()));
            found = Some(mapping);
        }
        findings
            .into_iter()
            .for_each(|finding| drop(Diagnostic::new(finding, "random.yaml", text.as_bytes()).render(false)));
    }
    found
}

fn scene(spec: Value, standing: Vec<Value>) -> Scene {
    let source = json!({
        "apiVersion": "example.dev/v1", "kind": "Database", "spec": spec,
        "metadata": {"namespace": "default", "name": "db", "uid": "1"},
    });
    Scene {
        engine: "main".into(),
        cluster: ClusterName::try_from("abc").expect("a name"),
        workspace_path: None,
        source: Arc::new(source),
        standing,
        related: Vec::new(),
        steps: SETTLED,
        schema: None,
    }
}

fn refused(unseen: Unseen) -> TestCaseError {
    TestCaseError::fail(format!("no preview: {unseen:?}"))
}

/// Everything that came of it, as text.
fn shown(preview: &Preview<'_>) -> Result<String, TestCaseError> {
    let mut shown = Map::new();
    for (_, rule, key, desired) in preview.objects() {
        let text = desired.body.to_string();
        prop_assert!(text.len() <= 2 * RESULT + MARKS, "{} has {} bytes", rule.id, text.len());
        shown.insert(format!("{} {key:?}", rule.id), Value::clone(&desired.body));
    }
    prop_assert!(shown.len() <= 1_002, "{} objects", shown.len());
    Ok(format!("{}{:?}{}", Value::Object(shown), preview.status, preview.reasons))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn random_mappings_render_random_objects_the_same_each_time(
        document in document(), spec in data(), status in data(),
    ) {
        let Some(mapping) = compiled(&document.to_string()) else { return Ok(()) };
        let standing = json!({"apiVersion": "example.dev/v1", "kind": "Second", "status": status});
        let scene = scene(spec, vec![standing]);
        match (preview(&mapping, &scene), preview(&mapping, &scene)) {
            (Ok(one), Ok(other)) => prop_assert_eq!(shown(&one)?, shown(&other)?),
            (one, other) => prop_assert_eq!(one.err(), other.err()),
        }
    }

    /// The shipped mapping, whatever a consumer puts into its object.
    #[test]
    fn the_shipped_mapping_takes_any_object(spec in data()) {
        let mapping = compiled(include_str!("../../mappings/mongodb.yaml")).expect("it is good");
        let scene = scene(spec, Vec::new());
        // Neither its filter nor its placement reads the spec: there is always something to show.
        let previews = (preview(&mapping, &scene).map_err(refused)?, preview(&mapping, &scene).map_err(refused)?);
        prop_assert_eq!(shown(&previews.0)?, shown(&previews.1)?);
    }

    /// Documents that are no mappings at all.
    #[test]
    fn any_text_is_a_document_or_findings(text in "\\PC{0,200}|[ -~\n]{0,300}", value in data()) {
        compiled(&text);
        compiled(&value.to_string());
        compiled(&json!({"apiVersion": "sync-engine.dev/v1alpha1", "kind": "Mapping", "metadata": value, "spec": value}).to_string());
    }
}

/// Most of what is tried has to reach the renderer, and most of that to show objects, or nothing is tried.
#[test]
fn many_random_documents_compile_and_show_objects() {
    const TRIED: usize = 200;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut next = |strategy: &BoxedStrategy<Value>| strategy.new_tree(&mut runner).expect("a value").current();
    let (documents, specs) = (document().boxed(), data().boxed());
    let mappings: Vec<_> = (0..TRIED).filter_map(|_| compiled(&next(&documents).to_string())).collect();
    let good = mappings.len();
    assert!(good > TRIED / 4, "{good} of {TRIED} compile");
    let (mut seen, mut filled) = (0, 0);
    for mapping in &mappings {
        let scene = scene(next(&specs), Vec::new());
        let Ok(preview) = preview(mapping, &scene) else { continue };
        seen += 1;
        filled += usize::from(preview.objects().next().is_some());
    }
    assert!(seen > good * 9 / 10, "{seen} of {good} are previewed");
    assert!(filled > good / 4, "{filled} of {good} show objects");
}
