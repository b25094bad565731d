//! One pass over an object's text, and what it finds.

use std::ops::Range;

use super::skim::{Entries, Key, NoMap, blank};
use super::{CLUSTER_ANNOTATION, LAST_APPLIED, MAPPING_LABEL, OWNER_LABEL};

/// What one pass over an object's text finds, as far as it has come.
#[derive(Debug, Clone, Default)]
pub struct Pass<'a> {
    text: &'a str,
    /// Where in the object it is.
    reading: Reading<'a>,
    pub has_kind: bool,
    pub name: Option<&'a str>,
    pub namespace: Option<&'a str>,
    pub uid: Option<&'a str>,
    pub resource_version: Option<&'a str>,
    pub metadata: Option<Range<usize>>,
    pub deleting: bool,
    pub cluster: Option<&'a str>,
    pub owner: Option<&'a str>,
    pub mapping: Option<&'a str>,
    pub managed_fields: Option<Range<usize>>,
    /// The value alone.
    pub managers: Option<Range<usize>>,
    pub last_applied: Option<Range<usize>>,
}

/// A map that is being read.
#[derive(Debug, Clone, Default)]
struct Reading<'a> {
    fields: Fields,
    entries: Entries<'a>,
    /// The entry read last, where it is to be cut out.
    cut: Option<(Part, Key<'a>)>,
}

impl<'a> Reading<'a> {
    fn new(fields: Fields, text: &'a str, at: usize) -> Result<Self, NoMap> {
        Ok(Self { fields, entries: Entries::new(text, at)?, cut: None })
    }
}

/// How far a map is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    /// Up to the end of the object's metadata, where the facts about it stand.
    Metadata,
}

/// The maps of an object that facts are read from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Fields {
    #[default]
    Object,
    Metadata,
    Labels,
    Annotations,
}

/// An entry that is left out of what is kept.
#[derive(Debug, Clone, Copy)]
enum Part {
    ManagedFields,
    LastApplied,
}

impl<'a> Pass<'a> {
    /// Begins with a text that is one JSON map and nothing more, and reads the facts about the object.
    pub fn begin(text: &'a str) -> Result<Self, NoMap> {
        let mut reading = Reading::new(Fields::Object, text, 0)?;
        let mut pass = Self { text, ..Self::default() };
        pass.read(&mut reading, Until::Metadata)?;
        pass.reading = reading;
        Ok(pass)
    }

    /// Reads what is left.
    pub fn finish(mut self) -> Result<Self, NoMap> {
        let mut reading = self.reading.clone();
        self.read(&mut reading, Until::End)?;
        let end = reading.entries.end();
        if blank(self.text.as_bytes(), end) == self.text.len() { Ok(self) } else { Err(NoMap) }
    }

    fn read(&mut self, reading: &mut Reading<'a>, until: Until) -> Result<(), NoMap> {
        let fields = reading.fields;
        loop {
            let end = reading.entries.end();
            let key = reading.entries.key()?;
            // An entry that is cut out goes up to the next key; the last one together with the comma before it.
            if let Some((part, former)) = reading.cut.take() {
                *self.cut(part) = Some(key.as_ref().map_or(former.gap.start..end, |key| former.gap.end..key.gap.end));
            }
            let Some(key) = key else { return Ok(()) };
            match child(fields, key.name) {
                Some(child) if self.text.as_bytes().get(key.value) == Some(&b'{') => {
                    let mut below = Reading::new(child, self.text, key.value)?;
                    self.read(&mut below, Until::End)?;
                    let end = below.entries.end();
                    reading.entries.resume(end);
                    if child == Fields::Metadata {
                        // What was told of the first one would not be true of the second.
                        if self.metadata.replace(key.value..end).is_some() {
                            return Err(NoMap);
                        }
                        if until == Until::Metadata {
                            return Ok(());
                        }
                    }
                }
                _ => {
                    let value = reading.entries.skip()?;
                    reading.cut = self.note(fields, &key, value)?.map(|part| (part, key));
                }
            }
        }
    }

    /// Takes note of an entry. What of it is to be cut out is told.
    fn note(&mut self, fields: Fields, key: &Key<'a>, value: Range<usize>) -> Result<Option<Part>, NoMap> {
        let text: &'a str = &self.text[value.clone()];
        match (fields, key.name) {
            (Fields::Object, "kind") => self.has_kind = true,
            (Fields::Object, "metadata") => return Err(NoMap),
            (Fields::Metadata, "labels" | "annotations") if text != "null" => return Err(NoMap),
            (Fields::Metadata, "name") => self.name = plain(text),
            (Fields::Metadata, "namespace") => self.namespace = plain(text),
            (Fields::Metadata, "uid") => self.uid = plain(text),
            (Fields::Metadata, "resourceVersion") => self.resource_version = plain(text),
            (Fields::Metadata, "deletionTimestamp") => self.deleting = text != "null",
            (Fields::Metadata, "managedFields") => {
                self.managers = Some(value);
                return Ok(Some(Part::ManagedFields));
            }
            (Fields::Labels, OWNER_LABEL) => self.owner = plain(text),
            (Fields::Labels, MAPPING_LABEL) => self.mapping = plain(text),
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
