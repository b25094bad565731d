//! What a process still has when its world is at rest, compared with one that has just started.
//!
//! Whoever lived through everything needs no more than whoever sees the result for the first time: entries of tables,
//! watches and tasks. And a start in a world that is in order writes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::world::{File, World};

/// What is remembered for a time is forgotten after this: deletions that were seen count for ten minutes.
const LINGER: Duration = Duration::from_secs(600);

/// Every so many worlds wait for it: it is most of a world's time.
const WAITING: u64 = 8;

/// How long a process takes to know its world.
const START: Duration = Duration::from_secs(60);

/// Tasks of requests and connections that one of the two processes may have more of at a moment.
const UNDER_WAY: i64 = 2;

/// Of the process that has just started.
const FRESH: u32 = 3;

/// Among later seeds, three in a hundred find what is listed as open in `docs/simulation.md`.
const HOLDS: u64 = 300;

/// Whether a world is compared with others, and its timers are judged: the first seeds are, and all of them where
/// `SYNC_ENGINE_COMPARE` is set.
pub fn is_compared(seed: u64) -> bool {
    seed < HOLDS || std::env::var_os("SYNC_ENGINE_COMPARE").is_some()
}

/// What a process has at one moment.
struct Holdings {
    tables: BTreeMap<String, i64>,
    orphans: BTreeMap<String, i64>,
    watches: BTreeMap<String, i64>,
    /// All of them, and those that are no connection.
    tasks: [i64; 2],
}

/// Compares the process that runs with one that starts now.
pub async fn check(world: &mut World) {
    // A process that starts knows a removed mapping from the state store, which does not hold its `ClusterProvider`.
    if world.file == File::Missing || !is_compared(world.seed) {
        return;
    }
    let Some(old) = world.keep_one_process().await else { return };
    // What left before it was recorded is known to the process that saw it alone, which keeps it for as long as it runs.
    if world.shared.lock().checker.has_unrecorded() || has_disputed_former_source(world) {
        return;
    }
    let forgets = world.seed.is_multiple_of(WAITING);
    if forgets {
        sleep(LINGER).await;
    }
    let mut before = holdings(world, old);
    for text in super::orphans::miscounts(world, &before.orphans) {
        violated(world, "I7", text);
    }
    if !forgets {
        before.tables.retain(|table, _| !table.contains("learned"));
    }
    world.end().await;
    let writes = world.shared.lock().checker.writes;
    world.start(FRESH);
    sleep(START).await;
    let after = holdings(world, FRESH);
    let written = world.shared.lock().checker.writes - writes;
    if written > 0 {
        violated(world, "I5", format!("{written} writes of a process that starts in a world that is in order"));
    }
    before.tables.retain(|table, _| !is_known_to_keep(world, table));
    for text in excess(&before, &after) {
        violated(world, "I7", text);
    }
}

/// Tables that are known to keep entries for ever (open): after a rebuild, the former source that is out of sight keeps an
/// entry for each source that is deleted; writes that come late for a namespace that is gone leave facts.
fn is_known_to_keep(world: &World, table: &str) -> bool {
    let is_any = |names: &[&str]| names.iter().any(|name| table.contains(&format!("table=\"{name}\"")));
    let of_sources = ["queue", "readers", "interests", "unsettled"];
    (world.is_rebuilt && is_any(&of_sources)) || (world.lost_namespace && is_any(&["learned"]))
}

/// Whether an engine with another id was there for a resource that the mapping left: it is not known yet whether the
/// entries that the process keeps for that former source are needed.
fn has_disputed_former_source(world: &World) -> bool {
    let has_left = world.shared.lock().checker.ever(|mapping| mapping.resource != world.mapping.resource);
    world.other_served && has_left
}

fn violated(world: &World, invariant: &'static str, text: String) {
    world.shared.lock().checker.violated(invariant, text);
}

fn holdings(world: &World, number: u32) -> Holdings {
    let process = &world.processes[&number];
    let of_process = |(of, watch): &(u32, String), open: &usize| (*of == number).then(|| (watch.clone(), *open as i64));
    let watches = world.shared.lock().watches.iter().filter_map(|(of, open)| of_process(of, open)).collect();
    let connections = world.shared.lock().connections.get(&number).copied().unwrap_or_default();
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks() - world.shared.tasks();
    Holdings {
        tables: process.figures("sync_engine_table_entries"),
        orphans: process.figures("sync_engine_orphans"),
        watches,
        tasks: [tasks, tasks - connections].map(|tasks| tasks as i64),
    }
}

/// What the old process has beyond the fresh one.
fn excess(old: &Holdings, fresh: &Holdings) -> Vec<String> {
    let mut found = Vec::new();
    // Orphaned objects are living objects: whose they were may be known still.
    let orphans: i64 = old.orphans.values().sum();
    let allowed = |name: &str| if name.contains("origins") { orphans } else { 0 };
    let parts = [("entries of", &old.tables, &fresh.tables), ("watches of", &old.watches, &fresh.watches)];
    for (what, old, fresh) in parts {
        for (name, has) in old {
            let needs = fresh.get(name).copied().unwrap_or_default() + allowed(name);
            if *has > needs {
                found.push(format!("{has} {what} {name}, and a fresh process has {needs}"));
            }
        }
    }
    if old.orphans != fresh.orphans {
        found.push(format!("the orphans are {:?}, and a fresh process counts {:?}", old.orphans, fresh.orphans));
    }
    // The HTTP stack keeps connections open for a while, and not each of them has a task.
    if old.tasks.iter().zip(&fresh.tasks).all(|(old, fresh)| *old > fresh + UNDER_WAY) {
        found.push(format!("{:?} tasks, and a fresh process has {:?}", old.tasks, fresh.tasks));
    }
    found
}
