//! `sync-engine validate`: everything that is wrong with mappings, at once and without a cluster.

mod live;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::arguments::ConnectionArguments;
use super::inputs::{self, Inputs};
use super::terminal::{self, count};
use super::{Exit, watching};
use crate::catalog::Catalog;
use crate::mapping::Mapping;
use crate::mapping::diagnostic::{Diagnostic, Severity};
use crate::yaml;

pub(super) const AFTER_HELP: &str = "\
Exit codes: 0 nothing is wrong (warnings aside); 2 the command line cannot be understood; 78 something is wrong.

Each finding has a code; `sync-engine explain CODE` says more about it. With --live, the clusters are read and nothing is \
written to them: sync-engine validate mappings --live --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig";

/// Flags of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArguments {
    /// Directories and files of mappings, read as the engine reads its directory; `-` is standard input.
    #[arg(value_name = "DIR|FILE", env = "SYNC_ENGINE_MAPPINGS", default_value = "mappings")]
    pub paths: Vec<PathBuf>,

    /// Directory of schemas (APIResourceSchemas, CustomResourceDefinitions) that mappings are checked against. Default: the
    /// folder `schemas` beside the folder of the mappings.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    /// Also look at the live clusters: what of APIExport, endpoint slice, permission claims, rights and kinds is missing
    /// there, and whether the target would take what is rendered of a source that stands (a dry run).
    #[arg(long)]
    pub live: bool,

    #[command(flatten)]
    pub connections: ConnectionArguments,

    /// Which engine is meant, as `run` is told it. For --live.
    #[arg(long, value_name = "ID", env = "SYNC_ENGINE_ENGINE_ID", default_value = "main")]
    pub engine_id: String,

    /// Namespace on each target for the engine's notes, as `run` is told it. For --live.
    #[arg(long, value_name = "NAMESPACE", env = "SYNC_ENGINE_INVENTORY_NAMESPACE", default_value = "sync-engine")]
    pub inventory_namespace: String,

    /// For people, for programs, or as annotations of a pull request.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Validate again at each change, until interrupted.
    #[arg(long)]
    pub watch: bool,
}

/// Ends with a line break.
const UNTYPED: &str = "types were not checked: there is no folder `schemas` beside the mappings, and no --schemas\n";

/// How findings are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// With the place in the file, coloured on a terminal unless NO_COLOR is set.
    #[default]
    Text,
    /// One JSON array on one line.
    Json,
    /// Workflow commands of GitHub Actions.
    Github,
}

/// What is wrong, and in how much.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    diagnostics: Vec<Diagnostic>,
    /// Those that an engine would run.
    mappings: usize,
    files: usize,
    /// Whether there are schemas that tell the types of what mappings read and write.
    is_typed: bool,
}

pub(super) fn validate(arguments: &ValidateArguments) -> anyhow::Result<Exit> {
    if arguments.watch {
        let schemas = arguments.schemas.clone().or_else(|| inputs::schemas_beside(&arguments.paths));
        let paths = arguments.paths.iter().chain(&schemas).map(PathBuf::as_path);
        let colours = terminal::colours();
        return watching::watch(paths, || Ok(Report::of(arguments)?.show(arguments.format, colours)));
    }
    let report = Report::of(arguments)?;
    terminal::print(&report.show(arguments.format, terminal::colours()))?;
    Ok(report.exit())
}

impl Report {
    fn of(arguments: &ValidateArguments) -> anyhow::Result<Self> {
        let inputs = Inputs::read(&arguments.paths)?;
        let beside = inputs::schemas_beside(&arguments.paths);
        let directory = arguments.schemas.as_deref().or(beside.as_deref());
        let (schemas, mut diagnostics) = inputs::schemas(directory)?;
        // As the engine starts: what it would refuse is an error here.
        let (catalog, update) = inputs.onto(&Catalog::checking(schemas.clone()), &BTreeMap::new());
        diagnostics.extend(update.diagnostics);
        if arguments.live {
            // What the clusters lack is looked for as well where a mapping is refused.
            diagnostics.extend(live::check(arguments, &inputs, &inputs.catalog().0, schemas)?);
        }
        diagnostics.sort_by(|one, other| (&one.file, one.span.start).cmp(&(&other.file, other.span.start)));
        let files = inputs.readable.len() + inputs.unreadable.len();
        let mappings = catalog.mappings().count();
        Ok(Self { diagnostics, mappings, files, is_typed: directory.is_some() })
    }

    fn exit(&self) -> Exit {
        if self.diagnostics.iter().any(Diagnostic::is_error) { Exit::Configuration } else { Exit::Success }
    }

    fn show(&self, format: Format, colours: bool) -> String {
        match format {
            Format::Text => {
                let findings = self.diagnostics.iter().map(|diagnostic| format!("{}\n\n", diagnostic.render(colours)));
                findings.chain([self.untyped().to_owned(), self.summary(), "\n".to_owned()]).collect()
            }
            Format::Json => {
                let findings: serde_json::Value = self.diagnostics.iter().map(Diagnostic::to_json).collect();
                format!("{findings}\n")
            }
            Format::Github => self.diagnostics.iter().map(annotation).collect(),
        }
    }

    /// That errors of types are not among the findings.
    fn untyped(&self) -> &'static str {
        if self.is_typed { "" } else { UNTYPED }
    }

    /// `1 error and 2 warnings in 3 files`, or what is fine.
    fn summary(&self) -> String {
        let of = |severity| self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
        let files = count(self.files, "file");
        let good = count(self.mappings, "good mapping");
        match (of(Severity::Error), of(Severity::Warning)) {
            (0, 0) => format!("{} in {files}, nothing wrong", count(self.mappings, "mapping")),
            (0, warnings) => format!("{} in {files}; {good}", count(warnings, "warning")),
            (errors, 0) => format!("{} in {files}; {good}", count(errors, "error")),
            (errors, warnings) => {
                format!("{} and {} in {files}; {good}", count(errors, "error"), count(warnings, "warning"))
            }
        }
    }
}

/// A mapping that compiles, and the document it was compiled from.
struct Compiled<'a> {
    file: &'a str,
    content: &'a [u8],
    document: yaml::Document,
    mapping: &'a Mapping,
}

fn compiled<'a>(inputs: &'a Inputs, catalog: &'a Catalog) -> impl Iterator<Item = Compiled<'a>> {
    let documents = inputs.readable.iter().flat_map(|(file, content)| {
        yaml::parse(content).into_iter().map(move |document| (file.as_str(), content.as_slice(), document))
    });
    documents.filter_map(|(file, content, document)| {
        let entry = document.claim.name.as_deref().and_then(|name| catalog.mapping(name));
        let entry = entry.filter(|entry| entry.mapping.text == document.text)?;
        Some(Compiled { file, content, document, mapping: &entry.mapping })
    })
}

/// A line that GitHub shows beside the file: <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>.
fn annotation(diagnostic: &Diagnostic) -> String {
    let Diagnostic { severity, code, file, line, column, .. } = diagnostic;
    let help = diagnostic.help.iter().map(|help| format!("help: {help}"));
    let lines: Vec<String> =
        std::iter::once(diagnostic.message.clone()).chain(help).chain(diagnostic.notes.clone()).collect();
    let message = lines.join("\n").replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let file = file.replace('%', "%25").replace(':', "%3A").replace(',', "%2C");
    format!("::{severity} file={file},line={line},col={column},title={code}::{message}\n")
}
