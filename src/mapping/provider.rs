//! A compiled `ClusterProvider`: how the clusters of sources are found.

use serde_json::{Value, json};

use super::{Selector, document};

/// A compiled `ClusterProvider` document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterProvider {
    pub name: String,
    pub kind: ProviderKind,
}

impl ClusterProvider {
    /// Its document, for the state store, with those of the providers that it joins; `None` where an engine refuses it.
    pub fn document(&self) -> Option<String> {
        let spec = match &self.kind {
            ProviderKind::Multi(parts) => {
                let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
                let parts = parts
                    .iter()
                    .filter_map(|part| Self { name: part.name.clone(), kind: part.kind.clone()? }.document());
                let joint = written(&self.name, &json!({"multi": names}));
                return Some([joint].into_iter().chain(parts).collect::<Vec<_>>().join("\n---\n"));
            }
            ProviderKind::Kubeconfig { connection } => json!({"kubeconfig": {"connection": connection}}),
            ProviderKind::KubeconfigFiles { directory, glob } => {
                json!({"kubeconfigFiles": {"directory": directory, "glob": glob}})
            }
            ProviderKind::KubeconfigSecrets { connection, namespace, selector, key } => json!({"kubeconfigSecrets": {
                "connection": connection, "namespace": namespace, "selector": selector, "key": key,
            }}),
            ProviderKind::Kind => json!({"kind": {}}),
            ProviderKind::ClusterApi { connection, namespace, selector } => json!({"clusterApi": {
                "connection": connection, "namespace": namespace, "selector": selector,
            }}),
            ProviderKind::Custom { name, parameters } => json!({"custom": {"name": name, "parameters": parameters}}),
            ProviderKind::NotYet(_) => return None,
        };
        Some(written(&self.name, &spec))
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
            Self::KubeconfigSecrets { connection, .. } | Self::ClusterApi { connection, .. } => Some(connection),
            Self::Kubeconfig { .. }
            | Self::KubeconfigFiles { .. }
            | Self::Kind
            | Self::Custom { .. }
            | Self::NotYet(_)
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

    /// Whether a provider that joins others can join it.
    pub fn can_be_part(&self) -> bool {
        !matches!(self, Self::Multi(_) | Self::NotYet(_))
    }
}

/// How a provider finds its clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderKind {
    /// One plain cluster, reached through a connection.
    Kubeconfig { connection: String },
    /// Every context of every kubeconfig file of a directory; `glob` `None`: of every file.
    KubeconfigFiles { directory: String, glob: Option<String> },
    /// The kubeconfigs in Secrets of a hub.
    KubeconfigSecrets { connection: String, namespace: String, selector: Selector, key: String },
    /// The clusters of kind on this machine.
    Kind,
    /// The Clusters of Cluster API on a hub; `namespace` `None`: in all namespaces.
    ClusterApi { connection: String, namespace: Option<String>, selector: Selector },
    /// Clusters listed by a program that embeds the engine; `name`: of the provider that it registered.
    Custom { name: String, parameters: Value },
    /// The clusters of other providers.
    Multi(Vec<Part>),
    /// A way that has no run time yet, by its name: an engine refuses its document.
    NotYet(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::compile::{Compiled, compile};

    #[test]
    fn every_kind_is_the_same_after_it_was_kept() {
        let (connection, selector) = ("hub".to_owned(), "tier in (a, b)".parse::<Selector>().unwrap());
        let (namespace, key) = ("fleet".to_owned(), "kubeconfig".to_owned());
        let kinds = [
            ProviderKind::Kubeconfig { connection: connection.clone() },
            ProviderKind::KubeconfigFiles { directory: "/etc/fleet".into(), glob: None },
            ProviderKind::KubeconfigSecrets {
                connection: connection.clone(),
                namespace,
                selector: selector.clone(),
                key,
            },
            ProviderKind::Kind,
            ProviderKind::ClusterApi { connection, namespace: None, selector },
            ProviderKind::Custom { name: "inventory".into(), parameters: json!({"region": ["eu", 1]}) },
            ProviderKind::Custom { name: "inventory".into(), parameters: Value::Null },
        ];
        for kind in kinds {
            let provider = ClusterProvider { name: "edge".into(), kind };
            let text = provider.document().unwrap();
            let compiled = compile(&crate::yaml::parse_one(&text).unwrap());
            assert!(
                matches!(&compiled.compiled, Some(Compiled::ClusterProvider(kept)) if *kept == provider),
                "{text}: {:?}",
                compiled.findings
            );
        }
    }
}
