//! The tables of series, reasons, labels, annotations and limits, made from the code.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use sync_engine::cli::explain::Advice;
use sync_engine::health::{Condition, Health};
use sync_engine::multicluster::Latency;
use sync_engine::object::marks::Writer;
use sync_engine::plan::Cause;
use sync_engine::server::Metrics;
use sync_engine::server::metrics::{Counted, Counts, Format, ReconcileResult, WriteResult};

use super::generated::notice;
use super::read;

/// The content of `docs/reference.md`.
pub fn page() -> String {
    let mut page = notice("the metrics, reasons, marks and limits in the code");
    page.push_str("# Reference\n");
    let mut section = |title: &str, text: &str, head: &str, rows: Vec<String>| {
        let columns = "|---".repeat(head.matches('|').count() - 1);
        write!(page, "\n## {title}\n\n{text}\n\n{head}\n{columns}|\n{}\n", rows.join("\n")).expect("a text");
    };
    section(
        "Metrics",
        "Labels never name a workspace or an object. [Operations](operations.md#metrics) has alerts.",
        "| series | type | meaning |",
        series(),
    );
    section(
        "Reasons",
        "The engine writes the condition `Synced` to source objects whose schema has `status.conditions`. An engine with another id than\n\
         `main` writes `<engine>.sync-engine.dev/Synced`. If it is `False`, its reason is the first of this table that applies. A new source object whose target cannot be\n\
         reached gets `Unknown` with the reason `TargetUnreachable`; one that had the condition before keeps it.",
        "| reason | meaning | what to do |",
        Cause::ALL.into_iter().map(reason).collect(),
    );
    section(
        "Labels and annotations",
        "On target objects, and on source objects where the table says so. Finalizer and pin contain the ids of engine and mapping.",
        "| key | on | meaning |",
        marks(),
    );
    section(
        "Limits",
        "The engine refuses what exceeds a limit, and says so. Writes above their limit wait.",
        "| what | at most |",
        limits(),
    );
    page
}

/// A row for each series, from the text that `/metrics` answers with.
fn series() -> Vec<String> {
    let text = every_series().encode(Format::OpenMetrics).expect("a text");
    let is_unset = |name: &&str| !text.contains(&format!("# TYPE sync_engine_{name} "));
    let unset: Vec<&str> = Metrics::names().filter(is_unset).collect();
    assert!(unset.is_empty(), "give {unset:?} a value in `every_series`");
    let mut rows = Vec::new();
    for help in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = help.split_once(' ').expect("a text behind the name");
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect("a type");
        let shown = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let sample = text.lines().filter(|line| !line.starts_with('#')).find(|line| line.starts_with(name));
        let labels = sample.and_then(|line| line.split_once('{')?.1.split_once('}')).map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|label| label.split_once("=\"")).map(|(label, _)| label);
        let labels: Vec<_> = labels.filter(|label| *label != "le").collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        rows.push(format!("| `{shown}{labels}` | {kind} | {} |", help.trim_end_matches('.')));
    }
    rows
}

/// Metrics in which each series has a value: a series without one is not encoded.
fn every_series() -> Metrics {
    let metrics = Metrics::new();
    metrics.reconciled("m", ReconcileResult::Written, Duration::ZERO);
    metrics.written("m", "target", "apply", WriteResult::Success);
    metrics.written_by_timer("m", "Conflict");
    metrics.set_requests("target", "get", 200, 1);
    metrics.set_latencies("target", BTreeMap::from([("get", Latency::default())]));
    metrics.reloaded(0);
    let health = Health::default();
    health.set("target t", Condition::waiting("not reached"));
    metrics.set_conditions(&health);
    metrics.set_engine("main");
    metrics.synced("m", Duration::ZERO);
    let mut counts = Counts::default();
    for (series, labels) in [
        (Counted::QueueDepth, &["mapping"][..]),
        (Counted::QueueOldest, &["mapping"]),
        (Counted::Generation, &["mapping"]),
        (Counted::Targets, &["target", "identity"]),
        (Counted::Clusters, &["provider"]),
        (Counted::Orphans, &["mapping"]),
        (Counted::NotSynced, &["mapping", "reason"]),
        (Counted::NotSyncedOldest, &["mapping", "reason"]),
        (Counted::Held, &["mapping"]),
        (Counted::Objects, &["mapping", "side"]),
        (Counted::Tables, &["mapping", "table"]),
        (Counted::Answers, &["connection"]),
        (Counted::Credentials, &["connection"]),
    ] {
        let labels: Vec<_> = labels.iter().map(|label| (*label, "x")).collect();
        counts.add(series, &labels, 0.0);
    }
    metrics.publish(counts);
    metrics
}

