//! `sync-engine schema`: the JSON Schema of the documents, and the schemas that live clusters have.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::arguments::ConnectionArguments;
use super::live::survey;
use super::{Exit, Misconfigured, inputs, terminal};
use crate::mapping::diagnostic::Diagnostic;
use crate::mapping::document::{json_schema, required_fields};
use crate::mapping::schema::short::{self, Built};
use crate::survey::schemas::Documents;
use crate::yaml::{self, from_node};

pub(super) const AFTER_HELP: &str = "\
For the YAML language server, in the first line of a mapping:
  # yaml-language-server: $schema=<path or URL of the schema>";

/// What to do with schemas.
#[derive(Debug, Subcommand)]
pub enum SchemaVerb {
    /// Print the JSON Schema (draft 7) of the documents, for editors.
    #[command(after_help = AFTER_HELP)]
    Export,
    /// Copy the schemas of what mappings read and write from live clusters, for checks without a cluster.
    #[command(after_help = PULL_AFTER_HELP)]
    Pull(Box<PullArguments>),
    /// Write the APIResourceSchema and the APIExport of each ApiSchema, for kcp.
    #[command(after_help = BUILD_AFTER_HELP)]
    Build(BuildArguments),
}

const PULL_AFTER_HELP: &str = "\
For example: sync-engine schema pull --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig

The verb copies the APIResourceSchemas of the APIExports, the CustomResourceDefinitions of the target's kinds, and for built-in \
kinds their part of the OpenAPI v3 document, each into a folder named after the connection. It overwrites these files and no \
others.

It reads more than an engine does: beside the rights that `sync-engine rbac` prints, it needs `get` of `apiresourceschemas` in the \
workspaces of APIExports, and of the path `/openapi/v3/*` on targets.

Exit codes: 0 every schema is copied; 1 some do not exist; 2 usage error; 3 a cluster cannot be read, or a mapping is wrong.";

const BUILD_AFTER_HELP: &str = "\
For example: sync-engine schema build schemas/apischema.yaml

The verb writes apiresourceschema.yaml and apiexport.yaml beside each file. Another spec has another name, for kcp lets nobody change one.

Exit codes: 0 everything is written; 2 usage error; 3 a document is wrong.";

/// Flags of `schema build`.
#[derive(Debug, Args)]
pub struct BuildArguments {
    /// Files with ApiSchema documents.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

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
        SchemaVerb::Build(arguments) => arguments.files.iter().try_for_each(|file| build(file))?,
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
    documents.iter().try_for_each(|(name, document)| write(&folder.join(name), &yaml::write(document)))?;
    Ok(if missing.is_empty() { Exit::Success } else { Exit::Failure })
}

/// Writes kcp's documents beside the file that says them in short.
fn build(file: &Path) -> anyhow::Result<()> {
    let content = inputs::file(file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let header = format!("# Written by `sync-engine schema build` from {name}: edit that.\n");
    let mut texts = ["apiresourceschema.yaml", "apiexport.yaml"].map(|name| (name, Vec::new()));
    for document in yaml::parse_within(&content, yaml::Limits::SCHEMAS) {
        let mut findings = document.findings.clone();
        let typed = document.root.as_ref().and_then(|root| from_node(root, &required_fields, &mut findings));
        let built = typed.and_then(|typed| short::build(&typed.value, &mut findings));
        let Some(Built { resource_schema, export }) = built.filter(|_| findings.is_empty()) else {
            let shown = |finding| Diagnostic::new(finding, &file.display().to_string(), &content).render(false);
            let wrong: Vec<_> = findings.into_iter().map(shown).collect();
            return Err(Misconfigured(format!("nothing is written\n\n{}", wrong.join("\n\n"))).into());
        };
        texts[0].1.push(yaml::write(&resource_schema));
        texts[1].1.push(yaml::write(&export));
    }
    for (name, documents) in texts {
        write(&file.with_file_name(name), &format!("{header}{}", documents.join("---\n")))?;
    }
    Ok(())
}

/// Says what was written.
fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    inputs::write(path, content)?;
    Ok(terminal::print(&format!("wrote {}\n", path.display()))?)
}
