//! The engine's metrics, named by Prometheus' conventions.
//!
//! [`Metrics`] is a bundle of shared handles: clone it freely. Labels have few values (mappings, targets, verbs,
//! results), never a workspace or an object, of which there may be a hundred thousand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use super::process::ProcessCollector;

/// What `/metrics` answers with: the OpenMetrics text format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// From a cached comparison (under a millisecond) to a target that hardly answers.
const RECONCILE_BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// The tables of a pipeline that grow with its sources, and shrink with them.
pub const TABLES: [&str; 10] =
    ["queue", "readers", "interests", "watches", "origins", "placements", "learned", "unplanned", "unsettled", "held"];

type FloatGauge = Gauge<f64, AtomicU64>;

/// Every series of the engine.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_duration: Family<MappingLabel, Histogram, fn() -> Histogram>,
    writes: Family<WriteLabels, Counter>,
    timer_writes: Family<TimerLabels, Counter>,
    queue_depth: Family<MappingLabel, Gauge>,
    queue_oldest: Family<MappingLabel, FloatGauge>,
    reloads: Family<ResultLabel, Counter>,
    reload_last_success: FloatGauge,
    generation: Family<MappingLabel, Gauge>,
    mapping_errors: Gauge,
    clusters: Family<ProviderLabel, Gauge>,
    orphans: Family<MappingLabel, Gauge>,
    objects: Family<ObjectLabels, Gauge>,
    tables: Family<TableLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileResult {
    /// There was nothing to do.
    InSync,
    /// Something was written.
    Written,
    Waiting,
    Blocked,
    Error,
    Panic,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteResult {
    Success,
    /// A precondition does not hold any more; the object is planned again.
    Conflict,
    /// The server will not take it, however often it is tried (most of 4xx).
    Rejected,
    /// Worth another try: 429, 5xx, no connection, no answer in time.
    Error,
}

/// How a reload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadResult {
    /// Every document runs as it is written.
    Success,
    /// Some documents keep their last good version.
    Partial,
    /// Nothing of the reload could be taken.
    Failure,
}

