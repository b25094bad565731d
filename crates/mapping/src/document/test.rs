//! `MappingTest`: what a mapping must render. The engine ignores these documents.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiVersion, Metadata};
use crate::yaml::{Entries, Raw, Spanned};

/// What a mapping must render; run by `sync-engine test`, ignored by the engine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MappingTestDocument {
    /// `sync-engine.dev/v1alpha1`
    pub api_version: ApiVersion,
    /// `MappingTest`
    pub kind: MappingTestKind,
    /// The test's name.
    pub metadata: Metadata,
    /// What is tested.
    pub spec: MappingTestSpec,
}

/// `MappingTest`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum MappingTestKind {
    MappingTest,
}

/// What is tested.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MappingTestSpec {
    /// Name of the mapping.
    pub mapping: Spanned<String>,
    /// One after the other.
    pub cases: Vec<TestCaseSpec>,
}

/// One case of a test.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestCaseSpec {
    /// What it shows.
    pub name: String,
    /// The consumer object: a file's path, or inline.
    pub source: Raw,
    /// The workspace it stands in.
    pub workspace: Option<TestWorkspaceSpec>,
    /// Target objects that exist: templates, or paths of files.
    #[serde(default)]
    pub observed: Vec<Raw>,
    /// Related objects as they stand where they come from: templates, or paths of files.
    #[serde(default)]
    pub related: Vec<Raw>,
    /// Whether the mapping's filter must leave the source alone; nothing else can be expected then.
    #[serde(default)]
    pub left_alone: bool,
    /// Paths (`objects.db.spec.members`; of a source with several targets also `targets.east.objects.db.spec.members`) and what
    /// must stand there.
    #[serde(default)]
    pub expect: Entries<Raw>,
    /// Paths under the consumer's status and what must stand there.
    #[serde(default)]
    pub expect_status: Entries<Raw>,
    /// File with everything that is rendered; rewritten by `--update`.
    pub golden: Option<String>,
}

/// The workspace a test's source stands in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestWorkspaceSpec {
    /// Its logical cluster.
    pub cluster: String,
    /// Its path.
    pub path: Option<String>,
}
