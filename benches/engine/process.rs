//! The engine's process, and what Linux says of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The engine at work; killed when it is dropped.
pub struct Engine {
    process: Child,
    log: PathBuf,
}

/// What a process has used.
#[derive(Clone, Copy)]
pub struct Usage {
    /// User and system time so far.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub memory: u64,
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

/// Clock ticks a second of `/proc`: the same on every Linux that Rust runs on.
const TICKS: u64 = 100;

impl Engine {
    /// Runs the shipped mappings with the kubeconfigs of a folder; the log goes there as well.
    pub fn start(folder: &Path) -> Result<Engine, Failed> {
        let log = Engine::log(folder);
        let output = File::create(&log).map_err(Failed::Start)?;
        let process = Command::new(env!("CARGO_BIN_EXE_sync-engine"))
            .arg("--mappings")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/mappings"))
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

    /// CPU time and memory so far.
    pub fn usage(&self) -> Result<Usage, Failed> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.process.id()));
        let (stat, status) = (read("stat").unwrap_or_default(), read("status").unwrap_or_default());
        let ended = || Failed::Ended { log: fs::read_to_string(&self.log).unwrap_or_default() };
        let cpu = cpu_time(&stat).ok_or_else(ended)?;
        let memory = resident_memory(&status).ok_or_else(ended)?;
        Ok(Usage { cpu, memory })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It has ended already, or ends now; there is nobody to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Fields 14 and 15 of `/proc/<pid>/stat`; the name before them may contain anything but ends with the last `)`.
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let ticks: u64 = times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

/// `VmRSS` of `/proc/<pid>/status`; a process that has ended has none.
fn resident_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}
