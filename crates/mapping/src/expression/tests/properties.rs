//! Properties over random expressions and random data.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::*;

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-5_i64..5).prop_map(Value::from),
        (-1000_i32..1000).prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        ".{0,8}".prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(("[a-d]{1,2}", inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Small expressions that are syntactically right, sensible or not.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("source.spec".to_owned()),
        "source\\.spec\\.[a-d]".prop_map(|path| path),
        "source\\.spec\\.[a-d]\\[(-?[0-2])\\]",
        "[0-9]{1,3}",
        "[0-9]\\.[0-9]",
        "'[a-c]{0,3}'",
        Just("true".to_owned()),
        Just("none".to_owned()),
        Just("omit".to_owned()),
        Just("[1, 'a', 2.0]".to_owned()),
        Just("{'a': 1}".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operators = prop::sample::select(vec![
            "+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "and", "or",
        ]);
        let plain = Role::Filter.functions().iter().filter(|function| {
            !function.rest && function.parameters.iter().filter(|parameter| parameter.required).count() == 1
        });
        let given = "default(1)|dig('a.b', 1)|dns_label(5)|join('-')|map('string')|map(attribute='a', default=1)|only('a')|\
            reject('none')|replace('a', 'bb')|required('x')|round(1)|select|selectattr('a')|sort(attribute='a')|split('a')|\
            without('a')";
        let filters: Vec<_> = plain.map(|function| function.name).chain(given.split('|')).collect();
        let filters = prop::sample::select(filters);
        let tests =
            prop::sample::select(vec!["defined", "none", "string", "integer", "in ['a', 2]", "startingwith 'a'"]);
        prop_oneof![
            (inner.clone(), operators, inner.clone()).prop_map(|(l, op, r)| format!("({l}) {op} ({r})")),
            (inner.clone(), filters).prop_map(|(value, filter)| format!("({value}) | {filter}")),
            (inner.clone(), tests).prop_map(|(value, test)| format!("({value}) is {test}")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a}) if ({b}) else ({c})")),
            inner.clone().prop_map(|value| format!("not ({value})")),
            inner.clone().prop_map(|value| format!("({value})[1:]")),
            (inner.clone(), inner.clone()).prop_map(|(value, index)| format!("({value})[{index}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            inner.prop_map(|value| format!("{{'k': {value}}}")),
        ]
    })
}

/// What expressions are made of, and what stands between.
fn parts() -> impl Strategy<Value = String> {
    let words = concat!(
        r#"'x'·"y"·''·1·2.5·source.spec.a·source.spec.b·true·omit· · and · or · not · in · is defined· if ·"#,
        r#" else · == ·!=·+·~·-·*·|·|upper·| default('z')·(·)·[·]·{·}·,·:·.·=·&&·||·!·?·??·'·"·\·ü·#·$·;·@"#,
    );
    let words: Vec<_> = words.split('·').collect();
    prop::sample::select(words).prop_map(str::to_owned)
}

fn compiles(expression: &str) -> Option<Expression> {
    let text = format!("${{{{ {expression} }}}}");
    with_names(|names, findings| Expression::compile(&node(&text), names, findings)).0
}

fn scope_of(spec: Value) -> Scope {
    let mut scope = Scope::new();
    scope.set(Root::Source, Arc::new(json!({"spec": spec})));
    scope
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn evaluation_never_panics_and_is_deterministic(expression in expressions(), spec in values()) {
        if expression.len() > 1000 { return Ok(()) }
        let compiled = compile(&expression);
        let scope = scope_of(spec);
        prop_assert_eq!(compiled.evaluate(&scope), compiled.evaluate(&scope));
    }

    #[test]
    fn any_text_compiles_or_is_refused_with_places_inside_it(text in "[-${}%#|()\\[\\]'\"a-z. \\nü0-9+~=,:]{0,60}") {
        let (compiled, findings) =
            with_names(|names, findings| crate::template::Template::compile(&node(&text), names, findings));
        prop_assert_eq!(compiled.is_none(), !findings.is_empty());
        for finding in findings {
            prop_assert!(text.get(finding.span.clone()).is_some(), "{finding:?}");
        }
    }

    /// A text is consumed whole or refused: whatever compiles means the same in parentheses, which close behind its last
    /// character.
    #[test]
    fn any_text_is_consumed_whole_or_refused(parts in prop::collection::vec(parts(), 1..8)) {
        let text = parts.concat();
        let (plain, closed) = (compiles(&text), compiles(&format!("({text})")));
        if let Some(plain) = plain {
            let Some(closed) = closed else { panic!("`{text}` compiles, and `({text})` does not") };
            let scope = scope_of(json!({"a": "x", "b": true}));
            prop_assert_eq!(plain.evaluate(&scope), closed.evaluate(&scope), "{}", text);
        }
    }

    #[test]
    fn nothing_behind_an_expression_is_lost(
        expression in expressions(),
        tail in prop::sample::select(vec!["&& 1", "|| 1", "?? 1", "? 1 : 2", "!", "ü", "$", "'open", "`", ";", "@x", "\\"]),
    ) {
        if expression.len() > 1000 { return Ok(()) }
        let text = format!("{expression} {tail}");
        prop_assert!(compiles(&text).is_none(), "{text}");
        let printed = node(&format!("a{{{{ {text} }}}}b"));
        let (printed, _) = with_names(|names, findings| Text::compile(&printed, names, findings));
        prop_assert!(printed.is_none(), "{text}");
    }

    /// What is read may be a secret: no failure shows it.
    #[test]
    fn failures_never_show_a_value(expression in expressions()) {
        if expression.len() > 1000 { return Ok(()) }
        let spec = json!({"a": "s3cr3t", "b": ["s3cr3t", 918273], "c": {"s3cr3t": "s3cr3t"}, "d": 918273});
        match compile(&expression).evaluate(&scope_of(spec)) {
            Err(Unrendered::Failed(text)) | Ok(Evaluated::Absent(text)) => prop_assert!(!text.contains("s3cr3t") && !text.contains("918273"), "{text}"),
            _ => {}
        }
    }

    #[test]
    fn what_is_read_is_what_was_written(spec in values()) {
        let outcome = compile("source.spec").evaluate(&scope_of(spec.clone()));
        let Ok(Evaluated::Value(value)) = outcome else { panic!("{outcome:?}") };
        prop_assert_eq!(value.to_string(), spec.to_string());
    }

    #[test]
    fn json_text_reads_back(spec in values()) {
        let value = compile("source.spec | tojson | fromjson").evaluate(&scope_of(spec.clone()));
        prop_assert_eq!(value, Ok(Evaluated::Value(spec)));
    }

    #[test]
    fn labels_are_labels(text in ".{0,80}", length in 1_usize..64) {
        let scope = scope_of(json!(text));
        let render = |filter: &str| compile_text(&format!("{{{{ source.spec | {filter} }}}}")).render(&scope).unwrap_or_default();
        let label = render(&format!("dns_label({length})"));
        prop_assert!(crate::names::is_dns_label(&label) && label.len() <= length, "{label}");
        let subdomain = render(&format!("dns_subdomain({length})"));
        prop_assert!(crate::names::is_dns_subdomain(&subdomain) && subdomain.len() <= length, "{subdomain}");
    }
}

/// What both can compute, both compute alike: an author's knowledge of Jinja holds.
#[test]
fn agrees_with_minijinja() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut compared = 0;
    let environment = minijinja::Environment::new();
    for _ in 0..4000 {
        let expression = expressions().new_tree(&mut runner).map(|tree| tree.current()).unwrap_or_default();
        if differs_on_purpose(&expression) {
            continue;
        }
        let spec = values().new_tree(&mut runner).map(|tree| tree.current()).unwrap_or_default();
        let Some(theirs) = minijinja_evaluates(&environment, &expression, &spec) else { continue };
        let Ok(Evaluated::Value(ours)) = compile(&expression).evaluate(&scope_of(spec.clone())) else { continue };
        assert_eq!(ours, theirs, "`{expression}` over {spec}");
        compared += 1;
    }
    assert!(compared > 300, "only {compared} expressions were compared");
}

/// `omit` is ours; a boolean is no number (`true == 1`), and prints as JSON does (`true`, not `True`).
fn differs_on_purpose(expression: &str) -> bool {
    let boolean = ["true", "not", " is ", "<", ">", "==", "!=", " in "].iter().any(|word| expression.contains(word));
    let compares = ["==", "!=", "in [", " in ", "~", "string", "join"].iter().any(|word| expression.contains(word));
    expression.contains("omit") || (boolean && compares)
}

fn minijinja_evaluates(environment: &minijinja::Environment, expression: &str, spec: &Value) -> Option<Value> {
    let compiled = environment.compile_expression(expression).ok()?;
    let context = minijinja::Value::from(minijinja::value::Serde(json!({"source": {"spec": spec}})));
    serde_json::to_value(compiled.eval(context).ok()?).ok()
}
