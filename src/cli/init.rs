//! `sync-engine init`: a folder that offers an operator's API, made of its CustomResourceDefinition.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;

use super::{Exit, Misconfigured, inputs, render, sources, terminal};
use crate::catalog::{Catalog, Files};
use crate::mapping::Mapping;
use crate::mapping::schema::Schemas;
use crate::object::ClusterName;
use crate::plan::preview::{Scene, preview};
use crate::scaffold::{Definition, GOLDEN, Kit, Wishes, kit};
use crate::yaml;

pub(super) const AFTER_HELP: &str = "\
For example: kubectl get crd clusters.postgresql.cnpg.io -o yaml | sync-engine init postgres -f -

The API leaves out what consumers should not decide (pods, images, other namespaces); README.md in the folder lists it. The verb \
checks, renders and tests the mapping before it writes anything.

Exit codes: 0 the folder is written; 2 usage error; 3 the file has no definition that can be offered, or the folder is not empty.";

/// Flags of `init`.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// Folder to write. It must be empty or missing. Default: the mapping's name.
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// File with the operator's CustomResourceDefinition; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub filename: PathBuf,

    /// The kind to offer, if the file defines several.
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,

    /// The version to offer. Default: the stored one.
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,

    /// Name of the mapping and of the APIExport. Default: the kind in lower case.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Path of the provider's workspace. Default: `root:NAME`.
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<String>,
}

pub(super) fn init(arguments: &InitArguments) -> anyhow::Result<Exit> {
    let mut kit = made(arguments)?;
    let (mapping, schemas) = checked(&kit)?;
    kit.files.push((format!("examples/{GOLDEN}"), golden(&kit, &mapping, &schemas)?));
    let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(&kit.name));
    write(&folder, &kit)?;
    terminal::print(&summary(&folder, &kit))?;
    Ok(Exit::Success)
}

fn made(arguments: &InitArguments) -> Result<Kit, Misconfigured> {
    let objects = sources::objects(&arguments.filename)?;
    let definition = Definition::choose(&objects, arguments.kind.as_deref(), arguments.version.as_deref());
    let wishes = Wishes { name: arguments.name.clone(), workspace: arguments.workspace.clone() };
    let made = definition.and_then(|definition| kit(definition, &wishes));
    made.map_err(|why| Misconfigured(format!("`{}`: {why}", arguments.filename.display())))
}

fn content<'k>(kit: &'k Kit, path: &str) -> &'k str {
    kit.files.iter().find(|(name, _)| name == path).map(|(_, content)| content.as_str()).unwrap_or_default()
}

/// The mapping as the engine would have it.
///
/// # Errors
/// Where something is wrong with it: a mistake of ours, or a definition that is unlike any we know.
fn checked(kit: &Kit) -> anyhow::Result<(Arc<Mapping>, Schemas)> {
    let mut schemas = Schemas::default();
    for path in ["schemas/apiresourceschema.yaml", "schemas/crd.yaml"] {
        schemas.add_file(content(kit, path).as_bytes());
    }
    let path = format!("mappings/{}.yaml", kit.name);
    let text = content(kit, &path).as_bytes().to_vec();
    let files = Files { readable: BTreeMap::from([(path, text)]), ..Files::default() };
    let (catalog, _) = Catalog::checking(schemas.clone()).update(&files, &BTreeMap::new());
    match (catalog.mapping(&kit.name), catalog.diagnostics()) {
        (Some(entry), []) => Ok((entry.mapping.clone(), schemas)),
        (_, wrong) => {
            let wrong: Vec<_> = wrong.iter().map(|one| one.render(false)).collect();
            let wrong = wrong.join("\n\n");
            Err(anyhow!("no good mapping can be made of this definition; nothing is written\n\n{wrong}"))
        }
    }
}

/// What the test's case expects to be rendered.
fn golden(kit: &Kit, mapping: &Mapping, schemas: &Schemas) -> anyhow::Result<String> {
    let documents = yaml::parse(content(kit, &format!("examples/{}.yaml", kit.name)).as_bytes());
    let mut examples = documents.into_iter().filter_map(|document| Some(document.root?.to_json()));
    let example = examples.next().unwrap_or_default();
    let scene = Scene {
        related: examples.map(Arc::new).collect(),
        cluster: ClusterName::try_from("abc123")?,
        workspace_path: Some("root:orgs:acme".to_owned()),
        ..sources::scene(example, mapping, schemas)?
    };
    let preview = preview(mapping, &scene).map_err(|unseen| anyhow!("the example cannot be rendered: {unseen:?}"))?;
    if preview.failed() {
        return Err(anyhow!("the example cannot be rendered: {}", preview.reasons));
    }
    Ok(render::written(&render::documents(&preview, &scene, false, true)))
}

fn write(folder: &Path, kit: &Kit) -> Result<(), Misconfigured> {
    let refused = |why: &dyn std::fmt::Display| Misconfigured(format!("cannot write `{}`: {why}", folder.display()));
    let holds_something = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(refused(&error)),
    };
    if holds_something {
        return Err(refused(&"it holds something already; name another folder"));
    }
    kit.files.iter().try_for_each(|(path, content)| inputs::write(&folder.join(path), content))
}

fn summary(folder: &Path, kit: &Kit) -> String {
    let shown = folder.display();
    let mut text: String = kit.files.iter().map(|(path, _)| format!("wrote {shown}/{path}\n")).collect();
    if !kit.kept.is_empty() {
        let fields = terminal::count(kit.kept.len(), "field");
        text.push_str(&format!("\n{fields} of the operator's API left out of the consumers': see {shown}/README.md\n"));
    }
    if kit.lacks {
        text.push_str(&format!(
            "\nSomething is left for you to add before it works with the operator: see {shown}/README.md\n"
        ));
    }
    text.push_str(&format!("\nTry it: sync-engine sandbox {shown}\n"));
    text
}
