//! Objects as they are kept: their JSON text, and the few facts that are asked for all the time. Of managedFields, only the
//! lists in which the engine owns items are kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use lz4_flex::block::{compress_into_with_dict, decompress_with_dict, get_maximum_output_size};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use sync_engine_mapping::object::lists::Lists;

/// Label that names the mapping of an object we made.
pub const MAPPING_LABEL: &str = "sync-engine.dev/mapping";
/// Annotation by which kcp says which logical cluster an object of a wildcard list lives in.
pub const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";
/// etcd's `--max-request-bytes`, by default.
const MOST_BYTES: usize = 3 << 19;
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One object, slim: its JSON text, and the facts that are asked for all the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    text: Text,
    /// uid, resourceVersion and owner, one behind the other.
    facts: Box<str>,
    /// Where the resourceVersion begins.
    uid_end: u32,
    /// Where the owner does.
    version_end: u32,
    deleting: bool,
}

/// An object's JSON text. Objects of one kind repeat each other's keys and most of their values, so a store keeps them
/// compressed against one of their own: about a fifth of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Plain(Box<str>),
    Packed {
        bytes: Box<[u8]>,
        length: u32,
        dictionary: Arc<[u8]>,
    },
    /// What is asked of all objects all the time: the metadata, without what others wrote there.
    Outline {
        text: Box<str>,
        /// Of the whole object; `None`: only the metadata was listed.
        length: Option<u32>,
    },
}

/// JSON that is no Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Kubernetes object: {0}")]
pub struct NotAnObject(String);

/// Why an object that is known cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is passed on all the same: API servers take JSON of any depth.
    #[error("the object cannot be read: {0} (the engine reads 127 levels)")]
    NoTree(String),
    /// It is kept as an outline: its server has the rest.
    #[error("the object is kept as an outline, and has to be read")]
    Outlined,
}

impl NotAnObject {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Object {
    /// From an answer's body: drops kubectl's last-applied annotation and `metadata.managedFields`, but for the engine's
    /// [`Lists`], without building a tree of the object.
    pub fn from_json(json: &[u8]) -> Result<Self, NotAnObject> {
        Parsed::from_json(json)?.object()
    }

    /// The whole object, without what was dropped; of an outline, what it has.
    pub fn json(&self) -> Cow<'_, str> {
        match &self.text {
            Text::Plain(text) | Text::Outline { text, .. } => Cow::Borrowed(text),
            Text::Packed { bytes, length, dictionary } => {
                let unpacked = decompress_with_dict(bytes, *length as usize, dictionary);
                let text = unpacked.expect("packed by this process with the same dictionary");
                Cow::Owned(String::from_utf8(text).expect("a text was packed"))
            }
        }
    }

    /// The same object, its text packed against a dictionary; `None` where that makes it no smaller. `scratch` is used
    /// meanwhile, whatever it holds.
    pub(super) fn packed(&self, dictionary: &Arc<[u8]>, scratch: &mut Vec<u8>) -> Option<Self> {
        let Text::Plain(text) = &self.text else { return None };
        let most = get_maximum_output_size(text.len());
        if scratch.len() < most {
            scratch.resize(most, 0);
        }
        let packed = compress_into_with_dict(text.as_bytes(), scratch, dictionary).expect("there is room for the most");
        let length = u32::try_from(text.len()).ok().filter(|_| packed < text.len())?;
        let text = Text::Packed { bytes: scratch[..packed].into(), length, dictionary: dictionary.clone() };
        Some(Self { text, facts: self.facts.clone(), ..*self })
    }

    /// The same object as an outline; `None`: it is one.
    pub(super) fn outlined(&self) -> Option<Self> {
        if !self.is_whole() {
            return None;
        }
        let text = outline(&self.json(), true)?.into();
        let length = Some(u32::try_from(self.length()).expect("an object is smaller than 4 GiB"));
        Some(Self { text: Text::Outline { text, length }, facts: self.facts.clone(), ..*self })
    }

