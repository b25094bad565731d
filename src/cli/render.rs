//! `sync-engine render`: the objects that a mapping makes of a consumer's object, without a cluster.

mod provenance;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use super::arguments::{Format, MappingArguments};
use super::inputs;
use super::{Exit, Misconfigured, sources, watching};
use crate::catalog::{Catalog, Files};
use crate::mapping::Mapping;
use crate::mapping::schema::Schemas;
use crate::object::{ClusterName, marks, metadata};
use crate::plan::preview::{Preview, SETTLED, Scene, Unseen, preview};
use crate::table;
use crate::yaml;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine render -f examples/mongodb/mongodb.yaml --provenance

What is rendered counts as made and ready, and what --observed has as it says. Standard error shows what cannot be rendered, and \
what an object still waits for.

Exit codes: 0 everything is rendered or waits for something; 1 something fails; 2 usage error; 3 a file is missing, a mapping is \
wrong, or an API server would refuse the source.";

/// Flags of `render`.
#[derive(Debug, Args)]
pub struct RenderArguments {
    #[command(flatten)]
    pub from: MappingArguments,

    /// File with source objects, and with the related objects beside them; `-` is standard input. Can be repeated.
    #[arg(short, long, value_name = "FILE", required = true)]
    pub filename: Vec<PathBuf>,

    /// The mapping to use, if several take the object.
    #[arg(long, value_name = "NAME")]
    pub mapping: Option<String>,

    /// Logical cluster of the consumer's workspace. Names on the target depend on it.
    #[arg(long, value_name = "CLUSTER", value_parser = cluster_name)]
    pub workspace_cluster: Option<ClusterName>,

    /// Path of the consumer's workspace.
    #[arg(long, value_name = "PATH")]
    pub workspace_path: Option<String>,

    /// File with target objects that exist; prints the status that follows from them too. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub observed: Vec<PathBuf>,

    /// File with related objects, Secrets for example. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub related: Vec<PathBuf>,

    /// Print the consumer's status too.
    #[arg(long, conflicts_with = "steps")]
    pub status: bool,

    /// Print in which step each object appears: once everything that it waits for is ready.
    #[arg(long, conflicts_with = "provenance")]
    pub steps: bool,

    /// Leave out ownership labels and annotations.
    #[arg(long)]
    pub no_marks: bool,

    /// Print where the value of each field comes from instead: the template's line, the expression, what it reads.
    #[arg(long)]
    pub provenance: bool,

    /// Do it again at each change, until interrupted.
    #[arg(short, long)]
    pub watch: bool,

    /// Output format. `text` is YAML documents; with --provenance, a table.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "text")]
    pub output: Format,
}

/// One object as it is shown.
#[derive(Clone, PartialEq)]
pub(super) struct Document {
    /// The target that it goes to, where an expression or a list says so.
    pub target: Option<String>,
    pub body: Value,
    /// In which step it appears, where that is asked.
    pub step: Option<usize>,
}

/// What there is to say of all sources.
#[derive(Default)]
struct Rendered {
    documents: Vec<Document>,
    origins: Vec<provenance::Written>,
    /// For standard error.
    said: String,
    failed: bool,
}

fn cluster_name(text: &str) -> Result<ClusterName, String> {
    ClusterName::try_from(text).map_err(|error| error.to_string())
}

pub(super) fn render(arguments: &RenderArguments) -> anyhow::Result<Exit> {
    let given = arguments.filename.iter().chain(&arguments.observed).chain(&arguments.related);
    watching::say(arguments.watch, arguments.from.paths().chain(given.cloned()), || {
        let rendered = all(arguments)?;
        let text = shown(arguments, &rendered);
        Ok((rendered.said, text, if rendered.failed { Exit::Failure } else { Exit::Success }))
    })
}

