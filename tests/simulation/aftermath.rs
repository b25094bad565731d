//! What a process still has when its world is at rest, compared with one that has just started.
//!
//! Whoever lived through everything needs no more than whoever sees the result for the first time: entries of tables,
//! watches and tasks. And a start in a world that is in order writes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::checker::{AFTERMATH, state_store};
use super::mapping::{GUEST, MAPPINGS, Mapping, Spread, guest};
use super::server::Side;
use super::world::{File, World, side_of};

/// What is remembered for a time is forgotten after this: deletions that were seen count for ten minutes.
const LINGER: Duration = Duration::from_secs(600);

/// Every so many worlds wait for it: it is most of a world's time.
const WAITING: u64 = 8;

/// How long a process takes to know its world.
const START: Duration = Duration::from_secs(90);

/// Metrics are at most so old. And for so long a connection stays open after a request, with its tasks and those of its pool: where
/// many watches have just been opened anew, a process has more of them for a while.
const SAMPLED: Duration = Duration::from_secs(100);

/// Tasks of requests and connections that one of the two processes may have more of at a moment.
const UNDER_WAY: i64 = 2;

/// Of the process that has just started.
const FRESH: u32 = 3;

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
    if has_left_unrecorded(world) {
        return;
    }
    let Some(old) = world.keep_one_process().await else { return };
    let was_silenced = world.shared.lock().checker.was_kept_in_the_dark();
    if was_silenced || super::quiet::is_held_up(world) {
        // Until its watches time out, or its longest backoff is over, it may know less than one that has just started.
        sleep(AFTERMATH).await;
    }
    let forgets = world.plan.seed.is_multiple_of(WAITING);
    if forgets {
        sleep(LINGER).await;
    }
    let mut before = holdings(world, old);
    // A reconcile may be under way at the moment of which the metrics tell.
    sleep(SAMPLED).await;
    let again = holdings(world, old);
    before.tables.retain(|table, _| again.tables.contains_key(table));
    before.tables.iter_mut().for_each(|(table, has)| *has = (*has).min(again.tables[table]));
    before.tasks.iter_mut().zip(again.tasks).for_each(|(had, has)| *had = (*had).min(has));
    let leaving = super::orphans::leaving(world, &world.processes[&old]);
    for text in super::orphans::miscounts(world, &leaving, &before.orphans) {
        world.violated("I7", text);
    }
    // What a process saw being stripped or deleted is known until its source is in sync, and to no other process. A mapping
    // that is suspended, only observes or is removed and retained brings no source in sync, and none with orphaned objects is.
    let is_held_up = super::quiet::is_held_up(world);
    let has_orphans = before.orphans.values().any(|orphans| *orphans > 0);
    let is_in_file = |table: &String| {
        let is_of = |name: &str| table.contains(&of_mapping(name));
        world.file != File::Missing && (is_of(world.mapping.name) || world.has_guest() && is_of(GUEST))
    };
    let forgets = forgets && !is_held_up && !has_orphans && world.mapping.mode == "Enforce";
    before.tables.retain(|table, _| !table.contains("learned") || forgets && is_in_file(table));
    // Nor is there a source that waits for what a process knows of a stripped object.
    let knows_more = is_held_up && world.shared.lock().checker.made.values().any(|made| made.stripped && !made.gone);
    let is_of_waiting = |table: &String| ["held", "queue", "unsettled"].iter().any(|name| table.contains(name));
    before.tables.retain(|table, _| !knows_more || !is_of_waiting(table));
    // A removal that orphaned objects hold up goes on in the process that saw it. One that starts later keeps what there is.
    let is_held_up_by = |name: &&&str| before.orphans.get(&of_mapping(name)).is_some_and(|orphans| *orphans > 0);
    let unending: Vec<String> = leaving.iter().filter(is_held_up_by).map(|name| of_mapping(name)).collect();
    let is_compared = |labels: &String| !unending.iter().any(|mapping| labels.contains(mapping));
    before.tables.retain(|table, _| is_compared(table));
    before.orphans.retain(|mapping, _| is_compared(mapping));
    world.end().await;
    let (writes, former) = (writes(world), contents(world));
    world.start(FRESH);
    sleep(START).await;
    let mut after = holdings(world, FRESH);
    after.orphans.retain(|mapping, _| is_compared(mapping));
    // Namespaces count as long as nothing is held up.
    let written = self::writes(world).saturating_sub(writes);
    if written > 0 && !knows_more {
        let now = contents(world);
        let other = now.iter().filter(|(key, object)| former.get(*key) != Some(object));
        other.for_each(|(key, object)| world.note(format_args!("{key} was {:?} and is {object}", former.get(key))));
        world.violated("I5", format!("{written} writes of a process that starts in a world that is in order"));
    }
    for name in MAPPINGS.iter().chain([&GUEST]).filter(|name| names_no_store(world, name)) {
        world.violated("I7", format!("home names targets of the mapping {name}, of which none holds a state store"));
    }
    let targets = 1 + i64::from(world.plan.spread != Spread::One);
    for text in excess(&before, &after, targets) {
        world.violated("I7", text);
    }
}

