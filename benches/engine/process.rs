//! The engine's process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::usage::Usage;

/// The engine at work; told to drain when it is dropped.
pub struct Engine {
    process: Child,
    log: PathBuf,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The engine could not be started.
    #[error("cannot start the engine")]
    Start(#[source] std::io::Error),
    /// The engine is not there any more.
    #[error("the engine has ended: {log}")]
    Ended { log: String },
}

impl Engine {
    /// Runs mappings with the kubeconfigs of a folder; the log goes there as well.
    pub fn start(folder: &Path, mappings: &Path) -> Result<Engine, Failed> {
        let log = Engine::log(folder);
        let output = File::create(&log).map_err(Failed::Start)?;
        let process = Command::new(binary())
            .arg("--mappings")
            .arg(mappings)
            .arg("--kcp-kubeconfig")
            .arg(folder.join("kcp.kubeconfig"))
            .arg("--target-kubeconfig")
            .arg(folder.join("target.kubeconfig"))
            .args(["--listen", "off", "--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .map_err(Failed::Start)?;
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
    pub fn usage(&self) -> Result<Usage, Failed> {
        Usage::of(self.id()).map_err(|_| Failed::Ended { log: fs::read_to_string(&self.log).unwrap_or_default() })
    }
}

/// The release binary of this build, unless another is named.
fn binary() -> PathBuf {
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
