//! What Linux says of a process.

use std::fs;
use std::io;
use std::time::Duration;

/// Clock ticks a second of `/proc`: the same on every Linux that Rust runs on.
const TICKS: u64 = 100;

/// What a process has used.
#[derive(Clone, Copy)]
pub struct Usage {
    /// User and system time so far.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub memory: u64,
}

impl Usage {
    /// # Errors
    /// The process has ended, or this is no Linux.
    pub fn of(process: u32) -> io::Result<Usage> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
        let (stat, status) = (read("stat")?, read("status")?);
        let ended = || io::Error::other(format!("process {process} has ended"));
        let cpu = cpu_time(&stat).ok_or_else(ended)?;
        let memory = resident_memory(&status).ok_or_else(ended)?;
        Ok(Usage { cpu, memory })
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
