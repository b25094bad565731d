//! What the benches share whose servers are in this process.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use sync_engine::sandbox::Answer;
use sync_engine::yaml;

/// The sizes that the command line names, else the usual ones.
pub fn sizes(usual: [&str; 4]) -> Vec<String> {
    // Cargo adds `--bench`.
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if named.is_empty() { usual.map(str::to_owned).to_vec() } else { named }
}

/// The name of a target's connection. The first one is the target that mappings have by default: the state store is there.
pub fn name_of_target(index: usize) -> String {
    if index == 0 { "target".to_owned() } else { format!("target-{index}") }
}

/// What a server does not refuse.
pub fn done<T>(answer: Result<T, Answer>) -> Result<T> {
    answer.map_err(|answer| anyhow!("refused with {}: {}", answer.code, answer.to_json()))
}

/// The first document of a file of this repository, as JSON.
pub fn document(path: &'static str) -> Result<Value> {
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))?;
    let first = yaml::parse(&text).into_iter().find_map(|document| document.root);
    first.map(|root| root.to_json()).with_context(|| format!("{path} holds no document"))
}
