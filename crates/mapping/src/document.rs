//! The file format: what an author may write, field by field. No behaviour.
//!
//! The doc comments are the descriptions of the JSON Schema. Values that are templates, or whose
//! place in the file matters later, keep their YAML node ([`Raw`], [`Spanned`]).

mod amount;
mod api;
mod object;
mod provider;
mod related;
mod source;
mod status;
mod test;

pub use amount::*;
pub use api::*;
pub use object::*;
pub use provider::*;
pub use related::*;
pub use source::*;
pub use status::*;
pub use test::*;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::yaml::{Entries, Raw, Spanned};

/// The one version of the language so far.
pub const API_VERSION: &str = "sync-engine.dev/v1alpha1";

/// `apiVersion` of every document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ApiVersion {
    #[serde(rename = "sync-engine.dev/v1alpha1")]
    V1alpha1,
}

/// Who a document is.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The document's identity. The file's name means nothing.
    pub name: Spanned<String>,
    /// Labels that other tools put on the document. They have no effect.
    #[serde(default)]
    pub labels: Entries<String>,
    /// Annotations of other tools, without effect as well.
    #[serde(default)]
    pub annotations: Entries<String>,
}

/// A rule that makes target objects from consumers' objects, and carries status back.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MappingDocument {
    /// `sync-engine.dev/v1alpha1`
    pub api_version: ApiVersion,
    /// `Mapping`
    pub kind: MappingKind,
    /// The name is part of ownership labels and annotations, field manager, finalizer and metrics: another name is another mapping.
    pub metadata: Metadata,
    /// What is synced, where to, and how.
    pub spec: Spanned<MappingSpec>,
}

/// `Mapping`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum MappingKind {
    Mapping,
}

/// What a mapping does.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MappingSpec {
    /// How far the mapping goes: `Enforce`, `Observe` or `Suspend`.
    #[serde(default)]
    pub mode: Mode,
    /// For people; the engine does not read it.
    pub description: Option<String>,
    /// The consumer objects served.
    pub source: Spanned<SourceSpec>,
    /// The cluster that receives the objects. Default: the connection `target`.
    pub target: Option<TargetSpec>,
    /// Several clusters that receive the objects of one source, in place of `target`.
    pub targets: Option<Spanned<TargetsSpec>>,
    /// The namespace and name that a source's objects get there.
    pub placement: Option<PlacementSpec>,
    /// Values used in several places, evaluated in the order written; each may read the ones before it.
    #[serde(default)]
    pub vars: Entries<Raw>,
    /// Objects that are copied with the source, or read beside it: Secrets, for example.
    #[serde(default)]
    pub related: Vec<Spanned<RelatedSpec>>,
    /// The target objects rendered from one source.
    pub objects: Spanned<Vec<Spanned<ObjectSpec>>>,
    /// What flows back to the consumer's status.
    pub status: Option<StatusSpec>,
    /// What happens at the end: of a source, of the mapping.
    #[serde(default)]
    pub lifecycle: LifecycleSpec,
    /// How an edit of the mapping comes into force.
    #[serde(default)]
    pub release: ReleaseSpec,
    /// Pace of the work.
    #[serde(default)]
    pub reconcile: ReconcileSpec,
}

/// How far a mapping goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Mode {
    /// Write what is computed.
    #[default]
    Enforce,
    /// Compute and report, write nothing.
    Observe,
    /// Run deletions alone.
    Suspend,
}

/// What happens at the end.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecycleSpec {
    /// The consumer deleted its object.
    #[serde(default)]
    pub on_source_delete: SourceDelete,
    /// The mapping's document is gone.
    #[serde(default)]
    pub on_mapping_removed: MappingRemoved,
    /// The source is gone, and the engine did not process its deletion.
    #[serde(default)]
    pub on_source_vanished: SourceVanished,
    /// The source has the name of an earlier one, and another uid. Default: `Adopt` for an APIExport, but `Block` for
    /// home workspaces (below `root:users`), whose names are used again, and for other providers.
    pub on_source_recreated: Option<SourceRecreated>,
    /// After this long a deletion that does not end is reported. Default: `15m`.
    pub stuck_after: Option<Period>,
}

/// What becomes of target objects when their source is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum SourceDelete {
    /// Deleted, and only then the source goes.
    #[default]
    Delete,
    /// Left, without ownership labels and annotations.
    Orphan,
}

/// What becomes of target objects when their mapping is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum MappingRemoved {
    /// Kept as they are: no more updates; deleting a source still deletes them.
    #[default]
    Retain,
    /// Deleted.
    Delete,
    /// Left, without ownership labels and annotations, and the sources released.
    Orphan,
}

/// What becomes of target objects whose source is gone without a deletion that the engine processed: after a restore of
/// the source cluster, for example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum SourceVanished {
    /// Kept, and reported as orphaned. A source that comes back takes them over.
    #[default]
    Retain,
    /// Deleted after `stuckAfter`.
    Delete,
}

/// What becomes of target objects when their source was deleted and created again without the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum SourceRecreated {
    /// They stay and belong to the new source.
    Adopt,
    /// They stay, the new source gets none, and its status says so.
    Block,
    /// They are deleted and created anew.
    Replace,
}

