//! `ClusterProvider`: where clusters come from.

use std::sync::Arc;

use super::names::{connection, dns_label, workspace_path};
use super::{read, source};
use crate::ClusterProvider;
use crate::diagnostic::Finding;
use crate::document::{ClusterProviderDocument, ProviderKind, SelectorSpec};
use crate::yaml::{Node, Spanned, Typed};

const PROVIDER: &str = "a ClusterProvider's name";

/// Its one field is the kind as it is written; what is written in it has the same names in all kinds.
pub(super) fn compile(document: &ClusterProviderDocument, findings: &mut Vec<Finding>) -> ClusterProvider {
    let name = dns_label(&document.metadata.name, PROVIDER, findings);
    let Spanned { value: kind, node } = &document.spec;
    let provider = ClusterProvider { name, kind: kind.clone() };
    let Some((_, written)) = node.entries().first() else { return provider };
    for (field, node) in written.entries().iter().filter_map(|(field, node)| Some((field.as_str()?, text(node)?))) {
        match field {
            "connection" => drop(connection(&node, findings)),
            "namespace" => drop(dns_label(&node, "a namespace", findings)),
            "directory" => directory(&node, findings),
            "initializing" | "terminating" => workspace_type(&node, findings),
            _ => {}
        }
    }
    for part in written.items().iter().filter_map(text) {
        dns_label(&part, PROVIDER, findings);
    }
    let selector: Option<Typed<SelectorSpec>> = written.get("selector").and_then(|node| read(node, &mut Vec::new()));
    if let Some(selector) = selector {
        source::selector(&selector.value, findings);
    }
    if let ProviderKind::WorkspaceTypes(types) = kind
        && types.initializing.is_none()
        && types.terminating.is_none()
    {
        let message = "`workspaceTypes` needs `initializing`, `terminating`, or both";
        let finding = Finding::new("SE0103", document.spec.span(), message);
        findings.push(finding.help("write the path of a WorkspaceType: `initializing: root:types:team`"));
    }
    provider
}

fn text(node: &Arc<Node>) -> Option<Spanned<String>> {
    Some(Spanned { value: node.as_str()?.to_owned(), node: node.clone() })
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

fn workspace_type(path: &Spanned<String>, findings: &mut Vec<Finding>) {
    if !workspace_path(path, findings).contains(':') {
        let finding = Finding::new("SE0110", path.span(), format!("`{}` names no workspace", path.value));
        findings.push(finding.help("write the workspace of the type, and its name: `root:types:team`"));
    }
}
