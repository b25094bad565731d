//! One reading of the mappings directory.
//!
//! `*.yaml` and `*.yml`, in subfolders too; names that begin with a dot are left out, which also keeps a ConfigMap
//! mount's `..data` and its dated folders from being read beside the links that lead into them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::catalog::Files;
use crate::multicluster::directory::Identity;

/// The path of the directory itself, where it cannot be read.
pub const ROOT: &str = ".";

/// A ConfigMap holds no more than this either.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// More than this is no directory of mappings but a mistake, such as `/`.
pub const MAX_ENTRIES: usize = 50_000;

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("it does not exist")]
    Missing,
    #[error("it is not a directory")]
    NotADirectory,
    #[error("it is a link to nothing")]
    DanglingLink,
    #[error("it is a link to a folder that holds it")]
    LinkLoop,
    #[error("it is a link out of the directory")]
    LinkOut,
    #[error("it is neither a file nor a folder")]
    Special,
    #[error("it has {bytes} bytes, more than the {most} that are read")]
    TooLarge { bytes: u64, most: u64 },
    #[error("it holds more than {MAX_ENTRIES} entries; is it the right directory?")]
    TooManyEntries,
    #[error("its name is not UTF-8")]
    NameNotUtf8,
    #[error("{0}")]
    Unreadable(String),
}

/// Reads the directory once, of each file at most so many bytes. Paths are relative to the directory, with `/` between their
/// parts.
pub fn read(directory: &Path, most: u64) -> Files {
    let root = fs::canonicalize(directory).unwrap_or_default();
    let mut walk = Walk { root, most, found: Files::default(), entries: 0 };
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => walk.folder(directory, ROOT, &[Identity::of(&metadata)]),
        Ok(_) => walk.problem(ROOT, &Trouble::NotADirectory),
        Err(error) => walk.problem(ROOT, &Trouble::from(error)),
    }
    if walk.entries > MAX_ENTRIES {
        walk.found = Files::default();
        walk.problem(ROOT, &Trouble::TooManyEntries);
    }
    walk.found
}

/// Fills what could not be read from an earlier reading: not seeing a file is no evidence that it is gone.
pub fn fill(files: &mut Files, earlier: &Files) {
    let Files { readable, unreadable } = files;
    for (path, content) in &earlier.readable {
        if !readable.contains_key(path) && unreadable.keys().any(|place| covers(place, path)) {
            readable.insert(path.clone(), content.clone());
        }
    }
}

/// Whether the state of a file is unknown, for this cannot be read.
fn covers(unreadable: &str, file: &str) -> bool {
    let is_in_it = |rest: &str| rest.is_empty() || rest.starts_with('/');
    unreadable == ROOT || file.strip_prefix(unreadable).is_some_and(is_in_it)
}

