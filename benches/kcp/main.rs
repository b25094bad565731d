//! What the engine costs against a real kcp, beside bare clients that send the same requests and nothing else: `cargo
//! bench --bench kcp [-- OBJECTS]`. Needs a `kcp` binary on PATH or in `KCP`.
//!
//! One kcp holds the provider's workspace, a consumer's, and one that serves as the downstream cluster. Each part is a
//! process of its own; CPU is its `utime + stime`, as Linux tells them. Machines are noisy: bare clients and engine
//! take turns in one run, and the ratios are what counts. Objects come to each of them in the same two ways: one by one,
//! as fast as a consumer creates them, and all at once, when the process has been held up while they were created.
//!
//! `cargo bench --bench kcp -- large [OBJECTS] [TENANTS]` tells instead how long another tenant waits, and what memory it takes,
//! while tenants have so many objects of 1 MB, and after a restart, beside a bare client in the same kcp. `SYNC_ENGINE_MAX_MEMORY` is the engine's.
//!
//! `cargo bench --bench kcp -- versions BINARY [OBJECTS]` compares this build with another one, in turns on one kcp.

mod bare;
#[path = "../engine/process.rs"]
mod engine;
#[expect(dead_code, reason = "the scenarios in tests/e2e use all of it, and this a part")]
#[path = "../../tests/e2e/real/mod.rs"]
mod real;
#[path = "../engine/usage.rs"]
mod usage;
mod versions;

use real::{api, audit, credentials, eventually, kcp, process, rest, servers};

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::api::Api;
use crate::bare::{Orders, Stack};
use crate::credentials::ADMIN;
use crate::engine::Engine;
use crate::eventually::{eventually, within};
use crate::kcp::Workspace;
use crate::real::kube::ApiServer;
use crate::rest::Rest;

const ROUNDS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(600);
const CLIENTS: [&str; 3] =
    ["bare client, the engine's stack", "bare client, kube", "bare client, kube, with the watches"];
const ORDERS: &str = "--orders";
const LARGE: &str = "large";
const VERSIONS: &str = "versions";

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == ORDERS) {
        // One thread, as the engine has.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let spent = runtime.block_on(bare::run(Path::new(&arguments[at + 1])))?;
        println!("{}", spent.as_millis());
        return Ok(());
    }
    let binary = match servers::kcp() {
        Ok(binary) => binary,
        Err(reason) => {
            println!("not run: {reason}");
            return Ok(());
        }
    };
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(at) = arguments.iter().position(|argument| argument == VERSIONS) {
        let other = Path::new(arguments.get(at + 1).ok_or("name the binary of the other build")?);
        return runtime.block_on(versions::compare(binary, other, numbers.next().unwrap_or(100)));
    }
    if arguments.iter().any(|argument| argument == LARGE) {
        let (objects, tenants) = (numbers.next().unwrap_or(500), numbers.next().unwrap_or(1));
        return runtime.block_on(beside_large_objects(binary, objects, tenants));
    }
    runtime.block_on(compare(binary, numbers.next().unwrap_or(300)))
}

