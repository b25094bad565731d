//! Expressions and data that are meant to hurt. Each cap is reached, and each refusal comes at once.

use super::*;

fn hostile_scope() -> Scope {
    let mut scope = Scope::new();
    let item = json!({"a": "x".repeat(100), "b": [1, 2, 3]});
    scope.set(
        Root::Source,
        Arc::new(json!({
            "metadata": {"name": "x".repeat(253)},
            "spec": {
                "long": "a".repeat(1 << 20),
                "list": vec![item; 5000],
                "numbers": (0..100_000).collect::<Vec<_>>(),
                "twin": (0..100_000).collect::<Vec<_>>(),
                "words": vec!["word".repeat(50); 5000],
                "json": format!("[{}]", vec!["[]"; 300_000].join(",")),
                "deep": "[".repeat(120) + &"]".repeat(120),
                "million": 1_000_000_000_000_u64,
            }
        })),
    );
    let conditions = vec![json!({"type": "Other"}); 100_000];
    scope.set_object("db", ObjectState::Present(Arc::new(json!({"status": {"conditions": conditions}}))));
    scope
}

#[test]
fn work_is_capped() {
    let scope = hostile_scope();
    let expressions = [
        "range(source.spec.million)",
        "range(-1000000000, 1000000000) | length",
        "range(100000) | list",
        "source.spec.long | replace('a', source.spec.long)",
        "source.spec.long | replace('', source.spec.long)",
        "source.spec.words | join(source.spec.long)",
        "source.spec.list | sort(attribute='a') | unique(attribute='a') | tojson",
        "source.spec.list | tojson | tojson | tojson | tojson",
        "source.spec.json | fromjson",
        "source.spec.list + source.spec.list + source.spec.list + source.spec.list",
        "[source.spec.list, source.spec.list, source.spec.list, source.spec.list]",
        "source.spec.long ~ source.spec.long ~ source.spec.long ~ source.spec.long ~ source.spec.long",
        "source.spec.numbers == source.spec.twin",
        "source.spec.numbers | sort",
        "source.spec.numbers[1:] | length",
        "source.spec.long | split('a')",
        "source.spec.long | regex_replace('(a|aa)+b', 'x')",
        "source.spec.long[:20000] | regex_replace('a', source.spec.long)",
        "'aaaaaaaaaaaaaaaaaaaa' | regex_replace('', source.spec.long)",
        "source.spec.long | list",
        "(source.spec.long ~ source.spec.long) | sha256",
        "source.spec.long | trim('abcdefghijklmnopqrstuvwxyz')",
        "source.spec.list | map('default', source.spec.long ~ 'x')",
        "source.spec.words | map('replace', 'w', source.spec.long)",
        "source.spec.numbers | select('in', source.spec.numbers)",
        "source.spec.list | toyaml | toyaml",
        "condition(objects.db, 'Ready')",
    ];
    for expression in expressions {
        let outcome = compile(expression).evaluate(&scope);
        let Err(Unrendered::Failed(why)) = &outcome else { panic!("`{expression}` was evaluated") };
        assert!(why.contains("more work than") || why.contains("larger than"), "`{expression}`: {why}");
    }
}

