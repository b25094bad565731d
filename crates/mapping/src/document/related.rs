//! `spec.related`: objects that are copied along with the source, or read beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SelectorSpec, Shared};
use crate::yaml::{Entries, Raw, Spanned};

/// A Secret or ConfigMap that is copied along with the source, or an object of another resource that expressions read.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RelatedSpec {
    /// Its name in expressions: `related.<id>`.
    pub id: Spanned<String>,
    /// `ToTarget` or `ToSource`.
    pub direction: Direction,
    /// `plural.version.group`; the core group is left out (`secrets.v1`).
    pub resource: Spanned<String>,
    /// An expression: false means that there is no copy, and that `related.<id>` is absent.
    pub when: Option<Raw>,
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
    /// Keys of the labels that the copy gets from the original. Default: none.
    #[serde(default)]
    pub labels: Vec<Spanned<String>>,
    /// Keys of the annotations that the copy gets from the original. Default: none.
    #[serde(default)]
    pub annotations: Vec<Spanned<String>>,
    /// Type of the copy of a Secret. Default: the type of the original.
    #[serde(rename = "type")]
    pub secret_type: Option<Spanned<String>>,
    /// One copy for all sources that name the same object. Default: one copy for each source.
    pub shared: Option<Shared>,
    /// Whether the copy in the consumer's cluster is owned by the source object, so that it is deleted with it.
    #[serde(default)]
    pub owner_reference: bool,
    /// Whether an object that exists already at the place of the copy may be taken over. Default: `Never`.
    #[serde(default)]
    pub adopt: super::Adopt,
    /// What to do while the original is missing.
    #[serde(default)]
    pub on_missing: RelatedMissing,
    /// What becomes of the copy when the source is deleted.
    #[serde(default)]
    pub on_source_delete: super::SourceDelete,
}

/// Which way a related object is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Direction {
    /// From the consumer to the target.
    ToTarget,
    /// From the target to the consumer.
    ToSource,
}

/// Where a related object is: `name` or `selector`.
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
    /// New values by key: an expression reads the original as `value`.
    #[serde(default)]
    pub transform: Entries<Raw>,
    /// Keys of the copy's own, from expressions.
    #[serde(default)]
    pub add: Entries<Raw>,
}

/// What to do while the original of a related object is missing.
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
