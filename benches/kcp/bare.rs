//! A client that sends what the engine sends for each new object, and does nothing else: no watch, no cache, no mapping.
//! It uses the engine's own HTTP stack, in a process of its own, so that the difference is what the engine itself costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sync_engine::mapping::Resource;
use sync_engine::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use sync_engine::multicluster::{ApiPath, Body, Endpoint};

use crate::usage::Usage;

/// As many objects are under way as the engine works on by default.
const AT_ONCE: usize = 8;
const MANAGER: &str = "sync-engine/main/widgets";

/// What the client is told, in a file.
#[derive(Serialize, Deserialize)]
pub struct Orders {
    pub kubeconfig: PathBuf,
    /// The consumer's workspace, through the export's virtual workspace.
    pub upstream: String,
    pub downstream: String,
    pub group: String,
    /// Namespace of the downstream objects.
    pub namespace: String,
    /// Names and versions of the consumer's objects.
    pub objects: Vec<(String, String)>,
}

/// Carries out the orders in a file, and says how much CPU that took.
pub async fn run(orders: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let orders: Arc<Orders> = Arc::new(serde_json::from_slice(&fs::read(orders)?)?);
    let source = ConnectionSource::Kubeconfig { path: orders.kubeconfig.clone(), context: None };
    let connection = Connection::open(ConnectionSpec { name: "kcp".into(), source })?;
    let upstream = connection.endpoint_at(&orders.upstream)?;
    let downstream = connection.endpoint_at(&orders.downstream)?;
    let before = Usage::of(std::process::id())?;
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (orders, next) = (orders.clone(), next.clone());
        let (upstream, downstream) = (upstream.clone(), downstream.clone());
        workers.spawn(async move {
            while let Some((name, version)) = orders.objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                sync(&orders, &upstream, &downstream, name, version).await?;
            }
            Ok::<(), Failed>(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended?.map_err(|error| error.to_string())?;
    }
    Ok(Usage::of(std::process::id())?.cpu - before.cpu)
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Finalizer; look, then apply; first status.
async fn sync(
    orders: &Orders,
    upstream: &Endpoint,
    downstream: &Endpoint,
    name: &str,
    version: &str,
) -> Result<(), Failed> {
    let widgets = Resource { group: orders.group.clone(), version: "v1".into(), plural: "widgets".into() };
    let source = ApiPath::object(&widgets, "default", name)?;
    let target = ApiPath::object(&widgets, &orders.namespace, name)?;
    let finalizer = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/finalizers", "value": ["sync-engine.dev/main.widgets"]},
        {"op": "add", "path": "/metadata/annotations/target.sync-engine.dev~1main.widgets", "value": "0123456789abcdef"},
    ]);
    upstream.patch(&source, MANAGER, Body::json_patch(finalizer.to_string())).await?;
    if downstream.get(&target).await.is_ok() {
        return Err(format!("{name} stands downstream already").into());
    }
    downstream.apply(&target, MANAGER, false, body(orders, name).to_string()).await?;
    let status = json!([{"op": "add", "path": "/status", "value": {"phase": "Pending"}}]);
    upstream.patch(&source.status(), MANAGER, Body::json_patch(status.to_string())).await?;
    Ok(())
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
