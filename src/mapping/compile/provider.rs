//! `ClusterProvider`: where clusters come from.

use super::{names, not_yet};
use crate::mapping::diagnostic::Finding;
use crate::mapping::document::{ClusterProviderDocument, ClusterProviderSpec};
use crate::mapping::{ClusterProvider, ProviderKind};
use crate::yaml::NodeValue;

pub(super) fn compile(
    document: &ClusterProviderDocument,
    findings: &mut Vec<Finding>,
    refused: &mut Vec<Finding>,
) -> ClusterProvider {
    names::check_dns_label(&document.metadata.name, "a ClusterProvider's name", findings);
    let spec = &document.spec;
    let connection = match &spec.value {
        ClusterProviderSpec::Kubeconfig(spec) => Some(&spec.connection),
        ClusterProviderSpec::KubeconfigSecrets(spec) => Some(&spec.connection),
        ClusterProviderSpec::ClusterApi(spec) => Some(&spec.connection),
        ClusterProviderSpec::ClusterInventory(spec) => Some(&spec.connection),
        ClusterProviderSpec::Namespaces(spec) => Some(&spec.connection),
        ClusterProviderSpec::ApiExport(spec) => spec.connection.as_ref(),
        _ => None,
    };
    if let Some(connection) = connection {
        names::check_connection(connection, findings);
    }
    let kind = match &spec.value {
        ClusterProviderSpec::Kubeconfig(spec) => ProviderKind::Kubeconfig { connection: spec.connection.value.clone() },
        _ => {
            let name = match &spec.node.value {
                NodeValue::Mapping(entries) => entries.first().and_then(|(key, _)| key.as_str()).unwrap_or_default(),
                _ => "",
            };
            refused.push(not_yet(spec.span(), &format!("the provider `{name}`")));
            ProviderKind::NotYet(name.to_owned())
        }
    };
    ClusterProvider { name: document.metadata.name.value.clone(), kind }
}
