//! `ToyCluster`: a document that gives the sandbox one more cluster.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::scene::NAMES;
use super::toy_operator::{ApiVersion, whole};
use crate::mapping::diagnostic::Finding;
use crate::mapping::document::Metadata;
use crate::object::is_dns_label;
use crate::yaml;

/// Connections and contexts that every sandbox has, beside those of its consumers.
const TAKEN: [&str; 4] = ["kcp", "target", "provider", "downstream"];

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: Kind,
    metadata: Metadata,
}

#[derive(Debug, Clone, Deserialize)]
enum Kind {
    ToyCluster,
}

/// One more in-memory cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToyCluster {
    /// Its connection, its context in the visitor's kubeconfig, and the Secrets with its kubeconfig are called so.
    pub name: String,
    /// Labels of these Secrets, by which a ClusterProvider selects it.
    pub labels: BTreeMap<String, String>,
}

impl ToyCluster {
    /// Compiles a text that holds one document.
    ///
    /// # Errors
    /// Everything that is wrong with it, rendered with its place in `file`.
    pub fn compile(file: &str, text: &str) -> Result<Self, Vec<String>> {
        whole(file, text, |root, findings| {
            let Metadata { name, labels, .. } =
                yaml::from_node::<Document>(root, &|_| Vec::new(), findings)?.value.metadata;
            let taken = [TAKEN, NAMES].concat();
            let is_taken = taken.contains(&name.value.as_str()) || name.value.starts_with("consumer-");
            if !is_dns_label(&name.value) || is_taken {
                let finding =
                    Finding::new("SE0104", name.span(), format!("no ToyCluster can be called `{}`", name.value));
                let taken = taken.join("`, `");
                findings.push(finding.help(format!("use a DNS label other than `{taken}`, which the sandbox needs")));
            }
            let labels = labels.0.into_iter().map(|(key, value)| (key.value, value)).collect();
            Some(Self { name: name.value, labels })
        })
    }
}
