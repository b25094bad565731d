//! What the sandbox costs: `cargo bench --bench sandbox`.
//!
//! Requests go straight to the state, without HTTP. Each workspace holds ten objects; what is measured concerns one
//! workspace or one object, and must not grow with the number of the others.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sync_engine::sandbox::{Flavor, Reply, Request, Settings, State, Timestamp};

const WORKSPACES: [usize; 3] = [100, 1_000, 10_000];
const OBJECTS: usize = 10;
const REPETITIONS: usize = 1_000;
const MERGE: &str = "application/merge-patch+json";

fn main() {
    for workspaces in WORKSPACES {
        let before = resident_memory();
        let mut state =
            State::new(Settings { flavor: Flavor::Kcp, history: 1_000, ..Settings::default() }, Timestamp(0));
        publish(&mut state);
        let started = Instant::now();
        (0..workspaces).for_each(|index| fill(&mut state, index));
        println!("{workspaces} workspaces with {OBJECTS} objects each, made in {:.1?}", started.elapsed());
        let used = resident_memory().saturating_sub(before) / (workspaces * OBJECTS);
        println!("  memory of an object with its share of a workspace: {:.1} KiB", used as f64 / 1024.0);
        measure(&mut state, workspaces / 2);
    }
}

fn measure(state: &mut State, workspace: usize) {
    let things = format!("/clusters/root:w{workspace}/apis/example.com/v1/namespaces/default/things");
    let list = Request::get(&things);
    let watch = Request::get(&format!("{things}?watch=1"));
    let get = Request::get(&format!("{things}/thing-3"));
    print("list of a workspace", || black_box(send(state, &list)));
    print("watch of a workspace", || black_box(send(state, &watch)));
    print("get", || black_box(send(state, &get)));
    let mut count = 0;
    print("status patch", || {
        count += 1;
        let url = format!("{things}/thing-3/status");
        send(state, &Request::patch(&url, MERGE, &json!({"status": {"count": count}})))
    });
    print("apply", || {
        count += 1;
        let url = format!("{things}/thing-3?fieldManager=bench&force=true");
        send(state, &Request::apply(&url, &thing("thing-3", count)))
    });
}

fn print(what: &str, mut once: impl FnMut() -> Reply) {
    let started = Instant::now();
    for _ in 0..REPETITIONS {
        black_box(once());
    }
    let each: Duration = started.elapsed() / REPETITIONS as u32;
    println!("  {what}: {each:.1?}");
}

fn send(state: &mut State, request: &Request) -> Reply {
    let (reply, _) = state.handle(request, Timestamp(0));
    if let Some(answer) = reply.answer() {
        assert!(answer.code < 300, "{} {}: {}", request.method, request.path, answer.to_json());
    }
    reply
}

fn publish(state: &mut State) {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": anything,
            }],
        },
    });
    let resources =
        json!([{"group": "example.com", "name": "things", "schema": "v1.things.example.com", "storage": {"crd": {}}}]);
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "things"},
        "spec": {"resources": resources},
    });
    send(state, &Request::post("/clusters/root/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &schema));
    send(state, &Request::post("/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports", &export));
}

/// A workspace that binds the export, with objects.
fn fill(state: &mut State, index: usize) {
    let name = format!("w{index}");
    let workspace = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
    send(state, &Request::post("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces", &workspace));
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "things"},
        "spec": {"reference": {"export": {"path": "root", "name": "things"}}},
    });
    send(state, &Request::post(&format!("/clusters/root:{name}/apis/apis.kcp.io/v1alpha2/apibindings"), &binding));
    let things = format!("/clusters/root:{name}/apis/example.com/v1/namespaces/default/things");
    for index in 0..OBJECTS {
        send(state, &Request::post(&things, &thing(&format!("thing-{index}"), index)));
    }
}

/// An object of about a kilobyte.
fn thing(name: &str, size: usize) -> Value {
    let users: Vec<Value> = (0..5)
        .map(|index| json!({"name": format!("user-{index}"), "db": "admin", "roles": ["read", "write"]}))
        .collect();
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": size, "version": "6.0.5", "text": "x".repeat(300), "users": users},
    })
}

/// Resident memory of this process in bytes; zero where there is no `/proc`.
fn resident_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or_default() * 1024
}
