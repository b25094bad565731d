//! The answers of a real kcp as data, so that a machine without one compares the sandbox with them all the same.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::Value;

use crate::script;

/// The recording, and what is recorded anew in this run.
pub struct Recording {
    pub kept: Answers,
    renewed: Mutex<Answers>,
}

/// The answers of one kcp.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Answers {
    /// Its `gitVersion`.
    pub version: String,
    cases: BTreeMap<String, Vec<Value>>,
}

/// Whether the answers of kcp are to be recorded instead of compared.
pub fn is_renewed() -> bool {
    env::var("SYNC_ENGINE_RECORD_KCP").is_ok_and(|value| value == "1")
}

impl Recording {
    pub fn read() -> Self {
        let text = fs::read_to_string(file()).unwrap_or_else(|_| "{}".to_owned());
        let kept = serde_json::from_str(&text).expect("answers by case");
        Self { kept, renewed: Mutex::default() }
    }

    pub fn of(&self, case: &str) -> Option<&[Value]> {
        self.kept.cases.get(case).map(Vec::as_slice)
    }

    /// Cases that are recorded.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.kept.cases.keys().map(String::as_str)
    }

    /// Keeps answers for the new recording.
    pub fn renew(&self, version: String, case: &str, answers: Vec<Value>) {
        let mut renewed = self.renewed.lock().expect("the answers");
        renewed.version = version;
        renewed.cases.insert(case.to_owned(), answers);
    }

    /// Writes the new recording; cases that were not played keep their answers while `known` knows them.
    pub fn write(&self, known: impl Fn(&str) -> bool) {
        let renewed = self.renewed.lock().expect("the answers");
        if renewed.cases.is_empty() {
            return;
        }
        let mut cases = self.kept.cases.clone();
        cases.extend(renewed.cases.clone());
        cases.retain(|case, _| known(case));
        fs::write(file(), printed(&renewed.version, &cases)).expect("the recording");
        println!("recorded {} cases from kcp {}", renewed.cases.len(), renewed.version);
    }
}

/// One line for each answer, so that a change of one is a change of one line.
fn printed(version: &str, cases: &BTreeMap<String, Vec<Value>>) -> String {
    let case = |(name, answers): (&String, &Vec<Value>)| {
        let lines: Vec<String> = answers.iter().map(|answer| format!("      {answer}")).collect();
        format!("    {}: [\n{}\n    ]", Value::from(name.as_str()), lines.join(",\n"))
    };
    let cases: Vec<String> = cases.iter().map(case).collect();
    format!("{{\n  \"version\": {},\n  \"cases\": {{\n{}\n  }}\n}}\n", Value::from(version), cases.join(",\n"))
}

fn file() -> PathBuf {
    script::folder().join("recorded/kcp.json")
}
