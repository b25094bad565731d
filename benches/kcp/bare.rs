//! A client that sends what the engine sends for each new object, and does nothing else: no cache, no mapping. It runs in
//! a process of its own: with the engine's HTTP stack, which reads no answer, so that the difference is what the engine
//! itself costs; with kube's `Api`, as a controller written by hand has it; and with kube and the two watches that the
//! engine holds open meanwhile, whose events it receives and drops. Its objects come on standard input, a line each
//! (name, a space, version), when the consumer creates them.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::{AsyncBufReadExt as _, TryStreamExt, io, stream};
use http::Request;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sync_engine::mapping::Resource;
use sync_engine::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use sync_engine::multicluster::{ApiPath, Body, Endpoint};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::usage::Usage;

/// As many objects are under way as the engine works on by default.
const AT_ONCE: usize = 8;
const MANAGER: &str = "sync-engine/main/widgets";

/// With what the requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stack {
    Engine,
    Kube,
    KubeWatching,
}

/// What the client is told, in a file.
#[derive(Serialize, Deserialize)]
pub struct Orders {
    pub stack: Stack,
    pub kubeconfig: PathBuf,
    /// All workspaces, through the export's virtual workspace.
    pub everywhere: String,
    /// The consumer's workspace, likewise.
    pub upstream: String,
    pub downstream: String,
    pub group: String,
    /// Namespace of the downstream objects.
    pub namespace: String,
}

/// Carries out the orders in a file for every object that comes, and says how much CPU that took.
pub async fn run(orders: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let orders: Orders = serde_json::from_slice(&fs::read(orders)?)?;
    match orders.stack {
        Stack::Engine => {
            let source = ConnectionSource::Kubeconfig { path: orders.kubeconfig.clone(), context: None };
            let connection = Connection::open(ConnectionSpec { name: "kcp".into(), source })?;
            let upstream = connection.endpoint_at(&orders.upstream)?;
            let downstream = connection.endpoint_at(&orders.downstream)?;
            measured(async |object| sync(&orders, &upstream, &downstream, object).await).await
        }
        Stack::Kube | Stack::KubeWatching => {
            let upstream = kube_client(&orders.kubeconfig, &orders.upstream).await?;
            let downstream = kube_client(&orders.kubeconfig, &orders.downstream).await?;
            let mut watches = JoinSet::new();
            if orders.stack == Stack::KubeWatching {
                let everywhere = kube_client(&orders.kubeconfig, &orders.everywhere).await?;
                watch(&mut watches, everywhere, &orders.group).await?;
                watch(&mut watches, downstream.clone(), &orders.group).await?;
            }
            measured(async |object| sync_with_kube(&orders, &upstream, &downstream, object).await).await
        }
    }
}

/// What a watch on all widgets tells, line by line, and when each came. `server`: an address, or the path of a workspace.
pub async fn lines(
    kubeconfig: &Path,
    server: &str,
    group: &str,
) -> Result<UnboundedReceiver<(String, Instant)>, Box<dyn std::error::Error>> {
    let client = kube_client(kubeconfig, server).await?;
    let watch = format!("/apis/{group}/v1/widgets?watch=true&allowWatchBookmarks=true");
    let mut lines = client.request_stream(Request::get(watch).body(vec![])?).await?.lines();
    let (told, names) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.try_next().await {
            let _ = told.send((line, Instant::now()));
        }
    });
    Ok(names)
}

/// Opens a watch from now on, and drops what comes.
async fn watch(watches: &mut JoinSet<()>, client: kube::Client, group: &str) -> Result<(), Box<dyn std::error::Error>> {
    let collection = format!("/apis/{group}/v1/widgets");
    let list: serde_json::Value = client.request(Request::get(format!("{collection}?limit=1")).body(vec![])?).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={version}");
    let events = client.request_stream(Request::get(format!("{collection}?{query}")).body(vec![])?).await?;
    watches.spawn(async move {
        if let Err(error) = io::copy(events, &mut io::sink()).await {
            eprintln!("a watch has broken: {error}");
        }
    });
    Ok(())
}

/// Carries out a task for every object that comes, as many at once as the engine does, and says how much CPU that took.
async fn measured(
    sync: impl AsyncFn((&str, &str)) -> Result<(), Failed>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let arriving = Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)?;
    let before = Usage::of(std::process::id())?;
    let objects = stream::try_unfold(BufReader::new(arriving).lines(), async |mut lines| {
        Ok::<_, Failed>(lines.next_line().await?.map(|line| (line, lines)))
    });
    let each = async |line: String| sync(line.split_once(' ').ok_or("a line is a name and a version")?).await;
    let ended = objects.try_for_each_concurrent(AT_ONCE, each).await;
    ended.map_err(|error| error.to_string())?;
    Ok(Usage::of(std::process::id())?.cpu - before.cpu)
}

