//! `sync-engine completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Arguments, Exit, terminal};

pub(super) const AFTER_HELP: &str = "\
For bash: source <(sync-engine completions bash). For zsh, put the output into a file `_sync-engine` in a directory of \
`fpath`; for fish, into ~/.config/fish/completions/sync-engine.fish.";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell to write for.
    #[arg(value_enum)]
    pub shell: Shell,
}

pub(super) fn completions(arguments: &CompletionsArguments) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "sync-engine", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
