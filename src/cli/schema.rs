//! `sync-engine schema`: the JSON Schema of the documents, and the schemas that live clusters have.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::arguments::ConnectionArguments;
use super::{Exit, Misconfigured, ask, connections, inputs, terminal};
use crate::mapping::document::json_schema;
use crate::survey::Surveyor;
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
    /// Copy the schemas of what mappings read and write from live clusters, for checks without any.
    #[command(after_help = PULL_AFTER_HELP)]
    Pull(PullArguments),
}

const PULL_AFTER_HELP: &str = "\
For example: sync-engine schema pull mappings --schemas schemas --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig

The APIResourceSchemas of the APIExports, CustomResourceDefinitions of the target's kinds, and of built-in kinds the part of \
the OpenAPI v3 document that describes them; each in a folder named for the connection. Files that stand there already are \
written anew, others are left alone.

Exit codes: 0 every schema is there; 1 some are not to be had; 2 the command line cannot be understood; 78 a cluster cannot be \
read, or a mapping is wrong.";

/// Flags of `schema pull`.
#[derive(Debug, Args)]
pub struct PullArguments {
    /// Directories and files of mappings.
    #[arg(value_name = "DIR|FILE", env = "SYNC_ENGINE_MAPPINGS", default_value = "mappings")]
    pub mappings: Vec<PathBuf>,

    /// Directory to write to.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS", default_value = "schemas")]
    pub schemas: PathBuf,

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
    let surveyor = Surveyor {
        connections: connections::open(&arguments.connections.clone().by_name()?)?,
        providers: catalog.providers().map(|provider| (provider.name.clone(), provider.kind.clone())).collect(),
        engine: String::new(),
    };
    let (mut documents, mut missing) = (Documents::new(), Vec::new());
    ask(async {
        for (name, entry) in catalog.mappings() {
            let pulled = surveyor.schemas(&entry.mapping, &mut documents, &mut missing).await;
            pulled.map_err(|why| Misconfigured(format!("mapping `{name}`: {why}")))?;
        }
        Ok(())
    })?;
    missing.sort();
    missing.dedup();
    missing.iter().for_each(|what| eprintln!("not to be had: {what}"));
    terminal::print(&write(&arguments.schemas, &documents)?)?;
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
