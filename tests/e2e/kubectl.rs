//! What users type: the pinned kubectl, and shells that find it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::case::Stage;
use crate::servers;

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

    /// `PATH` for a shell: the engine, the pinned kubectl and Helm come before what else the machine has.
    pub fn path(&self) -> OsString {
        let programs = [PathBuf::from(env!("CARGO_BIN_EXE_sync-engine")), self.fleet.kubectl()];
        let programs = programs.into_iter().chain(servers::helm().ok());
        let folders = programs.filter_map(|file| file.parent().map(Path::to_owned));
        let path = env::var_os("PATH").unwrap_or_default();
        env::join_paths(folders.chain(env::split_paths(&path))).expect("folders without a colon")
    }

    /// Runs a script in a folder, until a line fails; it has to succeed. Its output.
    pub fn shell(&self, folder: &Path, environment: &[(&str, &Path)], script: &str) -> String {
        let mut shell = Command::new("sh");
        let shell = shell.current_dir(folder).env("PATH", self.path()).envs(environment.iter().copied());
        let output = shell.args(["-ec", script]).output().expect("a shell");
        let [said, why] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{script}\n{said}{why}");
        said
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
