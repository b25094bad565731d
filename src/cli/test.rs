//! `sync-engine test`: runs `MappingTest` documents.

mod case;
mod problem;
mod results;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use self::problem::Problem;
use self::results::{Case, Covered, Results, Tested};
use super::arguments::{Format, MappingArguments};
use super::inputs;
use super::terminal::count;
use super::watching::{self, Said};
use super::{Exit, Misconfigured, terminal};
use crate::catalog::{Catalog, Files};
use crate::mapping::coverage::Coverage;
use crate::mapping::diagnostic::{Diagnostic, Finding};
use crate::mapping::document::{MappingTestDocument, required_fields};
use crate::mapping::expression::Recorder;
use crate::mapping::schema::Schemas;
use crate::yaml::{self, from_node};

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine test examples/redis

Of a folder that has folders `mappings` and `examples`, the verb reads both. It skips documents of other API groups, so that tests \
can be in one folder with their objects and golden files.

Coverage counts what the cases of a mapping evaluate, all together: each expression, both outcomes of `when`, `ready`, `failed` \
and `{% if %}`, both values of `a if b else c`, the fallback of `default`, and that a list gives an item.

Exit codes: 0 every case passes; 1 a case fails or cannot be used, or coverage is too low; 2 usage error; 3 a mapping or \
test is missing or wrong.";

/// Flags of `test`.
#[derive(Debug, Args)]
pub struct TestArguments {
    #[command(flatten)]
    pub from: MappingArguments,

    /// Write the golden files with what is rendered now.
    #[arg(long)]
    pub update: bool,

    /// Fail if the cases of a mapping evaluate less of its expressions and branches.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    pub min_coverage: Option<u8>,

    /// Output format. `table` has a row for each case.
    #[arg(short, long, value_parser = Format::without_places(), default_value = "text")]
    pub output: Format,

    /// Do it again at each change, until interrupted.
    #[arg(short, long, conflicts_with = "update")]
    pub watch: bool,
}

/// What the cases of a test need.
struct Bench<'a> {
    catalog: &'a Catalog,
    schemas: &'a Schemas,
    update: bool,
    /// What was evaluated, by mapping.
    recorders: BTreeMap<String, Recorder>,
}

pub(super) fn test(arguments: &TestArguments) -> anyhow::Result<Exit> {
    let paths = arguments.from.paths().chain(examples(&arguments.from.mappings));
    watching::say(arguments.watch, paths, || run(arguments))
}

fn run(arguments: &TestArguments) -> anyhow::Result<Said> {
    let files = files(arguments)?;
    let (schemas, _) = arguments.from.schemas()?;
    let catalog = inputs::catalog(&files);
    let tests = tests(&files);
    if catalog.diagnostics().iter().any(Diagnostic::is_error) {
        return Ok((String::new(), refused(catalog.diagnostics(), arguments.output), Exit::Unchecked));
    }
    if tests.is_empty() {
        let paths = inputs::listed(&arguments.from.mappings);
        return Err(Misconfigured(format!("there is no MappingTest in {paths}")).into());
    }
    let recorders = tests.iter().map(|(_, test)| (test.spec.mapping.value.clone(), Recorder::default())).collect();
    let bench = Bench { catalog: &catalog, schemas: &schemas, update: arguments.update, recorders };
    let (mut results, mut goldens) = (Results::default(), BTreeMap::new());
    for (file, test) in &tests {
        results.tests.push(bench.run(file, test, &mut goldens)?);
    }
    goldens.retain(|path, content| std::fs::read(path).ok().as_deref() != Some(content.as_bytes()));
    goldens.iter().try_for_each(|(path, content)| inputs::write(path, content))?;
    results.written = goldens.into_keys().collect();
    let least = arguments.min_coverage.map(usize::from);
    results.coverage = bench.coverage(&files, least.unwrap_or_default());
    let exit = if results.are_good() { Exit::Success } else { Exit::Failure };
    Ok((unsound(&files, &schemas), results.shown(arguments.output, least, terminal::colours()), exit))
}

