//! `sync-engine status`: what a running engine says of itself, read from its console.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use http::Request;
use http::header::HOST;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::arguments::Format;
use super::options::{Listen, listen};
use super::terminal::count;
use super::{Exit, Misconfigured, ask, terminal};
use crate::object::{one_line, with_namespace};
use crate::server::api::{Filter, Leader, Page, Source, SourceName, Status, Wrong};
use crate::server::changes::Change;
use crate::server::status::{MappingOverview, ReasonOverview};
use crate::table;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine status
             sync-engine status --reason Conflict
             kubectl exec deploy/sync-engine -- /sync-engine status

Without --reason or --mapping, the verb shows the mappings, and what is to be done about what is wrong. With one of them, it lists \
the sources that are not in sync. Of several replicas, ask the one that leads: any other one names it, and lists no sources (exit \
code 3).

Exit codes: 0 everything is in sync; 1 something is not; 2 usage error; 3 no engine answers, or it has no such mapping.";

/// Flags of `status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArguments {
    /// Address of the engine's console.
    #[arg(long, value_name = "ADDR", env = "SYNC_ENGINE_CONSOLE", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub console: Listen,

    /// List what became of documents, approvals and leadership.
    #[arg(long)]
    pub changes: bool,

    /// List the sources of this mapping that are not in sync.
    #[arg(long, value_name = "MAPPING")]
    pub mapping: Option<String>,

    /// List the sources that are not in sync for this reason, such as `Conflict`.
    #[arg(long, value_name = "REASON")]
    pub reason: Option<String>,

    /// Output format.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "text")]
    pub output: Format,
}

pub(super) fn status(arguments: &StatusArguments) -> anyhow::Result<Exit> {
    if arguments.changes {
        let changes: Vec<Change> = pages(arguments, "changes")?;
        let table = || table::table(["TIME", "REASON", "MAPPING", "MESSAGE"], changes.iter().map(change_row));
        terminal::print(&arguments.output.shown(table, table, &changes))?;
        return Ok(Exit::Success);
    }
    if arguments.mapping.is_some() || arguments.reason.is_some() {
        let sources: Vec<Source> = pages(arguments, "sources")?;
        let text = || sources.iter().map(for_people).collect();
        let rows = sources.iter().map(source_row);
        let table = || table::table(["REASON", "FOR", "SOURCE", "WORKSPACE", "MAPPING", "TARGET"], rows);
        terminal::print(&arguments.output.shown(text, table, &sources))?;
        return Ok(if sources.is_empty() { Exit::Success } else { Exit::Failure });
    }
    let status: Status = ask_console(arguments.console, "/api/v1/status")?;
    let table = || mappings(&status);
    terminal::print(&arguments.output.shown(|| glance(&status), table, &[&status]))?;
    Ok(if is_well(&status) { Exit::Success } else { Exit::Failure })
}

/// All pages.
fn pages<T: DeserializeOwned>(arguments: &StatusArguments, of: &str) -> anyhow::Result<Vec<T>> {
    let mut all = Vec::new();
    let StatusArguments { mapping, reason, .. } = arguments.clone();
    let mut filter = Filter { mapping, reason, ..Filter::default() };
    loop {
        let page: Page<T> = ask_console(arguments.console, &format!("/api/v1/{of}?{}", filter.to_query()))?;
        all.extend(page.items);
        if page.next.is_none() {
            return Ok(all);
        }
        filter.after = page.next;
    }
}

/// What the console says instead of an answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// Asks the console of a running engine.
pub(super) fn ask_console<T: DeserializeOwned>(console: Listen, path: &str) -> anyhow::Result<T> {
    let Some(address) = console else {
        return Err(Misconfigured("the console is off; name its address with `--console ADDR`".to_owned()).into());
    };
    let answer: anyhow::Result<T> = ask(async { Ok(get(address, path).await) })?;
    answer.map_err(|error| match error.downcast_ref::<Refused>() {
        Some(Refused(why)) => Misconfigured(why.clone()).into(),
        None => {
            let help = "is an engine running there? `kubectl exec` or `kubectl port-forward` reaches one in a Pod";
            Misconfigured(format!("no engine answers at {address}: {error:#}; {help}")).into()
        }
    })
}

