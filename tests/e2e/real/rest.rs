//! A thin JSON client: what a test says to a server, and what the server answered.

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::eventually::eventually;

/// A server, or one workspace of it, as one user sees it.
#[derive(Clone)]
pub struct Rest {
    client: Client,
    base: String,
}

/// A server's answer: the HTTP status, and the body as JSON (a string where it is something else).
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// How a PATCH is to be read.
#[derive(Clone, Copy)]
pub enum Patch {
    Merge,
    Json,
}

impl Patch {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

impl Rest {
    /// The server that a kubeconfig's current context names.
    pub async fn of_kubeconfig(text: &str) -> Self {
        let kubeconfig = Kubeconfig::from_yaml(text).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        Self::of_config(Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a usable kubeconfig"))
    }

    /// Something that speaks plain HTTP on this machine.
    pub fn plain(port: u16) -> Self {
        Self::of_config(Config::new(format!("http://127.0.0.1:{port}").parse().expect("a URL")))
    }

    /// Every answer is the test's to judge: a 503 is not asked for again behind its back.
    fn of_config(mut config: Config) -> Self {
        config.default_retry = false;
        Self { client: Client::try_from(config).expect("a client"), base: String::new() }
    }

    /// The same server below another path.
    pub fn below(&self, base: &str) -> Self {
        Self { client: self.client.clone(), base: base.to_owned() }
    }

    /// One request, repeated while the server says that it is too early (429), or kcp has not heard yet which labels of claims an
    /// object is to have; Err only where no answer came.
    pub async fn call(&self, method: Method, path: &str, content: &str, body: Vec<u8>) -> Result<Answer, String> {
        eventually(&format!("{method} {path} is not too early"), async || {
            let answer = self.call_once(method.clone(), path, content, body.clone()).await;
            match answer {
                Ok(answer) if answer.status == 429 || lags(&answer) => Err(answer.body.to_string()),
                other => Ok(other),
            }
        })
        .await
    }

    async fn call_once(&self, method: Method, path: &str, content: &str, body: Vec<u8>) -> Result<Answer, String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("accept", "application/json")
            .header("content-type", content)
            // The engine's console takes no POST without it.
            .header("x-sync-engine", "test")
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        let response = self.client.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) })
    }

    async fn json(&self, method: Method, path: &str, content: &str, body: &Value) -> Answer {
        let bytes = serde_json::to_vec(body).expect("JSON");
        let answer = self.call(method.clone(), path, content, bytes).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// GET, whatever the answer.
    pub async fn look(&self, path: &str) -> Result<Answer, String> {
        self.call(Method::GET, path, "application/json", Vec::new()).await
    }

    /// GET of what may be absent.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let answer = self.look(path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"));
        match answer.status {
            404 => None,
            _ => Some(expect_success("GET", path, answer)),
        }
    }

    /// Waits until something is there.
    pub async fn appears(&self, path: &str) -> Value {
        let look = async || self.get(path).await.ok_or_else(|| "it is missing".to_owned());
        eventually(&format!("{path} is there"), look).await
    }

    /// Waits until an object has this value at a JSON pointer; gives the object.
    pub async fn has(&self, path: &str, pointer: &str, expected: Value) -> Value {
        eventually(&format!("{path} has {expected} at {pointer}"), async || {
            let now = self.get(path).await.ok_or("it is missing")?;
            if now.pointer(pointer) == Some(&expected) { Ok(now) } else { Err(now.to_string()) }
        })
        .await
    }

    /// Waits until something is served, whatever is answered before.
    pub async fn serves(&self, path: &str) {
        eventually(&format!("{path} is served"), async || {
            let answer = self.look(path).await?;
            answer.is_success().then_some(()).ok_or_else(|| format!("{answer:?}"))
        })
        .await;
    }

    /// Waits until something is gone.
    pub async fn disappears(&self, path: &str) {
        let look = async || self.get(path).await.map_or(Ok(()), |left| Err(left.to_string()));
        eventually(&format!("{path} is gone"), look).await;
    }

    /// The items of a collection.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.unwrap_or_else(|| panic!("GET {path}: not served"));
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// POST, whatever the answer.
    pub async fn try_create(&self, path: &str, body: &Value) -> Answer {
        self.json(Method::POST, path, "application/json", body).await
    }

    /// POST into a collection.
    pub async fn create(&self, path: &str, body: &Value) -> Value {
        expect_success("POST", path, self.try_create(path, body).await)
    }

    /// PATCH, whatever the answer.
    pub async fn try_patch(&self, kind: Patch, path: &str, body: &Value) -> Answer {
        self.json(Method::PATCH, path, kind.content_type(), body).await
    }

    pub async fn patch(&self, kind: Patch, path: &str, body: &Value) -> Value {
        expect_success("PATCH", path, self.try_patch(kind, path, body).await)
    }

    /// DELETE, not waiting for the object to be gone; an object that is absent will do.
    pub async fn delete(&self, path: &str) {
        let options = json!({"propagationPolicy": "Background"});
        let answer = self.json(Method::DELETE, path, "application/json", &options).await;
        assert!(answer.is_success() || answer.status == 404, "DELETE {path}: {answer:?}");
    }
}

fn lags(answer: &Answer) -> bool {
    let said = answer.body["message"].as_str().unwrap_or_default();
    answer.status == 403 && said.contains("metadata.labels[claimed.internal.apis.kcp.io/")
}

fn expect_success(method: &str, path: &str, answer: Answer) -> Value {
    assert!(answer.is_success(), "{method} {path}: {} {}", answer.status, answer.body);
    answer.body
}
