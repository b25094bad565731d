//! What the process itself costs, and may cost: asked of the system at every scrape. Where there is no `/proc`, most of it is missing.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux counts a process's time in this many ticks a second, on every architecture Rust's standard library runs on
/// (`USER_HZ`, proc(5)).
const TICKS_PER_SECOND: f64 = 100.0;

/// The series that every Prometheus client library calls `process_…`.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        if let Some(seconds) = read("/proc/self/stat").as_deref().and_then(cpu_seconds) {
            let total = ConstCounter::new(seconds);
            total.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                "User and system CPU time spent",
                None,
                MetricType::Counter,
            )?)?;
        }
        for (name, help, value) in gauges() {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

/// Name, what it tells, and value of each.
fn gauges() -> Vec<(&'static str, &'static str, f64)> {
    let status = read("/proc/self/status").unwrap_or_default();
    let memory = |key| bytes(&status, key);
    [
        ("process_resident_memory_bytes", "Resident memory", memory(RESIDENT)),
        ("process_resident_memory_peak_bytes", "Largest resident memory so far", memory("VmHWM:")),
        ("process_threads", "Threads", field(&status, "Threads:").and_then(|text| text.parse().ok())),
        ("process_open_fds", "Open file descriptors", open_files()),
        ("process_max_fds", "Largest number of open file descriptors", most_open_files().map(|most| most as f64)),
    ]
    .into_iter()
    .filter_map(|(name, help, value)| Some((name, help, value?)))
    .collect()
}

/// In bytes.
pub(crate) fn resident_memory() -> Option<u64> {
    bytes(&read("/proc/self/status")?, RESIDENT).map(|bytes| bytes as u64)
}

const RESIDENT: &str = "VmRSS:";

fn bytes(status: &str, key: &str) -> Option<f64> {
    let kibibytes: f64 = field(status, key)?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Fields 14 and 15 of `/proc/self/stat`, counted after the command's closing parenthesis, which may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, after_command) = stat.rsplit_once(')')?;
    let mut fields = after_command.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

fn open_files() -> Option<f64> {
    // The listing itself holds one descriptor open.
    fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1) as f64)
}

/// The soft limit; `None`: there is none.
pub(crate) fn most_open_files() -> Option<u64> {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_a_command_with_blanks_and_parentheses() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 8 0 1 2 3";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("42 (a"), None);
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\tsync-engine\nVmRSS:\t   2048 kB\nThreads:\t9\n";
        assert_eq!(bytes(status, "VmRSS:"), Some(2048.0 * 1024.0));
        assert_eq!(bytes(status, "VmHWM:"), None);
        assert_eq!(field(status, "Threads:"), Some("9"));
    }
}
