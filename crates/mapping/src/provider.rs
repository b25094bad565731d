//! A compiled `ClusterProvider`: how the clusters of sources are found.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use super::document::{API_VERSION, ProviderKind};

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
        let own = json!({
            "apiVersion": API_VERSION, "kind": "ClusterProvider", "metadata": {"name": self.name}, "spec": self.kind,
        });
        let joined = if let ProviderKind::Multi(parts) = &self.kind { &parts[..] } else { &[][..] };
        let joined =
            joined.iter().filter_map(|Part { name, kind }| Some(Self { name: name.clone(), kind: kind.clone()? }));
        let documents = [own.to_string()].into_iter().chain(joined.map(|part| part.document()));
        documents.collect::<Vec<_>>().join("\n---\n")
    }
}

/// A provider that another joins; documents have its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Part {
    pub name: String,
    /// `None`: no document defines it, or it cannot be joined.
    #[serde(skip)]
    pub kind: Option<ProviderKind>,
}

impl ProviderKind {
    /// The connection of the cluster that says where the provider's clusters are.
    pub fn hub(&self) -> Option<&str> {
        match self {
            Self::KubeconfigSecrets(spec) => Some(&spec.connection),
            Self::ClusterApi(spec) | Self::ClusterInventory(spec) => Some(&spec.connection),
            Self::Namespaces(spec) => Some(&spec.connection),
            Self::WorkspaceTypes(spec) => Some(&spec.connection),
            Self::Kubeconfig(_)
            | Self::KubeconfigFiles(_)
            | Self::Kind(_)
            | Self::None(_)
            | Self::Custom(_)
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
        let of_hub = matches!(self, Self::KubeconfigSecrets(_) | Self::ClusterApi(_) | Self::Namespaces(_));
        of_hub || self.tells_properties()
    }

    /// Whether the provider tells properties of its clusters. One that has none stands for any other.
    pub fn tells_properties(&self) -> bool {
        matches!(self, Self::ClusterInventory(_) | Self::Custom(_) | Self::None(_))
    }

    /// Whether a provider that joins others can join it.
    pub fn can_be_part(&self) -> bool {
        !matches!(self, Self::Namespaces(_) | Self::WorkspaceTypes(_) | Self::Multi(_))
    }
}

/// A WorkspaceType of kcp; documents have its path, `root:types:team`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct WorkspaceType {
    /// Path of the workspace that it is in.
    pub workspace: String,
    pub name: String,
}

/// The last name of the path is the type's own.
impl From<String> for WorkspaceType {
    fn from(path: String) -> Self {
        let (workspace, name) = path.rsplit_once(':').unwrap_or(("", &path));
        Self { workspace: workspace.to_owned(), name: name.to_owned() }
    }
}

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
