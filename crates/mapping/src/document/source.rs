//! `spec.source`, `spec.target` and `spec.placement`: from where to where.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::yaml::{Entries, Raw, Spanned};

/// The consumer objects a mapping serves: exactly one of `apiExport` and `provider`, and a resource.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceSpec {
    /// Every kcp workspace bound to this APIExport.
    pub api_export: Option<Spanned<ApiExportSpec>>,
    /// The clusters of the ClusterProvider of this name.
    pub provider: Option<Spanned<String>>,
    /// Which clusters of the provider. Default: all. A cluster that leaves the selection has left the filter: see `onExit`.
    pub clusters: Option<Spanned<SourceClustersSpec>>,
    /// `plural.version.group`; the core group is left out (`secrets.v1`).
    pub resource: Spanned<String>,
    /// Labels a source must carry. Evaluated by the engine: a relabel is not a deletion.
    #[serde(default)]
    pub selector: SelectorSpec,
    /// Namespaces served, by glob.
    #[serde(default)]
    pub namespaces: NamespacesSpec,
    /// An expression that a source must fulfil.
    pub when: Option<Raw>,
    /// What becomes of the target objects of a source that left the filter.
    #[serde(default)]
    pub on_exit: OnExit,
}

/// An APIExport.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiExportSpec {
    /// Name of the APIExport.
    pub name: Spanned<String>,
    /// Path of the workspace it stands in. Default: where the connection's kubeconfig points.
    pub path: Option<Spanned<String>>,
    /// Name of its APIExportEndpointSlice. Default: the one that kcp creates.
    pub endpoint_slice: Option<Spanned<String>>,
    /// The connection, as named on the command line. Default: `kcp`.
    pub connection: Option<Spanned<String>>,
}

/// A label selector.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectorSpec {
    /// Labels and the values they must have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, Spanned<String>>,
    /// Further requirements, all of which must hold.
    #[serde(default)]
    pub match_expressions: Vec<Spanned<SelectorRequirement>>,
}

/// One requirement of a label selector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectorRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: SelectorOperator,
    /// Values for `In` and `NotIn`.
    #[serde(default)]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Namespaces by glob (`*` and `?`).
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacesSpec {
    /// Only these. Default: all.
    #[serde(default)]
    pub include: Vec<Spanned<String>>,
    /// Not these, whatever `include` says.
    #[serde(default)]
    pub exclude: Vec<Spanned<String>>,
}

/// What becomes of the target objects of a source that left the filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OnExit {
    /// Kept, and the finalizer with them.
    #[default]
    Retain,
    /// Deleted.
    Delete,
    /// Left, without ownership labels and annotations.
    Orphan,
}

/// The cluster that receives the objects.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetSpec {
    /// A connection's name, `provider/cluster`, or `source`: the source's own cluster. An expression where `allowed` or
    /// `clusters` lists its results.
    pub cluster: Raw,
    /// What an expression in `cluster` may give.
    #[serde(default)]
    pub allowed: Vec<Spanned<String>>,
    /// What an expression in `cluster` may give: clusters of a provider.
    pub clusters: Option<ClustersSpec>,
    /// What to do when another target is given for a source that has objects. Default: `Block`.
    pub on_target_change: Option<Spanned<TargetChange>>,
}

/// Several clusters that receive the objects of one source: one for each item of a list, or all that are listed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetsSpec {
    /// A list: each item is a target. Default: every cluster of `allowed` and `clusters` is one.
    pub for_each: Option<Raw>,
    /// The name under which expressions read the item.
    #[serde(rename = "as")]
    pub item: Option<Spanned<String>>,
    /// The name of the target under `targets`, made from the item. Default, without a list: the cluster's name.
    pub key: Option<Raw>,
    /// A connection's name or `provider/cluster`, as text that reads the item.
    pub cluster: Option<Raw>,
    /// Which clusters there may be.
    #[serde(default)]
    pub allowed: Vec<Spanned<String>>,
    /// Which clusters there may be: those of a provider.
    pub clusters: Option<ClustersSpec>,
}

/// Which clusters of the source's provider. All that is given must hold.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceClustersSpec {
    /// Only these. Default: all.
    #[serde(default)]
    pub names: Vec<Spanned<String>>,
    /// Labels that a cluster must carry, where its provider tells labels.
    #[serde(default)]
    pub match_labels: BTreeMap<String, Spanned<String>>,
    /// Properties that a cluster must have, where its provider tells properties.
    #[serde(default)]
    pub match_properties: BTreeMap<String, Spanned<String>>,
}

/// Clusters of a provider.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClustersSpec {
    /// The ClusterProvider.
    pub provider: Spanned<String>,
    /// Only these. Default: all.
    #[serde(default)]
    pub names: Vec<Spanned<String>>,
    /// Labels that a cluster must carry, where its provider tells labels.
    #[serde(default)]
    pub match_labels: BTreeMap<String, Spanned<String>>,
    /// Properties that a cluster must have, where its provider tells properties.
    #[serde(default)]
    pub match_properties: BTreeMap<String, Spanned<String>>,
}

/// What to do when a source's objects would go to another target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum TargetChange {
    /// Keep the objects where they are, and say so.
    #[default]
    Block,
    /// Delete them there, then make them on the new target.
    Recreate,
}

/// Where the objects of a source go. Sticky: a source's place never changes once it has one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlacementSpec {
    /// The namespace, as text. It reads `workspace.cluster` and the source's namespace and name alone, which never change. The default differs for each consumer namespace of each workspace.
    pub namespace: Option<Raw>,
    /// The name. Default: the source's own.
    pub name: Option<Raw>,
    /// Whether a missing namespace is created. Default: true.
    pub create_namespace: Option<bool>,
    /// Labels of a namespace that is created.
    #[serde(default)]
    pub namespace_labels: Entries<Raw>,
}

/// A length of time: a whole number and `ms`, `s`, `m`, `h` or `d`, several added up (`1h30m`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(
    with = "String",
    description = "A length of time, such as 30s, 15m, 10h or 1h30m.",
    extend("pattern" = "^([0-9]+(ms|s|m|h|d))+$"),
)]
pub struct Period(pub Duration);

impl Period {
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut total = Duration::ZERO;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let count: u64 = rest[..digits].parse().ok()?;
            let unit_length = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
            let unit = match &rest[digits..digits + unit_length] {
                "ms" => Duration::from_millis(1),
                "s" => Duration::from_secs(1),
                "m" => Duration::from_secs(60),
                "h" => Duration::from_secs(3600),
                "d" => Duration::from_secs(86400),
                _ => return None,
            };
            total = total.checked_add(unit.checked_mul(u32::try_from(count).ok()?)?)?;
            rest = &rest[digits + unit_length..];
        }
        (!text.is_empty()).then_some(Self(total))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format_args!(
                "`{text}` is no length of time; write `30s`, `15m`, `10h` or `1h30m`"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_add_up() {
        let seconds = |text| Period::parse(text).map(|p| p.0.as_secs());
        assert_eq!(seconds("15m"), Some(900));
        assert_eq!(seconds("1h30m"), Some(5400));
        assert_eq!(seconds("10h"), Some(36000));
        for bad in ["", "15", "m", "1.5h", "1 h", "-1s", "1w", "99999999999d"] {
            assert_eq!(Period::parse(bad), None, "{bad}");
        }
    }
}
