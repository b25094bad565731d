//! `spec.status`: what flows back.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::yaml::{Entries, FromNode, Node, NodeValue, Raw, Spanned, deserialize_node};

/// What flows back to the consumer's `.status`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusSpec {
    /// The object that bare paths read. Default: the only one that is neither shared nor of a `forEach`.
    pub from: Option<Spanned<String>>,
    /// The key is the path under the consumer's `.status` (`a.b.c`), the value says what stands there.
    #[serde(default)]
    pub fields: Entries<StatusFieldSpec>,
    /// Conditions the mapping writes.
    #[serde(default)]
    pub conditions: Vec<ConditionSpec>,
    /// The engine's own conditions. Default: `[Synced]`, where the consumer's schema has conditions.
    pub engine_conditions: Option<Spanned<Vec<EngineCondition>>>,
    /// Whether `status.observedGeneration` follows the source's generation. Default: `Auto`.
    pub observed_generation: Option<Spanned<ObservedGeneration>>,
    /// What of the target's names is replaced in texts for the consumer. Default: `Consumer`.
    pub redact: Option<Redact>,
}

/// One leaf of the consumer's status: a JSONPath, or more about it.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub enum StatusFieldSpec {
    Path(#[schemars(with = "String")] Raw),
    Full(Box<StatusFieldObject>),
}

/// One leaf of the consumer's status: exactly one of `path` and `value`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusFieldObject {
    /// The object that `path` reads. Default: `status.from`.
    pub from: Option<Spanned<String>>,
    /// A JSONPath into the target object.
    pub path: Option<Raw>,
    /// A template, instead of a path.
    pub value: Option<Raw>,
    /// Which of several matches counts. Default: `one`.
    pub take: Option<Spanned<Take>>,
    /// A template that makes the final value of `value`.
    pub transform: Option<Raw>,
    /// What stands instead of a value that is missing; excludes `onMissing`.
    pub default: Option<Raw>,
    /// What to do where the value is missing. Default: `Remove`.
    pub on_missing: Option<Spanned<OnMissing>>,
    /// The same as `status.redact`, for this field alone.
    pub redact: Option<Redact>,
}

/// Which of several matches of a path counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Take {
    /// The only one; more is an error.
    #[default]
    One,
    /// The first.
    First,
    /// All, as a list.
    All,
    /// How many there are.
    Count,
}

/// What to do where a status value is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum OnMissing {
    /// Leave what stands there.
    Keep,
    /// Remove it.
    #[default]
    Remove,
    /// Report an error, and leave what stands there.
    Error,
}

/// A condition: written by expressions, or mirrored from a target object.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(untagged)]
pub enum ConditionSpec {
    Written(Box<WrittenConditionSpec>),
    Mirrored(Spanned<MirroredConditionSpec>),
}

/// A condition written by expressions.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenConditionSpec {
    /// The condition's type.
    #[serde(rename = "type")]
    pub kind: Spanned<String>,
    /// True, false, or a text `True`, `False` or `Unknown`.
    pub status: Raw,
    /// A word in CamelCase; characters that Kubernetes does not allow are left out. Default: the type.
    pub reason: Option<Raw>,
    /// A sentence for people.
    pub message: Option<Raw>,
}

/// Conditions mirrored from a target object.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MirroredConditionSpec {
    /// What is mirrored.
    pub mirror: MirrorSpec,
}

/// What is mirrored.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MirrorSpec {
    /// The object. Default: `status.from`.
    pub from: Option<Spanned<String>>,
    /// The types of condition.
    pub types: Vec<Spanned<String>>,
    /// A prefix of each type.
    #[serde(rename = "as")]
    pub prefix: Option<String>,
}

/// A condition of the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum EngineCondition {
    /// Whether the target objects are as the mapping wants them.
    Synced,
}

/// Whether `status.observedGeneration` is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ObservedGeneration {
    /// Where the consumer's schema has it.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What of the target's names is replaced in all texts for the consumer, copied values included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Redact {
    /// The target's namespace and object names become the consumer's own; names and hosts of targets become `target`.
    #[default]
    Consumer,
    /// Nothing: for a status that tells the consumer an address on the target.
    None,
}

impl FromNode for StatusFieldSpec {
    fn from_node<'de, D: Deserializer<'de>>(node: &Arc<Node>, deserializer: D) -> Result<Self, D::Error> {
        match node.value {
            NodeValue::Mapping(_) => {
                StatusFieldObject::deserialize(deserializer).map(|full| Self::Full(Box::new(full)))
            }
            _ => Raw::deserialize(deserializer).map(Self::Path),
        }
    }
}

impl FromNode for ConditionSpec {
    fn from_node<'de, D: Deserializer<'de>>(node: &Arc<Node>, deserializer: D) -> Result<Self, D::Error> {
        if node.get("mirror").is_some() {
            Spanned::deserialize(deserializer).map(Self::Mirrored)
        } else {
            WrittenConditionSpec::deserialize(deserializer).map(|written| Self::Written(Box::new(written)))
        }
    }
}

impl<'de> Deserialize<'de> for StatusFieldSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_node(deserializer)
    }
}

impl<'de> Deserialize<'de> for ConditionSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_node(deserializer)
    }
}
