//! Which seeds run, on how many threads. A world is one thread of its own and shares nothing with the others.

use std::collections::BTreeMap;
use std::env;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;

/// The seed that somebody wants to look at.
pub fn one() -> Option<u64> {
    Some(env::var("SYNC_ENGINE_SEED").ok()?.parse().expect("SYNC_ENGINE_SEED is a number"))
}

/// The seeds that an environment variable names as `FROM..TO`, or the default.
pub fn seeds(variable: &str, default: Range<u64>) -> Range<u64> {
    let Ok(text) = env::var(variable) else { return default };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{variable} is FROM..TO, not {text}"));
    let (from, to) = text.split_once("..").unwrap_or_else(|| panic!("{variable} is FROM..TO"));
    number(from)..number(to)
}

/// Does something for each seed, on all processors. The results come in the order of the seeds.
pub fn each<T: Send>(seeds: Range<u64>, act: impl Fn(u64) -> T + Sync) -> Vec<(u64, T)> {
    let next = Mutex::new(seeds);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let seed = next.lock().expect("nobody panics with the lock").next();
            let Some(seed) = seed else { return };
            let result = act(seed);
            done.lock().expect("nobody panics with the lock").insert(seed, result);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    done.into_inner().expect("nobody panics with the lock").into_iter().collect()
}