/// What cannot be read, in words.
pub fn problems(files: &Files) -> BTreeSet<String> {
    let problem = |(path, why): (&String, &String)| match path.as_str() {
        ROOT => format!("the mappings directory cannot be read: {why}; all mappings run on as they are"),
        _ => format!("`{path}` cannot be read: {why}; what was read of it before runs on"),
    };
    files.unreadable.iter().map(problem).collect()
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::NotADirectory => Self::NotADirectory,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

struct Walk {
    /// The directory itself, its links resolved.
    root: PathBuf,
    found: Files,
    entries: usize,
    /// Bytes of a file.
    most: u64,
}

impl Walk {
    /// Reads a folder. `above` are the folders on the way to it, itself included, by which a loop is seen.
    fn folder(&mut self, folder: &Path, relative: &str, above: &[Identity]) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.failed(folder, relative, error.into()),
        };
        for entry in entries {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return;
            }
            match entry {
                Ok(entry) => self.entry(&entry.path(), relative, above),
                Err(error) => self.problem(relative, &Trouble::from(error)),
            }
        }
    }

    fn entry(&mut self, path: &Path, parent: &str, above: &[Identity]) {
        let Some(name) = path.file_name() else { return };
        let text = name.to_string_lossy();
        if text.starts_with('.') {
            return;
        }
        let relative = if parent == ROOT { text.clone().into_owned() } else { format!("{parent}/{text}") };
        // Whoever writes here is not to read what only the engine can: the first line of a file shows in a diagnostic.
        match within(&self.root, path) {
            Ok(true) => {}
            Ok(false) if may_hold_mappings(path) => return self.problem(&relative, &Trouble::LinkOut),
            Ok(false) => return,
            Err(error) => return self.failed(path, &relative, error.into()),
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.subfolder(path, &relative, above, Identity::of(&metadata)),
            Ok(_) if !is_yaml(path) => {}
            Ok(_) if name.to_str().is_none() => self.problem(&relative, &Trouble::NameNotUtf8),
            Ok(metadata) if metadata.is_file() => self.file(path, &relative),
            Ok(_) => self.problem(&relative, &Trouble::Special),
            Err(error) => self.failed(path, &relative, error.into()),
        }
    }

    fn subfolder(&mut self, path: &Path, relative: &str, above: &[Identity], identity: Identity) {
        if above.contains(&identity) {
            return self.problem(relative, &Trouble::LinkLoop);
        }
        self.folder(path, relative, &[above, &[identity]].concat());
    }

    fn file(&mut self, path: &Path, relative: &str) {
        match read_file(path, self.most) {
            Ok(content) => drop(self.found.readable.insert(relative.to_owned(), content)),
            Err(trouble) => self.failed(path, relative, trouble),
        }
    }

    /// An entry that went away between listing and reading is gone; a link that leads nowhere is a problem.
    fn failed(&mut self, path: &Path, relative: &str, trouble: Trouble) {
        let trouble = match trouble {
            Trouble::Missing if relative == ROOT => Trouble::Missing,
            Trouble::Missing if fs::symlink_metadata(path).is_err() => return,
            Trouble::Missing if !may_hold_mappings(path) => return,
            Trouble::Missing => Trouble::DanglingLink,
            other => other,
        };
        self.problem(relative, &trouble);
    }

    fn problem(&mut self, path: &str, trouble: &Trouble) {
        self.found.unreadable.insert(path.to_owned(), trouble.to_string());
    }
}

