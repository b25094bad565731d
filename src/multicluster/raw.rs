//! Objects as they are kept: their JSON text without managedFields, and the few facts that are asked for all the time.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Label that holds the owner hash of an object we made.
pub const OWNER_LABEL: &str = "sync-engine.dev/owner";
/// Annotation by which kcp says which logical cluster an object of a wildcard list lives in.
pub const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One object, slim: its JSON text, and the facts that are asked for all the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    text: Text,
    /// uid, resourceVersion and owner, one behind the other.
    facts: Box<str>,
    uid: Span,
    resource_version: Span,
    owner: Span,
    deleting: bool,
}

/// An object's JSON text. Objects of one kind repeat each other's keys and most of their values, so a store keeps them
/// compressed against one of their own: about a fifth of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Plain(Box<str>),
    Packed { bytes: Box<[u8]>, length: u32, dictionary: Arc<[u8]> },
}

/// JSON that is no Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Kubernetes object: {0}")]
pub struct NotAnObject(String);

impl NotAnObject {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Object {
    /// From an answer's body: drops `metadata.managedFields` and kubectl's last-applied annotation without building a tree.
    pub fn from_json(json: &[u8]) -> Result<Self, NotAnObject> {
        let text = std::str::from_utf8(json).map_err(|e| NotAnObject(e.to_string()))?;
        Ok(Parsed::read(text, None)?.object())
    }

    /// The whole object, without what was dropped.
    pub fn json(&self) -> Cow<'_, str> {
        match &self.text {
            Text::Plain(text) => Cow::Borrowed(text),
            Text::Packed { bytes, length, dictionary } => {
                let unpacked = decompress_with_dict(bytes, *length as usize, dictionary);
                let text = unpacked.expect("packed by this process with the same dictionary");
                Cow::Owned(String::from_utf8(text).expect("a text was packed"))
            }
        }
    }

    /// The same object, its text packed against a dictionary; `None` where that makes it no smaller.
    pub(super) fn packed(&self, dictionary: &Arc<[u8]>) -> Option<Self> {
        let Text::Plain(text) = &self.text else { return None };
        let bytes = compress_with_dict(text.as_bytes(), dictionary);
        let length = u32::try_from(text.len()).ok().filter(|_| bytes.len() < text.len())?;
        let text = Text::Packed { bytes: bytes.into_boxed_slice(), length, dictionary: dictionary.clone() };
        Some(Self { text, facts: self.facts.clone(), ..*self })
    }

    /// Parsed anew each time: keep it no longer than a reconcile.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.json()).expect("the text was read as JSON when the object was made")
    }

    pub fn uid(&self) -> &str {
        self.uid.of(&self.facts)
    }

    /// Comparable within one endpoint only, and then as a number.
    pub fn resource_version(&self) -> &str {
        self.resource_version.of(&self.facts)
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn deleting(&self) -> bool {
        self.deleting
    }

    /// The label `sync-engine.dev/owner`.
    pub fn owner(&self) -> Option<&str> {
        (self.owner.length > 0).then(|| self.owner.of(&self.facts))
    }
}

/// Apiversion and kind of a list's items, which API servers leave out in lists of built-in kinds.
#[derive(Debug, Clone, Copy)]
pub struct ItemType<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
}

/// An object as it stands in a text, and the facts about it, borrowed from there.
#[derive(Debug)]
pub struct Parsed<'a> {
    pub name: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The annotation `kcp.io/cluster`.
    pub cluster: Option<&'a str>,
    pub uid: &'a str,
    pub resource_version: &'a str,
    owner: &'a str,
    deleting: bool,
    text: &'a str,
    cut: Cut,
    prefix: String,
}

