//! Defects that are known and open: each is a world that fails, as data in `tests/simulation/open`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::action::Plan;
use super::checker::Violation;
use super::world::run_strictly;
use super::{plan, seeds, shrink};

/// More than so many are too many to live with.
const MOST: usize = 10;

/// How much other luck an entry is tried with: by a change of the engine, the world of one luck takes another course.
const LUCK: u64 = 32;

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Entry {
    /// What is violated.
    invariant: String,
    plan: Plan,
}

impl Entry {
    /// Texts of a plan live as long as the program, as those in its source do.
    fn read(text: String) -> Self {
        serde_json::from_str(text.leak()).expect("an entry of tests/simulation/open")
    }

    fn fails(&self) -> bool {
        let fails = |luck| {
            let found = run_strictly(&Plan { luck, ..self.plan.clone() }).violations;
            found.iter().any(|violation| violation.invariant == self.invariant)
        };
        fails(self.plan.luck) || seeds::each(1..LUCK + 1, fails).into_iter().any(|(_, fails)| fails)
    }
}

/// Writes what was left of a failing plan.
pub fn keep(plan: &Plan, violation: &Violation) -> PathBuf {
    let signature = shrink::signature(plan, violation).to_lowercase();
    let words = signature.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-");
    name.truncate(100);
    let path = folder().join(format!("{name}.json"));
    let entry = Entry { invariant: violation.invariant.to_owned(), plan: plan.clone() };
    let text = serde_json::to_string_pretty(&entry).expect("a plan is data");
    fs::create_dir_all(folder())
        .and_then(|()| fs::write(&path, text + "\n"))
        .expect("tests/simulation/open can be written");
    path
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/open")
}

#[test]
fn each_open_defect_is_still_there() {
    // Git keeps no empty folder.
    let files = fs::read_dir(folder()).into_iter().flatten().map(|file| file.expect("a file").path());
    let files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    assert!(files.len() <= MOST, "{} defects are open: mend some", files.len());
    let is_mended = |path: &&PathBuf| !Entry::read(fs::read_to_string(path).expect("a file")).fails();
    let mended: Vec<String> =
        files.iter().filter(is_mended).map(|path| format!("mended: delete this file: {}", path.display())).collect();
    assert!(mended.is_empty(), "{mended:#?}");
}

#[test]
fn an_entry_is_the_plan_that_was_kept() {
    for seed in 0..200 {
        let plans = [
            plan::plan(seed),
            plan::of_replicas(plan::of_several(plan::plan(seed))),
            plan::of_copies(plan::plan(seed)),
        ];
        for plan in plans {
            let entry = Entry { invariant: "I1".to_owned(), plan: plan.clone() };
            let read = Entry::read(serde_json::to_string(&entry).expect("a plan is data"));
            assert_eq!(read.plan, plan);
        }
    }
}

#[test]
fn an_entry_whose_world_holds_counts_as_mended() {
    let steps = Vec::new();
    assert!(!Entry { invariant: "I1".to_owned(), plan: Plan { steps, ..plan::plan(0) } }.fails());
}
