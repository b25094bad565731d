//! Live clusters for the verbs that read some: a sandbox in a process of its own, with the engine in sync.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{ROOT, shown};

/// A sandbox that stays until it is dropped.
pub struct Live {
    child: Child,
    root: TempDir,
}

impl Live {
    /// The story that comes with the program, once both databases are Running.
    pub fn mongodb() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let mut child = Command::new(env!("CARGO_BIN_EXE_sync-engine"))
            .env_clear()
            .env("TMPDIR", root.path())
            .current_dir(ROOT)
            .args(["sandbox", "mappings", "--kubeconfig-out"])
            .arg(root.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("2 of 2 databases are Running")));
        assert!(ready, "the sandbox ended before the databases were Running");
        // The story goes on: somebody has to listen, or it ends with a broken pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, root }
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

impl Drop for Live {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to stop.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
