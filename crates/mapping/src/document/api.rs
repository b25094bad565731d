//! `ApiSchema`: a consumer's API in short. `sync-engine schema build` writes kcp's documents from it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiVersion, Metadata};
use crate::yaml::{Entries, Raw, Spanned};

/// A consumer's API in short; written out by `sync-engine schema build`, ignored by the engine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiSchemaDocument {
    /// `sync-engine.dev/v1alpha1`
    pub api_version: ApiVersion,
    /// `ApiSchema`
    pub kind: ApiSchemaKind,
    /// The APIExport's name.
    pub metadata: Metadata,
    /// The API.
    pub spec: ApiSchemaSpec,
}

/// `ApiSchema`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ApiSchemaKind {
    ApiSchema,
}

/// The API: a field is `type | key=value …`, a map of fields, or a list with one of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiSchemaSpec {
    /// `plural.version.group`: the version that is stored, and served.
    pub resource: Spanned<String>,
    /// Other versions, by their names. All have the same fields: kcp changes only `apiVersion` between them.
    #[serde(default)]
    pub versions: Entries<OtherVersionSpec>,
    /// The kind of its objects.
    pub kind: Spanned<String>,
    /// Short names for kubectl.
    #[serde(default)]
    pub short_names: Vec<Spanned<String>>,
    /// What kubectl shows beside the age: paths such as `.status.phase` by their headings.
    #[serde(default)]
    pub columns: Entries<Spanned<String>>,
    /// Resources of the consumers' workspaces that the mapping reads or writes, such as `secrets`.
    #[serde(default)]
    pub claims: Vec<Spanned<String>>,
    /// The field `metadata.name`.
    pub name: Option<Raw>,
    /// Fields of `spec`.
    pub spec: Raw,
    /// Fields of `status`.
    pub status: Option<Raw>,
    /// Whether `status` has `conditions` and `observedGeneration`. Default: true.
    pub conditions: Option<bool>,
}

/// Another version of the API.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherVersionSpec {
    /// Whether consumers can use it. Default: true. A version that was stored stays listed, with `served: false`.
    pub served: Option<bool>,
    /// What kubectl warns users of it of, such as `use v1`.
    pub deprecated: Option<String>,
}
