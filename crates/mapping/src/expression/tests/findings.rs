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

/// Each file of `tests/ui/expressions` is a list of texts, and has their findings beside it.
#[test]
fn findings_of_expressions() {
    crate::tests::each("tests/ui/expressions", |_, file| {
        let root = crate::yaml::parse_one(file).and_then(|document| document.root).expect("a list");
        let NodeValue::Sequence(texts) = &root.value else { panic!("{file}") };
        texts.iter().map(|text| findings_of(text.as_str().expect("a text"))).collect()
    });
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
