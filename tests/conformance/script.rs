//! Cases as they are written in `cases/*.yaml`: requests, with what to keep of an answer for later ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use sync_engine::yaml;

/// One case: requests that are sent in order to a server of each kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows; with the file's name in front the name of the case.
    #[serde(rename = "case")]
    pub name: String,
    #[serde(default = "everywhere")]
    pub on: Vec<Kind>,
    /// What mutating admission changes while the case runs. A real server may take a moment: a first step waits for it.
    #[serde(default)]
    pub admission: Vec<Admission>,
    pub steps: Vec<Step>,
}

/// A change that mutating admission makes, in two languages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// `plural.version.group`.
    pub resource: String,
    /// An apply configuration, as a MutatingAdmissionPolicy of a real server has it.
    pub cel: String,
    /// The same as a merge patch, for the in-memory server.
    pub patch: Value,
}

/// A kind of real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Kubernetes,
    Kcp,
}

/// One request. Texts in braces that name a variable are replaced by its value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Method and URL. `APPLY`, `MERGE`, `STRATEGIC` and `JSON` are the kinds of a PATCH, and `WATCH` is a GET. A URL below
    /// `/clusters` or `/services` is kcp's own; any other is of the cluster, or the workspace, that the case runs in.
    pub send: String,
    /// The body's media type, where it is neither JSON nor that of a kind of PATCH.
    #[serde(rename = "as")]
    pub media: Option<String>,
    pub accept: Option<String>,
    pub body: Option<Value>,
    /// A body that is not JSON.
    pub text: Option<String>,
    /// Variables for later steps, by the JSON pointers of what they are set to.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
    /// Sent again until the answer is like this.
    pub until: Option<Until>,
    /// JSON pointers of what nobody can foretell.
    #[serde(default)]
    pub mask: Vec<String>,
    /// Prepares others: its answer is not compared.
    #[serde(default)]
    pub quiet: bool,
}

/// What an answer that is waited for is like.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    pub code: Option<u16>,
    /// JSON pointers and the values that must stand there; null for nothing.
    #[serde(default)]
    pub holds: BTreeMap<String, Value>,
    /// JSON pointers at which anything stands.
    #[serde(default)]
    pub present: Vec<String>,
}

pub fn everywhere() -> Vec<Kind> {
    vec![Kind::Kubernetes, Kind::Kcp]
}

impl Step {
    /// A request with nothing but a method and a URL.
    pub fn new(send: &str) -> Step {
        Step { send: send.to_owned(), ..Step::default() }
    }
}

impl Until {
    pub fn is_met(&self, code: u16, body: &Value) -> bool {
        let stands = |(pointer, value): (&String, &Value)| body.pointer(pointer).unwrap_or(&Value::Null) == value;
        let is_there = |pointer: &String| body.pointer(pointer).is_some_and(|value| !value.is_null());
        self.code.is_none_or(|wanted| wanted == code)
            && self.holds.iter().all(stands)
            && self.present.iter().all(is_there)
    }
}

/// This folder.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// The cases of every file, each with its full name, `<file>::<case>`.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for file in files() {
        let theme = file.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        for mut case in read(&file) {
            case.name = format!("{theme}::{}", case.name);
            cases.push(case);
        }
    }
    cases
}

/// What is done on a server before any case: `workspaces` of kcp, `definitions` of kinds.
pub fn setup(name: &str) -> Case {
    read(&folder().join(format!("setup/{name}.yaml"))).pop().expect("a setup")
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder().join("cases")).expect("the folder of the cases");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    files.sort();
    files
}

/// The cases of one file.
fn read(file: &Path) -> Vec<Case> {
    let text = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let case = |document: yaml::Document| {
        let root = document.root.unwrap_or_else(|| panic!("{}: {:?}", file.display(), document.findings));
        let case: Result<Case, _> = serde_json::from_value(root.to_json());
        case.unwrap_or_else(|error| panic!("{}: {error}: {}", file.display(), root.to_json()))
    };
    yaml::parse(&text).into_iter().map(case).collect()
}
