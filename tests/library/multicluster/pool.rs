//! Connections that stay open: used again, given up, and closed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use serde_json::json;
use sync_engine::multicluster::{ApiPath, Endpoint, RequestError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::multicluster::scene::{PATIENCE, connection, converse, kubeconfig, listen, resource};

/// A server that answers every request with the same bytes, written in pieces.
struct Server {
    endpoint: Endpoint,
    connections: Arc<AtomicUsize>,
    /// Tells of each connection that has ended.
    ended: mpsc::UnboundedReceiver<()>,
    _tasks: JoinSet<()>,
}

/// What the server does behind an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Close,
}

impl Server {
    async fn start(answer: &'static [&'static str], then: Then) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let (tell, ended) = mpsc::unbounded_channel();
        let counter = connections.clone();
        let (address, tasks) = listen(move |stream| {
            counter.fetch_add(1, Ordering::SeqCst);
            let tell = tell.clone();
            async move {
                serve(stream, answer, then).await;
                let _ = tell.send(());
            }
        })
        .await;
        let endpoint = connection(&kubeconfig(&format!("http://{address}"), json!({}))).endpoint();
        Self { endpoint, connections, ended, _tasks: tasks }
    }

    async fn get(&self) -> Result<String, RequestError> {
        let path = ApiPath::collection(&resource("configmaps.v1"), "default").unwrap();
        let reply = self.endpoint.get(&path).await?;
        Ok(String::from_utf8(reply.body.to_vec()).unwrap())
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    async fn one_has_ended(&mut self) {
        tokio::time::timeout(PATIENCE, self.ended.recv()).await.expect("in time").expect("the server runs");
    }
}

/// Reads requests without a body until the client goes.
async fn serve(mut stream: TcpStream, answer: &[&str], then: Then) {
    let mut read = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut read).await {
        if !read.ends_with(b"\r\n\r\n") {
            continue;
        }
        read.clear();
        for piece in answer {
            if stream.write_all(piece.as_bytes()).await.is_err() {
                return;
            }
            // Each piece is read for itself, or some together: either has to do.
            turn().await;
        }
        if then == Then::Close {
            return;
        }
    }
}