    /// The same object with these parts of its text alone, by their JSON pointers. One that no tree can be made of stays as it is.
    pub(super) fn with_only(self, parts: &[&str]) -> Self {
        let Ok(whole) = self.value() else { return self };
        let mut kept = serde_json::Value::Null;
        for part in parts {
            let Some(value) = whole.pointer(part) else { continue };
            let names = part.split('/').skip(1).map(|name| name.replace("~1", "/"));
            *names.fold(&mut kept, |at, name| &mut at[name]) = value.clone();
        }
        Self { text: Text::Plain(kept.to_string().into()), ..self }
    }

    /// Whether it is more than an outline.
    pub fn is_whole(&self) -> bool {
        !matches!(self.text, Text::Outline { .. })
    }

    /// Whether it is an outline because the whole object is large, or its cluster has too many: not because only metadata was
    /// listed.
    pub(super) fn is_outlined(&self) -> bool {
        matches!(self.text, Text::Outline { length: Some(_), .. })
    }

    /// Bytes of the whole object. Of one that was never read whole, what etcd takes at most.
    pub fn length(&self) -> usize {
        match &self.text {
            Text::Plain(text) => text.len(),
            Text::Packed { length, .. } => *length as usize,
            Text::Outline { length, .. } => length.map_or(MOST_BYTES, |length| length as usize),
        }
    }

    /// Bytes that its text takes in memory.
    pub(super) fn takes(&self) -> usize {
        match &self.text {
            Text::Plain(text) | Text::Outline { text, .. } => text.len(),
            Text::Packed { bytes, .. } => bytes.len(),
        }
    }

    /// Parsed anew each time: keep it no longer than a reconcile.
    ///
    /// # Errors
    /// It is an outline, or no tree can be made of it.
    pub fn value(&self) -> Result<serde_json::Value, Unreadable> {
        if !self.is_whole() {
            return Err(Unreadable::Outlined);
        }
        serde_json::from_str(&self.json()).map_err(|error| Unreadable::NoTree(error.to_string()))
    }

    /// At least what an outline has: name, versions, finalizers, and the engine's own labels and annotations. However deep the
    /// rest is.
    ///
    /// # Errors
    /// No tree can be made of its metadata.
    pub fn outline(&self) -> Result<serde_json::Value, Unreadable> {
        let text = self.json();
        serde_json::from_str(&text).or_else(|error| {
            let outline = outline(&text, true).and_then(|outline| serde_json::from_str(&outline).ok());
            outline.ok_or_else(|| Unreadable::NoTree(error.to_string()))
        })
    }

    pub fn uid(&self) -> &str {
        &self.facts[..self.uid_end as usize]
    }

    /// Comparable within one endpoint only, and then as a number.
    pub fn resource_version(&self) -> &str {
        &self.facts[self.uid_end as usize..self.version_end as usize]
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn deleting(&self) -> bool {
        self.deleting
    }

    /// The label `sync-engine.dev/owner`.
    pub fn owner(&self) -> Option<&str> {
        Some(&self.facts[self.version_end as usize..]).filter(|owner| !owner.is_empty())
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
    pub name: Cow<'a, str>,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The annotation `kcp.io/cluster`.
    pub cluster: Option<&'a str>,
    /// The label `sync-engine.dev/mapping`.
    pub mapping: Option<&'a str>,
    pub uid: &'a str,
    pub resource_version: &'a str,
    owner: &'a str,
    deleting: bool,
    text: &'a str,
    has_kind: bool,
    managed_fields: Option<&'a str>,
    last_applied: Option<&'a str>,
    item_type: Option<ItemType<'a>>,
    /// Whether the text has nothing but the metadata, with a type of its own.
    is_metadata: bool,
}

/// What is read of an object's text when it comes. The rest is passed over, however deep it is.
#[derive(Deserialize)]
#[serde(expecting = "a map")]
struct Fields<'a> {
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a map")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    namespace: Option<&'a RawValue>,
    uid: Option<&'a RawValue>,
    resource_version: Option<&'a RawValue>,
    deletion_timestamp: Option<&'a RawValue>,
    managed_fields: Option<&'a RawValue>,
    labels: Option<Labels<'a>>,
    annotations: Option<Annotations<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(expecting = "a map")]
struct Labels<'a> {
    #[serde(borrow, rename = "sync-engine.dev/owner")]
    owner: Option<&'a RawValue>,
    #[serde(borrow, rename = "sync-engine.dev/mapping")]
    mapping: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(expecting = "a map")]
