//! `sync-engine explain`: what a code of `validate`, a reason of `Synced` or an alert stands for.

use clap::Args;

use super::{Exit, Usage, terminal};
use crate::mapping::diagnostic::{CODES, Code};
use crate::plan::Cause;
use crate::yaml::nearest;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A code such as SE0101, a reason of the condition `Synced` such as Conflict, or the name of an alert such as
    /// SyncEngineDown. Without one, all are listed.
    #[arg(value_name = "CODE|REASON|ALERT")]
    pub word: Option<String>,
}

/// A section for each alert.
const RUNBOOK: &str = include_str!("../../docs/runbook.md");

/// A line for each reason of `Synced`: what it means, and what to do. Both are Markdown, with links as from a page in `docs`.
const REASONS: &str = include_str!("explain/reasons.txt");

/// What is said of a reason of `Synced`. `docs/reference.md` is made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    pub meaning: &'static str,
    pub what_to_do: &'static str,
}

impl Advice {
    pub fn of(cause: Cause) -> Self {
        let said = |line: &'static str| line.strip_prefix(cause.as_str())?.strip_prefix(" | ")?.split_once(" | ");
        let (meaning, what_to_do) = REASONS.lines().find_map(said).unwrap_or_default();
        Self { meaning, what_to_do }
    }
}

/// What can be explained.
enum Subject {
    Code(&'static Code),
    Reason(Cause),
    Alert { name: &'static str, text: &'static str },
}

pub(super) fn explain(arguments: &ExplainArguments) -> anyhow::Result<Exit> {
    let subjects: Vec<Subject> = subjects().collect();
    let text = match &arguments.word {
        Some(word) => known(&subjects, word)?.page(),
        None => subjects.iter().map(Subject::line).collect(),
    };
    terminal::print(&text)?;
    Ok(Exit::Success)
}

fn subjects() -> impl Iterator<Item = Subject> {
    let sections = RUNBOOK.split("\n## ").skip(1).filter_map(|section| section.split_once('\n'));
    let alerts = sections.map(|(name, text)| Subject::Alert { name, text: text.trim() });
    CODES.iter().map(Subject::Code).chain(Cause::ALL.into_iter().map(Subject::Reason)).chain(alerts)
}

fn known<'s>(subjects: &'s [Subject], word: &str) -> Result<&'s Subject, Usage> {
    let known = subjects.iter().find(|subject| subject.name().eq_ignore_ascii_case(word));
    known.ok_or_else(|| {
        let names: Vec<&str> = subjects.iter().map(Subject::name).collect();
        let near = nearest(word, &names);
        let meant = match &near[..near.len().min(3)] {
            [] => String::new(),
            near => format!("did you mean {}? ", near.join(", ")),
        };
        Usage(format!("there is no code, reason or alert `{word}`; {meant}`sync-engine explain` lists them all"))
    })
}

impl Subject {
    fn name(&self) -> &'static str {
        match self {
            Self::Code(code) => code.code,
            Self::Reason(cause) => cause.as_str(),
            Self::Alert { name, .. } => name,
        }
    }

    /// Its line in the list.
    fn line(&self) -> String {
        // As wide as the longest name of its kind.
        let (width, kind, title) = match self {
            Self::Code(code) => (6, code.severity.to_string(), code.title.to_owned()),
            Self::Reason(cause) => (16, "reason".to_owned(), plain(Advice::of(*cause).meaning)),
            Self::Alert { text, .. } => (32, "alert".to_owned(), plain(&first_sentence(text))),
        };
        format!("{:width$} {kind:7} {title}\n", self.name())
    }

    /// The whole explanation.
    fn page(&self) -> String {
        match self {
            Self::Code(code) => of_code(code),
            Self::Reason(cause) => {
                let Advice { meaning, what_to_do } = Advice::of(*cause);
                let (meaning, what_to_do) = (plain(meaning), plain(what_to_do));
                let reason = cause.as_str();
                let look =
                    format!("sync-engine status --reason {reason}; sync-engine trace MAPPING WORKSPACE NAMESPACE/NAME");
                format!(
                    "reason {reason} of the condition `Synced`: {meaning}\n\nWhat to do: {what_to_do}\n\nTo look: {look}\n"
                )
            }
            Self::Alert { name, text } => format!("alert {name}\n\n{}\n", plain(text)),
        }
    }
}

/// Title and explanation, what brings it about, and the same put right.
fn of_code(code: &Code) -> String {
    let mut page = format!("{}[{}]: {}\n\n{}\n", code.severity, code.code, code.title, code.explanation);
    for (title, text) in [("For example", code.example), ("Put right", code.fix)] {
        if !text.is_empty() {
            page.push_str(&format!("\n{title}:\n\n{}\n", indented(text)));
        }
    }
    page
}

fn indented(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { String::new() } else { format!("  {line}") };
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// On one line.
fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.split_once(". ").map_or(line.clone(), |(sentence, _)| sentence.to_owned())
}

/// Markdown without its links: `[Another target](operations.md#another-target)` is `Another target
/// (docs/operations.md#another-target)`.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, words, place, after)) = link(rest) {
        plain += &format!("{before}{words} (docs/{place})");
        rest = after;
    }
    plain + rest
}

/// What is before the first link, its words, where it leads, and what follows.
fn link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, rest) = text.split_once('[')?;
    let (words, rest) = rest.split_once("](")?;
    let (place, after) = rest.split_once(')')?;
    Some((before, words, place, after))
}
