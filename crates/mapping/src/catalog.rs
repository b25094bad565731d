//! The set of mappings: `update(files) → (Catalog, Update)`.
//!
//! Nothing here deletes or stops anything by losing sight of it. What cannot be read keeps its last good version; what is
//! gone stays as [`Standing::Retained`], so that deletions go on.

mod changes;
mod conflicts;
mod files;
mod selection;
mod unread;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

pub use changes::{differ_in, have_same_effect};
pub use conflicts::both_write;
pub use files::MOST_KINDS;

use crate::compile::Compiled;
use crate::diagnostic::Diagnostic;
use crate::schema::Schemas;
use crate::{ClusterProvider, Mapping, ProviderKind};

use self::files::File;
use self::selection::Selection;

/// Every mapping and provider the engine knows, by name. Immutable; each reload makes the next one.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    mappings: BTreeMap<String, Entry>,
    providers: BTreeMap<String, ProviderEntry>,
    diagnostics: Vec<Diagnostic>,
    files: BTreeMap<String, Arc<File>>,
    /// What mappings are checked against; `None`: they only have to compile.
    schemas: Option<Arc<Schemas>>,
}

/// One mapping of the catalog.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The version that runs. Unchanged content keeps the same `Arc`.
    pub mapping: Arc<Mapping>,
    /// Counts the versions since the engine started, from 1.
    pub generation: u64,
    pub standing: Standing,
    /// The file it stands in, or stood in; `None`: known from the inventory alone.
    pub file: Option<String>,
    /// Its document was removed while this engine ran: `onMappingRemoved` acts on these alone.
    pub removal_seen: bool,
}

/// A mapping as its file has it, which may differ from the one that runs in comments and layout.
#[derive(Debug, Clone, Copy)]
pub struct InFile<'a> {
    pub file: &'a str,
    pub content: &'a [u8],
    pub mapping: &'a Mapping,
}

/// How a mapping runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As its document says.
    Running,
    /// Its document is broken or refused; the last good version runs.
    KeptOnError,
    /// It has no document any more: deletions go on, and nothing else.
    Retained,
}

#[derive(Debug, Clone)]
struct ProviderEntry {
    provider: ClusterProvider,
    file: String,
}

/// Files by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Their content.
    pub readable: BTreeMap<String, Vec<u8>>,
    /// Why a file or folder could not be read. What was read of it before may still be among the readable.
    pub unreadable: BTreeMap<String, String>,
}

/// What an update did.
#[derive(Debug, Clone, Default)]
pub struct Update {
    /// What is different from before; each `Display`s as an acknowledgement line.
    pub changes: Vec<Change>,
    /// What is wrong now and was not before.
    pub new_diagnostics: Vec<Diagnostic>,
}

/// One acknowledged change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Name of the mapping or ClusterProvider.
    pub name: String,
    pub kind: ChangeKind,
}

/// What changed, with the generation that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It runs from now on.
    Added(u64),
    /// Another version runs; the words say what is different in it.
    Changed(u64, Vec<String>),
    /// Its document has become bad; its last good version goes on.
    Kept(u64),
    /// Its document is good again and says what runs already.
    Restored(u64),
    /// Its document is gone; deletions go on.
    Removed(u64),
    /// Known from the inventory; no document names it.
    Retained,
    ProviderAdded,
    ProviderChanged,
    ProviderRemoved,
}

impl Catalog {
    /// The empty catalog of an engine: a mapping of it passes the static checks against these schemas, or does not run.
    pub fn checking(schemas: Schemas) -> Self {
        Self { schemas: Some(Arc::new(schemas)), ..Self::default() }
    }

    /// The mappings by name, retained ones included.
    pub fn mappings(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.mappings.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    pub fn mapping(&self, name: &str) -> Option<&Entry> {
        self.mappings.get(name)
    }

    /// The mapping of this name with its file; `None`: it has no good document.
    pub fn in_file(&self, name: &str) -> Option<InFile<'_>> {
        let file = self.mappings.get(name)?.file.as_deref()?;
        let File { content, documents } = &**self.files.get(file)?;
        let mapping = documents.iter().find_map(|document| match &document.compiled {
            Some(Compiled::Mapping(mapping)) if mapping.name == name => Some(&**mapping),
            _ => None,
        })?;
        Some(InFile { file, content, mapping })
    }

