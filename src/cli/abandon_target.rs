//! `sync-engine abandon-target`: releases the sources of a target that is lost.

use clap::Args;

use super::live::{Finding, LiveArguments, Outcome, report, survey};
use super::pinned::{Pinned, pinned};
use super::{Exit, Misconfigured, ask};
use crate::engine::target::hashed;
use crate::multicluster::Endpoint;
use crate::multicluster::identity::cluster_identity;
use crate::plan::{Action, release_finalizer};
use crate::survey::Unseen;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine abandon-target mappings --target target --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig t.kubeconfig
             (and the same with --yes)

For each source that is pinned to the lost target, the verb removes the pin, and the engine's finalizer if no other target is \
pinned. It deletes nothing. A source is refused while its target can still be reached. An engine that runs with the same mappings \
takes the sources on again, on the target that it finds.

Exit codes: 0 listed or done; 1 a source was refused; 2 usage error; 3 a file or a cluster cannot be read, or a mapping is wrong.";

/// Flags of `abandon-target`.
#[derive(Debug, Args)]
pub struct AbandonTargetArguments {
    #[command(flatten)]
    pub live: LiveArguments,
}

/// What answers where the target was.
enum Found {
    /// A cluster, with the hash of its identity.
    Cluster(String),
    /// A server that does not say which cluster it is.
    Unidentified(String),
    Nothing(String),
}

pub(super) fn abandon_target(arguments: &AbandonTargetArguments) -> anyhow::Result<Exit> {
    let live = &arguments.live;
    let Some(connection) = &live.connections.target else {
        let what = "name the connection that led to the lost target: `--target NAME`, and give its last kubeconfig";
        return Err(Misconfigured(what.to_owned()).into());
    };
    let (catalog, surveyor) = live.open()?;
    let target = surveyor.connection(connection).map_err(|why| Misconfigured(why.to_string()))?.endpoint();
    let found = ask(async { Ok(look(&target).await) })?;
    let findings = survey(&catalog, async |mapping| {
        let mut findings = Vec::new();
        let sources = pinned(&surveyor, mapping, &live.scope).await?;
        for source in sources.iter().filter(|source| source.pins.contains_key(connection)) {
            findings.push(abandon(source, connection, &found, live.yes).await);
        }
        Ok::<_, Unseen>(findings)
    })?;
    report(&findings, live.output)
}

/// A gateway that finds no server behind it (5xx) reaches no target.
async fn look(target: &Endpoint) -> Found {
    match cluster_identity(target).await {
        Ok(identity) => Found::Cluster(hashed(&identity)),
        Err(error) if error.code().is_some_and(|code| code < 500) => Found::Unidentified(error.to_string()),
        Err(error) => Found::Nothing(error.to_string()),
    }
}

async fn abandon(source: &Pinned, connection: &str, found: &Found, yes: bool) -> Finding {
    let (reason, why, lost) = match found {
        Found::Cluster(identity) if source.pins.get(connection) == Some(identity) => {
            ("TargetReachable", format!("`{connection}` leads to it"), Err("its target can be reached".to_owned()))
        }
        Found::Cluster(identity) => ("TargetChanged", format!("`{connection}` leads to {identity} now"), Ok(())),
        Found::Unidentified(why) => {
            let refusal = "a server answers, and which cluster it is cannot be told".to_owned();
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
    match release_finalizer(&source.writer, &source.source) {
        Action::PatchSource { patch, .. } => source.write(&patch).await,
        action => Err(format!("{action} is no patch of a source")),
    }
}
