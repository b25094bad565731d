//! The routes, asked as any client asks.

use crate::health::Condition;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;
use crate::reload::Reloader;

struct Answer {
    code: u16,
    body: String,
}

async fn ask(shared: &Shared, method: &str, uri: &str) -> Answer {
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).expect("a request");
    let response = router(shared.clone()).oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    Answer { code, body: String::from_utf8(bytes.to_vec()).expect("UTF-8") }
}

/// Routes on an empty directory whose reloader does not run: its requests are told that the engine is stopping.
fn shared() -> Shared {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let instruments = Instruments::default();
    let (_, reload, _) = Reloader::open(directory.path(), instruments.health.clone()).expect("a directory");
    Shared { instruments, reload }
}

#[tokio::test]
async fn alive_is_not_ready() {
    let shared = shared();
    shared.instruments.health.set("connection target", Condition::waiting("connection refused"));
    let alive = ask(&shared, "GET", "/healthz").await;
    assert_eq!((alive.code, alive.body.as_str()), (200, "ok\n"));
    let ready = ask(&shared, "GET", "/readyz").await;
    assert_eq!(ready.code, 503);
    assert!(ready.body.contains("connection target not ready for 0s: connection refused"), "{}", ready.body);
}

#[tokio::test]
async fn readiness_lists_everything_when_asked_to() {
    let shared = shared();
    shared.instruments.health.set("connection kcp", Condition::ready("2 endpoints"));
    let brief = ask(&shared, "GET", "/readyz").await;
    assert_eq!((brief.code, brief.body.as_str()), (200, "ready\n"));
    for query in ["verbose", "verbose=true", "x=1&verbose"] {
        let verbose = ask(&shared, "GET", &format!("/readyz?{query}")).await;
        assert!(verbose.body.starts_with("[+] connection kcp ready for 0s: 2 endpoints\n"), "{}", verbose.body);
    }
}

#[tokio::test]
async fn metrics_are_open_metrics() {
    let shared = shared();
    shared.instruments.metrics.set_clusters("kcp", 2, 2);
    let metrics = ask(&shared, "GET", "/metrics").await;
    assert_eq!(metrics.code, 200);
    assert!(metrics.body.contains("sync_engine_clusters_engaged{provider=\"kcp\"} 2\n"), "{}", metrics.body);
    assert!(metrics.body.contains("process_cpu_seconds_total "), "{}", metrics.body);
    assert!(metrics.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_status_page_is_at_the_root() {
    let page = ask(&shared(), "GET", "/").await;
    assert_eq!(page.code, 200);
    assert!(page.body.starts_with("sync-engine "), "{}", page.body);
}

#[tokio::test]
async fn a_reload_is_a_post_and_says_what_became_of_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let instruments = Instruments::default();
    let (reloader, reload, mut reloads) =
        Reloader::open(directory.path(), instruments.health.clone()).expect("a directory");
    let shared = Shared { instruments, reload };
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(reloader.run(shutdown.clone()));
    let outcome = Outcome { accepted: false, text: "error[SE0101]: unknown field".to_owned() };
    reloads.recv().await.expect("the first reload").answer(outcome);

    assert_eq!(ask(&shared, "GET", "/-/reload").await.code, 405);
    let refused = ask(&shared, "POST", "/-/reload").await;
    assert_eq!((refused.code, refused.body.as_str()), (422, "error[SE0101]: unknown field\n"));
    shutdown.cancel();
    running.await.expect("no panic");
    assert_eq!(ask(&shared, "POST", "/-/reload").await.code, 503);
}

#[tokio::test]
async fn a_server_answers_on_its_port_until_it_is_told_to_stop() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let Shared { instruments, reload } = shared();
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(address, instruments, reload).await.expect("a free port");
    let bound = server.address();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(server.run(shutdown.clone()));

    let mut connection = tokio::net::TcpStream::connect(bound).await.expect("a connection");
    let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    connection.write_all(request).await.expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ok\n"), "{answer}");

    shutdown.cancel();
    running.await.expect("no panic").expect("a clean end");
}