/// What another tenant notices of large objects.
async fn beside_large_objects(binary: PathBuf, objects: usize, tenants: usize) -> Result<(), Failed> {
    let folder = tempfile::TempDir::new()?;
    let mut scene = Scene::set(binary, folder.path()).await?;
    let mut greedy = Vec::new();
    for number in 0..tenants {
        let workspace = scene.kcp.workspace(&format!("greedy-{number}")).await;
        workspace.bind(&scene.provider.path, &scene.api).await;
        greedy.push(workspace);
    }
    // Lists are in the order of cluster names: the other tenant is the last one.
    if let Some(last) = greedy.iter_mut().max_by(|a, b| a.cluster.cmp(&b.cluster))
        && last.cluster > scene.consumer.cluster
    {
        std::mem::swap(last, &mut scene.consumer);
    }
    let engine = scene.start_engine().await?;
    println!("before: {:.1} MiB", mebibytes(&engine)?);
    let mut large = spec();
    large["note"] = "x".repeat(1_000_000).into();
    let (mut waits, mut heard, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let everywhere = format!("{}/clusters/*", endpoint_of(&scene.provider).await);
    let mut lines = bare::lines(&scene.folder.join("kcp.kubeconfig"), &everywhere, &scene.api.group).await?;
    for index in 0..objects {
        let object = scene.api.object(&format!("large-{index}"), large.clone());
        create(&greedy[index % tenants].rest, &scene.api.collection("default"), &object).await?;
        if index % 25 == 24 {
            let (name, begun) = (format!("while-{index}"), Instant::now());
            waits.push(scene.wait_of_another(&name).await);
            // What kcp itself takes meanwhile to tell of the object, and for such requests of an API of which nothing is large.
            while let Some((told, at)) = lines.recv().await {
                if told.contains(&format!("\"name\":\"{name}\"")) {
                    heard.push(at - begun);
                    break;
                }
            }
            let begun = Instant::now();
            scene.bare(Stack::Kube, Arrival::OneByOne, &format!("bare-{index}"), 1).await?;
            bare.push(begun.elapsed());
        }
    }
    let come = scene.wait_of_another("come").await;
    println!(
        "while they come: another tenant waits {}; a bare watch tells of it after {}; a bare client's object waits {}; {:.1} MiB",
        middle_and_most(waits),
        middle_and_most(heard),
        middle_and_most(bare),
        mebibytes(&engine)?
    );
    println!("once they have come: another tenant waits {:.1} s", come.as_secs_f64());
    let mut engine = Some(engine);
    for round in 0..ROUNDS {
        drop(engine.take());
        let started = Instant::now();
        let restarted = Engine::start(folder.path(), &folder.path().join("mappings"))?;
        scene.wait_of_another(&format!("restarted-{round}")).await;
        println!(
            "after a restart: another tenant waits {:.1} s, {:.1} MiB",
            started.elapsed().as_secs_f64(),
            mebibytes(&restarted)?
        );
        engine = Some(restarted);
    }
    let engine = engine.ok_or("no engine runs")?;
    for number in 0..3 {
        let waited = scene.wait_of_another(&format!("later-{number}")).await;
        println!("  then {:.1} s, {:.1} MiB", waited.as_secs_f64(), mebibytes(&engine)?);
    }
    Ok(())
}

/// Creates an object, also where the connection breaks while the large body is being sent.
async fn create(rest: &Rest, collection: &str, object: &Value) -> Result<(), Failed> {
    const TRIES: u32 = 100;
    let body = serde_json::to_vec(object)?;
    let mut last = String::new();
    for _ in 0..TRIES {
        match rest.call(Method::POST, collection, "application/json", body.clone()).await {
            Ok(answer) if matches!(answer.status, 201 | 409) => return Ok(()),
            Ok(answer) => last = answer.body.to_string(),
            Err(error) => last = error,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err(format!("no object after {TRIES} tries: {last}").into())
}

/// How objects come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    OneByOne,
    AllAtOnce,
}

async fn compare(binary: PathBuf, objects: usize) -> Result<(), Failed> {
    let folder = tempfile::TempDir::new()?;
    let scene = Scene::set(binary, folder.path()).await?;
    let engine = scene.start_engine().await?;
    for arrival in [Arrival::OneByOne, Arrival::AllAtOnce] {
        println!("{objects} objects, {arrival:?}");
        let mut total = [Duration::ZERO; 4];
        for round in 0..ROUNDS {
            let round = format!("{arrival:?}-{round}").to_lowercase();
            let spent = [
                scene.bare(Stack::Engine, arrival, &format!("bare-{round}"), objects).await?,
                scene.bare(Stack::Kube, arrival, &format!("kube-{round}"), objects).await?,
                scene.bare(Stack::KubeWatching, arrival, &format!("watching-{round}"), objects).await?,
                scene.engine(&engine, arrival, &format!("engine-{round}"), objects).await?,
            ];
            for (who, spent) in CLIENTS.iter().chain(&["engine"]).zip(spent) {
                println!("  {who}: {}", each(spent, objects));
            }
            total.iter_mut().zip(spent).for_each(|(total, spent)| *total += spent);
        }
        let [clients @ .., engines] = total.map(|total| total.as_secs_f64());
        for (client, spent) in CLIENTS.iter().zip(clients) {
            println!("  engine / {client}: {:.2}", engines / spent);
        }
    }
    println!("engine's memory at rest: {:.1} MiB", mebibytes(&engine)?);
    scene.with_secrets(&engine, objects).await
}

fn mebibytes(engine: &Engine) -> Result<f64, Failed> {
    Ok(engine.usage()?.memory as f64 / (1024.0 * 1024.0))
}

fn middle_and_most(mut waits: Vec<Duration>) -> String {
    waits.sort_unstable();
    let [middle, most] =
        [waits.len() / 2, waits.len().saturating_sub(1)].map(|at| waits.get(at).map_or(0.0, Duration::as_secs_f64));
    format!("{middle:.1} s in the middle, {most:.1} s at most")
}

fn each(spent: Duration, objects: usize) -> String {
    format!("{:.3} ms of CPU for a new object", spent.as_secs_f64() * 1000.0 / objects as f64)
}

/// The servers and their workspaces.
struct Scene {
    kcp: ApiServer,
    folder: PathBuf,
    api: Api,
    provider: Workspace,
    /// Bound by the consumer whom the engine serves, and by the one whom the bare client serves.
    consumer: Workspace,
    bare: Workspace,
    target: Workspace,
    /// The virtual workspace of the bare client's API.
    bare_endpoint: String,
}

impl Scene {
    async fn set(binary: PathBuf, folder: &Path) -> Result<Scene, Failed> {
        let kcp = ApiServer::start_kcp(binary, folder).await;
        let api = Api::widgets("bench.example.dev".to_owned());
        // The bare client has an API of its own, so that the engine does not serve its objects.
        let bare_api = Api::widgets("bare.example.dev".to_owned());
        let (provider, bare_provider) = (kcp.workspace("provider").await, kcp.workspace("bare-provider").await);
        provider.publish(&api, ADMIN).await;
        bare_provider.publish(&bare_api, ADMIN).await;
        let (consumer, bare) = (kcp.workspace("consumer").await, kcp.workspace("bare").await);
        consumer.bind(&provider.path, &api).await;
        bare.bind(&bare_provider.path, &bare_api).await;
        let target = kcp.workspace("target").await;
        api.install(&target.rest).await;
        bare_api.install(&target.rest).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare"}});
        target.rest.create("/api/v1/namespaces", &namespace).await;
        fs::write(folder.join("kcp.kubeconfig"), kcp.workspace_kubeconfig("root", ADMIN))?;
        fs::write(folder.join("target.kubeconfig"), kcp.workspace_kubeconfig(&target.path, ADMIN))?;
        fs::create_dir_all(folder.join("mappings"))?;
        fs::write(folder.join("mappings/widgets.yaml"), mapping(&api, &provider.path))?;
        let bare_endpoint = endpoint_of(&bare_provider).await;
        Ok(Scene { kcp, folder: folder.to_owned(), api, provider, consumer, bare, target, bare_endpoint })
    }

    /// Starts the engine, and waits until it has served a first object.
    async fn start_engine(&self) -> Result<Engine, Failed> {
        let engine = Engine::start(&self.folder, &self.folder.join("mappings"))?;
        create_object(&self.consumer, &self.api, "first").await;
        self.served("first", 1, Duration::from_secs(90)).await;
        Ok(engine)
    }

    /// How long a new object of the consumer waits for its status.
    async fn wait_of_another(&self, name: &str) -> Duration {
        let begun = Instant::now();
        create_object(&self.consumer, &self.api, name).await;
        self.served(name, 1, PATIENCE).await;
        begun.elapsed()
    }

    /// What each object costs more that has a Secret of its own: the same objects with it and without.
    async fn with_secrets(&self, engine: &Engine, objects: usize) -> Result<(), Failed> {
        self.provider.claim(&self.api, &["secrets"]).await;
        self.consumer.accept(&self.api, &["secrets"]).await;
        fs::write(self.folder.join("mappings/widgets.yaml"), mapping(&self.api, &self.provider.path) + RELATED)?;
        self.create_secret("related").await;
        create_object(&self.consumer, &self.api, "related").await;
        self.copied("related", 1).await;
        for (round, is_related) in [(0, false), (0, true), (1, false), (1, true)] {
            let name = format!("{}-{round}", if is_related { "secret" } else { "plain" });
            let memory = mebibytes(engine)?;
            if is_related {
                for index in 0..objects {
                    self.create_secret(&format!("{name}-{index}")).await;
                }
            }
            let spent = self.engine(engine, Arrival::OneByOne, &name, objects).await?;
            if is_related {
                self.copied(&name, objects).await;
            }
            println!("  {name}: {}, {:.1} MiB more", each(spent, objects), mebibytes(engine)? - memory);
        }
        Ok(())
    }

    async fn create_secret(&self, of: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{of}-login")}, "data": {"password": "cGFzc3dvcmQ="},
        });
        self.consumer.rest.create("/api/v1/namespaces/default/secrets", &secret).await;
    }

    /// Waits until so many Secrets of objects with this name are copied.
    async fn copied(&self, name: &str, objects: usize) {
        within(PATIENCE, "every Secret is copied", async || {
            let all = self.target.rest.list("/api/v1/secrets").await;
            let copies = all.iter().filter_map(|one| one["metadata"]["name"].as_str());
            let copied = copies.filter(|copy| copy.starts_with(name)).count();
            (copied == objects).then_some(()).ok_or_else(|| format!("{copied} of {objects}"))
        })
        .await;
    }

    async fn served(&self, name: &str, objects: usize, patience: Duration) {
        are_served(&self.consumer, &self.api, name, objects, patience).await;
    }

    async fn engine(&self, engine: &Engine, arrival: Arrival, name: &str, objects: usize) -> Result<Duration, Failed> {
        let before = engine.usage()?;
        let process = i32::try_from(engine.id()).ok().and_then(Pid::from_raw).ok_or("the engine has no process")?;
        if arrival == Arrival::AllAtOnce {
            kill_process(process, Signal::STOP)?;
        }
        for index in 0..objects {
            create_object(&self.consumer, &self.api, &format!("{name}-{index}")).await;
        }
        if arrival == Arrival::AllAtOnce {
            kill_process(process, Signal::CONT)?;
        }
        self.served(name, objects, PATIENCE).await;
        Ok(engine.usage()?.cpu - before.cpu)
    }

    async fn bare(&self, stack: Stack, arrival: Arrival, name: &str, objects: usize) -> Result<Duration, Failed> {
        let api = Api::widgets("bare.example.dev".to_owned());
        let base = self.bare_endpoint.split("/services/").next().unwrap_or_default();
        let orders = Orders {
            stack,
            kubeconfig: self.folder.join("kcp.kubeconfig"),
            everywhere: format!("{}/clusters/*", self.bare_endpoint),
            upstream: format!("{}/clusters/{}", self.bare_endpoint, self.bare.cluster),
            downstream: format!("{base}/clusters/{}", self.target.path),
            group: api.group.clone(),
            namespace: "bare".to_owned(),
        };
        let file = self.folder.join("orders.json");
        fs::write(&file, serde_json::to_vec(&orders)?)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ORDERS).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn()?;
        let mut arriving = client.stdin.take().ok_or("the client has no standard input")?;
        let mut held_up = String::new();
        for index in 0..objects {
            let name = format!("{name}-{index}");
            let object = create_object(&self.bare, &api, &name).await;
            let line = format!("{name} {}\n", object["metadata"]["resourceVersion"].as_str().unwrap_or_default());
            match arrival {
                Arrival::OneByOne => arriving.write_all(line.as_bytes())?,
                Arrival::AllAtOnce => held_up.push_str(&line),
            }
        }
        arriving.write_all(held_up.as_bytes())?;
        drop(arriving);
        let output = client.wait_with_output()?;
        let spent: u64 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
        Ok(Duration::from_millis(spent))
    }
}

