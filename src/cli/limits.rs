//! What the system lets this process use, and how much of it watches get.

use crate::server::process;

/// Where a container finds the limit of its memory (cgroup v2).
const CONTAINER_MEMORY: &str = "/sys/fs/cgroup/memory.max";

/// Watches that may run, and bytes of memory that there may be: as the flags say, else as the system's limits have it.
pub(super) fn most(max_watches: Option<usize>, max_memory: Option<u64>) -> (Option<usize>, Option<u64>) {
    // Requests, probes and files need some too.
    let of_files = |most: u64| usize::try_from(most / 4 * 3).unwrap_or(usize::MAX);
    let watches = max_watches.or_else(|| process::most_open_files().map(of_files));
    (watches, max_memory.or_else(|| Some(container_memory()? / 10 * 9)))
}

/// Many systems permit 1,024 open files unless a process asks for more: this one asks for as many as it may have, as Go
/// programs do. `process_max_fds` shows the result.
pub(super) fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        // Where the system refuses, the limit stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

fn container_memory() -> Option<u64> {
    // `max` where there is no limit.
    std::fs::read_to_string(CONTAINER_MEMORY).ok()?.trim().parse().ok()
}
