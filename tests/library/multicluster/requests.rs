//! Requests: deadlines, retries and limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Response};
use serde_json::{Value, json};
use sync_engine::multicluster::endpoint::DeleteOptions;
use sync_engine::multicluster::permit::Lease;
use sync_engine::multicluster::{ApiPath, Body, Endpoint, RequestError};
use sync_engine::sandbox::{ApiRef, Failure, Fault, Options, Sandbox};
use tokio::sync::{Barrier, Notify, Semaphore};
use tokio::task::JoinSet;

use crate::multicluster::scene::{Folder, PATIENCE, Server, connection, kubeconfig, resource, serve};

const CONFIG_MAPS: ApiRef<'static> = ApiRef { cluster: "", resource: "configmaps.v1" };

async fn sandbox() -> (Sandbox, Endpoint) {
    let sandbox = Options::kubernetes().start().await.expect("a sandbox");
    let endpoint = connection(&sandbox.kubeconfig(None)).endpoint();
    (sandbox, endpoint)
}

fn config_map(name: &str) -> ApiPath {
    ApiPath::object(&resource("configmaps.v1"), "default", name).unwrap()
}

fn body(name: &str, value: &str) -> Bytes {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"key": value},
    });
    object.to_string().into()
}

fn read(reply: &[u8]) -> Value {
    serde_json::from_slice(reply).expect("JSON")
}

#[tokio::test]
async fn objects_are_created_read_patched_applied_and_deleted() {
    let (_sandbox, endpoint) = sandbox().await;
    let collection = ApiPath::collection(&resource("configmaps.v1"), "default").unwrap();
    let created = endpoint.create(&collection, "me/main", body("a", "1")).await.unwrap();
    assert_eq!(
        (created.status, &read(&created.body)["metadata"]["managedFields"][0]["manager"]),
        (201, &json!("me/main"))
    );
    let patch = r#"[{"op": "replace", "path": "/data/key", "value": "2"}]"#;
    endpoint.patch(&config_map("a"), "me", Body::json_patch(patch)).await.unwrap();
    let got = endpoint.get(&config_map("a")).await.unwrap();
    assert_eq!(read(&got.body)["data"]["key"], "2");
    let conflict = endpoint.apply(&config_map("a"), "other", false, body("a", "3")).await.unwrap_err();
    assert!(conflict.is_conflict(), "{conflict}");
    let applied = endpoint.apply(&config_map("a"), "other", true, body("a", "3")).await.unwrap();
    let uid = read(&applied.body)["metadata"]["uid"].as_str().unwrap().to_owned();
    let version = read(&applied.body)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let wrong = DeleteOptions { uid: "not-it", resource_version: &version, propagation: "Background" };
    assert!(endpoint.delete(&config_map("a"), wrong).await.unwrap_err().is_conflict());
    let late = DeleteOptions { uid: &uid, resource_version: "1", ..wrong };
    assert!(endpoint.delete(&config_map("a"), late).await.unwrap_err().is_conflict(), "of an earlier version");
    endpoint.delete(&config_map("a"), DeleteOptions { uid: &uid, ..wrong }).await.unwrap();
    let gone = endpoint.get(&config_map("a")).await.unwrap_err();
    assert!(gone.is_not_found_of("a"), "{gone}");
    let counted: Vec<_> = endpoint.connection().counters().snapshot();
    let expected = [
        ("apply", 200, 1),
        ("apply", 409, 1),
        ("create", 201, 1),
        ("delete", 200, 1),
        ("delete", 409, 2),
        ("get", 200, 1),
        ("get", 404, 1),
        ("patch", 200, 1),
    ];
    assert_eq!(counted, expected);
    let timed = endpoint.connection().counters().latencies();
    let timed = |verb| timed.get(verb).map(|latency| latency.buckets.iter().sum::<u64>());
    assert_eq!((timed("delete"), timed("patch"), timed("watch")), (Some(3), Some(1), None));
}

