//! What people type into kubectl: the pinned one prints the same for the sandbox as for the real servers.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use regex::Regex;
use sync_engine::sandbox::{Options, Sandbox};

use crate::case::{Case, Stage, case};
use crate::credentials::ADMIN;
use crate::fleet::On;
use crate::kubectl::repository;

pub fn cases() -> Vec<Case> {
    vec![case!(what_people_type_prints_the_same).on_both()]
}

/// Said of a line that does not succeed.
const FAILS: &str = "(fails)\n";
const FIXTURES: &str = "tests/e2e/fixtures/kubectl";

async fn what_people_type_prints_the_same(stage: &Stage) {
    let shells = Shells::open(stage).await;
    every_command_prints_the_same(stage, &shells);
    shells.both(|shell| shell.prepare(stage));
    a_watch_shows_every_change_as_a_row(stage, &shells);
    a_deletion_waits_for_finalizers(&shells);
}

fn every_command_prints_the_same(stage: &Stage, shells: &Shells) {
    let script = stage.script();
    let (real, memory) = shells.both(|shell| script.iter().map(|line| shell.run(line)).collect::<Vec<_>>());
    let lines = script.iter().zip(memory.iter().zip(&real));
    let differences: Vec<String> = lines.filter_map(|(line, (memory, real))| difference(line, memory, real)).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

fn a_watch_shows_every_change_as_a_row(stage: &Stage, shells: &Shells) {
    let (real, memory) = shells.both(|shell| {
        shell.run("kubectl apply -f gadget.yaml");
        let mut watch = Watch::start(shell, &stage.named("kubectl get gadgets -n {ns} --watch --output-watch-events"));
        let mut rows = watch.rows_until("ADDED");
        shell.run("kubectl apply -f larger.yaml");
        rows.extend(watch.rows_until("MODIFIED"));
        shell.run("kubectl delete -f gadget.yaml");
        rows.extend(watch.rows_until("DELETED"));
        rows
    });
    assert_eq!(memory, real);
    assert_eq!(memory[1], "ADDED  first  3  <age>", "{memory:#?}");
}

fn a_deletion_waits_for_finalizers(shells: &Shells) {
    let (real, memory) = shells.both(|shell| {
        shell.run("kubectl apply -f gadget.yaml");
        let patch = |patch: &str| format!("kubectl patch -f gadget.yaml --type=merge -p '{patch}'");
        shell.run(&patch(r#"{"metadata":{"finalizers":["example.com/hold"]}}"#));
        let deletion = shell.command("kubectl delete -f gadget.yaml").stdout(Stdio::piped()).spawn().expect("kubectl");
        shell.run("kubectl wait -f gadget.yaml --for=jsonpath='{.metadata.deletionTimestamp}'");
        let held = shell.run("kubectl get -f gadget.yaml");
        shell.run(&patch(r#"{"metadata":{"finalizers":null}}"#));
        let output = deletion.wait_with_output().expect("an end");
        (held, output.status.success(), masked(&String::from_utf8_lossy(&output.stdout)))
    });
    assert_eq!(memory, real);
    assert!(memory.1, "{memory:?}");
}

fn difference(line: &str, memory: &str, real: &str) -> Option<String> {
    let is_fine = memory == real && !real.ends_with(FAILS);
    (!is_fine).then(|| format!("{line}\n--- the sandbox prints\n{memory}--- the real server prints\n{real}"))
}

impl Stage {
    /// The lines of the script, for names that no other case uses.
    fn script(&self) -> Vec<String> {
        let text = fs::read_to_string(repository().join(FIXTURES).join("script.sh")).expect("the script");
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| self.named(line)).collect()
    }

    fn named(&self, text: &str) -> String {
        let id = &self.id;
        let text = text.replace("{short}", &format!("gd{id}"));
        text.replace("{ns}", &format!("team-{id}")).replace("{group}", &format!("kubectl-{id}.example.com"))
    }
}

/// One shell for the real server, one for the sandbox in its place.
struct Shells {
    real: Shell,
    memory: Shell,
    _sandbox: Sandbox,
}

impl Shells {
    async fn open(stage: &Stage) -> Self {
        let (real, sandbox, workspace) = match stage.on {
            On::Kube => {
                let real = stage.fleet.kubernetes().await.target.kubeconfig(ADMIN);
                (real, Options::kubernetes().encrypted().start().await.expect("a sandbox"), None)
            }
            On::Kcp => {
                let kcp = stage.kcp().await;
                let path = kcp.workspace(&stage.id).await.path;
                let sandbox = Options::kcp().encrypted().start().await.expect("a sandbox");
                sandbox.create_workspace("root", &stage.id).expect("a workspace");
                (kcp.workspace_kubeconfig(&path, ADMIN), sandbox, Some(path))
            }
            On::Sandbox => unreachable!("compared with real servers alone"),
        };
        let memory = Shell::new(stage, "sandbox", &sandbox.kubeconfig(workspace.as_deref()));
        Self { real: Shell::new(stage, "real", &real), memory, _sandbox: sandbox }
    }

    /// What comes of the same on the real server and on the sandbox, side by side.
    fn both<T: Send>(&self, play: impl Fn(&Shell) -> T + Sync) -> (T, T) {
        thread::scope(|scope| {
            let real = scope.spawn(|| play(&self.real));
            let memory = play(&self.memory);
            (real.join().unwrap_or_else(|panic| resume_unwind(panic)), memory)
        })
    }
}

/// A shell in a folder of its own, where kubectl is the pinned one and talks to one server.
struct Shell {
    folder: PathBuf,
    path: OsString,
}

impl Shell {
    fn new(stage: &Stage, name: &str, kubeconfig: &str) -> Self {
        let folder = stage.folder.join(name);
        fs::create_dir_all(folder.join("tmp")).expect("the shell's folder");
        fs::write(folder.join("kubeconfig"), kubeconfig).expect("a kubeconfig");
        for file in fs::read_dir(repository().join(FIXTURES)).expect("the fixtures").flatten() {
            let text = fs::read_to_string(file.path()).expect("a fixture");
            fs::write(folder.join(file.file_name()), stage.named(&text)).expect("a file");
        }
        Self { folder, path: stage.path() }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("set -o pipefail; {line}")]).current_dir(&self.folder).stdin(Stdio::null());
        command.env("PATH", &self.path).env("KUBECONFIG", "kubeconfig").env("HOME", &self.folder);
        command.env("TMPDIR", self.folder.join("tmp"));
        command
    }

    /// A namespace for gadgets.
    fn prepare(&self, stage: &Stage) {
        for line in [
            "kubectl apply -f definition.yaml",
            "kubectl wait --for=condition=Established crd/gadgets.{group} --timeout=90s",
            "timeout 90 bash served.sh",
            "kubectl create ns {ns}",
        ] {
            let said = self.run(&stage.named(line));
            assert!(!said.ends_with(FAILS), "{line}: {said}");
        }
    }

    /// What a line prints, without what differs from one moment to the next.
    fn run(&self, line: &str) -> String {
        let output = self.command(line).output().expect("a shell");
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        let text = masked(&String::from_utf8_lossy(&text));
        if output.status.success() { text } else { format!("{text}{FAILS}") }
    }
}

/// A `kubectl get --watch` under way.
struct Watch {
    kubectl: Child,
    rows: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(shell: &Shell, line: &str) -> Self {
        let mut kubectl = shell.command(&format!("exec {line}")).stdout(Stdio::piped()).spawn().expect("kubectl");
        let rows = BufReader::new(kubectl.stdout.take().expect("a pipe")).lines();
        Self { kubectl, rows }
    }

    /// The rows up to the first of an event, that one included.
    fn rows_until(&mut self, event: &str) -> Vec<String> {
        let mut rows = Vec::new();
        for row in self.rows.by_ref() {
            let row = masked(&row.expect("text"));
            let is_last = row.starts_with(event);
            rows.push(row);
            if is_last {
                return rows;
            }
        }
        panic!("the watch ends before {event}: {rows:#?}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // One that has ended by itself needs nothing.
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

/// What a server or a moment makes of an answer, replaced by its name.
fn masked(text: &str) -> String {
    const VOLATILE: [(&str, &str); 11] = [
        // kubectl logs what its own deadline interrupts, or does not.
        (r"(?m)^[EWI]\d{4} .*\n", ""),
        // An earlier kcp names it twice.
        (r"(application/apply-patch\+yaml)(, application/apply-patch\+yaml)", "$1"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+ \+\d{4}|Z)", "<time>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r#"(resourceVersion: |Resource Version: +)"?\d+"?"#, "$1<version>"),
        (r"\b(\d+[smhd]){1,2}\b", "<age>"),
        (r"/\S*/(LIVE|MERGED)-\d+", "<folder>"),
        (r"(kcp.io/cluster: )\S+", "$1<cluster>"),
        // Columns are as wide as what stands in them.
        (r"(\S) {2,}", "$1  "),
        (r"(?m) +$", ""),
        (r"https?://\S+/clusters/\S+", "<url>"),
    ];
    VOLATILE.iter().fold(text.to_owned(), |text, (pattern, name)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, *name).into_owned()
    })
}
