//! The routes, asked as any client asks.

use std::sync::Arc;

use crate::health::Condition;
use axum::body::Body;
use axum::http::Request;
use futures::future::{BoxFuture, ready};
use http_body_util::BodyExt;
use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::plan::trace::Trace;
use crate::reload::Reloader;
use crate::server::api::tests::source;
use crate::server::status::tests::running;

struct Answer {
    code: u16,
    body: String,
}

async fn send(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    Answer { code, body: String::from_utf8(bytes.to_vec()).expect("UTF-8") }
}

/// Asks as the kubelet or Prometheus does.
async fn probe(shared: &Shared, uri: &str) -> Answer {
    let request = Request::builder().uri(uri).body(Body::empty()).expect("a request");
    send(probes(shared.instruments.clone()), request).await
}

/// Asks the console as a person does, by curl.
async fn ask(shared: &Shared, method: &str, uri: &str) -> Answer {
    let request =
        Request::builder().method(method).uri(uri).header("host", "localhost:8080").header("x-sync-engine", "1");
    let console = console(shared.instruments.clone(), shared.reload.clone(), Hosts::default());
    send(console, request.body(Body::empty()).expect("a request")).await
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
    let alive = probe(&shared, "/healthz").await;
    assert_eq!((alive.code, alive.body.as_str()), (200, "ok\n"));
    let ready = ask(&shared, "GET", "/readyz").await;
    assert_eq!(ready.code, 503);
    assert!(ready.body.contains("connection target not ready for 0s: connection refused"), "{}", ready.body);
}

#[tokio::test]
async fn the_console_lists_every_condition_when_asked_to() {
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
async fn probes_count_conditions_and_name_none() {
    let shared = shared();
    shared.instruments.health.set("cluster tenant-a", Condition::degraded("tenant-a forbids it"));
    shared.instruments.health.set("connection target", Condition::waiting("connection refused"));
    for uri in ["/readyz", "/readyz?verbose"] {
        let ready = probe(&shared, uri).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{} {}", ready.code, ready.body), @"503 not ready: 1 condition of 2");
        }
    }
    shared.instruments.health.remove("connection target");
    assert_eq!(probe(&shared, "/readyz").await.code, 200);
}

#[tokio::test]
async fn each_listener_has_its_own_paths() {
    let shared = shared();
    for uri in ["/", "/-/reload"] {
        assert_eq!(probe(&shared, uri).await.code, 404, "{uri}");
    }
    for uri in ["/metrics", "/healthz"] {
        assert_eq!(ask(&shared, "GET", uri).await.code, 404, "{uri}");
    }
    let page = ask(&shared, "GET", "/").await;
    assert!(page.code == 200 && page.body.starts_with("sync-engine "), "{}", page.body);
}

