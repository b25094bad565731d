//! The page about the command line: the help of every verb.

use std::fmt::Write;

use clap::{Command, CommandFactory};
use sync_engine::cli::Arguments;

use super::generated::notice;

/// As wide as the pages are.
const WIDTH: usize = 120;

/// The content of `docs/cli.md`.
pub fn page() -> String {
    let mut page = notice("the help of each verb");
    page.push_str(
        "# Command line\n\nEach flag of `run` has an environment variable: `SYNC_ENGINE_` and the flag's name in capitals, with `_` for `-`. \
         Kubeconfigs are\nread as kubectl reads them: tokens, client certificates, exec plugins that do not prompt, impersonation and \
         proxies. Every verb takes\n`--log-format` and `--log-level`. Without a verb, the command runs the engine.\n",
    );
    // The flags of the root are those of `run`.
    let without_flags = Arguments::command().mut_args(|flag| flag.hide(true));
    section(&mut page, &without_flags, "sync-engine");
    page
}

fn section(page: &mut String, command: &Command, name: &str) {
    let help = command.clone().bin_name(name).term_width(WIDTH).mut_args(|flag| flag.hide_env_values(true));
    // Without the root's flags, which every verb takes: those are written once.
    let help = help.disable_help_flag(true).disable_version_flag(true).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim()).expect("a text");
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        section(page, verb, &format!("{name} {}", verb.get_name()));
    }
}