fn all(arguments: &RenderArguments) -> Result<Rendered, Misconfigured> {
    let catalog = catalog(&arguments.from.inputs()?, &arguments.from.mappings)?;
    let (schemas, _) = arguments.from.schemas()?;
    let standing = sources::all(&arguments.observed)?;
    sources::check_observed(&standing, &schemas)?;
    let mut related: Vec<Arc<Value>> = sources::all(&arguments.related)?.into_iter().map(Arc::new).collect();
    let (given, beside) = sources::apart(&catalog, &schemas, sources::all(&arguments.filename)?);
    related.extend(beside);
    related.iter().try_for_each(|object| sources::check_bytes(object))?;
    let mut rendered = Rendered::default();
    for source in given {
        let Some(mapping) = choose(arguments, &catalog, &schemas, &source)? else { continue };
        sources::check_fields(&source, schemas.resource(&mapping.source.resource))?;
        let scene = sources::scene(source, mapping, &schemas)?;
        let scene = Scene {
            cluster: arguments.workspace_cluster.clone().unwrap_or(scene.cluster),
            workspace_path: arguments.workspace_path.clone(),
            standing: standing.clone(),
            related: related.clone(),
            ..scene
        };
        match arguments.steps {
            true => rendered.add_steps(arguments, mapping, scene)?,
            false => rendered.add(arguments, (&catalog, &schemas), mapping, &scene),
        }
    }
    Ok(rendered)
}

/// The good mappings of a path; where there is none, what is wrong stands in the error.
fn catalog(files: &Files, paths: &[PathBuf]) -> Result<Catalog, Misconfigured> {
    let (catalog, paths) = (inputs::catalog(files), inputs::listed(paths));
    let has_none = catalog.mappings().next().is_none();
    match has_none {
        true if inputs::errors(&catalog).is_some() => {
            Err(with_errors(&catalog, format!("no mapping in {paths} can be used")))
        }
        true => Err(Misconfigured(format!("there is no mapping in {paths}"))),
        false => Ok(catalog),
    }
}

/// What is wrong with documents may be why no other one will do.
fn with_errors(catalog: &Catalog, why: String) -> Misconfigured {
    Misconfigured([why].into_iter().chain(inputs::errors(catalog)).collect::<Vec<_>>().join("\n\n"))
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
            with_errors(catalog, format!("there is no good mapping `{name}`; there is `{known}`"))
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
            let version = source["apiVersion"].as_str().unwrap_or_default();
            let why = format!("no mapping takes {title} ({version}); the mappings take {}", served.join(", "));
            Err(with_errors(catalog, why))
        }
        _ => {
            let names: Vec<_> = takers.iter().map(|mapping| mapping.name.as_str()).collect();
            let title = sources::title(source);
            Err(Misconfigured(format!("{title} is taken by {}; choose one with --mapping", names.join(", "))))
        }
    }
}

impl Rendered {
    /// The way to what [`add`](Self::add) shows: each object with the step in which it appears, or changes.
    fn add_steps(&mut self, arguments: &RenderArguments, mapping: &Mapping, scene: Scene) -> Result<(), Misconfigured> {
        let title = sources::title(&scene.source);
        let mut former: Vec<Document> = Vec::new();
        for step in 1..SETTLED {
            let scene = Scene { steps: step, ..scene.clone() };
            let preview = preview(mapping, &scene)
                .map_err(|_| Misconfigured(format!("{title} has no steps: `render` without --steps says why")))?;
            let of_objects = preview.objects().zip(documents(&preview, &scene, !arguments.no_marks, false));
            let made = of_objects.filter(|((at, _, _, desired), _)| preview.is_made(at, &desired.reference));
            let made: Vec<Document> = made.map(|(_, document)| document).collect();
            if made == former {
                self.failed |= preview.failed();
                let waits = preview.reasons.0.iter();
                self.said.extend(waits.map(|why| format!("{title}: {why}\n")));
                break;
            }
            let new = made.iter().filter(|one| !former.contains(one));
            self.documents.extend(new.map(|one| Document { step: Some(step), ..one.clone() }));
            former = made;
        }
        Ok(())
    }

