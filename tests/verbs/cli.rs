//! The command line as its user meets it: texts, exit codes, signals.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::program::{self, Running};
use super::{ROOT, run, said, shown_in};

/// A directory with an empty `maps/`.
fn root() -> TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(root.path().join("maps")).expect("a directory");
    root
}

#[test]
fn help_is_for_strangers() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    // The page about the command line has the flags.
    let (verbs, _) = help.split_once("\n\nOptions:\n").expect("the flags");
    insta::assert_snapshot!(verbs, @"
    Syncs objects of kcp workspaces to Kubernetes clusters. You describe what to sync in YAML mapping
    files.

    The engine applies target objects for each source object of a mapping, corrects drift, and writes
    chosen status fields back. It watches the folder of mappings: an edit takes effect without a
    restart, and a broken edit changes nothing.

    Every verb but `run` that reads mappings takes them as arguments. A folder that has a folder
    `mappings` stands for that folder, with `schemas` and `examples` beside it. Objects are given with
    -f, the output format with -o.

    Exit codes of every verb but `run`: 0 clean; 1 findings or differences; 2 usage error; 3 the verb
    could not check.

    Usage: sync-engine run --mappings <DIR> [OPTIONS]
           sync-engine <COMMAND>

    Write mappings:
      init         Write a folder that offers an operator's API to workspaces
      schema       Print the JSON Schema of the documents, or copy schemas from live clusters
      validate     Check mappings for errors, without a cluster
      render       Print the target objects of a source object, without a cluster
      test         Run MappingTest documents, without a cluster

    Run the engine:
      run          Run the engine: the same as giving its flags without a verb
      rbac         Print the RBAC rules that the engine needs for mappings, without a cluster
      sandbox      Run kcp, a target cluster, consumers, a toy operator and the engine, in memory

    Look:
      status       Show what a running engine syncs, what is not in sync and why, and what to do
      trace        Show why one source is as it is: what decided on each object, what it waits for
      doctor       Check live clusters for what mappings need: rights, claims, kinds, clocks, credentials
      diff         Dry run: what an edit of mappings changes, or what the engine would change now
      explain      Explain an error code, a reason of `Synced` or an alert, or list all of them

    Act:
      approve      Show what the engine holds, and approve or reject it
      orphans      List orphaned objects on targets, and delete or release those that you select
      retarget     Move sources to the target that the connection leads to now
      uninstall    Take away what a stopped engine has left, or release the sources of a lost target

    For the shell:
      completions  Print a completion script for a shell
      version      Print version, commit and build
      help         Print this message or the help of the given subcommand(s)
    ");
}