/// Lets everybody else go on, and has the runtime look at its sockets.
async fn turn() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_that_follow_each_other_share_a_connection() {
    let server = Server::start(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"], Then::GoOn).await;
    for _ in 0..10 {
        assert_eq!(server.get().await.unwrap(), "{}");
    }
    assert_eq!(server.connections(), 1);
    let at_once = futures::future::join_all((0..3).map(|_| server.get())).await;
    assert!(at_once.iter().all(Result::is_ok));
    assert_eq!(server.connections(), 3, "one was there");
    let more = futures::future::join_all((0..3).map(|_| server.get())).await;
    assert!(more.iter().all(Result::is_ok));
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn answers_without_success_are_read_to_their_end_as_well() {
    let server = Server::start(&["HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n", "{}"], Then::GoOn).await;
    for _ in 0..3 {
        assert_eq!(server.get().await.unwrap_err().code(), Some(404));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_not_used_again() {
    for answer in [
        &["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"][..],
        &["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"],
        &["HTTP/1.0 200 OK\r\n\r\n", "{}"],
    ] {
        let mut server = Server::start(answer, Then::Close).await;
        for connections in 1..4 {
            assert_eq!(server.get().await.unwrap(), "{}");
            assert_eq!(server.connections(), connections);
            server.one_has_ended().await;
            turn().await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_does_not_end_in_time_is_given_up_with_its_connection() {
    let mut server = Server::start(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{"], Then::GoOn).await;
    let path = ApiPath::collection(&resource("configmaps.v1"), "default").unwrap();
    let request = server.endpoint.request(http::Method::GET, &path, None, Duration::from_millis(50));
    let error = request.await.unwrap_err();
    assert!(matches!(&error, RequestError::Body { reason, .. } if reason == "it did not end in time"), "{error}");
    server.one_has_ended().await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for (answer, reason) in [
        (&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{"][..], "body"),
        (&["HTTP/1.1 200 OK\r\n"], "head"),
        (&["no HTTP\r\n\r\n"], "head"),
        (&[], "head"),
    ] {
        let server = Server::start(answer, Then::Close).await;
        match (server.get().await.unwrap_err(), reason) {
            (RequestError::Body { .. }, "body") | (RequestError::AnswerLost { .. }, "head") => {}
            (error, _) => panic!("{error}"),
        }
    }
}

/// An address that leads each new connection to a cluster of one's choice, as a load balancer may.
struct Switch {
    endpoint: Endpoint,
    /// Identity of the cluster that the next connection leads to.
    leads_to: Arc<Mutex<&'static str>>,
    /// Methods and paths that arrived, by cluster.
    heard: Arc<Mutex<Vec<(&'static str, String)>>>,
    /// Rings when every open connection is to be cut.
    cut: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Switch {
    async fn start() -> Self {
        let (leads_to, heard, cut) = (Arc::new(Mutex::new("right")), Arc::default(), Arc::<Notify>::default());
        let (to, ears, scissors) = (leads_to.clone(), Arc::clone(&heard), cut.clone());
        let (address, tasks) = listen(move |stream| {
            let (cluster, ears, scissors) = (*to.lock().unwrap(), Arc::clone(&ears), scissors.clone());
            async move {
                tokio::select! {
                    () = scissors.notified() => {}
                    () = converse(stream, |request| be(cluster, request, &ears)) => {}
                }
            }
        })
        .await;
        let endpoint = connection(&kubeconfig(&format!("http://{address}"), json!({}))).endpoint().leading_to("right");
        Self { endpoint, leads_to, heard, cut, _tasks: tasks }
    }

    fn lead_to(&self, cluster: &'static str) {
        *self.leads_to.lock().unwrap() = cluster;
        self.cut.notify_waiters();
    }

    async fn create(&self) -> Result<(), RequestError> {
        let path = ApiPath::collection(&resource("configmaps.v1"), "default").unwrap();
        self.endpoint.create(&path, "test", "{}".into()).await.map(drop)
    }

    /// What arrived since the last call.
    fn heard(&self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

/// Answers as a cluster whose `kube-system` has its name for a uid. The one called `empty` has nothing.
async fn be(
    cluster: &'static str,
    request: Request<Incoming>,
    heard: &Mutex<Vec<(&'static str, String)>>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    heard.lock().unwrap().push((cluster, format!("{} {path}", request.method())));
    // To its end, so that the connection is free for the next one.
    request.into_body().collect().await.expect("the request is read");
    if cluster == "empty" {
        let name = path.rsplit('/').next();
        let missing = json!({"kind": "Status", "reason": "NotFound", "code": 404, "details": {"name": name}});
        return Response::builder().status(404).body(Full::from(missing.to_string())).expect("an answer");
    }
    Response::new(Full::from(json!({"metadata": {"uid": cluster}}).to_string()))
}

const LOOK: &str = "GET /api/v1/namespaces/kube-system";
const CREATE: &str = "POST /api/v1/namespaces/default/configmaps";

fn all(cluster: &'static str, requests: &[&str]) -> Vec<(&'static str, String)> {
    requests.iter().map(|request| (cluster, (*request).to_owned())).collect()
}

#[tokio::test]
async fn a_new_connection_carries_no_request_before_it_says_that_it_leads_to_the_cluster() {
    let switch = Switch::start().await;
    for _ in 0..3 {
        switch.create().await.unwrap();
    }
    assert_eq!(switch.heard(), all("right", &[LOOK, CREATE, CREATE, CREATE]), "it is asked once");

    let mut doubts = switch.endpoint.connection().identity().doubts();
    switch.lead_to("wrong");
    turn().await;
    let error = switch.create().await.unwrap_err();
    assert!(error.is_not_permitted(), "{error}");
    assert_eq!(switch.heard(), all("wrong", &[LOOK]), "no write arrives elsewhere");
    assert!(doubts.is_behind(), "whoever knows the cluster looks again");
    doubts.catch_up();

    switch.lead_to("right");
    turn().await;
    switch.create().await.unwrap();
    assert_eq!(switch.heard(), all("right", &[LOOK, CREATE]));
}

/// What is missing there is no evidence, whatever it is called.
#[tokio::test]
async fn nothing_is_read_over_a_connection_that_leads_elsewhere() {
    // Where it leads, the object that is asked for, and what arrives there.
    let rows = [
        ("wrong", "a", &[LOOK][..]),
        // A missing namespace `default` is no missing object of this name.
        ("empty", "default", &[LOOK, "GET /api/v1/namespaces/default"]),
    ];
    for (cluster, name, heard) in rows {
        let switch = Switch::start().await;
        switch.lead_to(cluster);
        let path = ApiPath::object(&resource("configmaps.v1"), "default", name).unwrap();
        let error = switch.endpoint.get(&path).await.unwrap_err();
        assert!(error.is_not_permitted(), "{cluster}: {error}");
        assert_eq!(switch.heard(), all(cluster, heard));
    }
}
