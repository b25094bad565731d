//! The pages under `docs/` are true: what is generated is fresh, what is written by hand names what there is, every example
//! gives what it says, and every command runs.
//!
//! `UPDATE_DOCS=1 cargo test --test verbs documentation` writes the generated pages anew.

mod cli;
mod fields;
mod functions;
mod generated;
mod links;
mod operations;
mod readable;
mod reference;
mod snippets;
mod steps;
mod troubles;
mod tutorial;

use std::fs;
use std::path::{Path, PathBuf};

use super::{ROOT, read};

fn root() -> &'static Path {
    Path::new(ROOT)
}

/// The files in a folder and below it whose names end so, from the root.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::from(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|its| its == extension) {
                files.push(path);
            }
        }
    }
    files
}
