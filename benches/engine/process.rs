//! The engine's process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::usage::Usage;

/// The engine at work; told to drain when it is dropped.
pub struct Engine {
    process: Child,
    log: PathBuf,
}

impl Engine {
    /// Runs mappings with the kubeconfigs of a folder, which are called as their connections; the log goes there as well.
    pub fn start(folder: &Path, mappings: &Path) -> Result<Engine> {
        Self::start_binary(&binary(), folder, mappings)
    }

    /// The same with a build of the engine.
    pub fn start_binary(binary: &Path, folder: &Path, mappings: &Path) -> Result<Engine> {
        let log = Engine::log(folder);
        let output = File::create(&log)?;
        let process = Command::new(binary)
            .arg("--mappings")
            .arg(mappings)
            .args(connections(folder)?)
            .args(["--probes", "off", "--console", "off", "--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .context("cannot start the engine")?;
        Ok(Engine { process, log })
    }

    /// Where the engine's log is.
    pub fn log(folder: &Path) -> PathBuf {
        folder.join("engine.log")
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// CPU time and memory so far.
    pub fn usage(&self) -> Result<Usage> {
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        Usage::of(self.id()).with_context(|| format!("the engine has ended: {}", log()))
    }
}

/// The flags of all kubeconfigs of a folder.
fn connections(folder: &Path) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "kubeconfig") {
            let name = path.file_stem().unwrap_or_default().display();
            flags.push(format!("--connection={name}={}", path.display()));
        }
    }
    Ok(flags)
}

/// The release binary of this build, unless another is named.
pub fn binary() -> PathBuf {
    std::env::var_os("SYNC_ENGINE_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_sync-engine").into(), PathBuf::from)
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It has ended already, or ends now; there is nobody to tell. It is not killed: a binary that is built to write a
        // profile writes it at its end.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}
