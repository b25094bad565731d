//! Go controllers on the sandbox: client-go's informers follow it through cut connections and forgotten history.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use sync_engine::sandbox::{ApiRef, Options, Sandbox, anything, definition, resource_schema};

use crate::case::{Case, Stage, case};
use crate::eventually::eventually;
use crate::process::{Process, tail};

pub fn cases() -> Vec<Case> {
    // Of the real servers' machinery they need nothing but Go.
    let cases = [
        case!(informers_of_client_go_follow_the_sandbox),
        case!(informers_of_client_go_follow_an_endpoint_slice_of_the_sandbox),
    ];
    cases.into_iter().map(Case::on_kube).collect()
}

const GADGETS: ApiRef<'_> = ApiRef { cluster: "", resource: "gadgets.v1.example.com" };
const MAPS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };
const DEFINITIONS: ApiRef<'_> = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };

async fn informers_of_client_go_follow_the_sandbox(stage: &Stage) {
    let mut sandbox = Options::kubernetes().encrypted().start().await.expect("a sandbox");
    sandbox.create(DEFINITIONS, &definition("gadgets.v1.example.com", "Gadget", &anything())).expect("a definition");
    create(&sandbox, "early");
    let mut go = Informers::start(stage, &sandbox.kubeconfig(None), &[]);
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

/// As a Go controller of an APIExport does: the URLs of the slice lead to the consumers' objects, with the provider's own
/// token and certificate authority.
async fn informers_of_client_go_follow_an_endpoint_slice_of_the_sandbox(stage: &Stage) {
    let mut sandbox = Options::kcp().encrypted().start().await.expect("a sandbox");
    sandbox.create_workspace("root", "provider").expect("a workspace");
    let schema = resource_schema("gadgets.v1.example.com", "Gadget", &anything());
    sandbox.publish("root:provider", "gadgets", &[schema], &[]).expect("an export");
    let consumers = ["early", "late"].map(|name| {
        let consumer = sandbox.create_workspace("root", name).expect("a workspace");
        sandbox.bind(&consumer, "root:provider", "gadgets", &[]).expect("a binding");
        consumer
    });
    let [early, late] = consumers.each_ref().map(|cluster| ApiRef { cluster, ..GADGETS });
    sandbox.create(early, &object("example.com/v1", "Gadget", "early")).expect("a gadget");
    let kubeconfig = sandbox.kubeconfig(Some("root:provider"));
    let mut go = Informers::start(stage, &kubeconfig, &["-slice", "gadgets"]);
    go.tells(&["added early map[]", "synced: true"]).await;

    sandbox.create(late, &object("example.com/v1", "Gadget", "late")).expect("a gadget");
    go.tells(&["added late map[]"]).await;
    sandbox.disconnect().await;
    sandbox.delete(early, "default", "early").expect("the gadget");
    sandbox.reconnect().await.expect("the same address");
    go.tells(&["deleted early map[]"]).await;
}

/// The Go program, and how much of what it says was read.
struct Informers {
    process: Process,
    /// Those that it runs.
    informers: &'static [&'static str],
    read: usize,
}

impl Informers {
    fn start(stage: &Stage, kubeconfig: &str, slice: &[&str]) -> Self {
        let mut command = Command::new(stage.fleet.informers());
        command.arg("-kubeconfig").arg(stage.keep("kubeconfig", kubeconfig)).args(slice);
        let informers: &[&str] =
            if slice.is_empty() { &["dynamic", "metadata", "typed"] } else { &["dynamic", "metadata"] };
        Self {
            process: Process::spawn("informers", &mut command, &stage.folder.join("informers.log")),
            informers,
            read: 0,
        }
    }

    /// Waits until each informer has said all of this, since the last time.
    async fn tells(&mut self, what: &[&str]) {
        let Self { process, informers, read } = self;
        let expected: Vec<String> = what.iter().flat_map(|line| lines(informers, line)).collect();
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

/// What all informers say, or the program itself.
fn lines(informers: &[&str], line: &str) -> Vec<String> {
    match line.contains(':') && !line.contains("map[") {
        true => vec![line.to_owned()],
        false => informers.iter().map(|informer| format!("{informer}: {line}")).collect(),
    }
}

fn object(version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}})
}

/// A gadget and a ConfigMap.
fn create(sandbox: &Sandbox, name: &str) {
    for (api, version, kind) in [(GADGETS, "example.com/v1", "Gadget"), (MAPS, "v1", "ConfigMap")] {
        sandbox.create(api, &object(version, kind, name)).expect("an object");
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
