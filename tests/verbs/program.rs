//! The built binary: run to its end, or left running while a test reads its lines.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Longer than anything here takes, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary in a folder, in an environment that says nothing.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sync-engine"));
    command.env_clear().current_dir(folder).args(arguments).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn output(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("the binary starts")
}

/// Standard output, then standard error.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A program that runs until it is dropped.
pub struct Running {
    pub child: Child,
    pub lines: mpsc::Receiver<String>,
}

impl Running {
    /// Starts a command whose standard output is read.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let pipe = child.stdout.take().expect("a pipe");
        Self { child, lines: lines(pipe) }
    }

    /// Starts a command whose standard error is read.
    pub fn logging(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let pipe = child.stderr.take().expect("a pipe");
        Self { child, lines: lines(pipe) }
    }

    /// An engine on the mappings and the kubeconfigs of a folder; in flags, `ROOT` stands for it.
    pub fn engine(root: &Path, flags: &[&str]) -> Self {
        let own = ["--mappings", "ROOT/maps", "--kcp-kubeconfig", "ROOT/kcp", "--target-kubeconfig", "ROOT/target"];
        let flags = [&own[..], &["--probes", "off", "--console", "127.0.0.1:0"], flags].concat();
        let path = root.display().to_string();
        Self::logging(command(root, &[]).args(flags.iter().map(|flag| flag.replace("ROOT", &path))))
    }

    /// The address of its console, which it logs at its start.
    pub fn console(&self) -> String {
        let line = tokio::task::block_in_place(|| self.line("listening what=\"console\""));
        let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
        address.expect("an address").to_owned()
    }

    /// The first line from here on that contains `text`.
    pub fn line(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("no line with `{text}`: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill(1) is there").success());
    }

    /// Sends a signal; gives the exit code.
    pub fn stop(&mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.child.wait().expect("an end").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing to stop where the test has seen the end already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a pipe, read as they come: a program whose pipe nobody reads stops.
fn lines(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    // The thread ends with the pipe, and the pipe with the program.
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // A test that reads no more lets the program go on.
            let _ = sender.send(line);
        }
    });
    lines
}
