//! The sandbox over HTTP, with the client that the engine uses.

use std::time::{Duration, Instant};

use futures::TryStreamExt;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Connections;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};
use sync_engine::sandbox::{ApiRef, Fault, Options, Sandbox, Verb, anything, resource_schema};

/// The administrator's client, without retries of its own.
fn client(sandbox: &Sandbox) -> Client {
    client_at(&sandbox.url(), Some(sandbox.token()))
}

/// A client for a URL, with a token.
fn client_at(url: &str, token: Option<&str>) -> Client {
    let mut config = Config::new(url.parse().expect("a URL"));
    config.read_timeout = Some(Duration::from_secs(10));
    config.auth_info.token = token.map(|token| token.to_owned().into());
    Client::try_from(config).expect("a client")
}

async fn cluster() -> (Sandbox, Api<ConfigMap>) {
    let sandbox = Options::kubernetes().start().await.expect("starts");
    let maps = Api::namespaced(client(&sandbox), "default");
    (sandbox, maps)
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).expect("a ConfigMap")
}

fn code<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> u16 {
    match outcome.expect_err("refused") {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

/// The answer to a request, over a bare connection that retries nothing.
async fn answer(sandbox: &Sandbox, token: &str, method: Method, path: &str, body: Body) -> Response<Incoming> {
    let request = Request::builder().method(method).uri(format!("{}{path}", sandbox.url()));
    let request = request.header("authorization", format!("Bearer {token}")).body(body).expect("a request");
    let connections = Connections::builder(TokioExecutor::new()).build_http();
    connections.request(request).await.expect("an answer")
}

fn schema() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": anything(), "status": anything()}});
    resource_schema("things.v1.example.com", "Thing", &schema)
}

#[tokio::test]
async fn bookmarks_come_and_a_watch_ends_in_time() {
    let sandbox = Options::kubernetes().bookmarks_every(Duration::from_millis(20)).start().await.expect("starts");
    let maps: Api<ConfigMap> = Api::namespaced(client(&sandbox), "default");
    let started = Instant::now();
    let events = maps.watch(&WatchParams::default().timeout(1), "1").await.expect("watches");
    let events: Vec<_> = events.try_collect().await.expect("ends well");
    assert!(events.iter().all(|event| matches!(event, WatchEvent::Bookmark(_))) && !events.is_empty());
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn every_workspace_has_a_token_and_nobody_comes_without_one() {
    let sandbox = Options::kcp().start().await.expect("starts");
    for workspace in ["provider", "acme", "globex"] {
        sandbox.create_workspace("root", workspace).expect("a workspace");
    }
    sandbox.create_workspace("root:acme", "team").expect("a workspace in a workspace");
    sandbox.publish("root:provider", "things", &[schema()], &[]).expect("an export");
    sandbox.bind("root:acme", "root:provider", "things", &[]).expect("a binding");
    let slices = ApiRef { cluster: "root:provider", resource: "apiexportendpointslices.v1alpha1.apis.kcp.io" };
    let slice = sandbox.get(slices, "", "things").expect("a slice");
    let export = slice["status"]["endpoints"][0]["url"].as_str().expect("a URL").to_owned();

    let asked = async |base: &str, token: Option<&str>| {
        let maps: Api<ConfigMap> = Api::namespaced(client_at(base, token), "default");
        maps.list(&ListParams::default()).await.map_or_else(|error| code::<()>(Err(error)), |_| 200)
    };
    let workspace = |path: &str| format!("{}/clusters/root:{path}", sandbox.url());
    let token = sandbox.token_of("root:acme").expect("a token");
    assert_eq!(sandbox.token_of("root:acme"), Some(token.clone()), "the same each time");
    assert_eq!(sandbox.token_of("root:missing"), None);
    let token = Some(token.as_str());
    for (base, token, expected) in [
        (workspace("acme"), token, 200),
        (workspace("acme:team"), token, 200),
        (workspace("globex"), token, 403),
        (workspace("missing"), token, 403),
        (sandbox.url(), token, 403),
        (format!("{export}/clusters/*"), token, 403),
        (workspace("globex"), Some(sandbox.token()), 200),
        (workspace("acme"), Some("wrong"), 401),
        (workspace("acme"), None, 401),
    ] {
        assert_eq!(asked(&base, token).await, expected, "{base} {token:?}");
    }

    let provider = sandbox.token_of("root:provider").expect("a token");
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Thing"), "things");
    let everywhere = client_at(&format!("{export}/clusters/*"), Some(&provider));
    Api::<DynamicObject>::all_with(everywhere, &resource).list(&ListParams::default()).await.expect("its own export");
}

#[tokio::test]
async fn a_refused_user_hears_why_in_the_words_of_a_server() {
    let sandbox = Options::kcp().start().await.expect("starts");
    sandbox.create_workspace("root", "acme").expect("a workspace");
    let token = sandbox.token_of("root:acme").expect("a token");
    let body = async |path: &str, token: &str| {
        let answer = answer(&sandbox, token, Method::GET, path, Body::empty()).await;
        let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.expect("a body").to_bytes();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    insta::assert_snapshot!(body("/version", "wrong").await, @r#"{"apiVersion":"v1","code":401,"kind":"Status","message":"Unauthorized","metadata":{},"reason":"Unauthorized","status":"Failure"}"#);
    insta::assert_snapshot!(body("/clusters/root/apis", &token).await, @r#"{"apiVersion":"v1","code":403,"details":{},"kind":"Status","message":"forbidden: User \"root:acme\" cannot get path \"/apis\": access denied","metadata":{},"reason":"Forbidden","status":"Failure"}"#);
    insta::assert_snapshot!(body("/clusters/root/api/v1/namespaces/default/secrets/x", &token).await, @r#"{"apiVersion":"v1","code":403,"details":{"kind":"secrets","name":"x"},"kind":"Status","message":"secrets \"x\" is forbidden: User \"root:acme\" cannot get resource \"secrets\" in API group \"\" in the namespace \"default\": access denied","metadata":{},"reason":"Forbidden","status":"Failure"}"#);
    insta::assert_snapshot!(body("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces", &token).await, @r#"{"apiVersion":"v1","code":403,"details":{"group":"tenancy.kcp.io","kind":"workspaces"},"kind":"Status","message":"workspaces.tenancy.kcp.io is forbidden: User \"root:acme\" cannot list resource \"workspaces\" in API group \"tenancy.kcp.io\" at the cluster scope: access denied","metadata":{},"reason":"Forbidden","status":"Failure"}"#);
}

#[tokio::test]
async fn what_comes_over_http_is_counted() {
    let (sandbox, maps) = cluster().await;
    maps.create(&PostParams::default(), &map("a")).await.expect("creates");
    let before = sandbox.counters();
    maps.get("a").await.expect("reads");
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({}))).await.expect("patches");
    sandbox.list(ApiRef { cluster: "", resource: "configmaps.v1" });
    let since = sandbox.counters().since(&before);
    assert_eq!(since.to_string(), "get configmaps: 1, patch configmaps: 1");
    assert_eq!((since.total(), since.writes(), since.of(Verb::Patch, "configmaps")), (2, 1, 1));
}

#[tokio::test]
async fn a_request_that_is_cut_before_it_arrives_changes_nothing() {
    let (sandbox, maps) = cluster().await;
    sandbox.faults().next(1, |call| call.verb == Verb::Create, Fault::DropBefore);
    maps.create(&PostParams::default(), &map("a")).await.expect_err("cut");
    assert_eq!(code(maps.get("a").await), 404);
    maps.create(&PostParams::default(), &map("a")).await.expect("the next one arrives");
}

#[tokio::test]
async fn a_body_is_read_of_those_with_a_token_and_up_to_a_length() {
    let (sandbox, _) = cluster().await;
    let posted = async |token: &str, length: usize| {
        // The body never comes: a server that waits for it does not answer.
        let head = "POST /api/v1/namespaces HTTP/1.1\r\nhost: sandbox\r\ncontent-type: application/json\r\n";
        let mut stream =
            tokio::net::TcpStream::connect(sandbox.url().trim_start_matches("http://")).await.expect("open");
        let request = format!("{head}authorization: {token}\r\ncontent-length: {length}\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.expect("sent");
        let mut answer = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer).await.expect("an answer");
        String::from_utf8_lossy(&answer[9..]).into_owned()
    };
    assert_eq!(posted("Bearer wrong", 100).await, "401");
    assert_eq!(posted(&format!("Basic {}", sandbox.token()), 100).await, "401");
    let long = Body::from(vec![b' '; (3 << 20) + 1]);
    let answer = answer(&sandbox, sandbox.token(), Method::POST, "/api/v1/namespaces", long).await;
    assert_eq!(answer.status(), 413);
}

#[tokio::test]
async fn whoever_trusts_its_certificate_speaks_tls_with_it() {
    let sandbox = Options::kcp().encrypted().start().await.expect("starts");
    let client = async |kubeconfig: &str| {
        let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("a config");
        let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config).expect("a client"), "default");
        maps.list(&ListParams::default()).await.map(drop)
    };
    let kubeconfig = sandbox.kubeconfig(Some("root"));
    assert!(!kubeconfig.contains('@'), "a token is no part of a URL: {kubeconfig}");
    client(&kubeconfig).await.expect("an answer");
    let stranger = Options::kcp().encrypted().start().await.expect("starts").kubeconfig(None);
    let authority = |text: &str| text.split('"').find(|word| word.starts_with("LS0t")).map(str::to_owned);
    let (own, other) = (authority(&kubeconfig).expect("its own"), authority(&stranger).expect("another's"));
    client(&kubeconfig.replace(&own, &other)).await.expect_err("another certificate");
}

#[tokio::test]
async fn built_in_kinds_read_as_their_types() {
    let (sandbox, _) = cluster().await;
    let namespaces: Api<Namespace> = Api::all(client(&sandbox));
    let mut names: Vec<_> = namespaces
        .list(&ListParams::default())
        .await
        .expect("lists")
        .into_iter()
        .filter_map(|n| n.metadata.name)
        .collect();
    names.sort();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let version = client(&sandbox).apiserver_version().await.expect("a version");
    assert_eq!(version.major, "1");
}

#[tokio::test]
async fn a_port_that_somebody_has_taken_meanwhile_is_waited_for() {
    let mut sandbox = Options::kubernetes().start().await.expect("a sandbox");
    sandbox.disconnect().await;
    let address = sandbox.url().replace("http://", "");
    let taken = tokio::net::TcpListener::bind(&address).await.expect("the port is free");
    let mut coming_back = std::pin::pin!(sandbox.reconnect());
    assert!(futures::poll!(&mut coming_back).is_pending(), "the port is taken");
    drop(taken);
    coming_back.await.expect("the same address");
    tokio::net::TcpStream::connect(&address).await.expect("it listens again");
}
