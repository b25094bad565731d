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

use std::path::Path;

use super::{ROOT, read};

fn root() -> &'static Path {
    Path::new(ROOT)
}
