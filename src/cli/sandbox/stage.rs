//! Everything the sandbox sets up before the engine starts, and takes away again.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::SandboxArguments;
use super::material::{self, MAPPING};
use crate::cli::{Misconfigured, inputs};
use crate::mapping::schema::Schemas;
use crate::sandbox::kubeconfig;
use crate::story::{Plot, Scene, Script, ToyOperator};

/// First line of every kubeconfig we write: how we know it as ours.
const MARK: &str = "# Written by `sync-engine sandbox`, and removed when it ends.\n";

/// The directory of mappings that is taken where none is named.
const MAPPINGS: &str = "mappings";

/// The servers, and the files that belong to them. Dropping it removes all of it.
pub(super) struct Stage {
    pub scene: Scene,
    pub mappings: PathBuf,
    /// What the mappings are checked against.
    pub schemas: Schemas,
    /// Why the visitor's own mappings are not what is played.
    pub instead: Option<String>,
    /// The kubeconfig that the engine reads, whatever happens to the visitor's.
    pub own_kubeconfig: PathBuf,
    copy: Option<Copy>,
    _folder: TempDir,
}

/// A kubeconfig at a place that the visitor chose.
struct Copy(PathBuf);

impl Stage {
    pub async fn set(arguments: &SandboxArguments) -> anyhow::Result<Self> {
        let operator = arguments.operator.as_deref().map(operator).transpose()?;
        let own = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("sync-engine-sandbox-").permissions(own).tempdir();
        let folder = folder.context("cannot make a temporary folder")?;
        let mappings = mappings(arguments.mappings.as_deref(), &folder)?;
        let (script, instead) = script(&mappings, &arguments.filename, operator)?;
        let is_own = mappings.starts_with(folder.path());
        let schemas =
            if is_own { material::schemas() } else { inputs::schemas(None, std::slice::from_ref(&mappings))?.0 };
        let plot = Plot {
            workspaces: arguments.workspaces as usize,
            objects: arguments.objects as usize,
            shards: arguments.shards as usize,
            port: arguments.port.unwrap_or(0),
        };
        let scene = Scene::set(plot, script).await?;
        let text = format!("{MARK}{}", kubeconfig(&scene.contexts()));
        let own_kubeconfig = folder.path().join(KUBECONFIG);
        write_secret(&own_kubeconfig, &text).context("cannot write the kubeconfig")?;
        let copy = arguments.kubeconfig_out.as_deref().map(|path| Copy::write(path, &text)).transpose()?;
        Ok(Self { scene, mappings, schemas, instead, own_kubeconfig, copy, _folder: folder })
    }

    /// The kubeconfig to show to a visitor.
    pub fn kubeconfig(&self) -> &Path {
        self.copy.as_ref().map_or(&self.own_kubeconfig, |Copy(path)| path)
    }
}

const KUBECONFIG: &str = "kubeconfig";

fn operator(file: &Path) -> Result<Arc<ToyOperator>, Misconfigured> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file)
        .map_err(|error| Misconfigured(format!("cannot read `{name}` (--operator): {error}")))?;
    material::operator(&name, &text)
}

/// What is played: the visitor's own mappings, as far as there are documents for them; else the program's own example, and why.
fn script(
    mappings: &Path,
    documents: &[PathBuf],
    operator: Option<Arc<ToyOperator>>,
) -> anyhow::Result<(Script, Option<String>)> {
    let own = material::read(mappings, documents)?;
    if let Some(script) = own.script(operator.clone())? {
        return Ok((script, None));
    }
    if let Some(errors) = own.errors() {
        let folder = inputs::listed(&[mappings.to_owned()]);
        return Err(Misconfigured(format!("no mapping in {folder} can be used\n\n{errors}")).into());
    }
    let instead = own.lacks();
    match material::example().script(operator)? {
        Some(script) => Ok((script, instead)),
        None => bail!("the program's own example cannot be played"),
    }
}

/// The folder of mappings: of a folder that has one, the one in it.
fn mappings(named: Option<&Path>, folder: &TempDir) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(inputs::folder_of_mappings(named));
    }
    if Path::new(MAPPINGS).is_dir() {
        return Ok(PathBuf::from(MAPPINGS));
    }
    let own = folder.path().join(MAPPINGS);
    fs::create_dir(&own).context("cannot write the mapping")?;
    fs::write(own.join("mongodb.yaml"), MAPPING).context("cannot write the mapping")?;
    Ok(own)
}

/// A new file that nobody else can read: it holds tokens. It follows no link that somebody put there.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

impl Copy {
    fn write(path: &Path, text: &str) -> Result<Self, Misconfigured> {
        let refuse =
            |why: String| Misconfigured(format!("cannot write `{}` (--kubeconfig-out): {why}", path.display()));
        if !is_free(path).map_err(|error| refuse(error.to_string()))? {
            return Err(refuse("it is there already, and none of ours; name another, or move it away".to_owned()));
        }
        let removed = match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        removed.and_then(|()| write_secret(path, text)).map_err(|error| refuse(error.to_string()))?;
        // Somebody may go to another directory before we end.
        Ok(Self(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // A file that was replaced meanwhile is somebody else's; one that is gone needs nothing.
        if is_free(&self.0).unwrap_or(false) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// Whether nothing is at a path, or a kubeconfig of a sandbox. A link leads to somebody else's file.
fn is_free(path: &Path) -> io::Result<bool> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Ok(false);
    }
    let mut start = vec![0; MARK.len()];
    match fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)) {
        Ok(()) => Ok(start == MARK.as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