/// That an engine would not run the mappings, whatever their tests say.
fn unsound(files: &Files, schemas: &Schemas) -> String {
    let (catalog, _) = Catalog::checking(schemas.clone()).update(files, &BTreeMap::new());
    match catalog.diagnostics().iter().filter(|one| one.is_error()).count() {
        0 => String::new(),
        errors => {
            let errors = count(errors, "error");
            format!("an engine would refuse these mappings for {errors}: `sync-engine validate` shows what is wrong\n")
        }
    }
}

/// What keeps the tests from being run.
fn refused(diagnostics: &[Diagnostic], format: Format) -> String {
    let text = || diagnostics.iter().map(|one| format!("{}\n\n", one.render(terminal::colours()))).collect();
    format.shown(text, text, &json!({"diagnostics": diagnostics}))
}

/// The files that hold a document of ours, or cannot be read.
fn files(arguments: &TestArguments) -> Result<Files, Misconfigured> {
    let mut files = arguments.from.inputs()?;
    for folder in examples(&arguments.from.mappings) {
        // An empty folder is no mistake.
        files.extend(inputs::read(&[folder]).unwrap_or_default());
    }
    Ok(inputs::only_ours(files))
}

/// The folders `examples` of folders that have a folder `mappings`.
fn examples(paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let has_mappings = |path: &&PathBuf| inputs::folder_of_mappings(path) != **path;
    paths.iter().filter(has_mappings).map(|path| inputs::part_of(path, "examples")).filter(|folder| folder.is_dir())
}

/// The tests by their files. Those that cannot be read are among the catalog's diagnostics.
fn tests(files: &Files) -> Vec<(String, MappingTestDocument)> {
    let mut tests = Vec::new();
    for (file, content) in &files.readable {
        for document in yaml::parse(content) {
            let root =
                document.root.filter(|root| root.get("kind").and_then(|kind| kind.as_str()) == Some("MappingTest"));
            let mut findings: Vec<Finding> = Vec::new();
            let typed = root.and_then(|root| from_node(&root, &required_fields, &mut findings));
            tests.extend(typed.map(|typed| (file.clone(), typed.value)));
        }
    }
    tests
}

impl Bench<'_> {
    /// Golden files to write are added to `goldens`.
    ///
    /// # Errors
    /// When its mapping is not there.
    fn run(
        &self,
        file: &str,
        test: &MappingTestDocument,
        goldens: &mut BTreeMap<PathBuf, String>,
    ) -> Result<Tested, Misconfigured> {
        let (name, mapping) = (test.metadata.name.value.clone(), test.spec.mapping.value.clone());
        let entry = self.catalog.mapping(&mapping).ok_or_else(|| {
            let known: Vec<_> = self.catalog.mappings().map(|(name, _)| name).collect();
            let help = yaml::meant(&mapping, &known).unwrap_or_else(|| "name its folder as well".to_owned());
            Misconfigured(format!(
                "{file}: the test `{name}` is about mapping `{mapping}`, which is not among the files; {help}"
            ))
        })?;
        let recorder = self.recorders.get(&mapping).cloned().unwrap_or_default();
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        let mut cases = Vec::new();
        for case in &test.spec.cases {
            let problems = case::run(self, &entry.mapping, &recorder, folder, case, goldens)
                .unwrap_or_else(|Misconfigured(why)| vec![Problem::said(why)]);
            cases.push(Case { name: case.name.clone(), passed: problems.is_empty(), problems });
        }
        Ok(Tested { name, file: file.to_owned(), mapping, cases })
    }

    /// How much of each mapping its cases have reached by now.
    fn coverage(&self, files: &Files, least: usize) -> Vec<Covered> {
        let of = |(name, recorder): (&String, &Recorder)| {
            let entry = self.catalog.mapping(name)?;
            let file = entry.file.as_deref()?;
            let coverage = Coverage::of(&entry.mapping, recorder);
            Some(Covered::new(name, &coverage, least, file, files.readable.get(file)?))
        };
        self.recorders.iter().filter_map(of).collect()
    }
}