/// Where the objects counted by `sync_engine_objects` stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectSide {
    /// Consumer objects that the mapping watches.
    Source,
    /// Objects of the mapping on its target.
    Target,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MappingLabel {
    mapping: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabel {
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    mapping: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    mapping: String,
    target: String,
    verb: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TimerLabels {
    mapping: String,
    waited_for: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TableLabels {
    mapping: String,
    table: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectLabels {
    mapping: String,
    side: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    connection: String,
    verb: &'static str,
    code: String,
}

impl Metrics {
    /// All series registered, none with a value yet.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector));
        let started = FloatGauge::default();
        started.set(epoch_seconds());
        registry.register(
            "process_start_time_seconds",
            "When the process started, in seconds since the epoch",
            started,
        );
        let mut names = Names(registry.sub_registry_with_prefix("sync_engine"));
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        names.0.register("build", "Version of the engine", version);
        let reconciles = names.add("reconcile", "Reconciles by how they ended", Family::default());
        let reconcile_duration = names.add(
            "reconcile_duration_seconds",
            "Time from taking an object out of the queue to the end of its reconcile",
            Family::new_with_constructor(reconcile_histogram as fn() -> Histogram),
        );
        let writes = names.add("writes", "Writes to API servers by how they ended", Family::default());
        let timer_writes = names.add(
            "timer_writes",
            "Writes of reconciles that a timer started and no event, by what the source had waited for",
            Family::default(),
        );
        let queue_depth = names.add("queue_depth", "Objects waiting to be reconciled", Family::default());
        let queue_oldest =
            names.add("queue_oldest_seconds", "Age of the longest waiting object in the queue", Family::default());
        let reloads = names.add("reload", "Reloads of the mappings directory by how they ended", Family::default());
        let reload_last_success = names.add(
            "reload_last_success_timestamp_seconds",
            "When every document last ran as it is written",
            FloatGauge::default(),
        );
        let generation =
            names.add("mapping_generation", "Generation of the mapping that is running", Family::default());
        let mapping_errors =
            names.add("mapping_errors", "Documents that do not run as they are written", Gauge::default());
        let clusters = names.add("clusters_engaged", "Source clusters a provider has engaged", Family::default());
        let orphans = names.add("orphans", "Objects of ours whose source is gone without evidence", Family::default());
        let objects = names.add("objects", "Objects in the cache", Family::default());
        let tables = names.add("table_entries", "Entries of the engine's tables", Family::default());
        let requests = names.add("http_requests", "Requests to API servers by status code", Family::default());
        Self {
            registry: Arc::new(registry),
            reconciles,
            reconcile_duration,
            writes,
            timer_writes,
            queue_depth,
            queue_oldest,
            reloads,
            reload_last_success,
            generation,
            mapping_errors,
            clusters,
            orphans,
            objects,
            tables,
            requests,
        }
    }

    /// Counts a reconcile and the time it took.
    pub fn reconciled(&self, mapping: &str, result: ReconcileResult, took: Duration) {
        let labels = ReconcileLabels { mapping: mapping.to_owned(), result: result.label() };
        self.reconciles.get_or_create(&labels).inc();
        self.reconcile_duration.get_or_create(&MappingLabel::of(mapping)).observe(took.as_secs_f64());
    }

    /// Counts a write. `target` is the connection written to, `verb` one of Kubernetes' (`apply`, `patch`, `delete`…).
    pub fn written(&self, mapping: &str, target: &str, verb: &'static str, result: WriteResult) {
        let labels =
            WriteLabels { mapping: mapping.to_owned(), target: target.to_owned(), verb, result: result.label() };
        self.writes.get_or_create(&labels).inc();
    }

    /// Counts a write of a reconcile that a timer started, by what the source had waited for: the reason in its `Synced`
    /// condition.
    pub fn written_by_timer(&self, mapping: &str, waited_for: &'static str) {
        self.timer_writes.get_or_create(&TimerLabels { mapping: mapping.to_owned(), waited_for }).inc();
    }

    /// How many requests a connection has sent so far. `code` is 0 where no answer came.
    pub fn set_requests(&self, connection: &str, verb: &'static str, code: u16, sent: u64) {
        let code = if code == 0 { "none".to_owned() } else { code.to_string() };
        let labels = RequestLabels { connection: connection.to_owned(), verb, code };
        self.requests.get_or_create(&labels).inner().store(sent, Ordering::Relaxed);
    }

    /// How many objects wait in a mapping's queue, and for how long the first of them.
    pub fn set_queue(&self, mapping: &str, depth: usize, oldest: Duration) {
        self.queue_depth.get_or_create(&MappingLabel::of(mapping)).set(count(depth));
        self.queue_oldest.get_or_create(&MappingLabel::of(mapping)).set(oldest.as_secs_f64());
    }

    /// Counts a reload; `errors` documents do not run as they are written after it.
    pub fn reloaded(&self, result: ReloadResult, errors: usize) {
        self.reloads.get_or_create(&ResultLabel { result: result.label() }).inc();
        self.mapping_errors.set(count(errors));
        if result == ReloadResult::Success {
            self.reload_last_success.set(epoch_seconds());
        }
    }

    pub fn set_generation(&self, mapping: &str, generation: u64) {
        self.generation.get_or_create(&MappingLabel::of(mapping)).set(i64::try_from(generation).unwrap_or(i64::MAX));
    }

    pub fn set_orphans(&self, mapping: &str, orphans: usize) {
        self.orphans.get_or_create(&MappingLabel::of(mapping)).set(count(orphans));
    }

    pub fn set_objects(&self, mapping: &str, side: ObjectSide, objects: usize) {
        let labels = ObjectLabels { mapping: mapping.to_owned(), side: side.label() };
        self.objects.get_or_create(&labels).set(count(objects));
    }

    /// How many entries the tables of a mapping have, in the order of [`TABLES`].
    pub fn set_tables(&self, mapping: &str, entries: [usize; TABLES.len()]) {
        for (table, entries) in TABLES.into_iter().zip(entries) {
            let labels = TableLabels { mapping: mapping.to_owned(), table };
            self.tables.get_or_create(&labels).set(count(entries));
        }
    }

    pub fn set_clusters(&self, provider: &str, clusters: usize) {
        self.clusters.get_or_create(&ProviderLabel { provider: provider.to_owned() }).set(count(clusters));
    }

    /// Takes a stopped mapping's gauges away. Its counters stay, as counters must.
    pub fn forget_mapping(&self, mapping: &str) {
        let label = MappingLabel::of(mapping);
        self.queue_depth.remove(&label);
        self.queue_oldest.remove(&label);
        self.generation.remove(&label);
        self.orphans.remove(&label);
        for table in TABLES {
            self.tables.remove(&TableLabels { mapping: mapping.to_owned(), table });
        }
        for side in [ObjectSide::Source, ObjectSide::Target] {
            self.objects.remove(&ObjectLabels { mapping: mapping.to_owned(), side: side.label() });
        }
    }

    /// Takes a stopped provider's gauge away.
    pub fn forget_provider(&self, provider: &str) {
        self.clusters.remove(&ProviderLabel { provider: provider.to_owned() });
    }

    /// All series as `/metrics` answers with them, in [`CONTENT_TYPE`].
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut body = String::with_capacity(8 * 1024);
        text::encode(&mut body, &self.registry)?;
        Ok(body)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Registers a metric and gives it back.
struct Names<'a>(&'a mut Registry);

impl Names<'_> {
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }
}

fn reconcile_histogram() -> Histogram {
    Histogram::new(RECONCILE_BUCKETS)
}

fn epoch_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl MappingLabel {
    fn of(mapping: &str) -> Self {
        Self { mapping: mapping.to_owned() }
    }
}

impl ReconcileResult {
    fn label(self) -> &'static str {
        match self {
            Self::InSync => "in_sync",
            Self::Written => "written",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Error => "error",
            Self::Panic => "panic",
        }
    }
}

