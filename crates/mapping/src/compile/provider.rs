//! `ClusterProvider`: where clusters come from.

use super::names;
use super::source::selector;
use crate::diagnostic::Finding;
use crate::document::WorkspaceTypesSpec;
use crate::document::{ClusterProviderDocument, ClusterProviderSpec, KindSpec, NoneSpec};
use crate::provider::SOURCE_CONNECTION;
use crate::yaml::Spanned;
use crate::{ClusterProvider, Part, ProviderKind, WorkspaceType};

pub(super) fn compile(document: &ClusterProviderDocument, findings: &mut Vec<Finding>) -> ClusterProvider {
    names::check_dns_label(&document.metadata.name, "a ClusterProvider's name", findings);
    let spec = &document.spec;
    let connection = match &spec.value {
        ClusterProviderSpec::Kubeconfig(spec) => Some(&spec.connection),
        ClusterProviderSpec::KubeconfigSecrets(spec) => Some(&spec.connection),
        ClusterProviderSpec::ClusterApi(spec) => Some(&spec.connection),
        ClusterProviderSpec::ClusterInventory(spec) => Some(&spec.connection),
        ClusterProviderSpec::Namespaces(spec) => Some(&spec.connection),
        ClusterProviderSpec::WorkspaceTypes(spec) => spec.connection.as_ref(),
        _ => None,
    };
    if let Some(connection) = connection {
        names::check_connection(connection, findings);
    }
    let kind = match &spec.value {
        ClusterProviderSpec::Kubeconfig(spec) => ProviderKind::Kubeconfig { connection: spec.connection.value.clone() },
        ClusterProviderSpec::KubeconfigFiles(spec) => {
            directory(&spec.directory, findings);
            ProviderKind::KubeconfigFiles { directory: spec.directory.value.clone(), glob: spec.glob.clone() }
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
        ClusterProviderSpec::ClusterInventory(spec) => {
            if let Some(file) = &spec.access_providers {
                let message = "a document names no file of the engine's machine: `accessProviders`";
                let finding = Finding::new("SE0110", file.0.headline(), message);
                findings.push(finding.help("leave it out; the engine is given the file as `--access-providers FILE`"));
            }
            ProviderKind::ClusterInventory {
                connection: spec.connection.value.clone(),
                namespace: namespace(spec.namespace.as_ref(), findings),
                selector: selector(&spec.selector, findings),
            }
        }
        ClusterProviderSpec::None(NoneSpec {}) => ProviderKind::None,
        ClusterProviderSpec::Namespaces(spec) => ProviderKind::Namespaces {
            connection: spec.connection.value.clone(),
            selector: selector(&spec.selector, findings),
        },
        ClusterProviderSpec::WorkspaceTypes(types) => workspace_types(types, spec, findings),
    };
    ClusterProvider { name: document.metadata.name.value.clone(), kind }
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

/// A hub's namespace; `None`: all.
fn namespace(given: Option<&Spanned<String>>, findings: &mut Vec<Finding>) -> Option<String> {
    let name = given?;
    names::check_dns_label(name, "a namespace", findings);
    Some(name.value.clone())
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
        connection: types.connection.as_ref().map_or(SOURCE_CONNECTION, |connection| &connection.value).to_owned(),
    }
}

/// The last name of the path is the type's own.
fn workspace_type(path: &Spanned<String>, findings: &mut Vec<Finding>) -> Option<WorkspaceType> {
    names::check_workspace_path(path, findings);
    let Some((workspace, name)) = path.value.rsplit_once(':') else {
        let finding = Finding::new("SE0110", path.span(), format!("`{}` names no workspace", path.value));
        findings.push(finding.help("write the workspace of the type, and its name: `root:types:team`"));
        return None;
    };
    Some(WorkspaceType { workspace: workspace.to_owned(), name: name.to_owned() })
}