/// Who is refused, the tests of [`access`] show.
#[tokio::test]
async fn the_console_refuses_by_its_rules_and_marks_each_answer() {
    let shared = shared();
    for (host, code) in [("evil.example", 421), ("localhost:8080", 403)] {
        let request = Request::post("/-/reload").header("host", host).body(Body::empty()).expect("a request");
        let console = console(shared.instruments.clone(), shared.reload.clone(), Hosts::default());
        let response = console.oneshot(request).await.expect("an answer");
        assert_eq!(response.status().as_u16(), code, "{host}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert!(response.headers()["content-security-policy"].to_str().expect("text").contains("default-src 'none'"));
    }
}

#[tokio::test]
async fn metrics_are_in_the_format_that_is_asked_for() {
    let shared = shared();
    let mut counts = metrics::Counts::default();
    counts.add(metrics::Counted::Clusters, &[("provider", "kcp")], 2.0);
    shared.instruments.metrics.publish(counts);
    let metrics = probe(&shared, "/metrics").await;
    assert_eq!(metrics.code, 200);
    assert!(metrics.body.contains("sync_engine_clusters_engaged{provider=\"kcp\"} 2\n"), "{}", metrics.body);
    assert!(metrics.body.contains("# TYPE process_cpu_seconds_total counter\n"), "{}", metrics.body);
    let request = Request::get("/metrics").header("accept", "application/openmetrics-text; version=1.0.0");
    let open = send(probes(shared.instruments.clone()), request.body(Body::empty()).expect("a request")).await;
    assert!(open.body.ends_with("# EOF\n"), "{}", open.body);
}

struct Unsettled(&'static str);

impl Unsettled {
    fn source(&self, name: &str, reason: &str) -> api::Source {
        let source = source(name, reason);
        api::Source { of: api::SourceName { mapping: self.0.to_owned(), ..source.of }, ..source }
    }
}

impl api::Sources for Unsettled {
    fn mapping(&self) -> &str {
        self.0
    }

    fn target(&self) -> String {
        "target".to_owned()
    }

    fn owners(&self, object: &api::ObjectName) -> Vec<api::SourceName> {
        (object.kind == "Database").then(|| self.source(&object.name, "").of).into_iter().collect()
    }

    fn trace(self: Arc<Self>, asked: api::Asked) -> BoxFuture<'static, Option<api::TracedSource>> {
        let source = (asked.namespace.as_str(), asked.name.as_str());
        let trace = Trace::unseen(self.0, &asked.workspace, source, "target", Timestamp::UNIX_EPOCH);
        Box::pin(ready((asked.name == "a").then_some(api::TracedSource { trace, saved: None })))
    }

    fn not_synced(&self) -> Vec<api::Source> {
        [("a", "Conflict"), ("b", "Refused")].map(|(name, reason)| self.source(name, reason)).into()
    }
}

#[tokio::test]
async fn programs_ask_for_the_status_and_for_sources_that_are_not_in_sync() {
    let shared = shared();
    let mappings = vec![running("one"), running("two")];
    shared.instruments.status.publish(api::Status { engine: "main".to_owned(), mappings, ..api::Status::default() });
    let known: [Arc<dyn api::Sources>; 2] = [Arc::new(Unsettled("one")), Arc::new(Unsettled("two"))];
    shared.instruments.status.ask(known.iter().map(Arc::downgrade).collect());
    shared.instruments.health.set("connection target", Condition::waiting("refused"));
    let status: api::Status = serde_json::from_str(&ask(&shared, "GET", "/api/v1/status").await.body).expect("JSON");
    assert_eq!((status.engine.as_str(), status.conditions[0].level.as_str()), ("main", "waiting"));
    let page = ask(&shared, "GET", "/api/v1/sources?mapping=two&reason=Refused").await;
    let page: api::Page<api::Source> = serde_json::from_str(&page.body).expect("JSON");
    let found: Vec<_> = page.items.iter().map(|source| (source.of.mapping.as_str(), source.of.name.as_str())).collect();
    assert_eq!((found, page.next), (vec![("two", "b")], None));
    assert_eq!(ask(&shared, "GET", "/api/v1/sources?reasons=Refused").await.code, 400);
    let unknown = ask(&shared, "GET", "/api/v1/sources?mapping=three").await;
    assert_eq!((unknown.code, &*unknown.body), (404, "there is no mapping `three`; this engine has: one, two\n"));
}

#[tokio::test]
async fn programs_ask_how_a_source_is_decided_and_whose_an_object_is() {
    let shared = shared();
    let status = api::Status { mappings: vec![running("one"), running("two")], ..api::Status::default() };
    shared.instruments.status.publish(status);
    let known: [Arc<dyn api::Sources>; 2] = [Arc::new(Unsettled("one")), Arc::new(Unsettled("two"))];
    shared.instruments.status.ask(known.iter().map(Arc::downgrade).collect());
    let found = ask(&shared, "GET", "/api/v1/sources/two/c/n/a").await;
    let found: api::Page<api::TracedSource> = serde_json::from_str(&found.body).expect("JSON");
    assert_eq!((found.items.len(), found.items[0].trace.mapping.as_str()), (1, "two"));
    let owners = ask(&shared, "GET", "/api/v1/objects/Database/n/a").await;
    let owners: api::Page<api::SourceName> = serde_json::from_str(&owners.body).expect("JSON");
    assert_eq!(owners.items.len(), 2);
    for (uri, code) in [
        ("/api/v1/sources/two/c//a", 200),
        ("/api/v1/sources/two/c/n/x", 404),
        ("/api/v1/sources/three/c/n/a", 404),
        ("/api/v1/sources/two/c/n", 404),
        ("/api/v1/sources/two/c/n/a?target=other", 404),
        ("/api/v1/sources/two/c/n/a?targets=other", 400),
        ("/api/v1/objects/Cache/n/a", 404),
        ("/api/v1/objects/Database//a", 200),
        ("/api/v1/objects/Database/a", 404),
    ] {
        assert_eq!(ask(&shared, "GET", uri).await.code, code, "{uri}");
    }
    shared.instruments.status.set_leader("one", "other");
    for uri in ["/api/v1/sources", "/api/v1/sources/two/c/n/a"] {
        let standby = ask(&shared, "GET", uri).await;
        assert_eq!(
            (standby.code, standby.body.as_str()),
            (409, "replica one stands by: other leads; ask the leader\n"),
            "{uri}"
        );
    }
}

#[tokio::test]
async fn programs_ask_for_changes() {
    let shared = shared();
    shared.instruments.changes.note(Timestamp::UNIX_EPOCH, "one", true, "DocumentRefused", "SE0101");
    let page = ask(&shared, "GET", "/api/v1/changes?mapping=one").await;
    let page: api::Page<changes::Change> = serde_json::from_str(&page.body).expect("JSON");
    assert_eq!((page.items.len(), page.items[0].reason.as_str(), page.next), (1, "DocumentRefused", None));
    assert_eq!(ask(&shared, "GET", "/api/v1/changes?continue=x").await.code, 400);
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
    reloads.recv().await.expect("the first reload").answer(outcome.clone());

    assert_eq!(ask(&shared, "GET", "/-/reload").await.code, 405);
    let asking = ask(&shared, "POST", "/-/reload");
    let answering = async { reloads.recv().await.expect("what was refused is asked again").answer(outcome) };
    let (refused, ()) = tokio::join!(asking, answering);
    assert_eq!((refused.code, refused.body.as_str()), (422, "error[SE0101]: unknown field\n"));
    shutdown.cancel();
    running.await.expect("no panic");
    assert_eq!(ask(&shared, "POST", "/-/reload").await.code, 503);
}
