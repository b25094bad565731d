//! `sync-engine doctor`: what clusters lack that mappings need, and what else keeps an engine from its work, now or soon.

mod checks;
mod mappings;

use std::collections::BTreeSet;

use clap::Args;
use serde::Serialize;

use self::checks::{Check, Verdict};
use self::mappings::Visit;
use super::arguments::{ConnectionArguments, Format, MappingArguments, WhichArguments};
use super::validate::{Checked, Report};
use super::{Exit, ask, inputs, progress, terminal};
use crate::catalog::{Catalog, InFile};
use crate::mapping::diagnostic::{Diagnostic, Severity};
use crate::mapping::schema::Schemas;
use crate::survey::Surveyor;
use crate::table;

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine doctor --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig
             kubectl exec deploy/sync-engine -- /sync-engine doctor

The verb reads the clusters and writes nothing. For each mapping, it looks for the APIExport, its endpoint slice and permission \
claims, the rights and the kinds (on a fleet of targets, on its first cluster), and sends the objects of one source as a \
server-side dry run. Then it looks at the versions and clocks of the servers, at credentials that end within 24 hours, at claims \
that workspaces have not accepted, and at state stores that hold other documents than the files. It does not look at the rights \
that flags of `run` need, on Leases and Events.

Each finding has a code: `sync-engine explain CODE` explains it.

Exit codes: 0 no error (there may be warnings); 1 errors; 2 usage error; 3 a file, kubeconfig or cluster cannot be read.";

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub from: MappingArguments,

    #[command(flatten)]
    pub connections: ConnectionArguments,

    #[command(flatten)]
    pub which: WhichArguments,

    /// Output format. `text` shows the place in the file.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "text")]
    pub output: Format,
}

/// The code of a cluster that cannot be read: what is on it is not known.
const UNREADABLE: &str = "SE0801";

/// What is wrong with mappings and their clusters, and what was looked at beside them.
struct Diagnosis {
    report: Report,
    checks: Vec<Check>,
}

pub(super) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    let diagnosis = Diagnosis::of(arguments)?;
    terminal::print(&diagnosis.show(arguments.output, terminal::colours()))?;
    Ok(diagnosis.exit())
}

impl Diagnosis {
    fn of(arguments: &DoctorArguments) -> anyhow::Result<Self> {
        let Checked { files, schemas, mut report } = Checked::of(&arguments.from)?;
        // What the clusters lack is looked for as well where a mapping is refused.
        let catalog = inputs::catalog(&files);
        let surveyor = arguments.connections.surveyor_of(&arguments.which, &catalog)?;
        let (diagnostics, checks) = ask(async { Ok(look(&surveyor, &catalog, schemas).await) })?;
        report.add(diagnostics);
        Ok(Self { report, checks })
    }

    fn exit(&self) -> Exit {
        let errors = self.report.diagnostics.iter().filter(|one| one.is_error());
        let codes: BTreeSet<_> = errors.map(|one| one.finding.code).collect();
        let has = |verdict| self.checks.iter().any(|check| check.verdict == verdict);
        if codes.iter().any(|code| *code != UNREADABLE) || has(Verdict::Error) {
            return Exit::Failure;
        }
        if codes.is_empty() && !has(Verdict::Unknown) { Exit::Success } else { Exit::Unchecked }
    }

    fn show(&self, format: Format, colours: bool) -> String {
        let Self { report, checks } = self;
        let fine = checks.iter().filter(|check| check.verdict == Verdict::Ok).count();
        let text = || {
            let lines: String = checks.iter().map(|check| format!("{check}\n")).collect();
            let (findings, untyped, summary) = (report.findings(colours), report.untyped(), report.summary());
            format!("{findings}{lines}\n{untyped}{summary}; {fine} of {} checks are fine\n", checks.len())
        };
        let table = || {
            let findings = report.diagnostics.iter().map(row);
            table::table(["VERDICT", "CHECK", "ABOUT", "MESSAGE"], findings.chain(checks.iter().map(Check::row)))
        };
        let findings = report.diagnostics.iter().map(|diagnostic| Told::Mapping {
            check: "mapping",
            verdict: diagnostic.severity,
            diagnostic,
        });
        let told: Vec<_> = findings.chain(checks.iter().map(Told::Check)).collect();
        format.shown(text, table, &told)
    }
}

/// Looks at the clusters. What a server says is a finding.
async fn look(surveyor: &Surveyor, catalog: &Catalog, schemas: Schemas) -> (Vec<Diagnostic>, Vec<Check>) {
    let mut visit = Visit::new(surveyor, schemas);
    let mut diagnostics = Vec::new();
    for (name, _) in progress::mappings(catalog) {
        let Some(InFile { file, content, mapping }) = catalog.in_file(name) else { continue };
        let findings = visit.mapping(mapping).await;
        diagnostics.extend(findings.into_iter().map(|finding| Diagnostic::new(finding, file, content)));
    }
    let mut checks = checks::servers(surveyor).await;
    checks.extend(checks::claims(surveyor, &visit.claimed).await);
    checks.extend(checks::documents(surveyor, catalog).await);
    (diagnostics, checks)
}

fn row(Diagnostic { severity, finding, spot }: &Diagnostic) -> [String; 4] {
    [severity.to_string(), finding.code.to_owned(), spot.to_string(), finding.message.clone()]
}

/// What programs get: a finding has the same two fields as a check.
#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Mapping {
        check: &'static str,
        verdict: Severity,
        #[serde(flatten)]
        diagnostic: &'a Diagnostic,
    },
    Check(&'a Check),
}