impl WriteResult {
    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Conflict => "conflict",
            Self::Rejected => "rejected",
            Self::Error => "error",
        }
    }
}

impl ReloadResult {
    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Partial => "partial",
            Self::Failure => "failure",
        }
    }
}

impl ObjectSide {
    fn label(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine's own series, without the process's, whose values are the machine's.
    fn series(metrics: &Metrics) -> Vec<String> {
        let text = metrics.encode().expect("writing into a String");
        let own = |line: &&str| line.starts_with("sync_engine_") && !line.contains("_bucket{");
        text.lines().filter(own).map(str::to_owned).collect()
    }

    #[test]
    fn series_carry_the_names_that_dashboards_are_written_against() {
        let metrics = Metrics::new();
        metrics.reconciled("mongodb", ReconcileResult::Written, Duration::from_millis(3));
        metrics.written("mongodb", "target", "apply", WriteResult::Success);
        metrics.set_requests("target", "patch", 200, 1);
        metrics.set_requests("target", "patch", 0, 1);
        metrics.set_queue("mongodb", 2, Duration::from_millis(1_500));
        metrics.reloaded(ReloadResult::Partial, 1);
        metrics.set_generation("mongodb", 7);
        metrics.set_orphans("mongodb", 0);
        metrics.set_objects("mongodb", ObjectSide::Source, 4);
        metrics.set_clusters("kcp", 2);
        metrics.written_by_timer("mongodb", "Conflict");
        metrics.set_tables("mongodb", std::array::from_fn(|table| table));
        let mut lines = series(&metrics);
        lines.sort();
        insta::assert_snapshot!(lines.join("\n").replace(env!("CARGO_PKG_VERSION"), "VERSION"), @r#"
        sync_engine_build_info{version="VERSION"} 1
        sync_engine_clusters_engaged{provider="kcp"} 2
        sync_engine_http_requests_total{connection="target",verb="patch",code="200"} 1
        sync_engine_http_requests_total{connection="target",verb="patch",code="none"} 1
        sync_engine_mapping_errors 1
        sync_engine_mapping_generation{mapping="mongodb"} 7
        sync_engine_objects{mapping="mongodb",side="source"} 4
        sync_engine_orphans{mapping="mongodb"} 0
        sync_engine_queue_depth{mapping="mongodb"} 2
        sync_engine_queue_oldest_seconds{mapping="mongodb"} 1.5
        sync_engine_reconcile_duration_seconds_count{mapping="mongodb"} 1
        sync_engine_reconcile_duration_seconds_sum{mapping="mongodb"} 0.003
        sync_engine_reconcile_total{mapping="mongodb",result="written"} 1
        sync_engine_reload_last_success_timestamp_seconds 0.0
        sync_engine_reload_total{result="partial"} 1
        sync_engine_table_entries{mapping="mongodb",table="held"} 9
        sync_engine_table_entries{mapping="mongodb",table="interests"} 2
        sync_engine_table_entries{mapping="mongodb",table="learned"} 6
        sync_engine_table_entries{mapping="mongodb",table="origins"} 4
        sync_engine_table_entries{mapping="mongodb",table="placements"} 5
        sync_engine_table_entries{mapping="mongodb",table="queue"} 0
        sync_engine_table_entries{mapping="mongodb",table="readers"} 1
        sync_engine_table_entries{mapping="mongodb",table="unplanned"} 7
        sync_engine_table_entries{mapping="mongodb",table="unsettled"} 8
        sync_engine_table_entries{mapping="mongodb",table="watches"} 3
        sync_engine_timer_writes_total{mapping="mongodb",waited_for="Conflict"} 1
        sync_engine_writes_total{mapping="mongodb",target="target",verb="apply",result="success"} 1
        "#);
    }

    #[test]
    fn a_stopped_mapping_leaves_its_counters_only() {
        let metrics = Metrics::new();
        metrics.reconciled("gone", ReconcileResult::InSync, Duration::ZERO);
        metrics.set_queue("gone", 1, Duration::ZERO);
        metrics.set_generation("gone", 1);
        metrics.set_orphans("gone", 1);
        metrics.set_objects("gone", ObjectSide::Target, 1);
        metrics.set_tables("gone", [1; TABLES.len()]);
        metrics.forget_mapping("gone");
        let left: Vec<_> = series(&metrics).into_iter().filter(|line| line.contains("gone")).collect();
        assert!(left.iter().all(|line| line.contains("sync_engine_reconcile")), "{left:?}");
        assert!(!left.is_empty());
    }

    #[test]
    fn only_a_full_success_moves_the_time_of_the_last_success() {
        let metrics = Metrics::new();
        metrics.reloaded(ReloadResult::Partial, 1);
        metrics.reloaded(ReloadResult::Failure, 1);
        assert_eq!(metrics.reload_last_success.get(), 0.0);
        metrics.reloaded(ReloadResult::Success, 0);
        assert!(metrics.reload_last_success.get() > 1.6e9);
    }
}
