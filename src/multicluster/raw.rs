//! Objects as they are kept: their JSON text without managedFields, and the few facts that are asked for all the time.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
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

/// An object that is passed on and cannot be read: API servers take JSON of any depth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the object cannot be read: {0} (the engine reads 127 levels)")]
pub struct Unreadable(String);

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
    pub fn value(&self) -> Result<serde_json::Value, Unreadable> {
        serde_json::from_str(&self.json()).map_err(|error| Unreadable(error.to_string()))
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
        let mut pass = Pass { text, ..Pass::default() };
        let mut json = serde_json::Deserializer::from_str(text);
        let read = Reader { fields: Fields::Object, pass: &mut pass }.deserialize(&mut json).and_then(|()| json.end());
        read.map_err(|e| NotAnObject(e.to_string()))?;
        if !pass.has_metadata {
            return Err(NotAnObject("it has no metadata".into()));
        }
        let name = pass.name.ok_or_else(|| NotAnObject("it has no name".into()))?;
        let prefix = item_type.filter(|_| !pass.has_kind).map(type_prefix).unwrap_or_default();
        Ok(Self {
            name,
            namespace: pass.namespace.unwrap_or_default(),
            cluster: pass.cluster,
            uid: pass.uid.unwrap_or_default(),
            resource_version: pass.resource_version.unwrap_or_default(),
            owner: pass.owner.unwrap_or_default(),
            deleting: pass.deleting,
            text,
            cut: Cut::new(text, [pass.managed_fields, pass.last_applied]),
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

/// What one pass over an object's text finds.
#[derive(Default)]
struct Pass<'a> {
    text: &'a str,
    has_kind: bool,
    has_metadata: bool,
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
    deleting: bool,
    cluster: Option<&'a str>,
    owner: Option<&'a str>,
    managed_fields: Option<Range<usize>>,
    last_applied: Option<Range<usize>>,
}

/// The maps of an object that facts are read from.
#[derive(Clone, Copy)]
enum Fields {
    Object,
    Metadata,
    Labels,
    Annotations,
}

impl Fields {
    /// What stands under a key that is a map to be read itself.
    fn child(self, key: &str) -> Option<Fields> {
        match (self, key) {
            (Self::Object, "metadata") => Some(Self::Metadata),
            (Self::Metadata, "labels") => Some(Self::Labels),
            (Self::Metadata, "annotations") => Some(Self::Annotations),
            _ => None,
        }
    }

    /// Whether the value under a key tells something.
    fn tells(self, key: &str) -> bool {
        match self {
            Self::Object => key == "kind",
            Self::Metadata => {
                matches!(key, "name" | "namespace" | "uid" | "resourceVersion" | "deletionTimestamp" | "managedFields")
            }
            Self::Labels => key == OWNER_LABEL,
            Self::Annotations => matches!(key, CLUSTER_ANNOTATION | LAST_APPLIED),
        }
    }
}

impl<'a> Pass<'a> {
    /// Takes note of an entry; `true`: it is to be cut out.
    fn note(&mut self, fields: Fields, key: &str, value: &'a RawValue) -> bool {
        match (fields, key) {
            (Fields::Object, _) => self.has_kind = true,
            (_, "name") => self.name = plain(value),
            (_, "namespace") => self.namespace = plain(value),
            (_, "uid") => self.uid = plain(value),
            (_, "resourceVersion") => self.resource_version = plain(value),
            (_, "deletionTimestamp") => self.deleting = value.get() != "null",
            (_, OWNER_LABEL) => self.owner = plain(value),
            (_, CLUSTER_ANNOTATION) => self.cluster = plain(value),
            _ => return true,
        }
        false
    }

    fn cut(&mut self, fields: Fields, range: Range<usize>) {
        match fields {
            Fields::Annotations => self.last_applied = Some(range),
            _ => self.managed_fields = Some(range),
        }
    }

    /// Offset within the text of a part that is borrowed from there.
    fn offset(&self, part: &str) -> usize {
        part.as_ptr() as usize - self.text.as_ptr() as usize
    }
}

/// Reads one map, and those in it that tell something.
struct Reader<'p, 'a> {
    fields: Fields,
    pass: &'p mut Pass<'a>,
}

impl<'a> Visitor<'a> for Reader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    /// Labels and annotations may be null.
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        match self.fields {
            Fields::Labels | Fields::Annotations => Ok(()),
            Fields::Object | Fields::Metadata => Err(E::invalid_type(serde::de::Unexpected::Unit, &self)),
        }
    }

    /// An entry is cut out up to the next key; the last one together with the comma before it.
    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { fields, pass } = self;
        let mut cut: Option<Range<usize>> = None;
        while let Some(key) = map.next_key::<&'a RawValue>()? {
            let start = pass.offset(key.get());
            if let Some(cut) = cut.take() {
                pass.cut(fields, cut.start..start);
            }
            let key = unquoted(key.get()).unwrap_or_default();
            if let Some(child) = fields.child(key) {
                pass.has_metadata |= matches!(child, Fields::Metadata);
                map.next_value_seed(Reader { fields: child, pass: &mut *pass })?;
            } else if !fields.tells(key) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let value = map.next_value::<&'a RawValue>()?;
                cut = pass.note(fields, key, value).then(|| start..pass.offset(value.get()) + value.get().len());
            }
        }
        if let Some(cut) = cut {
            let before = pass.text[..cut.start].trim_end();
            let start = before.strip_suffix(',').map_or(cut.start, str::len);
            pass.cut(fields, start..cut.end);
        }
        Ok(())
    }
}

impl<'a> DeserializeSeed<'a> for Reader<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

/// A string without escapes, which is all that names, uids and versions ever are.
fn plain(value: &RawValue) -> Option<&str> {
    unquoted(value.get()).filter(|text| !text.contains('\\'))
}

fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
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
            assert_eq!(object.value(), Ok(expected));
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

    #[test]
    fn what_is_no_object_is_said() {
        let error = |text: &str| Object::from_json(text.as_bytes()).unwrap_err().to_string();
        insta::assert_snapshot!(error("[]"), @"not a Kubernetes object: invalid type: sequence, expected a JSON object at line 1 column 2");
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
            prop_assert_eq!(object.value(), Ok(json!({"metadata": metadata})));
        }
    }
}
