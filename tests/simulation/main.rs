//! The engine in simulated worlds: real servers' semantics, a network that loses and delays, crashes and restores, in
//! virtual time. A seed decides everything that happens in a world.
//!
//! `SYNC_ENGINE_SEED=N` runs one seed and prints who did what; `SYNC_ENGINE_SEEDS=FROM..TO` runs many.

mod action;
mod checker;
mod core;
mod dice;
mod mapping;
mod matrix;
mod model;
#[cfg(feature = "mutants")]
mod mutants;
mod network;
mod plan;
mod process;
mod records;
mod scenarios;
mod server;
mod shrink;
mod world;

use std::collections::BTreeSet;
use std::env;

use self::matrix::Matrix;
use self::world::run;

/// How many seeds run where nobody says which.
const SEEDS: u64 = 150;

#[test]
fn seeds() {
    if let Ok(seed) = env::var("SYNC_ENGINE_SEED") {
        // What the engine says stands in the trace with what it does: `RUST_LOG=sync_engine=debug`.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stdout).init();
        let plan = plan::plan(seed.parse().expect("SYNC_ENGINE_SEED is a number"));
        let run = world::run_aloud(&plan);
        run.violations.iter().for_each(|violation| println!("VIOLATION {violation}"));
        assert!(run.violations.is_empty());
        return;
    }
    let (from, to) = given_seeds().unwrap_or((0, SEEDS));
    let mut failed = 0;
    let mut known = BTreeSet::new();
    let mut matrix = Matrix::default();
    for seed in from..to {
        let plan = plan::plan(seed);
        matrix.count(&plan);
        let run = run(&plan);
        if let Some(violation) = run.violations.first() {
            failed += 1;
            println!("seed {seed}: {violation}");
            if env::var("SYNC_ENGINE_SHRINK").is_ok() {
                explain(seed, violation, &mut known);
            }
        }
    }
    println!("{matrix}");
    assert_eq!(failed, 0, "of {} seeds", to - from);
}

/// The seeds that somebody asks for.
fn given_seeds() -> Option<(u64, u64)> {
    let range = env::var("SYNC_ENGINE_SEEDS").ok()?;
    let (from, to) = range.split_once("..").expect("SYNC_ENGINE_SEEDS is FROM..TO");
    Some((from.parse().expect("a number"), to.parse().expect("a number")))
}

/// Prints what matters of a failing seed, unless another failed alike.
fn explain(seed: u64, violation: &checker::Violation, known: &mut BTreeSet<String>) {
    let (plan, violation) = shrink::shrink(plan::plan(seed), violation.clone());
    let signature = shrink::signature(&plan, &violation);
    if known.insert(signature.clone()) {
        println!("  NEW {signature}\n  {violation} (kcp: {})", plan.is_kcp);
        plan.steps.iter().for_each(|step| println!("    {:>7} ms later {}", step.after_ms, step.action));
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..8 {
        let plan = plan::plan(seed);
        let (first, second) = (run(&plan).trace, run(&plan).trace);
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        let at = differs.map(|line| (&first[line], &second[line]));
        assert!(first == second, "seed {seed}: line {differs:?} differs: {at:?}");
    }
}
