//! `sync-engine diff`: what a change of mappings changes, and what the engine would change on live clusters now.

mod change;
mod files;
mod live;

use std::path::PathBuf;

use clap::Args;

use super::arguments::{ConnectionArguments, Format};
use super::{Exit, Misconfigured, terminal};

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine diff main/mappings mappings --sources examples
             sync-engine diff mappings --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig

With two directories, what becomes of the given sources is compared, without a cluster. With one, the engine's own planner is \
followed to its end for every source that stands on the clusters; they are read, and nothing is written. What stands on the \
target for a source that is gone, or for an object that the mapping no longer has, is listed too, as `orphan` with the reason: \
`sync-engine orphans` deletes or releases it.

Exit codes: 0 there is no difference; 1 there is; 2 the command line cannot be understood; 78 a file, a cluster or an object \
cannot be read, or a mapping is wrong.";

/// Flags of `diff`.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// Directories or files of mappings: before and after; or one, to be compared with live clusters.
    #[arg(value_name = "DIR|FILE", num_args = 1..=2, required = true)]
    pub mappings: Vec<PathBuf>,

    /// Files or directories with consumers' objects, where two directories are compared. May be given several times.
    #[arg(long, value_name = "DIR|FILE")]
    pub sources: Vec<PathBuf>,

    /// File with downstream objects as they stand, where two directories are compared. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub observed: Vec<PathBuf>,

    /// File with related objects as they stand where they come from, where two directories are compared. May be given several
    /// times.
    #[arg(long, value_name = "FILE")]
    pub related: Vec<PathBuf>,

    #[command(flatten)]
    pub connections: ConnectionArguments,

    /// Which engine is meant, as `run` is told it.
    #[arg(long, value_name = "ID", env = "SYNC_ENGINE_ENGINE_ID", default_value = "main")]
    pub engine_id: String,

    /// Namespace on each target for the engine's notes, as `run` is told it: they name kinds of earlier versions of a mapping.
    #[arg(long, value_name = "NAMESPACE", env = "SYNC_ENGINE_INVENTORY_NAMESPACE", default_value = "sync-engine")]
    pub inventory_namespace: String,

    /// Directory of schemas; a status field that the consumer's schema lacks is left out, as the engine does.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    /// Line by line, as documents for programs, or a row a change.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

pub(super) fn diff(arguments: &DiffArguments) -> anyhow::Result<Exit> {
    let changes = match &arguments.mappings[..] {
        [old, new] => files::changes(arguments, old, new)?,
        [one] => live::changes(arguments, one)?,
        _ => return Err(Misconfigured("name one or two directories of mappings".to_owned()).into()),
    };
    terminal::print(&change::shown(&changes, arguments.output, terminal::colours()))?;
    Ok(if changes.is_empty() { Exit::Success } else { Exit::Failure })
}