    /// The ClusterProviders by name.
    pub fn providers(&self) -> impl Iterator<Item = &ClusterProvider> {
        self.providers.values().map(|entry| &entry.provider)
    }

    /// What they are, by name.
    pub fn provider_kinds(&self) -> BTreeMap<String, ProviderKind> {
        self.providers().map(|provider| (provider.name.clone(), provider.kind.clone())).collect()
    }

    /// Everything that was wrong at the last update.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Warnings about what consumers can set and no mapping reads. None where a document is bad: it may be the one that reads.
    pub fn unread(&self, schemas: &Schemas) -> Vec<Diagnostic> {
        if self.diagnostics.iter().any(Diagnostic::is_error) { Vec::new() } else { unread::warnings(self, schemas) }
    }

    /// The catalog that follows from the files as they are now.
    ///
    /// `retained` are the last good documents by mapping name, as the state stores of the targets keep them: each with the
    /// `ClusterProvider`s of its clusters.
    pub fn update(&self, files: &Files, retained: &BTreeMap<String, Arc<str>>) -> (Self, Update) {
        let read: BTreeMap<String, Arc<File>> = files
            .readable
            .iter()
            .map(|(path, content)| (path.clone(), File::read(content, self.files.get(path), self.schemas.as_deref())))
            .collect();
        let mut selection = Selection::new(self, &read, &files.unreadable, retained);
        selection.select();
        let next = Self {
            mappings: selection.mappings,
            providers: selection.providers,
            diagnostics: selection.diagnostics,
            files: read,
            schemas: self.schemas.clone(),
        };
        let known: HashSet<&Diagnostic> = self.diagnostics.iter().collect();
        let update = Update {
            changes: changes::between(self, &next),
            new_diagnostics: next.diagnostics.iter().filter(|new| !known.contains(new)).cloned().collect(),
        };
        (next, update)
    }

    /// The catalog with the document by which a retained mapping leaves: its file may have had another one last.
    pub fn leave(&self, name: &str, by: &Arc<Mapping>) -> Self {
        let mut next = self.clone();
        let entry = next.mappings.get_mut(name).filter(|entry| entry.standing == Standing::Retained);
        entry.into_iter().for_each(|entry| entry.mapping = by.clone());
        next
    }

    /// The catalog without a retained mapping, once nothing of it is left.
    pub fn forget(&self, name: &str) -> Self {
        let mut next = self.clone();
        if next.mappings.get(name).is_some_and(|entry| entry.standing == Standing::Retained) {
            next.mappings.remove(name);
        }
        next
    }
}

impl Files {
    /// Adds other files to these.
    pub fn extend(&mut self, other: Self) {
        self.readable.extend(other.readable);
        self.unreadable.extend(other.unreadable);
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.kind {
            ChangeKind::Added(generation) => write!(f, "mapping {name}: generation {generation}: added"),
            ChangeKind::Changed(generation, what) => {
                write!(f, "mapping {name}: generation {generation}: {}", what.join("; "))
            }
            ChangeKind::Kept(generation) => {
                write!(f, "mapping {name}: its document cannot be used or found; generation {generation} keeps running")
            }
            ChangeKind::Restored(generation) => {
                write!(f, "mapping {name}: its document is good again; generation {generation} keeps running")
            }
            ChangeKind::Removed(generation) => write!(
                f,
                "mapping {name}: removed with generation {generation}; its objects stay until their sources are deleted, \
                 unless its onMappingRemoved says otherwise"
            ),
            ChangeKind::Retained => {
                write!(f, "mapping {name}: known from an earlier run, and no document names it; deletions go on")
            }
            ChangeKind::ProviderAdded => write!(f, "provider {name}: added"),
            ChangeKind::ProviderChanged => write!(f, "provider {name}: changed"),
            ChangeKind::ProviderRemoved => write!(f, "provider {name}: removed"),
        }
    }
}

#[cfg(test)]
mod tests;
