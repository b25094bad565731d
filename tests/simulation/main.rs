//! The engine in simulated worlds: real servers' semantics, a network that loses and delays, crashes and restores, in
//! virtual time. A seed decides everything that happens in a world.
//!
//! `SYNC_ENGINE_SEED=N` runs one seed, of `seeds` or of a scenario, and prints who did what; `SYNC_ENGINE_SEEDS=FROM..TO` runs many.

mod action;
mod aftermath;
mod checker;
mod core;
mod dice;
mod load;
mod mapping;
mod marks;
mod matrix;
mod model;
mod modes;
mod network;
mod open;
mod orphans;
mod plan;
mod process;
mod quiet;
mod records;
mod replicas;
mod scenarios;
mod seeds;
mod server;
mod shrink;
mod twins;
mod world;

use self::action::Plan;
use self::matrix::Matrix;
use self::world::{Run, run};

/// How many seeds run where nobody says which.
const SEEDS: u64 = 100;

/// Among so many seeds, every action meets every fault.
const MANY: usize = 1_000;

#[test]
fn seeds() {
    if let Some(seed) = seeds::one() {
        let plan = plan::plan(seed);
        let run = tell(&plan);
        if let Some(violation) = modes::writes_too_much(&plan, &run) {
            println!("The same world without faults:");
            world::run_aloud(&modes::calm(&plan));
            panic!("VIOLATION {violation}");
        }
        return;
    }
    let range = seeds::seeds("SYNC_ENGINE_SEEDS", 0..SEEDS);
    let mut matrix = Matrix::default();
    range.clone().for_each(|seed| matrix.count(&plan::plan(seed)));
    let worlds = seeds::each(range.clone(), |seed| {
        let plan = plan::plan(seed);
        let run = run(&plan);
        let too_much = modes::writes_too_much(&plan, &run);
        run.violations.into_iter().next().or(too_much)
    });
    let failed: Vec<_> = worlds.into_iter().filter_map(|(seed, violation)| Some((seed, violation?))).collect();
    shrink::explain(failed.iter().map(|(seed, violation)| (plan::plan(*seed), violation)));
    println!("{matrix}");
    let seeds = range.count();
    assert_eq!(failed.len(), 0, "of {seeds} seeds");
    let gaps = matrix.gaps();
    assert!(seeds < MANY || gaps.is_empty(), "{gaps:#?}");
}

/// Who did what in a world.
fn tell(plan: &Plan) -> Run {
    speak_up();
    let run = world::run_aloud(plan);
    run.violations.iter().for_each(|violation| println!("VIOLATION {violation}"));
    assert!(run.violations.is_empty());
    run
}

/// What the engine says stands in the trace with what it does: `RUST_LOG=sync_engine=debug`.
fn speak_up() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stdout).try_init();
}

#[test]
fn a_seed_replays_exactly() {
    let worlds = seeds::each(seeds::seeds("SYNC_ENGINE_SEEDS_TWICE", 0..8), |seed| {
        let plan = plan::plan(seed);
        (run(&plan).trace, run(&plan).trace)
    });
    let differs = |(seed, (first, second)): (u64, (Vec<String>, Vec<String>))| {
        let line = first.iter().zip(&second).position(|(one, other)| one != other);
        line.map(|line| format!("seed {seed}, line {line}: {} or {}", first[line], second[line]))
            .or_else(|| (first.len() != second.len()).then(|| format!("seed {seed}: one trace is longer")))
    };
    let found: Vec<String> = worlds.into_iter().filter_map(differs).collect();
    assert!(found.is_empty(), "{found:#?}");
}