impl<'a> Parsed<'a> {
    pub fn read(text: &'a str, item_type: Option<ItemType<'_>>) -> Result<Self, NotAnObject> {
        let text = text.trim();
        let top = entries(text)?;
        let metadata = entries(get(&top, "metadata").ok_or_else(|| NotAnObject("it has no metadata".into()))?.get())?;
        let annotations = map_of(&metadata, "annotations")?;
        let labels = map_of(&metadata, "labels")?;

        let name = get(&metadata, "name").and_then(plain).ok_or_else(|| NotAnObject("it has no name".into()))?;
        let cut =
            Cut::new(text, [cut_range(text, &metadata, "managedFields"), cut_range(text, &annotations, LAST_APPLIED)]);
        let prefix = item_type.filter(|_| get(&top, "kind").is_none()).map(type_prefix).unwrap_or_default();
        let fact = |map: &Entries<'a>, key: &str| get(map, key).and_then(plain).unwrap_or_default();
        Ok(Self {
            name,
            namespace: fact(&metadata, "namespace"),
            cluster: get(&annotations, CLUSTER_ANNOTATION).and_then(plain),
            uid: fact(&metadata, "uid"),
            resource_version: fact(&metadata, "resourceVersion"),
            owner: fact(&labels, OWNER_LABEL),
            deleting: get(&metadata, "deletionTimestamp").is_some_and(|value| value.get() != "null"),
            text,
            cut,
            prefix,
        })
    }

    /// The object, to keep: its text is copied here and not before, for most events tell what is known already.
    pub fn object(&self) -> Object {
        let mut facts = String::with_capacity(self.uid.len() + self.resource_version.len() + self.owner.len());
        let [uid, resource_version, owner] =
            [self.uid, self.resource_version, self.owner].map(|fact| Span::push(&mut facts, fact));
        let text = Text::Plain(self.cut.text(self.text, &self.prefix));
        Object { text, facts: facts.into_boxed_str(), uid, resource_version, owner, deleting: self.deleting }
    }
}

/// A part of an object's facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    length: u32,
}

impl Span {
    fn push(text: &mut String, part: &str) -> Self {
        let fits = |n: usize| u32::try_from(n).expect("an object is smaller than 4 GiB");
        let span = Self { start: fits(text.len()), length: fits(part.len()) };
        text.push_str(part);
        span
    }

    fn of(self, text: &str) -> &str {
        &text[self.start as usize..(self.start + self.length) as usize]
    }
}

/// What is left out of a text: at most two ranges, in order.
#[derive(Debug)]
struct Cut(Vec<Range<usize>>);

impl Cut {
    fn new(text: &str, ranges: [Option<Range<usize>>; 2]) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().flatten().filter(|range| range.end <= text.len()).collect();
        ranges.sort_by_key(|range| range.start);
        Self(ranges)
    }

    /// The text without the ranges, and with `prefix` behind its opening brace: one allocation of the exact size.
    fn text(&self, text: &str, prefix: &str) -> Box<str> {
        let removed: usize = self.0.iter().map(Range::len).sum();
        let mut kept = String::with_capacity(text.len() - removed + prefix.len());
        let mut from = 0;
        if !prefix.is_empty() {
            kept.push('{');
            kept.push_str(prefix);
            from = 1;
        }
        for range in &self.0 {
            kept.push_str(&text[from..range.start]);
            from = range.end;
        }
        kept.push_str(&text[from..]);
        kept.into_boxed_str()
    }
}

fn type_prefix(of: ItemType<'_>) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    format!("\"apiVersion\":{},\"kind\":{},", text(of.api_version), text(of.kind))
}

/// The range that takes an entry out of a JSON map, comma included.
fn cut_range(text: &str, map: &Entries<'_>, key: &str) -> Option<Range<usize>> {
    let at = map.position(key)?;
    let start = |(key, _): &(&RawValue, &RawValue)| offset(text, key.get());
    let end = |(_, value): &(&RawValue, &RawValue)| offset(text, value.get()) + value.get().len();
    Some(match (map.0.get(at + 1), at.checked_sub(1)) {
        (Some(next), _) => start(&map.0[at])..start(next),
        (None, Some(previous)) => end(&map.0[previous])..end(&map.0[at]),
        (None, None) => start(&map.0[at])..end(&map.0[at]),
    })
}

/// Offset of a part within the text that it is borrowed from.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

/// The entries of a JSON map, keys and values as they stand in the text.
#[derive(Default)]
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl Entries<'_> {
    fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(raw, _)| unquoted(raw.get()) == Some(key))
    }
}

fn entries(text: &str) -> Result<Entries<'_>, NotAnObject> {
    serde_json::from_str(text).map_err(|e| NotAnObject(e.to_string()))
}

