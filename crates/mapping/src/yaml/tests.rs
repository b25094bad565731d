use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::tests::{each, rendered};

/// Every finding of a file on a line of its own: code, the text it points at, message, help.
fn findings(file: &str) -> String {
    let documents = parse(file.as_bytes());
    documents.iter().flat_map(|document| &document.findings).map(|finding| shown(file, finding)).collect()
}

fn shown(file: &str, finding: &Finding) -> String {
    let help = finding.help.as_deref().map_or(String::new(), |help| format!(" ({help})"));
    format!("{} [{}] {}{help}\n", finding.code, &file[finding.span.clone()], finding.message)
}

fn root(file: &str) -> Arc<Node> {
    parse(file.as_bytes()).remove(0).root.expect("the text is YAML")
}

#[test]
fn values() {
    let node = root("a: 1\nb: [x, {c: ~}]\nd: !!str 5\ne: 'it''s'\non: yes\n1: 1.0\nf:\n");
    assert_eq!(
        node.to_json().to_string(),
        r#"{"1":1.0,"a":1,"b":["x",{"c":null}],"d":"5","e":"it's","f":null,"on":"yes"}"#
    );
}

/// Each document of a file of `tests/ui/yaml` has findings, which are beside it.
#[test]
fn findings_of_texts() {
    each("tests/ui/yaml", |name, file| {
        let documents = parse(file.as_bytes());
        assert!(documents.iter().all(|document| !document.findings.is_empty()));
        rendered(documents.into_iter().flat_map(|document| document.findings), name, file).join("\n\n")
    });
}

#[test]
fn limits() {
    insta::assert_snapshot!(findings(&format!("{}1{}", "[".repeat(65), "]".repeat(65))), @"SE0006 [[] more than 64 levels deep");
    let bomb: String =
        (1..7).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(","))).collect();
    insta::assert_snapshot!(findings(&format!("a0: &a0 [1,1,1,1,1,1,1,1]\n{bomb}")), @"SE0006 [*a3] aliases add more than 100000 values to the document");
    let deep: String = (1..70).map(|n| format!("b{n}: &b{n} [*b{}]\n", n - 1)).collect();
    insta::assert_snapshot!(findings(&format!("b0: &b0 [1]\n{deep}")), @"SE0006 [*b62] more than 64 levels deep");
    let large = parse(&vec![b'#'; Limits::MAPPINGS.bytes + 1]);
    insta::assert_snapshot!(large[0].findings[0].message, @"the file has 1048577 bytes; more than 1048576 are not read");
}

#[test]
fn a_broken_document_hides_no_neighbour() {
    for broken in [
        "a: [1, 2",
        "a: \"open",
        "a: 'open",
        "a: {b: c",
        "a: \"\\q\"",
        "a: *missing",
        "a: |\n  x\n y",
        "a: @x",
        "a: !<",
    ] {
        let file = format!("first: 1\n---\n{broken}\n---\nlast: 2\n");
        let documents = parse(file.as_bytes());
        let roots: Vec<_> =
            documents.iter().map(|document| document.root.as_ref().map(|root| root.to_json().to_string())).collect();
        assert_eq!(roots, [Some(r#"{"first":1}"#.into()), None, Some(r#"{"last":2}"#.into())], "{broken}");
        assert_eq!(documents[1].findings.len(), 1, "{broken}");
        let last = documents[2].root.as_ref().expect("checked above");
        assert_eq!(&file[last.get("last").expect("a key").span.clone()], "2");
    }
}

#[test]
fn documents_and_their_text() {
    let texts = |file: &[u8]| parse(file).iter().map(|document| document.text.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(b""), [""; 0]);
    assert_eq!(texts(b"# nothing\n---\n---\n# here\n...\n"), [""; 0]);
    assert_eq!(texts(b"\xef\xbb\xbfa: 1\n--- # one\nb: 2\n...\nc: 3\n"), ["a: 1\n", " # one\nb: 2\n", "c: 3\n"]);
    assert_eq!(texts(b"a: |\n  ---\n  x\n---x: 1\n"), ["a: |\n  ---\n  x\n---x: 1\n"]);
    assert_eq!(texts(b"a: 1\r\n---\r\nb: 2\r\n"), ["a: 1\r\n", "b: 2\r\n"]);
}

#[test]
fn encoding() {
    let documents = parse(b"a: 1\n---\nkind: Mapping\nmetadata: {name: x}\nb: \xff\n---\nc: 1\n");
    assert_eq!(documents.len(), 3);
    assert_eq!((documents[1].findings[0].code, documents[1].findings[0].span.clone()), ("SE0007", 46..47));
    assert!(parse(b"\xff\xfea\0:\0").iter().all(|document| document.root.is_none()));
}

#[test]
fn positions_inside_of_scalars() {
    let located = |file: &str, part: &str| {
        let node = root(file);
        let NodeValue::String(scalar) = &node.get("a").expect("a key").value else { panic!("not a string") };
        let at = scalar.text.find(part).expect("stands in the text");
        file[scalar.locate(at..at + part.len())].to_owned()
    };
    assert_eq!(located("a: x {{ name }}\n", "name"), "name");
    assert_eq!(located("a: 'it''s {{ name }}'\n", "name"), "name");
    assert_eq!(located("a: 'it''s'\n", "'"), "''");
    assert_eq!(located("a: \"\\u00e9\\t\\x41 \\\n  {{ name }}\"\n", "name"), "name");
    assert_eq!(located("a: \"\\u00e9x\"\n", "é"), "\\u00e9");
    assert_eq!(located("a: |\n  | one\n    {{ name }}\n", "name"), "name");
    assert_eq!(located("a: >-\n  one\n  two\n\n  {{ name }} é x\n", "é x"), "é x");
    assert_eq!(located("a: one\n  two {{ name }}\n", "two {{ name"), "two {{ name");
}

/// Of what is wrong with a document as a whole, `tests/ui/documents` has each kind.
#[test]
fn thousands_of_errors_end_soon() {
    let mut findings = Vec::new();
    let numbers = root(&format!("[{}]\n", "tiger, ".repeat(50_000)));
    assert!(from_node::<Vec<u16>>(&numbers, &|_| Vec::new(), &mut findings).is_none());
    assert_eq!(findings.len(), 100);
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        parse(&bytes);
    }

    #[test]
    fn any_text_can_be_read(text in "([ -~\\n\\té😀]|: |- |\\n  |\\{\\{|\\}\\}|---\\n|&a |\\*a|!!str |\"|'|\\||>){0,60}") {
        for document in parse(text.as_bytes()) {
            for finding in document.findings {
                prop_assert!(text.get(finding.span.clone()).is_some(), "{:?} in {text:?}", finding.span);
            }
        }
    }

    /// Every part of a quoted text is found where it stands.
    #[test]
    fn quoted_texts_keep_their_places(before in "[ -~é\\n\\t]{0,20}", part in "[a-zé😀]{1,8}", after in "[ -~é\\n\\t]{0,20}") {
        let quoted = serde_json::to_string(&format!("{before}{part}{after}")).expect("a string");
        let file = format!("a: {quoted}\n");
        let node = &parse(file.as_bytes())[0].root.clone().expect("JSON strings are YAML");
        let NodeValue::String(scalar) = &node.get("a").expect("the key").value else { panic!("not a string") };
        let at = before.len()..before.len() + part.len();
        prop_assert_eq!(&scalar.text[at.clone()], part.as_str());
        let place = scalar.locate(at);
        prop_assert!(file[place.clone()] == part || place == (3..file.len() - 1), "{:?}", &file[place]);
    }
}
