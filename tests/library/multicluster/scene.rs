//! What the tests share: connections from files that they write, and waiting for something to become true.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sync_engine::mapping::Resource;
use sync_engine::mapping::compile::parse_resource;
use sync_engine::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use sync_engine::multicluster::registry::{ClustersOf, WatchScope};
use sync_engine::multicluster::watch::{Watch, WatchState};
use sync_engine::multicluster::{Endpoint, Store};
use sync_engine::object::{ClusterName, Key};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Long enough for a busy machine; reached by failing tests only.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with a kubeconfig.
pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn with(kubeconfig: &str) -> Self {
        let folder = Self::new();
        folder.write("kubeconfig", kubeconfig);
        folder
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file is written");
        path
    }

    pub fn spec(&self, context: Option<&str>) -> ConnectionSpec {
        let path = self.0.path().join("kubeconfig");
        ConnectionSpec {
            name: "kcp".into(),
            source: ConnectionSource::Kubeconfig { path, context: context.map(Into::into) },
        }
    }

    pub fn connection(&self) -> Arc<Connection> {
        Connection::open(self.spec(None)).expect("a connection")
    }
}

/// A connection by a kubeconfig that need not stay.
pub fn connection(kubeconfig: &str) -> Arc<Connection> {
    Folder::with(kubeconfig).connection()
}

/// A kubeconfig of one server and one user.
pub fn kubeconfig(server: &str, user: Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    })
    .to_string()
}

/// Serves each connection to a free port in a task of its own, until the tasks are dropped.
pub async fn listen<F>(mut serve: impl FnMut(TcpStream) -> F + Send + 'static) -> (SocketAddr, JoinSet<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.spawn(serve(stream));
        }
    });
    (address, tasks)
}

/// A server of one function, on a free port.
pub struct Server {
    pub url: String,
    _tasks: JoinSet<()>,
}

pub async fn serve<F>(answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static) -> Server
where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let (address, tasks) = listen(move |stream| converse(stream, answer.clone())).await;
    Server { url: format!("http://{address}"), _tasks: tasks }
}

/// Answers the requests of one connection, until the client goes.
pub async fn converse<F>(stream: TcpStream, answer: impl Fn(Request<Incoming>) -> F)
where
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |request| answer(request).map(Ok::<_, Infallible>));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

pub fn resource(text: &str) -> Resource {
    parse_resource(text).expect("a resource")
}

pub fn cluster(name: &str) -> ClusterName {
    ClusterName::try_from(name).expect("a cluster's name")
}

pub fn key(of: &str, namespace: &str, name: &str) -> Key {
    Key::new(cluster(of), namespace, name)
}

/// A scope of one plain cluster called `here`.
pub fn plain_scope(endpoint: Endpoint) -> WatchScope {
    WatchScope { endpoint, clusters: ClustersOf::One(cluster("here")) }
}

/// Waits until the store satisfies a condition.
pub async fn until(store: &Arc<Store>, what: &str, condition: impl Fn(&Store) -> bool) {
    let changed = Arc::new(Notify::new());
    let notify = changed.clone();
    let _subscription = store.subscribe(move |_| notify.notify_one());
    let wait = async {
        while !condition(store) {
            changed.notified().await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, wait).await;
    assert!(in_time.is_ok(), "{what}: {:?}", store.keys());
}

/// Waits until a watch is in a state.
pub async fn until_state(watch: &Watch, what: &str, condition: impl Fn(&WatchState) -> bool) {
    let mut changes = watch.changes();
    let wait = async {
        while !condition(&watch.state()) {
            changes.advanced().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what}: {:?}", watch.state());
}
