//! The engine at a glance: gauges and the status page, brought up to date on each tick.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::controller::Controller;
use super::pipeline::{Pipeline, Unsettled};
use super::target::Target;
use super::{Engine, Serving};
use crate::catalog::{Entry, Standing};
use crate::mapping::SourceClusters;
use crate::multicluster::registry::Cluster;
use crate::object::Key;
use crate::plan::{Cause, Phase};
use crate::server::api;
use crate::server::metrics::{Counted, Counts};
use crate::server::status::{MappingOverview, ProviderOverview, ReasonOverview, TargetOverview};

pub fn publish(engine: &Engine) {
    let mappings: Vec<MappingOverview> = engine.entries().map(|(_, entry)| mapping(engine, &entry)).collect();
    let (metrics, mut counts) = (&engine.shared.instruments.metrics, Counts::default());
    for overview in &mappings {
        let Some(Serving { controller, .. }) = engine.controllers.get(&overview.name) else { continue };
        count(&mut counts, overview, controller);
    }
    metrics.set_conditions(&engine.shared.instruments.health);
    metrics.set_invalid_documents(engine.problems.len() + engine.refused_documents());
    for (name, connection) in &engine.shared.settings.connections {
        for (verb, code, sent) in connection.counters().snapshot() {
            metrics.set_requests(name, verb, code, sent);
        }
        metrics.set_latencies(name, connection.counters().latencies());
        if let Some(ends) = connection.credential_ends() {
            counts.add(Counted::Credentials, &[("connection", name)], ends.as_second() as f64);
        }
        if let Some(ago) = connection.last_answer() {
            let at = engine.shared.settings.clock.now().as_second() as f64 - ago.as_secs_f64();
            counts.add(Counted::Answers, &[("connection", name)], at);
        }
    }
    let providers = providers(engine);
    for provider in &providers {
        counts.add(Counted::Clusters, &[("provider", &provider.name)], provider.clusters as f64);
    }
    let overview =
        |one: &Arc<Target>| TargetOverview { name: one.name.clone(), identity: one.identity().unwrap_or_default() };
    let targets: Vec<TargetOverview> = engine.targets.values().map(overview).collect();
    for target in targets.iter().filter(|target| !target.identity.is_empty()) {
        counts.add(Counted::Targets, &[("target", &target.name), ("identity", &target.identity)], 1.0);
    }
    metrics.publish(counts);
    let asked = engine.running().map(|pipeline| -> Weak<dyn api::Sources> { Arc::<Pipeline>::downgrade(pipeline) });
    engine.shared.instruments.status.ask(asked.collect());
    engine.shared.instruments.status.publish(api::Status {
        engine: engine.shared.settings.engine.clone(),
        mappings,
        providers,
        targets,
        problems: engine.problems.clone(),
        files: engine.files.clone(),
        ..api::Status::default()
    });
}

fn count(counts: &mut Counts, overview: &MappingOverview, controller: &Controller) {
    let (mapping, depth) = (("mapping", overview.name.as_str()), controller.queue.depth());
    for (series, value) in [
        (Counted::QueueDepth, (depth.ready + depth.delayed) as f64),
        (Counted::QueueOldest, depth.oldest_age.as_secs_f64()),
        (Counted::Generation, overview.generation as f64),
        (Counted::Orphans, overview.orphans as f64),
        (Counted::Held, overview.held as f64),
    ] {
        counts.add(series, &[mapping], value);
    }
    for (side, objects) in [("source", overview.sources), ("target", overview.objects)] {
        counts.add(Counted::Objects, &[mapping, ("side", side)], objects as f64);
    }
    for (table, entries) in controller.tables() {
        counts.add(Counted::Tables, &[mapping, ("table", table)], entries as f64);
    }
    for cause in Cause::ALL {
        // One that is missing is 0.
        let of = overview.not_synced.iter().find(|of| of.reason == cause.as_str());
        let labels = [mapping, ("reason", cause.as_str())];
        counts.add(Counted::NotSynced, &labels, of.map_or(0.0, |of| of.sources as f64));
        counts.add(Counted::NotSyncedOldest, &labels, of.map_or(0.0, |of| of.seconds as f64));
    }
}

/// The sources of a mapping that are not in sync for one reason.
#[derive(Debug, Clone, Copy, Default)]
struct NotSynced {
    sources: usize,
    /// For how long the first of them has not been.
    oldest: Duration,
}

/// How many sources are not in sync, by the worst reason of each: one that several targets tell of counts once.
fn reasons(running: &[Arc<Pipeline>]) -> BTreeMap<Cause, NotSynced> {
    let mut worst: BTreeMap<Key, (Cause, Duration)> = BTreeMap::new();
    let mut look = |key: &Key, unsettled: &Unsettled| {
        let (cause, age) = (unsettled.cause.unwrap_or(Cause::RequestFailed), unsettled.since.elapsed());
        let known = worst.entry(key.clone()).or_insert((cause, age));
        *known = (cause.min(known.0), age.max(known.1));
    };
    running.iter().for_each(|pipeline| pipeline.each_unsettled(&mut look));
    let mut reasons: BTreeMap<Cause, NotSynced> = BTreeMap::new();
    for (cause, age) in worst.into_values() {
        let known = reasons.entry(cause).or_default();
        *known = NotSynced { sources: known.sources + 1, oldest: known.oldest.max(age) };
    }
    reasons
}

