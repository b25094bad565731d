//! `ClusterProvider`: where clusters come from.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiVersion, Metadata, SelectorSpec};
use crate::yaml::Spanned;

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
    pub spec: Spanned<ClusterProviderSpec>,
}

/// `ClusterProvider`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ClusterProviderKind {
    ClusterProvider,
}

/// How clusters are found: exactly one key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ClusterProviderSpec {
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
    Multi(Vec<Spanned<String>>),
}

/// One cluster, reached through a connection.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigProviderSpec {
    /// The connection, as named on the command line.
    pub connection: Spanned<String>,
}

/// Every context of every kubeconfig file of a directory.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigFilesSpec {
    /// The directory's name. The command line gives its path: `--directory NAME=PATH`.
    pub directory: Spanned<String>,
    /// Which files. Default: all.
    pub glob: Option<String>,
}

/// Kubeconfigs in Secrets of a hub cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigSecretsSpec {
    /// The hub, as named on the command line.
    pub connection: Spanned<String>,
    /// The Secrets' namespace.
    pub namespace: Spanned<String>,
    /// The Secrets' labels.
    #[serde(default)]
    pub selector: SelectorSpec,
    /// The key of the Secret that holds the kubeconfig. Default: `kubeconfig`.
    pub key: Option<String>,
}

/// The clusters of kind on this machine.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindSpec {}

/// Objects of a hub cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HubSpec {
    /// The hub, as named on the command line.
    pub connection: Spanned<String>,
    /// Their namespace. Default: all.
    pub namespace: Option<Spanned<String>>,
    /// Their labels.
    #[serde(default)]
    pub selector: SelectorSpec,
}

/// Each namespace of a cluster as a cluster of its own.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacesProviderSpec {
    /// The cluster, as named on the command line.
    pub connection: Spanned<String>,
    /// The namespaces' labels.
    #[serde(default)]
    pub selector: SelectorSpec,
}

/// Clusters listed by a program that embeds the engine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomProviderSpec {
    /// The name under which the program registered the provider.
    pub name: String,
    /// Any value, for the program. It is kept in the state store: put no secret into it. Default: null.
    #[serde(default)]
    pub parameters: serde_json::Value,
}

/// No cluster at all.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NoneSpec {}

/// The workspaces of a kcp WorkspaceType, while kcp waits until they are bootstrapped or cleaned up. At least one of
/// `initializing` and `terminating`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceTypesSpec {
    /// The connection to kcp. Default: `kcp`.
    pub connection: Option<Spanned<String>>,
    /// A type with `spec.initializer: true`, by its path (`root:types:team`): its new workspaces.
    pub initializing: Option<Spanned<String>>,
    /// A type with `spec.terminator: true`, by its path: its workspaces that are being deleted.
    pub terminating: Option<Spanned<String>>,
}
