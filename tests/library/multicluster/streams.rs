//! Connections that watches share, where a server speaks HTTP/2.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use data_encoding::BASE64;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client as Requests;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use sync_engine::health::Health;
use sync_engine::multicluster::watch::{Selectors, Watch, WatchState, Watches};
use sync_engine::sandbox::{ApiRef, Options, Sandbox};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::server::TlsStream;

use crate::multicluster::scene::{connection, kubeconfig, listen, plain_scope, resource, until, until_state};

/// What is between an engine and a server: it counts connections, and cuts them.
struct Relay {
    port: u16,
    connections: Arc<AtomicUsize>,
    cut: Arc<Notify>,
    /// Has it take no more requests over the connections of HTTP/2 that are open.
    leave: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// `tls`: it speaks TLS with the engine and not with the server, and gives so many answers at a time over HTTP/2. Else it
    /// speaks as the server does.
    async fn start(to: u16, tls: Option<(TlsAcceptor, u32)>) -> Self {
        let (connections, cut, leave) =
            (Arc::<AtomicUsize>::default(), Arc::<Notify>::default(), Arc::<Notify>::default());
        let (counter, cuts, leaves) = (connections.clone(), cut.clone(), leave.clone());
        let (address, tasks) = listen(move |mut client| {
            counter.fetch_add(1, Ordering::SeqCst);
            let (tls, cut, leave) = (tls.clone(), cuts.clone(), leaves.clone());
            async move {
                // How a connection ends is the matter of its sides.
                let relayed = async {
                    match tls {
                        Some((tls, most)) => answer(tls.accept(client).await.unwrap(), to, most, &leave).await,
                        None => {
                            let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                            drop(copy_bidirectional(&mut client, &mut server).await);
                        }
                    }
                };
                tokio::select! {
                    () = relayed => {}
                    () = cut.notified() => {}
                }
            }
        })
        .await;
        Self { port: address.port(), connections, cut, leave, _tasks: tasks }
    }

    /// Watches of ConfigMaps through it, each with a label of its own, one opened after the other.
    async fn watches(&self, kubeconfig: &str, port: u16, number: usize) -> Vec<Arc<Watch>> {
        let kubeconfig = kubeconfig.replace(&format!(":{port}"), &format!(":{}", self.port));
        let scope = plain_scope(connection(&kubeconfig).endpoint());
        let watches = Watches::new(Health::default());
        let mut all = Vec::new();
        for label in 0..number {
            let selectors = Selectors { label: format!("app=a{label}"), ..Selectors::default() };
            let watch = watches.acquire(&scope, &resource("configmaps.v1"), &selectors);
            until_state(&watch, "synced", |state| *state == WatchState::Synced).await;
            all.push(watch);
        }
        all
    }
}

fn port(sandbox: &Sandbox) -> u16 {
    sandbox.url().rsplit_once(':').unwrap().1.parse().unwrap()
}

fn create(sandbox: &Sandbox, name: &str) {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "a7"}});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    sandbox.create(ApiRef { cluster: "", resource: "configmaps.v1" }, &object).expect("created");
}

#[tokio::test]
async fn ninety_watches_share_a_connection_and_come_back_together() {
    let sandbox = Options::kubernetes().encrypted().start().await.expect("a sandbox");
    let relay = Relay::start(port(&sandbox), None).await;
    let watches = relay.watches(&sandbox.kubeconfig(None), port(&sandbox), 100).await;
    create(&sandbox, "first");
    until(watches[7].store(), "an object", |store| store.len() == 1).await;
    let before = relay.connections.load(Ordering::SeqCst);
    assert_eq!(before, 3, "one for lists, two for a hundred watches");
    relay.cut.notify_waiters();
    create(&sandbox, "second");
    until(watches[7].store(), "another object", |store| store.len() == 2).await;
}

