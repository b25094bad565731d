//! `sync-engine approve`: a person approves an edit, or deletions, that the engine holds; or rejects the edit.

use clap::Args;

use super::arguments::{Connections, Format, WhichArguments};
use super::terminal::count;
use super::{Exit, Misconfigured, ask, terminal};
use crate::engine::approval::{Approvals, Decision, Record};
use crate::object::one_line;
use crate::release::Held;
use crate::table;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine approve --target-kubeconfig target.kubeconfig
             sync-engine approve mongodb --target-kubeconfig target.kubeconfig --yes
             sync-engine approve mongodb --target-kubeconfig target.kubeconfig -o yaml > approval.yaml
             sync-engine approve mongodb --target-kubeconfig target.kubeconfig --reject --yes

An edit by which more sources would fail, or more objects be lost, than `release` of the mapping allows is held, and the document \
before goes on. So are the deletions of a removed mapping. The engine records in the home cluster what it holds, and this verb \
shows that record. With --yes it writes the approval, a ConfigMap beside the record; `-o yaml` prints it, so that it can be \
applied by other means. It allows what was shown, in addition to the limits. If the mapping changes, or more is held \
by then, the approval has no effect. With --reject, the edit stays held until its text changes or somebody approves it, \
whatever becomes of what holds it.

Exit codes: 0 listed or approved; 1 the mapping holds nothing, or something else; 2 usage error; 3 the home cluster cannot be read.";

/// Flags of `approve`.
#[derive(Debug, Args)]
pub struct ApproveArguments {
    /// Mapping that is meant. Default: all of which something is held.
    #[arg(value_name = "MAPPING")]
    pub mapping: Option<String>,

    #[command(flatten)]
    pub connections: Connections,

    #[command(flatten)]
    pub which: WhichArguments,

    /// Approve only what has this digest, as an earlier call showed it.
    #[arg(long, value_name = "DIGEST", requires = "yes")]
    pub digest: Option<String>,

    /// Reject the edit instead.
    #[arg(long, requires = "mapping")]
    pub reject: bool,

    /// Write. Without this flag, the verb shows what is held, and writes nothing.
    #[arg(long, requires = "mapping")]
    pub yes: bool,

    /// Output format. `yaml` and `json` print approvals as ConfigMaps.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "text")]
    pub output: Format,
}

pub(super) fn approve(arguments: &ApproveArguments) -> anyhow::Result<Exit> {
    let mappings: Vec<&str> = arguments.mapping.as_deref().into_iter().collect();
    let surveyor = arguments.connections.surveyor_of(&arguments.which, &mappings)?;
    let home = surveyor.connection(&surveyor.home).map_err(|why| Misconfigured(why.to_string()))?.endpoint();
    let (engine_id, namespace) = (&surveyor.engine, &surveyor.namespace);
    let place = home.url().to_owned();
    let approvals = Approvals(surveyor.inventories(home));
    ask(async {
        let unread = |error| Misconfigured(format!("what is held cannot be read at {place}: {error}"));
        let mut records = approvals.records().await.map_err(unread)?;
        records.retain(|record| arguments.mapping.as_ref().is_none_or(|name| *name == record.mapping));
        if records.is_empty() {
            let what =
                arguments.mapping.as_ref().map_or_else(|| "no mapping".to_owned(), |name| format!("mapping {name}"));
            let held = if arguments.mapping.is_some() { "is not held" } else { "is held" };
            eprintln!("{what} of engine {engine_id} {held}, as {place} has it");
            return Ok(if arguments.mapping.is_some() { Exit::Failure } else { Exit::Success });
        }
        let text = || records.iter().map(|record| for_people(record, engine_id)).collect();
        let rows = records.iter().map(|record| row(record, engine_id));
        let table = || table::table(["MAPPING", "FAILING", "LOST", "SINCE", "DIGEST"], rows);
        let decision = if arguments.reject { Decision::Reject } else { Decision::Approve };
        let shown: Vec<_> = records.iter().map(|record| record.decision(engine_id, namespace, decision)).collect();
        terminal::print(&arguments.output.shown(text, table, &shown))?;
        if !arguments.yes {
            let name = if arguments.mapping.is_none() { "name a mapping and " } else { "" };
            let decide = if arguments.reject { "reject" } else { "approve" };
            eprintln!("nothing was written; {name}add --yes to {decide} this");
            return Ok(Exit::Success);
        }
        for record in &records {
            let digest = record.digest(engine_id);
            if arguments.digest.as_ref().is_some_and(|expected| *expected != digest) {
                let name = &record.mapping;
                eprintln!(
                    "refused: mapping {name}: what is held now has the digest {digest}; `sync-engine approve {name}` shows it"
                );
                return Ok(Exit::Failure);
            }
            approvals.decide(record, decision).await.map_err(|error| {
                Misconfigured(format!("the decision on mapping {} cannot be written: {error}", record.mapping))
            })?;
            let decided = if arguments.reject { "rejected" } else { "approved" };
            eprintln!("{decided}: {} of mapping {}", what(&record.held), record.mapping);
        }
        Ok(Exit::Success)
    })
}

fn since(record: &Record) -> String {
    record.since.map(|since| format!("{since:.0}")).unwrap_or_default()
}

fn for_people(record: &Record, engine: &str) -> String {
    let held = &record.held;
    let targets =
        held.deletions.iter().map(|(target, number)| format!("  on {target}: {}\n", count(*number, "object")));
    let shown = held.shown.iter().map(|shown| format!("  {}\n", one_line(shown)));
    format!(
        "mapping {} is held since {}: {}\n{}  digest {}\n",
        record.mapping,
        since(record),
        what(held),
        targets.chain(shown).collect::<String>(),
        record.digest(engine),
    )
}

/// What would come of it.
fn what(held: &Held) -> String {
    let unseen = held.unseen.len();
    let parts = [
        (held.failing, format!("{} newly failing", count(held.failing, "source"))),
        (held.lost(), format!("{} lost", count(held.lost(), "object"))),
        (unseen, format!("{} out of sight", count(unseen, "cluster"))),
        (held.out_of_sight, format!("{} out of sight", count(held.out_of_sight, "source"))),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, part)| part).collect();
    if parts.is_empty() { "no source newly fails, no object is lost".to_owned() } else { parts.join(", ") }
}

fn row(record: &Record, engine: &str) -> [String; 5] {
    let (failing, lost) = (record.held.failing.to_string(), record.held.lost().to_string());
    [record.mapping.clone(), failing, lost, since(record), record.digest(engine)]
}