/// How many objects an edit, or the removal of the mapping, may take away on all targets together.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaxLostSpec {
    /// At most this many. Default: 10.
    pub objects: Option<u32>,
    /// At most this share of the mapping's objects, from 0 to 100. Default: 20.
    pub percent: Option<Spanned<u8>>,
}

/// How an edit of the mapping comes into force. What counts is what the document in force says, not the edited one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseSpec {
    /// Holds an edit by which more sources than this would fail, of those that are in sync now: a number, or a share such as
    /// `10%`. Default: 0.
    pub max_failing: Option<Amount>,
    /// Holds an edit, or the removal of the mapping, that would delete or give up more objects than this.
    #[serde(default)]
    pub max_lost: MaxLostSpec,
    /// An edit reaches the sources in these steps, and goes back where they fail. The last one takes all. Default: all at once.
    #[serde(default)]
    pub waves: Vec<Spanned<WaveSpec>>,
    /// How long a wave may stand without fewer sources out of order. Default: `15m`.
    pub progress_deadline: Option<Period>,
    /// What becomes of a wave that fails; the last one always waits for a person.
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// One step of a release. The sources of the steps before belong to it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaveSpec {
    /// Sources with these labels. Consumers may change the labels of their sources.
    pub sources: Option<SelectorSpec>,
    /// A share of all sources, from 1 to 100. Which ones follows from their names alone.
    pub percent: Option<Spanned<u8>>,
    /// How long the wave has to stand before the next one. Default: as long as its objects take to become ready.
    pub soak: Option<Period>,
    /// How many of its sources may be out of order, beyond those that were before: a number, or a share such as `10%`.
    /// Default: `1%`, and at least one.
    pub max_failing: Option<Amount>,
}

/// What becomes of a wave that fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// Its sources, and those of the waves before, follow the former document again.
    #[default]
    Return,
    /// The release stands still until a person decides.
    Pause,
}

/// Pace of the work.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReconcileSpec {
    /// Sources worked on at the same time. What takes longer than a quarter of a second keeps no other cluster waiting. Default: 8.
    pub concurrency: Option<Spanned<u16>>,
    /// Every source is looked at again after this long, without any event, `1s` at least. Default: `10h`.
    pub resync: Option<Period>,
    /// Waits between retries.
    #[serde(default)]
    pub backoff: BackoffSpec,
    /// Limit of writes to the target a second, which mappings with the same limit share. Default: 0, no limit.
    pub target_writes_per_second: Option<u32>,
}

/// Waits between retries.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackoffSpec {
    /// The first wait. Default: `1s`.
    pub min: Option<Spanned<Period>>,
    /// The longest wait. Default: `5m`.
    pub max: Option<Spanned<Period>>,
}

/// JSON Schema (draft 7, which every editor reads) of a document of any kind. The kind decides alone, so that a mistake in a
/// mapping is not told as "matches none of three".
pub fn json_schema() -> serde_json::Value {
    let mut generator = SchemaSettings::draft07().into_generator();
    let kinds = schemas(&mut generator).map(|(name, schema)| {
        serde_json::json!({
            "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
            "then": schema,
        })
    });
    serde_json::json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "sync-engine.dev/v1alpha1",
        "description": "A document of sync-engine: Mapping, ClusterProvider, MappingTest or ApiSchema.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"enum": ["Mapping", "ClusterProvider", "MappingTest", "ApiSchema"]},
        },
        "allOf": kinds,
        "definitions": generator.definitions(),
    })
}

/// The schemas of documents by their kinds.
fn schemas(generator: &mut SchemaGenerator) -> [(&'static str, Schema); 4] {
    [
        ("Mapping", generator.subschema_for::<MappingDocument>()),
        ("ClusterProvider", generator.subschema_for::<ClusterProviderDocument>()),
        ("MappingTest", generator.subschema_for::<MappingTestDocument>()),
        ("ApiSchema", generator.subschema_for::<ApiSchemaDocument>()),
    ]
}

/// The fields that a struct of this format must have, by the struct's name; read from the JSON Schema.
pub fn required_fields(name: &str) -> Vec<String> {
    static REQUIRED: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    REQUIRED.get_or_init(collect_required).get(name).cloned().unwrap_or_default()
}

fn collect_required() -> BTreeMap<String, Vec<String>> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    schemas(&mut generator);
    let required = |schema: &serde_json::Value| -> Vec<String> {
        let fields = schema["required"].as_array().into_iter().flatten();
        fields.filter_map(|field| field.as_str().map(str::to_owned)).collect()
    };
    generator.definitions().iter().map(|(name, schema)| (name.clone(), required(schema))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_fields_are_known() {
        assert_eq!(required_fields("MappingDocument"), ["apiVersion", "kind", "metadata", "spec"]);
        assert_eq!(required_fields("MappingSpec"), ["source", "objects"]);
        assert_eq!(required_fields("ObjectSpec"), ["id", "template"]);
        assert_eq!(required_fields("KubeconfigProviderSpec"), ["connection"]);
        assert_eq!(required_fields("WrittenConditionSpec"), ["type", "status"]);
        assert!(required_fields("StatusSpec").is_empty());
    }
}