async fn kube_client(kubeconfig: &Path, server: &str) -> Result<kube::Client, Box<dyn std::error::Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.cluster_url = match server.contains("://") {
        true => server.parse()?,
        false => {
            format!("{}clusters/{server}", config.cluster_url.to_string().split("clusters/").next().unwrap_or_default())
                .parse()?
        }
    };
    Ok(kube::Client::try_from(config)?)
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Finalizer; look, then apply; first status.
async fn sync(
    orders: &Orders,
    upstream: &Endpoint,
    downstream: &Endpoint,
    (name, version): (&str, &str),
) -> Result<(), Failed> {
    let widgets = Resource { group: orders.group.clone(), version: "v1".into(), plural: "widgets".into() };
    let source = ApiPath::object(&widgets, "default", name)?;
    let target = ApiPath::object(&widgets, &orders.namespace, name)?;
    upstream.patch(&source, MANAGER, Body::json_patch(finalizer(version).to_string())).await?;
    if downstream.get(&target).await.is_ok() {
        return Err(format!("{name} stands downstream already").into());
    }
    downstream.apply(&target, MANAGER, false, body(orders, name).to_string()).await?;
    upstream.patch(&source.status(), MANAGER, Body::json_patch(status().to_string())).await?;
    Ok(())
}

/// The same with kube.
async fn sync_with_kube(
    orders: &Orders,
    upstream: &kube::Client,
    downstream: &kube::Client,
    (name, version): (&str, &str),
) -> Result<(), Failed> {
    let widgets = ApiResource {
        group: orders.group.clone(),
        version: "v1".into(),
        api_version: format!("{}/v1", orders.group),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let targets: Api<DynamicObject> = Api::namespaced_with(downstream.clone(), &orders.namespace, &widgets);
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let source = format!("/apis/{}/v1/namespaces/default/widgets/{name}", orders.group);
    upstream.request::<DynamicObject>(json_patch(&source, &finalizer(version))?).await?;
    if targets.get_opt(name).await?.is_some() {
        return Err(format!("{name} stands downstream already").into());
    }
    targets.patch(name, &params, &Patch::Apply(body(orders, name))).await?;
    upstream.request::<DynamicObject>(json_patch(&format!("{source}/status"), &status())?).await?;
    Ok(())
}

fn json_patch(path: &str, operations: &serde_json::Value) -> Result<http::Request<Vec<u8>>, Failed> {
    let patch = http::Request::patch(format!("{path}?fieldManager={MANAGER}"));
    Ok(patch.header("content-type", "application/json-patch+json").body(operations.to_string().into_bytes())?)
}

fn finalizer(version: &str) -> serde_json::Value {
    json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/finalizers", "value": ["sync-engine.dev/main.widgets"]},
        {"op": "add", "path": "/metadata/annotations/target.sync-engine.dev~1main.widgets", "value": "0123456789abcdef"},
    ])
}

fn status() -> serde_json::Value {
    json!([{"op": "add", "path": "/status", "value": {"phase": "Pending"}}])
}

/// As large as what the engine applies, marks included.
fn body(orders: &Orders, name: &str) -> serde_json::Value {
    json!({
        "apiVersion": format!("{}/v1", orders.group), "kind": "Widget",
        "metadata": {
            "name": name, "namespace": orders.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "bare-client", "sync-engine.dev/mapping": "main.bare",
                "sync-engine.dev/owner": "aaaaaaaaaaaaaaaaaaaaaaaaaa",
            },
            "annotations": {
                "sync-engine.dev/cluster": "2mmfy5ojd51ixd1e", "sync-engine.dev/hash": "aaaaaaaaaaaaaaaa",
                "sync-engine.dev/name": name, "sync-engine.dev/namespace": "default", "sync-engine.dev/object": "widget",
                "sync-engine.dev/self": "aaaaaaaaaaaaaaaaaaaaaaaaaa", "sync-engine.dev/workspace": "root:consumer",
                "sync-engine.dev/source-uid": "00000000-0000-0000-0000-000000000000",
            },
        },
        "spec": super::spec(),
    })
}
