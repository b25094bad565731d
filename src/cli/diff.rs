//! `sync-engine diff`: what a change of mappings changes, and what the engine would change on live clusters now.

mod change;
mod files;
mod live;

use std::path::PathBuf;

use clap::Args;

use super::arguments::{ConnectionArguments, Format, ScopeArguments, WhichArguments};
use super::{Exit, Usage, terminal};

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine diff main/mappings mappings -f examples
             sync-engine diff mappings --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig

With two folders, the verb compares what becomes of the given sources, without a cluster, and says in the engine's words what the \
release of each mapping would do to them, and whether the limits of the document before would hold it. With one, it is a dry run of the engine \
on live clusters: it plans every source on them to the end, and writes nothing. Where the document in force is another one, it \
also says what the release would do to all sources. It has asked the servers for that; what a rehearsal of the engine cannot know \
is marked. It lists an object on the target whose source is gone, or that the mapping no longer has, as `orphan` with the reason: `sync-engine orphans` deletes or releases it.

Exit codes: 0 no difference; 1 differences; 2 usage error; 3 a file, a cluster or an object cannot be read, or a mapping is wrong.";

/// Flags of `diff`.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// Folders or files of mappings: before and after; or one, to compare with live clusters. A folder that has a folder
    /// `mappings` stands for that folder.
    #[arg(value_name = "DIR|FILE", num_args = 1..=2, env = "SYNC_ENGINE_MAPPINGS", default_value = ".")]
    pub mappings: Vec<PathBuf>,

    /// Folder of schemas (APIResourceSchemas, CustomResourceDefinitions). Default: the folder `schemas` beside the last folder of
    /// mappings.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    /// Files or folders with source objects, to compare two folders; `-` is standard input. Can be repeated.
    #[arg(short, long, value_name = "DIR|FILE")]
    pub filename: Vec<PathBuf>,

    /// File with target objects that exist, to compare two folders. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub observed: Vec<PathBuf>,

    /// File with related objects, to compare two folders. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub related: Vec<PathBuf>,

    #[command(flatten)]
    pub connections: ConnectionArguments,

    #[command(flatten)]
    pub which: WhichArguments,

    #[command(flatten)]
    pub scope: ScopeArguments,

    /// Output format.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "text")]
    pub output: Format,
}

pub(super) fn diff(arguments: &DiffArguments) -> anyhow::Result<Exit> {
    let (changes, is_partial) = match &arguments.mappings[..] {
        [old, new] => {
            let (changes, told) = files::changes(arguments, old, new)?;
            told.iter().for_each(|line| eprintln!("{line}"));
            (changes, false)
        }
        [one] => live::changes(arguments, one)?,
        _ => return Err(Usage("give one or two folders of mappings".to_owned()).into()),
    };
    terminal::print(&change::shown(&changes, arguments.output, terminal::colours()))?;
    if changes.is_empty() && is_partial {
        return Ok(Exit::Unchecked);
    }
    if changes.is_empty() {
        eprintln!("no difference");
        return Ok(Exit::Success);
    }
    Ok(Exit::Failure)
}
