//! What came of all tests, and how it is shown.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::problem::Problem;
use crate::cli::arguments::Format;
use crate::cli::terminal::count;
use crate::mapping::coverage::{Coverage, Goal};
use crate::mapping::diagnostic::Spot;
use crate::table;
use crate::yaml;

#[derive(Debug, Default)]
pub(super) struct Results {
    pub tests: Vec<Tested>,
    /// Of each mapping that was tested, by name.
    pub coverage: Vec<Covered>,
    /// Golden files.
    pub written: Vec<PathBuf>,
}

/// What came of one MappingTest.
#[derive(Debug)]
pub(super) struct Tested {
    pub name: String,
    pub file: String,
    pub mapping: String,
    /// Each case, and what of it does not hold.
    pub cases: Vec<(String, Vec<Problem>)>,
}

/// How much of a mapping all its tests reach together.
#[derive(Debug)]
pub(super) struct Covered {
    pub mapping: String,
    pub file: String,
    pub covered: usize,
    pub total: usize,
    pub percent: usize,
    /// Whether less was asked for.
    pub enough: bool,
    pub missed: Vec<Missed>,
}

/// A place that no test reaches.
#[derive(Debug)]
pub(super) struct Missed {
    goal: Goal,
    spot: Spot,
    /// What is written there.
    text: String,
}

impl Covered {
    pub fn new(mapping: &str, coverage: &Coverage, least: usize, file: &str, content: &[u8]) -> Self {
        let missed = coverage.missed.iter().map(|point| {
            let spot = Spot::new(&point.place, file, content);
            let text = String::from_utf8_lossy(&content[spot.span.clone()]).trim().to_owned();
            Missed { goal: point.goal, spot, text }
        });
        Self {
            mapping: mapping.to_owned(),
            file: file.to_owned(),
            covered: coverage.covered(),
            total: coverage.total,
            percent: coverage.percent(),
            enough: coverage.covered() * 100 >= coverage.total * least,
            missed: missed.collect(),
        }
    }

    fn text(&self) -> String {
        let Self { mapping, covered, total, percent, .. } = self;
        format!("mapping {mapping}: {covered} of {total} expressions and branches tested ({percent} %)\n")
    }

    fn to_json(&self) -> Value {
        let missed = |one: &Missed| {
            json!({
                "file": one.spot.file, "line": one.spot.line, "column": one.spot.column, "goal": one.goal.word(),
                "message": one.goal.missed(), "expression": one.text,
            })
        };
        json!({
            "mapping": self.mapping, "file": self.file, "covered": self.covered, "total": self.total,
            "percent": self.percent, "enough": self.enough,
            "missed": self.missed.iter().map(missed).collect::<Value>(),
        })
    }
}

impl Tested {
    fn text(&self) -> String {
        let mut lines = vec![format!("{} ({})", self.name, self.file)];
        for (case, problems) in &self.cases {
            lines.push(format!("  {}  {case}", if problems.is_empty() { "ok  " } else { "FAIL" }));
            let problems = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            lines.extend(problems.lines().map(|line| format!("        {line}")));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn to_json(&self) -> Value {
        let case = |(name, problems): &(String, Vec<Problem>)| {
            let problems: Value = problems.iter().map(Problem::to_json).collect();
            json!({"name": name, "passed": problems == json!([]), "problems": problems})
        };
        json!({
            "name": self.name, "file": self.file, "mapping": self.mapping,
            "cases": self.cases.iter().map(case).collect::<Value>(),
        })
    }
}

impl Results {
    fn cases(&self) -> impl Iterator<Item = (&Tested, &str, &[Problem])> {
        self.tests.iter().flat_map(|test| test.cases.iter().map(move |(name, problems)| (test, &**name, &**problems)))
    }

    pub fn failed(&self) -> usize {
        self.cases().filter(|(.., problems)| !problems.is_empty()).count()
    }

    /// Whether every case passes, and reaches as much of its mapping as was asked for.
    pub fn are_good(&self) -> bool {
        self.failed() == 0 && self.coverage.iter().all(|covered| covered.enough)
    }

    pub fn shown(&self, format: Format, least: Option<usize>, colours: bool) -> String {
        match format {
            Format::Text | Format::Github | Format::Values => self.text(least, colours),
            Format::Yaml => yaml::write(&self.to_json()),
            Format::Json => format!("{:#}\n", self.to_json()),
            Format::Table => self.table(),
        }
    }

    fn text(&self, least: Option<usize>, colours: bool) -> String {
        let tests: String = self.tests.iter().map(Tested::text).collect();
        let written: String = self.written.iter().map(|path| format!("wrote {}\n", path.display())).collect();
        let coverage: String = self.coverage.iter().map(Covered::text).collect();
        let missed = self.coverage.iter().flat_map(|covered| &covered.missed);
        let missed: String = missed.map(|one| format!("{}\n\n", one.spot.note(one.goal.missed(), colours))).collect();
        let failed = self.failed();
        let passed = count(self.cases().count() - failed, "case");
        let short = self
            .coverage
            .iter()
            .filter(|covered| !covered.enough)
            .zip(least)
            .map(|(covered, least)| format!("; less than {least} % of mapping {} is tested", covered.mapping));
        let short: String = short.collect();
        format!("{tests}{written}\n{coverage}\n{missed}{passed} passed, {failed} failed{short}\n")
    }

    fn to_json(&self) -> Value {
        let failed = self.failed();
        json!({
            "passed": self.cases().count() - failed,
            "failed": failed,
            "tests": self.tests.iter().map(Tested::to_json).collect::<Value>(),
            "coverage": self.coverage.iter().map(Covered::to_json).collect::<Value>(),
            "written": self.written.iter().map(|path| path.display().to_string()).collect::<Value>(),
        })
    }

    /// A row a case, and a row a mapping.
    fn table(&self) -> String {
        let case = |(test, name, problems): (&Tested, &str, &[Problem])| {
            let result = if problems.is_empty() { "passed" } else { "failed" };
            [result.to_owned(), test.name.clone(), name.to_owned(), test.file.clone()]
        };
        let mapping = |covered: &Covered| {
            let Covered { mapping, covered, total, percent, file, .. } = covered;
            [mapping.clone(), format!("{covered}/{total}"), format!("{percent}%"), file.clone()]
        };
        let cases = table::table(["RESULT", "TEST", "CASE", "FILE"], self.cases().map(case));
        let mappings = self.coverage.iter().map(mapping);
        format!("{cases}\n{}", table::table(["MAPPING", "TESTED", "PERCENT", "FILE"], mappings))
    }
}
