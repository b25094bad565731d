//! What an edit of the mapping costs while everybody is served: one that a person has to approve, and one that changes every
//! object.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::process::Engine;
use crate::scene::{PATIENCE, Scene};
use crate::usage::Usage;

/// How often a consumer creates an object, to see how long it waits.
const PACE: Duration = Duration::from_millis(20);
/// Objects that are looked at while nothing else happens.
const CALM: usize = 300;
/// How often the same edits are made.
const ROUNDS: usize = 5;

/// What the edits cost.
pub struct Edits {
    calm: Waits,
    /// Until a person is asked.
    held: Cost,
    /// From the approval until everything that the edit takes away is gone.
    carried_out: Cost,
    /// Until the document is in force: every object follows.
    harmless: Cost,
}

/// What one kind of edit costs: the middle of several.
struct Cost {
    took: Duration,
    cpu: Duration,
    /// The most that the process has more than before.
    memory: i64,
    waits: Waits,
}

/// How long new objects wait for their first status.
struct Waits(Vec<Duration>);

impl Waits {
    fn at(&self, percent: usize) -> f64 {
        let at = self.0.len() * percent / 100;
        self.0.get(at.min(self.0.len().saturating_sub(1))).map_or(0.0, |wait| wait.as_secs_f64() * 1000.0)
    }
}

/// Makes the edits, with the engine at rest before each.
pub async fn measure(scene: &mut Scene, engine: &Engine, idle: f64) -> Result<Edits> {
    let calm = calm(scene).await?;
    let (mut held, mut harmless) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let edit = |scene: &Scene| scene.edit(&format!("      when: ${{{{ false and {round} }}}}\n"));
        held.push(cost(scene, engine, edit, Scene::asks_a_person).await?);
        scene.edit("")?;
        super::rests(engine, idle).await?;
    }
    scene.edit("      when: ${{ false }}\n")?;
    alone(scene, engine, Scene::asks_a_person).await?;
    scene.approve()?;
    let carried_out = alone(scene, engine, Scene::has_no_database).await?;
    scene.edit("")?;
    scene.every_object().await?;
    super::rests(engine, idle).await?;
    for round in 0..ROUNDS {
        let mark = format!("edition-{round}");
        let edit = |scene: &Scene| scene.edit_template(&mark);
        harmless.push(cost(scene, engine, edit, |scene| scene.is_in_force(&mark)).await?);
        super::rests(engine, idle).await?;
    }
    Ok(Edits { calm, held: middle(held), carried_out, harmless: middle(harmless) })
}

/// How long objects wait while nothing else happens.
async fn calm(scene: &mut Scene) -> Result<Waits> {
    let mut probe = Probe::new(scene).await?;
    while probe.waits.len() < CALM {
        probe.beat(scene).await?;
    }
    Ok(probe.end())
}

/// What it costs from an edit until something is so, while a consumer creates objects.
async fn cost(
    scene: &mut Scene,
    engine: &Engine,
    edit: impl Fn(&Scene) -> Result<()>,
    is_so: impl Fn(&Scene) -> bool,
) -> Result<Cost> {
    let mut probe = Probe::new(scene).await?;
    edit(scene)?;
    let mut meter = Meter::begin(engine)?;
    while !is_so(scene) {
        meter.look(engine)?;
        probe.beat(scene).await?;
    }
    meter.end(engine, probe.end())
}

/// The same while nobody creates anything: an approval is of what was shown.
async fn alone(scene: &Scene, engine: &Engine, is_so: impl Fn(&Scene) -> bool) -> Result<Cost> {
    const LOOK: Duration = Duration::from_millis(200);
    let mut meter = Meter::begin(engine)?;
    while !is_so(scene) {
        meter.look(engine)?;
        tokio::time::sleep(LOOK).await;
    }
    meter.end(engine, Waits(Vec::new()))
}

/// What an engine uses from a moment on.
struct Meter {
    begun: Instant,
    before: Usage,
    most: u64,
}

impl Meter {
    fn begin(engine: &Engine) -> Result<Self> {
        let before = engine.usage()?;
        Ok(Self { begun: Instant::now(), before, most: before.memory })
    }

    fn look(&mut self, engine: &Engine) -> Result<()> {
        self.most = self.most.max(engine.usage()?.memory);
        ensure!(self.begun.elapsed() < PATIENCE, "an edit has led to nothing for {PATIENCE:?}");
        Ok(())
    }

    fn end(self, engine: &Engine, waits: Waits) -> Result<Cost> {
        let cpu = engine.usage()?.cpu - self.before.cpu;
        let memory = self.most as i64 - self.before.memory as i64;
        Ok(Cost { took: self.begun.elapsed(), cpu, memory, waits })
    }
}

fn middle(mut costs: Vec<Cost>) -> Cost {
    costs.sort_unstable_by_key(|cost| cost.took);
    let mut waits: Vec<Duration> = costs.iter_mut().flat_map(|cost| std::mem::take(&mut cost.waits.0)).collect();
    waits.sort_unstable();
    let memory = costs.iter().map(|cost| cost.memory).max().unwrap_or_default();
    let Cost { took, cpu, .. } = costs.swap_remove(costs.len() / 2);
    Cost { took, cpu, memory, waits: Waits(waits) }
}

/// A consumer who creates an object now and then.
struct Probe {
    events: sync_engine::sandbox::Events,
    created: HashMap<String, Instant>,
    waits: Vec<Duration>,
    next: Instant,
}

impl Probe {
    async fn new(scene: &Scene) -> Result<Self> {
        let mut events = scene.new_events()?;
        // What there is already comes at once.
        while tokio::time::timeout(PACE, events.next_line()).await.is_ok() {}
        Ok(Self { events, created: HashMap::new(), waits: Vec::new(), next: Instant::now() })
    }

    /// Creates an object, and hears which have their status until the next one is due.
    async fn beat(&mut self, scene: &mut Scene) -> Result<()> {
        self.created.insert(scene.create_another()?, Instant::now());
        self.next += PACE;
        while let Ok(Some(line)) =
            tokio::time::timeout(self.next.saturating_duration_since(Instant::now()), self.events.next_line()).await
        {
            if let Some(uid) = Scene::has_phase(&line)
                && let Some(created) = self.created.remove(&uid)
            {
                self.waits.push(created.elapsed());
            }
        }
        Ok(())
    }

    fn end(mut self) -> Waits {
        // Who waits still, has waited for so long.
        self.waits.extend(self.created.into_values().map(|created| created.elapsed()));
        self.waits.sort_unstable();
        Waits(self.waits)
    }
}

impl Edits {
    pub fn print(&self, memory: u64) {
        println!("  another object waits {:.1} ms, {:.1} ms at p99", self.calm.at(50), self.calm.at(99));
        let all = [
            ("an edit that is held", &self.held),
            ("approved, until every object is gone", &self.carried_out),
            ("an edit of every object", &self.harmless),
        ];
        for (what, cost) in all {
            println!(
                "  {what}: {:.2} s, {:.2} s of CPU, {:.1} MiB more of {:.1}; another object waits {:.1} ms, {:.1} ms at p99 \
                 ({} of them)",
                cost.took.as_secs_f64(),
                cost.cpu.as_secs_f64(),
                cost.memory as f64 / 1024.0 / 1024.0,
                memory as f64 / 1024.0 / 1024.0,
                cost.waits.at(50),
                cost.waits.at(99),
                cost.waits.0.len(),
            );
        }
    }
}
