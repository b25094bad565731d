//! `ClusterProvider`: where clusters come from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiVersion, Metadata, SelectorSpec};
use crate::provider::SOURCE_CONNECTION;
use crate::yaml::Spanned;
use crate::{Part, Selector, WorkspaceType};

/// Where clusters come from.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterProviderDocument {
    /// `sync-engine.dev/v1alpha1`
    pub api_version: ApiVersion,
    /// `ClusterProvider`
    pub kind: ClusterProviderKind,
    /// The name that mappings and targets use.
    pub metadata: Metadata,
    /// Exactly one way of finding clusters.
    pub spec: Spanned<ProviderKind>,
}

/// `ClusterProvider`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ClusterProviderKind {
    ClusterProvider,
}

/// How clusters are found: exactly one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ClusterProviderSpec")]
pub enum ProviderKind {
    /// One cluster, reached through a connection.
    Kubeconfig(KubeconfigProviderSpec),
    /// Every context of every kubeconfig file of a directory.
    KubeconfigFiles(KubeconfigFilesSpec),
    /// Kubeconfigs in Secrets of a hub cluster.
    KubeconfigSecrets(KubeconfigSecretsSpec),
    /// The clusters of kind on this machine, where the command line allows it: `--allow-kind`.
    Kind(KindSpec),
    /// Clusters of Cluster API.
    ClusterApi(HubSpec),
    /// ClusterProfiles of the cluster inventory API. The command line says which programs give credentials:
    /// `--access-providers FILE`.
    ClusterInventory(HubSpec),
    /// Each namespace of a cluster as a cluster of its own, for tests.
    Namespaces(NamespacesProviderSpec),
    /// The workspaces of a kcp WorkspaceType, while kcp waits until they are bootstrapped or cleaned up.
    WorkspaceTypes(WorkspaceTypesSpec),
    /// Clusters listed by a program that embeds the engine.
    Custom(CustomProviderSpec),
    /// No cluster at all: a placeholder.
    None(NoneSpec),
    /// The clusters of several providers.
    Multi(#[schemars(with = "Vec<String>")] Vec<Part>),
}

/// One cluster, reached through a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigProviderSpec {
    /// The connection, as named on the command line.
    pub connection: String,
}

/// Every context of every kubeconfig file of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigFilesSpec {
    /// The directory's name. The command line gives its path: `--directory NAME=PATH`.
    pub directory: String,
    /// Which files. Default: all.
    pub glob: Option<String>,
}

/// Kubeconfigs in Secrets of a hub cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigSecretsSpec {
    /// The hub, as named on the command line.
    pub connection: String,
    /// The Secrets' namespace.
    pub namespace: String,
    /// The Secrets' labels.
    #[serde(default, skip_serializing_if = "Selector::is_empty")]
    #[schemars(with = "SelectorSpec")]
    pub selector: Selector,
    /// The key of the Secret that holds the kubeconfig.
    #[serde(default = "kubeconfig_key")]
    #[schemars(with = "Option<String>")]
    pub key: String,
}

fn kubeconfig_key() -> String {
    "kubeconfig".to_owned()
}

/// The clusters of kind on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindSpec {}

/// Objects of a hub cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HubSpec {
    /// The hub, as named on the command line.
    pub connection: String,
    /// Their namespace. Default: all.
    pub namespace: Option<String>,
    /// Their labels.
    #[serde(default, skip_serializing_if = "Selector::is_empty")]
    #[schemars(with = "SelectorSpec")]
    pub selector: Selector,
}

/// Each namespace of a cluster as a cluster of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacesProviderSpec {
    /// The cluster, as named on the command line.
    pub connection: String,
    /// The namespaces' labels.
    #[serde(default, skip_serializing_if = "Selector::is_empty")]
    #[schemars(with = "SelectorSpec")]
    pub selector: Selector,
}

/// Clusters listed by a program that embeds the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomProviderSpec {
    /// The name under which the program registered the provider.
    pub name: String,
    /// Any value, for the program. It is kept in the state store: put no secret into it. Default: null.
    #[serde(default)]
    pub parameters: serde_json::Value,
}

/// No cluster at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NoneSpec {}

/// The workspaces of a kcp WorkspaceType, while kcp waits until they are bootstrapped or cleaned up. At least one of
/// `initializing` and `terminating`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceTypesSpec {
    /// The connection to kcp.
    #[serde(default = "source_connection")]
    #[schemars(with = "Option<String>")]
    pub connection: String,
    /// A type with `spec.initializer: true`, by its path (`root:types:team`): its new workspaces.
    #[schemars(with = "Option<String>")]
    pub initializing: Option<WorkspaceType>,
    /// A type with `spec.terminator: true`, by its path: its workspaces that are being deleted.
    #[schemars(with = "Option<String>")]
    pub terminating: Option<WorkspaceType>,
}

fn source_connection() -> String {
    SOURCE_CONNECTION.to_owned()
}
