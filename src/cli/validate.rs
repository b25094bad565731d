//! `sync-engine validate`: everything that is wrong with mappings, at once and without a cluster.

pub(super) mod unasked;

use std::collections::BTreeMap;

use clap::Args;

use super::arguments::{Format, MappingArguments};
use super::inputs;
use super::terminal::{self, count};
use super::{Exit, watching};
use crate::catalog::{Catalog, Files, InFile};
use crate::engine::DEFAULT_TARGET;
use crate::mapping::SourceClusters;
use crate::mapping::diagnostic::{Diagnostic, Finding, Severity, Spot};
use crate::mapping::schema::Schemas;
use crate::rights::{Setting, rights};
use crate::table;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine validate
             sync-engine validate mappings --watch

Each finding has a code: `sync-engine explain CODE` explains it. The verb asks no server: `sync-engine doctor` reads the clusters.

Exit codes: 0 no error (there may be warnings); 1 errors; 2 usage error; 3 a file cannot be read.";

/// Flags of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArguments {
    #[command(flatten)]
    pub from: MappingArguments,

    /// Output format. `text` shows the place in the file.
    #[arg(short, long, value_parser = Format::but(&[Format::Values]), default_value = "text")]
    pub output: Format,

    /// Do it again at each change, until interrupted.
    #[arg(short, long)]
    pub watch: bool,
}

/// Ends with a line break.
const UNTYPED: &str = "types were not checked: there is no folder `schemas` beside the mappings, and no --schemas\n";

/// What is wrong, and in how much.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub diagnostics: Vec<Diagnostic>,
    /// Those that an engine would run.
    mappings: usize,
    files: usize,
    /// Whether there are schemas that tell the types of what mappings read and write.
    is_typed: bool,
}

/// Mappings as they were read, and what is wrong with them.
pub(super) struct Checked {
    pub files: Files,
    pub schemas: Schemas,
    pub report: Report,
}

pub(super) fn validate(arguments: &ValidateArguments) -> anyhow::Result<Exit> {
    watching::say(arguments.watch, arguments.from.paths(), || {
        let report = Checked::of(&arguments.from)?.report;
        let exit = if report.diagnostics.iter().any(Diagnostic::is_error) { Exit::Failure } else { Exit::Success };
        Ok((String::new(), report.show(arguments.output, terminal::colours()), exit))
    })
}

impl Checked {
    /// # Errors
    /// A path or the schemas cannot be read.
    pub(super) fn of(from: &MappingArguments) -> anyhow::Result<Self> {
        let files = from.inputs()?;
        let is_typed = !inputs::folders_of_schemas(from.schemas.as_deref(), &from.mappings).is_empty();
        let (schemas, mut diagnostics) = from.schemas()?;
        // As the engine starts: what it would refuse is an error here.
        let (catalog, _) = Catalog::checking(schemas.clone()).update(&files, &BTreeMap::new());
        diagnostics.extend_from_slice(catalog.diagnostics());
        diagnostics.extend(catalog.unread(&schemas));
        diagnostics.extend(unasked(&catalog, &schemas));
        let count = files.readable.len() + files.unreadable.len();
        let mappings = catalog.mappings().count();
        let mut report = Report { diagnostics: Vec::new(), mappings, files: count, is_typed };
        report.add(diagnostics);
        Ok(Self { files, schemas, report })
    }
}

impl Report {
    pub(super) fn add(&mut self, diagnostics: Vec<Diagnostic>) {
        self.diagnostics.extend(diagnostics);
        self.diagnostics.sort_by_cached_key(|one| (one.spot.file.clone(), one.spot.span.start));
        // The export's document and the export itself may lack the same claim.
        self.diagnostics.dedup_by(|one, other| one.finding.code == "SE0805" && one == other);
    }

    fn show(&self, format: Format, colours: bool) -> String {
        let all = || self.diagnostics.iter();
        if format == Format::Github {
            return all().map(annotation).collect();
        }
        let row = |Diagnostic { severity, finding, spot }: &Diagnostic| {
            [spot.to_string(), severity.to_string(), finding.code.to_owned(), finding.message.clone()]
        };
        let text = || format!("{}{}{}\n", self.findings(colours), self.untyped(), self.summary());
        let table = || table::table(["PLACE", "SEVERITY", "CODE", "MESSAGE"], all().map(row));
        format.shown(text, table, &self.diagnostics)
    }

    /// Each finding with its place, for people.
    pub(super) fn findings(&self, colours: bool) -> String {
        self.diagnostics.iter().map(|diagnostic| format!("{}\n\n", diagnostic.render(colours))).collect()
    }

    /// That errors of types are not among the findings.
    pub(super) fn untyped(&self) -> &'static str {
        if self.is_typed { "" } else { UNTYPED }
    }

    /// `1 error and 2 warnings in 3 files`, or what is fine.
    pub(super) fn summary(&self) -> String {
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
fn unasked(catalog: &Catalog, schemas: &Schemas) -> Vec<Diagnostic> {
    let setting = Setting {
        schemas,
        providers: catalog.provider_kinds(),
        // Claims are for the consumers' workspaces: state stores and Leases are elsewhere.
        inventory_namespace: "",
        home: DEFAULT_TARGET,
        leases: &[],
        events: false,
    };
    let mut diagnostics = Vec::new();
    for InFile { file, content, mapping } in catalog.mappings().filter_map(|(name, _)| catalog.in_file(name)) {
        let SourceClusters::ApiExport(export) = &mapping.source.clusters else { continue };
        let Some(of_export) = schemas.export(&export.name) else { continue };
        let findings = unasked::unasked(&mapping.spec, export, &rights([mapping], &setting), of_export);
        diagnostics.extend(findings.into_iter().map(|finding| Diagnostic::new(finding, file, content)));
    }
    diagnostics
}

/// A line that GitHub shows beside the file: <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>.
fn annotation(diagnostic: &Diagnostic) -> String {
    let Diagnostic { severity, finding, spot: Spot { file, line, column, .. } } = diagnostic;
    let Finding { code, message, help, notes, .. } = finding;
    let help = help.iter().map(|help| format!("help: {help}"));
    let lines: Vec<String> = std::iter::once(message.clone()).chain(help).chain(notes.clone()).collect();
    let message = lines.join("\n").replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let file = file.replace('%', "%25").replace(':', "%3A").replace(',', "%2C");
    format!("::{severity} file={file},line={line},col={column},title={code}::{message}\n")
}
