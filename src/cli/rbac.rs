//! `sync-engine rbac`: the least rights that the engine needs for mappings, without a cluster.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::arguments::{Format, LeaderElect, LeaderElectArguments, MappingArguments, StateArguments};
use super::{Exit, inputs, terminal};
use crate::mapping::Mapping;
use crate::rights::{self, Place, Rights, Rule, Setting, Subject, rights};
use crate::table;
use crate::yaml;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine rbac --for target | kubectl --context target apply -f -
             sync-engine rbac --for provider --subject user:engine | kubectl --context kcp apply -f -
             sync-engine rbac -o values > rights.yaml     (for `helm install --values rights.yaml`)

The rules allow what the engine's requests need, for each kind that a mapping renders. They include what the mapping's own Roles \
grant, because nobody may grant what they do not hold. What an APIExport publishes itself takes no claim: the sources of its \
mappings, and what an APIExport document of its name among the schemas lists.

Exit codes: 0 printed; 2 usage error; 3 a file is missing or a mapping is wrong.";

/// Flags of `rbac`.
#[derive(Debug, Args)]
pub struct RbacArguments {
    #[command(flatten)]
    pub from: MappingArguments,

    /// Print one side alone, to apply it there.
    #[arg(long = "for", value_name = "SIDE", value_enum)]
    pub side: Option<Side>,

    /// Who the engine is there: `user:NAME`, `group:NAME` or `serviceaccount:NAMESPACE/NAME`.
    ///
    /// Default: the ServiceAccount `sync-engine` in the namespace of the state store on Kubernetes clusters, and the user
    /// `sync-engine` in kcp.
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<SubjectName>,

    /// Name of the roles and bindings.
    #[arg(long, value_name = "NAME", default_value = "sync-engine")]
    pub name: String,

    #[command(flatten)]
    pub state: StateArguments,

    #[command(flatten)]
    pub how: LeaderElectArguments,

    /// Also the rights for Events, which the engine writes with `--events`.
    #[arg(long, env = "SYNC_ENGINE_EVENTS")]
    pub events: bool,

    /// Output format. `text` is YAML documents with comments; `table` shows why each rule is needed; `values` is for the chart,
    /// in the home cluster.
    #[arg(short, long, value_parser = Format::but(&[Format::Github]), default_value = "text")]
    pub output: Format,
}

/// Where rights are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The connections that receive objects, whatever else is there.
    Target,
    /// The workspaces of APIExports.
    Provider,
    /// Other clusters: with sources, of a ClusterProvider, or listing such clusters.
    Source,
    /// What APIExports must ask their consumers for.
    Claims,
}

/// A subject, as the command line names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectName(Subject);

impl FromStr for SubjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || "write user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME".to_owned();
        let (kind, name) = text.split_once(':').filter(|(_, name)| !name.is_empty()).ok_or_else(unknown)?;
        match (kind, name.split_once('/')) {
            ("user", _) => Ok(Self(Subject::User(name.to_owned()))),
            ("group", _) => Ok(Self(Subject::Group(name.to_owned()))),
            ("serviceaccount", Some((namespace, name))) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self(Subject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }))
            }
            _ => Err(unknown()),
        }
    }
}

pub(super) fn rbac(arguments: &RbacArguments) -> anyhow::Result<Exit> {
    let catalog = inputs::sound(&arguments.from.mappings)?;
    let (schemas, _) = arguments.from.schemas()?;
    let setting = Setting {
        schemas: &schemas,
        inventory_namespace: &arguments.state.state_namespace,
        providers: catalog.provider_kinds(),
        home: &arguments.state.home,
        leases: match arguments.how.leader_elect {
            LeaderElect::None => &[],
            LeaderElect::Lease => &["get", "create", "update"],
        },
        events: arguments.events,
    };
    let mappings: Vec<&Mapping> = catalog.mappings().map(|(_, entry)| &*entry.mapping).collect();
    let mut rights = rights(mappings, &setting);
    for (kind, plural) in &rights.guessed {
        eprintln!("{kind}: no schema has its resource; `{plural}` is a guess (--schemas)");
    }
    rights.places.retain(|place, _| arguments.side.is_none_or(|side| side == side_of(place)));
    if arguments.side.is_some_and(|side| side != Side::Claims) {
        rights.claims.clear();
    }
    let places = rights.places.len();
    if arguments.side.is_some() && places > 1 && matches!(arguments.output, Format::Text | Format::Yaml) {
        eprintln!("these are roles of one name for {places} places: apply each part where the comment before it says");
    }
    terminal::print(&match arguments.output {
        Format::Text | Format::Yaml | Format::Github => {
            documents(arguments, &rights).iter().map(|(about, document)| commented(about, document)).collect()
        }
        Format::Json => {
            let items: Vec<Value> = documents(arguments, &rights).into_iter().map(|(_, document)| document).collect();
            format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": items}))
        }
        Format::Table => shown(&rights),
        Format::Values => yaml::write(&values(arguments, rights)),
    })?;
    Ok(Exit::Success)
}

