//! The simulator is tested too: it finds known defects, each within so many seeds.
//!
//! `SYNC_ENGINE_MUTANTS=all` (or some names) measures: for each mutant, the seeds from several starting points until one
//! fails, or from one with `SYNC_ENGINE_SEEDS=FROM..TO`. Without it, those that are found soon are looked for, which takes
//! a minute.

mod records;

use std::collections::VecDeque;
use std::env;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use sync_engine::mutants::{Mutant, set};

use self::records::{Record, is_about_copies, is_about_objects_beside, is_about_shards, record};
use super::action::Plan;
use super::plan::{Worlds, of_beside, of_copies, of_shards, plan_of};
use super::seeds;
use super::world::run;

/// From each of these seeds on, a mutant is looked for.
const STARTS: [u64; 3] = [0, 10_000, 20_000];
/// A mutant that is not found within so many seeds is missed.
const MOST: u64 = 1_000;
/// A mutant whose median is at most this is looked for each time.
const SOON: u64 = 5;
/// Chance, and other worlds behind the same seeds: so many times the median are given.
const PATIENCE: u64 = 10;

/// What failed first of a mutant.
struct Found {
    /// Seeds until then, itself included.
    seeds: u64,
    invariant: String,
    text: String,
}

/// Mutants and the seed from which each is looked for, for both cores to take from.
type Jobs = Mutex<VecDeque<(Mutant, u64)>>;

#[test]
fn mutants_are_found() {
    match env::var("SYNC_ENGINE_MUTANTS") {
        Ok(names) => measure(&names),
        Err(_) => look_for_those_found_soon(),
    }
}

fn look_for_those_found_soon() {
    let soon = Mutant::ALL.iter().filter_map(|mutant| match record(*mutant) {
        Record::Found { median, .. } if median <= SOON => Some((*mutant, median)),
        _ => None,
    });
    let soon: Vec<(Mutant, u64)> = soon.collect();
    assert!(!soon.is_empty());
    let jobs: Vec<(Mutant, u64)> = soon.iter().map(|(mutant, _)| (*mutant, STARTS[0])).collect();
    let missed: Vec<Mutant> = look(jobs, SOON * PATIENCE)
        .into_iter()
        .filter_map(|(mutant, _, found)| found.is_none().then_some(mutant))
        .collect();
    assert!(missed.is_empty(), "not found any more: {missed:?}");
}

/// Looks for mutants from every starting point, prints what came of it, and compares it with what is recorded.
fn measure(names: &str) {
    let named = |mutant: &&Mutant| names == "all" || names.split(',').any(|name| name == format!("{mutant:?}"));
    let mutants: Vec<Mutant> = Mutant::ALL.iter().filter(named).copied().collect();
    assert!(!mutants.is_empty(), "no mutant has such a name: {names}");
    let (starts, most) = match seeds::given("SYNC_ENGINE_SEEDS") {
        Some(range) => (vec![range.start], range.end - range.start),
        None => (STARTS.to_vec(), MOST),
    };
    let jobs = starts.iter().flat_map(|start| mutants.iter().map(|mutant| (*mutant, *start))).collect();
    let results = look(jobs, most);
    let mut differing = Vec::new();
    for mutant in mutants {
        let mut of: Vec<_> = results.iter().filter(|(one, ..)| *one == mutant).collect();
        of.sort_by_key(|(_, start, _)| *start);
        let founds: Vec<Option<&Found>> = of.iter().map(|(.., found)| found.as_ref()).collect();
        let row = Row { mutant, founds };
        println!("{row}");
        if !row.fits(record(mutant)) {
            differing.push(format!("{row}: recorded as {:?}", record(mutant)));
        }
    }
    assert!(differing.is_empty(), "correct tests/simulation/mutants/records.rs:\n{}", differing.join("\n"));
}

