//! `sync-engine trace`: why one source is as it is, asked of a running engine or decided again from a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::arguments::Format;
use super::options::{Listen, listen};
use super::status::{age, ask_console};
use super::{Exit, Misconfigured, Usage, inputs, terminal};
use crate::object::{one_line, with_namespace};
use crate::plan::saved::Saved;
use crate::plan::trace::{Conclusion, Decided, Differs, Past, Said, Trace, TracedObject};
use crate::server::api::{Page, SourceName, TracedSource};
use crate::table;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine trace mongodb root:alice default/my-database
             sync-engine trace --object StatefulSet tenant-x/my-database

Exit codes: 0 in sync; 1 not in sync; 2 usage error; 3 no engine answers, or the source or file cannot be used.";

/// Flags of `trace`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("what").args(["source", "object", "replay"]).required(true))]
pub struct TraceArguments {
    /// The mapping, the workspace or its cluster, and the source.
    #[arg(num_args = 3, value_names = ["MAPPING", "WORKSPACE", "[NAMESPACE/]NAME"])]
    pub source: Vec<String>,

    /// The sources of this target object instead.
    #[arg(long, num_args = 2, value_names = ["KIND", "[NAMESPACE/]NAME"])]
    pub object: Vec<String>,

    /// On this target alone.
    #[arg(long, value_name = "NAME", conflicts_with = "replay")]
    pub target: Option<String>,

    /// Keep what was observed in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub save: Option<PathBuf>,

    /// Decide again what a file of the same version keeps, without an engine.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,

    /// Address of the engine's console.
    #[arg(long, value_name = "ADDR", env = "SYNC_ENGINE_CONSOLE", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub console: Listen,

    /// Output format.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "text")]
    pub output: Format,
}

pub(super) fn trace(arguments: &TraceArguments) -> anyhow::Result<Exit> {
    let traces = match &arguments.replay {
        Some(path) => vec![replayed(path)?],
        None => asked(arguments)?,
    };
    let text = || traces.iter().map(for_people).collect::<Vec<_>>().join("\n");
    let rows = traces.iter().flat_map(rows);
    let table = || table::table(["ID", "OBJECT", "VERDICT", "REASON", "ROW", "DIFFERS"], rows);
    terminal::print(&arguments.output.shown(text, table, &traces))?;
    Ok(if traces.iter().all(Trace::is_in_sync) { Exit::Success } else { Exit::Failure })
}

fn replayed(path: &Path) -> Result<Trace, Misconfigured> {
    let content = inputs::file(path)?;
    let unusable = |error| Misconfigured(format!("`{}` cannot be decided again: {error}", path.display()));
    let saved = Saved::read(&content, env!("CARGO_PKG_VERSION")).map_err(unusable)?;
    warn_if_other(&saved);
    saved.trace().map_err(unusable)
}

/// What is derived from a Secret may decide, and is not in the file.
fn warn_if_other(saved: &Saved) {
    if !saved.is_same_without_secrets {
        eprintln!("warning: the engine decides otherwise with the values of Secrets, which a trace does not have");
    }
}

fn asked(arguments: &TraceArguments) -> anyhow::Result<Vec<Trace>> {
    // What is kept tells whether the values of Secrets decide otherwise.
    let given = [("target", arguments.target.as_deref()), ("saved", Some("true"))];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let parameters = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    let mut found: Vec<TracedSource> = Vec::new();
    for key in keys(arguments)? {
        let path = format!("/api/v1/sources/{key}?{parameters}");
        let of_source: Page<TracedSource> = ask_console(arguments.console, &path)?;
        found.extend(of_source.items);
    }
    if let Some(path) = &arguments.save {
        save(path, &found)?;
    }
    found.iter().filter_map(|one| one.saved.as_ref()).for_each(warn_if_other);
    Ok(found.into_iter().map(|one| one.trace).collect())
}

/// The sources that are asked for, as the API has them.
fn keys(arguments: &TraceArguments) -> anyhow::Result<BTreeSet<String>> {
    if let [mapping, workspace, source] = &arguments.source[..] {
        let (namespace, name) = source.split_once('/').unwrap_or(("", source));
        return Ok([path_of([mapping, workspace, namespace, name])?].into());
    }
    let [kind, object] = &arguments.object[..] else { return Ok(BTreeSet::new()) };
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    let path = format!("/api/v1/objects/{}", path_of([kind, namespace, name])?);
    let found: Page<SourceName> = ask_console(arguments.console, &path)?;
    let key = |one: SourceName| [one.mapping, one.cluster, one.namespace, one.name].join("/");
    Ok(found.items.into_iter().map(key).collect())
}

/// A path of names of Kubernetes and paths of workspaces.
fn path_of<const N: usize>(parts: [&str; N]) -> Result<String, Usage> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ":.-_".contains(letter);
    match parts.iter().find(|part| !part.chars().all(is_plain)) {
        Some(part) => Err(Usage(format!(
            "`{part}` is no name; write MAPPING WORKSPACE [NAMESPACE/]NAME, or --object KIND [NAMESPACE/]NAME"
        ))),
        None => Ok(parts.join("/")),
    }
}

