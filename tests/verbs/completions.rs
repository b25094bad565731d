//! `sync-engine completions`: each verb with each of its flags, where bash looks for them. What is written for other shells is
//! `clap_complete`'s alone.

use clap::{Command, CommandFactory};
use sync_engine::cli::Arguments;

use super::run;

/// A verb as it is typed, `["schema", "pull"]`, and its flags.
struct Verb {
    words: Vec<String>,
    flags: Vec<String>,
}

fn below(command: &Command, words: &[String], verbs: &mut Vec<Verb>) {
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let words = [words, &[verb.get_name().to_owned()]].concat();
        let flags = verb.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(|flag| flag.get_long());
        verbs.push(Verb { words: words.clone(), flags: flags.map(|flag| format!("--{flag}")).collect() });
        below(verb, &words, verbs);
    }
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(part, _)| part)
}

/// The verb leads to a name, and under that name stand the words to offer.
#[test]
fn bash_completes_every_verb_and_its_flags() {
    let output = run(&["completions", "bash"]);
    assert!(output.status.success());
    let script = String::from_utf8(output.stdout).expect("UTF-8");
    let (mut command, mut verbs) = (Arguments::command(), Vec::new());
    command.build();
    below(&command, &[], &mut verbs);
    assert!(verbs.len() > 12 && verbs.iter().any(|verb| verb.words == ["schema", "pull"]));
    for Verb { words, flags } in verbs {
        let name = |words: &[String]| {
            let words = words.iter().flat_map(|word| word.split('-'));
            words.fold("sync__engine".to_owned(), |all, word| format!("{all}__subcmd__{word}"))
        };
        let (last, around) = words.split_last().expect("a name");
        let leads_to = format!("{},{last})\n                cmd=\"{}\"\n", name(around), name(&words));
        assert!(script.contains(&leads_to), "bash does not know `{}`", words.join(" "));
        let offered =
            between(&script, &format!("\n        {})\n            opts=\"", name(&words)), "\"").expect("words");
        let missing: Vec<_> = flags.iter().filter(|flag| !offered.split(' ').any(|word| word == *flag)).collect();
        assert!(missing.is_empty(), "`{}` lacks {missing:?}; it has {offered}", words.join(" "));
    }
}
