//! One pass over an object's text, and what it finds.

use std::ops::Range;

use super::skim::{Entries, Key, NoMap, blank};
use super::{CLUSTER_ANNOTATION, LAST_APPLIED, OWNER_LABEL};

/// What one pass over an object's text finds.
#[derive(Debug, Default)]
pub struct Pass<'a> {
    text: &'a str,
    pub has_kind: bool,
    pub name: Option<&'a str>,
    pub namespace: Option<&'a str>,
    pub uid: Option<&'a str>,
    pub resource_version: Option<&'a str>,
    /// Where that stands.
    pub version: Option<Range<usize>>,
    pub metadata: Option<Range<usize>>,
    pub deleting: bool,
    pub cluster: Option<&'a str>,
    pub owner: Option<&'a str>,
    pub managed_fields: Option<Range<usize>>,
    pub last_applied: Option<Range<usize>>,
    pub status: Option<Range<usize>>,
}

/// The maps of an object that facts are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fields {
    Object,
    Metadata,
    Labels,
    Annotations,
}

/// An entry that is left out, of what is kept or of what is compared.
#[derive(Debug, Clone, Copy)]
enum Part {
    ManagedFields,
    LastApplied,
    Status,
}

impl<'a> Pass<'a> {
    /// Reads a text that is one JSON map and nothing more.
    pub fn over(text: &'a str) -> Result<Self, NoMap> {
        let mut pass = Self { text, ..Self::default() };
        let end = pass.map(Fields::Object, 0)?;
        if blank(text.as_bytes(), end) == text.len() { Ok(pass) } else { Err(NoMap) }
    }

    /// Reads the map at a place; the place behind it.
    fn map(&mut self, fields: Fields, at: usize) -> Result<usize, NoMap> {
        let mut entries = Entries::new(self.text, at)?;
        let mut cut: Option<(Part, Key<'a>)> = None;
        loop {
            let end = entries.end();
            let key = entries.key()?;
            // An entry that is cut out goes up to the next key; the last one together with the comma before it.
            if let Some((part, former)) = cut.take() {
                *self.cut(part) = Some(key.as_ref().map_or(former.gap.start..end, |key| former.gap.end..key.gap.end));
            }
            let Some(key) = key else { return Ok(entries.end()) };
            match child(fields, key.name) {
                Some(child) if self.text.as_bytes().get(key.value) == Some(&b'{') => {
                    let end = self.map(child, key.value)?;
                    if child == Fields::Metadata {
                        self.metadata = Some(key.value..end);
                    }
                    entries.resume(end);
                }
                _ => {
                    let value = entries.skip()?;
                    cut = self.note(fields, &key, value)?.map(|part| (part, key));
                }
            }
        }
    }

    /// Takes note of an entry. What of it is to be cut out, of the text or of the content, is told.
    fn note(&mut self, fields: Fields, key: &Key<'a>, value: Range<usize>) -> Result<Option<Part>, NoMap> {
        let text: &'a str = &self.text[value.clone()];
        match (fields, key.name) {
            (Fields::Object, "kind") => self.has_kind = true,
            (Fields::Object, "metadata") => return Err(NoMap),
            (Fields::Object, "status") => return Ok(Some(Part::Status)),
            (Fields::Metadata, "labels" | "annotations") if text != "null" => return Err(NoMap),
            (Fields::Metadata, "name") => self.name = plain(text),
            (Fields::Metadata, "namespace") => self.namespace = plain(text),
            (Fields::Metadata, "uid") => self.uid = plain(text),
            (Fields::Metadata, "resourceVersion") => {
                self.resource_version = plain(text);
                self.version = Some(value);
            }
            (Fields::Metadata, "deletionTimestamp") => self.deleting = text != "null",
            (Fields::Metadata, "managedFields") => return Ok(Some(Part::ManagedFields)),
            (Fields::Labels, OWNER_LABEL) => self.owner = plain(text),
            (Fields::Annotations, CLUSTER_ANNOTATION) => self.cluster = plain(text),
            (Fields::Annotations, LAST_APPLIED) => return Ok(Some(Part::LastApplied)),
            _ => {}
        }
        Ok(None)
    }

    fn cut(&mut self, part: Part) -> &mut Option<Range<usize>> {
        match part {
            Part::ManagedFields => &mut self.managed_fields,
            Part::LastApplied => &mut self.last_applied,
            Part::Status => &mut self.status,
        }
    }
}

/// What stands under a key that is a map to be read itself.
fn child(fields: Fields, key: &str) -> Option<Fields> {
    match (fields, key) {
        (Fields::Object, "metadata") => Some(Fields::Metadata),
        (Fields::Metadata, "labels") => Some(Fields::Labels),
        (Fields::Metadata, "annotations") => Some(Fields::Annotations),
        _ => None,
    }
}

/// A string without escapes, which is all that names, uids and versions ever are.
fn plain(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.contains('\\'))
}
