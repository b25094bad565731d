//! Proxies that a kubeconfig names.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sync_engine::multicluster::{ApiPath, RequestError};
use sync_engine::sandbox::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::multicluster::scene::{connection, kubeconfig, listen, resource};

/// A proxy that leads every connection to one address, whatever it is asked for.
struct Proxy {
    address: SocketAddr,
    /// What it was asked for.
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

/// How a proxy is asked, and what it answers.
#[derive(Clone, Copy)]
enum Speaks {
    Connect { answer: &'static str },
    Socks,
}

impl Proxy {
    async fn start(speaks: Speaks, to: &str) -> Self {
        let (asked, to) = (Arc::new(Mutex::new(Vec::new())), to.to_owned());
        let heard = asked.clone();
        let lead = move |mut stream: TcpStream| {
            let (to, heard) = (to.clone(), heard.clone());
            async move {
                let question = match speaks {
                    Speaks::Connect { answer } => connect(&mut stream, answer).await,
                    Speaks::Socks => socks(&mut stream).await,
                };
                heard.lock().unwrap().push(question);
                let mut server = TcpStream::connect(to).await.unwrap();
                // Ends when either side closes, as it may.
                let _ = copy_bidirectional(&mut stream, &mut server).await;
            }
        };
        let (address, tasks) = listen(lead).await;
        Self { address, asked, _tasks: tasks }
    }

    fn asked(&self) -> String {
        self.asked.lock().unwrap().join("\n")
    }
}

/// The head of a CONNECT, in one line.
async fn connect(stream: &mut TcpStream, answer: &str) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_buf(&mut head).await.unwrap();
    }
    stream.write_all(format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes()).await.unwrap();
    String::from_utf8(head).unwrap().trim().replace("\r\n", "; ")
}

/// Host and port, from the messages of RFC 1928 without authentication.
async fn socks(stream: &mut TcpStream) -> String {
    const GREETING: [u8; 3] = [5, 1, 0];
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(greeting, GREETING);
    stream.write_all(&[5, 0]).await.unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).await.unwrap();
    let host = match head {
        [5, 1, 0, 1] => {
            let mut address = [0; 4];
            stream.read_exact(&mut address).await.unwrap();
            address.map(|byte| byte.to_string()).join(".")
        }
        [5, 1, 0, 3] => {
            let mut name = vec![0; usize::from(stream.read_u8().await.unwrap())];
            stream.read_exact(&mut name).await.unwrap();
            String::from_utf8(name).unwrap()
        }
        other => panic!("not a request to connect: {other:?}"),
    };
    let port = stream.read_u16().await.unwrap();
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    format!("{host}:{port}")
}

/// What a sandbox that stands nowhere but behind a proxy answers; and what the proxy was asked for.
async fn asked_through(speaks: Speaks, scheme: &str, server: &str) -> (Result<(), RequestError>, String) {
    let sandbox = Options::kubernetes().start().await.unwrap();
    let proxy = Proxy::start(speaks, sandbox.url().trim_start_matches("http://")).await;
    let kubeconfig = kubeconfig(server, json!({"token": sandbox.token()}));
    let answered = answered_through(&format!("{scheme}{}", proxy.address), &kubeconfig).await;
    let port = proxy.address.port().to_string();
    (answered, proxy.asked().replace(&port, "PORT"))
}

/// Writes and reads an object by a kubeconfig with a proxy.
async fn answered_through(proxy: &str, kubeconfig: &str) -> Result<(), RequestError> {
    let mut kubeconfig: Value = serde_json::from_str(kubeconfig).unwrap();
    kubeconfig["clusters"][0]["cluster"]["proxy-url"] = proxy.into();
    let endpoint = connection(&kubeconfig.to_string()).endpoint();
    let path = ApiPath::object(&resource("configmaps.v1"), "default", "a").unwrap();
    let body = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}"#;
    endpoint.apply(&path, "me", false, body).await?;
    endpoint.get(&path).await.map(drop)
}

#[tokio::test]
async fn tls_is_spoken_with_the_server_behind_a_proxy() {
    let sandbox = Options::kubernetes().encrypted().start().await.unwrap();
    let address = sandbox.url().trim_start_matches("https://").to_owned();
    let proxy = Proxy::start(Speaks::Connect { answer: "200 Connection established" }, &address).await;
    answered_through(&format!("http://{}", proxy.address), &sandbox.kubeconfig(None)).await.unwrap();
    assert!(proxy.asked().starts_with(&format!("CONNECT {address} HTTP/1.1")), "{}", proxy.asked());
}

#[tokio::test]
async fn a_proxy_is_asked_once_for_each_connection() {
    let answer = "200 Connection established";
    let (answered, asked) = asked_through(Speaks::Connect { answer }, "http://", "http://localhost:6443").await;
    answered.unwrap();
    insta::assert_snapshot!(asked, @"CONNECT localhost:6443 HTTP/1.1; Host: localhost:6443");
    let (answered, asked) =
        asked_through(Speaks::Connect { answer }, "http://me:pass%40word@", "http://localhost:6443").await;
    answered.unwrap();
    insta::assert_snapshot!(asked, @"CONNECT localhost:6443 HTTP/1.1; Host: localhost:6443; Proxy-Authorization: Basic bWU6cGFzc0B3b3Jk");
}

#[tokio::test]
async fn socks_proxies_are_told_the_name_or_the_address() {
    let (answered, asked) = asked_through(Speaks::Socks, "socks5h://", "http://localhost:6443").await;
    answered.unwrap();
    assert_eq!(asked, "localhost:6443");
    let (answered, asked) = asked_through(Speaks::Socks, "socks5://", "http://127.0.0.1:6443").await;
    answered.unwrap();
    assert_eq!(asked, "127.0.0.1:6443", "a proxy that the kubeconfig names leads to this machine, too");
}

#[tokio::test]
async fn a_proxy_that_does_not_lead_there_is_said_to_be_in_the_way() {
    let answer = "407 Proxy Authentication Required";
    let (answered, _) = asked_through(Speaks::Connect { answer }, "http://me:secret@", "http://localhost:6443").await;
    let error = answered.unwrap_err().to_string();
    let port = error.rsplit_once("127.0.0.1:").and_then(|(_, rest)| rest.split_once(':')).map(|(port, _)| port);
    insta::assert_snapshot!(error.replace(port.unwrap(), "PORT"), @"cannot reach http://localhost:6443/api/v1/namespaces/default/configmaps/a: through the proxy http://127.0.0.1:PORT: tunnel error: proxy authorization required");
}
