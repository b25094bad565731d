//! The engine's metrics, named by Prometheus' conventions.
//!
//! [`Metrics`] is a bundle of shared handles: clone it freely. Labels have few values (mappings, targets, verbs,
//! results), never a workspace or an object, of which there may be a hundred thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::process::ProcessCollector;
use crate::health::Health;
use crate::multicluster::Latency;

/// Formats of `/metrics`, as Prometheus' content negotiation names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a client that asks for it, as Prometheus does.
    OpenMetrics,
    /// Prometheus' own text format, for everybody else.
    Text,
}

impl Format {
    /// The format for a request with these values of `Accept`.
    pub fn among<'a>(mut accepted: impl Iterator<Item = &'a str>) -> Self {
        let is_open = |value: &str| {
            let mut parts = value.split(';').map(str::trim);
            let is_refused = |part: &str| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
            parts.next() == Some("application/openmetrics-text") && !parts.any(is_refused)
        };
        if accepted.any(|values| values.split(',').any(is_open)) { Self::OpenMetrics } else { Self::Text }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// From a cached comparison (under a millisecond) to a target that hardly answers.
const RECONCILE_BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// From a write nearby to an hour of waiting for a person.
const SYNC_BUCKETS: [f64; 12] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 600.0, 3600.0];

/// What the engine writes by.
const VERBS: [&str; 5] = ["apply", "create", "delete", "patch", "patch_status"];

type FloatGauge = Gauge<f64, AtomicU64>;
type Durations = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// Series with their names and what they tell, as the fields of [`Series`].
macro_rules! series {
    ($($field:ident: $metric:ty = $name:literal, $help:literal;)+) => {
        #[derive(Debug, Clone)]
        struct Series {
            $($field: $metric,)+
        }

        impl Metrics {
            /// Names of the series that it holds itself, without their prefix `sync_engine_`.
            pub fn names() -> impl Iterator<Item = &'static str> {
                let own = [$($name,)+ "reconcile_duration_seconds", "sync_duration_seconds"];
                own.into_iter().chain(Counted::ALL.iter().map(|(_, name, _)| *name))
            }
        }

        impl Series {
            fn register(registry: &mut Registry) -> Self {
                let series = Self { $($field: Default::default(),)+ };
                $(registry.register($name, $help, series.$field.clone());)+
                series
            }
        }
    };
}

series! {
    reconciles: Family<Labels<2>, Counter> =
        "reconcile", "Reconciles by result: `in_sync`, `written`, `waiting`, `blocked` or `error`";
    writes: Family<Labels<4>, Counter> =
        "writes",
        "Writes by result: `success`, `conflict` (planned again), `rejected` (not repeated) or `error` (repeated)";
    timer_writes: Family<Labels<2>, Counter> =
        "timer_writes",
        "Writes of reconciles that a timer started, by the reason that the source waited for. `Conflict`, `Refused` and \
         `RequestFailed` are normal: no event tells when they end";
    reloads: Family<Labels<1>, Counter> =
        "reloads",
        "Reloads of the mappings by result: `success` or `partial` (some documents keep their last good version)";
    reload_last_success: FloatGauge =
        "reload_last_success_timestamp_seconds",
        "Time of the last reload after which every document ran as it is written";
    invalid_documents: Gauge =
        "invalid_documents", "Errors in documents, and documents that are refused, as they name other sources";
    build: Family<Labels<3>, Gauge> = "build_info", "Version and commit of the engine, and its id; always 1";
    conditions: Family<Labels<2>, Gauge> =
        "condition",
        "Conditions of `/readyz` in which something is wrong, by the kind of component and by level: `degraded` or `waiting`";
    leader: Gauge = "leader", "1 while this replica writes, else 0";
    requests: Family<Labels<3>, Counter> =
        "client_requests", "Requests to API servers by status code, which is `none` if no answer came";
}

