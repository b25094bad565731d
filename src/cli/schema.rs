//! `sync-engine schema`: the JSON Schema of the documents, and the schemas that live clusters have.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::arguments::ConnectionArguments;
use super::live::survey;
use super::{Exit, Misconfigured, inputs, terminal};
use crate::mapping::document::json_schema;
use crate::survey::schemas::Documents;
use crate::yaml;

pub(super) const AFTER_HELP: &str = "\
For the YAML language server, in the first line of a mapping:
  # yaml-language-server: $schema=<path or URL of the schema>";

/// What to do with schemas.
#[derive(Debug, Subcommand)]
pub enum SchemaVerb {
    /// Print the JSON Schema (draft 7) of Mapping, ClusterProvider and MappingTest, for editors.
    #[command(after_help = AFTER_HELP)]
    Export,
    /// Copy the schemas of what mappings read and write from live clusters, for checks without a cluster.
    #[command(after_help = PULL_AFTER_HELP)]
    Pull(Box<PullArguments>),
}

const PULL_AFTER_HELP: &str = "\
For example: sync-engine schema pull --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig

The verb copies the APIResourceSchemas of the APIExports, the CustomResourceDefinitions of the target's kinds, and for built-in \
kinds their part of the OpenAPI v3 document, each into a folder named after the connection. It overwrites these files and no \
others.

Exit codes: 0 every schema is copied; 1 some do not exist; 2 usage error; 3 a cluster cannot be read, or a mapping is wrong.";

/// Flags of `schema pull`.
#[derive(Debug, Args)]
pub struct PullArguments {
    /// Folders and files of mappings. A folder that has a folder `mappings` stands for that folder.
    #[arg(value_name = "DIR|FILE", env = "SYNC_ENGINE_MAPPINGS", default_value = ".")]
    pub mappings: Vec<PathBuf>,

    /// Folder to write to. Default: the folder `schemas` beside the first folder of mappings.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    #[command(flatten)]
    pub connections: ConnectionArguments,
}

pub(super) fn schema(verb: &SchemaVerb) -> anyhow::Result<Exit> {
    match verb {
        SchemaVerb::Export => terminal::print(&format!("{:#}\n", json_schema()))?,
        SchemaVerb::Pull(arguments) => return pull(arguments),
    }
    Ok(Exit::Success)
}

fn pull(arguments: &PullArguments) -> anyhow::Result<Exit> {
    let catalog = inputs::sound(&arguments.mappings)?;
    let surveyor = arguments.connections.surveyor(&catalog)?;
    let beside = || arguments.mappings.iter().find_map(|path| inputs::beside(path, "schemas"));
    let folder = arguments.schemas.clone().or_else(beside).unwrap_or_else(|| PathBuf::from("schemas"));
    let (mut documents, mut missing) = (Documents::new(), Vec::new());
    survey(&catalog, async |mapping| {
        surveyor.schemas(mapping, &mut documents, &mut missing).await.map(|()| Vec::<()>::new())
    })?;
    missing.sort();
    missing.dedup();
    missing.iter().for_each(|what| eprintln!("not found: {what}"));
    terminal::print(&write(&folder, &documents)?)?;
    Ok(if missing.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Says what was written.
fn write(folder: &Path, documents: &Documents) -> Result<String, Misconfigured> {
    let mut said = String::new();
    for (name, document) in documents {
        let path = folder.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, yaml::write(document)))
            .map_err(|error| Misconfigured(format!("cannot write `{}`: {error}", path.display())))?;
        said.push_str(&format!("wrote {}\n", path.display()));
    }
    Ok(said)
}
