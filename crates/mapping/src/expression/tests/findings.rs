//! What is wrong with an expression, where, and what its author reads.

use super::*;

/// The findings of a text, each with a caret under what it points at.
fn report(findings: &[Finding], text: &str) -> String {
    let mut report = String::new();
    for finding in findings {
        let before = text[..finding.span.start].chars().count();
        let width = text[finding.span.clone()].chars().count().max(1);
        report.push_str(&format!(
            "{text}\n{}{} {} {}\n",
            " ".repeat(before),
            "^".repeat(width),
            finding.code,
            finding.message
        ));
        if let Some(help) = &finding.help {
            report.push_str(&format!("    = help: {help}\n"));
        }
    }
    report
}

fn findings_of(text: &str) -> String {
    let (template, findings) =
        with_names(|names, findings| crate::template::Template::compile(&node(text), names, findings));
    assert_eq!(template.is_none(), !findings.is_empty(), "{text}");
    report(&findings, text)
}

fn all(texts: &[&str]) -> String {
    texts.iter().map(|text| findings_of(text)).collect()
}

#[test]
fn syntax() {
    report_snapshot!(all(&[
        "${{ }}",
        "${{ 1 + }}",
        "${{ source.spec. }}",
        "${{ 'open }}",
        "${{ a b }}",
        "${{ source.spec.x",
        "${{ ü }}",
        "${{ 1 | }}",
        "{{ 1 ",
        "{% if 1 %}x",
        "{% endif %}",
        "{% for x in %}{% endfor %}",
        "{{ 'ünïcödé' | }} ü",
        "${{ 340282366920938463463374607431768211455 }}",
        "prefix-${{ source.metadata.name }}",
        "${{ source.metadata.name }}-suffix",
        "a ${{ 1 }}b ${{ 2 }}",
        "${{ (1 }}",
        "${{ [1, {'a': 2 }} and more",
        "${{ 1) }}",
        "${{ ü + 1 }}",
        "${{ 'a' ü }} b",
    ]));
}

#[test]
fn operators_of_other_languages() {
    report_snapshot!(all(&[
        "${{ source.spec.text == \"web\" && source.spec.yes == \"x\" }}",
        "${{ source.spec.yes && source.spec.no }}",
        "${{ source.spec.text || 'x' }}",
        "${{ \"x\" ?? garbage }}",
        "${{ source.spec.yes ? 'a' : 'b' }}",
        "${{ source.spec.empty?.a }}",
        "${{ !source.spec.yes }}",
        "${{ has(source.spec.text) }}",
        "a{{ \"x\" ?? garbage }}b",
        "{% if \"x\" && 1 %}a{% endif %}",
    ]));
}

#[test]
fn functions() {
    report_snapshot!(all(&[
        "${{ 1 | defalt(2) }}",
        "${{ 1 | zzz }}",
        "${{ shorthash('a') }}",
        "${{ lower('a') }}",
        "${{ 1 | short_hash }}",
        "${{ 1 is define }}",
        "${{ 'a' | replace('b') }}",
        "${{ 'a' | lower(1) }}",
        "${{ [1] | sort(reversed=true) }}",
        "${{ [1] | sort(true) }}",
        "${{ 1 | default(1, value=2) }}",
        "${{ range() }}",
        "${{ range(*source.spec.numbers) }}",
        "${{ source.spec.text.upper() }}",
        "${{ [1] | map('uper') }}",
        "${{ [1] | select('defind') }}",
        "${{ 1 if true }}",
        "${{ [1][::2] }}",
        "${{ nope(source.stats, vars.x) | alsonope(objects.y) }}",
        "${{ 'a' | regex_replace('(', 'b') }}",
        "${{ 'a' | regex_replace(source.spec.text, 'b') }}",
        "${{ 'a' | regex_replace('a') }}",
        "${{ 'a' | regex_replace('(\\\\w{99}){99}', 'b') }}",
        "${{ ['a'] | map('regex_replace', 'a', 'b') }}",
    ]));
}

#[test]
fn statements() {
    report_snapshot!(all(&[
        "{% set a = 1 %}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% filter upper %}x{% endfilter %}",
        "{% for a in [1] recursive %}{% endfor %}",
        "{% for source in [1] %}{% endfor %}",
        "{% for a, b, c in [1] %}{% endfor %}",
        "{% for a in [1] %}{% endfor %}{{ a }}",
    ]));
}

#[test]
fn names() {
    report_snapshot!(all(&[
        "${{ sorce.spec.x }}",
        "${{ members }}",
        "${{ db.status }}",
        "${{ usr.name }}",
        "${{ hello }}",
        "${{ range }}",
        "${{ vars.member }}",
        "${{ vars }}",
        "${{ vars['x'] }}",
        "${{ objects.dd.status }}",
        "${{ objects[source.spec.x] }}",
        "${{ related.nothing }}",
        "${{ source.status.phase }}",
        "${{ source['status'] }}",
        "${{ source.metadata.resourceVersion }}",
        "${{ workspace.name }}",
        "${{ placement.foo.bar }}",
        "a {{ sorce.x }} b {{ vars.y }}",
    ]));
}

#[test]
fn roots_depend_on_the_place() {
    let check = |roots: RootSet, texts: &[&str]| -> String {
        texts
            .iter()
            .map(|text| {
                let mut findings = Vec::new();
                Text::compile(&node(text), &Names::only(roots), &mut findings);
                report(&findings, text)
            })
            .collect()
    };
    let placement = check(
        RootSet::PLACEMENT,
        &["{{ objects.db.x }}", "{{ placement.name }}", "{{ vars.x }}", "{{ source.metadata.name }}"],
    );
    let shared = check(
        RootSet::SHARED,
        &[
            "{{ source.x }}",
            "{{ placement.name }}",
            "${{ placement }}",
            "{{ placement.namespace }}{{ target.cluster }}",
        ],
    );
    let transform = check(RootSet::TRANSFORM, &["{{ value }}", "{{ objects.db }}"]);
    report_snapshot!(placement + &shared + &transform);
}

#[test]
fn lengths() {
    let long = format!("${{{{ {} }}}}", "1 + ".repeat(300) + "1");
    let long_text = format!("{{{{ {} }}}}", "1 + ".repeat(300) + "1");
    let deep = format!("${{{{ {}1{} }}}}", "[".repeat(70), "]".repeat(70));
    let chain = format!("${{{{ 1{} }}}}", " ~ 1".repeat(100));
    let tags = "{% if true %}{% endif %}".repeat(40);
    let elifs = format!("{{% if true %}}{}{{% endif %}}", "{% elif true %}".repeat(5000));
    let huge = "{{ 1 }}".repeat(10_000);
    let codes: Vec<_> = [long, long_text, deep, chain, tags, elifs, huge]
        .iter()
        .map(|text| {
            let (compiled, findings) =
                with_names(|names, findings| crate::template::Template::compile(&node(text), names, findings));
            assert!(compiled.is_none());
            findings
                .iter()
                .map(|finding| format!("{} {}", finding.code, finding.message))
                .collect::<Vec<_>>()
                .join("; ")
        })
        .collect();
    insta::assert_snapshot!(codes.join("\n"), @r#"
    SE0208 an expression has at most 1024 bytes
    SE0208 an expression has at most 1024 bytes
    SE0208 the expression is nested more than 64 levels deep
    SE0208 the expression is nested more than 64 levels deep
    SE0208 a text has at most 64 tags
    SE0208 a text with expressions has at most 65536 bytes
    SE0208 a text with expressions has at most 65536 bytes
    "#);
}