fn reason(cause: Cause) -> String {
    let Advice { meaning, what_to_do } = Advice::of(cause);
    assert!(!meaning.is_empty(), "src/cli/explain/reasons.txt: describe `{}`", cause.as_str());
    format!("| `{}` | {meaning} | {what_to_do} |", cause.as_str())
}

/// A row for each constant of the module of ownership labels and annotations.
fn marks() -> Vec<String> {
    let source = read("src/object/marks.rs");
    let constants = source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(": &str = "));
    let rows = constants.filter_map(|(name, value)| {
        let key = value.trim_matches([';', '"']);
        let (on, meaning) = match name {
            "OWNER" => {
                ("label", "hash of the owner: engine, mapping, resource, cluster, namespace and name of the source")
            }
            "MAPPING" => ("label", "`<engine>.<mapping>`: the engine watches by it"),
            "MANAGED_BY" => ("label", "`sync-engine`"),
            // The value of the label before it.
            "MANAGER" => return None,
            "ENGINE" => {
                ("label of namespaces that the engine created, of state stores, and of the Lease", "id of the engine")
            }
            "HELD" => ("label of what the engine keeps at home of releases: what is held, and how far each is", "id of the engine"),
            "CLUSTER" => ("annotation", "identity of the source's cluster; in kcp, the name of the logical cluster"),
            "RESOURCE" => ("annotation", "plural and group of the source"),
            "WORKSPACE" => ("annotation", "path of the source's workspace, for people"),
            "NAMESPACE" => ("annotation", "namespace of the source"),
            "NAME" => ("annotation", "name of the source"),
            "SOURCE_UID" => ("annotation", "uid of the source"),
            "OBJECT" => ("annotation", "id of the object in the mapping, with the key of a `forEach`"),
            "SELF" => (
                "annotation",
                "self mark: a hash of the owner and of the object itself. A copied object has a wrong one",
            ),
            "HASH" => ("annotation", "hash of the object as it was rendered"),
            "UNKEPT" => ("annotation", "fields that the server did not keep as written, each with a hash of both values; the engine writes such a field again when either value changes. Of too many for an annotation, one hash of them all"),
            "ADOPTED_FROM" => ("annotation", "uid of the earlier source, if the object was adopted from it"),
            "TOUCHED" => ("annotation", "time of a write that makes a late delete fail"),
            "FIELDS" => (
                "annotation",
                "fields that the template set, on an object in the source's own cluster: no field manager knows them there",
            ),
            "RELEASED" => (
                "annotation",
                "the ownership ended on purpose; no engine takes the object back, except for a mapping with `adopt: IfUnowned`; after that, the annotation says `adopted` until the next write",
            ),
            "EPOCH" => (
                "annotation",
                "with leader election: how often the Lease had changed hands when the object was written",
            ),
            "PLACEMENT_NAME" => ("annotation", "name of the placement, if the object has another name"),
            other => panic!("src/object/marks.rs: describe `{other}`"),
        };
        Some(format!("| `{key}` | {on} | {meaning} |"))
    });
    let writer = Writer::new("<engine>", "<mapping>");
    let on_sources = [
        format!("| `{}` | finalizer of source objects | target objects may exist |", writer.finalizer()),
        format!(
            "| `{}` | annotation of source objects | the targets that the source is pinned to: connection and identity. Without \
             it, each target of the mapping may have objects of the source, whose deletion waits until all can be reached |",
            writer.target_annotation()
        ),
    ];
    rows.chain(on_sources).collect()
}

