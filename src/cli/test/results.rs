//! What came of all tests, and how it is shown.

use std::path::PathBuf;

use serde::Serialize;

use super::problem::Problem;
use crate::cli::arguments::Format;
use crate::cli::terminal::count;
use crate::mapping::coverage::{Coverage, Goal};
use crate::mapping::diagnostic::Spot;
use crate::table;

#[derive(Debug, Default, Serialize)]
pub(super) struct Results {
    pub tests: Vec<Tested>,
    /// Of each mapping that was tested, by name.
    pub coverage: Vec<Covered>,
    /// Golden files.
    pub written: Vec<PathBuf>,
}

/// What came of one MappingTest.
#[derive(Debug, Serialize)]
pub(super) struct Tested {
    pub name: String,
    pub file: String,
    pub mapping: String,
    pub cases: Vec<Case>,
}

#[derive(Debug, Serialize)]
pub(super) struct Case {
    pub name: String,
    pub passed: bool,
    /// What does not hold.
    pub problems: Vec<Problem>,
}

/// What programs get.
#[derive(Serialize)]
struct Counted<'a> {
    passed: usize,
    failed: usize,
    #[serde(flatten)]
    results: &'a Results,
}

/// How much of a mapping all its tests reach together.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
pub(super) struct Missed {
    goal: Goal,
    message: &'static str,
    #[serde(flatten)]
    spot: Spot,
    /// What is written there.
    expression: String,
}

impl Covered {
    pub fn new(mapping: &str, coverage: &Coverage, least: usize, file: &str, content: &[u8]) -> Self {
        let missed = coverage.missed.iter().map(|point| {
            let spot = Spot::new(&point.place, file, content);
            let expression = String::from_utf8_lossy(&content[spot.span.clone()]).trim().to_owned();
            Missed { goal: point.goal, message: point.goal.missed(), spot, expression }
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
}

impl Tested {
    fn text(&self) -> String {
        let mut lines = vec![format!("{} ({})", self.name, self.file)];
        for case in &self.cases {
            lines.push(format!("  {}  {}", if case.passed { "ok  " } else { "FAIL" }, case.name));
            let problems = case.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            lines.extend(problems.lines().map(|line| format!("        {line}")));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

impl Results {
    fn cases(&self) -> impl Iterator<Item = (&Tested, &Case)> {
        self.tests.iter().flat_map(|test| test.cases.iter().map(move |case| (test, case)))
    }

    pub fn failed(&self) -> usize {
        self.cases().filter(|(_, case)| !case.passed).count()
    }

    /// Whether every case passes, and reaches as much of its mapping as was asked for.
    pub fn are_good(&self) -> bool {
        self.failed() == 0 && self.coverage.iter().all(|covered| covered.enough)
    }

    pub fn shown(&self, format: Format, least: Option<usize>, colours: bool) -> String {
        let failed = self.failed();
        let all = Counted { passed: self.cases().count() - failed, failed, results: self };
        format.shown(|| self.text(least, colours), || self.table(), &all)
    }

    fn text(&self, least: Option<usize>, colours: bool) -> String {
        let tests: String = self.tests.iter().map(Tested::text).collect();
        let written: String = self.written.iter().map(|path| format!("wrote {}\n", path.display())).collect();
        let coverage: String = self.coverage.iter().map(Covered::text).collect();
        let failed = self.failed();
        // A case that cannot be used reaches nothing, and what it would have reached hides why.
        let covered = self.coverage.iter().filter(|_| failed == 0);
        let missed = covered.flat_map(|covered| &covered.missed);
        let missed: String = missed.map(|one| format!("{}\n\n", one.spot.note(one.message, colours))).collect();
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

    /// A row a case, and a row a mapping.
    fn table(&self) -> String {
        let case = |(test, case): (&Tested, &Case)| {
            let result = if case.passed { "passed" } else { "failed" };
            [result.to_owned(), test.name.clone(), case.name.clone(), test.file.clone()]
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
