//! Values as YAML text, for people: what `kubectl get -o yaml` would show.

use serde_json::{Map, Value};

use crate::names::is_hidden;

/// Block style with two spaces a level, ending in a line break. Reads back as the same value, in YAML 1.1 and 1.2.
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    node(value, 0, &mut text);
    text
}

/// Several documents, each after the first behind a `---`.
pub fn write_all<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    let documents: Vec<String> = values.into_iter().map(write).collect();
    documents.join("---\n")
}

/// Begins where its parent left off: at a line's start, or after `- ` or `: `.
fn node(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => mapping(fields, depth, text),
        Value::Array(items) if !items.is_empty() => sequence(items, depth, text),
        scalar => leaf(scalar, depth, text),
    }
}

fn mapping(fields: &Map<String, Value>, depth: usize, text: &mut String) {
    for (position, (key, value)) in fields.iter().enumerate() {
        if position > 0 {
            indent(depth, text);
        }
        text.push_str(&inline_text(key));
        text.push(':');
        // Lists stand below their key, not further in.
        let (is_block, below) = match value {
            Value::Object(fields) => (!fields.is_empty(), depth + 1),
            Value::Array(items) if !items.is_empty() => (true, depth),
            _ => (false, depth + 1),
        };
        text.push(if is_block { '\n' } else { ' ' });
        if is_block {
            indent(below, text);
        }
        node(value, below, text);
    }
}

fn sequence(items: &[Value], depth: usize, text: &mut String) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            indent(depth, text);
        }
        text.push_str("- ");
        node(item, depth + 1, text);
    }
}

fn indent(depth: usize, text: &mut String) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// A scalar, or something empty, and the line break behind it.
fn leaf(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::String(string) if is_literal(string) => literal(string, depth.max(1), text),
        Value::String(string) => text.push_str(&inline_text(string)),
        other => text.push_str(&other.to_string()),
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Whether a string reads best line by line, and can: with one line break at its end at most, and nothing that the style
/// would fold, strip or take for indentation.
fn is_literal(string: &str) -> bool {
    let body = string.strip_suffix('\n').unwrap_or(string);
    let readable = |line: &str| !line.ends_with([' ', '\t']) && !line.contains(is_special);
    body.contains('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && !body.ends_with('\n')
        && body.split('\n').all(readable)
}

/// What a reader may take for a line break, or for nothing at all, and what turns a line around: `diff` shows a tenant's texts.
fn is_special(character: char) -> bool {
    (is_hidden(character) && character != '\t') || matches!(character, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn literal(string: &str, depth: usize, text: &mut String) {
    text.push_str(if string.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in string.lines() {
        if !line.is_empty() {
            indent(depth, text);
            text.push_str(line);
        }
        text.push('\n');
    }
}

/// Plain where no reader can take it for anything else, otherwise as JSON, which is YAML.
fn inline_text(text: &str) -> String {
    const SPECIAL: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ' '))
        && !text.ends_with(' ')
        && !SPECIAL.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { quoted(text) }
}

/// JSON, with what is special escaped as well.
fn quoted(text: &str) -> String {
    let mut json = String::new();
    for character in Value::from(text).to_string().chars() {
        if !is_special(character) {
            json.push(character);
        } else {
            json.push_str(&format!("\\u{:04x}", u32::from(character)));
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_like_what_kubectl_shows() {
        let value = json!({
            "metadata": {"name": "db", "labels": {"app.kubernetes.io/name": "db", "on": "1"}, "annotations": {}},
            "data": {"config": "a: 1\nb:\n\n  c\n", "tail": "one\ntwo", "odd": "a \nb", "port": "27017", "empty": "",
                "turned": "a\n\u{202e}b"},
            "spec": {"members": 3, "ratio": 1.0, "hosts": ["a", {"b": [1, [2]], "c": null}], "none": []},
        });
        insta::assert_snapshot!(write(&value), @r#"
        data:
          config: |
            a: 1
            b:

              c
          empty: ""
          odd: "a \nb"
          port: "27017"
          tail: |-
            one
            two
          turned: "a\n\u202eb"
        metadata:
          annotations: {}
          labels:
            app.kubernetes.io/name: db
            "on": "1"
          name: db
        spec:
          hosts:
          - a
          - b:
            - 1
            - - 2
            c: null
          members: 3
          none: []
          ratio: 1.0
        "#);
        insta::assert_snapshot!(write_all([&json!({"a": 1}), &json!("b")]), @r"
        a: 1
        ---
        b
        ");
    }

    fn values() -> impl Strategy<Value = Value> {
        let text =
            prop_oneof!["[a-zA-Z0-9 ./:#'\"{}\\[\\]&*!|>%@`,?\n\t-]{0,12}", ".{0,6}", "(yes|No|~|null|0x1|1e3|---)"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                // Our own reader refuses the merge key, quoted or not.
                prop::collection::vec((text.clone().prop_filter("no merge key", |key| key != "<<"), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_back_as_the_same_value(value in values()) {
            let text = write(&value);
            let document = crate::yaml::parse_one(&text);
            let read = document.and_then(|document| document.root).map_or(Value::Null, |root| root.to_json());
            prop_assert_eq!(&read, &value, "{}", text);
            let other: Value = serde_saphyr::from_str(&text).expect("YAML to another reader");
            prop_assert_eq!(other, value, "{}", text);
        }
    }
}