/// The id of the engine whose console answers at an address.
pub(super) async fn engine_at(address: SocketAddr) -> Option<String> {
    let status: Status = get(address, "/api/v1/status").await.ok()?;
    Some(status.engine)
}

const DEADLINE: Duration = Duration::from_secs(10);
/// A page has a thousand sources, each with a message.
const MOST_BYTES: usize = 64 << 20;

async fn get<T: DeserializeOwned>(address: SocketAddr, path: &str) -> anyhow::Result<T> {
    timeout(DEADLINE, async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(path).header(HOST, address.to_string()).body(Empty::<Bytes>::new())?;
        // The sender goes with the exchange, and the connection with the sender.
        let exchange = async move {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
            if !status.is_success() {
                let said = String::from_utf8_lossy(&body).trim().to_owned();
                bail!(Refused(if said.is_empty() { status.to_string() } else { said }));
            }
            serde_json::from_slice(&body).context("the answer is not what this version of the program understands")
        };
        // What ends the connection too early, the exchange tells as well.
        futures::future::join(exchange, connection).await.0
    })
    .await
    .context("no answer within ten seconds")?
}

/// Whether there is nothing to do. Who stands by leaves that to the leader, if there is one.
fn is_well(status: &Status) -> bool {
    if let Some(leader) = standby(status) {
        return !leader.leader.is_empty();
    }
    let is_in_sync = |mapping: &MappingOverview| mapping.not_synced.is_empty() && mapping.held == 0;
    status.conditions.is_empty() && status.problems.is_empty() && status.mappings.iter().all(is_in_sync)
}

/// Who leads, where the replica that answers stands by.
fn standby(status: &Status) -> Option<&Leader> {
    status.leader.as_ref().filter(|leader| leader.is_standby())
}

fn change_row(change: &Change) -> [String; 4] {
    [format!("{:.0}", change.time), change.reason.clone(), change.mapping.clone(), first_line(&change.message)]
}

fn first_line(text: &str) -> String {
    one_line(text.lines().next().unwrap_or_default()).into_owned()
}

fn mappings(status: &Status) -> String {
    let rows = status.mappings.iter().map(|mapping| mapping_row(mapping, standby(status).is_some()));
    table::table(["MAPPING", "SOURCES", "IN SYNC", "OBJECTS", "NOT IN SYNC", "STANDING"], rows)
}

/// Who stands by plans nothing, and cannot tell what is in sync.
fn mapping_row(mapping: &MappingOverview, is_standby: bool) -> [String; 6] {
    let reasons: Vec<String> = mapping.not_synced.iter().map(reason).collect();
    let not_synced: usize = mapping.not_synced.iter().map(|one| one.sources).sum();
    let in_sync = mapping.sources.saturating_sub(not_synced).to_string();
    [
        mapping.name.clone(),
        mapping.sources.to_string(),
        if is_standby { "-".to_owned() } else { in_sync },
        mapping.objects.to_string(),
        if reasons.is_empty() { "-".to_owned() } else { reasons.join(", ") },
        mapping.standing.clone(),
    ]
}

/// `Conflict 2 (5m)`
fn reason(of: &ReasonOverview) -> String {
    format!("{} {} ({})", of.reason, of.sources, age(of.seconds))
}

/// As kubectl shows ages: the largest unit that has two, else the next.
pub(super) fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn source_row(source: &Source) -> [String; 6] {
    let SourceName { mapping, cluster, namespace, name, target } = &source.of;
    let (title, place) = (with_namespace(namespace, name), source.workspace.as_ref().unwrap_or(cluster));
    [source.reason.clone(), age(source.seconds), title, place.clone(), mapping.clone(), target.clone()]
}

