//! What the engine costs: `cargo bench --bench engine [-- OBJECTS[/WORKSPACES[/TARGETS/MAPPINGS]]...]`, a hundred objects to a
//! workspace where their number is not given; `SYNC_ENGINE_BINARY` names another engine than the one that cargo has just built.
//!
//! The release binary runs in a process of its own. Both servers, kcp and the downstream cluster, are sandboxes in this
//! process, over plain HTTP (of many mappings over TLS), with the allocator that they have in `sync-engine sandbox`. For each number of objects:
//! consumers create them and wait until each has its first status; operators write every downstream status and wait
//! until each has arrived upstream; then nothing happens; then the engine starts anew; then the first mapping is edited. CPU is
//! the engine's `utime + stime`, memory its `VmRSS`, both as Linux tells them. It fails where an engine writes what is in sync, or where a larger size
//! costs more memory or requests for each object than [`GROWTH`] times those of the smallest.

mod edit;
mod process;
mod scene;
mod servers;
mod size;
mod usage;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sync_engine::sandbox::Counters;

use crate::edit::Edits;
use crate::process::Engine;
use crate::scene::Scene;
use crate::size::Size;
use crate::usage::Usage;

/// As in the command. With the system's, the servers take a third to a half longer to answer. The engine then finds less to
/// do each time it wakes, and pays for falling asleep more often: a fifth to a quarter more CPU for a new object.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [&str; 4] = ["1000", "3000", "10000", "30000"];
const IDLE: Duration = Duration::from_secs(10);
/// What an object of a larger size may cost, as a multiple of one of the smallest.
const GROWTH: f64 = 1.25;

/// One run.
struct Measured {
    size: Size,
    created: Step,
    updated: Step,
    idle: Step,
    memory: u64,
    sockets: usize,
    restarted: Step,
    /// Of one mapping.
    edits: Option<Edits>,
}

/// What one step cost.
struct Step {
    took: Duration,
    cpu: Duration,
    upstream: Counters,
    downstream: Counters,
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut runs: Vec<Measured> = Vec::new();
    for size in servers::sizes(SIZES) {
        let size =
            size.parse().with_context(|| format!("{size} is no size: OBJECTS[/WORKSPACES[/TARGETS/MAPPINGS]]"))?;
        let run = runtime.block_on(measure(size))?;
        run.print();
        run.is_quiet()?;
        if let Some(smallest) = runs.first() {
            run.grows_from(smallest)?;
        }
        runs.push(run);
    }
    Ok(())
}

async fn measure(size: Size) -> anyhow::Result<Measured> {
    let mut scene = Scene::set(size).await?;
    let engine = Engine::start(scene.folder(), &scene.mappings())?;
    scene.engine_is_ready(&scene.upstream.counters()).await?;

    let creating = Begun::now(&scene, &engine)?;
    scene.create_objects()?;
    scene.every_phase("Pending").await?;
    scene.every_object().await?;
    let created = creating.end(&scene, &engine)?;

    let updating = Begun::now(&scene, &engine)?;
    scene.run_operators("Running")?;
    scene.every_phase("Running").await?;
    let updated = updating.end(&scene, &engine)?;

    let idling = Begun::now(&scene, &engine)?;
    tokio::time::sleep(IDLE).await;
    let idle = idling.end(&scene, &engine)?;
    let (memory, sockets) = (engine.usage()?.memory, sockets(&engine)?);

    drop(engine);
    let before = scene.upstream.counters();
    let engine = Engine::start(scene.folder(), &scene.mappings())?;
    let restarting = Begun::now(&scene, &engine)?;
    scene.engine_is_ready(&before).await?;
    let idle_share = idle.cpu.as_secs_f64() / idle.took.as_secs_f64();
    rests(&engine, idle_share).await?;
    let restarted = restarting.end(&scene, &engine)?;
    // What an edit leads to is told apart by what is on the targets.
    let edits = if size.mappings == 1 { Some(edit::measure(&mut scene, &engine, idle_share).await?) } else { None };
    Ok(Measured { size, created, updated, idle, memory, sockets, restarted, edits })
}

/// Sockets that an engine has open.
fn sockets(engine: &Engine) -> anyhow::Result<usize> {
    let open = fs::read_dir(format!("/proc/{}/fd", engine.id()))?;
    let is_socket = |file: &PathBuf| file.to_string_lossy().starts_with("socket:");
    Ok(open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).filter(is_socket).count())
}