/// What came of one mutant, from each starting point.
struct Row<'a> {
    mutant: Mutant,
    founds: Vec<Option<&'a Found>>,
}

impl Row<'_> {
    /// `None`: missed from most starting points.
    fn median(&self) -> Option<u64> {
        let mut seeds: Vec<u64> = self.founds.iter().map(|found| found.map_or(u64::MAX, |found| found.seeds)).collect();
        seeds.sort_unstable();
        Some(seeds[seeds.len() / 2]).filter(|median| *median < u64::MAX)
    }

    /// Whether it is as it is recorded, but for chance.
    fn fits(&self, record: Record) -> bool {
        match (record, self.median()) {
            (Record::Found { median, .. }, Some(found)) => found <= (median * PATIENCE).max(50),
            (Record::Missed(_), None) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = self.median().map_or("MISSED".to_owned(), |median| median.to_string());
        let seeds = |found: &Option<&Found>| found.map_or("-".to_owned(), |found| found.seeds.to_string());
        let seeds: Vec<String> = self.founds.iter().map(seeds).collect();
        let how = self.founds.iter().flatten().next().map(|found| format!("{}: {}", found.invariant, found.text));
        let (mutant, origin) = (self.mutant, self.mutant.origin());
        write!(f, "{mutant:?} | {origin} | {median} | {} | {}", seeds.join(", "), how.unwrap_or_default())
    }
}

/// Does all of it, on as many threads as there are cores.
fn look(jobs: Vec<(Mutant, u64)>, most: u64) -> Vec<(Mutant, u64, Option<Found>)> {
    let jobs: Jobs = Mutex::new(jobs.into());
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some((mutant, start)) = jobs.lock().expect("the jobs").pop_front() else { return };
            let found = look_for(mutant, start, most);
            let (seeds, text) = found.as_ref().map_or((0, ""), |found| (found.seeds, &found.text));
            println!("  {mutant:?} from {start}: {seeds} {text}");
            results.lock().expect("the results").push((mutant, start, found));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().expect("the results")
}

fn look_for(mutant: Mutant, start: u64, most: u64) -> Option<Found> {
    (start..start + most).find_map(|seed| {
        let plan = match mutant {
            mutant if is_about_copies(mutant) => of_copies(plan_of(seed, Worlds::All)),
            mutant if is_about_objects_beside(mutant) => of_beside(plan_of(seed, Worlds::All)),
            mutant if is_about_shards(mutant) => of_shards(plan_of(seed, Worlds::Plain)),
            _ => plan_of(seed, Worlds::Plain),
        };
        let (invariant, text) = failure(&plan, Some(mutant))?;
        // What fails without the mutant too says nothing about it.
        failure(&plan, None).is_none().then(|| Found { seeds: seed - start + 1, invariant, text })
    })
}

/// The first thing that a world violates.
fn failure(plan: &Plan, mutant: Option<Mutant>) -> Option<(String, String)> {
    set(mutant);
    let run = catch_unwind(AssertUnwindSafe(|| run(plan)));
    set(None);
    match run {
        Ok(run) => run.violations.into_iter().next().map(|first| (first.invariant.to_owned(), first.text)),
        Err(_) => Some(("-".to_owned(), "the world breaks down, or stands still".to_owned())),
    }
}

/// The documentation has a row for each, as it is recorded.
#[test]
fn the_documentation_says_which_are_found() {
    let page = include_str!("../../docs/mutants.md");
    for mutant in Mutant::ALL {
        let row = documented(*mutant);
        assert!(page.contains(&row), "docs/mutants.md lacks this row:\n{row}");
    }
}

fn documented(mutant: Mutant) -> String {
    let (what, origin) = (mutant.what(), mutant.origin());
    match record(mutant) {
        Record::Found { median, invariant } => format!("| {what} | {origin} | {median} | {invariant} |\n"),
        Record::Missed(why) => format!("| {what} | {origin} | {why} |\n"),
    }
}
