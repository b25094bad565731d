//! `--watch`: what is said anew at a change. Each wait is for a line of the program's own.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{GOOD, ROOT, SOURCE, TEST, broken, directory};

struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sync-engine"));
        command.env_clear().current_dir(ROOT).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// Reads on until a line contains `text`.
    fn says(&mut self, text: &str) {
        let found = self.lines.any(|line| line.is_ok_and(|line| line.contains(text)));
        assert!(found, "it ended without `{text}`");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It ends with the test, whatever came of it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn validate_render_and_test_follow_the_files() {
    let (passing, _) = TEST.split_once("    - name: does not").expect("the first case");
    let root = directory(&[("maps/a.yaml", GOOD), ("maps/a.test.yaml", passing), ("maps/source.yaml", SOURCE)]);
    let path = |name: &str| root.path().join(name).display().to_string();
    let (maps, mapping, source) = (path("maps"), path("maps/a.yaml"), path("maps/source.yaml"));
    let mut validate = Watching::start(&["validate", &mapping, "--watch"]);
    let mut test = Watching::start(&["test", &maps, "--watch"]);
    let mut render = Watching::start(&["render", &mapping, "-f", &source, "--no-marks", "--watch"]);
    validate.says("nothing wrong");
    test.says("1 case passed, 0 failed");
    render.says("size: 3");

    fs::write(&source, SOURCE.replace("size: 3", "size: 4")).expect("a file");
    render.says("size: 4");
    test.says("expected {\"size\":3}, got {\"size\":4}");

    fs::write(&mapping, broken()).expect("a file");
    validate.says("SE0301");
    render.says("no mapping in");
    test.says("SE0301");
}
