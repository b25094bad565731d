//! Differences that are known: the data behind the "not modelled" page of the sandbox.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;

use serde::Deserialize;
use sync_engine::yaml;

use crate::compare::Difference;
use crate::script::{self, Kind};

/// A place where the sandbox is known to say something else than a real server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    pub case: String,
    #[serde(default = "script::everywhere")]
    pub on: Vec<Kind>,
    /// As differences are printed: the number of the step and a JSON pointer; `*` at the end for all below.
    pub at: Vec<String>,
    /// Why it stays.
    pub why: String,
}

/// The list, with a note of what was met in this run.
pub struct KnownDifferences {
    list: Vec<Known>,
    met: Mutex<BTreeSet<(Kind, String)>>,
}

impl KnownDifferences {
    pub fn read() -> Self {
        let text = fs::read_to_string(script::folder().join("known.yaml")).expect("the known differences");
        let root = yaml::parse_one(&text).and_then(|document| document.root).expect("a document");
        let list: Vec<Known> = serde_json::from_value(root.to_json()).expect("known differences");
        for known in &list {
            assert!(!known.why.is_empty() && !known.at.is_empty(), "{known:?}: says where and why");
        }
        Self { list, met: Mutex::default() }
    }

    /// Known differences that were met in this run, each once.
    pub fn met(&self) -> usize {
        self.met.lock().expect("the differences").len()
    }

    /// Cases that the list names.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|known| known.case.as_str())
    }

    /// What is not known among the differences of a case, and what is listed and no longer differs.
    pub fn judge(&self, case: &str, server: Kind, differences: &[Difference]) -> Vec<String> {
        let listed: Vec<&str> = self
            .list
            .iter()
            .filter(|known| known.case == case && known.on.contains(&server))
            .flat_map(|known| known.at.iter().map(String::as_str))
            .collect();
        let unknown = differences.iter().filter(|difference| !listed.iter().any(|at| covers(at, &difference.at)));
        let stale = listed.iter().filter(|at| !differences.iter().any(|difference| covers(at, &difference.at)));
        let complaints = unknown
            .map(Difference::to_string)
            .chain(stale.map(|at| format!("known.yaml lists {at}, which no longer differs")))
            .collect();
        let mut met = self.met.lock().expect("the differences");
        met.extend(listed.iter().map(|at| (server, format!("{case}/{at}"))));
        complaints
    }
}

fn covers(listed: &str, at: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(start) => at.starts_with(start),
        None => listed == at,
    }
}
