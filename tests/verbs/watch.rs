//! `--watch`: what is said anew at a change. Each wait is for a line of the program's own.

use std::fs;
use std::path::Path;

use super::program::{self, Running};
use super::{GOOD, ROOT, SOURCE, broken, first_case, tested};

fn start(arguments: &[&str]) -> Running {
    Running::start(&mut program::command(Path::new(ROOT), arguments))
}

#[test]
fn validate_render_and_test_follow_the_files() {
    let root = tested(GOOD, first_case(), &[]);
    let path = |name: &str| root.path().join(name).display().to_string();
    let (maps, mapping, source) = (path("maps"), path("maps/a.yaml"), path("maps/source.yaml"));
    let validate = start(&["validate", &mapping, "--watch"]);
    let test = start(&["test", &maps, "--watch"]);
    let render = start(&["render", &mapping, "-f", &source, "--no-marks", "--watch"]);
    validate.line("nothing wrong");
    test.line("1 case passed, 0 failed");
    render.line("size: 3");

    fs::write(&source, SOURCE.replace("size: 3", "size: 4")).expect("a file");
    render.line("size: 4");
    test.line("expected {\"size\":3}, got {\"size\":4}");

    fs::write(&mapping, broken()).expect("a file");
    validate.line("SE0301");
    render.line("no mapping in");
    test.line("SE0301");
}
