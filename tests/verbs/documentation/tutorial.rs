//! The tutorial is followed: its files are written, its commands run, and what it says they print is looked for. The part
//! that needs servers is followed by `tests/e2e/scenarios/tutorial.rs`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::read;
use super::steps::{Commands, Step, steps};

#[test]
fn every_command_of_the_tutorial_runs() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut place = folder.path().to_owned();
    // Nothing where it takes servers to see it.
    let mut printed = None;
    let steps = steps(&read("docs/tutorial.md"));
    assert!(steps.len() > 15, "{}", steps.len());
    for step in steps {
        match step {
            Step::File { name, text } => fs::write(place.join(name), text).expect("a file in a folder of the tutorial"),
            Step::Commands { kind: Commands::OnServers, .. } => printed = None,
            Step::Commands { text, kind } => {
                let mut all = String::new();
                for line in text.lines() {
                    if let Some(name) = line.strip_prefix("cd ") {
                        place.push(name);
                        continue;
                    }
                    let (succeeds, said) = run(&place, line);
                    assert_eq!(succeeds, kind == Commands::Succeed, "{line}\n{said}");
                    all.push_str(&said);
                }
                printed = Some(all);
            }
            Step::Output(text) => {
                if let Some(said) = &printed {
                    let missing: Vec<_> = text.lines().filter(|line| !said.contains(line)).collect();
                    assert!(missing.is_empty(), "not printed: {missing:#?}\n{said}");
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
