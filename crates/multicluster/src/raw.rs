//! Objects as they are kept: their JSON text, and the few facts that are asked for all the time. Of managedFields, only the
//! lists in which the engine owns items are kept.

mod pass;
mod skim;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use lz4_flex::block::{compress_into_with_dict, decompress_with_dict, get_maximum_output_size};
use sync_engine_mapping::object::lists::Lists;

use pass::Pass;
use skim::NoMap;

/// Label that holds the owner hash of an object we made.
pub const OWNER_LABEL: &str = "sync-engine.dev/owner";
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
    /// The label `sync-engine.dev/mapping`.
    pub mapping: Option<&'a str>,
    pub uid: &'a str,
    pub resource_version: &'a str,
    text: &'a str,
    /// Has come to the end of the metadata.
    pass: Pass<'a>,
    item_type: Option<ItemType<'a>>,
    /// Whether the text has nothing but the metadata, with a type of its own.
    is_metadata: bool,
}

impl<'a> Parsed<'a> {
    /// From an answer's body.
    pub fn from_json(json: &'a [u8]) -> Result<Self, NotAnObject> {
        Self::read(std::str::from_utf8(json).map_err(|error| NotAnObject(error.to_string()))?, None)
    }

    /// Reads up to the end of the metadata: mostly the version says that the rest is known already.
    pub fn read(text: &'a str, item_type: Option<ItemType<'a>>) -> Result<Self, NotAnObject> {
        let text = text.trim();
        let pass = Pass::begin(text).map_err(|NoMap| NotAnObject(no_map(text)))?;
        if pass.metadata.is_none() {
            return Err(NotAnObject("it has no metadata".into()));
        }
        Ok(Self {
            name: pass.name.ok_or_else(|| NotAnObject("it has no name".into()))?,
            namespace: pass.namespace.unwrap_or_default(),
            cluster: pass.cluster,
            mapping: pass.mapping,
            uid: pass.uid.unwrap_or_default(),
            resource_version: pass.resource_version.unwrap_or_default(),
            text,
            pass,
            item_type,
            is_metadata: false,
        })
    }

    /// The same of a `PartialObjectMetadata`: an outline.
    pub(super) fn of_metadata(self) -> Self {
        Self { is_metadata: true, ..self }
    }

    /// The object, to keep: the rest of its text is read here and not before, and copied. What is no fact about it is
    /// passed over, and read as JSON by whoever wants to know it.
    ///
    /// # Errors
    /// The rest is no JSON.
    pub fn object(&self) -> Result<Object, NotAnObject> {
        let pass = self.pass.clone().finish().map_err(|NoMap| NotAnObject(no_map(self.text)))?;
        let owner = pass.owner.unwrap_or_default();
        let mut facts = String::with_capacity(self.uid.len() + self.resource_version.len() + owner.len());
        let [uid, resource_version, owner] =
            [self.uid, self.resource_version, owner].map(|fact| Span::push(&mut facts, fact));
        let lists = pass.managers.clone().and_then(|managers| Lists::kept(self.text.get(managers)?));
        let managed_fields = if lists.is_some() { pass.managers } else { pass.managed_fields };
        let dropped = [(managed_fields, lists.unwrap_or_default()), (pass.last_applied, String::new())];
        let prefix = self.item_type.filter(|_| !pass.has_kind).map(type_prefix).unwrap_or_default();
        let text = if self.is_metadata {
            let outline = outline(self.text, false).ok_or_else(|| NotAnObject("its metadata cannot be read".into()))?;
            Text::Outline { text: outline.into(), length: None }
        } else {
            Text::Plain(Cut::new(self.text, dropped).text(&prefix))
        };
        let facts = facts.into_boxed_str();
        Ok(Object { text, facts, uid, resource_version, owner, deleting: pass.deleting })
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

/// What is left out of a text: two ranges, in order, neither within the other, and what stands there instead.
#[derive(Debug)]
struct Cut<'t> {
    text: &'t str,
    ranges: [(Range<usize>, String); 2],
}

impl<'t> Cut<'t> {
    /// `None` leaves nothing out.
    fn new(text: &'t str, ranges: [(Option<Range<usize>>, String); 2]) -> Self {
        let mut ranges = ranges.map(|(range, instead)| (range.unwrap_or(text.len()..text.len()), instead));
        ranges.sort_by_key(|(range, _)| range.start);
        Self { text, ranges }
    }

    /// The text without the ranges, and with `prefix` behind its opening brace: one allocation of the exact size.
    fn text(&self, prefix: &str) -> Box<str> {
        let removed: usize = self.ranges.iter().map(|(range, _)| range.len()).sum();
        let added: usize = self.ranges.iter().map(|(_, instead)| instead.len()).sum();
        let mut kept = String::with_capacity(self.text.len() - removed + added + prefix.len());
        let mut from = 0;
        if !prefix.is_empty() {
            kept.push('{');
            kept.push_str(prefix);
            from = 1;
        }
        for (range, instead) in &self.ranges {
            kept.push_str(&self.text[from..range.start]);
            kept.push_str(instead);
            from = range.end;
        }
        kept.push_str(&self.text[from..]);
        kept.into_boxed_str()
    }
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
        metadata: serde_json::Map<String, serde_json::Value>,
    }
    let mut whole: Whole = serde_json::from_str(text).ok()?;
    if !is_typed {
        (whole.api_version, whole.kind) = (None, None);
    }
    whole.metadata.retain(|field, _| OUTLINED.contains(&field.as_str()));
    for field in ["labels", "annotations"] {
        let entries = whole.metadata.get_mut(field).and_then(serde_json::Value::as_object_mut);
        entries.into_iter().for_each(|entries| entries.retain(|key, _| is_outlined(key)));
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

/// What is wrong with a text that is no JSON map.
fn no_map(text: &str) -> String {
    let read = serde_json::from_str::<serde::de::IgnoredAny>(text);
    read.err().map_or_else(|| "it is no map, or its metadata is none".to_owned(), |error| error.to_string())
}

fn type_prefix(of: ItemType<'_>) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    format!("\"apiVersion\":{},\"kind\":{},", text(of.api_version), text(of.kind))
}

#[cfg(test)]
mod tests;
