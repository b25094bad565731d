//! The engine itself: the binary that users run, started, asked, stopped and killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use rustix::process::Signal;
use serde_json::Value;

use crate::eventually::{DEADLINE, eventually};
use crate::process::{Process, free_port};
use crate::rest::{Answer, Rest};

/// What the engine is started with; cloned for a restart with the same words.
#[derive(Clone)]
pub struct Launch {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    folder: PathBuf,
}

impl Launch {
    /// An engine without any flag; its logs go into `folder`.
    pub fn bare(folder: &Path) -> Self {
        Self { arguments: Vec::new(), environment: Vec::new(), folder: folder.to_owned() }
    }

    /// `name value`, in place of the same flag's earlier value where it has one.
    pub fn flag(mut self, name: &str, value: impl ToString) -> Self {
        if let Some(at) = self.arguments.iter().position(|argument| argument == name) {
            self.arguments.drain(at..at + 2);
        }
        self.and_flag(name, value)
    }

    /// `name value`, beside the same flag's earlier values.
    pub fn and_flag(mut self, name: &str, value: impl ToString) -> Self {
        self.arguments.extend([name.to_owned(), value.to_string()]);
        self
    }

    pub fn environment(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// The flags that verbs have, too.
    pub fn of_verbs(&self) -> Vec<String> {
        let flags = ["--kcp-kubeconfig", "--target-kubeconfig", "--connection", "--engine-id"];
        let pairs = self.arguments.windows(2).filter(|pair| flags.contains(&pair[0].as_str()));
        pairs.flatten().cloned().collect()
    }

    /// Starts the engine; it may be far from ready.
    pub fn start(&self) -> Engine {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let log = self.folder.join(format!("engine-{:03}.log", STARTED.fetch_add(1, Ordering::Relaxed)));
        let [probes, console] = [free_port(), free_port()];
        let address = format!("127.0.0.1:{console}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sync-engine"));
        command
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment.iter().cloned())
            .args(&self.arguments)
            .args(["--log-format", "json", "--probes", &format!("127.0.0.1:{probes}")])
            .args(["--console", &address]);
        Engine {
            connections: self.of_verbs(),
            address,
            environment: self.environment.clone(),
            process: Process::spawn("sync-engine", &mut command, &log),
            probes: Rest::plain(probes),
            console: Rest::plain(console),
        }
    }

    /// Starts the engine and waits until it says that it is ready.
    pub async fn ready(&self) -> Engine {
        let mut engine = self.start();
        engine.becomes_ready().await;
        engine
    }
}

/// What a verb prints that needs nothing but its arguments.
pub fn printed(arguments: &[&str]) -> String {
    let (_, said, why) = ran(arguments, &[], &[]);
    said + &why
}

/// The output of such a verb, which has to succeed.
pub fn output(arguments: &[&str]) -> String {
    let (status, said, why) = ran(arguments, &[], &[]);
    assert!(status.success(), "{arguments:?}: {said}{why}");
    said
}

/// How a verb ends, and what it prints. It has this environment alone.
fn ran(arguments: &[&str], connections: &[String], environment: &[(String, String)]) -> (ExitStatus, String, String) {
    let mut verb = Command::new(env!("CARGO_BIN_EXE_sync-engine"));
    verb.env_clear().envs(environment.iter().cloned()).args(arguments).args(connections);
    let output = verb.output().expect("the program");
    let [said, why] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status, said, why)
}

/// A running engine; killed when dropped.
pub struct Engine {
    process: Process,
    /// The flags and the environment by which verbs reach the same clusters.
    connections: Vec<String>,
    /// Of the console.
    address: String,
    environment: Vec<(String, String)>,
    /// For the kubelet and Prometheus.
    probes: Rest,
    /// For people.
    console: Rest,
}

impl Engine {
    /// Waits until nothing is degraded either.
    pub async fn becomes_ready(&mut self) {
        eventually("the engine is ready", async || {
            self.process.must_run();
            let answer = self.console.look("/readyz").await?;
            let is_ready = answer.is_success() && answer.body == "ready\n";
            is_ready.then_some(()).ok_or_else(|| format!("{} {}", answer.status, answer.body))
        })
        .await;
    }

    /// Waits until `/readyz` is 503 because of `component`, for a reason that contains `reason`; gives that line.
    pub async fn becomes_unready(&mut self, component: &str, reason: &str) -> String {
        self.reports(503, &format!("[-] {component}"), reason).await
    }

    /// Waits until `/readyz` is 200 and says that `component` is degraded, for a reason that contains `reason`; gives that
    /// line.
    pub async fn becomes_degraded(&mut self, component: &str, reason: &str) -> String {
        self.reports(200, &format!("[!] {component}"), reason).await
    }

    async fn reports(&mut self, status: u16, start: &str, reason: &str) -> String {
        eventually(&format!("/readyz says {status}, {start} and {reason:?}"), async || {
            self.process.must_run();
            let answer = self.console.look("/readyz").await?;
            let text = answer.body.as_str().map_or_else(|| answer.body.to_string(), str::to_owned);
            let line = text.lines().find(|line| line.starts_with(start) && line.contains(reason));
            let line = line.filter(|_| answer.status == status).map(str::to_owned);
            line.ok_or_else(|| format!("{} {text}", answer.status))
        })
        .await
    }

    /// Asks the console.
    pub async fn ask(&self, path: &str) -> Result<Answer, String> {
        self.console.look(path).await
    }

    /// Asks what the kubelet and Prometheus ask.
    pub async fn probe(&self, path: &str) -> Result<Answer, String> {
        self.probes.look(path).await
    }

