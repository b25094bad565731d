//! What the sandbox costs: `cargo bench --bench sandbox`.
//!
//! Each workspace binds one export and holds ten objects of a kilobyte, and each is watched. What is measured concerns
//! one workspace or one object, and must not grow with the number of the others. Each number of workspaces has a
//! process of its own, so that none finds the memory of another.

use std::env;
use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use sync_engine::sandbox::{Answer, ApiRef, Events, Options, Request, Sandbox, anything, resource_schema};
use tokio::runtime::Runtime;

const WORKSPACES: [usize; 3] = [100, 1_000, 10_000];
const OBJECTS: usize = 10;
const REPETITIONS: usize = 1_000;
const MERGE: &str = "application/merge-patch+json";
/// Resource of the objects.
const THINGS: &str = "things.v1.example.com";

fn main() {
    let workspaces = env::args().find_map(|argument| argument.parse().ok());
    match workspaces {
        Some(workspaces) => Runtime::new().expect("a runtime").block_on(measure(workspaces)),
        None => WORKSPACES.iter().for_each(|workspaces| measure_apart(*workspaces)),
    }
}

fn measure_apart(workspaces: usize) {
    let program = env::current_exe().expect("a program");
    let status = Command::new(program).arg(workspaces.to_string()).status();
    assert!(status.expect("it starts").success());
}

async fn measure(workspaces: usize) {
    let sandbox = Options::kcp().bookmarks_every(Duration::from_secs(60)).start().await.expect("it starts");
    let empty = resident_memory();
    let started = Instant::now();
    publish(&sandbox);
    (0..workspaces).for_each(|index| open(&sandbox, index));
    let with_workspaces = resident_memory();
    (0..workspaces).for_each(|index| fill(&sandbox, index));
    let with_objects = resident_memory();
    println!("{workspaces} workspaces with {OBJECTS} objects each, made in {:.1?}", started.elapsed());
    print_memory("a workspace with its binding", with_workspaces - empty, workspaces);
    print_memory("an object", with_objects - with_workspaces, workspaces * OBJECTS);
    let _watches: Vec<Events> = (0..workspaces).map(|index| watch(&sandbox, index)).collect();
    print_memory("a watch", resident_memory() - with_objects, workspaces);
    time_requests(&sandbox, workspaces / 2);
    time_http(&sandbox, workspaces / 2).await;
}

fn print_memory(what: &str, bytes: usize, number: usize) {
    println!("  memory of {what}: {:.1} KiB", bytes as f64 / 1024.0 / number as f64);
}

/// Straight to the server, without HTTP.
fn time_requests(sandbox: &Sandbox, index: usize) {
    let things = url(index, "");
    let list = Request::get(&things);
    time("list of a workspace", || drop(black_box(send(sandbox, &list))));
    let get = Request::get(&url(index, "thing-3"));
    time("get", || drop(black_box(send(sandbox, &get))));
    let watch = Request::get(&format!("{things}?watch=1"));
    time("watch of a workspace", || drop(black_box(sandbox.events(&watch).expect("a watch"))));
    let before = sandbox.version();
    let mut count = 0;
    time("status patch", || {
        count += 1;
        let url = format!("{}/status", url(index, "thing-3"));
        send(sandbox, &Request::patch(&url, MERGE, &json!({"status": {"count": count}})));
    });
    time("apply", || {
        count += 1;
        let url = format!("{}?fieldManager=bench&force=true", url(index, "thing-3"));
        send(sandbox, &Request::apply(&url, &thing("thing-3", count)));
    });
    let resumed = Request::get(&format!("{}?watch=1&resourceVersion={before}", url(index + 1, "")));
    time("watch resumed after 2,000 changes elsewhere", || drop(black_box(sandbox.events(&resumed).expect("a watch"))));
}

/// One after the other on one connection.
async fn time_http(sandbox: &Sandbox, index: usize) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let list = format!("{}{}", sandbox.url(), url(index, ""));
    let started = Instant::now();
    for _ in 0..REPETITIONS {
        let request = http::Request::get(&list).header("authorization", format!("Bearer {}", sandbox.token()));
        let answer = client.request(request.body(Empty::new()).expect("a request")).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        black_box(answer.into_body().collect().await.expect("a body"));
    }
    println!("  list of a workspace over HTTP: {:.1?}", started.elapsed() / REPETITIONS as u32);
}

fn time(what: &str, mut once: impl FnMut()) {
    let started = Instant::now();
    (0..REPETITIONS).for_each(|_| once());
    println!("  {what}: {:.1?}", started.elapsed() / REPETITIONS as u32);
}

fn send(sandbox: &Sandbox, request: &Request) -> Answer {
    let answer = sandbox.request(request);
    assert!(answer.code < 300, "{} {}: {}", request.method, request.path, answer.to_json());
    answer
}

fn publish(sandbox: &Sandbox) {
    let schema = resource_schema("things.v1.example.com", "Thing", &anything());
    sandbox.publish("root", "things", &[schema], &[]).expect("an export");
}

/// A workspace that binds the export.
fn open(sandbox: &Sandbox, index: usize) {
    let name = format!("w{index}");
    sandbox.create_workspace("root", &name).expect("a workspace");
    sandbox.bind(&path(index), "root", "things", &[]).expect("a binding");
}

fn fill(sandbox: &Sandbox, index: usize) {
    let path = path(index);
    for number in 0..OBJECTS {
        let things = ApiRef { cluster: &path, resource: THINGS };
        sandbox.create(things, &thing(&format!("thing-{number}"), number)).expect("an object");
    }
}

/// Of what is to come.
fn watch(sandbox: &Sandbox, index: usize) -> Events {
    let version = sandbox.version();
    let request = Request::get(&format!("{}?watch=1&resourceVersion={version}", url(index, "")));
    sandbox.events(&request).expect("a watch")
}

fn path(index: usize) -> String {
    format!("root:w{index}")
}

fn url(index: usize, name: &str) -> String {
    ApiRef { cluster: &path(index), resource: THINGS }.url("default", name)
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
