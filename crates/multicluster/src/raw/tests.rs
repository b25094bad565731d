use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(text: &str) -> Parsed<'_> {
    Parsed::read(text).unwrap()
}

#[test]
fn managed_fields_and_last_applied_are_dropped_wherever_they_stand() {
    for text in [
        r#"{"metadata":{"managedFields":[{"a":1}],"name":"x","uid":"u","resourceVersion":"7"},"spec":{}}"#,
        r#"{"metadata":{"name":"x","managedFields":[{"a":1}],"uid":"u","resourceVersion":"7"},"spec":{}}"#,
        r#"{"spec":{},"metadata":{"name":"x","uid":"u","resourceVersion":"7","managedFields":[{"a":1}]}}"#,
        r#" {"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"managedFields\":1}"},"name":"x","uid":"u","resourceVersion":"7","managedFields":[]},"spec":{}} "#,
    ] {
        let object = read(text).object().unwrap();
        assert_eq!((object.uid(), object.resource_version()), ("u", "7"), "{text}");
        let mut expected: Value = serde_json::from_str(text).unwrap();
        expected["metadata"].as_object_mut().unwrap().remove("managedFields");
        if let Some(annotations) = expected["metadata"].get_mut("annotations") {
            annotations.as_object_mut().unwrap().remove(LAST_APPLIED);
        }
        assert_eq!(object.value(), Ok(expected));
    }
}

#[test]
fn of_managed_fields_the_lists_are_kept_in_which_the_engine_owns_items() {
    let fields = r#"[{"manager":"sync-engine/main/db","operation":"Apply","fieldsV1":{"f:spec":{"f:users":{"k:{\"name\":\"ann\"}":{".":{}}}}}}]"#;
    for text in [
        format!(r#"{{"metadata":{{"name":"x","managedFields":{fields},"uid":"u"}},"spec":{{}}}}"#),
        format!(r#"{{"metadata":{{"name":"x","uid":"u","managedFields":{fields}}},"spec":{{}}}}"#),
    ] {
        let kept = read(&text).object().unwrap().value().unwrap();
        let expected =
            json!({"metadata": {"name": "x", "uid": "u", "managedFields": {"/spec/users": ["name"]}}, "spec": {}});
        assert_eq!(kept, expected);
    }
}

#[test]
fn of_an_object_that_is_kept_in_parts_the_rest_is_dropped() {
    let text = r#"{"metadata":{"name":"x","uid":"u","resourceVersion":"7","annotations":{"kcp.io/path":"root:a","much":"text"}},"spec":{"export":{"name":"db","more":1}}}"#;
    let object =
        read(text).object().unwrap().with_only(&["/metadata/annotations/kcp.io~1path", "/spec/export/name", "/status"]);
    assert_eq!((object.uid(), object.resource_version()), ("u", "7"));
    let kept = json!({"metadata": {"annotations": {"kcp.io/path": "root:a"}}, "spec": {"export": {"name": "db"}}});
    assert_eq!(object.value(), Ok(kept));
}

#[test]
fn facts_are_read_from_the_metadata_alone() {
    let text = r#"{"kind":"Db","spec":{"metadata":{"name":"no","uid":"no"}},"metadata":{"name":"db","namespace":"ns","uid":"u1","resourceVersion":"12","deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"sync-engine.dev/owner":"abc"},"annotations":{"kcp.io/cluster":"c1"}}}"#;
    let parsed = read(text);
    assert_eq!((&*parsed.name, parsed.namespace, parsed.cluster), ("db", "ns", Some("c1")));
    let object = parsed.object().unwrap();
    assert_eq!((object.uid(), object.owner(), object.deleting()), ("u1", Some("abc"), true));
    assert_eq!(object.json(), text);
}

#[test]
fn packing_changes_nothing_but_the_size() {
    let text = |name: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","uid":"u-{name}","resourceVersion":"7"}},"spec":{{"text":"äöü and a long text that all of them share"}}}}"#
        )
    };
    let dictionary: Arc<[u8]> = text("first").into_bytes().into();
    let plain = Object::from_json(text("second").as_bytes()).unwrap();
    let packed = plain.packed(&dictionary, &mut Vec::new()).unwrap();
    assert!(matches!(&packed.text, Text::Packed { bytes, .. } if bytes.len() * 2 < text("second").len()));
    assert_eq!(packed.json(), plain.json());
    assert_eq!((packed.uid(), packed.resource_version()), ("u-second", "7"));
}

