//! Files that the command line names: mappings, schemas, objects. And those that verbs write.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Misconfigured;
use super::arguments::MappingArguments;
use crate::catalog::{Catalog, Files};
use crate::mapping::diagnostic::Diagnostic;
use crate::mapping::document::API_VERSION;
use crate::mapping::schema::Schemas;
use crate::reload::scan;
use crate::yaml;

/// The path that stands for standard input.
const STDIN: &str = "-";

/// The folder of mappings in a folder that has `schemas` and `examples` as well.
const MAPPINGS: &str = "mappings";

impl MappingArguments {
    pub(super) fn inputs(&self) -> Result<Files, Misconfigured> {
        mappings(&self.mappings)
    }

    pub(super) fn schemas(&self) -> Result<(Schemas, Vec<Diagnostic>), Misconfigured> {
        schemas(self.schemas.as_deref(), &self.mappings)
    }

    /// The files and folders to watch for changes.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let folders = folders_of_schemas(self.schemas.as_deref(), &self.mappings);
        self.mappings.iter().map(|path| folder_of_mappings(path)).chain(folders)
    }
}

/// Bytes of a file of schemas or objects: the definitions of some operators have more than a mapping may have.
const MAX_MATERIAL_BYTES: u64 = yaml::Limits::SCHEMAS.bytes as u64;

/// Reads folders (as the engine does), files, and `-` for standard input. A file's path is the one to show.
///
/// # Errors
/// For a path that does not exist, and when nothing is found at any of them.
pub(super) fn read(paths: &[PathBuf]) -> Result<Files, Misconfigured> {
    read_within(paths, scan::MAX_FILE_BYTES)
}

/// The same of schemas and objects, whose files may be larger.
pub(super) fn read_material(paths: &[PathBuf]) -> Result<Files, Misconfigured> {
    read_within(paths, MAX_MATERIAL_BYTES)
}

fn read_within(paths: &[PathBuf], most: u64) -> Result<Files, Misconfigured> {
    let files = read_any(paths, most)?;
    if files == Files::default() {
        return Err(Misconfigured(format!("there is no *.yaml or *.yml in {}", listed(paths))));
    }
    Ok(files)
}

/// The same where nothing need be found.
fn read_any(paths: &[PathBuf], most: u64) -> Result<Files, Misconfigured> {
    let mut files = Files::default();
    paths.iter().try_for_each(|path| add(&mut files, path, most))?;
    Ok(files)
}

fn add(files: &mut Files, path: &Path, most: u64) -> Result<(), Misconfigured> {
    if path.as_os_str() == STDIN {
        let mut content = Vec::new();
        io::stdin().read_to_end(&mut content).map_err(|error| refused(path, &error))?;
        files.readable.insert("<stdin>".to_owned(), content);
    } else if path.is_dir() {
        let Files { readable, unreadable } = scan::read(path, most);
        files.readable.extend(readable.into_iter().map(|(file, content)| (shown(path, &file), content)));
        files.unreadable.extend(unreadable.into_iter().map(|(file, why)| (shown(path, &file), why)));
    } else {
        let content = scan::read_file(path, most).map_err(|trouble| refused(path, &trouble))?;
        files.readable.insert(path.display().to_string(), content);
    }
    Ok(())
}

/// The path of a file in a folder, or of the folder itself.
fn shown(folder: &Path, file: &str) -> String {
    folder.join(if file == scan::ROOT { "" } else { file }).display().to_string()
}

/// Without the files that hold nothing of sync-engine's.
pub(super) fn only_ours(mut files: Files) -> Files {
    files.readable.retain(|_, content| is_ours(content));
    files
}

/// The mappings of the files as an engine that starts now would have them.
pub(super) fn catalog(files: &Files) -> Catalog {
    Catalog::default().update(files, &BTreeMap::new()).0
}

/// The mappings of paths, where nothing is wrong with any of them; files that hold nothing of ours are passed over.
///
/// # Errors
/// Everything that is wrong, or that there is no mapping.
pub(super) fn sound(paths: &[PathBuf]) -> Result<Catalog, Misconfigured> {
    let catalog = all_good(&only_ours(mappings(paths)?), paths)?;
    if catalog.mappings().next().is_none() {
        return Err(Misconfigured(format!("there is no mapping in {}", listed(paths))));
    }
    Ok(catalog)
}

/// The same of files that were read, where there may be no mapping.
///
/// # Errors
/// Everything that is wrong.
pub(super) fn all_good(files: &Files, paths: &[PathBuf]) -> Result<Catalog, Misconfigured> {
    let catalog = catalog(files);
    match errors(&catalog) {
        Some(errors) => Err(Misconfigured(format!("not every mapping in {} can be used\n\n{errors}", listed(paths)))),
        None => Ok(catalog),
    }
}

/// What keeps documents from running.
pub(super) fn errors(catalog: &Catalog) -> Option<String> {
    let errors = catalog.diagnostics().iter().filter(|diagnostic| diagnostic.is_error());
    let errors: Vec<_> = errors.map(|one| one.render(false)).collect();
    (!errors.is_empty()).then(|| errors.join("\n\n"))
}

