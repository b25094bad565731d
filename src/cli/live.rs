//! What the verbs that act on live clusters share: flags, findings, and how a person's request is carried out.

use std::fmt::Display;

use clap::Args;
use json_patch::Patch;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::arguments::{ConnectionArguments, Format, MappingArguments, ScopeArguments, WhichArguments};
use super::{Exit, Misconfigured, ask, inputs, progress, terminal};
use crate::catalog::Catalog;
use crate::engine::target::Unserved;
use crate::mapping::{Mapping, Resource};
use crate::multicluster::endpoint::DeleteOptions;
use crate::multicluster::{ApiPath, Body, Endpoint, Reply, RequestError};
use crate::object::marks::Writer;
use crate::object::{metadata, one_line};
use crate::plan::{Phase, TargetObject};
use crate::survey::{Surveyor, Whole};
use crate::table;

/// Flags of a verb that acts on live clusters.
#[derive(Debug, Args)]
pub struct LiveArguments {
    #[command(flatten)]
    pub from: MappingArguments,

    #[command(flatten)]
    pub connections: ConnectionArguments,

    #[command(flatten)]
    pub which: WhichArguments,

    #[command(flatten)]
    pub scope: ScopeArguments,

    /// Write. Without this flag, the verb prints what it would do, and writes nothing.
    #[arg(long)]
    pub yes: bool,

    /// Output format.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "table")]
    pub output: Format,
}

impl LiveArguments {
    /// The mappings, and how to read their clusters.
    pub(super) fn open(&self) -> anyhow::Result<(Catalog, Surveyor)> {
        let catalog = inputs::sound(&self.from.mappings)?;
        let surveyor = self.connections.surveyor_of(&self.which, &catalog)?;
        Ok((catalog, surveyor))
    }
}

/// A wrong kubeconfig, engine id or namespace looks like an engine that has left nothing.
pub(super) fn no_state_store<'a>(surveyor: &Surveyor, connections: impl Iterator<Item = &'a String>) -> String {
    let Surveyor { engine, namespace, .. } = surveyor;
    let names: Vec<_> = connections.map(String::as_str).collect();
    let names = names.join(", ");
    format!("there is no state store of engine {engine} in the namespace {namespace} of the connections {names}")
}

/// What there is to say of each mapping, for which its clusters are read.
///
/// # Errors
/// Where the clusters of a mapping cannot be read.
pub(super) fn survey<T, E: Display>(
    catalog: &Catalog,
    mut look: impl AsyncFnMut(&Mapping) -> Result<Vec<T>, E>,
) -> anyhow::Result<Vec<T>> {
    ask(async {
        let mut all = Vec::new();
        for (name, entry) in progress::mappings(catalog) {
            let found = look(&entry.mapping).await;
            all.extend(found.map_err(|why| Misconfigured(format!("mapping `{name}`: {why}")))?);
        }
        Ok(all)
    })
}

/// Says which target of a mapping is looked at, where there are others, and what of the mapping cannot be read. Gives whether
/// something of it may be there unseen.
pub(super) fn say_unread(surveyor: &Surveyor, mapping: &Mapping, whole: &Whole, phase: Phase) -> bool {
    let (name, at, target) = (&mapping.name, surveyor.target_name(mapping), &whole.target);
    if mapping.target_rule.as_ref().is_some_and(|rule| rule.allowed.len() > 1 || rule.fleet.is_some()) {
        progress::say(&format!("mapping `{name}`: of its targets, `{at}` is looked at alone; --target names another"));
    }
    let kinds = target.kinds_of(mapping, phase).into_iter();
    let unserved: Vec<_> = kinds.filter_map(|kind| target.kinds[kind].as_ref().err()).collect();
    let store = target.inventory.as_ref().err().cloned();
    for why in unserved.iter().map(ToString::to_string).chain(store) {
        progress::say(&format!("mapping `{name}`: target `{at}`: {why}"));
    }
    let former: Vec<_> =
        whole.former.iter().filter_map(|one| Some((&one.resource, one.clusters.as_ref().err()?))).collect();
    for (resource, why) in &former {
        progress::say(&format!(
            "mapping `{name}`: objects of {resource} are left out: their sources cannot be read: {why}"
        ));
    }
    target.inventory.is_err() || !former.is_empty() || unserved.iter().any(|why| matches!(why, Unserved::Unknown(_)))
}

