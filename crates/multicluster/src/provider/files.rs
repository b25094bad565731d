//! Every context of every kubeconfig file of a directory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::discovery::{LOOK_AGAIN, settled};
use crate::connection::ConnectionSource;
use crate::contexts_of;
use crate::directory::{Reading, Watch};
use crate::environment::{Listed, Members};
use sync_engine_mapping::hash::tuple_hash;
use sync_engine_mapping::object::{ClusterName, is_dns_label};
use sync_engine_mapping::selector::glob_matches;

/// The contexts of each file.
type Contexts = BTreeMap<PathBuf, Vec<String>>;

/// The kubeconfig files of a directory.
pub struct KubeconfigFiles {
    directory: PathBuf,
    glob: String,
    /// As each file could be read last: one that is being written is no reason to lose them.
    known: Contexts,
    watch: Watch,
    reading: Reading<(Result<Listed, String>, Contexts)>,
}

impl KubeconfigFiles {
    pub fn new(directory: &Path, glob: Option<&str>) -> Self {
        let (glob, watch) = (glob.unwrap_or("*").to_owned(), Watch::new(directory));
        Self { directory: directory.into(), glob, known: BTreeMap::new(), watch, reading: Reading::default() }
    }
}

impl Members for KubeconfigFiles {
    async fn look(&mut self) -> Result<Listed, String> {
        self.watch.renew().await;
        let (directory, glob, mut known) = (self.directory.clone(), self.glob.clone(), self.known.clone());
        let read = self.reading.of(move || {
            let listed = files_of(&directory, &glob).map(|files| listed(&files, &mut known, contexts_of));
            (listed, known)
        });
        let cannot = |why: String| format!("cannot read the directory {}: {why}", self.directory.display());
        let (listed, known) = read.await.map_err(cannot)?;
        self.known = known;
        listed
    }

    async fn changed(&mut self) {
        // A certificate that a kubeconfig names may stand elsewhere, so the directory is not all that can change.
        settled(self.watch.hint(), LOOK_AGAIN).await;
    }
}

/// The files of a directory that the pattern matches, in order. Hidden ones are left out, as a mounted ConfigMap or Secret has
/// some that are none of the user's.
fn files_of(directory: &Path, glob: &str) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("there is no directory {}", directory.display()),
        _ => format!("cannot read the directory {}: {error}", directory.display()),
    };
    let entries = fs::read_dir(directory).map_err(unreadable)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // One that cannot be looked at is there all the same.
        let is_file =
            || fs::metadata(&path).map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |it| it.is_file());
        if !name.starts_with('.') && glob_matches(glob.as_bytes(), name.as_bytes()) && is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A member for each context. A file that cannot be read keeps those that it had.
fn listed(
    files: &[PathBuf],
    known: &mut Contexts,
    contexts_of: impl Fn(&Path) -> Result<Vec<String>, String>,
) -> Listed {
    let mut listed = Listed::default();
    known.retain(|path, _| files.contains(path));
    for path in files {
        match contexts_of(path) {
            // Who writes a file anew empties it first, for as long as it takes to make the text.
            Ok(contexts) if contexts.is_empty() => listed.refused.push(format!("{} holds no context", path.display())),
            Ok(contexts) => drop(known.insert(path.clone(), contexts)),
            Err(why) => listed.refused.push(why),
        }
        for context in known.get(path).into_iter().flatten() {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("{}.{}", label(&stem), label(context));
            let source = ConnectionSource::Kubeconfig { path: path.clone(), context: Some(context.clone()) };
            match ClusterName::try_from(name.as_str()) {
                Ok(name) if listed.members.contains_key(&name) => listed.refused.push(format!(
                    "{}: another file has a cluster `{name}` already; rename one of the two files",
                    path.display()
                )),
                Ok(name) => drop(listed.members.insert(name, source)),
                Err(error) => listed.refused.push(format!("{}: {error}", path.display())),
            }
        }
    }
    listed
}

/// A text as part of a cluster's name: as it is, if it can be; else with a hash that tells it from others like it.
fn label(text: &str) -> String {
    if is_dns_label(text) {
        return text.to_owned();
    }
    let kept = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let readable: String = text.chars().map(kept).take(40).collect();
    format!("{}-{}", readable.trim_matches('-'), tuple_hash([text], 10)).trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(listed: &Listed) -> Vec<&str> {
        listed.members.keys().map(ClusterName::as_str).collect()
    }

    #[test]
    fn each_context_is_a_cluster_and_a_broken_file_keeps_its_own() {
        let files = ["/f/a.yaml", "/f/b.conf"].map(PathBuf::from);
        let mut known = BTreeMap::new();
        let good = |path: &Path| match path.ends_with("a.yaml") {
            true => Ok(vec!["one".to_owned(), "arn:aws:eks:x/Y".to_owned()]),
            false => Ok(vec!["one".to_owned()]),
        };
        let first = listed(&files, &mut known, good);
        assert_eq!(names(&first), ["a.arn-aws-eks-x-y-wyqpvh2erijq32wf", "a.one", "b.one"]);
        let broken = |path: &Path| if path.ends_with("a.yaml") { Err("broken".to_owned()) } else { good(path) };
        let second = listed(&files, &mut known, broken);
        assert_eq!((names(&second), &second.refused[..]), (names(&first), &["broken".to_owned()][..]));
        let empty = listed(&files[..1], &mut known.clone(), |_| Ok(Vec::new()));
        assert_eq!(
            (names(&empty), &empty.refused[..]),
            (names(&first)[..2].to_vec(), &["/f/a.yaml holds no context".to_owned()][..])
        );
        let third = listed(&files[1..], &mut known, good);
        assert_eq!(names(&third), ["b.one"]);
    }

    #[test]
    fn two_files_of_one_name_are_told() {
        let files = ["/f/a.json", "/f/a.yaml"].map(PathBuf::from);
        let listed = listed(&files, &mut BTreeMap::new(), |_| Ok(vec!["one".to_owned()]));
        assert_eq!(names(&listed), ["a.one"]);
        assert_eq!(
            listed.refused,
            ["/f/a.yaml: another file has a cluster `a.one` already; rename one of the two files"]
        );
    }
}