struct Annotations<'a> {
    #[serde(borrow, rename = "kcp.io/cluster")]
    cluster: Option<&'a RawValue>,
    #[serde(rename = "kubectl.kubernetes.io/last-applied-configuration")]
    last_applied: Option<&'a RawValue>,
}

impl<'a> Parsed<'a> {
    /// From an answer's body.
    pub fn from_json(json: &'a [u8]) -> Result<Self, NotAnObject> {
        Self::read(std::str::from_utf8(json).map_err(|error| NotAnObject(error.to_string()))?)
    }

    pub fn read(text: &'a str) -> Result<Self, NotAnObject> {
        if !text.trim_start().starts_with('{') {
            return Err(NotAnObject("it is no map".into()));
        }
        let Fields { kind, metadata } = serde_json::from_str(text).map_err(|error| NotAnObject(error.to_string()))?;
        let metadata = metadata.ok_or_else(|| NotAnObject("it has no metadata".into()))?;
        let (labels, annotations) = (metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default());
        Ok(Self {
            name: name(metadata.name).ok_or_else(|| NotAnObject("it has no name".into()))?,
            namespace: plain(metadata.namespace).unwrap_or_default(),
            cluster: plain(annotations.cluster),
            uid: plain(metadata.uid).unwrap_or_default(),
            resource_version: plain(metadata.resource_version).unwrap_or_default(),
            mapping: plain(labels.mapping),
            owner: plain(labels.owner).unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            text: text.trim(),
            has_kind: kind.is_some(),
            managed_fields: metadata.managed_fields.map(RawValue::get),
            last_applied: annotations.last_applied.map(RawValue::get),
            item_type: None,
            is_metadata: false,
        })
    }

    /// The same as an item of a list of this type. `is_metadata`: of a `PartialObjectMetadataList`, so it is an outline.
    pub(super) fn of_list(self, item_type: Option<ItemType<'a>>, is_metadata: bool) -> Self {
        Self { item_type, is_metadata, ..self }
    }

    /// The object, to keep.
    ///
    /// # Errors
    /// It is an outline, and its metadata cannot be read.
    pub fn object(&self) -> Result<Object, NotAnObject> {
        let fits = |length: usize| u32::try_from(length).expect("an object is smaller than 4 GiB");
        let (uid_end, version_end) = (fits(self.uid.len()), fits(self.uid.len() + self.resource_version.len()));
        let facts = [self.uid, self.resource_version, self.owner].concat().into_boxed_str();
        let text = if self.is_metadata {
            let outline = outline(self.text, false).ok_or_else(|| NotAnObject("its metadata cannot be read".into()))?;
            Text::Outline { text: outline.into(), length: None }
        } else {
            Text::Plain(self.kept())
        };
        Ok(Object { text, facts, uid_end, version_end, deleting: self.deleting })
    }

