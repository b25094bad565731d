//! The kubeconfigs of the command line: each file and context must be there before anything starts.

use std::collections::BTreeMap;

use kube::config::{Kubeconfig, KubeconfigError};

use super::Misconfigured;
use super::options::KubeconfigRef;

/// # Errors
/// For the first connection whose kubeconfig or context cannot be used.
pub(super) fn check(connections: &BTreeMap<String, KubeconfigRef>) -> Result<(), Misconfigured> {
    connections.iter().try_for_each(|(name, reference)| {
        usable(reference).map_err(|trouble| {
            let flag = flag(name);
            Misconfigured(format!(
                "the kubeconfig `{}` of connection `{name}` ({flag}) {trouble}",
                reference.path.display()
            ))
        })
    })
}

fn flag(connection: &str) -> String {
    match connection {
        "kcp" => "--kcp-kubeconfig".to_owned(),
        "target" => "--target-kubeconfig".to_owned(),
        other => format!("--kubeconfig {other}=…"),
    }
}

fn usable(reference: &KubeconfigRef) -> Result<(), String> {
    let config = Kubeconfig::read_from(&reference.path).map_err(|error| unreadable(&error))?;
    if config.contexts.is_empty() {
        return Err("has no contexts".to_owned());
    }
    let context = match (&reference.context, &config.current_context) {
        (Some(context), _) => context,
        (None, Some(context)) if !context.is_empty() => context,
        (None, _) => return Err(format!("has no current-context; append one of these: {}", listed(&config, "#"))),
    };
    let Some(entry) = config.contexts.iter().find(|entry| entry.name == *context) else {
        return Err(format!("has no context `{context}`; it has: {}", listed(&config, "")));
    };
    let Some(entry) = &entry.context else { return Err(format!("gives its context `{context}` no content")) };
    if !config.clusters.iter().any(|cluster| cluster.name == entry.cluster) {
        return Err(format!("has no cluster `{}`, which its context `{context}` names", entry.cluster));
    }
    match &entry.user {
        Some(user) if !config.auth_infos.iter().any(|auth| auth.name == *user) => {
            Err(format!("has no user `{user}`, which its context `{context}` names"))
        }
        _ => Ok(()),
    }
}

fn unreadable(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
        // Not its text: an error of the parser may quote a line of credentials.
        _ => "is not a kubeconfig: it cannot be parsed".to_owned(),
    }
}

fn listed(config: &Kubeconfig, prefix: &str) -> String {
    config.contexts.iter().map(|context| format!("`{prefix}{}`", context.name)).collect::<Vec<_>>().join(", ")
}
