//! `sync-engine uninstall --lost-target`: releases the sources of a target that is lost.

use super::arguments::ScopeArguments;
use super::live::{Finding, Outcome};
use super::pinned::{Pinned, pinned};
use crate::engine::target::hashed;
use crate::mapping::Mapping;
use crate::multicluster::identity::cluster_identity;
use crate::multicluster::{Endpoint, RequestError};
use crate::plan::{Action, Evidence, release_finalizer};
use crate::survey::{Surveyor, Unseen};

/// What answers where the target was.
pub(super) enum Found {
    /// A cluster, with the hash of its identity.
    Cluster(String),
    /// A server that does not say which cluster it is, or that nobody could ask: there is no credential for it.
    Unidentified(String),
    Nothing(String),
}

/// A gateway that finds no server behind it (5xx) reaches no target.
pub(super) async fn look(target: &Endpoint) -> Found {
    match cluster_identity(target).await {
        Ok(identity) => Found::Cluster(hashed(&identity)),
        Err(error @ (RequestError::Unreachable { .. } | RequestError::AnswerLost { .. })) => {
            Found::Nothing(error.to_string())
        }
        Err(error) if error.code().is_some_and(|code| code >= 500) => Found::Nothing(error.to_string()),
        Err(error) => Found::Unidentified(error.to_string()),
    }
}

/// Takes the lost target off each source of a mapping that is pinned to it.
///
/// # Errors
/// Of a read of the clusters.
pub(super) async fn abandon(
    surveyor: &Surveyor,
    mapping: &Mapping,
    connection: &str,
    found: &Found,
    yes: bool,
) -> Result<Vec<Finding>, Unseen> {
    let mut findings = Vec::new();
    let sources = pinned(surveyor, mapping, &ScopeArguments::default()).await?;
    for source in sources.iter().filter(|source| source.pins.contains_key(connection)) {
        findings.push(abandon_source(source, connection, found, yes).await);
    }
    Ok(findings)
}

async fn abandon_source(source: &Pinned, connection: &str, found: &Found, yes: bool) -> Finding {
    let (reason, why, lost) = match found {
        Found::Cluster(identity) if source.pins.get(connection) == Some(identity) => {
            ("TargetReachable", format!("`{connection}` leads to it"), Err("its target can be reached".to_owned()))
        }
        Found::Cluster(identity) => ("TargetChanged", format!("`{connection}` leads to {identity} now"), Ok(())),
        Found::Unidentified(why) => {
            let refusal = "it may be there: which cluster answers cannot be told".to_owned();
            ("TargetUnidentified", why.clone(), Err(refusal))
        }
        Found::Nothing(why) => ("TargetUnreachable", why.clone(), Ok(())),
    };
    let result = match lost {
        Ok(()) if yes => release(source, connection).await,
        lost => lost,
    };
    source.finding(Outcome::of(result, yes, ("release", "released")), reason, &why)
}

async fn release(source: &Pinned, connection: &str) -> Result<(), String> {
    let mut others = source.pins.clone();
    others.remove(connection);
    if !others.is_empty() {
        return source.write(&source.pinned_to(&others)).await;
    }
    match release_finalizer(&source.writer, &source.source, Evidence::Person) {
        Action::PatchSource { patch, .. } => source.write(&patch).await,
        action => Err(format!("{action} is no patch of a source")),
    }
}
