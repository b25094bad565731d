//! `spec.related`: objects that travel along.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SelectorSpec;
use crate::yaml::{Entries, Raw, Spanned};

/// An object that travels along: a Secret, for example.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RelatedSpec {
    /// Its name in expressions: `related.<id>`.
    pub id: Spanned<String>,
    /// `ToTarget` or `ToSource`.
    pub direction: Direction,
    /// `plural.version.group`; the core group is left out (`secrets.v1`).
    pub resource: Spanned<String>,
    /// A list: one object for each item.
    pub for_each: Option<Raw>,
    /// The item's name in expressions.
    #[serde(rename = "as")]
    pub item: Option<Spanned<String>>,
    /// Tells the items apart.
    pub key: Option<Raw>,
    /// Where it is read.
    pub from: RelatedPlaceSpec,
    /// Where it is written.
    pub to: Option<RelatedPlaceSpec>,
    /// Which of its data is carried.
    pub data: Option<RelatedDataSpec>,
    /// Whether the copy is owned by the source, and goes with it.
    #[serde(default)]
    pub owner_reference: bool,
    /// What to do while it is not there.
    #[serde(default)]
    pub on_missing: RelatedMissing,
    /// What becomes of the copy when the source is deleted.
    #[serde(default)]
    pub on_source_delete: super::SourceDelete,
}

/// Which way a related object travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Direction {
    /// From the consumer to the target.
    ToTarget,
    /// From the target to the consumer.
    ToSource,
}

/// Where a related object stands: `name` or `selector`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RelatedPlaceSpec {
    /// Its namespace. Default: the source object's, or the placement's.
    pub namespace: Option<Raw>,
    /// Its name.
    pub name: Option<Raw>,
    /// All objects with these labels.
    pub selector: Option<SelectorSpec>,
}

/// Which data of a Secret or ConfigMap is carried.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RelatedDataSpec {
    /// Only these keys. Default: all.
    #[serde(default)]
    pub include: Vec<String>,
    /// New names of keys.
    #[serde(default)]
    pub rename: Entries<String>,
}

/// What to do while a related object is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RelatedMissing {
    /// Wait for it, and write nothing that reads it.
    #[default]
    Wait,
    /// Go on without it.
    Skip,
    /// Report an error.
    Fail,
}
