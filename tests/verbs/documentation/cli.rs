//! The page about the command line: the help of each verb, and once for all of them the flags that several verbs have.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command, CommandFactory};
use sync_engine::cli::Arguments;

use super::generated::notice;

/// As wide as the pages are.
const WIDTH: usize = 120;

/// The flags that say which clusters there are.
const CONNECTIONS: [&str; 7] =
    ["kcp_kubeconfig", "target_kubeconfig", "others", "directories", "access_providers", "allow_kind", "target"];

/// A verb under the words that call it.
struct Verb {
    name: String,
    command: Command,
}

/// The content of `docs/cli.md`.
pub fn page() -> String {
    let mut page = notice("the help of each verb");
    page.push_str(
        "# Command line\n\nA flag of `run` has an environment variable, in every verb that has the flag: `SYNC_ENGINE_` and its name in capitals, \
         with `_` for `-`.\n`SYNC_ENGINE_MAPPINGS` also stands for the mappings that verbs but `sandbox` take as arguments. Kubeconfigs are \
         read as kubectl reads\nthem: tokens, client certificates, exec plugins that do not prompt, impersonation and proxies.\n",
    );
    let root = Arguments::command();
    let verbs = verbs(&root, "sync-engine");
    let shared = shared(&root, &verbs);
    let (connections, others): (Vec<Arg>, Vec<Arg>) = shared.iter().cloned().partition(is_connection);
    // README.md says what the program is.
    let about = root.get_long_about().map(ToString::to_string).unwrap_or_default();
    let (_, how) = about.split_once("\n\nEvery verb").expect("how verbs are called");
    let about = root.clone().mut_args(|flag| flag.hide(true)).after_help("").long_about(format!("Every verb{how}"));
    section(&mut page, "sync-engine", "", about, "{about-with-newline}\n{usage-heading} {usage}");
    section(&mut page, "Connection flags", "", flags(connections), "{all-args}");
    let text = "Each verb names those that it has. All take `--log-format` and `--log-level`.\n\n";
    section(&mut page, "Flags of several verbs", text, flags(others), "{all-args}");
    for Verb { name, command } in &verbs {
        let own = command.clone().mut_args(|flag| match flag.get_id() == "output" {
            true => flag.hide_possible_values(true),
            false => {
                let hidden = shared.iter().any(|other| is_same(other, &flag));
                flag.hide(hidden)
            }
        });
        let usage = command.clone().bin_name(name).render_usage().to_string();
        let own = own.override_usage(usage.trim_start_matches("Usage: ").to_owned());
        let layout = "{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}";
        section(&mut page, name, &those_of(command, &shared), own, layout);
    }
    page
}

/// The verbs below a command. A verb that only stands before others has no help of its own.
fn verbs(command: &Command, name: &str) -> Vec<Verb> {
    let below = command.get_subcommands().filter(|verb| verb.get_name() != "help");
    let verbs = below.map(|verb| (format!("{name} {}", verb.get_name()), verb));
    verbs
        .flat_map(|(name, verb)| match verb.has_subcommands() {
            true => self::verbs(verb, &name),
            false => vec![Verb { name, command: verb.clone() }],
        })
        .collect()
}

/// The arguments that mean the same in several verbs, each once, with those of the program itself.
fn shared(root: &Command, verbs: &[Verb]) -> Vec<Arg> {
    let has = |verb: &Verb, flag: &Arg| verb.command.get_arguments().any(|other| is_same(other, flag));
    let in_several = |flag: &&Arg| verbs.iter().filter(|verb| has(verb, flag)).count() > 1;
    let global = root.get_arguments().filter(|flag| flag.is_global_set());
    let all = verbs.iter().flat_map(|verb| verb.command.get_arguments());
    let mut shared: Vec<Arg> = Vec::new();
    for flag in all.filter(|flag| flag.get_id() != "output").filter(in_several).chain(global) {
        if !shared.iter().any(|other| is_same(other, flag)) {
            shared.push(flag.clone());
        }
    }
    let outputs = verbs.iter().flat_map(|verb| verb.command.get_arguments()).filter(|flag| flag.get_id() == "output");
    let outputs: Vec<&Arg> = outputs.collect();
    let mut formats: Vec<PossibleValue> = Vec::new();
    for format in outputs.iter().flat_map(|flag| flag.get_possible_values()) {
        if !formats.iter().any(|other| other.get_name() == format.get_name()) {
            formats.push(format);
        }
    }
    let output = Arg::clone(outputs.first().expect("a verb with a format"));
    let output = output.value_parser(PossibleValuesParser::new(formats)).long_help(None).hide_default_value(true);
    shared.push(output.help("Output format. Not every verb has every one"));
    shared
}