fn side_of(place: &Place) -> Side {
    match place {
        Place::Target(_) => Side::Target,
        Place::Provider { .. } => Side::Provider,
        Place::Source(_) | Place::Fleet(_) | Place::Hub(_) => Side::Source,
    }
}

/// Each document, and where it belongs: said once, before the first.
fn documents(arguments: &RbacArguments, rights: &Rights) -> Vec<(String, Value)> {
    let mut documents = Vec::new();
    for (place, rules) in &rights.places {
        let subject =
            arguments.subject.as_ref().map_or_else(|| default_subject(arguments, place), |given| given.0.clone());
        let mut about = format!("For {}.", place_name(place));
        for document in rights::roles(rules, &arguments.name, &subject) {
            documents.push((std::mem::take(&mut about), document));
        }
    }
    for (export, claims) in &rights.claims {
        let path = export.path.as_deref().unwrap_or("the export's workspace");
        let about = format!("To be added to the APIExport in {path}; consumers must accept it.");
        documents.push((about, rights::claims(export, claims)));
    }
    documents
}

/// What the chart does not give by itself: rules for the kinds of the mappings, and roles in other namespaces than its own.
fn values(arguments: &RbacArguments, mut rights: Rights) -> Value {
    rights.places.retain(|place, _| *place == Place::Target(arguments.state.home.clone()));
    rights.claims.clear();
    let documents = documents(arguments, &rights).into_iter().map(|(_, document)| document);
    let (cluster, others): (Vec<Value>, Vec<Value>) =
        documents.partition(|document| document["kind"].as_str().is_some_and(|kind| kind.starts_with("ClusterRole")));
    let rules: Vec<&Value> = cluster.iter().filter_map(|role| role["rules"].as_array()).flatten().collect();
    let own = &arguments.state.state_namespace;
    // A namespace of the release would go with it, and with all that is there.
    let is_beside =
        |document: &Value| document["kind"] != "Namespace" && document["metadata"]["namespace"] != own.as_str();
    let others: Vec<Value> = others.into_iter().filter(is_beside).collect();
    match others.is_empty() {
        true => json!({"rbac": {"clusterRules": rules}}),
        false => json!({"rbac": {"clusterRules": rules}, "extraObjects": others}),
    }
}

fn default_subject(arguments: &RbacArguments, place: &Place) -> Subject {
    match place {
        Place::Provider { .. } => Subject::User("sync-engine".to_owned()),
        Place::Target(_) | Place::Source(_) | Place::Fleet(_) | Place::Hub(_) => Subject::ServiceAccount {
            namespace: arguments.state.state_namespace.clone(),
            name: "sync-engine".to_owned(),
        },
    }
}

fn place_name(place: &Place) -> String {
    match place {
        Place::Target(connection) => format!("the cluster of the connection `{connection}`"),
        Place::Provider { connection, path: Some(path) } => format!("the workspace {path} (connection `{connection}`)"),
        Place::Provider { connection, path: None } => format!("the workspace of the connection `{connection}`"),
        Place::Source(connection) => format!("the source cluster of the connection `{connection}`"),
        Place::Hub(connection) => format!("the hub of the connection `{connection}`, which lists other clusters"),
        Place::Fleet(provider) => format!("each cluster of the ClusterProvider `{provider}`"),
    }
}

fn commented(about: &str, document: &Value) -> String {
    let about = if about.is_empty() { String::new() } else { format!("# {about}\n") };
    format!("---\n{about}{}", yaml::write(document))
}

/// Who may do what where, and why.
fn shown(rights: &Rights) -> String {
    let mut rows = Vec::new();
    for (place, rules) in &rights.places {
        rows.extend(rules.iter().map(|rule| row(place, rule)));
    }
    for (export, claims) in &rights.claims {
        let about = format!("claim {}", export.name);
        rows.extend(claims.iter().map(|one| [about.clone(), one.what(), one.verbs.join(","), one.why.clone()]));
    }
    table::table(["WHERE", "WHAT", "VERBS", "WHY"], rows)
}

fn row(place: &Place, rule: &Rule) -> [String; 4] {
    let place = match (place, &rule.namespace) {
        (Place::Target(name), None) => format!("target {name}"),
        (Place::Target(name), Some(namespace)) => format!("target {name}, namespace {namespace}"),
        (Place::Provider { path: Some(path), .. }, _) => format!("workspace {path}"),
        (Place::Provider { connection, path: None }, _) => format!("workspace of {connection}"),
        (Place::Source(name), _) => format!("source {name}"),
        (Place::Hub(name), None) => format!("hub {name}"),
        (Place::Hub(name), Some(namespace)) => format!("hub {name}, namespace {namespace}"),
        (Place::Fleet(provider), _) => format!("each cluster of {provider}"),
    };
    let names = if rule.names.is_empty() { String::new() } else { format!(" {}", rule.names.join(",")) };
    [place, rule.what() + &names, rule.verbs.join(","), rule.why.clone()]
}
