//! A validating webhook of a tenant: an HTTPS server of this process.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use crate::rest::Rest;

const PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// How it answers.
#[derive(Clone, Copy)]
pub enum Answer {
    /// 403, and when to come again.
    Refuses { retry_after: Duration },
    /// Never: the API server waits for as long as it may.
    Never,
}

/// It runs until it is dropped.
pub struct Webhook {
    url: String,
    authority: String,
    asked: Arc<AtomicUsize>,
    _server: JoinSet<()>,
}

impl Webhook {
    pub async fn serve(answer: Answer) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .expect("its own key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/", listener.local_addr().expect("an address"));
        let asked = Arc::<AtomicUsize>::default();
        let mut server = JoinSet::new();
        let counter = asked.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(speak(acceptor.clone(), stream, answer, counter.clone()));
            }
        });
        Self { url, authority: cert.pem(), asked, _server: server }
    }

    /// How many requests it was asked about.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// From now on, creations of ConfigMaps in this workspace wait for it.
    pub async fn guard(&self, workspace: &Rest) {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "of-the-tenant"},
            "webhooks": [{
                "name": "webhook.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Fail", "timeoutSeconds": 30,
                "clientConfig": {
                    "url": self.url,
                    "caBundle": data_encoding::BASE64.encode(self.authority.as_bytes()),
                },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
                }],
            }],
        });
        workspace.create(PATH, &configuration).await;
    }
}

async fn speak(acceptor: TlsAcceptor, stream: TcpStream, answer: Answer, asked: Arc<AtomicUsize>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| review(request, answer, asked.clone()));
    // The client may go at any time.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn review(
    request: Request<Incoming>,
    answer: Answer,
    asked: Arc<AtomicUsize>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    asked.fetch_add(1, Ordering::Relaxed);
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    match answer {
        Answer::Never => pending().await,
        Answer::Refuses { retry_after } => {
            response["allowed"] = false.into();
            response["status"] =
                json!({"code": 403, "message": "not now", "details": {"retryAfterSeconds": retry_after.as_secs()}});
        }
    }
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let mut response = Response::new(Full::new(review.to_string().into()));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}
