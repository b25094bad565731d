//! Keeps a pipeline's inventory in step with its mapping, and reads what former engines left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::info;

use super::inventory::{Inventories, Inventory};
use super::pipeline::{Generation, Pipeline};
use super::target::Target;
use super::{Event, Shared};
use crate::health::Condition;
use crate::mapping::{Kind, Mode};
use crate::multicluster::backoff::{Backoff, Jitter};
use crate::multicluster::watch::WatchState;
use crate::plan::Phase;

/// How often kinds that are no longer in use are looked for, where there may be some.
const REVIEW: Duration = Duration::from_secs(30);

/// How soon a request that failed is made again.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Confirms the inventory at the start and after each change, until dropped.
pub async fn keep(pipeline: Arc<Pipeline>, events: mpsc::Sender<Event>) {
    let mut failures = 0;
    let mut jitter = Jitter::new(pipeline.writer.mapping().len() as u64);
    loop {
        let result = confirm(&pipeline).await;
        failures = if result.is_ok() { 0 } else { failures + 1 };
        let pause = match &result {
            Ok(inventory) if is_final(&pipeline, inventory) => Duration::MAX,
            Ok(_) => REVIEW,
            Err(_) => RETRY.delay(failures, &mut jitter),
        };
        say(&pipeline, result);
        if has_left(&pipeline) && remove(&pipeline).await {
            let _ = events.send(Event::Left(pipeline.writer.mapping().to_owned())).await;
            return;
        }
        // Cancel-safe: a permit that is not taken stays stored.
        let _ = tokio::time::timeout(pause, pipeline.inventory_due()).await;
    }
}

/// Whether nothing can change by itself: no kind of a former generation, and no mapping that is leaving.
fn is_final(pipeline: &Pipeline, inventory: &Inventory) -> bool {
    let generation = pipeline.generation();
    let is_current = |kind: &Kind| generation.mapping.objects.iter().any(|rule| rule.kind == *kind);
    inventory.kinds.iter().all(is_current) && !matches!(generation.phase, Phase::Leaving(_))
}

fn say(pipeline: &Pipeline, result: Result<Inventory, String>) {
    let health = &pipeline.shared.instruments.health;
    let what = format!("inventory {}", pipeline.writer.mapping());
    match &result {
        Ok(_) => drop(health.set(&what, Condition::ready(""))),
        Err(why) => {
            if health.set(&what, Condition::waiting(why.clone())) {
                info!(mapping = pipeline.writer.mapping(), "waits: {why}");
            }
        }
    }
    pipeline.confirm(result);
}

/// Reads the inventory, checks whose it is, and writes what is new.
async fn confirm(pipeline: &Pipeline) -> Result<Inventory, String> {
    let generation = pipeline.generation();
    generation.target.identity()?;
    let clusters = &generation.mapping.source.clusters;
    let source = pipeline
        .shared
        .manager
        .identity(clusters)
        .ok_or_else(|| format!("{clusters}: its identity is not known yet"))?;
    let inventories = inventories(pipeline, &generation);
    let found = inventories
        .get(pipeline.writer.mapping())
        .await
        .map_err(|error| unreadable(&generation, &error.to_string()))?;
    let wanted = wanted(pipeline, &generation, found.as_ref(), source)?;
    let writes = generation.phase == Phase::Active && generation.mapping.mode == Mode::Enforce;
    if found.as_ref() != Some(&wanted) && writes {
        inventories.put(&wanted).await.map_err(|error| unreadable(&generation, &error.to_string()))?;
    }
    match inventories.endpoint.is_permitted() {
        true => Ok(wanted),
        false => Err(unreadable(&generation, "the target may be another cluster meanwhile")),
    }
}

fn unreadable(generation: &Generation, error: &str) -> String {
    format!("target `{}`: its inventory cannot be kept: {error}", generation.target.name)
}

/// What the inventory should say. One that was kept for another source is nobody's business to change.
fn wanted(
    pipeline: &Pipeline,
    generation: &Generation,
    found: Option<&Inventory>,
    source: String,
) -> Result<Inventory, String> {
    if let Some(found) = found.filter(|found| !found.source.is_empty() && found.source != source) {
        return Err(format!(
            "target `{}` holds objects of another source of the same name (recorded {}, found {source}): nothing is \
             written or deleted; name the mapping anew, or remove the ConfigMap `{}.{}` from its inventory namespace \
             if the source was meant to change",
            generation.target.name,
            found.source,
            pipeline.writer.engine(),
            pipeline.writer.mapping(),
        ));
    }
    let mut kinds: BTreeSet<Kind> = generation.mapping.objects.iter().map(|rule| rule.kind.clone()).collect();
    let former = found.map(|found| found.kinds.clone()).unwrap_or_default();
    kinds.extend(former.into_iter().filter(|kind| !is_unused(pipeline, kind)));
    let document = generation.mapping.text.to_string();
    Ok(Inventory { mapping: pipeline.writer.mapping().to_owned(), kinds, document, source })
}

/// A kind whose collection lists normally, without ours.
fn is_unused(pipeline: &Pipeline, kind: &Kind) -> bool {
    pipeline
        .kind_feed(kind)
        .is_some_and(|feed| feed.watch.state() == WatchState::Synced && feed.watch.store().is_empty())
}

fn inventories(pipeline: &Pipeline, generation: &Generation) -> Inventories {
    Inventories {
        endpoint: generation.target.endpoint(),
        engine: pipeline.writer.engine().to_owned(),
        namespace: pipeline.shared.inventory_namespace.clone(),
    }
}

/// Whether a removed mapping has taken everything away: nothing of it stands, and no source carries its finalizer.
fn has_left(pipeline: &Pipeline) -> bool {
    let leaving = matches!(pipeline.generation().phase, Phase::Leaving(_));
    leaving && pipeline.kinds().iter().all(|kind| is_unused(pipeline, kind)) && pipeline.holds_no_source()
}

async fn remove(pipeline: &Pipeline) -> bool {
    let generation = pipeline.generation();
    inventories(pipeline, &generation).remove(pipeline.writer.mapping()).await.is_ok()
}

/// Reads, once, which mappings a former engine of this id had on a target.
pub async fn read_retained(target: Arc<Target>, engine: String, shared: Arc<Shared>, events: mpsc::Sender<Event>) {
    let mut failures = 0;
    let mut jitter = Jitter::new(target.name.len() as u64);
    let what = format!("inventories on target {}", target.name);
    loop {
        let namespace = shared.inventory_namespace.clone();
        let inventories = Inventories { endpoint: target.endpoint(), engine: engine.clone(), namespace };
        match inventories.list().await {
            Ok(found) => {
                shared.instruments.health.set(&what, Condition::ready(""));
                let _ = events.send(Event::Retained(found)).await;
                return;
            }
            Err(error) => {
                shared.instruments.health.set(&what, Condition::waiting(error.to_string()));
                tokio::time::sleep(RETRY.delay(failures, &mut jitter)).await;
                failures += 1;
            }
        }
    }
}
