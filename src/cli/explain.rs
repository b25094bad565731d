//! `sync-engine explain`: what a code of `validate` stands for.

use clap::Args;

use super::{Exit, Usage, terminal};
use crate::mapping::diagnostic::{CODES, Code, code};
use crate::yaml::closest;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A code, such as SE0101. Without one, all are listed.
    pub code: Option<String>,
}

pub(super) fn explain(arguments: &ExplainArguments) -> anyhow::Result<Exit> {
    let text = match &arguments.code {
        Some(name) => page(known(name)?),
        None => list(),
    };
    terminal::print(&text)?;
    Ok(Exit::Success)
}

fn known(name: &str) -> Result<&'static Code, Usage> {
    let upper = name.to_uppercase();
    code(&upper).ok_or_else(|| {
        let codes: Vec<_> = CODES.iter().map(|code| code.code).collect();
        let meant = closest(&upper, &codes).map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
        Usage(format!("there is no code `{name}`; {meant}`sync-engine explain` lists them all"))
    })
}

/// A line a code.
fn list() -> String {
    CODES.iter().map(|code| format!("{} {:7} {}\n", code.code, code.severity.to_string(), code.title)).collect()
}

/// Title and explanation, what brings it about, and the same put right.
fn page(code: &Code) -> String {
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
