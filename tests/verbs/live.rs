//! Live clusters for the verbs that read some: a sandbox in a process of its own, with the engine in sync.

use std::path::Path;

use tempfile::TempDir;

use super::program::{self, Running};
use super::{ROOT, shown};

/// A sandbox that stays until it is dropped.
pub struct Live {
    _sandbox: Running,
    root: TempDir,
}

impl Live {
    /// The story that comes with the program, once both databases are ready.
    pub fn mongodb() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let kubeconfig = root.path().join("kubeconfig").display().to_string();
        let mut command = program::command(Path::new(ROOT), &["sandbox", "mappings", "--kubeconfig-out", &kubeconfig]);
        let sandbox = Running::start(command.env("TMPDIR", root.path()));
        sandbox.line("2 of 2 source objects are ready");
        Self { _sandbox: sandbox, root }
    }

    /// What a verb says of it: the flags that name its clusters are added.
    pub fn shown(&self, arguments: &[&str]) -> String {
        let kubeconfig = self.root.path().join("kubeconfig").display().to_string();
        let clusters = [
            "--kcp-kubeconfig".to_owned(),
            format!("{kubeconfig}#provider"),
            "--target-kubeconfig".to_owned(),
            format!("{kubeconfig}#downstream"),
        ];
        let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
        shown(&[arguments, &clusters[..]].concat())
    }
}