/// What was written so far. A namespace that people deleted is made again for an object that can never be made in it.
fn writes(world: &World) -> u64 {
    let is_held_up = super::quiet::is_held_up(world);
    let checker = &world.shared.lock().checker;
    checker.writes - if is_held_up { checker.namespaces } else { 0 }
}

/// The label of what a metric says of a mapping.
fn of_mapping(name: &str) -> String {
    format!("mapping=\"{name}\"")
}

/// The ConfigMap at home that names the targets of a mapping.
fn list_of_targets(name: &str) -> String {
    format!("{name}.targets")
}

fn names_no_store(world: &World, name: &str) -> bool {
    let has = |side: Side, name: &str| world.get(side, &state_store(name)).is_some();
    has(Side::Target, &list_of_targets(name)) && [Side::Target, Side::Second].iter().all(|side| !has(*side, name))
}

/// What a process that starts may write, in text: what consumers read, what is on the target, and the records.
fn contents(world: &World) -> BTreeMap<String, String> {
    let sources = world.sources().into_iter().map(|(key, source)| (format!("{key:?}"), source.to_string()));
    let objects = world.target_objects().into_iter();
    let objects = objects
        .map(|object| (format!("{} {}", side_of(&object).name(), object["metadata"]["name"]), object.to_string()));
    let secrets = world.secrets().into_iter().map(|(key, secret)| (format!("{key:?}"), secret.to_string()));
    let records = |target: Side, name: String| {
        let path = state_store(&name);
        let data = world.get(target, &path)?["data"].to_string();
        Some((format!("{} {path}", target.name()), data))
    };
    let all = |name: &&'static str| [(*name).to_owned(), format!("{name}.held"), list_of_targets(name)];
    let names = || MAPPINGS.iter().chain([&GUEST]).flat_map(all);
    let records = [Side::Target, Side::Second]
        .into_iter()
        .flat_map(|target| names().filter_map(move |name| records(target, name)));
    sources.chain(objects).chain(secrets).chain(records).collect()
}

/// Whether a mapping left its name before its document was recorded, or in the mode Observe, which records nothing: a process
/// that starts goes by the document before. And whether its removal waits for approval, of which no other process knows.
fn has_left_unrecorded(world: &World) -> bool {
    let core = &mut *world.shared.lock();
    let is_there = |name: &str| name == world.mapping.name || (name == GUEST && world.has_guest());
    let has_left = |name: &&&str| world.file == File::Missing || !is_there(name);
    MAPPINGS.iter().chain([&GUEST]).filter(has_left).any(|name| {
        let last = if *name == GUEST { Some(guest(world.plan.is_beside)) } else { core.checker.last_of(name).cloned() };
        if last.as_ref().is_some_and(|last| last.max_lost == 0 && last.on_mapping_removed == "Delete") {
            return true;
        }
        // What no limit held was in force for the process that read it, also where it could not record it any more.
        let unheld = |written: &&Mapping| {
            last.as_ref().is_some_and(|last| last.max_lost > 0 && !last.in_waves && last.resource == written.resource)
        };
        let written = core.checker.last_written(name).filter(unheld).or(last.as_ref()).cloned();
        let [last, written] = [last, written].map(|one| one.map(|one| one.document(world.plan.is_kcp, false)));
        let records = core.get(Side::Target, &state_store(name));
        let recorded = records.map(|records| records["data"]["document"].as_str().unwrap_or_default().to_owned());
        let recorded = recorded.map(|recorded| serde_json::from_str(&recorded).ok());
        recorded.is_some_and(|recorded| recorded != last || recorded != written)
    })
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

/// What the old process has beyond the fresh one, where a mapping has so many targets.
fn excess(old: &Holdings, fresh: &Holdings, targets: i64) -> Vec<String> {
    let mut found = Vec::new();
    // Orphaned objects are living objects: whose they were may be known still, on each target.
    let orphans: i64 = old.orphans.values().sum();
    let allowed = |name: &str| if name.contains("origins") { orphans * targets } else { 0 };
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