/// Whether a path is within a folder whose links are resolved, once its own are.
///
/// # Errors
/// Its links cannot be resolved.
pub fn within(root: &Path, path: &Path) -> io::Result<bool> {
    Ok(fs::canonicalize(path)?.starts_with(root))
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// A dead link may have led to a folder, or to a file of ours: a name with another extension was neither.
fn may_hold_mappings(path: &Path) -> bool {
    is_yaml(path) || path.extension().is_none()
}

/// Reads one file of at most so many bytes, whatever its name.
///
/// # Errors
/// When it cannot be read, or is larger.
pub fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, Trouble> {
    let file = File::open(path)?;
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(Trouble::TooLarge { bytes: fs::metadata(path)?.len(), most });
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    fn paths(files: &Files) -> Vec<&str> {
        files.readable.keys().map(String::as_str).collect()
    }

    fn fresh(path: &Path) -> Files {
        read(path, MAX_FILE_BYTES)
    }

    fn filled(path: &Path, earlier: &Files) -> Files {
        let mut files = fresh(path);
        fill(&mut files, earlier);
        files
    }

    fn texts(files: &Files) -> String {
        problems(files).into_iter().collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn yaml_files_are_read_in_subfolders_too_and_hidden_ones_are_not() {
        let root = directory();
        for file in ["b.yaml", "a.yml", "sub/deep/c.yaml", "notes.md", ".hidden.yaml", ".git/d.yaml", "sub/.e.yaml"] {
            write(&root.path().join(file), file);
        }
        let files = fresh(root.path());
        assert_eq!(paths(&files), ["a.yml", "b.yaml", "sub/deep/c.yaml"]);
        assert_eq!(files.readable["sub/deep/c.yaml"], b"sub/deep/c.yaml");
        assert_eq!(texts(&files), "");
    }

    #[test]
    fn a_config_map_mount_is_read_once_through_its_links() {
        let root = directory();
        write(&root.path().join("..2026_08_01/a.yaml"), "one");
        symlink("..2026_08_01", root.path().join("..data")).expect("a link");
        symlink("..data/a.yaml", root.path().join("a.yaml")).expect("a link");
        let files = fresh(root.path());
        assert_eq!((paths(&files), &*files.readable["a.yaml"]), (vec!["a.yaml"], &b"one"[..]));
    }

    #[test]
    fn links_within_the_directory_are_followed_and_loops_are_not() {
        let root = directory();
        write(&root.path().join(".versions/1/b.yaml"), "b");
        symlink(root.path().join(".versions/1"), root.path().join("linked")).expect("a link");
        symlink(root.path(), root.path().join("loop")).expect("a link");
        let files = fresh(root.path());
        assert_eq!(paths(&files), ["linked/b.yaml"]);
        insta::assert_snapshot!(texts(&files), @"`loop` cannot be read: it is a link to a folder that holds it; what was read of it before runs on");
    }

    #[test]
    fn nothing_outside_of_the_directory_is_read() {
        let (root, outside) = (directory(), directory());
        write(&outside.path().join("token.yaml"), "secret");
        symlink(outside.path().join("token.yaml"), root.path().join("a.yaml")).expect("a link");
        symlink(outside.path(), root.path().join("folder")).expect("a link");
        symlink(outside.path().join("token.yaml"), root.path().join("README.md")).expect("a link");
        let files = fresh(root.path());
        assert_eq!(paths(&files), [""; 0]);
        insta::assert_snapshot!(texts(&files), @"
        `a.yaml` cannot be read: it is a link out of the directory; what was read of it before runs on
        `folder` cannot be read: it is a link out of the directory; what was read of it before runs on
        ");
        // The directory itself may be a link.
        write(&root.path().join("b.yaml"), "b");
        symlink(root.path(), outside.path().join("mappings")).expect("a link");
        assert_eq!(paths(&fresh(&outside.path().join("mappings"))), ["b.yaml"]);
    }

    #[test]
    fn what_cannot_be_read_is_named_and_the_rest_is_read() {
        let root = directory();
        write(&root.path().join("good.yaml"), "good");
        write(&root.path().join("large.yaml"), &"#".repeat(1024 * 1024 + 1));
        symlink("nowhere", root.path().join("dead.yaml")).expect("a link");
        symlink("nowhere", root.path().join("README.md")).expect("a link");
        symlink("circle.yaml", root.path().join("circle.yaml")).expect("a link");
        std::os::unix::net::UnixListener::bind(root.path().join("socket.yaml")).expect("a socket");
        let files = fresh(root.path());
        assert_eq!(paths(&files), ["good.yaml"]);
        insta::assert_snapshot!(texts(&files), @"
        `circle.yaml` cannot be read: Too many levels of symbolic links (os error 40); what was read of it before runs on
        `dead.yaml` cannot be read: it is a link to nothing; what was read of it before runs on
        `large.yaml` cannot be read: it has 1048577 bytes, more than the 1048576 that are read; what was read of it before runs on
        `socket.yaml` cannot be read: it is neither a file nor a folder; what was read of it before runs on
        ");
    }

    #[test]
    fn a_file_that_cannot_be_read_keeps_its_last_content() {
        let root = directory();
        for file in ["a.yaml", "b.yaml", "sub/c.yaml", "sub/d.yaml", "subway.yaml"] {
            write(&root.path().join(file), file);
        }
        let earlier = fresh(root.path());
        fs::remove_file(root.path().join("a.yaml")).expect("removed");
        symlink("nowhere", root.path().join("a.yaml")).expect("a link");
        fs::remove_file(root.path().join("b.yaml")).expect("removed");
        fs::remove_dir_all(root.path().join("sub")).expect("removed");
        symlink("sub", root.path().join("sub")).expect("a link");
        fs::remove_file(root.path().join("subway.yaml")).expect("removed");
        let files = filled(root.path(), &earlier);
        assert_eq!(paths(&files), ["a.yaml", "sub/c.yaml", "sub/d.yaml"]);
        assert_eq!(files.readable["a.yaml"], earlier.readable["a.yaml"]);
    }

    #[test]
    fn a_directory_that_cannot_be_read_removes_nothing() {
        let root = directory();
        write(&root.path().join("maps/a.yaml"), "a");
        let directory = root.path().join("maps");
        let earlier = fresh(&directory);
        fs::rename(&directory, root.path().join("elsewhere")).expect("renamed");
        let missing = filled(&directory, &earlier);
        assert_eq!(missing.readable, earlier.readable);
        assert_eq!(missing.unreadable.keys().collect::<Vec<_>>(), ["."]);
        insta::assert_snapshot!(texts(&missing), @"the mappings directory cannot be read: it does not exist; all mappings run on as they are");
        write(&directory, "now a file");
        let replaced = filled(&directory, &earlier);
        assert_eq!(replaced.readable, earlier.readable);
        insta::assert_snapshot!(texts(&replaced), @"the mappings directory cannot be read: it is not a directory; all mappings run on as they are");
    }

    #[test]
    fn an_empty_directory_is_read_as_empty() {
        assert_eq!(fresh(directory().path()), Files::default());
    }
}