#[test]
fn results_are_capped() {
    let mut scope = Scope::new();
    scope.set(Root::Source, Arc::new(json!({"spec": {"long": "a".repeat(super::super::budget::RESULT + 1)}})));
    insta::assert_snapshot!(format!("{:?}", compile("source.spec.long").evaluate(&scope)), @r#"Err(Failed("the result is larger than 1572864 bytes"))"#);
    insta::assert_snapshot!(format!("{:?}", compile_text("-{{ source.spec.long }}").render(&scope)), @r#"Err(Failed("the result is larger than 1572864 bytes"))"#);
}

/// A consumer's list has one template evaluated a thousand times.
#[test]
fn all_evaluations_of_a_source_are_capped_together() {
    let mut scope = hostile_scope();
    let (much, little, large) =
        (compile("range(source.spec.million)"), compile("source.metadata.name | length"), compile("source.spec.long"));
    (0..100).for_each(|_| assert!(much.evaluate(&scope).is_err()));
    assert!(little.evaluate(&scope).is_ok(), "each has its own");
    scope.limit();
    (0..63).for_each(|_| assert!(much.evaluate(&scope.clone()).is_err()));
    assert!(little.evaluate(&scope).is_ok());
    assert!(much.evaluate(&scope).is_err());
    insta::assert_snapshot!(format!("{:?}", little.evaluate(&scope)), @r#"Err(Failed("the expressions of this source do more work than all of them may (256 MiB of data touched)"))"#);
    scope.limit();
    (0..63).for_each(|_| assert!(large.evaluate(&scope).is_ok()));
    insta::assert_snapshot!(format!("{:?}", large.evaluate(&scope)), @r#"Err(Failed("the results of this source are larger than 67108864 bytes together"))"#);
    assert!(little.evaluate(&scope).is_ok(), "what is left is there for others");
}

#[test]
fn depth_is_capped() {
    let open = "[".repeat(10);
    let close = "]".repeat(10);
    let outcome = compile(&format!("{open}source.spec.deep | fromjson{close}")).evaluate(&hostile_scope());
    insta::assert_snapshot!(format!("{outcome:?}"), @r#"Err(Failed("the result is nested more than 128 levels deep"))"#);
}

#[test]
fn loops_are_capped() {
    let loops = [
        "{% for a in source.spec.numbers %}{% for b in source.spec.numbers %}{% endfor %}{% endfor %}",
        "{% for a in source.spec.list %}raw text that is printed once for each item, again and again{{ a.a }}{{ a.a }}{{ a.a }}{% endfor %}",
        "{% for a in source.spec.list %}{{ source.spec.long }}{% endfor %}",
    ];
    for text in loops {
        let refused = compile_text(text).render(&hostile_scope());
        assert!(
            matches!(&refused, Err(Unrendered::Failed(why)) if why.contains("more work than")),
            "{text}: {refused:?}"
        );
    }
}

/// A budget that leaves share: many leaves cannot do together what one cannot.
#[test]
fn a_template_is_capped_as_a_whole() {
    let leaf = node("${{ source.spec.long }}");
    let list = Arc::new(Node { span: 0..1, value: NodeValue::Sequence(vec![leaf; 100]) });
    let (template, _) = with_names(|names, findings| crate::template::Template::compile(&list, names, findings));
    let rendered = template.map(|template| template.render(&hostile_scope()));
    insta::assert_snapshot!(format!("{rendered:?}"), @r#"Some(Err(Failed("[1]: the result is larger than 1572864 bytes")))"#);
}

/// Left to themselves, these overflow the stack of minijinja's compiler or take gigabytes.
#[test]
fn what_overflows_elsewhere_is_refused_at_load() {
    let texts = [
        format!("${{{{ {}1 }}}}", "-".repeat(1000)),
        format!("${{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("${{{{ {}true }}}}", "not ".repeat(240)),
        format!("${{{{ 1{} }}}}", "+1".repeat(500)),
        format!("${{{{ 1{} }}}}", " if 1 else 1".repeat(80)),
        format!("${{{{ {}1{} }}}}", "(".repeat(500), ")".repeat(500)),
        format!("${{{{ {}1{} }}}}", "{'a':".repeat(140), "}".repeat(140)),
        format!("${{{{ 'a'{} }}}}", "|lower".repeat(150)),
        format!("${{{{ 'a'{} }}}}", "[0]".repeat(300)),
        "{% if 1 %}".repeat(5000),
        "{% for a in [1] %}".repeat(60) + &"{% endfor %}".repeat(60),
        "{{ (".repeat(2000),
    ];
    for text in texts {
        let (compiled, findings) =
            with_names(|names, findings| crate::template::Template::compile(&node(&text), names, findings));
        assert!(compiled.is_none() && !findings.is_empty(), "{}", &text[..40]);
    }
}

#[test]
fn the_longest_paths_are_fine() {
    let path = format!("source{} | default(1)", ".a".repeat(450));
    assert_eq!(compile(&path).evaluate(&scope()), Ok(Evaluated::Value(json!(1))));
}
