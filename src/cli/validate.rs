//! `sync-engine validate`: everything that is wrong with mappings, at once and without a cluster.

mod live;

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;

use super::arguments::{ConnectionArguments, EngineArguments, Format, MappingArguments};
use super::inputs::{self, Inputs};
use super::terminal::{self, count};
use super::{Exit, watching};
use crate::catalog::Catalog;
use crate::mapping::diagnostic::{Diagnostic, Severity};
use crate::mapping::schema::Schemas;
use crate::mapping::{Mapping, SourceClusters};
use crate::rights::{Setting, rights};
use crate::table;
use crate::yaml;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine validate
             sync-engine validate --live --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig

Each finding has a code: `sync-engine explain CODE` explains it. With --live, the verb reads the clusters and writes nothing.

Exit codes: 0 no error (there may be warnings); 1 errors; 2 usage error; 3 a file, kubeconfig or cluster cannot be read.";

/// Flags of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArguments {
    #[command(flatten)]
    pub from: MappingArguments,

    /// Check the live clusters too: APIExport, endpoint slice, permission claims, RBAC and kinds, and a server-side dry run of the
    /// objects of one source.
    #[arg(long)]
    pub live: bool,

    #[command(flatten)]
    pub connections: ConnectionArguments,

    #[command(flatten)]
    pub engine: EngineArguments,

    /// Output format. `text` shows the place in the file.
    #[arg(short, long, value_parser = Format::with_places(), default_value = "text")]
    pub output: Format,

    /// Do it again at each change, until interrupted.
    #[arg(short, long)]
    pub watch: bool,
}

/// The code of a cluster that cannot be read: what is on it is not known.
const UNREADABLE: &str = "SE0801";

/// Ends with a line break.
const UNTYPED: &str = "types were not checked: there is no folder `schemas` beside the mappings, and no --schemas\n";

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
        let colours = terminal::colours();
        return watching::watch(arguments.from.paths(), || Ok(Report::of(arguments)?.show(arguments.output, colours)));
    }
    let report = Report::of(arguments)?;
    terminal::print(&report.show(arguments.output, terminal::colours()))?;
    Ok(report.exit())
}

impl Report {
    fn of(arguments: &ValidateArguments) -> anyhow::Result<Self> {
        let inputs = arguments.from.inputs()?;
        let is_typed =
            !inputs::folders_of_schemas(arguments.from.schemas.as_deref(), &arguments.from.mappings).is_empty();
        let (schemas, mut diagnostics) = arguments.from.schemas()?;
        // As the engine starts: what it would refuse is an error here.
        let (catalog, update) = inputs.onto(&Catalog::checking(schemas.clone()), &BTreeMap::new());
        diagnostics.extend(update.diagnostics);
        diagnostics.extend(catalog.unread(&schemas));
        diagnostics.extend(unasked(arguments, &inputs, &catalog, &schemas));
        if arguments.live {
            // What the clusters lack is looked for as well where a mapping is refused.
            diagnostics.extend(live::check(arguments, &inputs, &inputs.catalog().0, schemas)?);
        }
        diagnostics.sort_by(|one, other| (&one.file, one.span.start).cmp(&(&other.file, other.span.start)));
        // The export's document and the export itself may lack the same claim.
        diagnostics.dedup_by(|one, other| one.code == "SE0805" && one == other);
        let files = inputs.readable.len() + inputs.unreadable.len();
        let mappings = catalog.mappings().count();
        Ok(Self { diagnostics, mappings, files, is_typed })
    }

    fn exit(&self) -> Exit {
        let codes: BTreeSet<_> = self.diagnostics.iter().filter(|one| one.is_error()).map(|one| one.code).collect();
        match codes.first() {
            None => Exit::Success,
            Some(&UNREADABLE) if codes.len() == 1 => Exit::Unchecked,
            Some(_) => Exit::Failure,
        }
    }

    fn show(&self, format: Format, colours: bool) -> String {
        let all = || self.diagnostics.iter();
        if format == Format::Github {
            return all().map(annotation).collect();
        }
        let row = |one: &Diagnostic| {
            let place = format!("{}:{}:{}", one.file, one.line, one.column);
            [place, one.severity.to_string(), one.code.to_owned(), one.message.clone()]
        };
        let text = || {
            let findings = all().map(|diagnostic| format!("{}\n\n", diagnostic.render(colours)));
            findings.chain([self.untyped().to_owned(), self.summary(), "\n".to_owned()]).collect()
        };
        let table = || table::table(["PLACE", "SEVERITY", "CODE", "MESSAGE"], all().map(row));
        format.shown(text, table, || all().map(Diagnostic::to_json).collect())
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

/// Claims that mappings need, and that the documents of their APIExports among the schemas do not ask for.
fn unasked(arguments: &ValidateArguments, inputs: &Inputs, catalog: &Catalog, schemas: &Schemas) -> Vec<Diagnostic> {
    let setting = Setting {
        schemas,
        inventory_namespace: &arguments.engine.state.state_namespace,
        providers: catalog.providers().map(|provider| (provider.name.clone(), provider.kind.clone())).collect(),
        home: &arguments.engine.state.home,
        // Claims are for the consumers' workspaces, and Leases are at home.
        leases: &[],
        events: false,
    };
    let mut diagnostics = Vec::new();
    for Compiled { file, content, document, mapping } in compiled(inputs, catalog) {
        let Some(spec) = document.root.as_ref().and_then(|root| root.get("spec")) else { continue };
        let SourceClusters::ApiExport(export) = &mapping.source.clusters else { continue };
        let Some(of_export) = schemas.export(&export.name) else { continue };
        let findings = live::unasked(spec, export, &rights([mapping], &setting), of_export);
        diagnostics.extend(findings.into_iter().map(|finding| Diagnostic::new(finding, file, content)));
    }
    diagnostics
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
