//! What the engine costs: `cargo bench --bench engine [-- OBJECTS...]`; `SYNC_ENGINE_BINARY` names another engine than
//! the one that cargo has just built.
//!
//! The release binary runs in a process of its own. Both servers, kcp and the downstream cluster, are sandboxes in this
//! process, over plain HTTP, with the allocator that they have in `sync-engine sandbox`. For each number of objects:
//! consumers create them and wait until each has its first status; operators write every downstream status and wait
//! until each has arrived upstream; then nothing happens. CPU is the engine's `utime + stime`, memory its `VmRSS`, both as
//! Linux tells them.

mod process;
mod scene;
mod usage;

use std::time::{Duration, Instant};

use sync_engine::sandbox::Counters;

use crate::process::Engine;
use crate::scene::Scene;
use crate::usage::Usage;

/// As in the command. With the system's, the servers take a third to a half longer to answer. The engine then finds less to
/// do each time it wakes, and pays for falling asleep more often: a fifth to a quarter more CPU for a new object.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [usize; 4] = [1_000, 3_000, 10_000, 30_000];
const IDLE: Duration = Duration::from_secs(10);

/// One run.
struct Measured {
    objects: usize,
    created: Step,
    updated: Step,
    idle: Step,
    memory: u64,
}

/// What one step cost.
struct Step {
    took: Duration,
    cpu: Duration,
    upstream: Counters,
    downstream: Counters,
}

fn main() -> anyhow::Result<()> {
    let named: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if named.is_empty() { SIZES.to_vec() } else { named };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut runs: Vec<Measured> = Vec::new();
    for objects in sizes {
        let run = runtime.block_on(measure(objects))?;
        run.print();
        if let Some(smaller) = runs.last() {
            run.print_growth(smaller);
        }
        runs.push(run);
    }
    Ok(())
}

async fn measure(objects: usize) -> anyhow::Result<Measured> {
    let mut scene = Scene::set(objects).await?;
    let engine = Engine::start(scene.folder(), concat!(env!("CARGO_MANIFEST_DIR"), "/mappings").as_ref())?;
    scene.engine_is_ready().await?;

    let creating = Begun::now(&scene, &engine)?;
    scene.create_objects()?;
    scene.every_phase("Pending").await?;
    let created = creating.end(&scene, &engine)?;

    let updating = Begun::now(&scene, &engine)?;
    scene.run_operators("Running")?;
    scene.every_phase("Running").await?;
    let updated = updating.end(&scene, &engine)?;

    let idling = Begun::now(&scene, &engine)?;
    tokio::time::sleep(IDLE).await;
    let idle = idling.end(&scene, &engine)?;
    let memory = engine.usage()?.memory;
    Ok(Measured { objects, created, updated, idle, memory })
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
        let (upstream, downstream) = (scene.upstream.counters(), scene.downstream.counters());
        Ok(Begun { at: Instant::now(), usage: engine.usage()?, upstream, downstream })
    }

    fn end(&self, scene: &Scene, engine: &Engine) -> anyhow::Result<Step> {
        Ok(Step {
            took: self.at.elapsed(),
            cpu: engine.usage()?.cpu - self.usage.cpu,
            upstream: scene.upstream.counters().since(&self.upstream),
            downstream: scene.downstream.counters().since(&self.downstream),
        })
    }
}

impl Measured {
    fn print(&self) {
        println!("{} objects", self.objects);
        self.print_step("new object", &self.created);
        self.print_step("status update", &self.updated);
        let writes = self.idle.upstream.writes() + self.idle.downstream.writes();
        let cpu = self.idle.cpu.as_secs_f64() / self.idle.took.as_secs_f64() * 100.0;
        println!("  idle: {writes} writes in {:.0} s, {cpu:.2} % of a core", self.idle.took.as_secs_f64());
        println!("  memory at rest: {:.1} MiB", mebibytes(self.memory));
    }

    fn print_step(&self, name: &str, step: &Step) {
        let each = step.cpu.as_secs_f64() * 1000.0 / self.objects as f64;
        let rate = self.objects as f64 / step.took.as_secs_f64();
        println!("  {name}: {each:.3} ms of CPU, {rate:.0} a second");
        for (server, counters) in [("upstream", &step.upstream), ("downstream", &step.downstream)] {
            for (verb, resource, count) in counters.iter() {
                println!("    {server} {verb} {resource}: {:.3} each", count as f64 / self.objects as f64);
            }
        }
    }

    fn print_growth(&self, smaller: &Measured) {
        let more = self.objects.saturating_sub(smaller.objects).max(1);
        let each = self.memory.saturating_sub(smaller.memory) as f64 / 1024.0 / more as f64;
        println!("  memory of each object more than {}: {each:.2} KiB", smaller.objects);
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
