//! Connections that watches share, where a server speaks HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use data_encoding::BASE64;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use sync_engine::health::Health;
use sync_engine::multicluster::watch::{Selectors, Watch, WatchState, Watches};
use sync_engine::sandbox::{ApiRef, Options, Sandbox};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::multicluster::scene::{connection, plain_scope, resource, until, until_state};

/// What is between an engine and a server: it counts connections, and cuts them.
struct Relay {
    port: u16,
    connections: Arc<AtomicUsize>,
    cut: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// With `tls`, it ends the encryption, and speaks HTTP/1.1 alone.
    async fn start(to: u16, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, cut) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let (counter, cuts) = (connections.clone(), cut.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let (tls, cut) = (tls.clone(), cuts.clone());
                open.spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    let relayed = async {
                        match tls {
                            Some(tls) => copy_bidirectional(&mut tls.accept(client).await?, &mut server).await,
                            None => copy_bidirectional(&mut client, &mut server).await,
                        }
                    };
                    tokio::select! {
                        _ = relayed => {}
                        () = cut.notified() => {}
                    }
                });
            }
        });
        Self { port, connections, cut, _tasks: tasks }
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

#[tokio::test]
async fn a_server_that_speaks_no_http2_is_watched_all_the_same() {
    let sandbox = Options::kubernetes().start().await.expect("a sandbox");
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![cert.der().clone()], key.into()).unwrap();
    let relay = Relay::start(port(&sandbox), Some(TlsAcceptor::from(Arc::new(config)))).await;
    let authority = BASE64.encode(cert.pem().as_bytes());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {
            "server": format!("https://127.0.0.1:{}", port(&sandbox)), "certificate-authority-data": authority,
        }}],
        "users": [{"name": "me", "user": {"token": sandbox.token()}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    });
    let watches = relay.watches(&kubeconfig.to_string(), port(&sandbox), 8).await;
    create(&sandbox, "first");
    until(watches[7].store(), "an object", |store| store.len() == 1).await;
    let connections = relay.connections.load(Ordering::SeqCst);
    assert_eq!(connections, 9, "one that found out, and one for each list, which its watch goes on to use");
}
