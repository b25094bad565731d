//! Go controllers on the sandbox: client-go's informers follow it through cut connections and forgotten history.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use sync_engine::sandbox::{ApiRef, Options, Sandbox};

use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::process::{Process, tail};

pub fn cases() -> Vec<Case> {
    // Of the real servers' machinery they need nothing but Go.
    vec![case!(informers_of_client_go_follow_the_sandbox).on_kube()]
}

const GADGETS: ApiRef<'_> = ApiRef { cluster: "", resource: "gadgets.v1.example.com" };
const MAPS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };
const DEFINITIONS: ApiRef<'_> = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };

async fn informers_of_client_go_follow_the_sandbox(stage: &Stage) {
    let mut sandbox = Options::kubernetes().encrypted().start().await.expect("a sandbox");
    sandbox.create(DEFINITIONS, &definition()).expect("a definition");
    create(&sandbox, "early");
    let mut go = Informers::start(stage, &sandbox);
    go.tells(&["added early map[]", "synced: true"]).await;

    create(&sandbox, "late");
    label(&sandbox, "early", "1");
    delete(&sandbox, "late");
    go.tells(&["added late map[]", "updated early map[step:1]", "deleted late map[]"]).await;

    sandbox.disconnect().await;
    create(&sandbox, "meanwhile");
    label(&sandbox, "early", "2");
    sandbox.reconnect().await.expect("the same address");
    go.tells(&["added meanwhile map[]", "updated early map[step:2]"]).await;

    sandbox.disconnect().await;
    delete(&sandbox, "meanwhile");
    label(&sandbox, "early", "3");
    // What they missed is forgotten: they have to list again.
    sandbox.compact();
    sandbox.reconnect().await.expect("the same address");
    go.tells(&["deleted meanwhile map[]", "updated early map[step:3]"]).await;
}

/// The Go program, and how much of what it says was read.
struct Informers {
    process: Process,
    read: usize,
}

impl Informers {
    fn start(stage: &Stage, sandbox: &Sandbox) -> Self {
        let kubeconfig = stage.folder.join("kubeconfig");
        fs::write(&kubeconfig, sandbox.kubeconfig(None)).expect("a kubeconfig");
        let mut command = Command::new(stage.fleet.informers());
        command.arg("-kubeconfig").arg(&kubeconfig);
        Self { process: Process::spawn("informers", &mut command, &stage.folder.join("informers.log")), read: 0 }
    }

    /// Waits until each informer has said all of this, since the last time.
    async fn tells(&mut self, what: &[&str]) {
        let expected: Vec<String> = what.iter().flat_map(|line| lines(line)).collect();
        let Self { process, read } = self;
        let log = process.log().to_owned();
        *read = eventually("the informers tell it", async || {
            process.must_run();
            let text = fs::read_to_string(&log).map_err(|error| error.to_string())?;
            let said: Vec<&str> = text.lines().skip(*read).collect();
            let missing = expected.iter().find(|line| !said.contains(&line.as_str()));
            missing.map_or(Ok(*read + said.len()), |line| Err(format!("no `{line}` in:\n{}", tail(&log, 20))))
        })
        .await;
    }
}

/// What all three informers say, or the program itself.
fn lines(line: &str) -> Vec<String> {
    match line.contains(':') && !line.contains("map[") {
        true => vec![line.to_owned()],
        false => ["dynamic", "metadata", "typed"].map(|informer| format!("{informer}: {line}")).into(),
    }
}

fn definition() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version],
        },
    })
}

/// A gadget and a ConfigMap.
fn create(sandbox: &Sandbox, name: &str) {
    for (api, version, kind) in [(GADGETS, "example.com/v1", "Gadget"), (MAPS, "v1", "ConfigMap")] {
        let metadata = json!({"name": name, "namespace": "default"});
        sandbox.create(api, &json!({"apiVersion": version, "kind": kind, "metadata": metadata})).expect("an object");
    }
}

fn label(sandbox: &Sandbox, name: &str, step: &str) {
    let patch = json!({"metadata": {"labels": {"step": step}}});
    for api in [GADGETS, MAPS] {
        sandbox.merge(api, "default", name, &patch).expect("an object");
    }
}

fn delete(sandbox: &Sandbox, name: &str) {
    for api in [GADGETS, MAPS] {
        sandbox.delete(api, "default", name).expect("an object");
    }
}
