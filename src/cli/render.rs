//! `sync-engine render`: the objects that a mapping makes of a consumer's object, without a cluster.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::inputs::{self, Inputs};
use super::{Exit, Misconfigured, sources, terminal};
use crate::catalog::Catalog;
use crate::mapping::Mapping;
use crate::mapping::schema::Schemas;
use crate::object::{ClusterName, marks};
use crate::plan::preview::{Preview, Scene, Unseen, preview};
use crate::yaml;

pub(super) const AFTER_HELP: &str = "\
What cannot be rendered, and what is waited for, is said on standard error. Exit codes: 0 everything is rendered or waits \
for something; 1 something fails; 2 the command line cannot be understood; 78 a file is missing or a mapping is wrong.";

/// Flags of `render`.
#[derive(Debug, Args)]
pub struct RenderArguments {
    /// Directory or file of mappings.
    #[arg(long, value_name = "DIR|FILE", env = "SYNC_ENGINE_MAPPINGS", default_value = "mappings")]
    pub mappings: PathBuf,

    /// File with the consumer's object; `-` is standard input. It may hold several.
    #[arg(long, value_name = "FILE")]
    pub source: PathBuf,

    /// The mapping to use, where several take the object.
    #[arg(long, value_name = "NAME")]
    pub mapping: Option<String>,

    /// Logical cluster of the consumer's workspace. Names on the target depend on it.
    #[arg(long, value_name = "CLUSTER", value_parser = cluster_name)]
    pub workspace_cluster: Option<ClusterName>,

    /// Path of the consumer's workspace.
    #[arg(long, value_name = "PATH")]
    pub workspace_path: Option<String>,

    /// File with downstream objects as they stand; the status that follows from them is printed too. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub observed: Vec<PathBuf>,

    /// Print the consumer's status too.
    #[arg(long)]
    pub status: bool,

    /// Directory of schemas; a status field that the consumer's schema lacks is left out, as the engine does.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    /// Leave out the labels and annotations by which the engine knows its objects.
    #[arg(long)]
    pub no_marks: bool,

    /// How to print: YAML documents, or a JSON `List`.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: OutputFormat,
}

/// How objects are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    #[default]
    Yaml,
    Json,
}

fn cluster_name(text: &str) -> Result<ClusterName, String> {
    ClusterName::try_from(text).map_err(|error| error.to_string())
}

pub(super) fn render(arguments: &RenderArguments) -> anyhow::Result<Exit> {
    let catalog = catalog(&arguments.mappings)?;
    let (schemas, _) = inputs::schemas(arguments.schemas.as_deref())?;
    let standing: Vec<Value> =
        arguments.observed.iter().map(|path| sources::objects(path)).collect::<Result<Vec<_>, _>>()?.concat();
    let mut printed = Vec::new();
    let mut failed = false;
    for source in sources::objects(&arguments.source)? {
        let Some(mapping) = choose(arguments, &catalog, &schemas, &source)? else { continue };
        let schema = schemas.resource(&mapping.source.resource).cloned();
        let cluster = arguments.workspace_cluster.clone().map_or_else(|| default_cluster(mapping), Ok)?;
        let scene = Scene {
            engine: "main".to_owned(),
            cluster,
            workspace_path: arguments.workspace_path.clone(),
            source: Arc::new(sources::with_namespace(source, mapping, &schemas)),
            standing: standing.clone(),
            related: Vec::new(),
            schema,
        };
        failed |= !one(arguments, mapping, &scene, &mut printed);
    }
    terminal::print(&shown(arguments.output, &printed))?;
    Ok(if failed { Exit::Failure } else { Exit::Success })
}

pub(super) fn default_cluster(mapping: &Mapping) -> Result<ClusterName, Misconfigured> {
    ClusterName::try_from(sources::default_cluster(mapping)).map_err(|error| Misconfigured(error.to_string()))
}

/// The good mappings of a path; where there is none, what is wrong stands in the error.
fn catalog(path: &PathBuf) -> Result<Catalog, Misconfigured> {
    let (catalog, update) = Inputs::read(std::slice::from_ref(path))?.catalog();
    match inputs::errors(&update) {
        Some(errors) if catalog.mappings().next().is_none() => {
            Err(Misconfigured(format!("no mapping in `{}` can be used\n\n{errors}", path.display())))
        }
        _ => Ok(catalog),
    }
}

