//! A compiled `ClusterProvider`: how the clusters of sources are found.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Selector, document};

/// The connection of an APIExport, where none is named.
pub(super) const SOURCE_CONNECTION: &str = "kcp";

/// A compiled `ClusterProvider` document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterProvider {
    pub name: String,
    pub kind: ProviderKind,
}

impl ClusterProvider {
    /// Its document, for the state store, with those of the providers that it joins.
    pub fn document(&self) -> String {
        let spec = match &self.kind {
            ProviderKind::Multi(parts) => {
                let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
                let parts = parts
                    .iter()
                    .filter_map(|part| Some(Self { name: part.name.clone(), kind: part.kind.clone()? }.document()));
                let joint = written(&self.name, &json!({"multi": names}));
                return [joint].into_iter().chain(parts).collect::<Vec<_>>().join("\n---\n");
            }
            ProviderKind::Kind => json!({"kind": {}}),
            ProviderKind::None => json!({"none": {}}),
            kind => json!(kind),
        };
        written(&self.name, &spec)
    }
}

fn written(provider: &str, spec: &Value) -> String {
    let document = json!({
        "apiVersion": document::API_VERSION, "kind": "ClusterProvider", "metadata": {"name": provider}, "spec": spec,
    });
    document.to_string()
}

/// A provider that another joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    /// `None`: no document defines it, or it cannot be joined.
    pub kind: Option<ProviderKind>,
}

impl ProviderKind {
    /// The connection of the cluster that says where the provider's clusters are.
    pub fn hub(&self) -> Option<&str> {
        match self {
            Self::KubeconfigSecrets { connection, .. }
            | Self::ClusterApi { connection, .. }
            | Self::ClusterInventory { connection, .. }
            | Self::Namespaces { connection, .. }
            | Self::WorkspaceTypes { connection, .. } => Some(connection),
            Self::Kubeconfig { .. }
            | Self::KubeconfigFiles { .. }
            | Self::Kind
            | Self::None
            | Self::Custom { .. }
            | Self::Multi(_) => None,
        }
    }

    /// Itself, or the kinds of the providers that it joins.
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Multi(parts) => parts.iter().filter_map(|part| part.kind.as_ref()).collect(),
            other => vec![other],
        }
    }

    /// Whether the provider tells labels of its clusters.
    pub fn tells_labels(&self) -> bool {
        let of_hub = matches!(self, Self::KubeconfigSecrets { .. } | Self::ClusterApi { .. } | Self::Namespaces { .. });
        of_hub || self.tells_properties()
    }

    /// Whether the provider tells properties of its clusters. One that has none stands for any other.
    pub fn tells_properties(&self) -> bool {
        matches!(self, Self::ClusterInventory { .. } | Self::Custom { .. } | Self::None)
    }

    /// Whether a provider that joins others can join it.
    pub fn can_be_part(&self) -> bool {
        let is_special = matches!(self, Self::Namespaces { .. } | Self::WorkspaceTypes { .. });
        !is_special && !matches!(self, Self::Multi(_))
    }
}

/// How a provider finds its clusters. It serializes as its document has it, but for those without fields and `Multi`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProviderKind {
    /// One plain cluster, reached through a connection.
    Kubeconfig { connection: String },
    /// Every context of every kubeconfig file of a directory, which the command line gives by this name; `glob` `None`: of every
    /// file.
    KubeconfigFiles { directory: String, glob: Option<String> },
    /// The kubeconfigs in Secrets of a hub.
    KubeconfigSecrets { connection: String, namespace: String, selector: Selector, key: String },
    /// The clusters of kind on this machine.
    Kind,
    /// The Clusters of Cluster API on a hub; `namespace` `None`: in all namespaces.
    ClusterApi { connection: String, namespace: Option<String>, selector: Selector },
    /// The ClusterProfiles of a hub; `namespace` `None`: in all namespaces.
    ClusterInventory { connection: String, namespace: Option<String>, selector: Selector },
    /// Each namespace of a cluster.
    Namespaces { connection: String, selector: Selector },
    /// No cluster at all.
    None,
    /// Clusters listed by a program that embeds the engine; `name`: of the provider that it registered.
    Custom { name: String, parameters: Value },
    /// The clusters of other providers.
    #[serde(skip)]
    Multi(Vec<Part>),
    /// The workspaces of WorkspaceTypes that kcp holds up for the engine; at least one of the two.
    WorkspaceTypes { connection: String, initializing: Option<WorkspaceType>, terminating: Option<WorkspaceType> },
}

/// A WorkspaceType of kcp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceType {
    /// Path of the workspace that it is in.
    pub workspace: String,
    pub name: String,
}

/// As documents have it.
impl Serialize for WorkspaceType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for WorkspaceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.workspace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::{Compiled, compile};

    #[test]
    fn every_kind_is_the_same_after_it_was_kept() {
        let selector = "connection: hub, selector: {matchExpressions: [{key: tier, operator: In, values: [a, b]}]}";
        let specs = [
            "kubeconfig: {connection: hub}".to_owned(),
            "kubeconfigFiles: {directory: fleet}".to_owned(),
            format!("kubeconfigSecrets: {{namespace: fleet, {selector}}}"),
            "kind: {}".to_owned(),
            format!("clusterApi: {{{selector}}}"),
            format!("clusterInventory: {{namespace: fleet, {selector}}}"),
            format!("namespaces: {{{selector}}}"),
            "none: {}".to_owned(),
            "custom: {name: inventory, parameters: {region: [eu, 1]}}".to_owned(),
            "custom: {name: inventory}".to_owned(),
            "workspaceTypes: {initializing: \"root:types:team\"}".to_owned(),
        ];
        let read = |text: &str| {
            let compiled = compile(&crate::yaml::parse_one(text).expect("a document"));
            let Some(Compiled::ClusterProvider(provider)) = compiled.compiled else { panic!("{text}: {compiled:?}") };
            assert_eq!(compiled.findings, [], "{text}");
            provider
        };
        for spec in specs {
            let head = "apiVersion: sync-engine.dev/v1alpha1\nkind: ClusterProvider\nmetadata: {name: edge}\nspec: ";
            let provider = read(&format!("{head}{{{spec}}}"));
            assert_eq!(read(&provider.document()), provider);
        }
    }
}
