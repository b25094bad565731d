//! What a cluster serves: kinds, their versions and where their objects are kept.

use std::sync::Arc;

use serde_json::Value;

use super::schema::Schema;
use super::table::Column;

/// A kind with all its served versions.
#[derive(Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    pub plural: Arc<str>,
    pub singular: String,
    pub kind: Arc<str>,
    pub list_kind: String,
    pub short_names: Vec<String>,
    /// Categories for command lines, such as `all`.
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// Whether objects count their `metadata.generation`.
    pub generation: bool,
    /// Whether the kind is defined by a document in the cluster and not by the server.
    pub custom: bool,
    /// Whose definition it is: objects are kept together under one identity. Empty, or `<cluster>/<export>`.
    pub identity: Arc<str>,
    /// Served versions, the preferred one first.
    pub versions: Vec<Version>,
    /// Versions that are not served any more, or not yet.
    pub unserved: Vec<Arc<str>>,
    /// Version that objects are kept in.
    pub storage_version: Arc<str>,
}

/// One served version of a kind.
#[derive(Debug)]
pub struct Version {
    /// `v1`.
    pub name: Arc<str>,
    /// Whether `/status` is a resource of its own.
    pub status: bool,
    /// What objects may contain, and how they merge.
    pub schema: Schema,
    /// Whether objects may contain nothing else.
    pub is_typed: bool,
    pub columns: Vec<Column>,
    /// The schema as it was written, for OpenAPI.
    pub document: Value,
}

/// Where objects of a resource are kept: the key of a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Storage {
    pub group: Arc<str>,
    pub plural: Arc<str>,
    /// See [`Resource::identity`].
    pub identity: Arc<str>,
}

impl Resource {
    pub(super) fn storage(&self) -> Storage {
        Storage { group: self.group.clone(), plural: self.plural.clone(), identity: self.identity.clone() }
    }

    pub(super) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| &*version.name == name)
    }

    /// Whether `apps/v1` is one of the kind's versions, served or not.
    pub(super) fn declares(&self, api_version: &str) -> bool {
        let all = self.versions.iter().map(|version| &version.name).chain(&self.unserved);
        all.into_iter().any(|version| self.api_version(version) == api_version)
    }

    /// `v1`, `apps/v1`.
    pub(super) fn api_version(&self, version: &str) -> String {
        api_version(&self.group, version)
    }

    /// `configmaps`, `things.example.com`: how messages name the resource.
    pub(super) fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// `ConfigMap`, `Thing.example.com`: how messages name the kind.
    pub(super) fn qualified_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }

    /// Whether this is the given resource of the given group.
    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        &*self.group == group && &*self.plural == plural
    }
}

/// `v1`, `apps/v1`.
pub(super) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `configmaps`, `things.example.com`.
pub(super) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}
