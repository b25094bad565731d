//! The tutorial is followed: its files are written, its commands run, and what it says they print is looked for.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::read;

const PAGE: &str = "docs/tutorial.md";

/// Something that the tutorial has its reader do, or see.
#[derive(Debug)]
enum Step {
    File {
        name: String,
        text: String,
    },
    Commands {
        text: String,
        fails: bool,
    },
    /// A part of what the commands before it print.
    Output(String),
}

#[test]
fn every_command_of_the_tutorial_runs() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut place = folder.path().to_owned();
    let mut printed = String::new();
    let steps = steps(&read(PAGE));
    assert!(steps.len() > 15, "{}", steps.len());
    for step in steps {
        match step {
            Step::File { name, text } => fs::write(place.join(name), text).expect("a file in a folder of the tutorial"),
            Step::Commands { text, fails } => {
                printed.clear();
                for line in text.lines() {
                    if let Some(name) = line.strip_prefix("cd ") {
                        place.push(name);
                        continue;
                    }
                    let (succeeds, said) = run(&place, line);
                    assert_eq!(succeeds, !fails, "{line}\n{said}");
                    printed.push_str(&said);
                }
            }
            Step::Output(text) => {
                for line in text.lines() {
                    assert!(printed.contains(line), "`{line}` is not in:\n{printed}");
                }
            }
        }
    }
}

/// Runs a line as a shell would, with the built binary first on the path.
fn run(place: &Path, line: &str) -> (bool, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_sync-engine")).parent().expect("a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.env_clear().env("PATH", path).env("TMPDIR", std::env::temp_dir()).current_dir(place).args(["-c", line]);
    let output = command.output().expect("a shell");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The code blocks of the page that mean something, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    let mut mark = "";
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            mark = if line.is_empty() { mark } else { line };
            continue;
        };
        let text: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        let name = mark.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->"));
        steps.push(match (language, name) {
            ("yaml", Some(name)) => Step::File { name: name.to_owned(), text },
            ("sh" | "sh fails", None) => Step::Commands { text, fails: language == "sh fails" },
            ("text", None) if mark == "<!-- output -->" => Step::Output(text),
            _ => panic!("what is this block for? {mark}\n{text}"),
        });
        mark = "";
    }
    steps
}