fn for_people(source: &Source) -> String {
    let [reason, age, title, place, mapping, target] = source_row(source);
    // Where there are several reasons, each stands before what it is about.
    let message = source.message.strip_prefix(&format!("{reason}: ")).unwrap_or(&source.message);
    // The workspace of a path may be another one tomorrow.
    let look = format!("sync-engine trace {mapping} {} {title}", source.of.cluster);
    let head = format!("{title} of {place} (mapping {mapping}, target {target}), for {age}");
    [head, format!("  {reason}: {message}"), format!("  {look}")].map(|line| format!("{}\n", one_line(&line))).concat()
}

fn glance(status: &Status) -> String {
    let mut text = format!("engine {}, version {}\n\n", status.engine, status.version);
    if let Some(leader) = standby(status) {
        text += &format!("{}; this is what the state store says, ask the leader for the rest\n\n", leader.words());
    }
    text += &mappings(status);
    if status.mappings.is_empty() {
        text += "no mappings\n";
    }
    let to_do = to_do(status);
    text += "\nto do\n";
    text += if to_do.is_empty() { "  nothing\n" } else { "" };
    to_do.iter().for_each(|line| text += &format!("  {line}\n"));
    text
}

/// What a person can do about what is wrong, each with the command.
fn to_do(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    if !status.problems.is_empty() {
        let errors = count(status.problems.len(), "error");
        lines.push(format!("{errors} in documents; the last good versions run: sync-engine validate"));
    }
    for mapping in &status.mappings {
        let name = &mapping.name;
        if mapping.held > 0 {
            lines.push(format!("an edit or the removal of mapping {name} is held: sync-engine approve {name}"));
        }
        if mapping.orphans > 0 {
            let sources = count(mapping.orphans, "source");
            lines.push(format!("{sources} of mapping {name} with orphaned objects: sync-engine orphans"));
        }
        for one in &mapping.not_synced {
            let (reason, sources) = (&one.reason, count(one.sources, "source"));
            lines.push(format!("{sources} of mapping {name}: sync-engine status --mapping {name} --reason {reason}"));
        }
    }
    let condition = |wrong: &Wrong| {
        format!("{} ({} for {}): {}", wrong.component, wrong.level, age(wrong.seconds), first_line(&wrong.message))
    };
    lines.extend(status.conditions.iter().map(condition));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::status::tests::running;

    #[test]
    fn a_glance_names_what_is_wrong_and_the_command() {
        let mapping = MappingOverview {
            sources: 12,
            objects: 48,
            orphans: 1,
            held: 11,
            not_synced: vec![ReasonOverview { reason: "Conflict".to_owned(), sources: 2, seconds: 300 }],
            ..running("mongodb")
        };
        let wrong = Wrong {
            component: "connection target".to_owned(),
            level: "waiting".to_owned(),
            message: "connection refused\nand more".to_owned(),
            seconds: 5,
        };
        let status = Status {
            engine: "main".to_owned(),
            version: "1.2.3".to_owned(),
            mappings: vec![mapping],
            conditions: vec![wrong],
            problems: vec!["error".to_owned()],
            ..Status::default()
        };
        insta::assert_snapshot!(glance(&status));
        assert!(!is_well(&status) && is_well(&Status::default()));
        insta::assert_snapshot!(glance(&Status::default()));
        let leader = Leader { replica: "two".to_owned(), leader: "one".to_owned() };
        let standby = Status { leader: Some(leader.clone()), ..status };
        assert!(glance(&standby).contains("replica two stands by: one leads") && is_well(&standby));
        let waiting = Status { leader: Some(Leader { leader: String::new(), ..leader }), ..standby };
        assert!(glance(&waiting).contains("knows of no leader yet") && !is_well(&waiting));
    }

    #[test]
    fn ages_have_one_unit() {
        let shown: Vec<String> = [0, 119, 120, 7199, 7200, 172_800].into_iter().map(age).collect();
        assert_eq!(shown, ["0s", "119s", "2m", "119m", "2h", "2d"]);
    }
}