/// A tenant may nest as deeply as API servers allow: that must end in a message, and not in a panic.
#[test]
fn an_object_without_bottom_is_kept_and_not_read() {
    let nested = format!("{}1{}", r#"{"a":"#.repeat(9_000), "}".repeat(9_000));
    let text = format!(r#"{{"metadata":{{"name":"x","uid":"u","resourceVersion":"7"}},"spec":{nested}}}"#);
    let object = Object::from_json(text.as_bytes()).unwrap();
    assert_eq!((object.uid(), object.resource_version()), ("u", "7"));
    let error = object.value().unwrap_err().to_string();
    insta::assert_snapshot!(error, @"the object cannot be read: recursion limit exceeded at line 1 column 695 (the engine reads 127 levels)");
}

/// Lists of metadata have managedFields.
#[test]
fn an_outline_is_read_however_deep_the_managed_fields_are() {
    let fields = format!("{}1{}", r#"{"f:a":"#.repeat(9_000), "}".repeat(9_000));
    let text = format!(
        r#"{{"metadata":{{"name":"x","uid":"u","labels":{{"a":"b"}},"annotations":null,"managedFields":[{{"fieldsV1":{fields}}}]}}}}"#
    );
    let object = read(&text).of_list(None, true).object().unwrap();
    assert_eq!(object.json(), r#"{"metadata":{"annotations":null,"labels":{},"name":"x","uid":"u"}}"#);
}

/// `kubectl create role 'a&"b'`
#[test]
fn a_name_may_hold_what_json_escapes() {
    assert_eq!(read(r#"{"metadata":{"name":"a\u0026\"b","uid":"u"}}"#).name, r#"a&"b"#);
}

#[test]
fn what_is_no_object_is_said() {
    let error = |text: &str| Object::from_json(text.as_bytes()).unwrap_err().to_string();
    insta::assert_snapshot!(error("[]"), @"not a Kubernetes object: it is no map");
    insta::assert_snapshot!(error("{}"), @"not a Kubernetes object: it has no metadata");
    insta::assert_snapshot!(error(r#"{"metadata":{"name":7}}"#), @"not a Kubernetes object: it has no name");
    assert!(Object::from_json(b"{\"metadata\":{\"name\":\"a\"").is_err());
    assert!(Object::from_json(b"\xff").is_err());
}

proptest! {
    #[test]
    fn any_object_keeps_all_but_what_is_dropped(
        keys in proptest::collection::vec("[a-z\"\\\\é]{0,6}", 0..5),
        managed_at in 0usize..6,
        applied_at in 0usize..6,
    ) {
        let mut annotations = serde_json::Map::new();
        let mut metadata = serde_json::Map::new();
        for (i, key) in keys.iter().enumerate() {
            if i == applied_at { annotations.insert(LAST_APPLIED.into(), json!("{}")); }
            if i == managed_at { metadata.insert("managedFields".into(), json!([{"f:x": {}}])); }
            annotations.insert(format!("a{i}{key}"), json!(key));
            metadata.insert(format!("m{i}{key}"), json!([key]));
        }
        metadata.insert("annotations".into(), Value::Object(annotations.clone()));
        metadata.insert("name".into(), json!("n"));
        metadata.insert("uid".into(), json!("some-uid"));
        let text = json!({"metadata": metadata}).to_string();
        let object = read(&text).object().unwrap();
        prop_assert_eq!(object.uid(), "some-uid");
        annotations.remove(LAST_APPLIED);
        metadata.remove("managedFields");
        metadata.insert("annotations".into(), Value::Object(annotations));
        prop_assert_eq!(object.value(), Ok(json!({"metadata": metadata})));
    }
}