/// How many sources there are, and how many of them are not in sync, by reason.
pub fn sources(engine: &Engine) -> (usize, BTreeMap<&'static str, usize>) {
    let (mut sources, mut not_synced) = (0, BTreeMap::new());
    for (_, entry) in engine.entries() {
        let Some(Serving { controller, .. }) = engine.controllers.get(&entry.mapping.name) else { continue };
        sources += source_count(controller);
        for (cause, of) in reasons(&controller.pipelines()) {
            *not_synced.entry(cause.as_str()).or_default() += of.sources;
        }
    }
    (sources, not_synced)
}

fn source_count(controller: &Controller) -> usize {
    controller.source_feeds().iter().map(|feed| feed.count()).sum()
}

fn mapping(engine: &Engine, entry: &Entry) -> MappingOverview {
    let controller = engine.controllers.get(&entry.mapping.name).map(|serving| &serving.controller);
    let running = controller.map(|controller| controller.pipelines()).unwrap_or_default();
    let standby = standby(engine, &running);
    // What it knows is from when it led.
    let planned: &[Arc<Pipeline>] = if standby.is_some() { &[] } else { &running };
    let release = || engine.release_in_words(entry).map(|release| format!("running; {release}"));
    let (losses, held) = (engine.held_losses(&entry.mapping.name), engine.held_candidate(&entry.mapping.name));
    let otherwise = || standing(entry, &running, !losses.is_empty());
    let reason = |(cause, of): (Cause, NotSynced)| ReasonOverview {
        reason: cause.as_str().to_owned(),
        sources: of.sources,
        seconds: of.oldest.as_secs(),
    };
    MappingOverview {
        name: entry.mapping.name.clone(),
        origin: entry.file.clone().unwrap_or_else(|| "state store".to_owned()),
        generation: entry.generation,
        standing: standby.or_else(release).unwrap_or_else(otherwise),
        sources: controller.map_or(0, |controller| source_count(controller)),
        objects: running.iter().map(|one| one.objects()).sum(),
        queued: controller.map_or(0, |controller| controller.queue.depth().ready),
        // One that two pipelines know of counts once.
        orphans: planned.iter().flat_map(|pipeline| pipeline.orphans()).collect::<BTreeSet<_>>().len(),
        held: losses.values().sum::<usize>() + held.map_or(0, |held| held.size()),
        not_synced: reasons(planned).into_iter().map(reason).collect(),
    }
}

/// What a replica that stands by knows of a mapping: what the state store says.
fn standby(engine: &Engine, running: &[Arc<Pipeline>]) -> Option<String> {
    let lease = &engine.shared.lease;
    if engine.shared.settings.election.is_none() || lease.is_held() {
        return None;
    }
    match running.first()?.recorded_in_words() {
        "" => Some("standby".to_owned()),
        recorded => Some(format!("standby: {recorded}")),
    }
}

fn standing(entry: &Entry, running: &[Arc<Pipeline>], is_held: bool) -> String {
    let phase = running.first().map(|pipeline| pipeline.generation().phase);
    let text = match (entry.standing, phase) {
        (_, None) => "not running: its target is not given",
        (_, Some(Phase::Leaving(_))) if is_held => "removed: some of its deletions wait for approval",
        (_, Some(Phase::Leaving(_))) => "removed: taking its objects away",
        (Standing::Retained, _) => "retained: its document is gone, deletions alone go on",
        (_, Some(Phase::DeletionsOnly)) => "suspended",
        (Standing::KeptOnError, _) => "running; an edit is held, or has errors",
        (Standing::Running, _) => "running",
    };
    text.to_owned()
}

/// How many clusters of a provider the status page names.
const SHOWN: usize = 10;

/// A cluster with its identity; in kcp the name is one.
fn identity(cluster: &Cluster) -> String {
    let (name, identity) = (cluster.spec.name.as_str(), cluster.identity());
    if name == identity { name.to_owned() } else { format!("{name}={identity}") }
}

fn providers(engine: &Engine) -> Vec<ProviderOverview> {
    let all: BTreeSet<SourceClusters> =
        engine.entries().map(|(_, entry)| entry.mapping.source.clusters.clone()).collect();
    let overview = |provider: &SourceClusters| {
        let (manager, engaged) = (&engine.shared.manager, engine.shared.manager.clusters(provider));
        ProviderOverview {
            name: provider.to_string(),
            clusters: engaged.len(),
            identities: engaged.iter().take(SHOWN).map(|one| identity(one)).collect(),
            standing: if manager.is_synced(provider) { "synced" } else { "waiting" }.to_owned(),
        }
    };
    all.iter().map(overview).collect()
}