    /// Renders one source.
    fn add(
        &mut self,
        arguments: &RenderArguments,
        (catalog, schemas): (&Catalog, &Schemas),
        mapping: &Mapping,
        scene: &Scene,
    ) {
        let title = sources::title(&scene.source);
        let mut say = |text: &str| self.said.push_str(&format!("{title}: {text}\n"));
        let preview = match preview(mapping, scene) {
            Err(Unseen::Out) => {
                return say(&format!("left alone, for the filter of mapping `{}` excludes it", mapping.name));
            }
            Err(Unseen::Unrendered(reason)) => {
                say(&reason.to_string());
                self.failed = true;
                return;
            }
            Ok(preview) => preview,
        };
        for reason in &preview.reasons.0 {
            say(&reason.to_string());
        }
        for stranger in preview.strangers.iter().filter_map(|position| scene.standing.get(*position)) {
            say(&format!("{} stands for no object of mapping `{}`", sources::title(stranger), mapping.name));
        }
        for why in preview.objects().filter_map(|(.., desired)| sources::check_rendered(&desired.body, schemas).err()) {
            say(&why.0);
            self.failed = true;
        }
        let with_status = arguments.status || !arguments.observed.is_empty();
        self.documents.extend(documents(&preview, scene, !arguments.no_marks, with_status));
        if arguments.provenance {
            self.origins.extend(provenance::rows(catalog, mapping, &preview));
        }
        self.failed |= preview.failed();
    }
}

/// What is rendered, in the mapping's order; the consumer's object with its status last.
pub(super) fn documents(preview: &Preview, scene: &Scene, marks: bool, status: bool) -> Vec<Document> {
    let objects = preview.objects().map(|(at, .., desired)| {
        let body = Value::clone(&desired.body);
        let body = if marks { body } else { unmarked(body) };
        Document { target: at.name().map(str::to_owned), body, step: None }
    });
    let status = preview.status.as_ref().filter(|_| status);
    let status = status.map(|status| Document { target: None, body: consumer(&scene.source, status), step: None });
    objects.chain(status).collect()
}

/// As YAML, each behind the target that it goes to.
pub(super) fn written(documents: &[Document]) -> String {
    let one = |Document { target, body, step }: &Document| {
        let step = step.iter().map(|step| format!("# step: {step}\n")).collect::<String>();
        let target = target.iter().map(|target| format!("# target: {target}\n")).collect::<String>();
        step + &target + &yaml::write(body)
    };
    documents.iter().map(one).collect::<Vec<_>>().join("---\n")
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
    let is_mark = |key: &str| marks::is_ours_to_write(key) || key == marks::MANAGED_BY;
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

fn shown(arguments: &RenderArguments, rendered: &Rendered) -> String {
    if arguments.provenance {
        return provenance::shown(arguments.output, &rendered.origins);
    }
    match arguments.output {
        Format::Text | Format::Yaml | Format::Github | Format::Values => written(&rendered.documents),
        Format::Json => {
            let items: Vec<&Value> = rendered.documents.iter().map(|one| &one.body).collect();
            format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": items}))
        }
        Format::Table => {
            let row = |Document { body, .. }: &Document| {
                let text = |field: &str| metadata(body, field).to_owned();
                let of = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
                [of("kind"), text("namespace"), text("name"), of("apiVersion")]
            };
            let documents = rendered.documents.iter();
            if documents.clone().all(|one| one.target.is_none()) {
                return table::table(["KIND", "NAMESPACE", "NAME", "APIVERSION"], documents.map(row));
            }
            let row = |one| {
                let [kind, namespace, name, version] = row(one);
                [kind, namespace, name, version, one.target.clone().unwrap_or_default()]
            };
            table::table(["KIND", "NAMESPACE", "NAME", "APIVERSION", "TARGET"], documents.map(row))
        }
    }
}