#[tokio::test]
async fn lost_answers_and_servers_that_are_away_are_told_apart() {
    let (mut sandbox, endpoint) = sandbox().await;
    let collection = ApiPath::collection(&resource("configmaps.v1"), "default").unwrap();
    sandbox.faults().next(1, |call| call.resource == "configmaps", Fault::DropAfter);
    let lost = endpoint.create(&collection, "me", body("a", "1")).await.unwrap_err();
    assert!(matches!(lost, RequestError::AnswerLost { .. }), "{lost}");
    assert!(sandbox.get(CONFIG_MAPS, "default", "a").is_some(), "it was applied");

    sandbox.faults().next(1, |call| call.resource == "configmaps", Fault::Delay(Duration::from_secs(3600)));
    let late = endpoint.request(Method::GET, &config_map("a"), None, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(late, RequestError::AnswerLost { .. }), "{late}");

    sandbox.disconnect().await;
    let away = endpoint.create(&collection, "me", body("b", "1")).await.unwrap_err();
    assert!(matches!(away, RequestError::Unreachable { .. }), "{away}");
}

#[tokio::test]
async fn errors_of_addresses_in_words() {
    let error = async |server: &str| {
        let endpoint = connection(&kubeconfig(server, json!({}))).endpoint();
        endpoint.get(&config_map("a")).await.unwrap_err().to_string()
    };
    insta::assert_snapshot!(error("http://no-such-host.invalid").await, @"cannot reach http://no-such-host.invalid/api/v1/namespaces/default/configmaps/a: the host name cannot be resolved");
    let open = connection(&kubeconfig("http://192.0.2.1", json!({"token": "t"}))).endpoint();
    let refusal = open.get(&config_map("a")).await.unwrap_err().to_string();
    insta::assert_snapshot!(refusal, @"no credential for http://192.0.2.1/api/v1/namespaces/default/configmaps/a: the address is plain http, where everybody on the way can read it: use https");
    let (sandbox, _) = sandbox().await;
    let https = sandbox.url().replace("http:", "https:");
    insta::assert_snapshot!(error(&https).await.replace(&https, "URL"), @"cannot reach URL/api/v1/namespaces/default/configmaps/a: the server does not speak TLS: is it `http` instead of `https`?");
    let endpoint = connection(&kubeconfig("http://127.0.0.1:1", json!({"tokenFile": "nowhere"}))).endpoint();
    let error = endpoint.get(&config_map("a")).await.unwrap_err().to_string();
    let folder = error.split("token file ").nth(1).and_then(|rest| rest.split("/nowhere").next()).unwrap().to_owned();
    insta::assert_snapshot!(error.replace(&folder, "DIR"), @"no credential for http://127.0.0.1:1/api/v1/namespaces/default/configmaps/a: cannot read the token file DIR/nowhere: No such file or directory (os error 2)");
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_no_write_to_that_cluster_and_reads_go_on() {
    let sandbox = Options::kcp().start().await.expect("a sandbox");
    let address = connection(&sandbox.kubeconfig(None)).endpoint_at(&sandbox.url()).expect("an address");
    let [one, other] = ["one", "other"]
        .map(|name| address.at(&format!("clusters/{}", sandbox.create_workspace("root", name).expect("a workspace"))));
    sandbox.faults().next(1, |call| call.resource == "configmaps", Fault::Refuse(Failure::too_many_requests(1)));
    let refused = one.apply(&config_map("a"), "me", true, body("a", "1")).await.unwrap_err();
    assert_eq!((refused.code(), refused.retry_after()), (Some(429), Some(Duration::from_secs(1))));
    let before = tokio::time::Instant::now();
    let (late, early, read) = tokio::join!(
        async { (one.apply(&config_map("a"), "me", true, body("a", "1")).await, before.elapsed()) },
        async { (other.apply(&config_map("a"), "me", true, body("a", "1")).await, before.elapsed()) },
        async { (one.get(&config_map("b")).await, before.elapsed()) },
    );
    assert!(late.0.is_ok() && early.0.is_ok() && read.0.is_err(), "{:?} {:?} {:?}", late.0, early.0, read.0);
    assert!(late.1 >= Duration::from_millis(900), "{:?}", late.1);
    assert!(early.1 < late.1 && read.1 < late.1, "{:?} {:?} {:?}", early.1, read.1, late.1);
}

#[tokio::test]
async fn a_write_that_waits_for_a_slot_heeds_the_pause_that_the_server_asks_for_meanwhile() {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let log = arrived.clone();
    let busy = serve(move |_| {
        let log = log.clone();
        async move {
            let mut log = log.lock().unwrap();
            log.push(std::time::Instant::now());
            let mut answer = Response::new(Full::new(Bytes::from_static(b"{}")));
            if log.len() <= 4 {
                *answer.status_mut() = hyper::StatusCode::TOO_MANY_REQUESTS;
                answer.headers_mut().insert("retry-after", "1".parse().expect("a header"));
            }
            answer
        }
    })
    .await;
    let endpoint = connection(&kubeconfig(&busy.url, json!({}))).endpoint();
    let path = config_map("a");
    let writes: Vec<_> =
        (0..5).map(|n| endpoint.apply(&path, "me", true, format!(r#"{{"data": {{"key": "{n}"}}}}"#))).collect();
    futures::future::join_all(writes).await;
    let arrived = arrived.lock().unwrap();
    assert_eq!(arrived.len(), 5);
    assert!(arrived[4] - arrived[0] >= Duration::from_millis(900), "the fifth waited for a slot first");
}

#[tokio::test]
async fn writes_with_a_limit_follow_each_other_at_its_pace_and_others_do_not_wait() {
    let (_sandbox, endpoint) = sandbox().await;
    let path = config_map("a");
    endpoint.apply(&path, "me", true, body("a", "0")).await.expect("applied");
    let before = std::time::Instant::now();
    let limited = endpoint.clone().paced(10);
    let paced = async {
        for n in 0..4 {
            limited.apply(&path, "me", true, body("a", &n.to_string())).await.expect("applied");
        }
        before.elapsed()
    };
    let free = async {
        endpoint.get(&path).await.expect("read");
        before.elapsed()
    };
    let (paced, free) = tokio::join!(paced, free);
    assert!(paced >= Duration::from_millis(300) && free < paced, "{paced:?} {free:?}");
}

#[tokio::test]
async fn no_write_is_sent_without_a_permit_and_reads_need_none() {
    let (sandbox, endpoint) = sandbox().await;
    let lease = Lease::default();
    let endpoint = endpoint.permitted(lease.permit().expect("a single replica holds it"));
    endpoint.apply(&config_map("a"), "me", true, body("a", "1")).await.expect("applied");
    lease.lose();
    let before = sandbox.counters().writes();
    let uid = DeleteOptions { uid: "any", resource_version: "1", propagation: "Background" };
    let refused = [
        endpoint.apply(&config_map("a"), "me", true, body("a", "2")).await.unwrap_err(),
        endpoint.patch(&config_map("a"), "me", Body::merge_patch("{}")).await.unwrap_err(),
        endpoint.delete(&config_map("a"), uid).await.unwrap_err(),
    ];
    assert!(refused.iter().all(|error| error.is_not_permitted()), "{refused:?}");
    endpoint.get(&config_map("a")).await.expect("read");
    assert_eq!(sandbox.counters().writes(), before);
}

#[tokio::test]
async fn a_write_whose_permit_ends_while_its_connection_is_opened_is_not_sent() {
    let (asked, tell, writes) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (told, go_on, arrived) = (asked.clone(), tell.clone(), writes.clone());
    let server = serve(move |request| {
        let (asked, tell, writes) = (asked.clone(), tell.clone(), writes.clone());
        async move {
            if request.method() == Method::GET {
                asked.notify_one();
                tell.acquire().await.unwrap().forget();
            } else {
                writes.fetch_add(1, Ordering::SeqCst);
            }
            Response::new(Full::new(Bytes::from_static(br#"{"metadata": {"uid": "it"}}"#)))
        }
    })
    .await;
    let lease = Lease::default();
    let endpoint = connection(&kubeconfig(&server.url, json!({}))).endpoint().leading_to("it");
    let endpoint = endpoint.permitted(lease.permit().expect("a single replica holds it"));
    let path = config_map("a");
    let lost = async {
        told.notified().await;
        lease.lose();
        go_on.add_permits(1);
    };
    let (written, ()) = tokio::join!(endpoint.apply(&path, "me", true, body("a", "1")), lost);
    let error = written.unwrap_err();
    assert!(error.is_not_permitted(), "{error}");
    // A new connection is asked first.
    go_on.add_permits(2);
    endpoint.get(&path).await.expect("the server goes on");
    assert_eq!(arrived.load(Ordering::SeqCst), 0);
}

fn answer(code: u16) -> Response<Full<Bytes>> {
    Response::builder().status(code).body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

/// An admission webhook of a tenant writes what it likes: what is read of it takes memory of all.
#[tokio::test]
async fn a_refusal_that_is_too_long_is_its_code_alone() {
    let server = serve(|_| async {
        let causes = "{},".repeat(2 << 20);
        let status = format!(r#"{{"kind": "Status", "code": 422, "details": {{"causes": [{causes}{{}}]}}}}"#);
        Response::builder().status(422).body(Full::new(Bytes::from(status))).unwrap()
    })
    .await;
    let endpoint = connection(&kubeconfig(&server.url, json!({}))).endpoint();
    let refused = endpoint.patch(&config_map("x"), "me", Body::merge_patch("{}")).await.unwrap_err();
    insta::assert_snapshot!(refused, @"the server's message is longer than 4 MiB, and is not read (422)");
    assert!(refused.is_invalid() && !refused.retryable());
}

#[tokio::test]
async fn no_more_than_four_writes_are_in_flight_and_reads_do_not_wait_for_them() {
    let (gate, flying, most) =
        (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (open, highest) = (gate.clone(), most.clone());
    let server = serve(move |request| {
        let (gate, flying, most) = (gate.clone(), flying.clone(), most.clone());
        async move {
            if request.method() != Method::GET {
                most.fetch_max(flying.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                flying.fetch_sub(1, Ordering::SeqCst);
            }
            answer(200)
        }
    })
    .await;
    let endpoint = connection(&kubeconfig(&server.url, json!({}))).endpoint();
    let collection = ApiPath::collection(&resource("configmaps.v1"), "default").unwrap();
    let mut writes = JoinSet::new();
    for cluster in 0..12 {
        // Views on one address are one address.
        let (endpoint, collection) = (endpoint.at(&format!("clusters/c{cluster}")), collection.clone());
        writes.spawn(async move { endpoint.create(&collection, "me", body("a", "1")).await });
    }
    endpoint.get(&collection).await.unwrap();
    open.add_permits(12);
    let answers = writes.join_all().await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(highest.load(Ordering::SeqCst), 4);
}

/// A server that takes one token, and what it was sent.
async fn token_server(token: Arc<Mutex<String>>) -> Server {
    serve(move |request| {
        let expected = format!("Bearer {}", token.lock().unwrap());
        let given = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        async move { answer(if given == Some(expected) { 200 } else { 401 }) }
    })
    .await
}

#[tokio::test]
async fn a_new_credential_is_in_use_at_once_and_a_broken_one_is_not() {
    let token = Arc::new(Mutex::new("a".to_owned()));
    let server = token_server(token.clone()).await;
    let folder = Folder::with(&kubeconfig(&server.url, json!({"token": "a"})));
    let connection = folder.connection();
    let endpoint = connection.endpoint();
    endpoint.get(&config_map("x")).await.unwrap();
    // A refusal is reason enough to look at the file: nobody has to say that it changed.
    *token.lock().unwrap() = "b".into();
    folder.write("kubeconfig", &kubeconfig(&server.url, json!({"token": "b"})));
    endpoint.get(&config_map("x")).await.unwrap();
    *token.lock().unwrap() = "c".into();
    assert_eq!(endpoint.get(&config_map("x")).await.unwrap_err().code(), Some(401));
    folder.write("kubeconfig", "not: [");
    connection.reload().await.unwrap_err();
    folder.write("kubeconfig", &kubeconfig(&server.url, json!({"token": "c"})));
    connection.reload().await.unwrap();
    endpoint.get(&config_map("x")).await.unwrap();
}

#[tokio::test]
async fn each_of_the_requests_that_are_refused_together_is_sent_again_with_the_new_credential() {
    const TOGETHER: usize = 8;
    let here = Arc::new(Barrier::new(TOGETHER));
    let server = serve(move |request| {
        let (here, is_new) = (here.clone(), request.headers().get("authorization").is_some_and(|it| it == "Bearer b"));
        async move {
            if !is_new {
                here.wait().await;
            }
            answer(if is_new { 200 } else { 401 })
        }
    })
    .await;
    let folder = Folder::with(&kubeconfig(&server.url, json!({"token": "a"})));
    let endpoint = folder.connection().endpoint();
    folder.write("kubeconfig", &kubeconfig(&server.url, json!({"token": "b"})));
    let path = config_map("x");
    let answers = futures::future::join_all((0..TOGETHER).map(|_| endpoint.get(&path))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn token_files_are_read_anew_after_a_401() {
    let token = Arc::new(Mutex::new("a".to_owned()));
    let server = token_server(token.clone()).await;
    let folder = Folder::with(&kubeconfig(&server.url, json!({"tokenFile": "token"})));
    folder.write("token", "a\n");
    let endpoint = folder.connection().endpoint();
    endpoint.get(&config_map("x")).await.unwrap();
    folder.write("token", "b\n");
    *token.lock().unwrap() = "b".into();
    endpoint.get(&config_map("x")).await.unwrap();
}

/// A plugin that gives the text of the file `token`, and counts its runs in the file `runs`.
const PLUGIN: &str = r#"
cd "$FOLDER" && echo run >> runs
printf '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}' "$(cat token)"
"#;

#[tokio::test]
async fn an_exec_plugin_runs_once_and_again_after_a_401() {
    let token = Arc::new(Mutex::new("a".to_owned()));
    let server = token_server(token.clone()).await;
    let folder = Folder::new();
    let variables = json!([{"name": "FOLDER", "value": folder.0.path()}]);
    let user = json!({"exec": {"command": "sh", "args": ["-c", PLUGIN], "env": variables}});
    folder.write("kubeconfig", &kubeconfig(&server.url, user));
    folder.write("token", "a");
    let endpoint = folder.connection().endpoint();
    let runs = || std::fs::read_to_string(folder.0.path().join("runs")).unwrap().lines().count();
    for _ in 0..3 {
        endpoint.get(&config_map("x")).await.unwrap();
    }
    assert_eq!(runs(), 1);
    folder.write("token", "b");
    *token.lock().unwrap() = "b".into();
    endpoint.get(&config_map("x")).await.unwrap();
    assert_eq!(runs(), 2);
    // Plugins are not run in a loop: one that has just been run for a refusal is believed to have nothing better.
    *token.lock().unwrap() = "nobody's".into();
    for _ in 0..3 {
        assert_eq!(endpoint.get(&config_map("x")).await.unwrap_err().code(), Some(401));
    }
    assert_eq!(runs(), 2);
}

#[tokio::test]
async fn an_exec_plugin_that_fails_is_quoted() {
    let failing = async |command: &str, args: Value, hint: Option<&str>| {
        let user = json!({"exec": {"command": command, "args": args, "installHint": hint}});
        let endpoint = connection(&kubeconfig("http://127.0.0.1:1", user)).endpoint();
        endpoint.get(&config_map("x")).await.unwrap_err().to_string()
    };
    insta::assert_snapshot!(failing("no-such-plugin", json!([]), Some("install it from example.com")).await, @"no credential for http://127.0.0.1:1/api/v1/namespaces/default/configmaps/x: exec plugin `no-such-plugin`: cannot be started: No such file or directory (os error 2) (install it from example.com)");
    insta::assert_snapshot!(failing("sh", json!(["-c", "echo please log in >&2; exit 3"]), None).await, @"no credential for http://127.0.0.1:1/api/v1/namespaces/default/configmaps/x: exec plugin `sh`: exit status: 3: please log in");
    insta::assert_snapshot!(failing("sh", json!(["-c", "echo hello"]), None).await, @"no credential for http://127.0.0.1:1/api/v1/namespaces/default/configmaps/x: exec plugin `sh`: it did not print an ExecCredential");
    insta::assert_snapshot!(failing("echo", json!(["{\"status\": {}}"]), None).await, @"no credential for http://127.0.0.1:1/api/v1/namespaces/default/configmaps/x: exec plugin `echo`: its ExecCredential holds neither a token nor a certificate with its key");
}

#[tokio::test]
async fn an_address_that_is_away_is_left_alone_for_a_moment_and_found_when_it_is_back() {
    let (mut sandbox, endpoint) = sandbox().await;
    sandbox.disconnect().await;
    let mut asked = JoinSet::new();
    for _ in 0..1_000 {
        let endpoint = endpoint.clone();
        asked.spawn(async move { endpoint.get(&config_map("a")).await.unwrap_err() });
    }
    let errors = asked.join_all().await;
    assert!(errors.iter().all(|error| matches!(error, RequestError::Unreachable { .. })));
    sandbox.reconnect().await.expect("back");
    let found = async {
        while !endpoint.get(&config_map("a")).await.is_err_and(|error| error.is_not_found_of("a")) {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, found).await.is_ok());
}
