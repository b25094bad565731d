//! `ClusterProvider`: where clusters come from.

use super::source::selector;
use super::{Compiler, names, not_yet};
use crate::mapping::diagnostic::Finding;
use crate::mapping::document::{ClusterProviderDocument, ClusterProviderSpec, KindSpec, NoneSpec};
use crate::mapping::{ClusterProvider, Part, ProviderKind};
use crate::yaml::{NodeValue, Spanned};

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
        _ => None,
    };
    if let Some(connection) = connection {
        names::check_connection(connection, findings);
    }
    let kind = match &spec.value {
        ClusterProviderSpec::Kubeconfig(spec) => ProviderKind::Kubeconfig { connection: spec.connection.value.clone() },
        ClusterProviderSpec::KubeconfigFiles(spec) => {
            ProviderKind::KubeconfigFiles { directory: spec.directory.clone(), glob: spec.glob.clone() }
        }
        ClusterProviderSpec::KubeconfigSecrets(spec) => {
            names::check_dns_label(&spec.namespace, "a namespace", findings);
            ProviderKind::KubeconfigSecrets {
                connection: spec.connection.value.clone(),
                namespace: spec.namespace.value.clone(),
                selector: selector(&spec.selector, findings),
                key: spec.key.clone().unwrap_or_else(|| "kubeconfig".to_owned()),
            }
        }
        ClusterProviderSpec::Multi(names) => {
            names.iter().for_each(|name| names::check_dns_label(name, "a ClusterProvider's name", findings));
            let part = |name: &Spanned<String>| Part { name: name.value.clone(), kind: None };
            ProviderKind::Multi(names.iter().map(part).collect())
        }
        ClusterProviderSpec::Kind(KindSpec {}) => ProviderKind::Kind,
        ClusterProviderSpec::Custom(spec) => {
            ProviderKind::Custom { name: spec.name.clone(), parameters: spec.parameters.clone() }
        }
        ClusterProviderSpec::ClusterApi(spec) => ProviderKind::ClusterApi {
            connection: spec.connection.value.clone(),
            namespace: namespace(spec.namespace.as_ref(), findings),
            selector: selector(&spec.selector, findings),
        },
        ClusterProviderSpec::ClusterInventory(spec) => ProviderKind::ClusterInventory {
            connection: spec.connection.value.clone(),
            namespace: namespace(spec.namespace.as_ref(), findings),
            selector: selector(&spec.selector, findings),
            access_providers: spec.access_providers.clone(),
        },
        ClusterProviderSpec::ApiExport(spec) => ProviderKind::ApiExport(Compiler::api_export(spec, findings)),
        ClusterProviderSpec::None(NoneSpec {}) => ProviderKind::None,
        ClusterProviderSpec::Namespaces(spec) => ProviderKind::Namespaces {
            connection: spec.connection.value.clone(),
            selector: selector(&spec.selector, findings),
        },
        ClusterProviderSpec::WorkspaceTypes(_) => {
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

/// A hub's namespace; `None`: all.
fn namespace(given: Option<&Spanned<String>>, findings: &mut Vec<Finding>) -> Option<String> {
    let name = given?;
    names::check_dns_label(name, "a namespace", findings);
    Some(name.value.clone())
}