/// Waits until an engine has nothing more to do: it uses hardly more of a core than it did when it was idle.
async fn rests(engine: &Engine, idle: f64) -> anyhow::Result<()> {
    const LOOK: Duration = Duration::from_secs(2);
    let mut before = engine.usage()?.cpu;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = engine.usage()?.cpu;
        if now - before < LOOK.mul_f64(0.02 + 1.5 * idle) {
            return Ok(());
        }
        before = now;
    }
}

/// A step under way.
struct Begun {
    at: Instant,
    usage: Usage,
    upstream: Counters,
    downstream: Counters,
}

impl Begun {
    fn now(scene: &Scene, engine: &Engine) -> anyhow::Result<Begun> {
        let (upstream, downstream) = (scene.upstream.counters(), scene.downstream());
        Ok(Begun { at: Instant::now(), usage: engine.usage()?, upstream, downstream })
    }

    fn end(&self, scene: &Scene, engine: &Engine) -> anyhow::Result<Step> {
        Ok(Step {
            took: self.at.elapsed(),
            cpu: engine.usage()?.cpu - self.usage.cpu,
            upstream: scene.upstream.counters().since(&self.upstream),
            downstream: scene.downstream().since(&self.downstream),
        })
    }
}

impl Step {
    fn writes(&self) -> u64 {
        self.upstream.writes() + self.downstream.writes()
    }
}

impl Measured {
    fn print(&self) {
        println!("{}", self.size);
        self.print_step("new object", &self.created);
        self.print_step("status update", &self.updated);
        let cpu = self.idle.cpu.as_secs_f64() / self.idle.took.as_secs_f64() * 100.0;
        println!(
            "  idle: {} writes in {:.0} s, {cpu:.2} % of a core",
            self.idle.writes(),
            self.idle.took.as_secs_f64()
        );
        let mebibytes = self.memory as f64 / 1024.0 / 1024.0;
        println!("  at rest: {mebibytes:.1} MiB of memory, {} connections", self.sockets);
        self.print_step("restart", &self.restarted);
        if let Some(edits) = &self.edits {
            edits.print(self.memory);
        }
    }

    fn print_step(&self, name: &str, step: &Step) {
        let each = self.each(step.cpu.as_secs_f64() * 1000.0);
        let rate = self.size.objects as f64 / step.took.as_secs_f64();
        println!("  {name}: {each:.3} ms of CPU, {rate:.0} a second, {} writes", step.writes());
        for (server, counters) in [("upstream", &step.upstream), ("downstream", &step.downstream)] {
            for (verb, resource, count) in counters.iter() {
                println!("    {server} {verb} {resource}: {:.3} each", self.each(count as f64));
            }
        }
    }

    fn each(&self, all: f64) -> f64 {
        all / self.size.objects as f64
    }

    /// What is in sync costs no write, also after a restart.
    fn is_quiet(&self) -> anyhow::Result<()> {
        for (when, step) in [("idle", &self.idle), ("after a restart", &self.restarted)] {
            ensure!(step.writes() == 0, "{when}, the engine wrote: {}, {}", step.upstream, step.downstream);
        }
        Ok(())
    }

    /// Requests of the life so far, for each object.
    fn requests(&self) -> f64 {
        let steps = [&self.created, &self.updated];
        self.each(steps.iter().map(|step| step.upstream.total() + step.downstream.total()).sum::<u64>() as f64)
    }

    /// In KiB, for each object.
    fn memory(&self) -> f64 {
        self.each(self.memory as f64 / 1024.0)
    }

    /// Prints what each object costs beside what it costs at a smaller size.
    fn grows_from(&self, smaller: &Measured) -> anyhow::Result<()> {
        let more = self.size.objects.saturating_sub(smaller.size.objects).max(1);
        let further = self.memory.saturating_sub(smaller.memory) as f64 / 1024.0 / more as f64;
        println!("  beside {}: memory of each further object {further:.2} KiB", smaller.size);
        let costs = [("requests", self.requests(), smaller.requests()), ("KiB", self.memory(), smaller.memory())];
        for (what, each, before) in costs {
            println!("    {what} for each object: {each:.3}, {:.2} times {before:.3}", each / before);
            ensure!(each <= before * GROWTH, "{what} for each object grow beyond {GROWTH} times");
        }
        Ok(())
    }
}