/// What is limited, and the constant that limits it: file, name and unit.
const LIMITS: [(&str, &str, &str, &str); 23] = [
    ("a mapping file", "src/reload/scan.rs", "MAX_FILE_BYTES", "bytes"),
    ("a mapping", "crates/mapping/src/catalog/files.rs", "LARGEST", "bytes"),
    ("entries in the folder of mappings", "src/reload/scan.rs", "MAX_ENTRIES", ""),
    ("a mapping's name", "crates/mapping/src/compile/names.rs", "MAX_MAPPING_NAME", "characters"),
    ("an engine id", "src/cli/arguments.rs", "MAX_ENGINE_ID", "characters"),
    ("an expression", "crates/mapping/src/expression/source.rs", "EXPRESSION_LENGTH", "bytes"),
    ("nesting of an expression", "crates/mapping/src/expression/parse.rs", "DEPTH", "levels"),
    ("a text with expressions", "crates/mapping/src/expression/source.rs", "TEXT_LENGTH", "bytes"),
    ("tags (`{% %}`) of a text", "crates/mapping/src/expression/source.rs", "TAGS", ""),
    (
        "work of one expression: bytes that it copies, compares or hashes",
        "crates/mapping/src/expression/budget.rs",
        "WORK",
        "bytes",
    ),
    ("work of one template", "crates/mapping/src/expression/budget.rs", "TEMPLATE_WORK", "bytes"),
    (
        "work of all expressions and templates for one source",
        "crates/mapping/src/expression/budget.rs",
        "ALL_WORK",
        "bytes",
    ),
    ("a rendered object", "crates/mapping/src/expression/budget.rs", "RESULT", "bytes"),
    (
        "what all expressions and templates for one source give",
        "crates/mapping/src/expression/budget.rs",
        "ALL_RESULTS",
        "bytes",
    ),
    ("nesting of a rendered object", "crates/mapping/src/expression/budget.rs", "DEPTH", "levels"),
    ("a JSONPath", "crates/mapping/src/jsonpath.rs", "LENGTH", "bytes"),
    ("objects of one `forEach` or `selector`, for one source", "src/plan/each.rs", "MOST", ""),
    ("a key of a `forEach`", "src/plan/each.rs", "LONGEST_KEY", "bytes"),
    ("a list or map in a status field", "src/plan/status.rs", "MAX_FIELD", "bytes"),
    ("a text of the status; the rest is cut off", "src/plan/status.rs", "MAX_TEXT", "characters"),
    ("related objects that are read for one source, together", "src/engine/bodies.rs", "MOST_RELATED", "bytes"),
    ("kinds of the objects of a mapping", "crates/mapping/src/catalog/files.rs", "MOST_KINDS", ""),
    ("writes at one time, for each address", "crates/multicluster/src/lane.rs", "WRITES_AT_ONCE", ""),
];

fn limits() -> Vec<String> {
    let row = |(what, file, name, unit): (&str, &str, &str, &str)| {
        let value = constant(file, name);
        let (value, unit) = match (value, unit) {
            (value, "bytes") if value % (1 << 20) == 0 => (format!("{}", value >> 20), "MiB"),
            (value, "bytes") if value > 1 << 20 => (format!("{}", value as f64 / f64::from(1 << 20)), "MiB"),
            (value, "bytes") if value % (1 << 10) == 0 => (format!("{}", value >> 10), "KiB"),
            (value, unit) => (value.to_string(), unit),
        };
        format!("| {what} | {} |", format!("{value} {unit}").trim())
    };
    // serde_json's own.
    let depth = "| nesting of an object on a server | 127 levels |".to_owned();
    LIMITS.into_iter().map(row).chain([depth]).collect()
}

/// The value of a constant: a number, a product or a shift.
fn constant(file: &str, name: &str) -> u64 {
    let source = read(file);
    let declared = source.lines().find_map(|line| line.split_once(&format!("const {name}: "))?.1.split_once(" = "));
    let (_, value) = declared.unwrap_or_else(|| panic!("{file}: there is no {name}"));
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().unwrap_or_else(|_| panic!("{file}: {value}"));
    let value = value.trim_end_matches(';');
    match (value.split_once("<<"), value.split_once('*')) {
        (Some((base, shift)), _) => number(base) << number(shift),
        (None, Some((one, other))) => number(one) * number(other),
        (None, None) => number(value),
    }
}
