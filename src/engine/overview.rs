//! The engine at a glance: gauges and the status page, brought up to date on each tick.

use std::collections::BTreeSet;

use super::target::Target;
use super::{Engine, Running};
use crate::catalog::{Entry, Standing};
use crate::mapping::SourceClusters;
use crate::multicluster::registry::Cluster;
use crate::multicluster::shares::Work;
use crate::plan::Phase;
use crate::server::metrics::{ObjectSide, TABLES};
use crate::server::status::{MappingOverview, Overview, ProviderOverview, TargetOverview};

/// Publishes what runs.
pub fn publish(engine: &Engine) {
    let mappings: Vec<MappingOverview> = engine.catalog.mappings().map(|(_, entry)| mapping(engine, entry)).collect();
    let metrics = &engine.shared.instruments.metrics;
    for (overview, running) in mappings.iter().filter_map(|one| Some((one, engine.pipelines.get(&one.name)?))) {
        let depth = running.pipeline.queue.depth();
        metrics.set_queue(&overview.name, depth.ready + depth.delayed, depth.oldest_age);
        metrics.set_generation(&overview.name, overview.generation);
        metrics.set_orphans(&overview.name, overview.orphans);
        metrics.set_objects(&overview.name, ObjectSide::Source, overview.sources);
        metrics.set_objects(&overview.name, ObjectSide::Target, overview.objects);
        metrics.set_tables(&overview.name, tables(engine, running));
        metrics.set_not_synced(&overview.name, &running.pipeline.reasons());
    }
    metrics.set_conditions(&engine.shared.instruments.health);
    for (name, connection) in &engine.settings.connections {
        for (verb, code, sent) in connection.counters().snapshot() {
            metrics.set_requests(name, verb, code, sent);
        }
        metrics.set_latencies(name, connection.counters().latencies());
    }
    let providers = providers(engine);
    providers.iter().for_each(|provider| metrics.set_clusters(&provider.name, provider.clusters, provider.owned));
    let targets: Vec<TargetOverview> = engine.targets.values().map(|target| target_overview(target)).collect();
    let known = targets.iter().filter(|target| !target.identity.is_empty());
    metrics.set_targets(known.map(|target| (target.name.as_str(), target.identity.as_str())));
    engine.shared.instruments.status.publish(Overview {
        engine_id: engine.settings.engine.clone(),
        mappings,
        providers,
        targets,
        problems: engine.problems.clone(),
    });
}

fn target_overview(target: &Target) -> TargetOverview {
    TargetOverview { name: target.name.clone(), identity: target.identity().unwrap_or_default() }
}

/// How many entries the tables of a mapping have, in the order of [`TABLES`]: those of its former sources included.
fn tables(engine: &Engine, running: &Running) -> [usize; TABLES.len()] {
    let former = former(engine, running.pipeline.writer.mapping());
    let all = former.chain([running]).map(|running| running.pipeline.tables());
    all.fold([0; TABLES.len()], |sum, tables| std::array::from_fn(|table| sum[table] + tables[table]))
}

/// What serves the former sources of a mapping.
fn former<'a>(engine: &'a Engine, mapping: &'a str) -> impl Iterator<Item = &'a Running> {
    let of = engine.former.iter().filter(move |((of, _), _)| of == mapping);
    of.filter_map(|(_, (_, running))| running.as_ref())
}

fn mapping(engine: &Engine, entry: &Entry) -> MappingOverview {
    let running = engine.pipelines.get(&entry.mapping.name);
    let count = |count: fn(&Running) -> usize| running.map(count).unwrap_or_default();
    MappingOverview {
        name: entry.mapping.name.clone(),
        origin: entry.file.clone().unwrap_or_else(|| "inventory".to_owned()),
        generation: entry.generation,
        standing: standing(entry, running),
        sources: count(|one| one.pipeline.source_feeds().iter().map(|feed| feed.watch.store().len()).sum()),
        objects: count(|one| one.pipeline.object_feeds().iter().map(|(_, feed)| feed.watch.store().len()).sum()),
        queued: count(|one| one.pipeline.queue.depth().ready),
        orphans: orphans(engine, &entry.mapping.name),
    }
}

/// Sources with orphaned objects: one that two pipelines know of counts once.
fn orphans(engine: &Engine, mapping: &str) -> usize {
    let running = engine.pipelines.get(mapping).into_iter().chain(former(engine, mapping));
    let of = |running: &Running| {
        let resource = running.pipeline.generation().mapping.source.resource.group_plural();
        running.pipeline.orphans().into_iter().map(move |key| (resource.clone(), key))
    };
    running.flat_map(of).collect::<BTreeSet<_>>().len()
}

fn standing(entry: &Entry, running: Option<&Running>) -> String {
    let phase = running.map(|running| running.pipeline.generation().phase);
    let text = match (entry.standing, phase) {
        (_, None) => "not running: its target is not given",
        (_, Some(Phase::Leaving(_))) => "removed: taking its objects away",
        (Standing::Retained, _) => "retained: its document is gone, deletions alone go on",
        (_, Some(Phase::DeletionsOnly)) => "suspended",
        (Standing::KeptOnError, _) => "running its last good version",
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

fn is_owned(engine: &Engine, cluster: &Cluster) -> bool {
    engine.shared.lease.owns(Work::Cluster(cluster.identity()))
}

fn providers(engine: &Engine) -> Vec<ProviderOverview> {
    let all: BTreeSet<&SourceClusters> =
        engine.catalog.mappings().map(|(_, entry)| &entry.mapping.source.clusters).collect();
    let overview = |provider: &&SourceClusters| ProviderOverview {
        name: provider.to_string(),
        clusters: engine.shared.manager.clusters(*provider).len(),
        owned: engine.shared.manager.clusters(*provider).iter().filter(|one| is_owned(engine, one)).count(),
        identities: engine.shared.manager.clusters(*provider).iter().take(SHOWN).map(|one| identity(one)).collect(),
        standing: if engine.shared.manager.is_synced(*provider) { "synced" } else { "waiting" }.to_owned(),
    };
    all.iter().map(overview).collect()
}
