//! Child processes that never outlive the test run, however it ends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::eventually::within;

/// A child in a process group of its own, its output in a file; killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`; what it says is appended to `log`.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Self {
        let output = File::options().create(true).append(true).open(log).expect("a log file");
        let errors = output.try_clone().expect("a second handle of the log file");
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        guard(child.id());
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    pub fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(self.child.id() as i32).expect("a process id is positive");
        // The group is gone when all of it has ended; that is what a signal is sent for.
        let _ = kill_process_group(group, signal);
    }

    /// SIGKILL, and the end of it.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// How the process ended, or nothing while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a child")
    }

    /// Waits for the process to end by itself.
    pub async fn end(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        within(deadline, &what, async || self.ended().ok_or_else(|| "it runs".to_owned())).await
    }

    /// Err with the end of the log where the process has ended.
    pub fn alive(&mut self) -> Result<(), String> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(format!("{} has ended ({status}):\n{}", self.name, tail(&self.log, 20))),
        }
    }

    /// Panics where the process has ended: what is waited for will never come.
    pub fn must_run(&mut self) {
        if let Err(end) = self.alive() {
            panic!("{end}");
        }
    }

    pub fn log(&self) -> &Path {
        &self.log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a file.
pub fn tail(file: &Path, lines: usize) -> String {
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A port nobody listens on, below the range from which the kernel serves outgoing connections.
pub fn free_port() -> u16 {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU16::new(20_000 + (std::process::id() % 100) as u16 * 100));
    (0..10_000)
        .map(|_| next.fetch_add(1, Ordering::Relaxed))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// A shell that outlives this process by a moment: when its input ends before the word `done`, it kills every process
/// group it was told of. So nothing stays behind when the test run is itself killed.
const VIGIL: &str = r#"
trap "" INT TERM HUP
while read -r group; do
  [ "$group" = done ] && exit 0
  groups="$groups $group"
done
for group in $groups; do kill -s KILL -- "-$group"; done 2>/dev/null
"#;

static GUARDIAN: OnceLock<Mutex<Child>> = OnceLock::new();

fn guard(process_group: u32) {
    tell_guardian(GUARDIAN.get_or_init(start_guardian), &process_group.to_string()).expect("the guardian listens");
}

fn start_guardian() -> Mutex<Child> {
    let guardian = Command::new("sh")
        .args(["-c", VIGIL])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Mutex::new(guardian.expect("a shell"))
}

fn tell_guardian(guardian: &Mutex<Child>, word: &str) -> io::Result<()> {
    let mut guardian = guardian.lock().expect("the guardian");
    let input = guardian.stdin.as_mut().expect("the guardian's input");
    writeln!(input, "{word}")
}

/// Tells the guardian that all has been stopped in good order.
pub fn dismiss_guardian() {
    let Some(guardian) = GUARDIAN.get() else { return };
    tell_guardian(guardian, "done").expect("the guardian listens");
    guardian.lock().expect("the guardian").wait().expect("the guardian ends");
}