/// A server before which a relay ends TLS, with the protocols that it offers: how that is done, and a kubeconfig for it.
fn encrypted(sandbox: &Sandbox, protocols: &[&[u8]]) -> (TlsAcceptor, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(vec![cert.der().clone()], key.into()).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let authority = BASE64.encode(cert.pem().as_bytes());
    let server = format!("https://127.0.0.1:{}", port(sandbox));
    let mut kubeconfig: Value = serde_json::from_str(&kubeconfig(&server, json!({"token": sandbox.token()}))).unwrap();
    kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] = authority.into();
    (TlsAcceptor::from(Arc::new(config)), kubeconfig.to_string())
}

/// Hands requests on to a server without TLS.
async fn answer(client: TlsStream<TcpStream>, to: u16, most: u32, leave: &Notify) {
    let requests = Requests::builder(TokioExecutor::new()).build_http::<Incoming>();
    let service = service_fn(move |mut request: Request<Incoming>| {
        *request.uri_mut() =
            format!("http://127.0.0.1:{to}{}", request.uri().path_and_query().unwrap()).parse().unwrap();
        *request.version_mut() = Version::HTTP_11;
        requests.request(request)
    });
    let is_http2 = client.get_ref().1.alpn_protocol() == Some(b"h2");
    let client = TokioIo::new(client);
    if is_http2 {
        let mut server = http2::Builder::new(TokioExecutor::new());
        let mut served = pin!(server.max_concurrent_streams(most).serve_connection(client, service));
        tokio::select! {
            ended = served.as_mut() => return drop(ended),
            () = leave.notified() => served.as_mut().graceful_shutdown(),
        }
        drop(served.await);
    } else {
        drop(http1::Builder::new().serve_connection(client, service).await);
    }
}

/// So many watches of a server with these protocols, which gives so many answers at a time over HTTP/2, after an event.
async fn watched(protocols: &[&[u8]], most: u32, number: usize) -> (Sandbox, Relay, Vec<Arc<Watch>>) {
    let sandbox = Options::kubernetes().start().await.expect("a sandbox");
    let (tls, kubeconfig) = encrypted(&sandbox, protocols);
    let relay = Relay::start(port(&sandbox), Some((tls, most))).await;
    let watches = relay.watches(&kubeconfig, port(&sandbox), number).await;
    create(&sandbox, "first");
    until(watches[7].store(), "an object", |store| store.len() == 1).await;
    (sandbox, relay, watches)
}

#[tokio::test]
async fn a_server_that_speaks_no_http2_is_watched_all_the_same() {
    let (_sandbox, relay, _watches) = watched(&[], 1, 8).await;
    let connections = relay.connections.load(Ordering::SeqCst);
    assert_eq!(connections, 9, "one that found out, and one for each list, which its watch goes on to use");
}

#[tokio::test]
async fn a_server_is_asked_for_no_more_streams_than_it_allows() {
    let (_sandbox, relay, _watches) = watched(&[b"h2", b"http/1.1"], 10, 25).await;
    assert_eq!(relay.connections.load(Ordering::SeqCst), 4, "one for lists, three for the watches");
}

/// So does a kube-apiserver that is about to stop, or that spreads its clients (`--goaway-chance`).
#[tokio::test]
async fn a_server_that_takes_no_more_requests_over_a_connection_is_watched_over_another_at_once() {
    let (sandbox, relay, watches) = watched(&[b"h2", b"http/1.1"], 10, 8).await;
    relay.leave.notify_waiters();
    let endpoint = watches[7].endpoint().clone();
    let selectors = Selectors { label: "app=a7".to_owned(), ..Selectors::default() };
    let more = Watches::new(Health::default());
    let one_more = more.acquire(&plain_scope(endpoint.clone()), &resource("configmaps.v1"), &selectors);
    until_state(&one_more, "synced", |state| *state == WatchState::Synced).await;
    create(&sandbox, "second");
    for watch in [&watches[7], &one_more] {
        until(watch.store(), "another object", |store| store.len() == 2).await;
    }
    assert_eq!(relay.connections.load(Ordering::SeqCst), 3, "one for lists, and two for watches");
    let requests = endpoint.connection().counters().snapshot();
    assert!(!requests.iter().any(|(verb, code, _)| *verb == "watch" && *code == 0), "{requests:?}");
}