async fn create_object(workspace: &Workspace, api: &Api, name: &str) -> Value {
    workspace.rest.create(&api.collection("default"), &api.object(name, spec())).await
}

/// Waits until so many objects of a workspace whose names begin like this have a first status.
async fn are_served(workspace: &Workspace, api: &Api, name: &str, objects: usize, patience: Duration) {
    within(patience, "every object has a status", async || {
        let all = workspace.rest.list(&api.collection("default")).await;
        let is_served = |one: &&Value| {
            let is_it = one["metadata"]["name"].as_str().is_some_and(|full| full.starts_with(name));
            is_it && one["status"]["phase"].is_string()
        };
        let served = all.iter().filter(is_served).count();
        (served == objects).then_some(()).ok_or_else(|| format!("{served} of {objects}"))
    })
    .await;
}

/// The virtual workspace of an export, as its endpoint slice names it.
async fn endpoint_of(provider: &Workspace) -> String {
    eventually("the export has an endpoint", async || {
        let slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/widgets";
        let slice = provider.rest.get(slices).await.ok_or("there is no endpoint slice")?;
        slice["status"]["endpoints"][0]["url"].as_str().map(str::to_owned).ok_or_else(|| slice["status"].to_string())
    })
    .await
}

/// What each object says.
fn spec() -> Value {
    json!({
        "size": 3, "big": 9_007_199_254_740_993_i64, "version": "6.0.5", "note": "as much as a small database says",
        "tags": ["a", "b", "c"], "labels": {"team": "payments", "tier": "gold"},
    })
}

fn mapping(api: &Api, provider: &str) -> String {
    format!(
        r#"apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {{name: widgets}}
spec:
  source:
    apiExport: {{name: widgets, path: "{provider}"}}
    resource: {resource}
  objects:
    - id: widget
      template:
        apiVersion: {group}/v1
        kind: Widget
        spec: ${{{{ source.spec }}}}
  status:
    fields:
      phase: {{path: $.status.phase, default: Pending}}
"#,
        resource = api.resource(),
        group = api.group,
    )
}

/// Ends the mapping: a Secret for each object that has one.
const RELATED: &str = r#"  related:
    - id: login
      direction: ToTarget
      resource: secrets.v1
      from: {name: "{{ source.metadata.name }}-login"}
      to: {name: "{{ placement.name }}-login"}
      onMissing: Skip
"#;