/// One object, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    #[serde(flatten)]
    pub outcome: Outcome,
    pub mapping: String,
    /// `ConfigMap tenant/a`
    pub object: String,
    /// What the object belongs to, with its workspace.
    pub source: String,
    pub reason: &'static str,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is only listed.
    Kept,
    /// What `--yes` would do: `delete`.
    Would(&'static str),
    /// What was done: `deleted`.
    Done(&'static str),
    Refused(String),
}

/// `outcome`, and of what was refused also why.
impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refused = if let Self::Refused(why) = self { Some(("refused", why.clone())) } else { None };
        serializer.collect_map(std::iter::once(("outcome", self.text())).chain(refused))
    }
}

impl Outcome {
    /// What became of a request, which is `(would, done)`.
    pub(super) fn of(result: Result<(), String>, yes: bool, (would, done): (&'static str, &'static str)) -> Self {
        match result {
            Err(why) => Self::Refused(why),
            Ok(()) if yes => Self::Done(done),
            Ok(()) => Self::Would(would),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Kept => "kept".to_owned(),
            Self::Would(what) => format!("would {what}"),
            Self::Done(what) => (*what).to_owned(),
            Self::Refused(_) => "refused".to_owned(),
        }
    }
}

impl Finding {
    fn row(&self) -> [String; 5] {
        let Self { mapping, object, source, reason, .. } = self;
        [self.outcome.text(), (*reason).to_owned(), object.clone(), source.clone(), mapping.clone()]
    }

    fn for_people(&self) -> String {
        let Self { mapping, object, source, reason, why, .. } = self;
        let head = format!("{} {object} (mapping {mapping}, for {source})", self.outcome.text());
        format!("{}\n  {reason}: {}\n", one_line(&head), one_line(why))
    }
}

/// Prints findings; what was refused, and that nothing was written, goes to standard error.
pub(super) fn report(findings: &[Finding], format: Format) -> anyhow::Result<Exit> {
    let text = || findings.iter().map(Finding::for_people).collect();
    let rows = findings.iter().map(Finding::row);
    let table = || table::table(["OUTCOME", "REASON", "OBJECT", "FOR", "MAPPING"], rows);
    terminal::print(&format.shown(text, table, &findings))?;
    let mut exit = Exit::Success;
    for finding in findings {
        if let Outcome::Refused(why) = &finding.outcome {
            eprintln!("{}", one_line(&format!("refused: {}: {why}", finding.object)));
            exit = Exit::Failure;
        }
    }
    if findings.iter().any(|finding| matches!(finding.outcome, Outcome::Would(_))) {
        eprintln!("nothing was written; add --yes to write");
    }
    Ok(exit)
}

/// Where an object is served.
pub(super) fn path_of(resource: &Resource, object: &Value) -> Result<ApiPath, String> {
    let (namespace, name) = (metadata(object, "namespace"), metadata(object, "name"));
    ApiPath::object(resource, namespace, name).map_err(|error| error.to_string())
}

/// Sends one patch, which its guard lets take effect only on the version that was read.
pub(super) async fn act(at: &Endpoint, path: &ApiPath, writer: &Writer, patch: &Patch) -> Result<Reply, String> {
    let body = serde_json::to_string(patch).map_err(|error| error.to_string())?;
    at.patch(path, writer.field_manager(), Body::json_patch(body)).await.map_err(refused)
}

/// Releases an object by a patch; without one, deletes it as its rule says, and only the version that was read.
pub(super) async fn take_away(
    at: &Endpoint,
    resource: &Resource,
    (mapping, writer): (&Mapping, &Writer),
    object: &TargetObject,
    release: Option<&Patch>,
) -> Result<(), String> {
    let path = path_of(resource, &object.object)?;
    if let Some(patch) = release {
        return act(at, &path, writer, patch).await.map(drop);
    }
    let propagation = mapping.rule(object.rule_id()).map(|rule| rule.propagation).unwrap_or_default();
    let (uid, resource_version, propagation) = (object.uid(), object.resource_version(), propagation.as_str());
    at.delete(&path, DeleteOptions { uid, resource_version, propagation }).await.map(drop).map_err(refused)
}

fn refused(error: RequestError) -> String {
    match error.is_conflict() {
        true => "it changed meanwhile; run the command again".to_owned(),
        false => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenant writes the annotation that pins a source, and whoever writes on a target the annotations that name one.
    #[test]
    fn what_others_wrote_makes_no_line_of_a_finding() {
        let finding = Finding {
            outcome: Outcome::Kept,
            mapping: "m".to_owned(),
            object: "Widget default/a".to_owned(),
            source: "acme\u{1b}[2J".to_owned(),
            reason: "TargetChanged",
            why: "it is pinned to a=b\nleft: nothing".to_owned(),
        };
        insta::assert_snapshot!(finding.for_people(), @r"
        kept Widget default/a (mapping m, for acme\u{1b}[2J)
          TargetChanged: it is pinned to a=b\nleft: nothing
        ");
    }
}