/// `None`: no mapping takes the object, and it was said.
fn choose<'c>(
    arguments: &RenderArguments,
    catalog: &'c Catalog,
    schemas: &Schemas,
    source: &Value,
) -> Result<Option<&'c Arc<Mapping>>, Misconfigured> {
    if let Some(name) = &arguments.mapping {
        let known: Vec<_> = catalog.mappings().map(|(name, _)| name).collect();
        let entry = catalog.mapping(name).ok_or_else(|| {
            let known = known.join("`, `");
            Misconfigured(format!("there is no mapping `{name}`; there is `{known}`"))
        })?;
        return Ok(Some(&entry.mapping));
    }
    let takers = sources::takers(catalog, schemas, source);
    match takers[..] {
        [mapping] => Ok(Some(mapping)),
        [] => {
            let title = sources::title(source);
            let served: Vec<_> =
                catalog.mappings().map(|(_, entry)| entry.mapping.source.resource.to_string()).collect();
            Err(Misconfigured(format!(
                "no mapping takes {title} ({}); the mappings take {}",
                source["apiVersion"].as_str().unwrap_or_default(),
                served.join(", ")
            )))
        }
        _ => {
            let names: Vec<_> = takers.iter().map(|mapping| mapping.name.as_str()).collect();
            let title = sources::title(source);
            Err(Misconfigured(format!("{title} is taken by {}; choose one with --mapping", names.join(", "))))
        }
    }
}

/// Renders one source. False where something of it fails.
fn one(arguments: &RenderArguments, mapping: &Mapping, scene: &Scene, printed: &mut Vec<Value>) -> bool {
    let title = sources::title(&scene.source);
    match preview(mapping, scene) {
        Err(Unseen::Out) => {
            eprintln!("{title}: left alone, for the filter of mapping `{}` does not let it in", mapping.name);
            true
        }
        Err(Unseen::Unrendered(reason)) => {
            eprintln!("{title}: {}: {}", reason.cause.as_str(), reason.detail);
            false
        }
        Ok(preview) => {
            preview
                .reasons
                .0
                .iter()
                .for_each(|reason| eprintln!("{title}: {}: {}", reason.cause.as_str(), reason.detail));
            for stranger in preview.strangers.iter().filter_map(|position| scene.standing.get(*position)) {
                eprintln!("{title}: {} stands for no object of mapping `{}`", sources::title(stranger), mapping.name);
            }
            let with_status = arguments.status || !arguments.observed.is_empty();
            printed.extend(documents(&preview, scene, !arguments.no_marks, with_status));
            !preview.failed()
        }
    }
}

/// What is rendered, in the mapping's order; the consumer's object with its status last.
pub(super) fn documents(preview: &Preview, scene: &Scene, marks: bool, status: bool) -> Vec<Value> {
    let objects = preview.objects().map(|(.., desired)| desired.body.clone());
    let mut documents: Vec<Value> = objects.map(|body| if marks { body } else { unmarked(body) }).collect();
    documents.extend(preview.related());
    if let Some(computed) = preview.status.as_ref().filter(|_| status) {
        documents.push(consumer(&scene.source, computed));
    }
    documents
}

/// The consumer's object as far as the engine writes it.
fn consumer(source: &Value, status: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace"] {
        metadata.extend(source["metadata"].get(field).map(|value| (field.to_owned(), value.clone())));
    }
    json!({"apiVersion": source["apiVersion"], "kind": source["kind"], "metadata": metadata, "status": status})
}

/// The same without what the engine put there to know it again.
pub(super) fn unmarked(mut body: Value) -> Value {
    let is_mark = |key: &str| key.starts_with("sync-engine.dev/") || key == marks::MANAGED_BY;
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else { return body };
    for field in ["labels", "annotations"] {
        let Some(entries) = metadata.get_mut(field).and_then(Value::as_object_mut) else { continue };
        entries.retain(|key, _| !is_mark(key));
        if entries.is_empty() {
            metadata.remove(field);
        }
    }
    body
}

fn shown(format: OutputFormat, documents: &[Value]) -> String {
    match format {
        OutputFormat::Yaml => yaml::write_all(documents),
        OutputFormat::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
            // `{:#}` of a JSON value is its indented form.
            format!("{list:#}\n")
        }
    }
}