fn is_same(one: &Arg, other: &Arg) -> bool {
    let words = |flag: &Arg| flag.get_long_help().or(flag.get_help()).map(ToString::to_string);
    one.get_id() == other.get_id() && words(one) == words(other)
}

fn is_connection(flag: &Arg) -> bool {
    CONNECTIONS.contains(&flag.get_id().as_str())
}

fn flags(flags: Vec<Arg>) -> Command {
    Command::new("flags").disable_help_flag(true).args(flags.into_iter().map(|flag| flag.required(false)))
}

/// Which of the shared flags a verb has: all of them, or all but some.
fn those_of(command: &Command, shared: &[Arg]) -> String {
    let flags = shared.iter().filter(|flag| !flag.is_global_set() && flag.get_id() != "output");
    // The usage shows the arguments without a name.
    let flags = flags.filter_map(|flag| Some((flag, format!("`--{}`", flag.get_long()?))));
    let (connections, others): (Vec<_>, Vec<_>) = flags.partition(|(flag, _)| is_connection(flag));
    let has = |flag: &Arg| command.get_arguments().any(|other| is_same(other, flag));
    let (present, missing): (Vec<_>, Vec<_>) = connections.into_iter().partition(|(flag, _)| has(flag));
    let missing: Vec<_> = missing.into_iter().map(|(_, name)| name).collect();
    let but = if missing.is_empty() { String::new() } else { format!(" but {}", missing.join(", ")) };
    let link = (!present.is_empty()).then(|| format!("the [connection flags](#connection-flags){but}"));
    let others = others.into_iter().filter(|(flag, _)| has(flag)).map(|(_, name)| name);
    let all: Vec<_> = others.chain(link).collect();
    if all.is_empty() { String::new() } else { format!("Also: {}.\n\n", all.join(", ")) }
}

fn section(page: &mut String, title: &str, text: &str, command: Command, layout: &'static str) {
    let command = command.bin_name(title).term_width(WIDTH).help_template(layout);
    let command = command.disable_help_flag(true).disable_version_flag(true);
    let help = command.mut_args(|flag| flag.hide_env(true)).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Where all flags of a part are hidden, an empty part is left.
    let parts: Vec<_> = lines.split(|line| line.is_empty()).filter(|part| !part.is_empty()).collect();
    let parts: Vec<_> = parts.into_iter().map(|part| part.join("\n")).collect();
    write!(page, "\n## {title}\n\n{text}```text\n{}\n```\n", parts.join("\n\n")).expect("a text");
}

#[test]
fn what_run_takes_from_the_environment_every_verb_does() {
    let root = Arguments::command();
    let verbs = verbs(&root, "sync-engine");
    let run = verbs.iter().find(|verb| verb.name == "sync-engine run").expect("the verb");
    let of_run: Vec<_> = run.command.get_arguments().filter_map(Arg::get_long).collect();
    assert!(of_run.len() > 20, "{of_run:?}");
    for Verb { name, command } in &verbs {
        for flag in command.get_arguments() {
            let variable = match flag.get_long() {
                Some(long) if of_run.contains(&long) => Some(long),
                None if flag.get_id() == "mappings" && name != "sync-engine sandbox" => Some("mappings"),
                _ => None,
            };
            let variable = variable.map(|long| format!("SYNC_ENGINE_{}", long.to_uppercase().replace('-', "_")));
            let takes = flag.get_env().map(|name| name.to_string_lossy().into_owned());
            assert_eq!(takes, variable, "{name}: {}", flag.get_id());
        }
    }
}

/// A flag more is a decision.
#[test]
fn there_are_so_many_verbs_and_flags() {
    let root = Arguments::command();
    let verbs = verbs(&root, "sync-engine");
    let of_verbs = verbs.iter().flat_map(|verb| verb.command.get_arguments());
    let pairs: Vec<_> = of_verbs.filter_map(Arg::get_long).collect();
    let distinct: BTreeSet<_> = pairs.iter().collect();
    insta::assert_snapshot!(format!("{} verbs, {} flags, {} pairs", verbs.len(), distinct.len(), pairs.len()), @"21 verbs, 68 flags, 165 pairs");
}

#[test]
fn each_verb_is_in_a_group_of_the_help() {
    let help = String::from_utf8_lossy(&crate::run(&["--help"]).stdout).into_owned();
    for verb in Arguments::command().get_subcommands() {
        let listed = help.lines().filter(|line| line.split_whitespace().next() == Some(verb.get_name()));
        assert_eq!(listed.filter(|line| line.starts_with("  ")).count(), 1, "{}", verb.get_name());
    }
}
