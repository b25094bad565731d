//! `sync-engine completions`: each verb with each of its flags, where the shell looks for them.

use clap::{Command, CommandFactory};
use sync_engine::cli::Arguments;

use super::run;

/// A verb as it is typed, `["schema", "pull"]`, and its flags.
struct Verb {
    words: Vec<String>,
    flags: Vec<String>,
}

/// All of them, as the command line has them.
fn verbs() -> Vec<Verb> {
    let mut command = Arguments::command();
    command.build();
    let mut verbs = Vec::new();
    below(&command, &[], &mut verbs);
    verbs
}

fn below(command: &Command, words: &[String], verbs: &mut Vec<Verb>) {
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let words = [words, &[verb.get_name().to_owned()]].concat();
        let flags = verb.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(|flag| flag.get_long());
        verbs.push(Verb { words: words.clone(), flags: flags.map(|flag| format!("--{flag}")).collect() });
        below(verb, &words, verbs);
    }
}

fn script(shell: &str) -> String {
    let output = run(&["completions", shell]);
    assert!(output.status.success(), "{shell}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Fails where a part of the script lacks a verb's flag, or there is none for the verb.
fn holds(shell: &str, part: impl Fn(&str, &Verb) -> Option<Vec<String>>) {
    let script = script(shell);
    let verbs = verbs();
    assert!(verbs.len() > 12 && verbs.iter().any(|verb| verb.words == ["schema", "pull"]));
    for verb in verbs {
        let Some(known) = part(&script, &verb) else { panic!("{shell} does not know `{}`", verb.words.join(" ")) };
        let missing: Vec<_> = verb.flags.iter().filter(|flag| !known.contains(flag)).collect();
        assert!(missing.is_empty(), "{shell}: `{}` lacks {missing:?}; it has {known:?}", verb.words.join(" "));
    }
}

/// The words of a text that look like flags.
fn flags(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(part, _)| part)
}

/// The verb leads to a name, and under that name stand the words to offer.
#[test]
fn bash_completes_every_verb_and_its_flags() {
    holds("bash", |script, verb| {
        let (last, around) = verb.words.split_last()?;
        let name = |words: &[String]| {
            let words = words.iter().flat_map(|word| word.split('-'));
            words.fold("sync__engine".to_owned(), |all, word| format!("{all}__subcmd__{word}"))
        };
        let leads_to = format!("{},{last})\n                cmd=\"{}\"\n", name(around), name(&verb.words));
        script.contains(&leads_to).then_some(())?;
        between(script, &format!("\n        {})\n            opts=\"", name(&verb.words)), "\"").map(flags)
    });
}

#[test]
fn zsh_completes_every_verb_and_its_flags() {
    holds("zsh", |script, verb| {
        let last = verb.words.last()?;
        // It is listed with a description, and has a part of its own.
        script.contains(&format!("\n'{last}:")).then_some(())?;
        between(script, &format!("({last})\n_arguments "), "\n;;\n").map(flags)
    });
}

#[test]
fn fish_completes_every_verb_and_its_flags() {
    holds("fish", |script, verb| {
        let (last, around) = verb.words.split_last()?;
        script.contains(&format!(" -a \"{last}\" -d ")).then_some(())?;
        let condition = match around {
            [] => format!("using_subcommand {last}"),
            [first, ..] => format!("using_subcommand {first}; and __fish_seen_subcommand_from {last}\""),
        };
        let lines = script.lines().filter(|line| line.contains(&condition));
        let flag = |line: &str| Some(format!("--{}", line.split_once(" -l ")?.1.split_whitespace().next()?));
        Some(lines.filter_map(flag).collect())
    });
}

#[test]
fn elvish_and_powershell_are_told_of_all_flags() {
    for shell in ["elvish", "powershell"] {
        holds(shell, |script, verb| {
            verb.words.iter().all(|word| script.contains(word.as_str())).then(|| flags(script))
        });
    }
}