fn map_of<'a>(map: &Entries<'a>, key: &str) -> Result<Entries<'a>, NotAnObject> {
    match get(map, key) {
        Some(value) if value.get() != "null" => entries(value.get()),
        _ => Ok(Entries::default()),
    }
}

fn get<'a>(map: &Entries<'a>, key: &str) -> Option<&'a RawValue> {
    map.position(key).map(|at| map.0[at].1)
}

/// A string without escapes, which is all that names, uids and versions ever are.
fn plain(value: &RawValue) -> Option<&str> {
    unquoted(value.get()).filter(|text| !text.contains('\\'))
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(8);
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn read(text: &str) -> Parsed<'_> {
        Parsed::read(text, None).unwrap()
    }

    #[test]
    fn managed_fields_and_last_applied_are_dropped_wherever_they_stand() {
        for text in [
            r#"{"metadata":{"managedFields":[{"a":1}],"name":"x","uid":"u","resourceVersion":"7"},"spec":{}}"#,
            r#"{"metadata":{"name":"x","managedFields":[{"a":1}],"uid":"u","resourceVersion":"7"},"spec":{}}"#,
            r#"{"spec":{},"metadata":{"name":"x","uid":"u","resourceVersion":"7","managedFields":[{"a":1}]}}"#,
            r#" {"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"managedFields\":1}"},"name":"x","uid":"u","resourceVersion":"7","managedFields":[]},"spec":{}} "#,
        ] {
            let object = read(text).object();
            assert_eq!((object.uid(), object.resource_version()), ("u", "7"), "{text}");
            let mut expected: Value = serde_json::from_str(text).unwrap();
            expected["metadata"].as_object_mut().unwrap().remove("managedFields");
            if let Some(annotations) = expected["metadata"].get_mut("annotations") {
                annotations.as_object_mut().unwrap().remove(LAST_APPLIED);
            }
            assert_eq!(object.value(), expected);
        }
    }

    #[test]
    fn facts_are_read_from_the_metadata_alone() {
        let text = r#"{"kind":"Db","spec":{"metadata":{"name":"no","uid":"no"}},"metadata":{"name":"db","namespace":"ns","uid":"u1","resourceVersion":"12","deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"sync-engine.dev/owner":"abc"},"annotations":{"kcp.io/cluster":"c1"}}}"#;
        let parsed = read(text);
        assert_eq!((parsed.name, parsed.namespace, parsed.cluster), ("db", "ns", Some("c1")));
        let object = parsed.object();
        assert_eq!((object.uid(), object.owner(), object.deleting()), ("u1", Some("abc"), true));
        assert_eq!(object.json(), text);
    }

    #[test]
    fn items_of_typed_lists_get_their_kind() {
        let text = r#"{"metadata":{"name":"x","uid":"u","managedFields":[1],"resourceVersion":"3"}}"#;
        let item_type = Some(ItemType { api_version: "v1", kind: "ConfigMap" });
        let object = Parsed::read(text, item_type).unwrap().object();
        assert_eq!(
            object.json(),
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","uid":"u","resourceVersion":"3"}}"#
        );
        assert_eq!((object.uid(), object.resource_version()), ("u", "3"));
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
        let packed = plain.packed(&dictionary).unwrap();
        assert!(matches!(&packed.text, Text::Packed { bytes, .. } if bytes.len() * 2 < text("second").len()));
        assert_eq!(packed.json(), plain.json());
        assert_eq!((packed.uid(), packed.resource_version()), ("u-second", "7"));
    }

    #[test]
    fn what_is_no_object_is_said() {
        let error = |text: &str| Object::from_json(text.as_bytes()).unwrap_err().to_string();
        insta::assert_snapshot!(error("[]"), @"not a Kubernetes object: invalid type: sequence, expected a JSON object at line 1 column 0");
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
            let object = read(&text).object();
            prop_assert_eq!(object.uid(), "some-uid");
            annotations.remove(LAST_APPLIED);
            metadata.remove("managedFields");
            metadata.insert("annotations".into(), Value::Object(annotations));
            prop_assert_eq!(object.value(), json!({"metadata": metadata}));
        }
    }
}