fn save(path: &Path, found: &[TracedSource]) -> Result<(), Misconfigured> {
    let saved = match found {
        [one] => one.saved.as_ref().ok_or("the source cannot be looked at now: there is nothing to keep".to_owned()),
        all => {
            let targets: Vec<&str> = all.iter().map(|one| one.trace.target.as_str()).collect();
            Err(format!("a file keeps one source on one target: name one of {} with --target", targets.join(", ")))
        }
    };
    let saved = saved.map_err(Misconfigured)?;
    let text = serde_json::to_string_pretty(saved).map_err(|error| Misconfigured(error.to_string()))?;
    inputs::write(path, text + "\n")
}

fn rows(trace: &Trace) -> Vec<[String; 6]> {
    let row = |one: &TracedObject| {
        let reasons: Vec<&str> = one.reasons.iter().map(|said| said.reason.as_str()).collect();
        [
            one.id.clone(),
            one.object.clone().unwrap_or_default(),
            one.verdict.clone().unwrap_or_default(),
            if reasons.is_empty() { "-".to_owned() } else { reasons.join(", ") },
            one.row.clone().unwrap_or_default(),
            one.differs.iter().map(|one| one.field.as_str()).collect::<Vec<_>>().join(" "),
        ]
    };
    trace.objects.iter().map(row).collect()
}

/// All of it, each part under what it is of.
fn for_people(trace: &Trace) -> String {
    let Trace { mapping, cluster, target, observed, verdict, past, .. } = trace;
    let title = with_namespace(&trace.namespace, &trace.name);
    let workspace = trace.workspace.as_ref().map_or(cluster.clone(), |path| format!("{path} ({cluster})"));
    let mut lines = vec![
        format!("{title} of {workspace}, mapping {mapping}, target {target}"),
        format!("observed {observed:.0}: {}", whole(*verdict)),
    ];
    lines.extend(trace.reasons.iter().map(|said| format!("  {}", sentence(said))));
    lines.extend(listed("next", &trace.next));
    if !trace.objects.is_empty() {
        lines.push("objects".to_owned());
        lines.extend(trace.objects.iter().flat_map(of_object));
    }
    lines.extend(of_past(past, *observed));
    lines.iter().map(|line| format!("{}\n", one_line(line))).collect()
}

fn whole(verdict: Conclusion) -> &'static str {
    match verdict {
        Conclusion::InSync => "in sync",
        Conclusion::Waiting => "waits until something else changes",
        Conclusion::Blocked => "waits until somebody mends something",
        Conclusion::Acting => "has something to do",
        Conclusion::Unseen => "cannot be looked at now",
    }
}

fn sentence(Said { reason, message }: &Said) -> String {
    format!("{reason}: {message}")
}

fn listed(title: &str, all: &[String]) -> Vec<String> {
    let title = (!all.is_empty()).then(|| title.to_owned());
    title.into_iter().chain(all.iter().map(|one| format!("  {one}"))).collect()
}

fn of_object(one: &TracedObject) -> Vec<String> {
    let verdict = one.verdict.as_deref().unwrap_or("stays as it is");
    let mut lines = vec![format!("  {}  {}: {verdict}", one.id, one.object.as_deref().unwrap_or("not rendered"))];
    lines.extend(one.row.iter().map(|row| format!("    row: {row}")));
    lines.extend(one.holder.iter().map(|holder| format!("    belongs to: {holder}")));
    lines.extend(one.reasons.iter().map(|said| format!("    {}", sentence(said))));
    lines.extend(one.differs.iter().map(|differs| format!("    {}", difference(differs))));
    lines
}

/// `/spec/size: 5, wanted 3 by mongodb.yaml:19 ${{ source.spec }} (source.spec.size)`
fn difference(differs: &Differs) -> String {
    let Differs { field, wanted, found, place, expression, reads } = differs;
    let value = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), ToString::to_string);
    let found = found.as_ref().map_or("differs".to_owned(), ToString::to_string);
    let by = if place.is_empty() { " by the engine".to_owned() } else { format!(" by {place}") };
    let written = expression.as_ref().map(|written| format!(" {written}")).unwrap_or_default();
    let reads = if reads.is_empty() { String::new() } else { format!(" ({})", reads.join(", ")) };
    format!("{field}: {found}, wanted {}{by}{written}{reads}", value(wanted))
}

fn of_past(past: &Past, now: Timestamp) -> Vec<String> {
    let follows = past.follows_candidate_since.map(|since| {
        format!("follows the document in the file since {since:.0}, which is released in waves and not in force yet")
    });
    let mut lines: Vec<String> = follows.into_iter().collect();
    lines.extend(listed("waits for", &past.waits_for));
    let between = |from, to: Timestamp| age(to.duration_since(from).as_secs().try_into().unwrap_or_default());
    lines.extend(past.again.map(|again| format!("looks again in {} at the latest", between(now, again))));
    lines.extend(past.since.map(|since| format!("not in sync for {}", between(since, now))));
    let decisions: Vec<String> = past.decisions.iter().map(decision).collect();
    lines.extend(listed("last decisions", &decisions));
    lines
}

fn decision(Decided { first, last, times, actions, why }: &Decided) -> String {
    let when = if *times > 1 { format!("{first:.0} to {last:.0}, {times} times") } else { format!("{last:.0}") };
    let did = if actions.is_empty() { String::new() } else { format!(" (wrote: {})", actions.join(", ")) };
    format!("{when}{did} {why}")
}