/// Series that are counted anew at each tick, with their names and what they tell.
macro_rules! counted {
    ($($series:ident = $name:literal, $help:literal;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Counted {
            $($series,)+
        }

        impl Counted {
            const ALL: &[(Self, &str, &str)] = &[$((Self::$series, $name, $help),)+];
        }
    };
}

counted! {
    QueueDepth = "queue_depth", "Objects that wait for a reconcile";
    QueueOldest = "queue_oldest_age_seconds", "How long the first object of the queue has waited";
    Generation = "mapping_generation", "Generation of the mapping that runs";
    Targets = "target_info", "Which cluster a target is, by the identity that ownership annotations show";
    Clusters = "clusters_engaged", "Workspaces or clusters that a provider serves";
    Orphans = "orphans", "Sources with orphaned objects: a person must decide about them";
    NotSynced = "sources_not_synced", "Source objects that are not in sync, by the reason in their condition `Synced`";
    NotSyncedOldest =
        "sources_not_synced_oldest_seconds",
        "How long the first of the source objects that are not in sync has not been, by the reason";
    Held =
        "held", "Sources that would fail and objects that would be lost by an edit or a removal that waits for a person's approval";
    Objects = "objects", "Objects in the cache by side: `source` or `target`";
    Tables = "table_entries", "Entries of the engine's tables, which grow and shrink with the sources";
    Answers =
        "connection_last_answer_timestamp_seconds",
        "Time of the last answer from an API server, or of the last line of a watch. Missing where nothing uses the connection";
    Credentials =
        "connection_credential_expiry_timestamp_seconds",
        "Time at which the client certificate or the token of a connection ends. Missing where it does not say so, and where an \
         exec plugin gives it";
}

/// What was counted. All of it is shown at once: what is no longer in it ends.
#[derive(Debug, Default)]
pub struct Counts(BTreeMap<Counted, Vec<Sample>>);

/// Labels and a value.
type Sample = (Vec<(&'static str, String)>, f64);

impl Counts {
    pub fn add(&mut self, to: Counted, labels: &[(&'static str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.0.entry(to).or_default().push((labels, value));
    }
}

/// The counts of the last tick.
#[derive(Debug, Clone, Default)]
struct Shown(Arc<ArcSwap<Counts>>);

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let counts = self.0.load();
        for (series, name, help) in Counted::ALL {
            let Some(samples) = counts.0.get(series) else { continue };
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in samples {
                let mut sample = family.encode_family(labels)?;
                match value.fract() == 0.0 {
                    true => sample.encode_gauge(&(*value as i64))?,
                    false => sample.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}

/// Every series of the engine.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    series: Series,
    reconcile_duration: Durations,
    sync_duration: Durations,
    latencies: Latencies,
    counts: Shown,
    /// Labels of `condition` that are set.
    conditions: Arc<Mutex<BTreeSet<Labels<2>>>>,
}

/// How long the requests of each connection took, as it counts them itself.
#[derive(Debug, Clone, Default)]
struct Latencies(Arc<Mutex<BTreeMap<String, BTreeMap<&'static str, Latency>>>>);

impl Collector for Latencies {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let (name, help) =
            ("client_request_duration_seconds", "Time of requests to API servers; of a watch, up to its first answer");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (connection, verbs) in &*self.0.lock() {
            for (verb, latency) in verbs {
                let bounds = Latency::BOUNDS.into_iter().chain([f64::INFINITY]);
                let buckets: Vec<_> = bounds.zip(latency.buckets).collect();
                let count = latency.buckets.iter().sum();
                let labels = [("connection", connection.as_str()), ("verb", *verb)];
                family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(latency.sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}

crate::mapping::words! {
    /// How a reconcile ended; on several targets, the worst.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ReconcileResult {
        /// There was nothing to do.
        InSync = "in_sync",
        /// Something was written.
        Written = "written",
        Waiting = "waiting",
        Blocked = "blocked",
        Error = "error",
    }

    /// How a write ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum WriteResult {
        Success = "success",
        /// A precondition does not hold any more; the engine plans the object again.
        Conflict = "conflict",
        /// The server refuses it, however often the engine sends it (most of 4xx).
        Rejected = "rejected",
        /// Worth another try: 429, 5xx, no connection, no answer in time.
        Error = "error",
    }
}

/// What tells the series of one metric apart.
type Labels<const N: usize> = [(&'static str, String); N];

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
        let own = registry.sub_registry_with_prefix("sync_engine");
        let (latencies, counts) = (Latencies::default(), Shown::default());
        own.register_collector(Box::new(latencies.clone()));
        own.register_collector(Box::new(counts.clone()));
        let series = Series::register(own);
        let reconcile_duration = Durations::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS));
        let what = "Time from taking an object out of the queue to the end of its reconcile";
        own.register("reconcile_duration_seconds", what, reconcile_duration.clone());
        let sync_duration = Durations::new_with_constructor(|| Histogram::new(SYNC_BUCKETS));
        let what = "Time from the event of a consumer's change until everything that follows from it is written";
        own.register("sync_duration_seconds", what, sync_duration.clone());
        Self {
            registry: Arc::new(registry),
            series,
            reconcile_duration,
            sync_duration,
            latencies,
            counts,
            conditions: Arc::default(),
        }
    }

    /// Which engine the process is.
    pub fn set_engine(&self, engine: &str) {
        let [version, commit] = [env!("CARGO_PKG_VERSION"), env!("SYNC_ENGINE_COMMIT")].map(str::to_owned);
        let labels = [("version", version), ("commit", commit), ("engine", engine.to_owned())];
        self.series.build.get_or_create(&labels).set(1);
    }

    /// Everything that followed from a consumer's change is written, so long after its event.
    pub fn synced(&self, mapping: &str, took: Duration) {
        self.sync_duration.get_or_create(&label(mapping)).observe(took.as_secs_f64());
    }

    /// Counts a reconcile and the time it took.
    pub fn reconciled(&self, mapping: &str, result: ReconcileResult, took: Duration) {
        self.series.reconciles.get_or_create(&of(mapping, "result", result.as_str())).inc();
        self.reconcile_duration.get_or_create(&label(mapping)).observe(took.as_secs_f64());
    }

    /// Counts a write. `connection` is the one written through, `verb` one of Kubernetes' (`apply`, `patch`, `delete`…).
    pub fn written(&self, mapping: &str, connection: &str, verb: &'static str, result: WriteResult) {
        self.series.writes.get_or_create(&of_writes(mapping, connection, verb, result)).inc();
    }

    /// Counts a write of a reconcile that a timer started, by what the source had waited for: the reason in its `Synced`
    /// condition.
    pub fn written_by_timer(&self, mapping: &str, waited_for: &'static str) {
        self.series.timer_writes.get_or_create(&of(mapping, "waited_for", waited_for)).inc();
    }

    /// How many requests a connection has sent so far. `code` is 0 where no answer came.
    pub fn set_requests(&self, connection: &str, verb: &'static str, code: u16, sent: u64) {
        let code = if code == 0 { "none".to_owned() } else { code.to_string() };
        let labels = [("connection", connection.to_owned()), ("verb", verb.to_owned()), ("code", code)];
        self.series.requests.get_or_create(&labels).inner().store(sent, Ordering::Relaxed);
    }

    /// How long the requests of a connection took so far.
    pub fn set_latencies(&self, connection: &str, latencies: BTreeMap<&'static str, Latency>) {
        let mut all = self.latencies.0.lock();
        all.insert(connection.to_owned(), latencies);
    }

    /// Shows these counts from now on.
    pub fn publish(&self, counts: Counts) {
        self.counts.0.store(Arc::new(counts));
    }

    /// Counts a reload; so many documents have errors after it, and keep their last good version.
    pub fn reloaded(&self, errors: usize) {
        let result = if errors == 0 { "success" } else { "partial" };
        self.series.reloads.get_or_create(&[("result", result.to_owned())]).inc();
        if errors == 0 {
            self.series.reload_last_success.set(epoch_seconds());
        }
    }

    /// So many errors and refusals keep documents from running as they are written.
    pub fn set_invalid_documents(&self, number: usize) {
        self.series.invalid_documents.set(count(number));
    }

    /// In how many conditions something is wrong. One that is mended is 0, so that its series does not end.
    pub fn set_conditions(&self, health: &Health) {
        let mut known = self.conditions.lock();
        let mut now: BTreeMap<Labels<2>, usize> = known.iter().map(|labels| (labels.clone(), 0)).collect();
        for standing in health.standings() {
            let Some(level) = standing.condition.level.wrong() else { continue };
            let labels = [("component", standing.kind().to_owned()), ("level", level.to_owned())];
            *now.entry(labels).or_default() += 1;
        }
        for (labels, number) in now {
            self.series.conditions.get_or_create(&labels).set(count(number));
            known.insert(labels);
        }
    }

    /// Whether this replica writes.
    pub fn set_leader(&self, leads: bool) {
        self.series.leader.set(leads.into());
    }

    /// Takes away what was written to a target that the mapping has no longer. Targets of a fleet come and go.
    pub fn forget_target(&self, mapping: &str, target: &str) {
        for (verb, result) in VERBS.into_iter().flat_map(|verb| WriteResult::ALL.map(|result| (verb, result))) {
            self.series.writes.remove(&of_writes(mapping, target, verb, result));
        }
    }

    /// All series as `/metrics` answers with them.
    pub fn encode(&self, format: Format) -> Result<String, std::fmt::Error> {
        let mut body = String::with_capacity(8 * 1024);
        text::encode(&mut body, &self.registry)?;
        Ok(match format {
            Format::OpenMetrics => body,
            Format::Text => as_prometheus_text(&body),
        })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// The same series in Prometheus' text format: it names a family as its samples are named, knows no `info` and no `unknown`,
/// and has neither units nor an end.
fn as_prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut about = "";
    for line in open_metrics.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            about = help;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            let help = about.strip_prefix(name).unwrap_or_default();
            text += &format!("# HELP {name}{suffix}{help}\n# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

fn epoch_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn label(mapping: &str) -> Labels<1> {
    [("mapping", mapping.to_owned())]
}

/// Of a mapping, with one more label.
fn of(mapping: &str, name: &'static str, value: impl Into<String>) -> Labels<2> {
    [("mapping", mapping.to_owned()), (name, value.into())]
}

fn of_writes(mapping: &str, connection: &str, verb: &'static str, result: WriteResult) -> Labels<4> {
    let [mapping, connection, verb] = [mapping, connection, verb].map(str::to_owned);
    [("mapping", mapping), ("connection", connection), ("verb", verb), ("result", result.as_str().to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Condition;

    /// The engine's own series, without the process's, whose values are the machine's.
    fn series(metrics: &Metrics) -> Vec<String> {
        let text = metrics.encode(Format::OpenMetrics).expect("writing into a String");
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
        metrics.synced("mongodb", Duration::from_millis(20));
        metrics.set_engine("main");
        metrics.reloaded(1);
        metrics.set_invalid_documents(1);
        metrics.set_leader(true);
        let health = Health::default();
        health.set("connection target", Condition::waiting("refused"));
        metrics.set_conditions(&health);
        health.set("connection target", Condition::ready(""));
        health.set("cluster of tenant-a", Condition::degraded("forbidden"));
        metrics.set_conditions(&health);
        metrics.set_latencies("target", BTreeMap::from([("get", Latency { buckets: [2; 10], sum: 0.5 })]));
        metrics.written_by_timer("mongodb", "Conflict");
        let mut counts = Counts::default();
        counts.add(Counted::QueueOldest, &[("mapping", "mongodb")], 1.5);
        counts.add(Counted::Held, &[("mapping", "mongodb")], 11.0);
        counts.add(Counted::NotSynced, &[("mapping", "mongodb"), ("reason", "Conflict")], 3.0);
        metrics.publish(counts);
        let mut lines = series(&metrics);
        lines.sort();
        insta::assert_snapshot!(lines.join("\n").replace(env!("CARGO_PKG_VERSION"), "VERSION"), @r#"
        sync_engine_build_info{version="VERSION",commit="unknown",engine="main"} 1
        sync_engine_client_request_duration_seconds_count{connection="target",verb="get"} 20
        sync_engine_client_request_duration_seconds_sum{connection="target",verb="get"} 0.5
        sync_engine_client_requests_total{connection="target",verb="patch",code="200"} 1
        sync_engine_client_requests_total{connection="target",verb="patch",code="none"} 1
        sync_engine_condition{component="cluster",level="degraded"} 1
        sync_engine_condition{component="connection",level="waiting"} 0
        sync_engine_held{mapping="mongodb"} 11
        sync_engine_invalid_documents 1
        sync_engine_leader 1
        sync_engine_queue_oldest_age_seconds{mapping="mongodb"} 1.5
        sync_engine_reconcile_duration_seconds_count{mapping="mongodb"} 1
        sync_engine_reconcile_duration_seconds_sum{mapping="mongodb"} 0.003
        sync_engine_reconcile_total{mapping="mongodb",result="written"} 1
        sync_engine_reload_last_success_timestamp_seconds 0.0
        sync_engine_reloads_total{result="partial"} 1
        sync_engine_sources_not_synced{mapping="mongodb",reason="Conflict"} 3
        sync_engine_sync_duration_seconds_count{mapping="mongodb"} 1
        sync_engine_sync_duration_seconds_sum{mapping="mongodb"} 0.02
        sync_engine_timer_writes_total{mapping="mongodb",waited_for="Conflict"} 1
        sync_engine_writes_total{mapping="mongodb",connection="target",verb="apply",result="success"} 1
        "#);
    }

    /// Name, labels and value of a sample.
    fn sample(line: &str) -> (&str, BTreeMap<&str, &str>, f64) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let value = if value == "+Inf" { f64::INFINITY } else { value.parse().expect("a number") };
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').expect("closed labels").split_terminator("\",");
        (name, labels.map(|label| label.split_once("=\"").expect("a quoted value")).collect(), value)
    }

    #[test]
    fn each_sample_belongs_to_its_family_and_each_histogram_ends_with_infinity() {
        let metrics = Metrics::new();
        metrics.reconciled("mongodb", ReconcileResult::Written, Duration::from_millis(3));
        metrics.set_latencies("target", BTreeMap::from([("get", Latency { buckets: [2; 10], sum: 0.5 })]));
        for format in [Format::OpenMetrics, Format::Text] {
            let text = metrics.encode(format).expect("writing into a String");
            let (mut family, mut seen, mut histograms) = (("", ""), BTreeSet::new(), 0);
            // Of the series that is read: its number, and the bound and the number of its bucket before.
            let (mut count, mut bucket) = (0.0, (f64::NEG_INFINITY, 0.0));
            for line in text.lines().filter(|line| !line.starts_with("# HELP ") && *line != "# EOF") {
                if let Some(described) = line.strip_prefix("# TYPE ") {
                    family = described.split_once(' ').expect("a type");
                    assert!(seen.insert(family.0), "{} is described twice", family.0);
                    continue;
                }
                let (name, labels, value) = sample(line);
                let rest = name.strip_prefix(family.0).expect("a sample of the family described last");
                let permitted: &[&str] = match (family.1, format) {
                    ("counter", Format::OpenMetrics) => &["_total"],
                    ("info", _) => &["_info"],
                    ("histogram", _) => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(permitted.contains(&rest), "{line} of {family:?}");
                match rest {
                    "_count" => (count, bucket) = (value, (f64::NEG_INFINITY, 0.0)),
                    "_bucket" => {
                        let bound = labels["le"].trim_end_matches('"');
                        let bound: f64 = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") };
                        assert!(bucket.0 < bound && bucket.1 <= value, "{line}");
                        bucket = (bound, value);
                        if bound == f64::INFINITY {
                            assert_eq!(count, value, "{line}");
                            histograms += 1;
                        }
                    }
                    _ => {}
                }
            }
            assert_eq!(histograms, 2, "{format:?}");
            assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
        }
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Format::among([prometheus].into_iter()), Format::OpenMetrics);
        assert_eq!(Format::among(["*/*"].into_iter()), Format::Text);
        assert_eq!(Format::among(["application/openmetrics-text; q=0.0, text/plain"].into_iter()), Format::Text);
        assert_eq!(Format::among([].into_iter()), Format::Text);
    }

    #[test]
    fn what_is_not_counted_any_more_ends() {
        let metrics = Metrics::new();
        metrics.reconciled("gone", ReconcileResult::InSync, Duration::ZERO);
        let shown = || series(&metrics).iter().filter(|line| line.contains("gone")).count();
        let counters = shown();
        let mut counts = Counts::default();
        counts.add(Counted::Orphans, &[("mapping", "gone")], 1.0);
        metrics.publish(counts);
        assert_eq!(shown(), counters + 1);
        metrics.publish(Counts::default());
        assert_eq!(shown(), counters, "counters stay, as counters must");
    }

    #[test]
    fn a_target_that_left_takes_its_writes_along() {
        let metrics = Metrics::new();
        let written = |target| metrics.written("mongodb", target, "apply", WriteResult::Success);
        ["gone", "stays"].into_iter().for_each(written);
        metrics.forget_target("mongodb", "gone");
        let writes: Vec<_> = series(&metrics).into_iter().filter(|line| line.contains("writes_total")).collect();
        assert!(matches!(&writes[..], [one] if one.contains("stays")), "{writes:?}");
    }

    #[test]
    fn only_a_full_success_moves_the_time_of_the_last_success() {
        let metrics = Metrics::new();
        metrics.reloaded(1);
        assert_eq!(metrics.series.reload_last_success.get(), 0.0);
        metrics.reloaded(0);
        assert!(metrics.series.reload_last_success.get() > 1.6e9);
    }
}