    /// Asks for a reload and waits for what became of it.
    pub async fn reload(&self) -> Answer {
        let answer = self.console.call(Method::POST, "/-/reload", "text/plain", Vec::new()).await;
        answer.expect("an answer to the reload")
    }

    /// Waits until `sync-engine status` prints each of the parts. It tells what the last tick of the engine saw.
    pub async fn status_tells(&self, arguments: &[&str], parts: &[&str]) {
        eventually(&format!("status prints {parts:?}"), async || {
            let said = self.status(arguments);
            parts.iter().all(|part| said.contains(part)).then_some(()).ok_or(said)
        })
        .await;
    }

    /// What `sync-engine status` prints, of which a running engine is all that it needs.
    pub fn status(&self, arguments: &[&str]) -> String {
        printed(&[&["status"], arguments, &["--console", &self.address]].concat())
    }

    /// What a verb prints that is given the engine's clusters, and the address of its console.
    pub fn verb(&self, arguments: &[&str]) -> String {
        let (_, said, why) = self.run_verb(&[arguments, &["--console", &self.address]].concat());
        said + &why
    }

    /// The same of a verb that has to succeed.
    pub fn verb_succeeds(&self, arguments: &[&str]) -> Result<String, String> {
        let (status, said, why) = self.run_verb(&[arguments, &["--console", &self.address]].concat());
        if status.success() { Ok(said) } else { Err(said + &why) }
    }

    fn run_verb(&self, arguments: &[&str]) -> (ExitStatus, String, String) {
        ran(arguments, &self.connections, &self.environment)
    }

    /// What is held of a mapping, once something is, as a person is shown it. It is recorded at home: another process finds it.
    pub async fn held(&self, mapping: &str) -> String {
        self.decide(&["approve", mapping]).await
    }

    /// Approves it, as a person does.
    pub async fn approve(&self, mapping: &str) {
        self.decide(&["approve", mapping, "--yes"]).await;
    }

    /// Rejects it.
    pub async fn reject(&self, mapping: &str) {
        self.decide(&["approve", mapping, "--reject", "--yes"]).await;
    }

    async fn decide(&self, arguments: &[&str]) -> String {
        eventually("something waits for a person", async || {
            let (status, said, why) = self.run_verb(arguments);
            if status.success() { Ok(said) } else { Err(why) }
        })
        .await
    }

    /// The sum of a metric's samples, over all label sets.
    pub async fn metric(&self, name: &str) -> f64 {
        let answer = self.probe("/metrics").await.expect("the metrics");
        let text = answer.body.as_str().unwrap_or_default().to_owned();
        let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until the metric and the status page count so many orphaned objects' sources.
    pub async fn counts_orphans(&self, expected: usize) {
        eventually(&format!("{expected} sources have orphaned objects"), async || {
            let counted = self.metric("sync_engine_orphans").await;
            let shown = self.orphans_shown().await?;
            let met = counted == expected as f64 && shown == expected;
            met.then_some(()).ok_or_else(|| format!("the metric says {counted}, the page {shown}"))
        })
        .await;
    }

    /// The sum of the status page's column ORPHANS.
    async fn orphans_shown(&self) -> Result<usize, String> {
        let answer = self.ask("/").await?;
        let page = answer.body.as_str().unwrap_or_default().to_owned();
        let rows = page.lines().skip_while(|line| !line.contains("ORPHANS"));
        let at = rows.clone().next().and_then(|titles| titles.split_whitespace().position(|title| title == "ORPHANS"));
        let at = at.ok_or_else(|| format!("no column ORPHANS in {page}"))?;
        let rows = rows.skip(1).take_while(|line| !line.is_empty());
        Ok(rows.filter_map(|row| row.split_whitespace().nth(at)?.parse::<usize>().ok()).sum())
    }

    /// Waits for a log line that contains all of `fragments`.
    pub async fn says(&mut self, fragments: &[&str]) -> String {
        self.says_after(0, fragments).await
    }

    /// Does something, and waits for such a line after it.
    pub async fn says_of(&mut self, deed: impl FnOnce(), fragments: &[&str]) -> String {
        let lines = self.lines_logged();
        deed();
        self.says_after(lines, fragments).await
    }

    /// Waits for such a line beyond the first `lines` of the log (`lines_logged`).
    pub async fn says_after(&mut self, lines: usize, fragments: &[&str]) -> String {
        eventually(&format!("the engine says {fragments:?}"), async || {
            self.process.must_run();
            let log = self.log();
            let found = log.iter().skip(lines).find(|line| fragments.iter().all(|fragment| line.contains(fragment)));
            found.cloned().ok_or_else(|| format!("{} other lines", log.len()))
        })
        .await
    }

    pub fn lines_logged(&self) -> usize {
        self.log().len()
    }

    /// The log, each line as plain text: a structured line's fields are joined, so that quotes and line breaks of its
    /// message read as they are. Times and module names are left out.
    pub fn log(&self) -> Vec<String> {
        let text = fs::read(self.process.log()).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(plain).collect()
    }

    /// Err where the engine has ended.
    pub fn is_running(&mut self) -> Result<(), String> {
        self.process.alive()
    }

    /// SIGTERM, and the end that follows.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.process.signal(Signal::TERM);
        self.process.end(DEADLINE).await
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

fn plain(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(fields)) => {
            joined(fields.iter().filter(|(name, _)| !matches!(name.as_str(), "timestamp" | "target")))
        }
        _ => line.to_owned(),
    }
}

fn joined<'f>(fields: impl Iterator<Item = (&'f String, &'f Value)>) -> String {
    fields.map(|(name, value)| field(name, value)).collect::<Vec<_>>().join(" ")
}

fn field(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => format!("{name}={text}"),
        Value::Object(fields) => joined(fields.iter()),
        other => format!("{name}={other}"),
    }
}