/// Paths in an error: "`a`, `b`".
pub(super) fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
}

/// Whether a file is in a folder of what tests expect: nobody would order its objects.
pub(super) fn is_expected(file: &str) -> bool {
    Path::new(file).iter().any(|part| part == "testdata")
}

/// Whether a file holds a document of sync-engine's, good or bad.
pub(super) fn is_ours(content: &[u8]) -> bool {
    yaml::parse_within(content, yaml::Limits::SCHEMAS).iter().any(|document| match &document.root {
        Some(root) => root.get("apiVersion").is_some_and(|version| version.as_str() == Some(API_VERSION)),
        None => document.text.contains(API_VERSION),
    })
}

fn refused(path: &Path, error: &dyn std::fmt::Display) -> Misconfigured {
    Misconfigured(format!("cannot read `{}`: {error}", path.display()))
}

/// One file whole, such as an object of a consumer.
pub(super) fn file(path: &Path) -> Result<Vec<u8>, Misconfigured> {
    let mut files = Files::default();
    if path.is_dir() {
        return Err(refused(path, &"it is a directory"));
    }
    add(&mut files, path, MAX_MATERIAL_BYTES)?;
    Ok(files.readable.into_values().next().unwrap_or_default())
}

/// Writes a file, and the folders that it is in.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Misconfigured> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = made.and_then(|()| fs::write(path, content));
    written.map_err(|error| Misconfigured(format!("cannot write `{}`: {error}", path.display())))
}

/// The files of mappings at paths. A folder that has a folder `mappings` stands for that folder.
///
/// # Errors
/// As [`read`].
pub(super) fn mappings(paths: &[PathBuf]) -> Result<Files, Misconfigured> {
    read(&folders_of_mappings(paths))
}

/// The same where the files of all mappings may be gone.
pub(super) fn mappings_if_any(paths: &[PathBuf]) -> Result<Files, Misconfigured> {
    read_any(&folders_of_mappings(paths), scan::MAX_FILE_BYTES)
}

fn folders_of_mappings(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().map(|path| folder_of_mappings(path)).collect()
}

/// The folder `mappings` in a folder that has one; else the path itself.
pub(super) fn folder_of_mappings(path: &Path) -> PathBuf {
    let inner = part_of(path, MAPPINGS);
    if inner.is_dir() { inner } else { path.to_owned() }
}

/// A folder in another one, as it is shown to people: without `./`.
pub(super) fn part_of(path: &Path, name: &str) -> PathBuf {
    if path == Path::new(".") { PathBuf::from(name) } else { path.join(name) }
}

/// A folder beside the folder of mappings that a path names; `None` for standard input.
pub(super) fn beside(path: &Path, name: &str) -> Option<PathBuf> {
    if path.as_os_str() == STDIN {
        return None;
    }
    let folder = folder_of_mappings(path);
    let folder = if folder.is_dir() { folder } else { folder.parent()?.to_owned() };
    let above = if folder.file_name().is_some() { folder.parent()?.to_owned() } else { folder.join("..") };
    Some(above.join(name))
}

/// The folders of schemas: the one that is given, else those beside mappings.
pub(super) fn folders_of_schemas(given: Option<&Path>, mappings: &[PathBuf]) -> Vec<PathBuf> {
    let beside = || mappings.iter().filter_map(|path| beside(path, "schemas")).filter(|folder| folder.is_dir());
    let mut folders: Vec<PathBuf> = given.map_or_else(|| beside().collect(), |folder| vec![folder.to_owned()]);
    folders.sort();
    folders.dedup();
    folders
}

/// The schemas of `--schemas`, else of the folders `schemas` beside mappings, and what is wrong in their files.
///
/// # Errors
/// When a folder, or a file in it, cannot be read.
pub(super) fn schemas(given: Option<&Path>, mappings: &[PathBuf]) -> Result<(Schemas, Vec<Diagnostic>), Misconfigured> {
    let (mut schemas, mut diagnostics) = (Schemas::default(), Vec::new());
    for folder in folders_of_schemas(given, mappings) {
        let read = scan::read(&folder, MAX_MATERIAL_BYTES);
        if let Some((file, why)) = read.unreadable.first_key_value() {
            return Err(unreadable_schemas(&folder, file, why));
        }
        for (path, content) in &read.readable {
            let findings = schemas.add_file(content);
            let place = |finding| Diagnostic::new(finding, path, content).under(&folder.display().to_string());
            diagnostics.extend(findings.into_iter().map(place));
        }
    }
    Ok((schemas, diagnostics))
}

fn unreadable_schemas(folder: &Path, file: &str, why: &str) -> Misconfigured {
    let what = if file == scan::ROOT { "the folder of schemas" } else { "the schema file" };
    let hint = if matches!(folder.try_exists(), Ok(false)) { "; create it, or name another" } else { "" };
    let shown = shown(folder, file);
    Misconfigured(format!("cannot read {what} `{}` (--schemas): {why}{hint}", shown.trim_end_matches('/')))
}