    /// The text with its type, and without what is dropped.
    fn kept(&self) -> Box<str> {
        let text = self.text;
        let lists = self.managed_fields.and_then(Lists::kept);
        let managed_fields = self.managed_fields.map(|value| match &lists {
            Some(lists) => (range_of(text, value), lists.as_str()),
            None => entry_of(text, "managedFields", value),
        });
        let last_applied = self.last_applied.map(|value| entry_of(text, LAST_APPLIED, value));
        let start = self.item_type.filter(|_| !self.has_kind).map(typed_start);
        let typed = start.as_deref().map(|start| (0..1, start));
        let mut cuts: Vec<_> = [typed, managed_fields, last_applied].into_iter().flatten().collect();
        cuts.sort_by_key(|(range, _)| range.start);
        let removed: usize = cuts.iter().map(|(range, _)| range.len()).sum();
        let added: usize = cuts.iter().map(|(_, instead)| instead.len()).sum();
        let mut kept = String::with_capacity(text.len() - removed + added);
        let mut from = 0;
        for (range, instead) in cuts {
            kept.push_str(&text[from..range.start]);
            kept.push_str(instead);
            from = range.end;
        }
        kept.push_str(&text[from..]);
        kept.into_boxed_str()
    }
}

/// Whether a version is older than another of the same endpoint. One that is no number is not comparable: no.
pub fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(version), Ok(than)) if version < than)
}

/// A name. Those of RBAC may hold almost anything: one tenant's Role must not make the page unreadable that it is in.
fn name(value: Option<&RawValue>) -> Option<Cow<'_, str>> {
    match plain(value) {
        Some(name) => Some(Cow::Borrowed(name)),
        None => serde_json::from_str::<String>(value?.get()).ok().map(Cow::Owned),
    }
}

/// A string without escapes, which is all that namespaces, uids and versions ever are.
fn plain(value: Option<&RawValue>) -> Option<&str> {
    value?.get().strip_prefix('"')?.strip_suffix('"').filter(|text| !text.contains('\\'))
}

/// Where a part of a text stands in it.
fn range_of(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

/// Where the entry of a map stands in a text, with the comma that divides it from its neighbour, and what is put there.
fn entry_of(text: &str, key: &str, value: &str) -> (Range<usize>, &'static str) {
    let range = range_of(text, value);
    let before = text[..range.start].trim_end().strip_suffix(':').map(str::trim_end);
    let before = before.and_then(|it| it.strip_suffix('"')?.strip_suffix(key)?.strip_suffix('"'));
    // A key that is written with escapes, as no server does, stays.
    let Some(before) = before else { return (range, "null") };
    let cut = match text[range.end..].trim_start().strip_prefix(',') {
        Some(after) => before.len()..text.len() - after.len(),
        None => before.trim_end().trim_end_matches(',').len()..range.end,
    };
    (cut, "")
}

/// What the engine asks of objects that it does not read: labels and annotations may be as large as an object. `is_typed`:
/// with apiVersion and kind.
fn outline(text: &str, is_typed: bool) -> Option<String> {
    #[derive(serde::Deserialize, serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole {
        #[serde(skip_serializing_if = "Option::is_none")]
        api_version: Option<serde_json::Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<serde_json::Value>,
        /// As texts: managedFields are nested as deeply as the object.
        metadata: BTreeMap<String, Box<RawValue>>,
    }
    let mut whole: Whole = serde_json::from_str(text).ok()?;
    if !is_typed {
        (whole.api_version, whole.kind) = (None, None);
    }
    whole.metadata.retain(|field, _| OUTLINED.contains(&field.as_str()));
    for field in ["labels", "annotations"] {
        let Some(text) = whole.metadata.get_mut(field) else { continue };
        let mut entries: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(text.get()).ok()?;
        entries.iter_mut().for_each(|entries| entries.retain(|key, _| is_outlined(key)));
        *text = to_raw_value(&entries).ok()?;
    }
    serde_json::to_string(&whole).ok()
}

/// Fields of the metadata that an outline has.
const OUTLINED: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "labels",
    "annotations",
];

fn is_outlined(key: &str) -> bool {
    key == CLUSTER_ANNOTATION || key == "app.kubernetes.io/managed-by" || key.contains("sync-engine.dev/")
}

/// How the text of a list's item begins once it says its type.
fn typed_start(of: ItemType<'_>) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    format!("{{\"apiVersion\":{},\"kind\":{},", text(of.api_version), text(of.kind))
}

#[cfg(test)]
mod tests;
