//! `sync-engine test`: runs `MappingTest` documents.

mod case;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::inputs::{self, Inputs};
use super::terminal::{self, count};
use super::{Exit, Misconfigured, watching};
use crate::catalog::Catalog;
use crate::mapping::diagnostic::{Diagnostic, Finding};
use crate::mapping::document::{MappingTestDocument, required_fields};
use crate::mapping::schema::Schemas;
use crate::yaml::{self, from_node};

pub(super) const AFTER_HELP: &str = "\
Documents that are not sync-engine's are passed over, so that tests can stand beside their objects and golden files. \
Exit codes: 0 every case passes; 1 one does not; 2 the command line cannot be understood; 78 a file is missing, or a \
document is wrong.";

/// Flags of `test`.
#[derive(Debug, Args)]
pub struct TestArguments {
    /// Directories and files with MappingTest documents, and with the mappings they test.
    #[arg(value_name = "DIR|FILE", default_value = "mappings")]
    pub paths: Vec<PathBuf>,

    /// Directory or file of further mappings, where those under test stand elsewhere.
    #[arg(long, value_name = "DIR|FILE", env = "SYNC_ENGINE_MAPPINGS")]
    pub mappings: Option<PathBuf>,

    /// Directory of schemas; a status field that the consumer's schema lacks is left out, as the engine does.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    /// Write the golden files anew with what is rendered now.
    #[arg(long)]
    pub update: bool,

    /// Run again at each change, until interrupted.
    #[arg(long, conflicts_with = "update")]
    pub watch: bool,
}

/// What the cases of a test need.
struct Bench<'a> {
    catalog: &'a Catalog,
    schemas: &'a Schemas,
    update: bool,
}

pub(super) fn test(arguments: &TestArguments) -> anyhow::Result<Exit> {
    if arguments.watch {
        let paths = arguments.paths.iter().chain(&arguments.mappings).chain(&arguments.schemas).map(PathBuf::as_path);
        return watching::watch(paths, || Ok(run(arguments)?.0));
    }
    let (text, exit) = run(arguments)?;
    terminal::print(&text)?;
    Ok(exit)
}

/// What is said of the tests, and how the program ends for it.
fn run(arguments: &TestArguments) -> anyhow::Result<(String, Exit)> {
    let inputs = inputs(arguments)?;
    let (schemas, _) = inputs::schemas(arguments.schemas.as_deref())?;
    let (catalog, update) = inputs.catalog();
    let tests = tests(&inputs);
    if update.diagnostics.iter().any(Diagnostic::is_error) {
        let findings = update.diagnostics.iter().map(|one| format!("{}\n\n", one.render(terminal::colours())));
        return Ok((findings.collect(), Exit::Configuration));
    }
    if tests.is_empty() {
        let paths: Vec<_> = arguments.paths.iter().map(|path| format!("`{}`", path.display())).collect();
        return Err(Misconfigured(format!("there is no MappingTest in {}", paths.join(", "))).into());
    }
    let bench = Bench { catalog: &catalog, schemas: &schemas, update: arguments.update };
    let mut results = Results::default();
    for (file, test) in &tests {
        results.run(&bench, file, test)?;
    }
    let exit = if results.failed == 0 { Exit::Success } else { Exit::Failure };
    Ok((results.text(), exit))
}

/// The files that hold a document of ours, or cannot be read.
fn inputs(arguments: &TestArguments) -> Result<Inputs, Misconfigured> {
    let mut inputs = Inputs::read(&arguments.paths)?;
    if let Some(mappings) = &arguments.mappings {
        inputs.extend(Inputs::read(std::slice::from_ref(mappings))?);
    }
    Ok(inputs.only_ours())
}

/// The tests by their files. Those that cannot be read are among the catalog's diagnostics.
fn tests(inputs: &Inputs) -> Vec<(String, MappingTestDocument)> {
    let mut tests = Vec::new();
    for (file, content) in &inputs.readable {
        for document in yaml::parse(content) {
            let root = document.root.filter(|_| document.claim.kind.as_deref() == Some("MappingTest"));
            let mut findings: Vec<Finding> = Vec::new();
            let typed = root.and_then(|root| from_node(&root, &required_fields, &mut findings));
            tests.extend(typed.map(|typed| (file.clone(), typed.value)));
        }
    }
    tests
}

#[derive(Debug, Default)]
struct Results {
    text: String,
    passed: usize,
    failed: usize,
    written: Vec<PathBuf>,
}

impl Results {
    /// # Errors
    /// When a file that a case names cannot be read or written, or its mapping is not there.
    fn run(&mut self, bench: &Bench, file: &str, test: &MappingTestDocument) -> anyhow::Result<()> {
        let name = &test.spec.mapping.value;
        let Some(entry) = bench.catalog.mapping(name) else {
            return Err(Misconfigured(format!(
                "{file}: the test `{}` is about mapping `{name}`, which is not among the files; add its directory with --mappings",
                test.metadata.name.value
            ))
            .into());
        };
        let _ = writeln!(self.text, "{} ({file})", test.metadata.name.value);
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        let mut goldens = BTreeMap::new();
        for case in &test.spec.cases {
            let problems = case::run(bench, &entry.mapping, folder, case, &mut goldens)?;
            self.note(&case.name, &problems);
        }
        self.write(goldens)
    }

    fn note(&mut self, case: &str, problems: &[String]) {
        let word = if problems.is_empty() { "ok  " } else { "FAIL" };
        let _ = writeln!(self.text, "  {word}  {case}");
        for line in problems.iter().flat_map(|problem| problem.lines()) {
            let _ = writeln!(self.text, "        {line}");
        }
        if problems.is_empty() {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    fn write(&mut self, goldens: BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
        for (path, content) in goldens {
            let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            let written = written.and_then(|()| std::fs::write(&path, content));
            written.map_err(|error| Misconfigured(format!("cannot write `{}`: {error}", path.display())))?;
            self.written.push(path);
        }
        Ok(())
    }

    fn text(&self) -> String {
        let written: String = self.written.iter().map(|path| format!("wrote {}\n", path.display())).collect();
        format!("{}{written}\n{} passed, {} failed\n", self.text, count(self.passed, "case"), self.failed)
    }
}
