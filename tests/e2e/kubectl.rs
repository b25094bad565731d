//! The pinned kubectl, for what users type.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::case::Stage;

/// kubectl with one kubeconfig.
#[derive(Clone)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
}

impl Stage {
    /// kubectl with this kubeconfig, which is kept under a name.
    pub fn kubectl(&self, name: &str, kubeconfig: &str) -> Kubectl {
        Kubectl { binary: self.fleet.kubectl(), kubeconfig: self.keep(&format!("{name}.kubectl"), kubeconfig) }
    }
}

impl Kubectl {
    /// Runs a command that has to succeed; its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {}: {errors}", arguments.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Applies files of the repository.
    pub fn apply(&self, files: &[&str]) {
        for file in files {
            let path = repository().join(file).display().to_string();
            self.run(&["apply", "-f", &path]);
        }
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let command = Command::new(&self.binary).arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).output();
        command.expect("kubectl runs")
    }
}

/// The root of the repository, where `mappings`, `schemas` and `examples` stand.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
