//! A server as the cases see it: requests out, answers and the events of watches in.

use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;

/// A server, and where in it the cases run.
#[derive(Clone)]
pub struct Server {
    client: Client,
    /// Path of the workspace; empty in a plain cluster.
    base: String,
    /// How long its controllers may take to do what a step waits for.
    pub patience: Duration,
}

/// What is sent, with nothing left to be filled in.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub url: String,
    pub content_type: String,
    pub accept: String,
    pub body: Vec<u8>,
}

/// What the controllers of a real server may take on a small, busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The sandbox, which speaks plain HTTP, carries out at once what real servers' controllers do.
const AT_ONCE: Duration = Duration::ZERO;

/// How long a watch may stay silent; a case that expects fewer events says when the server is to end the watch.
const PATIENCE: Duration = Duration::from_secs(20);

impl Server {
    /// The server that a kubeconfig's current context names; `base` is what stands in front of `/api`.
    pub async fn new(kubeconfig: &str, base: &str) -> Server {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a usable kubeconfig");
        // Every answer is the case's to judge.
        config.default_retry = false;
        let patience = if config.cluster_url.scheme_str() == Some("http") { AT_ONCE } else { DEADLINE };
        Server { client: Client::try_from(config).expect("a client"), base: base.to_owned(), patience }
    }

    /// Sends a request; gives the answer as data: its code, what is unusual in its headers, its body.
    pub async fn answer(&self, call: &Call) -> Value {
        let response = self.send(call).await;
        let mut answer = head(&response, &call.accept);
        let body = response.into_body().collect().await.expect("a whole body").to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        answer["body"] = serde_json::from_str(&text).unwrap_or(Value::String(text));
        answer
    }

    /// Watches to the end of the stream; gives the events, but for bookmarks that carry nothing.
    pub async fn events(&self, call: &Call) -> Value {
        let response = self.send(call).await;
        let mut answer = head(&response, &call.accept);
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(frame) = timeout(PATIENCE, body.frame()).await.expect("the server ends the watch") {
            text.extend(frame.expect("a whole stream").into_data().unwrap_or_default());
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap_or(Value::String(line.to_owned()))).collect();
        answer["events"] = lines.into_iter().filter(|event| !is_plain_bookmark(event)).collect();
        answer
    }

    async fn send(&self, call: &Call) -> Response<Body> {
        let url = path_of(&call.url);
        let elsewhere = ["/clusters/", "/services/"].iter().any(|start| url.starts_with(start));
        let base = if elsewhere { "" } else { self.base.as_str() };
        let method = if call.method == "WATCH" { Method::GET } else { call.method.parse().expect("a method") };
        let request = Request::builder()
            .method(method)
            .uri(format!("{base}{url}"))
            .header("accept", &call.accept)
            .header("content-type", &call.content_type)
            .header("user-agent", "conformance")
            .body(Body::from(call.body.clone()))
            .unwrap_or_else(|error| panic!("{call:?}: {error}"));
        self.client.send(request).await.unwrap_or_else(|error| panic!("{} {}: {error}", call.method, call.url))
    }
}

/// A URL without scheme and host: kcp's endpoints are told with both.
fn path_of(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return url };
    rest.find('/').map_or("/", |slash| &rest[slash..])
}

/// Code, warnings, and the content type where it is not the one that was asked for.
fn head(response: &Response<Body>, accept: &str) -> Value {
    let mut head = json!({"code": response.status().as_u16()});
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header("content-type") != accept {
        head["contentType"] = header("content-type").into();
    }
    let warnings: Vec<&str> = response.headers().get_all("warning").iter().flat_map(|value| value.to_str()).collect();
    if !warnings.is_empty() {
        head["warnings"] = warnings.into();
    }
    head
}

fn is_plain_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"].is_null()
}
