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
    let script = String::from_utf8_lossy(&script);
    // clap_complete 4.6.11 writes the dash of a program's name in two ways: a verb leads to a name under which nothing stands,
    // and bash offers nothing behind it.
    let is_bash = arguments.shell == Shell::Bash;
    let script = if is_bash { script.replace("sync__subcmd__engine", "sync__engine").into() } else { script };
    terminal::print(&script)?;
    Ok(Exit::Success)
}