#[test]
fn what_cannot_be_understood_exits_with_2() {
    let root = root();
    let errors =
        |said: String| said.replace("exit 2\nstderr:\n", "").replace("\n\nFor more information, try '--help'.", "");
    insta::assert_snapshot!(errors(shown_in(&root, &[])), @"
    error: the following required arguments were not provided:
      --mappings <DIR>

    Usage: sync-engine run --mappings <DIR> [OPTIONS]
           sync-engine <COMMAND>
    ");
    let lines = [
        "--mappings ROOT/maps --mapings here",
        "--mappings ROOT/maps --console 8080",
        "--mappings ROOT/maps --connection /etc/edge",
        "--mappings ROOT/maps --connection Edge=/etc/edge",
        "--mappings ROOT/maps --kcp-kubeconfig /etc/kcp#",
        "--mappings ROOT/maps --engine-id a_very_Long-engine-id",
        "--mappings ROOT/maps --log-level inof",
        "--mappings ROOT/maps --leader-elect lease --leader-elect-renew-deadline 20s",
        "--mappings ROOT/maps --leader-elect lease --home hub",
        "--mappings ROOT/maps --home hub",
        "--mappings ROOT/maps --max-memory much",
        "--mappings ROOT/maps --leader-elect-retry-period soon",
        "--mappings ROOT/maps --kcp-kubeconfig ROOT/kcp --connection kcp=ROOT/kcp#two",
    ];
    insta::assert_snapshot!(errors(said(&root, lines)), @"
    error: unexpected argument '--mapings' found

      tip: a similar argument exists: '--mappings'

    Usage: sync-engine run --mappings <DIR> [OPTIONS]
           sync-engine <COMMAND>
    error: invalid value '8080' for '--console <ADDR>': write an address with a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080, or `off`
    error: invalid value '/etc/edge' for '--connection <NAME=PATH[#CONTEXT]>': there is no `=` in it; write NAME=PATH or NAME=PATH#CONTEXT, such as edge=/etc/edge.kubeconfig
    error: invalid value 'Edge=/etc/edge' for '--connection <NAME=PATH[#CONTEXT]>': `Edge` cannot name a connection: use at most 63 lower case letters, digits and `-`, no `-` at the ends
    error: invalid value '/etc/kcp#' for '--kcp-kubeconfig <PATH[#CONTEXT]>': there is nothing behind the `#`; leave it out for the file's current context
    error: invalid value 'a_very_Long-engine-id' for '--engine-id <ID>': an engine id has at most 20 lower case letters, digits and `-`, with no `-` at its ends
    error: invalid value 'inof' for '--log-level <LEVEL|FILTER>': `inof` is neither a level (off, error, warn, info, debug, trace) nor a filter such as `info,sync_engine::engine=debug`
    error: --leader-elect-…: the renew deadline (20 s) must be shorter than the lease duration (15 s)
    error: --home names the connection `hub`, which the command line does not give: add `--connection hub=PATH[#CONTEXT]`
    error: --home names the connection `hub`, which the command line does not give: add `--connection hub=PATH[#CONTEXT]`
    error: invalid value 'much' for '--max-memory <QUANTITY>': write bytes, or a quantity such as 400Mi or 2Gi
    error: invalid value 'soon' for '--leader-elect-retry-period <DURATION>': write a duration such as 15s or 1m30s
    error: the connection `kcp` is given twice: as ROOT/kcp and as ROOT/kcp#two
    ");
}

/// What else can be wrong with a kubeconfig, the tests of connections show.
#[test]
fn what_is_not_there_exits_with_78() {
    let root = root();
    fs::write(root.path().join("file"), "").expect("a file");
    let lines = [
        "--mappings ROOT/missing",
        "run --mappings ROOT/file",
        "--mappings ROOT/maps --schemas ROOT/nothing",
        "--mappings ROOT/maps --kcp-kubeconfig ROOT/nothing",
        "--mappings ROOT/maps --target-kubeconfig in-cluster",
    ];
    insta::assert_snapshot!(said(&root, lines).replace("exit 78\nstderr:\n", ""), @"
    error: cannot read the mappings directory `ROOT/missing`: it does not exist; create it, or name another
    error: cannot read the mappings directory `ROOT/file`: it is not a directory; create it, or name another
    error: cannot read the folder of schemas `ROOT/nothing` (--schemas): it does not exist; create it, or name another
    error: connection `kcp`: cannot read the kubeconfig ROOT/nothing: there is no such file; give one with `--kcp-kubeconfig PATH[#CONTEXT]`
    error: connection `target`: `in-cluster` needs the service account of a Pod: failed to read an incluster environment variable: environment variable not found
    ");
}

#[test]
fn the_build_can_be_told() {
    let output = run(&["version"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(words, ["sync-engine", "commit", "build"], "{text}");
    assert!(text.starts_with(concat!("sync-engine ", env!("CARGO_PKG_VERSION"), "\n")), "{text}");
    let short = String::from_utf8_lossy(&run(&["--version"]).stdout).into_owned();
    assert!(short.starts_with(concat!("sync-engine ", env!("CARGO_PKG_VERSION"), " (commit ")), "{short}");
    assert_eq!(run(&["help", "diff"]).stdout, run(&["diff", "--help"]).stdout);
}

/// The tests of the page about the command line show that every flag has its variable.
#[test]
fn flags_are_read_from_the_environment() {
    let root = root();
    let output = program::command(Path::new(ROOT), &[])
        .env("SYNC_ENGINE_MAPPINGS", root.path().join("maps"))
        .env("SYNC_ENGINE_CONNECTION", "a=/nowhere/a,b=/nowhere/b")
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(78));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("connection `a`: cannot read the kubeconfig /nowhere/a"), "{text}");
}

/// An engine on an empty directory, which goes with it.
fn start(flags: &[&str]) -> (Running, TempDir) {
    let root = root();
    let maps = root.path().join("maps").display().to_string();
    let flags = [&["--mappings", &maps, "--probes", "127.0.0.1:0", "--console", "127.0.0.1:0"], flags].concat();
    (Running::logging(&mut program::command(Path::new(ROOT), &flags)), root)
}

#[test]
fn an_empty_directory_is_served_until_a_signal_and_says_so() {
    for signal in ["TERM", "INT"] {
        let (mut engine, _root) = start(&[]);
        engine.line("no *.yaml or *.yml in the mappings directory yet");
        engine.line("listening what=\"probes\"");
        engine.line("listening what=\"console\"");
        let line = engine.line("running");
        assert!(line.contains(" max_watches="), "the limit that the system gives: {line}");
        // A hangup is a reload, and no end.
        engine.signal("HUP");
        engine.line("SIGHUP: reading the mappings again");
        assert_eq!(engine.stop(signal), Some(0), "{signal}");
        engine.line("stopped");
    }
}

#[test]
fn logs_can_be_json_for_collectors() {
    let (engine, _root) = start(&["--log-format", "json"]);
    let line = engine.line("no *.yaml");
    let event: serde_json::Value = serde_json::from_str(&line).expect("one JSON object a line");
    assert_eq!((event["level"].as_str(), event["directory"].is_string()), (Some("WARN"), true), "{line}");
}

#[test]
fn a_port_that_is_taken_is_a_failure_that_names_the_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let line = format!("--mappings ROOT/maps --probes off --console {address}");
    let text = said(&root(), [line.as_str()]).replace(&address, "ADDRESS");
    assert!(text.starts_with("exit 1\n"), "{text}");
    let error = text.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    insta::assert_snapshot!(error, @"error: cannot listen on ADDRESS; give another address with --console, or `--console off` for none: Address already in use (os error 98)");
}
