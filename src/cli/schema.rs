//! `sync-engine schema`: the JSON Schema of the documents.

use clap::Subcommand;

use super::{Exit, terminal};
use crate::mapping::document::json_schema;

pub(super) const AFTER_HELP: &str = "\
For the YAML language server, in the first line of a mapping:
  # yaml-language-server: $schema=<path or URL of the schema>";

/// What to do with schemas.
#[derive(Debug, Subcommand)]
pub enum SchemaVerb {
    /// Print the JSON Schema (draft 7) of Mapping, ClusterProvider and MappingTest, for editors.
    #[command(after_help = AFTER_HELP)]
    Export,
}

pub(super) fn schema(verb: &SchemaVerb) -> anyhow::Result<Exit> {
    match verb {
        SchemaVerb::Export => terminal::print(&format!("{:#}\n", json_schema()))?,
    }
    Ok(Exit::Success)
}
