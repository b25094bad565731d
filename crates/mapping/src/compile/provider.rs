//! `ClusterProvider`: where clusters come from.

use super::names::{connection, dns_label, workspace_path};
use super::source::selector;
use crate::diagnostic::Finding;
use crate::document::WorkspaceTypesSpec;
use crate::document::{ClusterProviderDocument, ClusterProviderSpec, KindSpec, NoneSpec};
use crate::provider::SOURCE_CONNECTION;
use crate::yaml::Spanned;
use crate::{ClusterProvider, Part, ProviderKind, WorkspaceType};

const PROVIDER: &str = "a ClusterProvider's name";
const NAMESPACE: &str = "a namespace";

pub(super) fn compile(document: &ClusterProviderDocument, findings: &mut Vec<Finding>) -> ClusterProvider {
    let name = dns_label(&document.metadata.name, PROVIDER, findings);
    let spec = &document.spec;
    let kind = match &spec.value {
        ClusterProviderSpec::Kubeconfig(spec) => {
            ProviderKind::Kubeconfig { connection: connection(&spec.connection, findings) }
        }
        ClusterProviderSpec::KubeconfigFiles(spec) => {
            directory(&spec.directory, findings);
            ProviderKind::KubeconfigFiles { directory: spec.directory.value.clone(), glob: spec.glob.clone() }
        }
        ClusterProviderSpec::KubeconfigSecrets(spec) => ProviderKind::KubeconfigSecrets {
            connection: connection(&spec.connection, findings),
            namespace: dns_label(&spec.namespace, NAMESPACE, findings),
            selector: selector(&spec.selector, findings),
            key: spec.key.clone().unwrap_or_else(|| "kubeconfig".to_owned()),
        },
        ClusterProviderSpec::Multi(names) => {
            let part = |name: &Spanned<String>| Part { name: dns_label(name, PROVIDER, findings), kind: None };
            ProviderKind::Multi(names.iter().map(part).collect())
        }
        ClusterProviderSpec::Kind(KindSpec {}) => ProviderKind::Kind,
        ClusterProviderSpec::Custom(spec) => {
            ProviderKind::Custom { name: spec.name.clone(), parameters: spec.parameters.clone() }
        }
        ClusterProviderSpec::ClusterApi(hub) | ClusterProviderSpec::ClusterInventory(hub) => {
            let connection = connection(&hub.connection, findings);
            let namespace = hub.namespace.as_ref().map(|name| dns_label(name, NAMESPACE, findings));
            let selector = selector(&hub.selector, findings);
            match &spec.value {
                ClusterProviderSpec::ClusterApi(_) => ProviderKind::ClusterApi { connection, namespace, selector },
                _ => ProviderKind::ClusterInventory { connection, namespace, selector },
            }
        }
        ClusterProviderSpec::None(NoneSpec {}) => ProviderKind::None,
        ClusterProviderSpec::Namespaces(spec) => ProviderKind::Namespaces {
            connection: connection(&spec.connection, findings),
            selector: selector(&spec.selector, findings),
        },
        ClusterProviderSpec::WorkspaceTypes(types) => workspace_types(types, spec, findings),
    };
    ClusterProvider { name, kind }
}

/// The name of a directory, whose path the command line says.
fn directory(given: &Spanned<String>, findings: &mut Vec<Finding>) {
    if !crate::names::is_dns_label(given) {
        let name = given.value.rsplit('/').find(|part| crate::names::is_dns_label(part)).unwrap_or("fleet");
        let message = format!("a document names no path of the engine's machine: `{}`", given.value);
        let finding = Finding::new("SE0110", given.span(), message);
        findings.push(finding.help(format!(
            "write a name, `directory: {name}`, and give the engine its path as `--directory {name}=PATH`"
        )));
    }
}

fn workspace_types(
    types: &WorkspaceTypesSpec,
    spec: &Spanned<ClusterProviderSpec>,
    findings: &mut Vec<Finding>,
) -> ProviderKind {
    if types.initializing.is_none() && types.terminating.is_none() {
        let finding =
            Finding::new("SE0103", spec.span(), "`workspaceTypes` needs `initializing`, `terminating`, or both");
        findings.push(finding.help("write the path of a WorkspaceType: `initializing: root:types:team`"));
    }
    let mut of = |path: &Option<Spanned<String>>| path.as_ref().and_then(|path| workspace_type(path, findings));
    ProviderKind::WorkspaceTypes {
        initializing: of(&types.initializing),
        terminating: of(&types.terminating),
        connection: types.connection.as_ref().map_or(SOURCE_CONNECTION.to_owned(), |name| connection(name, findings)),
    }
}

/// The last name of the path is the type's own.
fn workspace_type(path: &Spanned<String>, findings: &mut Vec<Finding>) -> Option<WorkspaceType> {
    let text = workspace_path(path, findings);
    let Some((workspace, name)) = text.rsplit_once(':') else {
        let finding = Finding::new("SE0110", path.span(), format!("`{}` names no workspace", path.value));
        findings.push(finding.help("write the workspace of the type, and its name: `root:types:team`"));
        return None;
    };
    Some(WorkspaceType { workspace: workspace.to_owned(), name: name.to_owned() })
}
